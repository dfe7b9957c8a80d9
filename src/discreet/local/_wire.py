r"""Reports and how they travel: compact bytes, JSON lines, Arrow.

A report is a fixed number of fixed-width fields; its shape is the same for every
value, so size and form say nothing. It never holds the value, a time or a name. What a report
means is settled by the protocol's *spec*, canonical JSON with version, protocol
name and exact parameters. A report carries the spec's identifier, the first eight
bytes of SHA-256("discreet.local.v1\0" + spec); readers compare identifiers and
never adapt to a foreign spec.

=========  ==========================================================================
bytes      ``D1 version id payload CRC32`` for one report, ``D2 version id count payload
           CRC32`` for many (little endian, rows of fixed width); frames of one
           sender may follow one another
JSON       ``{"d":1,"s":"<id, 16 hex>","r":[…]}`` per line; bit fields and 64-bit
           numbers in hexadecimal
Arrow      one column per field, the spec in the schema's metadata ``discreet.local``
=========  ==========================================================================
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass, replace
from discreet.errors import ForeignReportError, ParameterError, TaintedNoiseError

if TYPE_CHECKING:
    import pyarrow as pa

    from discreet.local._protocol import LocalProtocol
else:
    from discreet._lazy import arrow as pa  # clients need numpy only

VERSION = 1
METADATA = b"discreet.local"

_ONE, _MANY = 0xD1, 0xD2
_HEAD = struct.Struct("<BB8s")
_COUNT = struct.Struct("<I")
_CRC = struct.Struct("<I")
_LONGEST_LINE = 1 << 20
_MOST_ROWS = 1 << 26
"""Reports that one Arrow batch may claim."""

Columns = tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a report: an unsigned integer below `limit`, or a row of `bits` bits."""

    name: str
    limit: int = 0
    bits: int = 0

    @property
    def width(self) -> int:
        """Bytes on the wire."""
        if self.bits:
            return -(-self.bits // 8)
        return int(np.min_scalar_type(self.limit - 1).itemsize)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of one entry (bit rows are rows of bytes)."""
        return np.dtype(np.uint8) if self.bits else np.min_scalar_type(self.limit - 1)

    def from_bytes(self, rows: NDArray[np.uint8]) -> NDArray[Any]:
        """Read a column from its bytes, one row per report."""
        raw = np.ascontiguousarray(rows)
        if self.bits:
            return raw
        return raw.view(self.dtype.newbyteorder("<")).reshape(-1).astype(self.dtype, copy=False)

    def to_bytes(self, column: NDArray[Any]) -> NDArray[np.uint8]:
        """Write a column as bytes, one row per report."""
        if self.bits:
            return np.asarray(column, dtype=np.uint8)
        little = column.astype(self.dtype.newbyteorder("<"), copy=False)
        return np.ascontiguousarray(little).view(np.uint8).reshape(len(column), self.width)


def canonical(spec: Mapping[str, Any]) -> str:
    """Write a spec in its one canonical form."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def identifier(spec: Mapping[str, Any]) -> bytes:
    """Return the eight bytes that reports of a spec carry."""
    return hashlib.sha256(b"discreet.local.v1\0" + canonical(spec).encode()).digest()[:8]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reports:
    """Randomised reports of one protocol, ready to be sent or aggregated.

    They may be published: everything private has been randomised away to the
    degree that ``protocol.loss`` states. ``len``, indexing and iteration work;
    ``numpy.asarray`` shows the payload.
    """

    protocol: LocalProtocol
    columns: Columns
    scalar: bool = False
    tainted: bool = False

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, key: Any) -> Reports:
        scalar = isinstance(key, int | np.integer)
        if scalar:
            place = range(len(self))[int(key)]
            key = slice(place, place + 1)
        return replace(self, columns=tuple(c[key] for c in self.columns), scalar=scalar)

    def __iter__(self) -> Iterator[Reports]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.protocol.readable(self.columns)
        array = array[0] if self.scalar else array
        return np.array(array, dtype=dtype, copy=bool(copy) or None)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Reports):
            return self.protocol == other.protocol and all(
                np.array_equal(a, b) for a, b in zip(self.columns, other.columns, strict=True)
            )
        return np.asarray(self) == other

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __index__(self) -> int:
        return int(self)

    def __repr__(self) -> str:
        what = "1 report" if self.scalar else f"{len(self)} reports"
        taint = "  [TEST NOISE: NOT PRIVATE]" if self.tainted else ""
        return f"{what} of {self.protocol!r}{taint}"

    # -- ways out ---------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the compact form: one frame."""
        rows = np.hstack([f.to_bytes(c) for f, c in self._releasable()])
        head = _HEAD.pack(_ONE if self.scalar else _MANY, VERSION, self.protocol.spec_id)
        count = b"" if self.scalar else _COUNT.pack(len(self))
        body = head + count + rows.tobytes()
        return body + _CRC.pack(zlib.crc32(body))

    def to_json(self) -> str:
        """Return one JSON object per line and report."""
        name = self.protocol.spec_id.hex()
        rows = zip(*(_json_column(f, c) for f, c in self._releasable()), strict=True)
        lines = (f'{{"d":{VERSION},"s":"{name}","r":[{",".join(r)}]}}' for r in rows)
        return "\n".join(lines) + ("" if self.scalar else "\n")

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table that carries the spec in its metadata."""
        arrays = [_arrow_column(f, c) for f, c in self._releasable()]
        return pa.Table.from_arrays(arrays, schema=arrow_schema(self.protocol))

    def _releasable(self) -> Iterable[tuple[Field, NDArray[Any]]]:
        """Fields and columns, or a refusal."""
        if self.tainted:
            raise TaintedNoiseError(
                "these reports come from the deterministic test source and must not be sent",
                hint="randomize outside the block `with deterministic(...)`",
            )
        return zip(self.protocol.fields, self.columns, strict=True)


def _json_column(field: Field, column: NDArray[Any]) -> list[str]:
    if field.bits or field.width == 8:
        raw = field.to_bytes(column)
        return [f'"{(row if field.bits else row[::-1]).tobytes().hex()}"' for row in raw]
    return [str(v) for v in column.tolist()]


def arrow_schema(protocol: LocalProtocol) -> pa.Schema:
    """Return the Arrow schema of a protocol's reports."""
    kinds = [
        pa.field(f.name, pa.binary(f.width) if f.bits else pa.from_numpy_dtype(f.dtype), False)
        for f in protocol.fields
    ]
    return pa.schema(kinds, metadata={METADATA: canonical(protocol.spec).encode()})


