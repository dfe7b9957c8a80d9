"""Shapes of whole questions in other databases, written as ours.

``FROM dbo.visits WITH (NOLOCK)`` names a table of the policy. DISTINCT of windows over rows is
GROUP BY. OFFSET leaves out first rows of the answer. A share of people, written with a subquery
for the people below the line, is one question about all of them.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from discreet import policy as pol
from discreet.errors import UnsupportedQueryError
from discreet.plan import CALLS
from discreet.sql._first import first_rows, first_values
from discreet.sql._pivot import unpivot
from discreet.sql._text import function_name, units_of
from discreet.sql._walk import (
    calling,
    clauses_of,
    count_different,
    count_rows,
    nodes,
    set_group,
    set_tests,
    tests_of,
    under,
    with_clauses,
)
from discreet.sql._wrap import resolved

_LOCKS: Final = frozenset({"NOLOCK", "READUNCOMMITTED", "READPAST", "HOLDLOCK", "ROWLOCK"})
_PASSES: Final = "kept_here"
_HERE: Final = "people_here"


def shaped(root: exp.Select, policy: pol.Policy) -> exp.Select:
    """Write every SELECT of a question, in place, as we would have written it."""
    units = units_of(policy)
    tree = nodes(root)
    for node in tree:
        if isinstance(node, exp.Table):
            _name(node, policy)
        elif isinstance(node, exp.Column):
            for part in node.args.keys() & {"db", "catalog"}:
                node.set(part, None)
    kinds = {type(n) for n in tree}
    for select in [n for n in tree if isinstance(n, exp.Select)]:
        _tally(select)
        first_values(select, policy)
        first_rows(select, units, policy)
        _spread(select)
        _without(select, units)
        unpivot(select)
        _group(select)
        _skip(select)
        if exp.Distinct in kinds:
            _count_people(select, units)
    if exp.Subquery in kinds:
        _start(root)
        _share(root, units)
    return root


def _name(table: exp.Table, policy: pol.Policy) -> None:
    """Leave out the database before a table's name, and hints about locks."""
    for part in ("db", "catalog"):
        table.set(part, None)
    names = {n.casefold() for n in policy.tables}
    name = str(table.name)
    if "." in name and name.casefold() not in names:
        last = name.rsplit(".", 1)[1]
        if last.casefold() in names:
            table.set("this", exp.to_identifier(last, quoted=True))
    hints = [str(e.name).upper() for h in table.args.get("hints") or () for e in h.expressions]
    if hints and _LOCKS.issuperset(hints):
        table.set("hints", None)


# --- DISTINCT, OFFSET --------------------------------------------------------------------------


def _tally(select: exp.Select) -> None:
    """Write ``SELECT value_counts(ward)``, alone or after the keys, as counts by ward too."""
    *before, last = [e.unalias() for e in select.expressions] or [exp.null()]
    group = select.args.get("group")
    if function_name(last) != "VALUE_COUNTS" or (before and group is None):
        return
    if len(last.expressions) == 1:
        (key,), items = last.expressions, select.expressions[:-1]
        more = [] if key in before else [key.copy()]
        select.set("expressions", [*items, *more, exp.alias_(count_rows(), "count")])
        set_group(select, [*([] if group is None else group.expressions), key])


_SUMMARY: Final = ("COUNT", "MEAN", "STD", "MIN", "MEDIAN", "MAX")


def _spread(select: exp.Select) -> None:
    """Write a list of quantiles, or DESCRIBE, as columns of their own."""
    items: list[exp.Expr] = []
    for item in select.expressions:
        call = item.unalias()
        name, args = function_name(call), call.expressions
        if isinstance(call, exp.WithinGroup) and isinstance(call.expression, exp.Order):
            by, name = call.expression.expressions[0], function_name(call.this)
            args = [by.this, *call.this.expressions] if not by.args.get("desc") else []
        stem = item.alias or name.lower()
        if name == "DESCRIBE" and len(args) == 1:
            calls = [(n.lower(), calling(n, args[0])) for n in _SUMMARY]
        else:
            places = [(f"{float(str(q.this)) * 100:g}", q) for q in _places(name, args)]
            calls = [
                (f"{stem}_{share}".replace(".", "_"), calling("QUANTILE", args[0], q))
                for share, q in places
            ]
        items += [exp.alias_(c, n) for n, c in calls] or [item]
    select.set("expressions", items)


