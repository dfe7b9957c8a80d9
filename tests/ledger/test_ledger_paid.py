"""Nothing that was paid for is lost: resumed, retried, and told as it is."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from fractions import Fraction

import pytest

from discreet import errors, ledger
from discreet import policy as pol
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.ledger._sqlite import SqliteStore

FORK = multiprocessing.get_context("fork")
ROWS = [{"age": 30 + i} for i in range(20)]
COUNT = "SELECT COUNT(*) AS n FROM people"


class Engine(Reference):
    """An engine that does something else first."""

    def __init__(self, first=lambda: None):
        super().__init__({"people": ROWS})
        self.first = first

    def execute(self, aggregate, salt):
        self.first()
        return super().execute(aggregate, salt)


def curator(path, first=lambda: None, wait=30.0):
    """A curator whose data have a lasting label."""
    table = pol.Table("people", [pol.Integer("age", 0, 115)])
    policy = pol.Policy([table], pol.Budget("1"), name="people")
    book = ledger.open_ledger(path, policy, wait=wait)
    return Curator(policy, Engine(first), book, None, "people")


# -- resumed -------------------------------------------------------------------------------


def test_an_equal_question_takes_up_the_debit_of_a_run_that_was_cut_short(opened):
    book = opened.open()
    first = book.debit(opened.entry("0.6", source="s"))
    again = book.debit(opened.entry("0.6", source="s"))
    assert (again.charged, again.stored, again.number) == (False, None, first.number)
    assert book.settle(again, '["late"]') == '["late"]'
    assert book.debit(opened.entry("0.6", source="s")).stored == '["late"]'
    assert book.balance().left("epsilon") == Fraction("0.4")
    for other in ({"source": "t"}, {"plan": "other"}, {"fresh": True}):
        with pytest.raises(errors.BudgetExceededError):
            book.debit(opened.entry("0.6", **{"source": "s", **other}))


def test_a_run_that_failed_is_not_taken_up(opened):
    book = opened.open()
    book.settle(book.debit(opened.entry("0.6", source="s")), None)
    with pytest.raises(errors.BudgetExceededError):
        book.debit(opened.entry("0.6", source="s"))


@pytest.mark.parametrize("key", [None, "k"])
def test_a_killed_question_is_answered_under_its_debit(path, key):
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    worker = FORK.Process(target=lambda: curator(path, die).sql(COUNT, epsilon="0.6", key=key))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    assert not curator(path).sql(COUNT, epsilon="0.6").cached
    # the price once, and the least price for the further run
    assert curator(path).budget.spent["epsilon"] == Fraction("0.601")


# -- keys that another one paid for --------------------------------------------------------


def test_a_key_is_bound_to_the_answer_that_it_was_given(opened):
    book = opened.open()
    first = book.debit(opened.entry("0.4", source="s", key="one"))
    book.settle(first, '["answer"]')
    other = {"source": "s", "key": "two", "analyst": "bob"}
    assert book.debit(opened.entry("0.4", **other)).stored == '["answer"]'
    # asked again, even for a new answer, it gives the same one; and it names no other question
    again = book.debit(opened.entry("0.4", fresh=True, **other))
    assert (again.charged, again.stored, again.number) == (False, '["answer"]', first.number)
    with pytest.raises(errors.IdempotencyError, match="another question"):
        book.debit(opened.entry("0.1", plan="other", **other))
    assert [line.kind for line in book.lines[1:]] == ["debit", "settle", "key"]
    assert book.balance().left("epsilon") == Fraction("0.6")
    book.new_period()
    with pytest.raises(errors.IdempotencyError, match="earlier period"):
        book.debit(opened.entry("0.4", **other))
    assert book.verify().debits == 1


def test_a_key_is_bound_to_the_run_that_it_takes_up(opened):
    book = opened.open()
    first = book.debit(opened.entry("0.4", source="s", key="one"))
    taken = book.debit(opened.entry("0.4", source="s", key="two"))
    assert (taken.charged, taken.number) == (False, first.number)
    book.settle(taken, None)
    for key in ("one", "two"):
        told = book.debit(opened.entry("0.4", source="s", key=key, fresh=True))
        assert (told.failed, told.number) == (True, first.number)
    assert book.verify().debits == 1


def test_keys_do_not_make_a_ledger_longer_for_nothing(path, given, monkeypatch):
    monkeypatch.setattr(ledger._ledger, "KEYS", 3)
    book = ledger.open_ledger(path, given.policy())
    book.settle(book.debit(given.entry("0.1", source="s")), '["answer"]')
    for n in range(3):
        assert book.debit(given.entry("0.1", source="s", key=f"{n}")).stored
    with pytest.raises(errors.IdempotencyError, match="nothing was charged"):
        book.debit(given.entry("0.1", source="s", key="3"))
    assert book.debit(given.entry("0.1", source="s", key="2")).stored
    assert book.debit(given.entry("0.1", source="s")).stored
    # another debit for the question has room for its own
    book.settle(book.debit(given.entry("0.1", source="s", fresh=True)), '["new"]')
    assert book.debit(given.entry("0.1", source="s", key="3")).stored == '["new"]'
    assert book.verify().lines == 9


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE discreet_lines SET slot = '{slot}' WHERE number = 4",
        """UPDATE discreet_lines SET body = replace(body, '"debit":2', '"debit":5')
        WHERE number = 4""",
    ],
)
def test_a_key_cannot_be_moved_to_another_answer(path, given, change):
    book = ledger.open_ledger(path, given.policy())
    book.settle(book.debit(given.entry("0.1", source="s")), '["a"]')
    book.debit(given.entry("0.1", source="s", key="k"))
    book.settle(book.debit(given.entry("0.1", plan="b", source="s")), '["b"]')
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER discreet_lines_UPDATE")
    connection.execute(change.format(slot=ledger._outcomes.slot_of(None, "l")))
    connection.commit()
    connection.close()
    with pytest.raises(errors.LedgerIntegrityError):
        book.debit(given.entry("0.1", source="s", key="l" if "slot" in change else "k"))
    with pytest.raises(errors.LedgerIntegrityError):
        book.verify()


# -- interrupts ----------------------------------------------------------------------------


def interrupt():
    """What a database makes of Ctrl-C: an error of its own."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**6):
            pass
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted") from None


