"""A witness for several hosts: copies take turns at one mark, or are refused."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace

import pytest

from discreet import errors, ledger
from discreet.ledger._witness import Witness

_NAMES = itertools.count()


@pytest.fixture
def hosts(folder, monkeypatch):
    """Two hosts: folders and state directories of their own."""

    def host(name):
        (folder / name).mkdir(exist_ok=True)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / name / "state"))
        return folder / name / "people.ledger"

    return host


@pytest.mark.parametrize("watched", [False, True])
def test_a_copy_on_another_host_is_seen_by_the_witness_alone(hosts, given, postgres_url, watched):
    name = f"watched {next(_NAMES)}"
    witness, policy = postgres_url if watched else None, given.policy("2", name=name)
    one = hosts("one")
    first = ledger.open_ledger(one, policy, witness=witness)
    first.debit(given.entry("1", plan="a", own=name))
    two = hosts("two")
    for ending in ("", ".anchor"):
        shutil.copy(f"{one}{ending}", f"{two}{ending}")
    second = ledger.open_ledger(two, policy, witness=witness)
    second.debit(given.entry("1", plan="b", own=name))
    hosts("one")
    if not watched:  # each spends what is left: two units where one was
        first.debit(given.entry("1", plan="c", own=name))
        return
    with pytest.raises(errors.LedgerIntegrityError, match="truncated, copied or restored"):
        first.debit(given.entry("1", plan="c", own=name))
    hosts("two")
    assert second.verify().debits == 2


def test_a_witness_that_does_not_answer_stops_every_release(path, given, postgres_url, monkeypatch):
    name = f"watched {next(_NAMES)}"
    policy = given.policy(name=name)
    monkeypatch.setenv("DISCREET_WITNESS", postgres_url)
    book = ledger.open_ledger(path, policy)
    monkeypatch.setenv("DISCREET_WITNESS", "postgresql://nobody@127.0.0.1:1/none")
    for use in (lambda: ledger.open_ledger(path, policy),):
        with pytest.raises(errors.LedgerError, match="witness cannot be reached") as no:
            use()
        assert "nobody" not in str(no.value)
    assert book.verify().debits == 0


def test_a_witness_waits_with_a_limit_and_never_moves_back(path, given, postgres_url):
    name = f"watched {next(_NAMES)}"
    book = ledger.open_ledger(path, given.policy(name=name), witness=postgres_url)
    witness = Witness(postgres_url, name)
    mark = witness.read()
    with witness.hold(1), pytest.raises(errors.LedgerBusyError), witness.hold(0.1):
        pass
    book.debit(given.entry(own=name))
    with pytest.raises(errors.LedgerIntegrityError), witness.hold(1) as held:
        held.move(mark)
    assert witness.read().number == 2


def test_a_policy_and_its_environment_name_one_witness(monkeypatch, given):
    """Another one in the environment took the place of the policy's."""
    from discreet.ledger._open import witness_of

    own = replace(given.policy(), witness="postgresql://db.example/marks")
    monkeypatch.setenv("DISCREET_WITNESS", "postgresql://me:secret@db.example/marks")
    assert witness_of(None, own, "x", "people").startswith("postgresql://me:")
    monkeypatch.setenv("DISCREET_WITNESS", "postgresql://me:secret@elsewhere/marks")
    with pytest.raises(errors.LedgerError, match="names the witness") as no:
        witness_of(None, own, "x", "people")
    assert "secret" not in f"{no.value} {no.value.hint}"


def test_writers_share_a_turn_only_with_those_who_have_the_same_anchors(path, given):
    """One without a witness would have led for one with it, and moved no mark there."""
    from discreet.ledger._group import group_of

    book = ledger.open_ledger(path, given.policy())
    watched = (*book._anchors, Witness("postgresql://db.example/marks", "people"))
    assert group_of(str(path), "people", book._anchors) is group_of(
        str(path), "people", tuple(book._anchors)
    )
    assert group_of(str(path), "people", book._anchors) is not group_of(
        str(path), "people", watched
    )
