"""What engines spell differently, in one small class each.

Only identifiers, integers and escaped strings are ever written into SQL; a
double is written as an escaped string inside a cast, so that it is read back as
exactly the double it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import ClassVar, Final

from discreet.engines._physical import Found, Physical

_MAX_DOUBLE: Final = repr(sys.float_info.max)
_YEARS: Final = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
"""Instants between these are counted exactly; a policy cannot name any other."""
_NANOSECONDS: Final = dict.fromkeys(
    ("TIMESTAMP_NS", "TIMESTAMPTZ_NS"),
    ("1677-09-21 00:12:43.145224194", "2262-04-11 23:47:16.854775806"),
)
"""Types of 64 bits of nanoseconds, and their finite ends."""
_FEW: Final = 16
"""Categories up to this size are compared one by one; larger ones are looked up."""


class Dialect:
    """SQL common to all engines; subclasses say the rest."""

    name: ClassVar[str]
    double: ClassVar[str]
    wide: ClassVar[str]
    """Exact integer type with room for products of codes."""
    widest: ClassVar[str]
    """Integer type that holds every integer unit."""
    narrow: ClassVar[frozenset[str]]
    """Native types whose every value is a 64-bit integer."""
    barrier: ClassVar[str] = ""
    """Suffix that keeps a subquery from being merged into the query above."""

    def quote(self, *names: str) -> str:
        """Quote an identifier, qualified if several names are given."""
        return ".".join('"' + name.replace('"', '""') + '"' for name in names)

    def text(self, value: str) -> str:
        """Write a string literal."""
        return "'" + value.replace("'", "''") + "'"

    def integer(self, value: int) -> str:
        """Write an integer literal of 64 bits."""
        return f"CAST({value} AS BIGINT)"

    def real(self, value: float) -> str:
        """Write a double literal, exactly."""
        return f"CAST('{float(value)!r}' AS {self.double})"

    def collated(self, text: str) -> str:
        """Compare and order a text by code points."""
        return f'({text} COLLATE "C")'

    def scaled(self, x: str, step: float) -> str:
        """Double `x` over a step not below 1."""
        return f"({x} / {self.real(step)})"

    def absolute(self, x: str) -> str:
        """Absolute value."""
        return f"abs({x})"

    def matches(self, x: str, pattern: str) -> str:
        """Test a regular expression, in which a point is any character."""
        return f"regexp_matches({x}, {self.text(pattern)}, 's')"

    def xor(self, a: str, b: str) -> str:
        """Bitwise exclusive-or of two integers."""
        return f"xor({a}, {b})"

    def bit(self, truth: str) -> str:
        """Turn a truth value into 0, 1 or NULL."""
        return f"CAST(CAST({truth} AS INTEGER) AS BIGINT)"

    def choose(self, x: str, values: Sequence[int | str]) -> str:
        """Position of `x` in a short list of literals, or NULL."""
        branches = " ".join(
            f"WHEN {self.text(v) if isinstance(v, str) else v} THEN {self.integer(i)}"
            for i, v in enumerate(values)
        )
        return f"CASE {x} {branches} END"

    def position(self, x: str, values: Sequence[int | str]) -> str:
        """Position of a text or 64-bit integer in a public list, or NULL."""
        first = values[0]
        if isinstance(first, int) and tuple(values) == tuple(range(first, first + len(values))):
            inside = f"{x} BETWEEN {first} AND {values[-1]}"
            return f"CASE WHEN {inside} THEN {x} - {self.integer(first)} END"
        return self.choose(x, values) if len(values) <= _FEW else self.lookup(x, values)

    def lookup(self, x: str, values: Sequence[int | str]) -> str:
        """Position in a long list, without comparing one by one."""
        raise NotImplementedError

    def divide(self, n: str, d: str, *, wide: bool = False) -> str:
        """Integer quotient of two integers, cut off towards zero."""
        raise NotImplementedError

    def rounded(self, x: str) -> str:
        """Nearest 64-bit integer, halves to even, of a double that is known to lie in range."""
        return f"CAST({x} AS BIGINT)"

    def whole(self, x: str, found: Found, bounds: tuple[int, int]) -> str:
        """Whole number within bounds that a number equals, as a 64-bit integer, or NULL."""
        if found.native in self.narrow:
            return x
        write = self.real if found.kind is Physical.FLOAT else self.integer
        inside = f"{x} >= {write(bounds[0])} AND {x} <= {write(bounds[1])}"
        if found.kind is Physical.INTEGER:
            return f"CASE WHEN {inside} THEN CAST({x} AS BIGINT) END"
        return f"CASE WHEN {inside} AND {x} = floor({x}) THEN {self.rounded(x)} END"

    def place(self, x: str, values: Sequence[int], found: Found) -> str:
        """Position of a number of any physical type in a public list, or NULL."""
        whole = self.whole(x, found, (min(values), max(values)))
        return self.position(whole if whole == x else f"({whole})", values)

    def decimal(self, x: str) -> str:
        """Decimal; NULL for what is not a number."""
        return x

    def unit(self, x: str, found: Found) -> str:
        """Unit in the one form in which the units of all tables are compared."""
        if found.kind is Physical.TEXT:
            return self.as_text(x, found)
        return f"CAST({x} AS {self.widest})" if found.widened else x

    def touched(self, found: Found) -> str:
        """Aggregate for which every value of a column must be computed."""
        return f"count({self.quote(found.name)})"

    def as_double(self, x: str, found: Found) -> str:
        """Nearest double of a number; never fails."""
        raise NotImplementedError

    def as_text(self, x: str, found: Found) -> str:
        """Text of a text-like or integer column, compared by code points."""
        raise NotImplementedError

    def days(self, x: str) -> str:
        """Days since 1970 of a date; infinities as far-away days."""
        raise NotImplementedError

    def micros(self, x: str, found: Found) -> str:
        """Microseconds since 1970 (UTC, rounded down); infinities as far-away instants."""
        raise NotImplementedError

    def day(self, days: str) -> str:
        """Date that lies some days after 1970-01-01."""
        raise NotImplementedError

    def remainder(self, x: str, modulus: int, found: Found) -> str:
        """Signed remainder of an integer unit, in 64 bits."""
        raise NotImplementedError

    def text_residue(self, x: str, modulus: int) -> str:
        """First 60 bits of the MD5 of a text, reduced."""
        raise NotImplementedError


class DuckDB(Dialect):
    """DuckDB 2.0 and later."""

    name = "duckdb"
    double = "DOUBLE"
    wide = widest = "HUGEINT"
    narrow = frozenset(
        {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
    )

    def touched(self, found: Found) -> str:
        """Take the maximum, of text that is checked to be valid."""
        x = self.quote(found.name)
        return f"max(decode(encode({x})))" if found.native == "VARCHAR" else f"max({x})"

    def lookup(self, x: str, values: Sequence[int | str]) -> str:
        """Cast to an anonymous enumeration: one hash look-up per row."""
        labels = ", ".join(self.text(str(v)) for v in values)
        return f"CAST(enum_code(TRY_CAST(CAST({x} AS VARCHAR) AS ENUM({labels}))) AS BIGINT)"

    def divide(self, n: str, d: str, *, wide: bool = False) -> str:  # noqa: ARG002 - one spelling
        """Use the integer division operator."""
        return f"({n} // {d})"

    def rounded(self, x: str) -> str:
        """Cast; NaN, which comparisons keep out, would be NULL and not an error."""
        return f"TRY_CAST({x} AS BIGINT)"

    def place(self, x: str, values: Sequence[int], found: Found) -> str:
        """Compare decimals in their own type: others are cast into it, which may fail."""
        if found.kind is not Physical.DECIMAL:
            return super().place(x, values, found)
        digits, scale = (int(n) for n in found.native[8:-1].split(","))
        spelled = [f"{v}.{'0' * scale}" if scale else str(v) for v in values]
        if len(values) > _FEW:
            # a decimal without digits before the point is printed without a zero there
            printed = [t.removeprefix("0") if digits == scale else t for t in spelled]
            return self.lookup(x, printed)
        branches = " ".join(
            f"WHEN CAST('{text}' AS {found.native}) THEN {self.integer(i)}"
            for i, (v, text) in enumerate(zip(values, spelled, strict=True))
            if v == 0 or len(str(abs(v))) <= digits - scale
        )
        return f"CASE {x} {branches} END" if branches else "CAST(NULL AS BIGINT)"

    def as_double(self, x: str, found: Found) -> str:
        """Cast, through text where the direct cast would round twice."""
        exact = found.kind is Physical.FLOAT or found.native in {*self.narrow, "UBIGINT"}
        if found.kind is Physical.DECIMAL:
            # up to 15 digits both the integer and the power of ten are doubles
            exact = int(found.native.removeprefix("DECIMAL(").split(",")[0]) <= 15
        return f"CAST({x} AS DOUBLE)" if exact else f"CAST(CAST({x} AS VARCHAR) AS DOUBLE)"

    def as_text(self, x: str, found: Found) -> str:
        """Plain text in binary collation."""
        return self.collated(x if found.native == "VARCHAR" else f"CAST({x} AS VARCHAR)")

    def days(self, x: str) -> str:
        """Subtract the epoch; infinity is the largest 32-bit integer already."""
        return f"({x} - DATE '1970-01-01')"

    def micros(self, x: str, found: Found) -> str:
        """Compare in the column's own type before any function: some fail on far instants."""
        ends, count = _YEARS, f"epoch_us({x})"
        if found.native in _NANOSECONDS:
            # a cast to microseconds would round to nearest
            ends, ns = _NANOSECONDS[found.native], f"epoch_ns({x})"
            count = f"{ns} // 1000 - CASE WHEN {ns} % 1000 < 0 THEN 1 ELSE 0 END"
        zone = "+00" if "TZ" in found.native or "ZONE" in found.native else ""
        first, last = (f"CAST('{end}{zone}' AS {found.native})" for end in ends)
        return (
            f"CASE WHEN {x} >= {first} AND {x} <= {last} THEN {count} "
            f"WHEN {x} < {first} THEN {self.integer(-(2**62))} "
            f"WHEN {x} > {last} THEN {self.integer(2**62)} END"
        )

    def day(self, days: str) -> str:
        """Add days to the epoch."""
        return f"(DATE '1970-01-01' + CAST({days} AS INTEGER))"

    def remainder(self, x: str, modulus: int, found: Found) -> str:  # noqa: ARG002 - one spelling
        """Take the remainder in the column's own type, then narrow it."""
        return f"CAST({x} % {modulus} AS BIGINT)"

    def text_residue(self, x: str, modulus: int) -> str:
        """Read 15 hexadecimal digits."""
        return f"(CAST('0x' || md5({x})[1:15] AS BIGINT) % {modulus})"