_QUANTILES: Final = frozenset({
    "QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "PERCENTILE_DISC",
    "APPROX_PERCENTILE", "APPROX_QUANTILE",
})  # fmt: skip


def _places(name: str, args: list[exp.Expr]) -> list[exp.Expr]:
    """Fractions of a list of quantiles."""
    listed = len(args) == 2 and isinstance(args[1], exp.Array)
    if name in _QUANTILES and listed:
        numbers: list[exp.Expr] = [
            q for q in args[1].expressions if isinstance(q, exp.Literal) and q.is_number
        ]
        return numbers if len(numbers) == len(args[1].expressions) else []
    text = str(args[1].name) if name == "APPROX_QUANTILES" and len(args) == 2 else ""
    pieces = int(text) if text.isdecimal() and len(text) < 3 else 0
    return (
        [exp.Literal.number(f"{i / pieces:.4g}") for i in range(pieces + 1)] if pieces > 1 else []
    )


def _without(select: exp.Select, units: set[str]) -> None:
    """Write ``LEFT JOIN o … WHERE o.unit IS NULL`` as NOT IN: who has no row there."""
    start, joins, where = (select.args.get(c) for c in ("from_", "joins", "where"))
    if start is None or where is None or not joins:
        return
    tests = tests_of(where)
    for join in list(joins):
        other = join.this
        alias = str(other.alias_or_name).casefold()
        absent = [t for t in tests if _is_absent(t.unnest(), alias, units)]
        own = _linked(join, str(start.this.alias_or_name).casefold(), alias, units)
        columns = [c for c in select.find_all(exp.Column) if c.table.casefold() == alias]
        inside = {id(c) for n in (join, *absent) for c in n.find_all(exp.Column)}
        if len(absent) != 1 or own is None or any(id(c) not in inside for c in columns):
            continue
        mine, theirs, rest = own
        query = exp.select(theirs.copy()).from_(other.copy())
        set_tests(query, rest)
        listed = exp.In(this=mine.copy(), query=exp.Subquery(this=query))
        tests = [exp.Not(this=listed) if t is absent[0] else t.copy() for t in tests]
        join.pop()
    set_tests(select, tests)


def _is_absent(test: exp.Expr, alias: str, units: set[str]) -> bool:
    column = test.this if isinstance(test, exp.Is) and not test.args.get("negate") else None
    if not isinstance(column, exp.Column) or not isinstance(test.expression, exp.Null):
        return False
    return column.table.casefold() == alias and column.name.casefold() in units


def _linked(
    join: exp.Join, mine: str, theirs: str, units: set[str]
) -> tuple[exp.Column, exp.Column, list[exp.Expr]] | None:
    """The unit on both sides of a LEFT JOIN, and its other conditions, all about the other side."""
    on = join.args.get("on")
    if str(join.args.get("side") or "").upper() != "LEFT" or not isinstance(join.this, exp.Table):
        return None
    using = join.args.get("using") or []
    if len(using) == 1 and using[0].name.casefold() in units:
        return exp.column(using[0].name, mine), exp.column(using[0].name, theirs), []
    tests = tests_of(on)
    for test in tests:
        sides = [test.this, test.expression] if isinstance(test, exp.EQ) else []
        by_table = {s.table.casefold(): s for s in sides if isinstance(s, exp.Column)}
        if set(by_table) == {mine, theirs} and all(
            s.name.casefold() in units for s in by_table.values()
        ):
            rest = [t for t in tests if t is not test]
            own = all(c.table.casefold() == theirs for r in rest for c in r.find_all(exp.Column))
            return (by_table[mine], by_table[theirs], rest) if own else None
    return None


