"""Budgets belong to data: a second policy over one source is seen."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.errors import LedgerIntegrityError

POLICY = """
[policy]
name = "{name}"
{beside}
[budget]
epsilon = "2"
[tables.people]
source = "people.parquet"
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 115 }}
"""
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture
def folder(tmp_path):
    pq.write_table(pa.table({"age": [31, 47]}), tmp_path / "people.parquet")
    return tmp_path


def policy(folder, name, beside=""):
    path = folder / f"{name}.toml"
    path.write_text(POLICY.format(name=name, beside=beside))
    return path


def test_a_second_policy_over_one_source_is_refused(folder):
    """Another name over the same file was a fresh budget, and nothing noticed."""
    with dc.open(policy=policy(folder, "first")) as curator:
        curator.sql(COUNT, epsilon=2)
    with pytest.raises(LedgerIntegrityError, match="under policy 'first'"):
        dc.open(policy=policy(folder, "second"))
    # by another path, and given as the source instead of the policy's own
    link = folder / "link.parquet"
    link.symlink_to(folder / "people.parquet")
    with pytest.raises(LedgerIntegrityError, match="under policy 'first'"):
        dc.open(link, policy=policy(folder, "second"))
    with dc.open(policy=policy(folder, "first")) as again:
        assert again.budget.left["epsilon"] == 0


def test_two_policies_share_one_cap_with_the_owner_s_consent(folder):
    first, second = policy(folder, "first"), policy(folder, "second", 'beside = "first"')
    with dc.open(policy=first) as curator:
        curator.sql(COUNT, epsilon=1)
        with pytest.raises(LedgerIntegrityError, match="has not consented") as no:
            dc.open(policy=second)
        assert no.value.hint.shell() == "discreet ledger consent --to second"
        curator.ledger.consent("second", by="Ada", note="a second reading")
    with dc.open(policy=second) as beside:
        assert beside.budget.left["epsilon"] == 1
        beside.sql(COUNT, epsilon=1, fresh=True)
        with pytest.raises(dc.errors.BudgetExceededError):
            beside.sql(COUNT, epsilon="0.1")
        line = beside.ledger.lines[-2]
        assert line.content["fingerprint"] == dc.policy.load(second).fingerprint
    with dc.open(policy=first) as again:
        assert again.budget.left["epsilon"] == 0
        assert again.ledger.verify().debits == 2
    assert not (folder / "second.toml.ledger").exists()
    with pytest.raises(LedgerIntegrityError, match="has not consented"):
        dc.open(policy=policy(folder, "third", 'beside = "first"'))


def test_a_policy_beside_one_without_a_ledger_is_refused(folder):
    with pytest.raises(LedgerIntegrityError, match="no ledger of policy 'first'"):
        dc.open(policy=policy(folder, "second", 'beside = "first"'))


def test_what_is_written_holds_names_and_a_hash_only(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with dc.open(policy=policy(folder, "first")):
        pass
    for file in (tmp_path / "state" / "discreet" / "data").iterdir():
        assert file.read_text() == "first\n"
        assert "people" not in file.name


def test_other_sources_are_free(folder):
    with dc.open(policy=policy(folder, "first")):
        pass
    pq.write_table(pa.table({"age": [5]}), folder / "other.parquet")
    with dc.open(folder / "other.parquet", policy=policy(folder, "third")):
        pass


def test_policies_that_name_others_are_written_back(folder):
    path = policy(folder, "second", 'beside = "first"\n[ledger]\nwitness = "postgresql://db/marks"')
    loaded = dc.policy.load(path)
    assert (loaded.beside, loaded.payer, loaded.identity) == ("first", "first", "second")
    assert loaded.witness == "postgresql://db/marks"
    assert dc.policy.loads(loaded.to_toml()) == loaded
    for bad in (
        'beside = ["first"]',
        '[ledger]\nwitness = "db"',
        '[ledger]\nwitness = "postgresql://me:secret@db/marks"',
        "[ledger]\nwitnes = 3",
    ):
        with pytest.raises(dc.errors.PolicyError) as no:
            dc.policy.load(policy(folder, "fourth", bad))
        assert "secret" not in str(no.value)
