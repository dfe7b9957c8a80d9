"""The desk and its places in one process: what is paid, kept, given out and shared, step by step.

Workers here run bills in this process, so that what they do can be watched.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import pickle
import subprocess
import sys
from contextlib import suppress
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import clockwork

import discreet as dc
from discreet.curator import Counter, run_bill
from discreet.errors import DiscreetError, EngineError, IdempotencyError, ParameterError
from discreet.service import Home, _desk, _home, _pool, _views
from discreet.service._desk import Desk
from discreet.service._orders import check_key
from discreet.service._pool import Place, Run, Turns
from discreet.service._run import AFTER
from discreet.service._seats import Seats
from discreet.service._worker import DONE, FAILED, Setup

COUNT = "SELECT COUNT(*) AS n FROM people"


def _alone(sent):
    """A bill as it is kept: without the statements behind it, which its worker need not prove."""
    stream = io.BytesIO(sent)
    pickle.load(stream)
    end = stream.tell()
    if end < len(sent):
        assert pickle.load(stream).statements
    return sent[:end]


class Worker:
    """Runs bills in this process; what it is told to fail at, it fails at; it can be held up.

    It is its own successor: `another` counts how often it was replaced.
    """

    def __init__(self, curator):
        self._curator = curator
        self.asked, self.fails, self.replaced = [], False, 0
        self.free = asyncio.Event()
        self.free.set()
        self.overran = False

    async def ask(self, bill, allowance=0.0):
        self.asked.append((_alone(bill), allowance))
        await self.free.wait()
        if self.fails:
            return FAILED
        own = self._curator
        return DONE + run_bill(pickle.loads(bill).plans, own._engine, own.policy).encode()

    def kill(self):
        self.free.set()

    end = kill

    def another(self):
        self.replaced += 1
        return self


@pytest.fixture
def opened(tmp_path):
    """Desks of one policy, ledger and folder, each with one place; by the service's rules."""
    own = dc.policy

    def start(work, *, budget="1", busy=1.0, **rules):
        table = own.Table("people", [own.Integer("age", 0, 115)])
        policy = own.Policy([table], own.Budget(budget), name="desk",
                            service=own.Service(rows=1000, **rules))  # fmt: skip
        path = tmp_path / "people.parquet"
        if not path.exists():
            pq.write_table(pa.table({"age": [31, 47, 60] * 100}), path)

        async def main():
            with dc.open(
                {"people": str(path)}, policy=policy, ledger=str(tmp_path / "l")
            ) as curator:
                desk = Desk(Counter(curator), Home(tmp_path / "home"), 1.0, 4.0, busy)
                worker = Worker(curator)
                desk.places = [Place(worker, Setup(policy, None, 0, "", 0, ""), desk.turns)]
                desk.places[0]._another = worker.another
                await desk.start()
                try:
                    return await asyncio.wait_for(work(desk, worker), 30)
                finally:
                    await desk.close()
                    desk.places[0]._thread.shutdown()  # the engine is in use until then

        return clockwork.run(main())

    return start


def question(epsilon="0.1", age=None, **more):
    where = "" if age is None else f" WHERE age > {age}"
    return {"sql": COUNT + where, "epsilon": epsilon, **more}


def debits(desk):
    return [x for x in desk.ledger.lines if x.kind == "debit"]


def spent(desk):
    return desk.ledger.balance().amounts["epsilon"][0]


def bills(desk, *orders):
    """What orders were paid by, from the folder: who has ended holds nothing in memory."""
    assert all(o.bill is o.run is None for o in orders if o.over)
    kept = dict(desk.orders._home.read("SELECT id, bill FROM orders"))
    return [kept[o.id] for o in orders]


async def answered(desk, body, who="ana", key=None):
    order = await desk.ask(who, key, body)
    await order.ended.wait()
    return order


