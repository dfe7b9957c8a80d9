"""Rehearsals are free, so nobody's may be what others wait for, nor fill the memory."""

from __future__ import annotations

import asyncio
import threading

import pytest

import discreet as dc
from discreet.service import _orders, _rehearsal
from discreet.service._errors import BusyError
from discreet.service._rehearsal import Rehearsal
from discreet.service._worker import DONE, Setup

pytestmark = pytest.mark.races

BODY = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.5"}


class Slow:
    """A worker whose answers wait until they may leave."""

    def __init__(self, text=b"{}"):
        self.text, self.begun, self.gate = text, threading.Event(), threading.Event()

    def answer(self, bill, patience):
        self.begun.set()
        assert self.gate.wait(300)
        return DONE + self.text

    def kill(self):
        self.gate.set()


@pytest.fixture
def rehearsal(tmp_path):
    table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)], source="secret.parquet")
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="turns")
    made = Rehearsal(Setup(policy, None, 1 << 30, "1GB", 60.0, str(tmp_path)))
    made._opened()
    made._worker.kill()
    made._worker = Slow()
    yield made
    made.close()


def test_rehearsals_of_one_analyst_are_few_and_others_come_between(rehearsal, monkeypatch):
    priced = []
    bill_for = _rehearsal.bill_for

    def noted(counter, body, analyst):
        priced.append(analyst)
        return bill_for(counter, body, analyst)

    monkeypatch.setattr(_rehearsal, "bill_for", noted)

    async def script():
        many = [asyncio.ensure_future(rehearsal.ask("ana", None, BODY)) for _ in range(50)]
        await asyncio.sleep(0)
        bens = asyncio.ensure_future(rehearsal.ask("ben", None, BODY))
        assert await asyncio.to_thread(rehearsal._worker.begun.wait, 60)
        await asyncio.wait_for(rehearsal.counter(), 20)  # a price waits for nobody's answer
        rehearsal._worker.gate.set()
        await bens
        return await asyncio.gather(*many, return_exceptions=True)

    found = asyncio.run(script())
    refused = [x for x in found if isinstance(x, Exception)]
    assert len(refused) == 50 - _rehearsal._WAITING
    assert all(isinstance(x, BusyError) for x in refused)
    assert priced.index("ben") <= 2
    assert priced.count("ana") == _rehearsal._WAITING


def test_long_rehearsals_are_let_go_when_there_are_many(rehearsal, monkeypatch):
    monkeypatch.setattr(_orders, "_TEXTS", 5 * _orders.LONG)
    rehearsal._worker = Slow(b"x" * (2 * _orders.LONG))
    rehearsal._worker.gate.set()

    async def script():
        return [await rehearsal.ask("ana", None, BODY) for _ in range(6)]

    asked = asyncio.run(script())
    kept = [order.id for order in asked if rehearsal.find(order.id) is not None]
    assert kept == [asked[4].id, asked[5].id]
    assert asked[0].outcome() is not None  # whoever has it is not disturbed
