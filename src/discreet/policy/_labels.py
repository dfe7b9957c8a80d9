"""Columns without order: categories, booleans, opaque text."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, cast

from discreet._dataclass import dataclass
from discreet._text import quote
from discreet.policy._check import FloatText, count, flag, refusal, settle, whole
from discreet.policy._check import text as read_text
from discreet.policy._domain import Declaration, column_name, null_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discreet._exact import Number

MAX_VALUES: Final = 100_000
MAX_LENGTH: Final = 10_000
"""Most characters of a text that a policy can let be read."""

Label: TypeAlias = str | int | bool


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Category(Declaration):
    """One of a public, ordered list of values; all keys of a ``GROUP BY`` come from it.

    Parameters
    ----------
    name
        Column name.
    values
        Distinct text, integers or booleans (one type), at most 100 000, in display order.
    other
        Further value, given to whatever is not in `values` (None: it becomes NULL).
    nullable, null
        See the module's table; `null` must be one of `values` or `other`.

    Examples
    --------
    >>> Category("sex", ["F", "M"], other="X").domain
    ('F', 'M', 'X')
    """

    type: ClassVar[str] = "category"
    name: str
    values: tuple[Label, ...]
    other: Label | None = None
    nullable: bool = True
    null: Label | None = None

    def __init__(
        self,
        name: str,
        values: Sequence[Label] = (),
        *,
        other: Label | None = None,
        nullable: bool = True,
        null: Label | None = None,
    ) -> None:
        own, subject = column_name(name)
        listed = _values(values, subject)
        if other is not None:
            other = _value(other, _kind(listed[0]), subject, "other")
            if other in listed:
                message = f"{subject}: other must not be one of the values"
                raise refusal(message, "other", fix={"other": None})
        settle(self, name=own, values=listed, other=other)
        settle(self, **null_rule(nullable, null, subject, self._member, listed[0]))

    def _member(self, value: object) -> Label:
        subject = f"column {quote(self.name)}"
        checked = _value(value, _kind(self.values[0]), subject, "null")
        if checked not in self.domain:
            raise refusal(
                f"{subject}: null must be one of the values",
                "null",
                fix={"null": self.values[0]},
            )
        return checked

    @property
    def domain(self) -> tuple[Label, ...]:
        """Every value the cleaned column can hold besides NULL."""
        return self.values if self.other is None else (*self.values, self.other)


def _values(values: object, subject: str) -> tuple[Label, ...]:
    example = ["a", "b"]
    if not isinstance(values, list | tuple):
        raise refusal(f"{subject}: values must be a list", "values", fix={"values": example})
    if not values:
        raise refusal(f"{subject}: needs its public values", "values", fix={"values": example})
    if len(values) > MAX_VALUES:
        raise refusal(
            f"{subject}: has {len(values)} values, at most {MAX_VALUES} are possible",
            "values",
            fix={"type": "text", "values": None},
        )
    kind = _kind(values[0])
    members: dict[Label, None] = {}
    for place, value in enumerate(values):
        checked = _value(value, kind, subject, "values", str(place))
        if checked in members:
            once = list(dict.fromkeys(v for v in values[:20] if _kind(v) is kind))
            message = f"{subject}: {quote(str(checked))} is listed twice"
            fix = {"values": once} if len(values) <= 20 else None
            raise refusal(message, "values", str(place), fix=fix)
        members[checked] = None
    return tuple(members)


def _kind(value: object) -> type | None:
    if isinstance(value, bool):
        return bool
    if isinstance(value, str):
        return None if isinstance(value, FloatText) else str
    return int if isinstance(value, numbers.Integral) else None


def _value(value: object, kind: type | None, subject: str, *path: str) -> Label:
    if kind is None or _kind(value) is not kind:
        kinds = "text, integers or booleans, all of one type"
        message = f"{subject}: {path[0]} must be {kinds}; {quote(value)} is not"
        example = ["a", "b"] if path[0] == "values" else None
        raise refusal(message, *path, fix={path[0]: example})
    if kind is str:
        return read_text(value, subject, path[0])
    return bool(value) if kind is bool else whole(cast("int", value), subject, path[0])


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Boolean(Declaration):
    """True or false.

    Examples
    --------
    >>> Boolean("employed", null=False).nullable
    False
    """

    type: ClassVar[str] = "boolean"
    name: str
    nullable: bool = True
    null: bool | None = None

    def __init__(self, name: str, *, nullable: bool = True, null: bool | None = None) -> None:
        own, subject = column_name(name)
        settle(self, name=own)
        settle(
            self,
            **null_rule(nullable, null, subject, lambda v: flag(v, subject, "null"), example=False),
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Text(Declaration):
    """Opaque text: it can be counted, and grouped only by private key selection.

    Parameters
    ----------
    name
        Column name.
    nullable, null
        See the module's table.
    longest
        Characters that are read of each value, at most 10 000. What is longer is cut there
        before any operator sees it, so that no value takes longer to work on than others may;
        two texts that differ only further on are equal.

    Examples
    --------
    >>> Text("comment")
    Text('comment')
    """

    type: ClassVar[str] = "text"
    name: str
    nullable: bool = True
    null: str | None = None
    longest: int = 1_000

    def __init__(
        self,
        name: str,
        *,
        nullable: bool = True,
        null: str | None = None,
        longest: Number = 1_000,
    ) -> None:
        own, subject = column_name(name)
        settle(self, name=own, longest=count(longest, subject, "longest", MAX_LENGTH))
        settle(
            self, **null_rule(nullable, null, subject, lambda v: read_text(v, subject, "null"), "")
        )