def test_one_question_is_one_debit_one_run_and_one_outcome(opened):
    async def work(desk, worker):
        order = await desk.ask("ana", None, question())
        assert (order.state, order.cached, order.text) == ("running", False, None)
        assert (len(debits(desk)), spent(desk)) == (1, Fraction(1, 10))  # before it has run
        await order.ended.wait()
        assert (order.state, desk.overruns, desk.braked) == ("done", 0, False)
        assert len(worker.asked) == 1
        ((bill, allowance),) = worker.asked
        assert [bill] == bills(desk, order)
        assert 0 < allowance == order.bound < order.tick
        assert len(debits(desk)) == 1
        kept = desk.orders._home.read("SELECT state, line, hash, cached FROM orders")
        assert kept == [("done", order.line, order.hash, 0)]
        assert desk.ledger.outcome(order.line, order.hash)[1] == order.text
        return order.id, order.text, order.left

    id_, text, left = opened(work)
    assert "0.9" in left

    async def again(desk, worker):
        """Another process finds it, and nothing is paid or run again."""
        found = desk.orders.find(id_)
        assert (found.state, found.outcome()) == ("done", text)
        repeated = await desk.ask("ana", None, question())
        assert (repeated.state, repeated.cached, repeated.text) == ("done", True, text)
        assert repeated.ended.is_set()
        assert repeated.paid == 0
        same = await desk.ask("ana", None, question())
        assert same is repeated  # the ledger stands where it stood
        other = await desk.ask("ben", None, question())
        assert other.id != repeated.id
        assert (worker.asked, len(debits(desk))) == ([], 1)

    opened(again)


async def until(true):
    while not true():  # noqa: ASYNC110 - what other tasks and threads do
        await asyncio.sleep(0.01)


def test_what_fails_is_paid_and_is_counted(opened):
    """Each time its worker is replaced; what waits when it was too often is held, and is run."""

    async def work(desk, worker):
        worker.fails = True
        order = await answered(desk, question())
        assert (order.state, order.text, order.left) == ("failed", None, None)
        assert (spent(desk), desk.overruns) == (Fraction(1, 10), 1)
        kept = desk.orders._home.read("SELECT state FROM orders")
        assert kept == [("failed",)]
        assert not desk.braked
        await until(lambda: worker.replaced == 1)
        desk.turns.seats = Seats(0)  # nothing starts until all three are paid
        one, two, behind = [await desk.ask("ana", None, question("0.01", a)) for a in (1, 2, 3)]
        assert (len(worker.asked), desk.turns.count("ana")) == (1, 3)
        desk.turns.seats.release(0.0)
        for failed in (one, two):
            await failed.ended.wait()
            assert (failed.state, failed.text) == ("failed", None)
        assert (desk.braked, desk.overruns) == (True, 3)
        with pytest.raises(DiscreetError, match="not done at their tick"):
            await desk.ask("ana", None, question("0.01", 4))
        assert (len(debits(desk)), spent(desk)) == (4, Fraction(13, 100))
        await until(lambda: worker.replaced == 3 and desk.turns._backlog)
        await asyncio.sleep(2 * behind.tick)  # nothing of it leaves at any tick
        assert (behind.run.held, behind.state, behind.ended.is_set()) == (True, "running", False)
        assert [bill for bill, _ in worker.asked] == bills(desk, order, one, two)
        worker.fails = False
        desk.acknowledge()
        await behind.ended.wait()
        assert (behind.state, behind.text is None) == ("done", False)
        assert [bill for bill, _ in worker.asked][3:] == bills(desk, behind)
        assert (len(debits(desk)), spent(desk)) == (4, Fraction(13, 100))
        assert (desk.overruns, desk.braked, worker.replaced) == (3, False, 3)

    opened(work)


def test_the_same_question_at_the_same_time_is_one_run_for_both(opened):
    async def work(desk, worker):
        worker.free.clear()
        first = await desk.ask("ana", None, question())
        second = await desk.ask("ben", None, question())
        assert (second.state, second.cached, second.run) == ("running", True, first.run)
        assert not second.ended.is_set()
        worker.free.set()
        await second.ended.wait()
        assert first.ended.is_set()
        assert (second.text, second.state) == (first.text, "done")
        assert (second.left, second.fingerprint) == (first.left, first.fingerprint)
        assert second.paid == 0
        states = desk.orders._home.read("SELECT state, cached FROM orders ORDER BY rowid")
        assert sorted(states) == [("done", 0), ("done", 1)]
        assert (len(worker.asked), len(debits(desk))) == (1, 1)

    opened(work)


def test_a_debit_of_ones_own_waits_for_nobody(opened, monkeypatch):
    """Only who has found another's debit looks for the run under it."""

    async def work(desk, _worker):
        async def never(_seconds):
            raise AssertionError("it waits")

        with monkeypatch.context() as watched:
            watched.setattr(_desk.asyncio, "sleep", never)
            order = await desk.ask("ana", None, question(fresh=True))
        assert order.state == "running"

    # the place sleeps, too, so it is closed before it takes anything
    async def closed(desk, worker):
        await desk.places[0].close()
        await work(desk, worker)

    opened(closed)


