"""What a third stranger proved on ledgers: chains that stayed behind their tables, and guests."""

from __future__ import annotations

import itertools
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from discreet import errors, ledger
from discreet import policy as pol
from discreet.ledger import _anchor
from discreet.ledger._postgres import PostgresStore
from discreet.ledger._sqlite import SqliteStore
from discreet.ledger._state import FORMAT
from discreet.plan import Cost

OLD = Path(__file__).parents[1] / "ledger"
_NAMES = itertools.count()


def policy(epsilon="2", *, name="people", **more):
    table = pol.Table("people", [pol.Integer("age", 0, 115)])
    return pol.Policy([table], pol.Budget(epsilon, delta="1e-6"), name=name, **more)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_chain_is_brought_to_the_present_in_tables_that_are(tmp_path, version):
    """Whoever is refused after the tables were moved leaves the chain as it was."""
    place = tmp_path / "x.ledger"
    with sqlite3.connect(place) as connection:
        connection.executescript((OLD / f"format_{version}.sql").read_text())
    connection.close()
    store = SqliteStore(str(place), "people")
    store.prepare()
    assert store.version() == FORMAT
    with store.reading() as tx:
        head, first = tx.head(), tx.line(1)
    assert head.content.format == version
    mark = _anchor.Mark("people", first.hash, head.number, head.hash, store.where, "")
    for anchor in (_anchor.of_user("people"), _anchor.beside(store.where)):
        with anchor.hold(1.0) as own:
            own.move(mark, back=True)
    book = ledger.open_ledger(place)
    assert book.state.format == FORMAT
    book.verify()


def test_a_guest_makes_no_ledger_for_its_host(postgres_url, monkeypatch):
    monkeypatch.setenv("PGUSER", "postgres")
    host = f"host {next(_NAMES)}"
    guest = policy(name="guest", beside=host)
    for place in (postgres_url, ":memory:"):
        with pytest.raises(errors.LedgerError):
            ledger.open_ledger(place, guest)
    store = PostgresStore(postgres_url, host)
    if store.version() is not None:
        with store.reading() as tx:
            assert tx.head() is None


def test_a_handle_from_before_leaves_marks_that_a_backup_fits(tmp_path):
    own = policy(name=f"people {next(_NAMES)}")
    place = tmp_path / "x.ledger"
    old = ledger.open_ledger(place, own, purpose="decide")
    place.unlink()
    ledger.forget(own, place, fresh_budget=True)
    ledger.open_ledger(place, own)
    old.close()
    book = ledger.open_ledger(place, own, purpose="decide")
    ledger.backup(book, tmp_path / "kept")
    place.unlink()
    restored = ledger.restore(tmp_path / "kept", place, policy=own)
    assert restored.lines[-1].kind != "debit"
    restored.verify()


def test_a_handle_follows_units_that_were_agreed_on_since(tmp_path):
    def own(neighbours, name="hosts", **more):
        table = pol.Table("people", [pol.Integer("age", 0, 115)], neighbours=neighbours)
        return pol.Policy([table], pol.Budget("1"), name=name, **more)

    place = tmp_path / "x.ledger"
    host = ledger.open_ledger(place, own("add-remove"))
    ledger.open_ledger(place, own("add-remove"), purpose="decide").consent("guests")
    guest = ledger.open_ledger(place, own("add-remove", "guests", beside="hosts"))
    ledger.open_ledger(place, own("change-one"), purpose="decide").consent("guests")
    for book in (host, guest):
        entry = ledger.Entry(
            policy="hosts", fingerprint="f", analyst=None, plan=f"q{id(book)}",
            cost=Cost(Fraction(1, 10), Fraction(0), Fraction(1, 200), Fraction(0)), noise="n",
            neighbours="add-remove", unit=None, tables=("people",),
        )  # fmt: skip
        with pytest.raises(errors.LedgerIntegrityError):
            book.debit(entry)


def test_a_policy_that_was_named_later_restores_and_forgets_its_own_ledger(tmp_path):
    place = tmp_path / "x.ledger"
    table = pol.Table("people", [pol.Integer("age", 0, next(_NAMES) + 100)])
    before = pol.Policy([table], pol.Budget("1"))
    ledger.open_ledger(place, before)
    named = pol.Policy([table], pol.Budget("1"), name="late", beside=before.identity)
    ledger.backup(ledger.open_ledger(place, named, purpose="decide"), tmp_path / "kept")
    place.unlink()
    ledger.restore(tmp_path / "kept", place, policy=named).verify()
    place.unlink()
    ledger.forget(named, place, fresh_budget=True)
    assert len(ledger.open_ledger(place, before).lines) == 1
