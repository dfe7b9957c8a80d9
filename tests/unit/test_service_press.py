"""Long answers: written one at a time for each analyst, and kept within bounds."""

from __future__ import annotations

import asyncio
import threading
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.service import Tools, _forms, _orders, _press, _serve
from discreet.service._errors import BusyError
from discreet.service._home import Home
from discreet.service._orders import LONG, Order
from discreet.service._serve import Options, opened

pytestmark = pytest.mark.races

COUNT = "SELECT COUNT(*) AS n FROM people WHERE age > {}"
POLICY = """
[policy]
name = "long answers"
[budget]
epsilon = "1"
[service]
rows = 1000
[tables.people]
source = "people.parquet"
[tables.people.columns]
age = { type = "integer", min = 0, max = 115 }
"""


def order(id_, analyst, size):
    return Order(id_, "p", analyst, "k", {"sql": "x"}, "done", Fraction(1), "", text="", size=size)


def test_one_analysts_long_answers_keep_nobody_waiting():
    """Eight of ana's are asked for and stand still: ben's are written, and a ninth is refused."""

    async def story():
        press, still, begun = _press.Press(), threading.Event(), []

        def stand():
            begun.append(1)
            still.wait(30)
            return b""

        mine = [
            asyncio.create_task(press.work(order(str(k), "ana", LONG), stand)) for k in range(8)
        ]
        await asyncio.sleep(0.1)
        with pytest.raises(BusyError, match="long answers"):
            await press.work(order("9", "ana", LONG), stand)
        async with asyncio.timeout(5):
            long = await press.work(order("a", "ben", LONG), lambda: b"long")
            short = await press.work(order("b", "ana", LONG - 1), lambda: b"short")
        at_once = len(begun)
        still.set()
        await asyncio.gather(*mine)
        return long, short, at_once, len(begun), dict(press._fair._counts), press._fair._turns

    assert asyncio.run(story()) == (b"long", b"short", 1, 8, {}, {})


def test_what_was_written_is_kept_within_a_bound(monkeypatch):
    monkeypatch.setattr(_press, "_ROOM", 1000)
    written = []

    async def story():
        press = _press.Press()

        def write(size):
            written.append(size)
            return b"x" * size

        for k in (*range(20), 19, 0):
            await press.copy(order(str(k), "ana", 0), "json", "0.95", lambda: write(100))
        await press.copy(order("huge", "ana", 0), "json", "0.95", lambda: write(251))
        return (
            press._size,
            sum(map(len, press._copies.values())),
            ("huge", "json", "0.95") in press._copies,
        )

    assert asyncio.run(story()) == (1000, 1000, False)
    assert len(written) == 20 + 1 + 1  # the last one was kept, the first one was not


def test_so_many_answers_are_kept_however_short_they_are(monkeypatch):
    """Bytes alone let them grow for fifteen thousand questions, of which each is read once."""
    monkeypatch.setattr(_press, "_MOST", 3)

    async def story():
        press = _press.Press()
        for name in "abcdc":
            await press.copy(order(name, "ana", 1), "json", "0.95", lambda: b"xx")
        return press._size, [id_ for id_, _, _ in press._copies]

    assert asyncio.run(story()) == (6, ["b", "d", "c"])


def test_texts_of_long_answers_are_kept_within_a_bound(tmp_path, monkeypatch):
    """The rest are read from the ledger again, and say the same."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_serve, "machine", lambda: (20.0, 1.0))  # ticks of seconds: none is missed
    monkeypatch.setattr(_orders, "LONG", 10)
    monkeypatch.setattr(_orders, "_TEXTS", 1)
    pq.write_table(pa.table({"age": [31, 47, 60] * 100}), tmp_path / "people.parquet")
    (tmp_path / "p.toml").write_text(POLICY)

    async def story(desk):
        await desk.start()
        made = []
        for k in range(3):
            asked = await desk.ask("ana", None, {"sql": COUNT.format(k), "epsilon": "0.1"})
            await asked.ended.wait()
            made.append((asked, asked.text))
        held = [o.text is not None for o, _ in made]
        again = [(o.outcome(), text) for o, text in made]
        said = _forms.answers_of(made[0][0])[0].to_dicts()
        await desk.close()
        return held, again, said

    with opened([tmp_path / "p.toml"], Home(tmp_path / "home"), Options(workers=1)) as house:
        held, again, said = asyncio.run(story(house.desks["long answers"]))
    assert held == [False, False, True]
    assert all(now == then for now, then in again)
    assert list(said[0]) == ["n"]


def test_a_caller_without_turns_is_refused_and_does_not_wait():
    turns = threading.Semaphore(2)
    one, two = Tools(None, "1", turns), Tools(None, "1", turns)
    with one.turn(), two.turn(), pytest.raises(BusyError, match="not answered yet"), one.turn():
        pass
    with one.turn(), one.turn():  # they are given back
        pass
