"""The bound of a run, term by term, against the model that stands in the head of `_ticks`."""

from __future__ import annotations

import math
import sys

import pytest

import discreet as dc
from discreet.curator import Counter
from discreet.plan import JoinPublic
from discreet.service import _ticks as t
from discreet.service import _warm

R = 4**6


@pytest.fixture(scope="module")
def counter():
    own = dc.policy
    stays = own.Table(
        "stays", [own.Integer("age", 0, 115), own.Category("sex", ["F", "M"]),
                  own.Text("note", longest=100), own.Text("name", longest=40),
                  own.Integer("ward", 0, 9)],
        unit="person", max_rows_per_unit=4,
    )  # fmt: skip
    visits = own.Table("visits", [own.Integer("cost", 0, 9), own.Text("why", longest=30)],
                       unit="person", max_rows_per_unit=3)  # fmt: skip
    calls = own.Table("calls", [own.Integer("age", 0, 9)], unit="person", max_groups_per_unit=2,
                      max_rows_per_group=3)  # fmt: skip
    wards = own.Table("wards", [own.Integer("ward", 0, 9)], public=True)
    policy = own.Policy([stays, visits, calls, wards], own.Budget("10", "0.01"), name="model")
    with dc.open(policy=policy, dummy=True) as curator:
        yield Counter(curator)


def seconds(counter, sql, *, rows=R, slowness=1.0, text=0, **price):
    plans = counter.bill(sql, "ana", epsilon="0.1", **price).plans
    return t.bound(plans, rows, slowness, text)


SCAN, PASS, OPERATOR, ALIKE, RANKED, ROW = 80, 30, 3, 100, 550, 200
"""Billionths of a second for a row: read, passed on, each operator, limited, ranked, joined."""


def model(*, read, values=R, cells=1, numbers=1, statements=1, joins=0, letters=0.0, rows=R):
    """Work by the model: fixed parts, rows by node, values added up, noisy numbers, letters."""
    return 2 * (0.003 + 0.004 * statements + 0.009 * joins + 1e-9 * read * rows + 3e-8 * values
                + 5e-6 * cells * (1 + numbers) + letters)  # fmt: skip


