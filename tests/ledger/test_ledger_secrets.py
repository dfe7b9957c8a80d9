"""Secrets are not kept, and hostile text is shown, not obeyed."""

from __future__ import annotations

import base64
import json
import re
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import errors
from discreet._address import address
from discreet._text import OBEYED, json_safe
from discreet.cli import _charts, main
from discreet.cli._init import _Draft, draft_text
from discreet.cli._outcome import print_json
from discreet.cli._schema import Field, Schema
from discreet.curator._open import _label
from discreet.ledger._postgres import PostgresStore
from discreet.policy import toml

HOSTILE = "</script><script>document.title=1337</script><!-- &amp; \u2028 \u202e \x9b \x07"


# -- addresses -----------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch):
    """No defaults from the environment."""
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ana:Top#Secret1@127.0.0.1:55432/sec",
        "postgresql://ana:Top?Secret1@127.0.0.1:55432/sec",
        "postgresql://ana:Top%23Secret1@127.0.0.1:55432/sec",
        "postgres://127.0.0.1:55432/sec?user=ana&password=TopSecret1&sslmode=require",
        "postgresql://ana@127.0.0.1:55432/sec?sslpassword=TopSecret1&sslkey=/k&passfile=/Secret1",
        "postgresql://127.0.0.1:55432/sec?application_name=Secret1&options=-csearch_path%3DSecret1",
    ],
)
def test_pg_secret(url):
    """Host, port and database are all that is kept, wherever an address is kept."""
    for kept in (address(url), PostgresStore(url, "x").where, _label(url)):
        assert kept == "postgresql://127.0.0.1:55432/sec"


@pytest.mark.usefixtures("bare")
def test_addresses_of_every_shape(monkeypatch):
    assert address("postgresql:///clinic?host=/run/pg") == "postgresql:///clinic?host=/run/pg"
    assert address("postgresql://a:1,b:2/c") == "postgresql:///c?host=a,b&port=1,2"
    assert address("postgresql://[::1]:5/c") == "postgresql:///c?host=%3A%3A1&port=5"
    # libpq takes the user's name for the database's when none is given
    assert address("postgresql://ana:x@db") == "postgresql://db/ana"
    assert address("postgresql://db/a%2Fb%20c") == "postgresql://db/a%2Fb%20c"
    monkeypatch.setenv("PGHOST", "other")
    assert address("postgresql:///clinic") == "postgresql://other/clinic"
    assert address("duckdb://ana:x@h/file?token=x#y") == "duckdb://h/file"
    for kept in ("postgresql:///clinic?host=/run/pg", "postgresql://db:5/a%2Fb"):
        assert address(kept) == kept


@pytest.mark.parametrize(
    "url", ["postgresql://ana:Top/Secret1@h/db", "postgresql://h/db?nonsense=Secret1"]
)
def test_what_libpq_does_not_read_is_refused_without_repeating_it(url):
    with pytest.raises(errors.ParameterError) as refused:
        address(url)
    assert "Secret1" not in str(refused.value)
    error = refused.value
    assert error.__context__ is None or error.__suppress_context__


# -- charts --------------------------------------------------------------------------------


def spec():
    """A chart with a hostile label."""
    return {"data": {"values": [{"sex": HOSTILE, "n": 1}]}, "mark": "bar", "title": HOSTILE}


def drawn(tmp_path):
    pytest.importorskip("vl_convert")
    _charts.draw(spec(), tmp_path / "c.html")
    return (tmp_path / "c.html").read_text("utf-8")


def test_x_chart2(tmp_path):
    """A label is text inside an image: no script gets into the page."""
    page = drawn(tmp_path)
    assert "1337" not in page
    assert "<script" not in page
    (image,) = re.findall(r'src="data:image/svg[+]xml;base64,([A-Za-z0-9+/=]*)"', page)
    svg = base64.b64decode(image).decode()
    assert "document.title=1337" in svg  # as text, behind escaped brackets
    assert "<script" not in svg


