"""Orders: which question an id stands for. What it cost and what came out, the ledger says."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import pickle
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import islice
from typing import Any, Final

from discreet._canonical import canonical
from discreet._dataclass import dataclass, field
from discreet._log import note
from discreet.curator import Bill, Counter, Proved
from discreet.errors import LedgerError, ParameterError
from discreet.ledger import ChainedLedger
from discreet.service._home import Home
from discreet.service._run import Run

OFFER: Final = ("epsilon", "delta", "rho", "within", "confidence")
UNPAID: Final = ("waiting", "declined", "withdrawn")
"""States of questions for which nothing was taken from the budget."""
_REMEMBERED: Final = 2000
"""Orders that are kept in memory, each with its outcome."""
LONG: Final = 64 << 10
_TEXTS: Final = 64 << 20
"""Letters of an outcome from which on it is long, and of all long ones that are kept in memory."""
_FREE: Final = 500
"""Orders of one analyst that cost nothing, and that are kept in the folder; at most so many more
as :data:`_EACH`."""
_EACH: Final = 50
_UNION: Final = re.compile(r"\bunion\b", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class Order:
    """One question, or a batch, that somebody has asked for."""

    id: str
    policy: str
    analyst: str
    key: str
    body: Mapping[str, Any]
    state: str
    """``waiting`` (for an owner), ``running``, ``done``, ``failed``, ``declined``, ``withdrawn``,
    or ``lost`` with its line of the ledger."""
    price: Fraction
    asked: str
    line: int | None = None
    hash: str | None = None
    cached: bool = False
    decided: str | None = None
    bill: bytes | None = None
    proved: bytes = b""
    """The statements of its bill, for a worker; only in the process that has proved them."""
    tick: float = 0.0
    bound: float = 0.0
    run: Run | None = None
    text: str | None = None
    left: str | None = None
    union: Bill | None = None
    """What it was paid by, where the records are branches of one answer."""
    fingerprint: str | None = None
    """Hash of the policy under which it was answered; the one in force may be another."""
    dummy: bool = False
    """Whether it is answered from made-up data."""
    size: int = 0
    """Letters of its outcome."""
    book: str | None = None
    """The daybook of the process that keeps it; see :mod:`._daybook`."""
    reread: Callable[[Order], None] | None = None
    """Reads the outcome again where it is no longer kept in memory."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.state not in ("waiting", "running")

    @property
    def paid(self) -> Fraction:
        """What it has taken from the budget: nothing where its answer was there, or made up."""
        unpaid = self.cached or self.dummy or self.state in UNPAID
        return Fraction(0) if unpaid else self.price

    def outcome(self) -> str | None:
        """Give what came out, from memory or from the ledger."""
        if self.text is None and self.state == "done" and self.reread is not None:
            self.reread(self)
        return self.text

    def end(self) -> None:
        """Nothing more will come: let go of its run, and of the bill, which is in the folder."""
        self.run, self.bill, self.proved = None, None, b""
        self.ended.set()

    def settle_by(self, bill: Bill, proved: Proved | None = None) -> None:
        """Keep what it is paid by, so that a later price or policy changes nothing.

        What records say of a plan is worked out here, once for equal questions, and goes along.
        """
        for plan in bill.plans:
            _ = plan.lowered.query.hash, plan.lowered.target, plan.lowered.rows_of_one_unit
        self.bill = pickle.dumps(bill)
        self.proved = b"" if proved is None else pickle.dumps(proved)
        self.union = None if bill.united is None else bill


class Shelf:
    """Long outcomes that are kept in memory: the newest, up to so many letters together."""

    def __init__(self) -> None:
        self._long: OrderedDict[str, Order] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, order: Order) -> list[Order]:
        """Add an outcome, or use it again; give the orders whose outcomes there is no room for."""
        surplus: list[Order] = []
        if order.size < LONG:
            return surplus
        with self._lock:
            self._long[order.id] = order
            self._long.move_to_end(order.id)
            while len(self._long) > 1 and sum(o.size for o in self._long.values()) > _TEXTS:
                surplus.append(self._long.popitem(last=False)[1])
        return surplus


