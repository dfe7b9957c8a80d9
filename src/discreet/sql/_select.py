"""One SELECT: tables, filter, keys, outputs, and what happens after the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from discreet import policy as pol
from discreet._dataclass import dataclass, field, replace
from discreet._text import plain_str, written
from discreet.errors import (
    DiscreetError,
    Hint,
    ParameterError,
    QueryError,
    UnknownNameError,
    UnsupportedQueryError,
)
from discreet.plan import (
    Assembly,
    Expr,
    OutputExpr,
    Query,
    Scan,
    Scope,
    base,
    build,
    counted,
    windows_of,
)
from discreet.sql import _elsewhere as elsewhere
from discreet.sql._aggregates import (
    LISTED,
    Outputs,
    has_aggregate,
    names_number,
)
from discreet.sql._bounds import Bounds, Options, read_options
from discreet.sql._grouping import check_length, check_totals, each_place, levels
from discreet.sql._hints import (
    about_people,
    check_catalogue,
    joined_otherwise,
    own_hints,
    tested_later,
)
from discreet.sql._joins import arranged, join_private, open_text, public_pairs
from discreet.sql._parsed import Fanout, Parsed, United
from discreet.sql._people import People
from discreet.sql._pivot import pivot_question
from discreet.sql._rewrites import check_extras, one_select, per_person
from discreet.sql._rows import Rows
from discreet.sql._scalar import without_scalars
from discreet.sql._shapes import shaped
from discreet.sql._text import (
    WHOLE,
    column_of,
    columns_of,
    default_name,
    identifier,
    is_unit,
    label,
    limit_of,
    only,
    refuse,
    table_of,
    tree,
)
from discreet.sql._walk import nodes, tests_of
from discreet.sql._wrap import unwrapped

__all__ = ["Parsed", "lower", "parse", "parse_any"]

_CLAUSES: Final = (
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "with_", "hint",
    "qualify",
)  # fmt: skip
MAX_OUTPUTS: Final = 200
MAX_JOINS: Final = 8
_ROW_CLAUSES: Final = ("expressions", "from_", "where")
_TRIVIAL: Final = "SELECT COUNT(*) AS n FROM (SELECT * FROM people WHERE age >= 18) AS adults"


def parse(
    text: str,
    policy: pol.Policy,
    *,
    public_fanout: Fanout | None = None,
    other: str | None = None,
) -> Parsed:
    """Read one SELECT into a query, or refuse it by name.

    Parameters
    ----------
    text
        The question.
    policy
        What tables and columns exist.
    public_fanout
        For joins: a mapping from public table to the most rows that share a key,
        or a function of table and join columns.
    other
        Label of a row that gathers the text keys which are not selected (None: no row).

    Returns
    -------
    Parsed
        ``query``; ``epsilon`` and ``delta`` where BigQuery's clause states them.

    Raises
    ------
    QueryError
        UnknownNameError, UnsupportedQueryError or the error itself. Every message
        is made of the question and the policy alone.

    Examples
    --------
    >>> from discreet.policy import Budget, Category, Integer, Policy, Table
    >>> people = Table("people", [Category("sex", ["F", "M"]), Integer("age", 0, 115)])
    >>> policy = Policy(tables=[people], budget=Budget("1"))
    >>> parsed = parse("SELECT sex, AVG(age) FROM people WHERE age >= 18 GROUP BY sex", policy)
    >>> [output.name for output in parsed.query.outputs]
    ['sex', 'avg_age']
    >>> parse("SELECT AVG(aeg) FROM people", policy)
    Traceback (most recent call last):
        ...
    discreet.errors.UnknownNameError: there is no column "aeg"; known: sex, age
        try: age
    """
    result = parse_any(text, policy, public_fanout=public_fanout, other=other)
    if isinstance(result, United):
        raise refuse("UNION here", "one SELECT")
    return result


def parse_any(
    text: str,
    policy: pol.Policy,
    *,
    public_fanout: Fanout | None = None,
    other: str | None = None,
) -> Parsed | United:
    """Read one SELECT, or several with UNION ALL between them."""

    def read(words: str) -> Parsed | United:
        root = tree(words)
        if isinstance(root, exp.Pivot):
            root = pivot_question(root, policy)
        if isinstance(root, exp.Union):
            from discreet.sql._union import unite  # noqa: PLC0415 - it reads its branches with this

            return unite(root, policy, public_fanout)
        if not isinstance(root, exp.Select):
            raise refuse(label(root), "SELECT COUNT(*) AS n FROM people")
        return lower(root, policy, public_fanout, other)

    with counted(), own_hints(text, policy, read):
        check_catalogue(text, policy)
        return read(text)


def lower(
    root: exp.Select, policy: pol.Policy, public_fanout: Fanout | None, other: str | None = None
) -> Parsed:
    """Lower the tree of one SELECT, which is changed on the way, wherever it came from."""
    other = None if other is None else plain_str(other, "the label of other keys", QueryError)
    try:
        with counted():
            whole = arranged(shaped(root, policy), policy)
            return Select(whole, policy, public_fanout, other).parse()
    except ParameterError as error:
        # what the plan refuses is wrong with the question
        raise QueryError(error.message, hint=error.hint) from None
    except RecursionError:
        raise QueryError("the question is nested too deeply") from None


@dataclass
class Select:
    node: exp.Select
    policy: pol.Policy
    fanout: Fanout | None
    other: str | None
    subqueries: dict[str, exp.Expr] = field(default_factory=dict)

    def parse(self) -> Parsed:
        self.node = without_scalars(per_person(unwrapped(self.node, self.policy), self.policy))
        self.node.meta[WHOLE] = True
        self._read_with()
        self._check_rows()
        only(self.node, *_CLAUSES)
        scope = self.tables()
        scope = self.filtered(scope)
        assembly, rows = Assembly(scope), Rows(scope.narrowed())
        items = self._items(base(scope.relation).table.name)
        self._group(assembly, rows, items)
        options = read_options(self.node.args.get("hint"), assembly)
        limits = assembly.limits(rows=options.rows, groups=options.groups)
        in_group = min(n for n in (limits.rows, limits.rows_per_group) if n is not None)
        outputs = Outputs(assembly, rows, Bounds(in_group))
        self._show(outputs, items)
        query = self._finish(outputs, options)
        return Parsed(query, options.epsilon, options.delta)

    def _check_rows(self) -> None:
        """Refuse a SELECT of rows, or of the different values of columns, by what it is."""
        columns = [e.unalias() for e in self.node.expressions]
        plain = [c for c in columns if isinstance(c, exp.Column)]
        if len(plain) != len(columns) or self.node.args.get("group") or not plain:
            return
        if self.node.args.get("joins") and self.subqueries:
            return  # that answers are not joined is said first
        self._check_names(plain)
        start = self.node.args.get("from_")
        table = written(start.this.name) if start and isinstance(start.this, exp.Table) else None
        if any(self.node.args.get(c) for c in ("joins", "where", "limit")):
            table = None
        keys = ", ".join(written(c.name) for c in plain)
        if self.node.args.get("distinct"):
            hint = f"SELECT {keys}, COUNT(*) AS n FROM {table} GROUP BY {keys}"  # noqa: S608 - a hint
            raise UnsupportedQueryError(
                "SELECT DISTINCT lists values of people; those that are public, or that enough "
                "people have, leave with their count",
                hint=hint if table else None,
            )
        raise UnsupportedQueryError(
            "rows do not leave, only statistics about them",
            hint=f"SELECT COUNT(*) AS n FROM {table}" if table else None,  # noqa: S608 - a hint
        )

    def _check_names(self, columns: Sequence[exp.Column]) -> None:
        """Say first that a column is not there: a hint that repeats its name would not work."""
        try:
            scope = self.tables()
            for column in columns:
                if not is_unit(scope, column):
                    column_of(scope, column)
        except UnknownNameError:
            raise
        except DiscreetError:
            return  # that rows do not leave is said first

    # --- FROM ------------------------------------------------------------------------------

    def _read_with(self) -> None:
        clause = self.node.args.get("with_")
        if clause is None:
            return
        only(clause, "expressions", hint=_TRIVIAL)
        for cte in clause.expressions:
            only(cte, "this", "alias")
            self.subqueries[(_alias(cte) or "").casefold()] = cte.this

    def tables(self) -> Scope:
        """What FROM and its joins show."""
        start = self.node.args.get("from_")
        if start is None:
            raise QueryError("the question names no table", hint="SELECT COUNT(*) AS n FROM people")
        first = start.this
        joins = list(self.node.args.get("joins") or ())
        if len(joins) > MAX_JOINS:
            raise QueryError(f"a question joins at most {MAX_JOINS} tables")
        swapped = self._swapped(first, joins)
        if swapped is not None:
            first, joins = swapped
        scope = self._source(first)
        for join in joins:
            scope = self._join(scope, join)
        return scope

    def _swapped(
        self, first: exp.Expr, joins: list[exp.Join]
    ) -> tuple[exp.Expr, list[exp.Join]] | None:
        """Start from the private table of an inner join that names the public one first."""
        table = table_of(self.policy, first) if len(joins) == 1 else None
        if table is None or not table.public or joins[0].args.get("side"):
            return None
        join = joins[0].copy()
        other = join.this
        join.set("this", first.copy())
        return other, [join]

    def _source(self, node: exp.Expr) -> Scope:
        alias = _alias(node)
        if isinstance(node, exp.Subquery):
            check_extras(node)
            only(node, "this", "alias", hint=_TRIVIAL)
            return self.rows_of(node.this, alias or "subquery")
        table_name = _plain_table(node)
        inner = self.subqueries.get(table_name.casefold())
        if inner is not None:
            # inside a subquery its own name is that of a table
            rest = {n: q for n, q in self.subqueries.items() if n != table_name.casefold()}
            return replace(self, subqueries=rest).rows_of(inner, alias or table_name)
        table = self._table(node)
        if table.public:
            raise UnsupportedQueryError(
                f"the table {build.quote(table.name)} is public: read it directly"
            )
        return Scope.of(table, alias)

    def _table(self, node: exp.Expr) -> pol.Table:
        table = table_of(self.policy, node)
        if table is None:
            raise build.unknown("table", str(node.name), list(self.policy.tables))
        return table

    def rows_of(self, node: exp.Expr, alias: str) -> Scope:
        """Rows of a subquery: selected, computed and filtered, or one for each unit."""
        node = one_select(node)
        inner = replace(self, node=node)
        if node.args.get("group"):
            only(node, *_ROW_CLAUSES, "joins", "group", "having", "order", hint=_TRIVIAL)
            return inner.people(alias)
        if any(has_aggregate(e) for e in node.expressions):
            raise UnsupportedQueryError(
                "a subquery gives rows, or GROUP BY the unit one row for each person",
                hint=_TRIVIAL,
            )
        only(node, *_ROW_CLAUSES, "joins", "order", hint=_TRIVIAL)
        scope = inner.tables()
        columns = self._projected(scope, node.expressions)
        return inner.filtered(scope).project(alias, columns)

    def people(self, alias: str) -> Scope:
        """One row for each unit (and value of the other keys) of a subquery."""
        scope = self.filtered(self.tables())
        items = self._items(base(scope.relation).table.name)
        rows, keys, grouped = Rows(scope.narrowed()), [], False
        for node in self.node.args["group"].expressions:
            value, name = self._key(scope, node.unnest(), items)
            if is_unit(scope, value):
                grouped = True
                continue
            keys.append((value, name, rows.expr(value, "GROUP BY")))
        if not grouped:
            raise UnsupportedQueryError(
                "a subquery that aggregates groups by the unit, so that each row is a person's; an "
                "answer is not joined, with itself or with others: LAG(n) OVER (ORDER BY …) gives "
                "the row before"
            )
        people = People(scope, tuple(keys))
        values = [(value, name) for value, name, _ in items if not is_unit(scope, value)]
        columns = {name: people.output(value, name) for value, name in values}
        having = self.node.args.get("having")
        condition = None if having is None else people.condition(having.this)
        others = {name: key for _, name, key in keys}
        return scope.per_unit(alias, others, people.folds, condition, columns)

    def filtered(self, scope: Scope) -> Scope:
        """Filter rows; by what their units have elsewhere as well."""
        plain = []
        for part in tests_of(self.node.args.get("where")):
            wanted, inner = elsewhere.test_of(part)
            if inner is not None:
                scope = elsewhere.tested(self, scope, inner, wanted=wanted)
                continue
            inside = nodes(part)
            if any(isinstance(n, exp.Exists) or n.args.get("query") for n in inside):
                raise refuse("IN (SELECT …) or EXISTS beside OR, or inside an expression,")
            number = next((n for n in inside if isinstance(n, exp.Subquery)), None)
            if number is not None:
                raise UnsupportedQueryError(
                    "a number of all rows inside a condition on one row would leave exactly: ask "
                    "it on its own, then write the noisy number here",
                    hint=number.this.sql(),
                )
            if has_aggregate(part) or names_number(scope, self.node, part):
                rule = "WHERE is tested row by row, HAVING group by group"
                raise QueryError(rule, hint=tested_later(part))
            plain.append(part)
        return scope.where(*(Rows(scope).condition(part) for part in plain))

    def _projected(self, scope: Scope, items: Sequence[exp.Expr]) -> dict[str, Expr]:
        columns: dict[str, Expr] = {}
        rows = Rows(scope)
        for place, item in enumerate(items, 1):
            if isinstance(item, exp.Star):
                only(item)
                columns.update(scope.sources[0].columns)
                continue
            value, name = _alias_of(item, place)
            if is_unit(scope, value):
                # the unit travels with every row; it needs no column of its own
                if name.casefold() != value.name.casefold():
                    raise refuse("another name for the privacy unit", value.name)
                continue
            if name.casefold() in {c.casefold() for c in columns}:
                raise QueryError(f"two columns are called {build.quote(name)}", hint="… AS other")
            columns[name] = rows.expr(value, "a subquery")
        return columns

    def _join(self, scope: Scope, join: exp.Join) -> Scope:
        if join.args.get("method"):
            shared = scope.unit or scope.sources[0].alias
            raise refuse(f"{join.args['method']} JOIN", f"JOIN {join.this.name} USING ({shared})")
        only(join, "this", "on", "using", "side", "kind", hint="JOIN regions USING (region)")
        side = str(join.args.get("side") or "").upper()
        kind = str(join.args.get("kind") or "").upper()
        node = join.this
        if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER", "CROSS"):
            raise refuse(f"{side} {kind}".strip() + " JOIN", joined_otherwise(join))
        if not isinstance(node, exp.Table) or node.name.casefold() in self.subqueries:
            return join_private(scope, self._source(node), join)
        _plain_table(node)  # a name, and nothing beside it
        table = self._table(node)
        alias = identifier(node.args.get("alias")) or table.name
        if not table.public:
            return join_private(scope, Scope.of(table, alias), join)
        public = Scan(table)
        pairs = public_pairs(scope, public, alias, join)
        public = open_text(public, pairs)
        fanout = self.fanout_of(table.name, tuple(right for _, right in pairs))
        how = "left" if side else "inner"
        return scope.join(public, pairs, how=how, fanout=fanout, alias=alias)

    def fanout_of(self, table: str, columns: tuple[str, ...]) -> int:
        """How many rows of a public table share one value of the columns, at most."""
        if callable(self.fanout):
            return self.fanout(table, columns)
        if self.fanout is None or table not in self.fanout:
            raise UnsupportedQueryError(
                f"how many rows of {build.quote(table)} share a key is not known here",
                hint=Hint("public_fanout", {table: 1}),
            )
        return self.fanout[table]

    # --- keys and outputs ------------------------------------------------------------------

    def _items(self, table: str) -> list[tuple[exp.Expr, str, bool]]:
        """SELECT items with their names, and whether the author chose the name."""
        if len(self.node.expressions) > MAX_OUTPUTS:
            raise QueryError(f"a question has at most {MAX_OUTPUTS} output columns")
        items: list[tuple[exp.Expr, str, bool]] = []
        names: set[str] = set()
        for place, item in enumerate(self.node.expressions, 1):
            if isinstance(item, exp.Star):
                raise UnsupportedQueryError(
                    "SELECT * would let rows out; only statistics leave",
                    hint=f"SELECT COUNT(*) AS n FROM {written(table)}",  # noqa: S608 - a hint
                )
            value, name = _alias_of(item, place)
            chosen = isinstance(item, exp.Alias)
            stem, n = name, 2
            while not chosen and name.casefold() in names:
                name, n = f"{stem}_{n}", n + 1
            names.add(name.casefold())
            items.append((value, name, chosen))
        return items

    def _group(
        self, assembly: Assembly, rows: Rows, items: list[tuple[exp.Expr, str, bool]]
    ) -> None:
        group = self.node.args.get("group")
        if group is None:
            return
        every = [value for value, _, _ in items if not has_aggregate(value)]
        more = tuple(every) if group.args.get("all") else ()
        for level in levels(group):
            names: dict[str, None] = {}
            for node in (*level, *more):
                value, name = self._key(assembly.scope, node.unnest(), items)
                self._check_person(assembly.scope, value)
                if has_aggregate(value):
                    raise QueryError("GROUP BY cannot hold an aggregate")
                expr = rows.expr(value, "GROUP BY")
                check_length(expr, value)
                key = assembly.group(name, expr, value.sql)
                names[key.name] = None
            assembly.levels[tuple(names)] = None

    def _check_person(self, scope: Scope, key: exp.Expr) -> None:
        """Refuse an answer with a row for each person; a statistic about people works."""
        if is_unit(scope, key):
            raise UnsupportedQueryError(
                f"{build.quote(key.name)} is the privacy unit: a row for each person does not "
                "leave, a statistic about people does",
                hint=about_people(self.node, key),
            )

    def _key(
        self, scope: Scope, node: exp.Expr, items: list[tuple[exp.Expr, str, bool]]
    ) -> tuple[exp.Expr, str]:
        """What a GROUP BY item means: a position, an alias, or itself."""
        if (place := _place(node, len(items), "GROUP BY")) is not None:
            return items[place][:2]
        if isinstance(node, exp.Column) and not node.args.get("table"):
            folded = node.name.casefold()
            if folded not in columns_of(scope):
                for value, name, chosen in items:
                    if chosen and name.casefold() == folded:
                        return value, name
            return node, node.name
        for value, name, _ in items:
            if value == node:
                return value, name
        return node, default_name(node, len(items) + 1)

    def _show(self, outputs: Outputs, items: list[tuple[exp.Expr, str, bool]]) -> None:
        for value, name, chosen in items:
            out = outputs.lower(value)
            outputs.assembly.show(name, out)
            if chosen or not isinstance(value, exp.Column):
                outputs.aliases[name.casefold()] = out
        outputs.reading = False

    # --- after the noise -------------------------------------------------------------------

    def _finish(self, outputs: Outputs, options: Options) -> Query:
        assembly, args = outputs.assembly, self.node.args
        if options.public_groups and any(k.codes is None for k in assembly.keys):
            raise QueryError(
                "PUBLIC_GROUPS needs public keys, a text column has none",
                hint="WHERE city IN ('Bern', 'Basel')",
            )
        having, qualify, order = (args.get(c) for c in ("having", "qualify", "order"))
        check_totals(assembly, self.node)
        return assembly.finish(
            having=None if having is None else self._having(outputs, having.this),
            order=() if order is None else self._order(outputs, order),
            limit=limit_of(args.get("limit")),
            other=self.other,
            qualify=None if qualify is None else self._test(outputs, qualify.this, "QUALIFY"),
            rows=options.rows,
            groups=options.groups,
            rows_per_group=outputs.bounds.most_rows_per_group,
        )

    def _having(self, outputs: Outputs, node: exp.Expr) -> OutputExpr:
        out = self._test(outputs, node, "HAVING")
        if windows_of(out):
            raise UnsupportedQueryError(
                "HAVING decides group by group, before numbers of all groups (OVER) are computed",
                hint=f"QUALIFY {node.sql()}",
            )
        return out

    def _test(self, outputs: Outputs, node: exp.Expr, clause: str) -> OutputExpr:
        out = outputs.lower(node)
        if outputs.kind(out) not in ("truth", "flag"):
            numeric = outputs.kind(out) == "number"
            own = f"{clause} {node.sql()} <> 0"
            raise QueryError(f"{clause} needs a comparison", hint=own if numeric else None)
        return out

    def _order(self, outputs: Outputs, order: exp.Expr) -> tuple[tuple[OutputExpr, bool], ...]:
        only(order, "expressions", hint="ORDER BY n DESC")
        count = len(outputs.assembly.outputs)
        return tuple(ordered(outputs, i) for i in each_place(order.expressions, count))


def ordered(outputs: Outputs, item: exp.Expr) -> tuple[OutputExpr, bool]:
    """One ORDER BY item: a position, an output's name or an expression."""
    only(item, "this", "desc", "nulls_first", hint="ORDER BY n DESC")
    node, descending = item.this, bool(item.args.get("desc"))
    columns = outputs.assembly.outputs
    if (place := _place(node, len(columns), "ORDER BY")) is not None:
        return columns[place].expr, descending
    out = outputs.lower(node)
    if outputs.kind(out) == LISTED:
        raise QueryError("a list of values has no order", hint="ORDER BY COUNT(*)")
    return out, descending


