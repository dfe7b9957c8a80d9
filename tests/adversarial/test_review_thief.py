"""What a thief proved about sources, sessions and units: each finding is a test."""

from __future__ import annotations

import itertools
import os

import duckdb
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import discreet as dc
from discreet import inference, verify
from discreet.audit import measurements
from discreet.engines import _render
from discreet.errors import LedgerIntegrityError, SchemaError, UnprovenStatementError
from discreet.policy import Budget, Category, Integer, Policy, Table, Text

NAMES = map("thief {}".format, itertools.count())


def policy(table, columns, **kwargs):
    own = Table(table, columns, **({"unit": "pid", "max_rows_per_unit": 1} | kwargs))
    return Policy([own], Budget("1000000", delta="0.01"), name=next(NAMES))


def run(execute, *statements):
    for statement in statements:
        execute(statement)


# -- views: nothing of ours is tested before their own filters and joins ------------------

AGES = (
    "CREATE TABLE obs(pid int, name text, kind text, val text)",
    "INSERT INTO obs SELECT i, 'n' || i, 'age', '' || i % 50 FROM generate_series(1, 99) g(i)",
    "INSERT INTO obs VALUES (5000, 'Bob', 'hiv_test', 'positive')",
    "CREATE TABLE kinds(kind text, numeric_kind boolean)",
    "INSERT INTO kinds VALUES ('age', true), ('hiv_test', false)",
)
VIEW = (
    "CREATE VIEW ages AS SELECT pid, name, CAST(val AS integer) AS y "
    "FROM obs JOIN kinds USING (kind) WHERE numeric_kind"
)
QUESTIONS = (
    "SELECT COUNT(*) AS n FROM {t} WHERE name = 'Bob' AND y >= 1",
    "SELECT COUNT(*) AS n FROM {t} WHERE y >= 1",
    "SELECT SUM(y) AS n FROM {t} WHERE name = 'Bob'",
    "SELECT y, COUNT(*) AS n FROM {t} WHERE name = 'Bob' GROUP BY y",
)
READ = [Text("name"), Integer("y", 0, 99)]


@pytest.fixture
def post(postgres_url):
    """A connection to a database of its own, and its URL."""
    name = next(NAMES).replace(" ", "_")
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    url = postgres_url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection, url


def all_answered(source, table, columns=READ, questions=QUESTIONS, **kwargs):
    """Whether every question has an answer: a failure would tell who is in the table."""
    with dc.open(source, policy=policy(table, columns, **kwargs), ledger=":memory:") as curator:
        for question in questions:
            curator.sql(question.format(t=f'"{table}"'), epsilon="1")
    return True


def test_postgres_views_are_read_behind_a_fence(post):
    """An EAV view failed on the row of anybody who had a result that is no number."""
    connection, url = post
    run(connection.execute, *AGES, VIEW)
    assert all_answered(url, "ages")
    with pytest.raises(psycopg.Error):  # the oracle is there: without a fence it speaks
        connection.execute("SELECT count(*) FROM ages WHERE name = 'Bob' AND y >= 1")


def test_postgres_filters_that_are_dear_are_no_oracle(post):
    """A view's own filter costs more than ours, so it was tested last."""
    connection, url = post
    run(
        connection.execute,
        *AGES,
        "CREATE FUNCTION isnum(x text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
        "$$ BEGIN RETURN x ~ '^[0-9]+$'; END $$",
        "CREATE VIEW ages AS SELECT pid, name, CAST(val AS integer) AS y FROM obs WHERE isnum(val)",
    )
    assert all_answered(url, "ages")


