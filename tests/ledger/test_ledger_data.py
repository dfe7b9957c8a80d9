"""Budgets belong to data: a second policy over one source is seen."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet import ledger
from discreet.cli._budget import _description
from discreet.engines._postgres import PostgresEngine
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


UNIT = 'source = "people.parquet"\nunit = "age"\nmax_rows_per_unit = 1'


def edited(path, *changes):
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_a_guest_protects_whom_its_host_protects(folder):
    first, second = policy(folder, "first"), policy(folder, "second", 'beside = "first"')
    with dc.open(policy=first) as curator:
        curator.ledger.consent("second")
    own = 'source = "people.parquet"'
    edited(second, (own, UNIT))
    with pytest.raises(LedgerIntegrityError, match="protects add-remove of age, but the budget of"):
        dc.open(policy=second)
    edited(second, (UNIT, own + '\nneighbours = "change-one"'))
    with pytest.raises(LedgerIntegrityError, match="do not add up"):
        dc.open(policy=second)
    # a table of another name is held to the same
    edited(second, ("tables.people", "tables.persons"))
    with pytest.raises(LedgerIntegrityError, match="do not add up"):
        dc.open(policy=second)
    edited(second, ('neighbours = "change-one"', ""))
    with dc.open(policy=second) as beside:
        beside.sql("SELECT COUNT(*) AS n FROM persons", epsilon="0.1")
    # and the host keeps to what its guests agreed to, until consent is put on record anew
    edited(first, (own, UNIT))
    with pytest.raises(LedgerIntegrityError, match="its guests agreed to"):
        dc.open(policy=first)
    ledger.open_ledger(f"{first}.ledger", dc.policy.load(first), purpose="decide").consent("second")
    with dc.open(policy=first) as again:
        assert again.ledger.verify().debits == 1
    with pytest.raises(LedgerIntegrityError, match="protects add-remove of a row, but the budget"):
        dc.open(policy=second)


def test_consent_needs_the_policy_that_says_whom_it_protects(folder):
    first = policy(folder, "first")
    with dc.open(policy=first):
        pass
    with pytest.raises(dc.errors.LedgerError, match="whom the budget protects"):
        ledger.open_ledger(f"{first}.ledger").consent("second")


def test_a_guest_pays_at_least_what_the_record_says(folder):
    first, second = policy(folder, "first"), policy(folder, "second", 'beside = "first"')
    edited(first, ('epsilon = "2"', 'epsilon = "2"\nminimum = "0.05"'))
    with dc.open(policy=first) as curator:
        curator.ledger.consent("second")
    for lower in ("", '\nminimum = "0.001"'):
        edited(second, ('epsilon = "2"', f'epsilon = "2"{lower}'))
        with dc.open(policy=second) as beside:
            before = beside.budget.left["epsilon"]
            beside.sql(COUNT, epsilon="0.01", fresh=True)
            assert before - beside.budget.left["epsilon"] == Fraction("0.05")


def test_a_policy_that_gets_its_name_late_keeps_its_budget(folder):
    """Its ledger belongs to the hash that it had; what the refusals say leads on."""
    path = edited(policy(folder, "late"), ('name = "late"', ""))
    with dc.open(policy=path) as curator:
        curator.sql(COUNT, epsilon=1)
        owner = curator.ledger.identity
    assert owner.startswith("sha256:")
    edited(path, ("[policy]", '[policy]\nname = "late"'))
    book = f"{path}.ledger"
    uses = (dc.open, lambda policy: ledger.open_ledger(book, dc.policy.load(policy)))
    for use in uses:
        with pytest.raises(LedgerIntegrityError) as no:
            use(policy=path)
        assert no.value.hint == f'beside = "{owner}" under [policy]'
    edited(path, ('name = "late"', f'name = "late"\nbeside = "{owner}"'))
    with dc.open(policy=path) as curator:
        assert curator.budget.left["epsilon"] == 1
        curator.sql(COUNT, epsilon="0.5", fresh=True)
        curator.ledger.raise_budget(epsilon=3)  # it is its owner's, whatever it is called
        curator.ledger.consent("late")
    # with consent on record it may say what it likes: the source moves
    (folder / "people.parquet").rename(folder / "moved.parquet")
    edited(path, ("people.parquet", "moved.parquet"), ('epsilon = "2"', 'epsilon = "3"'))
    with dc.open(policy=path) as moved:
        assert moved.budget.left["epsilon"] == Fraction("1.5")


def test_a_fresh_budget_is_on_record(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = policy(folder, "first")
    for n in range(1, 3):
        with dc.open(policy=path) as curator:
            curator.sql(COUNT, epsilon=1)
            end = curator.ledger.lines[-1]
        Path(f"{path}.ledger").unlink()
        ledger.forget("first", fresh_budget=True, by="Ada")
        with dc.open(policy=path) as curator:
            past = curator.ledger.lines[0].content["forgotten"]
            assert [(p["by"], p["lines"]) for p in past] == [("Ada", 3)] * n
            assert past[-1]["head"] == end.hash
            assert f"a fresh budget: {n} earlier ledger" in _description(curator.ledger.lines[0])
    log = tmp_path / "state" / "discreet" / "log" / "discreet.jsonl"
    assert log.read_text().count("ledger forgotten") == 2


# -- data that could be charged twice unseen ----------------------------------------------------

CONNECTED = dc.policy.loads(POLICY.format(name="connected", beside=""))


def refused(source, book, what, policy=CONNECTED):
    """A source is refused by name, leaves nothing, and is opened on the owner's word."""
    with pytest.raises(LedgerIntegrityError, match="cannot be seen") as no:
        dc.open(source, policy, ledger=book)
    assert no.value.hint.shell().split(maxsplit=3)[:3] == ["discreet", "ledger", "vouch"]
    assert not Path(book).exists()
    other = ledger.open_ledger(book, policy, purpose="decide")
    other.vouch("view something_else")
    with pytest.raises(LedgerIntegrityError, match=what):
        dc.open(source, policy, ledger=book)
    other.vouch(what, by="Ada", note="nobody else reads it")
    with dc.open(source, policy, ledger=book) as curator:
        assert curator.ledger.lines[-1].content["source"] == what
        assert curator.ledger.verify().lines == 3
        assert "answers for" in _description(curator.ledger.lines[-1])


