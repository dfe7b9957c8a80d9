"""The clerk: one thread that debits and settles, for everybody who waits at the same time.

A transaction of the ledger costs several syncs of a disk, however many lines it has, and each
thread that waits for one costs as much of the processor as its line. So there is one thread: it
takes all that waits, writes it in one transaction, keeps the orders in one of the service's folder,
and says so to the loop in one go. What comes meanwhile waits for the next.

For each question the order of events is what it was alone. A refusal is its own and writes
nothing. Its debit is durable before its order is kept, and both before anybody hears of it; its
outcome is durable before its order says so. Outcomes are settled in the order of their ticks, which
is that in which they came, and before the debits of the same transaction.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

from discreet._dataclass import dataclass
from discreet._log import note
from discreet.curator import Bill, Claim, Counter, Outcome, Paid
from discreet.errors import DiscreetError, EngineError, LedgerError
from discreet.ledger import ChainedLedger
from discreet.service._admission import Admission
from discreet.service._home import Home
from discreet.service._orders import Order, Orders

PERIOD: Final = 0.01
"""Seconds from one transaction to the next, at least: who comes within them shares the next."""
_MOST: Final = 256
"""Requests in one transaction."""


@dataclass(slots=True, eq=False)
class _Payment:
    """An order that asks for its debit."""

    order: Order
    bill: Bill
    done: asyncio.Future[Paid]
    new: bool
    """Whether its key has never been used."""
    sought: bool
    """Whether it is known that no equal question has been answered."""
    day: dict[str, Fraction] | None = None
    """The account of the day that its price was taken from."""
    result: Paid | BaseException | None = None

    def fail(self, error: sqlite3.Error) -> None:
        """Its debit stands; an order that is not kept does not run."""
        self.result = error


@dataclass(slots=True, eq=False)
class _Settlement:
    """An outcome of a run (None: it failed) that waits to be stored under its debit."""

    order: Order
    payment: Paid
    text: str | None
    done: asyncio.Future[None]
    result: BaseException | None = None

    def fail(self, _: sqlite3.Error) -> None:
        """The ledger has the outcome for the next start."""
        note("end of a question not entered", policy=self.order.policy)


_Request: TypeAlias = _Payment | _Settlement


class Clerk:
    """Writes the ledger of one policy, and in the service's folder which orders that was for."""

    def __init__(self, counter: Counter, home: Home, orders: Orders, admission: Admission) -> None:
        self._counter, self._home, self._orders = counter, home, orders
        self._admission = admission
        self._waiting: deque[_Request] = deque()
        self._guard, self._busy, self._last = threading.Lock(), False, -math.inf
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="clerk")

    @property
    def _ledger(self) -> ChainedLedger:
        ledger = self._counter.ledger
        assert isinstance(ledger, ChainedLedger)
        return ledger

    async def pay(self, order: Order, bill: Bill, *, new: bool, sought: bool) -> Paid:
        """Find what is stored, or debit, and keep an order whose run may begin."""
        done: asyncio.Future[Paid] = asyncio.get_running_loop().create_future()
        self._put(_Payment(order, bill, done, new, sought))
        return await done

    async def settle(self, order: Order, payment: Paid, text: str | None) -> None:
        """Store the outcome of a run, and keep its order with what is stored."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(_Settlement(order, payment, text, done))
        await done

    def end(self, order: Order, text: str | None) -> None:
        """Keep an order with its outcome; None: it failed."""
        self._conclude(order, text)
        self._orders.keep(order)

    def _conclude(self, order: Order, text: str | None) -> None:
        """Give an order its outcome; what else it says is read from the ledger."""
        if text is not None:
            with self._ledger.glance():
                order.left = self._counter.left(order.analyst)
            if order.fingerprint is None:
                self._orders.name_policy(order)
        order.text, order.state = text, "failed" if text is None else "done"

    def close(self) -> None:
        """Take nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _put(self, request: _Request) -> None:
        """Let something wait with the others; on the loop."""
        with self._guard:
            self._waiting.append(request)
            idle, self._busy = not self._busy, True
        if idle:
            asyncio.get_running_loop().run_in_executor(self._thread, self._serve)

    def _serve(self) -> None:
        """Write for everybody who waits, until nobody does."""
        while requests := self._taken():
            try:
                self._write(
                    [r for r in requests if isinstance(r, _Settlement)],
                    [r for r in requests if isinstance(r, _Payment)],
                )
            except BaseException as error:  # noqa: BLE001 - handed to each of them
                for request in requests:
                    request.result = request.result or error
            for loop in {request.done.get_loop() for request in requests}:
                own = [r for r in requests if r.done.get_loop() is loop]
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(_tell, own)

    def _taken(self) -> list[_Request]:
        """Take all that waits, once the period of those before is over."""
        if (left := self._last + PERIOD - time.monotonic()) > 0 and self._waiting:
            time.sleep(min(left, PERIOD))
        with self._guard:
            number = min(_MOST, len(self._waiting))
            requests = [self._waiting.popleft() for _ in range(number)]
            self._busy = bool(requests)
        if requests:
            self._last = time.monotonic()
        return requests

    def _write(self, settlements: Sequence[_Settlement], payments: Sequence[_Payment]) -> None:
        """Write for some together, each by its own steps."""
        claims = self._claims(payments)
        try:
            outcomes, paid = self._counter.post(
                [(s.payment, s.text) for s in settlements], [(p.bill, c) for p, c in claims]
            )
        except BaseException:
            for payment, _ in claims:
                self._give_back(payment)
            raise
        for (payment, _), result in zip(claims, paid, strict=True):
            payment.result = result
        debited = [payment for payment, _ in claims if self._account(payment)]
        self._enter([
            *((s, partial(self._orders.keep_state, s.order))
              for s in self._concluded(settlements, outcomes)),
            *((p, partial(self._orders.keep, p.order)) for p in debited),
        ])  # fmt: skip

    def _concluded(
        self, settlements: Sequence[_Settlement], outcomes: Sequence[Outcome | DiscreetError]
    ) -> list[_Settlement]:
        """Give orders their outcomes, and those that have one; the folder does not wait for it."""
        with ExitStack() as stack:
            with suppress(LedgerError):  # else each asks, and is told why not
                stack.enter_context(self._ledger.glance())
            pairs = zip(settlements, outcomes, strict=True)
            return [s for s, outcome in pairs if self._settled(s, outcome)]

    def _enter(self, steps: Sequence[tuple[_Request, Callable[[], None]]]) -> None:
        """Enter into the folder what the ledger has; together, or each for itself.

        Whoever has the folder's lock takes no other one: others read the folder under theirs.
        """
        try:
            with self._home.together():
                for _, step in steps:
                    step()
        except sqlite3.Error:  # a full disk, for one
            for request, step in steps:
                try:
                    step()
                except sqlite3.Error as error:
                    request.fail(error)

    def _claims(self, payments: Sequence[_Payment]) -> list[tuple[_Payment, Claim]]:
        """Give what is to be debited; where the ledger cannot be read, nothing is."""
        if not payments:
            return []
        try:
            with self._ledger.glance():
                return [(p, claim) for p in payments if (claim := self._claim(p)) is not None]
        except LedgerError as refusal:
            for payment in payments:  # each is raised elsewhere
                payment.result = refusal.with_hint(refusal.hint)
            return []

    def _claim(self, payment: _Payment) -> Claim | None:
        """Say what is to be debited; None: it is stored, or refused."""
        order, bill = payment.order, payment.bill
        who, fresh = order.analyst, bool(order.body.get("fresh"))
        try:
            if not (fresh or payment.sought):
                payment.result = self._counter.stored(bill, who, key=order.key)
                if payment.result is not None:
                    return None
            # where a stop came between, its own debit stands, and needs no room beside itself
            if payment.new or not self._ledger.bound(who, order.key):
                payment.day = self._admission.reserve(order, bill)
            return self._counter.claim(bill, who, key=order.key, fresh=fresh)
        except Exception as refusal:  # noqa: BLE001 - handed to whoever asked
            self._give_back(payment)
            payment.result = refusal
            return None

    def _give_back(self, payment: _Payment) -> None:
        if payment.day is not None:
            self._admission.give_back(payment.day, payment.order)

    def _account(self, payment: _Payment) -> bool:
        """Enter whether an order was debited, once, and what it has from its debit."""
        paid, order = payment.result, payment.order
        if not isinstance(paid, Paid) or not paid.receipt.charged:
            self._give_back(payment)
            return False
        self._admission.charged(order)
        order.line, order.hash = paid.receipt.number, paid.receipt.hash
        order.fingerprint, order.state = paid.entry.fingerprint, "running"
        return True

    def _settled(self, settlement: _Settlement, outcome: Outcome | DiscreetError) -> bool:
        """Give an order its stored outcome, a failure for one; a refusal to store it has none."""
        try:
            if isinstance(outcome, DiscreetError) and not isinstance(outcome, EngineError):
                raise outcome
            text = None if isinstance(outcome, EngineError) else outcome.text
            self._conclude(settlement.order, text)
        except DiscreetError as refusal:
            settlement.result = refusal
            return False
        return True


def _tell(requests: Sequence[_Request]) -> None:
    """Tell those who wait what has become of it; on the loop."""
    for request in requests:
        if request.done.done():  # nobody waits
            continue
        if isinstance(request.result, BaseException):
            request.done.set_exception(request.result)
        elif isinstance(request, _Settlement):
            request.done.set_result(None)
        elif request.result is not None:
            request.done.set_result(request.result)
