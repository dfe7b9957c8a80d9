"""A thief's review of the ledger: each theft, refused."""

from __future__ import annotations

import os
import signal
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet import errors, ledger, privacy
from discreet.cli._app import app
from discreet.curator import _road

POLICY = """
[policy]
name = "{name}"
{more}
[budget]
{budget}
[tables.people]
source = "p.csv"
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 100 }}
"""
COUNT, BOOK = "SELECT COUNT(*) AS n FROM people", "p.toml.ledger"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("p.csv").write_text("age\n31\n47\n")
    return write


def write(budget='epsilon = "1"', name="people", more="", file="p.toml"):
    Path(file).write_text(POLICY.format(budget=budget, name=name, more=more))


def killed(**question):
    """Kill a run at the moment it begins, after the durable debit."""
    child = os.fork()
    if child == 0:
        _road.conceal_errors = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
        with dc.open(None, "p.toml") as curator:
            curator.sql(COUNT, **question)
        os._exit(1)
    os.waitpid(child, 0)


@pytest.mark.races
def test_runs_that_were_killed_are_not_saved_up_over_periods(place):
    place()
    for i in range(2):
        killed(epsilon="0.99", key=f"k{i}")
        ledger.open_ledger(BOOK).new_period()
    with dc.open(None, "p.toml") as curator:
        for i in range(2):
            with pytest.raises(errors.IdempotencyError, match="earlier period"):
                curator.sql(COUNT, epsilon="0.99", key=f"k{i}")
        assert curator.budget.spent["epsilon"] == 0


def test_a_key_gives_no_answer_about_another_period_or_file(place):
    place()
    Path("o.csv").write_text("age\n4\n")
    with dc.open(None, "p.toml") as curator:
        curator.sql(COUNT, epsilon="0.1", key="K")
        assert curator.sql(COUNT, epsilon="0.1", key="K").cached
    with (
        dc.open({"people": "o.csv"}, "p.toml") as curator,
        pytest.raises(errors.IdempotencyError, match="source"),
    ):
        curator.sql(COUNT, epsilon="0.1", key="K")
    ledger.open_ledger(BOOK).new_period()
    with dc.open(None, "p.toml") as curator, pytest.raises(errors.IdempotencyError):
        curator.sql(COUNT, epsilon="0.1", key="K")


def test_the_floor_follows_the_budget_on_record(place):
    place('epsilon = "1"\ndelta = "1e-6"\naccounting = "approx"')
    with dc.open(None, "p.toml") as curator:
        curator.sql(COUNT, epsilon="0.1")
        ledger.open_ledger(BOOK).raise_budget(rho="0.5", accounting="zcdp")
        before = curator.ledger.balance().amounts["rho"][0]
        curator.sql(COUNT, epsilon="1e-9", fresh=True)
        spent, total = curator.ledger.balance().amounts["rho"]
        assert spent - before >= total / 1000


def test_a_guest_sets_no_lower_floor(place):
    place('epsilon = "1"\nminimum = "0.01"')
    with dc.open(None, "p.toml") as curator:
        curator.sql(COUNT, epsilon="0.1")
        curator.ledger.consent("other")
        spent = curator.budget.spent["epsilon"]
    place('epsilon = "1"\nminimum = "0.000001"', "other", 'beside = "people"', "o.toml")
    with dc.open(None, "o.toml") as curator:
        curator.sql(COUNT, epsilon="0.00001", fresh=True)
        assert curator.budget.spent["epsilon"] - spent >= Fraction(1, 100)


def test_roles_of_one_database_share_one_ledger_and_one_witness(place, postgres_url):
    import psycopg

    place(name="roles of thieves")
    policy = dc.policy.load("p.toml")
    own = f"{postgres_url}&options=-csearch_path%3Dthief"
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS thief")
    ledger.open_ledger(postgres_url, policy).close()
    assert ledger.open_ledger(own, policy).state.closed == ("*",)
    from discreet.ledger._witness import Witness

    for url in (postgres_url, own):
        with Witness(url, policy.identity).hold(5) as held:
            mark = held.mark
            held.move(mark or ledger.open_ledger(own, policy).marks()[0])
    assert mark is not None  # the second role has found what the first one wrote


