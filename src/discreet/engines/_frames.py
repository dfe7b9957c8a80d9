"""Frames: Arrow columns that the engine scans without a conversion that could fail.

A pandas column of dtype ``object`` has no type. Guessing one from a sample of its
values would let one row decide how the others are read, or make a run fail on one
of two neighbouring tables. So each value is read by itself, as the policy says,
and what cannot be read is NULL.

Typed columns are taken as they are, but for the few types that DuckDB converts
while it scans, or does not know: these are viewed as another type of the same
values. Text is checked once, at the speed of memory; what is not UTF-8 is mended,
value by value: bad bytes become "?". Mending is not one-to-one, so it never names a
person: a unit that is not UTF-8 is NULL, and its row belongs to nobody.
"""

from __future__ import annotations

import codecs
import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from discreet import policy as pol
from discreet.engines._connect import module
from discreet.errors import SchemaError
from discreet.plan import ingest

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps are read in UTC, unmarked
_DAY: Final = Fraction(86_400)
_PIECE: Final = 2**16
MEND: Final = "discreet-mend"


def as_arrow(table: pol.Table, frame: Any) -> pa.Table:
    """Return the policy's columns of a pandas, Polars or Arrow table; others by name only."""
    library = module(frame).split(".")[0]
    needed = {*table.columns, *table.ids}
    if library == "pandas":
        names = [name for name in frame.columns if isinstance(name, str)]
        columns = {n: _from_pandas(table, n, frame[n]) for n in names if n in needed}
        return _with_names(plain(table, pa.table(columns)), names, len(frame))
    if library == "polars":
        collected: Callable[[], Any] | None = getattr(frame, "collect", None)
        frame = (frame if collected is None else collected()).to_arrow()
    elif library != "pyarrow":
        raise SchemaError(
            f"the source of table {table.name!r} is a {type(frame).__name__}",
            hint="a path, a pandas, Polars or Arrow table, or a database connection",
        )
    names = frame.schema.names
    present = [name for name in dict.fromkeys(names) if name in needed]
    if hasattr(frame, "read_all"):
        frame = frame.read_all()
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    part = frame.select(present) if isinstance(frame, pa.Table) else frame.to_table(present)
    return _with_names(plain(table, part), names, len(part))


def _with_names(table: pa.Table, names: Sequence[str], rows: int) -> pa.Table:
    """Add columns of NULL, so that an error can name a column that is nearly right."""
    for name in dict.fromkeys(names):
        if name not in table.column_names:
            table = (
                table.append_column(name, pa.nulls(rows))
                if table.num_columns
                else pa.table({name: pa.nulls(rows)})
            )
    return table


def parquet(table: pol.Table, files: Sequence[str]) -> pa.RecordBatchReader:
    """Read Parquet files that DuckDB itself cannot read on every row."""
    from pyarrow import dataset  # noqa: PLC0415 - only for such files

    data = dataset.dataset(list(files), format="parquet")
    needed = {*table.columns, *table.ids}
    scanner = data.scanner(columns=[n for n in data.schema.names if n in needed])
    schema = plain(table, scanner.projected_schema.empty_table()).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in scanner.to_batches():
            yield from plain(table, pa.Table.from_batches([batch])).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def plain(table: pol.Table, source: pa.Table) -> pa.Table:
    """Return the same values in types that are scanned as they are, all text valid."""
    columns = zip(source.column_names, source.columns, strict=True)
    arrays = [_plain(column, unit=name in table.ids) for name, column in columns]
    return pa.table(arrays, names=source.column_names)


def _plain(column: pa.ChunkedArray, *, unit: bool) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        if unit or not _is_text(kind.value_type):
            return _plain(column.cast(kind.value_type), unit=unit)
        chunks = [
            pa.DictionaryArray.from_arrays(c.indices, mended(c.dictionary)) for c in column.chunks
        ]
        return pa.chunked_array(chunks, type=kind)
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    target = kind
    if pa.types.is_timestamp(kind):
        target = pa.timestamp(kind.unit)
    elif pa.types.is_date64(kind):
        target = pa.timestamp("ms")
    if target != kind:
        return pa.chunked_array([c.view(target) for c in column.chunks], type=target)
    if _is_text(kind):
        pieces = [
            mended(c.slice(i, _PIECE), unit=unit)
            for c in column.chunks
            for i in range(0, len(c), _PIECE)
        ]
        return pa.chunked_array(pieces, type=kind)
    return column


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def mended(texts: pa.Array, *, unit: bool = False) -> pa.Array:
    """Return texts as they are if all are UTF-8, or with "?" for bad bytes; units with NULL."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        blobs = texts.cast(pa.large_binary()).to_pylist()
        read = bytes.decode if unit else partial(bytes.decode, errors=MEND)
        return pa.array([_value(read, b) for b in blobs], texts.type)
    return texts


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "?" * (error.end - error.start), error.end


codecs.register_error(MEND, _question_marks)


def _from_pandas(table: pol.Table, name: str, values: Any) -> pa.Array:
    within = getattr(getattr(values.dtype, "categories", None), "dtype", None)
    if np.dtype(object) in (values.dtype, within):
        return _typed(table.columns.get(name), values, unit=name in table.ids)
    return pa.array(values, from_pandas=True)


def _typed(column: pol.Column | None, values: Any, *, unit: bool) -> pa.Array:
    kind: pa.DataType
    read: Callable[[Any], Any]
    match column:
        case pol.Integer() | pol.Boolean():
            kind, read = pa.int64(), partial(_code, column)
        case pol.Real():
            kind, read = pa.float64(), _double
        case pol.Date():
            kind, read = pa.timestamp("us"), partial(_moment, column, _DAY)
        case pol.Timestamp():
            kind, read = pa.timestamp("us"), partial(_moment, column, column.step)
        case pol.Category(values=values_) if not isinstance(values_[0], str):
            kind, read = pa.int64(), partial(_label, column)
        case _:
            kind, read = pa.string(), _name if unit else _text
    return pa.array([_value(read, v) for v in values], type=kind)


def _value(read: Callable[[Any], Any], raw: Any) -> Any:
    try:
        value = raw.item() if isinstance(raw, np.generic) else raw
        # NaN, NaT and NA are the values that do not equal themselves, or will not say
        return None if value is None or not bool(value == value) else read(value)  # noqa: PLR0124 - NaN alone differs from itself
    except Exception:  # noqa: BLE001 - whatever a value does, it is that row's NULL
        return None


def _code(column: pol.Column, value: Any) -> int:
    """Code of a value, or an error where it is NULL."""
    code: Any = ingest(column, value)
    return int(code)


def _moment(column: pol.Date | pol.Timestamp, step: Fraction, value: Any) -> dt.datetime:
    """Beginning of the day or step that a value falls into, within the bounds."""
    return _EPOCH + dt.timedelta(microseconds=int(_code(column, value) * step * 1_000_000))


def _label(column: pol.Category, value: Any) -> int:
    """Label that a value stands for; for "other", a number that is not a label."""
    labels, code = [int(v) for v in column.values], _code(column, value)
    return labels[code] if code < len(labels) else max(labels) + 1


def _double(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _name(value: Any) -> str:
    """Text that tells a person from others, or an error."""
    return str(value).encode().decode()


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()