def test_a_key_is_one_question(opened):
    async def work(desk, worker):
        one, two = await asyncio.gather(
            desk.ask("ana", "k", question()), desk.ask("ana", "k", question())
        )
        assert one is two
        with pytest.raises(IdempotencyError):
            await desk.ask("ana", "k", question("0.2"))
        other = await desk.ask("ben", "k", question(age=1))  # a key is somebody's
        assert other is not one
        await one.ended.wait()
        assert (await desk.ask("ana", "k", question())) is one
        fresh = [await desk.ask("ana", None, question("0.01", fresh=True)) for _ in range(2)]
        assert fresh[0].id != fresh[1].id
        assert len(debits(desk)) == 4
        assert desk._asking == {}  # nothing is kept of who has asked
        await other.ended.wait()
        assert len(worker.asked) <= 4

    opened(work)


@pytest.mark.parametrize("key", ["", "x" * 101, "a\nb", "a\x00", "\u200b", "\x7f"])
def test_a_key_is_a_short_printable_text(key):
    with pytest.raises(ParameterError, match="1 to 100 characters"):
        check_key(key)


def test_keys_that_are_fine():
    assert [check_key(k) for k in (None, "a", "x" * 100)] == [None, "a", "x" * 100]


def test_a_day_has_its_limit_and_what_is_not_charged_is_given_back(opened):
    """Also after a new start, which reads it off the ledger; the day is each analyst's own."""

    async def work(desk, _worker):
        await answered(desk, question("0.2"))
        await answered(desk, question("0.1", 1))
        with pytest.raises(DiscreetError, match=r"ε=0\.1 is left"):
            await desk.ask("ana", None, question("0.15", 2))
        assert desk.admission.room("ana", everybody=False).today == Fraction(3, 10)
        assert desk.admission.room("ben", everybody=False).today == 0
        await answered(desk, question("0.15", 2), "ben")

    opened(work, daily="0.4")

    async def later(desk, _worker):
        room = desk.admission.room("ana", everybody=True)
        assert (room.today, room.daily) == (Fraction(3, 10), Fraction(2, 5))
        with pytest.raises(DiscreetError, match=r"ε=0\.1 is left"):
            await desk.ask("ana", None, question("0.11", 3))
        assert (await desk.ask("ana", None, question("0.2"))).cached  # it is free
        await desk.ask("ana", None, question("0.1", 3))  # exactly what is left
        with pytest.raises(DiscreetError, match=r"ε=0 is left") as refused:
            await desk.ask("ana", None, question("0.01", 4))
        assert "tomorrow" in str(refused.value)
        assert spent(desk) == Fraction(55, 100)

    opened(later, daily="0.4")


async def held(desk, epsilon="0.3", who="ana", age=None):
    order = await desk.ask(who, None, question(epsilon, age))
    assert order.state == "waiting"
    return order


async def decide(desk, order, approve, seen=None):
    bill, _ = desk.priced_anew(order)
    seen = desk.subject(order, bill) if seen is None else seen
    return await desk.decide(order.id, approve=approve, by="olga", reason="so", seen=seen)


def test_what_waits_costs_nothing_until_it_is_approved_once(opened):
    async def work(desk, worker):
        at = await desk.ask("ana", None, question("0.2"))  # exactly the limit
        assert at.state == "running"
        order = await held(desk)
        assert (spent(desk), order.paid) == (Fraction(1, 5), 0)
        with pytest.raises(DiscreetError, match="changed since"):
            await decide(desk, order, approve=True, seen="0" * 64)
        assert (await decide(desk, order, approve=True))["state"] == "running"
        assert spent(desk) == Fraction(1, 2)
        with pytest.raises(DiscreetError, match="running already"):
            await decide(desk, order, approve=False)
        await order.ended.wait()
        assert (order.state, order.decided) == ("done", "olga: so")
        assert 0 < order.bound < order.tick
        assert len(worker.asked) == 2
        for end in ("declined", "withdrawn"):
            order = await held(desk, "0.21", age=7)
            if end == "declined":
                await decide(desk, order, approve=False)
            else:
                await desk.withdraw(order)
            assert order.ended.is_set()
            assert desk.orders._home.read("SELECT state FROM orders WHERE id = ?", (order.id,)) == [
                (end,)
            ]
            with pytest.raises(DiscreetError, match=end):
                await desk.withdraw(order)
            with pytest.raises(DiscreetError, match=end):
                await decide(desk, order, approve=True)
        assert (spent(desk), desk._claimed) == (Fraction(1, 2), set())

    opened(work, approval="0.2")


