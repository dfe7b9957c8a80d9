"""Ticks and the timetable: functions of plans and declared sizes, never of how long a run took."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import time

import pyarrow as pa
import pytest
from tests import clockwork
from tests.clockwork import FakeWorker

import discreet as dc
from discreet.curator import Counter, run_bill
from discreet.errors import DiscreetError, EngineError
from discreet.service import Home, _machine, _pool, _ticks
from discreet.service._desk import Desk
from discreet.service._pool import Place, Run, Turns
from discreet.service._worker import Setup

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
        "sum": "SELECT SUM(age) AS s FROM people",
        "root": "SELECT SUM(SQRT(age)) AS s FROM people",
    }
    with dc.open(policy=policy, dummy=True) as curator:
        counter = Counter(curator)
        return {name: counter.bill(sql, "ana", epsilon="0.1").plans for name, sql in texts.items()}


def test_a_bound_grows_with_declared_rows_joins_texts_and_the_machine(plans):
    def bound(name, rows, slowness=1.0, text=300):
        return _ticks.bound(plans[name], rows, slowness, text)

    assert bound("count", 10**3) < bound("count", 10**7)
    assert bound("join", 10**6) > 2 * bound("count", 10**6)
    assert bound("count", 10**6, 2.0) == 2 * bound("count", 10**6)
    assert bound("count", 10, text=20_000) > 5 * bound("count", 10)
    # a curve is looked up in each row, whatever its text has cost
    rows = 4**10
    assert bound("root", rows) > bound("sum", rows) + 1.9 * rows * _ticks._CURVE
    # sizes are classes: what differs less than fourfold is often the same
    assert bound("count", 5000) == bound("count", 16000)


def test_a_tick_is_on_the_grid_and_above_the_bound(plans):
    for own in plans.values():
        for rows in (10, 10**4, 10**6, 10**8):
            seconds = _ticks.bound(own, rows, 1.0, 300)
            tick = _ticks.tick(seconds, 4.0)
            assert tick in _ticks.GRID
            assert tick >= min(8 * seconds, _ticks.GRID[-1])
    assert _ticks.tick(0.01, 4.0) == _ticks.GRID[0]
    assert _ticks.tick(0.01, 4.0, busy=8.0) == 2.0  # of waiting, whatever the work
    slowness, busy = _machine.machine()
    assert busy >= 1
    assert slowness >= _machine._FASTEST
    assert _ticks.tick(_ticks.bound(plans["count"], None, 1.0, 300), 4.0) == 4.0


@pytest.mark.parametrize(
    ("longest", "busy"), [(1.0, 1), (1.02, 1), (1.25, 1), (1.26, 2), (2.1, 4), (4.0, 4), (1e9, 64)]
)
def test_a_pause_of_milliseconds_does_not_make_a_machine_busy(longest, busy):
    """No clock shows exactly one: that took every quiet machine for one of half the speed."""
    assert _machine._busyness(longest) == busy


def test_a_small_question_on_a_quiet_machine_leaves_within_a_third_of_a_second(plans):
    """64 clients that wait for each answer would else get 128 a second at most."""
    for rows in (10, 1000, 16_000):
        seconds = _ticks.bound(plans["count"], rows, 1.0, 560)
        assert _ticks.tick(seconds, 4.0) <= 0.3
        assert _ticks.tick(seconds, 4.0, busy=2.0) == 0.5


def test_steps_of_the_grid_are_small_and_have_short_names():
    """Half of a tick that is a power of two waits for the next power."""
    assert (_ticks.FIRST, _ticks.GRID[-1]) == (0.25, 256.0)
    assert all(1.1 < b / a < 1.3 for a, b in itertools.pairwise(_ticks.GRID))
    assert all(len(f"{t:g}") <= 5 and float(f"{t:g}") == t for t in _ticks.GRID)


def test_what_ranks_rows_takes_longer_than_what_lets_them_pass(plans):
    """Rows of a count are all alike; those of groups differ, and are ranked."""
    rows, nodes = 2.0**20, {}
    for own in plans.values():
        for aggregate in own[0].lowered.aggregates:
            for node in aggregate.relation.nodes:
                nodes.setdefault(type(node).__name__, set()).add(_ticks._row(node, set()))
    assert max(nodes["Project"]) < max(nodes["Scan"]) < max(nodes["LimitRows"])
    assert len(nodes["LimitRows"]) == 2
    for node in plans["groups"][0].lowered.aggregates[0].relation.nodes:
        assert _ticks._work(node, 2 * rows, set())[1] == 2 * _ticks._work(node, rows, set())[1]


ROWS = 4**6
KINDS = {
    "count": "SELECT COUNT(*) AS n FROM stays",
    "quantiles": "SELECT QUANTILE(cost, [0.1, 0.25, 0.5, 0.75, 0.9]) FROM stays",
    "wide": "SELECT ward, city, COUNT(*) AS n FROM stays GROUP BY ward, city",
    "open": "SELECT note, COUNT(*) AS n FROM stays GROUP BY note",
    "chosen": "SELECT ward, COUNT(DISTINCT person) AS n FROM stays GROUP BY ward "
        "ORDER BY n DESC LIMIT 40",
    "sums": f"SELECT {', '.join(f'SUM(LEAST(cost, {i})) AS s{i}' for i in range(1, 41))} "
        "FROM stays",
    "join": "SELECT COUNT(*) AS n FROM stays a JOIN stays b USING (person)",
}  # fmt: skip


@pytest.fixture(scope="module")
def stays():
    """A policy, and a table with twice the rows of a person and no open key twice."""
    own = dc.policy
    table = own.Table(
        "stays", [own.Integer("ward", 0, 9999), own.Integer("city", 0, 3), own.Text("note"),
                  own.Real("cost", 0, 500, step="0.01")],
        unit="person", max_rows_per_unit=100,
    )  # fmt: skip
    i = range(ROWS)
    rows = pa.table({"person": [x // 200 for x in i], "ward": [7 * x % 9999 for x in i],
                     "city": [x % 5 for x in i], "note": [f"note {x}" for x in i],
                     "cost": [x * 0.37 % 600 for x in i]})  # fmt: skip
    budget = own.Budget("1000", "0.001")
    with dc.open({"stays": rows}, policy=own.Policy([table], budget, name="bounds"),
                 ledger=":memory:") as curator:  # fmt: skip
        yield curator


@pytest.mark.parametrize("kind", KINDS)
def test_real_work_is_within_the_bound(stays, kind):
    """Processor time of one thread, its first run included; a bound is twice what is expected.

    `make bench-ticks` has more kinds and tables of a million rows.
    """
    counter = Counter(stays)
    bill = counter.bill(KINDS[kind], "ana", epsilon="1", delta="1e-6")
    text = sum(map(len, counter.statements(bill)))
    slowness = max(1.0, _machine.machine()[0])
    seconds = _ticks.bound(bill.plans, ROWS, slowness, text)
    start = time.process_time()
    run_bill(pickle.loads(pickle.dumps(bill)).plans, stays._engine, counter.policy)
    assert time.process_time() - start < seconds


def _released(durations, *, tick=0.3, bound=0.2, runs=None, spare=(), settled=None, standstill=0.0):
    """When, and with what, runs of these durations leave: seconds after the first was asked.

    A worker that is killed is followed by one that has the durations `spare`; None: by none. The
    loop stands still for so many seconds once all have begun.
    """
    made = []

    def another():
        if spare is None:
            raise EngineError("a worker could not open the data in time")
        return worker(spare)

    def worker(seconds):
        rest = iter(seconds)
        return FakeWorker(lambda _: next(rest), clocked=False)

    async def main():
        turns, found, loop = Turns(), [], asyncio.get_running_loop()
        place = Place(worker(durations), Setup(_Named(), None, 0, "", 0, ""), turns)
        place._another = another
        start, ended = loop.time(), asyncio.Event()

        async def settle(text, name):
            found.append((name, text, round(loop.time() - start, 2)))
            if len(found) == (settled or runs or len(durations)):
                ended.set()

        for i in range(runs or len(durations)):
            ticks = tick if isinstance(tick, float) else tick[i]
            made.append(Run("ana", b"", bound, ticks, lambda t, n=i: settle(t, n)))
            turns.put(made[-1])
        place.start()
        if standstill:
            while made[-1].begun is None:  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(0.01)
            loop.stand_still(standstill)
        await asyncio.wait_for(ended.wait(), 120)
        await place.close()
        return found

    return clockwork.run(main()), made


class _Named:
    identity = "fake"


def test_an_answer_leaves_at_its_tick_however_quick_the_run_was():
    """The second question's time is the same, too, though the first one's run was 30 times longer.

    Times are compared with the timetable, from below only: a busy machine is late, never early.
    """
    for first in (0.01, 0.3):
        found, _ = _released([first, 0.01], tick=2.0, bound=1.0)
        assert [text for _, text, _ in found] == ["outcome", "outcome"]
        assert found[0][2] >= 2.0
        assert found[1][2] >= 3.0  # it started when the first one's bound was over


def test_a_run_that_is_not_done_at_its_tick_fails_and_its_worker_is_killed():
    (late,), (run,) = _released([5.0])
    assert late[1] is None
    assert run.overran


def test_a_run_that_fails_leaves_at_the_same_tick():
    (failed,), (run,) = _released([-1], tick=3.0)
    assert failed[1] is None
    assert failed[2] >= 3.0
    assert run.overran  # it tells as much as a late one


def test_a_standstill_of_the_service_is_no_run_s_lateness():
    """It leaves as late again as the service woke up, whether it was done by then or not."""
    for took, text in ((4.9, "outcome"), (0.01, "outcome"), (60.0, None)):
        (found,), (run,) = _released([took], tick=1.0, standstill=5.0)
        assert found[1] == text
        assert found[2] >= 9.0
        assert run.overran == (text is None)


def test_a_run_behind_one_that_is_late_starts_again_and_does_not_fail():
    """The first takes long beyond its bound, though not beyond its tick; it alone is counted."""
    found, (slow, quick) = _released([1.5, 0.01], tick=(12.0, 1.0), bound=0.2)
    assert [(n, text) for n, text, _ in found] == [(0, "outcome"), (1, "outcome")]
    assert (slow.lapses, quick.lapses) == (1, 0)
    assert not slow.overran
    assert quick.moving == 0  # a worker was there all the time
    assert found[1][2] >= 13.0  # it starts when the first leaves, whenever that was done


def test_a_run_behind_one_that_is_killed_starts_again_and_does_not_fail():
    found, (late, quick) = _released([99.0], tick=(4.0, 3.0), bound=0.2, runs=2, spare=[0.01])
    assert sorted((n, text) for n, text, _ in found) == [(0, None), (1, "outcome")]
    assert (late.overran, quick.overran) == (True, False)


def test_a_run_that_no_worker_comes_to_fails_in_the_end(monkeypatch):
    monkeypatch.setattr(_pool, "_MOVING", 0.3)
    found, (_, never) = _released([-1], tick=(8.0, 0.1), bound=0.1, runs=2, spare=None)
    assert (1, None) in [(n, text) for n, text, _ in found]
    assert not never.lapses


def test_analysts_take_turns():
    async def main():
        turns = Turns()
        for who in ("ana", "ana", "ana", "ben", "carl"):
            turns.put(Run(who, b"", 0, 0, None))
        return [(await turns.get()).analyst for _ in range(5)]

    assert asyncio.run(main()) == ["ana", "ben", "carl", "ana", "ana"]


def test_three_overruns_stop_questions_of_their_size_until_an_owner_has_looked(tmp_path):
    table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)])
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="late")
    with dc.open(policy=policy, dummy=True) as curator:
        home = Home(tmp_path)
        desk = Desk(Counter(curator), home, 1.0, 4.0)
        body = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.1"}

        async def main():
            nonlocal desk
            for _ in range(3):
                desk.orders.keep_late(4.0)
            desk = Desk(Counter(curator), home, 1.0, 4.0)  # a new start forgets nothing
            assert desk.overruns == 3
            with pytest.raises(DiscreetError, match="not done at their tick"):
                await desk.ask("ana", None, body)
            assert desk.ledger.balance().amounts["epsilon"][0] == 0
            desk.acknowledge()
            return await desk.ask("ana", None, body)

        assert asyncio.run(main()).state == "running"
        assert desk.ledger.balance().amounts["epsilon"][0] > 0
        assert Desk(Counter(curator), home, 1.0, 4.0).overruns == 3
        assert not Desk(Counter(curator), home, 1.0, 4.0).braked


def test_what_cannot_start_in_time_is_refused_before_it_is_paid_for(tmp_path):
    """By what waits, which is public: bounds of plans, and whose turn it is."""
    table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)])
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="full")
    body = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.1"}

    async def main(desk):
        for _ in range(5):
            desk.turns.put(Run("ana", b"", 100.0, 256.0, None))
        with pytest.raises(DiscreetError, match="take all places"):
            await desk.ask("ana", None, body)
        assert desk.ledger.balance().amounts["epsilon"][0] == 0
        return await desk.ask("ben", None, body)  # his turn comes after one of hers

    with dc.open(policy=policy, dummy=True) as curator:
        order = asyncio.run(main(Desk(Counter(curator), Home(tmp_path), 1.0, 4.0)))
    assert order.state == "running"


def test_a_question_that_no_tick_is_long_enough_for_is_refused(tmp_path):
    table = dc.policy.Table(
        "people", [dc.policy.Integer("age", 0, 115)], unit="person", max_rows_per_unit=1000
    )
    service = dc.policy.Service(rows=10**9)
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="far", service=service)
    body = {"sql": "SELECT COUNT(*) AS n FROM people a JOIN people b USING (person)",
            "epsilon": "0.1"}  # fmt: skip
    with dc.open(policy=policy, dummy=True) as curator:
        desk = Desk(Counter(curator), Home(tmp_path), 1.0, 4.0)
        with pytest.raises(DiscreetError, match="may take"):
            asyncio.run(desk.ask("ana", None, body))
        assert desk.ledger.balance().amounts["epsilon"][0] == 0
