"""PIVOT: an aggregate with FILTER for each value.

Columns have the names that DuckDB gives them. ``PIVOT visits ON sex`` without values has a column
for each value that the policy lists, whichever are in the data.
"""

from __future__ import annotations

from sqlglot import exp

from discreet import policy as pol
from discreet._text import written
from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import build
from discreet.sql._text import only, refuse, table_of
from discreet.sql._walk import count_rows, set_group


def pivoted(pivot: exp.Expr) -> dict[str, exp.Expr] | None:
    """Aggregates with FILTER that PIVOT means, by the names of its columns."""
    fields = list(pivot.args.get("fields") or [])
    if pivot.args.get("unpivot") or len(fields) != 1 or not isinstance(fields[0], exp.In):
        return None
    only(pivot, "expressions", "fields", "group", "alias", "columns", "pivot_column_naming")
    if pivot.args.get("alias") and pivot.args["alias"].args.get("columns"):
        raise refuse("PIVOT with a list of column names", "FOR x IN (1 AS one)")
    columns: dict[str, exp.Expr] = {}
    for choice in fields[0].expressions:
        named = isinstance(choice, exp.PivotAlias)
        value = choice.this if named else choice
        if isinstance(value, exp.Array) and len(value.expressions) == 1:  # T-SQL's [2023]
            value = value.expressions[0]
        name = str(choice.args["alias"].name) if named else _value_name(value)
        if isinstance(value, exp.Column):  # T-SQL writes values as names
            value = exp.Literal.string(value.name)
        for call in pivot.expressions:
            test = exp.EQ(this=fields[0].this.copy(), expression=value.copy())
            aggregate = exp.Filter(this=call.unalias().copy(), expression=exp.Where(this=test))
            several = len(pivot.expressions) > 1
            # DuckDB adds the aggregate where there are several, or where it has a name
            stem = f"{name}_{call.alias or _duckdb_name(call)}" if call.alias or several else name
            if stem in columns:
                raise QueryError(
                    f"two columns of PIVOT are called {build.quote(stem)}: give values and "
                    "aggregates names of their own, as in FOR x IN (1 AS one)"
                )
            columns[stem] = exp.alias_(aggregate, stem, quoted=not stem.isidentifier())
    return columns


def _value_name(value: exp.Expr) -> str:
    """What DuckDB calls the column of a value."""
    if isinstance(value, exp.Boolean):
        return "true" if value.this else "false"
    return f"-{value.name}" if isinstance(value, exp.Neg) else str(value.name)


def _duckdb_name(node: exp.Expr) -> str:
    """An expression as DuckDB writes it in names of columns."""
    match node:
        case exp.Anonymous():
            args = ", ".join(map(_duckdb_name, node.expressions))
            name = str(node.name).lower()
            name = name.upper() if name == "coalesce" else name
            return "count_star()" if (name, args) == ("count", "*") else f"{name}({args})"
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}[type(node)]
            return f"({_duckdb_name(node.this)} {sign} {_duckdb_name(node.expression)})"
        case exp.Neg():
            return f"(-({_duckdb_name(node.this)}))"
        case exp.Paren():
            return _duckdb_name(node.this)
    return str(node.sql())


def pivot_question(pivot: exp.Pivot, policy: pol.Policy) -> exp.Select:
    """Write ``PIVOT visits ON sex USING COUNT(*) GROUP BY ward`` as a SELECT."""
    only(pivot, "this", "expressions", "using", "group")
    if not isinstance(pivot.this, exp.Table) or len(pivot.expressions) != 1:
        raise refuse("PIVOT of anything but one table ON one column")
    on, group = pivot.expressions[0], pivot.args.get("group")
    calls = pivot.args.get("using") or [count_rows()]
    if group is None:
        raise UnsupportedQueryError(
            "PIVOT without GROUP BY has a row for all values of all other columns together: name "
            "those that matter",
            hint=_by_first(pivot, policy),
        )
    if isinstance(on, exp.Column):
        on = exp.In(this=on.copy(), expressions=_listed(pivot.this, on, policy))
    columns = pivoted(exp.Pivot(expressions=calls, fields=[on]))
    if columns is None:
        raise refuse(f"PIVOT ON {on.sql()}")
    select = exp.select(*(k.copy() for k in group.expressions), *columns.values())
    return select.from_(pivot.this.copy()).group_by(*(k.copy() for k in group.expressions))


