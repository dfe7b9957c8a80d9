"""The clerk: who waits at the same time is written for together, and each has what is their own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import contextmanager
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.curator import Counter
from discreet.errors import BudgetExceededError, EngineError, LedgerError
from discreet.ledger import _anchor
from discreet.service import Home, _clerk
from discreet.service._admission import Admission
from discreet.service._clerk import Clerk
from discreet.service._orders import Order, Orders, now

pytestmark = pytest.mark.races
COUNT = "SELECT COUNT(*) AS n FROM people WHERE age > {}"


class Office:
    """A clerk with all that it writes."""

    def __init__(self, curator, folder):
        self.counter = Counter(curator)
        self.ledger = self.counter.ledger
        self.home = Home(folder)
        self.orders = Orders(self.home, self.counter, "book")
        self.waiting = []
        self.admission = Admission(self.counter, self.orders, lambda: self.waiting)
        self.clerk = Clerk(self.counter, self.home, self.orders, self.admission)

    def order(self, age, epsilon="0.1", key=None, who="ana"):
        body = {"sql": COUNT.format(age), "epsilon": epsilon}
        bill = self.orders.bill(body, who)
        order = Order(f"{age:032x}", "office", who, key or f"k{age}", body, "waiting",
                      bill.cost.epsilon, now())  # fmt: skip
        order.settle_by(bill)
        return order, bill

    async def pay(self, *asked):
        """Pay for some that come at the same time; give what each of them is told."""
        works = [self.clerk.pay(order, bill, new=True, sought=True) for order, bill in asked]
        return await asyncio.gather(*works, return_exceptions=True)

    def kinds(self):
        return [line.kind for line in self.ledger.lines][1:]

    def kept(self):
        return dict(self.home.read("SELECT id, state FROM orders"))

    def spent(self):
        return self.ledger.balance().amounts["epsilon"][0]


@pytest.fixture
def office(tmp_path):
    """Run something in an office of its own."""
    own = dc.policy
    table = own.Table("people", [own.Integer("age", 0, 115)])

    def start(work, *, budget="1", **rules):
        policy = own.Policy([table], own.Budget(budget), name="office",
                            service=own.Service(rows=1000, **rules))  # fmt: skip
        path = tmp_path / "people.parquet"
        pq.write_table(pa.table({"age": [31, 47, 60]}), path)
        ledger = str(tmp_path / "l")
        with dc.open({"people": str(path)}, policy=policy, ledger=ledger) as curator:
            place = Office(curator, tmp_path / "home")
            asyncio.run(asyncio.wait_for(work(place), 60))
            place.clerk._thread.shutdown()
            place.ledger.verify()

    return start


@pytest.fixture
def syncs(monkeypatch):
    """Transactions, counted by how often the mark beside the ledger was synced."""
    found, real = [], _anchor._sync_data
    monkeypatch.setattr(_anchor, "_sync_data", lambda file: (found.append(file), real(file)))
    return found


def _full(keep, which):
    """A folder that has no room for one order."""

    def kept(order):
        if order is which:
            raise sqlite3.OperationalError("database or disk is full")
        keep(order)

    return kept


def test_who_comes_at_the_same_time_shares_one_transaction(office, syncs):
    """The first may be written for alone; all that comes meanwhile is the second transaction."""

    async def work(place):
        paid = await place.pay(*(place.order(age) for age in range(20)))
        assert all(p.receipt.charged for p in paid)
        assert len({p.receipt.number for p in paid}) == 20
        assert 1 <= len(syncs) <= 2
        assert (place.kinds(), place.spent()) == (["debit"] * 20, Fraction(2))
        assert set(place.kept().values()) == {"running"}
        # one after another each has its own: the count can fail
        before = len(syncs)
        for age in range(20, 24):
            await place.pay(place.order(age))
        assert len(syncs) == before + 4

    office(work, budget="9")


def test_a_refusal_is_its_own_and_takes_nothing_from_the_day(office):
    async def work(place):
        asked = [place.order(1, "0.4"), place.order(2, "0.9"), place.order(3, "0.4"),
                 place.order(4, "0.3", who="ben")]  # fmt: skip
        first, second, third, fourth = await place.pay(*asked)
        assert first.receipt.charged
        assert third.receipt.charged
        assert isinstance(second, BudgetExceededError)
        assert isinstance(fourth, BudgetExceededError)
        assert str(second.hint)
        assert place.spent() == Fraction(4, 5)
        assert place.kept() == {asked[0][0].id: "running", asked[2][0].id: "running"}
        today = {w: place.admission.room(w, everybody=False).today for w in ("ana", "ben")}
        assert today == {"ana": Fraction(4, 5), "ben": 0}

    office(work, daily="0.85")


def test_outcomes_are_settled_in_the_order_of_their_ticks_and_before_debits(office):
    async def work(place):
        orders = [place.order(age) for age in range(6)]
        paid = await place.pay(*orders)
        hold = threading.Event()
        place.clerk._thread.submit(hold.wait, 30)  # a transaction is underway meanwhile
        asked = place.pay(place.order(7), place.order(8))
        later = asyncio.create_task(asked)
        await asyncio.sleep(0)
        ends = [
            asyncio.create_task(place.clerk.settle(orders[i][0], paid[i], "[]" if i else None))
            for i in (3, 0, 5, 1)
        ]
        await asyncio.sleep(0.01)
        hold.set()
        await asyncio.gather(later, *ends)
        lines = place.ledger.lines[7:]
        assert [x.kind for x in lines] == ["settle"] * 4 + ["debit"] * 2
        assert [x.content["debit"] for x in lines[:4]] == [
            paid[i].receipt.number for i in (3, 0, 5, 1)
        ]
        assert [orders[i][0].state for i in (3, 0, 5, 1)] == ["done", "failed", "done", "done"]
        assert orders[3][0].left is not None
        states = place.kept()
        assert [states[orders[i][0].id] for i in range(6)] == [
            "failed", "done", "running", "done", "running", "done"]  # fmt: skip

    office(work)


def test_nobody_hears_of_a_debit_before_it_is_durable(office, monkeypatch):
    """Nor is its order kept: the ledger says first what the folder and the loop say then."""

    async def work(place):
        seen, real = [], place.ledger._move

        def late(anchors, head):
            seen.append((place.kept(), [f.done() for f in futures]))
            return real(anchors, head)

        monkeypatch.setattr(type(place.ledger), "_move", lambda _, *args: late(*args))
        futures = [asyncio.ensure_future(place.pay(place.order(age))) for age in range(3)]
        await asyncio.gather(*futures)
        assert seen
        first, *_ = seen
        assert first == ({}, [False] * 3)
        assert all(len(kept) < 3 for kept, _ in seen)

    office(work)


def test_where_the_ledger_cannot_be_written_nothing_is_charged_and_outcomes_are_tried_again(
    office, monkeypatch
):
    async def work(place):
        order, bill = place.order(1)
        (paid,) = await place.pay((order, bill))
        real, tries = type(place.ledger)._writing, []

        def broken(ledger):
            tries.append(1)
            if len(tries) < 3:
                raise LedgerError("the disk is full")
            return real(ledger)

        monkeypatch.setattr(type(place.ledger), "_writing", broken)
        hold = threading.Event()
        place.clerk._thread.submit(hold.wait, 30)
        asked = asyncio.create_task(place.pay(place.order(2, who="ben")))
        ending = asyncio.create_task(place.clerk.settle(order, paid, "[]"))
        await asyncio.sleep(0.01)
        hold.set()
        (refused,) = await asked
        await ending
        assert isinstance(refused, LedgerError)
        assert (order.state, len(tries)) == ("done", 3)
        assert place.kinds() == ["debit", "settle"]
        assert place.admission.room("ben", everybody=False).today == 0
        assert not place.admission._underway

    office(work)


def test_a_folder_that_cannot_be_written_keeps_no_outcome_back(office, monkeypatch):
    """Nor do those suffer whose own order can be kept."""

    async def work(place):
        orders = [place.order(age) for age in (1, 2)]
        paid = await place.pay(*orders)
        monkeypatch.setattr(
            place.orders, "keep_state", _full(place.orders.keep_state, orders[0][0])
        )
        ends = [place.clerk.settle(o, p, "[]") for (o, _), p in zip(orders, paid, strict=True)]
        await asyncio.gather(*ends)
        assert [o.state for o, _ in orders] == ["done", "done"]
        assert place.kinds() == ["debit", "debit", "settle", "settle"]
        assert [place.kept()[o.id] for o, _ in orders] == ["running", "done"]

    office(work)


def test_an_order_that_cannot_be_kept_is_told_so_and_the_others_run(office, monkeypatch):
    async def work(place):
        asked = [place.order(age) for age in (1, 2)]
        monkeypatch.setattr(place.orders, "keep", _full(place.orders.keep, asked[0][0]))
        first, second = await place.pay(*asked)
        assert isinstance(first, sqlite3.Error)
        assert second.receipt.charged
        assert place.kept() == {asked[1][0].id: "running"}
        assert place.kinds() == ["debit", "debit"]

    office(work)


def test_two_at_once_do_not_take_what_is_set_aside(office):
    """Each alone leaves enough for what waits; both together do not."""

    async def work(place):
        held, _ = place.order(9, "0.3", who="olga")
        place.orders.keep(held)
        place.waiting.append(held)
        hold = threading.Event()
        place.clerk._thread.submit(hold.wait, 30)  # so that both are in one transaction
        asked = asyncio.create_task(
            place.pay(*(place.order(age, "0.4", who="ben") for age in (1, 2)))
        )
        await asyncio.sleep(0.01)
        hold.set()
        first, second = await asked
        assert first.receipt.charged
        assert isinstance(second, BudgetExceededError)
        assert "kept for questions that wait" in second.message
        assert place.spent() == Fraction(2, 5)

    office(work)


def test_a_stored_answer_is_found_where_nobody_has_looked_before(office):
    async def work(place):
        order, bill = place.order(1)
        (paid,) = await place.pay((order, bill))
        await place.clerk.settle(order, paid, "[]")
        again, bill = place.order(1, key="other")
        found = await place.clerk.pay(again, bill, new=True, sought=False)
        assert (found.receipt.charged, found.outcome.text) == (False, "[]")
        assert place.kinds() == ["debit", "settle"]
        failed, bill = place.order(2)
        (paid,) = await place.pay((failed, bill))
        await place.clerk.settle(failed, paid, None)
        again, bill = place.order(2)
        with pytest.raises(EngineError, match="this key paid for failed"):
            await place.clerk.pay(again, bill, new=False, sought=False)

    office(work)


def test_the_clerk_waits_no_longer_than_a_period_for_those_who_come_later(office, monkeypatch):
    """Nor for a clock that went back."""
    pauses = []
    monkeypatch.setattr(_clerk.time, "sleep", pauses.append)

    async def work(place):
        for age in range(3):
            await place.pay(place.order(age))
        place.clerk._last += 3600
        await place.pay(place.order(4))
        assert all(0 < pause <= _clerk.PERIOD for pause in pauses)

    office(work)


def test_a_fault_of_the_clerks_own_is_said_to_whoever_waits_and_ends_nothing(office, monkeypatch):
    async def work(place):
        with monkeypatch.context() as patch:
            patch.setattr(place.counter, "post", lambda *_: 1 / 0)
            (fault,) = await place.pay(place.order(1))
        assert isinstance(fault, ZeroDivisionError)
        (paid,) = await place.pay(place.order(2))
        assert paid.receipt.charged

    office(work)


def test_where_the_ledger_cannot_be_read_outcomes_are_stored_all_the_same(office, monkeypatch):
    """They are paid for; new questions are refused, each by a refusal of its own."""

    async def work(place):
        order, bill = place.order(1)
        (paid,) = await place.pay((order, bill))
        asked = [place.order(age) for age in (2, 3)]
        hold = threading.Event()
        place.clerk._thread.submit(hold.wait, 30)
        with monkeypatch.context() as patch:

            def broken(_):
                raise LedgerError("the mark cannot be read")

            patch.setattr(type(place.ledger), "_glimpse", broken)
            refused = asyncio.create_task(place.pay(*asked))
            ending = asyncio.create_task(place.clerk.settle(order, paid, "[]"))
            await asyncio.sleep(0.01)
            hold.set()
            one, two = await refused
            with pytest.raises(LedgerError):  # what is left cannot be said: it is given out later
                await ending
        assert isinstance(one, LedgerError)
        assert isinstance(two, LedgerError)
        assert one is not two
        assert place.kinds() == ["debit", "settle"]

    office(work)


def test_each_is_told_on_the_loop_that_waits(office):
    """Who came on a new loop, while the thread was about to stand still, was never told."""
    new, told = asyncio.new_event_loop(), []

    async def other(place, order, bill):
        new.call_later(30, int)  # a loop that nobody wakes goes on then
        began = new.time()
        paid = await place.clerk.pay(order, bill, new=True, sought=True)
        told.append((paid.receipt.charged, new.time() - began < 20))

    def run(place):
        new.run_until_complete(other(place, *place.order(2, who="ben")))

    async def work(place):
        hold = threading.Event()
        place.clerk._thread.submit(hold.wait, 30)
        paying = asyncio.create_task(place.pay(place.order(1)))
        await asyncio.sleep(0.01)
        thread = threading.Thread(target=run, args=(place,))
        thread.start()
        await asyncio.sleep(0.1)
        hold.set()
        (paid,) = await paying
        await asyncio.to_thread(thread.join)
        assert paid.receipt.charged
        assert told == [(True, True)]

    try:
        office(work)
    finally:
        new.close()


class _Watched:
    """A lock, and who takes it while the folder is written."""

    def __init__(self, home):
        self._lock, self._home, self._inside = threading.Lock(), home, threading.local()
        self._together, home.together = home.together, self._written
        self.found = []
        """Whether the folder was written, each time that the lock was taken."""

    @contextmanager
    def _written(self):
        with self._together():
            self._inside.now = True
            try:
                yield
            finally:
                self._inside.now = False

    def __enter__(self):
        self.found.append(getattr(self._inside, "now", False))
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_a_price_and_a_debit_never_wait_for_each_other(office):
    """Prices read the folder under the guard: whoever writes it must not wait for that."""

    async def work(place):
        place.admission._guard = _Watched(place.home)
        asked = [place.order(1), place.order(2, "0.99"), place.order(1, key="again")]
        first, second, third = await place.pay(*asked)
        assert first.receipt.charged
        assert isinstance(second, BudgetExceededError)
        assert not third.receipt.charged
        await place.clerk.settle(asked[0][0], first, "[]")
        assert place.kept() == {asked[0][0].id: "done"}
        assert place.admission._guard.found
        assert not any(place.admission._guard.found)

    office(work)


def test_what_was_not_charged_is_given_back_once(office, monkeypatch):
    """The folder's transaction fails, and each of its steps is taken again."""

    async def work(place):
        (paid,) = await place.pay(place.order(1, "0.4"))
        together, failed = place.home.together, []

        @contextmanager
        def full():
            with together():
                yield
                if not failed:
                    failed.append(1)
                    raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(place.home, "together", full)
        hold = threading.Event()
        place.clerk._thread.submit(hold.wait, 30)  # so that both are in one transaction
        asked = [place.order(1, "0.4", key="again"), place.order(2, "0.1", who="ben")]
        paying = asyncio.create_task(place.pay(*asked))
        await asyncio.sleep(0.01)
        hold.set()
        again, other = await paying
        assert failed
        assert again.receipt.number == paid.receipt.number
        assert (again.receipt.charged, other.receipt.charged) == (False, True)
        assert place.admission.room("ana", everybody=False).today == Fraction(2, 5)

    office(work, daily="0.9")
