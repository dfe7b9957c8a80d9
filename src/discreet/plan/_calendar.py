"""Dates and times: truncation, differences, spans and names, all as integers.

Engines disagree about most of their own calendar functions (types, first day of a
week, what a month's difference is), so only calendar *parts* are read from them
(:class:`~discreet.plan.expr.DatePart`); the rest is arithmetic on days. A truncated
date stays a date. It lists the codes that it can take, so that months or weeks are
keys without days between them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, overload

from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import _build as build
from discreet.plan._build import Operand, Span, Word
from discreet.plan._curves import table
from discreet.plan._expr import (
    Arithmetic,
    AsNumber,
    Case,
    Clamp,
    Constant,
    DatePart,
    Expr,
    Labelled,
    Moment,
    OneOf,
    Part,
    Rescale,
)
from discreet.plan._types import EPOCH, EPOCH_TIME, Kind, Type

_DAY: Final = Fraction(86_400)
_SECONDS: Final = {"hour": Fraction(3_600), "minute": Fraction(60), "second": Fraction(1)}
_UNITS: Final = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
MAX_LISTED: Final = 100_000
"""Dates that a truncated date may list; beyond them it has a range and no list."""


def _moment(operand: Operand, where: str) -> Expr:
    """Insist on a date or time; a text constant is read as one."""
    if isinstance(operand, Word):
        return build.instant(operand.text)
    expr = build.typed(operand, where)
    if expr.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise QueryError(f"{where} needs a date or a time; {build.name_of(expr)} is neither")
    return expr


def _unit(word: str, where: str) -> str:
    name = word.casefold().rstrip("s") if word.casefold() != "s" else "second"
    if name not in _UNITS:
        near = build.nearest(name, _UNITS) or "month"
        raise UnsupportedQueryError(f"{where} by {build.quote(word)} is not supported", hint=near)
    return name


_MOST_MONTHS: Final = 2_400
"""Months between the ends of a column that moves by months."""


def seconds(expr: Expr) -> Expr:
    """Seconds since 1970, on the grid of a time's step."""
    step = _DAY if expr.type.kind is Kind.DATE else expr.type.step
    return build.scaled(AsNumber(expr), step)


def days(expr: Expr) -> Expr:
    """Days since 1970 as a whole number."""
    if expr.type.kind is Kind.DATE:
        return AsNumber(expr)
    return build.scaled(Rescale(seconds(expr), _DAY, "floor"), 1 / _DAY)


def as_date(operand: Operand) -> Expr:
    """Return the day of a date or time."""
    expr = _moment(operand, "CAST to DATE")
    return expr if expr.type.kind is Kind.DATE else Moment(days(expr), Kind.DATE)


def _folded(expr: Expr) -> Expr:
    """A calendar value of a constant as a constant: a clamp does not narrow what is constant."""
    code = None if expr.columns else expr.evaluate({})
    return Constant.like(code, expr.type) if isinstance(code, int) else expr


def _plus(expr: Expr, number: int) -> Expr:
    return build.arithmetic("+", expr, build.number(Fraction(number)))


