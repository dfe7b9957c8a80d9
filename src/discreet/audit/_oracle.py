"""Random tables and questions of a policy, and what the questions mean, in plain Python.

Nothing here knows the planner. The oracle reads raw rows by the words of the policy, joins,
filters and adds them up, and knows which limits a policy and a question set.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from discreet import _text
from discreet import policy as pol
from discreet._dataclass import dataclass
from discreet._text import quoted
from discreet.privacy import Neighbours

Row = dict[str, Any]
Tables = dict[str, list[Row]]
_EPOCH = dt.date(1970, 1, 1)
_LIMITS = ("max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group")


# -- columns ----------------------------------------------------------------------------


def ends(column: pol.Column) -> tuple[int, int]:
    """Lowest and highest code of a column that has an order."""
    match column:
        case pol.Integer():
            return column.min, column.max
        case pol.Real():
            low, high = (round(Fraction(end) / column.step) for end in (column.min, column.max))
            return low, high
        case pol.Date():
            return (column.min - _EPOCH).days, (column.max - _EPOCH).days
        case pol.Timestamp():
            return _ticks(column.min, column), _ticks(column.max, column)
    raise AssertionError(column)


def _ticks(moment: dt.datetime, column: pol.Timestamp) -> int:
    since = moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1)  # noqa: DTZ001 - as policies write
    micros = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return math.floor(Fraction(micros, 10**6) / column.step)


def clean(column: pol.Column, raw: Any) -> Any:
    """Code of a raw value, as the policy's words say."""
    code = _code(column, raw)
    return _code(column, column.null) if code is None and column.null is not None else code


def _code(column: pol.Column, raw: Any) -> Any:
    if raw is None or (isinstance(raw, float) and math.isnan(raw)):
        return None
    match column:
        case pol.Text():
            return str(raw)[: column.longest]
        case pol.Boolean():
            return int(raw) if raw in (0, 1) else None
        case pol.Category():
            label = raw if raw in column.values else column.other
            return None if label is None else [*column.values, label].index(label)
        case pol.Date():
            code = (raw - _EPOCH).days
        case pol.Timestamp():
            code = _ticks(raw, column)
        case pol.Real() if math.isfinite(raw):
            code = round(Fraction(raw) / column.step)
        case pol.Real():
            code = 10**30 if raw > 0 else -(10**30)
        case _:
            code = int(raw)
    low, high = ends(column)
    if column.outside == "null" and not low <= code <= high:
        return None
    return min(max(code, low), high)


def raw_value(rng: random.Random, column: pol.Column) -> Any:
    """Raw value: often at the ends of the domain, sometimes beyond them or NULL."""
    if rng.random() < 0.1:
        return None
    match column:
        case pol.Boolean():
            return rng.random() < 0.5
        case pol.Category():
            odd = "?" if isinstance(column.values[0], str) else column.values[0]
            return rng.choice([*column.values[:40], column.values[-1], odd])
        case pol.Text():
            return rng.choice(["a", "b", "Ulm", "", "ω'\"", "x" * 40])
    low, high = ends(column)
    code = rng.choice(
        [low, high, high, rng.randint(low, high), rng.randint(low, min(low + 3, high))]
    )
    beyond = rng.choice([0, 0, 0, 0, 1, -1]) * (high - low + 1)
    return _raw(column, code + beyond, rng)


def _raw(column: pol.Column, code: int, rng: random.Random) -> Any:
    match column:
        case pol.Integer():
            return code
        case pol.Real():
            far = [math.inf, -math.inf, math.nan]
            return rng.choice(far) if rng.random() < 0.05 else float(code * column.step)
        case pol.Date():
            return _EPOCH + dt.timedelta(days=min(max(code, -700_000), 2_900_000))
    assert isinstance(column, pol.Timestamp)
    low, high = (x * column.step for x in ends(column))
    seconds = min(max(code * column.step, low - 86_400), high + 86_400)
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(seconds * 10**6))  # noqa: DTZ001 - codes of moments have no zone


