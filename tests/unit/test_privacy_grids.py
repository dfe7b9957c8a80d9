"""Loss distributions on grids: each step's bound against many digits of the same sum."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

from discreet import privacy as p
from discreet.privacy import _pld
from discreet.privacy._pair import Atoms, Grid, _reach

DIGITS = 34


def big(x):
    return mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator


def delta(losses, masses, infinite, epsilon):
    """δ(ε) of a law of losses, to many digits."""
    grown = mpmath.exp(big(epsilon))
    gains = (1 - grown * falling(loss) for loss in losses)
    return big(infinite) + sum(m * g for m, g in zip(masses, gains, strict=True) if g > 0)


@cache
def falling(loss):
    return mpmath.exp(-loss)


def of_atoms(atoms):
    losses = [big(atoms.offset + i * atoms.spacing) for i in range(len(atoms.masses))]
    return losses, [big(m) for m in atoms.masses.tolist()], atoms.infinite


def of_grid(grid, step):
    places = range(grid.start, grid.start + len(grid.masses))
    return (
        [big(grid.offset + i * step) for i in places],
        [big(m) for m in grid.masses.tolist()],
        grid.infinite,
    )


def between(low, high, n=15):
    return np.linspace(low, high, n).tolist()


# -- onto a grid ------------------------------------------------------------------------

LAWS = [p.DiscreteLaplace("2.5", 5), p.DiscreteGaussian("1.5", 2), p.Pure("0.7"), p.Approx(1, ".1")]


@pytest.mark.parametrize("step", [Fraction(1, 7), Fraction(2, 41)])
@pytest.mark.parametrize("loss", LAWS, ids=repr)
def test_a_grid_beside_the_atoms_dominates_them_and_hardly_more(loss, step):
    atoms = loss.pairs()[0].atoms
    grid = loss.pairs()[0].on_grid(step)
    top = float(atoms.offset + (len(atoms.masses) - 1) * atoms.spacing)
    with mpmath.workdps(DIGITS):
        mine, theirs = of_grid(grid, step), of_atoms(atoms)
        for e in between(-1.0, min(top, 6.0) * 0.999):
            exact, stated = delta(*theirs, e), delta(*mine, e)
            # between two neighbours a loss is split so that its profile is met at both
            assert exact <= stated <= exact + (1 - exact) * mpmath.mpf(float(step))
        for e in mine[0][:: max(1, len(mine[0]) // 12)]:
            if 0 <= e < top:
                exact = delta(*theirs, Fraction(str(e)))
                assert delta(*mine, Fraction(str(e))) <= exact * (1 + mpmath.mpf(1e-10))


@pytest.mark.parametrize("loss", LAWS, ids=repr)
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_atoms_that_fit_a_grid_stay_where_they_are(loss, parts):
    atoms = loss.pairs()[0].atoms
    grid = loss.pairs()[0].on_grid(atoms.spacing / parts)
    assert (grid.offset, grid.start, grid.infinite) == (atoms.offset, 0, atoms.infinite)
    assert grid.masses[::parts].tolist() == atoms.masses.tolist()
    assert math.fsum(grid.masses) == math.fsum(atoms.masses)
    assert len(grid.masses) == (len(atoms.masses) - 1) * parts + 1


@pytest.mark.parametrize("loss", [p.Gaussian("0.8"), p.Laplace("1.5"), p.Gaussian(3)], ids=repr)
@pytest.mark.parametrize("step", [Fraction(1, 8), Fraction(1, 20)])
def test_a_grid_of_a_profile_dominates_it_and_meets_it_at_its_points(loss, step):
    grid = loss.pairs()[0].on_grid(step)
    with mpmath.workdps(DIGITS):
        mine = of_grid(grid, step)
        assert sum(mine[1]) + big(grid.infinite) >= 1
        for e in between(0, min(5.0, float(loss.top) * 0.99)):
            exact = mpmath.exp(big(loss.log_delta(np.array([e]))[0]))
            assert delta(*mine, e) >= exact * (1 - mpmath.mpf(1e-12))
        for i in range(0, min(20, math.floor(loss.top / step)) if loss.top < 9 else 20, 3):
            exact = mpmath.exp(big(loss.log_delta(np.array([float(i * step)]))[0]))
            assert delta(*mine, i * step) <= exact * (1 + mpmath.mpf(1e-9)) + mpmath.mpf(1e-14)
        # the other direction: what lies below 0 is the mirror of what lies above
        assert sum(m * falling(x) for x, m in zip(*mine[:2], strict=True)) <= 1 + mpmath.mpf(1e-6)
        for i in (1, 4, 9):
            assert grid.masses[-grid.start - i] == pytest.approx(
                grid.masses[-grid.start + i] * math.exp(-i * float(step)), rel=1e-12
            )


@pytest.mark.parametrize("loss", [p.Gaussian(1), p.Laplace(2)], ids=repr)
def test_a_grid_reaches_as_far_as_the_profile_counts(loss):
    pair, g = loss.pairs()[0], 0.01
    cells = _reach(pair.forward, pair.top, g)
    end = loss.log_delta(np.array([cells * g]))[0]
    assert end <= -300.0 if pair.top == math.inf else cells * g >= pair.top
    shorter = cells * (1 - 1 / 30) if pair.top == math.inf else cells - 1.01
    assert loss.log_delta(np.array([shorter * g]))[0] > -300.0


# -- composed ---------------------------------------------------------------------------


def random_grids(seed, sizes):
    draw = np.random.default_rng(seed)
    grids = []
    for n in sizes:
        masses = draw.dirichlet(np.ones(n + 1))
        start = -int(draw.integers(0, n))
        grids.append(Grid(Fraction(0), start, masses[:-1], float(masses[-1]) * 1e-5))
    return grids


def convolved(terms, step):
    """The exact composition of grids: losses, masses, the rest at infinity."""
    masses, kept = [mpmath.mpf(1)], mpmath.mpf(1)
    for grid, k in terms:
        for _ in range(k):
            out = [mpmath.mpf(0)] * (len(masses) + len(grid.masses) - 1)
            for j, own in enumerate(grid.masses.tolist()):
                for i, m in enumerate(masses):
                    out[i + j] += m * big(own)
            masses, kept = out, kept * (1 - big(grid.infinite))
    start = sum(k * g.start for g, k in terms)
    offset = sum(k * g.offset for g, k in terms)
    return [big(offset + (start + i) * step) for i in range(len(masses))], masses, 1 - kept


SETS = {
    "powers": [(g, k) for g, k in zip(random_grids(1, (4, 7, 3)), (3, 1, 9), strict=True)],
    "one": [(random_grids(2, (6,))[0], 12)],
    "many": [(g, 1) for g in random_grids(3, [2] * 17 + [3] * 3)],
    "offset": [(Grid(Fraction(1, 3), 2, np.array([0.25, 0.5, 0.2]), 0.05), 5)],
}


@pytest.mark.parametrize("tilt", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("terms", SETS.values(), ids=SETS)
def test_a_window_is_never_below_the_exact_composition(terms, tilt):
    step = Fraction(1, 16)
    composed = _pld.Composed(terms, step)
    window = composed.window(tilt)
    with mpmath.workdps(DIGITS):
        losses, masses, infinite = convolved(terms, step)
        total = sum(m * mpmath.exp(big(tilt) * x) for x, m in zip(losses, masses, strict=True))
        assert (
            losses[-1] <= composed.top <= losses[-1] * (1 + mpmath.mpf(1e-15)) + mpmath.mpf(1e-15)
        )
        assert infinite <= composed.infinite <= infinite * (1 + mpmath.mpf(1e-12))
        for e in between(max(window.base, 0.0), float(losses[-1]) * 1.01, 14):
            exact = infinite + delta(losses, masses, 0, e)
            stated = window.delta(e)
            # rounding counts relative to the tilted law, which is spread over e^{λ(l−ε)}
            room = mpmath.mpf(1e-10) * (exact + total * mpmath.exp(-big(tilt) * big(e)))
            assert min(exact, 1) <= stated <= exact + room, e


@pytest.mark.parametrize("terms", SETS.values(), ids=SETS)
@pytest.mark.parametrize("above", [1e-1, 1e-3, 1e-6])
def test_the_epsilon_of_a_window_is_the_least_that_its_composition_allows(terms, above):
    step = Fraction(1, 16)
    composed = _pld.Composed(terms, step)
    target = composed.infinite + above
    found = composed.window(composed.tilt_for_delta(above)).solve(target)
    assert found is not None
    with mpmath.workdps(DIGITS):
        losses, masses, infinite = convolved(terms, step)
        law = losses, masses, 0
        assert infinite + delta(*law, found) <= target
        assert found == 0 or infinite + delta(*law, found * (1 - 1e-6)) > target


def test_a_window_that_cannot_show_it_says_nothing():
    composed = _pld.Composed(SETS["one"], Fraction(1, 16))
    window = composed.window(0.0)
    assert window.solve(composed.infinite / 2) is None
    assert window.solve(1.0) == 0.0


@pytest.mark.parametrize("seed", range(8))
def test_a_listed_composition_is_never_below_the_exact_one(seed):
    draw = np.random.default_rng(seed)
    factors = []
    for n in (2, 3, 4, 2):
        masses = draw.dirichlet(np.ones(n))
        offset = Fraction(int(draw.integers(-9, 3)), 7)
        factors.append(Atoms(offset, Fraction(1, int(draw.integers(3, 9))), masses, 1e-7 * n))
    listed = _pld.Enumerated.of(factors)
    with mpmath.workdps(DIGITS):
        law, kept = [(mpmath.mpf(0), mpmath.mpf(1))], mpmath.mpf(1)
        for f in factors:
            losses, masses, _ = of_atoms(f)
            own = list(zip(losses, masses, strict=True))
            law = [(x + y, m * n) for x, m in law for y, n in own]
            kept *= 1 - big(f.infinite)
        losses, masses = zip(*law, strict=True)
        top = float(max(losses))
        for e in between(0, max(top, 0.5) * 0.999):
            exact = 1 - kept + delta(losses, masses, 0, e)
            assert exact <= listed.delta(e) <= exact + mpmath.mpf(1e-13)
        for share in (0.9, 0.5, 0.01):
            target = float(1 - kept) * 1.01 + share * listed.delta(0.0)
            found = listed.solve(target)
            assert 1 - kept + delta(losses, masses, 0, found) <= target
            if found:
                assert 1 - kept + delta(losses, masses, 0, found * (1 - 1e-9)) > target
    assert listed.solve(listed.infinite / 2) == math.inf
    assert listed.solve(1.0) == 0.0
