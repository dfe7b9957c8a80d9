"""Frames of Python objects: typed by the policy, value by value.

A pandas column of dtype ``object`` has no type. Guessing one from a sample of its
values would let one row decide how the others are read, or make a run fail on one
of two neighbouring tables. So each value is read by itself, as the policy says,
and what cannot be read is NULL.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import policy as pol
from discreet.plan import ingest

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps are read in UTC, unmarked
_DAY: Final = Fraction(86_400)


def from_pandas(table: pol.Table, frame: Any) -> Any:
    """Return a pandas frame as it is, or with columns of objects typed."""
    needed = dict.fromkeys([*table.columns, *([] if table.unit is None else [table.unit])])
    present = [name for name in needed if name in frame.columns]
    untyped = [name for name in present if _is_untyped(frame[name].dtype)]
    if not untyped:
        return frame
    import pyarrow as pa  # noqa: PLC0415 - only for columns of objects

    columns = {
        name: _typed(table.columns.get(name), frame[name])
        if name in untyped
        else pa.array(frame[name], from_pandas=True)
        for name in present
    }
    return pa.table(columns)


def _is_untyped(dtype: Any) -> bool:
    return dtype == np.dtype(object) or getattr(
        getattr(dtype, "categories", None), "dtype", None
    ) == np.dtype(object)


def _typed(column: pol.Column | None, values: Any) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415 - only for columns of objects

    kind: pa.DataType
    read: Callable[[Any], Any]
    match column:
        case pol.Integer() | pol.Boolean():
            kind, read = pa.int64(), partial(_whole, column)
        case pol.Real():
            kind, read = pa.float64(), _double
        case pol.Date():
            kind, read = pa.timestamp("us"), partial(_moment, column, _DAY)
        case pol.Timestamp():
            kind, read = pa.timestamp("us"), partial(_moment, column, column.step)
        case pol.Category(values=values_) if not isinstance(values_[0], str):
            kind, read = pa.int64(), partial(_label, column)
        case _:
            kind, read = pa.string(), _text
    return pa.array([_value(read, v) for v in values], type=kind)


def _value(read: Callable[[Any], Any], raw: Any) -> Any:
    try:
        value = raw.item() if isinstance(raw, np.generic) else raw
        # NaN, NaT and NA are the values that do not equal themselves, or will not say
        return None if value is None or not bool(value == value) else read(value)  # noqa: PLR0124
    except Exception:  # noqa: BLE001 - whatever a value does, it is that row's NULL
        return None


def _whole(column: pol.Column, value: Any) -> int | None:
    code = ingest(column, value)
    return None if code is None else int(code)


def _moment(column: pol.Date | pol.Timestamp, step: Fraction, value: Any) -> dt.datetime | None:
    """Beginning of the day or step that a value falls into, within the bounds."""
    code = ingest(column, value)
    if code is None:
        return None
    return _EPOCH + dt.timedelta(microseconds=int(int(code) * step * 1_000_000))


def _label(column: pol.Category, value: Any) -> int | None:
    """Label that a value stands for; for "other", a number that is no label."""
    code = ingest(column, value)
    if code is None:
        return None
    labels = [int(v) for v in column.values]
    return labels[int(code)] if int(code) < len(labels) else max(labels) + 1


def _double(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()
