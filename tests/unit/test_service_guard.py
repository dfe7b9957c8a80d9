"""One person's text and one run's time: neither decides when, or whether, others are answered."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import clockwork
from tests.clockwork import FakeWorker

import discreet as dc
from discreet import engines
from discreet.curator import Counter
from discreet.errors import DiscreetError, PolicyError
from discreet.plan import expr
from discreet.service import Home, _machine, _pages, _pool, _ticks, _views
from discreet.service._desk import Desk
from discreet.service._orders import Order
from discreet.service._pool import Place, Run, Turns, Worker
from discreet.service._worker import DONE, Setup

pytestmark = pytest.mark.races
own = dc.policy
ROWS = 64


def _policy(name, longest=1000, rows=ROWS):
    table = own.Table(
        "people", [own.Integer("age", 0, 100), own.Text("note", longest=longest)],
        unit="pid", max_rows_per_unit=2,
    )  # fmt: skip
    budget = own.Budget("1000", "0.001")
    return own.Policy([table], budget, name=name, service=own.Service(rows=rows))


def _where(condition):
    return f"SELECT COUNT(*) FILTER (WHERE {condition}) AS n FROM people"


def _any(tests):
    half = len(tests) // 2
    return tests[0] if not half else f"({_any(tests[:half])} OR {_any(tests[half:])})"


# -- texts --------------------------------------------------------------------------------

CONDITIONS = {
    "equal": "note = 'x'",
    "like": "note LIKE '%~%'",
    "like, any one": f"note LIKE '%{'_' * 400}~%'",
    "like, same signs": f"note LIKE '%{'a' * 400}~%'",
    "ilike": "note ILIKE '%ab~%'",
    "trim and fold": "LENGTH(UPPER(TRIM(LOWER(SUBSTR(note, 2, 900))))) > 3",
    "pieces": "SPLIT_PART(note, 'b', 100) = 'z'",
    "regex": "note ~ '(cat|dog)[0-9]+x'",
    "regex, many states": "note ~ 'a[ab]{20}[xyz]'",
    "regex, more states": "note ~ '[^x](.{100}){4}AB'",
    "many regexes": _any([f"note ~ 'a.{{{i + 10}}}z'" for i in range(20)]),
    "many folds": _any([f"UPPER(SUBSTR(note, {i}, 900)) = 'A'" for i in range(1, 21)]),
}
QUESTIONS = {name: _where(c) for name, c in CONDITIONS.items()} | {
    "distinct": "SELECT COUNT(DISTINCT note) AS n FROM people",
    "open keys": "SELECT UPPER(note) AS u, COUNT(*) AS n FROM people GROUP BY u",
}


def _letters(i, signs):
    return "".join(signs[(i * 7919 + k * k * 31 + (k >> 3)) % len(signs)] for k in range(50_000))


@pytest.fixture(scope="module", params=["ab", "aé€😀", "a"])
def people(request, tmp_path_factory):
    """As many rows as declared, each with far more letters than declared; a worker that has them.

    A process of its own, with one thread that works: no other one's work is taken for a run's.
    """
    folder = tmp_path_factory.mktemp("letters")
    notes = [_letters(i, request.param) for i in range(ROWS)]
    rows = pa.table({"pid": [i // 4 for i in range(ROWS)], "age": [1] * ROWS, "note": notes})
    pq.write_table(rows, folder / "people.parquet")
    sources = {"people": "people.parquet"}
    policy = _policy(f"letters{len(request.param)}")
    workers = Workers(Setup(policy, sources, 1 << 30, "1GB", 60.0, str(folder)))
    try:
        with dc.open(policy=policy, dummy=True) as curator:
            yield Counter(curator), workers
    finally:
        workers.worker.kill()


class Workers:
    """A worker, and another one when that has ended."""

    def __init__(self, setup):
        self._setup = setup
        self.again()

    def again(self):
        self.worker = Worker(self._setup)
        self.worker.ready()

    def twice(self, bill, seconds):
        """Return whether two runs, one after the other, keep to a bound."""
        try:
            return all(self.worker.ask(bill, seconds)[:1] == DONE for _ in range(2))
        except EOFError:  # its own clock has ended it
            self.worker.kill()
            self.again()
            return False


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such clock here")
@pytest.mark.parametrize("kind", QUESTIONS)
def test_work_on_texts_is_within_the_bound(people, kind):
    """The worker's own clock is the judge, as in a service: a run beyond its bound ends it.

    Whatever else runs on this machine only adds to what work takes (a processor that is shared
    takes up to twice as long), so one worker of several has to keep to it, from its first run on.
    """
    counter, workers = people
    bill = counter.bill(QUESTIONS[kind], "ana", epsilon="1", delta="1e-6")
    statements = counter.statements(bill)
    text, divisions = sum(map(len, statements)), _ticks.divisions_in(statements)
    slowness = max(1.0, _machine.machine()[0])
    seconds = _ticks.bound(bill.plans, ROWS, slowness, text, divisions)
    assert any(workers.twice(pickle.dumps(bill), seconds) for _ in range(5))


@pytest.mark.parametrize("engine", ["duckdb", "reference"])
def test_no_operator_reads_beyond_what_a_column_declares(engine):
    """Equality, patterns, lengths and ends: all see the first letters alone, on every engine."""
    notes = ["abcd" + "z" * 10_000, "abcd", "abcdz", "abc", "😀😀😀😀z"]
    rows = {"people": [{"pid": i, "age": 1, "note": n} for i, n in enumerate(notes)]}
    policy = _policy(f"cut{engine}", longest=4)
    expected = {
        "note = 'abcd'": 3, "note LIKE '%z%'": 0, "note ILIKE '%Z'": 0, "note ~ 'z'": 0,
        "LENGTH(note) = 4": 4, "RIGHT(note, 1) = 'd'": 3, "TRIM(UPPER(note)) = 'ABCD'": 3,
        "SPLIT_PART(note, 'd', 2) = ''": 5,
    }  # fmt: skip
    source = engines.Reference(rows) if engine == "reference" else None
    tables = {"people": pa.Table.from_pylist(rows["people"])}
    with dc.open(None if source else tables, policy=policy, ledger=":memory:",
                 **({"engine": source} if source else {})) as curator:  # fmt: skip
        for condition, count in expected.items():
            answer = curator.ask(_where(condition), epsilon=100)
            assert round(answer.to_dicts()[0]["n"]) == count, condition


def test_longest_is_declared_and_kept_in_a_policy():
    policy = _policy("written", longest=77)
    assert own.loads(policy.to_toml()).tables["people"].columns["note"].longest == 77
    for wrong in (0, 10_001, "1.5"):
        with pytest.raises(PolicyError, match="longest"):
            own.Text("note", longest=wrong)


def _seconds(condition, *, longest=1000, rows=1000, name="sizes"):
    with dc.open(policy=_policy(name, longest), dummy=True) as curator:
        bill = Counter(curator).bill(_where(condition), "ana", epsilon="1")
    return _ticks.bound(bill.plans, rows, 1.0, 0)


def test_bounds_grow_with_letters_patterns_and_operators():
    plain = _seconds("age > 3")
    like = _seconds("note LIKE '%word%'")
    assert plain < like < _seconds("note LIKE '%word%'", longest=10_000) / 2
    assert _seconds(f"note LIKE '%{'_' * 1000}~%'") > 100 * like
    assert _seconds(f"note LIKE '%{'ab' * 500}~%'") > 50 * like
    assert _seconds(f"note LIKE '{'_' * 1000}'") < 2 * like  # compared at one place only
    regex = _seconds("note ~ 'word'")
    assert _seconds("note ~ '[a-m](.{100}){9}AB'") > 100 * regex
    many = _seconds(_any([f"note ~ 'word{i}'" for i in range(50)]))
    assert many - plain > 30 * (regex - plain)
    # a long column that is not read costs nothing
    assert _seconds("age > 3", longest=10_000) == plain


def _folds(longest, name="folds"):
    texts = _any([f"note ILIKE '%w{i}%'" for i in range(20)])
    return _seconds(texts, longest=longest, rows=65_536, name=name)


def test_a_row_of_short_texts_has_its_price(monkeypatch):
    """Engines take 0.7 µs to fold a text of two letters: twenty were ended by their clock."""
    assert _folds(2) > 65_536 * 20 * 0.7e-6
    assert _folds(2) == pytest.approx(_folds(64, "folds of 64"), rel=0.2)
    monkeypatch.setattr(_ticks, "_SHORT", 1)
    assert _folds(2, "folds as before") < 65_536 * 20 * 0.7e-6


def test_pieces_cost_more_than_letters():
    found = _seconds("SPLIT_PART(note, 'a', 1) = 'b'", rows=65_536)
    assert found > 65_536 * 1000 * 2 * _ticks._PIECE


def test_what_is_compared_at_once_is_counted():
    """Borders of borders: places of a text at which a plain pattern is alive together."""
    steps = {"%word%": 1, "%aaaa~%": 4, "%abab~%": 2, "abc%": 0, "%!%!%%": 2, "%_a%": 7}
    for pattern, found in steps.items():
        assert expr.Like.steps.fget(_Pattern(pattern)) == found, pattern


class _Pattern:
    def __init__(self, pattern):
        self.pattern = pattern


def test_two_hundred_slow_patterns_are_refused_before_they_are_paid_for(tmp_path):
    """The thief's question: late with one ordinary note of ten thousand letters, not without."""
    tests = [f"note ~ '[a-m](.{{100}}){{9}}{chr(65 + k % 26)}{chr(65 + k // 26)}'"
             for k in range(200)]  # fmt: skip
    body = {"sql": _where(_any(tests)), "epsilon": "0.001"}
    with dc.open(policy=_policy("slow", rows=1000), dummy=True) as curator:
        desk = Desk(Counter(curator), Home(tmp_path), 1.0, 4.0)
        with pytest.raises(DiscreetError, match="may take") as refused:
            asyncio.run(desk.ask("ana", None, body))
        assert "shorter patterns" in str(refused.value)
        assert desk.ledger.balance().amounts["epsilon"][0] == 0