def _place(node: exp.Expr, count: int, clause: str) -> int | None:
    """Which of so many outputs a number names; None where it is no number."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    text = str(node.this)
    if not text.isdigit() or not 1 <= int(text[:9]) <= count:
        raise QueryError(f"{clause} position must lie in 1 to {count}", hint=f"{clause} 1")
    return int(text) - 1


def _alias_of(item: exp.Expr, place: int) -> tuple[exp.Expr, str]:
    if isinstance(item, exp.Alias):
        only(item, "this", "alias")
        return item.this.unnest(), item.alias
    return item.unnest(), default_name(item.unnest(), place)


def _plain_table(node: exp.Expr) -> str:
    if not isinstance(node, exp.Table):
        raise refuse(f"{label(node)} in FROM")
    check_extras(node)
    only(node, "this", "alias", hint="FROM people")
    if not isinstance(node.this, exp.Identifier):
        raise refuse(f"{label(node.this)} in FROM")
    _alias(node)
    return str(node.name)


def _alias(node: exp.Expr) -> str | None:
    """Name given to a table: one plain name, its columns keep theirs."""
    alias = node.args.get("alias")
    if alias is None:
        return None
    if alias.args.get("columns"):
        raise refuse("renaming the columns of a table")
    only(alias, "this", hint="FROM people AS p")
    if not isinstance(alias.this, exp.Identifier):
        raise refuse(f"{label(alias.this)} in FROM")
    return str(alias.name)