def _arrow_column(field: Field, column: NDArray[Any]) -> pa.Array:
    if not field.bits:
        return pa.array(np.asarray(column))
    raw = np.ascontiguousarray(column, dtype=np.uint8)
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(field.width), len(raw), [None, pa.py_buffer(raw.tobytes())]
    )


# -- ways in --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reports that were not counted, and why."""

    reason: str
    count: int


def read_bytes(protocol: LocalProtocol, data: bytes) -> Iterator[Columns | Refusal]:
    """Read one sender's frames; what follows a broken frame is refused with it.

    A refusal counts no more reports than the bytes at hand could hold.
    """
    view = memoryview(data)
    width = protocol.report_bytes
    while view:
        if len(view) < _HEAD.size:
            yield Refusal("format", 1)
            return
        magic, version, name = _HEAD.unpack_from(view)
        many = magic == _MANY
        if magic not in (_ONE, _MANY) or (many and len(view) < _HEAD.size + _COUNT.size):
            yield Refusal("format", 1)
            return
        count = _COUNT.unpack_from(view, _HEAD.size)[0] if many else 1
        if version != VERSION or name != protocol.spec_id:
            # the width of a foreign row is unknown: nothing behind it can be read
            size = min(count, max(1, len(view) - _HEAD.size - _COUNT.size - _CRC.size))
            yield Refusal("version" if version != VERSION else "foreign", size)
            return
        start = _HEAD.size + (_COUNT.size if many else 0)
        end = start + count * width
        if len(view) < end + _CRC.size:
            yield Refusal("format", 1)
            return
        if zlib.crc32(view[:end]) != _CRC.unpack_from(view, end)[0]:
            yield Refusal("checksum", count)
        else:
            rows = np.frombuffer(view[start:end], dtype=np.uint8).reshape(count, width)
            edges = np.cumsum([f.width for f in protocol.fields])[:-1]
            parts = zip(protocol.fields, np.split(rows, edges, axis=1), strict=True)
            yield tuple(f.from_bytes(part) for f, part in parts)
        view = view[end + _CRC.size :]