def _pieces(many):
    return _where(_any([f"SPLIT_PART(note, 'b', {i + 2}) = 'z'" for i in range(many)]))


def test_what_has_no_room_is_refused_before_it_is_paid_for(tmp_path):
    """The thief's question: out of memory with long notes, not without."""
    with dc.open(policy=_policy("room", rows=1000), dummy=True) as curator:
        desk = Desk(Counter(curator), Home(tmp_path), 1.0, 4.0)
        desk.memory = 2 << 30
        with pytest.raises(DiscreetError, match="MiB of memory") as refused:
            asyncio.run(desk.ask("ana", None, {"sql": _pieces(300), "epsilon": "0.001"}))
        assert "ask in parts" in str(refused.value)
        assert desk.ledger.balance().amounts["epsilon"][0] == 0
        order = asyncio.run(desk.ask("ana", None, {"sql": _pieces(30), "epsilon": "0.001"}))
        assert order.state == "running"


def test_room_grows_with_letters_operators_threads_and_groups():
    def needed(sql, *, longest=1000, rows=1000, threads=1):
        with dc.open(policy=_policy(f"room{longest}", longest), dummy=True) as curator:
            bill = Counter(curator).bill(sql, "ana", epsilon="1", delta="1e-6")
        return _ticks.memory(bill.plans, rows, threads)

    few = needed(_pieces(4))
    assert needed(_pieces(8)) > 1.5 * few
    assert needed(_pieces(4), longest=10_000) > 8 * few
    assert needed(_pieces(4), threads=2) > 1.9 * few
    keys = "SELECT note, COUNT(*) AS n FROM people GROUP BY note"
    assert needed(keys, rows=10**7) > 10**9 > 10 * needed(keys, rows=1000)


