"""The ranking hash and the packing of codes, in SQL.

A limit numbers a unit's rows in the order of their codes and ranks the numbers
by a hash (:func:`discreet.plan.run` is the meaning). Sorting is what limits
cost, so codes are packed, most significant first, into as few 64-bit words as
possible: comparing the words is comparing the codes, with NULL last. The words
are also the payload; the codes are read back from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from discreet._dataclass import dataclass, field
from discreet.engines._dialect import Dialect
from discreet.plan import PRIME, TURNS, Kind, Type

_BITS = 63


@dataclass(frozen=True, slots=True)
class Item:
    """A ranked code: the identifier that holds it, and its type."""

    name: str
    type: Type

    @property
    def is_text(self) -> bool:
        """Whether the code is an opaque text."""
        return self.type.kind is Kind.TEXT

    @property
    def is_constant(self) -> bool:
        """Whether every row has the same code."""
        return self.type.is_constant

    @property
    def bits(self) -> int:
        """Bits that hold every code, NULL included."""
        return (self.type.size - 1 + self.type.nullable).bit_length()


def mixed(dialect: Dialect, coin: int, unit: str, parts: Sequence[str]) -> str:
    """Ranking hash of a unit's residue (below 2·PRIME) and of parts (below PRIME).

    Every product and every sum of two is below 2^63, whatever the salt.
    """
    secret = (f":salt{coin}_{i}" for i in itertools.count())
    h = f"(({unit}) * {next(secret)}) % {PRIME}"
    for part in parts:
        h = f"({dialect.xor(h, next(secret))} * {next(secret)} + {part} * {next(secret)}) % {PRIME}"
    for _ in range(TURNS):
        h = f"({dialect.xor(h, next(secret))} * {next(secret)}) % {PRIME}"
    return h


def residue(dialect: Dialect, item: Item) -> str:
    """Residue below PRIME of a code that is not NULL."""
    t, x = item.type, item.name
    if item.is_text:
        return dialect.text_residue(x, PRIME)
    inside = t.lo >= 0 and t.hi < PRIME
    return x if inside else f"(({x} % {PRIME} + {PRIME}) % {PRIME})"


@dataclass(slots=True)
class Packed:
    """Sort columns that hold items, and how to read the items back.

    Attributes
    ----------
    names, columns
        Name of each sort column, and what to select for it.
    order
        What to sort by.
    values
        Expression over the sort columns that gives each item, by its name.
    """

    dialect: Dialect
    fresh: Callable[[], str]
    names: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    _word: list[Item] = field(default_factory=list)

    def column(self, sql: str) -> str:
        """Add a column and return its name."""
        name = self.fresh()
        self.names.append(name)
        self.columns.append(f"{sql} AS {name}")
        return name

    def add(self, item: Item) -> None:
        """Append an item to the current word, or begin a new one."""
        if sum(i.bits for i in self._word) + item.bits > _BITS:
            self.flush()
        self._word.append(item)

    def stand_alone(self, item: Item) -> None:
        """Give a text, or a code too wide for a word, a column of its own."""
        self.flush()
        name = self.column(item.name)
        text = self.dialect.collated(name) if item.is_text else name
        self.order.append(f"{text} NULLS LAST")
        self.values[item.name] = name

    def flush(self) -> None:
        """Write the collected fields as one word, most significant first."""
        if not self._word:
            return
        terms, below = [], sum(item.bits for item in self._word)
        for item in self._word:
            below -= item.bits
            code = _encoded(self.dialect, item)
            terms.append(f"({code}) * {self.dialect.integer(2**below)}" if below else f"({code})")
        name = self.column(" + ".join(terms))
        for item in reversed(self._word):
            self.values[item.name] = _decoded(self.dialect, name, below, item)
            below += item.bits
        self.order.append(name)
        self._word.clear()


def pack(dialect: Dialect, items: Iterable[Item], fresh: Callable[[], str]) -> Packed:
    """Pack items into words; texts and giants stand alone."""
    packed = Packed(dialect, fresh)
    for item in items:
        if item.is_text or item.bits > _BITS:
            packed.stand_alone(item)
        else:
            packed.add(item)
    packed.flush()
    return packed


def _encoded(dialect: Dialect, item: Item) -> str:
    t = item.type
    moved = item.name if t.lo == 0 else f"({item.name} - {dialect.integer(t.lo)})"
    return f"COALESCE({moved}, {dialect.integer(t.size)})" if t.nullable else moved


def _decoded(dialect: Dialect, word: str, below: int, item: Item) -> str:
    t = item.type
    shifted = dialect.shifted(word, below) if below else word
    code = f"({shifted} & {dialect.integer(2**item.bits - 1)})"
    if t.nullable:
        code = f"NULLIF({code}, {dialect.integer(t.size)})"
    return code if t.lo == 0 else f"({code} + {dialect.integer(t.lo)})"