@pytest.mark.parametrize("kind", ["row security", "virtual column", "foreign part"])
def test_whatever_computes_its_rows_is_read_through_when_opened(post, kind):
    """A table may compute as a view does; one row that fails it is an error at opening."""
    connection, url = post
    run(
        connection.execute,
        "CREATE TABLE base(pid int, name text, val text)",
        "INSERT INTO base VALUES (1, 'Ann', '7'), (2, 'Bob', 'positive')",
    )
    if kind == "row security":
        run(
            connection.execute,
            "CREATE TABLE t AS SELECT pid, name, 7 AS y, val FROM base",
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE t FORCE ROW LEVEL SECURITY",
            "CREATE POLICY p ON t USING (CAST(val AS integer) > 5)",
            "DROP ROLE IF EXISTS clerk",
            "CREATE ROLE clerk LOGIN",
            "GRANT SELECT ON t TO clerk",
        )
        url = url.replace("postgres@", "clerk@")
    elif kind == "virtual column":
        run(
            connection.execute,
            "CREATE TABLE t(pid int, name text, val text, "
            "y int GENERATED ALWAYS AS (length(val) / (length(val) - 8)) VIRTUAL)",
            "INSERT INTO t SELECT * FROM base",
        )
    else:
        # a wrapper that nobody handles fails on its first row, as others do on a bad one
        run(
            connection.execute,
            "CREATE FOREIGN DATA WRAPPER unreadable",
            "CREATE SERVER files FOREIGN DATA WRAPPER unreadable",
            "CREATE TABLE t(pid int, name text, y int) PARTITION BY RANGE (pid)",
            "CREATE TABLE newer PARTITION OF t FOR VALUES FROM (1000) TO (9999)",
            "CREATE FOREIGN TABLE older PARTITION OF t FOR VALUES FROM (0) TO (1000) SERVER files",
        )
    with pytest.raises(SchemaError, match="row: it is a view or a foreign table") as no:
        dc.open(url, policy=policy("t", READ), ledger=":memory:")
    assert "CREATE" not in str(no.value.hint)  # no copy of the private table


def test_stored_rows_are_read_without_a_fence(post):
    """What cannot fail stays as fast as it was: tables, their parts, materialized views."""
    connection, url = post
    run(
        connection.execute,
        *AGES,
        "CREATE TABLE plain AS SELECT pid, name, 1 AS y FROM obs",
        "CREATE MATERIALIZED VIEW stored AS TABLE plain",
        "CREATE TABLE parts(pid int, name text, y int) PARTITION BY RANGE (pid)",
        "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9999)",
        VIEW,
    )
    for table, fenced in (("plain", 0), ("stored", 0), ("parts", 0), ("ages", 1)):
        with dc.open(url, policy=policy(table, READ), ledger=":memory:") as curator:
            offer = curator.preview(f"SELECT SUM(y) AS s FROM {table}", epsilon="1")
            assert offer.sql[0].count("OFFSET 0") == fenced


@pytest.mark.parametrize("dialect", ["duckdb", "postgresql"])
def test_the_verifier_wants_the_fence(dialect):
    held = {"v": verify.Table({"y": "BIGINT" if dialect == "duckdb" else "int8"}, computed=True)}
    fenced = "SELECT count(y) FROM (SELECT y FROM v OFFSET 0) AS s WHERE y > 1"
    assert verify.prove(fenced, dialect=dialect, tables=held)
    for spoilt in (
        fenced.replace(" OFFSET 0", ""),
        "SELECT count(y) FROM v",
        "SELECT count(y) FROM v OFFSET 0",
        fenced.replace("FROM v", "FROM v WHERE y > 1"),
        fenced.replace("SELECT y FROM v", "SELECT y + 0 AS y FROM v"),
        fenced.replace("SELECT y FROM v", "SELECT y FROM v GROUP BY y"),
        fenced.replace("FROM v", "FROM v INNER JOIN v AS w ON v.y = w.y"),
    ):
        with pytest.raises(UnprovenStatementError):
            verify.prove(spoilt, dialect=dialect, tables=held)


def duck_file(tmp_path, *statements):
    file = str(tmp_path / f"{next(NAMES)}.duckdb")
    with duckdb.connect(file) as connection:
        run(connection.execute, *statements)
    return file