def _group(select: exp.Select) -> None:
    """Write DISTINCT of aggregates OVER (PARTITION BY keys) as GROUP BY keys."""
    distinct = select.args.get("distinct")
    if distinct is None or distinct.args.get("on") or select.args.get("group"):
        return
    windows = [w for e in select.expressions for w in e.find_all(exp.Window)]
    if not windows:
        return
    keys = windows[0].args.get("partition_by") or []
    items = [e.unalias() for e in select.expressions if not e.find(exp.Window)]
    alike = all((w.args.get("partition_by") or []) == keys for w in windows)
    if not alike or any(w.args.get("order") or w.args.get("spec") for w in windows):
        return
    called = [w.this.this if isinstance(w.this, exp.WithinGroup) else w.this for w in windows]
    if any(i not in keys for i in items) or any(function_name(c) not in CALLS for c in called):
        return
    select.set("distinct", None)
    if keys:
        set_group(select, keys)
    for window in windows:
        window.replace(window.this)


def _skip(select: exp.Select) -> None:
    """Write OFFSET as a test of the rank by which the answer is ordered."""
    offset, order = select.args.get("offset"), select.args.get("order")
    _share_of_rows(select)
    text = "" if offset is None else str(offset.expression.name)
    if text == "0":
        select.set("offset", None)
    elif text.isdecimal() and order is None:
        limit = select.args.get("limit")
        most = "" if limit is None else f" {limit.sql()}".upper().rstrip()
        raise UnsupportedQueryError(
            "OFFSET leaves out the first rows of an order, and the question has none",
            hint=f"ORDER BY 1{most} OFFSET {text}",
        )
    if offset is None or order is None or select.args.get("qualify"):
        return
    if not text.isdecimal() or text == "0":
        return
    test = exp.GT(this=_rank(select, order), expression=offset.expression.copy())
    select.set("qualify", exp.Qualify(this=test))
    select.set("offset", None)


def _rank(select: exp.Select, order: exp.Expr) -> exp.Window:
    """The place of a row of the answer, in the order in which it is shown."""
    order = order.copy()
    for item in order.expressions:
        place = str(item.this.name) if isinstance(item.this, exp.Literal) else ""
        if place.isdecimal() and 1 <= int(place[:6]) <= len(select.expressions):
            item.set("this", select.expressions[int(place[:6]) - 1].unalias().copy())
    return exp.Window(this=exp.Anonymous(this="ROW_NUMBER"), order=order)


def _share_of_rows(select: exp.Select) -> None:
    """Write TOP 10 PERCENT as a test of the rank, rounded up."""
    limit, order = select.args.get("limit"), select.args.get("order")
    options = None if limit is None else limit.args.get("limit_options")
    if limit is None or order is None or select.args.get("qualify"):
        return
    if options is None or not options.args.get("percent"):
        return
    rows = exp.Mul(this=exp.Window(this=count_rows()), expression=limit.expression.copy())
    most = calling("CEIL", exp.Div(this=rows, expression=exp.Literal.number(100)))
    select.set("qualify", exp.Qualify(this=exp.LTE(this=_rank(select, order), expression=most)))
    select.set("limit", None)


# --- shares of people --------------------------------------------------------------------------


def _scalars(root: exp.Select) -> list[exp.Subquery]:
    subqueries = [s for e in root.expressions for s in e.find_all(exp.Subquery)]
    plain = [
        s for s in subqueries if isinstance(s.this, exp.Select) and len(s.this.expressions) == 1
    ]
    return [s for s in plain if s.find_ancestor(exp.Subquery) is None]


def _start(root: exp.Select) -> None:
    """Let a SELECT without FROM read the tables of one of its subqueries: that of fewest people."""
    subqueries = [s for s in _scalars(root) if s.this.args.get("from_") is not None]
    if root.args.get("from_") is not None or not subqueries:
        return
    people = [s for s in subqueries if isinstance(s.this.args["from_"].this, exp.Subquery)]
    some = [s for s in people if s.find(exp.Having) or s.find(exp.Where)]
    source = (some or people or subqueries)[0]
    first = source.this
    if not _plain(first, "joins", "where"):
        return
    with_clauses(root, first, "from_", "joins", "where")
    source.replace(exp.paren(first.expressions[0].unalias().copy(), copy=False))


