"""What engines spell differently, in one small class each.

Only identifiers, integers and escaped strings are ever written into SQL; a
double is written as an escaped string inside a cast, so that it is read back as
exactly the double it was.

What engines are known to differ in has no default here: quoting, escaping, collation,
quantising, wide sums, wide division, weekdays, the clock. An engine that does not
state one of them cannot be made.
"""

from __future__ import annotations

import json
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar, Final

from discreet.engines._physical import Field, Physical
from discreet.errors import UnsupportedQueryError
from discreet.plan import LONGEST_NAME

_MAX_DOUBLE: Final = repr(sys.float_info.max)
_YEARS: Final = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
"""Instants between these are counted exactly; a policy cannot name any other."""
_NANOSECONDS: Final = dict.fromkeys(
    ("TIMESTAMP_NS", "TIMESTAMPTZ_NS"),
    ("1677-09-21 00:12:43.145224194", "2262-04-11 23:47:16.854775806"),
)
"""Types of 64 bits of nanoseconds, and their finite ends."""
_PIECE: Final = 2**22
"""Pieces of integers that Spark adds up by themselves."""
_BLANKS: Final = 100
"""Signs of a pattern for any one character that Spark is asked to match, at most."""
_FEW: Final = 16
"""Categories up to this size are compared one by one; larger ones are looked up. So are steps."""
_APART: Final = 8
"""Integers from one step to the next, on average, where Spark lists a value for each."""


def _form(text: str) -> Callable[..., str]:
    """Spell a method as SQL with places for operands; one that has no place does not count."""
    return text.format


