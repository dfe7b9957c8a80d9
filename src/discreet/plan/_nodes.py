"""The base of row expressions: what an operator is, columns and constants.

An operator is one class. It says its bounds (``_infer``), its meaning (``_apply``,
the reference that every engine must equal bit for bit), its SQL (``sql``, through
a :class:`Writer` that an engine provides) and its words. A class without the
first three cannot be instantiated, one without words fails a test.

Guarantee
---------
On *every* row of codes within the policy's bounds, NULL included, an operator's
value lies in its type or is NULL, and nothing that its SQL computes on the way
leaves 64 bits or fails. Engines test conditions in whatever order they like and
compute keys on rows that WHERE excludes, so no operator relies on a condition:
where bounds are narrowed by one, a :class:`~discreet.plan.expr.Guard` moves the
value into them.

Proof sketch
------------
By induction over the tree. A column's codes lie in its type by cleaning. An
operator's type is computed by interval arithmetic from its arguments' types, and
its constructor puts every intermediate, every factor and every constant it will
write through :class:`Type`, which refuses what reaches 2^62.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import Any, ClassVar, Protocol

from discreet._dataclass import dataclass, field
from discreet._exact import show
from discreet.errors import ParameterError
from discreet.plan._types import LIMIT, Code, Kind, Type
from discreet.plan._weight import LISTED, built

Row = Mapping[str, Code]


class Writer(Protocol):
    """How an engine spells what operators are made of.

    ``bind`` and ``hold`` give names to values, which may then be written more than
    once. ``quotient`` cuts off towards zero, ``floor`` rounds an integer within
    `bounds` over a positive constant down, and ``calendar`` reads a part of the date
    that lies some days after 1970-01-01. ``matches`` tests a regular expression, ``like`` a
    pattern in which ``!`` escapes, ``trimmed`` takes plain spaces off both ends. ``steps`` is the
    value for the range between edges that an integer lies in.
    """

    def column(self, name: str) -> str: ...
    def value(self, node: Expr) -> str: ...
    def truth(self, node: Expr) -> str: ...
    def bind(self, node: Expr) -> str: ...
    def hold(self, sql: str) -> str: ...
    def integer(self, code: int) -> str: ...
    def text(self, value: str) -> str: ...
    def member(self, x: str, codes: tuple[int | str, ...]) -> str: ...
    def quotient(self, n: str, d: str) -> str: ...
    def floor(self, n: str, d: int, bounds: tuple[int, int]) -> str: ...
    def absolute(self, x: str) -> str: ...
    def calendar(self, part: str, days: str) -> str: ...
    def matches(self, x: str, pattern: str) -> str: ...
    def like(self, x: str, pattern: str) -> str: ...
    def trimmed(self, x: str) -> str: ...
    def steps(self, x: str, edges: Sequence[int], values: Sequence[int]) -> str: ...
    def null_text(self) -> str: ...


class _Plainly(ABCMeta):
    """Abstract classes that nobody registers others with: asked hundreds of times a question."""

    __instancecheck__ = type.__instancecheck__


@dataclass(frozen=True)
class Expr(metaclass=_Plainly):
    """Base of all row expressions."""

    type: Type = field(init=False, repr=False, compare=False)
    children: tuple[Expr, ...] = field(init=False, repr=False, compare=False)
    """Sub-expressions, in order."""
    weight: int = field(init=False, repr=False, compare=False)
    """Operators and columns of it, and long lists, each as often as it would be written."""

    __match_args__: ClassVar[tuple[str, ...]]
    strict: ClassVar[bool] = True
    """Whether NULL in any argument gives NULL."""
    boolean: ClassVar[bool] = False
    """Whether ``sql`` writes a truth value rather than a code."""
    words: ClassVar[str] = ""
    """The description, with the node's fields in braces."""
    loose: ClassVar[bool] = False
    """Whether the words are an infix: such words in such words need parentheses."""
    own_weight: ClassVar[int] = 1
    """What it weighs beside its arguments: constants weigh nothing."""
    rises: ClassVar[bool] = False
    """Whether it has one argument, and a larger one never gives a smaller value."""

    def __post_init__(self) -> None:
        values = [getattr(self, n) for n in self.__match_args__]
        children = tuple(_inside(values))
        listed = sum([len(v) for v in values if type(v) is tuple])
        weight = built(sum([c.weight for c in children], self.own_weight + listed // LISTED))
        self._set(children=children, weight=weight)
        self._set(type=self._infer())

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Columns that it reads, each once."""
        return tuple(dict.fromkeys([c for e in self.children for c in e.columns]))

    @property
    def _set(self) -> Callable[..., None]:
        """Settle fields while the node is being built: it is frozen afterwards."""
        return self.__dict__.update

    @abstractmethod
    def _infer(self) -> Type:
        """Type of the value; settles and checks the node's own constants."""

    @abstractmethod
    def _apply(self, *codes: Any) -> Code:
        """Value for the codes of all children (none is NULL where `strict`)."""

    @abstractmethod
    def sql(self, w: Writer) -> str:
        """Write the operator, arguments included."""

    def evaluate(self, row: Row) -> Code:
        """Value of the expression on one row of codes."""
        codes = [child.evaluate(row) for child in self.children]
        return None if self.strict and None in codes else self._apply(*codes)

    def describe(self) -> str:
        """Print close to the SQL it could have come from."""
        names = [name for name in self.__match_args__ if f"{{{name}}}" in self.words]
        return self.words.format(**{name: self._word(getattr(self, name)) for name in names})

    def _word(self, value: object) -> str:
        match value:
            case Expr():
                text = value.describe()
                return f"({text})" if self.loose and value.loose else text
            case tuple():
                return ", ".join(map(self._word, value))
            case Fraction():
                return show(value)
            case int() | None:
                return literal(self.type, value)
        return str(value)

    @property
    def possible(self) -> Sequence[int]:
        """Public codes that the value can take."""
        return range(self.type.lo, self.type.hi + 1)

    @property
    def nullable(self) -> bool:
        """Whether any argument can be NULL."""
        return any(c.type.nullable for c in self.children)


@dataclass(frozen=True)
class Unary(Expr):
    """An operator with one argument."""

    arg: Expr


class Binary(Expr):
    """An operator between two arguments, which meet on their common grid."""

    left: Expr
    right: Expr
    loose = True

    @cached_property
    def factors(self) -> tuple[int, int]:
        """Integers by which the codes are multiplied to stand on one grid."""
        unit = common_step(self.left.type, self.right.type)
        return int(self.left.type.step / unit), int(self.right.type.step / unit)

    def _ends(self) -> tuple[int, int, int, int]:
        """Bounds of both sides on the common grid."""
        f, g = self.factors
        return *times(self.left.type, f), *times(self.right.type, g)

    def _sides(self, w: Writer) -> tuple[str, str]:
        f, g = self.factors
        return scaled(w, self.left, f), scaled(w, self.right, g)


@dataclass(frozen=True)
class Column(Expr):
    """A column of the relation below, by name."""

    name: str
    of: Type
    words = "{name}"

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (self,)

    def _infer(self) -> Type:
        return self.of

    def _apply(self, *codes: Any) -> Code:  # noqa: ARG002 - there are none
        raise AssertionError("a column is looked up, not computed")

    def evaluate(self, row: Row) -> Code:
        return row[self.name]

    def sql(self, w: Writer) -> str:
        return w.column(self.name)


@dataclass(frozen=True)
class Constant(Expr):
    """A public constant: a code with its type, or NULL."""

    code: int | None
    of: Type
    words = "{code}"
    own_weight = 0

    def _infer(self) -> Type:
        if self.code is not None and not self.of.lo <= self.code <= self.of.hi:
            raise ParameterError(f"the constant does not lie in its type: {self.of}")
        return self.of

    @classmethod
    def number(cls, value: Fraction) -> Constant:
        """Return a numeric constant: a whole number of parts, or itself the step if that is large.

        >>> Constant.number(Fraction(5, 2)).code, Constant.number(Fraction(10**30)).code
        (5, 1)
        """
        code, step = value.numerator, Fraction(1, value.denominator)
        if abs(code) >= LIMIT:
            code, step = (1 if code > 0 else -1), abs(value)
        return cls(code, Type.number(code, code, step, null=False))

    @classmethod
    def like(cls, code: int, t: Type) -> Constant:
        """Return a constant of the kind and on the grid of a type."""
        return cls(code, Type(t.kind, code, code, t.step, t.labels, nullable=False))

    @classmethod
    def null(cls, like: Type) -> Constant:
        """Return NULL of the kind of `like`."""
        return cls(None, Type(like.kind, like.lo, like.lo, like.step, like.labels))

    def _apply(self, *codes: Any) -> Code:  # noqa: ARG002 - there are none
        return self.code

    def sql(self, w: Writer) -> str:
        if self.code is None:
            return w.null_text() if self.type.kind is Kind.TEXT else "CAST(NULL AS BIGINT)"
        return w.integer(self.code)


def _inside(values: Iterable[object]) -> list[Expr]:
    exprs: list[Expr] = []
    for value in values:
        if isinstance(value, Expr):
            exprs.append(value)
        elif isinstance(value, tuple):
            exprs += _inside(value)
    return exprs


def need(ok: bool, what: str, *types: Type) -> None:
    """Refuse arguments of the wrong kind."""
    if not ok:
        raise ParameterError(f"{what}, got {' and '.join(map(str, types))}")


def common_step(left: Type, right: Type) -> Fraction:
    """Coarsest grid that contains both grids."""
    a, b = left.step, right.step
    return Fraction(
        gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator
    )


def times(t: Type, factor: int) -> tuple[int, int]:
    """Bounds of the codes times a factor; both must obey the range rule."""
    ends = sorted((t.lo * factor, t.hi * factor))
    Type.number(min(factor, ends[0]), max(factor, ends[1]))
    return ends[0], ends[1]


def scaled(w: Writer, node: Expr, factor: int) -> str:
    """Write a value times a factor."""
    value = w.value(node)
    return value if factor == 1 else f"({value} * {w.integer(factor)})"


def literal(t: Type, code: Code) -> str:
    """Print a code as SQL would."""
    if code is None:
        return "NULL"
    if t.kind is Kind.NUMBER and isinstance(code, int):
        return show(code * t.step)
    value = t.value(code)
    return str(value).upper() if isinstance(value, bool) else quoted(str(value))


def quoted(text: str) -> str:
    """Print a text in SQL's quotes."""
    return "'" + text.replace("'", "''") + "'"
