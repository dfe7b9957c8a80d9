"""What a slip shows: everything that anybody sees follows from what is counted.

A model in which time passes only while nothing is to be done: all truths of a few runs at two
places, by the service's own timetable. Nothing here waits for a clock or another process.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import product
from math import comb

import pytest
from tests import clockwork

from discreet.service import _run
from discreet.service._brake import Brake
from discreet.service._pool import Place, Run, Turns
from discreet.service._seats import Seats
from discreet.service._worker import DONE, FAILED, Setup


class Fake:
    """A worker that takes so long for each run, and may fail."""

    def __init__(self, truths, asked):
        self._truths, self._asked, self.overran = truths, asked, False
        self._gone = asyncio.Event()

    async def ask(self, bill, allowance=0.0):
        seconds, ends = self._truths[int(bill)]
        if ends == "dies" and bill in self._asked:
            ends = "done"
        self._asked.append(bill)
        self.overran = ends == "clock"
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), seconds)
            raise EOFError
        if ends in {"dies", "clock"}:
            raise EOFError
        return {"done": DONE + bill, "memory": FAILED}[ends]

    def end(self):
        self._gone.set()

    kill = end


class Named:
    identity = "fake"


SETUP = Setup(Named(), None, 0, "", 0, "")
START = 0.5
"""Seconds that another worker takes to come."""
STEP = 0.5
"""Seconds between looks."""


class World:
    """Two places with their runs: what is seen of them, and what was counted."""

    def __init__(self, shapes, truths, until=60.0, *, braked=True):
        self.runs, self.turns, self.brake, self._braked = [], Turns(), Brake([]), braked
        self._truths, self._asked = truths, []
        self._things, self.seen = [], []
        clockwork.run(self._main(shapes, until))

    @property
    def now(self):
        return asyncio.get_running_loop().time()

    async def _main(self, shapes, until):
        self.turns.seats = Seats(2)
        for _ in range(2):
            place = Place(self._worker(), SETUP, self.turns)
            place._another = lambda: asyncio.sleep(START, self._worker())
        for shape in shapes:
            self._ask(*shape)
        for place in self.turns.places:
            place.start()
        await asyncio.sleep(STEP / 7)  # never in the moment in which something happens
        while self.now < until:
            self._look()
            await asyncio.sleep(STEP)
        for place in self.turns.places:
            await place.close()

    def _worker(self):
        return Fake(self._truths, self._asked)

    def _ask(self, bound, tick):
        number = len(self.runs)

        async def settle(text):
            run.tell()
            self.seen.append((round(self.now, 3), number, text))

        run = Run(
            "ana", b"%d" % number, bound, tick, settle,
            lambda: self.brake.holds(tick, self.now), lambda: self._count(number, run),
            lambda: self.brake.bars(tick), lambda: self.brake.tell(tick),
        )  # fmt: skip
        self.runs.append(run)
        self.turns.put(run)

    def _count(self, number, run):
        """Note what was counted: of which run, of which kind, and which of three it was."""
        if run.overran or run.lost:
            kind, which = "died" if run.lost else "failed", [run.since == m for m in run.marks]
        else:
            kind, which = "slip", [run.begun is not None, run.held_up]
        self._things.append((number, kind, *which))
        if self._braked:
            self.brake.count(run.last)

    def _look(self):
        """Note all that anybody may see at a moment."""
        runs = [(r.placed, r.placed and round(r.release, 3), r.held) for r in self.runs]
        places = [place._open.is_set() for place in self.turns.places]
        told = list(self.brake.notices)
        self.seen.append((round(self.now, 3), self.turns.stretch, told, places, runs))

    @property
    def record(self):
        """What was counted, each run's in its order."""
        return tuple(sorted(self._things, key=lambda thing: thing[0]))

    def left(self, number):
        """When a run left."""
        return next(x[0] for x in self.seen if len(x) == 3 and x[1] == number)


SHAPES = [(2.03, 16.3), (2.11, 17.1), (1.07, 8.9), (1.13, 9.2), (1.01, 8.3), (1.17, 9.7)]
"""Bounds and ticks: the first place has every other one, from the first on."""
ENDS = {
    "quick": (0.2, "done"), "slow": (4.0, "done"), "long": (11.3, "done"), "stuck": (1e9, "done"),
    "clock": (2.7, "clock"), "memory": (0.35, "memory"), "memory late": (3.3, "memory"),
    "dies": (0.7, "dies"), "dies late": (6.2, "dies"),
}  # fmt: skip


def test_a_slip_shows_nothing_of_another_place():
    """The first place slips; however far the second one is then, the same is seen."""
    shown = set()
    for long, *rest in product([0.2, 9.0, 9.9, 12.0], [0.2, 4.0], [0.2, 4.0]):
        durations = [11.3, long, 0.2, rest[0], 0.2, rest[1]]
        world = World(SHAPES, [(x, "done") for x in durations])
        assert world.record == ((0, "slip", True, False),)
        shown.add(repr(world.seen))
    assert len(shown) == 1


