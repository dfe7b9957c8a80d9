"""The kit for an engine of one's own: the integers of the reference, bit for bit, on nasty rows.

Our own tests run the same cases on DuckDB and PostgreSQL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from discreet import plan
from discreet import policy as pol
from discreet._dataclass import dataclass
from discreet._lazy import arrow as pa
from discreet.audit import _nasty
from discreet.audit._check import Check, Report, accepted
from discreet.audit._nasty import Row
from discreet.engines import Engine
from discreet.errors import DiscreetError, SchemaError, UnsupportedQueryError
from discreet.plan import (
    Aggregate,
    Filter,
    Fold,
    FoldKind,
    Groups,
    JoinPublic,
    JoinUnit,
    Key,
    Kind,
    LimitRows,
    Limits,
    Measure,
    MeasureKind,
    PerUnit,
    Relation,
    Salt,
    Scan,
    aggregate,
)
from discreet.plan import expr as ex

Columns = dict[str, Any]
ROWS = Limits(rows=1)
SALT = Salt(b"conformance")
NAMES = ("sex", "level", "flag", "age", "age null", "age filled", "big", "income", "income null",
         "third", "coarse", "day", "moment", "hour", "zoned", "word", "flag filled")  # fmt: skip
ONE = Measure(MeasureKind.SUM, ex.Constant.number(Fraction(1)))


def number(value: object) -> ex.Constant:
    """A constant."""
    return ex.Constant.number(Fraction(str(value)))


def expressions(c: Columns) -> Iterator[Any]:
    """One or more of every node, over the columns `c`."""
    age, null, filled = c["age"], c["age null"], c["age filled"]
    income, third, coarse, big = c["income"], c["third"], c["coarse"], c["big"]
    half = Fraction(1, 2)
    op: Any
    part: Any
    yes = ex.Compare(">", age, number(2))
    maybe = ex.Compare("<=", null, number("-1/2"))
    yield from (age, number("-7/3"), ex.Constant(None, age.type), big, c["flag"])
    for op in ("+", "-", "*"):
        yield ex.Arithmetic(op, income, third)
        yield ex.Arithmetic(op, ex.Arithmetic(op, null, filled), number("3/2"))
    for step in (Fraction(1), Fraction(1, 100), Fraction(7)):
        yield ex.Divide(income, filled, step)
        yield ex.Divide(filled, third, step)
        yield ex.Divide(number(-5), ex.Arithmetic("-", age, number(2)), step)
        yield ex.Divide(null, number("-3/7"), step)
    yield ex.Divide(income, ex.Divide(filled, ex.Divide(third, null, half), half), half)
    for mode in ("round", "floor"):
        for step in (Fraction(1), Fraction(5), half, Fraction(1, 1000)):
            yield ex.Rescale(third, step, mode)
            yield ex.Rescale(coarse, step, mode)
    yield from (ex.Square(coarse), ex.Square(ex.Arithmetic("-", filled, third)))
    yield from (ex.AsNumber(c[name]) for name in ("flag", "day", "sex", "income"))
    yield from (ex.Abs(coarse), ex.Abs(big), ex.Abs(ex.Arithmetic("-", filled, number(1))))
    for low, high in (
        (-1, 1),
        (0, 10**6),
        (-(10**6), 0),
        (5, 5),
        (-(10**6), 10**6),
        (10**5, 10**5),
    ):
        yield ex.Clamp(coarse, low, high)
        yield ex.Clamp(ex.Arithmetic("*", coarse, filled), low, high)
    yield ex.Capped(age, 1, 2)
    yield from (ex.Guard(c[name], 1, 2) for name in ("age", "level", "day", "flag", "moment"))
    for op in ("<", "<=", "=", "<>", ">=", ">"):
        yield ex.Compare(op, income, third)
        yield ex.Compare(op, null, number("1/2"))
    yield ex.Compare("<", c["day"], ex.Constant(0, c["day"].type))
    yield ex.Compare(">=", c["moment"], ex.Constant(-1, c["moment"].type))
    yield ex.Compare("=", c["flag"], c["flag filled"])
    yield from (ex.OneOf(age, (1, 2, 3)), ex.OneOf(null, (-100, 2)), ex.OneOf(c["sex"], ()))
    yield from (ex.OneOf(c["word"], ("a", "o'clock", "100%")), ex.OneOf(c["sex"], (2, 0)))
    for op in ("and", "or"):
        yield from (
            ex.Logic(op, (yes, maybe)),
            ex.Logic(op, (c["flag"], maybe, yes)),
            ex.Logic(op, ()),
        )
    yield from (ex.Not(maybe), ex.Not(c["flag"]), ex.IsNull(null), ex.IsNull(maybe))
    yield from (ex.IsNull(c["word"]), ex.IsNull(filled))
    yield ex.Case(((maybe, age), (yes, filled)), null)
    yield ex.Case((), age)
    yield ex.Case(((ex.IsNull(c["sex"]), ex.Constant(None, age.type)),), age)
    yield ex.Coalesce((null, ex.Constant(None, age.type), filled))
    yield ex.Coalesce((null,))
    for part in ("year", "quarter", "month", "week", "day", "weekday", "doy"):
        yield from (ex.DatePart(part, c[name]) for name in ("day", "moment", "hour", "zoned"))
    for part in ("hour", "minute", "second"):
        yield from (ex.DatePart(part, c[name]) for name in ("moment", "hour", "zoned"))
    yield from (*moments(c), *curves((age, null, income, coarse, filled)))
    yield from texts(c["word"])
    for edges in ((0,), (0, 10, 20, 30), (-50, 3, 4, 9000), tuple(k * k for k in range(40))):
        yield from (ex.Bucket(coarse, edges), ex.Bucket(null, edges), ex.Bucket(c["day"], edges))
    yield ex.Bucket(ex.Arithmetic("*", coarse, filled), (-10, 0, 10))


def curves(numbers: Sequence[Any]) -> Iterator[Any]:
    """Logarithms, roots and powers of numbers."""
    for x in numbers:
        yield from (plan.curves.ln(x), plan.curves.sqrt(x))
        yield plan.curves.log(ex.Constant.number(Fraction(2)), x)
        yield plan.curves.power(x, Fraction(3, 4))
        yield plan.curves.exp(ex.Clamp(x, -3, 4))


def moments(c: Columns) -> Iterator[Any]:
    """What the calendar's functions build, over dates and over times."""
    for name in ("day", "moment", "hour", "zoned"):
        for unit in ("day", "week", "month", "quarter", "year"):
            yield plan.calendar.truncated(unit, c[name])
            yield plan.calendar.index(unit, c[name])
        yield plan.calendar.part("dow", c[name])
        yield plan.calendar.part("isoyear", c[name])
        yield plan.calendar.strftime(c[name], "%b")
        yield plan.calendar.shifted(c[name], plan.calendar.span("-3 days", None))
        yield plan.calendar.shifted(c[name], plan.calendar.span("1 month", None))
        yield plan.calendar.shifted(c[name], plan.calendar.span("-13 months", None))
    for name in ("moment", "hour", "zoned"):
        yield from (plan.calendar.truncated(unit, c[name]) for unit in ("hour", "minute"))
        yield plan.calendar.elapsed(c[name], c["day"])
    yield ex.Labelled(c["age"], tuple(map(str, range(c["age"].type.size))))


