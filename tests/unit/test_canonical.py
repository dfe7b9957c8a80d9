"""The one spelling of data is that of the standard library's JSON writer."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet._canonical import canonical
from discreet.policy import Category, Integer, Table


class Shade(StrEnum):
    DARK = "dark"


@dataclass(frozen=True)
class Leaf:
    zone: object
    code: object
    hidden: object = field(default=None, compare=False)


def plainly(value: object) -> object:
    """What the standard writer is handed for values it does not know."""
    if is_dataclass(value):
        own = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        return {"node": type(value).__name__, **own}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, range):
        return list(value)
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def expected(value: object) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=plainly
    )


ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.fractions()
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.just(Shade.DARK)
    | st.builds(range, st.integers(-3, 3), st.integers(-3, 9))
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.integers(), inner).map(MappingProxyType)
        | st.builds(Leaf, inner, inner, inner)
        | inner.map(lambda x: [x, x, Leaf(x, x)])
    ),
    max_leaves=20,
)


@settings(derandomize=True, max_examples=300)
@given(VALUES)
def test_data_are_spelled_as_the_standard_writer_spells_them(value):
    assert canonical(value) == expected(value)


def test_a_table_is_spelled_alike_each_time():
    table = Table("people", [Category("sex", ["F", "M"]), Integer("age", 0, 9)])
    assert canonical(table) == expected(table)
    assert canonical([table, table]) == expected([table, table])


@pytest.mark.parametrize("value", [math.inf, math.nan, object(), Leaf, {(1, 2): 3}, {1, 2}])
def test_what_has_no_one_spelling_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        canonical([value])


def test_numbers_and_texts_are_told_apart():
    assert len({canonical(x) for x in (1, "1", 1.0, True, [1], Fraction(1, 3))}) == 6
