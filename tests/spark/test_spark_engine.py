"""Spark gives the integers of the reference, and reads what it is given as it is meant."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import random
import threading
import time
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet import audit, engines, plan
from discreet import policy as pol
from discreet.audit import _nasty
from discreet.audit._engine_kit import SALT, _expected, _refused, cases
from discreet.engines import _spark
from discreet.errors import EngineError, SchemaError, UnsupportedQueryError
from discreet.plan import Filter, Key, Limits, Measure, MeasureKind, Scan, aggregate
from discreet.plan import expr as ex

pytestmark = pytest.mark.races  # a session is a process, and talks through sockets
ONE = Measure(MeasureKind.SUM, ex.Constant.number(1))


def check_cases(kit, sources, every, start=0):
    """Every n-th case of the kit, many to a statement, against the reference."""
    chosen = [c for c in enumerate(cases()) if c[0] % every == start]
    seen = 0
    for key in {tuple(sorted(c.choices.items())) for _, c in chosen}:
        engine = engines.connect(sources, _nasty.policy(**dict(key)))
        own = [(i, c.aggregate) for i, c in chosen if tuple(sorted(c.choices.items())) == key]
        own = [(i, a) for i, a in own if not _refused(engine, a)]
        answers = kit.together([(engine, a) for _, a in own])
        for (index, asked), found in zip(own, answers, strict=True):
            assert found == _expected(400, index), engine.sql(asked)
        seen += len(own)
        engine.close()
    return seen


@pytest.mark.usefixtures("spark")
def test_cases_of_every_kind_agree(kit, nasty_folders):
    assert check_cases(kit, nasty_folders, every=151, start=60) > 4


@pytest.mark.long
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("start", range(8))
def test_all_cases_agree(kit, nasty_folders, start):
    assert check_cases(kit, nasty_folders, every=8, start=start) > 90


@pytest.mark.long
def test_the_kit_runs_on_data_frames(spark):
    """A data frame is computed while it is read: a fence, and one look at all of it."""
    frames = {}

    def connect(held, policy):
        if not frames:
            frames.update({n: spark.createDataFrame(t).cache() for n, t in held.arrow().items()})
        return engines.connect(frames, policy)

    report = audit.check_engine(connect, rows=60, every=97)
    assert report.ok, report


COLUMNS = [
    pol.Category("c", ["it's", "a\\b", "${x}", 'say "x"', "é"], other="-"),
    pol.Real("x", -100, 100, "0.5"),
    pol.Integer("big", -(2**62) + 1, 2**62 - 1),
    pol.Integer("mid", -(2**40), 2**40),
    pol.Date("d", "1960-01-01", "2030-12-31"),
    pol.Timestamp("t", "1960-01-01", "2030-12-31", 60),
    pol.Timestamp("z", "1960-01-01", "2030-12-31", 60),
    pol.Integer("p", 0, 9),
    pol.Text("w"),
]
_DAY = dt.datetime(2024, 2, 29, 23, 59, 30)  # noqa: DTZ001 - naive on purpose
ROWS = [
    {"id": i % 5, "c": c, "x": x, "big": big, "mid": big % 2**40 - 2**39, "d": _DAY.date(),
     "t": _DAY, "z": _DAY.replace(tzinfo=dt.UTC), "p": Decimal("2.500"), "w": w}
    for i, (c, x, big, w) in enumerate([
        ("it's", 0.25, 2**62, "A"), ("a\\b", 0.75, 2**62, "a"), ("${x}", -0.25, 2**62, " a "),
        ('say "x"', 2.25, 2**63 - 1, "b"), ("é", float("nan"), 2**63 - 1, None),
        ("E\u0301", float("inf"), -(2**63), "a"), (None, -0.0, -(2**62), "ä"),
    ])
]  # fmt: skip
SCHEMA = pa.schema({
    "id": pa.int64(), "c": pa.string(), "x": pa.float64(), "big": pa.int64(), "mid": pa.int64(),
    "d": pa.date32(), "t": pa.timestamp("us"), "z": pa.timestamp("us", "UTC"),
    "p": pa.decimal128(38, 3), "w": pa.string(),
})  # fmt: skip


def frame():
    return pa.Table.from_pylist(ROWS, SCHEMA)


def policy(**choices):
    return pol.Policy([pol.Table("t", COLUMNS, **choices)], pol.Budget("9"))


def asked(**choices):
    relation = Scan(policy(**choices).tables["t"])
    c = {n: ex.Column(n, t) for n, t in relation.schema.items()}
    exprs = [c["x"], c["big"], c["mid"], c["d"], c["t"], c["z"], c["p"],
             ex.DatePart("weekday", c["d"]), ex.Length(ex.Trim(c["w"])),
             ex.OneOf(c["w"], ("a", "b"))]  # fmt: skip
    measures = [Measure(MeasureKind.SUM, e) for e in exprs]
    measures.append(Measure(MeasureKind.DISTINCT, c["w"]))
    key = Key("c", c["c"], tuple(range(6)))
    return aggregate(relation, (key,), tuple(measures), Limits(rows=1 if choices else 7))


@pytest.mark.parametrize("choices", [{}, {"unit": "id", "max_rows_per_unit": 1}])
def test_what_engines_read_differently_is_read_alike(spark, tmp_path, kit, choices):
    """Quotes, backslashes, variables, halves, sums beyond 64 bits, weekdays, decimals, UTC."""
    question = asked(**choices)
    expected = plan.run(question, {"t": ROWS}, SALT)
    spark.createDataFrame(frame()).createOrReplaceTempView("t")
    sources = [spark, {"t": spark.table("t")}, kit.written(tmp_path, {"t": frame()})]
    before = spark.conf.get("spark.sql.session.timeZone")
    modes = (("true", "Asia/Tokyo"), ("false", "America/St_Johns"), ("true", "UTC"))
    try:
        for source, (ansi, zone) in zip(sources, modes, strict=True):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            spark.conf.set("spark.sql.session.timeZone", zone)
            engine = engines.connect(source, policy(**choices))
            assert engine.execute(question, SALT) == expected, engine.sql(question)
            engine.close()
            assert spark.conf.get("spark.sql.session.timeZone") == zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
        spark.conf.set("spark.sql.ansi.enabled", "true")


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_old_days_are_read_as_they_are_stored(spark, kit, tmp_path, mode):
    """Spark would move them to another calendar, or fail on them, as the session says."""
    old = dt.date(1500, 3, 1)
    held = pa.table({"d": pa.array([old, dt.date(2000, 1, 1)])})
    held = held.append_column("t", held["d"].cast(pa.timestamp("us")))
    start, end = "1400-01-01", "2030-12-31"
    table = pol.Table("t", [pol.Date("d", start, end), pol.Timestamp("t", start, end, 60)])
    relation = Scan(table)
    sums = [Measure(MeasureKind.SUM, ex.Column(n, relation.schema[n])) for n in ("d", "t")]
    question = aggregate(relation, (), tuple(sums), Limits(rows=1))
    expected = plan.run(question, {"t": held.to_pylist()}, SALT)
    folder = kit.written(tmp_path, {"t": held})
    place = folder["t"].removeprefix("spark://")
    spark.sql(f"CREATE TABLE old_{mode} USING parquet LOCATION '{place}'")
    names = [f"spark.sql.parquet.{kind}RebaseModeInRead" for kind in ("datetime", "int96")]
    before = [spark.conf.get(name) for name in names]
    try:
        for name in names:
            spark.conf.set(name, mode)
        sources = (folder, {"t": f"spark://old_{mode}"}, {"t": spark.read.parquet(place)})
        for source in sources:
            engine = engines.connect(source, pol.Policy([table], pol.Budget("1")))
            assert engine.execute(question, SALT) == expected
            engine.close()
        assert spark.conf.get(names[0]) == mode
    finally:
        for name, value in zip(names, before, strict=True):
            spark.conf.set(name, value)
        spark.sql(f"DROP TABLE old_{mode}")


def test_a_column_with_a_collation_is_compared_by_bytes(spark):
    held = spark.sql("SELECT w COLLATE UNICODE_CI AS w FROM VALUES ('a'), ('A'), ('á') AS t(w)")
    table = pol.Policy([pol.Table("t", [pol.Text("w")])], pol.Budget("1"))
    relation = Scan(table.tables["t"])
    w = ex.Column("w", relation.schema["w"])
    question = aggregate(relation, (Key("w", w, None),), (ONE,), Limits(rows=1))
    engine = engines.connect({"t": held}, table)
    assert engine.execute(question, SALT) == {("A",): (1,), ("a",): (1,), ("á",): (1,)}
    engine.close()


BYTES = "'a'", "'b'", "X'ff'", "X'6180'", "X'c3'", "'\\ufffd'", "'a\\u0000'", "''", "NULL"
"""Texts, and bytes that are none: they equal no label, and are no other label either."""


@pytest.mark.parametrize("most", [1, 20], ids=["compared", "looked up"])
@pytest.mark.parametrize(
    "choices", [{}, {"other": "-"}, {"null": "b"}, {"other": "-", "null": "b"}]
)
def test_bytes_that_are_no_text_are_null(spark, most, choices):
    labels = ["a", "b", "\ufffd", *map(str, range(most))]
    table = pol.Table("t", [pol.Category("c", labels, **choices), pol.Text("w")])
    cells = ", ".join(f"(CAST({cell} AS STRING))" for cell in BYTES)
    held = spark.sql(f"SELECT c, c AS w FROM VALUES {cells} AS t(c)")
    texts = ["a", "b", None, None, None, "\ufffd", "a\0", "", None]
    relation = Scan(table)
    c, w = (ex.Column(n, relation.schema[n]) for n in ("c", "w"))
    measures = (ONE, Measure(MeasureKind.DISTINCT, w))
    codes = tuple(range(len(table.columns["c"].domain)))
    question = aggregate(relation, (Key("c", c, codes),), measures, Limits(rows=1))
    with contextlib.closing(
        engines.connect({"t": held}, pol.Policy([table], pol.Budget("1")))
    ) as engine:
        expected = plan.run(question, {"t": [{"c": t, "w": t} for t in texts]}, SALT)
        assert engine.execute(question, SALT) == expected, engine.sql(question)


def test_units_that_are_no_text_are_nobody(spark):
    cells = ", ".join(f"(CAST({cell} AS STRING))" for cell in BYTES)
    held = spark.sql(f"SELECT u FROM VALUES {cells} AS t(u)")
    table = pol.Table("t", [pol.Integer("n", 0, 9)], unit="u", max_rows_per_unit=1)
    measures = (ONE, Measure(MeasureKind.UNITS))
    question = aggregate(Scan(table), (), measures, Limits(rows=1))
    frame = held.selectExpr("u", "1 AS n")
    with contextlib.closing(
        engines.connect({"t": frame}, pol.Policy([table], pol.Budget("1")))
    ) as engine:
        assert engine.execute(question, SALT) == {(): (5, 5)}, engine.sql(question)


def test_a_data_frame_that_fails_on_a_row_is_refused_when_opened(spark):
    table = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)])], pol.Budget("1"))
    good = spark.sql("SELECT 6 div id AS n FROM range(3) WHERE id > 0")
    relation = Scan(table.tables["t"])
    n = ex.Column("n", relation.schema["n"])
    question = aggregate(relation, (), (Measure(MeasureKind.SUM, n),), Limits(rows=1))
    engine = engines.connect({"t": good}, table)
    assert engine.execute(question, SALT) == {(): (9,)}
    assert "monotonically_increasing_id" in engine.sql(question)
    engine.close()
    with pytest.raises(SchemaError, match="cannot be read on every row"):
        engines.connect({"t": spark.sql("SELECT 6 div id AS n FROM range(3)")}, table)


def test_pyspark_prints_no_cell_of_a_frame_that_fails(spark, capfd, caplog):
    table = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)])], pol.Budget("1"))
    held = spark.sql("SELECT CAST(w AS INT) AS n FROM VALUES ('4'), ('s3cret') AS t(w)")
    with pytest.raises(SchemaError, match="cannot be read on every row"):
        engines.connect({"t": held}, table)
    assert "s3cret" not in "".join([*capfd.readouterr(), caplog.text])
    loggers = [logging.getLogger(name) for name in _spark._LOGS]  # which may hand nothing on
    for logger in loggers:
        logger.addHandler(caplog.handler)
    try:
        with pytest.raises(Exception, match="s3cret"):  # to others it tells as before
            held.toArrow()
    finally:
        for logger in loggers:
            logger.removeHandler(caplog.handler)
    assert "s3cret" in caplog.text


def test_a_column_that_cannot_be_null_is_read_too(spark):
    """Spark makes a count of it one of rows, without computing it."""
    table = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)])], pol.Budget("1"))
    failing = "coalesce(assert_true(id < 2), 1) AS n"
    held = spark.sql(f"SELECT {failing} FROM range(3)")
    assert not held.schema.fields[0].nullable
    assert spark.sql(f"SELECT count(n) FROM (SELECT {failing} FROM range(3))").collect()
    with pytest.raises(SchemaError, match="cannot be read on every row"):
        engines.connect({"t": held}, table)


def test_far_instants_in_milliseconds_are_found_when_a_folder_is_opened(spark, kit, tmp_path):
    """Spark's reader fails on them; without them, milliseconds are read."""
    table = pol.Timestamp("at", "1970-01-01", "2030-12-31", 60)
    own = pol.Policy([pol.Table("t", [table])], pol.Budget("1"))
    near, far = (pa.table({"at": pa.array([0, n], pa.int64()).cast(pa.timestamp("ms"))})
                 for n in (1000, 2**62))  # fmt: skip
    for index, held in enumerate((near, far)):
        (tmp_path / str(index)).mkdir()
        folder = kit.written(tmp_path / str(index), {"t": held})
        place = folder["t"].removeprefix("spark://")
        spark.sql(f"CREATE TABLE instants USING parquet LOCATION '{place}'")
        try:
            for source in (folder, {"t": "spark://instants"}):
                if held is near:
                    engines.connect(source, own).close()
                    continue
                with pytest.raises(SchemaError, match="every instant"):
                    engines.connect(source, own)
        finally:
            spark.sql("DROP TABLE instants")


