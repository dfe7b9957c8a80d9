"""Writers of one process share a transaction and a sync; refusals are their own."""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from types import SimpleNamespace

import pytest

from discreet import errors, ledger
from discreet._errand import NAME
from discreet.ledger import _anchor, _group, _store
from discreet.ledger._group import Group, Request, group_of
from discreet.ledger._ledger import ChainedLedger
from discreet.ledger._store import RolledBackError, SqlTransaction


def together(book, works):
    """Run works as threads that all wait for one turn; give their results or errors."""
    group = group_of(book.where, book.identity, book._anchors)
    results = [None] * len(works)

    def one(i):
        try:
            results[i] = works[i]()
        except errors.DiscreetError as error:
            results[i] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(works))]
    # one that seems to write keeps the others waiting
    group.thread = threading.current_thread()
    for thread in threads:
        thread.start()
    while len(group.queue) < len(works):
        pass
    threading.Thread(target=group._serve).start()
    for thread in threads:
        thread.join()
    return results


def test_sixty_four_writers_share_one_sync(path, given, monkeypatch):
    book = ledger.open_ledger(path, given.policy("64"))
    syncs, real = [], _anchor._sync_data
    monkeypatch.setattr(_anchor, "_sync_data", lambda file: (syncs.append(file), real(file)))
    works = [lambda i=i: book.debit(given.entry("1", plan=f"q{i}")) for i in range(64)]
    receipts = together(book, works)
    assert len({r.number for r in receipts}) == 64
    assert len(syncs) == 1
    assert book.balance().left("epsilon") == 0
    assert book.verify().debits == 64


def test_one_by_one_is_a_sync_each(path, given, monkeypatch):
    """The count above can fail: without waiting together there is one for each."""
    book = ledger.open_ledger(path, given.policy("8"))
    syncs, real = [], _anchor._sync_data
    monkeypatch.setattr(_anchor, "_sync_data", lambda file: (syncs.append(file), real(file)))
    for i in range(8):
        book.debit(given.entry("1", plan=f"q{i}"))
    assert len(syncs) == 8


def test_a_refusal_concerns_its_own_writer_alone(opened):
    book = opened.open("1")
    prices = ["0.5", "0.6", "0.5", "0.1"]
    works = [
        lambda i=i, e=e: book.debit(opened.entry(e, plan=f"q{i}")) for i, e in enumerate(prices)
    ]
    results = together(book, works)
    spent = sum(
        Fraction(e) for e, r in zip(prices, results, strict=True) if isinstance(r, ledger.Receipt)
    )
    assert {type(r) for r in results} == {ledger.Receipt, errors.BudgetExceededError}
    assert book.balance().amounts["epsilon"][0] == spent <= 1
    book.verify()


@pytest.mark.parametrize("error", [OSError, errors.LedgerError("no mark")])
def test_what_undoes_the_transaction_is_told_to_everybody(path, given, monkeypatch, error):
    book = ledger.open_ledger(path, given.policy("8"))

    def broken(self, turn, entry):
        receipt = real(self, turn, entry)
        if entry.plan == "q1":
            raise error
        return receipt

    real = ChainedLedger._debit
    monkeypatch.setattr(ChainedLedger, "_debit", broken)
    works = [lambda i=i: book.debit(given.entry("1", plan=f"q{i}")) for i in range(3)]
    results = together(book, works)
    assert all(isinstance(r, errors.LedgerError) for r in results)
    assert len({id(r) for r in results}) == 3
    assert book.verify().debits == 0


@pytest.mark.parametrize("begun", [False, True])
def test_an_interrupt_ends_the_waiting_and_holds_up_nobody(path, given, monkeypatch, begun):
    """A turn that has begun goes on without its writer; one that has not never will."""
    book = ledger.open_ledger(path, given.policy())
    group = group_of(book.where, book.identity, book._anchors)
    thread = None if begun else threading.current_thread()
    group.thread = thread
    with monkeypatch.context() as m:
        m.setattr(Group, "_give_up", None)  # not reached
        m.setattr(Request, "__init__", waited(Request.__init__, begun=begun))
        with pytest.raises(KeyboardInterrupt):
            book.debit(given.entry(plan="a"))
    group.thread = None
    book.debit(given.entry(plan="b"))
    assert [e.plan for e in book.entries] == (["a", "b"] if begun else ["b"])
    assert not group.queue