def literal(column: pol.Column, code: Any) -> str:
    """Code of a column as SQL writes it."""
    match column:
        case pol.Integer():
            return str(code)
        case pol.Real():
            value = code * column.step
            whole, rest = divmod(abs(value), 1)
            digits = f"{int(rest * 10**12):012d}" if (rest * 10**12).denominator == 1 else None
            return (
                f"{'-' if value < 0 else ''}{whole}.{digits}" if digits else f"{value.numerator}/1"
            )
        case pol.Date():
            return f"DATE '{_EPOCH + dt.timedelta(days=code)}'"
        case pol.Boolean():
            return "TRUE" if code else "FALSE"
    label = column.values[code] if isinstance(column, pol.Category) else code
    return _text.literal(label)


# -- worlds -----------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A policy, tables of it that questions are about, and two neighbouring sets of rows.

    ``other`` is a private table with the same units; ``public`` one that shares the
    column ``on`` with the main table, at most ``fanout`` rows for one value.
    """

    policy: pol.Policy
    main: pol.Table
    other: pol.Table | None
    public: pol.Table | None
    on: str
    fanout: int
    left: Tables
    right: Tables

    @property
    def unit(self) -> bool:
        """Whether a column names the units."""
        return self.main.unit is not None

    @property
    def change(self) -> bool:
        """Whether neighbours change one unit, rather than add it."""
        return self.main.neighbours is Neighbours.CHANGE_ONE

    def column(self, name: tuple[str, str]) -> pol.Column:
        """Column by table and name."""
        return self.policy.tables[name[0]].columns[name[1]]


def random_policy(rng: random.Random, *more: pol.Column) -> pol.Policy:
    """Draw a policy: people, their visits and public shops; `more` columns of people."""
    unit, change = rng.random() < 0.75, rng.random() < 0.5
    by: dict[str, Any] = {"neighbours": "change-one" if change else "add-remove"}
    by |= {"unit": "id"} if unit else {}
    sex, w = pol.Category("sex", ["F", "M"]), pol.Integer("w", 0, 2)
    own: dict[str, Any] = _limits(rng) if unit else {}
    theirs: dict[str, Any] = _limits(rng) if unit else {}
    visits: list[pol.Column] = [pol.Category("c", ["a", "b", "c"]), pol.Integer("z", -4, 1)]
    return pol.Policy(
        [
            pol.Table("people", [sex, pol.Integer("x", -2, 3), *more], **own, **by),
            pol.Table("visits", visits, **theirs, **by),
            pol.Table("shops", [sex, w], public=True),
        ],
        pol.Budget("1", delta="1e-6"),
    )


def _limits(rng: random.Random) -> dict[str, int]:
    rows, groups, each = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 3)
    return rng.choice(
        [
            {"max_rows_per_unit": rows},
            {"max_groups_per_unit": groups, "max_rows_per_group": each},
            {"max_rows_per_unit": rows, "max_rows_per_group": each},
            {"max_rows_per_unit": rows, "max_groups_per_unit": groups, "max_rows_per_group": each},
        ]
    )


def world(
    rng: random.Random, policy: pol.Policy | None = None, table: pol.Table | None = None
) -> World:
    """Draw neighbouring tables of a policy (a random one if none is given)."""
    first = policy is None
    policy = policy or random_policy(rng)
    private = [t for t in policy.tables.values() if not t.public]
    main = table or (private[0] if first else rng.choice(private))
    others = [t for t in private if t is not main and t.unit and main.unit
              and t.neighbours is main.neighbours]  # fmt: skip
    other = rng.choice(others) if others else None
    pairs = [(t, name) for t in policy.tables.values() if t.public
             for name, c in t.columns.items() if main.columns.get(name) == c]  # fmt: skip
    public, on = rng.choice(pairs) if pairs else (None, "")
    fixed = {t.name: [_row(rng, t) for _ in range(rng.choice([0, 2, 4, 6]))]
             for t in policy.tables.values() if t.public}  # fmt: skip
    people = [_person(rng, policy, main, rng.choice([u, u, None])) for u in range(3)]
    one, two = _person(rng, policy, main, 99), _person(rng, policy, main, 99)
    change = main.neighbours is Neighbours.CHANGE_ONE
    sides = []
    for side in ([*people, one] if change else people, [*people, two]):
        data = {t.name: [row for p in side for row in p[t.name]] for t in private}
        for rows in data.values():
            rng.shuffle(rows)
        sides.append(data | fixed)
    counts = Counter(clean(public.columns[on], r[on]) for r in fixed[public.name]) if public else {}
    fanout = max((n for code, n in counts.items() if code is not None), default=0)
    return World(policy, main, other, public, on, fanout, *sides)


def _row(rng: random.Random, table: pol.Table) -> Row:
    return {name: raw_value(rng, column) for name, column in table.columns.items()}


def _person(rng: random.Random, policy: pol.Policy, main: pol.Table, unit: Any) -> Tables:
    """Rows of one unit, often many and often equal."""
    tables: Tables = {}
    for table in sorted(policy.tables.values(), key=_depth):
        if table.public:
            continue
        if main.unit is None or table.unit is None:
            many = 1 if table is main else 0
        else:
            most = max([*limits_of(table).values(), 2])
            many = rng.choice([0, 1, 2, 3, most + 1, min(2 * most + 1, 9)])
        same = _row(rng, table) if rng.random() < 0.3 else None
        rows = [dict(same) if same else _row(rng, table) for _ in range(many)]
        for row in rows:
            if table.unit is not None:
                row[str(table.unit)] = unit
        tables[table.name] = _linked_rows(rng, table, rows, unit, tables)
    return tables


def _depth(table: pol.Table) -> int:
    above = None if table.owner is None else table.owner.above
    return 0 if above is None else 1 + _depth(above)


def _linked_rows(
    rng: random.Random, table: pol.Table, rows: list[Row], unit: Any, tables: Tables
) -> list[Row]:
    """Rows that name each other within one unit; without an owner there are none."""
    above = None if table.owner is None else table.owner.above
    if table.owner is not None and above is not None:
        names = [row[str(above.key)] for row in tables[above.name]]
        rows = rows if names else []
        for row in rows:
            row[table.owner.column] = rng.choice(names)
    for row in rows if table.key is not None else ():
        text = isinstance(table.columns.get(str(table.key)), pol.Text)
        place = rng.randrange(3)
        number = 3 * (7 if unit is None else unit) + place  # nobody's rows are nobody else's
        row[str(table.key)] = f"{unit} {place}" if text else number
    return rows


def limits_of(table: pol.Table) -> dict[str, int]:
    """Limits that a table sets."""
    return {k: getattr(table, k) for k in _LIMITS if getattr(table, k) is not None}


# -- questions ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What is asked, in the oracle's own words; columns are pairs of table and name."""

    world: World
    join: bool
    public: str | None
    where: tuple[tuple[str, str], str, Any] | None
    keys: tuple[tuple[str, str], ...]
    statistics: tuple[tuple[str, tuple[str, str] | None], ...]
    rows: int | None
    groups: int | None
    names: Mapping[str, str] | None = None
    listed: bool = False

    def _name(self, column: tuple[str, str]) -> str:
        table, name = column
        return f"{quoted(table)}.{quoted(self.names[name] if self.names else name)}"

    @property
    def _source(self) -> str:
        """The main table, or a subquery that gives its columns other names."""
        main = quoted(self.world.main.name)
        if self.names is None:
            return main
        old, new = ([quoted(n) for n in some] for some in (self.names, self.names.values()))
        if self.listed:
            return f"(SELECT {', '.join(old)} FROM {main}) AS {main} ({', '.join(new)})"  # noqa: S608 - ours
        both = ", ".join(f"{a} AS {b}" for a, b in zip(old, new, strict=True))
        return f"(SELECT {both} FROM {main}) AS {main}"  # noqa: S608 - ours

    @property
    def text(self) -> str:
        """The question in SQL."""
        w, main = self.world, quoted(self.world.main.name)
        forms = {
            "count": "COUNT(*)", "units": f"COUNT(DISTINCT {main}.{quoted(w.main.unit or '')})",
            "sum": "SUM({})", "distinct": "COUNT(DISTINCT {})", "median": "MEDIAN({})",
            "mode": "MODE({})",
        }  # fmt: skip
        keys = [f"{self._name(k)} AS k{i}" for i, k in enumerate(self.keys)]
        items = [f"{forms[kind].format(c and self._name(c))} AS a{i}"
                 for i, (kind, c) in enumerate(self.statistics)]  # fmt: skip
        options = {"max_rows_contributed": self.rows, "max_groups_contributed": self.groups}
        settings = "".join(f", {k}={v}" for k, v in options.items() if v is not None)
        head = f"WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1{settings}) " if settings else ""
        text = f"SELECT {head}{', '.join([*keys, *items])} FROM {self._source}"  # noqa: S608 - ours
        if self.join:
            assert w.other is not None
            other = quoted(w.other.name)
            text += f" JOIN {other} ON {main}.{quoted(w.main.unit or '')}"
            text += f" = {other}.{quoted(w.other.unit or '')}"
        if self.public:
            assert w.public is not None
            how, theirs, on = self.public == "left", quoted(w.public.name), quoted(w.on)
            text += f" {'LEFT ' * how}JOIN {theirs} ON {main}.{on} = {theirs}.{on}"
        if self.where:
            column, op, code = self.where
            text += f" WHERE {self._name(column)} {op} {literal(w.column(column), code)}"
        return text + (
            f" GROUP BY {', '.join(self._name(k) for k in self.keys)}" if self.keys else ""
        )

    def amiss(
        self, tables: Tables, answers: Sequence[Mapping[tuple[Any, ...], int]]
    ) -> Iterator[str]:
        """Compare measured integers, one mapping for each statistic, with what is meant."""
        free = not exceeded(self, tables)
        rows, groups, each = bounds(self)
        top = min(n for n in (rows, groups and each and groups * each) if n is not None)
        people = {u for u, _ in joined(self, tables)}
        for (kind, _), truth, exact in zip(
            self.statistics, meaning(self, tables), answers, strict=True
        ):
            if kind == "median":
                continue
            got, true = ({k: v for k, v in m.items() if v} for m in (exact, truth))
            if free and got != true:
                yield f"{kind} is {got}, the oracle says {true}"
            if kind in ("count", "units"):
                if any(n > truth[k] for k, n in got.items()):
                    yield f"{kind} exceeds the truth"
                if sum(got.values()) > top * len(people):
                    yield f"{kind} of {sum(got.values())} exceeds the limits"