def _first(day: dt.date, unit: str) -> dt.date:
    """First day of the unit in which a day falls."""
    if unit == "week":
        return day - dt.timedelta(days=min(day.weekday(), (day - dt.date.min).days))
    month = {"month": day.month, "quarter": (day.month - 1) // 3 * 3 + 1, "year": 1}[unit]
    return day.replace(month=month, day=1)


_INTO: Final[dict[str, Part]] = {"week": "weekday", "month": "day", "year": "doy"}
"""Which part counts the days since the unit began, from one."""


def _began(expr: Expr, unit: str) -> Expr:
    """Day number of the first day of the unit in which a date falls."""
    if unit == "quarter":
        first = _began(expr, "month")
        second = _began(_day_of(_plus(first, -1), expr), "month")
        third = _began(_day_of(_plus(second, -1), expr), "month")
        place = DatePart("month", expr)
        branches = ((OneOf(place, (1, 4, 7, 10)), first), (OneOf(place, (2, 5, 8, 11)), second))
        return Case(branches, third)
    return _plus(build.arithmetic("-", days(expr), DatePart(_INTO[unit], expr)), 1)


def _day_of(number: Expr, like: Expr) -> Expr:
    """Read a day number as a date, moved into a range in which every year has its months."""
    low, high = _edges(like.type)
    begin, end = (_first(low, "quarter") - EPOCH).days, (high - EPOCH).days
    return Moment(Clamp(number, begin, end), Kind.DATE)


def _edges(t: Type) -> tuple[dt.date, dt.date]:
    first, last = t.value(t.lo), t.value(t.hi)
    return tuple(v.date() if isinstance(v, dt.datetime) else v for v in (first, last))  # type: ignore[return-value] # values of dates and times are dates and times


def truncated(word: str, operand: Operand) -> Expr:
    """Begin of the minute, hour, day, week (Monday), month, quarter or year."""
    unit, expr = _unit(word, "DATE_TRUNC"), _moment(operand, "DATE_TRUNC")
    if unit in _SECONDS:
        if expr.type.kind is Kind.DATE:
            raise QueryError(f"a date has no {unit}", hint="DATE_TRUNC('day', …)")
        return Moment(Rescale(seconds(expr), _SECONDS[unit], "floor"), Kind.TIMESTAMP)
    if unit == "day":
        return as_date(expr)
    low, high = (_first(day, unit) for day in _edges(expr.type))
    begin, end = (low - EPOCH).days, (high - EPOCH).days
    first = Clamp(_began(expr, unit), begin, end)
    return _folded(Moment(first, Kind.DATE, _listed(low, high, unit)))


class Firsts(Sequence[int]):
    """Day numbers of the firsts of some months, counted from year zero: listed, not written out.

    >>> list(Firsts(range(1970 * 12, 1970 * 12 + 9, 3)))
    [0, 90, 181]
    """

    __slots__ = ("months",)

    def __init__(self, months: range) -> None:
        self.months = months

    def __len__(self) -> int:
        return len(self.months)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Firsts: ...
    def __getitem__(self, index: int | slice) -> int | Firsts:
        part = self.months[index]
        return Firsts(part) if isinstance(part, range) else (_first_of(part) - EPOCH).days

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Firsts) and self.months == other.months

    def __hash__(self) -> int:
        return hash(self.months)

    def __repr__(self) -> str:
        return f"Firsts({self.months})"


def _listed(low: dt.date, high: dt.date, unit: str) -> Sequence[int]:
    """Day numbers of all firsts of a unit between two of them."""
    if unit == "week":
        return range((low - EPOCH).days, (high - EPOCH).days + 1, 7)
    each = {"month": 1, "quarter": 3, "year": 12}[unit]
    return Firsts(range(low.year * 12 + low.month - 1, high.year * 12 + high.month, each))


def index(unit: str, expr: Expr) -> Expr:
    """Whole number that grows by one with every unit of the calendar."""
    match unit:
        case "year":
            return DatePart("year", expr)
        case "quarter" | "month":
            each = 12 if unit == "month" else 4
            years = build.arithmetic("*", DatePart("year", expr), build.number(Fraction(each)))
            part = DatePart("month" if unit == "month" else "quarter", expr)
            low, high = (_place(day, unit) for day in _edges(expr.type))
            place = _plus(build.typed(Arithmetic("+", years, part), unit), -1)
            return _folded(Clamp(place, low, high))
        case "week":  # 1969-12-29 was a Monday
            return Rescale(build.scaled(_plus(days(expr), 3), Fraction(1, 7)), Fraction(1), "floor")
        case "day":
            return days(expr)
    return build.scaled(Rescale(seconds(expr), _SECONDS[unit], "floor"), 1 / _SECONDS[unit])


def _place(day: dt.date, unit: str) -> int:
    return day.year * 12 + day.month - 1 if unit == "month" else day.year * 4 + (day.month - 1) // 3


def difference(word: str, start: Operand, end: Operand) -> Expr:
    """Count the boundaries of a unit between two dates or times, as DATEDIFF does.

    As in DuckDB, a week is seven days, wherever they begin; an isoweek begins on Monday.
    """
    unit = "week" if word.casefold() == "isoweek" else _unit(word, "DATEDIFF")
    whole = unit == "week" and word.casefold() != "isoweek"
    moments = (_moment(o, "DATEDIFF") for o in (start, end))
    first, last = (index("day" if whole else unit, m) for m in moments)
    apart = build.arithmetic("-", last, first)
    return _towards_zero(build.scaled(apart, Fraction(1, 7))) if whole else apart


