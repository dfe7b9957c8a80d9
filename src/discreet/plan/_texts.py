"""Operators on open text: total functions that every engine computes alike.

Engines differ in what lower case is beyond ASCII, which blanks TRIM removes, what a
negative length means and how LIKE escapes. So case folds ASCII letters only, TRIM
takes off plain spaces, lengths and places are public constants of at least zero
(one), and patterns are written anew with one escape sign. Characters are code
points; nothing is normalised.
"""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from discreet._dataclass import dataclass
from discreet.errors import ParameterError
from discreet.plan._nodes import Unary, Writer, need, quoted
from discreet.plan._regex import read as read_pattern
from discreet.plan._types import Code, Kind, Type

LONGEST: Final = 10_000
"""Most characters that a length counts, a slice takes or a pattern has."""
_TO_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_TO_UPPER: Final = str.maketrans(ascii_lowercase, ascii_uppercase)


def folded(text: str, *, upper: bool = False) -> str:
    """Fold the case of ASCII letters."""
    return text.translate(_TO_UPPER if upper else _TO_LOWER)


def _bounded(value: int, least: int) -> None:
    if not least <= value <= LONGEST:
        raise ParameterError(
            f"a place in a text must lie between {least} and {LONGEST}, got {value}"
        )


@dataclass(frozen=True)
class Slice(Unary):
    """Characters of a text from a place on, counted from one."""

    start: int
    length: int

    def _infer(self) -> Type:
        need(self.arg.type.kind is Kind.TEXT, "SUBSTR needs text", self.arg.type)
        _bounded(self.start, 1)
        _bounded(self.length, 0)
        return self.arg.type

    def _apply(self, *codes: Any) -> Code:
        return str(codes[0])[self.start - 1 : self.start - 1 + self.length]

    def sql(self, w: Writer) -> str:
        return f"substr({w.value(self.arg)}, {self.start}, {self.length})"

    def describe(self) -> str:
        return f"substr({self.arg.describe()}, {self.start}, {self.length})"


@dataclass(frozen=True)
class Suffix(Unary):
    """The last characters of a text."""

    length: int

    def _infer(self) -> Type:
        need(self.arg.type.kind is Kind.TEXT, "RIGHT needs text", self.arg.type)
        _bounded(self.length, 0)
        return self.arg.type

    def _apply(self, *codes: Any) -> Code:
        return str(codes[0])[-self.length :] if self.length else ""

    def sql(self, w: Writer) -> str:
        return f"right({w.value(self.arg)}, {self.length})"

    def describe(self) -> str:
        return f"right({self.arg.describe()}, {self.length})"


@dataclass(frozen=True)
class Fold(Unary):
    """A text with its ASCII letters in one case."""

    upper: bool

    def _infer(self) -> Type:
        need(self.arg.type.kind is Kind.TEXT, "LOWER and UPPER need text", self.arg.type)
        return self.arg.type

    def _apply(self, *codes: Any) -> Code:
        return folded(str(codes[0]), upper=self.upper)

    def sql(self, w: Writer) -> str:
        ends = (ascii_lowercase, ascii_uppercase)
        old, new = ends if self.upper else ends[::-1]
        return f"translate({w.value(self.arg)}, '{old}', '{new}')"

    def describe(self) -> str:
        return f"{'upper' if self.upper else 'lower'}({self.arg.describe()})"


@dataclass(frozen=True)
class Trim(Unary):
    """A text without the spaces at its ends."""

    words = "trim({arg})"

    def _infer(self) -> Type:
        need(self.arg.type.kind is Kind.TEXT, "TRIM needs text", self.arg.type)
        return self.arg.type

    def _apply(self, *codes: Any) -> Code:
        return str(codes[0]).strip(" ")

    def sql(self, w: Writer) -> str:
        return w.trimmed(w.value(self.arg))


@dataclass(frozen=True)
class Piece(Unary):
    """One of the pieces into which a separator cuts a text; empty beyond the last."""

    separator: str
    place: int

    def _infer(self) -> Type:
        need(self.arg.type.kind is Kind.TEXT, "SPLIT_PART needs text", self.arg.type)
        _bounded(self.place, 1)
        if not self.separator:
            raise ParameterError("SPLIT_PART needs a separator")
        return self.arg.type

    def _apply(self, *codes: Any) -> Code:
        pieces = str(codes[0]).split(self.separator)
        return pieces[self.place - 1] if self.place <= len(pieces) else ""

    def sql(self, w: Writer) -> str:
        return f"split_part({w.value(self.arg)}, {w.text(self.separator)}, {self.place})"

    def describe(self) -> str:
        return f"split_part({self.arg.describe()}, {quoted(self.separator)}, {self.place})"


