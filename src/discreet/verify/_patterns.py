"""Regular expressions in statements: which of them no engine can fail on.

A pattern is accepted if it is spelled in a small language that both engines compile:
characters, escaped signs, ``.``, plain classes, groups that capture nothing, ``|`` between
branches that are not empty, and repetitions whose counts, multiplied through nested groups,
stay below what either engine refuses (255 in one, a product of 1000 in the other). Matching
with RE2 and with PostgreSQL's automaton then ends and cannot fail.
"""

from __future__ import annotations

import re
from typing import Final

_ATOM: Final = re.compile(
    r"\\[\\^$.|?*+()\[\]{}]"  # an escaped sign
    r"|[^\\^$.|?*+()\[\]{}\0]"  # a character
    r"|\."
    r"|\[\^?(?:[^\[\]\\^&~|:.=\-\0](?:-[^\[\]\\^&~|:.=\-\0])?)+\]"  # a class
)
_RANGE: Final = re.compile(r"([^\[\]^\-])-([^\[\]^\-])")
_COUNT: Final = re.compile(r"[?*+]|\{(\d{1,3})(,(\d{1,3})?)?\}")
_LONGEST: Final = 4_000
_DEEPEST: Final = 40


def compiles(pattern: str) -> bool:
    """Whether every engine compiles a pattern and matches in bounded time."""
    if len(pattern) > _LONGEST:
        return False
    begin = pattern.startswith("^")
    escapes = re.search(r"\\*$", pattern[:-1])
    end = pattern.endswith("$") and (escapes is None or len(escapes[0]) % 2 == 0)
    at, copies = _branches(pattern, int(begin), len(pattern) - end, 0)
    return at == len(pattern) - end and 0 < copies <= 1000


def _branches(pattern: str, at: int, stop: int, depth: int) -> tuple[int, int]:
    """Read branches from a place on; give where they end and how often they are copied (0: no)."""
    most, count = 1, 0
    while True:
        if at >= stop or pattern[at] in "|)":
            if not count or depth > _DEEPEST:
                return at, 0  # an empty branch
            if at >= stop or pattern[at] == ")":
                return at, most
            at, count = at + 1, 0
            continue
        at, copies = _item(pattern, at, stop, depth)
        if not copies:
            return at, 0
        most, count = max(most, copies), count + 1


def _item(pattern: str, at: int, stop: int, depth: int) -> tuple[int, int]:
    copies = 1
    if pattern.startswith("(?:", at):
        at, copies = _branches(pattern, at + 3, stop, depth + 1)
        if not copies or at >= stop or pattern[at] != ")":
            return at, 0
        at += 1
    else:
        atom = _ATOM.match(pattern, at, stop)
        inside = atom[0] if atom is not None and len(atom[0]) > 2 else ""
        if atom is None or any(a > b for a, b in _RANGE.findall(inside)):
            return at, 0
        at = atom.end()
    times = _COUNT.match(pattern, at, stop)
    if times is None:
        return at, copies
    low = int(times[1] or 1)
    high = int(times[3] or low)
    if not low <= high <= 100:
        return at, 0
    at = times.end()
    again = _COUNT.match(pattern, at, stop)
    return at, 0 if again is not None else copies * max(high, 1)