def complete(word: str, start: Operand, end: Operand) -> Expr:
    """Count the whole units from one date or time to another: ages, as TIMESTAMPDIFF does.

    A unit is whole once the rest of the date is reached; back in time, the other way round.
    """
    unit = _unit(word, "TIMESTAMPDIFF")
    first, last = (_moment(o, "TIMESTAMPDIFF") for o in (start, end))
    if unit not in ("month", "quarter", "year"):
        length = _SECONDS.get(unit) or (_DAY if unit == "day" else 7 * _DAY)
        apart = build.scaled(build.arithmetic("-", seconds(last), seconds(first)), 1 / length)
        return _towards_zero(apart)
    months = build.arithmetic("-", index("month", last), index("month", first))
    rests = [_since_month(e) for e in (first, last)]
    zero, one = (build.number(Fraction(n)) for n in (0, 1))
    ahead, back = (build.compare(op, months, zero) for op in (">", "<"))
    early = build.conjunction([ahead, build.compare(">", *rests)])
    late = build.conjunction([back, build.compare("<", *rests)])
    whole = build.case([(early, build.arithmetic("-", months, one)),
                        (late, build.arithmetic("+", months, one))], months)  # fmt: skip
    each = {"month": 1, "quarter": 3, "year": 12}[unit]
    number = build.typed(whole, "TIMESTAMPDIFF")
    return number if each == 1 else _towards_zero(build.scaled(number, Fraction(1, each)))


def _since_month(expr: Expr) -> Expr:
    """Seconds since the month began."""
    if expr.type.kind is Kind.DATE:
        return build.scaled(DatePart("day", expr), _DAY)
    day = build.scaled(DatePart("day", expr), _DAY)
    inside = build.arithmetic("-", seconds(expr), Rescale(seconds(expr), _DAY, "floor"))
    return build.arithmetic("+", day, inside)


def _towards_zero(number: Expr) -> Expr:
    down, up = build.floor(number), build.ceiling(number)
    negative = build.compare("<", number, build.number(Fraction(0)))
    return build.typed(build.case([(negative, up)], down), "TIMESTAMPDIFF")


def last_day(operand: Operand) -> Expr:
    """Last day of the month."""
    expr = _moment(operand, "LAST_DAY")
    low, high = (_place(day, "month") for day in _edges(expr.type))
    if high - low > _MOST_MONTHS or high >= 119_987:
        raise UnsupportedQueryError("LAST_DAY needs a column that spans at most a few centuries")
    lasts = [(_first_of(m + 1) - EPOCH).days - 1 for m in range(low, high + 1)]
    last = table(index("month", expr), lasts, "last day")
    return _folded(Moment(last, Kind.DATE, tuple(lasts)))


def elapsed(left: Expr, right: Expr) -> Expr:
    """One moment less another: days between dates, seconds between times."""
    if left.type.kind is right.type.kind is Kind.DATE:
        return build.arithmetic("-", days(left), days(right))
    return build.arithmetic("-", seconds(left), seconds(right))


def shifted(expr: Expr, span: Span) -> Expr:
    """Return a date or time moved by a span."""
    if isinstance(expr, Constant) and expr.code is not None:
        return _constant(expr, span)
    if span.months:
        moved = _by_months(expr, span.months)
        return moved if not span.seconds else shifted(moved, Span(seconds=span.seconds))
    if expr.type.kind is Kind.TIMESTAMP:
        moved = build.arithmetic("+", seconds(expr), build.number(span.seconds))
        return Moment(moved, Kind.TIMESTAMP)
    if (span.seconds / _DAY).denominator != 1:
        raise QueryError("a date can be moved by whole days only", hint="INTERVAL 1 DAY")
    return Moment(_plus(days(expr), int(span.seconds / _DAY)), Kind.DATE)