@pytest.mark.parametrize("memory", [64, 128])
def test_what_has_room_is_answered_however_long_the_texts_are(memory, tmp_path):
    """As many pieces as the model lets through, each letter a piece of its own."""
    rows = 3000
    notes = [("ab" if i % 2 else "ba") * 500 + str(i) for i in range(rows)]
    table = pa.table({"pid": list(range(rows)), "age": [1] * rows, "note": notes})
    pq.write_table(table, tmp_path / "people.parquet")
    policy = _policy("roomy", rows=rows)
    with dc.open(policy=policy, dummy=True) as curator:
        counter = Counter(curator)

        def bill(many):
            return counter.bill(_pieces(many), "ana", epsilon="1")

        fits = [k for k in range(1, 9) if _ticks.memory(bill(k).plans, rows) <= memory << 20]
        most = bill(fits[-1])
    setup = Setup(policy, {"people": "people.parquet"}, memory << 20, "1GB", 60.0, str(tmp_path))
    worker = Worker(setup)
    try:
        worker.ready()
        assert worker.ask(pickle.dumps(most))[:1] == DONE
    finally:
        worker.kill()


# -- whose fault --------------------------------------------------------------------------


class _Named:
    identity = "fake"


def _run(durations, *, bound, tick, most=None, clocked=True):
    """Outcomes by run, the runs, and what was begun; no more begin after `most` were late."""
    made, found, asked, late = [], {}, [], []

    async def main():
        turns, ended = Turns(), asyncio.Event()

        def takes(bill):
            asked.append(int(bill))
            return durations[int(bill)]

        def make():
            return FakeWorker(takes, clocked=clocked)

        place = Place(make(), Setup(_Named(), None, 0, "", 0, ""), turns)
        place._another = make

        async def settle(text, name):
            found[name] = text
            if len(found) == len(durations) or len(late) == most:
                ended.set()

        for i in range(len(durations)):
            made.append(Run(
                "ana", b"%d" % i, bound, tick, lambda t, n=i: settle(t, n),
                lambda: most is not None and len(late) >= most, lambda: late.append(1),
            ))  # fmt: skip
            turns.put(made[-1])
        place.start()
        await asyncio.wait_for(ended.wait(), 100)
        if most is not None:
            await asyncio.sleep(3 * tick)  # nobody else leaves, or begins
            assert (len(found), len(asked)) == (most, most)
            late.clear()
            for i in range(len(durations)):
                durations[i] = 0.01
            ended.clear()
            turns.ease()  # an owner has looked
            await asyncio.wait_for(ended.wait(), 100)
        await place.close()

    clockwork.run(main())
    return found, made, asked


