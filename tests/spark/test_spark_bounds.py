"""What a statement may take of Spark: plan, memory, session; and its places."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet import engines, plan
from discreet import policy as pol
from discreet.audit._engine_kit import SALT
from discreet.engines import _spark
from discreet.errors import EngineError, LedgerIntegrityError, SchemaError
from discreet.plan import (
    JoinPublic,
    JoinUnit,
    Key,
    LimitRows,
    Limits,
    Measure,
    MeasureKind,
    Scan,
    aggregate,
    limits_of,
)
from discreet.plan import expr as ex
from discreet.plan._rising import Curve

pytestmark = pytest.mark.races  # a session is a process, and talks through sockets
ONE = Measure(MeasureKind.SUM, ex.Constant.number(1))


def people(**choices):
    return pol.Table("t", [pol.Integer("n", 0, 9)], **choices)


def opened(source, *tables, name=""):
    return engines.connect(source, pol.Policy(list(tables), pol.Budget("9"), name=name or None))


def test_many_steps_are_read_from_a_list(spark):
    """Days of 1 500 months had been nested cases: 88 000 letters, and most of a driver's memory."""
    table = pol.Table("t", [pol.Integer("n", -(10**6), 10**6, null=None)])
    relation = Scan(table)
    edges = [e for e in range(100, 1600) if e % 7]
    values = [e % 31 - 15 for e in range(len(edges) + 1)]
    far = [v * 2**40 for v in values]
    n = ex.Column("n", relation.schema["n"])
    curves = [Curve(n, tuple(edges), tuple(v), 1, "days") for v in (values, far)]
    rows = [{"n": n} for n in (None, -(10**6), 99, 100, 101, 105, 1598, 1599, 1600, 10**6)]
    sums = tuple(Measure(MeasureKind.SUM, c) for c in curves)
    asked = aggregate(relation, (Key("n", n, tuple(r["n"] for r in rows[1:])),), sums, Limits(1))
    held = spark.createDataFrame(pa.Table.from_pylist(rows, pa.schema({"n": pa.int32()})))
    with contextlib.closing(opened({"t": held}, table)) as engine:
        assert len(engine.sql(asked)) < 60_000
        assert engine.execute(asked, SALT) == plan.run(asked, {"t": rows}, SALT)


def test_a_name_longer_than_any_key_is_nobodys(spark, tmp_path):
    """Three names of 100 MiB had ended the session: all of them were sorted and sent about."""
    names = ["a" * 4096, "a" * 4097, "ä" * 2048, "ä" * 2048 + "b", "b"]
    table = people(unit="u", max_rows_per_unit=1)
    rows = [{"u": u, "n": i} for i, u in enumerate(names) for _ in range(2)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "part.parquet")
    measures = (ONE, Measure(MeasureKind.UNITS))
    asked = aggregate(Scan(table), (), measures, Limits(rows=1))
    for source in (f"spark://{tmp_path}", {"t": spark.read.parquet(str(tmp_path))}):
        with contextlib.closing(opened(source, table)) as engine:
            assert engine.execute(asked, SALT) == plan.run(asked, {"t": rows}, SALT) == {(): (3, 3)}


def explained(engine, asked):
    """How Spark would run a statement, with the settings of one."""
    text = engine.sql(asked, SALT)
    ((said,),) = engine._rows(f"EXPLAIN {text}")
    return said


@pytest.mark.usefixtures("spark")
def test_private_rows_are_joined_by_the_workers_and_never_collected(tmp_path):
    """Spark sends the table with the smaller files to all workers, by way of the driver."""
    own = people(unit="u", max_rows_per_unit=2)
    public = pol.Table("p", [pol.Integer("n", 0, 9), pol.Integer("w", 0, 9)], public=True)
    for name, held in {"t": {"u": [1, 2], "n": [1, 2]}, "p": {"n": [1], "w": [3]}}.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(held), tmp_path / name / "part.parquet")
    sources = {name: f"spark://{tmp_path}/{name}" for name in "tp"}
    rows = LimitRows(Scan(own), 2)
    pairs = JoinUnit(rows, rows, "o.", "inner")
    with contextlib.closing(opened(sources, own, public)) as engine:
        asked = aggregate(pairs, (), (ONE,), limits_of(pairs, grouped=False))
        assert "Broadcast" not in explained(engine, asked)
        join = JoinPublic(Scan(own), Scan(public), (("n", "n"),), "inner", fanout=1, prefix="p.")
        limited = LimitRows(join, 2)
        asked = aggregate(limited, (), (ONE,), limits_of(limited, grouped=False))
        said = explained(engine, asked)
        assert "BroadcastHashJoin" in said
        assert "BuildRight" in said
        assert engine.execute(asked, SALT) == {(): (1,)}