def _by_months(expr: Expr, months: int) -> Expr:
    """Move a column by months: the same day, or the last one of a shorter month."""
    low, high = (_place(day, "month") for day in _edges(expr.type))
    if high - low > _MOST_MONTHS or not 12 <= low + months <= high + months < 119_987:
        raise UnsupportedQueryError(
            "months can be added only to a column whose bounds span at most a few centuries",
            hint="INTERVAL 30 DAY",
        )
    place = index("month", expr)
    firsts = {m: _first_of(m) for m in range(min(low, low + months), max(high, high + months) + 2)}
    lengths = [(firsts[m + months + 1] - firsts[m + months]).days for m in range(low, high + 1)]
    further = [(firsts[m + months] - firsts[m]).days for m in range(low, high + 1)]
    day = DatePart("day", expr)
    over = build.arithmetic("-", day, table(place, lengths, "days in month"))
    lack = Clamp(over, 0, 3)  # days that the month lacks
    forth = build.arithmetic("-", table(place, further, "days on"), lack)
    if expr.type.kind is Kind.DATE:
        return Moment(build.arithmetic("+", days(expr), forth), Kind.DATE)
    apart = build.arithmetic("+", seconds(expr), build.scaled(forth, _DAY))
    return Moment(apart, Kind.TIMESTAMP)


