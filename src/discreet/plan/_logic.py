"""Operators that decide: comparisons, three-valued logic, branches."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from math import lcm
from typing import Any, Final
from typing import Literal as Choice

from discreet._dataclass import dataclass
from discreet.errors import ParameterError
from discreet.plan._nodes import Binary, Constant, Expr, Unary, Writer, literal, need
from discreet.plan._types import Code, Kind, Type

Comparison = Choice["<", "<=", "=", "<>", ">=", ">"]
COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, "=": operator.eq,
    "<>": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip
MIRROR: Final[dict[str, Comparison]] = {
    "<": ">", "<=": ">=", "=": "=", "<>": "<>", ">=": "<=", ">": "<",
}  # fmt: skip
"""The comparison with its sides exchanged."""
OPPOSITE: Final[dict[str, Comparison]] = {
    "<": ">=", "<=": ">", "=": "<>", "<>": "=", ">=": "<", ">": "<=",
}  # fmt: skip
"""The comparison that holds where this one is false."""


@dataclass(frozen=True)
class Compare(Binary):
    """Comparison of two values of one kind (numbers on their common grid)."""

    op: Comparison
    left: Expr
    right: Expr
    words = "{left} {op} {right}"
    boolean = True

    def _infer(self) -> Type:
        a, b = self.left.type, self.right.type
        if a.kind is not b.kind:
            raise ParameterError(f"cannot compare {a} with {b}")
        if a.kind in (Kind.CATEGORY, Kind.TEXT):
            raise ParameterError(f"cannot compare a {a.kind} here; use = or IN with constants")
        self._ends()
        return Type.boolean(null=self.nullable)

    def _apply(self, *codes: Any) -> Code:
        (x, y), (f, g) = codes, self.factors
        return int(COMPARE[self.op](x * f, y * g))

    def sql(self, w: Writer) -> str:
        x, y = self._sides(w)
        return f"({x} {self.op} {y})"


@dataclass(frozen=True)
class OneOf(Unary):
    """Membership of a code, or an opaque text, in a public list.

    Codes outside the argument's range match nothing and are dropped. An empty
    list is false, or NULL for NULL.
    """

    codes: tuple[int | str, ...]
    boolean = True

    def _infer(self) -> Type:
        t = self.arg.type
        if any(isinstance(c, str) is not (t.kind is Kind.TEXT) for c in self.codes):
            raise ParameterError(f"IN list does not fit {t}")
        self._set(codes=tuple(c for c in self.codes if isinstance(c, str) or t.lo <= c <= t.hi))
        return Type.boolean(null=t.nullable)

    def _apply(self, *codes: Any) -> Code:
        return int(codes[0] in self.codes)

    def sql(self, w: Writer) -> str:
        return w.member(w.value(self.arg), self.codes)

    def describe(self) -> str:
        values = [literal(self.arg.type, c) for c in self.codes]
        listed = f"= {values[0]}" if len(values) == 1 else f"in ({', '.join(values)})"
        return f"{self._word(self.arg)} {listed}"


@dataclass(frozen=True)
class Logic(Expr):
    """Three-valued AND or OR of conditions: a deciding value wins over NULL."""

    op: Choice["and", "or"]
    args: tuple[Expr, ...]
    strict = False
    boolean = True
    loose = True

    def _infer(self) -> Type:
        _conditions(f"{self.op.upper()} needs conditions", self.args)
        return Type.boolean(null=self.nullable)

    def _apply(self, *codes: Any) -> Code:
        decisive = 0 if self.op == "and" else 1
        if decisive in codes:
            return decisive
        return None if None in codes else 1 - decisive

    def sql(self, w: Writer) -> str:
        if not self.args:
            return "TRUE" if self.op == "and" else "FALSE"
        return "(" + f" {self.op.upper()} ".join(map(w.truth, self.args)) + ")"

    def describe(self) -> str:
        return f" {self.op} ".join(
            f"({a.describe()})" if isinstance(a, Logic) else a.describe() for a in self.args
        )


@dataclass(frozen=True)
class Not(Unary):
    """Three-valued negation."""

    boolean = True
    words = "not ({arg})"

    def _infer(self) -> Type:
        _conditions("NOT needs a condition", (self.arg,))
        return Type.boolean(null=self.nullable)

    def _apply(self, *codes: Any) -> Code:
        return 1 - int(codes[0])

    def sql(self, w: Writer) -> str:
        return f"(NOT {w.truth(self.arg)})"


@dataclass(frozen=True)
class IsNull(Unary):
    """Whether a value is NULL; never NULL itself."""

    strict = False
    boolean = True
    words = "{arg} is null"

    def _infer(self) -> Type:
        return Type.boolean(null=False)

    def _apply(self, *codes: Any) -> Code:
        return int(codes[0] is None)

    def sql(self, w: Writer) -> str:
        return f"({w.value(self.arg)} IS NULL)"


def _conditions(what: str, args: tuple[Expr, ...]) -> None:
    for a in args:
        need(a.type.kind is Kind.BOOLEAN, what, a.type)


def union(types: list[Type]) -> Type:
    """Smallest type of one kind and grid that contains all `types`."""
    first = types[0]
    for t in types[1:]:
        if (t.kind, t.labels, t.step) != (first.kind, first.labels, first.step):
            raise ParameterError(f"the branches differ in kind or grid: {first} and {t}")
    lo, hi = min(t.lo for t in types), max(t.hi for t in types)
    null = any(t.nullable for t in types)
    return Type(first.kind, lo, hi, first.step, first.labels, nullable=null)


@dataclass(frozen=True)
class Case(Expr):
    """First branch whose condition is true, else the default."""

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr
    strict = False

    def _infer(self) -> Type:
        _conditions("CASE WHEN needs a condition", tuple(c for c, _ in self.branches))
        return union([*(value.type for _, value in self.branches), self.default.type])

    def _apply(self, *codes: Any) -> Code:
        pairs = zip(codes[:-1:2], codes[1::2], strict=True)
        code: Code = next((value for test, value in pairs if test == 1), codes[-1])
        return code

    def sql(self, w: Writer) -> str:
        if not self.branches:
            return w.value(self.default)
        whens = " ".join(f"WHEN {w.truth(c)} THEN {w.value(v)}" for c, v in self.branches)
        return f"CASE {whens} ELSE {w.value(self.default)} END"

    def describe(self) -> str:
        whens = " ".join(f"when {c.describe()} then {v.describe()}" for c, v in self.branches)
        return f"case {whens} else {self.default.describe()} end"


@dataclass(frozen=True)
class Coalesce(Expr):
    """First value that is not NULL."""

    args: tuple[Expr, ...]
    strict = False
    words = "coalesce({args})"

    def _infer(self) -> Type:
        t = union([a.type for a in self.args])
        return t if all(a.type.nullable for a in self.args) else t.not_null()

    def _apply(self, *codes: Any) -> Code:
        first: Code = next((c for c in codes if c is not None), None)
        return first

    def sql(self, w: Writer) -> str:
        return f"COALESCE({', '.join(map(w.value, self.args))})"


def never(test: Expr) -> bool:
    """Whether a condition is true for no public value."""
    match test:
        case Compare(op, left, Constant(int(code))):
            t = left.type
            return (op == "<" and code <= t.lo) or (op == ">" and code >= t.hi)
        case OneOf(_, ()):
            return True
        case Logic("and", args):
            return any(map(never, args))
        case Logic("or", args):
            return bool(args) and all(map(never, args))
    return False


_MOST_LABELS: Final = 1_000


def numeric_labels(t: Type) -> bool:
    """Whether the labels of a category are numbers."""
    plain = all(isinstance(x, int | float) and not isinstance(x, bool) for x in t.labels)
    return t.kind is Kind.CATEGORY and plain


def labels_as_numbers(expr: Expr) -> Expr:
    """Read a category whose labels are numbers as these numbers."""
    if len(expr.possible) > _MOST_LABELS:
        raise ParameterError(f"a category of more than {_MOST_LABELS} values cannot be computed")
    values = {c: Fraction(str(expr.type.labels[c])) for c in expr.possible}
    step = Fraction(1, lcm(*(v.denominator for v in values.values())))
    branches = []
    for code, value in values.items():
        own = Type.number(int(value / step), int(value / step), step, null=False)
        branches.append((OneOf(expr, (code,)), Constant(own.lo, own)))
    return Case(tuple(branches), Constant.null(branches[0][1].type))
