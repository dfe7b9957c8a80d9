"""Drafting a policy: from names and types alone, finished by its owner."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet import policy as pol
from discreet.cli import app
from discreet.cli._init import _Draft, _interview, draft_text
from discreet.cli._schema import Field, Schema, kind_of, read_schemas

SECRET = "zebra"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own, the current one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def draft(*arguments, code=0):
    result = CliRunner().invoke(app, ["init", *arguments, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def parquet(path="people.parquet"):
    columns = {
        "person_id": pa.array([7], pa.int64()),
        "age": pa.array([83], pa.int16()),
        "pay": pa.array([123456.78], pa.float64()),
        "illness": pa.array([SECRET]),
        "born": pa.array([4000], pa.date32()),
        "seen": pa.array([0], pa.timestamp("us")),
        "ok": pa.array([True]),
        "raw": pa.array([b"x"]),
        "home town": pa.array([SECRET]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), path)


def test_a_draft_holds_names_and_types_and_no_value(folder):
    parquet()
    told = draft("people.parquet")["result"]
    text = (folder / "people.toml").read_text("utf-8")
    assert told["text"] == text
    assert not told["complete"]
    for value in (SECRET, "83", "123456", "1980"):
        assert value not in text
    parsed = tomllib.loads(text)
    assert parsed["tables"]["people"]["source"] == "people.parquet"
    assert set(parsed["tables"]["people"]["columns"]) == {"ok"}
    for line in (
        '# age = { type = "integer", min = …, max = … }  # int16',
        '# pay = { type = "real", min = …, max = …, step = … }  # double',
        '# illness = { type = "category", values = […] }',
        '# born = { type = "date", min = …, max = … }  # date32[day]',
        '# "home town" = { type = "category", values = […] }',
        "# raw: binary cannot be asked about",
    ):
        assert line in text.splitlines()


def test_a_draft_without_a_unit_is_refused_by_check(folder):
    parquet()
    draft("people.parquet")
    result = CliRunner().invoke(app, ["check", "people.toml", "--json"])
    told = json.loads(result.stdout)
    assert result.exit_code == 4
    assert "unit must name the column" in told["message"]
    line = (folder / "people.toml").read_text("utf-8").splitlines()[told["line"] - 1]
    assert line == 'unit = ""'


def test_a_draft_with_a_unit_can_be_used_at_once():
    parquet()
    draft("people.parquet", "--unit", "person_id", "--max-rows", "3", "-e", "2", "-d", "1e-6")
    assert CliRunner().invoke(app, ["check"]).exit_code == 0
    policy = pol.load("people.toml")
    assert policy.table("people").max_rows_per_unit == 3
    assert policy.budget.delta == pol.Budget("2", delta="1e-6").delta


def test_check_names_what_a_draft_leaves_blank():
    parquet()
    draft("people.parquet", "--unit", "person_id", "--max-rows", "3")
    told = json.loads(CliRunner().invoke(app, ["check", "--json"]).stdout)["result"]
    names = ["age", "pay", "illness", "born", "seen", "home town"]
    assert told["blanks"] == names
    shown = " ".join(CliRunner().invoke(app, ["check"]).stdout.split())
    assert "6 columns of the draft are still to be filled in" in shown
    assert ", ".join(names) in shown
    filled = Path("people.toml").read_text("utf-8").replace("# age", "age").replace("…", "1", 2)
    Path("people.toml").write_text(filled.replace("max = 1", "max = 99", 1), "utf-8")
    told = json.loads(CliRunner().invoke(app, ["check", "--json"]).stdout)["result"]
    assert told["blanks"] == names[1:]


def test_values_are_never_read_from_parquet_files(monkeypatch):
    parquet()

    def read(*_, **__):
        raise AssertionError("values were read")

    for name in ("read_table", "read_pandas", "ParquetDataset"):
        monkeypatch.setattr(pq, name, read)
    monkeypatch.setattr(pq.ParquetFile, "read", read)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read)
    draft("people.parquet")


def test_only_the_first_line_of_a_csv_file_is_read(folder):
    (folder / "visits.csv").write_text(f'id,"home town",age\n1,{SECRET},83\n', "utf-8")
    told = draft("visits.csv")["result"]
    assert told["tables"] == {"visits": ["id", "home town", "age"]}
    assert SECRET not in told["text"]
    assert "category, integer, real, date, timestamp, boolean or text" in told["text"]


def test_a_csv_file_without_header_is_not_quoted(folder):
    (folder / "visits.csv").write_text(f"1,{SECRET},83\n", "utf-8")
    told = draft("visits.csv", code=2)
    assert SECRET not in json.dumps(told)
    assert "looks like a row" in told["message"]


def test_databases_give_all_their_tables_or_the_named_ones(folder):
    with duckdb.connect("clinic.duckdb") as connection:
        connection.execute("CREATE TABLE people (patient_id BIGINT, pay DECIMAL(9, 2))")
        connection.execute(f"INSERT INTO people VALUES (1, 2); CREATE TABLE {SECRET}s (a VARCHAR)")
    told = draft("clinic.duckdb")["result"]
    assert set(told["tables"]) == {"people", f"{SECRET}s"}
    assert "Perhaps 'patient_id', by its name" in told["text"]
    one = draft("clinic.duckdb", "-t", "people", "-o", "-")["result"]
    assert set(one["tables"]) == {"people"}
    assert "# pay = { type" in one["text"]
    assert draft("clinic.duckdb", "-t", "nobody", "-o", "-", code=2)["hint"].startswith("--table")
    draft("clinic.duckdb", "--unit", "nobody", "--force", code=2)
    (folder / "damaged.duckdb").write_bytes(SECRET.encode())
    assert SECRET not in json.dumps(draft("damaged.duckdb", code=2))


def test_a_policy_that_is_there_is_kept(folder):
    parquet()
    (folder / "people.toml").write_text("mine", "utf-8")
    told = draft("people.parquet", code=2)
    assert "--force" in told["hint"]
    assert (folder / "people.toml").read_text("utf-8") == "mine"
    draft("people.parquet", "--force")
    draft("people.parquet", "-o", "other.toml")
    assert (folder / "other.toml").exists()


def test_passwords_stay_out_of_policies():
    told = draft("postgresql://ana:s3cret@127.0.0.1:1/clinic?connect_timeout=1", code=2)
    assert "s3cret" not in json.dumps(told)


@pytest.mark.parametrize(
    ("native", "kind"),
    [
        ("int64", "integer"), ("UBIGINT", "integer"), ("double", "real"), ("DECIMAL(9,2)", "real"),
        ("numeric", "real"), ("character varying", "text"), ("dictionary<values=string>", "text"),
        ("bool", "boolean"), ("BOOLEAN", "boolean"), ("date32[day]", "date"), ("DATE", "date"),
        ("timestamp[us, tz=UTC]", "timestamp"), ("TIMESTAMP WITH TIME ZONE", "timestamp"),
        ("interval", "other"), ("INTEGER[]", "other"), ("list<item: int64>", "other"),
        ("binary", "other"),
    ],
)  # fmt: skip
def test_types_are_told_by_their_names(native, kind):
    assert kind_of(native) == kind


def test_the_interview_completes_a_policy():
    columns = [
        Field("person_id", "integer", "int64"),
        Field("age", "integer", "int64"),
        Field("pay", "real", "double"),
        Field("sex", "text", "string"),
        Field("town", "text", "string"),
        Field("ok", "boolean", "bool"),
        Field("skip", "integer", "int64"),
        Field("wrong", "integer", "int64"),
        Field("guess", None, "not known"),
        Field("day", None, "not known"),
    ]
    replies = iter(
        ["", "3", "0", "115", "0", "1e5", "0.01", "F, M", "text", "", "9", "1", "integer", "1", "2",
         "date", "2020-01-01", "2029-12-31", "%d.%m.%Y"]
    )  # fmt: skip
    told = _Draft(Schema("people", tuple(columns)))
    _interview(told, lambda _: next(replies))
    assert next(replies, None) is None
    text = draft_text([told], "people.parquet", "1", None, None)
    table = pol.loads(text).table("people")
    assert (table.unit, table.max_rows_per_unit) == ("person_id", 3)
    assert list(table.columns) == ["age", "pay", "sex", "town", "ok", "guess", "day"]
    assert table.column("sex") == pol.Category("sex", ["F", "M"])
    assert table.column("pay") == pol.Real("pay", 0, 100_000, "0.01")
    day = pol.Date("day", "2020-01-01", "2029-12-31", format="%d.%m.%Y")
    assert table.column("day") == day
    assert '# skip = { type = "integer", min = …, max = … }  # int64' in text.splitlines()


def test_an_answer_that_cannot_be_read_is_asked_for_again(capsys):
    columns = [Field("person_id", None, "not known"), Field("town", None, "not known"),
               Field("pay", None, "not known"), Field("sex", None, "not known")]  # fmt: skip
    replies = iter(["person", "person_id", "many", "0", "2", "4", "String", "num", "Real", "0", "9",
                    "", "cat", "F, M"])  # fmt: skip
    told = _Draft(Schema("people", tuple(columns)))
    _interview(told, lambda _: next(replies))
    assert next(replies, None) is None
    assert (told.unit, told.max_rows) == ("person_id", 2)
    table = pol.loads(draft_text([told], "people.csv", "1", None, None)).table("people")
    assert [type(c) for c in table.columns.values()] == [pol.Text, pol.Real, pol.Category]
    said = " ".join(capsys.readouterr().err.split())
    assert "'person' is not one of person_id, town, pay, sex, row" in said
    assert "'many' is not a whole number of at least 1" in said
    assert "'4' is not one of integer, real, category, text, boolean, date, timestamp" in said


def test_what_is_no_source_is_refused(folder):
    (folder / "a.txt").write_text("x", "utf-8")
    (folder / "empty.csv").write_text("", "utf-8")
    (folder / "bad.parquet").write_bytes(SECRET.encode())
    for source in ("a.txt", "empty.csv", "bad.parquet", "none.csv"):
        assert SECRET not in json.dumps(draft(source, code=2))


def test_a_file_has_one_table_named_as_told():
    parquet()
    (schema,) = read_schemas("people.parquet", ["members"])
    assert schema.table == "members"
