"""How slow and how busy this machine is: measured on numbers that are not data.

It runs in a process of its own, at each start of a service, and loads nothing but the engine.
"""

from __future__ import annotations

import math
import time
from typing import Final

_REFERENCE: Final = 0.05
"""Processor time of what is measured, on the machine that the figures of ticks are from."""
_BUSIEST: Final = 64.0
_LAPS: Final = 6


def machine() -> tuple[float, float]:
    """Measure how slow this machine is, and how busy: powers of two, at least 1.

    The first is the processor time of one thread against the reference; the second is how much
    longer than its processor time the longest part of this takes, the engine's loading included.
    """
    clock = _Clock()
    import duckdb  # noqa: PLC0415 - opened without data, for this alone

    clock.lap()
    best = math.inf
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET threads = 1")
        for _ in range(_LAPS):
            connection.execute(
                "SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY i % 5000 "
                "ORDER BY hash(i)) AS r FROM range(100000) t(i)) WHERE r < 5"
            ).fetchall()
            best = min(best, clock.lap())
    return _power(best / _REFERENCE), min(_power(clock.busy), _BUSIEST)


class _Clock:
    """Laps of processor time, and how much longer than that the worst of them took."""

    def __init__(self) -> None:
        self.busy = 1.0
        self._now = (time.perf_counter(), time.process_time())

    def lap(self) -> float:
        """Processor time since the last lap."""
        now = (time.perf_counter(), time.process_time())
        wall, work = (after - before for before, after in zip(self._now, now, strict=True))
        self.busy, self._now = max(self.busy, wall / work), now
        return work


def _power(ratio: float) -> float:
    return 2.0 ** max(0, math.ceil(math.log2(ratio)))