def _first_of(month: int) -> dt.date:
    return dt.date(month // 12, month % 12 + 1, 1)


def _constant(expr: Constant, span: Span) -> Constant:
    value = expr.type.value(expr.code)
    when = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())  # type: ignore[arg-type] # a date
    try:
        month = when.year * 12 + when.month - 1 + span.months
        first = when.replace(year=month // 12, month=month % 12 + 1, day=1)
        after = dt.date((month + 1) // 12, (month + 1) % 12 + 1, 1)
        when = first.replace(day=min(when.day, (after - dt.timedelta(days=1)).day))
        when += dt.timedelta(microseconds=int(span.seconds * 1_000_000))
    except (ValueError, OverflowError):
        raise QueryError("the date leaves the calendar (years 1 to 9999)") from None
    if expr.type.kind is Kind.DATE and when.time() == dt.time():
        return build.date(when.date().isoformat())
    return build.timestamp(when.isoformat(sep=" "))


def combined(op: str, left: Operand, right: Operand) -> Expr:
    """Add or subtract where a date, a time or a span takes part."""
    if isinstance(left, Span) and op == "+":
        left, right = right, left
    start = _moment(left, op)
    if isinstance(right, Span):
        return shifted(start, right if op == "+" else -right)
    if isinstance(right, Expr) and right.type.is_numeric and start.type.kind is Kind.DATE:
        count = build.constant_value(right)
        if count is not None and count.denominator == 1:
            return shifted(start, Span(seconds=_DAY * count * (1 if op == "+" else -1)))
        moved = build.arithmetic(op, days(start), right)
        return Moment(moved, Kind.DATE)
    if op != "-":
        raise QueryError("two dates cannot be added", hint="DATE '2024-01-31' + INTERVAL 30 DAY")
    return elapsed(start, _moment(right, op))


_PARTS: Final[dict[str, Part]] = {
    "year": "year", "quarter": "quarter", "month": "month", "week": "week", "day": "day",
    "dayofmonth": "day", "isodow": "weekday", "dayofweek_iso": "weekday", "dayofweekiso": "weekday",
    "weekofyear": "week", "doy": "doy", "dayofyear": "doy", "hour": "hour", "minute": "minute",
    "second": "second",
}  # fmt: skip


def part(name: str, operand: Operand) -> Expr:
    """Read a calendar part: ISODOW is 1 on Monday and 7 on Sunday, DOW is 0 on Sunday."""
    word = name.casefold()
    if word == "epoch" and isinstance(operand, Expr) and operand.type.is_numeric:
        return operand  # a difference of times is a number of seconds
    expr = _moment(operand, name.upper())
    if word in ("dow", "dayofweek"):
        weekday = DatePart("weekday", expr)
        return Case(((OneOf(weekday, (7,)), build.number(Fraction(0))),), Clamp(weekday, 1, 6))
    if word == "isoyear":
        return isoyear(expr)
    if word == "epoch":
        return seconds(expr)
    if word in ("weekday", "dw"):
        own = f"EXTRACT(DOW FROM {build.name_of(expr)})"
        raise UnsupportedQueryError(
            f"date part {build.quote(name)} of Sunday is 1 in SQL Server, and 0 in others: write "
            f"{own} + 1 for days from 1 (Sunday) to 7, or {own} for days from 0 (Sunday) to 6"
        )
    if word not in _PARTS:
        near = build.nearest(word, _PARTS) or "year"
        raise UnsupportedQueryError(
            f"date part {build.quote(name)} is not supported",
            hint=f"EXTRACT({near.upper()} FROM {build.name_of(expr)})",
        )
    return DatePart(_PARTS[word], expr)


def isoyear(expr: Expr) -> Expr:
    """Year to which a date's week belongs: that of its Thursday."""
    thursday = _plus(build.arithmetic("-", days(expr), DatePart("weekday", expr)), 4)
    low, high = (max(dt.date.min, min(dt.date.max, d)) for d in _edges(expr.type))
    ends = (low - EPOCH).days - 3, min((high - EPOCH).days + 3, (dt.date.max - EPOCH).days)
    return DatePart("year", Moment(Clamp(thursday, max(ends[0], -719_162), ends[1]), Kind.DATE))


# --- names: a format of dates makes a category with public labels -----------------------------

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_WEEKDAYS: Final = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip
_FIELDS: Final[dict[str, Callable[[dt.datetime], str]]] = {
    "Y": lambda d: f"{d.year:04}",
    "m": lambda d: f"{d.month:02}",
    "d": lambda d: f"{d.day:02}",
    "H": lambda d: f"{d.hour:02}",
    "b": lambda d: _MONTHS[d.month - 1][:3],
    "B": lambda d: _MONTHS[d.month - 1],
    "a": lambda d: _WEEKDAYS[d.weekday()][:3],
    "A": lambda d: _WEEKDAYS[d.weekday()],
    "j": lambda d: f"{d.timetuple().tm_yday:03}",
    "q": lambda d: str((d.month + 2) // 3),
    "G": lambda d: f"{d.isocalendar().year:04}",
    "V": lambda d: f"{d.isocalendar().week:02}",
    "F": lambda d: f"{d:%Y-%m-%d}",
    "%": lambda _: "%",
}
_FINEST: Final = (
    ("day", {"d", "j", "F"}), ("week", {"V"}), ("month", {"m", "b", "B"}), ("quarter", {"q"}),
    ("year", {"Y"}),
)  # fmt: skip
_TO_CHAR: Final = (
    ("YYYY", "%Y"), ("IYYY", "%G"), ("HH24", "%H"), ("MM", "%m"), ("DDD", "%j"), ("DD", "%d"),
    ("IW", "%V"), ("Month", "%B"), ("Mon", "%b"), ("Day", "%A"), ("Dy", "%a"), ("Q", "%q"),
)  # fmt: skip


_TO_CHAR_PART: Final = re.compile(
    '"([^"\\\\]*)"|'
    + "|".join(sorted((name for name, _ in _TO_CHAR), key=len, reverse=True))
    + r"|[A-Za-z\"\\%]"
)
_PADDED: Final = re.compile("%[mdHjV]")


def from_to_char(pattern: str) -> str:
    """Translate a TO_CHAR pattern to STRFTIME's letters.

    Texts stand in double quotes. Other letters are fields, of which we know some; FM would take
    the zeros before numbers away.
    """

    def part(match: re.Match[str]) -> str:
        if match[1] is not None:
            return str(match[1]).replace("%", "%%")
        return {**dict(_TO_CHAR), "%": "%%"}.get(match[0], unknown)

    unknown = "\0"
    translation = _TO_CHAR_PART.sub(part, pattern.removeprefix("FM"))
    if unknown in translation or (pattern.startswith("FM") and _PADDED.search(translation)):
        raise UnsupportedQueryError(
            f"the date format {build.quote(pattern)} is not supported (texts stand in double "
            "quotes)",
            hint="'YYYY-MM'",
        )
    return translation


def strftime(operand: Operand, pattern: str) -> Expr:
    """Write a date by a format, as a category whose labels are public."""
    expr = _moment(operand, "STRFTIME")
    pattern = re.sub("%(.)", lambda m: "%q" if m[1] == "Q" else m[0], pattern)  # BigQuery's quarter
    letters = re.findall(r"%(.)", pattern)
    unknown = [c for c in letters if c not in _FIELDS]
    fields = set(letters) - {"%"}
    if unknown or not fields:
        raise UnsupportedQueryError(
            f"the date format {build.quote(pattern)} is not supported; its letters can be "
            + ", ".join(f"%{c}" for c in _FIELDS if c != "%")
        )
    number, moment = _numbered(expr, fields)
    t = number.type
    if t.size > MAX_LISTED:
        raise UnsupportedQueryError(
            f"the date format {build.quote(pattern)} has {t.size} different values, at most "
            f"{MAX_LISTED} can be listed",
            hint="'%Y-%m'",
        )
    return Labelled(number, tuple(_text(moment(c), pattern) for c in range(t.lo, t.hi + 1)))


def _text(when: dt.datetime, pattern: str) -> str:
    return re.sub(r"%(.)", lambda m: _FIELDS[m[1]](when), pattern)


def _numbered(expr: Expr, fields: set[str]) -> tuple[Expr, Callable[[int], dt.datetime]]:
    """Find a number that decides a format's fields, and a moment for each of its values."""
    year = dt.datetime(2001, 1, 1)  # noqa: DTZ001 - a Monday; moments are naive UTC throughout
    if fields <= {"a", "A"}:
        return DatePart("weekday", expr), lambda c: year.replace(day=c)
    if fields <= {"m", "b", "B"}:
        return DatePart("month", expr), lambda c: year.replace(month=c)
    if fields <= {"q"}:
        return DatePart("quarter", expr), lambda c: year.replace(month=3 * c)
    if fields <= {"d"}:
        return DatePart("day", expr), lambda c: year.replace(day=c)
    if fields <= {"H"} and expr.type.kind is Kind.TIMESTAMP:
        return DatePart("hour", expr), lambda c: year.replace(hour=c)
    if not fields & {"Y", "G", "F"} or ("H" in fields and expr.type.kind is Kind.DATE):
        raise UnsupportedQueryError(
            "the date format needs a year, as '%Y-%m-%d' has; without one there are months (%m), "
            "quarters (%q), days of the month (%d) or of the week (%a), and hours of a time (%H)"
        )
    if "H" in fields:
        return index("hour", expr), lambda c: EPOCH_TIME + dt.timedelta(hours=c)
    if fields & {"G", "V"} and fields != {"G", "V"}:
        raise UnsupportedQueryError(
            "a week (%V) may begin in one year and end in the next: name it by its own year (%G)",
            hint="'%G-W%V'",
        )
    unit = next(unit for unit, letters in _FINEST if letters & fields)
    unit = "day" if fields & {"a", "A"} else unit
    return index(unit, expr), _BEGIN[unit]


def _at(year: int, month: int) -> dt.datetime:
    return dt.datetime(year, month, 1)  # noqa: DTZ001 - moments are naive UTC throughout


_BEGIN: Final[dict[str, Callable[[int], dt.datetime]]] = {
    "year": lambda c: _at(c, 7),
    "quarter": lambda c: _at(c // 4, c % 4 * 3 + 1),
    "month": lambda c: _at(c // 12, c % 12 + 1),
    "week": lambda c: EPOCH_TIME + dt.timedelta(days=7 * c),
    "day": lambda c: EPOCH_TIME + dt.timedelta(days=c),
}


_SPAN: Final = re.compile(r"\s*([+-]?\d{1,9})\s*([a-zA-Z]*)\s*")


def span(text: str, unit: str | None) -> Span:
    """Read an interval such as ``30 DAY`` or ``'1 month'``."""
    match = _SPAN.fullmatch(text)
    if match is None or not (match[2] or unit):
        raise QueryError(f"{build.quote(text)} is not an interval", hint="INTERVAL 30 DAY")
    name, count = _unit(match[2] or unit or "", "INTERVAL"), int(match[1])
    months = {"month": 1, "quarter": 3, "year": 12}.get(name)
    if months is not None:
        return Span(months=count * months)
    length = _SECONDS.get(name) or (_DAY if name == "day" else 7 * _DAY)
    return Span(seconds=count * length)
