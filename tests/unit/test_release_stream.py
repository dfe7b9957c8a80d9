"""Streams: exact integer factor, published figures, replay, refusals. No test is random."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import release
from discreet.errors import ParameterError
from discreet.noise._deterministic import deterministic
from discreet.release._stream import column_moves, inverse_series, square_root


@pytest.mark.parametrize(
    ("n", "squares", "figure"), [(4096, 62_311_100, 3.71390), (65_536, 77_112_897, 4.59677)]
)
def test_integer_square_root(n, squares, figure):
    """Exact Σĉ² and largest error per σ at S = 4096 [3.7139, 4.5968]."""
    c = square_root(n)
    assert int((c * c).sum()) == squares
    decoder = np.cumsum(inverse_series(c))
    assert math.sqrt(squares * (decoder**2).sum()) == pytest.approx(figure, abs=2e-5)


def test_std_is_the_error_of_the_decoder():
    stream = release.Stream(horizon=4096, rho="0.5")
    assert stream.std() == pytest.approx(3.7139, abs=1e-4)
    assert stream.std(1) < stream.std(2) < stream.std()


@pytest.mark.parametrize(("n", "figure"), [(4096, 28.5), (65_536, 43.8)])
def test_the_tree_of_sixteen(n, figure):
    stream = release.Stream(horizon=n, epsilon="0.01")
    worst = max(stream.std(t) for t in (15, 255, 4095, n - 1))
    assert worst * 0.01 == pytest.approx(figure, abs=0.05)


@pytest.mark.parametrize("price", [{"rho": "1e6"}, {"epsilon": "1e6"}])
def test_without_noise_to_speak_of_the_sums_are_right(price):
    stream = release.Stream(horizon=40, **price)
    values = [(7 * t) % 5 for t in range(40)]
    for t, value in enumerate(values):
        assert stream.tick(value) == pytest.approx(sum(values[: t + 1]), abs=0.02)
    assert stream.total == pytest.approx(sum(values), abs=0.02)


@pytest.mark.parametrize("price", [{"rho": "0.5"}, {"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}])
def test_one_person_at_one_tick_moves_it_as_declared(price):
    for ticks, bound in ((1, 1), (1, 3), (2, 1)):
        stream = release.Stream(horizon=40, ticks=ticks, bound=bound, **price)
        base = [5] * 40
        reached = []
        for s in (0, 1, 17, 39):
            other = list(base)
            other[s] += bound
            if ticks == 2:
                other[(s + 1) % 40] += bound
            reached.append(column_moves(stream, base, other)[0])
        assert max(reached) <= 1
        assert max(reached) > 0.4
        # one tick more than declared is caught
        greedy = [v + bound for v in base]
        assert column_moves(stream, base, greedy)[0] > 1


def test_the_loss_is_that_of_the_whole_horizon_and_names_the_unit():
    stream = release.Stream(every="day", horizon=100, rho="0.5")
    assert stream.loss.rho <= 0.5
    assert stream.loss.unit == stream.unit == "person-day"
    for _ in range(100):
        stream.tick()
    assert stream.loss.rho <= 0.5
    with pytest.raises(ParameterError, match="they are over"):
        stream.tick(1)
    tree = release.Stream(horizon=100, epsilon=1, neighbours="change-one")
    assert tree.loss.epsilon() == 1
    approx = release.Stream(horizon=100, epsilon=1, delta="1e-6")
    assert approx.loss.delta(1) <= 1e-6


def test_errors_have_the_stated_size():
    """100 streams of 30 ticks: the mean squared error is about the stated one (fixed noise)."""
    for price in ({"rho": "0.5"}, {"epsilon": 1}):
        gaps = []
        with deterministic("streams"):
            for _ in range(100):
                stream = release.Stream(horizon=30, **price)
                for _ in range(30):
                    stream.tick(3)
                gaps.append(stream.total - 90)
        assert np.mean(np.square(gaps)) == pytest.approx(stream.std(30) ** 2, rel=0.4)
        low, high = stream.interval()
        assert low < stream.total < high


def test_nothing_private_is_shown():
    stream = release.Stream(horizon=10, rho=1)
    stream.tick(987_654)
    assert "987654" not in repr(stream)
    assert set(stream.record()) == {"kind", "every", "unit", "horizon", "neighbours", "price",
                                    "law", "released"}  # fmt: skip


@pytest.mark.parametrize(
    "kwargs",
    [
        {"horizon": 0, "rho": 1},
        {"horizon": 10},
        {"horizon": 10, "rho": 1, "bound": 0},
        {"horizon": 10, "rho": 1, "ticks": 11},
        {"horizon": 2**21, "rho": 1},
    ],
)
def test_refusals(kwargs):
    with pytest.raises(ParameterError):
        release.Stream(**kwargs)
    stream = release.Stream(horizon=3, rho=1)
    with pytest.raises(ParameterError, match="whole number"):
        stream.tick(1.5)
    with pytest.raises(ParameterError, match="nothing has been released"):
        stream.interval()