_PATTERNS = ("^a", "o'clock$", r"\d{2,3}", "[^a-c]", "(a|ck?)+", r"[.%-]|\w\s", "^.?$")


def texts(word: Any) -> Iterator[Any]:
    """Every operator on open text, and what counts or tests its value."""
    values = [word, ex.Slice(word, 1, 1), ex.Slice(word, 2, 3), ex.Slice(word, 3, 0)]
    values += [ex.Suffix(word, 0), ex.Suffix(word, 2), ex.Trim(word), ex.Trim(ex.Suffix(word, 3))]
    values += [ex.Fold(word, upper=True), ex.Fold(word, upper=False)]
    values += [ex.Piece(word, "o", 1), ex.Piece(word, "'c", 2), ex.Piece(word, "a", 9)]
    for value in values:
        yield ex.Length(value)
        yield from (ex.Like(value, form) for form in ("%", "_", "%a%", "o'%k", "100!%", "", "!!_"))
        yield ex.OneOf(value, ("a", "A", "o'clock", "ock", "100", "", "k"))
        yield from (ex.Matches(value, form) for form in _PATTERNS)
        yield ex.Matches(value, "^A.*K$", fold=True)


def columns_of(relation: Relation) -> Columns:
    """Columns of a relation, as expressions."""
    return {name: ex.Column(name, kind) for name, kind in relation.schema.items()}


def measures_of(column: ex.Expr) -> tuple[Measure, ...]:
    """What tells the codes of a column apart."""
    measures = [Measure(MeasureKind.DISTINCT, column), Measure(MeasureKind.SUM, ex.IsNull(column))]
    if column.type.kind is not Kind.TEXT:
        measures.append(Measure(MeasureKind.SUM, column))
    return tuple(measures)