@pytest.mark.parametrize("name", ["ignoreCorruptFiles", "ignoreMissingFiles"])
def test_a_cell_that_cannot_be_read_never_drops_its_file(spark, kit, tmp_path, name):
    """One person's far instant had removed everybody else's rows of the file, without a word."""
    table = pol.Timestamp("at", "1970-01-01", "2030-12-31", 60)
    own = pol.Policy([pol.Table("t", [table])], pol.Budget("1"))
    cells = pa.array([2**62] + [0] * 99, pa.int64()).cast(pa.timestamp("ms"))
    folder = kit.written(tmp_path, {"t": pa.table({"at": cells})})
    spark.conf.set(f"spark.sql.files.{name}", "true")
    try:
        with pytest.raises(SchemaError, match="every instant"):
            engines.connect(folder, own)
        assert spark.conf.get(f"spark.sql.files.{name}") == "true"
    finally:
        spark.conf.unset(f"spark.sql.files.{name}")


@pytest.mark.parametrize("option", ["ignoreCorruptFiles 'true'", "datetimeRebaseMode 'EXCEPTION'"])
def test_a_table_with_options_of_its_own_is_refused(spark, tmp_path, option):
    """They are stronger than what is set for a statement: an old day had failed questions."""
    own = pol.Policy([pol.Table("t", [pol.Date("d", "2020-01-01", "2021-01-01")])], pol.Budget("1"))
    pq.write_table(pa.table({"d": [dt.date(2020, 5, 1)]}), tmp_path / "part.parquet")
    for more in ("", f", {option}"):
        spark.sql(f"CREATE TABLE odd USING parquet OPTIONS (path '{tmp_path}'{more})")
        try:
            if not more:
                engines.connect({"t": "spark://odd"}, own).close()
                continue
            with pytest.raises(SchemaError, match=option.split()[0]):
                engines.connect({"t": "spark://odd"}, own)
        finally:
            spark.sql("DROP TABLE odd")