def test_duckdb_views_are_read_behind_a_fence(tmp_path):
    file = duck_file(tmp_path, *AGES, VIEW)
    assert all_answered(file, "ages")
    with duckdb.connect(file) as connection:
        assert all_answered(connection, "ages")
    with dc.open(file, policy=policy("ages", READ), ledger=":memory:") as curator:
        assert "OFFSET 0" in curator.preview(QUESTIONS[1].format(t="ages"), epsilon="1").sql[0]


@pytest.mark.parametrize("handed", [False, True])
@pytest.mark.parametrize("name", ["v", "main.v"])
def test_duckdb_asks_the_catalogue_what_a_view_is(tmp_path, handed, name):
    """A view with a column called rowid was taken for a table, and failed on Bob only."""
    file = duck_file(
        tmp_path,
        *AGES,
        "CREATE VIEW v AS SELECT rowid, pid, name, CAST(val AS integer) AS y FROM obs",
    )
    with duckdb.connect(file) as connection:
        if not handed:
            connection.close()
        with pytest.raises(SchemaError, match="cannot be read on every row"):
            dc.open(connection if handed else file, policy=policy(name, READ), ledger=":memory:")


# -- sessions: no role, database or URL changes what a statement means ----------------------


@pytest.mark.parametrize(
    "setting",
    [
        "client_encoding = 'LATIN1'",
        "client_encoding = 'SQL_ASCII'",
        "standard_conforming_strings = off",
        "transform_null_equals = on",
        "DateStyle = 'German, DMY'",
        "TimeZone = 'Asia/Tokyo'",
        "extra_float_digits = -15",
        "search_path = evil, pg_catalog, public",
    ],
)
def test_settings_of_a_role_mean_nothing(post, setting):
    """Under LATIN1 one person's emoji failed the run, and nobody was called José."""
    connection, url = post
    run(
        connection.execute,
        "CREATE TABLE t(pid int, name text)",
        "INSERT INTO t SELECT i, 'José' FROM generate_series(1, 300) AS g(i)",
        "INSERT INTO t VALUES (9999, '\U0001f608')",
        "CREATE SCHEMA evil",
        "DROP ROLE IF EXISTS legacy",
        "CREATE ROLE legacy LOGIN SUPERUSER",
        f"ALTER ROLE legacy SET {setting}",
    )
    rules = policy("t", [Text("name")])
    urls = [url.replace("postgres@", "legacy@")]
    if setting.startswith("client_encoding"):
        urls.append(url + "&client_encoding=" + setting.split("'")[1])
    for given in urls:
        counted = measurements(rules, "SELECT COUNT(*) AS n FROM t WHERE name = 'José'", given)
        assert counted[0].exact == {(): 300}
        with dc.open(given, policy=rules, ledger=":memory:") as curator:
            question = "SELECT name, COUNT(*) AS n FROM t GROUP BY name"
            assert curator.sql(question, epsilon="1", delta="1e-9", fresh=True) is not None


def test_a_ledger_means_the_same_under_every_role(post, tmp_path):
    connection, url = post
    run(
        connection.execute,
        "DROP ROLE IF EXISTS bookkeeper",
        "CREATE ROLE bookkeeper LOGIN SUPERUSER",
        "ALTER ROLE bookkeeper SET client_encoding = 'LATIN1'",
        "ALTER ROLE bookkeeper SET standard_conforming_strings = off",
    )
    table = Table("t", [Category("c", ["a", "\U0001f608"])])
    rules = Policy([table], Budget("9"), name=next(NAMES))
    data = tmp_path / "t.parquet"  # a source that can be told apart from others
    pq.write_table(pa.table({"c": ["a", "\U0001f608"]}), data)
    for user in ("postgres@", "bookkeeper@", "postgres@"):
        ledger = url.replace("postgres@", user)
        with dc.open(data, policy=rules, ledger=ledger) as curator:
            question = "SELECT c, COUNT(*) AS n FROM t WHERE c = '\U0001f608' GROUP BY c"
            curator.sql(question, epsilon="1", key="once \U0001f608")
            curator.ledger.verify()
            assert curator.budget.spent["epsilon"] == 1  # the stored answer is found again


