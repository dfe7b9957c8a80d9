"""How a CSV file writes dates: formats, in the letters that ``STRFTIME`` has in SQL.

A format settles for every text whether it is a date, and which: exactly the texts that its
pattern matches are read, all others are NULL. The pattern is what keeps an engine's own
leniency out (DuckDB reads ``epoch`` by any format, and the year of ``1.2.25`` as 25).
"""

from __future__ import annotations

import re
from typing import Final

from discreet.policy._check import refusal, text

_TWO: Final = "[0-9]{1,2}"
_FIELDS: Final = {
    "Y": "[0-9]{4}", "y": "[0-9]{2}", "m": _TWO, "d": _TWO, "H": _TWO, "I": _TWO, "M": _TWO,
    "S": _TWO, "f": "[0-9]{1,6}", "p": "[AaPp][Mm]", "b": "[A-Za-z]{3}", "B": "[A-Za-z]{3,9}",
}  # fmt: skip
_ONE_OF: Final = ("Yy", "mbB", "d")
_TOGETHER: Final = {"I": "p", "p": "I", "M": "HI", "S": "M", "f": "S"}
_SPOKEN: Final = (
    ("YYYY", "%Y"), ("yyyy", "%Y"), ("YY", "%y"), ("yy", "%y"), ("DD", "%d"), ("dd", "%d"),
    ("HH", "%H"), ("hh", "%H"), (":MM", ":%M"), (":mm", ":%M"), ("MM", "%m"), ("mm", "%m"),
    ("SS", "%S"), ("ss", "%S"),
)  # fmt: skip
_LONGEST: Final = 40


def date_format(value: object, subject: str) -> str | None:
    """Check the format of a column of dates or moments.

    >>> date_format("%d.%m.%Y", "column d"), date_format(None, "column d")
    ('%d.%m.%Y', None)
    >>> date_format("DD.MM.YYYY", "column d")
    Traceback (most recent call last):
        ...
    discreet.errors.PolicyError: column d: format "DD.MM.YYYY" has no %Y, %m and %d
        try: format="%d.%m.%Y"
    """
    if value is None:
        return None
    form = text(value, subject, "format", limit=_LONGEST)
    letters = [field[1:] for field in re.findall("%.?", form, re.DOTALL)]

    def wrong(why: str) -> Exception:
        spoken = form
        for word, letter in _SPOKEN if "%" not in form else ():
            spoken = spoken.replace(word, letter)
        good = spoken if spoken != form else "%d.%m.%Y"
        return refusal(f'{subject}: format "{form}" {why}', "format", fix={"format": good})

    if not letters:
        raise wrong("has no %Y, %m and %d")
    for letter in letters:
        if letter not in _FIELDS:
            raise wrong(f"has %{letter}; it may have %{', %'.join(_FIELDS)}")
        if letters.count(letter) > 1:
            raise wrong(f"has %{letter} twice")
        needs = _TOGETHER.get(letter)
        if needs is not None and not set(needs) & set(letters):
            raise wrong(f"has %{letter} without %{' or %'.join(needs)}")
    if any(len(set(ways) & set(letters)) != 1 for ways in _ONE_OF) or {"H", "I"} <= set(letters):
        raise wrong("needs a year (%Y), a month (%m) and a day (%d), and each of them once")
    return form


def date_pattern(form: str) -> str:
    r"""Write the regular expression of the texts that a format reads.

    >>> date_pattern("%Y-%m-%d"), date_pattern("%Y%m%d")
    ('[0-9]{4}\\-[0-9]{1,2}\\-[0-9]{1,2}', '[0-9]{4}[0-9]{2}[0-9]{2}')
    """
    parts = re.split("(%.)", form)
    pieces = []
    for at, part in enumerate(parts):
        if at % 2 == 0:
            pieces.append(re.escape(part))
            continue
        # side by side, numbers have all their digits: who could tell 2025111 otherwise
        before, after = parts[at - 1], parts[at + 1]
        beside = (not before and at > 1) or (not after and at + 2 < len(parts))
        field = _FIELDS[part[1]]
        pieces.append("[0-9]{2}" if field == _TWO and beside else field)
    return "".join(pieces)