def test_nothing_may_run_in_a_page(tmp_path):
    page = drawn(tmp_path)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert rules == {"img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}


# -- drafts --------------------------------------------------------------------------------

INJECTED = 'a\n[tables.clinic]\nsource = "x"\npublic = true\n[tables.clinic.columns]\nb = {}\n# '


@pytest.mark.parametrize("where", ["type", "column", "table", "source", "unit"])
def test_x_cli(where):
    """Names and types from a file cannot add to the policy that is drafted from it."""
    name = INJECTED if where in ("column", "unit") else "age"
    table = INJECTED if where == "table" else "people"
    source = INJECTED if where == "source" else "people.parquet"
    for kind in ("integer", "text", "boolean", "other", None):
        native = f"STRUCT({INJECTED} INTEGER)" if where == "type" else "int64"
        schema = Schema(table, (Field(name, kind, native), Field("id", "integer", "int64")))
        draft = _Draft(schema, INJECTED if where == "unit" else "id")
        read = tomllib.loads(draft_text([draft], source, "1", None, None))
        assert set(read) == {"policy", "budget", "tables"}
        assert read["policy"] == {"name": "policy"}
        assert list(read["tables"]) == [table]
        assert set(read["tables"][table]) <= {"source", "unit", "max_rows_per_unit", "columns"}
        assert set(read["tables"][table]["columns"]) <= {name, "id"}


@pytest.mark.parametrize(
    ("native", "said"),
    [
        ("ENUM('HIV+', 'rare illness of Mr X')", "ENUM"),
        ("STRUCT(street VARCHAR)", "STRUCT"),
        ("struct<street: string>", "struct"),
        ("DECIMAL(9,2)", "DECIMAL(9,2)"),
        ("timestamp[us, tz=UTC]", "timestamp"),
        ("date32[day]", "date32[day]"),
        ("character varying", "character varying"),
        ("\x1b[2J", "this type"),
    ],
)
def test_types_are_named_without_labels_and_fields(native, said):
    schema = Schema("t", (Field("c", "text", native),))
    text = draft_text([_Draft(schema, "row")], "t.parquet", "1", None, None)
    assert text.rstrip().endswith(f"if its values cannot be listed: {said}")


# -- what a terminal obeys ---------------------------------------------------------------------


def test_json_holds_nothing_that_a_terminal_obeys(capsys):
    print_json({"label": HOSTILE, HOSTILE: ["é…ε"]})
    out = capsys.readouterr().out
    assert OBEYED.search(out) is None
    assert all(c == "\n" or c.isprintable() for c in out)
    assert "é…ε" in out
    assert json.loads(out) == {"label": HOSTILE, HOSTILE: ["é…ε"]}


def test_every_character_that_steers_is_escaped():
    for code in (
        *range(0x7F, 0xA0),
        0x061C,
        0x200B,
        0x200E,
        0x2028,
        0x202A,
        0x202E,
        0x2066,
        0xFEFF,
    ):
        text = json.dumps(chr(code), ensure_ascii=False)
        assert json_safe(text) == f'"\\u{code:04x}"'
        assert json.loads(json_safe(text)) == chr(code)
        assert tomllib.loads(f"x = {toml.string(chr(code))}") == {"x": chr(code)}
        assert toml.string(chr(code)).isascii()


def test_source_and_ledger_may_come_from_the_environment(tmp_path, monkeypatch, capsys):
    """A URL with a password on a command line is seen by every user of the machine."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"age": [31, 47]}), tmp_path / "data.parquet")
    columns = '[tables.people.columns]\nage = { type = "integer", min = 0, max = 115 }\n'
    (tmp_path / "p.toml").write_text(f'[budget]\nepsilon = "2"\n[tables.people]\n{columns}')
    monkeypatch.setenv("DISCREET_SOURCE", "data.parquet")
    monkeypatch.setenv("DISCREET_LEDGER", str(tmp_path / "here.ledger"))
    with pytest.raises(SystemExit) as left:
        main(["ask", "SELECT COUNT(*) AS n FROM people", "-e", "1", "-p", "p.toml", "--json"])
    assert left.value.code == 0, capsys.readouterr()
    assert (tmp_path / "here.ledger").exists()
    assert not (tmp_path / "p.toml.ledger").exists()
