"""No exception, type or lattice of a mechanism depends on a private value.

A generator of hostile values (infinities, NaN, 10^400, mixed types, things that are no
numbers) replaces one record of an ordinary input. The mechanism must end in the same
*class of outcome* on both neighbours: what it raised, or the types, shapes, step, law, loss
and printed price of what it released. Only the released numbers may differ.

Nothing here is statistical: hypothesis repeats itself, the values listed are all tried.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import mechanisms as m
from discreet.mechanisms import _lattice

HOSTILE = [
    0, 1, -1, True, False, 0.5, -0.0, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan,
    2**62, 2**63, -(2**63), 2**64, 10**400, -(10**400),
    Fraction(1, 3), Fraction(10**400, 3), Decimal("0.1"), Decimal("Infinity"), Decimal("-Infinity"),
    Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999"), Decimal("1e-999999"),
    np.int8(-5), np.uint64(2**64 - 1), np.float16(0.1), np.float32("inf"), np.float64("nan"),
    np.longdouble("1e4000"), np.bool_(True), np.datetime64("2020-01-01"), np.str_("7"),
    None, "12", "", b"12", 1j, complex("nan"), [], [1, 2], (), {}, {1}, object(), int, ...,
]  # fmt: skip
ALONE = [v for v in HOSTILE if not isinstance(v, list | tuple | dict | set)]
"""Without shapes, which are the caller's to get right."""

NAMES = [f"{type(v).__name__} {i}" for i, v in enumerate(HOSTILE)]


class Wicked(int):
    """An integer whose comparisons lie and whose sums shout."""

    def __lt__(self, other):
        return True

    def __add__(self, other):
        raise RuntimeError("told you")

    __radd__ = __add__


def outcome(call):
    """Return everything about a call that may not depend on a private value."""
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 - its class and text are what is looked at
        return type(error).__name__, str(error)
    value = getattr(found, "value", found)
    # integers too long for 64 bits come as objects, by what is released
    kind = str(getattr(value, "dtype", "")).replace("object", "int64")
    shape = (type(value).__name__, kind, np.shape(value))
    if isinstance(found, m.Selection):
        shape = (type(value).__name__,)
    if isinstance(found, m.Keys):
        shape = (type(value).__name__, found.threshold)
    public = [getattr(found, name, None) for name in ("step", "law", "loss", "price", "rounded")]
    measured = [type(r.value).__name__ for r in getattr(found, "measured", ())]
    return type(found).__name__, shape, *map(repr, public), measured


SCALARS = {
    "laplace": lambda v: m.laplace(v, 1, 1),
    "laplace, integer": lambda v: m.laplace(v, 1, 1, integer=True),
    "laplace, step": lambda v: m.laplace(v, 50, "0.1", step="0.3"),
    "geometric": lambda v: m.geometric(v, 1, 1),
    "gaussian": lambda v: m.gaussian(v, 1, 1, "1e-6"),
    "gaussian, rho": lambda v: m.gaussian(v, "0.7", rho=1),
    "SparseVector": lambda v: type(m.SparseVector(10**6, 1, 1).ask(v) is False),
    "randomized_response": lambda v: m.randomized_response(v, p="0.5"),
}
VECTORS = {
    "laplace": lambda v: m.laplace(v, 1, 1),
    "laplace, integer": lambda v: m.laplace(v, 1, 1, integer=True),
    "geometric": lambda v: m.geometric(v, 1, 1),
    "gaussian": lambda v: m.gaussian(v, 1, 1, "1e-6"),
    "gaussian, rho, integer": lambda v: m.gaussian(v, 1, rho=1, integer=True),
    "exponential": lambda v: m.exponential(v, 1, 1),
    "permute_and_flip": lambda v: m.permute_and_flip(v, 1, 1),
    "noisy_max": lambda v: m.noisy_max(v, 1, 1),
    "noisy_max, value": lambda v: m.noisy_max(v, 1, 1, with_value=True),
    "noisy_max, integer": lambda v: m.noisy_max(v, 1, 1, integer=True, with_value=True),
    "sparse_vector": lambda v: m.sparse_vector(v, 10**6, 1, 1).mechanism,
    "smooth_median": lambda v: m.smooth_median(v, 0, 120, 1),
    "smooth_median, delta": lambda v: m.smooth_median(v, 0, 120, 1, "1e-6", step=1),
    "local_sensitivity_median": lambda v: m.local_sensitivity_median(v, 0, 120),
    "smooth_sensitivity_median": lambda v: m.smooth_sensitivity_median(v, "0.5", 0, 120),
    "randomized_response": lambda v: m.randomized_response(v, epsilon=1, categories=3),
    "probabilities": lambda v: m.Exponential(1, 1).probabilities(v),
    "threshold_keys": lambda v: m.threshold_keys(dict(enumerate(v)), 1, "1e-6"),
}
hostile = pytest.mark.parametrize("value", HOSTILE, ids=NAMES)


