"""The brake: how much may be late before nothing of a size begins until an owner has looked.

What is late tells something about the data, so it is counted. The moment at which a run failed
would tell more. So a failure changes nothing, for whoever it may be, before a moment that was
public when the run started, the first of three that is not over: the end of its bound, which is
soon enough for what fails for memory; twice that, for what is ended by its clock; and its tick.
From then on the brake counts it, and its worker is replaced. A run whose worker died starts again
at its tick. Whoever asks or looks is told at its tick.

*Count.* Which of the three it was is log₂ 3 bits for each failure, at most. From its failure to
that moment the place of a run begins nothing. So of the failures that the brake does not count
yet there is at most one for each place, and a place that has one has no other run underway. When
the last one that is late begins, at most three are counted, and each of the :math:`w - 1` other
places has a run that may slip and fail, or one that has just failed: :math:`3 + 2w` in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

LATE: Final = 3
"""Runs that may miss their tick before no more of their size are begun."""


class Brake:
    """What was late under one policy since an owner has looked."""

    def __init__(self, late: Iterable[float]) -> None:
        self.told = list(late)
        """Ticks of what is late, as far as everybody may know."""
        self._counted = [(0.0, tick) for tick in self.told]
        """All that is late: from when on it counts, and its tick."""

    @property
    def late(self) -> list[float]:
        """Ticks of all that is late, whether or not anybody may know."""
        return [tick for _, tick in self._counted]

    def count(self, since: float, tick: float) -> None:
        """Count something late, from a moment on."""
        self._counted.append((since, tick))
        self._counted.sort()

    def tell(self, tick: float) -> None:
        """Let everybody know of something that was counted."""
        self.told.append(tick)

    def holds(self, tick: float, now: float) -> bool:
        """Whether a worker that is about to begin a run of a size does not."""
        return _stops(tick, [late for since, late in self._counted if since <= now])

    def bars(self, tick: float) -> bool:
        """Whether everybody may know that nothing of a size begins."""
        return _stops(tick, self.told)

    @property
    def on(self) -> bool:
        """Whether everybody may know that something does not begin."""
        return len(self.told) >= LATE

    def ease(self) -> None:
        """Forget what everybody was told of: an owner has looked. Nothing else."""
        for told in self.told:
            self._counted.remove(next(x for x in self._counted if x[1] == told))
        self.told.clear()


def _stops(tick: float, late: Sequence[float]) -> bool:
    """Whether no run of a size may begin: too many missed their tick.

    Smaller ones may go on, until one more of whatever size is late.
    """
    return len(late) >= LATE and (len(late) > LATE or tick >= min(late))