_NUMBERS = pol.Integer | pol.Real


def few(column: pol.Column) -> bool:
    """Whether a column has few enough values to group by."""
    match column:
        case pol.Boolean():
            return True
        case pol.Category():
            return len(column.values) <= 60
        case pol.Integer():
            return column.max - column.min <= 60
    return False


def question(rng: random.Random, w: World) -> Question:
    """Draw a question that the policy allows."""
    join = w.other is not None and rng.random() < 0.4
    public = rng.choice([None, None, "inner", "left"]) if w.public and w.fanout else None
    tables = [t for t in (w.main, join and w.other, public and w.public) if t]
    columns = [(t.name, n) for t in tables for n in t.columns if t is not w.public or n != w.on]
    numbers = [c for c in columns if isinstance(w.column(c), _NUMBERS)]
    keys = [c for c in columns if few(w.column(c))]
    offers: list[tuple[str, tuple[str, str] | None]] = [("count", None)]
    offers += [(k, c) for k in ("sum", "distinct", "median") for c in numbers]
    offers += [("units", None)] if w.unit else []
    tested = [c for c in columns if not isinstance(w.column(c), pol.Timestamp)]
    return Question(
        w, join, public,
        rng.choice([None, condition(rng, w, rng.choice(tested))]) if tested else None,
        tuple(rng.sample(keys, rng.randint(0, min(2, len(keys))))),
        tuple(rng.sample(offers, rng.randint(1, min(3, len(offers))))),
        rng.choice([None, None, 1, 2, 5]),
        rng.choice([None, None, 1, 2]),
    )  # fmt: skip


