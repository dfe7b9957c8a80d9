"""What a stop leaves: which paid questions have begun, who pays for another run, what was late.

A kill is a daybook whose file is let go without a word, as the system does it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
from tests.unit.test_service_counter import answered, debits, opened, question, spent

from discreet.service import Home, _daybook
from discreet.service._daybook import Daybook
from discreet.service._errors import BusyError

__all__ = ["opened"]


def killed(book):
    """End a book as a kill does: its lock is gone, nothing is said."""
    os.close(book._file)
    book._file = -1


def left(tmp_path, *lines, end=killed):
    """A book with some lines that a process has left."""
    book = Daybook(tmp_path, "p")
    for line in lines:
        book.begin(line)
    end(book)
    return book


# -- the book -------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [killed, Daybook.close])
def test_what_has_begun_is_known_after_any_end(tmp_path, end):
    old = left(tmp_path, "aa", "bb", end=end)
    new = Daybook(tmp_path, "p")
    known = {debit: new.unbegun(old.name, debit) for debit in ("aa", "bb", "cc", "a", None)}
    assert known == {"aa": False, "bb": False, "cc": True, "a": True, None: False}
    assert not new.unbegun(None, "cc")
    assert not new.unbegun(new.name, "cc")  # it may begin any time
    assert not Daybook(tmp_path, "q").unbegun(old.name, "cc")
    new.forget()
    assert not new.unbegun(old.name, "cc")
    assert not old._path.exists()
    assert new._path.exists()


def test_a_living_process_may_begin_what_it_has(tmp_path):
    old = Daybook(tmp_path, "p")
    new = Daybook(tmp_path, "p")
    assert not new.unbegun(old.name, "aa")
    new.forget()
    assert old._path.exists()
    killed(old)
    assert Daybook(tmp_path, "p").unbegun(old.name, "aa")


def test_a_book_of_another_run_of_the_machine_counts_only_if_it_was_closed(tmp_path, monkeypatch):
    boot = tmp_path / "boot"
    monkeypatch.setattr(_daybook, "_BOOT", boot)
    boot.write_text("one\n")
    cut, closed = left(tmp_path, "aa"), left(tmp_path, "aa", end=Daybook.close)
    boot.write_text("two\n")
    new = Daybook(tmp_path, "p")
    assert [new.unbegun(b.name, "bb") for b in (cut, closed)] == [False, True]
    assert not new.unbegun(closed.name, "aa")
    boot.unlink()  # a machine whose runs have no names
    nameless = left(tmp_path, "aa")
    assert not Daybook(tmp_path, "p").unbegun(nameless.name, "bb")


@pytest.mark.parametrize("act", [lambda book: book.begin("bb"), Daybook.forget])
def test_a_closed_book_counts_for_one_start_of_the_machine(tmp_path, monkeypatch, act):
    """The folder may come back as it was before a cut of power, with the old book and its orders.

    The start before the cut has given a worker what the book does not know.
    """
    boot, unlinked = tmp_path / "boot", []
    monkeypatch.setattr(_daybook, "_BOOT", boot)
    boot.write_text("one\n")
    closed = left(tmp_path, "aa", end=Daybook.close)
    started = Daybook(tmp_path, "p")
    assert started.unbegun(closed.name, "bb")
    with monkeypatch.context() as cut:
        cut.setattr(_daybook.Path, "unlink", lambda path, **_: unlinked.append(path))
        act(started)
    for one in started._legacies.values():
        os.close(one.file)
    killed(started)
    again = Daybook(tmp_path, "p")  # a kill alone: all that it has begun is in the other book
    assert again.unbegun(closed.name, "bb")
    for one in again._legacies.values():
        os.close(one.file)
    killed(again)
    boot.write_text("two\n")
    assert not Daybook(tmp_path, "p").unbegun(closed.name, "bb")


def test_what_was_copied_cut_or_lost_does_not_count(tmp_path):
    copied, cut, lost = (left(tmp_path, "aa") for _ in range(3))
    spare = tmp_path / "spare"
    shutil.copy(copied._path, spare)
    spare.replace(copied._path)
    cut._path.write_bytes(cut._path.read_bytes()[:-1])
    lost._path.unlink()
    new = Daybook(tmp_path, "p")
    assert not any(new.unbegun(b.name, "bb") for b in (copied, cut, lost))
    empty = left(tmp_path)
    os.truncate(empty._path, 0)
    assert not Daybook(tmp_path, "p").unbegun(empty.name, "bb")


def test_a_line_that_cannot_be_written_takes_the_book_away(tmp_path, monkeypatch):
    book = Daybook(tmp_path, "p")
    with monkeypatch.context() as full:
        full.setattr(_daybook.os, "write", lambda _file, _line: 1)  # a full disk takes a part
        book.begin("aa")
    killed(book)
    assert not Daybook(tmp_path, "p").unbegun(book.name, "bb")
    closed = left(tmp_path, "aa", end=Daybook.close)
    closed.begin("bb")  # after its end
    assert not Daybook(tmp_path, "p").unbegun(closed.name, "cc")


def test_late_runs_of_which_nobody_was_told_are_entered_once(tmp_path):
    book = Daybook(tmp_path, "p")
    for tick in (0.5, 0.5, 4.0):
        book.enter_lapse(tick)
    book.enter_notice(0.5)
    killed(book)
    new, entered = Daybook(tmp_path, "p"), []
    new.recall(entered.append)
    assert sorted(entered) == [0.5, 4.0]
    for one in new._legacies.values():  # a kill before it is thrown away
        os.close(one.file)
    Daybook(tmp_path, "p").recall(entered.append)
    assert sorted(entered) == [0.5, 4.0]


def test_books_lie_in_a_folder_of_their_own_that_only_the_owner_reads(tmp_path):
    old = left(tmp_path, "aa")
    new = Daybook(tmp_path, "p")
    (shelf,) = tmp_path.iterdir()
    assert {path.name for path in shelf.iterdir()} == {old.name, new.name}
    assert shelf.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in shelf.iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files have no list here")
@pytest.mark.parametrize("end", [Daybook.forget, Daybook.close])
def test_what_is_thrown_away_or_cannot_be_read_is_not_held_open(tmp_path, end):
    """A file that stays open keeps its lock: its book would look like a living process's."""
    living, whole, torn = (Daybook(tmp_path, "p") for _ in range(3))
    killed(whole)
    killed(torn)
    torn._path.write_bytes(b"\xff\n")

    def held():
        opened = [x.readlink() for x in Path("/proc/self/fd").iterdir() if x.is_symlink()]
        return sorted(x.name for x in opened if x.is_relative_to(tmp_path))

    assert held() == [living.name]
    new = Daybook(tmp_path, "p")
    assert len(held()) == 3  # its own, and the one that can be read
    end(new)
    assert held() == sorted([living.name, new.name] if end is Daybook.forget else [living.name])