class Dialect(ABC):
    """SQL common to all engines; subclasses say the rest, by forms where one text will do."""

    name: ClassVar[str]
    double: ClassVar[str]
    wide: ClassVar[str]
    """Exact integer type with room for products of codes."""
    widest: ClassVar[str]
    """Integer type that holds every integer unit."""
    narrow: ClassVar[frozenset[str]]
    """Native types whose every value is a 64-bit integer."""
    string: ClassVar[str]
    """Type of texts."""
    fence: ClassVar[str]
    """Suffix of a bare SELECT below which the engine moves nothing."""
    barrier: ClassVar[str] = ""
    """Suffix that keeps a subquery from being merged into the query above."""
    ranks_in_order: ClassVar[bool] = False
    """Whether rows cannot be numbered without an order."""
    adds_early: ClassVar[bool] = True
    """Whether rows are added up by raw texts first, where that is possible."""
    longest: ClassVar[float] = math.inf
    """Letters of the longest value that is written where it is used, without a name of its own."""

    @abstractmethod
    def quote(self, *names: str) -> str:
        """Quote an identifier, qualified if several names are given."""

    @abstractmethod
    def text(self, value: str) -> str:
        """Write a string literal."""

    def integer(self, value: int) -> str:
        """Write an integer literal of 64 bits."""
        return f"CAST({value} AS BIGINT)"

    def real(self, value: float) -> str:
        """Write a double literal, exactly."""
        return f"CAST('{float(value)!r}' AS {self.double})"

    @abstractmethod
    def collated(self, text: str) -> str:
        """Compare and order a text by code points."""

    @abstractmethod
    def trimmed(self, x: str) -> str:
        """Take plain spaces off both ends of a text."""

    @abstractmethod
    def total(self, x: str, bounds: tuple[int, int]) -> str:
        """Exact sum of integers of 64 bits within public bounds; NULL of none."""

    def calendar(self, part: str, days: str) -> str:
        """Part of the date that lies some days after 1970-01-01."""
        return f"CAST(EXTRACT({self.part(part)} FROM {self.day(days)}) AS BIGINT)"

    @abstractmethod
    def part(self, name: str) -> str:
        """Name in EXTRACT of a part of a date; ``isodow`` is 1 on Mondays."""

    def scaled(self, x: str, step: float) -> str:
        """Double `x` over a step not below 1."""
        return f"({x} / {self.real(step)})"

    @abstractmethod
    def matches(self, x: str, pattern: str) -> str:
        """Test a regular expression, in which a point is any character."""

    def like(self, x: str, pattern: str) -> str:
        """Test a pattern, in which ``!`` escapes."""
        return f"({x} LIKE {self.text(pattern)} ESCAPE '!')"

    @abstractmethod
    def xor(self, a: str, b: str) -> str:
        """Bitwise exclusive-or of two integers."""

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

    def steps(self, x: str, edges: Sequence[int], values: Sequence[int]) -> str:
        """Value for the range between increasing edges that an integer lies in: binary search."""
        if not edges:
            return self.integer(values[0])
        middle = len(edges) // 2
        lower = self.steps(x, edges[:middle], values[: middle + 1])
        upper = self.steps(x, edges[middle + 1 :], values[middle + 1 :])
        return f"CASE WHEN {x} < {self.integer(edges[middle])} THEN {lower} ELSE {upper} END"

    @abstractmethod
    def shifted(self, x: str, by: int) -> str:
        """Bits of an integer from some place on."""

    @abstractmethod
    def lookup(self, x: str, values: Sequence[int | str]) -> str:
        """Position in a long list, without comparing one by one."""

    @abstractmethod
    def divide(self, n: str, d: str) -> str:
        """Integer quotient of two 64-bit integers, cut off towards zero."""

    @abstractmethod
    def floor_wide(self, n: str, d: int, shift: int, hold: Callable[[str], str]) -> str:
        """Floor of a 64-bit integer over `d`, where adding ``shift * d`` might leave 64 bits.

        The sum is never negative. `hold` gives a name to what is written twice.
        """

    @abstractmethod
    def rounded(self, x: str) -> str:
        """Nearest 64-bit integer, halves to even, of a double that is known to lie in range."""

    def is_whole(self, x: str) -> str:
        """Test whether a number that is not an integer by type is one by value."""
        return f"{x} = floor({x})"

    def whole(self, x: str, field: Field, bounds: tuple[int, int]) -> str:
        """Whole number within bounds that a number equals, as a 64-bit integer, or NULL."""
        if field.native in self.narrow:
            return x
        write = self.real if field.kind is Physical.FLOAT else self.integer
        inside = f"{x} >= {write(bounds[0])} AND {x} <= {write(bounds[1])}"
        if field.kind is Physical.INTEGER:
            return f"CASE WHEN {inside} THEN CAST({x} AS BIGINT) END"
        return f"CASE WHEN {inside} AND {self.is_whole(x)} THEN {self.rounded(x)} END"

    def place(self, x: str, values: Sequence[int], field: Field) -> str:
        """Position of a number of any physical type in a public list, or NULL."""
        whole = self.whole(x, field, (min(values), max(values)))
        return self.position(whole if whole == x else f"({whole})", values)

    def choose_decimal(self, x: str, values: Sequence[int], field: Field) -> str:
        """Position of a decimal in a list, compared in its own type; NULL if it is not there."""
        digits, scale = field.digits
        branches = " ".join(
            f"WHEN CAST('{_spelled(v, scale)}' AS {field.native}) THEN {self.integer(i)}"
            for i, v in enumerate(values)
            if v == 0 or len(str(abs(v))) <= digits - scale
        )
        return f"CASE {x} {branches} END" if branches else "CAST(NULL AS BIGINT)"

    def decimal(self, x: str) -> str:
        """Decimal; NULL for what is not a number."""
        return x

    def unit(self, x: str, field: Field) -> str:
        """Unit in the one form in which the units of all tables are compared."""
        if field.kind is Physical.TEXT:
            return self.as_text(x, field)
        return f"CAST({x} AS {self.widest})" if field.widened else x

    def somebody(self, x: str, field: Field) -> str:
        """Test whether a column names a unit: see ``LONGEST_NAME``."""
        if field.kind is not Physical.TEXT:
            return f"{x} IS NOT NULL"
        return f"{x} IS NOT NULL AND {self.octets(x, field)} <= {LONGEST_NAME}"

    def touched(self, field: Field) -> str:
        """Aggregate for which every value of a column must be computed."""
        return f"count({self.quote(field.name)})"

    @abstractmethod
    def octets(self, x: str, field: Field) -> str:
        """Bytes of a column, written as a text."""

    @abstractmethod
    def as_double(self, x: str, field: Field) -> str:
        """Nearest double of a number; never fails."""

    @abstractmethod
    def as_text(self, x: str, field: Field) -> str:
        """Text of a text-like or integer column, compared by code points."""

    def label(self, x: str, field: Field) -> str:
        """Text of a column of texts that is looked for among labels, and does nothing else."""
        return self.as_text(x, field)

    def is_text(self, x: str) -> str:
        """Test whether a :meth:`label` is a text."""
        return f"{x} IS NOT NULL"

    @abstractmethod
    def days(self, x: str) -> str:
        """Days since 1970 of a date; infinities as far-away days."""

    @abstractmethod
    def micros(self, x: str, field: Field) -> str:
        """Microseconds since 1970 (UTC, rounded down); infinities as far-away instants."""

    @abstractmethod
    def day(self, days: str) -> str:
        """Date that lies some days after 1970-01-01."""

    @abstractmethod
    def remainder(self, x: str, modulus: int, field: Field) -> str:
        """Signed remainder of an integer unit, in 64 bits."""

    @abstractmethod
    def text_residue(self, x: str, modulus: int) -> str:
        """First 60 bits of the MD5 of a text, reduced."""