def choice(rng: random.Random, w: World) -> Question | None:
    """Draw a question for the most frequent values, or for keys that are themselves private."""
    columns = [(w.main.name, n) for n in w.main.columns]
    open_keys = [c for c in columns if isinstance(w.column(c), pol.Text)]
    listed = [c for c in columns if isinstance(w.column(c), pol.Category) and few(w.column(c))]
    offers: list[tuple[str, tuple[str, str] | None]] = [("mode", c) for c in listed]
    offers += [("count", None)] if open_keys else []
    if not offers:
        return None
    kind, column = rng.choice(offers)
    keys = (open_keys if kind == "count" else [c for c in listed if c != column])[:1]
    grouping = (
        tuple(keys) if kind == "count" else tuple(rng.sample(keys, rng.randint(0, len(keys))))
    )
    return Question(w, False, None, None, grouping, ((kind, column),), None, None)


def renamed(rng: random.Random, w: World) -> Question | None:
    """Draw a question about a subquery whose columns go by each other's names, or the unit's."""
    columns = list(w.main.columns)
    called = rng.sample(columns, len(columns))
    numbers = [n for n in columns if isinstance(w.main.columns[n], _NUMBERS)]
    if not numbers:
        return None
    one = rng.choice(numbers)
    if w.main.unit is not None and rng.random() < 0.5:
        called[columns.index(one)] = str(w.main.unit)
    statistic = (rng.choice(["sum", "distinct"]), (w.main.name, one))
    names = dict(zip(columns, called, strict=True))
    return Question(w, False, None, None, (), (statistic,), None, None, names, rng.random() < 0.5)


