"""BigQuery's differential privacy clause, understood as far as the policy allows.

The policy always wins: a question may lower limits and tighten bounds, never
raise or widen them.

=============================== ==================================================
option                          meaning here
=============================== ==================================================
epsilon, delta                  handed back beside the query, for the whole query
privacy_unit_column             must be the policy's unit
max_groups_contributed          lowers the policy's limit of groups per unit
max_rows_contributed            lowers the policy's limit of rows per unit
group_selection_strategy        PUBLIC_GROUPS needs keys the policy or WHERE lists
contribution_bounds_per_row     clamps each row's value
contribution_bounds_per_group   COUNT: limits rows per group. Else clamps, where a
                                unit has one row per group; refused otherwise,
                                unless the policy's bounds already imply it
=============================== ==================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from sqlglot import exp

from discreet._dataclass import dataclass
from discreet._exact import show
from discreet.errors import QueryError
from discreet.plan import Assembly, Operand, build, expr
from discreet.sql._rows import Rows, constant, whole
from discreet.sql._text import at_most, is_unit, refuse


@dataclass(frozen=True)
class Stated:
    """Bounds written in one aggregate call."""

    per_row: tuple[Fraction, Fraction] | None = None
    per_group: tuple[Fraction, Fraction] | None = None


_STATED: Final = {f"contribution_bounds_{each}": each for each in ("per_row", "per_group")}


def read_bounds(kwargs: Sequence[exp.Kwarg], rows: Rows) -> Stated:
    """Read ``contribution_bounds_per_row => (lo, hi)`` and its sibling."""
    bounds: dict[str, tuple[Fraction, Fraction]] = {}
    for kwarg in kwargs:
        name = kwarg.name.lower()
        if name not in _STATED:
            near = build.nearest(name, _STATED)
            line = f"{near} => {kwarg.expression.sql()}"
            raise refuse(f"argument {build.quote(name)}", line if near else None)
        pair = kwarg.expression
        if not isinstance(pair, exp.Tuple) or len(pair.expressions) != 2 or _STATED[name] in bounds:
            raise QueryError(f"{name} takes one pair of bounds", hint=f"{name} => (0, 100)")
        low, high = (constant(rows.lower(e), name) for e in pair.expressions)
        if low > high:
            raise QueryError(f"{name}: the lower bound is above the upper one")
        bounds[_STATED[name]] = (low, high)
    return Stated(**bounds)


@dataclass
class Bounds:
    """Limits of the whole question that its aggregates' bounds imply."""

    rows_of_unit_in_group: int = 1
    most_rows_per_group: int | None = None

    def count(self, stated: Stated) -> None:
        """Bound a count: no more than so many rows of one unit in a group."""
        if stated.per_row is not None:
            raise refuse("contribution_bounds_per_row in COUNT", "contribution_bounds_per_group")
        if stated.per_group is None:
            return
        most = int(stated.per_group[1])
        if stated.per_group[0] > 0 or most < 1:
            raise QueryError("a count's bounds start at 0 and end at 1 or more", hint="(0, 1)")
        lowest = most if self.most_rows_per_group is None else min(most, self.most_rows_per_group)
        if lowest < self.rows_of_unit_in_group:
            self.most_rows_per_group = lowest

    def apply(self, operand: Operand, stated: Stated, name: str) -> Operand:
        """Clamp one aggregated expression to its stated bounds."""
        if stated.per_row is not None:
            operand = build.clamp(operand, *stated.per_row, f"{name} bounds")
        if stated.per_group is None:
            return operand
        low, high = stated.per_group
        n = self.rows_of_unit_in_group
        t = build.as_number(operand, name).type
        reach = (n * min(t.lo, 0) * t.step, n * max(t.hi, 0) * t.step)
        if n > 1 and low <= reach[0] and reach[1] <= high:
            return operand
        if n > 1:
            raise refuse(
                f"{name} with contribution_bounds_per_group, where a unit has {n} rows per group,",
                f"contribution_bounds_per_row => ({show(low)}, {show(high)})",
            )
        return build.clamp(operand, low, high, f"{name} bounds")