# -- cases ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An aggregate, and the unit and limits of the table that it is asked of."""

    check: str
    aggregate: Aggregate
    choices: Mapping[str, Any]


def cases() -> Iterator[Case]:
    """Everything that an engine is asked, check by check."""
    yield from _columns()
    yield from _expressions()
    for unit in _nasty.UNITS:
        for limits in _nasty.LIMITS:
            yield from _limits({"unit": unit, **limits})
    for choices in ({}, {"unit": "id", "max_rows_per_unit": 2}):
        for how in ("inner", "left"):
            yield from _joins(how, choices)
    yield from _units()


def _columns() -> Iterator[Case]:
    for name in _nasty.SPEC:
        relation = Scan(_nasty.table(name))
        kind = relation.schema[name]
        column = ex.Column(name, kind)
        yield Case("columns", aggregate(relation, (), measures_of(column), ROWS), {})
        codes: Any = (kind.lo, kind.lo + 1, kind.hi)
        if kind.kind is Kind.TEXT:
            codes = None
        elif kind.size <= 300:
            codes = tuple(range(kind.lo, kind.hi + 1))
        yield Case("groups", aggregate(relation, (Key(name, column, codes),), (ONE,), ROWS), {})


def _expressions() -> Iterator[Case]:
    relation = Scan(_nasty.table(*NAMES))
    c = columns_of(relation)
    # what an engine may refuse stands together, apart from what it must compute
    exprs = sorted(expressions(c), key=_by_regex)
    for start in range(0, len(exprs), 12):
        part = exprs[start : start + 12]
        sums = [Measure(MeasureKind.SUM, e) for e in part]
        nulls = [Measure(MeasureKind.SUM, ex.IsNull(e)) for e in part]
        distinct = [Measure(MeasureKind.DISTINCT, e) for e in part]
        yield Case("expressions", aggregate(relation, (), (*sums, *nulls, *distinct), ROWS), {})
    for condition in (e for e in exprs if e.type.kind is Kind.BOOLEAN):
        table = Scan(_nasty.table(*({"age"} | set(ex.columns_of(condition)))))
        below = Filter(Filter(table, ex.Not(ex.IsNull(c["age"]))), condition)
        measures = ONE, Measure(MeasureKind.SUM, c["age"])
        yield Case("conditions", aggregate(below, (), measures, ROWS), {})
    for index, e in enumerate(exprs):
        codes = tuple(range(e.type.lo, min(e.type.hi, e.type.lo + 40) + 1))
        key = Key("k", e, codes[::3] if index % 2 else codes)
        table = Scan(_nasty.table(*(ex.columns_of(e) or NAMES[:1])))
        yield Case("keys", aggregate(table, (key,), (ONE,), ROWS), {})


def _by_regex(e: ex.Expr) -> bool:
    return isinstance(e, ex.Matches) or any(_by_regex(child) for child in e.children)


def _limits(choices: Mapping[str, Any]) -> Iterator[Case]:
    names = "sex", "level", "word", "income", "big", "coarse"
    relation = Scan(_nasty.table(*names, **choices))
    c = columns_of(relation)
    sex, level = Key("sex", c["sex"], (0, 2)), Key("level", c["level"], (2, 1, 0))
    word = Key("word", c["word"], None)
    listed = Key("word", c["word"], ("a", "ä", "o'clock"))
    total, wide = Measure(MeasureKind.SUM, c["income"]), Measure(MeasureKind.SUM, c["big"])
    mixed = (ONE, total, Measure(MeasureKind.UNITS), Measure(MeasureKind.DISTINCT, c["level"]))
    coarse = Measure(MeasureKind.SUM, c["coarse"]), Measure(MeasureKind.DISTINCT, c["word"])
    for keys in ((), (sex,), (sex, level), (word,), (level, listed)):
        bound = plan.limits_of(relation, grouped=bool(keys))
        for measures in (mixed, (ONE,), (wide, *coarse)):
            yield Case("limits", aggregate(relation, keys, measures, bound), choices)


def _joins(how: Any, choices: Mapping[str, Any]) -> Iterator[Case]:
    region = _nasty.policy().tables["region"]
    below = Scan(_nasty.table("sex", "age", "income", **choices))
    join = JoinPublic(below, Scan(region), (("sex", "code"),), how, fanout=2, prefix="r.")
    c = columns_of(join)
    rows = Filter(join, ex.Not(ex.Compare("=", c["age"], number(7))))
    weight = Key("w", c["r.weight"], tuple(range(-5, 6)))
    product = Measure(MeasureKind.SUM, ex.Arithmetic("*", c["r.weight"], c["income"]))
    measures = ONE, product, Measure(MeasureKind.DISTINCT, c["r.label"])
    limits = plan.limits_of(rows, grouped=True)
    for keys in ((), (weight,)):
        yield Case("public joins", aggregate(rows, keys, measures, limits), choices)


