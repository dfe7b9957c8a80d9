"""The timetable under load: rows of honest questions, slow machines, and those who did nothing."""

from __future__ import annotations

import asyncio
import math
from fractions import Fraction

import pytest
from tests import clockwork
from tests.clockwork import FakeWorker

import discreet as dc
from discreet.curator import Counter
from discreet.service import Home, _machine, _pool
from discreet.service._desk import Desk
from discreet.service._machine import SAFETY, Crowd
from discreet.service._pool import Place, Run, Turns
from discreet.service._seats import Seats
from discreet.service._worker import DONE, FAILED, Setup

_SLICE = 0.002


class Processors:
    """So many processors, shared equally by whoever works: a machine, in numbers."""

    def __init__(self, many):
        self._many, self._busy = many, 0

    async def work(self, seconds):
        """Take so much processor time."""
        self._busy += 1
        try:
            while seconds > 0:
                await asyncio.sleep(_SLICE)
                seconds -= _SLICE * min(1.0, self._many / self._busy)
        finally:
            self._busy -= 1


class _Named:
    identity = "fake"


def _served(
    durations, *, bound, tick, workers=1, processors=1.0, seats=None, start=0.0,
    hinders=lambda: None,
):  # fmt: skip
    """Outcomes by run, the runs, what was begun, and the moments at which workers were replaced.

    What takes forever has its worker killed from outside, the first time it is asked.
    """
    found, made, asked, replaced = {}, [], [], []
    machine = Processors(processors)

    async def main():
        turns, ended, loop = Turns(), asyncio.Event(), asyncio.get_running_loop()
        if seats is not None:
            turns.seats = Seats(seats)

        def takes(bill):
            took = durations[int(bill)]
            asked.append(int(bill))
            if took < math.inf:
                return took
            if asked.count(int(bill)) == 1:
                raise EOFError  # killed from outside
            return 0.01

        def worker():
            return FakeWorker(takes, work=machine.work)

        async def another():
            replaced.append(loop.time())
            await asyncio.sleep(start)
            if (error := hinders()) is not None:
                raise error
            return worker()

        places = []
        for _ in range(workers):
            places.append(Place(worker(), Setup(_Named(), None, 0, "", 0, ""), turns))
            places[-1]._another = another

        async def settle(text, name):
            found[name] = text
            if len(found) == len(durations):
                ended.set()

        for i in range(len(durations)):
            own = bound[i] if isinstance(bound, list) else bound
            made.append(Run("ana", b"%d" % i, own, tick, lambda t, n=i: settle(t, n)))
            turns.put(made[-1])
        for place in places:
            place.start()
        await asyncio.wait_for(ended.wait(), 2000)
        for place in places:
            await place.close()
        return turns

    turns = clockwork.run(main())
    return found, made, asked, replaced, turns


HONEST = 0.055
"""Processor time of a run whose bound is 0.1: the most that any kind of question has taken."""


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_queue_of_honest_questions_makes_nobody_late(workers):
    """Sixty, on one processor, by however many workers."""
    durations = [HONEST] * 60
    found, made, asked, _, turns = _served(durations, bound=0.1, tick=0.8, workers=workers, seats=1)
    assert set(found.values()) == {"outcome"}
    assert not any(run.lapses for run in made)
    assert sorted(asked) == list(range(60))  # nobody's data were looked at twice
    assert turns.stretch == 1


def test_without_seats_the_same_queue_pulls_the_brake():
    """The old timetable, planted: four places promise four processors where there is one."""
    _, made, _, _, _ = _served([HONEST] * 60, bound=0.1, tick=0.8, workers=4)
    assert any(run.lapses for run in made)


def test_a_slow_machine_makes_the_timetable_slip_and_pulls_no_brake():
    """A quarter of a processor: those who wait start again, twice at most, and all are answered."""
    durations = [4 * HONEST] * 24
    found, made, asked, _, turns = _served(durations, bound=0.4, tick=3.2, seats=1, processors=0.25)
    assert set(found.values()) == {"outcome"}
    assert 1 <= sum(run.lapses for run in made) <= 2
    assert turns.stretch in {2, 4}
    assert sorted(asked) == list(range(24))
    turns.ease()
    assert turns.stretch == 1


def test_a_timetable_that_does_not_stretch_slips_again_and_again(monkeypatch):
    monkeypatch.setattr(_pool, "_WIDEST", 1.0)
    _, made, _, _, _ = _served([4 * HONEST] * 24, bound=0.4, tick=3.2, seats=1, processors=0.25)
    assert sum(run.lapses for run in made) > 2


@pytest.mark.parametrize("fault", [0.5, -1.0])
@pytest.mark.parametrize("workers", [1, 2])
def test_those_behind_a_run_that_fails_neither_fail_nor_run_twice(fault, workers):
    """Beyond its clock or its memory; another worker takes longer to come than a tick."""
    durations = [0.02] * 3 + [fault] + [0.02] * 20
    found, made, asked, _, _ = _served(
        durations, bound=0.1, tick=0.8, workers=workers, processors=workers, seats=workers,
        start=2.0,
    )  # fmt: skip
    assert [i for i, text in found.items() if text is None] == [3]
    assert [i for i, run in enumerate(made) if run.overran] == [3]
    assert sorted(asked) == list(range(24))


