"""What is free is had in turns: one analyst's many requests keep nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet import policy as pol
from discreet.curator import Counter
from discreet.errors import ParameterError
from discreet.service import _desk, _orders, _serve
from discreet.service._desk import Desk
from discreet.service._errors import BusyError
from discreet.service._home import Home
from discreet.service._serve import Options, opened

pytestmark = pytest.mark.races

COUNT = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.1"}
POLICY = """
[policy]
name = "turns"
[budget]
epsilon = "1"
[service]
rows = 1000
[tables.people]
source = "people.parquet"
[tables.people.columns]
age = { type = "integer", min = 0, max = 115 }
"""


@pytest.fixture
def desk(tmp_path):
    table = pol.Table("people", [pol.Integer("age", 0, 115)])
    policy = pol.Policy([table], pol.Budget("10"), name="turns")
    with dc.open(policy=policy, dummy=True) as curator:
        yield Desk(Counter(curator), Home(tmp_path / "home"), 1.0, 4.0)


def test_a_preview_comes_after_one_of_each_other_analyst(desk):
    """Twenty of ana's wait when ben asks: he has his price after the one that is underway."""
    begun, still = [], threading.Event()

    def work(who):
        begun.append(who)
        still.wait(30)

    async def story():
        mine = [asyncio.create_task(desk.preview("ana", lambda: work("ana"))) for _ in range(20)]
        await asyncio.sleep(0.05)
        his = asyncio.create_task(desk.preview("ben", lambda: work("ben")))
        await asyncio.sleep(0.05)
        still.set()
        await asyncio.gather(his, *mine)
        await desk.close()

    asyncio.run(story())
    assert begun[:2] == ["ana", "ben"]
    assert begun.count("ana") == 20


def test_a_question_is_priced_after_one_of_each_other_analyst(desk, monkeypatch):
    begun, still = [], threading.Event()

    def bill(_, who):
        begun.append(who)
        still.wait(30)
        raise ParameterError("no price")

    monkeypatch.setattr(desk.orders, "bill", bill)

    async def story():
        mine = [asyncio.create_task(desk.ask("ana", f"k{i}", COUNT)) for i in range(20)]
        await asyncio.sleep(0.05)
        his = asyncio.create_task(desk.ask("ben", "k", COUNT))
        await asyncio.sleep(0.05)
        still.set()
        await asyncio.gather(his, *mine, return_exceptions=True)
        await desk.close()

    asyncio.run(story())
    assert begun[:2] == ["ana", "ben"]
    assert begun.count("ana") == 20


def test_too_many_previews_of_one_analyst_are_refused(desk):
    still = threading.Event()

    async def story():
        most = _desk._UNPRICED
        mine = [
            asyncio.create_task(desk.preview("ana", lambda: still.wait(30))) for _ in range(most)
        ]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError, match="wait already"):
            await desk.preview("ana", bool)
        still.set()
        await asyncio.gather(*mine)
        assert await desk.preview("ana", lambda: 7) == 7
        await desk.close()

    asyncio.run(story())


def test_a_long_answer_is_given_again_beside_the_loop(tmp_path, monkeypatch):
    """To write a stored answer anew takes seconds where it is long; nobody else waits for it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_serve, "machine", lambda: (20.0, 1.0))  # ticks of seconds: none is missed
    pq.write_table(pa.table({"age": [31, 47, 60] * 100}), tmp_path / "people.parquet")
    (tmp_path / "p.toml").write_text(POLICY)
    places = []

    async def story(desk):
        await desk.start()
        first = await desk.ask("ana", "a", COUNT)
        await first.ended.wait()
        real = desk.counter.shaped

        def shaped(text, bill):
            places.append(threading.current_thread())
            return real(text, bill)

        monkeypatch.setattr(type(desk.counter), "shaped", lambda _, text, bill: shaped(text, bill))
        short = await desk.ask("ana", "b", COUNT)
        monkeypatch.setattr(_desk, "SHORT", 1, raising=False)
        long = await desk.ask("ana", "c", COUNT)
        await desk.close()
        return [o.text for o in (first, short, long)]

    with opened([tmp_path / "p.toml"], Home(tmp_path / "home"), Options(workers=1)) as house:
        first, short, long = asyncio.run(story(house.desks["turns"]))
    assert first == short == long
    assert [p is threading.main_thread() for p in places] == [True, False]


def test_nothing_is_debited_while_no_worker_can_be_had(desk):
    desk.places = [SimpleNamespace(missing=True), SimpleNamespace(missing=True)]
    with pytest.raises(BusyError, match="can be had now"):
        asyncio.run(desk.ask("ana", "k", COUNT))
    assert desk.ledger.balance().amounts["epsilon"][0] == 0


def test_orders_that_cost_nothing_are_forgotten_when_they_are_many(tmp_path, monkeypatch):
    """A stored answer asked for again under forty keys; what was paid for stays."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_serve, "machine", lambda: (20.0, 1.0))  # ticks of seconds: none is missed
    monkeypatch.setattr(_orders, "_FREE", 3, raising=False)
    monkeypatch.setattr(_orders, "_EACH", 5, raising=False)
    pq.write_table(pa.table({"age": [31, 47, 60] * 100}), tmp_path / "people.parquet")
    (tmp_path / "p.toml").write_text(POLICY)

    async def story(desk):
        await desk.start()
        paid = await desk.ask("ana", "first", COUNT)
        await paid.ended.wait()
        for i in range(40):
            last = await desk.ask("ana", f"k{i}", COUNT)
        kept = [id_ for (id_,) in desk.home.read("SELECT id FROM orders")]
        again = await desk.ask("ana", "k0", COUNT)
        await desk.close()
        return paid, last, kept, again

    with opened([tmp_path / "p.toml"], Home(tmp_path / "home"), Options(workers=1)) as house:
        paid, last, kept, again = asyncio.run(story(house.desks["turns"]))
    assert len(kept) <= 1 + 3 + 5
    assert {paid.id, last.id} <= set(kept)
    assert (again.text, again.paid) == (paid.text, 0)