# -- units: two people never become one --------------------------------------------------


def bad_text(values):
    blobs = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(blobs), blobs.buffers())


def spelled(kind, units, labels, folder):
    """One source of a kind that holds units which are not UTF-8."""
    if kind == "csv":
        file = folder / f"{next(NAMES)}.csv"
        rows = zip(units, labels, strict=True)
        file.write_bytes(b"pid,c\n" + b"".join(u + b"," + c.encode() + b"\n" for u, c in rows))
        return str(file)
    if kind == "pandas":
        texts = [u.decode("utf-8", "surrogateescape") for u in units]
        return pd.DataFrame({"pid": pd.Series(texts, dtype=object), "c": labels})
    table = pa.table({"pid": bad_text(units), "c": labels})
    if kind == "dictionary":
        table = table.set_column(0, "pid", table["pid"].dictionary_encode())
    if kind == "parquet":
        file = folder / f"{next(NAMES)}.parquet"
        pq.write_table(table, file)
        return str(file)
    return table


@pytest.mark.parametrize("kind", ["csv", "arrow", "dictionary", "pandas", "parquet"])
@pytest.mark.parametrize("ids", [(b"a\xff", b"a\xfe"), (b"?", b"\xff")])
def test_units_that_are_not_text_are_nobody(kind, ids, tmp_path):
    """Two ids were mended to one text: one person then moved 2 where 1 was declared."""
    units, labels = [*ids, b"Ann"], ["sick", "well", "well"]
    rules = policy("m", [Category("c", ["sick", "well"])])
    for question in (
        "SELECT c, COUNT(*) AS n FROM m GROUP BY c",
        "SELECT COUNT(DISTINCT pid) AS n FROM m",
    ):
        sources = [spelled(kind, units[i:], labels[i:], tmp_path) for i in (0, 1)]
        for salt in range(3):
            one, two = (measurements(rules, question, s, salt=salt)[0] for s in sources)
            keys = one.exact.keys() | two.exact.keys()
            moved = sum(abs(one.exact.get(k, 0) - two.exact.get(k, 0)) for k in keys)
            assert moved <= one.declared.l1
            assert sum(one.exact.values()) >= 1  # the others are counted


# -- questions that failed, or went unproved ----------------------------------------------


@pytest.mark.parametrize("statistic", ["MODE(c)", "MEDIAN(m.k)", "COUNT(*)", "AVG(m.k)"])
def test_a_public_table_without_rows_is_priced_like_any_other(statistic):
    """MODE over a join that matches nothing divided by the number of cells: none."""
    rules = Policy(
        [
            Table("m", [Integer("k", 0, 5), Category("c", ["a", "b"])]),
            Table("pub", [Integer("k", 0, 5)], public=True),
        ],
        Budget("9"),
        name=next(NAMES),
    )
    data = {
        "m": pa.table({"k": [1, 2], "c": ["a", "b"]}),
        "pub": pa.table({"k": pa.array([], "i8")}),
    }
    with dc.open(data, policy=rules, ledger=":memory:") as curator:
        question = f"SELECT {statistic} AS s FROM m JOIN pub ON m.k = pub.k"
        assert curator.sql(question, epsilon="1").cost["epsilon"] == "1"


