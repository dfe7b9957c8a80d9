"""Bad input gets one clear refusal, and refusals say nothing about private values."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from discreet import mechanisms as m
from discreet.errors import DiscreetError, ParameterError

CALLS = {
    "laplace": lambda v=5, s=1, e=1: m.laplace(v, s, e),
    "laplace on integers": lambda v=5, s=1, e=1: m.laplace(v, s, e, integer=True),
    "geometric": lambda v=5, s=1, e=1: m.geometric(v, s, e),
    "gaussian": lambda v=5, s=1, e=1: m.gaussian(v, s, e, "1e-6"),
    "gaussian rho": lambda v=5, s=1, e=1: m.gaussian(v, s, rho=e),
    "exponential": lambda v=(5, 6), s=1, e=1: m.exponential(v, s, e),
    "permute_and_flip": lambda v=(5, 6), s=1, e=1: m.permute_and_flip(v, s, e),
    "noisy_max": lambda v=(5, 6), s=1, e=1: m.noisy_max(v, s, e),
    "sparse_vector": lambda v=(5, 6), s=1, e=1: m.sparse_vector(v, 5, s, e),
    "SparseVector": lambda v=5, s=1, e=1: m.SparseVector(5, s, e).ask(v),
}
everywhere = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@everywhere
@pytest.mark.parametrize(
    "epsilon", [0, -1, "0", math.nan, math.inf, 1e-320, "1e-400", None, True, "much", [1], 1j]
)
def test_bad_epsilon(call, epsilon):
    with pytest.raises(ParameterError, match=r"epsilon|rho"):
        call(e=epsilon)


@everywhere
@pytest.mark.parametrize("sensitivity", [0, -1, math.nan, math.inf, None, "wide", 5e-324])
def test_bad_sensitivity(call, sensitivity):
    with pytest.raises(ParameterError, match="sensitivity"):
        call(s=sensitivity)


@everywhere
@pytest.mark.parametrize(
    "value", [[[1, 2], [3]], {1, 2}, {"a": 1}, (x for x in (1, 2))], ids=lambda v: type(v).__name__
)
def test_shapes_are_the_callers_to_get_right(call, value):
    with pytest.raises(ParameterError):
        call(v=value)


@pytest.mark.parametrize("delta", [0, 1, -1, 2, math.nan, "1e-400x", None])
def test_bad_delta(delta):
    with pytest.raises(ParameterError):
        m.gaussian(5, 1, 1, delta)
    if delta is not None:
        with pytest.raises(ParameterError):
            m.threshold_keys({"a": 1}, 1, delta)
        with pytest.raises(ParameterError):
            m.smooth_median([1, 2], 0, 3, 1, delta)


@pytest.mark.parametrize(
    "options",
    [{}, {"epsilon": 1}, {"delta": "1e-6"}, {"epsilon": 1, "rho": 1}, {"delta": 0.1, "rho": 1}],
)
def test_gaussian_needs_one_complete_target(options):
    with pytest.raises(ParameterError, match="either"):
        m.gaussian(5, 1, **options)


@pytest.mark.parametrize("step", [0, -1, math.nan, math.inf, "x", 1e-320])
def test_bad_steps(step):
    with pytest.raises(ParameterError, match="step"):
        m.laplace(5, 1, 1, step=step)


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, math.nan, "x"])
def test_bad_confidence(confidence):
    with pytest.raises(ParameterError, match="confidence"):
        m.laplace(5, 1, 1).interval(confidence)
    with pytest.raises(ParameterError, match="confidence"):
        m.exponential([1, 2], 1, 1).accuracy(confidence)


@pytest.mark.parametrize("relation", ["unbounded", "ADD_REMOVE", 3, ""])
def test_bad_relations(relation):
    for call in (
        lambda: m.laplace(5, 1, 1, neighbours=relation),
        lambda: m.sensitivity([[1]], relation),
        lambda: m.threshold_keys({"a": 1}, 1, "1e-6", neighbours=relation),
    ):
        with pytest.raises(ParameterError, match="neighbours"):
            call()


@pytest.mark.parametrize(
    "matrix", [[], [1, 2], [[math.nan]], [["a"]], [[[1]]], [[1j]], np.zeros((0, 3))]
)
def test_bad_matrices(matrix):
    with pytest.raises(ParameterError):
        m.sensitivity(matrix, "add-remove")


@pytest.mark.parametrize("norm", [0, 3, "1", None])
def test_bad_norms(norm):
    with pytest.raises(ParameterError, match="norm"):
        m.sensitivity([[1]], "add-remove", norm=norm)


def test_wrong_shapes():
    for call in (
        lambda: m.exponential([[1, 2], [3, 4]], 1, 1),
        lambda: m.noisy_max([[1, 2]], 1, 1),
        lambda: m.sparse_vector(5, 1, 1, 1),
        lambda: m.SparseVector(5, 1, 1).ask([1, 2]),
        lambda: m.smooth_median([[1, 2]], 0, 3, 1),
        lambda: m.exponential([1, 2], 1, 1, candidates=["only one"]),
    ):
        with pytest.raises(ParameterError):
            call()


@pytest.mark.parametrize("cutoff", [0, -1, 1.5, None, True])
def test_bad_cutoffs(cutoff):
    with pytest.raises(ParameterError, match="cutoff"):
        m.sparse_vector([1, 2], 1, 1, 1, cutoff=cutoff)


@pytest.mark.parametrize(
    "call",
    [
        lambda: m.exponential([[987654.25]], 1, 1),
        lambda: m.laplace([[987654.25], [1, 2]], 1, 1),
        lambda: m.threshold_keys([("a", 987654)], 1, "1e-6"),
        lambda: m.randomized_response({987654}, p="0.5"),
        lambda: m.smooth_median([[987654.25, math.nan]], 0, 1, 1),
    ],
)
def test_messages_never_quote_private_values(call):
    with pytest.raises(DiscreetError) as caught:
        call()
    error = caught.value
    chain = [error, error.__cause__, None if error.__suppress_context__ else error.__context__]
    assert not any("987654" in str(part) for part in chain if part is not None)


def test_every_refusal_comes_with_words():
    with pytest.raises(ParameterError) as caught:
        m.laplace(10, sensitivity=1, epsilon=0)
    assert str(caught.value) == 'epsilon must be positive, got 0\n    try: epsilon="0.1"'


@pytest.mark.parametrize(
    "value",
    [0, -0.0, 5e-324, -5e-324, 1e308, Decimal("0.1"), Fraction(1, 3), np.float32(0.1), np.int8(-5)],
)
def test_odd_but_finite_values_are_fine(value):
    assert math.isfinite(m.laplace(value, 1, 1).value)
    assert math.isfinite(m.gaussian(value, "0.5", rho="0.5").value)


def test_no_public_call_takes_a_seed():
    import inspect

    for name in m.__all__:
        thing = getattr(m, name)
        for function in [thing, *vars(thing).values()] if inspect.isclass(thing) else [thing]:
            if callable(function) and not inspect.isclass(function):
                names = set(inspect.signature(function).parameters)
                assert not names & {"seed", "rng", "random_state", "generator"}, name
