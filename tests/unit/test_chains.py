"""Tables that belong to people through other tables: visits, their labs, the labs' notes.

Meaning is checked against the reference on DuckDB and PostgreSQL; privacy by replay on neighbours:
a person comes or goes with all rows that nobody else reaches. Keys repeat, are missing, dangle
and are shared between people in the data that are drawn.
"""

from __future__ import annotations

import contextlib
import random
from fractions import Fraction

import pyarrow as pa
import pytest

from discreet import engines, frame, sql, verify
from discreet import plan as pl
from discreet import policy as pol
from discreet.audit import replay
from discreet.engines import Reference
from discreet.errors import (
    ParameterError,
    PolicyError,
    SchemaError,
    UnprovenStatementError,
    UnsupportedQueryError,
)
from discreet.plan import _reference as meaning
from discreet.privacy import Neighbours

SALT = pl.Salt(b"chains")
TEXT = """
[budget]
epsilon = "1"
delta = "1e-6"

[tables.patients]
unit = "patient"
neighbours = "{relation}"
max_rows_per_unit = 1
columns = {{ sex = {{ type = "category", values = ["F", "M"] }} }}

[tables.visits]
unit = "patient"
neighbours = "{relation}"
key = "visit"
max_rows_per_unit = 3
columns = {{ ward = {{ type = "category", values = ["ER", "ICU"] }} }}

[tables.labs]
owner = {{ table = "visits", column = "visit" }}
key = "lab"
max_rows_per_unit = 4
columns = {{ value = {{ type = "integer", min = -3, max = 5 }} }}

[tables.notes]
owner = {{ table = "labs", column = "lab" }}
max_rows_per_unit = 2
columns = {{ stars = {{ type = "integer", min = 0, max = 5 }} }}
"""
FROM_TOP = "FROM patients p JOIN visits v ON p.patient = v.patient JOIN labs l ON l.visit = v.visit"
COMMAS = "notes n, labs l, visits v WHERE n.lab = l.lab"
HIGH = "SELECT 1 FROM labs l WHERE l.visit = v.visit AND value > 1"
QUESTIONS = [
    "SELECT COUNT(*) AS n, SUM(value) AS s FROM labs",
    "SELECT COUNT(DISTINCT patient) AS n FROM labs WHERE value > 1",
    "SELECT COUNT(*) AS n FROM notes WHERE stars > 0",
    "SELECT AVG(n) AS a FROM (SELECT patient, COUNT(*) AS n FROM labs GROUP BY patient) AS t",
    "SELECT ward, COUNT(*) AS n, SUM(value) AS s FROM labs JOIN visits USING (visit) GROUP BY ward",
    f"SELECT sex, SUM(value) AS s {FROM_TOP} WHERE ward = 'ER' GROUP BY sex",
    f"SELECT ward, COUNT(*) AS n FROM {COMMAS} AND l.visit = v.visit GROUP BY ward",
    "SELECT COUNT(*) AS n FROM visits v LEFT JOIN labs l ON v.visit = l.visit",
    "SELECT COUNT(*) AS n FROM labs a JOIN labs b ON a.visit = b.visit WHERE a.value < b.value",
    "SELECT COUNT(*) AS n FROM visits WHERE visit IN (SELECT visit FROM labs WHERE value > 1)",
    f"SELECT COUNT(*) AS n FROM visits v WHERE NOT EXISTS ({HIGH})",
    "SELECT COUNT(DISTINCT patient) AS n FROM visits WHERE patient IN (SELECT patient FROM labs)",
    "SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.patient = b.patient AND a.ward = b.ward",
]
COLUMNS = {
    "patients": {"patient": pa.int64(), "sex": pa.string()},
    "visits": {"patient": pa.int64(), "visit": pa.int64(), "ward": pa.string()},
    "labs": {"visit": pa.int32(), "lab": pa.string(), "value": pa.int64()},
    "notes": {"lab": pa.string(), "stars": pa.int64()},
}


def policy(relation="add-remove", text=TEXT):
    return pol.loads(text.format(relation=relation))