class Postgres(Dialect):
    """PostgreSQL 14 and later."""

    name = "postgresql"
    double = "float8"
    wide = "numeric"
    widest = "bigint"
    narrow = frozenset({"bool", "int2", "int4", "int8"})
    barrier = " OFFSET 0"

    def matches(self, x: str, pattern: str) -> str:
        """Test a regular expression, in which a point is any character."""
        return f"regexp_like({x}, {self.text(pattern)})"

    def lookup(self, x: str, values: Sequence[int | str]) -> str:
        """Search the sorted keys of a constant JSON object."""
        table = json.dumps({str(v): i for i, v in enumerate(values)}, ensure_ascii=False)
        return f"CAST(CAST({self.text(table)} AS jsonb) ->> CAST({x} AS text) AS bigint)"

    def xor(self, a: str, b: str) -> str:
        """Write the bitwise exclusive or of two integers."""
        return f"(({a}) # {b})"

    def divide(self, n: str, d: str, *, wide: bool = False) -> str:
        """Divide; the slash between integers cuts off, between numerics it does not."""
        return f"CAST(div({n}, {d}) AS bigint)" if wide else f"({n} / {d})"

    def scaled(self, x: str, step: float) -> str:
        """Divide, avoiding the underflow error on tiny numbers (their code is 0 anyway)."""
        if step == 1:
            return x
        near = f"{x} > {self.real(-0.25)} AND {x} < {self.real(0.25)}"
        return f"CASE WHEN {near} THEN {self.real(0.0)} ELSE {x} / {self.real(step)} END"

    def as_double(self, x: str, found: Found) -> str:
        """Cast where that cannot fail; what is farther or finer than doubles is their end or 0.

        No bound of a policy comes near those ends.
        """
        if found.kind is not Physical.DECIMAL:
            return f"CAST({x} AS float8)"
        low, up, down, high = (
            f"CAST('{n}' AS numeric)" for n in (f"-{_MAX_DOUBLE}", "-1e-300", "1e-300", _MAX_DOUBLE)
        )
        return (
            f"CASE WHEN {x} >= {down} AND {x} <= {high} THEN CAST({x} AS float8) "
            f"WHEN {x} >= {low} AND {x} <= {up} THEN CAST({x} AS float8) "
            f"WHEN {x} > {up} AND {x} < {down} THEN {self.real(0.0)} "
            f"WHEN {x} < {low} THEN {self.real(-sys.float_info.max)} "
            f"WHEN {x} <= CAST('Infinity' AS numeric) THEN {self.real(sys.float_info.max)} END"
        )

    def decimal(self, x: str) -> str:
        """A numeric may hold NaN."""
        return f"NULLIF({x}, CAST('NaN' AS numeric))"

    def as_text(self, x: str, found: Found) -> str:  # noqa: ARG002 - one spelling
        """Plain text in binary collation."""
        return self.collated(f"CAST({x} AS text)")

    def days(self, x: str) -> str:
        """Subtract the epoch, which infinity does not allow."""
        return (
            f"CASE WHEN isfinite({x}) THEN {x} - DATE '1970-01-01' "
            f"WHEN {x} = 'infinity' THEN 2147483647 WHEN {x} = '-infinity' THEN -2147483647 END"
        )

    def micros(self, x: str, found: Found) -> str:  # noqa: ARG002 - one spelling
        """Read the epoch as an exact numeric: the last instants do not fit 64 bits."""
        return (
            f"CASE WHEN isfinite({x}) THEN EXTRACT(EPOCH FROM {x}) * 1000000 "
            f"WHEN {x} = 'infinity' THEN 1e30 WHEN {x} = '-infinity' THEN -1e30 END"
        )

    def day(self, days: str) -> str:
        """Add days to the epoch."""
        return f"(DATE '1970-01-01' + CAST({days} AS integer))"

    def remainder(self, x: str, modulus: int, found: Found) -> str:  # noqa: ARG002 - one spelling
        """Take the remainder in 64 bits."""
        return f"(CAST({x} AS bigint) % {modulus})"

    def text_residue(self, x: str, modulus: int) -> str:
        """Read 15 hexadecimal digits."""
        return f"(CAST(CAST('x0' || substr(md5({x}), 1, 15) AS bit(64)) AS bigint) % {modulus})"