TWO_WIDTHS = pa.table({"n": pa.array([1], pa.int32())}), pa.table({"n": [2]})


@pytest.mark.parametrize("files", [TWO_WIDTHS, (TWO_WIDTHS[1], pa.table({"n": ["2"]}))])
@pytest.mark.usefixtures("spark")
def test_files_of_different_types_are_found_when_a_folder_is_opened(tmp_path, files):
    own = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)])], pol.Budget("1"))
    for index, held in enumerate(files):
        pq.write_table(held, tmp_path / f"{index}.parquet")
    with pytest.raises(SchemaError, match="differ in their types"):
        engines.connect(f"spark://{tmp_path}", own)
    other = pol.Policy([pol.Table("t", [pol.Integer("m", 0, 9)])], pol.Budget("1"))
    for index, held in enumerate(files):  # of a column that nobody asks for, they may differ
        pq.write_table(held.append_column("m", [[1]]), tmp_path / f"{index}.parquet")
    engines.connect(f"spark://{tmp_path}", other).close()


@pytest.mark.usefixtures("spark")
def test_texts_that_name_folders_stay_as_they_are_written(tmp_path):
    """Spark takes '007' and '7' for one number: one person, and no label."""
    for unit, year in (("007", 2023), ("7", 2024), ("7", 2025)):
        home = tmp_path / f"u={unit}" / f"y={year}"
        home.mkdir(parents=True)
        pq.write_table(pa.table({"n": [year - 2020]}), home / "part.parquet")
    label, year, n = pol.Category("u", ["7", "007"]), pol.Integer("y", 2000, 2099), "n"
    table = pol.Table("t", [year, pol.Integer(n, 0, 9)], unit="u", max_rows_per_unit=1)
    plain = pol.Table("t", [label, year])
    relation, other = Scan(table), Scan(plain)
    units = aggregate(relation, (), (Measure(MeasureKind.UNITS),), Limits(rows=1))
    u, y = (ex.Column(c, other.schema[c]) for c in ("u", "y"))
    years = (ONE, Measure(MeasureKind.SUM, y))
    labels = aggregate(other, (Key("u", u, (0, 1)),), years, Limits(rows=1))
    folder = f"spark://{tmp_path}"
    with contextlib.closing(engines.connect(folder, pol.Policy([table], pol.Budget("1")))) as own:
        assert own.execute(units, SALT) == {(): (2,)}
        later = tmp_path / "u=x" / "y=2023"  # no number: the guess would be another from here on
        later.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1]}), later / "part.parquet")
        assert own.execute(units, SALT) == {(): (3,)}
    with contextlib.closing(engines.connect(folder, pol.Policy([plain], pol.Budget("1")))) as own:
        assert own.execute(labels, SALT) == {(0,): (2, 4049), (1,): (1, 2023)}