@dataclass(frozen=True)
class Options:
    """The clause's options, read and checked against the policy."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rows: int | None = None
    groups: int | None = None
    public_groups: bool = False


_NAMES = (
    "epsilon",
    "delta",
    "max_groups_contributed",
    "max_rows_contributed",
    "privacy_unit_column",
    "group_selection_strategy",
)


def read_options(hint: exp.Expr | None, assembly: Assembly) -> Options:
    """Read ``OPTIONS(…)`` after WITH DIFFERENTIAL_PRIVACY."""
    if hint is None:
        return Options()
    clause = hint.expressions[0] if hint.expressions else None
    if not isinstance(clause, exp.Anonymous) or clause.name != "OPTIONS":
        select = hint.find_ancestor(exp.Select)
        own = exp.Select() if select is None else select.copy()
        own.set("hint", None)
        raise refuse("an optimiser hint", own.sql())
    options: dict[str, exp.Expr] = {}
    for option in clause.expressions:
        name = option.this.name.lower() if isinstance(option, exp.EQ) else ""
        if name not in _NAMES or name in options:
            near = build.nearest(name, _NAMES) or "epsilon"
            raise refuse(f"option {build.quote(name or 'without =')} here", f"OPTIONS({near} = 1)")
        options[name] = option.expression
    _check_unit(options.get("privacy_unit_column"), assembly)
    rows = Rows(assembly.scope)

    epsilon, delta = (
        constant(rows.lower(options[name]), name) if name in options else None
        for name in ("epsilon", "delta")
    )
    if epsilon is not None and epsilon <= 0:
        raise QueryError("epsilon must be positive", hint="epsilon = 1")
    if delta is not None and not 0 <= delta < 1:
        raise QueryError("delta must lie between 0 and 1", hint="delta = 1e-6")

    def limit(name: str) -> int | None:
        n = whole(rows.lower(options[name]), name) if name in options else None
        if n is not None and n < 1:
            raise QueryError(f"{name} must be at least 1", hint=f"{name} = 1")
        return n

    return Options(
        epsilon,
        delta,
        limit("max_rows_contributed"),
        limit("max_groups_contributed"),
        _public(options.get("group_selection_strategy")),
    )


def _check_unit(node: exp.Expr | None, assembly: Assembly) -> None:
    unit = assembly.scope.unit
    if node is not None and not is_unit(assembly.scope, node):
        stated = "one row" if unit is None else build.quote(unit)
        raise QueryError(
            f"the policy's privacy unit is {stated}, a question cannot choose another",
            hint="leave privacy_unit_column out"
            if unit is None
            else f"privacy_unit_column = {unit}",
        )


def _public(node: exp.Expr | None) -> bool:
    if node is None:
        return False
    name = node.name.upper() if isinstance(node, exp.Column | exp.Literal) else ""
    if name not in ("PUBLIC_GROUPS", "LAPLACE_THRESHOLD"):
        raise refuse("this group_selection_strategy", "group_selection_strategy = PUBLIC_GROUPS")
    return name == "PUBLIC_GROUPS"


_FAR: Final = 1_000
"""A quotient that may be so many times that of the largest values has no usable range."""


def check_ratio(operand: Operand, name: str, node: exp.Expr) -> None:
    """Refuse the average of a quotient whose divisor may come near zero: noise would drown it."""
    if not isinstance(operand, expr.Divide) or operand.right.type.lo == operand.right.type.hi:
        return
    top, bottom, t = operand.left.type, operand.right.type, operand.type
    usual = Fraction(max(abs(top.lo), abs(top.hi)) * top.step)
    usual /= max(abs(bottom.lo), abs(bottom.hi)) * bottom.step
    most = max(abs(t.lo), abs(t.hi)) * t.step
    if most <= _FAR * usual:
        return
    bound = next(b for b in (1, 2, 5, 10, 100, 1_000, 10**4, 10**6, 10**9, 10**18) if b >= usual)
    raise QueryError(
        f"{node.sql()} may reach {float(most):.4g}, as its divisor may come near zero: the noise "
        "would be as large; say how large the quotient can usefully be, or keep the divisor "
        "away from zero in WHERE",
        hint=f"{name}({at_most(node.sql(), bound)})",
    )
