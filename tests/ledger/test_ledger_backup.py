"""Backups are checked whole; what a restore brings back was released or counts as spent."""

from __future__ import annotations

import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from discreet import errors, ledger, meaning
from discreet import privacy as p
from discreet.ledger import _sqlite

FILES = ("", ".anchor")


@pytest.fixture
def book(path, given):
    """Two debits, one of them settled."""
    made = ledger.open_ledger(path, given.policy("2"))
    made.settle(made.debit(given.entry("0.5", plan="a", key="a")), '["of a"]')
    made.debit(given.entry("0.25", plan="b", key="b"))
    return made


def lose(path, *endings):
    """The ledger, or more, is gone."""
    _sqlite._IDLE.clear()
    for ending in endings or ("",):
        Path(f"{path}{ending}").unlink()


def test_a_backup_is_the_ledger_and_cannot_be_taken_for_it(path, given, book, folder):
    kept = folder / "kept"
    assert ledger.backup(book, kept) == book.verify().lines
    with pytest.raises(errors.LedgerError, match="already exists"):
        ledger.backup(book, kept)
    with pytest.raises(errors.LedgerError):
        lose(path)
        ledger.open_ledger(path, given.policy("2"))
    back = ledger.restore(kept, path)
    assert back.verify().debits == 2
    assert back.debit(given.entry("0.5", plan="a", key="a")).stored == '["of a"]'
    assert not back.debit(given.entry("0.25", plan="b", key="b")).charged
    assert back.balance().left("epsilon") == Fraction(5, 4)


def test_an_older_backup_is_refused_or_all_that_was_left_is_spent(path, given, book, folder):
    kept = folder / "kept"
    ledger.backup(book, kept)
    for i in range(3):
        book.debit(given.entry("0.1", plan=f"late {i}"))
    lose(path)
    with pytest.raises(errors.LedgerIntegrityError, match="misses 3 lines") as no:
        ledger.restore(kept, path)
    assert no.value.hint.shell() == f"discreet ledger restore {kept} --older"
    assert not path.exists()
    back = ledger.restore(kept, path, older=True, by="Ada")
    assert back.balance().left("epsilon") == 0
    assert [line.kind for line in back.lines][4:] == ["settle", "debit"]
    assert "lines 5 to 7 are lost" in back.lines[-1].content["external"]
    with pytest.raises(errors.BudgetExceededError):
        back.debit(given.entry("0.01", plan="more"))
    # stored answers were paid for; what was open then may have been answered since
    assert back.debit(given.entry("0.5", plan="a", key="a")).stored == '["of a"]'
    assert back.debit(given.entry("0.25", plan="b", key="b")).failed
    assert back.verify().debits == 3
    back.raise_budget(epsilon="3")
    back.debit(given.entry("1", plan="more"))
    meaning.of(ledger.open_ledger(path))


def test_the_lost_ledger_is_refused_when_it_turns_up(path, given, book, folder):
    ledger.backup(book, folder / "kept")
    book.debit(given.entry("0.1", plan="late"))
    _sqlite._IDLE.clear()
    shutil.move(path, folder / "lost")
    ledger.restore(folder / "kept", path, older=True)
    with pytest.raises(errors.LedgerIntegrityError):
        ledger.open_ledger(folder / "lost", given.policy("2")).debit(given.entry(plan="x"))


def test_a_total_that_is_kept_in_rho_is_spent_too(path, given, folder):
    made = ledger.open_ledger(path, given.policy("2", delta="1e-6", accounting="zcdp"))
    ledger.backup(made, folder / "kept")
    made.debit(given.entry("0.1"))
    lose(path)
    back = ledger.restore(folder / "kept", path, older=True)
    assert back.balance().left("rho") < Fraction(1, 2**255)
    back.verify()
    back.raise_budget(epsilon="50", accounting="approx", lower=True)
    with pytest.raises(errors.BudgetExceededError):  # the whole of 2 is spent in ε as well
        back.debit(given.entry("48.1"))
    back.debit(given.entry("48"))


@pytest.mark.usefixtures("book")
def test_another_ledger_s_backup_is_refused(path, given, folder, monkeypatch):
    with monkeypatch.context() as m:
        m.setenv("XDG_STATE_HOME", str(folder / "elsewhere"))
        other = ledger.open_ledger(folder / "other", given.policy("2"))
        ledger.backup(other, folder / "kept")
    lose(path)
    for older in (False, True):
        with pytest.raises(errors.LedgerIntegrityError, match="not a backup of the ledger"):
            ledger.restore(folder / "kept", path, older=older)


def test_nothing_is_replaced(path, book, folder):
    ledger.backup(book, folder / "kept")
    with pytest.raises(errors.LedgerError, match="does not replace it"):
        ledger.restore(folder / "kept", path)
    with pytest.raises(errors.LedgerError, match="has its ledger at"):
        ledger.restore(folder / "kept", folder / "second")
    book.verify()


def test_a_damaged_backup_is_refused(path, book, folder):
    kept = folder / "kept"
    ledger.backup(book, kept)
    with sqlite3.connect(kept) as connection:
        connection.execute("DROP TRIGGER discreet_answers_UPDATE")
        connection.execute("UPDATE discreet_answers SET record = '[1]'")
    connection.close()
    lose(path)
    with pytest.raises(errors.LedgerIntegrityError):
        ledger.restore(kept, path)
    assert not path.exists() or path.stat().st_size == 0