@pytest.mark.usefixtures("spark")
def test_folders_that_cannot_be_meant_are_refused_by_what_is_wrong(tmp_path):
    own = pol.Policy([pol.Table("t", [pol.Date("d", "2020-01-01", "2021-01-01")])], pol.Budget("1"))
    for name in ("a*", "a?", "a[bc]", "{a,b}"):
        with pytest.raises(SchemaError, match="characters of a pattern"):
            engines.connect(f"spark://{tmp_path}/{name}", own)
    days = pa.table({"d": pa.array([0], pa.timestamp("ns"))})
    pq.write_table(days, tmp_path / "part.parquet")
    with pytest.raises(SchemaError, match="nanoseconds"):
        engines.connect(f"spark://{tmp_path}", own)


@pytest.mark.parametrize("capitals", ["false", "true"])
@pytest.mark.parametrize("files", [("vV",), ("v", "vV"), ("vV", "v"), ("v", "V")])
def test_a_folder_whose_files_spell_a_column_twice_is_refused(spark, tmp_path, files, capitals):
    """What was read of it depended on the session, or failed after it was paid."""
    own = pol.Policy([pol.Table("t", [pol.Integer("v", 0, 9)])], pol.Budget("1"))
    for index, names in enumerate(files):
        pq.write_table(pa.table({n: [1, 2] for n in names}), tmp_path / f"{index}.parquet")
    spark.conf.set("spark.sql.caseSensitive", capitals)
    try:
        with pytest.raises(SchemaError, match="capitals"):
            engines.connect(f"spark://{tmp_path}", own)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_names_that_spark_cannot_tell_apart_are_refused(spark):
    table = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)])], pol.Budget("1"))
    with pytest.raises(SchemaError, match="capitals"):
        engines.connect({"t": spark.sql("SELECT 1 AS n, 2 AS N")}, table)
    with pytest.raises(SchemaError, match="no table"):
        engines.connect({"t": "spark://nowhere.to_be_found"}, table)
    with pytest.raises(SchemaError, match="one Spark session"):
        two = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)]),
                          pol.Table("u", [pol.Integer("n", 0, 9)])], pol.Budget("1"))  # fmt: skip
        engines.connect({"t": spark.range(2), "u": pa.table({"n": [1]})}, two)


