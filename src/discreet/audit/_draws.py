"""Draws of a mechanism in chunks, over all cores, with a bar when it takes long."""

from __future__ import annotations

import contextvars
import inspect
import math
import numbers
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet.errors import Hint, ParameterError

Mechanism = Callable[[Any, int], Any]
"""``mechanism(data, n)`` returns n independent outputs on `data`, one per row."""

_CHUNK = 1 << 17
_WORTH = 1 << 14
_PATIENCE = 1.0
_WIDEST = 8
_TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "bytes": bytes,
    "bool": (bool, np.bool_),
    "integer": numbers.Integral,
    "real": (float, np.floating),
}


def outputs(mechanism: Mechanism, data: Any, n: int) -> NDArray[Any]:
    """Return n outputs as an array of one or two dimensions, or refuse what came.

    The array is a copy: a mechanism may write its next outputs into the same buffer.
    """
    _callable(mechanism)
    answer = mechanism(data, n)
    array = _from_list(answer) if isinstance(answer, list | tuple) else np.array(answer)
    if array.shape[:1] != (n,):
        raise ParameterError(
            "mechanism(data, n) must return n outputs, one per row",
            hint="lambda data, n: np.array([release(data) for _ in range(n)])",
        )
    if array.dtype.kind not in "biufUS":
        raise ParameterError(
            "outputs must be numbers or texts: turn each into a row of numbers first"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize > _WIDEST:
        raise ParameterError("outputs wider than doubles would be cut", hint="outputs.view('u8')")
    return array if array.ndim == 1 else array.reshape(n, -1)


def _callable(mechanism: Mechanism) -> None:
    """Refuse what cannot be called with data and a number of outputs."""
    try:
        inspect.signature(mechanism).bind(None, 1)
    except ValueError:  # some built-in functions do not say what they take
        return
    except TypeError:
        raise ParameterError(
            "a mechanism is called as mechanism(data, n) and returns n outputs; this one is not a "
            "function of two arguments",
            hint="lambda data, n: np.array([release(data) for _ in range(n)])",
        ) from None


def _from_list(items: Sequence[Any]) -> NDArray[Any]:
    """Turn a list into an array without losing what a reader of the list could see."""
    rows = [x if isinstance(x, list | tuple) else (x,) for x in items]
    if len(set(map(len, rows))) > 1:
        raise ParameterError(
            "the outputs have different lengths, so their length is an output too",
            hint="lambda data, n: np.array([len(release(data)) for _ in range(n)])",
        )
    kinds = [{_type(x) for x in column} for column in zip(*rows, strict=True)]
    whole = [x for row in rows for x in row if isinstance(x, numbers.Integral)]
    lost = "real" in set().union(*kinds) and any(abs(int(x)) > 2**53 for x in whole)
    if any(len(kind) > 1 for kind in kinds) or lost:
        raise ParameterError(
            "outputs in a list mix types, which an array would hide: make them one type",
            hint="lambda data, n: [float(release(data)) for _ in range(n)]",
        )
    if kinds and kinds[0] & {"text", "bytes"}:
        # arrays drop NUL at the end of a text; a character for private use stands for it
        texts = [[x if isinstance(x, str) else repr(x) for x in row] for row in rows]
        rows = [[x.replace("\0", "\U000f0000") for x in row] for row in texts]
    flat = [row[0] for row in rows] if not isinstance(next(iter(items), 0), list | tuple) else rows
    try:
        return np.array(flat)
    except ValueError:
        raise ParameterError("the outputs have different shapes") from None


def _type(x: Any) -> str:
    names = (name for name, kind in _TYPES.items() if isinstance(x, kind))
    return next(names, type(x).__name__)


def form(array: NDArray[Any]) -> tuple[str, tuple[int, ...]]:
    """Return what is seen of outputs before their values: kind and shape."""
    return array.dtype.kind, array.shape[1:]


class Drawer:
    """Draws from one mechanism on two inputs, in parallel."""

    def __init__(self, mechanism: Mechanism, pool: Executor, workers: int) -> None:
        self._mechanism = mechanism
        self._pool = pool
        self._workers = workers

    def draw(self, data: Any, n: int, advance: Callable[[int], None]) -> NDArray[Any]:
        """Return n outputs on `data`; chunks are drawn side by side."""
        spread = isinstance(self._pool, ProcessPoolExecutor)
        # threads in pure Python wait for each other: small requests stay with one
        size = min(_CHUNK, max(1 if spread else _WORTH, -(-n // self._workers)))
        sizes = [size] * (n // size) + ([n % size] if n % size else [])
        jobs = [self._submit(data, k) for k in sizes]
        parts = []
        for job, k in zip(jobs, sizes, strict=True):
            parts.append(job.result())
            advance(k)
        if spread:
            _refuse_repeats(parts)
        if len(set(map(form, parts))) > 1:
            raise ParameterError("the form of an output must not change from call to call")
        return np.concatenate(parts)

    def _submit(self, data: Any, k: int) -> Any:
        if isinstance(self._pool, ProcessPoolExecutor):
            return self._pool.submit(outputs, self._mechanism, data, k)
        # threads do not inherit context variables, and the noise source is one
        context = contextvars.copy_context()
        return self._pool.submit(context.run, outputs, self._mechanism, data, k)


@contextmanager
def drawer(mechanism: Mechanism, workers: int | None, *, processes: bool) -> Iterator[Drawer]:
    """Open a pool of threads or processes for the length of an audit."""
    if workers is not None and workers < 1:
        raise ParameterError("workers must be at least 1", hint=Hint("workers", 2))
    count = workers or os.cpu_count() or 1
    if _repeatable():
        count = 1
    if processes:
        import multiprocessing  # noqa: PLC0415 - only for audits that ask for processes

        # spawned, not forked: a fork would copy the state of the mechanism's own generator
        pool: Executor = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))
    else:
        pool = ThreadPoolExecutor(count)
    with pool:
        yield Drawer(mechanism, pool, count)


def _repeatable() -> bool:
    """Tell whether noise comes from a source set for this context, as tests do.

    Such a source is one stream: drawn from by several threads it would not repeat.
    """
    context = contextvars.copy_context()
    source = next((v for v in context if v.name == "discreet_noise_source"), None)
    return noise.is_deterministic() or (source is not None and context[source] is not None)


def _refuse_repeats(parts: list[NDArray[Any]]) -> None:
    """Refuse chunks that repeat each other: the generator was copied into the workers."""
    for i, part in enumerate(parts):
        for other in parts[:i]:
            if part.shape == other.shape and _varied(part) and np.array_equal(part, other):
                raise ParameterError(
                    "two workers drew the same outputs: the mechanism carries its generator's "
                    "state along, so the draws are not independent",
                    hint=Hint("processes", False),
                )


def _varied(part: NDArray[Any]) -> bool:
    """Tell whether two independent chunks like this agree with probability below 1e-12."""
    flat = part.reshape(len(part), -1)
    same = float(np.mean(np.all(flat[1:] == flat[:-1], axis=1))) if len(flat) > 1 else 1.0
    return len(flat) * math.log(max(same, 1e-300)) < math.log(1e-12)


@contextmanager
def progress(total: int, shown: bool | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with draws done; a bar appears after a second."""
    from rich.console import Console  # noqa: PLC0415 - rich loads only when an audit runs

    console = Console(stderr=True, force_terminal=shown or None)
    if shown is False or (shown is None and not console.is_terminal):
        yield lambda _: None
        return
    from rich.progress import Progress  # noqa: PLC0415 - loads when a bar is drawn

    bar = Progress(console=console, transient=True)
    task = bar.add_task("auditing", total=total)
    start = time.monotonic()

    def advance(k: int) -> None:
        bar.advance(task, k)
        if not bar.live.is_started and time.monotonic() - start > _PATIENCE:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