ONE = SCAN + PASS + OPERATOR + ALIKE
"""A scan, a projection of a constant, and a limit that has nothing to rank by."""
SIDE = SCAN + PASS + ALIKE
"""One side of a join of which nothing is read."""
BEHIND = ROW + PASS + OPERATOR
"""A join, and a projection of a constant behind it."""
KINDS = {
    "count": ("SELECT COUNT(*) AS n FROM stays", model(read=ONE)),
    # two sums, their product, and rows: six operators
    "sums": ("SELECT COUNT(*) AS n, SUM(age) AS s, SUM(ward) AS w FROM stays",
             model(read=SCAN + PASS + 6 * OPERATOR + RANKED, values=4 * R, numbers=4)),
    # a key is computed twice: first to leave out the rows that have none
    "groups": ("SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex",
               model(read=SCAN + PASS + 3 * OPERATOR + RANKED, cells=2)),
    "two keys": ("SELECT sex, ward, COUNT(*) AS n FROM stays GROUP BY sex, ward",
                 model(read=SCAN + PASS + 5 * OPERATOR + RANKED, cells=20)),
    # each row meets three of the other side at most, there and in what follows
    "join": ("SELECT COUNT(*) AS n FROM stays a JOIN visits b USING (person)",
             model(read=2 * SIDE + 3 * BEHIND, values=3 * R, joins=1)),
    "groups joined": ("SELECT COUNT(*) AS n FROM stays a JOIN calls b USING (person)",
                      model(read=2 * SIDE + 6 * BEHIND, values=6 * R, joins=1)),
    "filter": ("SELECT COUNT(*) AS n FROM stays WHERE age > 3",
               model(read=ONE + PASS + 3 * OPERATOR)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_is_what_the_model_says(counter, kind):
    sql, expected = KINDS[kind]
    assert seconds(counter, sql) == pytest.approx(expected, rel=1e-9)
    assert seconds(counter, sql, slowness=2.0) == pytest.approx(2 * expected, rel=1e-9)
    text = seconds(counter, sql, text=1000)
    assert text == pytest.approx(expected + 2 * 6.5e-6 * 1000, rel=1e-9)


def test_divisions_are_counted_as_they_are_written(counter):
    """A part of a time is one operator of a plan, and four divisions of an engine."""
    assert t.divisions_in(["a // b", "(c % 2) / 3"]) == 4
    for kind, most in (("count", R), ("join", 3 * R)):
        plans = counter.bill(KINDS[kind][0], "ana", epsilon="0.1").plans
        with_, without = (t.bound(plans, R, 1.0, 0, n) for n in (5, 0))
        assert with_ - without == pytest.approx(2 * 5 * 2e-8 * most, rel=1e-9)


def test_rows_are_rounded_up_to_a_power_of_four_never_down(counter):
    sql = KINDS["count"][0]
    at = {rows: seconds(counter, sql, rows=rows) for rows in (0, 1, 2, 4, 5, 16, 17, 64, 65, R)}
    assert at[0] == at[1]
    assert at[2] == at[4] > at[1]
    assert at[5] == at[16] > at[4]
    assert at[17] == at[64] > at[16]
    for rows in (1, 4, 16, 64):
        assert at[rows] == pytest.approx(model(read=ONE, values=rows, rows=rows), rel=1e-9)
    assert math.isinf(seconds(counter, sql, rows=None))


def test_an_open_key_may_have_as_many_groups_as_there_are_rows(counter):
    """Its statements rank letters, too; the groups' share is what grows by noisy numbers."""
    sql = "SELECT note, COUNT(*) AS n{} FROM stays GROUP BY note"
    one = seconds(counter, sql.format(""), delta="1e-6")
    assert one > 2 * 5e-6 * R * 3
    more = seconds(counter, sql.format(", SUM(age) AS s"), delta="1e-6")
    assert more - one >= 2 * 5e-6 * R


LETTERS = {
    # read at the scan, taken by the column, compared; and how many operators there are
    "equal": ("WHERE note = 'A'", 1 + 2.2 + 2.2, 0, 2),
    "short": (
        "WHERE name = 'A'",
        0.64 * (1 + 2.2 + 2.2),
        0,
        2,
    ),  # 64 letters, though 40 are declared
    "like": ("WHERE note LIKE '%ab%'", 1 + 2.2 + 2.2 + 2.5, 0, 2),
    "match": ("WHERE REGEXP_MATCHES(note, 'a+b')", 1 + 2.2 + 8, 1e-4, 2),
    "large match": ("WHERE REGEXP_MATCHES(note, '[ab]*a[ab]{30}c')", 1 + 2.2 + 48 * 36, 1e-4, 2),
    "fold": ("WHERE UPPER(note) = 'A'", 1 + 2.2 + 2.2 + 20, 0, 3),
    "trim": ("WHERE TRIM(note) = 'A'", 1 + 2.2 + 2.2 + 7.5, 0, 3),
    "slice": ("WHERE SUBSTRING(note, 1, 2) = 'A'", 1 + 2.2 + 2.2 + 2.2, 0, 3),
    "piece": ("WHERE SPLIT_PART(note, ' ', 1) = 'A'", 1 + 2.2 + 2.2 + 16, 0, 3),
}


@pytest.mark.parametrize("kind", LETTERS)
def test_each_operator_takes_its_time_for_each_letter(counter, kind):
    """A hundred letters of each row, by billionths of a second, and what a pattern costs once."""
    where, each, once, operators = LETTERS[kind]
    letters = 100 * R * each * 1e-9 + once
    expected = model(read=ONE + PASS + operators * OPERATOR, letters=letters)
    found = seconds(counter, f"SELECT COUNT(*) AS n FROM stays {where}")
    assert found == pytest.approx(expected, rel=1e-9)


def test_letters_are_ranked_at_limits_and_taken_again_by_each_row_of_a_join(counter):
    rank = 7.5 + 1.5 * math.log2(2 * R)
    sql = "SELECT COUNT(DISTINCT note) AS n FROM stays"
    own = 1 + 2.2 + rank
    noted = SCAN + PASS + OPERATOR + RANKED
    plain = model(read=noted, letters=100 * R * own * 1e-9)
    assert seconds(counter, sql) == pytest.approx(plain, rel=1e-9)
    joined = "SELECT COUNT(DISTINCT a.note) AS n FROM stays a JOIN visits b "
    # where values are compared, both sides have one more to read, and to rank by
    also = noted + OPERATOR - SIDE
    for on, compared in (("USING (person)", 0), ("ON a.person = b.person AND a.ward = b.cost", 1)):
        each = own + 3 * (2.2 * (1 + compared) + 2.2)  # the join, the projection behind it
        read = noted + SIDE + compared * also + 3 * BEHIND
        expected = model(read=read, values=3 * R, joins=1, letters=100 * R * each * 1e-9)
        assert seconds(counter, joined + on) == pytest.approx(expected, rel=1e-9)


def test_rows_of_a_public_table_multiply_what_is_joined_with_it(counter):
    sql = "SELECT COUNT(*) AS n FROM stays a JOIN wards w ON a.ward = w.ward"
    (plan,) = counter.bill(sql, "ana", epsilon="0.1").plans
    node = plan.lowered.aggregates[0].relation
    while not isinstance(node, JoinPublic):
        (node,) = node.inputs
    met = node.fanout
    assert met > 1
    read = SCAN + met * (BEHIND + ALIKE)
    expected = model(read=read, values=met * R, joins=1)
    assert seconds(counter, sql) == pytest.approx(expected, rel=1e-9)


def test_a_row_meets_one_owner(tmp_path):
    """What is joined by its key has no limit below the join, and multiplies nothing."""
    own = dc.policy
    visits = own.Table("visits", [own.Integer("cost", 0, 9)], unit="person", key="visit",
                       max_rows_per_unit=3)  # fmt: skip
    labs = own.Table("labs", [own.Integer("value", 0, 9)], owner=own.Owner("visits", "visit"),
                     max_rows_per_unit=2)  # fmt: skip
    policy = own.Policy([visits, labs], own.Budget("10"), name="owners")
    with dc.open(policy=policy, dummy=True, ledger=str(tmp_path / "l")) as curator:
        sql = "SELECT COUNT(*) AS n FROM labs a JOIN visits b ON a.visit = b.visit"
        (plan,) = Counter(curator).bill(sql, "ana", epsilon="0.1").plans
    relation = plan.lowered.aggregates[0].relation
    assert t._work(relation, R, set(relation.schema))[0] == R
    assert t.bound((plan,), R, 1.0, 0) > model(read=2 * SCAN + 4 * PASS + ROW, joins=1)


def test_a_worker_loads_before_what_only_many_groups_need(monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy.ma", raising=False)
    _warm.warm_up()
    assert "numpy.ma" in sys.modules