def test_nothing_is_paid_for_questions_to_a_session_that_has_ended(spark, monkeypatch):
    held = spark.createDataFrame(pa.table({"n": [1, 2]}))
    own = pol.Policy([people()], pol.Budget("9"))
    with dc.open({"t": held}, own, ledger=":memory:") as curator:
        count, whole = "SELECT COUNT(*) AS n FROM t", _spark.collected
        known = curator.sql(count, epsilon="1").to_dicts()

        def ask(text):
            return curator.sql(text, epsilon="1", fresh=True)

        def failing(session, sql):
            if sql == "SELECT 1":
                return whole(session, sql)
            raise ConnectionRefusedError

        with monkeypatch.context() as patch:
            patch.setattr(_spark, "collected", failing)
            for spent in (2, 3):  # the session is there, and fails: each question is paid
                with pytest.raises(EngineError, match="could not compute"):
                    ask(count)
                assert curator.budget.spent == {"epsilon": spent}
            patch.setattr(_spark, "_answers", lambda _session: False)
            with pytest.raises(EngineError, match="could not compute"):
                ask(count)
            for text in (count, "SELECT SUM(n) AS s FROM t"):
                with pytest.raises(EngineError, match="has ended, so nothing was charged"):
                    ask(text)
            assert curator.budget.spent == {"epsilon": 4}
            assert curator.sql(count, epsilon="1").to_dicts() == known  # it is stored


def test_all_names_of_a_data_set_share_its_budget(spark, tmp_path):
    """A data frame, a view or a partition of a folder had budgets of their own."""
    data = tmp_path / "data"
    for year in (2023, 2024):
        home = data / f"y={year}"
        home.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1, 2]}), home / "part.parquet")
    columns = "(n BIGINT, y INT) USING parquet PARTITIONED BY (y)"
    spark.sql(f"CREATE TABLE spelt {columns} LOCATION '{data}'")
    spark.sql("MSCK REPAIR TABLE spelt")
    spark.sql("CREATE VIEW seen AS SELECT n + 0 AS n FROM spelt")
    frame = spark.read.parquet(str(data)).where("n > 0")
    kept = pol.Policy([people()], pol.Budget("9"), name="first")
    ledger = str(tmp_path / "ledger")
    try:
        dc.open(f"spark://{data}", kept, ledger=ledger).close()
        others = [f"spark://{data}", f"spark://file://{data}", f"spark://{data}/y=2024",
                  "spark://spelt", "spark://default.spelt", "spark://seen", frame]  # fmt: skip
        for index, source in enumerate(others):
            other = pol.Policy([people()], pol.Budget("9"), name=f"other {index}")
            with pytest.raises(LedgerIntegrityError, match="first"):
                dc.open({"t": source}, other, ledger=f"{ledger} {index}").close()
            dc.open({"t": source}, kept, ledger=ledger).close()
    finally:
        spark.sql("DROP VIEW seen")
        spark.sql("DROP TABLE spelt")


def cached(spark, data):
    return spark.read.parquet(str(data)).cache()


def cached_by_another(spark, data):
    cached(spark.newSession(), data)
    return spark.read.parquet(str(data)).where("n > 0")


def cached_table(spark, data):
    spark.sql(f"CACHE TABLE quick AS SELECT * FROM parquet.`{data}`")
    return "spark://quick"


def queried(spark, data):
    rows = f"(SELECT collect_list(struct(n)) FROM parquet.`{data}`)"
    return spark.sql(f"SELECT {', '.join(f'{i} AS c{i}' for i in range(40))}, inline({rows})")