@pytest.mark.parametrize("fault", [0.5, -1.0])
def test_a_worker_that_failed_is_replaced_when_its_place_is_free(fault):
    """At once would tell when it failed; so nobody behind it is told that."""
    found, _, _, replaced, _ = _served([fault, 0.01], bound=0.4, tick=3.2)
    assert found == {0: None, 1: "outcome"}
    assert replaced == [pytest.approx(0.4, abs=0.01)]


def test_a_run_whose_worker_dies_runs_once_more():
    found, (run,), asked, replaced, _ = _served([float("inf")], bound=0.2, tick=1.6)
    assert found == {0: "outcome"}
    assert run.lapses == 1  # it leaves later, which may tell something
    assert asked == [0, 0]
    assert len(replaced) == 1


def test_nobody_pays_for_somebody_else_s_run(tmp_path):
    """The last question of all that the budget can pay for, behind one that runs out of memory."""
    table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)])
    service = dc.policy.Service(rows=1000)
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="poor", service=service)
    asked = []

    async def main(desk):
        turns = desk.turns
        first = await desk.ask("eve", None, _question(0))
        rest = [await desk.ask("ana", None, _question(k)) for k in range(1, 5)]
        worker = Fails(first.run.bill)
        place = Place(worker, Setup(policy, None, 0, "", 0, ""), turns)
        place._another = lambda: asyncio.sleep(2, worker)
        desk.places = [place]
        place.start()
        for order in (first, *rest):
            await asyncio.wait_for(order.ended.wait(), 60)
        await desk.close()
        return [order.state for order in (first, *rest)]

    def _question(k):
        return {"sql": f"SELECT COUNT(*) AS n FROM people WHERE age > {k}", "epsilon": "0.2"}

    class Fails:
        """Runs out of memory for one question, and answers the others."""

        overran = False

        def __init__(self, bill):
            self._bill = bill

        def ask(self, bill, allowance=0.0):
            asked.append(bill)
            return FAILED if bill == self._bill else DONE + b'{"made": "up"}'

        def kill(self):
            pass

        end = kill

    with dc.open(policy=policy, dummy=True) as curator:
        desk = Desk(Counter(curator), Home(tmp_path), 1.0, 4.0)
        states = clockwork.run(main(desk))
        debits = [x for x in desk.ledger.lines if x.kind == "debit"]
        assert desk.ledger.balance().remaining == 0
    assert states == ["failed", *["done"] * 4]
    assert len(asked) == len(set(asked)) == len(debits) == 5
    assert {x.content["cost"]["epsilon"] for x in debits} == {"1/5"}


@pytest.mark.parametrize(
    ("processors", "workers", "seats", "threads", "stretch"),
    [(1, 4, 1, 1, 1 / 2), (2, 2, 2, 1, 1), (2, 1, 2, 2, 1), (8, 2, 8, 4, 1), (8, 24, 8, 1, 1 / 2),
     (2, 3, 2, 1, 2 / 3), (3.5, 2, 3, 1, 1), (0.5, 1, 1, 1, 2), (0.5, 2, 1, 1, 1)],
)  # fmt: skip
def test_no_more_is_promised_than_there_is(processors, workers, seats, threads, stretch):
    crowd = Crowd((1.0, 1.0), processors, workers, 1)
    assert (crowd.seats, crowd.threads, crowd.stretch) == (seats, threads, stretch)
    crowded = min(max(1, workers / max(1, processors)), SAFETY)
    assert crowd.seats / crowd.stretch <= processors * crowded
    assert crowd.threads * workers <= max(crowd.seats, workers)


@pytest.mark.parametrize(
    ("speed", "workers", "slowness", "stretch"),
    [
        (0.5, 2, 1, 1),
        (0.5, 3, 1, 2 / 3),
        (0.5, 4, 1, 1 / 4),
        (1.0, 4, 1, 1 / 2),
        (4.0, 4, 4, 1 / 2),
    ],
)
def test_a_fast_machine_gives_seats_on_sooner_where_many_workers_are_asked_for(
    speed, workers, slowness, stretch
):
    """No run is ended sooner for it: bounds are those of the reference at the least."""
    crowd = Crowd((speed, 1.0), 2.0, workers, 1)
    assert (crowd.slowness, crowd.stretch) == (slowness, stretch)


def test_a_machine_is_as_fast_as_the_slower_of_its_works(monkeypatch):
    """No faster than twice the reference, however fast; never for one kind of work alone."""
    monkeypatch.setattr(_machine, "_REFERENCE", 1e9)
    monkeypatch.setattr(_machine, "_REFERENCE_STATEMENTS", 1e9)
    assert _machine.machine()[0] == _machine._FASTEST
    for name in ("_REFERENCE", "_REFERENCE_STATEMENTS"):
        with monkeypatch.context() as patch:
            patch.setattr(_machine, name, 1e-5)
            assert _machine.machine()[0] > 8


