"""What the column types share: how they print, NULL, and ordered bounds."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias, TypeVar

from discreet._text import quote
from discreet.policy._check import flag, plain, refusal
from discreet.policy._check import name as read_name

if TYPE_CHECKING:
    from collections.abc import Callable

Outside: TypeAlias = Literal["clamp", "null"]
OUTSIDE: Final = ("clamp", "null")

V = TypeVar("V")


class Shown:
    """Columns print as the call that makes them, without what is default."""

    __slots__ = ()
    type: ClassVar[str]
    name: str

    def __repr__(self) -> str:
        entries = {k: v for k, v in describe(self).items() if k != "type"}
        words = (f"{k}={plain(v) if isinstance(v, Fraction) else v!r}" for k, v in entries.items())
        return f"{type(self).__name__}({', '.join([repr(self.name), *words])})"


def describe(column: Shown) -> dict[str, object]:
    """Give a column as the mapping of a policy file, without what is default."""
    entries: dict[str, object] = {"type": column.type}
    for field in fields(column):  # type: ignore[arg-type]  # every Shown is a dataclass
        value = getattr(column, field.name)
        # nullable follows from null, so writing null says it all
        if field.name not in {"name", "nullable"} and value != field.default:
            entries[field.name] = value
    return entries


def named(name: object) -> tuple[str, str]:
    """Read a column's name; return it, and how messages call the column."""
    own = read_name(name, "column")
    return own, f"column {quote(own)}"


def null_rule(
    nullable: object, null: object, subject: str, read: Callable[[object], V], example: object
) -> dict[str, object]:
    """Settle what NULL becomes: itself, or a stated value of the domain."""
    nullable = flag(nullable, subject, "nullable")
    if null is not None:
        return {"nullable": False, "null": read(null)}
    if not nullable:
        raise refusal(
            f"{subject}: nullable = false does not say what a NULL becomes",
            "nullable",
            fix={"nullable": False, "null": example},
        )
    return {"nullable": True, "null": None}


def both(low: object, high: object, subject: str, example: tuple[object, object]) -> None:
    """Refuse a missing bound: without public bounds one value could be arbitrarily large."""
    if low is None or high is None:
        missing = "min" if low is None else "max"
        fix = {"min": example[0] if low is None else low, "max": example[1]}
        fix["max"] = high if high is not None else fix["max"]
        raise refusal(f"{subject}: needs public bounds, {missing} is missing", fix=fix)


def ordered(low: V, high: V, subject: str, written: Callable[[V], object]) -> None:
    if low > high:  # type: ignore[operator]  # every V used here is ordered
        fix = {"min": written(high), "max": written(low)}
        raise refusal(f"{subject}: min {written(low)} is above max {written(high)}", "min", fix=fix)


def within(value: V, low: V, high: V, subject: str, written: Callable[[V], object]) -> V:
    if not low <= value <= high:  # type: ignore[operator]  # every V used here is ordered
        span = f"{written(low)} to {written(high)}"
        raise refusal(f"{subject}: null must lie in {span}", "null", fix={"null": written(low)})
    return value