def _columns_of(node: exp.Expr, policy: pol.Policy) -> dict[str, pol.Column]:
    table = table_of(policy, node)
    if table is None:
        raise build.unknown("table", str(node.name), list(policy.tables))
    return dict(table.columns)


def _by_first(pivot: exp.Pivot, policy: pol.Policy) -> str | None:
    """The same with GROUP BY of the first column with listed values that it does not use."""
    names = {c.name.casefold() for c in pivot.find_all(exp.Column)}
    free = [
        n for n, c in _columns_of(pivot.this, policy).items()
        if isinstance(c, pol.Category | pol.Boolean) and n.casefold() not in names
    ]  # fmt: skip
    own = pivot.copy()
    own.set("group", exp.Group(expressions=[exp.column(written(free[0]))]) if free else None)
    return own.sql(dialect="duckdb") if free else None


def _listed(table: exp.Expr, on: exp.Column, policy: pol.Policy) -> list[exp.Expr]:
    """All values of a column, as the policy lists them, in the order of DuckDB."""
    columns = {n.casefold(): c for n, c in _columns_of(table, policy).items()}
    column = columns.get(on.name.casefold())
    if column is None:
        raise build.unknown("column", str(on.name), [c.name for c in columns.values()])
    values: list[str | int | bool] = []
    if isinstance(column, pol.Boolean):
        values = [False, True]
    elif isinstance(column, pol.Category):
        values = [*column.values, *([] if column.other is None else [column.other])]
    if not values:
        raise UnsupportedQueryError(
            f"PIVOT ON {on.sql()}: the policy does not list the values of "
            f"{build.quote(column.name)}; write those that matter, as in ON x IN (1, 2)"
        )
    return [exp.convert(v) for v in sorted(dict.fromkeys(values), key=lambda v: (str(type(v)), v))]


def unpivot(select: exp.Select) -> None:
    """Group by the columns of a subquery that PIVOT names, or else by those it does not use."""
    start = select.args.get("from_")
    source = None if start is None else start.this
    pivots = [] if source is None else source.args.get("pivots") or []
    inner = source.this if isinstance(source, exp.Subquery) else None
    columns = pivoted(pivots[0]) if len(pivots) == 1 and isinstance(inner, exp.Select) else None
    if (
        source is None
        or columns is None
        or not isinstance(inner, exp.Select)
        or inner.find(exp.Star)
    ):
        return
    names = [e.alias_or_name for e in inner.expressions]
    if (group := pivots[0].args.get("group")) is not None:
        names = _grouped(group, names)
    else:
        own = {c.name.casefold() for e in columns.values() for c in e.find_all(exp.Column)}
        names = [n for n in names if n.casefold() not in own]
    keys = {n: exp.column(n) for n in names}
    by_name = {n.casefold(): e for n, e in (keys | columns).items()}
    items = [*keys.values(), *columns.values()] if select.is_star else [
        columns.get(e.name, by_name.get(e.name.casefold()))
        for e in select.expressions if isinstance(e, exp.Column)
    ]  # fmt: skip
    if None in items or (not select.is_star and len(items) < len(select.expressions)):
        return
    select.set("expressions", [e.copy() for e in items if e is not None])
    if keys:
        set_group(select, list(keys.values()))
    source.set("pivots", None)


def _grouped(group: exp.Expr, columns: list[str]) -> list[str]:
    """Columns that GROUP BY inside PIVOT names."""
    only(group, "expressions")
    spelled = {n.casefold(): n for n in columns}
    for key in group.expressions:
        if not isinstance(key, exp.Column):
            raise refuse(f"GROUP BY {key.sql()} in PIVOT")
        if key.name.casefold() not in spelled:
            raise build.unknown("column", str(key.name), columns)
    return [spelled[key.name.casefold()] for key in group.expressions]
