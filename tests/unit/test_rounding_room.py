"""Room for rounding: what is stated lies above the exact value by as much as the analysis asks.

A bound that is computed in doubles is sound only with its room. That no test case shows an error
as large as the room proves nothing, so the room itself is measured here, against many digits.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import noise
from discreet import privacy as p
from discreet.privacy import _additive, _convert, _kov, _pair, _pld
from discreet.privacy._loss import ULP

ULPS = Fraction(1, 2**52)


def mp(x):
    x = Fraction(x)
    return mpmath.mpf(x.numerator) / x.denominator


def above(stated, exact):
    """By how much a factor is stated above the exact one."""
    return float(mp(stated) / exact - 1)


def has_room(found, room, doubt=0.0):
    assert 0.7 * room - doubt < found < 1.3 * room + doubt, (found / room, found, room)


@pytest.fixture(autouse=True)
def _many_digits():
    with mpmath.workdps(60):
        yield


@pytest.mark.parametrize("e", [1e-5, 0.3, 2.0, 40.0])
def test_rho_of_a_pure_loss(e):
    has_room(above(_convert.pure_to_rho(e), e * mpmath.tanh(mp(e) / 2)), 2.0**-49, 2.0**-52)


@pytest.mark.parametrize(
    ("e", "order"), [(0.5, 2), (3.0, 1.5), (0.01, 300), (20.0, 1.125), (5.0, 4)]
)
def test_divergence_of_a_pure_loss(e, order):
    a, x = mp(Fraction(order)), mp(e)
    moment = mpmath.log((mpmath.exp(a * x) + mpmath.exp((1 - a) * x)) / (1 + mpmath.exp(x)))
    found = mp(_convert.pure_to_renyi(e, Fraction(order))) * (a - 1) - moment
    has_room(float(found), 2.0**-50 * ((order - 1) * e + 1), 2.0**-52 * (2 * order * e + 1))


@pytest.mark.parametrize("part", [10**7, 10**15, 10**17, 10**40])
def test_divergence_of_a_pure_loss_at_an_order_hardly_above_one(part):
    """There it is the mean of the loss, whatever the order is as a double."""
    for e in (1e-5, 0.5, 3.0, 40.0):
        found = _convert.pure_to_renyi(e, 1 + Fraction(1, part))
        assert 0 <= above(found, e * mpmath.tanh(mp(e) / 2)) < 3e-7


@pytest.mark.parametrize("mu", ["0.001", "0.5", "1", "6"])
@pytest.mark.parametrize("fpr", [0.0, 1e-300, 1e-9, 0.05, 0.25, 0.5, 0.9, 0.999, 1.0])
def test_power_of_the_best_test_is_stated_no_smaller_than_it_is(mu, fpr):
    """Φ(Φ⁻¹(1−α) − μ), rounded down, by little."""
    stated = p.Gaussian(mu).tradeoff(fpr)
    if fpr in (0.0, 1.0):
        exact = mpmath.mpf(1 - fpr)
    else:
        low, high = mpmath.mpf(-45), mpmath.mpf(45)
        for _ in range(200):  # Φ(x) = 1 − α, by its tail where that is smaller
            x = (low + high) / 2
            low, high = (x, high) if mpmath.erfc(x / mpmath.sqrt(2)) / 2 > mp(fpr) else (low, x)
        exact = mpmath.erfc((mp(Fraction(mu)) - x) / mpmath.sqrt(2)) / 2
    room = float(exact - mp(stated))
    assert 0 <= room < 24 * ULP, (stated, float(exact), room / ULP)
    if exact > 0.01:
        assert room > 4 * ULP


@pytest.mark.parametrize("x", [1e-3, 0.7, 30.0, 1e4])
@pytest.mark.parametrize(("divergence", "epsilon"), [(0.01, 1.0), (0.3, 900.0), (5.0, 5.5)])
def test_delta_of_a_divergence(x, divergence, epsilon):
    y = mp(x)
    exact = y * (mp(divergence) - mp(epsilon)) + y * mpmath.log(y) - (1 + y) * mpmath.log1p(y)
    size = y * (mp(divergence) + mp(epsilon)) + abs(y * mpmath.log(y)) + (1 + y) * mpmath.log1p(y)
    found = _convert.renyi_to_log_delta(x, divergence, np.array([epsilon]))[0]
    has_room(float(mp(found) - exact), 2.0**-49 * float(size), 2.0**-52 * float(size))


@pytest.mark.parametrize(
    ("e", "k", "total"), [("0.1", 100, "2.5"), ("2", 7, "3"), ("0.01", 5000, "1")]
)
def test_delta_of_many_equal_losses(e, k, total):
    step, goal = mp(e), mp(total)
    whole = (1 + mpmath.exp(step)) ** k
    above_goal = [n for n in range(k + 1) if (k - 2 * n) * Fraction(e) > Fraction(total)]
    exact = sum(
        mpmath.binomial(k, n) * (mpmath.exp((k - n) * step) - mpmath.exp(goal + n * step)) / whole
        for n in above_goal
    )
    room = 2.0**-48 * (k * (1 + float(Fraction(e))) + k * math.log(k + 1))
    has_room(above(_kov.kov_delta(e, k, total), exact), room, 0.1 * room)


@pytest.mark.parametrize("total", ["0.25", "3.5", "8"])
def test_delta_of_a_few_unlike_losses(total):
    losses = ["0.1", "0.2", "1", "3", "4", "5"]
    pairs = [(mp(e), mpmath.exp(mp(e)) / (1 + mpmath.exp(mp(e)))) for e in losses]
    law = [(mp(0), mp(1))]
    for e, q in pairs:
        law = [(s + d, w * v) for s, w in law for d, v in ((e, q), (-e, 1 - q))]
    exact = sum(w * (1 - mpmath.exp(mp(total) - s)) for s, w in law if s > mp(total))
    logs = sum(mpmath.log1p(mpmath.exp(e)) for e, _ in pairs)
    room = 2.0**-49 * (8 + float(logs))
    has_room(above(_kov.murtagh_vadhan_delta(losses, total), exact), room, 2.0**-50)


@pytest.mark.parametrize(
    ("e", "k", "slack"), [("0.1", 100, "1e-6"), ("1", 3, "1e-9"), ("0.01", 10**6, "0.1")]
)
def test_closed_form_of_many_equal_losses(e, k, slack):
    x, d = mp(e), mp(slack)
    drift = k * x * mpmath.tanh(x / 2)
    first = drift + x * mpmath.sqrt(2 * k * mpmath.log(mpmath.e + mpmath.sqrt(k) * x / d))
    second = drift + x * mpmath.sqrt(2 * k * mpmath.log(1 / d))
    exact = min(k * x, first, second)
    has_room(above(_kov.kov_closed_form(e, k, slack), exact), 2.0**-48, 2.0**-51)


@pytest.mark.parametrize("rho", ["0.003", "0.7", "90"])
def test_reading_of_an_odometer(rho):
    meter = p.Odometer("1e-7", around="0.02")
    meter.record(p.Zcdp(rho))
    r, g = mp(rho), mp("0.02")
    exact = r + 2 * mpmath.sqrt((r + g) * (mpmath.log1p(r / g) / 2 - mpmath.log(mp("1e-7"))))
    has_room(above(meter.epsilon, exact), 2.0**-48, 2.0**-51)


def log_room(found, exact, room=0.0, units=8):
    """Room for a logarithm: units of what it is the logarithm of, and of its own last place."""
    room += units * ULP * (1 + abs(float(exact)))
    has_room(float(mp(found) - exact), room, 0.3 * units * ULP * (1 + abs(float(exact))))


@pytest.mark.parametrize("k", [2, 9])
@pytest.mark.parametrize("epsilon", [0.3, 8.0, 60.0])
def test_profile_of_a_group(epsilon, k):
    base = p.sample(p.Gaussian("0.5"), "0.1")
    step = np.maximum(np.array([epsilon]) / k * (1 - 2.0**-51), 1e-300)
    inner, e = base.log_delta(step)[0], mp(step[0])
    exact = mp(inner) + mpmath.log(mpmath.expm1(k * e) / mpmath.expm1(e))
    if -700 < exact < -1:
        log_room(p.group(base, k).log_delta(np.array([epsilon]))[0], exact, 2.0**-48 * epsilon)


@pytest.mark.parametrize("below", [0.3, 1e-3, 1e-9, 1e-14])
@pytest.mark.parametrize("eta", ["0.01", "0.7", "3"])
def test_profiles_just_below_the_largest_loss(eta, below):
    """A fixed room would vanish beside the logarithm of a small number."""
    epsilon = float(Fraction(eta)) * (1 - below)
    top, e, at = mp(_additive.ceil_float(Fraction(eta))), mp(epsilon), np.array([epsilon])
    half = -mpmath.expm1((e - top) / 2)
    log_room(p.BoundedRange(eta).log_delta(at)[0], mpmath.log(half**2 / -mpmath.expm1(-top)))
    log_room(p.Laplace(eta).log_delta(at)[0], mpmath.log(half))
    response = -mpmath.expm1(e - top) / (1 + mpmath.exp(-top))
    log_room(p.Pure(eta).log_delta(at)[0], mpmath.log(response))


@pytest.mark.parametrize("delta", ["1e-3", "7e-40", "95023e-300"])
def test_profiles_that_are_mostly_failures(delta):
    d = mpmath.log(mp(delta))
    for loss in (p.Approx("0.1", delta), p.Approx(0, delta), p.Zcdp("1e-9", delta)):
        found = loss.log_delta(np.array([0.5]))[0]
        log_room(found, d, 8 * ULP)  # δ itself is rounded up first


def profile(mu, e):
    mu, e = mp(mu), mp(e)
    return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize(
    ("mu", "e"), [(0.05, 0.3), (1.0, 0.5), (1.0, 30.0), (6.0, 90.0), (0.001, 0.02)]
)
def test_profile_of_a_gaussian(mu, e):
    """Room for x²/2 and the logarithm, and at most as much again for what cancels."""
    with mpmath.workdps(400):
        exact = mpmath.log(profile(mu, e))
    x = abs(e / mu - mu / 2)
    room = 8 * ULP * (1 + x) * (1 + e / mu + mu)
    found = float(mp(_additive.log_gaussian_delta(mu, np.array([e]))[0]) - exact)
    near, far = _additive.mills(np.array([e / mu - mu / 2, e / mu + mu / 2]))
    cancelled = float(4 * ULP * (near + far) / (near - far))
    assert 0.7 * room < found < 1.3 * (room + cancelled) + 4 * ULP


@pytest.mark.parametrize(("mu", "e"), [(12.5, 0.0), (13.0, 1.0), (13.0, 6.0), (14.0, 0.5)])
def test_profile_of_a_gaussian_that_protects_little(mu, e):
    """Here δ is nearly 1; what is missing there is far above the room."""
    with mpmath.workdps(60):
        exact = mpmath.log(profile(mu, e))
    room = 8 * ULP * (1 + abs(e / mu - mu / 2)) * (1 + e / mu + mu)
    found = float(mp(_additive.log_gaussian_delta(mu, np.array([e]))[0]) - exact)
    assert 0.7 * room < found < 1.3 * room + 8 * ULP < -exact


@pytest.mark.parametrize("e", [0.1, 0.9, 1.5, 7.0])
def test_profile_of_a_sample(e):
    """Removal: γh(ln(1 + (e^ε − 1)/γ)); addition: rh(−ln r)·e^ε·γ with r = 1 − (1 − e^−ε)/γ."""
    base, sampled = p.Gaussian(1), p.sample(p.Gaussian(1), "0.25")
    at, gamma = np.array([e]), mp("0.25")
    inner = mpmath.log1p(mpmath.expm1(mp(e)) / gamma)
    given = float(inner * (1 - 8 * mp(ULP)))
    exact = mp(base.log_delta(np.array([given]))[0]) + mpmath.log(gamma)
    doubt = 2 * ULP * given**2  # what one more unit of ε would do
    log_room(sampled._removal(at)[0], exact, doubt)
    room = 1 + mpmath.expm1(-mp(e)) / gamma
    if room > 0:
        room += 8 * mp(ULP)
        inner = -mpmath.log(room)
        exact = mp(base.log_delta(np.array([float(inner)]))[0]) + mp(e) + mpmath.log(gamma) - inner
        log_room(sampled._addition(at)[0], exact, 16 * ULP * e, 16)
    else:
        assert sampled._addition(at)[0] == -math.inf


@pytest.mark.parametrize("fpr", [0.01, 0.3])
def test_trade_off_from_a_profile(fpr):
    """The largest of its lines, each 4e-16 lower, and all of it by 2^-50."""
    loss = p.Approx("0.5", "1e-3")
    d, e = mp("1e-3"), mp("0.5")
    exact = max(1 - d - mpmath.exp(e) * mp(fpr), mpmath.exp(-e) * (1 - d - mp(fpr)))
    found = exact - mp(_convert.tradeoff_from_profile(loss, fpr))
    assert 2e-16 < float(found) < 1e-3


@pytest.mark.parametrize("scales", [(3, 5, 7), ("0.1", "0.3", 2)], ids=["small", "large"])
def test_losses_and_masses_of_a_listed_composition(scales):
    factors = [p.DiscreteLaplace(s, 1).pairs()[0].atoms for s in scales]
    listed = _pld.Enumerated.of(factors)
    own = [[(mp(f.offset) + i * mp(f.spacing), mp(w)) for i, w in enumerate(f.masses.tolist())]
           for f in factors]  # fmt: skip
    law = [(mp(0), mp(1))]
    for atoms in own:
        law = [(s + d, w * v) for s, w in law for d, v in atoms]
    law.sort(key=lambda pair: pair[0])
    size = sum(
        max(abs(s) for s, _ in atoms) + abs(mp(f.offset))
        for atoms, f in zip(own, factors, strict=True)
    )
    room = 4 * ULP * 3
    for (loss, mass), found, weight in zip(law, listed.losses, listed.masses, strict=True):
        has_room(float(mp(found) - loss), room * float(size), 4 * ULP * max(1, float(size)))
        has_room(above(weight, mass), room, 3 * ULP)
    assert listed.infinite == 0
    with_failures = _pld.Enumerated.of([factors[0], _pld_atoms(1e-3), _pld_atoms(1e-5)])
    exact = 1 - (1 - mp(1e-3)) * (1 - mp(1e-5))
    has_room(above(with_failures.infinite, exact), room, 2 * ULP)
    for e in (0.05, 0.3, 0.6):
        true = sum(w * (1 - mpmath.exp(mp(e) - s)) for s, w in law if s > e)
        found = above(listed.delta(e), true)
        assert 2.0**-44 < found < 2.0**-44 + 8 * (room * float(size) + room) / float(true)


def _pld_atoms(infinite):
    from discreet.privacy._pair import Atoms

    return Atoms(Fraction(0), Fraction(0), np.array([1 - infinite]), infinite)


def window(**changes):
    fields = {"base": 1.0, "step": 0.25, "tilt": 3.0, "masses": np.array([0.1, 0.4, 0.3, 0.2]),
              "error": 0.0, "log_scale": -2.0, "log_above": -math.inf, "infinite": 0.0}  # fmt: skip
    return _pld.Window(**(fields | changes))


def exact_window(w, epsilon):
    """e^{s − λd}·(Σ p e^{−λx}(1 − e^{−x}) + error·max + above) + infinite, d = ε − base."""
    d, t = mp(epsilon) - mp(w.base), mp(w.tilt)
    inner = sum(
        mp(m) * mpmath.exp(-t * x) * -mpmath.expm1(-x)
        for m, x in ((m, i * mp(w.step) - d) for i, m in enumerate(w.masses.tolist())) if x > 0
    )  # fmt: skip
    # the largest value of e^{−λx}(1 − e^{−x}), at e^{−x} = λ/(1 + λ)
    peak = (t / (1 + t)) ** t / (1 + t) if t else mp(1)
    over = mpmath.exp(min(mp(w.log_above) + t * d, mp(0))) if w.log_above > -math.inf else mp(0)
    total = inner + mp(w.error) * peak + over
    return mp(w.infinite) + mpmath.exp(min(mp(w.log_scale) - t * d + mpmath.log(total), mp(0)))


@pytest.mark.parametrize("changes", [
    {}, {"tilt": 0.0}, {"tilt": 0.5}, {"step": 0.01, "base": 0.5}, {"infinite": 1e-3},
    {"log_scale": 1.0, "tilt": 1.0},
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("epsilon", [1.0, 1.01, 1.1, 1.3, 1.6])
def test_delta_of_a_window(changes, epsilon):
    w = window(**changes)
    if epsilon - w.base >= w.step * (len(w.masses) - 1):
        assert w.delta(epsilon) == w.infinite
        return
    exact = exact_window(w, epsilon)
    finite = float((exact - mp(w.infinite)) / exact)
    # both rooms, and ε lowered by four units of the sizes that meet in it
    moved = 4 * ULP * (epsilon + w.base + len(w.masses) * w.step)
    lowered = float(exact_window(w, Fraction(epsilon) - Fraction(moved)) / exact - 1)
    room = finite * (2.0**-40 + 2.0**-44) + lowered
    if exact < 1:
        assert 0.97 * room < above(w.delta(epsilon), exact) < 1.03 * room + 4 * ULP
    else:
        assert w.delta(epsilon) == 1


@pytest.mark.parametrize("tilt", [0.0, 0.25, 1.0, 3.0])
@pytest.mark.parametrize(
    "changes", [{"error": 1e-3}, {"log_above": -9.0}, {"log_above": 5.0}], ids=repr
)
@pytest.mark.parametrize("epsilon", [1.0, 1.1, 1.6])
def test_error_and_tail_of_a_window_are_paid_for(changes, epsilon, tilt):
    w = window(tilt=tilt, masses=np.zeros(4), **changes)
    exact = exact_window(w, epsilon)
    assert 0.9 * 2.0**-44 < above(w.delta(epsilon), exact) < 2.0**-43 + 16 * ULP * (1 + tilt)


def test_error_of_a_convolution_with_nothing():
    """A factor whose transform is 1 everywhere: the bound in closed form."""
    for size, k in ((8, 1), (64, 5), (1024, 300)):
        phi = 16 * 2.0**-53 * math.log2(size)
        assert _pld._transform_error(size) == phi
        masses, error = _pld._convolve([(np.array([1.0]), k)], size)
        each = k * (phi + 4 * ULP) * min((1 + phi) ** k, 1) / (1 + phi)
        l2 = math.sqrt(2 * (size // 2 + 1) * each**2 / size)
        assert error == pytest.approx(math.sqrt(size) * (l2 + phi + phi * l2), rel=1e-9, abs=0)
        assert masses == pytest.approx(np.eye(1, size)[0], abs=error)


def test_error_of_convolutions_in_blocks():
    """Each block adds √n·(factors + 1)·(φ + 4 units), and a hundredth of it."""
    factors = [np.array([0.5, 0.5])] * 20
    merged, error, progress = _pld._merge_blocks(factors, 64)
    lengths = [min(_pld._BLOCK, 20 - i) for i in range(0, 20, _pld._BLOCK)]
    exact = 0.0
    for n in lengths:
        if n > 1:
            size = _pld.fft.next_fast_len(n + 1, real=True)
            exact += 1.01 * math.sqrt(size) * (n + 1) * (_pld._transform_error(size) + 4 * ULP)
    assert progress
    assert error == pytest.approx(exact, rel=1e-12, abs=0)
    for found, n in zip(sorted(merged, key=len), sorted(lengths), strict=True):
        row = [math.comb(n, i) / 2**n for i in range(n + 1)]
        assert found == pytest.approx(row, abs=1e-14)
    whole, _ = _pld._convolve([(f, 1) for f in factors], 64)
    assert whole[:21] == pytest.approx([math.comb(20, i) / 2**20 for i in range(21)], abs=1e-14)


@pytest.mark.parametrize("step", [Fraction(1, 10), Fraction(1, 3), Fraction(7, 100)])
def test_a_grid_asks_for_the_profile_no_higher_than_its_points(step, monkeypatch):
    asked = []

    def log_profile(epsilon):
        asked.extend(epsilon.tolist())
        return p.Gaussian(1).log_delta(epsilon)

    monkeypatch.setattr(_pair, "_reach", lambda *_: 400)
    _pair._masses(log_profile, math.inf, float(step), convex=True)
    assert len(asked) == 401
    assert all(Fraction(x) <= i * step for i, x in enumerate(asked))


@pytest.mark.parametrize("step", [1 / 64, 0.25, 1.0, 2.0, 5.0, 30.0])
def test_masses_have_at_least_the_profile_they_are_made_of(step, monkeypatch):
    """At every point of the grid; of a wide one no other room makes up for that of the heights."""
    rng = np.random.default_rng(14)
    least = math.inf
    for cells in (1, 2, 3) * 30:
        true = rng.dirichlet(np.ones(cells + 2))[:-1].tolist()
        logs = np.array([float(mpmath.log(profile_of(true[:-1], true[-1], step, i)))
                         for i in range(cells + 1)])  # fmt: skip
        monkeypatch.setattr(_pair, "_reach", lambda *_, n=cells: n)
        masses, infinite = _pair._masses(
            lambda x, y=logs: y[np.rint(x / step).astype(int)], math.inf, step, convex=True
        )
        for i in range(cells + 1):
            found = profile_of(masses.tolist(), infinite, step, i) / mpmath.exp(mp(float(logs[i])))
            least = min(least, float(found - 1))
    assert 0 <= least < 16 * ULP


def profile_of(masses, infinite, step, i):
    """δ at i steps of masses at one step, two steps and so on, with many digits."""
    return mp(infinite) + sum(
        mp(x) * (1 - mpmath.exp((i - j) * mp(step))) for j, x in enumerate(masses, 1) if j > i
    )


def test_a_profile_that_is_convex_is_its_own_minorant():
    grid = np.arange(3000) * 0.01
    heights = np.exp(p.Gaussian(2).log_delta(grid))
    assert (_pair._convex_minorant(heights, grid) == heights).all()
    bumped = heights.copy()
    bumped[100] *= 1.01
    assert _pair._convex_minorant(bumped, grid)[100] == pytest.approx(heights[100], rel=1e-3)


@pytest.mark.parametrize(
    "loss",
    [p.Gaussian(1), p.sample(p.Gaussian(1), "0.2"), p.BoundedRange(2),
     p.sample(p.Approx("0.5", "0.01"), "0.3")],
    ids=repr,
)  # fmt: skip
def test_masses_of_a_grid_add_up_to_one(loss):
    infinite = []
    for pair in loss.pairs():
        grid = pair.on_grid(Fraction(1, 50))
        assert grid.masses.sum() + grid.infinite == pytest.approx(1, abs=1e-6)
        infinite.append(grid.infinite)
    assert max(infinite) >= loss.mass_at_infinity


def test_no_list_of_sums_has_a_delta_beyond_one():
    """All masses are rounded up, so that far below every loss they add up to more than one."""
    atoms = _pair.Atoms(Fraction(-1), Fraction(2), np.array([0.25, 0.75]), 0.0)
    listed = _pld.Enumerated.of([atoms] * 3)
    assert listed.masses.sum() > 1
    assert listed.delta(-100.0) == 1.0
    assert listed.delta(0.0) < 1


def test_what_certainly_fails_fails_in_every_composition():
    grids = [_pair.Grid(Fraction(0), 0, np.array([1 - x]), x) for x in (0.25, 0.5, 1.0)]
    for chosen, exact in ((grids[:1], 0.25), (grids[:2], 0.625), (grids[1:], 1.0), (grids, 1.0)):
        found = _pld.Composed([(grid, 1) for grid in chosen], Fraction(1)).infinite
        assert exact <= found <= exact * (1 + 2.0**-43)
    twice = _pld.Composed([(grids[0], 2)], Fraction(1))
    assert twice.infinite == pytest.approx(1 - 0.75**2, rel=1e-12)


@pytest.mark.parametrize(
    ("offset", "step"), [("1000/3", "1/1000"), ("-700/3", "1/500"), ("1/7", "1/10")]
)
def test_atoms_beside_a_grid_are_pushed_up_before_they_are_shared_out(offset, step):
    """Two neighbours on the grid share an atom so that E[e^−loss] stays: read back from it."""
    atoms = _pair.Atoms(Fraction(offset), Fraction(1, 3), np.array([1.0]), 0.0)
    grid = _pair._grid_of_atoms(atoms, Fraction(step))
    g, cell = mp(float(Fraction(step))), grid.start
    low, high = (mp(x) / mp(1 + 2.0**-46) for x in grid.masses.tolist())
    loss = cell * g - mpmath.log(low + high * mpmath.exp(-g))
    room = 4 * ULP * 2 * abs(float(Fraction(offset)))
    doubt = ULP * (abs(float(Fraction(offset))) + 4 * float(Fraction(step)))
    has_room(float(loss - mp(offset)), room, doubt)


@pytest.mark.parametrize(("p_", "k"), [("0.5", 2), ("0.01", 2), ("0.99", 5)])
def test_loss_of_randomized_response(p_, k):
    """Truth p + (1 − p)/k against (1 − p)/k."""
    exact = mpmath.log1p(mp(p_) * k / (1 - mp(p_)))
    stated = m.RandomizedResponse(p=p_, categories=k).loss.eps0
    has_room(above(stated, exact), 2.0**-50, 2.0**-53)


@pytest.mark.parametrize("sigma", [40, 100, 300])
@pytest.mark.parametrize("shape", [(1,), (2, 1, 1)])
def test_what_lies_beyond_the_atoms_of_a_shape_counts_as_infinite(sigma, shape):
    """P(|x| > 37σ + 2) of each coordinate: about 1e-296, and never less than is stated."""
    reach = math.ceil(37 * sigma) + 2
    weights = [mpmath.exp(-mpmath.mpf(x * x) / (2 * sigma**2))
               for x in range(reach + 1, reach + 1 + 12 * sigma)]  # fmt: skip
    outside = 2 * mpmath.fsum(weights) / (sigma * mpmath.sqrt(2 * mpmath.pi)) * len(shape)
    stated = _additive._shape_atoms(Fraction(sigma**2), shape).infinite
    assert outside < stated < 40 * outside


@pytest.mark.parametrize("eps", ["0.5", "29", "30", "31", "45", "300"])
def test_largest_loss_of_a_sample(eps):
    exact = mpmath.log1p(mp("0.4") * mpmath.expm1(mp(eps)))
    found = float(mp(p.sample(p.Pure(eps), "0.4").top) - exact)
    room = 2.0**-49 * float(exact) + (2.0**-48 if float(eps) >= 30 else 0)
    has_room(found, room, 2.0**-52 * float(exact))


def test_trade_off_keeps_its_room():
    """At no false alarms it is 1 − δ at the last ε that is looked at: 4e-16 and 2^-50 lower."""
    loss = p.Pure("0.5")
    last = loss.log_delta(np.array([loss.epsilon(1e-9)]))[0]
    exact = 1 - mpmath.exp(mp(last))
    assert 1.0e-15 < float(exact - mp(loss.tradeoff(0.0))) < 1.6e-15


@pytest.mark.parametrize(
    ("steps2", "dimension"), [(4, 1), (4, 2), (4, 4), (5, 2), (5, 3), (6, 3), (8, 2), (8, 3)]
)
def test_shifts_that_no_other_exceeds(steps2, dimension):
    """Integer shifts of so many coordinates whose squares add up to no more than that."""
    every = {
        tuple(sorted((abs(x) for x in shift if x), reverse=True))
        for shift in itertools.product(range(-2, 3), repeat=dimension)
        if 0 < sum(x * x for x in shift) <= steps2
    }

    def exceeds(a, b):
        return a != b and len(a) >= len(b) and all(x >= y for x, y in zip(a, b, strict=False))

    exact = sorted(b for b in every if not any(exceeds(a, b) for a in every))
    assert sorted(_additive._shapes(steps2, dimension)) == exact


@pytest.mark.parametrize(
    "law", [noise.DiscreteLaplace(3), noise.Geometric(5), noise.DiscreteGaussian(2)]
)
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_confidence_of_an_interval(law, level):
    """What lies outside is stated larger by the accuracy of the law, so the confidence is lower."""
    found = law.interval(level)
    kernel = law._kernel
    weights = {x: mpmath.exp(-mp(kernel.exponent(x)))
               for x in range(-400 if kernel.two_sided else 0, 401)}  # fmt: skip
    inside = sum(w for x, w in weights.items() if found.low <= x <= found.high)
    exact = inside / sum(weights.values())
    room = 2e-12 * float(1 - exact)
    assert 0.5 * room < float(exact - mp(found.confidence)) < 1.5 * room + 2.0**-52


def test_addition_to_a_sample_loses_no_more_than_either_bound():
    """−ln(1 − γ), or the largest loss of the mechanism itself where that is less."""
    for base, gamma, top in ((p.Pure("0.2"), "0.5", 0.2), (p.Pure(3), "0.5", math.log(2)),
                             (p.Gaussian(1), "0.25", math.log(4 / 3))):  # fmt: skip
        removal, addition = p.sample(base, gamma).pairs()
        assert float(addition.top) == pytest.approx(top, rel=1e-14)
        assert float(removal.bottom) == pytest.approx(top, rel=1e-14)
        assert removal.top == addition.bottom == p.sample(base, gamma).top


@pytest.mark.parametrize(("mu", "e"), [("1", 0.5), ("9", 4.0), ("20", 30.0)])
def test_profile_of_opposite_shifts(mu, e):
    """Of (1−γ)N(0,1) + γN(μ,1) against (1−γ)N(0,1) + γN(−μ,1), at the point where they cross."""
    sampled = p.sample(p.Gaussian(mu), "0.3", neighbours="change-one")
    q, m_, grow = mp("0.3"), mp(mu), mpmath.exp(mp(e))
    c = q * mpmath.exp(-(m_**2) / 2)
    linear = (grow - 1) * (1 - q)
    y = (linear + mpmath.sqrt(linear**2 + 4 * grow * c**2)) / (2 * c)
    x = mpmath.log(y) / m_

    def beyond(shift):
        return (1 - q) * mpmath.ncdf(-x) + q * mpmath.ncdf(shift - x)

    gain, loss = beyond(m_), grow * beyond(-m_)
    exact = mpmath.log(gain - loss)
    room = 16 * ULP * float(1 + x**2 + m_ * abs(x) + m_**2)
    cancelled = 16 * ULP * float((gain + loss) / (gain - loss))
    found = float(mp(sampled.log_delta(np.array([e]))[0]) - exact)
    assert 0.7 * room < found < 1.3 * (room + cancelled)


def test_addition_keeps_room_for_a_large_epsilon():
    """Nearly everybody is sampled, and δ is large at a large ε."""
    base, e = p.Pure(40), 5.0
    gamma = mp(_additive.ceil_float(Fraction("0.999")))
    room = 1 + mpmath.expm1(-mp(e)) / gamma + 8 * mp(ULP)
    inner = -mpmath.log(room)
    exact = mp(base.log_delta(np.array([float(inner)]))[0]) + mp(e) + mpmath.log(gamma) - inner
    sampled = p.sample(base, "0.999")
    log_room(sampled._addition(np.array([e]))[0], exact, 16 * ULP * e, 16)


@pytest.mark.parametrize("tilt", [0.0, 2.0, 40.0])
def test_scale_of_a_window(tilt):
    """K(λ) − λ(base − start), and sixteen units of all that is rounded in it."""
    grid = _pair.Grid(Fraction(-1, 3), -2, np.array([0.2, 0.5, 0.3]), 0.0)
    composed = _pld.Composed([(grid, 3)], Fraction(1, 4))
    w = composed.window(tilt)
    value = 3 * mpmath.log(sum(mp(q) * mpmath.exp(mp(tilt) * i / 4)
                               for i, q in enumerate(grid.masses.tolist())))  # fmt: skip
    exact = value - mp(tilt) * (mp(w.base) - mp(composed.loss_at(0)))
    room = 16 * ULP * (3 * (4 + tilt * 0.25 * 2) + abs(float(value)))
    has_room(float(mp(w.log_scale) - exact), room, 0.1 * room)
    k = composed.cumulant(tilt)
    weights = [mp(q) * mpmath.exp(mp(tilt) * i / 4) for i, q in enumerate(grid.masses.tolist())]
    mean = sum(i * q for i, q in enumerate(weights)) / sum(weights)
    square = sum(i * i * q for i, q in enumerate(weights)) / sum(weights)
    assert k.value == pytest.approx(float(value), rel=1e-12, abs=1e-15)
    assert k.mean == pytest.approx(float(3 * mean / 4), rel=1e-12)
    assert k.variance == pytest.approx(float(3 * (square - mean**2) / 16), rel=1e-6, abs=1e-15)
    assert composed.top == pytest.approx(3 * (-1 / 3 - 2 / 4 + 2 / 4))