@pytest.mark.parametrize(
    "where",
    ["postgresql+psycopg://ana:s3cret@h/db", "POSTGRESQL://ana:s3cret@h/db", "psql://ana:s3cret@h/d",
     " postgresql://ana:s3cret@h/db", "host=h user=ana password=s3cret"],
)  # fmt: skip
def test_what_is_meant_for_a_server_becomes_no_file(place, where):
    place()
    with pytest.raises(errors.ParameterError) as no:
        dc.open(None, "p.toml", ledger=where)
    assert "s3cret" not in str(no.value)
    assert not [p for p in Path().rglob("*") if "s3cret" in str(p)]


def test_a_backup_is_no_ledger(place):
    place()
    with dc.open(None, "p.toml") as curator:
        curator.sql(COUNT, epsilon="0.1")
        ledger.backup(curator.ledger, "kept")
    with pytest.raises(errors.LedgerIntegrityError, match="is a backup"):
        dc.open(None, "p.toml", ledger="kept")
    Path("kept").rename(BOOK)
    with pytest.raises(errors.LedgerIntegrityError, match="is a backup"):
        dc.open(None, "p.toml")


def test_nothing_is_restored_beside_a_ledger_that_is_alive(place, postgres_url, monkeypatch):
    monkeypatch.setenv("PGUSER", "postgres")
    place(name="alive")
    policy = dc.policy.load("p.toml")
    ledger.backup(ledger.open_ledger(postgres_url, policy), "kept")
    with pytest.raises(errors.LedgerError, match="nothing to restore"):
        ledger.restore("kept", BOOK, policy=policy)
    monkeypatch.setenv("PGUSER", "nobody")
    with pytest.raises(errors.LedgerError, match="cannot be reached"):
        ledger.restore("kept", BOOK, policy=policy)
    # on the owner's word it is lost, and all that was left counts as spent
    assert ledger.restore("kept", BOOK, policy=policy, older=True).balance().left("epsilon") == 0
    place(name="alive in a file")
    policy = dc.policy.load("p.toml")
    ledger.backup(ledger.open_ledger("file", policy), "kept too")
    with pytest.raises(errors.LedgerError, match="nothing to restore"):
        ledger.restore("kept too", postgres_url, policy=policy)


def test_a_spent_delta_is_not_forgotten_by_pure_accounting(place):
    place('epsilon = "1"\ndelta = "1e-6"')
    with dc.open(None, "p.toml") as curator:
        curator.record_external(privacy.Approx("0.1", "1e-7"), what="a model")
        with pytest.raises(errors.ParameterError, match="a δ was spent"):
            curator.ledger.raise_budget(epsilon="2", delta="0", accounting="pure")


def test_losses_without_a_price_and_names_without_an_end_are_refused(place):
    place('epsilon = "1"\ndelta = "1e-6"')
    with dc.open(None, "p.toml") as curator:
        with pytest.raises(errors.DiscreetError):
            curator.record_external(privacy.Gaussian("1e200"), what="x", delta="1e-9")
        with pytest.raises(errors.DiscreetError):
            curator.record_external(privacy.Zcdp("0.0001", "1e-9"), what="x", delta="1e-9")
    with (
        dc.open(None, "p.toml", analyst="a" * 300) as curator,
        pytest.raises(errors.ParameterError, match="at most 200"),
    ):
        curator.sql(COUNT, epsilon="0.1")


def test_a_loss_from_elsewhere_is_never_stated_smaller(place):
    place()
    with (
        dc.open(None, "p.toml") as curator,
        pytest.raises(errors.BudgetExceededError, match="this loss costs") as no,
    ):
        curator.record_external(privacy.Pure("3"), what="a model")
    assert no.value.hint.startswith("do not release it")


def test_what_a_hint_says_fits_when_it_is_pasted(place):
    place('epsilon = "1/3"')
    with dc.open(None, "p.toml") as curator:
        curator.sql(COUNT, epsilon="0.123456789123")
        with pytest.raises(errors.BudgetExceededError) as no:
            curator.sql(COUNT, epsilon="0.3")
        curator.sql(COUNT, epsilon=dict(no.value.hint.parameters)["epsilon"])


@pytest.mark.parametrize(
    "source",
    ["mysql://u:S3cret@h/db", "s3://k:S3cret@b/x.parquet", "https://h/x.csv?sig=S3cret",
     "host=h password=S3cret dbname=x"],
)  # fmt: skip
def test_a_source_that_may_hold_a_password_is_not_shown(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").write_text(
        '[policy]\nname = "passwords"\n[budget]\nepsilon = "1"\n[tables.people]\n'
        '[tables.people.columns]\nage = { type = "integer", min = 0, max = 9 }\n'
    )
    for words in (["init", source], ["check", "p.toml", "--source", source]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code != 0
        assert "S3cret" not in done.output