BY_PARENT = (
    TEXT.replace("max_rows_per_unit = 3", "max_rows_per_unit = 2")
    .replace("max_rows_per_unit = 4", "max_rows_per_parent = 1")
    .replace("[tables.notes]", "[tables.notes]\nmax_rows_per_parent = 2")
    .replace(
        "max_rows_per_unit = 2\ncolumns = {{ stars", "max_rows_per_unit = 3\ncolumns = {{ stars"
    )
)
"""At most 2 visits, one lab of each, 2 notes of each of these, and 3 notes in all."""


def person(rng, unit, visits, labs):
    """Rows of one person; keys are drawn from small pools, so that people share them."""
    most = rng.choice([1, 3, 7])
    own = [rng.choice(visits) for _ in range(rng.randrange(most))]
    children = [(rng.choice([*own, None, 999]), rng.choice([*labs, None]))
                for _ in range(rng.randrange(2 * most))] if own else []  # fmt: skip
    return {
        "patients": [{"patient": unit, "sex": rng.choice("FM?")}] * rng.randrange(3),
        "visits": [
            {"patient": unit, "visit": v, "ward": rng.choice(["ER", "ICU", None])} for v in own
        ],
        "labs": [{"visit": v, "lab": x, "value": rng.randrange(-9, 9)} for v, x in children],
        "notes": [
            {"lab": x, "stars": rng.randrange(9)}
            for _, x in children
            for _ in range(rng.randrange(3))
        ],
    }


def together(*people):
    return {name: [row for p in people for row in p[name]] for name in COLUMNS}


def reached(data):
    """Keys that somebody reaches, in the words of the data alone."""
    visits = {r["visit"] for r in data["visits"] if r["patient"] is not None} - {None}
    labs = {r["lab"] for r in data["labs"] if r["visit"] in visits} - {None}
    return visits, labs


def neighbours(rng, relation):
    """Two tables that differ in one person, and in the rows that this person alone reaches."""
    visits, labs = [*range(9), None], [f"x{i}" for i in range(9)]
    rest = together(*(person(rng, rng.choice([u, u, None]), visits, labs) for u in range(3)))
    with_rows = together(rest, person(rng, 99, visits, labs))
    other = together(rest, person(rng, 99, visits, labs))
    if relation is Neighbours.CHANGE_ONE:
        return without_shared(with_rows, rest), without_shared(other, rest)
    return rest, without_shared(with_rows, rest)


def without_shared(data, rest):
    """Leave out what the new person's rows add to keys that the others reach already."""
    visits, labs = reached(rest)
    extra = {n: data[n][len(rest[n]) :] for n in data}
    return together(rest, {
        "patients": extra["patients"],
        "visits": extra["visits"],
        "labs": [r for r in extra["labs"] if r["visit"] not in visits],
        "notes": [r for r in extra["notes"] if r["lab"] not in labs],
    })  # fmt: skip


def priced(text, relation="add-remove", own=TEXT):
    query = sql.parse(text, policy(relation, own)).query
    return pl.price(pl.lower(query), pl.Ask(Fraction(1)))


def violations(rounds, own=TEXT):
    rng, found = random.Random(11), []
    for relation in Neighbours:
        plans = [priced(text, relation, own) for text in QUESTIONS]
        for _ in range(rounds):
            left, right = neighbours(rng, relation)
            for plan in plans:
                found += replay(plan, Reference(left), Reference(right), SALT).violations
    return found


@pytest.mark.parametrize("own", [TEXT, BY_PARENT], ids=["per unit", "per parent"])
def test_a_person_moves_no_answer_by_more_than_declared(own):
    assert violations(40, own) == []


@pytest.mark.parametrize("limit", ["_limit_rows", "_limit_groups"])
def test_the_replay_finds_a_limit_per_parent_that_is_not_kept(monkeypatch, limit):
    monkeypatch.setattr(meaning, limit, lambda limit, unit, own, salt: own)  # noqa: ARG005 - its signature
    assert violations(40, BY_PARENT)