_BY_PERSON: Mapping[str, Any] = {"unit": "id", "max_rows_per_unit": 2}


def _units() -> Iterator[Case]:
    """Rows folded into one for each unit, and joined with the unit's other rows."""
    rows = Scan(_nasty.table("sex", "age", "level", **_BY_PERSON))
    c = columns_of(rows)
    each = tuple((f"f{i}", Fold(kind, c["age"])) for i, kind in enumerate(FoldKind))
    folded = PerUnit(rows, (("sex", c["sex"]),), each)
    measures = (ONE, *(Measure(MeasureKind.SUM, ex.Column(n, f.type)) for n, f in each))
    limits = plan.limits_of(folded, grouped=False)
    yield Case("per unit", aggregate(folded, (), measures, limits), _BY_PERSON)
    key = Key("level", c["level"], (0, 1, 2))
    for how in ("inner", "left"):
        pairs = JoinUnit(LimitRows(rows, 2), LimitRows(folded, 2), "o.", how)
        theirs = Measure(MeasureKind.SUM, ex.Column("o.f0", pairs.schema["o.f0"]))
        limits = plan.limits_of(pairs, grouped=True)
        both = aggregate(pairs, (key,), (ONE, theirs, Measure(MeasureKind.UNITS)), limits)
        yield Case("private joins", both, _BY_PERSON)


# -- the kit --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Rows by table, and the SQL type in which each column is to be held."""

    rows: Mapping[str, list[Row]]
    types: Mapping[str, Mapping[str, str]]

    def arrow(self) -> dict[str, Any]:
        """The same as Arrow tables."""
        kinds = {
            "TEXT": pa.string(), "INTEGER": pa.int32(), "BIGINT": pa.int64(), "REAL": pa.float32(),
            "DOUBLE PRECISION": pa.float64(), "BOOLEAN": pa.bool_(), "DATE": pa.date32(),
            "DECIMAL(18,3)": pa.decimal128(18, 3), "DECIMAL(38,10)": pa.decimal128(38, 10),
            "TIMESTAMP": pa.timestamp("us"), "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
        }  # fmt: skip
        return {
            table: pa.table(
                {c: pa.array([r[c] for r in self.rows[table]], kinds[t]) for c, t in types.items()}
            )
            for table, types in self.types.items()
        }


def sample(rows: int, seed: int = 1) -> Sample:
    """Draw the nasty tables."""
    tables = {_nasty.TABLE: _nasty.draw_rows(rows, seed), "region": _nasty.REGION}
    return Sample(tables, {_nasty.TABLE: _nasty.types_of_private(), "region": _nasty.REGION_TYPES})


def check_engine(
    connect: Callable[[Sample, pol.Policy], Engine], *, rows: int = 400, every: int = 1
) -> Report:
    """Check an engine of one's own: on nasty rows it must give the reference's integers.

    Parameters
    ----------
    connect
        ``connect(sample, policy)`` holds the rows of ``sample.rows`` in the types of
        ``sample.types`` (or takes ``sample.arrow()``) and opens an engine over them.
    rows
        Rows of the private table.
    every
        Ask every n-th case only, for a quick look.

    Returns
    -------
    Report
        One check for each kind of case; ``.ok``, ``.failures``, and a table when printed.

    Examples
    --------
    >>> from discreet import audit, engines
    >>> audit.check_engine(lambda held, policy: engines.Reference(held.rows), every=50).ok
    True
    """
    material, opened = _sample(rows), dict[tuple[Any, ...], Engine]()
    tally: dict[str, list[Any]] = {}

    def engine_of(choices: Mapping[str, Any]) -> Engine:
        key = tuple(sorted(choices.items()))
        if key not in opened:
            opened[key] = connect(material, _nasty.policy(**choices))
        return opened[key]

    try:
        for index, case in enumerate(_cases()):
            count = tally.setdefault(case.check, [0, "", 0])
            if count[1] or (index % every and (count[0] or count[2])):
                continue  # the first of each kind is always asked
            engine = engine_of(case.choices)
            if _refused(engine, case.aggregate):
                count[2] += 1
                continue
            count[0] += 1
            count[1] = _difference(engine, case.aggregate, _expected(rows, index))
        findings = [*_rules(engine_of({})), *_repeats(engine_of(_BY_PERSON), material.rows)]
        tally |= {name: [1, words, 0] for name, words in findings}
    finally:
        for engine in opened.values():
            engine.close()
    return Report(
        tuple(
            Check(name, 0, not words, words or _passed(total, refused))
            for name, (total, words, refused) in tally.items()
        ),
        (),
    )


