"""What the column types share: how they print, NULL, and ordered bounds."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

from discreet._text import quote
from discreet.policy._check import choice, flag, plain, refusal
from discreet.policy._check import name as read_name

if TYPE_CHECKING:
    from collections.abc import Callable

Outside: TypeAlias = Literal["clamp", "null"]

V = TypeVar("V")


class Declaration:
    """Columns print as the call that makes them, without what is default."""

    __slots__ = ()
    type: ClassVar[str]
    name: str

    def __repr__(self) -> str:
        entries = {k: v for k, v in describe(self).items() if k != "type"}
        words = (f"{k}={plain(v) if isinstance(v, Fraction) else v!r}" for k, v in entries.items())
        return f"{type(self).__name__}({', '.join([repr(self.name), *words])})"


def describe(column: Declaration) -> dict[str, object]:
    """Give a column as the mapping of a policy file, without what is default."""
    entries: dict[str, object] = {"type": column.type}
    for field in fields(column):  # type: ignore[arg-type]  # every Declaration is a dataclass
        value = getattr(column, field.name)
        # nullable follows from null, so writing null says it all
        if field.name not in {"name", "nullable"} and value != field.default:
            entries[field.name] = value
    return entries


def column_name(name: object) -> tuple[str, str]:
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


def bounded(
    ends: tuple[object, object],
    rules: tuple[object, object, object],
    subject: str,
    read: Callable[[Any, str, str], V],
    example: tuple[object, object] = (0, 100),
) -> dict[str, object]:
    """Settle what columns with an order share: bounds, and what NULL and all beyond them become.

    Without public bounds one value could be arbitrarily large. `rules` are `outside`, `nullable`
    and `null` of the column; `read` takes a value, the subject and a key.
    """
    edges = dict(zip(("min", "max"), ends, strict=True))
    if missing := [key for key, end in edges.items() if end is None]:
        fix = {k: e if edges[k] is None else edges[k] for k, e in zip(edges, example, strict=True)}
        raise refusal(f"{subject}: needs public bounds, {missing[0]} is missing", fix=fix)
    low, high = (read(end, subject, key) for key, end in edges.items())
    first, last = _spelling(low), _spelling(high)
    if low > high:  # type: ignore[operator]  # every V used here is ordered
        fix = {"min": last, "max": first}
        raise refusal(f"{subject}: min {first} is above max {last}", "min", fix=fix)

    def member(value: object) -> V:
        inside = read(value, subject, "null")
        if not low <= inside <= high:  # type: ignore[operator]  # as above
            message = f"{subject}: null must lie in {first} to {last}"
            raise refusal(message, "null", fix={"null": first})
        return inside

    outside, nullable, null = rules
    example_of_null = plain(low) if isinstance(low, Fraction) else low
    return {
        "min": low,
        "max": high,
        "outside": choice(outside, ("clamp", "null"), subject, "outside"),
        **null_rule(nullable, null, subject, member, example_of_null),
    }


def _spelling(value: Any) -> object:
    return plain(Fraction(value)) if isinstance(value, int | Fraction) else value.isoformat()
