"""How slow and how busy this machine is, measured on numbers that are not data; its processors.

Speed is measured in a process of its own, at each start of a service, which loads nothing but the
engine.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from discreet._dataclass import dataclass

SAFETY: Final = 2.0
"""Bounds are so many times what the model of the work gives."""
_REFERENCE: Final = 0.05
_REFERENCE_STATEMENTS: Final = 0.017
"""Processor time of what is measured, on the machine that the figures of ticks are from."""
_FASTEST: Final = 0.5
"""No machine counts as faster than that."""
_BUSIEST: Final = 64.0
_EASE: Final = 1.25
"""How much longer than its processor time a part takes on a machine that is not busy, at most.

That is a pause of some milliseconds, for which every tick has room fifty times over.
"""
_LAPS: Final = 6
_FINEST: Final = 0.001
"""Where processor time is limited or watched, its clock is as coarse as some milliseconds."""
_RANKED: Final = """SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY i % 5000
    ORDER BY hash(i)) AS r FROM range(100000) t(i)) WHERE r < 5"""
"""Work on rows."""
_PLANNED: Final = """SELECT k, count(*), sum(c) FROM (SELECT k, c FROM (SELECT *, row_number() OVER
    (PARTITION BY u ORDER BY hash(c)) AS n FROM (SELECT u, k, CASE WHEN p >= CAST('0.0' AS DOUBLE)
    AND p <= CAST('500.0' AS DOUBLE) THEN TRY_CAST(p * CAST('100.0' AS DOUBLE) AS BIGINT)
    ELSE CAST(50000 AS BIGINT) END AS c FROM (SELECT CAST(i / 10 AS DOUBLE) AS p, i // 2 AS u,
    i % 2 AS k FROM range(64) t(i) WHERE i IS NOT NULL) AS s) AS s WHERE c > CAST(1 AS BIGINT)) AS s
    WHERE n BETWEEN 1 AND 4) AS s GROUP BY k"""
"""Work on a statement: an engine reads and plans it anew each time."""
_STATEMENTS: Final = 5


@dataclass(frozen=True, slots=True)
class Crowd:
    """A machine, and how all workers share its processors; see :mod:`discreet.service._pool`."""

    speed: tuple[float, float]
    """How slow and how busy it is."""
    processors: float
    workers: int
    policies: int

    @property
    def seats(self) -> int:
        """Runs that may be underway at once."""
        return max(1, int(self.processors))

    @property
    def slowness(self) -> float:
        """How slow it is as bounds count it: never faster than the reference.

        What a run takes besides, its first in a new worker for one, does not become quicker so.
        """
        return max(1.0, self.speed[0])

    @property
    def stretch(self) -> float:
        """For how many of its bounds a run has its seat.

        More than one where there is less than a processor; down to a half, which is what the
        model gives, where each policy has more workers than there are processors; down to a
        quarter, where it has twice as many and the machine is twice as fast as the model's.
        """
        crowded = self.workers / self.policies / max(1.0, self.processors)
        sooner = min(max(1.0, crowded), SAFETY)
        pace = min(1.0, self.speed[0]) if sooner == SAFETY else 1.0
        return max(1.0, 1 / self.processors) * pace / sooner

    @property
    def threads(self) -> int:
        """Threads of each worker: no more than there are processors, in all."""
        return max(1, self.seats // self.workers)


def processors() -> float:
    """Processors that this process may use: those it may run on, and its group's quota of time."""
    try:
        most = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        most = os.cpu_count() or 1
    return min((float(most), *_quotas(Path("/"))))


def _quotas(root: Path) -> Iterator[float]:
    """Processor time for each second that this process's group and those above it may take."""
    with suppress(OSError, ValueError, IndexError):
        listed = (root / "proc/self/cgroup").read_text().splitlines()
        own = next(x for x in listed if x.startswith("0::"))[3:].strip("/")
        groups = root / "sys/fs/cgroup"
        for group in (groups / own, *(groups / own).parents):
            if not group.is_relative_to(groups):
                return
            with suppress(OSError, ValueError):  # the uppermost has none, and "max" is no number
                quota, period = map(int, (group / "cpu.max").read_text().split())
                yield quota / period


def machine() -> tuple[float, float]:
    """Measure how slow this machine is, and how busy: powers of two.

    The first is the processor time of one thread against the reference, for rows or for statements,
    whichever is slower, and a half at least; the second, at least 1, is how much longer than its
    processor time the longest part of this takes, the engine's loading included.
    """
    clock = _Clock()
    import duckdb  # noqa: PLC0415 - opened without data, for this alone

    clock.lap()
    rows, statements = [], []
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET threads = 1")
        for _ in range(_LAPS):
            connection.execute(_RANKED).fetchall()
            rows.append(clock.lap())
        for _ in range(_LAPS):  # all of it is one lap: a pause beside a short one says little
            start = time.process_time()
            for _ in range(_STATEMENTS):
                connection.execute(_PLANNED).fetchall()
            statements.append(time.process_time() - start)
        clock.lap()
    ratio = max(min(rows) / _REFERENCE, min(statements) / _REFERENCE_STATEMENTS)
    return max(_FASTEST, _power(ratio)), _busyness(clock.busy)


class _Clock:
    """Laps of processor time, and how much longer than that the worst of them took."""

    def __init__(self) -> None:
        self.busy = 1.0
        self._now = (time.perf_counter(), time.process_time())

    def lap(self) -> float:
        """Processor time since the last lap."""
        now = (time.perf_counter(), time.process_time())
        wall, work = (after - before for before, after in zip(self._now, now, strict=True))
        self.busy, self._now = max(self.busy, wall / max(work, _FINEST)), now
        return work


def _busyness(longest: float) -> float:
    """How busy a machine is whose longest part took so many times its processor time."""
    return 1.0 if longest <= _EASE else min(_power(longest), _BUSIEST)


def _power(ratio: float) -> float:
    return 2.0 ** math.ceil(math.log2(ratio))
