"""Types of the plan: every value but text is a bounded integer code.

A column of any declared type enters the plan as an integer **code** with public
bounds, or NULL:

========== ===================================== ==========================
kind       code                                  value of a code
========== ===================================== ==========================
number     grid index                            ``code * step``
boolean    0 or 1                                false, true
category   position in the public list           ``labels[code]``
date       days since 1970-01-01                 that day
timestamp  ticks of ``step`` seconds since then  that instant (UTC)
text       none: an opaque string                countable, selectable as key
========== ===================================== ==========================

Because the arithmetic of the plan is integer arithmetic with statically known
bounds, it means the same in every engine, cannot overflow, and sensitivities
follow from the bounds exactly.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from fractions import Fraction
from typing import Final, TypeAlias

from discreet import policy as pol
from discreet._dataclass import dataclass, replace
from discreet.errors import ParameterError

Code: TypeAlias = int | str | None
"""A value inside the plan: a code, an opaque text, or NULL."""

LIMIT = 2**62
"""Codes stay below this, so that 64-bit engines never overflow row by row."""

_STEP_BITS = 900
"""Steps stay this many bits long, so that every value has a double."""

EPOCH = dt.date(1970, 1, 1)
EPOCH_TIME = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps are naive UTC throughout


class Kind(StrEnum):
    """The six kinds of value."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    CATEGORY = "category"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TEXT = "text"


_ONE: Final = Fraction(1)


@dataclass(frozen=True, slots=True)
class Type:
    """A kind with its public bounds.

    >>> Type.number(0, 200, step=Fraction(1, 2)).size
    201
    """

    kind: Kind
    lo: int = 0
    hi: int = 0
    step: Fraction = Fraction(1)
    labels: tuple[str | int | bool, ...] = ()
    nullable: bool = True

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise ParameterError(f"empty range: {self.lo} to {self.hi}")
        if max(abs(self.lo), abs(self.hi)) >= LIMIT:
            raise ParameterError(
                "the expression's public range needs more than 62 bits",
                hint="narrow it: WHERE column BETWEEN low AND high, or a coarser step",
            )
        if max(self.step.numerator, self.step.denominator).bit_length() > _STEP_BITS:
            raise ParameterError("the expression's step is too large or too small")

    def __hash__(self) -> int:
        # what types are told apart by; a rational takes as long as all the rest of a question
        return hash((self.lo, self.hi, self.nullable))

    @classmethod
    def number(cls, lo: int, hi: int, step: Fraction | None = None, *, null: bool = True) -> Type:
        """Return the type of grid numbers between two codes."""
        return cls(Kind.NUMBER, lo, hi, step or _ONE, nullable=null)

    @classmethod
    def boolean(cls, *, null: bool = True) -> Type:
        """Return the type of truth values, three-valued when `null`."""
        return cls(Kind.BOOLEAN, 0, 1, nullable=null)

    @property
    def size(self) -> int:
        """Number of codes, NULL not counted."""
        return self.hi - self.lo + 1

    @property
    def is_constant(self) -> bool:
        """Whether every row has the same code."""
        return self.kind is not Kind.TEXT and self.lo == self.hi and not self.nullable

    @property
    def is_numeric(self) -> bool:
        """Whether sums and arithmetic make sense."""
        return self.kind is Kind.NUMBER

    @property
    def moment(self) -> str:
        """The kind of a date or an instant; an empty text for other values."""
        return self.kind.value if self.kind in (Kind.DATE, Kind.TIMESTAMP) else ""

    def within(self, lo: int, hi: int) -> Type:
        """Narrow to the codes also in ``[lo, hi]`` (kept non-empty)."""
        low, high = max(self.lo, lo), min(self.hi, hi)
        if low > high:
            low = high = min(max(lo, self.lo), self.hi)
        return replace(self, lo=low, hi=high)

    def not_null(self) -> Type:
        """Return the same type without NULL."""
        return replace(self, nullable=False)

    def value(self, code: Code) -> object:
        """Turn a code back into what a person reads."""
        if code is None or isinstance(code, str):
            return code
        match self.kind:
            case Kind.BOOLEAN:
                return bool(code)
            case Kind.CATEGORY:
                return self.labels[code]
            case Kind.DATE:
                return EPOCH + dt.timedelta(days=code)
            case Kind.TIMESTAMP:
                return EPOCH_TIME + dt.timedelta(microseconds=int(code * self.step * 1_000_000))
        number = code * self.step
        return int(number) if number.denominator == 1 else float(number)

    def __str__(self) -> str:
        null = " or NULL" if self.nullable else ""
        match self.kind:
            case Kind.TEXT:
                return f"text{null}"
            case Kind.BOOLEAN:
                return f"boolean{null}"
            case Kind.CATEGORY:
                return f"category of {len(self.labels)}{null}"
        return f"{self.kind} {self.value(self.lo)} to {self.value(self.hi)}{null}"


def of_column(column: pol.Column) -> Type:
    """Return the type that a policy's column has inside the plan."""
    null = column.nullable
    match column:
        case pol.Category():
            labels = column.domain
            return Type(Kind.CATEGORY, 0, len(labels) - 1, labels=labels, nullable=null)
        case pol.Integer():
            return Type.number(column.min, column.max, null=null)
        case pol.Real():
            lo, hi = column.min / column.step, column.max / column.step
            return Type.number(int(lo), int(hi), column.step, null=null)
        case pol.Date():
            first, last = (column.min - EPOCH).days, (column.max - EPOCH).days
            return Type(Kind.DATE, first, last, nullable=null)
        case pol.Timestamp():
            step = column.step
            first, last = timestamp_code(column.min, step), timestamp_code(column.max, step)
            return Type(Kind.TIMESTAMP, first, last, step, nullable=null)
        case pol.Boolean():
            return Type.boolean(null=null)
        case pol.Text():
            return Type(Kind.TEXT, nullable=null)
    raise AssertionError(column)


def timestamp_code(instant: dt.datetime, step: Fraction) -> int:
    """Tick in which an instant falls, ticks of `step` seconds since the epoch."""
    micros = (instant - EPOCH_TIME) // dt.timedelta(microseconds=1)
    return int(Fraction(micros, 1_000_000) / step // 1)