def test_an_approval_that_cannot_be_paid_leaves_it_waiting(opened):
    async def work(desk, _worker):
        order = await held(desk, "0.6")
        with pytest.MonkeyPatch.context() as patch:
            refused = ParameterError("no more")

            def none(*_arguments):
                raise refused

            patch.setattr(desk.orders, "bill", none)
            bill, why = desk.priced_anew(order)
            assert why is refused
            seen = desk.subject(order, bill)
            with pytest.raises(ParameterError, match="no more"):
                await desk.decide(order.id, approve=True, by="olga", reason="so", seen=seen)
        assert (order.state, order.decided, spent(desk)) == ("waiting", None, 0)

        def full(*_arguments, **_more):
            raise ParameterError("full")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(desk.counter, "claim", full)
            with pytest.raises(ParameterError, match="full"):
                await decide(desk, order, approve=True)
        assert (order.state, order.decided, spent(desk)) == ("waiting", None, 0)
        assert desk.admission.room("ana", everybody=False).today == 0
        await decide(desk, order, approve=True)
        assert spent(desk) == Fraction(3, 5)

    opened(work, approval="0.2", daily="0.7")


def test_what_has_waited_too_long_is_declined_but_not_while_it_is_decided(opened):
    async def work(desk, _worker):
        old = dt.datetime.now(dt.UTC) - dt.timedelta(days=40)
        order, other = await held(desk), await held(desk, "0.21", "ben", 3)
        order.asked = old.isoformat(timespec="seconds")
        desk.orders.keep(order)
        met = []

        def priced(found, original=desk.priced_anew):
            met.append([o.id for o in desk.waiting()])  # somebody asks meanwhile
            return original(found)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(desk, "priced_anew", priced)
            with pytest.raises(DiscreetError, match="changed since"):
                await desk.decide(order.id, approve=True, by="olga", reason="so", seen="")
        assert [sorted(ids) for ids in met] == [sorted([order.id, other.id])]
        assert order.state == "waiting"
        woken = asyncio.create_task(order.ended.wait())
        assert [o.id for o in await desk.write(desk.waiting)] == [other.id]
        await asyncio.wait_for(woken, 10)
        assert (order.state, order.decided) == ("declined", "it has waited too long")
        kept = desk.orders._home.read("SELECT state FROM orders WHERE id = ?", (order.id,))
        assert kept == [("declined",)]
        assert not other.ended.is_set()

    opened(work, approval="0.2")


def test_three_may_wait_of_each_and_what_waits_is_set_aside(opened):
    async def work(desk, _worker):
        for age in range(3):
            await held(desk, "0.21", age=age)
        with pytest.raises(DiscreetError, match="3 of your questions wait"):
            await desk.ask("ana", None, question("0.21", 3))
        room = {w: desk.admission.room(w, everybody=e).aside
                for w, e in (("ana", False), ("olga", True))}  # fmt: skip
        assert set(room.values()) == {Fraction(63, 100)}
        # all of one's own is kept from oneself, half of what is left from others
        with pytest.raises(DiscreetError, match="kept for questions that wait"):
            await desk.ask(
                "ana",
                None,
                question("0.19", 9),
            )
        with pytest.raises(DiscreetError, match="kept for questions that wait"):
            await desk.ask("ben", None, question("0.51", 9))
        assert (await desk.ask("ben", None, question("0.19", 9))).state == "running"

    opened(work, approval="0.2", budget="0.8")


def test_what_waits_and_is_asked_again_is_the_same_order(opened):
    """With another key, too; not for another person, at another price, or with fresh noise."""

    async def work(desk, _worker):
        first = await held(desk, "0.21")
        for key in (None, "k", "k"):
            assert await desk.ask("ana", key, question("0.21")) is first
        others = [
            await held(desk, "0.21", "ben"),
            await held(desk, "0.22"),
            await desk.ask("ana", None, question("0.21", fresh=True)),
        ]
        waiting = await desk.write(desk.waiting)
        assert [o.id for o in waiting] == [first.id, *(o.id for o in others)]

    opened(work, approval="0.2")


