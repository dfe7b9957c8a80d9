"""The policy model: domains, units, limits, budgets, identity."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import hashlib
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import DiscreetError, PolicyError
from discreet.policy import (
    Boolean,
    Budget,
    Category,
    Date,
    Integer,
    Policy,
    Real,
    Table,
    Text,
    Timestamp,
)
from discreet.privacy._relation import Neighbours


def people(**changes):
    given = {"unit": "person_id", "max_rows_per_unit": 3, "source": "people.parquet"} | changes
    return Table("people", [Category("sex", ["F", "M"]), Integer("age", 0, 115)], **given)


def policy(table=None, **changes):
    return Policy([table or people()], **({"budget": Budget("1")} | changes))


def refused(make, words, **expected):
    with pytest.raises(PolicyError, match=words) as caught:
        make()
    for name, value in expected.items():
        assert getattr(caught.value, name) == value
    return caught.value


# columns


def test_numbers_are_read_as_people_wrote_them():
    assert Real("x", 0.1, "0.3", step=Decimal("0.1")).min == Fraction(1, 10)
    assert Real("x", np.float64(0.5), np.int64(2), step="1/2").grid == (1, 4)
    assert Integer("n", "-3", np.int32(7)).grid == (-3, 7)


def test_columns_take_their_name_by_keyword_and_can_be_replaced():
    age = Integer(name="age", min=0, max=115)
    assert dataclasses.replace(age, max=120) == Integer("age", 0, 120)
    assert dataclasses.replace(Category("c", ["a"]), values=["b"]).values == ("b",)


def test_null_stays_null_unless_a_value_is_stated():
    assert Integer("n", 0, 9).nullable
    filled = Integer("n", 0, 9, null=0)
    assert (filled.nullable, filled.null) == (False, 0)
    assert Boolean("b", null=False).null is False
    assert not Text("t", null="").nullable
    refused(lambda: Integer("n", 1, 9, nullable=False), "what a NULL becomes",
            fix={"nullable": False, "null": 1})  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda: Integer("n", 0, 9, null=10),
        lambda: Real("x", 0, 1, step="0.5", null="0.3"),
        lambda: Real("x", 0, 1, step="0.5", null=-1),
        lambda: Date("d", "2020-01-01", "2020-12-31", null="2021-01-01"),
        lambda: Timestamp("t", "2020-01-01", "2021-01-01", step=60, null="2020-01-01T00:00:01"),
        lambda: Category("c", ["a"], null="b"),
        lambda: Category("c", ["a"], null=1),
        lambda: Boolean("b", null=1),
        lambda: Text("t", null=1),
    ],
)
def test_the_value_for_null_must_be_in_the_domain(make):
    assert "null" in refused(make, "null").path


def test_category_values_are_public_ordered_and_distinct():
    sex = Category("sex", ["F", "M"], other="X", null="X")
    assert sex.values == ("F", "M")
    assert sex.domain == ("F", "M", "X")
    assert Category("k", [3, 1, 2]).values == (3, 1, 2)
    assert Category("b", [True, False]).values == (True, False)
    assert Category("n", [np.int64(4)]).values == (4,)
    assert type(Category("n", [np.int64(4)]).values[0]) is int


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "public values"),
        ("FM", "must be a list"),
        (["a", "a"], "twice"),
        (["a", 1], "one type"),
        ([1, True], "one type"),
        ([1.5], "one type"),
        ([None], "one type"),
        ([["a"]], "one type"),
        (["a\0"], "NUL"),
        (["\ud800"], "surrogate"),
        ([2**62], "2\\^62"),
        (range(2), "must be a list"),
        ([str(i) for i in range(100_001)], "at most 100000"),
    ],
)
def test_category_values_that_cannot_be_used(values, words):
    assert refused(lambda: Category("c", values), words).path[:1] == ("values",)


def test_other_must_be_new_and_of_the_same_type():
    refused(lambda: Category("c", ["a", "b"], other="a"), "must not be one")
    refused(lambda: Category("c", [1, 2], other="x"), "one type")


def test_a_constant_column_is_allowed():
    assert Integer("n", 5, 5).grid == (5, 5)
    assert Real("x", "0.3", "0.3").grid == (3, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Integer("n", 2, 1),
        lambda: Real("x", 2, 1),
        lambda: Date("d", "2021-01-01", "2020-01-01"),
        lambda: Timestamp("t", "2021-01-01", "2020-01-01"),
    ],
)
def test_bounds_the_wrong_way_round_come_back_exchanged(make):
    error = refused(make, "above max")
    kind = {"n": Integer, "x": Real, "d": Date, "t": Timestamp}[str(error.message)[8]]
    assert kind("c", **error.fix)


@pytest.mark.parametrize("kind", [Integer, Real, Date, Timestamp])
def test_missing_bounds_are_refused_with_an_example_that_works(kind):
    error = refused(lambda: kind("c"), "public bounds")
    assert kind("c", **error.fix)


@pytest.mark.parametrize(
    "value",
    [True, None, "x", float("nan"), float("inf"), 1.5, "1e999999999", 1j, [], 2**62, -(2**62)],
)
def test_integer_bounds_that_cannot_be_used(value):
    refused(lambda: Integer("n", 0 if value != -(2**62) else value, value), "n")


def test_integer_bounds_reach_just_below_two_to_the_62():
    assert Integer("n", -(2**62) + 1, 2**62 - 1).max == 2**62 - 1


# the grid


@pytest.mark.parametrize("step", ["0.01", "1", 5, "1/3", Fraction(1, 1024), 2**10, "1e-3"])
def test_steps_that_are_whole_or_one_over_whole(step):
    column = Real("x", 0, 30 * Fraction(step), step=step)
    assert column.grid == (0, 30)


@pytest.mark.parametrize(
    ("step", "fix"), [("0.3", "0.25"), ("2.5", 2), ("0.75", "0.5"), (0, 1), (-1, 1)]
)
def test_other_steps_are_refused_with_the_next_finer_one(step, fix):
    assert refused(lambda: Real("x", 0, 100, step=step), "step").fix == {"step": fix}


def test_bounds_off_the_grid_are_moved_outwards_by_the_fix():
    error = refused(lambda: Real("x", "-0.005", 1, step="0.01"), "not a multiple")
    assert error.fix == {"min": "-0.01"}
    error = refused(lambda: Real("x", 0, "1.005", step="0.01"), "not a multiple")
    assert error.fix == {"max": "1.01"}


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        (0, 1, Fraction(1, 2**20)),
        (0, 200_000, Fraction(1, 8)),
        (0, 2**30, 2**10),
        (0, "0.3", Fraction(1, 10**7)),
        (0, 5 * 10**20, 2**20),
        (-1, 1, Fraction(1, 2**19)),
    ],
)
def test_default_step_is_the_coarsest_power_with_a_million_cells(low, high, step):
    column = Real("x", low, high)
    assert column.step == step
    assert "step=" in repr(column)


def test_default_step_is_never_too_fine_for_a_double():
    column = Real("x", 10**15, 10**15 + 1)
    assert max(map(abs, column.grid)) < 2**53


def test_no_default_step_for_thirds_and_the_fix_works():
    error = refused(lambda: Real("x", "1/3", 1), "no grid")
    assert Real("x", **error.fix).min < Fraction(1, 3)


def test_grid_integers_stay_exact_in_a_double():
    assert Real("x", 0, 2**53 - 1, step=1).grid[1] == 2**53 - 1
    refused(lambda: Real("x", 0, 2**53, step=1), "below 2\\^53")
    refused(lambda: Real("x", -(2**52), 2**52, step=1), "below 2\\^53")


# days and moments


def test_dates_and_moments_count_from_1970():
    assert Date("d", dt.date(1969, 12, 31), "1970-01-02").grid == (-1, 1)
    seen = Timestamp("t", "1970-01-01T02:00:00+02:00", dt.date(1970, 1, 2))
    assert seen.grid == (0, 86_400 * 10**6)
    assert seen.min == dt.datetime(1970, 1, 1)  # noqa: DTZ001
    assert Timestamp("t", "1970-01-01", "1970-01-02", step="0.5").grid == (0, 172_800)


@pytest.mark.parametrize("value", [20200101, dt.datetime(2020, 1, 1), "yesterday", True])  # noqa: DTZ001
def test_what_is_not_a_day_is_refused(value):
    refused(lambda: Date("d", value, "2021-01-01"), "must be a date")


@pytest.mark.parametrize("value", [20200101, "noon", "0001-01-01T00:00:00+23:00", dt.time(1)])
def test_what_is_not_a_moment_is_refused(value):
    refused(lambda: Timestamp("t", value, "2021-01-01"), "must be a date and time")


def test_moments_off_the_grid_and_bad_steps():
    error = refused(lambda: Timestamp("t", "2020-01-01T00:30", "2021-01-01", step=3600), "whole")
    assert error.fix == {"min": dt.datetime(2020, 1, 1)}  # noqa: DTZ001
    refused(lambda: Timestamp("t", "2020-01-01", "2021-01-01", step="1e-7"), "microseconds")
    refused(lambda: Timestamp("t", "9999-12-31T23:59", "9999-12-31T23:59:30", step=7200), "whole")


# tables


@pytest.mark.parametrize(
    "limits",
    [
        {"max_rows_per_unit": 1},
        {"max_groups_per_unit": 2, "max_rows_per_group": 3},
        {"max_rows_per_unit": 5, "max_groups_per_unit": 2},
    ],
)
def test_a_unit_is_limited_by_rows_or_by_groups_and_rows_per_group(limits):
    table = people(**({"max_rows_per_unit": None} | limits))
    assert all(getattr(table, key) == value for key, value in limits.items())


@pytest.mark.parametrize("limits", [{}, {"max_groups_per_unit": 2}, {"max_rows_per_group": 2}])
def test_an_unlimited_unit_is_refused(limits):
    error = refused(lambda: people(**({"max_rows_per_unit": None} | limits)), "any number of rows")
    assert error.fix == {"max_rows_per_unit": 1}


def test_without_unit_there_is_nothing_to_limit():
    assert people(unit=None, max_rows_per_unit=None).unit is None
    refused(lambda: people(unit=None), "has no meaning", path=("max_rows_per_unit",))


@pytest.mark.parametrize("limit", [0, -1, True, "x", 1.5, 10**10])
def test_limits_are_positive_whole_numbers(limit):
    refused(lambda: people(max_rows_per_unit=limit), "max_rows_per_unit")


def test_public_tables_have_columns_and_nothing_else():
    assert Table("zips", [Text("zip")], public=True).public
    refused(lambda: Table("zips", [], public=True), "needs its columns")
    for extra in ({"unit": "u"}, {"max_rows_per_unit": 1}, {"neighbours": "change-one"}):
        refused(lambda e=extra: Table("zips", [Text("zip")], public=True, **e), "is public")


def test_neighbours_are_stated_or_add_remove():
    assert people().neighbours is Neighbours.ADD_REMOVE
    assert people(neighbours="change-one").neighbours is Neighbours.CHANGE_ONE
    assert refused(lambda: people(neighbours="change_one"), "one of").fix == {
        "neighbours": "change-one"
    }


def test_names_keep_their_case_and_must_differ_by_more():
    refused(lambda: Table("t", [Text("a"), Text("A")]), "more than case")
    refused(lambda: Policy([Table("t"), Table("T")], Budget(1)), "more than case")
    error = refused(lambda: Table("t", [Text("ID")], unit="id", max_rows_per_unit=1), "declared")
    assert error.fix == {"unit": "ID"}


@pytest.mark.parametrize("name", ["", "a\0b", "\udfff", 5, None, "x" * 256])
def test_names_that_cannot_be_used(name):
    for make in (Text, Table):
        refused(lambda make=make: make(name), "name")


@pytest.mark.parametrize("name", ["select", "home town", 'a"b', "née", "a.b", "line\nbreak", " "])
def test_names_that_need_quotes_are_fine(name):
    assert Table(name, [Text(name)]).column(name).name == name


def test_unknown_names_suggest_the_nearest():
    assert refused(lambda: policy().table("poeple"), "no table").hint == "people"
    assert refused(lambda: people().column("AGE"), "no column").hint == "age"


def test_tables_and_columns_come_as_lists_or_mappings():
    listed = people()
    assert Table("t", {"a": Text("a")}) == Table("t", (c for c in [Text("a")]))
    refused(lambda: Table("t", {"b": Text("a")}), "under its own name")
    refused(lambda: Table("t", ["a"]), "must hold columns")
    refused(lambda: Table("t", 5), "list or a mapping")
    refused(lambda: Policy(["t"], Budget(1)), "must hold tables")
    refused(lambda: Policy([listed], None), "needs a budget")
    refused(lambda: Policy([], Budget(1)), "private table")
    refused(lambda: Policy([Table("z", [Text("a")], public=True)], Budget(1)), "private table")


# budgets


def test_budgets_are_exact_and_infer_their_accounting():
    assert Budget(0.1).epsilon == Fraction(1, 10)
    assert Budget("1").accounting == "pure"
    assert Budget("1", "1e-6").accounting == "zcdp"
    assert Budget(rho="0.5", delta="1e-6").rho == Fraction(1, 2)
    assert Budget("1", "1e-6", accounting="approx").delta == Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs epsilon"),
        ({"epsilon": 0}, "positive"),
        ({"epsilon": "-1"}, "positive"),
        ({"epsilon": "inf"}, "not a number"),
        ({"epsilon": float("nan")}, "finite"),
        ({"epsilon": True}, "must be a number"),
        ({"epsilon": "1e999999999999"}, "digits"),
        ({"epsilon": Decimal("1e999999")}, "digits"),
        ({"epsilon": 10**5000}, "too large"),
        ({"epsilon": 1, "delta": 1}, "delta must lie"),
        ({"epsilon": 1, "delta": -1}, "delta must lie"),
        ({"epsilon": 1, "delta": "1e-6", "accounting": "pure"}, "no delta"),
        ({"epsilon": 1, "accounting": "approx"}, "needs delta"),
        ({"epsilon": 1, "accounting": "zcdp"}, "needs delta"),
        ({"rho": 1}, "needs delta"),
        ({"rho": 1, "delta": "1e-6", "accounting": "approx"}, "rho has no meaning"),
        ({"rho": 1, "epsilon": 1, "delta": "1e-6"}, "not both"),
        ({"epsilon": 1, "accounting": "renyi"}, "one of pure"),
    ],
)
def test_budgets_that_cannot_be_used(given, words):
    refused(lambda: Budget(**given), words)


def test_shares_are_parts_of_the_whole():
    assert Budget(1, shares={"a": "0.5", "b": 0.5}).shares["b"] == Fraction(1, 2)
    for shares in ({"a": 0}, {"a": "1.1"}, {"a": "0.6", "b": "0.6"}, {"": 1}, {"a": "x"}, [1]):
        error = refused(lambda s=shares: Budget(1, shares=s), "share")
        assert error.path[0] in {"shares", "name"}
    error = refused(lambda: Budget(1, shares={"a": 1, "b": 1}), "is left")
    assert Budget(1, **error.fix).shares["a"] == Fraction(1, 2)


# the policy as a value


def test_identity_outlives_edits_of_everything_that_is_not_what_the_data_is():
    before = policy()
    edits = [
        policy(budget=Budget(100)),
        policy(people(max_rows_per_unit=30)),
        policy(people(neighbours="change-one")),
        policy(dataclasses.replace(people(), columns=[Integer("age", 0, 999)])),
        Policy([Table("zips", [Text("zip")], public=True), people()], Budget("1")),
    ]
    for after in edits:
        assert after.identity == before.identity
        assert after.fingerprint != before.fingerprint


def test_identity_follows_source_unit_and_table_name():
    others = [people(source="x"), people(unit="x"), dataclasses.replace(people(), name="x")]
    assert len({policy(t).identity for t in [people(), *others]}) == 4


def test_a_name_is_the_identity_and_cannot_pose_as_a_hash():
    assert policy(name="census").identity == "census"
    assert policy(people(source="moved"), name="census").identity == "census"
    refused(lambda: policy(name=policy().identity), "may not begin")


def test_identity_does_not_depend_on_the_order_of_tables():
    other = Table("visits")
    one = Policy([people(), other], Budget(1))
    two = Policy([other, people()], Budget(1))
    assert one.identity == two.identity
    assert one.fingerprint == two.fingerprint


def test_fingerprint_tells_booleans_from_integers():
    tables = [Table("t", [Category("c", v)]) for v in ([1, 0], [True, False])]
    assert len({policy(t).fingerprint for t in tables}) == 2


def test_identity_and_fingerprint_stay_what_they_are():
    # ledgers out there are tied to these: a change here strands them
    said = '[["people","people.parquet","person_id"]]'
    assert policy().identity == "sha256:" + hashlib.sha256(said.encode()).hexdigest()[:32]
    said = (
        '{"budget":{"accounting":"pure","epsilon":"1"},"tables":{"t":{"columns":{"x":'
        '{"max":"1","min":"0","step":"1/2","type":"real"}},"neighbours":"add-remove"}}}'
    )
    small = policy(Table("t", [Real("x", 0, 1, step="0.5")]))
    assert small.fingerprint == hashlib.sha256(said.encode()).hexdigest()


def test_policies_are_values():
    one = policy(budget=Budget("1", shares={"a": 1}))
    assert one == pickle.loads(pickle.dumps(one)) == copy.deepcopy(one)
    assert len({one, copy.deepcopy(one)}) == 1
    for change in (
        lambda: setattr(one, "name", "x"),
        lambda: setattr(one.tables["people"], "unit", None),
        lambda: setattr(one.tables, "_items", {}),
        lambda: one.tables.__setitem__("x", 1),
    ):
        with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
            change()


def test_errors_travel_between_processes():
    error = refused(lambda: Integer("n", 2, 1), "above")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(error, DiscreetError)
    assert error.code == "policy"
    assert (str(again), again.path, again.fix) == (str(error), error.path, error.fix)