@pytest.mark.parametrize("value", ALONE, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("name", SCALARS)
def test_one_number(name, value):
    assert outcome(lambda: SCALARS[name](value)) == outcome(lambda: SCALARS[name](3))


@hostile
@pytest.mark.parametrize("name", VECTORS)
def test_one_record_among_others(name, value):
    plain = outcome(lambda: VECTORS[name]([1, 2, 3, 4]))
    assert outcome(lambda: VECTORS[name]([1, 2, value, 4])) == plain
    assert outcome(lambda: VECTORS[name]([1.5, 2.5, value, 4.5])) == plain


@pytest.mark.parametrize("name", VECTORS)
@given(st.lists(st.sampled_from([*HOSTILE, Wicked(7)]), min_size=3, max_size=3))
@settings(max_examples=25)
def test_every_record_hostile(name, values):
    if all(isinstance(v, list | tuple) for v in values):
        return  # a matrix
    plain = outcome(lambda: VECTORS[name]([1, 2, 3]))
    assert outcome(lambda: VECTORS[name](values)) == plain


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float32, np.uint64, bool, object])
@pytest.mark.parametrize("name", VECTORS)
def test_the_type_of_an_array_says_nothing(name, dtype):
    plain = outcome(lambda: VECTORS[name]([1, 0, 1]))
    assert outcome(lambda: VECTORS[name](np.array([0, 1, 1]).astype(dtype))) == plain


def test_the_mean_of_integers_is_released_alike_whatever_its_type():
    """``statistics.mean`` returns 2 for [1, 3] and 1.5 for [1, 2]."""
    import statistics

    both = [statistics.mean(data) for data in ([1, 3], [1, 2])]
    assert [type(v) for v in both] == [int, float]
    for call in (
        lambda v: m.laplace(v, 50, "0.1", neighbours="change-one"),
        lambda v: m.gaussian(v, 50, rho="0.01"),
    ):
        assert outcome(lambda: call(both[0])) == outcome(lambda: call(both[1]))  # noqa: B023 - called at once
    assert m.laplace(sum([]), 100, 1).step == m.laplace(sum([10.5]), 100, 1).step


def test_empty_inputs_end_alike():
    assert m.laplace([], 1, 1).value.shape == (0,)
    assert m.gaussian([], 1, 1, "1e-6").value.shape == (0,)
    assert m.sparse_vector([], 1, 1, 1).value == ()
    assert m.threshold_keys({}, 1, "1e-6").value == {}
    assert 0 <= m.smooth_median([], 0, 120, 1).value <= 120


def test_every_reading_is_within_the_bound_and_nearly_exact():
    for value in ALONE:
        (read,) = _lattice.read_values([value]).flat.tolist()
        assert -(2**1023) <= read <= 2**1023
        if isinstance(value, int | float | Fraction) and abs(value) < 1e300:
            assert Fraction(read) == Fraction(value)


def test_the_bound_moves_no_two_values_apart():
    ladder = [-(10**400), -math.inf, -1e308, -1, 0, 0.5, 1, 1e308, 10**400]
    read = [Fraction(x) for x in _lattice.read_values(ladder).flat.tolist()]
    exact = [Fraction(-(10**500)) if x == -math.inf else Fraction(x) for x in ladder]
    pairs = [(i, j) for i in range(len(ladder)) for j in range(i)]
    assert all(abs(read[i] - read[j]) <= abs(exact[i] - exact[j]) for i, j in pairs)


def test_the_harness_sees_a_mechanism_that_follows_the_type():
    """Mutant: the lattice chosen from the run-time type, as it was once."""

    def follows(v):
        return m.laplace(v, 1, 1, integer=isinstance(v, int))

    assert outcome(lambda: follows(3)) != outcome(lambda: follows(3.0))

    def raises(v):
        return m.laplace(float(v), 1, 1)

    assert outcome(lambda: raises(3)) != outcome(lambda: raises(10**400))