def test_limits_per_parent_bound_what_a_person_adds():
    reach = {name: priced(f"SELECT COUNT(*) AS n FROM {name}", own=BY_PARENT).lowered.parts[0]
             for name in ("labs", "notes")}  # fmt: skip
    assert {name: part.sensitivity.l1 for name, part in reach.items()} == {"labs": 2, "notes": 3}
    text = "SELECT COUNT(*) AS n FROM (SELECT value AS x FROM labs WHERE value > 0) AS t"
    assert priced(text, own=BY_PARENT).lowered.parts[0].sensitivity.l1 == 2


def test_a_long_stay_counts_by_its_limit_and_short_ones_by_theirs():
    # a patient with one visit and nine labs, and one with three visits and a lab in each
    visits = [{"patient": p, "visit": v, "ward": "ER"} for p, v in ((1, 1), (2, 2), (2, 3), (2, 4))]
    labs = [{"visit": v, "lab": "x", "value": 1} for v in (1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4)]
    data = {"patients": [], "visits": visits, "labs": labs, "notes": []}
    (aggregate,) = pl.lower(
        sql.parse("SELECT COUNT(*) AS n FROM labs", policy(text=BY_PARENT)).query
    ).aggregates
    (found,) = Reference(data).execute(aggregate, SALT).values()
    assert found[0] == 1 + 2


def test_the_replay_finds_rows_that_are_dropped_for_being_shared(monkeypatch):
    whole = meaning._units

    def cautious(scan, tables):
        units = whole(scan, tables)
        return lambda raw: found if len(found := list(units(raw))) == 1 else []

    monkeypatch.setattr(meaning, "_units", cautious)
    assert violations(40)


def test_the_replay_finds_children_that_belong_to_nobody(monkeypatch):
    # a table whose rows were units of their own: one person then moves every row
    monkeypatch.setattr(meaning, "_limit_rows", lambda limit, unit, own, salt: own)  # noqa: ARG005 - its signature
    assert violations(40)


def arrow(data):
    return {
        name: pa.Table.from_pylist(data[name], schema=pa.schema(list(columns.items())))
        for name, columns in COLUMNS.items()
    }


def worlds(count):
    rng = random.Random(5)
    for _ in range(count):
        visits, labs = [*range(9), None], [f"x{i}" for i in range(9)]
        yield together(*(person(rng, u, visits, labs) for u in [*range(12), None]))


@pytest.mark.parametrize("text", [TEXT, BY_PARENT], ids=["per unit", "per parent"])
def test_duckdb_equals_the_reference(text):
    own = policy(text=text)
    aggregates = [a for q in QUESTIONS for a in pl.lower(sql.parse(q, own).query).aggregates]
    for data in worlds(4):
        engine = engines.connect(arrow(data), own)
        for aggregate in aggregates:
            assert engine.execute(aggregate, SALT) == Reference(data).execute(aggregate, SALT)
        engine.close()


@pytest.mark.parametrize("text", [TEXT, BY_PARENT], ids=["per unit", "per parent"])
def test_postgresql_equals_the_reference(postgres_url, text):
    import psycopg

    own, (data,) = policy(text=text), worlds(1)
    native = {pa.int64(): "bigint", pa.int32(): "integer", pa.string(): "text"}
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS chains CASCADE")
        connection.execute("CREATE SCHEMA chains")
        connection.execute("SET search_path TO chains")
        for name, columns in COLUMNS.items():
            listed = ", ".join(f"{c} {native[t]}" for c, t in columns.items())
            connection.execute(f"CREATE TABLE {name} ({listed})")
            marks = ", ".join(["%s"] * len(columns))
            for row in data[name]:
                connection.execute(
                    f"INSERT INTO {name} VALUES ({marks})", [row[c] for c in columns]
                )
        engine = engines.connect(connection, own)
        for question in QUESTIONS:
            for aggregate in pl.lower(sql.parse(question, own).query).aggregates:
                assert engine.execute(aggregate, SALT) == Reference(data).execute(aggregate, SALT)
        engine.close()


def test_the_finest_rows_are_limited_as_their_table_says():
    top = priced(f"SELECT COUNT(*) AS n {FROM_TOP}").lowered
    assert top.query.limits.rows == 4
    assert top.parts[0].sensitivity.l1 == 4
    assert priced("SELECT COUNT(*) AS n FROM notes").lowered.parts[0].sensitivity.l1 == 2


