r"""The brake: how much may be late before nothing of a size starts until an owner has looked.

What is late tells something about the data, so it is counted. The moment at which a run failed
would tell more. So a failure changes nothing, for whoever it may be, before a moment that was
public when the run started, the first of three that is not over: the end of its bound, which is
soon enough for what fails for memory; twice that, for what is ended by its clock; and its tick.
From then on the brake counts it, and its worker is replaced. A run whose worker died starts again
at its tick. Whoever asks or looks is told at its tick. (The first two are two milliseconds after
the moment at which the place may be free: were they one, how a clock rounds the moment of the
failure would decide which comes first, the failure's effect or the next start.)

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
begun in time or has a new tick, so it may fail and not slip: two things. Rows that are laid out
anew have nothing in them that was not there. That is :math:`3 + 2w` in all, of which no more than
:math:`3 + w` are slips.

*What a slip shows.* It comes at the first tick of what its place has not begun, so of that place
all that is seen is behind which run it came, one for each question, and whether that run has a
new tick, keeps its own or is done: three, as for a failure. So a thing is one of three kinds (a
slip, a failure, a worker that died, whose run starts again) of one of :math:`q` questions, at one
of three moments, and may come again: :math:`\log_2 \sum_k \binom{3q + k - 1}{k} 3^k` bits. In which
order those of one run came is in that: it fails once at most, at the end, and its worker dies once
at most, so :math:`i` slips before that and :math:`j` behind it are as good as :math:`j` slips and
:math:`i + 1` deaths.

Of the other places it shows nothing. What these do from that moment on follows from what has
started there and not left, from bounds, ticks and the moment itself: all of that was public before
(:meth:`~discreet.service._pool.Place.lay`). Moments of a run that are over stay as they were, and
those that are not move along with it, with a failure that does not count yet: a run has three in
all, whatever slips elsewhere. By induction over moments at which something is counted, whatever
anybody sees follows from what is asked and from what is counted, of which run, of which kind, at
which of three: what :math:`w` places show together is what is counted of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from discreet._dataclass import dataclass

LAPSES: Final = 3
"""Runs that may miss their tick before no more of their size are started."""


@dataclass(slots=True, eq=False)
class Lapse:
    """Something that was late."""

    since: float
    """From when on it counts, on the loop's clock; a slip of another place may put that off."""
    tick: float


class Brake:
    """What was late under one policy since an owner has looked."""

    def __init__(self, ticks: Iterable[float]) -> None:
        self.notices = list(ticks)
        """Ticks of what is late, as far as everybody may know."""
        self._lapses = [Lapse(0.0, tick) for tick in self.notices]

    @property
    def ticks(self) -> list[float]:
        """Ticks of all that is late, whether or not anybody may know."""
        return [lapse.tick for lapse in self._lapses]

    def count(self, lapse: Lapse) -> None:
        """Count something late, from its moment on."""
        self._lapses.append(lapse)

    def tell(self, tick: float) -> None:
        """Let everybody know of something that was counted."""
        self.notices.append(tick)

    def holds(self, tick: float, now: float) -> bool:
        """Whether a run of a size that is about to start by the timetable does not."""
        return _stops(tick, [lapse.tick for lapse in self._lapses if lapse.since <= now])

    def bars(self, tick: float) -> bool:
        """Whether everybody may know that nothing of a size starts."""
        return _stops(tick, self.notices)

    @property
    def on(self) -> bool:
        """Whether everybody may know that something does not start."""
        return len(self.notices) >= LAPSES

    def ease(self) -> None:
        """Forget what everybody was told of: an owner has looked. Nothing else."""
        for tick in self.notices:
            same = [lapse for lapse in self._lapses if lapse.tick == tick]
            self._lapses.remove(min(same, key=lambda lapse: lapse.since))
        self.notices.clear()


def _stops(tick: float, ticks: Sequence[float]) -> bool:
    """Whether no run of a size may start: too many missed their tick.

    Smaller ones may go on, until one more of whatever size is late.
    """
    return len(ticks) >= LAPSES and (len(ticks) > LAPSES or tick >= min(ticks))