# the reference is slow: what it says is kept for the next engine
_cases = functools.cache(lambda: tuple(cases()))
_sample = functools.cache(sample)


@functools.cache
def _expected(rows: int, index: int) -> Groups:
    return plan.run(_cases()[index].aggregate, _sample(rows).rows, SALT)


def _refused(engine: Engine, question: Aggregate) -> bool:
    """Whether an engine says beforehand that it does not offer regular expressions."""
    try:
        engine.sql(question)
    except UnsupportedQueryError:
        return any(_by_regex(e) for e in _parts(question))
    except DiscreetError:
        return False
    return False


def _parts(question: Aggregate) -> Iterator[ex.Expr]:
    yield from (key.expr for key in question.keys)
    yield from (m.expr for m in question.measures if m.expr is not None)
    yield from (n.condition for n in question.relation.nodes if isinstance(n, Filter))


def _passed(count: int, refused: int) -> str:
    more = f"; {refused} with regular expressions are refused" if refused else ""
    return f"{count} asked, all as the reference has them{more}"


def _difference(engine: Engine, question: Aggregate, expected: Groups, salt: Salt = SALT) -> str:
    """Say how an engine's integers differ from the reference's, or nothing."""
    try:
        groups = engine.execute(question, salt)
    except Exception as error:  # noqa: BLE001 - an engine may fail on no data
        return f"{type(error).__name__} on {engine.sql(question)}"
    if groups == expected:
        return ""
    wrong = [k for k in expected.keys() | groups.keys() if expected.get(k) != groups.get(k)]
    at = min(wrong, key=str)
    had, due = groups.get(at), expected.get(at)
    if had is None or due is None or len(had) != len(due):
        return f"group {at}: {had or 'none'}, not {due or 'none'}, by {engine.sql(question)}"
    k = next(i for i, pair in enumerate(zip(had, due, strict=True)) if pair[0] != pair[1])
    return f"group {at}: number {k + 1} is {had[k]}, not {due[k]}, by {engine.sql(question)}"


def _repeats(engine: Engine, rows: Mapping[str, list[Row]]) -> Iterator[tuple[str, str]]:
    """Which rows a limit keeps is the salt's matter, and nothing else's."""
    relation = Scan(_nasty.table("age", **_BY_PERSON))
    total = Measure(MeasureKind.SUM, columns_of(relation)["age"])
    question = aggregate(relation, (), (ONE, total), Limits(rows=1))
    salts = [Salt(bytes([i])) for i in range(8)]
    truth = {salt: plan.run(question, rows, salt) for salt in salts}
    once, again = (
        next(filter(None, (_difference(engine, question, truth[s], s) for s in salts)), "")
        for _ in range(2)
    )
    yield "salts", once
    yield "repeats", again


def _rules(engine: Engine) -> Iterator[tuple[str, str]]:
    """Besides integers: what may be told, and what must be refused."""
    region, private = Scan(_nasty.policy().tables["region"]), Scan(_nasty.table("sex"))
    most = engine.fanout(region, ("code",))
    yield "fan-out", "" if most == 2 else f"a key of the public table repeats {most} times, not 2"
    leak = accepted(lambda: engine.fanout(private, ("sex",)))
    yield "private fan-out", "how often keys of a private table repeat is disclosed" if leak else ""
    texts = engine.values(region, "label", 3)
    yield "values", "" if texts == ["four", "one", "three"] else f"public texts are {texts}"
    leak = accepted(lambda: engine.values(Scan(_nasty.table("word")), "word", 3))
    yield "private values", "texts of a private table are disclosed" if leak else ""
    join = aggregate(JoinPublic(private, region, (("sex", "code"),)), (), (ONE,), ROWS)
    try:
        engine.execute(join, SALT)
    except SchemaError:
        yield "joins", ""
    except Exception as error:  # noqa: BLE001 - whatever else an engine raises is a fault of its own
        yield "joins", f"a join that repeats more than is assumed fails as {error!r}"
    else:
        yield "joins", "a public table that repeats a key more often than is assumed is joined"