def test_what_waits_is_set_aside_once(opened):
    """What is little of what is left is kept from others as it is: neither more nor less."""

    async def work(desk, _worker):
        await held(desk, "0.21")
        with pytest.raises(DiscreetError, match="kept for questions that wait"):
            await desk.ask("ben", None, question("0.8", 9))
        await held(desk, "0.79", "ben", 9)

    opened(work, approval="0.2")


def test_what_waits_is_kept_as_it_was_when_it_came(opened):
    """Half of what is left now would be less after each question of somebody else's."""

    async def work(desk, _worker):
        order = await held(desk, "0.45")
        paid = 0
        for age in range(12):
            with suppress(DiscreetError):
                await desk.ask("ben", None, question("0.19", age))
                paid += 1
        assert paid == 2  # of the .55 that are not kept
        seen = desk.subject(order, desk.orders.bill_of(order))
        await desk.decide(order.id, approve=True, by="olga", reason="so", seen=seen)
        assert order.state == "running"
        await desk.ask("ben", None, question("0.1", 20))
        assert desk.admission._reserves == {}  # nothing for whoever waits no more

    opened(work, approval="0.2")


def test_who_waits_with_more_keeps_half_of_what_is_left_when_it_came(opened):
    async def work(desk, _worker):
        first = await held(desk, "0.3")
        assert desk.admission._claims("ben", "") == [("ana", desk.orders.bill_of(first).cost)]
        await held(desk, "0.6", age=3)
        ((who, cost),) = desk.admission._claims("ben", "")
        assert (who, cost.epsilon) == ("ana", Fraction(1, 2))
        ((_, own),) = desk.admission._claims("ana", "")
        assert own.epsilon == Fraction(9, 10)
        await desk.ask("ben", None, question("0.19", 5))
        ((_, later),) = desk.admission._claims("ben", "")
        assert later == cost

    opened(work, approval="0.2")


@pytest.mark.parametrize("body", [
    {"questions": [{"sql": COUNT}, {"sql": COUNT + " WHERE age > 3"}], "epsilon": "0.0000001"},
    {"sql": f"{COUNT} UNION ALL {COUNT} WHERE age > 3", "epsilon": "0.0000001"},
    {"sql": COUNT, "epsilon": "0.0000001"},
    {"sql": COUNT, "within": {"n": "1000000000"}},
    {"questions": [{"sql": COUNT, "within": {"n": "1000000000"}}]},
])  # fmt: skip
def test_the_least_price_counts_wherever_it_is_debited(opened, body):
    """In the price that is shown, in the day, and in the ledger: one amount."""

    async def work(desk, _worker):
        least = Fraction(1, 1000)
        order = await answered(desk, body)
        assert (order.price, order.paid, spent(desk)) == (least, least, least)
        assert desk.admission.room("ana", everybody=False).today == least
        with pytest.raises(DiscreetError, match="today's limit"):
            await desk.ask("ana", None, {**body, "fresh": True} if "sql" in body else
                           {"questions": [{"sql": COUNT}], "epsilon": "0.0006"})  # fmt: skip
        assert spent(desk) == least

    opened(work, daily="0.0015")


def test_what_another_host_has_settled_meanwhile_costs_nothing(opened, monkeypatch):
    """Its debit was open when it was found; one run, one outcome, no least price."""

    async def work(desk, worker):
        bill = desk.orders.bill(question(), "ben")
        paid = desk.counter.pay(bill, "ben", key="theirs")
        text = (await worker.ask(pickle.dumps(bill)))[1:].decode()

        async def waited(_paid):
            desk.counter.settle(paid, text)

        monkeypatch.setattr(desk, "_same", waited)
        order = await desk.ask("ana", None, question())
        assert (order.state, order.cached, order.paid) == ("done", True, 0)
        assert (spent(desk), len(worker.asked)) == (Fraction(1, 10), 1)

    opened(work)


