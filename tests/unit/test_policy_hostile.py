"""Hostile policies: a policy error or a policy, never a crash and never a stall."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from discreet import policy as pol
from discreet.errors import PolicyError

START = "[budget]\nepsilon = 1\n[tables.t.columns]\n"

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1,
                max_size=20)  # fmt: skip
fractions = st.fractions(-1000, 1000, max_denominator=50)


def pair(values):
    return st.tuples(values, values).map(sorted)


@st.composite
def reals(draw, name):
    step = draw(st.one_of(st.integers(1, 9), st.integers(1, 999).map(lambda n: Fraction(1, n))))
    low, high = draw(pair(st.integers(-(10**6), 10**6)))
    null = draw(st.none() | st.integers(low, high))
    outside = draw(st.sampled_from(["clamp", "null"]))
    fill = None if null is None else null * step
    return pol.Real(name, low * step, high * step, step, outside=outside, null=fill)


@st.composite
def columns(draw, name):
    kind = draw(st.sampled_from(["category", "integer", "real", "date", "timestamp", "other"]))
    outside = draw(st.sampled_from(["clamp", "null"]))
    if kind == "category":
        texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
        values = st.one_of(
            st.lists(texts, min_size=2, max_size=6, unique=True),
            st.lists(st.integers(-(2**61), 2**61), min_size=2, max_size=6, unique=True),
            st.just([True, False]),
        )
        *listed, last = draw(values)
        return pol.Category(name, listed, other=last, null=draw(st.sampled_from([None, last])))
    if kind == "integer":
        low, high = draw(pair(st.integers(-(2**62) + 1, 2**62 - 1)))
        return pol.Integer(
            name, low, high, outside=outside, null=draw(st.sampled_from([None, low]))
        )
    if kind == "real":
        return draw(reals(name))
    if kind == "date":
        return pol.Date(name, *draw(pair(st.dates())), outside=outside)
    if kind == "timestamp":
        return pol.Timestamp(name, *draw(pair(st.datetimes())), outside=outside)
    return draw(st.sampled_from([pol.Boolean(name), pol.Boolean(name, null=True), pol.Text(name)]))


@st.composite
def tables(draw, name):
    labels = draw(st.lists(names, min_size=1, max_size=4, unique_by=str.casefold))
    held = [draw(columns(label)) for label in labels]
    if draw(st.booleans()):
        relation = draw(st.sampled_from(["add-remove", "change-one"]))
        return pol.Table(name, held, source=draw(st.none() | names), neighbours=relation)
    limits = draw(
        st.sampled_from(
            [{"max_rows_per_unit": 3}, {"max_groups_per_unit": 2, "max_rows_per_group": 4}]
        )
    )
    return pol.Table(name, held, unit=labels[0], **limits)


@st.composite
def policies(draw):
    labels = draw(st.lists(names, min_size=1, max_size=3, unique_by=str.casefold))
    held = [draw(tables(label)) for label in labels]
    if draw(st.booleans()):
        held.append(pol.Table("".join(labels) + "!", held[0].columns, public=True))
    epsilon = draw(st.fractions(Fraction(1, 10**6), 100))
    analysts = draw(st.lists(names, max_size=3, unique=True))
    shares = {who: Fraction(1, len(analysts)) for who in analysts}
    budget = draw(
        st.sampled_from(
            [
                pol.Budget(epsilon, shares=shares),
                pol.Budget(epsilon, "1e-9", accounting="approx", shares=shares),
                pol.Budget(rho=epsilon, delta="1e-6", shares=shares),
            ]
        )
    )
    return pol.Policy(held, budget, draw(st.none() | names))


@given(policies())
@settings(max_examples=150)
def test_every_policy_survives_its_file(policy):
    again = pol.loads(policy.to_toml())
    assert again == policy
    assert again.fingerprint == policy.fingerprint
    assert again.identity == policy.identity
    assert pol.load(policy.to_mapping()) == policy


# words of the language in any order and any place reach further than random characters
WORDS = st.sampled_from(
    [
        *("[", "]", "[[", "]]", "{", "}", "=", ",", ".", "\n", "#", '"', "'", '"""', "'''", "\\"),
        *("budget", "tables", "t", "columns", "policy", "name", "epsilon", "delta", "shares"),
        *("type", "min", "max", "step", "values", "null", "nullable", "outside", "other", "unit"),
        *('"category"', '"integer"', '"real"', '"date"', '"timestamp"', '"text"', "true", "nan"),
        *("-inf", "1e999999999", "0x1f", "9" * 40, "-1", "0.1", "1979-05-27", "07:32:00", "\0"),
        *("1979-05-27T07:32:00Z", "\ud800", "é", "\r", "\r\n", "\ufeff", "\u2028", START),
    ]
)