def test_the_fluent_api_means_the_same():
    labs = frame.Table("labs", policy()).join("visits", on="visit").where("ward = 'ER'")
    text = "SELECT COUNT(*) AS n FROM labs JOIN visits USING (visit) WHERE ward = 'ER'"
    assert labs.agg(n=frame.count()).query.hash == sql.parse(text, policy()).query.hash


def test_a_policy_is_written_as_it_was_read():
    own = policy("change-one")
    assert pol.loads(pol.dumps(own)) == own
    assert 'owner = { table = "visits", column = "visit" }' in pol.dumps(own)
    assert own.table("notes").unit == "patient"
    assert pol.loads(pol.dumps(policy(text=BY_PARENT))) == policy(text=BY_PARENT)
    assert own.table("notes").neighbours is Neighbours.CHANGE_ONE


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ('table = "visits", column', 'table = "visit", column', '{ table = "visits", column'),
        ('key = "visit"\n', "", 'key = "visit" in [tables.visits]'),
        ('key = "visit"\n', 'key = "patient"\n', 'unit = "visit"'),
        ('owner = { table = "labs"', 'owner = { table = "patients"', 'key = "lab" in'),
        ('owner = { table = "visits"', 'owner = { table = "labs"', None),
        ('key = "lab"', 'unit = "patient"\nkey = "lab"', '# owner = { table = "visits"'),
        ("max_rows_per_unit = 4\n", "", "max_rows_per_unit = 1"),
        ("max_rows_per_unit = 3\n", "max_rows_per_parent = 3\n", "# max_rows_per_parent"),
        ("value = {", 'patient = { type = "text" }, value = {', 'unit = "patient"'),
        ('{ table = "labs", column = "lab" }', '"labs"', "owner = { table ="),
    ],
)
def test_a_chain_that_leads_to_no_unit_is_refused(old, new, hint):
    text = TEXT.format(relation="add-remove")
    assert old in text
    with pytest.raises(PolicyError) as refusal:
        pol.loads(text.replace(old, new, 1))
    assert (refusal.value.hint is None) if hint is None else hint in refusal.value.hint


def test_keys_are_compared_as_they_stand():
    data = arrow(next(worlds(1)))
    texts = pa.array([str(v) for v in data["visits"]["visit"].to_pylist()])
    data["visits"] = data["visits"].set_column(1, "visit", texts)
    with pytest.raises(SchemaError, match="'7' and '007'"):
        engines.connect(data, policy())


def test_a_table_knows_its_owner_only_in_a_policy():
    labs = pol.Table("labs", owner=pol.Owner("visits", "visit"), max_rows_per_unit=1)
    with pytest.raises(ParameterError):
        pl.Scan(labs)


@pytest.mark.parametrize("on", ["l.visit = v.ward", "l.value = v.visit", "l.lab = v.visit"])
def test_a_join_on_other_columns_is_refused_with_the_key_to_join_on(on):
    text = f"SELECT COUNT(*) AS n FROM labs l JOIN visits v ON {on}"
    with pytest.raises(UnsupportedQueryError, match="private too") as refusal:
        sql.parse(text, policy())
    assert refusal.value.hint is None  # it would be another question
    works = refusal.value.message.partition("what works is ")[2]
    assert works == "ON l.visit = v.visit"
    sql.parse(text.partition(" ON ")[0] + " " + works, policy())


LISTED = """
[tables.wards]
public = true
[tables.wards.columns]
ward = { type = "category", values = ["ER", "ICU"] }
beds = { type = "integer", min = 0, max = 9 }
"""


def test_a_row_without_a_key_is_neither_in_a_list_nor_out_of_it():
    own = pol.loads(TEXT.format(relation="add-remove"))
    text = "SELECT COUNT(*) AS n FROM visits WHERE visit NOT IN (SELECT visit FROM labs)"
    (aggregate,) = pl.lower(sql.parse(text, own).query).aggregates
    visits = [{"patient": 1, "visit": key, "ward": "ER"} for key in (None, 7, 8)]
    labs = [{"visit": key, "lab": 1, "value": 2} for key in (None, 8)]
    data = {"patients": [], "visits": visits, "labs": labs, "notes": []}
    (found,) = Reference(data).execute(aggregate, SALT).values()
    assert found[0] == 1