def test_a_folder_is_one_service_s(tmp_path, monkeypatch):
    """Two would decide about one question twice, and a rule of two persons would be one's."""
    monkeypatch.setattr(_home, "_PATIENCE", 0.0)
    first, second = Home(tmp_path), Home(tmp_path)
    refused = pytest.raises(DiscreetError, match="another service has the folder")
    with first.alone(), refused, second.alone():
        pass
    with second.alone():
        assert (tmp_path / "service.lock").stat().st_mode & 0o077 == 0


# -- places -------------------------------------------------------------------------------


class Named:
    identity = "fake"


def placed(work):
    """Do something with a place, its worker, and lists of what was settled and what was late."""

    class Quick:
        overran = False

        def __init__(self):
            self.killed, self.free, self.asked = False, asyncio.Event(), []

        async def ask(self, bill, allowance=0.0):
            self.asked.append(bill)
            await self.free.wait()
            if self.killed:
                raise EOFError
            return DONE + bill

        def kill(self):
            self.killed = True
            self.free.set()

        end = kill

    async def main():
        turns, settled, late = Turns(), [], []
        worker = Quick()
        place = Place(worker, Setup(Named(), None, 0, "", 0, ""), turns)
        place._another = Quick

        def run(name, bound=0.05, tick=0.2):
            async def settle(text):
                settled.append((name, text))

            made = Run(
                "ana", name.encode(), bound, tick, settle, on_lapse=lambda: late.append(name)
            )
            turns.put(made)
            return made

        try:
            await asyncio.wait_for(work(place, worker, run, settled, late), 30)
        finally:
            await place.close()

    clockwork.run(main())


def test_nothing_is_settled_after_the_end():
    """Not even what is done, and would leave at its tick."""

    async def work(place, worker, run, settled, late):
        worker.free.set()
        done = run("a", tick=1.0)
        place.start()
        await done.started.wait()
        await until(done.outcome.done)
        assert settled == []
        await place.close()
        await asyncio.sleep(done.release - asyncio.get_running_loop().time() + 0.3)
        assert (settled, late) == ([], [])

    placed(work)


@pytest.mark.parametrize("stretch", [1.0, 2.0])
def test_a_place_is_taken_for_the_bound_before_the_next_one_starts(stretch):
    """For the bound as it is stretched; the outcome leaves at the tick, not before."""

    async def work(place, worker, run, settled, late):
        worker.free.set()
        place._turns.stretch = stretch
        bound = 1.0 / stretch
        long, next_ = run("a", bound=bound, tick=1.8), run("b", bound=0.01, tick=0.3)
        place.start()
        await next_.started.wait()
        assert next_.release - next_.tick >= long.release - long.tick + 1.0 - _pool._MOMENT
        assert settled == []
        await until(lambda: len(settled) == 2)
        assert asyncio.get_running_loop().time() >= long.release
        assert settled == [("b", "b"), ("a", "a")]
        assert (worker.asked, late) == ([b"a", b"b"], [])

    placed(work)


def test_what_starts_again_is_run_once():
    """The worker is busy with another: those behind leave the line at a tick, and come back to it.

    That is counted once, as the fault of what the worker is busy with, however many wait behind
    it, however short their ticks are and whenever it is done: they start when it leaves, which
    was known before.
    """

    async def work(place, worker, run, settled, late):
        busy, behind, last = run("a", tick=4.0), run("b", tick=0.4), run("c", tick=0.4)
        place.start()
        await until(lambda: late)
        assert (late, place._turns.stretch) == (["a"], 2)
        assert (place._until, behind.moving, last.moving) == (busy.release + AFTER, 0, 0)
        assert not (place._started)
        assert not (behind.started.is_set())
        assert not last.started.is_set()
        assert (worker.asked, settled) == ([b"a"], [])
        worker.free.set()  # done long before: nobody behind it can tell
        await behind.started.wait()
        assert behind.release - behind.tick >= busy.release
        await until(lambda: len(settled) == 3)
        assert settled == [("a", "a"), ("b", "b"), ("c", "c")]
        assert worker.asked == [b"a", b"b", b"c"]
        assert (late, place._turns.stretch) == (["a"], 2)
        assert [x.overran for x in (busy, behind, last)] == [False] * 3
        assert [x.lapses for x in (busy, behind, last)] == [1, 0, 0]

    placed(work)