@pytest.mark.parametrize("hidden", [cached, cached_by_another, cached_table, queried])
@pytest.mark.parametrize("longest", ["40", "100000"])
def test_what_hides_its_files_is_refused(spark, tmp_path, hidden, longest):
    """A cached data frame names no files: another policy had a fresh budget for its rows."""
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "part.parquet")
    own, ledger = pol.Policy([people()], pol.Budget("9")), str(tmp_path / "ledger")
    spark.conf.set("spark.sql.maxPlanStringLength", longest)
    try:
        source = hidden(spark, tmp_path)
        with pytest.raises(SchemaError, match="cannot be told"):
            dc.open({"t": source}, own, ledger=ledger)
    finally:
        spark.catalog.clearCache()
        spark.catalog.dropTempView("quick")
        spark.conf.unset("spark.sql.maxPlanStringLength")
    dc.open({"t": spark.read.parquet(str(tmp_path))}, own, ledger=ledger).close()


@pytest.mark.parametrize("first", ["view", "folder"])
def test_data_keep_their_budget_when_their_files_are_written_anew(spark, tmp_path, first):
    """Spark gives files other names each time: what knew the old ones was a fresh budget."""
    home, ledger = str(tmp_path / "home"), str(tmp_path / "ledger")

    def opened(name, kind):
        read = spark.read.parquet(home).where("n > 0") if kind == "view" else f"spark://{home}"
        own = pol.Policy([people()], pol.Budget("9"), name=name)
        dc.open({"t": read}, own, ledger=f"{ledger} {name}").close()

    rows = spark.createDataFrame(pa.table({"n": [1, 2]}))
    rows.write.parquet(home)
    opened("one", first)
    rows.write.mode("overwrite").parquet(home)
    for kind in ("view", "folder"):
        with pytest.raises(LedgerIntegrityError, match="one"):
            opened("another", kind)
        opened("one", kind)
        rows.write.mode("overwrite").parquet(home)


@pytest.mark.parametrize("name", ["t", "seen"])
@pytest.mark.parametrize("later", ["USE b", "a view"])
def test_an_open_table_stays_the_one_that_it_was(spark, name, later):
    """After `USE`, or behind a temporary view, its name was that of somebody else's rows."""
    own = pol.Policy([people(source=f"spark://{name}")], pol.Budget("1e9"))
    before = spark.catalog.currentDatabase()
    try:
        for database, rows in (("a", 3), ("b", 70)):
            spark.sql(f"CREATE DATABASE {database}")
            spark.sql(
                f"CREATE TABLE {database}.t USING parquet AS SELECT id AS n FROM range({rows})"
            )
        spark.table("a.t").createTempView("seen")
        spark.catalog.setCurrentDatabase("a")
        with dc.open(spark, own, ledger=":memory:") as curator:
            if later == "USE b":
                spark.sql(later)
            spark.table("b.t").createOrReplaceTempView(name)
            assert (
                int(curator.sql("SELECT COUNT(*) FROM t", epsilon="1e6").to_dicts()[0]["count"])
                == 3
            )
    finally:
        spark.catalog.setCurrentDatabase(before)
        for view in ("t", "seen"):
            spark.catalog.dropTempView(view)
        for database in ("a", "b"):
            spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")


def test_a_file_that_comes_to_an_open_folder_shares_its_budget(spark, tmp_path):
    """The folder's next answer reads it; with a budget of its own its people paid two."""
    data, ledger = tmp_path / "data", str(tmp_path / "ledger")
    data.mkdir()
    pq.write_table(pa.table({"n": [1, 2]}), data / "a.parquet")
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "beside.parquet")
    one, other = (pol.Policy([people()], pol.Budget("9"), name=n) for n in ("one", "other"))
    dc.open(f"spark://{data}", one, ledger=ledger).close()
    pq.write_table(pa.table({"n": [1, 2]}), data / "b.parquet")
    for source in (str(data / "b.parquet"), {"t": spark.read.parquet(str(data / "b.parquet"))}):
        with pytest.raises(LedgerIntegrityError, match="one"):
            dc.open(source, other, ledger=f"{ledger} other")
    dc.open(str(tmp_path / "beside.parquet"), other, ledger=f"{ledger} other").close()