def test_a_run_beyond_its_bound_fails_alone():
    """Twenty in a row, some of which take four bounds: they fail, all others are answered."""
    guilty = {2, 3, 9, 15}
    durations = [0.8 if i in guilty else 0.01 for i in range(20)]
    found, made, _ = _run(durations, bound=0.2, tick=1.6)
    assert {i for i, text in found.items() if text is None} == guilty
    assert {i for i, run in enumerate(made) if run.overran} == guilty


def test_without_its_clock_the_same_row_makes_others_late(monkeypatch):
    """The old behaviour, planted: nobody's run is ended before its tick."""
    monkeypatch.setattr(_pool, "_MOVING", 0.0)
    durations = [0.8] * 8 + [0.01] * 4
    found, _, _ = _run(durations, bound=0.2, tick=1.6, clocked=False)
    assert None in found.values()  # though each alone is done in half its tick


def test_runs_that_fail_for_memory_pull_the_brake_too():
    """A thief read sixteen bits by questions that ran out of memory: that is no free bit."""
    found, made, asked = _run([-1.0] * 12, bound=0.1, tick=0.8, most=3)
    assert asked == list(range(12))
    assert sum(run.overran for run in made) == 3
    assert [i for i, text in sorted(found.items()) if text is None] == [0, 1, 2]


