"""Ticks and the timetable: functions of plans and declared sizes, never of how long a run took."""

from __future__ import annotations

import asyncio
import queue

import pytest

import discreet as dc
from discreet.curator import Counter
from discreet.errors import DiscreetError
from discreet.service import Home, _ticks
from discreet.service._desk import Desk
from discreet.service._pool import Place, Run, Turns
from discreet.service._worker import DONE, FAILED, Setup

pytestmark = pytest.mark.races


@pytest.fixture(scope="module")
def plans():
    table = dc.policy.Table(
        "people", [dc.policy.Integer("age", 0, 115), dc.policy.Category("sex", ["F", "M"])],
        unit="person", max_rows_per_unit=4,
    )  # fmt: skip
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="ticks")
    texts = {
        "count": "SELECT COUNT(*) AS n FROM people",
        "groups": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
        "join": "SELECT COUNT(*) AS n FROM people a JOIN people b USING (person)",
    }
    with dc.open(policy=policy, dummy=True) as curator:
        counter = Counter(curator)
        return {name: counter.bill(sql, "ana", epsilon="0.1").plans for name, sql in texts.items()}


def test_a_bound_grows_with_declared_rows_joins_and_the_machine(plans):
    small, large = (_ticks.bound(plans["count"], rows, 1.0) for rows in (10**3, 10**7))
    assert small < large
    assert _ticks.bound(plans["join"], 10**6, 1.0) > 2 * _ticks.bound(plans["count"], 10**6, 1.0)
    assert _ticks.bound(plans["count"], 10**6, 2.0) == 2 * _ticks.bound(plans["count"], 10**6, 1.0)
    # sizes are classes: what differs less than fourfold is often the same
    assert _ticks.bound(plans["count"], 5000, 1.0) == _ticks.bound(plans["count"], 16000, 1.0)


def test_a_tick_is_on_the_grid_and_above_the_bound(plans):
    for own in plans.values():
        for rows in (10, 10**4, 10**6, 10**8):
            seconds = _ticks.bound(own, rows, 1.0)
            tick = _ticks.tick(seconds, 4.0)
            assert tick in _ticks.GRID
            assert tick >= min(seconds, _ticks.GRID[-1])
    assert _ticks.tick(_ticks.bound(plans["count"], None, 1.0), 4.0) == 4.0


class FakeWorker:
    """Answers after as long as it is told, or never; stands in for a process."""

    def __init__(self, durations):
        self._durations, self._out = list(durations), queue.Queue()
        self._sent = queue.Queue()
        self.killed = False

    def send(self, plans):
        self._sent.put(plans)

    def receive(self):
        import time

        self._sent.get()
        took = self._durations.pop(0)
        for _ in range(int(took * 100)):
            if self.killed:
                raise EOFError
            time.sleep(0.01)
        return DONE + b"outcome" if took >= 0 else FAILED

    def kill(self):
        self.killed = True
        self._sent.put(None)


def _released(durations, *, tick=0.3, bound=0.2, analysts=("ana",)):
    """When, and with what, runs of these durations leave: seconds after the first was asked."""

    async def main():
        turns, found, loop = Turns(), [], asyncio.get_running_loop()
        worker = FakeWorker(durations)
        place = Place(worker, Setup(_Named(), None, 0, "", 0, ""), turns)
        start, ended = loop.time(), asyncio.Event()

        async def settle(text, name):
            found.append((name, text, round(loop.time() - start, 2)))
            if len(found) == len(durations):
                ended.set()

        async def again():
            pass

        for i in range(len(durations)):
            who = analysts[i % len(analysts)]
            turns.put(Run(who, (), bound, tick, lambda t, n=(who, i): settle(t, n), again))
        place.start()
        await asyncio.wait_for(ended.wait(), 20)
        for task in place._tasks:
            task.cancel()
        worker.kill()
        place._threads.shutdown(wait=False)
        return found

    return asyncio.run(main())


class _Named:
    identity = "fake"


def test_an_answer_leaves_at_its_tick_however_quick_the_run_was():
    """The second question's time is the same, too, though the first one's run was 30 times longer.

    Times are compared with the timetable, from below only: a busy machine is late, never early.
    """
    for first in (0.01, 0.3):
        found = _released([first, 0.01], tick=2.0, bound=1.0)
        assert [text for _, text, _ in found] == ["outcome", "outcome"]
        assert found[0][2] >= 2.0
        assert found[1][2] >= 3.0  # it started when the first one's bound was over


def test_a_run_that_is_not_done_at_its_tick_fails_and_its_worker_is_killed():
    (late,) = _released([5.0])
    assert late[1] is None


def test_a_run_that_fails_leaves_at_the_same_tick():
    (failed,) = _released([-1])
    assert failed[1] is None
    assert failed[2] >= 0.3


def test_analysts_take_turns():
    async def main():
        turns = Turns()
        for who in ("ana", "ana", "ana", "ben", "carl"):
            turns.put(Run(who, (), 0, 0, None, None))
        return [(await turns.get()).analyst for _ in range(5)]

    assert asyncio.run(main()) == ["ana", "ben", "carl", "ana", "ana"]


def test_three_overruns_stop_questions_of_their_size_until_an_owner_has_looked(tmp_path):
    table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)])
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="late")
    with dc.open(policy=policy, dummy=True) as curator:
        desk = Desk(Counter(curator), Home(tmp_path), 1.0, 4.0)
        body = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.1"}

        async def main():
            desk._late += [4.0] * 3
            with pytest.raises(DiscreetError, match="not done at their tick"):
                await desk.ask("ana", None, body)
            assert desk.ledger.balance().amounts["epsilon"][0] == 0
            desk.acknowledge()
            return await desk.ask("ana", None, body)

        assert asyncio.run(main()).state == "running"
        assert desk.ledger.balance().amounts["epsilon"][0] > 0