# -- the desk -------------------------------------------------------------------------------


def unrun(*bodies, end=killed):
    """Ask; no worker is given anything; the process ends."""

    async def work(desk, worker):
        await desk.places[0].close()
        orders = [await desk.ask(who, None, body) for who, body in bodies]
        assert [o.state for o in orders] == ["running"] * len(bodies)
        assert worker.asked == []
        end(desk.daybook)
        return [o.id for o in orders]

    return work


def begun(*bodies):
    """Ask; a worker is given the first; the process is killed."""

    async def work(desk, worker):
        worker.free.clear()
        orders = [await desk.ask(who, None, body) for who, body in bodies]
        while not worker.asked:  # noqa: ASYNC110 - it is told in another thread
            await asyncio.sleep(0.01)
        killed(desk.daybook)
        return [o.id for o in orders]

    return work


def after(ids, money, *, runs=1, states=("done",)):
    """What has become of the questions, at the next start."""

    async def work(desk, worker):
        orders = [desk.orders.find(id_) for id_ in ids]
        await asyncio.gather(*(o.ended.wait() for o in orders))
        assert [o.state for o in orders] == list(states)
        assert spent(desk) == Fraction(money)
        assert len(worker.asked) == runs
        assert len({o.text for o in orders}) == 1
        return [o.paid for o in orders]

    return work


@pytest.mark.parametrize("end", [killed, Daybook.close])
def test_what_no_worker_was_given_is_taken_up_for_nothing(opened, end):
    """Also if nothing is left."""
    ids = opened(unrun(("ana", question()), end=end), budget="0.1")
    assert opened(after(ids, "0.1"), budget="0.1") == [Fraction(1, 10)]


def test_what_may_have_begun_pays_for_its_next_run(opened):
    ids = opened(begun(("ana", question())))
    assert opened(after(ids, "0.101")) == [Fraction(1, 10)]


def test_what_may_have_begun_fails_where_nothing_is_left(opened):
    ids = opened(begun(("ana", question())), budget="0.1")
    opened(after(ids, "0.1", runs=0, states=("failed",)), budget="0.1")


def test_an_order_of_an_older_version_pays(opened, tmp_path):
    """Nobody has written down whether it has begun."""
    ids = opened(unrun(("ana", question())))
    home = Home(tmp_path / "home")
    home.write("UPDATE orders SET book = NULL")
    home.close()
    opened(after(ids, "0.101"))


@pytest.mark.parametrize(("before", "money"), [(unrun, "0.1"), (begun, "0.101")])
def test_who_waited_for_one_run_waits_for_one_run_again(opened, before, money):
    """One debit, and at most one least price for all of them; who has paid is known."""
    ids = opened(before(("ana", question()), ("ben", question()), ("cyd", question())))
    paid = opened(after(ids, money, states=("done",) * 3))
    assert paid == [Fraction(1, 10), 0, 0]