def _spelled(value: int, scale: int) -> str:
    """Write a whole number as a decimal of some scale."""
    return f"{value}.{'0' * scale}" if scale else str(value)


class Standard(Dialect):
    """What DuckDB and PostgreSQL have in common with the standard, and with no other engine."""

    string = "VARCHAR"
    fence = " OFFSET 0"
    collated = _form('({} COLLATE "C")')
    shifted = _form("({} >> {})")
    trimmed = _form("rtrim(ltrim({}, ' '), ' ')")
    total = _form("sum({})")  # sums of 64-bit integers are wider
    part = _form("{}")

    def quote(self, *names: str) -> str:
        """Quote by double quotes, which are doubled."""
        return ".".join('"' + name.replace('"', '""') + '"' for name in names)

    def text(self, value: str) -> str:
        """Quote by single quotes, which are doubled; a backslash is a plain sign."""
        return "'" + value.replace("'", "''") + "'"

    def floor_wide(self, n: str, d: int, shift: int, hold: Callable[[str], str]) -> str:  # noqa: ARG002 - written once
        """Divide in the wide type."""
        moved = f"(CAST({n} AS {self.wide}) + {shift * d})"
        return f"(CAST({self.divide_wide(moved, str(d))} AS BIGINT) - {self.integer(shift)})"

    @abstractmethod
    def divide_wide(self, n: str, d: str) -> str:
        """Integer quotient of wide integers, cut off towards zero."""