def test_a_run_that_holds_others_up_and_then_fails_is_counted_for_both():
    """Two bits can be seen: that it was not done at their tick, and that it was not at its own."""

    async def work(place, worker, run, settled, late):
        busy, behind = run("a", tick=1.6), run("b", tick=0.2)
        place.start()
        await until(lambda: len(settled) == 1)
        assert settled == [("a", None)]
        assert (late, busy.overran, busy.lapses) == (["a", "a"], True, 2)
        assert behind.lapses == 0
        assert worker.killed

    placed(work)


def test_a_run_that_was_begun_too_late_slips_once_and_nothing_starts_behind_it():
    """The one before it is done in its own tick, after the half of the other's."""

    async def work(place, worker, run, settled, late):
        first, second = run("a", tick=60.0), run("b", tick=1.0)
        place.start()
        await second.started.wait()
        await asyncio.sleep(second.release - 0.3 - asyncio.get_running_loop().time())
        worker.free, held = asyncio.Event(), worker.free
        held.set()
        await until(lambda: second.begun is not None)
        assert second.held_up
        third, old = run("c", tick=5.0), second.release
        await until(lambda: late == ["b"])
        assert second.release >= old + second.tick
        assert place._until == second.release + AFTER
        assert not third.started.is_set()
        worker.free.set()
        await third.started.wait()
        assert third.release - third.tick >= second.release
        await until(lambda: ("b", "b") in settled)
        assert late == ["b"]
        assert not first.overran
        assert not second.overran

    placed(work)


def test_a_place_is_taken_no_longer_than_the_tick():
    async def work(place, worker, run, settled, _late):
        worker.free.set()
        first = run("a", bound=60.0, tick=0.3)
        next_ = run("b", tick=0.3)
        place.start()
        await next_.started.wait()
        assert next_.release - next_.tick >= first.release
        assert place._releases
        await until(lambda: len(settled) == 2)
        assert settled == [("a", "a"), ("b", "b")]

    placed(work)


@pytest.mark.races
@pytest.mark.parametrize(("code", "late"), [
    ("import time; time.sleep(60)", False),
    ("import os, signal; os.kill(os.getpid(), signal.SIGPROF)", True),
    ("import os; os._exit(0)", False),
])  # fmt: skip
def test_a_worker_that_was_killed_is_gone(code, late):
    """When that returns, not some time later; and it is known whether its clock has ended it."""
    worker = object.__new__(_pool.Worker)
    worker._process = subprocess.Popen([sys.executable, "-c", code])
    if "sleep" not in code:
        worker._process.wait(60)
    worker.kill()
    assert worker._process.returncode is not None
    assert worker.overran is late


def test_turns_know_what_comes_before_somebody():
    turns = Turns()
    for who, bound in (("ana", 1), ("ana", 2), ("ana", 4), ("ben", 8), ("ben", 16)):
        turns.put(Run(who, b"", bound, 0, None))
    assert [turns.count(w) for w in ("ana", "ben", "carl")] == [3, 2, 0]
    # each of the others comes up once before each of one's own
    assert turns.before("carl") == 1 + 8
    assert turns.before("ben") == 1 + 2 + 4 + 8 + 16
    assert turns.before("ana") == 31
    turns.put(Run("carl", b"first", 32, 0, None), first=True)
    turns.put(Run("ana", b"again", 64, 0, None), first=True)

    async def taken():
        return [(await turns.get()).bound for _ in range(7)]

    assert asyncio.run(taken()) == [64, 32, 8, 1, 16, 2, 4]


def test_an_owner_is_told_that_a_place_has_no_worker(opened):
    """And that it has one again; the log says why, and nobody else is told."""

    async def work(desk, worker):
        def none():
            raise EngineError("no memory")

        place = desk.places[0]
        well = {"policy": "desk", "workers": 1, "missing": 0, "paused": False, "overruns": 0}
        assert _views.health_of(desk) == well
        place._another, worker.fails = none, True
        assert (await answered(desk, question())).state == "failed"
        for _ in range(100):
            if place.missing:
                break
            await asyncio.sleep(0.1)
        assert _views.health_of(desk)["missing"] == 1
        with pytest.raises(DiscreetError, match="nothing was charged"):
            await desk.ask("ana", None, question("0.2"))
        place._another, worker.fails = worker.another, False
        while place.missing:  # it is tried again and again  # noqa: ASYNC110
            await asyncio.sleep(1)
        assert (await answered(desk, question("0.2"))).state == "done"
        assert _views.health_of(desk) == well | {"overruns": 1}

    opened(work)