def test_regular_expressions_are_refused_by_name_before_anything_is_paid(spark):
    held = spark.sql("SELECT 'a' AS w")
    table = pol.Policy([pol.Table("t", [pol.Text("w")])], pol.Budget("1"))
    with dc.open({"t": held}, table, ledger=":memory:") as curator:
        with pytest.raises(UnsupportedQueryError, match="regular expressions"):
            curator.sql("SELECT COUNT(*) FROM t WHERE regexp_matches(w, 'a+')", epsilon="1")
        assert curator.budget.spent == {"epsilon": 0}
        answer = curator.sql("SELECT COUNT(*) AS n FROM t WHERE w LIKE 'a%'", epsilon="1")
        assert len(answer.to_dicts()) == 1


@pytest.mark.parametrize(
    "pattern", ["%a%a%a%a%a%a%a%ab", "a%b%c", "%a%b%", "%a!%%b%!%", "%_%_", "_" * 101]
)
def test_patterns_that_may_take_forever_are_refused_before_anything_is_paid(spark, pattern):
    held = spark.createDataFrame(pa.table({"w": ["a" * 1000]}))
    table = pol.Policy([pol.Table("t", [pol.Text("w")])], pol.Budget("1"))
    with dc.open({"t": held}, table, ledger=":memory:") as curator:
        text = f"SELECT COUNT(*) FROM t WHERE w LIKE '{pattern}' ESCAPE '!'"
        with pytest.raises(UnsupportedQueryError, match="is not asked of Spark"):
            curator.sql(text, epsilon="1")
        assert curator.budget.spent == {"epsilon": 0}