def plain():
    """Ctrl-C as Python itself tells it."""
    raise KeyboardInterrupt


@pytest.fixture
def interruptible():
    """Processes in the background of a shell ignore Ctrl-C, and so would the tests in them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("how", [interrupt, plain])
@pytest.mark.parametrize("key", [None, "k"])
def test_i_ctrlc(path, how, key):
    """An interrupt is no outcome: the key lives, and the answer comes under the same debit."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        curator(path, how).sql(COUNT, epsilon="0.6", key=key)
    assert signal.getsignal(signal.SIGINT) is before
    assert list(curator(path).ledger.state.open) == ["2"]
    assert not curator(path).sql(COUNT, epsilon="0.6", key=key).cached
    assert curator(path).budget.spent["epsilon"] == Fraction("0.601")


def test_a_failure_without_an_interrupt_is_an_outcome(path):
    def fail():
        raise RuntimeError("Query interrupted")

    with pytest.raises(errors.EngineError):
        curator(path, fail).sql(COUNT, epsilon="0.6", key="k")
    with pytest.raises(errors.EngineError, match="failed"):
        curator(path).sql(COUNT, epsilon="0.6", key="k")


def test_m_fork(path):
    """A curator that was forked is refused before it pays."""
    asked = curator(path)
    told = FORK.SimpleQueue()

    def child():
        try:
            asked.sql(COUNT, epsilon="0.1")
            told.put("answered")
        except errors.EngineError as error:
            told.put(str(error))

    worker = FORK.Process(target=child)
    worker.start()
    assert "nothing was charged" in told.get()
    worker.join()
    assert asked.budget.spent["epsilon"] == 0
    assert asked.sql(COUNT, epsilon="0.1")


# -- settling ------------------------------------------------------------------------------


def test_h_hang(path):
    """A ledger that is busy when a run ends: the truth is told, and the answer not lost."""
    holders = []

    def hold():
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        holders.append(holder)

    asked = curator(path, hold, wait=0.05)
    with pytest.raises(errors.LedgerBusyError) as told:
        asked.sql(COUNT, epsilon="0.6")
    assert "nothing was charged" not in str(told.value)
    assert "its debit stands" in str(told.value)
    holders[0].execute("ROLLBACK")
    holders[0].close()
    assert asked.budget.spent["epsilon"] == Fraction("0.6")
    assert not curator(path).sql(COUNT, epsilon="0.6").cached
    assert asked.budget.spent["epsilon"] == Fraction("0.601")


@pytest.mark.parametrize("kind", [errors.LedgerBusyError, errors.LedgerError])
def test_settling_is_tried_again(path, given, monkeypatch, kind):
    book = ledger.open_ledger(path, given.policy())
    receipt = book.debit(given.entry())
    real, refusals = SqliteStore.writing, [1, 1]

    def now_and_then(self, **more):
        if refusals:
            refusals.pop()
            raise kind("not now; nothing was charged")
        return real(self, **more)

    monkeypatch.setattr(SqliteStore, "writing", now_and_then)
    assert book.settle(receipt, '["kept"]') == '["kept"]'
    assert book.debit(given.entry()).stored == '["kept"]'
    refusals.extend([1] * 9)
    other = given.entry(plan="other")
    with pytest.raises(kind, match="nothing was charged"):
        book.debit(other)  # true of a debit
    refusals.clear()
    receipt = book.debit(other)
    refusals.extend([1] * 9)
    with pytest.raises(kind) as told:
        book.settle(receipt, "[]")
    assert "nothing was charged" not in str(told.value)


# -- PostgreSQL ----------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_pg_more(postgres_url, given, level, folder):
    """Eight hosts at once succeed, whatever isolation the server takes by default."""
    name = f"isolated {level}"
    policy = given.policy(name=name)
    options = level.replace(" ", "%5C%20")
    url = f"{postgres_url}&options=-c%20default_transaction_isolation%3D{options}"
    ledger.open_ledger(url, policy)
    told = FORK.SimpleQueue()

    def spend(i):
        done = []
        os.environ["XDG_STATE_HOME"] = str(folder / f"host {i}")
        try:
            book = ledger.open_ledger(url, policy)
            for k in range(5):
                receipt = book.debit(given.entry("0.01", own=name, plan=f"{i}/{k}"))
                done.append(book.settle(receipt, f"[{k}]"))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            done.append(repr(error))
        told.put(done)

    workers = [FORK.Process(target=spend, args=(i,)) for i in range(8)]
    for w in workers:
        w.start()
    assert [told.get() for _ in workers] == [[f"[{k}]" for k in range(5)]] * 8
    for w in workers:
        w.join()
    assert ledger.open_ledger(url, policy).verify().lines == 81