class Orders:
    """The orders of one policy: those of late in memory, all of them in the service's folder."""

    def __init__(self, home: Home, counter: Counter, book: str | None = None) -> None:
        self._home, self._counter, self._book = home, counter, book
        self._policy = counter.policy.identity
        self._recent: OrderedDict[str, Order] = OrderedDict()
        self._shelf = Shelf()
        self._free = 0

    def bill(self, body: Mapping[str, Any], analyst: str) -> Bill:
        """Price what somebody asks for."""
        return bill_for(self._counter, body, analyst)

    def bill_of(self, order: Order) -> Bill:
        """Give the bill that an order was paid by; its price may be another one by now."""
        rows = self._home.read("SELECT bill FROM orders WHERE id = ?", (order.id,))
        if rows and rows[0][0] is not None:
            try:
                bill: Bill = pickle.loads(rows[0][0])  # noqa: S301 - from our own private folder
            except Exception:  # noqa: BLE001 - written by another version
                note("bill cannot be read", policy=self._policy)
            else:
                return bill
        return self.bill(order.body, order.analyst)

    def find(self, id_: str) -> Order | None:
        """Give an order by its id; its outcome is read when somebody wants it."""
        recent = self._recent.get(id_)
        if recent is not None:
            return recent
        rows = self._home.read(
            "SELECT id, policy, analyst, key, body, state, price, asked, line, hash, cached, "
            "decided, bill, book FROM orders WHERE id = ? AND policy = ?",
            (id_, self._policy),
        )
        if not rows:
            return None
        own, policy, analyst, key, body, state, price, moment, line, hash_, *rest, book = rows[0]
        order = Order(
            own, policy, analyst, key, json.loads(body), state, Fraction(price), moment,
            line, hash_, bool(rest[0]), *rest[1:],
        )  # fmt: skip
        order.book = book
        if order.state == "done" and order.line is not None and _lost(self._ledger, order):
            order.state = "lost"
        if order.over:
            order.end()
        self._remember(order)
        return order

    @property
    def _ledger(self) -> ChainedLedger:
        ledger = self._counter.ledger
        assert isinstance(ledger, ChainedLedger)
        return ledger

    def _read_outcome(self, order: Order) -> None:
        ledger = self._ledger
        if _lost(ledger, order):
            order.state = "lost"
            return
        outcome = ledger.outcome(order.line or 0, order.hash or "")
        if outcome is None or outcome[1] is None:
            raise LedgerError("the ledger and the service's folder do not belong together")
        order.text = outcome[1]
        self.name_policy(order)
        united = bool(_UNION.search(order.body.get("sql", "")))
        bill = self.bill_of(order) if order.cached or united else None
        if bill is not None and order.cached:
            # stored for a question that may have wanted it otherwise
            order.text = self._counter.shaped(outcome[1], bill)
        if bill is not None and bill.united is not None:
            order.union = bill

    def name_policy(self, order: Order) -> None:
        """Read off the debit under which policy an order was answered."""
        with self._ledger.reading() as (tx, _):
            line = tx.line(order.line or 0)
        if line is not None and line.hash == order.hash:
            order.fingerprint = str(line.content["fingerprint"])

    def find_key(self, analyst: str, key: str) -> Order | None:
        """Give an order by its idempotency key."""
        rows = self._home.read(
            "SELECT id FROM orders WHERE policy = ? AND analyst = ? AND key = ?",
            (self._policy, analyst, key),
        )
        return self.find(rows[0][0]) if rows else None

    def of(self, analyst: str, last: int = 50) -> list[Order]:
        """Latest orders of one analyst, newest first."""
        return self._listed("analyst = ? ORDER BY rowid DESC LIMIT ?", analyst, last)

    def in_state(self, state: str) -> list[Order]:
        """All orders in a state, oldest first."""
        return self._listed("state = ? ORDER BY rowid", state)

    def _listed(self, which: str, *values: Any) -> list[Order]:
        rows = self._home.read(
            f"SELECT id FROM orders WHERE policy = ? AND {which}",  # noqa: S608 - constants of this class
            (self._policy, *values),
        )
        return [o for (id_,) in rows if (o := self.find(id_)) is not None]

    def _remember(self, order: Order) -> None:
        self._recent[order.id] = order
        order.reread = self._reread
        if order.text is not None:
            order.size = len(order.text)
        for other in self._shelf.put(order):
            if other.over:
                other.text = None  # whoever holds on to the order
        for id_ in list(islice(self._recent, max(0, len(self._recent) - _REMEMBERED))):
            if self._recent[id_].over:
                self._recent.pop(id_, None)

    def _reread(self, order: Order) -> None:
        self._read_outcome(order)
        self._remember(order)

    def keep(self, order: Order) -> None:
        """Write an order, new or changed: this process has it now."""
        values = (order.id, order.policy, order.analyst, order.key, canonical(dict(order.body)),
                  order.state, order.line, order.hash, str(order.price), order.asked,
                  order.decided, int(order.cached), order.bill, self._book)  # fmt: skip
        self._home.write(
            "INSERT INTO orders (id, policy, analyst, key, body, state, line, hash, "
            "price, asked, decided, cached, bill, book) VALUES "
            "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            # it stays where it stands: first asked, first taken up
            "ON CONFLICT (id) DO UPDATE SET state = excluded.state, line = excluded.line, "
            "hash = excluded.hash, price = excluded.price, decided = excluded.decided, "
            "cached = excluded.cached, bill = excluded.bill, book = excluded.book",
            values,
        )
        order.book = self._book
        self._remember(order)
        if order.over and (order.cached or order.state in UNPAID):
            self._free += 1
            if self._free % _EACH == 0:
                self._forget(order.analyst)

    def _forget(self, analyst: str) -> None:
        """Let go of an analyst's oldest orders that nothing was paid for: they cost disk alone.

        Whoever asks again finds the stored answer by the question.
        """
        free = (
            "policy = ? AND analyst = ? AND (cached = 1 AND state IN ('done', 'failed') "
            "OR state IN ('declined', 'withdrawn'))"
        )
        whose = (self._policy, analyst)
        self._home.write(
            f"DELETE FROM orders WHERE {free} AND rowid <= "  # noqa: S608 - constants of this class
            f"(SELECT rowid FROM orders WHERE {free} ORDER BY rowid DESC LIMIT 1 OFFSET ?)",
            (*whose, *whose, _FREE),
        )

    def keep_state(self, order: Order) -> None:
        """Write what has become of an order that was kept."""
        changed = self._home.write(
            "UPDATE orders SET state = ? WHERE id = ?", (order.state, order.id)
        )
        if changed:
            self._remember(order)
        else:  # the folder has lost it
            self.keep(order)

    def keep_late(self, tick: float, when: str = "") -> None:
        """Write down that a run was not done at its tick."""
        self._home.write(
            "INSERT INTO late (policy, tick, asked) VALUES (?, ?, ?)",
            (self._policy, tick, when or now()),
        )

    def lapses(self) -> list[float]:
        """Ticks that runs have missed since an owner has looked."""
        rows = self._home.read(
            "SELECT tick FROM late WHERE policy = ? AND seen = 0", (self._policy,)
        )
        return [tick for (tick,) in rows]

    def count_late(self) -> int:
        """How many runs have missed their ticks, ever."""
        ((count,),) = self._home.read("SELECT COUNT(*) FROM late WHERE policy = ?", (self._policy,))
        return int(count)

    def look_at_late(self) -> None:
        """Write down that an owner has looked at what was late."""
        self._home.write("UPDATE late SET seen = 1 WHERE policy = ?", (self._policy,))


def _lost(ledger: ChainedLedger, order: Order) -> bool:
    """Whether the line that paid is among those that an owner has given up, on record."""
    with ledger.reading() as (tx, head):
        if not head.content.lost:
            return False
        line = tx.line(order.line or 0)
        return line is None or line.hash != order.hash


def bill_for(counter: Counter, body: Mapping[str, Any], analyst: str) -> Bill:
    """Price a question or a batch for somebody."""
    if "questions" in body:
        margins = {k: v for k, v in body.items() if k == "confidence"}
        questions = [{**q, **(margins if "within" in q else {})} for q in body["questions"]]
        price = (body.get("epsilon"), body.get("delta"))
        return counter.batch(questions, analyst, *price, nulls=body.get("nulls", False))
    offer = {k: v for k, v in body.items() if k in OFFER}
    return counter.bill(body["sql"], analyst, fresh=bool(body.get("fresh")), **offer)


def now() -> str:
    """The moment, to the second: as orders and keys carry it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def check_key(key: str | None) -> str | None:
    """Accept an idempotency key: a short printable text."""
    if key is None:
        return None
    if not (0 < len(key) <= 100 and key.isprintable()):
        raise ParameterError("an Idempotency-Key is a printable text of 1 to 100 characters")
    return key
