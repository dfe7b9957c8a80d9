"""What is known about a value on any row whatever: the domain of the proof.

A :class:`Value` speaks of an expression's result on every row that an engine
may choose to evaluate it on. Unless it is NULL or NaN, the result lies in
[lo, hi]; it is not NULL (NaN) unless ``null`` (``nan``) is set; its distance
from zero is at least ``far``, or else ``gap`` where it is not zero; with ``infinite``
it may also be an infinity beyond its range. Integers, decimals and PostgreSQL's numerics have
exact ends, doubles have ends rounded outwards; dates count days and instants
microseconds since 1970; an end at ±∞ allows the infinite value itself.

Beside the range travel facts that the limits need: ``per``, the range of one
row's addend in a sum; ``id``, a token shared by values that are one-to-one
images of each other; ``dep``, tokens that determine the value; ``fields``, the
disjoint bit fields of a packed word; ``unit``, that the value tells units
apart; ``sure``, that WHERE drops rows where it is NULL; ``form``, what a text is
known to look like.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from discreet.verify._read import Node, Unproven

INF: Final = math.inf
ROWS: Final = 2**60
"""More rows than any source has."""
LARGEST: Final = Fraction(1.7976931348623157e308)
Number = Any
"""An int, a Fraction or a float: ends mix, and comparisons between them are exact."""

INTEGERS: Final[dict[str, tuple[int, int]]] = {
    **{f"i{n}": (-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64, 128)},
    **{f"u{n}": (0, 2**n - 1) for n in (8, 16, 32, 64)},
    "d38": (1 - 10**38, 10**38 - 1),  # Spark's DECIMAL(38,0)
}
_SHARED: Final = {
    "SMALLINT": "i16", "INTEGER": "i32", "BIGINT": "i64", "BOOLEAN": "bool", "DATE": "date",
    "TIMESTAMP": "ts", "TIMESTAMP WITH TIME ZONE": "tz", "UUID": "uuid", "VARCHAR": "text",
}  # fmt: skip
NAMES: Final[dict[str, dict[str, str]]] = {
    "duckdb": _SHARED | {
        "TINYINT": "i8", "HUGEINT": "i128", "UTINYINT": "u8", "USMALLINT": "u16",
        "UINTEGER": "u32", "UBIGINT": "u64", "FLOAT": "f32", "DOUBLE": "f64", "ENUM": "enum",
        "DECIMAL": "dec", "TIMESTAMP_S": "ts_s", "TIMESTAMP_MS": "ts_ms", "TIMESTAMP_NS": "ts_ns",
        "TIMESTAMPTZ_NS": "tz_ns",
    },
    "postgresql": _SHARED | {
        "INT2": "i16", "INT4": "i32", "INT8": "i64", "FLOAT4": "f32", "FLOAT8": "f64",
        "BOOL": "bool", "TEXT": "text", "BPCHAR": "text", "NUMERIC": "num", "TIMESTAMPTZ": "tz",
        "JSONB": "json",
        "BIT": "bit",
    },
    "spark": {
        "BOOLEAN": "bool", "TINYINT": "i8", "SMALLINT": "i16", "INT": "i32", "INTEGER": "i32",
        "BIGINT": "i64", "FLOAT": "f32", "DOUBLE": "f64", "DECIMAL": "dec", "STRING": "text",
        "DATE": "date", "TIMESTAMP": "tz", "TIMESTAMP_NTZ": "ts",
    },
}  # fmt: skip
"""Names of types, as engines print them and as statements spell them."""
INSTANTS: Final = frozenset({"ts", "tz", "ts_s", "ts_ms", "ts_ns", "tz_ns"})
TEXTS: Final = frozenset({"text", "enum"})
NUMBERS: Final = frozenset(INTEGERS) | {"f32", "f64", "dec", "num"}
DAYS: Final = {
    "duckdb": (-2147483646, 2147483646),
    "postgresql": (-2440588, 2145042905),
    "spark": (-(2**31), 2**31 - 1),
}
"""Finite dates, in days since 1970."""
_DIGITS: Final = 38
"""Most digits of a decimal in DuckDB and Spark; powers of ten of more would take for ever."""

EPOCH: Final = (-211_813_488_000 * 10**6, 9_224_318_016_000 * 10**6)
"""Finite instants of PostgreSQL, in microseconds since 1970."""


class Field(NamedTuple):
    """Bits of a packed word: where they begin, their range, whose image they are."""

    at: int
    lo: int
    hi: int
    id: int | None


VOID = ("void",)
"""Form of a value that is NULL on every row: a type, and no range."""


class Value(NamedTuple):
    """What holds for an expression on any row; see the module's head."""

    type: str
    lo: Number = -INF
    hi: Number = INF
    null: bool = True
    nan: bool = False
    far: Number = 0
    gap: Number = 0
    infinite: bool = False
    whole: bool = False
    literal: bool = False
    statistics: bool = False
    per: tuple[Number, Number] | None = None
    id: int | None = None
    dep: frozenset[int] = frozenset()
    fields: tuple[Field, ...] = ()
    unit: bool = False
    sure: bool = False
    form: tuple[Any, ...] = ()

    @property
    def number(self) -> bool:
        """Whether it is a number of any type."""
        return self.type in NUMBERS

    @property
    def constant(self) -> bool:
        """Whether engines may compute it before they see a row."""
        return not self.dep

    @property
    def present(self) -> bool:
        """Whether no row that a WHERE below keeps has NULL; evaluation may still meet one."""
        return self.sure or not self.null

    def void(self) -> Value:
        """Same value where it is NULL on every row: of a type, and without a range.

        What belongs to the type, such as a decimal's scale, stays.
        """
        form = self.form if self.type in ("dec", "enum", "bit") else VOID
        return self._replace(
            lo=0, hi=0, far=0, gap=0, whole=self.number, literal=False, fields=(), form=form
        )

    @property
    def size(self) -> Number:
        """Largest absolute value."""
        return max(abs(self.lo), abs(self.hi))

    @property
    def clear(self) -> Number:
        """Least absolute value of those that are not zero."""
        return INF if self.lo == self.hi == 0 else max(self.gap, self.away)

    @property
    def away(self) -> Number:
        """Least absolute value."""
        if self.lo > 0 or self.hi < 0:
            return max(self.far, min(abs(self.lo), abs(self.hi)))
        return self.far


