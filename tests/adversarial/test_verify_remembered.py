"""What the verifier remembers of a table's own SELECTs decides nothing about another statement."""

from __future__ import annotations

import random

import pytest

from discreet import verify
from discreet.errors import UnprovenStatementError
from discreet.verify import _limits, _read


def forget():
    _read._base.cache_clear()
    _limits._start.cache_clear()


@pytest.fixture(autouse=True)
def fresh():
    forget()
    yield
    forget()


def told(sql, dialect="duckdb", **tables):
    """What a proof says of the columns, or that there is none."""
    try:
        return verify.prove(sql, dialect=dialect, tables=tables, fanouts={}).columns
    except UnprovenStatementError as why:
        return why.reason


INTEGERS = verify.Table({"id": "BIGINT", "age": "INTEGER"})
WIDE = verify.Table({"id": "BIGINT", "age": "BIGINT"})
OWNED = verify.Table({"id": "BIGINT", "age": "INTEGER"}, unit="id")


def clamped(top, column="r0", table="people"):
    return (
        f"SELECT CASE WHEN {column} > {top} THEN {top} WHEN {column} < 0 THEN 0 "
        f"ELSE {column} END AS c FROM (SELECT age AS r0, id AS u FROM {table}) AS s"
    )


def summed(base, more="", value="c"):
    return f"SELECT COALESCE(sum({value}), 0) FROM (SELECT * FROM ({base}) AS s{more}) AS s"


def test_a_base_is_read_and_followed_once():
    for k in range(20):
        proof = told(summed(clamped(99), f" WHERE c > {k}"), people=INTEGERS)
        assert proof[0].hi == 99
    assert _read._base.cache_info().misses == _limits._start.cache_info().misses == 1


def test_a_literal_above_a_base_that_is_known_is_still_looked_at():
    wide = f"c * {2**31 - 1} * {2**31 - 1}"
    assert not isinstance(told(summed(clamped(99), " WHERE c > 5"), people=INTEGERS), str)
    assert isinstance(told(summed(clamped(99), f" WHERE {wide} > 5"), people=INTEGERS), str)
    assert isinstance(told(summed(clamped(99), value="c // 0"), people=INTEGERS), str)


def test_a_literal_in_a_base_is_part_of_it():
    assert [told(summed(clamped(top)), people=INTEGERS)[0].hi for top in (9, 99, 9, 999)] == [
        9, 99, 9, 999,
    ]  # fmt: skip
    unguarded = "SELECT r0 + 1 AS c FROM (SELECT age AS r0 FROM people) AS s"
    for literal in ("1", "2147483647", "1"):
        sql = summed(unguarded.replace("1", literal))
        assert isinstance(told(sql, people=INTEGERS), str)


BARE = "SELECT CAST(r0 AS INTEGER) AS c FROM (SELECT age AS r0 FROM people) AS s"


def test_the_same_words_over_another_table_are_another_base():
    assert told(summed(BARE), people=INTEGERS)[0].hi == 2**31 - 1
    assert isinstance(told(summed(BARE), people=WIDE), str)
    assert told(summed(BARE), people=OWNED)[0].rows == float("inf")
    assert told(summed(BARE), people=INTEGERS)[0].rows == 1
    computed = verify.Table(INTEGERS.columns, computed=True)
    assert "fence" in told(summed(BARE), people=computed)
    public = verify.Table(INTEGERS.columns, public=True)
    assert told(summed(BARE), people=public)[0].hi == float("inf")


def test_that_test_notices_a_base_without_its_table(monkeypatch):
    follow, kept = _limits._start.__wrapped__, {}

    def careless(base, *rest):
        if base not in kept:
            kept[base] = follow(base, *rest)
        return kept[base]

    with monkeypatch.context() as patched, pytest.raises(AssertionError):
        patched.setattr(_limits, "_start", careless)
        test_the_same_words_over_another_table_are_another_base()


def test_dialects_have_bases_of_their_own():
    divided = "SELECT r0 / 2 AS c FROM (SELECT age AS r0 FROM people) AS s"
    whole = told(summed(divided), "postgresql", people=INTEGERS)
    assert told(summed(divided), "duckdb", people=INTEGERS) != whole
    assert told(summed(divided), "postgresql", people=INTEGERS) == whole


def test_parentheses_in_texts_and_names_end_no_base():
    table = verify.Table({"a)": "VARCHAR", "age": "INTEGER"})
    base = (
        "SELECT CASE r1 WHEN ')' THEN 1 WHEN '(SELECT' THEN 2 ELSE 0 END AS c "
        'FROM (SELECT "a)" AS r1 FROM "t(") AS s'
    )
    assert told(summed(base), **{'"t("': table})[0].hi == 2
    assert isinstance(told(summed(base + ")"), **{'"t("': table}), str)


def test_one_base_on_both_sides_of_a_join_is_two():
    base = f"{clamped(99).replace('END AS c', 'END AS c, u')}"
    side = f"SELECT c, u FROM ({base}) AS s WHERE u IS NOT NULL"
    joined = f"SELECT l.c AS c, r.c AS d FROM ({side}) AS l INNER JOIN ({side}) AS r ON l.c = r.c"
    assert "joined" in told(f"SELECT COALESCE(sum(c), 0) FROM ({joined}) AS s", people=OWNED)
    own = joined.replace("l.c = r.c", "l.u = r.u")
    alone = told(f"SELECT COALESCE(sum(c), 0) FROM ({own}) AS s", people=OWNED)
    assert alone[0].rows == float("inf")


def test_what_is_known_changes_no_proof():
    """Statements of many kinds, in any order, say what each of them says alone."""
    tables = {"people": OWNED, "pets": WIDE}
    ranked = (
        "SELECT COALESCE(sum(c), 0) FROM (SELECT * FROM (SELECT *, row_number() OVER "
        "(PARTITION BY u) AS n FROM (SELECT c, u FROM ({base}) AS s WHERE u IS NOT NULL) AS s) "
        "AS s WHERE n BETWEEN 1 AND {k}) AS s"
    )
    grouped = (
        "SELECT c, count(*) FROM (SELECT * FROM ({base}) AS s WHERE c IS NOT NULL) AS s GROUP BY c"
    )
    bases = [
        clamped(top, table=t).replace("END AS c", "END AS c, u") for top in (9, 99) for t in tables
    ]
    texts = [summed(b, f" WHERE c > {k}") for b in bases for k in (1, 2)]
    texts += [ranked.format(base=b, k=k) for b in bases for k in (1, 4)]
    texts += [grouped.format(base=b) for b in bases] + [summed(BARE), *bases]
    alone = {}
    for text in texts:
        forget()
        alone[text] = told(text, **tables)
    forget()
    order = random.Random(7)
    for _ in range(5):
        order.shuffle(texts)
        assert all(told(text, **tables) == alone[text] for text in texts)
    assert len({str(x) for x in alone.values()}) > 6