def condition(
    rng: random.Random, w: World, name: tuple[str, str]
) -> tuple[tuple[str, str], str, Any]:
    """Draw a condition that some value of a column meets."""
    column = w.column(name)
    match column:
        case pol.Boolean():
            return name, "=", rng.randint(0, 1)
        case pol.Category():
            return name, "=", rng.randrange(len(column.values))
        case pol.Text():
            return name, "=", rng.choice(["a", "Ulm"])
    low, high = ends(column)
    op, edge = rng.choice(["<", ">"]), rng.randint(low, max(low, high - 1))
    return name, op, edge + (op == "<")


# -- meaning ------------------------------------------------------------------------------


def _cleaned(table: pol.Table, row: Row) -> dict[tuple[str, str], Any]:
    return {(table.name, n): clean(c, row[n]) for n, c in table.columns.items()}


def passes(q: Question, row: Mapping[tuple[str, str], Any]) -> bool:
    """Whether a row meets the condition, if it has the column."""
    name, op, edge = q.where or ((), "", None)
    if name not in row:
        return True
    value = row[name]  # type: ignore[index]  # rows of the oracle are mappings
    return value is not None and {"<": value < edge, ">": value > edge, "=": value == edge}[op]


def joined(q: Question, tables: Tables) -> list[tuple[Any, dict[tuple[str, str], Any]]]:
    """Rows that the question sees before any limit: (unit, row)."""
    w, main = q.world, q.world.main
    listed = [(row[main.unit] if main.unit else i, _cleaned(main, row))
              for i, row in enumerate(tables[main.name])]  # fmt: skip
    rows = [(u, row) for u, row in listed if u is not None]
    if q.join and w.other is not None:
        theirs = [(v[str(w.other.unit)], _cleaned(w.other, v)) for v in tables[w.other.name]]
        rows = [(u, row | v) for u, row in rows for x, v in theirs if x == u]
    if q.public and w.public is not None:
        shops, wide = [_cleaned(w.public, s) for s in tables[w.public.name]], []
        mine, its = (main.name, w.on), (w.public.name, w.on)
        blank = {(w.public.name, n): None for n in w.public.columns}
        for u, row in rows:
            matches = [s for s in shops if row[mine] is not None and s[its] == row[mine]]
            matches = [blank] if not matches and q.public == "left" else matches
            wide += [(u, row | s) for s in matches]
        rows = wide
    rows = [(u, r) for u, r in rows if passes(q, r)]
    return [(u, r) for u, r in rows if all(r[k] is not None for k in q.keys)]