def test_a_second_kill_before_its_run_begins_costs_nothing_more(opened, monkeypatch):
    ids = opened(begun(("ana", question())))

    async def cut(desk, worker):
        assert worker.asked == []
        killed(desk.daybook)

    with monkeypatch.context() as still:
        still.setattr("discreet.service._pool.Place.start", lambda _place: None)
        for _ in range(3):
            opened(cut)
    opened(after(ids, "0.101"))


def test_a_kill_before_its_tick_does_not_make_a_late_run_forgotten(opened):
    async def cut(desk, _worker):
        await desk.places[0].close()
        order = await desk.ask("ana", None, question())
        order.run.overrun()
        assert desk.overruns == 0  # the moment is nobody's business
        killed(desk.daybook)

    async def counted(desk, _worker):
        assert (desk.overruns, len(desk.brake.ticks), len(desk.brake.notices)) == (1, 1, 1)

    opened(cut)
    opened(counted)
    opened(counted)


def test_an_owner_s_look_outlasts_a_restart(opened):
    """Slips are entered when everybody sees them, however many one run stands for."""

    async def cut(desk, _worker):
        await desk.places[0].close()
        order = await desk.ask("ana", None, question())
        for _ in range(2):
            desk.turns.slip(desk.places[0], order.run)
        order.run.overrun()
        assert (desk.overruns, len(desk.brake.ticks), len(desk.brake.notices)) == (2, 3, 2)
        desk.acknowledge()
        assert (len(desk.brake.ticks), len(desk.brake.notices), len(desk.orders.lapses())) == (
            1,
            0,
            0,
        )
        order.run.tell()
        assert (desk.overruns, len(desk.brake.ticks), len(desk.brake.notices)) == (3, 1, 1)
        desk.acknowledge()
        killed(desk.daybook)

    async def counted(desk, _worker):
        assert (desk.overruns, desk.brake.ticks, desk.brake.notices) == (3, [], [])

    opened(cut)
    opened(counted)


def test_a_full_disk_ends_a_late_run_and_forgets_it_not(opened, monkeypatch):
    """The folder cannot be written: the question ends, the daybook knows what was late."""

    async def cut(desk, worker):
        worker.free.clear()
        order = await desk.ask("ana", None, question())
        while not worker.asked:  # noqa: ASYNC110 - it is told in another thread
            await asyncio.sleep(0.01)
        order.run.overrun()

        def full(*_values, **_options):
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as disk:
            disk.setattr(desk.home, "write", full)
            worker.free.set()
            await asyncio.wait_for(order.ended.wait(), 60)
        assert (order.state, len(desk.brake.notices), desk.overruns) == ("done", 1, 0)
        killed(desk.daybook)
        return order.id

    async def counted(desk, worker):
        assert (desk.overruns, len(desk.brake.ticks)) == (1, 1)
        order = desk.orders.find(id_)
        await asyncio.wait_for(order.ended.wait(), 60)
        assert (order.state, worker.asked) == ("done", [])

    id_ = opened(cut)
    opened(counted)


def test_what_has_begun_under_a_closed_policy_waits_until_it_is_open(opened):
    """Another run costs a least price, which nothing is paid from meanwhile; it does not fail."""

    async def closed(desk, worker):
        found = await begun(("ana", question()))(desk, worker)
        desk.ledger.close(by="owner", note="a look")
        return found

    async def reopened(desk, worker):
        (order,) = (desk.orders.find(id_) for id_ in ids)
        assert (order.state, worker.asked, spent(desk)) == ("running", [], Fraction("0.1"))
        desk.ledger.reopen(by="owner", note="again")
        desk.acknowledge()
        await asyncio.wait_for(order.ended.wait(), 60)
        assert (order.state, len(worker.asked), spent(desk)) == ("done", 1, Fraction("0.101"))

    async def still_closed(desk, worker):
        assert [desk.orders.find(id_).state for id_ in ids] == ["running"]
        assert worker.asked == []
        killed(desk.daybook)

    ids = opened(closed)
    opened(still_closed)
    opened(reopened)


def test_orders_are_taken_up_as_they_were_asked(opened):
    """Also if one of them was written again: who has paid is first."""

    async def work(desk, _worker):
        await desk.places[0].close()
        orders = [await desk.ask(who, None, question()) for who in ("ana", "ben")]
        desk.orders.keep(orders[0])
        assert [o.id for o in desk.orders.in_state("running")] == [o.id for o in orders]

    opened(work)


def test_under_the_brake_what_is_stored_is_given_and_nothing_runs(opened):
    async def work(desk, worker):
        first = await answered(desk, question())
        desk.brake.notices.extend([0.25] * 4)
        again = await desk.ask("ben", "k", question())
        assert (again.state, again.text, again.cached, again.paid) == ("done", first.text, True, 0)
        assert again.ended.is_set()
        assert desk.orders.find_key("ben", "k") is again
        for body in (question(age=3), question(fresh=True)):
            with pytest.raises(BusyError, match="the owner has looked"):
                await desk.ask("ben", None, body)
        assert (len(worker.asked), len(debits(desk))) == (1, 1)

    opened(work)