class Fact(NamedTuple):
    """What a condition tells about an expression where it holds."""

    lo: Number = -INF
    hi: Number = INF
    below: bool = False  # strictly below hi
    above: bool = False  # strictly above lo
    known: bool = False  # not NULL
    real: bool = False  # not NaN, whatever statistics say
    compared: bool = False  # not NaN, if the comparison is not removed
    finite: bool = False
    far: Number = 0

    @property
    def away(self) -> Number:
        """Least absolute value."""
        return max(self.far, self.lo, -self.hi, 0)


class Facts(dict[Node, Fact]):
    """Facts about expressions, and the values found where they hold."""

    __slots__ = ("memo",)

    def __init__(self, *facts: Mapping[Node, Fact]) -> None:
        super().__init__(*facts)
        self.memo: dict[Node, Value] = {}


def meet(a: Facts, b: Facts) -> Facts:
    """Facts where both hold."""
    if not b:
        return a
    if not a:
        return b
    out = Facts(a)
    for node, y in b.items():
        x = out.get(node)
        if x is None:
            out[node] = y
            continue
        lo, above = max((x.lo, x.above), (y.lo, y.above))
        hi, closed = min((x.hi, not x.below), (y.hi, not y.below))
        out[node] = Fact(lo, hi, not closed, above, x.known or y.known, x.real or y.real,
                         x.compared or y.compared, x.finite or y.finite,
                         max(x.away, y.away))  # fmt: skip
    return out


def join(a: Facts, b: Facts) -> Facts:
    """Facts where at least one holds."""
    out = Facts()
    for node in a.keys() & b.keys():
        x, y = a[node], b[node]
        lo, above = min((x.lo, x.above), (y.lo, y.above))
        hi, closed = max((x.hi, not x.below), (y.hi, not y.below))
        out[node] = Fact(lo, hi, not closed, above, x.known and y.known, x.real and y.real,
                         x.compared and y.compared, x.finite and y.finite,
                         min(x.away, y.away))  # fmt: skip
    return out


def narrowed(v: Value, fact: Fact, dialect: str) -> Value | None:
    """Value where a fact holds; None where it cannot hold."""
    lo, hi = fact.lo, fact.hi
    if v.type in INTEGERS or v.whole:
        # the ends of a fact about integers may be anything that compares
        lo = math.floor(lo) + 1 if fact.above and abs(lo) != INF else _up(lo)
        hi = math.ceil(hi) - 1 if fact.below and abs(hi) != INF else _down(hi)
    if fact.finite:
        top: tuple[Number, Number] = (-LARGEST, LARGEST)
        if v.type == "date":
            top = DAYS[dialect]
        elif v.type in INSTANTS:
            # DuckDB takes the least 64-bit integer for a finite instant
            top = EPOCH if dialect == "postgresql" else (-(2**63), 2**63 - 2)
        lo, hi = max(lo, top[0]), min(hi, top[1])
    lo, hi = max(v.lo, lo), min(v.hi, hi)
    if lo > hi:
        return None
    nan = v.nan and not fact.real and not (fact.compared and not v.statistics)
    return v._replace(
        lo=lo, hi=hi, null=v.null and not fact.known, nan=nan, far=max(v.far, fact.away), fields=()
        if (lo, hi) != (v.lo, v.hi) and len(v.fields) < 2 else v.fields,
    )  # fmt: skip


