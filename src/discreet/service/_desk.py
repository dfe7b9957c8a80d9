"""The desk of one policy: questions come in, are priced, paid for, run, and given out.

The order of events is that of :mod:`discreet.curator._road`: the debit is durable before
anything runs, the outcome is stored before it is given out, and only what is stored is. The
service's own table says which question an id stands for; the ledger says everything else.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import secrets
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from discreet._canonical import canonical, digest
from discreet._log import note
from discreet._recent import Recent
from discreet.curator import Bill, Counter, Paid, Quote
from discreet.errors import (
    DiscreetError,
    IdempotencyError,
    LedgerClosedError,
    LedgerError,
    UnsupportedQueryError,
)
from discreet.ledger import ChainedLedger
from discreet.service import _ticks
from discreet.service._admission import Admission
from discreet.service._brake import LAPSES, Brake
from discreet.service._clerk import Clerk
from discreet.service._daybook import Daybook
from discreet.service._errors import BusyError, StateError
from discreet.service._fair import Fair, Window
from discreet.service._home import Home
from discreet.service._orders import Order, Orders, now
from discreet.service._pool import Place, Turns
from discreet.service._press import SHORT
from discreet.service._public import Board
from discreet.service._raises import Raises
from discreet.service._rehearsal import Rehearsal
from discreet.service._run import Run

T = TypeVar("T")

UNDECLARED: Final = 4.0
"""Tick of every question under a policy that declares no size."""
_WAITING: Final = 64
"""Questions of one analyst that wait for a place, at most."""
_UNPRICED: Final = 128
"""Previews of one analyst that wait, and questions whose price is not known yet, at most."""
_COPIES: Final = 16
"""Long answers of one analyst that are given again at the same time, at most."""
_REMEMBERED: Final = 2000
"""Runs of late that are known by their debits."""
_PRICED: Final = 256
"""Prices, their margins, and repeated questions that are remembered."""
_PATIENCE: Final = _ticks.GRID[-1]
"""Seconds for which places may be taken before no more questions are taken in."""
_REQUESTS: Final = 3
"""Questions of one analyst that wait for an owner, at most."""


class Desk:
    """Everything that one policy's service does between a request and the ledger."""

    def __init__(
        self,
        counter: Counter,
        home: Home,
        slowness: float,
        undeclared: float = UNDECLARED,
        busy: float = 1.0,
    ) -> None:
        self.counter = counter
        self.home = home
        self.name = counter.policy.identity
        self.fingerprint = counter.policy.fingerprint
        self._slowness, self._busy = slowness, busy
        self._undeclared = undeclared
        self.turns = Turns()
        self.places: list[Place] = []
        self.abreast = math.inf
        """Processors for each policy of this service."""
        self.memory, self.threads = math.inf, 1
        """Bytes that a worker has, and its threads."""
        self.clocked = True
        """Whether runs are ended by clocks of their own; else each has its place for its tick."""
        self.daybook = Daybook(home.folder, self.name)
        self.orders = Orders(home, counter, self.daybook.name)
        self.admission = Admission(counter, self.orders, self.waiting)
        self.clerk = Clerk(counter, home, self.orders, self.admission)
        self._deciding = asyncio.Lock()
        self._live: OrderedDict[str, Order] = OrderedDict()
        self._asking: dict[tuple[str, ...], tuple[asyncio.Lock, int]] = {}
        self._claimed: set[str] = set()
        self._following: set[asyncio.Task[None]] = set()
        self._parked: list[Order] = []
        """Paid before a stop, begun, and not taken up because the owner has closed its table."""
        self._start_line = 0
        self._copies = Fair(_COPIES, f"{_COPIES} long answers of yours are being looked up")
        self._copying = ThreadPoolExecutor(1, thread_name_prefix="copy")
        refusal = f"{_UNPRICED} of your questions wait for their price already"
        self._pricing = Window("price", _UNPRICED, refusal)
        self._previews = Window("preview", _UNPRICED, f"{_UNPRICED} previews of yours wait already")
        self._writers = ThreadPoolExecutor(32, thread_name_prefix="ledger")
        self._decisions, self._holding = threading.Lock(), threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._margins = Recent[str, dict[str, str]](_PRICED)
        self._prices = Recent[tuple[str, str, str], bytes](_PRICED)
        self._repeats = Recent[tuple[str, str, str], Order](_PRICED)
        self.rehearsal: Rehearsal | None = None
        self.raises = Raises(home, counter.policy, self.ledger)
        self.board = Board(self.ledger)
        self.daybook.recall(self.orders.keep_late)
        self.brake = Brake(self.orders.lapses())

    @property
    def ledger(self) -> ChainedLedger:
        """The ledger that is debited."""
        ledger = self.counter.ledger
        assert isinstance(ledger, ChainedLedger)
        return ledger

    async def start(self) -> None:
        """Begin to serve; take up what a stop has left undone."""
        self._loop = asyncio.get_running_loop()
        with self.ledger.reading() as (_, head):
            self._start_line = head.number
        for place in self.places:
            place.start()
        for order in self.orders.in_state("running"):
            await self._resume(order)
        self.daybook.forget()

    async def close(self) -> None:
        """Stop serving."""
        for place in self.places:
            await place.close()
        self.daybook.close()
        if self.rehearsal is not None:
            self.rehearsal.close()
        for own in (self.clerk, self._pricing, self._previews):
            own.close()
        for pool in (self._copying, self._writers):
            pool.shutdown(wait=False, cancel_futures=True)

    # -- asking -------------------------------------------------------------------------

    async def preview(self, who: str, work: Callable[[], T]) -> T:
        """Work out a price in the thread of previews, which no run and no debit waits for."""
        return await self._previews.work(who, work)

    async def _copy(self, order: Order, record: str, bill: Bill, *, begun: bool) -> str:
        """Write what is stored as a question wants it; what is long, in turn and off the loop."""
        if len(record) <= SHORT:
            return self.counter.shaped(record, bill)
        async with self._copies.turn(order.analyst, begun=begun):
            return await asyncio.get_running_loop().run_in_executor(
                self._copying, lambda: self.counter.shaped(record, bill)
            )

    async def write(self, work: Callable[[], T]) -> T:
        """Do something with the ledger, or what takes long; debits and outcomes are the clerk's."""
        return await asyncio.get_running_loop().run_in_executor(self._writers, work)

    def priced(self, analyst: str, body: Mapping[str, Any], make: Callable[[], bytes]) -> bytes:
        """Give a price as it was written, for as long as nothing it says has changed."""
        with self.ledger.glance() as head:
            stands = f"{head.hash} {self.admission.mark(analyst)}"
            return self._prices((analyst, canonical(dict(body)), stands), make)

    def _head(self) -> str:
        """Hash of the ledger's last line: all that a price or a repeated answer says follows."""
        with self.ledger.glance() as head:
            return head.hash

    def error_of(self, quote: Quote) -> dict[str, str]:
        """Expected margins of a price; worked out once for equal plans at equal prices."""
        hashes = [plan.lowered.query.hash for plan in quote.plans]
        name = canonical([hashes, quote.plan.noise, quote.cost, quote.confidence])
        return self._margins(name, quote.error)

    def times(self, bill: Bill, statements: Sequence[str]) -> tuple[float, float]:
        """Seconds for which a bill takes a place, and after which its answer leaves."""
        rows, text = self.counter.policy.service.rows, sum(map(len, statements))
        divisions = _ticks.divisions_in(statements)
        seconds = _ticks.bound(bill.plans, rows, self._slowness, text, divisions)
        tick = _ticks.tick(seconds, self._undeclared, self._busy)
        return min(seconds, self._undeclared) if rows is None else seconds, tick

    async def ask(self, analyst: str, key: str | None, body: Mapping[str, Any]) -> Order:
        """Take a question: debit it, or hold it for an owner, or find what it has become.

        One that is answered, and asked again without a key while the ledger stands where it
        stood, is the same order again.
        """
        if key is not None:
            async with self._alone(analyst, key):
                earlier = self._earlier(analyst, key, body)
                return await self._ask(analyst, key, body) if earlier is None else earlier
        if body.get("fresh"):
            return await self._ask(analyst, None, body)
        # one thread: many that read the same file at once would be in each other's way
        head = await self._pricing.work(analyst, self._head)
        question = (analyst, canonical(dict(body)), head)
        order = self._repeats.get(question)
        if order is None:
            order = await self._ask(analyst, None, body)
            if order.cached and order.state == "done":
                self._repeats(question, lambda: order)
        return order

    @asynccontextmanager
    async def _alone(self, *name: str) -> AsyncIterator[None]:
        """Do one thing of a name after the other."""
        lock, others = self._asking.get(name, (asyncio.Lock(), 0))
        self._asking[name] = lock, others + 1
        try:
            async with lock:
                yield
        finally:
            lock, others = self._asking.pop(name)
            if others > 1:
                self._asking[name] = lock, others - 1

    def _earlier(self, analyst: str, key: str, body: Mapping[str, Any]) -> Order | None:
        """Give what was asked under a key before, if anything was."""
        order = self.orders.find_key(analyst, key)
        if order is not None and canonical(order.body) != canonical(dict(body)):
            raise IdempotencyError(
                f"the key {key!r} was used for another question or price",
                hint="use a new key for a new question",
            )
        return order

    async def _ask(self, analyst: str, key: str | None, body: Mapping[str, Any]) -> Order:
        """Take a question that has not been asked under its key; without one it gets a new one."""
        if self.turns.count(analyst) >= _WAITING:
            raise BusyError(f"{_WAITING} of your questions wait already; read their answers first")
        order, bill, payment = await self._pricing.work(
            analyst, lambda: self._order(analyst, key or secrets.token_hex(16), body)
        )
        if payment is not None and payment.outcome is not None:
            # what needs no run is kept from nobody
            order.line, order.hash = payment.receipt.number, payment.receipt.hash
            await self._hand_out(order, bill, payment.outcome.text, own=False)
            return order
        self._check_time(order)
        limit = self.counter.policy.service.approval
        if limit is not None and bill.cost.epsilon > limit:
            return await self.write(lambda: self._hold(order, bill))
        await self._pay(order, bill, new=key is None, sought=True)
        return order

    def _order(
        self, analyst: str, key: str, body: Mapping[str, Any]
    ) -> tuple[Order, Bill, Paid | None]:
        """Price what somebody asks for; and give the answer that an equal question has, if any."""
        with self.ledger.glance():
            bill = self.orders.bill(body, analyst)
            self._check_memory(bill)
            order = Order(
                secrets.token_hex(16), self.name, analyst, key, dict(body), "waiting",
                bill.cost.epsilon, now(),
            )  # fmt: skip
            self._time(order, bill)
        fresh = bool(body.get("fresh"))
        return order, bill, None if fresh else self.counter.stored(bill, analyst, key=key)

    def _time(self, order: Order, bill: Bill) -> None:
        """Give an order its times, and what it is paid by: all that can be known before it is."""
        order.bound, order.tick = self.times(bill, self.counter.statements(bill))
        order.settle_by(bill, self.counter.proved(bill))
        _ = bill.job  # worked out here, where the clerk does not wait for it

    def _check_memory(self, bill: Bill) -> None:
        """Refuse what a worker has no room for where texts are as long as declared."""
        needed = _ticks.memory(bill.plans, self.counter.policy.service.rows, self.threads)
        if needed > self.memory:
            raise UnsupportedQueryError(
                f"with the lengths and rows that the policy declares this may take "
                f"{needed / (1 << 20):.0f} MiB of memory, and a worker has "
                f"{self.memory / (1 << 20):.0f}",
                hint="ask in parts, with fewer operators on texts or fewer groups in each; texts "
                "whose column declares a smaller longest take less",
            )

    def _check_time(self, order: Order) -> None:
        """Refuse what cannot be done in time: by plans, and by what waits, never by what runs."""
        if self.places and all(place.missing for place in self.places):
            raise BusyError(
                "no process that reads the data can be had now; nothing was charged",
                hint="ask again later; the owner's page says so, too",
            )
        if self.brake.bars(order.tick):
            raise BusyError(
                f"{LAPSES} questions of this size were not done at their tick: no more of them "
                "until the owner has looked",
                hint="ask for fewer groups or joins",
            )
        if order.bound > order.tick:
            raise UnsupportedQueryError(
                f"with the rows that the policy declares this may take {order.bound:.0f} s, and "
                f"the last answers leave after {order.tick:g} s",
                hint="ask for fewer groups, joins or patterns, or in parts; shorter patterns, and "
                "texts whose column declares a smaller longest, take less",
            )
        before = self.turns.before(order.analyst) / min(max(1, len(self.places)), self.abreast)
        if before > _PATIENCE:
            raise BusyError(
                f"the questions that wait already take all places for the next {before:.0f} s",
                hint="ask again when some of it is answered; nothing was charged",
            )

    async def _pay(
        self, order: Order, bill: Bill, *, new: bool = False, sought: bool = False
    ) -> None:
        """Debit, then run; or give what is there. A `new` key has never been used."""
        payment = await self.clerk.pay(order, bill, new=new, sought=sought)
        if payment.receipt.charged:
            self._begin(order, payment)
            return
        # one that is taken up again may find the outcome of its own debit
        own = order.line == payment.receipt.number and not order.cached
        free = self.daybook.unbegun(order.book, order.hash) and order.hash == payment.receipt.hash
        order.line, order.hash = payment.receipt.number, payment.receipt.hash
        if payment.outcome is not None:
            await self._hand_out(order, bill, payment.outcome.text, own=own)
            return
        order.state = "running"
        other = await self._same(payment)
        if other is not None:  # the same question is underway: one run, one outcome, for both
            order.run, order.tick, order.cached = other.run, other.tick, not own
            await self.write(lambda: self.orders.keep(order))
            self._follow(order, other, bill)
            return
        if not free:
            number, hash_ = payment.receipt.number, payment.receipt.hash
            ended = await self.write(lambda: self.ledger.outcome(number, hash_))
            if ended is not None and ended[1] is not None:  # by another host, while we waited
                await self._hand_out(order, bill, ended[1], own=own)
                return
            await self.write(lambda: self.counter.meter(payment))
        await self.write(lambda: self.orders.keep(order))
        self._begin(order, payment)

    async def _hand_out(self, order: Order, bill: Bill, record: str, *, own: bool) -> None:
        """Give what is stored, as the question wants it."""
        text = await self._copy(order, record, bill, begun=own)
        order.cached = not own
        await self.write(lambda: self.clerk.end(order, text))
        order.end()

    async def _same(self, payment: Paid) -> Order | None:
        """Give the order of this process that runs under a debit which another one has found."""
        for _ in range(100):  # its own task may be about to begin
            if (other := self._live.get(payment.receipt.hash)) is not None:
                return other
            if payment.receipt.number <= self._start_line:
                return None  # made before: whoever takes it up first runs it
            await asyncio.sleep(0.02)
        return None

    def _begin(self, order: Order, payment: Paid) -> None:
        async def settle(text: str | None) -> None:
            if order.run is not None:
                order.run.tell()
            try:
                await self.clerk.settle(order, payment, text)
            except LedgerError:
                # not stored, so not given out; taken up again at the next start
                self._live.pop(payment.receipt.hash, None)
                return
            order.end()

        assert order.bill is not None  # it was kept before the debit
        order.run = Run(
            order.analyst, order.bill + order.proved,
            order.bound if self.clocked else order.tick, order.tick,
            settle, lambda: self.brake.holds(order.tick, time.monotonic()),
            lambda: self._is_late(order), lambda: self.brake.bars(order.tick),
            lambda: self._tell(order),
            lambda: self.daybook.begin(payment.receipt.hash),
        )  # fmt: skip
        self._live[payment.receipt.hash] = order
        while len(self._live) > _REMEMBERED and next(iter(self._live.values())).over:
            self._live.popitem(last=False)
        self.turns.put(order.run)

    def _is_late(self, order: Order) -> None:
        """Count a late run: no kill makes this forgotten."""
        assert order.run is not None
        assert order.run.last is not None
        self.daybook.enter_lapse(order.tick)
        self.brake.count(order.run.last)

    def _tell(self, order: Order) -> None:
        """Let everybody know of something late; on the loop, so that an owner's look is whole."""
        self.brake.tell(order.tick)
        try:
            self.orders.keep_late(order.tick, order.asked)
        except sqlite3.Error:  # a full disk; the daybook has it for the next start
            note("late run not entered", policy=self.name)
        else:
            self.daybook.enter_notice(order.tick)

    def _follow(self, order: Order, other: Order, bill: Bill) -> None:
        async def wait() -> None:
            await other.ended.wait()
            order.state = other.state
            text = other.text
            if text is not None:
                order.text = await self._copy(order, text, bill, begun=True)
            order.left, order.fingerprint = other.left, other.fingerprint
            await self.write(lambda: self.orders.keep(order))
            order.end()

        self._mind(wait())

    def _mind(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something besides, and hold on to it until it is done."""
        task = asyncio.create_task(work)
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    def _earlier_bill(self, order: Order) -> Bill:
        """Give what an order was paid by, and its times on this machine."""
        with self.ledger.glance():
            bill = self.orders.bill_of(order)
            self._time(order, bill)
            return bill

    async def _resume(self, order: Order) -> None:
        """Take up an order whose run was cut short by the end of a process."""
        try:
            bill = await self._pricing.work(
                order.analyst, lambda: self._earlier_bill(order), begun=True
            )
            await self._pay(order, bill)
        except LedgerClosedError:
            self._parked.append(order)  # another run costs something: not before it is open again
        except DiscreetError:
            # the policy, or what is left, has changed: its debit stands, its run cannot
            order.state = "failed"
            await self.write(lambda: self.orders.keep(order))
            order.end()

    # -- waiting for an owner -------------------------------------------------------------

    def _hold(self, order: Order, bill: Bill) -> Order:
        """Let a question wait for an owner; one that waits already is the same order again."""
        with self._holding:
            requests = [o for o in self.waiting() if o.analyst == order.analyst]
            question = canonical(dict(order.body))
            same = [o for o in requests if canonical(dict(o.body)) == question]
            if same and not order.body.get("fresh"):
                return same[0]
            if len(requests) >= _REQUESTS:
                raise BusyError(f"{_REQUESTS} of your questions wait for an owner already")
            with self.ledger.glance():
                # what approval could not pay for must not wait
                refusal = self.admission.refusal(order.analyst, bill, order.id)
            if refusal is not None:
                raise refusal
            order.settle_by(bill)
            self.orders.keep(order)
            return order

    def waiting(self) -> list[Order]:
        """Questions that wait for an owner; those that have waited too long are declined."""
        requests = self.orders.in_state("waiting")
        oldest = dt.datetime.now(dt.UTC) - dt.timedelta(days=self.counter.policy.service.expiry)
        waiting = []
        for order in requests:
            with self._decisions:
                old = dt.datetime.fromisoformat(order.asked) < oldest
                if not old or order.id in self._claimed or order.state != "waiting":
                    waiting.append(order)
                    continue
                order.state, order.decided = "declined", "it has waited too long"
            self.orders.keep(order)
            if self._loop is not None:  # whoever waits for it waits there, and this is a thread
                self._loop.call_soon_threadsafe(order.ended.set)
        return waiting

    def priced_anew(self, order: Order) -> tuple[Bill, DiscreetError | None]:
        """Price what waits by the policy of now, or say why that cannot be done any more."""
        with self.ledger.glance():
            try:
                return self.orders.bill(order.body, order.analyst), None
            except DiscreetError as refusal:
                return self.orders.bill_of(order), refusal

    async def decide(
        self, id_: str, *, approve: bool, by: str, reason: str, seen: str
    ) -> dict[str, Any]:
        """Approve or decline what waits; `seen` is the hash of what was shown."""
        async with self._deciding:
            return await self._decide(id_, approve=approve, by=by, reason=reason, seen=seen)

    async def withdraw(self, order: Order) -> None:
        """Take back a question that waits for an owner, for whoever asked it."""
        async with self._deciding:
            with self._decisions:
                if order.state != "waiting":
                    raise StateError(f"this question is {order.state}: it waits no longer")
                order.state = "withdrawn"
            await self.write(lambda: self.orders.keep(order))
            order.end()

    async def _decide(
        self, id_: str, *, approve: bool, by: str, reason: str, seen: str
    ) -> dict[str, Any]:
        order = self.orders.find(id_)
        if order is None:
            state = await self.write(
                lambda: self.raises.decide(id_, approve=approve, by=by, reason=reason, seen=seen)
            )
            return {"id": id_, "state": state, "decision": f"{by}: {reason}"}
        with self._decisions:
            if order.state != "waiting":
                raise StateError(f"this request is {order.state} already")
            self._claimed.add(id_)  # it is not declined by its age meanwhile
        try:
            return await self._carry_out(order, approve, f"{by}: {reason}", seen)
        finally:
            self._claimed.discard(id_)

    async def _carry_out(
        self, order: Order, approve: bool, decision: str, seen: str
    ) -> dict[str, Any]:
        """Decide what nobody else is deciding."""
        bill, refusal = await self._pricing.work(
            order.analyst, lambda: self.priced_anew(order), begun=True
        )
        if seen != self.subject(order, bill):
            raise StateError(
                "the policy or the price has changed since this request was shown",
                hint="look at it again",
            )
        if approve and refusal is not None:
            raise refusal
        order.decided = decision
        try:
            if approve:
                await self._pricing.work(order.analyst, lambda: self._time(order, bill), begun=True)
                await self._pay(order, bill)
            else:
                order.state = "declined"
                await self.write(lambda: self.orders.keep(order))
                order.end()
        except DiscreetError:
            order.decided = None  # it waits still
            raise
        return {"id": order.id, "state": order.state, "decision": order.decided}

    @property
    def braked(self) -> bool:
        """Whether questions of some size are refused because too many missed their tick."""
        return self.brake.on

    def acknowledge(self) -> None:
        """Let questions of a size be asked again of which some were not done in time."""
        self.orders.look_at_late()
        self.brake.ease()
        self.turns.ease()
        while self._parked:
            self._mind(self._resume(self._parked.pop(0)))

    @property
    def overruns(self) -> int:
        """Runs that were not done at their tick, since there is this service's folder."""
        return self.orders.count_late()

    def subject(self, order: Order, bill: Bill) -> str:
        """Hash of what an owner decides about: question, price, policy."""
        plans = [plan.lowered.query.hash for plan in bill.plans]
        return digest(canonical([order.id, plans, bill.cost.to_dict(), self.fingerprint]))