def waited(init, *, begun):
    """Make requests whose waiting is interrupted, before or after their turn has begun."""

    class Waiting(threading.Event):
        def wait(self, timeout=None):
            if begun:
                super().wait(timeout)
            raise KeyboardInterrupt

    def made(self, work, writing):
        init(self, work, writing, Waiting())

    return made


def test_what_is_raised_while_writing_is_raised_where_it_was_asked_for():
    group = Group()

    def writing():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        group.write(lambda _: None, writing, 5)
    assert group.write(lambda turn: turn.head, lambda: nullcontext(SimpleNamespace(head=1)), 5) == 1


def test_without_another_thread_a_writer_writes_itself(path, given, monkeypatch):
    book = ledger.open_ledger(path, given.policy())

    def full(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    assert book.debit(given.entry()).charged


def test_waiting_for_a_turn_has_a_limit(path, given):
    book = ledger.open_ledger(path, given.policy(), wait=0.05)
    group = group_of(book.where, book.identity, book._anchors)
    group.thread = threading.current_thread()
    with pytest.raises(errors.LedgerBusyError, match="nothing was charged"):
        book.debit(given.entry(plan="a"))
    group.thread = None
    book.debit(given.entry(plan="b"))
    assert [e.plan for e in book.entries] == ["b"]
    assert not group.queue


def test_a_fork_inherits_no_held_turn(path, given):
    book = ledger.open_ledger(path, given.policy())
    group = group_of(book.where, book.identity, book._anchors)
    with group.guard:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                book.debit(given.entry())
                code = 0
            finally:
                os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert book.verify().debits == 1


@pytest.mark.parametrize(("times", "works"), [(4, True), (5, False)])
def test_what_a_server_has_undone_is_tried_again(times, works):
    left, done = [times], []

    @contextmanager
    def writing():
        yield SimpleNamespace(head=None)
        if left[0]:
            left[0] -= 1
            raise RolledBackError("undone at the end")

    def write():
        Group().write(lambda _: done.append(1), writing, 5)

    with nullcontext() if works else pytest.raises(errors.LedgerBusyError):
        write()
    assert len(done) == 5


def test_writers_who_come_at_once_have_one_thread_that_writes(path, given, monkeypatch):
    """Two would take turns at the files' locks, each with half of the writers."""
    book = ledger.open_ledger(path, given.policy("64"))
    start, real = threading.Thread.start, _group._together
    writing, most, barrier, later = [], [], threading.Barrier(16), itertools.count(1)

    def slow(thread):
        if thread.name == NAME:
            time.sleep(0.01 * next(later))  # others come before it has started
        start(thread)

    def watched(requests):
        writing.append(requests)
        most.append(len(writing))
        time.sleep(0.02)
        real(requests)
        writing.remove(requests)

    def one(i):
        barrier.wait()
        for k in range(3):
            book.debit(given.entry("1", plan=f"q{i} {k}"))

    monkeypatch.setattr(_group, "_together", watched)
    monkeypatch.setattr(threading.Thread, "start", slow)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert book.verify().debits == 48
    assert max(most) == 1


def test_what_a_thread_glances_at_is_of_one_moment(path, given):
    book, other = (ledger.open_ledger(path, given.policy("10")) for _ in range(2))
    with book.glance() as head:
        other.debit(given.entry("1", plan="q"))
        assert book.balance().left("epsilon") == 10
        assert book.state is head.content
    assert book.balance().left("epsilon") == 9
    with book.glance() as later:  # the mark beside the file has moved
        assert (later.number, book.balance().left("epsilon")) == (head.number + 1, 9)


def test_a_glance_reads_the_file_only_where_its_mark_has_moved(path, given, monkeypatch):
    book = ledger.open_ledger(path, given.policy("10"))
    book.debit(given.entry("1", plan="q"))
    read, real = [], ChainedLedger.reading
    monkeypatch.setattr(ChainedLedger, "reading", lambda b: (read.append(b), real(b))[1])
    with book.glance():
        assert book.balance().left("epsilon") == 9
    assert read == []  # its own writing has left what it saw
    ledger.open_ledger(path, given.policy("10")).debit(given.entry("1", plan="r"))
    read.clear()
    for _ in range(3):
        with book.glance():
            assert book.balance().left("epsilon") == 8
    assert read == [book]
    book._anchors[0].remove()  # no mark to trust: the file itself says
    for _ in range(2):
        with book.glance():
            pass
    assert read == [book] * 3


@pytest.mark.parametrize("main", [False, True])
def test_only_the_main_thread_which_signals_reach_has_another_one_write(
    path, given, monkeypatch, main
):
    book = ledger.open_ledger(path, given.policy())
    writers, real = [], _group._together

    def watched(requests):
        writers.append(threading.get_ident())
        real(requests)

    monkeypatch.setattr(_group, "_together", watched)
    own = []

    def work():
        own.append(threading.get_ident())
        book.debit(given.entry())

    if main:
        work()
    else:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert (writers == own) is not main


def test_who_wrote_first_does_not_write_for_those_who_come_later(path, given, monkeypatch):
    """Else the first of many waits for all of them."""
    book = ledger.open_ledger(path, given.policy("8"))
    group = group_of(book.where, book.identity, book._anchors)
    writers, real = [], _group._together

    def watched(requests):
        writers.append(threading.get_ident())
        while len(writers) == 1 and len(group.queue) < 2:
            time.sleep(0.001)
        real(requests)

    monkeypatch.setattr(_group, "_together", watched)
    threads = [
        threading.Thread(target=lambda i=i: book.debit(given.entry("1", plan=f"q{i}")))
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    idents = {thread.ident for thread in threads}
    for thread in threads:
        thread.join()
    assert writers[0] in idents
    assert len(writers) == 2
    assert writers[1] not in idents
    assert book.verify().debits == 3


def test_a_writer_that_is_torn_away_holds_up_nobody(path, given, monkeypatch):
    book = ledger.open_ledger(path, given.policy())
    group = group_of(book.where, book.identity, book._anchors)
    with monkeypatch.context() as m:
        m.setattr(Group, "_serve", lambda _group, **_: 1 / 0)
        torn = []

        def work():
            with pytest.raises(ZeroDivisionError):
                book.debit(given.entry(plan="a"))
            torn.append(group.thread)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert torn == [None]
    book.debit(given.entry(plan="b"))
    assert [e.plan for e in book.entries] == ["b"]


def test_standing_is_read_only_where_the_mark_has_moved(path, given, monkeypatch):
    policy = given.policy("10")
    book = ledger.open_ledger(path, policy)
    book.debit(given.entry("1", plan="q"))
    read, real = [], ChainedLedger.reading
    monkeypatch.setattr(ChainedLedger, "reading", lambda b: (read.append(b), real(b))[1])
    first = book.standing(policy, None)
    assert (first.balances[0].left("epsilon"), read) == (9, [])
    assert book.standing(policy, None) is first  # nothing is worked out again
    ledger.open_ledger(path, policy).debit(given.entry("1", plan="r"))
    assert book.standing(policy, None).balances[0].left("epsilon") == 8


def test_what_a_transaction_reads_twice_it_reads_once(path, given, monkeypatch):
    book = ledger.open_ledger(path, given.policy("10"))
    book.debit(given.entry("1", plan="q"))
    asked, real = [], SqlTransaction._run

    def run(tx, sql, *values):
        asked.append((sql, values))
        return real(tx, sql, *values)

    monkeypatch.setattr(SqlTransaction, "_run", run)
    book.debit(given.entry("1", plan="r"))
    lines = [values for sql, values in asked if sql.startswith(_store._LINES)]
    assert len(lines) == len(set(lines)) > 0
