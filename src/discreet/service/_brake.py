r"""The brake: how much may be late before nothing of a size starts until an owner has looked.

What is late tells something about the data, so it is counted. The moment at which a run failed
would tell more. So a failure changes nothing, for whoever it may be, before a moment that was
public when the run started, the first of three that is not over: the end of its bound, which is
soon enough for what fails for memory; twice that, for what is ended by its clock; and its tick.
From then on the brake counts it, and its worker is replaced. A run whose worker died starts again
at its tick. Whoever asks or looks is told at its tick.

*Count.* Which of the three it was is log₂ 3 bits for each failure, at most. From its failure to
that moment the place of a run begins nothing. So of the failures that the brake does not count
yet there is at most one for each place, and a place that has one has no other run underway.

Whether a run is held is decided when it starts by the timetable, from what counts at that moment;
both are public. So runs that started before go on, one behind the other, when nothing starts any
more. They add no more than one would. Let :math:`T` be the moment from which on nothing of any
size starts: before it at most three things count. A place that has a failure at :math:`T` which
does not count yet gets another worker later, and all that has started behind it starts again, so
it is held: one thing. At any other place the first of the row that fails has the same effect on
those behind it; and a slip takes back all but the run that its worker is busy with, which has then
begun in time or has a new tick, so it may fail and not slip: two things. That is :math:`3 + 2w` in
all, of which no more than :math:`3 + w` are slips.

*What a slip shows.* It comes at the first tick of what its place has not begun, so of that place
all that is seen is behind which run it came, one for each question, and whether that run has a
new tick, keeps its own or is done: three, as for a failure. So a thing is one of three kinds (a
slip, a failure, a worker that died, whose run starts again) of one of :math:`q` questions, at one
of three moments, and may come again: :math:`\log_2 \sum_k \binom{3q + k - 1}{k} 3^k` bits.

At each of the :math:`w - 1` other places what is not begun is taken back too, so that a machine
which stood still is one slip and not one for each. That shows how far these had got: with
:math:`n` runs there that have started and not left, one of :math:`n + 1` moments of their row, and
whether the run underway has a new tick; :math:`(w - 1)(1 + \log_2(n + 1))` bits for each slip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

LATE: Final = 3
"""Runs that may miss their tick before no more of their size are started."""


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
        """Whether a run of a size that is about to start by the timetable does not."""
        return _stops(tick, [late for since, late in self._counted if since <= now])

    def bars(self, tick: float) -> bool:
        """Whether everybody may know that nothing of a size starts."""
        return _stops(tick, self.told)

    @property
    def on(self) -> bool:
        """Whether everybody may know that something does not start."""
        return len(self.told) >= LATE

    def ease(self) -> None:
        """Forget what everybody was told of: an owner has looked. Nothing else."""
        for told in self.told:
            self._counted.remove(next(x for x in self._counted if x[1] == told))
        self.told.clear()


def _stops(tick: float, late: Sequence[float]) -> bool:
    """Whether no run of a size may start: too many missed their tick.

    Smaller ones may go on, until one more of whatever size is late.
    """
    return len(late) >= LATE and (len(late) > LATE or tick >= min(late))