def _up(x: Number) -> Number:
    return x if abs(x) == INF else math.ceil(x)


def _down(x: Number) -> Number:
    return x if abs(x) == INF else math.floor(x)


_NATIVE: Final = re.compile(r"([A-Z0-9_ ]+?)(?:\(([^()]*)\))?( WITH(?:OUT)? TIME ZONE)?")


def named_type(name: str, parameters: tuple[str, ...], dialect: str) -> tuple[str, tuple[Any, ...]]:
    """Type of a name in a statement or a catalogue, and what its parameters say."""
    kind = NAMES[dialect].get(name)
    if kind is None and dialect == "spark" and name.startswith("STRING COLLATE "):
        return "collated", ()  # a text that its own collation compares, until it is given another
    if kind is None:
        raise Unproven(f"type {name}")
    if kind == "enum":
        if len(set(parameters)) != len(parameters):
            raise Unproven("an enumeration that repeats a label")
        return kind, ("enum", len(parameters))
    if kind == "dec":
        width, scale = (int(p) for p in parameters or ("18", "3"))
        if not 0 <= scale <= width <= _DIGITS:
            raise Unproven(f"type {name} of {width} digits, {scale} of them after the point")
        if dialect == "spark" and (width, scale) == (38, 0):
            return "d38", ()
        return kind, (width, scale)
    if kind == "bit":
        return kind, parameters
    if parameters and kind not in ("text", "num", "ts", "tz"):
        raise Unproven(f"type {name} with parameters")
    return kind, ()


def column(native: str, dialect: str, token: int, *, unit: bool) -> Value:
    """Value of a physical column: whatever its type can hold."""
    return _column(native, dialect, unit=unit)._replace(id=token, dep=frozenset((token,)))


@lru_cache(1024)
def _column(native: str, dialect: str, *, unit: bool) -> Value:
    text = native.upper()
    if text.startswith("ENUM("):
        kind: str = "enum"
        form: tuple[Any, ...] = ()
    else:
        match = _NATIVE.fullmatch(text)
        if match is None:
            return Value("other")
        parameters = tuple(p.strip() for p in (match[2] or "").split(",") if p.strip())
        try:
            kind, form = named_type(match[1] + (match[3] or ""), parameters, dialect)
        except (Unproven, ValueError):
            # a column that nobody computes with does no harm
            return Value("other")
    lo: Number
    hi: Number
    lo, hi = INTEGERS.get(kind, (-INF, INF))
    if kind == "dec":
        hi = Fraction(10 ** form[0] - 1, 10 ** form[1])
        lo = -hi
    if kind == "collated" and unit:
        # its collation may take two units for one, until it is given another
        unit, form = False, ("unit",)
    return Value(
        kind, lo, hi, nan=kind in ("f32", "f64", "num"), whole=kind in INTEGERS,
        statistics=dialect == "duckdb", unit=unit, form=form,
    )  # fmt: skip


def packed(v: Value) -> tuple[Field, ...]:
    """Bit fields of a word, or the word as one field."""
    if v.fields:
        return v.fields
    if v.type in INTEGERS and v.lo >= 0:
        # a NULL beside it makes the whole word NULL, so then the field is no image
        return (Field(0, int(v.lo), int(v.hi), v.id if v.present else None),)
    return ()


def side_by_side(a: Value, b: Value) -> tuple[Field, ...]:
    """Fields of a sum whose summands occupy different bits."""
    one, two = packed(a), packed(b)
    if not (one and two):
        return ()
    fields = sorted(one + two, key=lambda f: f.at)
    apart = all((f.hi << f.at) < (1 << g.at) for f, g in pairwise(fields))
    return tuple(fields) if apart else ()


def word(fields: tuple[Field, ...]) -> tuple[int, int]:
    """Range of a word of disjoint fields."""
    return sum(f.lo << f.at for f in fields), sum(f.hi << f.at for f in fields)
