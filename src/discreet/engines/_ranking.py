"""The ranking hash and the packing of codes, in SQL.

Rows of a unit are ranked by ``Σ coefficient·residue mod PRIME`` and then by
their codes (:func:`discreet.plan.run` is the meaning). Sorting is what limits
cost, so hash and codes are packed, most significant first, into as few 64-bit
words as possible: comparing the words is comparing hash, then codes, with NULL
last. The words are also the payload; the codes are read back from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from discreet.engines._dialect import Dialect
from discreet.engines._ingest import WORD
from discreet.plan import PRIME, Kind, Salt, Type

_BITS = 63
_HASH_BITS = 31


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
        return not self.is_text and self.type.lo == self.type.hi and not self.type.nullable

    @property
    def bits(self) -> int:
        """Bits that hold every code, NULL included."""
        return (self.type.size - 1 + self.type.nullable).bit_length()


def hashed(
    dialect: Dialect, salt: Salt | None, unit: str, items: Sequence[Item], start: int = 1
) -> str:
    """Ranking hash of the unit's residue (an expression below 2·PRIME) and of the items.

    Partial sums are reduced only where their public bound would pass 63 bits.
    """
    total, bound = f"({unit}) * {_coefficient(salt, 0)}", (PRIME - 1) * (2 * PRIME - 1)
    offset = 0
    for index, item in enumerate(items, start):
        if item.is_constant:
            offset += _number(salt, index) * item.type.lo
            continue
        residue, most, shift = _residue(dialect, item)
        offset += _number(salt, index) * shift
        if bound + (PRIME - 1) * most + PRIME >= WORD:
            total, bound = f"(({total}) % {PRIME})", PRIME - 1
        total += f" + {residue} * {_coefficient(salt, index)}"
        bound += (PRIME - 1) * most
    if salt is None:
        return f"({total} + :offset) % {PRIME}"
    offset %= PRIME
    if bound + offset >= WORD:
        total = f"({total}) % {PRIME}"
    return f"({total} + {offset}) % {PRIME}"


def _coefficient(salt: Salt | None, index: int) -> str:
    return f":salt{index}" if salt is None else f"CAST({salt.coefficient(index)} AS BIGINT)"


def _number(salt: Salt | None, index: int) -> int:
    return 0 if salt is None else salt.coefficient(index)


def _residue(dialect: Dialect, item: Item) -> tuple[str, int, int]:
    """Non-negative residue of an item, its largest value, and what was subtracted."""
    t, x = item.type, item.name
    if item.is_text:
        return f"COALESCE({dialect.text_residue(x, PRIME)}, 0)", PRIME - 1, 0
    if t.lo >= 0 and t.hi < PRIME:
        return f"COALESCE({x}, 0)" if t.nullable else x, t.hi, 0
    if t.hi - t.lo < PRIME:
        moved = f"({x} - {dialect.integer(t.lo)})"
        null = -t.lo % PRIME
        if t.nullable:
            return f"COALESCE({moved}, {null})", max(t.hi - t.lo, null), t.lo
        return moved, t.hi - t.lo, t.lo
    return f"(COALESCE({x}, 0) % {PRIME} + {PRIME})", 2 * PRIME - 1, 0


@dataclass(slots=True)
class Packed:
    """Sort columns that hold a hash and items, and how to read the items back.

    Attributes
    ----------
    columns
        Name and expression of each sort column.
    order
        What to sort by.
    values
        Expression over the sort columns that gives each item, by its name.
    """

    dialect: Dialect
    fresh: Callable[[], str]
    columns: list[tuple[str, str]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    _word: list[tuple[str, int, Item | None]] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sort columns."""
        return tuple(name for name, _ in self.columns)

    def add(self, sql: str, bits: int, item: Item | None) -> None:
        """Append a field of some bits to the current word, or begin a new one."""
        if sum(used for _, used, _ in self._word) + bits > _BITS:
            self.flush()
        self._word.append((sql, bits, item))

    def stand_alone(self, item: Item) -> None:
        """Give a text, or a code too wide for a word, a column of its own."""
        self.flush()
        name = self.fresh()
        self.columns.append((name, item.name))
        text = self.dialect.collated(name) if item.is_text else name
        self.order.append(f"{text} NULLS LAST")
        self.values[item.name] = name

    def flush(self) -> None:
        """Write the collected fields as one word, most significant first."""
        if not self._word:
            return
        name, terms = self.fresh(), []
        below = sum(bits for _, bits, _ in self._word)
        for sql, bits, item in self._word:
            below -= bits
            terms.append(f"({sql}) * {self.dialect.integer(2**below)}" if below else f"({sql})")
            if item is not None:
                self.values[item.name] = _decoded(self.dialect, name, below, item)
        self.columns.append((name, " + ".join(terms)))
        self.order.append(name)
        self._word.clear()


def pack(
    dialect: Dialect, items: Sequence[Item], rank: str | None, fresh: Callable[[], str]
) -> Packed:
    """Pack a hash (of 31 bits) and items into words; texts and giants stand alone."""
    packed = Packed(dialect, fresh)
    if rank is not None:
        packed.add(rank, _HASH_BITS, None)
    for item in items:
        if item.is_constant:
            packed.values[item.name] = dialect.integer(item.type.lo)
        elif item.is_text or item.bits > _BITS:
            packed.stand_alone(item)
        else:
            packed.add(_encoded(dialect, item), item.bits, item)
    packed.flush()
    return packed


def _encoded(dialect: Dialect, item: Item) -> str:
    t = item.type
    moved = item.name if t.lo == 0 else f"({item.name} - {dialect.integer(t.lo)})"
    return f"COALESCE({moved}, {dialect.integer(t.size)})" if t.nullable else moved


def _decoded(dialect: Dialect, word: str, below: int, item: Item) -> str:
    t = item.type
    shifted = f"({word} >> {below})" if below else word
    code = f"({shifted} & {dialect.integer(2**item.bits - 1)})"
    if t.nullable:
        code = f"NULLIF({code}, {dialect.integer(t.size)})"
    return code if t.lo == 0 else f"({code} + {dialect.integer(t.lo)})"