def test_a_quota_of_time_is_fewer_processors(tmp_path):
    """As containers and systemd set it, for a group or for one above it."""
    for path, text in {
        "proc/self/cgroup": "1:cpu:/x\n0::/system.slice/discreet.service\n",
        "sys/fs/cgroup/system.slice/discreet.service/cpu.max": "max 100000\n",
        "sys/fs/cgroup/system.slice/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/cpu.max": "400000 100000\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert list(_machine._quotas(tmp_path)) == [1.5, 4.0]
    assert list(_machine._quotas(tmp_path / "none")) == []
    assert Fraction(_machine.processors()) >= Fraction(1, 100)


def test_seats_are_given_on_as_of_the_moment_at_which_they_were_free():
    """First come, first served; one who has gone takes none along, even in the same moment."""

    async def main():
        seats, got = Seats(1), []

        async def one(name):
            got.append((name, await seats.acquire()))

        await one("a")
        others = {name: asyncio.create_task(one(name)) for name in "bcde"}
        await asyncio.sleep(0)
        others["b"].cancel()
        await asyncio.sleep(0)
        seats.release(1.0)  # to c, which goes in the same moment: d has it
        others["c"].cancel()
        await asyncio.sleep(0.01)
        assert got[1:] == [("d", 1.0)]
        seats.release(2.0)
        await asyncio.sleep(0.01)
        seats.release(3.0)
        await one("f")
        return got

    # one that nobody has had was always free
    assert asyncio.run(main()) == [("a", -math.inf), ("d", 1.0), ("e", 2.0), ("f", 3.0)]


@pytest.mark.parametrize(
    ("bound", "late", "free"),
    [(0.004, 0.0, 0.004), (0.004, 0.0005, 0.0035), (0.004, 9.0, 0.003), (1.0, 9.0, 0.998)],
)
def test_what_a_place_woke_up_late_is_made_up_for_by_milliseconds(bound, late, free):
    """Else a row of questions would take longer than its bounds: a millisecond for each."""

    async def main():
        place = Place(None, Setup(_Named(), None, 0, "", 0, ""), Turns())
        run, loop = Run("ana", b"", bound, 9.0, None), asyncio.get_running_loop()
        start = loop.time()
        run.seated = start - late
        place._start(run)
        run.leaving.cancel()
        place._thread.shutdown(wait=False)
        assert run.release >= start + 9.0  # its own tick is a whole one
        return place._free - start, loop.time() - start

    found, took = asyncio.run(main())
    assert free - 1e-6 <= found <= free + took


def test_a_run_could_have_started_when_it_was_there_and_a_seat_was():
    async def main():
        turns, loop = Turns(), asyncio.get_running_loop()
        turns.seats = Seats(1)
        found = []
        for moment in (None, loop.time() - 60.0, loop.time() + 60.0):
            if moment is not None:
                turns.seats.release(moment)
            run = Run("ana", b"", 0.0, 0.0, None)
            turns.put(run)
            assert await turns.get() is run
            found.append((run.seated == run.waits, run.seated == moment))
        return found

    assert asyncio.run(main()) == [(True, False), (True, False), (False, True)]


def test_a_place_whose_worker_cannot_be_started_goes_on_when_one_can():
    """The system had no descriptor left: the place had died, and questions were paid for ever."""
    tries = iter([OSError(24, "no descriptor"), MemoryError(), RuntimeError("no thread"), None])
    found, made, asked, replaced, _ = _served(
        [-1.0, 0.01, 0.01], bound=0.1, tick=0.8, hinders=lambda: next(tries)
    )
    assert found == {0: None, 1: "outcome", 2: "outcome"}
    assert sorted(asked) == [0, 1, 2]
    assert [run.lapses for run in made] == [1, 0, 0]
    assert len(replaced) == 4


@pytest.mark.parametrize("where", ["_reply", "_replace", "again"])
def test_what_nobody_has_thought_of_ends_a_run_and_not_its_place(monkeypatch, where):
    """Wherever it comes up, once: the first run fails anyway, the others are answered."""
    real, tried = getattr(Place, where), []

    def fails_once(place, *given):
        tried.append(given)
        if len(tried) == 1:
            raise ValueError("unheard of")
        return real(place, *given)

    monkeypatch.setattr(Place, where, fails_once)
    found, made, _, _, _ = _served([-1.0, 0.01, 0.01], bound=0.1, tick=0.8)
    assert found == {0: None, 1: "outcome", 2: "outcome"}
    assert made[0].overran


def test_other_people_s_failures_are_no_reason_to_fail():
    """Three dear runs fail one after the other; who starts behind each of them is answered."""
    found, made, _, _, _ = _served(
        [-1.0, -1.0, -1.0, 9.0], bound=[40.0, 41.6, 43.2, 33.0], tick=256.0,
        workers=3, processors=3, seats=3, start=1.0,
    )  # fmt: skip
    assert found == {0: None, 1: None, 2: None, 3: "outcome"}
    assert [run.lapses for run in made] == [1, 1, 1, 0]