def test_on_another_host_a_restore_is_an_adoption(given, book, folder, monkeypatch):
    ledger.backup(book, folder / "kept")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "other host"))
    moved = ledger.restore(folder / "kept", folder / "moved")
    assert moved.lines[-1].kind == "adopt"
    assert ledger.open_ledger(folder / "moved", given.policy("2")).verify().debits == 2


def test_from_a_file_to_a_server_and_back(path, given, folder, postgres_url):
    name = "moves to a server"
    made = ledger.open_ledger(path, given.policy("2", name=name))
    made.settle(made.debit(given.entry("0.5", plan="a", own=name)), "[1]")
    ledger.backup(made, folder / "kept")
    # a witness that knows the ledger tells that nobody else has written since
    watched = {"witness": postgres_url}
    ledger.open_ledger(path, given.policy("2", name=name), **watched)
    lose(path, *FILES)
    served = ledger.restore(folder / "kept", postgres_url, **watched)
    assert served.debit(given.entry("0.5", plan="a", own=name)).stored == "[1]"
    served.debit(given.entry("0.5", plan="b", own=name))
    ledger.backup(served, folder / "kept 2")
    assert ledger.open_ledger(postgres_url, name, **watched).verify().debits == 2
    with pytest.raises(errors.LedgerError, match="nothing to restore"):
        ledger.restore(folder / "kept 2", postgres_url, **watched)


@pytest.mark.parametrize("to", ["server", "file"])
@pytest.mark.parametrize("watched", [False, True])
def test_what_other_hosts_spent_on_a_server_counts(
    given, folder, postgres_url, monkeypatch, *, watched, to
):
    """One host's mark agrees with the backup, and knows nothing of the other's debit."""
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setenv("PGUSER", "postgres")  # marks do not keep it
    name = f"two hosts, {to}, {watched}"
    policy, witness = given.policy("1", name=name), postgres_url if watched else None

    def host(which):
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / which))
        return ledger.open_ledger(postgres_url, policy, witness=witness)

    ledger.backup(host("a"), folder / "kept")
    other = host("b")
    other.settle(other.debit(given.entry("0.9", own=name)), "[1]")
    with psycopg.connect(postgres_url, autocommit=True) as c:
        for table in ("answers", "heads", "lines"):
            c.execute(f"DELETE FROM discreet_{table} WHERE policy = %s", (name,))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "a"))
    place = postgres_url if to == "server" else folder / "book"
    back = {"policy": policy, "witness": witness}
    why = "misses 2 lines" if watched else "other hosts may have spent"
    with pytest.raises(errors.LedgerIntegrityError, match=why) as no:
        ledger.restore(folder / "kept", place, **back)
    assert no.value.hint.shell() == f"discreet ledger restore {folder / 'kept'} --older"
    made = ledger.restore(folder / "kept", place, older=True, **back)
    said = "lines 2 to 3 are lost" if watched else "later lines may be lost"
    assert said in made.lines[-1].content["external"]
    assert made.balance().left("epsilon") == 0
    with pytest.raises(errors.BudgetExceededError):
        made.debit(given.entry("0.9", plan="b", own=name))
    assert made.verify().debits == 1


def test_others_may_have_spent_on_a_server(book, folder, given, postgres_url, monkeypatch):
    """A host that has never seen the ledger adopts it in a file, but not on a server."""
    ledger.backup(book, folder / "kept")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "other host"))
    with pytest.raises(errors.LedgerIntegrityError, match="other hosts may have spent"):
        ledger.restore(folder / "kept", postgres_url, policy=given.policy("2"))


def test_health_says_nothing_about_the_data(path, book):
    told = ledger.health(book)
    assert (told["lines"], told["open"], told["marks"]) == (4, 1, [0, 0])
    assert told["spent"] == {"epsilon": 0.38}
    assert told["bytes"] == path.stat().st_size
    assert 0 <= told["last"] <= told["oldest_open"] + 1 < 600
    assert set(told) == {
        "lines", "period", "format", "open", "oldest_open", "last", "spent", "closed", "marks",
        "bytes", "free",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "least"),
    [
        ({"epsilon": "2"}, (2.2, 0)),
        ({"epsilon": "2", "delta": "1e-6", "accounting": "zcdp"}, (2.2, 1e-6)),
        ({"epsilon": None, "rho": "0.1", "delta": "1e-6"}, (2.3, 2e-6)),
    ],
)
def test_what_was_released_on_lost_lines_is_counted(path, folder, given, budget, least):
    """They count as the whole budget of their period, and earlier periods on top."""
    policy = given.policy(**budget)
    book = ledger.open_ledger(path, policy)
    book.debit(given.entry("0.2", plan="a"))
    book.new_period()
    book.debit(given.entry("0.1", plan="b"))
    before = meaning.of(book)
    assert (before.lost, before.losses[0].epsilon(1e-5)) == (0, pytest.approx(0.3, abs=0.01))
    assert float(before.budget.losses[0].eps0) >= least[0]
    ledger.backup(book, folder / "kept")
    book.debit(given.entry("0.15", plan="c"))
    path.unlink()
    after = meaning.of(ledger.restore(folder / "kept", path, older=True, policy=policy))
    for told in (after, after.budget):
        loss = told.losses[0]
        assert isinstance(loss, p.Approx if least[1] else p.Pure)
        assert least[0] <= float(loss.eps0) < least[0] + 0.1
        assert float(getattr(loss, "delta0", 0)) == least[1]
    assert (after.lost, after.for_group(2).lost) == (1, 1)
    assert "on a lost line is not known" in str(after)
