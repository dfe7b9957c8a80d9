"""Rehearsal: the same questions, answered from data that are made up from the policy alone.

A worker of its own holds the made-up tables; it is started when somebody first rehearses and
never sees a source. Prices come from a ledger in memory that nothing is debited from, so what
is left is always the whole. Answers are marked, not signed, and forgotten with the process, or
when there are many. Analysts take turns: what is free must not be what others wait for.
"""

from __future__ import annotations

import asyncio
import pickle
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from discreet import engines
from discreet.curator import Bill, Counter, open_curator
from discreet.errors import EngineError
from discreet.service._fair import Fair
from discreet.service._orders import Order, Shelf, bill_for, now
from discreet.service._pool import Worker
from discreet.service._worker import DONE, Setup

_REMEMBERED: Final = 200
_WAITING: Final = 16
"""Rehearsals of one analyst that are begun or wait, at most."""
_PATIENCE: Final = 30.0
"""Seconds that a question about a few thousand made-up rows may take."""


class Rehearsal:
    """Answers one policy's questions from made-up data, for free."""

    def __init__(self, setup: Setup) -> None:
        own = setup.policy.rehearsed()
        self._setup = replace(setup, policy=own, dummy=True)
        self._counter: Counter | None = None
        self._worker: Worker | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rehearsal")
        self._fair = Fair(_WAITING, f"{_WAITING} rehearsals of yours wait already")
        self._orders: OrderedDict[str, Order] = OrderedDict()
        self._shelf = Shelf()

    async def counter(self) -> Counter:
        """Give the counter that prices rehearsals; once it is there, nothing is waited for."""
        if self._counter is not None:
            return self._counter
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._opened)

    def _opened(self) -> Counter:
        if self._worker is None:
            worker = Worker(self._setup)
            engine = engines.Described(worker.ready().description, self._setup.policy)
            curator = open_curator(None, self._setup.policy, ledger=":memory:", engine=engine)
            self._worker, self._counter = worker, Counter(curator)
        assert self._counter is not None
        return self._counter

    async def ask(self, analyst: str, key: str | None, body: Mapping[str, Any]) -> Order:
        """Answer a question or a batch; refusals are those of the real thing."""
        async with self._fair.turn(analyst):
            order = await self._answered(analyst, key, body)
        self._orders[order.id] = order
        for other in self._shelf.put(order):
            self._orders.pop(other.id, None)
        while len(self._orders) > _REMEMBERED:
            self._orders.popitem(last=False)
        return order

    async def _answered(self, analyst: str, key: str | None, body: Mapping[str, Any]) -> Order:
        counter = await self.counter()
        loop = asyncio.get_running_loop()
        bill = await loop.run_in_executor(self._thread, lambda: bill_for(counter, body, analyst))
        order = Order(
            secrets.token_hex(16), counter.policy.identity, analyst, key or secrets.token_hex(16),
            dict(body), "done", bill.cost.epsilon, now(), dummy=True,
        )  # fmt: skip
        order.union = None if bill.united is None else bill
        order.text = await loop.run_in_executor(self._thread, lambda: self._run(bill))
        order.size, order.left = len(order.text), counter.left(analyst)
        order.end()
        return order

    def _run(self, bill: Bill) -> str:
        self._opened()
        assert self._worker is not None
        reply = self._worker.answer(pickle.dumps(bill), _PATIENCE)
        if reply is None:
            self._worker = None
        if reply is None or reply[:1] != DONE:
            raise EngineError("the rehearsal failed; nothing was charged")
        return reply[1:].decode()

    def find(self, id_: str) -> Order | None:
        """Give a rehearsed answer of late."""
        return self._orders.get(id_)

    def close(self) -> None:
        """Stop."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._worker is not None:
            self._worker.kill()
