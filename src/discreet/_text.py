"""Text that comes from outside, and names in messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from discreet.errors import DiscreetError, ParameterError

_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

OBEYED: Final = re.compile(
    "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""C1 controls, marks that turn or hide text, line separators, halves of surrogate pairs."""


def plain_str(
    value: object, what: str = "this", error: type[DiscreetError] = ParameterError
) -> str:
    """Copy a text into a plain ``str``; refuse anything else.

    A subclass of ``str`` may answer ``replace``, ``==`` or ``str()`` as it likes.
    Every text is copied here, at the door, by the methods of ``str`` itself, so
    that nobody's code runs when it is compared, escaped or written.

    >>> class Loud(str):
    ...     def __str__(self):
    ...         return "DROP"
    >>> type(plain_str(Loud("age"))), plain_str(Loud("age"))
    (<class 'str'>, 'age')
    """
    if not issubclass(type(value), str):  # isinstance also believes a false __class__
        raise error(f"{what} must be text, got {type(value).__name__}")
    return str.__str__(value)


def printable(text: str) -> str:
    """Escape what would break a message: control characters, half surrogate pairs."""
    return _UNPRINTABLE.sub(lambda m: f"\\x{ord(m[0]):02x}", text)


def visible(text: str) -> str:
    """Take out what a terminal would obey: labels come from data and from anybody's records."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def json_safe(text: str) -> str:
    r"""Escape in JSON text what a terminal or an editor would obey instead of show.

    >>> json_safe('"a\u202eb"')
    '"a\\u202eb"'
    """
    return OBEYED.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def quote(text: object) -> str:
    """Name something in a message: in double quotes, on one line, never long.

    >>> quote("age"), quote(7)
    ('"age"', '"int"')
    """
    name = text if isinstance(text, str) else type(text).__name__
    return f'"{printable(name if len(name) <= 60 else name[:57] + "...")}"'


def nearest(word: object, names: Iterable[str], cutoff: float = 0.65) -> str | None:
    """Find the known word that was probably meant, or None."""
    folded = {k.casefold(): k for k in names} if isinstance(word, str) else {}
    text = str(word)[:255].casefold()
    matches = difflib.get_close_matches(text, folded, n=1, cutoff=cutoff)
    completions = [k for k in folded if len(text) > 2 and k.startswith(text)]
    candidates = matches or completions
    return folded[candidates[0]] if matches or len(completions) == 1 else None


def quoted(name: str) -> str:
    """Write the name of a table or column in SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Write a label in SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def written(name: str) -> str:
    """Write a name as a question must: in quotes unless it is a plain word.

    >>> written("age"), written("hours-per-week")
    ('age', '"hours-per-week"')
    """
    return name if _PLAIN.fullmatch(name) else quoted(name)


_LOOSE: Final = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", re.ASCII)
_GROUPED: Final = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)


def iso_day(text: str) -> str | None:
    """Write a day whose year stands first as ISO 8601 does, in quotes.

    >>> iso_day("2024/1/5")
    "'2024-01-05'"
    """
    match = _LOOSE.fullmatch(text.strip())
    return match and "'{}-{:0>2}-{:0>2}'".format(*match.groups())


def digits(text: str) -> str | None:
    """Read a number that stands in quotes, perhaps grouped by commas; None for other texts.

    >>> digits("1,000"), digits("1,0")
    ('1000', None)
    """
    plain = text.replace(",", "") if _GROUPED.fullmatch(text) else text
    return plain if plain.replace(".", "", 1).isdecimal() else None
