"""Attacks on the representation of the answer: low bits, lattice, off-lattice supports.

The classical float Laplace leaks through which doubles it can produce (Mironov 2012): the event
"|y| < ½ and y is not a multiple of 2⁻⁵³" is possible at x = 0 and impossible at x = 1.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from discreet import audit
from discreet import mechanisms as m

DRAWS = 10_000


def low_bits(y):
    return (np.abs(y) < 0.5) & (np.ldexp(y, 53) % 1 != 0)


def release(mechanism, value, n):
    """n independent scalar releases, through the scalar's own law and lattice."""
    one = mechanism(value)
    k = int(np.floor(Fraction(value) / one.step + Fraction(1, 2)))
    return (k + one.law.sample(n)) * float(one.step)


MECHANISMS = {
    "laplace": lambda v: m.laplace(v, 1, 1),
    "gaussian": lambda v: m.gaussian(v, 1, 1, "1e-6"),
    "laplace, coarse": lambda v: m.laplace(v, 1, 1, step="0.5"),
}


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_low_bit_event_never_happens(mechanism):
    for value in (0.0, 1.0, 0.1):
        assert not low_bits(release(mechanism, value, DRAWS)).any()


def test_the_attack_works_on_float_noise():
    # the harness can fail: NumPy's Laplace is broken open by the same event
    rng = np.random.default_rng(1)
    verdict = audit.estimate(
        lambda x, n: x + rng.laplace(size=n), 0, 1, epsilon=1, draws=DRAWS, event=low_bits
    )
    assert verdict.violated


def test_the_attack_fails_on_ours():
    for mechanism in MECHANISMS.values():
        verdict = audit.estimate(
            lambda x, n, f=mechanism: release(f, x, n), 0.0, 1.0, 1, draws=DRAWS, event=low_bits
        )
        assert verdict.epsilon_lower_bound == 0


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-300, 123456.789, -7.25])
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_every_answer_is_a_multiple_of_the_declared_step(mechanism, value):
    for _ in range(20):
        answer = mechanism(value)
        assert (Fraction(answer.value) / answer.step).denominator == 1


def test_lattice_does_not_depend_on_the_data():
    steps = {m.laplace(v, "0.3", "0.7").step for v in np.random.default_rng(2).normal(size=50)}
    assert len(steps) == 1


@pytest.mark.parametrize("pair", [(0.3, 0.8), (1 / 3, 2 / 3)])
def test_off_lattice_neighbours_have_the_same_support(pair):
    # integer noise on 0.3 and 0.8 would reveal which it was; quantised first, it cannot
    answers = [{m.laplace(v, "0.5", 5, step="0.25").value % 0.25 for _ in range(50)} for v in pair]
    assert answers[0] == answers[1] == {0.0}


def test_sum_of_epoch_microseconds_moves_no_more_than_declared():
    # float sums of large close values move by 65 536 × their sensitivity; exact ones do not
    base = 1_700_000_000_000_000
    rows = [base + (i % 2) for i in range(100_000)]
    moved = sum(rows) - sum([rows[0] + 1, *rows[1:]])
    assert abs(moved) == 1
    answer = m.laplace(sum(rows), 1, 1, integer=True)
    assert answer.step == 1
    assert abs(answer.value - sum(rows)) < 100