def test_other_patterns_are_matched_as_they_are_meant(spark):
    texts = ["", "a", "ab", "a\nb", "%", "b%", "a" * 9999 + "b", "ab" * 4000, "a!", None, "😀b"]
    table = pol.Table("t", [pol.Text("w")])
    relation = Scan(table)
    w = ex.Column("w", relation.schema["w"])
    forms = ["%%%%ab", "a%%", "a%b", "%a_b%%", "_b", "%%_b%", "b!%%", "%!%!%", "%!!", "", "_%"]
    measures = tuple(Measure(MeasureKind.SUM, ex.Like(w, f)) for f in forms)
    question = aggregate(relation, (), measures, Limits(rows=1))
    held = spark.createDataFrame(pa.table({"w": texts}))
    with contextlib.closing(
        engines.connect({"t": held}, pol.Policy([table], pol.Budget("1")))
    ) as engine:
        expected = plan.run(question, {"t": [{"w": t} for t in texts]}, SALT)
        assert engine.execute(question, SALT) == expected


def test_a_unit_with_a_million_rows_is_limited_without_collecting(spark):
    """One unit owns nearly all rows; its limit holds, and no group loses anybody else."""
    held = spark.sql(
        "SELECT CASE WHEN id < 1000000 THEN 7 ELSE id END AS u, id % 3 AS k FROM range(1001000)"
    )
    table = pol.Table("t", [pol.Category("k", [0, 1, 2])], unit="u", max_rows_per_unit=5)
    relation = Scan(table)
    k = ex.Column("k", relation.schema["k"])
    question = aggregate(relation, (Key("k", k, (0, 1, 2)),), (ONE,), Limits(rows=5))
    engine = engines.connect({"t": held}, pol.Policy([table], pol.Budget("1")))
    found = engine.execute(question, SALT)
    assert sum(n for (n,) in found.values()) == 1005
    engine.close()