def meaning(q: Question, tables: Tables) -> list[Counter[tuple[Any, ...]]]:
    """Answers without limits: one mapping from key to integer for each statistic."""
    groups = defaultdict(list)
    for u, row in joined(q, tables):
        groups[tuple(row[k] for k in q.keys)].append((u, row))
    answers = []
    for kind, column in q.statistics:
        counts: Counter[tuple[Any, ...]] = Counter()
        for key, members in groups.items():
            values = [r[column] for _, r in members if column and r[column] is not None]
            if kind == "mode":  # what is chosen by: rows of each value
                counts.update((*key, value) for value in values)
                continue
            counts[key] = {
                "count": len(members), "units": len({u for u, _ in members}),
                "sum": sum(values), "distinct": len(set(values)), "median": 0,
            }[kind]  # fmt: skip
        answers.append(counts)
    return answers


def bounds(q: Question) -> tuple[int | None, int | None, int | None]:
    """Most rows, groups and rows per group of one unit, as policy and question say."""
    w = q.world
    if not w.unit:
        fan = {None: 1, "inner": w.fanout, "left": max(w.fanout, 1)}[q.public]
        return fan, None, None
    own = limits_of(w.main)
    product = own.get("max_groups_per_unit", 0) * own.get("max_rows_per_group", 0)
    rows, groups, each = own.get("max_rows_per_unit"), None, own.get("max_rows_per_group")
    if q.join and w.other is not None and most(w.other) > 1:  # one partner multiplies nothing
        rows, each = prod(most(t) for t in (w.main, w.other)), None
    elif q.keys:
        groups = own.get("max_groups_per_unit")
    else:
        rows = min(n for n in (rows or product, each if rows else None) if n)
        each = None
    rows = min((n for n in (rows, q.rows) if n), default=None)
    groups = min((n for n in (groups, q.groups if q.keys else None) if n), default=None)
    return rows, groups, each


def most(table: pol.Table) -> int:
    """Rows of a unit that a table lets into a join."""
    own = limits_of(table)
    return own.get("max_rows_per_unit") or own["max_groups_per_unit"] * own["max_rows_per_group"]


def exceeded(q: Question, tables: Tables) -> bool:
    """Whether some unit has more than a limit lets through."""
    rows, groups, each = bounds(q)
    of = defaultdict(list)
    for u, row in joined(q, tables):
        of[u].append(tuple(row[k] for k in q.keys))
    alone = {k for k, _ in q.statistics} <= {"units"}
    for keys in of.values():
        counts = Counter(set(keys)) if alone else Counter(keys)
        over = [(counts.total(), rows), (len(counts), groups), (max(counts.values()), each)]
        if any(n > top for n, top in over if top is not None):
            return True
    return q.join and any(_crowded(q, t, tables) for t in (q.world.main, q.world.other) if t)


def _crowded(q: Question, table: pol.Table, tables: Tables) -> bool:
    """Whether some unit has more rows of one table than it may bring into a join."""
    units = [row[str(table.unit)] for row in tables[table.name]
             if row[str(table.unit)] is not None and passes(q, _cleaned(table, row))]  # fmt: skip
    return max(Counter(units).values(), default=0) > most(table)