def test_a_list_is_what_the_public_rows_say_and_not_what_they_may_hold():
    own = pol.loads(TEXT.format(relation="add-remove") + LISTED)
    text = "SELECT COUNT(*) AS n FROM visits WHERE ward IN (SELECT ward FROM wards)"
    (aggregate,) = pl.lower(sql.parse(text, own, public_fanout={"wards": 1}).query).aggregates
    data = next(worlds(1)) | {"wards": [{"ward": "ICU", "beds": 5}]}
    (plain,) = pl.lower(
        sql.parse("SELECT COUNT(*) AS n FROM visits WHERE ward = 'ICU'", own).query
    ).aggregates
    assert Reference(data).execute(aggregate, SALT) == Reference(data).execute(plain, SALT)
    with pytest.raises(UnsupportedQueryError, match="join the table"):
        sql.parse(text.replace(" IN ", " NOT IN "), own, public_fanout={"wards": 1})


def test_a_public_table_with_a_condition_is_joined_where_its_values_are_unique():
    own = pol.loads(TEXT.format(relation="add-remove") + LISTED)
    text = "SELECT COUNT(*) AS n FROM visits WHERE ward IN (SELECT ward FROM wards WHERE beds > 2)"
    (aggregate,) = pl.lower(sql.parse(text, own, public_fanout={"wards": 1}).query).aggregates
    data = next(worlds(1)) | {"wards": [{"ward": "ER", "beds": 1}, {"ward": "ICU", "beds": 5}]}
    (plain,) = pl.lower(
        sql.parse("SELECT COUNT(*) AS n FROM visits WHERE ward = 'ICU'", own).query
    ).aggregates
    assert Reference(data).execute(aggregate, SALT) == Reference(data).execute(plain, SALT)
    with pytest.raises(UnsupportedQueryError, match="join the table"):
        sql.parse(text, own, public_fanout={"wards": 2})


# --- the verifier ----------------------------------------------------------------------------

TABLES = {
    "v": verify.Table({"p": "BIGINT", "k": "BIGINT"}, unit="p"),
    "c": verify.Table({"f": "BIGINT", "x": "BIGINT"}, owner=("f", "v", "k")),
}
PAIRS = "SELECT p, k FROM (SELECT p, k FROM v WHERE p IS NOT NULL) AS s GROUP BY p, k"


def limited(body):
    ranked = f"SELECT u, row_number() OVER (PARTITION BY u) AS n FROM ({body}) AS s"
    return f"SELECT count(*) FROM (SELECT * FROM ({ranked}) AS s WHERE n BETWEEN 1 AND 4) AS s"


def reach(text):
    proof = verify.prove(text, dialect="duckdb", tables=TABLES)
    return proof.measures[0].sensitivity("add-remove").l1


def test_the_verifier_reads_the_limit_through_the_owner():
    body = f"SELECT r.p AS u FROM (SELECT f FROM c) AS l INNER JOIN ({PAIRS}) AS r ON l.f = r.k"
    assert reach(limited(body)) == 4


@pytest.mark.parametrize(
    "body",
    [
        "SELECT f AS u FROM c",
        f"SELECT r.p AS u FROM (SELECT f, x FROM c) AS l INNER JOIN ({PAIRS}) AS r ON l.x = r.k",
        f"SELECT r.p AS u FROM (SELECT f FROM c) AS l INNER JOIN ({PAIRS}) AS r ON l.f = r.p",
        f"SELECT r.p AS u FROM (SELECT f FROM c) AS l LEFT JOIN ({PAIRS}) AS r ON l.f = r.k",
        f"SELECT r.p AS u FROM (SELECT f % 9 AS f FROM c) AS l INNER JOIN ({PAIRS}) AS r ON f = k",
    ],
)
def test_the_verifier_finds_rows_that_are_not_given_to_their_owner(body):
    # unproved, or proved to have no bound: neither runs
    with contextlib.suppress(UnprovenStatementError):
        assert reach(limited(body)) == float("inf")