def test_a_statement_ends_when_its_time_is_over(spark):
    """Of a classic session; a row for each of 10^11 numbers would take minutes."""
    table = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)])], pol.Budget("1"))
    held = spark.range(0, 10**11, 1, 1).selectExpr("id % 7 AS n")
    found = []

    def opened():
        with contextlib.suppress(SchemaError):
            engines.connect({"t": held}, table, timeout=1.0)
        found.append(True)

    waiting = threading.Thread(target=opened, daemon=True)
    begun = time.monotonic()
    waiting.start()
    waiting.join(20)
    spark.sparkContext.cancelAllJobs()  # else a failure would keep all tests that follow waiting
    assert found
    assert 1 <= time.monotonic() - begun < 15


def test_time_behind_another_question_is_not_its_own(spark):
    table = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)])], pol.Budget("1"))
    engine = engines.connect({"t": spark.range(9).selectExpr("id AS n")}, table)
    asked = aggregate(Scan(table.tables["t"]), (), (ONE,), Limits(rows=1))
    begun, found = [], []

    @contextlib.contextmanager
    def limited(*_given):
        begun.append(time.monotonic())
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_spark, "_limited", limited)
        with _spark._turn(spark):
            waiting = threading.Thread(target=lambda: found.append(engine.execute(asked, SALT)))
            waiting.start()
            waiting.join(0.5)
            assert not begun
        waiting.join(60)
    assert found == [{(): (9,)}]
    assert len(begun) == 1
    engine.close()


def test_a_session_that_is_started_here_writes_no_log(spark):
    """Its lines would quote cells in the terminal of whoever asks."""
    assert spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().name() == "OFF"


def heap(spark):
    """Bytes of Java that something still holds."""
    machine = spark._jvm.java.lang.Runtime.getRuntime()
    machine.gc()
    return machine.totalMemory() - machine.freeMemory()


def nested(rng, leaves):
    """A choice of choices, of any shape."""
    if leaves == 1:
        return str(rng.randrange(9))
    cut = rng.randrange(1, leaves)
    first, second = nested(rng, cut), nested(rng, leaves - cut)
    return f"CASE WHEN 1 < 2 THEN {first} ELSE {second} END"


def statements(count):
    """Statements of different shapes, in brackets: the parser reads each to its end first."""
    rng = random.Random(7)
    for _ in range(count):
        yield f"SELECT (((({nested(rng, 44)})))) IS NOT NULL"


@pytest.mark.parametrize("own", [True, False], ids=["own session", "session of a user"])
def test_many_different_statements_leave_little_in_memory(spark, own):
    """Spark's parser holds what it has seen: 40 of them had left about 150 MB."""
    session = spark if own else spark.newSession()
    if not own:
        session.conf.unset("spark.sql.parser.parserDfaCacheFlushRatio")
        session.conf.set("spark.sql.parser.manageParserCaches", "false")
    before = heap(spark)
    for text in statements(40):
        assert _spark.collected(session, text) == [(True,)]
    assert heap(spark) - before < 90_000_000  # a twentieth of the driver's 1 GB, and one more
    assert session.conf.get("spark.sql.parser.manageParserCaches") == str(own).lower()
    ratio = session.conf.get("spark.sql.parser.parserDfaCacheFlushRatio")
    assert (float(ratio) > 0) == own