@pytest.mark.parametrize("lines", [b"pid,c\r1,sick\r2,Ann\r", b"pid,c\r1,sick\n2,Ann\n"])
def test_a_csv_file_with_old_line_ends_is_refused_by_name(tmp_path, lines):
    file = tmp_path / "old.csv"
    file.write_bytes(lines)
    with pytest.raises(SchemaError, match="is not a header") as refused:
        dc.open(str(file), policy=policy("m", [Text("c")]), ledger=":memory:")
    assert "Ann" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_tests_of_tests_are_proved_like_questions(monkeypatch):
    """A limit that the renderer forgets is found before the debit, here as anywhere."""
    rules = policy("m", [Integer("x", 0, 9), Category("c", ["a", "b"])])
    data = pa.table({"pid": [1, 1, 2], "x": [1, 2, 3], "c": ["a", "b", "a"]})
    with dc.open(data, policy=rules, ledger=":memory:") as curator:
        asked = {"by": "c", "epsilon": 1, "parts": 2}
        assert inference.curated_test(curator, stats.ttest_ind, "x", **asked)
    monkeypatch.setattr(_render._Statement, "limit_rows", lambda _self, _node, below: below)
    with dc.open(
        data, policy=policy("m", rules.table("m").columns.values()), ledger=":memory:"
    ) as curator:
        with pytest.raises(UnprovenStatementError, match="does not limit"):
            inference.curated_test(curator, stats.ttest_ind, "x", **asked)
        assert not any(curator.budget.spent.values())


# -- budgets: one data set has one, however it is spelled ---------------------------------


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def files_in(folder):
    return {p.name for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("where", [":memory:", "second.ledger"])
@pytest.mark.parametrize(
    "spelled", ["d", "d/*.parquet", "d/people.parque?", "d/../d/people.parquet", "hard.parquet"]
)
def test_every_spelling_of_a_file_has_one_budget(own_state, spelled, where):
    (own_state / "d").mkdir()
    file = own_state / "d" / "people.parquet"
    pq.write_table(pa.table({"pid": [1, 2], "name": ["Ann", "Bob"]}), file)
    columns = [Text("name")]
    dc.open(str(file), policy=policy("m", columns), ledger=own_state / "first.ledger").close()
    os.link(file, own_state / "hard.parquet")
    before = files_in(own_state)
    ledger = where if where == ":memory:" else own_state / where
    with pytest.raises(LedgerIntegrityError, match="has a budget already"):
        dc.open(str(own_state / spelled), policy=policy("m", columns), ledger=ledger)
    assert files_in(own_state) == before  # neither a ledger nor an anchor of the refused one


def test_a_number_that_a_file_system_uses_again_refuses_nobody(own_state):
    """An inode outlives its file; it counts only where a file has several names."""
    file = own_state / "one.parquet"
    pq.write_table(pa.table({"pid": [1], "name": ["Ann"]}), file)
    columns = [Text("name")]
    dc.open(str(file), policy=policy("m", columns), ledger=own_state / "one.ledger").close()
    file.rename(own_state / "two.parquet")  # the same inode under another name, and no link
    two = str(own_state / "two.parquet")
    dc.open(two, policy=policy("m", columns), ledger=own_state / "two.ledger").close()


def test_every_address_of_a_server_has_one_budget(own_state, post):
    connection, url = post
    run(connection.execute, "CREATE TABLE m(pid int, name text)", "CREATE VIEW v AS TABLE m")
    columns = [Text("name")]
    dc.open(url, policy=policy("m", columns), ledger=own_state / "first.ledger").close()
    before = files_in(own_state)
    host = url.split("host=")[1]
    for other, table in ((url + "&port=05432", "m"), (url.replace(host, f"{host}/."), "v")):
        with pytest.raises(LedgerIntegrityError, match="has a budget already"):
            dc.open(other, policy=policy(table, columns), ledger=own_state / "second.ledger")
    assert files_in(own_state) == before


def test_a_refused_opening_leaves_no_ledger(own_state):
    with pytest.raises(SchemaError):
        dc.open(pa.table({"pid": [1]}), policy=policy("m", READ), ledger=own_state / "x.ledger")
    assert not files_in(own_state)
