"""The desk of one policy: questions come in, are priced, paid for, run, and given out.

The order of events is that of :mod:`discreet.curator._road`: the debit is durable before
anything runs, the outcome is stored before it is given out, and only what is stored is. The
service's own table says which question an id stands for; the ledger says everything else.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
import pickle
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeVar

from discreet._canonical import canonical, digest
from discreet._exact import show
from discreet._log import note
from discreet.curator import Bill, Counter, Paid, Quote
from discreet.errors import (
    BudgetExceededError,
    DiscreetError,
    EngineError,
    Hint,
    IdempotencyError,
    LedgerError,
    ParameterError,
)
from discreet.ledger import ChainedLedger
from discreet.service import _ticks
from discreet.service._errors import BusyError, GoneError, StateError
from discreet.service._home import Home
from discreet.service._pool import Place, Run, Turns

T = TypeVar("T")

UNDECLARED: Final = 4.0
"""Tick of every question under a policy that declares no size."""
_WAITING: Final = 64
"""Questions of one analyst that wait for a place, at most."""
_REMEMBERED: Final = 2000
"""Orders that are kept in memory, each with its outcome."""
_PRICED: Final = 256
"""Prices whose margins are remembered."""
_LATE: Final = 3
"""Runs that may miss their tick before no more of their size are begun."""
_HELD: Final = 3
"""Questions of one analyst that wait for an owner, at most."""


@dataclass(slots=True, eq=False)
class Order:
    """One question, or a batch, that somebody has asked for."""

    id: str
    policy: str
    analyst: str
    key: str
    body: Mapping[str, Any]
    state: str
    """``waiting`` (for an owner), ``running``, ``done``, ``failed`` or ``declined``."""
    price: Fraction
    asked: str
    line: int | None = None
    hash: str | None = None
    cached: bool = False
    decided: str | None = None
    bill: bytes | None = None
    tick: float = 0.0
    run: Run | None = None
    text: str | None = None
    left: str | None = None
    shown: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """Forms in which it was given out, by media type and confidence."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.state not in ("waiting", "running")