@pytest.fixture
def plans(spark, monkeypatch):
    """Plans of what is asked from here on: optimized, and as it is executed."""
    seen, real = [], type(spark).sql

    def sql(self, *given):
        frame = real(self, *given)
        whole = frame._jdf.queryExecution()
        seen.append((whole.optimizedPlan().toString(), whole.executedPlan().toString()))
        return frame

    monkeypatch.setattr(type(spark), "sql", sql)
    return seen


@pytest.mark.parametrize("depth", [1, 3])
def test_a_condition_on_ratios_is_not_written_out(spark, tmp_path, plans, depth):
    """Each ratio is named several times by the next; moved below them, it has millions of steps."""
    own = pol.Policy([pol.Table("t", [pol.Integer("n", -4, 9)])], pol.Budget("1"))
    relation = Scan(own.tables["t"])
    ratio = n = ex.Column("n", relation.schema["n"])
    for _ in range(depth):
        ratio = ex.Clamp(ex.Divide(ex.Arithmetic("-", ratio, n), ratio, Fraction(1, 2)), -9, 9)
    some = Filter(relation, ex.Compare("<", ratio, ex.Constant.number(Fraction(1, 2))))
    question = aggregate(some, (), (ONE,), Limits(rows=1))
    rows = [{"n": i} for i in range(-4, 10)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "part.parquet")
    rules = spark.conf.get("spark.sql.optimizer.excludedRules", None)
    with contextlib.closing(engines.connect(f"spark://{tmp_path}", own)) as engine:
        plans.clear()
        assert engine.execute(question, SALT) == plan.run(question, {"t": rows}, SALT)
        assert len(plans[-1][0]) < 3 * len(engine.sql(question, SALT))
    assert spark.conf.get("spark.sql.optimizer.excludedRules", None) == rules


@pytest.mark.usefixtures("spark")
def test_partitions_that_a_condition_leaves_out_are_not_read(tmp_path, plans):
    own = pol.Policy([pol.Table("t", [pol.Integer("year", 2000, 2030)])], pol.Budget("1"))
    for year in (2020, 2021, 2022):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"n": [1, 2]}), tmp_path / f"year={year}" / "part.parquet")
    relation = Scan(own.tables["t"])
    year = ex.Column("year", relation.schema["year"])
    some = Filter(relation, ex.Compare("=", year, ex.Constant.number(Fraction(2021))))
    question = aggregate(some, (), (ONE,), Limits(rows=1))
    with contextlib.closing(engines.connect(f"spark://{tmp_path}", own)) as engine:
        plans.clear()
        assert engine.execute(question, SALT) == {(): (2,)}
    assert "2021" in plans[-1][1].partition("PartitionFilters: [")[2].partition("PushedFilters")[0]


def test_what_the_owner_of_a_session_lets_its_parser_hold_stays(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.parser.manageParserCaches", "true")
    session.conf.set("spark.sql.parser.parserDfaCacheFlushRatio", "20")
    with _spark._settled(session):
        assert session.conf.get("spark.sql.parser.parserDfaCacheFlushRatio") == "20"


def test_files_that_come_later_are_read_too(spark, tmp_path):
    table = pol.Table("people", [pol.Integer("age", 0, 115)])
    pq.write_table(pa.table({"age": [1, 2]}), tmp_path / "a.parquet")
    engine = engines.connect(f"spark://{tmp_path}", pol.Policy([table], pol.Budget("1")))
    scan = Scan(table)
    years = Measure(MeasureKind.SUM, ex.Column("age", scan.schema["age"]))
    asked = aggregate(scan, (), (years,), Limits(rows=1))
    assert engine.execute(asked, SALT) == {(): (3,)}
    pq.write_table(pa.table({"age": [3]}), tmp_path / "b.parquet")
    assert engine.execute(asked, SALT) == {(): (6,)}
    # its types stay those that the statement was proved for
    pq.write_table(pa.table({"age": ["x"]}), tmp_path / "c.parquet")
    with pytest.raises(EngineError):
        engine.execute(asked, SALT)
    views = len(spark.catalog.listTables())
    engine.close()
    assert len(spark.catalog.listTables()) == views - 1
