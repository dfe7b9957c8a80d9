"""Subqueries that GROUP BY the unit: people first, then statistics about people.

The outputs of such a subquery are row expressions over one row for each unit: keys,
counts, sums and extremes of the unit's own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from sqlglot import exp

from discreet._dataclass import dataclass, field
from discreet.errors import ParameterError, QueryError, UnsupportedQueryError
from discreet.plan import Expr, Fold, FoldKind, Null, Operand, Word, build, expr
from discreet.sql._rows import Rows, arity
from discreet.sql._text import function_name, is_unit, only

_KINDS: Final = {
    "COUNT": FoldKind.COUNT,
    "SUM": FoldKind.SUM,
    "MIN": FoldKind.MIN,
    "MAX": FoldKind.MAX,
    "BOOL_OR": FoldKind.MAX,
    "BOOL_AND": FoldKind.MIN,
    "COUNT_IF": FoldKind.COUNT,
    "COUNTIF": FoldKind.COUNT,
}
_AT: Final = {
    **dict.fromkeys(("MIN_BY", "ARG_MIN", "ARGMIN", "ARG_MIN_NULL"), FoldKind.MIN),
    **dict.fromkeys(("MAX_BY", "ARG_MAX", "ARGMAX", "ARG_MAX_NULL"), FoldKind.MAX),
}
_MOST_LABELS: Final = 24


@dataclass(frozen=True)
class People(Rows):
    """Lowers the outputs of a subquery that groups by the unit.

    ``keys`` are the other groups, by their syntax. ``folds`` fills up with what the
    outputs count and add up.
    """

    keys: Sequence[tuple[exp.Expr, str, Expr]] = ()
    folds: dict[str, Fold] = field(default_factory=dict)

    def lower(self, node: exp.Expr) -> Operand:
        """Read a key, an aggregate over the unit's rows, or an expression of these."""
        for source, name, key in self.keys:
            if node == source or (isinstance(node, exp.Column) and node.name == name):
                return expr.Column(name, key.type)
        if _is_fold(node):
            return self._fold(node, f"value {len(self.folds) + 1}")
        if function_name(node) in _AT:
            return self._at_extreme(node)
        if _is_mean(node):
            raise UnsupportedQueryError(
                "AVG of one person's rows is their sum by their number, which are divided outside "
                "the subquery",
                hint=_divided_outside(node),
            )
        if isinstance(node, exp.Column):
            raise QueryError(
                f"{build.quote(node.name)} is neither grouped nor aggregated in the subquery",
                hint=f"MAX({node.name})",
            )
        return super().lower(node)

    def output(self, node: exp.Expr, name: str) -> Expr:
        """Lower an output; a plain aggregate is called by its name."""
        try:
            return self._fold(node, name) if _is_fold(node) else self.expr(node, "a subquery")
        except ParameterError:
            if not isinstance(node, exp.Div):
                raise
            raise UnsupportedQueryError(
                f"{build.quote(name)} of one person has too many values: divide outside the "
                "subquery",
                hint=_divided_outside(node),
            ) from None

    def branch(self, test: Operand, node: exp.Expr) -> Operand:  # noqa: ARG002 - one face
        """Lower a branch; nothing is narrowed here."""
        return self.lower(node)

    def _fold(self, node: exp.Expr, called: str) -> Expr:
        test = None
        if isinstance(node, exp.Filter):
            only(node, "this", "expression")
            node, test = node.this, node.expression.this
        name = function_name(node)
        arity(name, node.expressions, 1)
        rows, kind, arg = Rows(self.scope), _KINDS[name], node.expressions[0]
        if isinstance(arg, exp.Distinct) and name == "COUNT":
            only(arg, "expressions")
            arity("COUNT(DISTINCT …)", arg.expressions, 1)
            kind, arg = FoldKind.DISTINCT, arg.expressions[0]
        value = self._value(rows, name, arg)
        if test is not None:
            value = build.when(rows.condition(test), value)
        return self._column(Fold(kind, value), called)

    def _column(self, fold: Fold, called: str | None = None) -> Expr:
        """Fold the unit's rows once, whoever asks."""
        called = called or f"value {len(self.folds) + 1}"
        name = next((n for n, other in self.folds.items() if other == fold), called)
        self.folds[name] = fold
        return expr.Column(name, fold.type)

    def _at_extreme(self, node: exp.Expr) -> Operand:
        """MIN_BY(channel, at): the value where something is least, by the extreme of each value.

        Of values that tie, the one that the policy lists first is taken. MIN_BY knows no row
        without a value, as in DuckDB; ARG_MIN_NULL does, and may be NULL.
        """
        name, rows = function_name(node), Rows(self.scope)
        arity(name, node.expressions, 2)
        value, place = (rows.expr(a, name) for a in node.expressions)
        labels = [value.type.labels[c] for c in value.possible] if value.type.labels else []
        if not labels or len(labels) > _MOST_LABELS or not all(isinstance(x, str) for x in labels):
            raise UnsupportedQueryError(
                f"{name} takes a category of at most {_MOST_LABELS} texts that the policy lists"
            )
        kind = _AT[name]
        there = place
        if value.type.nullable and not name.endswith("_NULL"):
            there = build.when(build.negate(build.is_null(value)), place)
        best, branches = self._column(Fold(kind, there)), []
        for label in labels:
            there = build.when(build.condition(build.compare("=", value, Word(str(label)))), place)
            own = self._column(Fold(kind, there))
            branches.append((build.compare("=", best, own), Word(str(label))))
        return build.case(branches, Null())

    def _value(self, rows: Rows, name: str, arg: exp.Expr) -> Expr:
        one = build.number(Fraction(1))
        if name == "COUNT" and (isinstance(arg, exp.Star) or is_unit(self.scope, arg)):
            return one  # rows without a unit do not exist
        if name in ("COUNT_IF", "COUNTIF"):
            return build.when(rows.condition(arg), one)
        return rows.expr(arg, name)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a call is an aggregate of one person's rows."""
    return _is_fold(node) or function_name(node) in _AT