def _share(root: exp.Select, units: set[str]) -> None:
    """Mark the people above the line among all people, who stand below it."""
    subqueries = _scalars(root)
    people = _people(root, units) if subqueries else None
    everyone = [_everyone(s.this, units) for s in subqueries]
    if people is None or None in everyone or len({str(e) for e in everyone}) != 1:
        return
    inner, alias = people
    if str(everyone[0]) != str(_table_of(inner)):
        return
    marked = _marked(inner)
    if marked is None:
        return
    source = exp.From(this=under(marked, alias))
    for subquery in subqueries:
        whole = exp.select(count_rows())
        whole.set("from_", source.copy())
        subquery.replace(exp.Subquery(this=whole))
    for call in _calls(root):
        if _counts_units(call, units):
            call.replace(count_rows())
    root.set("from_", source)
    set_tests(root, [exp.column(_PASSES)])


def _calls(root: exp.Select) -> list[exp.Expr]:
    """Aggregates in the outputs, outside subqueries."""
    calls = [c for e in root.expressions for c in e.find_all(exp.Anonymous)]
    outside = [c for c in calls if c.find_ancestor(exp.Subquery) is None]
    return [c for c in outside if function_name(c) in CALLS]


def _counts_units(call: exp.Expr, units: set[str]) -> bool:
    pair = _tested(call, units)
    return pair is not None and pair[1] is None


def _table_of(select: exp.Select) -> exp.Expr | None:
    start = select.args.get("from_")
    plain = start is not None and isinstance(start.this, exp.Table) and not select.args.get("joins")
    return exp.to_identifier(start.this.name.casefold()) if start is not None and plain else None


def _plain(select: exp.Select, *clauses: str) -> bool:
    return not clauses_of(select) - {"expressions", "from_", *clauses}


def _person(select: exp.Expr | None, units: set[str]) -> exp.Column | None:
    """The unit, where a SELECT has one row for each person of a table."""
    if not isinstance(select, exp.Select) or _table_of(select) is None:
        return None
    group = select.args.get("group")
    keys = [e.unalias() for e in (select.expressions if group is None else group.expressions)]
    once = group is not None or select.args.get("distinct")
    alone = len(keys) == 1 and isinstance(keys[0], exp.Column)
    return keys[0] if once and alone and keys[0].name.casefold() in units else None


def _everyone(select: exp.Select, units: set[str]) -> exp.Expr | None:
    """The table whose people a subquery counts, all of them."""
    value, start = select.expressions[0].unalias(), select.args.get("from_")
    if not _plain(select) or start is None:
        return None
    if _counts_units(value, units):
        return _table_of(select)
    inner = start.this.this if isinstance(start.this, exp.Subquery) else None
    every = _person(inner, units) is not None and value == count_rows()
    if not every or not isinstance(inner, exp.Select) or not _plain(inner, "group", "distinct"):
        return None
    return _table_of(inner)


def _people(root: exp.Select, units: set[str]) -> tuple[exp.Select, str] | None:
    """The people that a question is about: a SELECT with one row for each, and its alias."""
    start = root.args.get("from_")
    if start is None or not _plain(root, "where"):
        return None
    if isinstance(start.this, exp.Subquery):
        inner = start.this.this
        fits = _person(inner, units) is not None and not root.args.get("where")
        fits = fits and _plain(inner, "where", "group", "having", "distinct")
        fits = fits and not start.this.alias_column_names
        return (inner, start.this.alias or _HERE) if fits else None
    calls = _calls(root)
    if not calls or not all(_counts_units(c, units) for c in calls):
        return None
    unit = calls[0].expressions[0].expressions[0].unnest()
    inner = with_clauses(exp.select(unit.copy()), root, "from_", "where")
    set_group(inner, [unit])
    return inner, _HERE


def _marked(inner: exp.Select) -> exp.Select | None:
    """Everyone, with a mark on those who pass WHERE or HAVING."""
    having, where = inner.args.get("having"), inner.args.get("where")
    if having is not None and where is not None:
        return None
    everyone = inner.copy()
    if everyone.args.get("distinct"):
        everyone.set("distinct", None)
        set_group(everyone, [e.unalias() for e in everyone.expressions])
    test: exp.Expr = exp.true()
    if having is not None:
        test = having.this.copy()
    elif where is not None:
        test = exp.GT(this=calling("COUNTIF", where.this), expression=exp.Literal.number(0))
    everyone.set("having", None)
    everyone.set("where", None)
    everyone.append("expressions", exp.alias_(exp.paren(test, copy=False), _PASSES))
    return everyone


# --- people who pass a test --------------------------------------------------------------------


