"""The base of row expressions: columns, constants and how grids meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd

from discreet.plan._types import Code, Type

Row = Mapping[str, Code]


def as_int(code: Code) -> int:
    assert isinstance(code, int)
    return code


@dataclass(frozen=True)
class Expr:
    """Base of all row expressions."""

    type: Type = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self._infer())

    def _infer(self) -> Type:
        raise NotImplementedError

    def evaluate(self, row: Row) -> Code:
        """Value of the expression on one row of codes."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[Expr, ...]:
        """Sub-expressions, in order."""
        return ()


@dataclass(frozen=True)
class Column(Expr):
    """A column of the relation below, by name."""

    name: str
    of: Type

    def _infer(self) -> Type:
        return self.of

    def evaluate(self, row: Row) -> Code:
        """Look the column up."""
        return row[self.name]


@dataclass(frozen=True)
class Constant(Expr):
    """A public constant: a code with its type, or NULL."""

    code: int | None
    of: Type

    def _infer(self) -> Type:
        return self.of

    @classmethod
    def number(cls, value: Fraction) -> Constant:
        """Return a numeric constant on the coarsest grid that holds it.

        >>> Constant.number(Fraction(5, 2)).code
        5
        """
        step = Fraction(1, value.denominator)
        code = value.numerator
        return cls(code, Type.number(code, code, step, null=False))

    @classmethod
    def null(cls, like: Type) -> Constant:
        """Return NULL of the kind of `like`."""
        return cls(None, Type(like.kind, like.lo, like.lo, like.step, like.labels))

    def evaluate(self, row: Row) -> Code:  # noqa: ARG002 - a constant ignores the row
        """Return the constant."""
        return self.code


def common_step(left: Type, right: Type) -> Fraction:
    """Coarsest grid that contains both grids."""
    a, b = left.step, right.step
    return Fraction(
        gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator
    )


def step_ratio(step: Fraction, unit: Fraction) -> int:
    ratio = step / unit
    assert ratio.denominator == 1
    return ratio.numerator