class Desk:
    """Everything that one policy's service does between a request and the ledger."""

    def __init__(
        self, counter: Counter, home: Home, slowness: float, undeclared: float = UNDECLARED
    ) -> None:
        self.counter = counter
        self.home = home
        self.name = counter.policy.identity
        self._slowness = slowness
        self._undeclared = undeclared
        self.turns = Turns()
        self.places: list[Place] = []
        self._orders: OrderedDict[str, Order] = OrderedDict()
        self._live: OrderedDict[str, Order] = OrderedDict()
        self._asking: dict[tuple[str, str], asyncio.Lock] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._begun = 0
        self._pricing = ThreadPoolExecutor(1, thread_name_prefix="price")
        self._previews = ThreadPoolExecutor(1, thread_name_prefix="preview")
        self._writers = ThreadPoolExecutor(32, thread_name_prefix="ledger")
        self._guard = threading.Lock()
        self._today = ("", {})  # type: tuple[str, dict[str, Fraction]]
        self._margins: dict[str, dict[str, str]] = {}
        self.overruns = 0
        self._late: list[float] = []

    @property
    def ledger(self) -> ChainedLedger:
        """The ledger that is debited."""
        ledger = self.counter.ledger
        assert isinstance(ledger, ChainedLedger)
        return ledger

    async def start(self) -> None:
        """Begin to serve; take up what a stop has left undone."""
        with self.ledger.reading() as (_, head):
            self._begun = head.number
        for place in self.places:
            place.start()
        for (id_,) in self.home.read(
            "SELECT id FROM orders WHERE policy = ? AND state = 'running'", (self.name,)
        ):
            order = self._stored(id_)
            if order is not None:
                await self._resume(order)

    async def close(self) -> None:
        """Stop serving."""
        for place in self.places:
            await place.close()
        for pool in (self._pricing, self._previews, self._writers):
            pool.shutdown(wait=False, cancel_futures=True)

    # -- asking -------------------------------------------------------------------------

    async def preview(self, work: Callable[[], T]) -> T:
        """Work out a price in the thread of previews, which no run and no debit waits for."""
        return await asyncio.get_running_loop().run_in_executor(self._previews, work)

    async def write(self, work: Callable[[], T]) -> T:
        """Do something with the ledger; whoever waits at the same time shares one commit."""
        return await asyncio.get_running_loop().run_in_executor(self._writers, work)

    def error_of(self, quote: Quote) -> dict[str, str]:
        """Expected margins of a price; worked out once for equal plans at equal prices."""
        plan = quote.plan
        name = canonical([plan.lowered.query.hash, plan.noise, quote.cost, quote.confidence])
        if name not in self._margins:
            recent = list(self._margins.items())[1 - _PRICED :]
            self._margins = dict([*recent, (name, quote.error())])
        return self._margins[name]

    def tick_of(self, bill: Bill) -> float:
        """Seconds after which the answer to a bill leaves."""
        rows = self.counter.policy.service.rows
        return _ticks.tick(_ticks.bound(bill.plans, rows, self._slowness), self._undeclared)

    async def ask(self, analyst: str, key: str | None, body: Mapping[str, Any]) -> Order:
        """Take a question: debit it, or hold it for an owner, or find what it has become."""
        name = key or secrets.token_hex(16)
        lock = self._asking.setdefault((analyst, name), asyncio.Lock())
        try:
            async with lock:
                return await self._ask(analyst, name, body)
        finally:
            if not lock.locked():
                self._asking.pop((analyst, name), None)

    async def _ask(self, analyst: str, name: str, body: Mapping[str, Any]) -> Order:
        known = self.find_key(analyst, name)
        if known is not None:
            if canonical(known.body) != canonical(dict(body)):
                raise IdempotencyError(
                    f"the key {name!r} was used for another question or price",
                    hint="use a new key for a new question",
                )
            return known
        if self.turns.count(analyst) >= _WAITING:
            raise BusyError(f"{_WAITING} of your questions wait already; read their answers first")
        loop = asyncio.get_running_loop()
        bill = await loop.run_in_executor(self._pricing, lambda: self.bill(body, analyst))
        order = Order(
            secrets.token_hex(16), self.name, analyst, name, dict(body), "waiting",
            bill.cost.epsilon, _now(), tick=self.tick_of(bill),
        )  # fmt: skip
        if self.braked and order.tick >= min(self._late):
            raise BusyError(
                f"{_LATE} questions of this size were not done at their tick: no more of them "
                "until the owner has looked",
                hint="ask for fewer groups or joins",
            )
        limit = self.counter.policy.service.approval
        if limit is not None and bill.cost.epsilon > limit:
            paid = await self.write(lambda: self.counter.stored(bill, analyst, key=name))
            if paid is None or body.get("fresh"):
                await self.write(lambda: self._hold(order))
                return order
        await self._pay(order, bill)
        return order

    def bill(self, body: Mapping[str, Any], analyst: str) -> Bill:
        """Price what somebody asks for."""
        offer = {k: v for k, v in body.items() if k in OFFER}
        if "questions" in body:
            pairs = [(q["sql"], q.get("weight", "1")) for q in body["questions"]]
            return self.counter.batch(pairs, analyst, body["epsilon"], body.get("delta"))
        return self.counter.bill(body["sql"], analyst, **offer)

    def bill_of(self, order: Order) -> Bill:
        """Give the bill that an order was paid by; its price may be another one by now."""
        rows = self.home.read("SELECT bill FROM orders WHERE id = ?", (order.id,))
        if rows and rows[0][0] is not None:
            try:
                kept: Bill = pickle.loads(rows[0][0])  # noqa: S301 - from our own private folder
            except Exception:  # noqa: BLE001 - written by another version
                note("bill cannot be read", policy=self.name)
            else:
                return kept
        return self.bill(order.body, order.analyst)

    async def _pay(self, order: Order, bill: Bill) -> None:
        """Debit, then run; or give what is there."""
        order.bill = pickle.dumps(bill)
        fresh = bool(order.body.get("fresh"))
        paid = None
        if not fresh:
            paid = await self.write(lambda: self.counter.stored(bill, order.analyst, key=order.key))
        if paid is None:
            await self.write(lambda: self.reserve(order.analyst, order.price, order.id))
            try:
                paid = await self.write(
                    lambda: self.counter.pay(bill, order.analyst, key=order.key, fresh=fresh)
                )
            except BaseException:
                self._spent(order.analyst, -order.price)
                raise
            if not paid.receipt.charged:
                self._spent(order.analyst, -order.price)
        order.line, order.hash = paid.receipt.number, paid.receipt.hash
        if paid.outcome is not None:
            order.text = self.counter.shaped(paid.outcome.text, bill)
            order.state, order.cached = "done", True
            order.left = await self.write(lambda: self.counter.left(order.analyst))
            await self.write(lambda: self._keep(order))
            order.ended.set()
            return
        order.state = "running"
        other = await self._same(paid)
        if other is not None:  # the same question is underway: one run, one outcome, for both
            order.run, order.tick = other.run, other.tick
            await self.write(lambda: self._keep(order))
            self._follow(order, other, bill)
            return
        if not paid.receipt.charged:
            await self.write(lambda: self.counter.meter(paid))
        await self.write(lambda: self._keep(order))
        self._begin(order, bill, paid)

    async def _same(self, paid: Paid) -> Order | None:
        """Give the order of this process that runs under a debit which another one has found."""
        if paid.receipt.charged or paid.receipt.number <= self._begun:
            return None
        for _ in range(100):  # its own task may be about to begin
            if (other := self._live.get(paid.receipt.hash)) is not None:
                return other
            await asyncio.sleep(0.02)
        return None

    def _begin(self, order: Order, bill: Bill, paid: Paid) -> None:
        rows = self.counter.policy.service.rows
        seconds = _ticks.bound(bill.plans, rows, self._slowness)

        async def settle(text: str | None) -> None:
            try:
                outcome = await self.write(lambda: self.counter.settle(paid, text))
                order.left = await self.write(lambda: self.counter.left(order.analyst))
                order.text, order.state = outcome.text, "done"
            except EngineError:
                order.state = "failed"
            except LedgerError:
                # not stored, so not given out; taken up again at the next start
                self._live.pop(paid.receipt.hash, None)
                return
            if order.run is not None and order.run.overran:
                self.overruns += 1
                self._late.append(order.tick)
            await self.write(lambda: self._update(order))
            order.ended.set()

        async def again() -> None:
            await self.write(lambda: self.counter.meter(paid))

        bound = self._undeclared if math.isinf(seconds) else seconds
        order.run = Run(order.analyst, bill.plans, bound, order.tick, settle, again)
        self._live[paid.receipt.hash] = order
        while len(self._live) > _REMEMBERED and next(iter(self._live.values())).over:
            self._live.popitem(last=False)
        self.turns.put(order.run)

    def _follow(self, order: Order, other: Order, bill: Bill) -> None:
        async def wait() -> None:
            await other.ended.wait()
            order.state, order.cached = other.state, True
            if other.text is not None:
                order.text = self.counter.shaped(other.text, bill)
            order.left = other.left
            await self.write(lambda: self._update(order))
            order.ended.set()

        task = asyncio.create_task(wait())
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _resume(self, order: Order) -> None:
        """Take up an order whose run was cut short by the end of a process."""
        loop = asyncio.get_running_loop()
        try:
            bill = await loop.run_in_executor(self._pricing, lambda: self.bill_of(order))
            order.tick = self.tick_of(bill)
            await self._pay(order, bill)
        except DiscreetError:
            # the policy, or what is left, has changed: its debit stands, its run cannot
            order.state = "failed"
            await self.write(lambda: self._update(order))
            order.ended.set()

    # -- limits -------------------------------------------------------------------------

    def reserve(self, analyst: str, price: Fraction, mine: str) -> None:
        """Refuse what a day's limit or a question that waits for an owner leaves no room for."""
        daily = self.counter.policy.service.daily
        with self._guard:
            spent = self._day()
            already = spent.get(analyst, Fraction(0))
            if daily is not None and already + price > daily:
                left = max(daily - already, Fraction(0))
                raise BudgetExceededError(
                    f"today's limit for one analyst is ε={show(daily)}, and ε={show(left)} is left "
                    f"of it; this question costs ε={show(price)}",
                    hint=Hint("epsilon", show(left)) if left else "ask again tomorrow",
                )
            self._check_held(analyst, price, mine)
            spent[analyst] = already + price

    def _check_held(self, analyst: str, price: Fraction, mine: str) -> None:
        held = [o for o in self.waiting() if o.id != mine]
        if not held:
            return
        balances = (
            (self.ledger.balance(), sum(o.price for o in held)),
            (
                self.ledger.balance(analyst),
                sum(o.price for o in held if o.analyst == analyst),
            ),
        )
        for balance, kept in balances:
            if "epsilon" in balance.amounts and balance.left("epsilon") < price + kept:
                raise BudgetExceededError(
                    "what is left is kept for questions that wait for an owner",
                    hint="wait for the decisions, or offer less",
                )

    def _spent(self, analyst: str, price: Fraction) -> None:
        with self._guard:
            spent = self._day()
            spent[analyst] = spent.get(analyst, Fraction(0)) + price

    def _day(self) -> dict[str, Fraction]:
        """What each analyst has spent today; read from the ledger once a day."""
        today = dt.datetime.now(dt.UTC).date().isoformat()
        if self._today[0] != today:
            spent: dict[str, Fraction] = {}
            for line in self.ledger.lines if self.counter.policy.service.daily else ():
                if line.kind == "debit" and line.when.startswith(today):
                    who = line.content.get("analyst") or ""
                    cost = Fraction(line.content["cost"]["epsilon"])
                    spent[who] = spent.get(who, Fraction(0)) + cost
            self._today = (today, spent)
        return self._today[1]

    # -- waiting for an owner -------------------------------------------------------------

    def _hold(self, order: Order) -> None:
        held = [o for o in self.waiting() if o.analyst == order.analyst]
        if len(held) >= _HELD:
            raise BusyError(f"{_HELD} of your questions wait for an owner already")
        self.reserve(order.analyst, order.price, order.id)
        self._spent(order.analyst, -order.price)
        self._keep(order)

    def waiting(self) -> list[Order]:
        """Questions that wait for an owner; those that have waited too long are declined."""
        rows = self.home.read(
            "SELECT id FROM orders WHERE policy = ? AND state = 'waiting' ORDER BY rowid",
            (self.name,),
        )
        found = [o for (id_,) in rows if (o := self._stored(id_)) is not None]
        oldest = dt.datetime.now(dt.UTC) - dt.timedelta(days=self.counter.policy.service.expiry)
        kept = []
        for order in found:
            if dt.datetime.fromisoformat(order.asked) >= oldest:
                kept.append(order)
            else:
                order.state, order.decided = "declined", "it has waited too long"
                self._update(order)
                order.ended.set()
        return kept

    async def decide(self, id_: str, *, approve: bool, by: str, reason: str, seen: str) -> Order:
        """Approve or decline a question that waits; `seen` is the hash of what was shown."""
        order = self._stored(id_)
        if order is None:
            raise GoneError("there is no such request")
        if order.state != "waiting":
            raise StateError(f"this request is {order.state} already")
        loop = asyncio.get_running_loop()
        bill = await loop.run_in_executor(
            self._pricing, lambda: self.bill(order.body, order.analyst)
        )
        if seen != self.shown(order, bill):
            raise StateError(
                "the policy or the price has changed since this request was shown",
                hint="look at it again",
            )
        order.decided = f"{by}: {reason}"
        if not approve:
            order.state = "declined"
            await self.write(lambda: self._update(order))
            order.ended.set()
            return order
        order.tick = self.tick_of(bill)
        await self._pay(order, bill)
        return order

    @property
    def braked(self) -> bool:
        """Whether questions of some size are refused because too many missed their tick."""
        return len(self._late) >= _LATE

    def acknowledge(self) -> None:
        """Let questions of a size be asked again of which some were not done in time."""
        self._late.clear()

    def shown(self, order: Order, bill: Bill) -> str:
        """Hash of what an owner decides about: question, price, policy."""
        plans = [plan.lowered.query.hash for plan in bill.plans]
        return digest(
            canonical([order.id, plans, bill.cost.to_dict(), self.counter.policy.fingerprint])
        )

    # -- orders that are kept --------------------------------------------------------------

    def find(self, id_: str) -> Order | None:
        """Give an order by its id, with its outcome if it is over."""
        return self._stored(id_)

    def find_key(self, analyst: str, key: str) -> Order | None:
        """Give an order by its idempotency key."""
        rows = self.home.read(
            "SELECT id FROM orders WHERE policy = ? AND analyst = ? AND key = ?",
            (self.name, analyst, key),
        )
        return self._stored(rows[0][0]) if rows else None

    def of(self, analyst: str | None, last: int = 50) -> list[Order]:
        """Latest orders of one analyst, or of all, newest first."""
        mine = "" if analyst is None else " AND analyst = ?"
        rows = self.home.read(
            f"SELECT id FROM orders WHERE policy = ?{mine} ORDER BY rowid DESC LIMIT ?",  # noqa: S608 - a constant
            (self.name, *([] if analyst is None else [analyst]), last),
        )
        return [o for (id_,) in rows if (o := self._stored(id_)) is not None]

    def _stored(self, id_: str) -> Order | None:
        known = self._orders.get(id_)
        if known is not None:
            return known
        rows = self.home.read(
            "SELECT id, policy, analyst, key, body, state, price, asked, line, hash, cached, "
            "decided, bill FROM orders WHERE id = ? AND policy = ?",
            (id_, self.name),
        )
        if not rows:
            return None
        own, policy, analyst, key, body, state, price, asked, line, hash_, *rest = rows[0]
        order = Order(
            own, policy, analyst, key, json.loads(body), state, Fraction(price), asked,
            line, hash_, bool(rest[0]), *rest[1:],
        )  # fmt: skip
        if order.over:
            order.ended.set()
        if state == "done":
            outcome = self.ledger.outcome(line, hash_)
            if outcome is None or outcome[1] is None:
                raise LedgerError("the ledger and the service's folder do not belong together")
            order.text = outcome[1]
            if order.cached:  # stored for a question that may have wanted it otherwise
                order.text = self.counter.shaped(outcome[1], self.bill_of(order))
        self._remember(order)
        return order

    def _remember(self, order: Order) -> None:
        self._orders[order.id] = order
        for id_ in list(self._orders)[: max(0, len(self._orders) - _REMEMBERED)]:
            if self._orders[id_].over:
                self._orders.pop(id_, None)

    def _keep(self, order: Order) -> None:
        values = (order.id, order.policy, order.analyst, order.key, canonical(dict(order.body)),
                  order.state, order.line, order.hash, str(order.price), order.asked,
                  order.decided, int(order.cached), order.bill)  # fmt: skip
        self.home.write(
            "INSERT OR REPLACE INTO orders (id, policy, analyst, key, body, state, line, hash, "
            "price, asked, decided, cached, bill) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        self._remember(order)

    _update = _keep


OFFER: Final = ("epsilon", "delta", "rho", "within", "confidence")


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def check_key(key: str | None) -> str | None:
    """Accept an idempotency key: a short printable text."""
    if key is None:
        return None
    if not (0 < len(key) <= 100 and key.isprintable()):
        raise ParameterError("an Idempotency-Key is a printable text of 1 to 100 characters")
    return key
