# ruff: noqa: A002 - min, max and format are the words of the policy file
"""Columns of days and of moments, counted from 1970-01-01 00:00 UTC."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final, cast

from discreet._dataclass import dataclass
from discreet._exact import Number, show
from discreet.policy._check import number, refusal, settle
from discreet.policy._domain import Declaration, Outside, bounded, column_name
from discreet.policy._formats import date_format, date_pattern

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - naive means UTC throughout
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_MICRO: Final = Fraction(1, 10**6)


class Moment(Declaration):
    """Moments that a CSV file may write in a form of its own."""

    __slots__ = ()
    format: str | None

    @property
    def pattern(self) -> str | None:
        """Regular expression of the texts that `format` reads; all others are NULL."""
        return None if self.format is None else date_pattern(self.format)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Date(Moment):
    """A calendar day from `min` to `max`.

    Parameters
    ----------
    name
        Column name.
    min, max
        Public bounds, both included: dates, or text such as ``"2024-12-31"``.
    outside
        ``"clamp"`` or ``"null"``: what a day beyond the bounds becomes.
    format
        How a CSV file writes it, as in ``"%d.%m.%Y"``; a time of day is left out.
    nullable, null
        See the module's table.

    Examples
    --------
    >>> Date("born", "1900-01-01", "1900-01-03").grid
    (-25567, -25565)
    """

    type: ClassVar[str] = "date"
    name: str
    min: dt.date
    max: dt.date
    outside: Outside = "clamp"
    format: str | None = None
    nullable: bool = True
    null: dt.date | None = None

    def __init__(
        self,
        name: str,
        min: dt.date | str | None = None,
        max: dt.date | str | None = None,
        *,
        outside: Outside = "clamp",
        format: str | None = None,
        nullable: bool = True,
        null: dt.date | str | None = None,
    ) -> None:
        own, subject = column_name(name)
        usual = (dt.date(2000, 1, 1), dt.date(2099, 12, 31))
        facts = bounded((min, max), (outside, nullable, null), subject, _day, usual)
        settle(self, name=own, format=date_format(format, subject), **facts)

    @property
    def grid(self) -> tuple[int, int]:
        """Least and greatest grid integer: days since 1970-01-01."""
        first = _EPOCH.toordinal()
        return (self.min.toordinal() - first, self.max.toordinal() - first)


def _day(value: object, subject: str, key: str) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    try:
        return dt.date.fromisoformat(cast("str", value))
    except (TypeError, ValueError):
        raise refusal(
            f"{subject}: {key} must be a date", key, fix={key: dt.date(2000, 1, 1)}
        ) from None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Timestamp(Moment):
    """A moment from `min` to `max`, in UTC, on a grid of `step` seconds.

    Parameters
    ----------
    name
        Column name.
    min, max
        Public bounds, both included, both whole steps from 1970-01-01 00:00 UTC.
        Without an offset they are UTC; with one they are converted; a date is
        its midnight.
    step
        Seconds between grid points, whole microseconds; one microsecond if left out.
    outside
        ``"clamp"`` or ``"null"``: what a moment beyond the bounds becomes.
    format
        How a CSV file writes it, as in ``"%d.%m.%Y %H:%M"``, in UTC.
    nullable, null
        See the module's table.

    Examples
    --------
    >>> Timestamp("seen", "1970-01-01", "1970-01-02", step=3600).grid
    (0, 24)
    """

    type: ClassVar[str] = "timestamp"
    name: str
    min: dt.datetime
    max: dt.datetime
    step: Fraction = _MICRO
    outside: Outside = "clamp"
    format: str | None = None
    nullable: bool = True
    null: dt.datetime | None = None

    def __init__(
        self,
        name: str,
        min: dt.date | str | None = None,
        max: dt.date | str | None = None,
        step: Number = _MICRO,
        *,
        outside: Outside = "clamp",
        format: str | None = None,
        nullable: bool = True,
        null: dt.date | str | None = None,
    ) -> None:
        own, subject = column_name(name)
        width = number(step, subject, "step")
        if width <= 0 or (width / _MICRO).denominator != 1:
            raise refusal(
                f"{subject}: step must be a whole number of microseconds", "step", fix={"step": 1}
            )
        usual, read = (dt.date(2000, 1, 1), dt.date(2100, 1, 1)), partial(_moment, width)
        facts = bounded((min, max), (outside, nullable, null), subject, read, usual)
        settle(self, name=own, step=width, format=date_format(format, subject), **facts)

    @property
    def grid(self) -> tuple[int, int]:
        """Least and greatest grid integer: steps since 1970-01-01 00:00 UTC."""
        return (int(_seconds(self.min) / self.step), int(_seconds(self.max) / self.step))


def _seconds(moment: dt.datetime) -> Fraction:
    return Fraction((moment - _EPOCH) // _MICROSECOND, 10**6)


def _moment(step: Fraction, value: object, subject: str, key: str) -> dt.datetime:
    try:
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            value = dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - UTC
        moment = (
            value
            if isinstance(value, dt.datetime)
            else dt.datetime.fromisoformat(cast("str", value))
        )
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError):
        raise refusal(
            f"{subject}: {key} must be a date and time", key, fix={key: dt.date(2000, 1, 1)}
        ) from None
    steps = _seconds(moment) / step
    if steps.denominator != 1:
        whole_steps = steps.__ceil__() if key == "max" else steps.__floor__()
        try:
            near = _EPOCH + int(whole_steps * step / _MICRO) * _MICROSECOND
        except OverflowError:
            near = _EPOCH
        raise refusal(
            f"{subject}: {key} is not a whole number of steps of {show(step)} s "
            "from 1970-01-01 00:00 UTC",
            key,
            fix={key: near},
        )
    return moment.replace(fold=0)