def _count_people(select: exp.Select, units: set[str]) -> None:
    """Write COUNT(DISTINCT CASE WHEN test THEN unit END) as a count of people who pass.

    Where all counts have one test, it is a condition. Where they differ, each person (of each
    group) is one row, with a mark for each test.
    """
    trees = [*select.expressions, *(v for c in ("having", "order") if (v := select.args.get(c)))]
    calls = [
        c.parent if isinstance(c.parent, exp.Filter) else c
        for t in trees for c in t.find_all(exp.Anonymous)
        if function_name(c) in CALLS and c.find_ancestor(exp.Select) is select
    ]  # fmt: skip
    group = select.args.get("group")
    keys = [] if group is None else [resolved(select, k) for k in group.expressions]
    if any(isinstance(k, exp.Column) and k.name.casefold() in units for k in keys):
        return  # of one person: whoever does not pass is a row with 0
    pairs = [_tested(c, units) for c in calls]
    people = [f for f in pairs if f is not None]
    if len(people) < len(calls):  # beside other aggregates a test stands in a FILTER
        for call, each in zip(calls, pairs, strict=True):
            if each is not None and each[1] is not None:
                test = exp.Where(this=each[1].copy())
                call.replace(exp.Filter(this=count_different(each[0]), expression=test))
        return
    if all(test is None for _, test in people):
        return
    unit, first = people[0]
    if first is not None and all(test == first for _, test in people):
        select.where(first.copy(), copy=False)
        for call in calls:
            call.replace(count_different(unit))
        return
    levels = clauses_of(group) - {"expressions"} if group else set()
    plain = _table_of(select) is not None and _plain(select, "where", "group", "order", "limit")
    if plain and not levels:
        tests = [test for _, test in people]
        _mark_people(select, unit, keys, list(zip(calls, tests, strict=True)))


def _tested(call: exp.Expr, units: set[str]) -> tuple[exp.Column, exp.Expr | None] | None:
    """The unit that a call counts, and the test that its rows must pass."""
    test: exp.Expr | None = None
    if isinstance(call, exp.Filter):
        call, test = call.this, call.expression.this
    arg = call.expressions[0] if function_name(call) == "COUNT" and call.expressions else None
    values = arg.expressions if isinstance(arg, exp.Distinct) else []
    value = values[0].unnest() if len(values) == 1 else None
    if isinstance(value, exp.Case) and test is None and value.this is None:
        branches, rest = value.args["ifs"], value.args.get("default")
        if len(branches) != 1 or not (rest is None or isinstance(rest, exp.Null)):
            return None
        test, value = branches[0].this, branches[0].args["true"].unnest()
    own = isinstance(value, exp.Column) and value.name.casefold() in units
    return (value, test) if own and isinstance(value, exp.Column) else None


def _mark_people(
    select: exp.Select,
    unit: exp.Column,
    keys: list[exp.Expr],
    calls: list[tuple[exp.Expr, exp.Expr | None]],
) -> None:
    """Make one row for each person (and key), with a mark for each test."""
    items = [e for e in select.expressions if e.unalias() in keys]
    by_name = {e.alias_or_name or f"key_{i}": e.unalias() for i, e in enumerate(items)}
    if len(by_name) < max(len(keys), len(items)):
        return
    for item, name in zip(items, by_name, strict=True):
        column = exp.column(name, quoted=True)
        item.replace(exp.alias_(column, name, quoted=True) if item.alias else column)
    inner = exp.select(unit.copy())
    for place, (call, test) in enumerate(calls):
        count: exp.Expr = count_rows()
        if test is not None:
            passed = exp.GT(this=calling("COUNTIF", test), expression=exp.Literal.number(0))
            inner.append("expressions", exp.alias_(passed, f"{_PASSES}_{place}"))
            condition = exp.Where(this=exp.column(f"{_PASSES}_{place}"))
            count = exp.Filter(this=count, expression=condition)
        call.replace(count)
    for name, value in by_name.items():
        inner.append("expressions", exp.alias_(value.copy(), name, quoted=True))
    set_group(with_clauses(inner, select, "from_", "where"), [unit, *by_name.values()])
    select.set("from_", exp.From(this=under(inner, _HERE)))
    select.set("where", None)
    if keys:
        set_group(select, [exp.column(name, quoted=True) for name in by_name])