MORE = [*SHAPES, (1.03, 8.4), (1.09, 8.8), (0.51, 4.3), (0.47, 3.9)]
LONG, FAILS, SLOW = ("long", "stuck"), ("quick", "dies late"), ("quick", "slow")


@pytest.mark.parametrize(("shapes", "kinds"), [
    (SHAPES, [
        ("quick", "long", "memory", "dies", "stuck"),
        ("quick", "long", "clock", "dies late", "memory late"),
        ("quick", "slow", "memory"), ("quick", "slow", "dies"), SLOW, SLOW,
    ]),
    (MORE, [LONG, LONG, FAILS, FAILS, SLOW, ("quick", "memory"), SLOW, SLOW, ["slow"], ["memory"]]),
])  # fmt: skip
def test_all_that_is_seen_follows_from_what_is_counted(shapes, kinds):
    """Runs that are quick, slow, or fail, or whose worker dies: nine hundred truths, and 256."""
    shown = defaultdict(set)
    for ends in product(*kinds):
        world = World(shapes, [ENDS[end] for end in ends])
        shown[world.record].add(repr(world.seen))
    assert {len(views) for views in shown.values()} == {1}
    many = Counter(len(record) for record in shown)
    assert {2, 3, 4} <= set(many) <= set(range(3 + 2 * 2 + 1))
    for k, records in many.items():
        assert records <= comb(3 * len(shapes) + k - 1, k) * 3**k


def test_one_pause_of_the_whole_machine_is_one_slip(monkeypatch):
    """Both workers stand still behind what they have; the second place has as much room again."""
    world = World(SHAPES, [(12.0, "done")] * 2 + [(0.2, "done")] * 4)
    assert world.record == ((0, "slip", True, False),)
    with monkeypatch.context() as alone:
        alone.setattr(Place, "lay", lambda _place: None)
        world = World(SHAPES, [(12.0, "done")] * 2 + [(0.2, "done")] * 4)
    assert len(world.record) == 2


@pytest.mark.parametrize("slow", [2.0, 4.0, 6.0])
def test_ticks_are_put_off_by_slips_alone_and_not_for_ever(monkeypatch, slow):
    """Under a lag that does not end: so often as is counted, each time by a row at most."""
    shapes = [(bound, tick) for bound, tick in SHAPES[2:] for _ in range(6)]
    truths = [(slow * bound, "done") for bound, _ in shapes]
    laid, lay = [], Run.lay

    def noted(run, now, start, taken):
        before = run.release
        lay(run, now, start, taken)
        laid.append((run.release - before, now))

    monkeypatch.setattr(Run, "lay", noted)
    world = World(shapes, truths, until=400.0, braked=False)
    slips = sum(kind == "slip" for _, kind, *_ in world.record)
    assert 1 <= slips <= 3  # twice as much room each time, and there are eight bounds in a tick
    assert len({now for _, now in laid}) <= slips
    longest = max(tick for _, tick in SHAPES[2:])
    row = 4 / 3 * longest + longest  # bounds of a row, and of its last run
    for moved, _ in laid:
        assert 0 <= moved <= longest + world.turns.stretch * row
    assert all(run.outcome.done() for run in world.runs)
    assert max(world.left(i) for i in range(len(shapes))) < 200


def test_a_failure_that_nobody_knows_of_is_put_off_with_its_run():
    """Its moment stays one of three: those that are over stay, the others move with the run."""

    async def main():
        run = Run("ana", b"", 1.0, 8.0, None)
        run.start(now := asyncio.get_running_loop().time(), 1.0)
        run.fail()
        waiting = asyncio.create_task(run.until_effect())
        assert run.since == run.marks[0] == now + 1.0 + _run.AFTER
        run.lay(now + 0.5, now + 3.0, 2.0)
        marks = run.marks
        assert marks == (now + 3.0 + 2.0 + _run.AFTER, now + 3.0 + 4.0 + _run.AFTER)
        assert (run.since, run.release) == (marks[0], now + 11.0)
        run.lay(now + 6.0, now + 6.0, 4.0)
        assert run.marks == (marks[0], now + 6.0 + 8.0 + _run.AFTER)  # one was over
        assert (run.since, run.release) == (marks[0], now + 14.0)
        run.last.since = run.marks[1]
        await asyncio.sleep(0.01)
        assert not waiting.done()
        run.leave()  # whatever had been put off beyond that is seen now
        await asyncio.wait_for(waiting, 60)
        assert run.since <= asyncio.get_running_loop().time()

    clockwork.run(main())


def test_who_asks_is_told_of_places_that_rest_after_a_slip():
    """What waits is refused by how long places are taken, and those take nothing either."""

    async def main():
        turns = Turns()
        place, other = (Place(None, SETUP, turns) for _ in range(2))
        assert turns.before("ana") == 0.0
        place._until = asyncio.get_running_loop().time() + 60.0
        other._until = asyncio.get_running_loop().time() - 60.0
        assert turns.before("ana") == 60.0

    clockwork.run(main())
