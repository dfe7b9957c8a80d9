"""Row expressions that decide: comparisons, three-valued logic, branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Choice

from discreet.errors import ParameterError
from discreet.plan._nodes import Expr, Row, as_int, common_step, step_ratio
from discreet.plan._types import Code, Kind, Type

Comparison = Choice["<", "<=", "=", "<>", ">=", ">"]


@dataclass(frozen=True)
class Compare(Expr):
    """Comparison of two values of one kind (numbers on their common grid)."""

    op: Comparison
    left: Expr
    right: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """Both sides."""
        return (self.left, self.right)

    @property
    def factors(self) -> tuple[int, int]:
        """Integers by which the codes are multiplied before comparing."""
        unit = common_step(self.left.type, self.right.type)
        return step_ratio(self.left.type.step, unit), step_ratio(self.right.type.step, unit)

    def _infer(self) -> Type:
        a, b = self.left.type, self.right.type
        if a.kind is not b.kind:
            raise ParameterError(f"cannot compare {a} with {b}")
        if a.kind in (Kind.CATEGORY, Kind.TEXT):
            raise ParameterError(f"cannot compare a {a.kind} here; use = or IN with constants")
        f, g = self.factors
        Type.number(min(a.lo * f, b.lo * g), max(a.hi * f, b.hi * g))
        return Type.boolean(null=a.nullable or b.nullable)

    def evaluate(self, row: Row) -> Code:
        """Compare; NULL if either side is."""
        a, b = self.left.evaluate(row), self.right.evaluate(row)
        if a is None or b is None:
            return None
        f, g = self.factors
        x, y = as_int(a) * f, as_int(b) * g
        results = {"<": x < y, "<=": x <= y, "=": x == y, "<>": x != y, ">=": x >= y, ">": x > y}
        return int(results[self.op])


@dataclass(frozen=True)
class OneOf(Expr):
    """Membership of a code, or an opaque text, in a public list."""

    arg: Expr
    codes: tuple[int | str, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        text = self.arg.type.kind is Kind.TEXT
        if any(isinstance(c, str) is not text for c in self.codes):
            raise ParameterError(f"IN list does not fit {self.arg.type}")
        return Type.boolean(null=self.arg.type.nullable)

    def evaluate(self, row: Row) -> Code:
        """Test membership; NULL for NULL."""
        a = self.arg.evaluate(row)
        return None if a is None else int(a in self.codes)


@dataclass(frozen=True)
class Logic(Expr):
    """Three-valued AND or OR of conditions."""

    op: Choice["and", "or"]
    args: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        """The conditions."""
        return self.args

    def _infer(self) -> Type:
        for a in self.args:
            if a.type.kind is not Kind.BOOLEAN:
                raise ParameterError(f"{self.op.upper()} needs conditions, got {a.type}")
        return Type.boolean(null=any(a.type.nullable for a in self.args))

    def evaluate(self, row: Row) -> Code:
        """Kleene logic: a deciding value wins over NULL."""
        values = [a.evaluate(row) for a in self.args]
        decisive = 0 if self.op == "and" else 1
        if decisive in values:
            return decisive
        return None if None in values else 1 - decisive


@dataclass(frozen=True)
class Not(Expr):
    """Three-valued negation."""

    arg: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """The condition."""
        return (self.arg,)

    def _infer(self) -> Type:
        if self.arg.type.kind is not Kind.BOOLEAN:
            raise ParameterError(f"NOT needs a condition, got {self.arg.type}")
        return Type.boolean(null=self.arg.type.nullable)

    def evaluate(self, row: Row) -> Code:
        """Negate; NULL stays NULL."""
        a = self.arg.evaluate(row)
        return None if a is None else 1 - as_int(a)


@dataclass(frozen=True)
class IsNull(Expr):
    """Whether a value is NULL; never NULL itself."""

    arg: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        return Type.boolean(null=False)

    def evaluate(self, row: Row) -> Code:
        """Test for NULL."""
        return int(self.arg.evaluate(row) is None)


def union(types: list[Type]) -> Type:
    """Smallest type of one kind and grid that contains all `types`."""
    first = types[0]
    for t in types[1:]:
        if t.kind is not first.kind or t.labels != first.labels or t.step != first.step:
            raise ParameterError(f"the branches differ in kind or grid: {first} and {t}")
    return Type(
        first.kind,
        min(t.lo for t in types),
        max(t.hi for t in types),
        first.step,
        first.labels,
        nullable=any(t.nullable for t in types),
    )


@dataclass(frozen=True)
class Case(Expr):
    """First branch whose condition is true, else the default."""

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """Conditions and results, then the default."""
        return (*(e for pair in self.branches for e in pair), self.default)

    def _infer(self) -> Type:
        for condition, _ in self.branches:
            if condition.type.kind is not Kind.BOOLEAN:
                raise ParameterError(f"CASE WHEN needs a condition, got {condition.type}")
        return union([*(value.type for _, value in self.branches), self.default.type])

    def evaluate(self, row: Row) -> Code:
        """Evaluate the first true branch."""
        for condition, value in self.branches:
            if condition.evaluate(row) == 1:
                return value.evaluate(row)
        return self.default.evaluate(row)


@dataclass(frozen=True)
class Coalesce(Expr):
    """First value that is not NULL."""

    args: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        """The alternatives."""
        return self.args

    def _infer(self) -> Type:
        t = union([a.type for a in self.args])
        return t if all(a.type.nullable for a in self.args) else t.not_null()

    def evaluate(self, row: Row) -> Code:
        """Take the first non-NULL value."""
        for a in self.args:
            if (value := a.evaluate(row)) is not None:
                return value
        return None
