"""Exact equality of whatever a function returns: everything that its reader could see.

Types, bits of floats (nan equals nan, −0.0 differs from 0.0), order of keys, names, index, dtype
and schema count. Objects are compared by the state that they would be copied from. What has
no such state (a generator, a lock, a closure) cannot be compared, and is not called equal.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

_PLAIN = (bool, int, str, bytes, type(None))
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


class Uncomparable(Exception):  # noqa: N818 - no error: replay says so in a note
    """Something whose state cannot be read; the argument names its type."""


def alike(a: Any, b: Any) -> bool:
    """Tell whether two results are the same to every reader.

    Raises
    ------
    Uncomparable
        When that cannot be told.

    Examples
    --------
    >>> nan = float("nan")
    >>> alike([1, nan], [1, nan]), alike(0.0, -0.0), alike(1, True), alike([1], (1,))
    (True, False, False, False)
    """
    return _alike(a, b, set())


def _alike(a: Any, b: Any, seen: set[tuple[int, int]]) -> bool:
    if type(a) is not type(b):
        return False
    if type(a) in _PLAIN:
        return bool(a == b)
    if type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b)
    if (id(a), id(b)) in seen:
        return True  # a cycle: decided where it began
    seen.add((id(a), id(b)))
    left, right = _parts(a), _parts(b)
    if left is None or right is None:
        if a is b and isinstance(a, _CODE):
            return True
        raise Uncomparable(type(a).__name__)
    return len(left) == len(right) and all(
        _alike(x, y, seen) for x, y in zip(left, right, strict=True)
    )


def _parts(x: Any) -> list[Any] | None:
    """Return what a value consists of, or None when that cannot be read."""
    if isinstance(x, _CODE):
        return None
    if type(x) in (list, tuple):
        return list(x)
    if type(x) is dict:
        return [part for item in x.items() for part in item]
    if type(x) in (set, frozenset):
        # iteration shows an order, but it says no more than how the set was built
        return sorted((type(y).__name__, repr(y)) for y in x)
    if type(x) is np.ndarray or isinstance(x, np.generic):
        return _array(np.asarray(x))
    module = type(x).__module__.partition(".")[0]
    if module in _LIBRARIES and (parts := _LIBRARIES[module](x)) is not None:
        return parts
    return _state(x)


def _array(x: np.ndarray[Any, Any]) -> list[Any]:
    form = [x.dtype.str, repr(x.dtype), x.shape]
    if x.dtype.hasobject or x.dtype.names:
        return [*form, x.ravel().tolist()]
    # wider floats are padded with anything
    return [*form, list(map(repr, x.ravel())) if x.dtype.char in "gG" else x.tobytes()]


def _state(x: Any) -> list[Any] | None:
    """Return the state an object is copied from."""
    try:
        state = x.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - whatever an object says, it has no state to read
        return None
    if isinstance(state, str):
        return [state]  # the name of something there is one of
    return [list(part) if isinstance(part, Iterator) else part for part in state]


def _pandas(x: Any) -> list[Any] | None:
    if hasattr(x, "columns"):
        series = [x.iloc[:, i] for i in range(x.shape[1])]
        return [x.columns, x.index, dict(x.attrs), *series]
    if hasattr(x, "iloc"):
        return [x.name, x.index, *_pandas_type(x), dict(x.attrs), x.to_numpy()]
    if hasattr(x, "names") and hasattr(x, "to_numpy"):
        return [list(x.names), *_pandas_type(x), x.tolist()]
    return None


def _pandas_type(x: Any) -> tuple[str, Any]:
    return str(x.dtype), getattr(x.dtype, "categories", None)


def _arrow(x: Any) -> list[Any] | None:
    if hasattr(x, "schema") and hasattr(x, "columns"):
        schema = x.schema
        columns = [(f.name, str(f.type), f.nullable, dict(f.metadata or {})) for f in schema]
        return [columns, dict(schema.metadata or {}), *(c.to_pylist() for c in x.columns)]
    if hasattr(x, "to_pylist"):
        return [str(x.type), x.to_pylist()]
    return [str(x.type), x.as_py()] if hasattr(x, "as_py") else None


def _polars(x: Any) -> list[Any] | None:
    if hasattr(x, "get_columns"):
        return list(x.get_columns())
    return [x.name, str(x.dtype), x.to_list()] if hasattr(x, "to_list") else None


_LIBRARIES = {"pandas": _pandas, "pyarrow": _arrow, "polars": _polars}