class DuckDB(Standard):
    """DuckDB 2.0 and later."""

    name = "duckdb"
    double = "DOUBLE"
    wide = widest = "HUGEINT"
    narrow = frozenset(
        {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
    )
    xor = _form("xor({}, {})")
    divide = divide_wide = _form("({} // {})")
    # NaN, which comparisons keep out, would be NULL and not an error
    rounded = _form("TRY_CAST({} AS BIGINT)")
    days = _form("({} - DATE '1970-01-01')")  # infinity is the largest 32-bit integer already
    day = _form("(DATE '1970-01-01' + CAST({} AS INTEGER))")
    # in the column's own type, then narrowed
    remainder = _form("CAST({} % {} AS BIGINT)")
    text_residue = _form("(CAST('0x' || md5({})[1:15] AS BIGINT) % {})")

    def touched(self, field: Field) -> str:
        """Take the maximum, of text that is checked to be valid."""
        x = self.quote(field.name)
        return f"max(decode(encode({x})))" if field.native == "VARCHAR" else f"max({x})"

    def lookup(self, x: str, values: Sequence[int | str]) -> str:
        """Cast to an anonymous enumeration: one hash look-up per row."""
        labels = ", ".join(self.text(str(v)) for v in values)
        return f"CAST(enum_code(TRY_CAST(CAST({x} AS VARCHAR) AS ENUM({labels}))) AS BIGINT)"

    def matches(self, x: str, pattern: str) -> str:
        """Let a point be any character, by a flag."""
        return f"regexp_matches({x}, {self.text(pattern)}, 's')"

    def place(self, x: str, values: Sequence[int], field: Field) -> str:
        """Compare decimals in their own type: others are cast into it, which may fail."""
        if field.kind is not Physical.DECIMAL:
            return super().place(x, values, field)
        if len(values) <= _FEW:
            return self.choose_decimal(x, values, field)
        digits, scale = field.digits
        # a decimal without digits before the point is printed without a zero there
        printed = [_spelled(v, scale) for v in values]
        return self.lookup(x, [t.removeprefix("0") if digits == scale else t for t in printed])

    def as_double(self, x: str, field: Field) -> str:
        """Cast, through text where the direct cast would round twice."""
        exact = field.kind is Physical.FLOAT or field.native in {*self.narrow, "UBIGINT"}
        if field.kind is Physical.DECIMAL:
            # up to 15 digits both the integer and the power of ten are doubles
            exact = field.digits[0] <= 15
        return f"CAST({x} AS DOUBLE)" if exact else f"CAST(CAST({x} AS VARCHAR) AS DOUBLE)"

    def as_text(self, x: str, field: Field) -> str:
        """Plain text in binary collation."""
        return self.collated(x if field.native == "VARCHAR" else f"CAST({x} AS VARCHAR)")

    def octets(self, x: str, field: Field) -> str:  # noqa: ARG002 - one spelling
        """Bytes of a text."""
        return f"strlen(CAST({x} AS VARCHAR))"

    def micros(self, x: str, field: Field) -> str:
        """Compare in the column's own type before any function: some fail on far instants."""
        ends, count = _YEARS, f"epoch_us({x})"
        if field.native in _NANOSECONDS:
            # a cast to microseconds would round to nearest
            ends, ns = _NANOSECONDS[field.native], f"epoch_ns({x})"
            count = f"{ns} // 1000 - CASE WHEN {ns} % 1000 < 0 THEN 1 ELSE 0 END"
        zone = "+00" if "TZ" in field.native or "ZONE" in field.native else ""
        first, last = (f"CAST('{end}{zone}' AS {field.native})" for end in ends)
        return (
            f"CASE WHEN {x} >= {first} AND {x} <= {last} THEN {count} "
            f"WHEN {x} < {first} THEN {self.integer(-(2**62))} "
            f"WHEN {x} > {last} THEN {self.integer(2**62)} END"
        )


class Postgres(Standard):
    """PostgreSQL 14 and later."""

    name = "postgresql"
    double = "float8"
    wide = "numeric"
    widest = "bigint"
    narrow = frozenset({"bool", "int2", "int4", "int8"})
    barrier = " OFFSET 0"
    xor = _form("(({}) # {})")
    divide = _form("({} / {})")  # between integers the slash cuts off, between numerics it does not
    divide_wide = _form("CAST(div({}, {}) AS bigint)")
    rounded = _form("CAST({} AS BIGINT)")  # halves to even
    decimal = _form("NULLIF({}, CAST('NaN' AS numeric))")
    # infinity cannot be subtracted from
    days = _form(
        "CASE WHEN isfinite({0}) THEN {0} - DATE '1970-01-01' "
        "WHEN {0} = 'infinity' THEN 2147483647 WHEN {0} = '-infinity' THEN -2147483647 END"
    )
    # an exact numeric: the last instants do not fit 64 bits
    micros = _form(
        "CASE WHEN isfinite({0}) THEN EXTRACT(EPOCH FROM {0}) * 1000000 "
        "WHEN {0} = 'infinity' THEN 1e30 WHEN {0} = '-infinity' THEN -1e30 END"
    )
    day = _form("(DATE '1970-01-01' + CAST({} AS integer))")
    remainder = _form("(CAST({} AS bigint) % {})")
    text_residue = _form("(CAST(CAST('x0' || substr(md5({}), 1, 15) AS bit(64)) AS bigint) % {})")

    def matches(self, x: str, pattern: str) -> str:
        """Test a regular expression, in which a point is any character."""
        return f"regexp_like({x}, {self.text(pattern)})"

    def lookup(self, x: str, values: Sequence[int | str]) -> str:
        """Search the sorted keys of a constant JSON object."""
        table = json.dumps({str(v): i for i, v in enumerate(values)}, ensure_ascii=False)
        return f"CAST(CAST({self.text(table)} AS jsonb) ->> CAST({x} AS text) AS bigint)"

    def scaled(self, x: str, step: float) -> str:
        """Divide, avoiding the underflow error on tiny numbers (their code is 0 anyway)."""
        if step == 1:
            return x
        near = f"{x} > {self.real(-0.25)} AND {x} < {self.real(0.25)}"
        return f"CASE WHEN {near} THEN {self.real(0.0)} ELSE {x} / {self.real(step)} END"

    def as_double(self, x: str, field: Field) -> str:
        """Cast where that cannot fail; what is farther or finer than doubles is their end or 0.

        No bound of a policy comes near those ends.
        """
        if field.kind is not Physical.DECIMAL:
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

    def as_text(self, x: str, field: Field) -> str:  # noqa: ARG002 - one spelling
        """Plain text in binary collation."""
        return self.collated(f"CAST({x} AS text)")

    def octets(self, x: str, field: Field) -> str:
        """Bytes of a text; where it is stored beside the row, its length stands in the row.

        A cast takes the blanks off a ``char(n)``, which are read all the same.
        """
        return f"octet_length({x if field.native == 'bpchar' else f'CAST({x} AS text)'})"


class Spark(Dialect):
    """Spark 4 and later, in either mode: nothing that is written raises, or wraps, or is NULL.

    A double quote begins a string there, a backslash escapes, ``${`` names a variable even
    inside a string, casts of doubles cut off, sums of 64-bit integers have 64 bits, and
    the quotient of decimals wraps. Each of them has its answer below.
    """

    name = "spark"
    double = "DOUBLE"
    wide = "DECIMAL(38,0)"
    widest = "BIGINT"
    string = "STRING"
    narrow = frozenset({"boolean", "tinyint", "smallint", "int", "bigint"})
    # a condition that is not deterministic: neither moved nor passed by; OFFSET 0 is dropped
    fence = " WHERE monotonically_increasing_id() >= 0"
    ranks_in_order = True
    adds_early = False  # sums of limbs would have to be split once more
    # its parser reads a bracket to the end before it opens it, and remembers every step
    longest = 1000
    collated = _form("({} COLLATE UTF8_BINARY)")  # a column may carry another
    octets = _form("octet_length({} COLLATE UTF8_BINARY)")
    trimmed = _form("trim({})")  # plain spaces, where no signs are named
    # a function: once a statement has said "map", the operator is two signs
    shifted = _form("shiftright({}, {})")
    xor = _form("(({}) ^ {})")  # it binds loosely
    divide = _form("({} div {})")
    rounded = _form("CAST(rint({}) AS BIGINT)")  # halves to even; the cast itself cuts off
    is_whole = _form("{0} = rint({0})")  # of doubles; floor would give a 64-bit integer
    as_double = _form("CAST({} AS DOUBLE)")  # every number has a nearest double
    days = _form("unix_date({})")  # no date is infinite
    day = _form("date_from_unix_date(CAST({} AS INT))")
    remainder = _form("(CAST({} AS BIGINT) % {})")
    text_residue = _form("(CAST(conv(substr(md5({}), 1, 15), 16, 10) AS BIGINT) % {})")

    def quote(self, *names: str) -> str:
        """Quote by backticks, which are doubled."""
        return ".".join("`" + name.replace("`", "``") + "`" for name in names)

    def text(self, value: str) -> str:
        """Escape by backslashes; a dollar sign too, since variables are replaced in strings."""
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
        return f"'{escaped}'"

    def total(self, x: str, bounds: tuple[int, int]) -> str:
        """Add up pieces of 22 bits, none of which leaves 64 bits in 2^40 rows."""
        low, high = bounds
        if max(abs(low), abs(high)) < 2**23:
            return f"sum({x})"
        far = max(abs(low), abs(high)) >= 2**44
        pieces = [(f"{x} & {_PIECE - 1}", 0)]
        if far:
            pieces.append((f"{self.shifted(x, 22)} & {_PIECE - 1}", 22))
        last = 44 if far else 22
        pieces.append((self.shifted(x, last), last))
        return " + ".join(
            f"CAST(sum({sql}) AS {self.wide})" + (f" * {2**at}" if at else "") for sql, at in pieces
        )

    def part(self, name: str) -> str:
        """Name the day of the week as Spark does."""
        return {"isodow": "dow_iso"}.get(name, name)

    def matches(self, x: str, pattern: str) -> str:
        """Refuse: Java matches by backtracking, which may take forever, or all of the stack."""
        raise UnsupportedQueryError(
            "regular expressions are not asked of Spark, whose matching can fail on a long text",
            hint=f"LIKE '%…%', instead of {pattern!r}" if x else None,
        )

    def like(self, x: str, pattern: str) -> str:
        """Refuse what Java, by which Spark matches, would try at places of places of a text.

        One ``%`` is tried at each place once, and the last of a pattern at none. Each ``_`` is a
        call inside that of the sign before it, on the stack.
        """
        signs = re.findall(r"!.|[^!]", pattern, re.DOTALL)
        signs = [s for i, s in enumerate(signs) if s != "%" or signs[i - 1 : i] != ["%"]]
        if signs[:-1].count("%") > 1:
            raise UnsupportedQueryError(
                "a pattern with something between several % is not asked of Spark, which may take "
                "forever to match it",
                hint="LIKE 'a%' AND LIKE '%b%', instead of LIKE 'a%b%c'",
            )
        if signs.count("_") > _BLANKS:
            raise UnsupportedQueryError(
                f"a pattern with more than {_BLANKS} _ is not asked of Spark, whose matching can "
                "fail on a long text",
                hint="LENGTH, or LIKE with fewer _",
            )
        return super().like(x, "".join(signs))

    def lookup(self, x: str, values: Sequence[int | str]) -> str:
        """Look a key up in a constant map; NULL if it is not there, in either mode."""
        pairs = ", ".join(
            f"{self.text(v) if isinstance(v, str) else self.integer(v)}, {self.integer(i)}"
            for i, v in enumerate(values)
        )
        return f"try_element_at(map({pairs}), {x})"

    def steps(self, x: str, edges: Sequence[int], values: Sequence[int]) -> str:
        """Read many steps that lie close together from a list: as cases they fill a driver."""
        if len(edges) <= _FEW or edges[-1] - edges[0] > _APART * len(edges):
            return super().steps(x, edges, values)
        runs = pairwise([*edges, edges[-1] + 1])
        inside = [v for (a, b), v in zip(runs, values[1:], strict=True) for _ in range(b - a)]
        narrow = max(map(abs, inside)) < 2**31
        listed = ", ".join(map(str if narrow else self.integer, inside))
        value = f"try_element_at(array({listed}), CAST({x} - {self.integer(edges[0] - 1)} AS INT))"
        return (
            f"CASE WHEN {x} < {self.integer(edges[0])} THEN {self.integer(values[0])} "
            f"WHEN {x} > {self.integer(edges[-1])} THEN {self.integer(values[-1])} "
            f"ELSE {f'CAST({value} AS BIGINT)' if narrow else value} END"
        )

    def floor_wide(self, n: str, d: int, shift: int, hold: Callable[[str], str]) -> str:  # noqa: ARG002 - nothing is moved
        """Take the remainder off first: a quotient of decimals would wrap."""
        name, by = hold(n), self.integer(d)
        return f"(({name} - pmod({name}, {by})) div {by})"

    def place(self, x: str, values: Sequence[int], field: Field) -> str:
        """Compare decimals in their own type: a common one may have fewer digits."""
        if field.kind is Physical.DECIMAL:
            return self.choose_decimal(x, values, field)
        return super().place(x, values, field)

    def as_text(self, x: str, field: Field) -> str:
        """Plain text in binary collation; NULL for bytes that are none."""
        checked = f"try_validate_utf8({self.collated(x)})"
        return checked if field.kind is Physical.TEXT else f"CAST({x} AS STRING)"

    def touched(self, field: Field) -> str:
        """Take the maximum: a count of what cannot be NULL is one of rows, and computes nothing.

        It stays there: it may be no text that could be collected, and is a private value.
        """
        return f"max({self.quote(field.name)}) IS NULL"

    def label(self, x: str, field: Field) -> str:  # noqa: ARG002 - one spelling
        """Take the bytes as they are: those that are no text equal no label."""
        return self.collated(x)

    def is_text(self, x: str) -> str:
        """Check the bytes only here, of what equals no label: it takes longer than adding up."""
        return f"try_validate_utf8({x}) IS NOT NULL"

    def unit(self, x: str, field: Field) -> str:
        """Take a unit's bytes as they are; those that are no text were dropped."""
        return self.collated(x) if field.kind is Physical.TEXT else super().unit(x, field)

    def somebody(self, x: str, field: Field) -> str:
        """Let bytes that are no text name nobody, as in other engines."""
        test = super().somebody(x, field)
        if field.kind is not Physical.TEXT:
            return test
        return f"{test} AND {self.is_text(self.collated(x))}"

    def micros(self, x: str, field: Field) -> str:
        """Count microseconds; an instant without a zone is one of UTC, as the session is."""
        if field.native == "timestamp":
            return f"unix_micros({x})"
        first, last = (f"CAST('{end}' AS TIMESTAMP_NTZ)" for end in _YEARS)
        return (
            f"CASE WHEN {x} >= {first} AND {x} <= {last} THEN unix_micros(CAST({x} AS TIMESTAMP)) "
            f"WHEN {x} < {first} THEN {self.integer(-(2**62))} "
            f"WHEN {x} > {last} THEN {self.integer(2**62)} END"
        )