@dataclass(frozen=True)
class Length(Unary):
    """Number of characters, at most :data:`LONGEST`."""

    words = "length({arg})"

    def _infer(self) -> Type:
        need(self.arg.type.kind is Kind.TEXT, "LENGTH needs text", self.arg.type)
        return Type.number(0, LONGEST, null=self.arg.type.nullable)

    def _apply(self, *codes: Any) -> Code:
        return min(len(str(codes[0])), LONGEST)

    def sql(self, w: Writer) -> str:
        short = f"substr({w.value(self.arg)}, 1, {LONGEST})"
        return f"CAST(length({short}) AS BIGINT)"


@dataclass(frozen=True)
class Like(Unary):
    """Whether a text has the form of a pattern: ``%`` any characters, ``_`` any one.

    ``!`` makes the sign after it plain.
    """

    pattern: str
    boolean = True

    def _infer(self) -> Type:
        need(self.arg.type.kind is Kind.TEXT, "LIKE needs text", self.arg.type)
        if not re.fullmatch(r"(?:[^!]|![!%_])*", self.pattern, re.DOTALL):
            raise ParameterError("the pattern escapes a character that needs no escape")
        _bounded(len(self.pattern), 0)
        return Type.boolean(null=self.arg.type.nullable)

    def _apply(self, *codes: Any) -> Code:
        return int(like(self.pattern, str(codes[0])))

    def sql(self, w: Writer) -> str:
        return w.like(w.value(self.arg), self.pattern)

    def describe(self) -> str:
        return f"{self.arg.describe()} like {quoted(self.pattern)}"

    @property
    def steps(self) -> int:
        """Comparisons for each character of a text, at most, of a matcher that tries each place.

        After a ``%`` it compares the signs up to the next one at each place of the text. Where
        they are plain, places that are alive at once are borders of one another, so that there
        are no more of them than the longest chain of borders; ``_`` keeps every place alive,
        and reads a character of up to four bytes.
        """
        parts = [part.replace("\0", "%") for part in _plain(self.pattern).split("%")[1:]]
        return max([_alive(part) for part in parts], default=0)


def _plain(pattern: str) -> str:
    """Write a pattern without escapes: a plain ``%`` is NUL, a plain ``_`` counts as wild."""
    return re.sub("!(.)", lambda m: "\0" if m[1] == "%" else m[1], pattern, flags=re.DOTALL)


def _alive(part: str) -> int:
    signs = part.encode()
    if "_" in part:
        return len(signs) + 5 * part.count("_")
    borders, chain, at = [0] * len(signs), [1] * len(signs), 0
    for i in range(1, len(signs)):
        while at and signs[i] != signs[at]:
            at = borders[at - 1]
        at += signs[i] == signs[at]
        borders[i] = at
        chain[i] = 1 + (chain[at - 1] if at else 0)
    return max(chain, default=0)


@dataclass(frozen=True)
class Matches(Unary):
    """Whether a regular expression matches a text, of which :data:`LONGEST` characters count."""

    pattern: str
    fold: bool = False
    boolean = True

    def _infer(self) -> Type:
        need(self.arg.type.kind is Kind.TEXT, "a regular expression needs text", self.arg.type)
        _bounded(len(read_pattern(self.pattern, fold=self.fold).text), 1)
        return Type.boolean(null=self.arg.type.nullable)

    def _apply(self, *codes: Any) -> Code:
        pattern = read_pattern(self.pattern, fold=self.fold)
        return int(pattern.matches(str(codes[0])[:LONGEST]))

    def sql(self, w: Writer) -> str:
        regex = read_pattern(self.pattern, fold=self.fold).text
        return w.matches(f"substr({w.value(self.arg)}, 1, {LONGEST})", regex)

    def describe(self) -> str:
        return f"{self.arg.describe()} matches {quoted(self.pattern)}"

    @property
    def states(self) -> int:
        """States of the automaton that are alive at once, at most; 1 where it has few in all."""
        return read_pattern(self.pattern, fold=self.fold).states


def like(pattern: str, text: str) -> bool:
    """Match a pattern against a text, in time that grows with both lengths.

    >>> like("a%!%", "a100%"), like("a_", "a")
    (True, False)
    """
    signs, wild = iter(pattern), {"%": None, "_": ""}  # None: any many characters, "": any one
    parts = [next(signs) if sign == "!" else wild.get(sign, sign) for sign in signs]
    at = place = 0
    star, retry = -1, 0
    while at < len(text):
        if place < len(parts) and parts[place] is None:
            star, retry, place = place, at, place + 1
        elif place < len(parts) and parts[place] in ("", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            retry += 1
            at, place = retry, star + 1
        else:
            return False
    return all(part is None for part in parts[place:])
