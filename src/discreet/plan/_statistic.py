"""What every statistic is: its names, what it suits, what it measures and shows.

The statistics themselves are classes of ``_statistics``, one each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from discreet._dataclass import dataclass, field
from discreet.errors import ParameterError
from discreet.plan._expr import Expr
from discreet.plan._families import Moment
from discreet.plan._formula import Formula
from discreet.plan._types import Kind, Type

if TYPE_CHECKING:
    from discreet.plan._lower import Lowering


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a statistic in SQL: parameters it fixes, parameters that follow."""

    sql: str
    fixed: Mapping[str, object] = field(default_factory=dict)
    takes: tuple[str, ...] = ()
    optional: bool = False
    """Whether what it takes may be left out."""


@dataclass(frozen=True, slots=True)
class Fluent:
    """A function of the fluent API: the SQL call that it stands for."""

    name: str
    sql: str
    doc: str
    takes: tuple[tuple[str, object], ...] = ()
    """Further parameters with their defaults (``...``: must be given)."""
    population: str | None = None
    """SQL name for ``sample=False``, where there is one."""
    paired: bool = False
    """Whether what it takes is another column, not a constant."""
    keywords: tuple[str, ...] = ()
    """Parameters that are given by name, or not at all."""


@dataclass(frozen=True)
class Statistic(ABC):
    """One statistic of a row expression."""

    expr: Expr | None = None

    word: ClassVar[str]
    suits: ClassVar[frozenset[Kind]] = frozenset(Kind)
    must: ClassVar[str] = ""
    """What the expression must be, where not everything suits."""
    names: ClassVar[tuple[Name, ...]] = ()
    fluent: ClassVar[tuple[Fluent, ...]] = ()
    needs_expr: ClassVar[bool] = True
    bounded: ClassVar[bool] = True
    """Whether a call may state contribution bounds."""
    selects: ClassVar[bool] = True
    """Whether open keys are shown, hence selected."""
    ordered: ClassVar[bool] = False
    """Whether WITHIN GROUP may name its expression."""
    adds_up: ClassVar[bool] = False
    """Whether its parts in a union of groups are the sums of those of each."""
    moment: ClassVar[Moment | None] = None
    """What it needs of its expression, where a joint part may answer."""
    by_name: ClassVar[tuple[str, ...]] = ()
    """Parameters that a call may state by name."""
    pairs: ClassVar[bool] = False
    """Whether a call names two columns."""
    kinds: ClassVar[list[type[Statistic]]] = []

    def __init_subclass__(cls) -> None:
        Statistic.kinds.append(cls)

    def __post_init__(self) -> None:
        name = self.word.upper()
        if self.expr is None:
            if self.needs_expr:
                raise ParameterError(f"{name} needs an expression")
        elif self.expr.type.kind not in self.suits:
            raise ParameterError(f"{name} needs {self.must}, got {self.expr.type}")

    @classmethod
    def of(cls, expr: Expr | None, **parameters: object) -> Self:
        """Make the statistic in its one canonical form."""
        return cls(expr, **parameters)

    @classmethod
    def parameter(cls, value: Fraction) -> object:
        """Read a further argument of the SQL call."""
        return value

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """Row expressions that it reads."""
        return () if self.expr is None else (self.expr,)

    @property
    def row_values(self) -> tuple[Fraction, Fraction] | None:
        """Least and greatest number that one row adds, where rows are added up."""
        return None

    @property
    def rounded(self) -> str | None:
        """How rounded values move it, where intervals allow for that (``_rounding``)."""
        return None

    @property
    def result(self) -> Type | None:
        """Type of the answer, where it is a value of the column; None: a number."""
        return None

    @property
    def listed(self) -> bool:
        """Whether the answer is a list of values."""
        return False

    @abstractmethod
    def lower(self, low: Lowering) -> Formula:
        """Ask for parts; say how the answer follows from them."""

    def __str__(self) -> str:
        arg = "*" if self.expr is None else self.expr.describe()
        more = "".join(f", {x}" for x in self._details())
        return f"{self.word}({arg}{more})"

    def _details(self) -> tuple[str, ...]:
        return ()

    @property
    def _value(self) -> Expr:
        assert self.expr is not None
        return self.expr
