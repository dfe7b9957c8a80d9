"""Races and kills: many processes, one ledger, exact sums, nothing acknowledged lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from fractions import Fraction

import pytest

from discreet import errors, ledger

FORK = multiprocessing.get_context("fork")


def race(book, entry, processes, per_process, price):
    """Let processes spend at the same moment; return line numbers won and other outcomes."""
    start, told = FORK.Barrier(processes), FORK.SimpleQueue()

    def spend(i):
        start.wait()
        won, odd = [], []
        for k in range(per_process):
            try:
                won.append(book.debit(entry(price, plan=f"{i}/{k}")).number)
            except errors.BudgetExceededError:
                pass
            except Exception as error:  # noqa: BLE001 - anything else is a failure
                odd.append(repr(error))
        told.put((won, odd))

    workers = [FORK.Process(target=spend, args=(i,)) for i in range(processes)]
    for w in workers:
        w.start()
    outcomes = [told.get() for _ in workers]
    for w in workers:
        w.join()
    return sorted(n for won, _ in outcomes for n in won), [o for _, odd in outcomes for o in odd]


def test_thirty_two_processes_spend_the_last_crumb(path, given):
    book = ledger.open_ledger(path, given.policy())
    won, odd = race(book, given.entry, 32, 3, "0.1")
    assert not odd
    assert won == list(range(2, 12))
    assert book.verify().debits == 10
    assert book.balance().left("epsilon") == 0


def test_two_hosts_share_one_postgresql_ledger(postgres_url, given, folder):
    """Two processes with state directories of their own, as on two machines."""
    name = "two hosts"
    policy = given.policy(name=name)
    ledger.open_ledger(postgres_url, policy)

    def host(i, told):
        time.sleep(i * 0.05)  # the second host meets a ledger that is in use
        os.environ["XDG_STATE_HOME"] = str(folder / f"host {i}")
        won: list[object] = []
        try:
            book = ledger.open_ledger(postgres_url, policy)
            for k in range(10):
                receipt = book.debit(given.entry("0.1", own=name, plan=f"{i}/{k}"))
                won.append(receipt.number)
        except errors.BudgetExceededError:
            pass
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            won.append(repr(error))
        told.put(won)

    told = FORK.SimpleQueue()
    workers = [FORK.Process(target=host, args=(i, told)) for i in range(2)]
    for w in workers:
        w.start()
    assert sorted(told.get() + told.get(), key=str) == sorted(range(2, 12), key=str)
    for w in workers:
        w.join()
    assert ledger.open_ledger(postgres_url, policy).verify().debits == 10


def test_a_postgresql_ledger_restored_from_a_backup_is_refused(postgres_url, given):
    import psycopg

    name = "restored"
    book = ledger.open_ledger(postgres_url, given.policy(name=name))
    book.debit(given.entry("0.5", own=name))
    with psycopg.connect(postgres_url) as c:
        before = c.execute(
            "SELECT number, hash, state FROM discreet_heads WHERE policy = %s", (name,)
        ).fetchone()
    book.debit(given.entry("0.5", own=name, plan="later"))
    with psycopg.connect(postgres_url) as c:
        c.execute(
            "UPDATE discreet_heads SET (number, hash, state) = (%s, %s, %s) WHERE policy = %s",
            (*before, name),
        )
        c.execute("DELETE FROM discreet_lines WHERE policy = %s AND number = 3", (name,))
    with pytest.raises(errors.LedgerIntegrityError, match="older backup"):
        book.debit(given.entry("0.5", own=name, plan="again"))
    with pytest.raises(errors.LedgerIntegrityError, match="older backup"):
        ledger.open_ledger(postgres_url, given.policy(name=name))


def test_another_database_is_not_the_same_ledger(postgres_url, given, folder):
    import psycopg

    name = "moved"
    ledger.open_ledger(postgres_url, given.policy(name=name)).debit(given.entry("1", own=name))
    with psycopg.connect(postgres_url, autocommit=True) as c:
        c.execute("CREATE DATABASE elsewhere")
    other = postgres_url.replace("/postgres?", "/elsewhere?")
    assert other != postgres_url
    with pytest.raises(errors.LedgerError):
        ledger.open_ledger(other, given.policy(name=name))
    with pytest.raises(errors.LedgerIntegrityError, match="second budget"):
        ledger.open_ledger(folder / "file.ledger", given.policy(name=name))


def test_an_unreachable_postgresql_ledger_is_refused_without_its_url(given):
    with pytest.raises(errors.LedgerError) as refused:
        ledger.open_ledger("postgresql://ann:secret@127.0.0.1:9/none", given.policy())
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def kill_writers(book, entry, kills, seed):
    """Kill a spending process again and again; return what it acknowledged.

    Every spend is a debit under a key, a settled outcome, and an
    acknowledgement of each in one write to a pipe. The kill comes at a random moment
    after a random number of acknowledgements, however slow the machine is.
    """
    rng = random.Random(seed)
    acknowledged = []
    for round_ in range(kills):
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                for k in range(10_000):
                    receipt = book.debit(entry("0.0001", plan=f"{round_}/{k}", key=f"{round_}/{k}"))
                    os.write(into, b"d%d\n" % receipt.number)
                    book.settle(receipt, json.dumps([round_, k]))
                    os.write(into, b"s%d\n" % receipt.number)
            finally:
                os._exit(1)
        os.close(into)
        with os.fdopen(out, "rb") as told:
            acknowledged += [told.readline().rstrip() for _ in range(rng.randrange(8))]
            time.sleep(rng.uniform(0.0, 0.006))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            acknowledged += told.read().split(b"\n")[:-1]
    return acknowledged


def check_after_kills(book, acknowledged):
    """Nothing acknowledged lost, nothing half-spent, chain intact, and it goes on."""
    debits = {line.number for line in book.lines if line.kind == "debit"}
    told = {int(a[1:]) for a in acknowledged if a[:1] == b"d"}
    assert told <= debits
    assert len(told) > 10
    assert book.balance().amounts["epsilon"][0] == len(debits) * Fraction("0.0001")
    with book._store.reading() as tx:
        for a in acknowledged:
            if a[:1] == b"s":
                assert tx.outcome(int(a[1:])) is not None
    assert book.verify().debits == len(debits)
    return len(debits) - len(told)


def test_forty_kills_lose_nothing(path, given):
    book = ledger.open_ledger(path, given.policy("100"))
    acknowledged = kill_writers(book, given.entry, 40, seed=1)
    unacknowledged = check_after_kills(book, acknowledged)
    assert unacknowledged <= 40  # at most one debit per kill stays charged without a word
    assert book.debit(given.entry("0.1", plan="after")).charged


@pytest.mark.long
def test_two_hundred_kills_lose_nothing(tmp_path, given):
    book = ledger.open_ledger(tmp_path / "people.ledger", given.policy("1000"))
    acknowledged = kill_writers(book, given.entry, 200, seed=2)
    assert check_after_kills(book, acknowledged) <= 200


def test_kills_while_the_ledger_is_made(folder, given):
    rng = random.Random(3)
    for i in range(30):
        path, policy = folder / f"{i}.ledger", given.policy(name=f"p{i}")
        child = os.fork()
        if child == 0:
            try:
                ledger.open_ledger(path, policy)
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.0, 0.006))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        book = ledger.open_ledger(path, policy)
        book.debit(given.entry("1", own=f"p{i}"))
        assert book.verify().lines == 2


def test_processes_that_make_the_ledger_together(folder, given):
    for round_ in range(5):
        path, policy = folder / f"{round_}.ledger", given.policy(name=f"p{round_}")
        start, told = FORK.Barrier(8), FORK.SimpleQueue()

        def begin(i, path=path, policy=policy, start=start, told=told):
            start.wait()
            try:
                book = ledger.open_ledger(path, policy)
                told.put(book.debit(given.entry("0.125", own=policy.name, plan=str(i))).number)
            except Exception as error:  # noqa: BLE001 - shown by the assertion
                told.put(repr(error))

        workers = [FORK.Process(target=begin, args=(i,)) for i in range(8)]
        for w in workers:
            w.start()
        assert sorted(told.get() for _ in workers) == list(range(2, 10))
        for w in workers:
            w.join()