@pytest.mark.parametrize(
    "view",
    [
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_parquet(['{file}'])",
        "SELECT age FROM below WHERE age > 3",
        "WITH a AS (SELECT * FROM '{file}') SELECT * FROM a UNION ALL SELECT 5",
        "SELECT * FROM stored WHERE age IN (SELECT age FROM '{file}')",
    ],
)
def test_a_view_over_files_on_a_connection_needs_its_owner_s_word(folder, view):
    """The file may have a budget under another policy: a view did not say so."""
    file = folder / "people.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW below AS SELECT * FROM '{file}'")
        connection.execute("CREATE TABLE stored AS SELECT 31 AS age")
        connection.execute(f"CREATE VIEW people AS {view.format(file=file)}")
        refused(connection, folder / "book", "view people")


def test_views_over_what_a_connection_holds_are_open(folder):
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE stored AS SELECT 31 AS age")
        connection.register("frame", pa.table({"age": [5]}))
        connection.execute(
            "CREATE TEMP VIEW people AS SELECT * FROM stored UNION ALL SELECT * FROM frame"
            " UNION ALL SELECT unnest([3, 4])::INTEGER"
        )
        with dc.open(connection, CONNECTED, ledger=folder / "book") as curator:
            curator.sql(COUNT, epsilon=1)


@pytest.fixture
def database(postgres_url):
    """A database of its own, and a role in it that is nobody special."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as c:
        c.execute("DROP DATABASE IF EXISTS unseen")
        c.execute("DROP ROLE IF EXISTS plain")
        c.execute("CREATE DATABASE unseen")
        c.execute("CREATE ROLE plain LOGIN")
    url = postgres_url.replace("/postgres?", "/unseen?")
    with psycopg.connect(url, autocommit=True) as c:
        c.execute("CREATE TABLE people (age integer)")
        c.execute("GRANT SELECT ON people TO plain")
        yield c, url


def test_a_server_that_hides_its_identity_needs_its_owner_s_word(database, folder):
    """It was known by its address alone, which has many spellings."""
    import psycopg

    owner, url = database
    with psycopg.connect(url, user="plain", autocommit=True) as connection:
        with dc.open(connection, CONNECTED, ledger=":memory:") as curator:
            assert curator.ledger.state.vouched == ()
        owner.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        named = dc.policy.loads(POLICY.format(name="hidden", beside=""))
        refused(connection, folder / "book", "a server that hides its identity", named)


@pytest.mark.parametrize("way", ["itself", "partition", "view", "view of a view"])
def test_a_foreign_table_needs_its_owner_s_word(database, folder, monkeypatch, way):
    """Its rows are another server's, where they may have a budget."""
    owner, _ = database
    # no wrapper with a handler is at hand: what is read is not the question here
    monkeypatch.setattr(PostgresEngine, "_read_through", lambda *_: None)
    owner.execute("DROP TABLE people")
    owner.execute("CREATE FOREIGN DATA WRAPPER elsewhere")
    owner.execute("CREATE SERVER other FOREIGN DATA WRAPPER elsewhere")
    name = "people" if way == "itself" else "below"
    if way == "partition":
        owner.execute("CREATE TABLE people (age integer) PARTITION BY RANGE (age)")
        owner.execute(
            "CREATE FOREIGN TABLE below PARTITION OF people FOR VALUES FROM (0) TO (9) SERVER other"
        )
    else:
        owner.execute(f"CREATE FOREIGN TABLE {name} (age integer) SERVER other")
    if way == "view of a view":
        owner.execute("CREATE VIEW between AS SELECT * FROM below")
        owner.execute("CREATE VIEW people AS SELECT * FROM between")
    if way == "view":
        owner.execute("CREATE VIEW people AS SELECT * FROM below")
    named = dc.policy.loads(POLICY.format(name=f"foreign {way}", beside=""))
    refused(owner, folder / "book", "foreign table people", named)
