"""An operator's life, by the guide: what a stranger to the software ran into."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet import errors, ledger
from discreet import policy as pol
from discreet._address import address
from discreet.cli._app import app
from discreet.ledger import _anchor, _backup
from discreet.plan import Cost

POLICY = """
[policy]
name = "{name}"
{more}
[budget]
epsilon = "2"
{after}
[tables.people]
source = "people.parquet"
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 115 }}
"""
COUNT = "SELECT COUNT(*) AS n FROM people"
BOOK, ANCHOR = "people.toml.ledger", "people.toml.ledger.anchor"
_NAMES = itertools.count()


def write(name="people", more="", after=""):
    Path(f"{name.split()[0]}.toml").write_text(POLICY.format(name=name, more=more, after=after))


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """Go to a host: a folder with data and a policy, and a state directory."""

    def go(name):
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        monkeypatch.chdir(place)
        monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
        pq.write_table(pa.table({"age": [31, 47]}), "people.parquet")
        return place

    monkeypatch.delenv("DISCREET_LOG", raising=False)
    go("one")
    write()
    return go


def call(*arguments, code=0):
    yes = ["--yes"] * bool({"raise", "close", "new-period"}.intersection(arguments[1:2]))
    done = CliRunner().invoke(app, [*arguments, *yes, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def said(*arguments, code=0):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def ask(price="0.1", *more, code=0):
    return call("ask", COUNT, "-e", price, "--fresh", *more, code=code)


def files(folder):
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def events():
    log = Path("state/discreet/log/discreet.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


# -- the witness ----------------------------------------------------------------------


@pytest.fixture
def watched(postgres_url, monkeypatch):
    """A policy whose witness stands in its file alone."""
    monkeypatch.setenv("PGUSER", "postgres")
    name = f"people {next(_NAMES)} of operators"
    write(name, after=f'[ledger]\nwitness = "{address(postgres_url)}"')
    return name


@pytest.mark.usefixtures("watched")
def test_owners_commands_ask_the_witness_of_the_policy(host):
    ask()
    first = Path.cwd()
    second = host("two")
    for file in ("people.toml", BOOK, ANCHOR):
        shutil.copy(first / file, second)
    host("one")
    call("budget", "close")
    host("two")
    assert "truncated, copied or restored" in ask(code=6)["message"]
    host("one")
    call("budget", "reopen")
    call("ledger", "backup", "kept")
    third = host("three")
    shutil.copy(first / "people.toml", third)
    shutil.copy(first / "kept", third)
    (first / BOOK).unlink()
    restored = call("ledger", "restore", "kept")["result"]
    assert "nothing was lost" in restored["decision"]
    ask()


@pytest.mark.usefixtures("watched")
def test_a_restore_on_a_fresh_host_is_compared_with_the_witness_of_the_policy(host):
    ask()
    call("ledger", "backup", "kept")
    ask()
    first, second = Path.cwd(), host("two")
    for file in ("people.toml", "kept"):
        shutil.copy(first / file, second)
    assert "misses 2 lines" in call("ledger", "restore", "kept", code=6)["message"]
    assert not Path(BOOK).exists()
    call("ledger", "restore", "kept", "--older")
    ask(code=3)


def test_a_witness_is_given_up_by_the_owners_word_alone(watched):
    ask()
    write(watched)  # the line is gone from the policy
    refused = ask(code=6)
    assert "was watched by a witness" in refused["message"]
    assert "discreet ledger adopt" in refused["hint"]
    call("budget", "raise", "-e", "3", code=6)
    adopted = call("ledger", "adopt", "--by", "Ada", "--note", "the server is gone")["result"]
    assert (adopted["entry"]["by"], adopted["entry"]["kind"]) == ("Ada", "adopt")
    ask()


@pytest.mark.usefixtures("watched")
def test_an_owner_without_a_policy_asks_the_witness_that_the_marks_know():
    ask()
    book = ledger.open_ledger(BOOK, purpose="decide")
    assert len(book.marks()) == 3
    assert book.marks()[2].number == 3
    book.close()
    assert book.marks()[2].number == 4


def test_a_restore_asks_for_the_witness_while_nobody_can_move_the_marks(monkeypatch):
    ask()
    call("ledger", "backup", "kept")
    Path(BOOK).unlink()
    locked = _backup.apart

    def late(work):  # another process names a witness just before the marks are locked
        with _anchor.of_user("people").hold(1.0) as own:
            own.move(replace(own.mark, witness="db.example.org/postgres"))
        return locked(work)

    monkeypatch.setattr(_backup, "apart", late)
    assert "was watched by a witness" in call("ledger", "restore", "kept", code=6)["message"]
    assert not Path(BOOK).exists()


def test_the_owner_answers_for_sources_that_a_refusal_can_name():
    ask()
    lines = call("ledger", "verify")["result"]["lines"]
    for word in ("people", "view ", "", "the view people"):
        refused = call("ledger", "vouch", word, code=6)
        assert "is not the name of a source" in refused["message"]
        assert "foreign table NAME" in refused["hint"]
    assert call("ledger", "verify")["result"]["lines"] == lines
    call("ledger", "vouch", "view people")


# -- forgetting -----------------------------------------------------------------------


def test_a_ledger_that_is_there_is_not_forgotten(postgres_url, monkeypatch):
    monkeypatch.setenv("PGUSER", "postgres")
    name = f"people {next(_NAMES)} of operators"
    write(name)
    ask("0.1", "--ledger", postgres_url)
    for named in ([], ["--ledger", postgres_url]):
        refused = call("ledger", "forget", "--fresh-budget", *named, code=6)
        assert "is still there" in refused["message"]
        assert refused["hint"] == "delete the ledger first, if its data are gone too"
    away = "postgresql://nobody@127.0.0.1:1/none"
    refused = call("ledger", "forget", "--fresh-budget", "--ledger", away, code=6)
    assert "cannot be reached" in refused["message"]
    assert "127.0.0.1" in refused["message"]
    call("budget", "--ledger", postgres_url)
    assert not any(e["event"] == "ledger forgotten" for e in events())


def test_a_handle_of_a_forgotten_ledger_spends_from_the_fresh_one_or_not_at_all():
    ask()
    with dc.open(policy="people.toml") as curator:
        Path(BOOK).unlink()
        call("ledger", "forget", "--fresh-budget")
        with pytest.raises(errors.LedgerError):
            curator.sql(COUNT, epsilon="0.1", fresh=True)
        ask()  # a fresh ledger in the same place
        curator.sql(COUNT, epsilon="0.2", fresh=True)
    book = ledger.open_ledger(BOOK, pol.load("people.toml"), purpose="look")
    assert [e.cost.epsilon for e in book.entries] == [Fraction(1, 10), Fraction(1, 5)]
    book.verify()


def test_forgetting_is_in_the_owners_log():
    ask()
    assert "new-period" not in call("ledger", "forget", "--fresh-budget", code=6)["hint"]
    Path(BOOK).unlink()
    call("ledger", "forget", "--fresh-budget")
    assert events()[-1]["event"] == "ledger forgotten"
    assert events()[-1]["policy"] == "people"


# -- looking --------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["verify"], ["health"], ["export"], ["backup", "kept"]])
def test_no_ledger_is_no_ledger_in_order(command):
    refused = call("ledger", *command, code=6)
    assert "there is no ledger at" in refused["message"]
    assert not Path("kept").exists()
    assert not Path(BOOK).exists()
    assert "none yet" in said("budget")


@pytest.mark.parametrize("home", ["state", "another state"])
@pytest.mark.parametrize(
    "command",
    [["ledger", "verify"], ["ledger", "health"], ["ledger", "export"], ["ledger", "backup", "k"],
     ["budget"], ["check"], ["preview", COUNT, "-e", "0.1"], ["ask", COUNT, "-e", "0.1"],
     ["meaning", "-p", "people.toml"], ["budget", "close"]],
)  # fmt: skip
def test_a_ledger_that_is_gone_is_said_to_be_gone(command, home, monkeypatch):
    ask()
    Path(BOOK).unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(Path(home).resolve()))
    refused = call(*command, code=6)
    assert "was there and is gone" in refused["message"]
    assert refused["hint"].startswith("discreet ledger restore FILE")
    assert not Path(BOOK).exists()


def test_an_emptied_database_has_lost_the_ledger(postgres_url):
    import psycopg

    name = f"people {next(_NAMES)} of operators"
    write(name)
    ask("0.1", "--ledger", postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("ALTER TABLE discreet_heads RENAME TO away")
        connection.execute("ALTER TABLE discreet_answers RENAME TO away_too")
    try:
        for command in (["ledger", "verify"], ["budget"], ["budget", "close"]):
            refused = call(*command, "--ledger", postgres_url, code=6)
            assert "was there and is gone" in refused["message"]
    finally:
        with psycopg.connect(postgres_url) as connection:
            connection.execute("ALTER TABLE away RENAME TO discreet_heads")
            connection.execute("ALTER TABLE away_too RENAME TO discreet_answers")
    call("ledger", "verify", "--ledger", postgres_url)


def test_looking_at_a_server_makes_no_ledger(postgres_url):
    name = f"people {next(_NAMES)} of operators"
    write(name)
    assert (
        "there is no ledger"
        in call("ledger", "verify", "--ledger", postgres_url, code=6)["message"]
    )
    assert call("budget", "--ledger", postgres_url)["result"]["ledger"] == ":memory:"
    with pytest.raises(errors.LedgerError, match="there is no ledger"):
        ledger.open_ledger(postgres_url, name, purpose="look")


@pytest.mark.parametrize("damage", ["missing", "garbage"])
@pytest.mark.parametrize("which", ["beside", "user"])
def test_looking_writes_nothing_and_says_what_is_missing(which, damage):
    ask()
    anchor = Path(ANCHOR) if which == "beside" else next(Path("state/discreet").glob("*.anchor"))
    anchor.unlink()
    if damage == "garbage":
        anchor.write_bytes(b"\x00garbage" * 3000)
    before = files(Path.cwd())
    place = 0 if which == "beside" else 1
    assert call("ledger", "health")["result"]["marks"][place] is None
    name = "beside the ledger" if which == "beside" else "in the user's state directory"
    assert call("ledger", "verify")["result"]["missing"] == [f"the anchor {name}"]
    assert f"the anchor {name} is missing" in said("ledger", "verify")
    assert name in said("budget")
    call("check")
    call("preview", COUNT, "-e", "0.1")
    call("ledger", "export")
    assert files(Path.cwd()) == before
    ask()  # a debit writes it anew
    assert call("ledger", "verify")["result"]["missing"] == []


def test_looking_first_claims_no_data():
    call("check")
    call("preview", COUNT, "-e", "0.1")
    assert not Path("state").exists()


# -- whose decision ---------------------------------------------------------------------


def test_a_policy_beside_another_decides_nothing():
    ask()
    write("other", more='beside = "people"')
    call("ledger", "consent", "--to", "other", "-p", "people.toml")
    for command in (
        ["raise", "-e", "9"],
        ["close"],
        ["reopen"],
        ["new-period"],
        ["shares", "a=0.5"],
    ):
        refused = call("budget", *command, "-p", "other.toml", code=6)
        assert "decisions about it are made through that policy" in refused["message"]
    call("ledger", "consent", "--to", "third", "-p", "other.toml", code=6)
    call("ledger", "adopt", "-p", "other.toml", code=6)
    guest = ledger.open_ledger(BOOK, pol.load("other.toml"))
    with pytest.raises(errors.LedgerError, match="through that policy"):
        guest.raise_budget(epsilon="9")
    text = Path("other.toml").read_text().replace('epsilon = "2"', 'epsilon = "9"')
    Path("other.toml").write_text(text)
    hint = call("ask", COUNT, "-e", "0.1", "-p", "other.toml", code=6)["hint"]
    assert hint == 'under [budget], as in people: epsilon = "2"'


def test_a_ledger_in_order_is_not_adopted():
    ask()
    assert "is in order" in call("ledger", "adopt", code=6)["message"]


def test_a_restore_without_marks_is_an_adoption_by_name(host):
    ask()
    call("ledger", "backup", "kept")
    first, second = Path.cwd(), host("two")
    for file in ("people.toml", "kept"):
        shutil.copy(first / file, second)
    restored = call("ledger", "restore", "kept", "--by", "Ada")["result"]
    assert "is adopted" in restored["decision"]
    assert restored["entry"]["by"] == "Ada"


def test_a_restore_of_an_older_backup_says_what_it_means():
    ask()
    call("ledger", "backup", "kept")
    call("budget", "raise", "-e", "5")
    Path(BOOK).unlink()
    restored = call("ledger", "restore", "kept", "--older", "--by", "Ada")["result"]
    assert "all that was left counts as spent" in restored["decision"]
    assert "was raised or a new period begun" in restored["decision"]
    assert restored["entry"]["by"] == "Ada"


def test_ledgers_and_backups_are_for_their_owners_eyes():
    ask()
    call("ledger", "backup", "kept")
    assert {Path(f).stat().st_mode & 0o777 for f in (BOOK, "kept", ANCHOR)} == {0o600}
    assert "no folder" in call("ledger", "backup", "nowhere/kept", code=2)["message"]
    call("ledger", "export", "-o", "lines.csv")
    assert "already exists" in call("ledger", "export", "-o", "lines.csv", code=2)["message"]


def test_check_shows_the_budget_on_record():
    ask()
    call("budget", "raise", "-e", "3")
    checked = call("check")["result"]
    assert "ε = 3" in checked["budget"]
    assert checked["differs"]
    assert "what is on record counts" in said("check")


def test_lost_lines_are_exported_without_made_up_amounts():
    ask()
    call("ledger", "backup", "kept")
    ask()
    Path(BOOK).unlink()
    call("ledger", "restore", "kept", "--older", "--by", "Ada")
    row = call("ledger", "export")["result"]["lines"][-1]
    assert (row["by"], row["noise"], row.get("rho")) == ("Ada", "", None)
    assert "elsewhere: lines" not in said("budget")


def test_a_log_that_cannot_be_written_is_said_once(monkeypatch, capsys):
    Path("file").write_text("in the way")
    monkeypatch.setenv("DISCREET_LOG", str(Path("file/log").resolve()))
    for _ in range(2):
        ledger.open_ledger(BOOK, pol.load("people.toml"))
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_refusals_at_opening_are_in_the_owners_log():
    ask()
    Path(BOOK).unlink()
    ask(code=6)
    assert "was there and is gone" in events()[-1]["said"]


# -- after lines are lost ---------------------------------------------------------------


def lose(after="", spend=("0.1",), share=None):
    """Restore a backup that misses a line."""
    who = () if share is None else ("--analyst", share)
    write(after=after)
    for price in spend:
        ask(price, *who)
    call("ledger", "backup", "kept")
    ask("0.1", *who)
    Path(BOOK).unlink()
    assert "misses" in call("ledger", "restore", "kept", code=6)["message"]
    return call("ledger", "restore", "kept", "--older")["result"]["decision"]


ZCDP = 'delta = "1e-6"\naccounting = "zcdp"'


@pytest.mark.parametrize("after", ["", ZCDP])
def test_a_larger_budget_goes_on_after_lines_are_lost(after):
    lose(after)
    ask("0.01", code=3)
    more = ("--delta", "3e-6") if after else ()
    call("budget", "raise", "--epsilon", "2.5", *more)
    ask("0.51", code=3)
    ask("0.5")
    call("ledger", "verify")


def test_under_zcdp_lost_lines_are_one_release_of_the_whole_budget():
    assert "--delta" in lose(ZCDP)
    entry = call("ledger", "export", "--format", "json")["result"]["lines"][-1]
    amounts = {c: Fraction(entry[c]) for c in ("epsilon", "delta", "rho", "rho_delta")}
    assert amounts["epsilon"] == 2 - Fraction("0.1")
    assert 0 <= amounts["rho"] / Fraction(2 * math.tanh(1)) - 1 < Fraction("1e-4")  # ε·tanh(ε/2)
    assert amounts["delta"] == amounts["rho_delta"] == Fraction("1e-6")
    call("budget", "raise", "--epsilon", "9")
    assert "more δ than it holds" in ask("0.01", code=3)["message"]


def test_no_share_has_more_left_than_the_whole_and_parts_end_at_one():
    lose(f'{ZCDP}\nshares = {{ ana = "0.5", ben = "0.5" }}', share="ana")
    found = call("budget")["result"]
    parts = [found["whole"], *found["analysts"].values()]
    assert len(parts) == 4  # ana, ben, and the unnamed who lost lines
    assert all(Fraction(part["epsilon"]["left"]) < Fraction("1e-9") for part in parts)
    assert all(0 <= part <= 1 for part in call("ledger", "health")["result"]["spent"].values())


def test_health_names_the_way_that_has_more_room():
    write(after=ZCDP)
    ask("1")
    assert call("ledger", "health")["result"]["spent"] == {"epsilon": 0.5, "delta": 0.0}


def test_who_decides_cannot_spend_under_another_budget_than_the_one_on_record():
    ask()
    write(after='delta = "1e-6"')
    other = pol.load("people.toml")
    book = ledger.open_ledger(BOOK, other, purpose="decide")
    cost = Cost(Fraction(1, 10), Fraction(0), Fraction(1, 200), Fraction(0))
    entry = ledger.Entry(
        other.identity, other.fingerprint, None, "p", cost, "[]", "add-remove", None
    )
    lines = len(book.lines)
    with pytest.raises(errors.LedgerError, match="differs from the one on record"):
        book.debit(entry)
    assert len(book.lines) == lines
    book.raise_budget(delta="1e-6", accounting="approx")
    write(after='delta = "1e-6"\naccounting = "approx"')
    same = ledger.open_ledger(BOOK, pol.load("people.toml"), purpose="decide")
    assert same.debit(entry).charged


def test_an_export_says_who_had_the_ledger_before_forgotten():
    ask()
    Path(BOOK).unlink()
    call("ledger", "forget", "--fresh-budget", "--by", "carol")
    ask()
    first = call("ledger", "export", "--format", "json")["result"]["lines"][0]
    assert "of 3 lines, was forgotten by carol" in first["note"]
    assert first["forgotten"][0]["by"] == "carol"
    assert "carol" in said("ledger", "export")


# -- interrupts -------------------------------------------------------------------------


@pytest.mark.parametrize("key", [(), ("--key", "mine")])
def test_an_interrupt_after_the_debit_says_that_it_is_paid_and_how_to_go_on(monkeypatch, key):
    def stop(*_given):
        raise KeyboardInterrupt

    question = ("ask", COUNT, "-e", "0.4", *key)
    with monkeypatch.context() as m:
        m.setattr("discreet.curator._curator.measured", stop)
        done = CliRunner().invoke(app, list(question))
        text = " ".join(done.stderr.split())
        assert done.exit_code == 130
        assert "line 2 has paid for this question" in text
        assert "the same question again" in text
        assert "ε 0.001" in text
        assert ("with the key 'mine'" in text) == bool(key)
        assert "line 2 has paid" in call(*question, code=130)["message"]
    told = said(*question)
    assert "paid before; ε 0.001 charged for the restart" in told
    spent = call("budget")["result"]["whole"]["epsilon"]["spent"]
    assert Fraction(spent) == Fraction("0.402")  # the run in JSON was metered too
    assert "restart" not in said("ask", COUNT, "-e", "0.5")


# -- hints that can be pasted ------------------------------------------------------------


def test_refusals_end_in_a_line_that_works():
    ask()
    call("ledger", "backup", "kept")
    assert call("ledger", "forget", code=6)["hint"] == "discreet ledger forget --fresh-budget"
    call("budget", "close", "people")
    shut = ask(code=6)["hint"]
    assert shut == "discreet budget reopen people"
    call(*shut.split()[1:])
    same = call("budget", "raise", "--epsilon", "2", code=2)
    assert "nothing would change" in same["message"]
    call("ledger", "backup", "latest")
    shutil.copy("latest", BOOK)
    first, second = ask(code=6)["hint"].split("; ")
    _, old, new = first.split()
    shutil.move(old, new)
    assert "nothing was lost" in call(*second.split()[1:])["result"]["decision"]


def test_meaning_finds_the_only_policy(monkeypatch, tmp_path):
    ask()
    assert call("meaning")["result"]["epsilon"] > 0
    monkeypatch.chdir(tmp_path)
    assert "say which ε" in call("meaning", code=2)["message"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_without_their_library_name_it(monkeypatch, library):
    with dc.open("people.parquet", policy="people.toml", ledger=":memory:") as curator:
        answer = curator.sql(COUNT, epsilon="0.1")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(errors.ParameterError, match=f"needs {library}") as no:
        getattr(answer, f"to_{library}")()
    assert no.value.hint == f"pip install {library}"


# -- a server's refusals -------------------------------------------------------------------


def test_a_server_that_denies_is_told_from_one_that_is_away(postgres_url, monkeypatch):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres_url, autocommit=True) as c:
        c.execute("CREATE DATABASE denied")
        c.execute("CREATE ROLE nobodys LOGIN")
    with psycopg.connect(postgres_url.replace("/postgres?", "/denied?"), autocommit=True) as c:
        c.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # as since PostgreSQL 15
    monkeypatch.setenv("PGUSER", "nobodys")
    url = postgres_url.replace("postgres@/postgres?", "/denied?")
    denied = ask("0.1", "--ledger", url, code=6)
    assert "may not read, write or create" in denied["message"]
    assert "GRANT" in denied["hint"]
    away = ask("0.1", "--ledger", url.replace("/denied?", "/nothing_there?"), code=6)
    assert "cannot be reached" in away["message"]


def test_a_restore_says_at_once_that_the_server_still_has_the_ledger(postgres_url):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres_url, autocommit=True) as c:
        c.execute("CREATE DATABASE still")
    url = postgres_url.replace("/postgres?", "/still?")
    write(f"people {next(_NAMES)} of servers")
    ask("0.1", "--ledger", url)
    call("ledger", "backup", "kept", "--ledger", url)
    ask("0.1", "--ledger", url)
    assert "still: nothing" in call("ledger", "restore", "kept", "--ledger", url, code=6)["message"]
    with psycopg.connect(url, autocommit=True) as c:
        c.execute("DROP TABLE discreet_answers, discreet_heads, discreet_lines")
    partly = call("ledger", "restore", "kept", "--older", "--ledger", url, code=6)
    assert "some tables of a ledger are left" in partly["message"]
    with psycopg.connect(url, autocommit=True) as c:
        c.execute(partly["hint"].partition(", if")[0].encode())
    call("ledger", "restore", "kept", "--older", "--ledger", url)


def test_half_of_delta_is_for_debits_and_the_program_says_so():
    write(after=ZCDP)
    assert "5e-07; the other half turns ρ into ε" in said("check")
    assert "Half of the budget's δ turns ρ into ε" in said("budget")
    entering = ("ledger", "external", "model of hospital stays", "--epsilon", "1")
    call(*entering, "--delta", "1e-6", code=3)
    call(*entering, "--delta", "1e-7")  # the guide's


def test_raising_a_budget_needs_a_total_that_is_new(path, given):
    book = ledger.open_ledger(path, given.policy("1"))
    before = book.verify()
    with pytest.raises(errors.ParameterError, match="no new total was stated"):
        book.raise_budget()
    for same in ({"epsilon": "1"}, {"epsilon": 1, "accounting": "pure"}):
        with pytest.raises(errors.ParameterError, match="nothing would change"):
            book.raise_budget(**same)
    with pytest.raises(errors.ParameterError, match="would lower the budget"):
        book.raise_budget(epsilon="0.999999999")
    assert book.verify() == before
    book.raise_budget(epsilon="0.5", lower=True)
    assert book.balance().total == Fraction(1, 2)
    book.raise_budget(epsilon="0.500000001")
    book.raise_budget(epsilon="2", delta="1e-6", accounting="approx")
    book.debit(given.entry("0.1", delta="1e-7"))
    with pytest.raises(errors.ParameterError, match="a δ was spent"):
        book.raise_budget(epsilon="3", delta=0, accounting="pure")
    book.new_period()
    book.raise_budget(epsilon="3", delta=0, accounting="pure")
    book.raise_budget(rho="5", delta="1e-6", accounting="zcdp")
    assert book.balance().currency == "rho"
