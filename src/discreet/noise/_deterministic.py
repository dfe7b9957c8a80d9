"""A repeatable source for tests, whose every output is marked as not private.

Nothing public takes a seed. A test that needs repeatable noise enters
:func:`deterministic`; arrays drawn inside are :class:`TaintedArray` and stay so
through arithmetic, slicing and copies, and integers are :class:`TaintedInt`.
:func:`is_tainted` tells, and whatever releases numbers must refuse them.

>>> from discreet.noise import DiscreteLaplace, is_tainted
>>> with deterministic(7):
...     first = DiscreteLaplace(10).sample(3)
>>> with deterministic(7):
...     again = DiscreteLaplace(10).sample(3)
>>> bool((first == again).all()), is_tainted(first + 1), is_tainted(first[0])
(True, True, True)
>>> is_tainted(DiscreteLaplace(10).sample(3))
False

The mark cannot follow a value through ``int()``, ``tolist()`` or a boolean
decision. Code that turns a draw into such a thing asks :func:`is_deterministic`
beforehand.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.noise import _entropy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


class DeterministicSource(_entropy.KeyStream):
    """AES-256-CTR under a key made from a seed: repeatable, hence not private."""

    __slots__ = ("_lock",)
    tainted = True

    def __init__(self, seed: int | str) -> None:
        super().__init__(hashlib.sha256(f"discreet test source {seed!r}".encode()).digest())
        self._lock = threading.Lock()

    def fill(self, out: _entropy.Words) -> None:
        """Overwrite `out` with the next words; threads may share one sequence."""
        with self._lock:
            super().fill(out)

    def stream(self) -> _entropy.Stream:
        """Return itself: one sequence serves every request."""
        return self


@contextmanager
def deterministic(seed: int | str) -> Iterator[None]:
    """Draw from a repeatable, marked source inside this block (tests only)."""
    token = _entropy.OVERRIDE.set(DeterministicSource(seed))
    try:
        yield
    finally:
        _entropy.OVERRIDE.reset(token)


class TaintedArray(np.ndarray[Any, Any]):
    """An array that holds, or was computed from, repeatable noise."""

    # NumPy drops subclasses from scalars, reductions and functions such as
    # concatenate; each of these doors is closed here

    def __getitem__(self, key: Any) -> Any:
        return _remark(super().__getitem__(key))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [_plain(x) for x in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(_plain(x) for x in kwargs["out"])
        return _remark(getattr(ufunc, method)(*plain, **kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _remark(super().__array_function__(func, types, args, kwargs))


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, TaintedArray) else x


def _remark(x: Any) -> Any:
    """Mark whatever NumPy handed back, tuples and lists of arrays included."""
    if isinstance(x, TaintedArray):
        return x
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x).view(TaintedArray)
    if isinstance(x, tuple | list):
        return type(x)(_remark(part) for part in x)
    return TaintedInt(x) if type(x) is int else x


class TaintedInt(int):
    """An integer drawn from, or computed with, repeatable noise."""

    __slots__ = ()


def _propagating(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def operation(self: TaintedInt, *others: Any) -> Any:
        result = plain(self, *others)
        return TaintedInt(result) if type(result) is int else result

    return operation


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "mod", "neg", "abs"):
    setattr(TaintedInt, f"__{_name}__", _propagating(f"__{_name}__"))


def is_tainted(x: object) -> bool:
    """Tell whether `x` is marked as coming from the test-only source."""
    return isinstance(x, TaintedArray | TaintedInt)


def is_deterministic() -> bool:
    """Tell whether draws made here and now come from the test-only source."""
    return _entropy.current().tainted


def mark(array: NDArray[Any]) -> NDArray[Any]:
    """Mark a fresh draw when the current source is the test-only one."""
    return array.view(TaintedArray) if is_deterministic() else array


def mark_int(value: int) -> int:
    """Mark a fresh integer when the current source is the test-only one."""
    return TaintedInt(value) if is_deterministic() else value