def without_means(node: exp.Expr) -> exp.Expr:
    """Write AVG(x) as SUM(x) / COUNT(x)."""

    def change(n: exp.Expr) -> exp.Expr:
        return exp.paren(exp.Div(**_parts(n)), copy=False) if _is_mean(n) else n

    return node.transform(change)


def _parts(mean: exp.Expr) -> dict[str, exp.Expr]:
    """The sum and the count that a mean is made of, or the sides of a quotient."""
    if isinstance(mean, exp.Div):
        return {"this": mean.this.copy(), "expression": mean.expression.copy()}
    parts = {"this": mean.copy(), "expression": mean.copy()}
    for name, part in zip(("SUM", "COUNT"), parts.values(), strict=True):
        (part.this if isinstance(part, exp.Filter) else part).set("this", name)
    return parts


def _divided_outside(mean: exp.Expr) -> str | None:
    """The question with a sum and a count inside, and their quotient outside."""
    inner = mean.find_ancestor(exp.Select)
    outer = None if inner is None else inner.find_ancestor(exp.Select)
    if outer is None or not isinstance(mean.parent, exp.Alias) or outer.args.get("with_"):
        return None
    name, root = mean.parent.alias, outer.copy()
    for alias in [a for a in root.find_all(exp.Alias) if a == mean.parent]:
        parts = (exp.alias_(p, f"{name}_{w}") for p, w in
                 zip(_parts(mean).values(), ("sum", "count"), strict=True))  # fmt: skip
        select = alias.parent_select
        if select is not None:
            items = [i for i in select.expressions if i is not alias]
            select.set("expressions", [*items, *parts])
    for column in list(root.find_all(exp.Column)):
        if column.name == name and column.find_ancestor(exp.Select) is root:
            sides = (exp.column(f"{name}_{w}", column.args.get("table")) for w in ("sum", "count"))
            quotient = dict(zip(("this", "expression"), sides, strict=True))
            column.replace(exp.paren(exp.Div(**quotient), copy=False))
    return root.sql()


def _is_mean(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Filter) else node
    whole = not isinstance(node.parent, exp.Filter)
    return whole and function_name(inner) in ("AVG", "MEAN")


def _is_fold(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Filter) else node
    return function_name(inner) in _KINDS