def test_what_waits_when_the_brake_is_on_is_held_unrun():
    """48 that wait, each late if a bit is set: three are seen, and the rest tells nothing.

    Once an owner has looked, those who did nothing are answered; each has run once.
    """
    durations = [0.5] * 12
    found, made, asked = _run(durations, bound=0.1, tick=0.8, most=3)
    assert asked == list(range(12))
    assert sum(run.overran for run in made) == 3
    assert [i for i, text in sorted(found.items()) if text is None] == [0, 1, 2]


def test_the_desk_stops_what_waits(tmp_path):
    with dc.open(policy=_policy("brake"), dummy=True) as curator:
        desk = Desk(Counter(curator), Home(tmp_path), 1.0, 4.0)

        async def main():
            body = {"sql": _where("age > 3"), "epsilon": "0.1"}
            small = await desk.ask("ana", None, body)
            large = await desk.ask(
                "ana", None, {**body, "sql": _where("note LIKE '%" + "_" * 300 + "~%'")}
            )
            assert small.tick < large.tick
            assert not small.run.stopped()
            assert not large.run.stopped()
            for order in (small, large):
                order.run.leave()  # from then on a failure counts at once
            for _ in range(3):
                large.run.overran = False
                large.run.overrun()
                large.run.overrun()  # counted once
            assert (large.run.lapses, large.run.secrets) == (3, 3)
            assert large.run.stopped()
            assert not small.run.stopped()
            # the moment at which a run failed is nobody's business: all are told at its tick
            assert "held" not in _views.state_of(large)
            assert not desk.braked
            large.run.tell()
            large.run.tell()  # each is told once
            assert desk.braked
            assert desk.overruns == 3
            assert _views.state_of(large)["held"]
            assert "ready" not in _views.state_of(large)
            assert "held" not in _views.state_of(small)
            assert "the owner has looked" in _pages._stands(large)
            small.run.overrun()  # one more of any size
            other = Order("", "", "", "", {}, "", 0, "", tick=0.0)
            assert desk.brake.holds(other.tick, time.monotonic())
            assert not desk.brake.bars(other.tick)
            desk.acknowledge()
            # what nobody had been told of when the owner looked counts from then on
            assert (desk.brake.ticks, desk.brake.notices, desk.orders.lapses()) == (
                [small.tick],
                [],
                [],
            )
            assert not large.run.stopped()
            assert "held" not in _views.state_of(large)

        asyncio.run(main())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such clock here")
def test_the_system_ends_a_worker_that_takes_more_than_its_allowance():
    """Also inside one call that holds every lock; and waiting is no work."""
    code = (
        "import time; from discreet.service import _worker as w; {}; w._allow(0.3); "
        "time.sleep(0.6); w._allow(0.3); {}; w._allow(0.0); sum(range(10**7))"
    )

    def ended(work):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        full = code.format("1", work)
        return subprocess.run(
            [sys.executable, "-c", full], check=False, timeout=60, **quiet,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ).returncode  # fmt: skip

    assert ended("sum(range(10**10))") == -signal.SIGPROF
    assert ended("1") == 0


def test_a_place_is_taken_for_the_tick_where_the_engine_has_no_clock(tmp_path):
    with dc.open(policy=_policy("elsewhere"), dummy=True) as curator:
        desk = Desk(Counter(curator), Home(tmp_path), 1.0, 4.0)
        body = {"sql": _where("age > 3"), "epsilon": "0.1"}

        async def main(clocked):
            desk.clocked = clocked
            order = await desk.ask("ana", None, {**body, "fresh": True})
            return order.run

        inside, outside = asyncio.run(main(True)), asyncio.run(main(False))
        assert 0 < inside.allowance == inside.bound < inside.tick
        assert outside.bound == outside.tick
        assert outside.allowance == 0.0