def read_lines(
    protocol: LocalProtocol, lines: Sequence[str | Mapping[str, Any]]
) -> Iterator[Columns | Refusal]:
    """Read JSON reports; broken lines become refusals, the rest one batch."""
    name = protocol.spec_id.hex()
    rows: list[Sequence[Any]] = []
    for line in lines:
        outcome = _read_line(line, name, protocol.fields)
        if isinstance(outcome, str):
            yield Refusal(outcome, 1)
        else:
            rows.append(outcome)
    if rows:
        columns = zip(*rows, strict=True)
        yield tuple(_stack(f, list(c)) for f, c in zip(protocol.fields, columns, strict=True))


def _read_line(
    line: str | Mapping[str, Any], name: str, fields: Sequence[Field]
) -> Sequence[Any] | str:
    parsed: Any = line
    if isinstance(line, str):
        parsed = None
        with suppress(ValueError, RecursionError):
            parsed = json.loads(line) if len(line) <= _LONGEST_LINE else None
    if not isinstance(parsed, Mapping) or not {"d", "s", "r"} <= parsed.keys():
        return "format"
    if type(parsed["d"]) is not int or parsed["d"] != VERSION:
        return "version"
    if parsed["s"] != name:
        return "foreign"
    payload = parsed["r"]
    if not isinstance(payload, list) or len(payload) != len(fields):
        return "format"
    entries = [_read_entry(f, v) for f, v in zip(fields, payload, strict=True)]
    return "format" if any(v is None for v in entries) else entries


def _read_entry(field: Field, value: Any) -> bytes | int | None:
    """Read one entry of a JSON report; None if it has not the form of its field."""
    if field.bits or field.width == 8:
        raw = b""
        if isinstance(value, str) and len(value) == 2 * field.width:
            with suppress(ValueError):
                raw = bytes.fromhex(value)
        if len(raw) != field.width:
            return None
        return raw if field.bits else int.from_bytes(raw, "big")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < field.limit:
        return None
    return value


def _stack(field: Field, entries: list[Any]) -> NDArray[Any]:
    if field.bits:
        raw = np.frombuffer(b"".join(entries), dtype=np.uint8)
        return raw.reshape(len(entries), field.width)
    return np.array(entries, dtype=field.dtype)


def read_arrow(protocol: LocalProtocol, table: Any) -> Iterator[Columns | Refusal]:
    """Read a table or record batch whose metadata names this very spec, or refuse it whole.

    Whoever wrote it may lie: lengths that the buffers do not have would be read from
    the server's own memory. Everything is validated before a value is touched. A row with
    a missing value is one refused report.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - clients need numpy only

    spec = (table.schema.metadata or {}).get(METADATA)
    if spec is None or spec != canonical(protocol.spec).encode():
        raise ForeignReportError(
            "these reports were made by another protocol or with other parameters",
            hint="use the protocol whose spec the file carries: local.protocol_from_spec(spec)",
        )
    if table.schema.names != [f.name for f in protocol.fields]:
        raise ParameterError("the columns of the reports are not those of the protocol")
    if table.schema.types != arrow_schema(protocol).types:
        raise ParameterError("the types of the reports' columns are not those of the protocol")
    try:
        if table.num_rows > _MOST_ROWS:
            raise pa.ArrowInvalid
        table.validate(full=True)
    except pa.ArrowException:
        yield Refusal("format", 1)
        return
    whole = [pc.is_valid(c) for c in table.columns if c.null_count]
    if whole:
        rows = table.filter(reduce(pc.and_, whole))
        yield Refusal("format", table.num_rows - rows.num_rows)
        table = rows
    yield tuple(_from_arrow(f, table.column(i)) for i, f in enumerate(protocol.fields))


def _from_arrow(field: Field, column: Any) -> NDArray[Any]:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # combine_chunks keeps the wrapper when there are none
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if not field.bits:
        return np.asarray(array.to_numpy(zero_copy_only=False))
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    start = array.offset * field.width
    return raw[start : start + len(array) * field.width].reshape(len(array), field.width)