@given(st.one_of(st.text(), st.lists(WORDS).map("".join), st.lists(WORDS).map(" ".join)))
@example(START + "a = " + "[" * 100_000)
@example(START + "a = " + "{a=" * 100_000)
@example(START + "a = " + "9" * 5000)
@example(START + "a" + ".a" * 20_000 + " = 1")
@example(START + "a." + "' '." * 20_000 + "a = 1")
@example("[" + "a." * 20_000 + "a]")
@example(START + 'a = "\ud800"')
@example(START + "a = { type = 'category', values = ['\ud800'] }")
@example(START + "'\ud800' = { type = 'text' }")
@example(START + "a = { type = 'integer', min = 0, max = " + "9" * 4299 + " }")
@example(START + "a = { type = 'timestamp', min = 0001-01-01T00:00:00+10:00, max = 2000-01-01 }")
@settings(max_examples=400)
def test_any_text_is_a_policy_or_a_policy_error(text):
    with contextlib.suppress(PolicyError):
        pol.loads(text)
    if "\n" in text:
        with contextlib.suppress(PolicyError):
            pol.load(text)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.decimals(),
        st.fractions(),
        st.complex_numbers(),
        st.text(),
        st.binary(),
        st.dates(),
        st.datetimes(timezones=st.none() | st.just(dt.UTC)),
        st.times(),
        st.sampled_from(["1e999999999", "1/0", 10**4000, Fraction(1, 10**4000), "\ud800", "clamp"]),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)
KEYS = ["min", "max", "step", "values", "other", "null", "nullable", "outside"]


ANY_COLUMN = given(
    st.sampled_from(["category", "integer", "real", "date", "timestamp", "boolean", "text"]),
    st.dictionaries(st.sampled_from(KEYS), VALUES),
)


@ANY_COLUMN
@settings(max_examples=400)
def test_any_column_is_a_column_or_a_policy_error(kind, keys):
    load_column(kind, keys)


@pytest.mark.long
@ANY_COLUMN
@settings(max_examples=4000)
def test_any_column_is_a_column_or_a_policy_error_at_length(kind, keys):
    load_column(kind, keys)


def load_column(kind, keys):
    columns = {"c": {"type": kind, **keys}}
    with contextlib.suppress(PolicyError):
        pol.load({"budget": {"epsilon": 1}, "tables": {"t": {"columns": columns}}})


@given(st.sampled_from(["policy", "budget", "tables", "t", "columns", "shares"]), VALUES, VALUES)
def test_any_value_in_any_place_is_refused_politely(place, value, key):
    policy = {
        "policy": {"name": "p"},
        "budget": {"epsilon": 1, "shares": {"a": "0.5"}},
        "tables": {"t": {"columns": {"a": {"type": "text"}}}},
    }
    spot = policy["tables"] if place == "t" else policy
    spot = policy["tables"]["t"] if place == "columns" else spot
    spot = policy["budget"] if place == "shares" else spot
    for held in (value, {key: value} if isinstance(key, str | int | None) else value):
        spot[place] = held
        with contextlib.suppress(PolicyError):
            pol.load(policy)


TABLE_KEYS = ["source", "unit", "neighbours", "public", "max_rows_per_unit", "max_groups_per_unit",
              "max_rows_per_group", "columns"]  # fmt: skip
BUDGET_KEYS = ["epsilon", "delta", "rho", "accounting", "shares"]


ANY_TABLE = given(
    st.dictionaries(st.sampled_from(TABLE_KEYS), VALUES),
    st.dictionaries(st.sampled_from(BUDGET_KEYS), VALUES),
)


@ANY_TABLE
@settings(max_examples=300)
def test_any_table_and_budget_is_refused_politely(table, budget):
    load_table(table, budget)


@pytest.mark.long
@ANY_TABLE
@settings(max_examples=4000)
def test_any_table_and_budget_is_refused_politely_at_length(table, budget):
    load_table(table, budget)


def load_table(table, budget):
    one = {"budget": budget, "tables": {"t": {}}}
    two = {"budget": {"epsilon": 1}, "tables": {"t": table}}
    for mapping in (one, two):
        with contextlib.suppress(PolicyError):
            pol.load(mapping)


def test_a_mapping_that_holds_itself_is_refused():
    loop: dict = {"type": "integer", "max": 1}
    loop["min"] = loop
    with pytest.raises(PolicyError):
        pol.load({"budget": {"epsilon": 1}, "tables": {"t": {"columns": {"c": loop}}}})


def test_errors_can_always_be_printed():
    for text in (START + "a = '\ud800'\x85", START + "'\ud800' = 1", START + "x\ud800"):
        with pytest.raises(PolicyError) as caught:
            pol.loads(text)
        str(caught.value).encode("utf-8")


def test_a_hundred_thousand_values_are_fine_and_more_bytes_than_that_are_not(tmp_path):
    values = ", ".join(f'"{i}"' for i in range(100_000))
    policy = pol.loads(f"{START}c = {{ type = 'category', values = [{values}] }}")
    assert len(policy.table("t").column("c").values) == 100_000
    path = tmp_path / "huge.toml"
    path.write_bytes(b"#" * (8 * 2**20 + 1))
    for source in (path, "\n" * (8 * 2**20 + 1)):
        with pytest.raises(PolicyError, match="longer than"):
            pol.load(source)


@pytest.mark.races
@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 100_000 + " = 1",
        "a = " + "[" * 100_000,
        "a = '''" + "'x" * 100_000,
        'a = """' + '\\"' * 100_000,
        "a = " + "1" * 100_000,
        "\n" * 100_000 + "=",
        "# " * 100_000 + "\n=",
        "x = 1\n" * 20_000,
    ],
)
def test_refusing_takes_no_longer_than_reading(text):
    """The square of the length would take minutes; the bound leaves room for a busy machine."""
    start = time.process_time()
    with pytest.raises(PolicyError):
        pol.loads(START + text)
    assert time.process_time() - start < 5
