"""What an independent review found in the library's own promises, one named test each.

Everything here is exact computation or repeats itself: no test is a matter of chance.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import random
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import noise
from discreet import privacy as p
from discreet.errors import BudgetExceededError, ParameterError
from discreet.privacy import _compose, _sampling

mp.mp.dps = 40


def many_digits(x):
    x = Fraction(x)
    return mp.mpf(x.numerator) / x.denominator


# -- mechanisms ---------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [2**43 - 1, 2**63 - 50, 2**70, 10**30])
def test_a_sparse_vector_far_below_its_threshold_says_below(threshold):
    """The noisy threshold wrapped at 2^63: in a third of the runs 0 was above 2^43."""
    for step in (None, 1):
        for _ in range(20):
            assert m.SparseVector(threshold, 1, 1, step=step).ask(0) is False
            assert m.sparse_vector([0], threshold, 1, 1, step=step).value == ()


def test_a_sparse_vector_takes_any_scale_of_threshold_and_sensitivity():
    watch = m.SparseVector(10**9, sensitivity="1e-6", epsilon=1)
    assert watch.ask(0) is False
    assert watch.ask(2 * 10**9) is True


NAN = float("nan")


@pytest.mark.parametrize(
    "keys",
    [
        [frozenset("a"), frozenset("b"), frozenset("c")],
        [1.0, NAN, 0.5],
        [(1, frozenset("a")), (1, frozenset("b"))],
        [1, "a", None],
    ],
    ids=["sets", "nan", "tuples", "mixed"],
)
def test_the_order_of_released_keys_says_nothing_about_how_they_came(keys):
    """Sorting what is only partly ordered left the private order of insertion."""
    places = {}
    for order in (keys, keys[::-1]):
        counts = dict.fromkeys(order, 1000)
        firsts = [next(iter(m.threshold_keys(counts, 1, "1e-6").value)) for _ in range(60)]
        places[tuple(map(id, order))] = {id(key) for key in firsts}
    # each key comes first now and then, whatever the order: a miss has chance 3·(2/3)^60
    assert all(found == {id(key) for key in keys} for found in places.values())


def test_keys_with_a_total_order_are_sorted():
    counts = {"b": 1000, "a": 1000, "c": 1000}
    assert list(m.threshold_keys(counts, 1, "1e-6").value) == ["a", "b", "c"]
    assert list(m.threshold_keys({2.5: 999, -1.0: 999}, 1, "1e-6").value) == [-1.0, 2.5]


# -- shifts of lattice noise ------------------------------------------------------------


def hockey_stick(P, Q, alpha):
    return sum((max(x - alpha * Q.get(k, 0), 0) for k, x in P.items()), Fraction(0))


def _laws():
    rows = {
        "laplace": [Fraction(1, 2) ** x for x in range(5)],
        "uniform": [Fraction(1)] * 4,
        "gauss": [Fraction(3, 5) ** (x * x) for x in range(4)],
        "binomial": [Fraction(x) for x in (70, 56, 28, 8, 1)],
        "triangle": [Fraction(4 - x) for x in range(4)],
    }
    for name, half in rows.items():
        total = 2 * sum(half) - half[0]
        reach = range(1 - len(half), len(half))
        yield name, {x: half[abs(x)] / total for x in reach}


def _moved(law, shift):
    out = {}
    for points in itertools.product(law.items(), repeat=len(shift)):
        place = tuple(x + s for (x, _), s in zip(points, shift, strict=True))
        out[place] = math.prod((q for _, q in points), start=Fraction(1))
    return out


@pytest.mark.parametrize("law", [law for _, law in _laws()], ids=[name for name, _ in _laws()])
def test_one_shift_by_the_l1_distance_dominates_every_way_to_spread_it(law):
    for shift in [(1, 1), (1, 2), (1, -1), (2, -1)]:
        reach = sum(map(abs, shift))
        P, Q = _moved(law, (0, 0)), _moved(law, shift)
        S, T = _moved(law, (0,)), _moved(law, (reach,))
        ratios = {Fraction(i, 4) for i in range(1, 20)} | {S[k] / T[k] for k in S if k in T}
        for alpha in ratios:
            assert hockey_stick(P, Q, alpha) <= hockey_stick(S, T, alpha)
            assert hockey_stick(Q, P, alpha) <= hockey_stick(T, S, alpha)


def test_without_log_concavity_it_would_not_hold():
    weights = [Fraction(x) for x in (10, 1, 1, 6)]
    law = {x: weights[abs(x)] / (2 * sum(weights) - weights[0]) for x in range(-3, 4)}
    P, Q = _moved(law, (0, 0)), _moved(law, (1, 2))
    S, T = _moved(law, (0,)), _moved(law, (3,))
    ratios = [Fraction(i, 8) for i in range(1, 60)]
    assert any(hockey_stick(P, Q, a) > hockey_stick(S, T, a) for a in ratios)


# -- one Gaussian calibration --------------------------------------------------------------


def gaussian_profile(sigma2, shift, epsilon):
    """δ(ε) of the discrete Gaussian for one integer shift vector, by plain sums (to 1e-12)."""
    s2 = float(sigma2)
    reach = math.ceil(12 * math.sqrt(s2)) + max(shift)
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-(x.astype(float) ** 2) / (2 * s2))
    weights /= weights.sum()
    law = np.ones(1)
    for step in shift:
        spread = np.zeros((len(x) - 1) * step + 1)
        spread[::step] = weights
        law = np.convolve(law, spread)
    t = np.arange(len(law)) - len(law) // 2
    losses = (sum(step * step for step in shift) - 2 * t) / (2 * s2)
    above = losses > epsilon
    return float(np.sum(law[above] * -np.expm1(epsilon - losses[above])))


@pytest.mark.parametrize("epsilon", ["0.5", "1", "4", "10"])
@pytest.mark.parametrize(
    ("l2_squared", "coordinates", "shifts"),
    [
        (1, 1, [(1,)]),
        (9, 1, [(3,)]),
        (2, 2, [(1, 1)]),
        (4, 4, [(2,), (1, 1, 1, 1)]),
        (5, 2, [(2, 1), (1, 1)]),
    ],
)
def test_the_calibrated_variance_is_enough_for_every_integer_shift(
    l2_squared, coordinates, shifts, epsilon
):
    delta, place = 1e-4, float(epsilon)
    variance = p.discrete_gaussian_variance(l2_squared, epsilon, "1e-4", coordinates=coordinates)
    assert max(gaussian_profile(variance, s, place) for s in shifts) <= delta * (1 + 1e-9)
    # and not more than enough: two hundredths less noise break the promise
    less = variance * Fraction(98, 100)
    assert max(gaussian_profile(less, s, place) for s in shifts) > delta


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4", "8"])
def test_mechanism_and_calibration_agree_and_are_near_the_continuous_law(epsilon, delta):
    ideal = p.gaussian_sigma(1, epsilon, delta) ** 2
    for l2_squared, coordinates in ((1, 1), (3, 3), (50, 10), (10**6, 100)):
        found = p.discrete_gaussian_variance(l2_squared, epsilon, delta, coordinates=coordinates)
        assert found <= Fraction(ideal) * l2_squared * Fraction(104, 100)
        loss = p.DiscreteGaussian.from_variance(found, l2_squared, coordinates)
        assert loss.delta(epsilon) <= Fraction(delta)
    assert m.gaussian(7, 1, epsilon, delta, integer=True).law.sigma2 == (
        p.discrete_gaussian_variance(1, epsilon, delta)
    )


def test_several_parts_are_certified_by_their_own_losses():
    for parts, coordinates in (([1, 1], [1, 1]), ([1, 10**6, 9], [1, 40, 3]), ([2] * 9, [2] * 9)):
        for epsilon in ("0.2", "1", "5"):
            variances = p.discrete_gaussian_variances(
                parts, epsilon, "1e-6", coordinates=coordinates
            )
            losses = [
                p.DiscreteGaussian.from_variance(v, s, d)
                for v, s, d in zip(variances, parts, coordinates, strict=True)
            ]
            assert p.compose(losses).delta(epsilon) <= 1e-6


def exact_pair_profile(variances, shifts, epsilon):
    """δ(ε) of two integers with discrete Gaussian noise, summed with 40 digits."""
    laws = []
    for variance, shift in zip(map(many_digits, variances), shifts, strict=True):
        reach = int(12 * mp.sqrt(variance)) + shift
        x = range(-reach, reach + 1)
        weights = [mp.exp(-(i * i) / (2 * variance)) for i in x]
        total = mp.fsum(weights)
        losses = [shift * (shift - 2 * i) / (2 * variance) for i in x]
        laws.append(([w / total for w in weights], losses))
    (first, losses), (second, others) = laws
    # the losses fall with x; up to each of them the mass under P, and under Q
    heads = list(itertools.accumulate(second, initial=mp.mpf(0)))
    tilted = (mass * mp.exp(-loss) for mass, loss in zip(second, others, strict=True))
    backs = list(itertools.accumulate(tilted, initial=mp.mpf(0)))
    found = mp.mpf(0)
    for mass, loss in zip(first, losses, strict=True):
        count = bisect.bisect_left(others, loss - epsilon, key=lambda other: -other)
        found += mass * (heads[count] - mp.exp(epsilon - loss) * backs[count])
    return found


@pytest.mark.parametrize(("shifts", "epsilon"), [((36, 48), "1"), ((2, 3), "0.1")])
def test_two_parts_of_unlike_steps_are_calibrated_to_the_exact_sum(shifts, epsilon):
    """Their losses share no grid, and rounding onto one may not decide that nothing is enough."""
    squares, delta = [m * m for m in shifts], Fraction("1e-9")
    variances = p.discrete_gaussian_variances(squares, epsilon, delta, coordinates=[1, 1])
    assert exact_pair_profile(variances, shifts, many_digits(epsilon)) <= many_digits(delta)
    # and not more than enough: a fiftieth less noise breaks the promise
    less = [v * Fraction(98, 100) for v in variances]
    assert exact_pair_profile(less, shifts, many_digits(epsilon)) > many_digits(delta)


def test_mutant_convolution_alone_certifies_no_variance_that_the_lemma_proves(monkeypatch):
    monkeypatch.setattr(_compose.Composition, "_closed", lambda self: [self.zcdp()])
    with pytest.raises(ParameterError, match="below what can be certified"):
        p.discrete_gaussian_variances([1296, 2304], 1, "1.01e-9", coordinates=[1, 1])


# one of them found no variance while a grid decided alone
@pytest.mark.parametrize("seed", range(40))
def test_every_reasonable_target_is_met(seed):
    rng = random.Random(seed)
    count = rng.choice([2, 2, 3, 6])
    squares = [int(10 ** rng.uniform(0, rng.choice([1, 3, 20]))) for _ in range(count)]
    coordinates = [rng.choice([1, 1, 2, 50]) for _ in squares]
    epsilon = Fraction(f"{10 ** rng.uniform(-4, 1.5):.3g}")
    delta = Fraction(f"{10 ** rng.uniform(rng.choice([-3, -12, -110]), -0.2):.3g}")
    variances = p.discrete_gaussian_variances(squares, epsilon, delta, coordinates=coordinates)
    ideal = Fraction(p.gaussian_sigma(1, epsilon, delta)) ** 2
    # the lemma's s² of the smallest part, and a hair, above the continuous law
    room = Fraction(4, min(math.isqrt(square) for square in squares) ** 2)
    for v, square in zip(variances, squares, strict=True):
        assert v <= square * (count * ideal * Fraction(1001, 1000) + room)


def test_the_calibrated_variance_falls_in_epsilon_and_delta():
    for coordinates in (1, 3):
        grid = [Fraction(i, 10) for i in range(1, 80, 6)]
        along = [p.discrete_gaussian_variance(3, e, "1e-6", coordinates=coordinates) for e in grid]
        assert all(b <= a * Fraction(1_000_001, 10**6) for a, b in itertools.pairwise(along))
        deltas = [Fraction(1, 10**i) for i in range(12, 1, -2)]
        across = [p.discrete_gaussian_variance(3, 1, d, coordinates=coordinates) for d in deltas]
        assert all(b <= a * Fraction(1_000_001, 10**6) for a, b in itertools.pairwise(across))


# -- one key threshold -------------------------------------------------------------------


@pytest.mark.parametrize("keys", [1, 2, 50])
@pytest.mark.parametrize("scale", ["0.5", "2", "40"])
def test_the_key_threshold_is_the_least_that_delta_allows(scale, keys):
    law, delta = noise.DiscreteLaplace(scale), Fraction(1, 10**6)
    found = p.key_threshold(law, delta, keys)
    r = mp.e ** (-1 / many_digits(scale))

    def exact(threshold):
        q = r ** (threshold - 1) / (1 + r)  # P(1 + Z ≥ T)
        return 1 - (1 - q) ** keys

    assert exact(found) <= many_digits(delta) < exact(found - 1)
    assert many_digits(p.key_threshold_delta(law, found, keys)) >= exact(found)


def test_library_and_curator_numbers_have_one_source():
    """Change-one, ε = 1, δ = 1e-6, two groups: 57 (the curator had 61)."""
    design = m.KeyThreshold.design(1, "1e-6", max_groups=2, neighbours="change-one")
    assert design.threshold == p.key_threshold(design.law, "1e-6", 2) == 57


# -- composition of sampled losses ----------------------------------------------------------


def response(epsilon, rate=None):
    """Laws (with the unit, without it) of randomised response, Poisson-sampled at a rate."""
    e = many_digits(epsilon)
    yes, no = 1 / (1 + mp.e**-e), 1 / (1 + mp.e**e)
    g = mp.mpf(1) if rate is None else many_digits(rate)
    return [(1 - g) * no + g * yes, (1 - g) * yes + g * no], [no, yes]


def profile(P, Q, epsilon):
    a = mp.e ** many_digits(epsilon)
    return sum((max(x - a * y, mp.mpf(0)) for x, y in zip(P, Q, strict=True)), mp.mpf(0))


def product(P, Q):
    return [x * y for x in P for y in Q]


@pytest.mark.parametrize("rates", list(itertools.product(["0.05", "0.6", "0.99"], ["0.3", "0.9"])))
def test_a_unit_that_moves_between_sampled_parts(rates):
    """A removal here and an addition there: 272 of 1350 settings were below the truth."""
    for e1, e2 in itertools.product(["0.5", "2", "4"], ["0.5", "2"]):
        (with1, out1), (with2, out2) = response(e1, rates[0]), response(e2, rates[1])
        parts = [p.sample(p.Pure(e1), rates[0]), p.sample(p.Pure(e2), rates[1])]
        joint = p.parallel(parts, "change-one", covers_change=True)
        for epsilon in ("0", "0.05", "0.1358", "0.3", "0.7", "1.5"):
            before, after = product(with1, out2), product(out1, with2)
            truth = max(profile(before, after, epsilon), profile(after, before, epsilon))
            assert joint.delta(epsilon) >= truth * (1 - mp.mpf(10) ** -12)


def test_the_move_that_the_review_measured():
    joint = p.parallel(
        [p.sample(p.Pure(2), "0.05"), p.sample(p.Pure("0.5"), "0.3")],
        "change-one",
        covers_change=True,
    )
    assert 0.0328 <= joint.delta("0.1358") <= 0.0329


@pytest.mark.parametrize(
    ("mu", "rate", "count", "epsilon", "bounds"),
    [
        # dp-accounting's pessimistic figures, and slightly less
        ("5", "0.01", 50, "0", (0.3722, 0.3723)),
        ("5", "0.01", 50, "1", (0.3538, 0.3539)),
        ("5", "0.01", 50, "30", (0.004266, 0.004267)),
        ("1", "0.01", 1000, "0", (0.1610, 0.1611)),
        ("1", "0.01", 1000, "0.3", (0.0654, 0.0655)),
        ("1", "0.01", 1000, "3", (9.21e-10, 9.24e-10)),
        ("1", "0.01", 1000, "10", (1e-34, 1e-31)),
        ("4", "0.001", 1000, "0.1", (0.4085, 0.4086)),
        ("4", "0.001", 1000, "10", (0.02996, 0.02998)),
        ("2", "0.001", 5000, "10", (2.8e-11, 2.98e-11)),
    ],
)
def test_delta_of_composed_sampled_gaussians(mu, rate, count, epsilon, bounds):
    """These crashed or said 1."""
    loss = p.compose([p.sample(p.Gaussian(mu), rate)] * count)
    assert bounds[0] <= loss.delta(epsilon) <= bounds[1]


def test_delta_of_a_composition_falls_in_epsilon():
    for losses in (
        [p.sample(p.Gaussian(1), "0.05")] * 30,
        [p.sample(p.Pure(1), "0.1")] * 20,
        [p.Gaussian(1), p.Laplace("0.5")],
        [p.Pure("0.3")] * 12 + [p.Approx("0.1", "1e-7")],
    ):
        loss = p.compose(losses)
        found = [loss.delta(Fraction(i, 4)) for i in (0, 1, 2, 3, 5, 9, 20, 40, 59)]
        assert all(b <= a * (1 + 1e-6) for a, b in itertools.pairwise(found)), losses[0]
        assert all(0 <= d <= 1 for d in found)


def test_epsilon_of_a_composition_falls_in_delta():
    loss = p.compose([p.sample(p.Pure(3), "0.2")] * 25)
    found = [loss.epsilon(Fraction(1, 10**i)) for i in (1, 5, 20, 50, 99)]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("epsilon0", "rate", "count"),
    [(1, "0.05", 40), (3, "0.2", 25), ("0.1", "0.5", 30), (8, "0.01", 20)],
)
def test_sampled_responses_at_tiny_deltas_against_exact_sums(epsilon0, rate, count):
    inside, outside = response(epsilon0, rate)

    def exact(A, B, epsilon):
        total = mp.mpf(0)
        for j in range(count + 1):
            ways = mp.binomial(count, j)
            a, b = (ways * L[0] ** j * L[1] ** (count - j) for L in (A, B))
            total += max(a - mp.e**epsilon * b, mp.mpf(0))
        return total

    loss = p.compose([p.sample(p.Pure(epsilon0), rate)] * count)
    for delta in ("1e-3", "1e-8", "1e-14", "1e-30", "1e-60"):
        epsilon = many_digits(repr(loss.epsilon(delta)))
        truth = max(exact(inside, outside, epsilon), exact(outside, inside, epsilon))
        assert truth <= mp.mpf(delta)


def test_profiles_of_sampled_losses_are_never_below_the_truth():
    def gauss(mu, epsilon):
        phi = mp.ncdf
        return phi(mu / 2 - epsilon / mu) - mp.e**epsilon * phi(-mu / 2 - epsilon / mu)

    for rate, mu in itertools.product(["1e-6", "0.05", "0.9"], ["0.01", "1", "12", "25"]):
        g, shift = many_digits(rate), many_digits(mu)
        one = p.sample(p.Gaussian(mu), rate)
        two = p.sample(p.Gaussian(mu), rate, neighbours="change-one")
        assert isinstance(one, _sampling.Sampled)
        for epsilon in (0.0, 1e-4, 0.1, 0.999, 1.0, 5.0, 50.0):
            e = mp.mpf(epsilon)
            a = mp.e**e
            removal = g * gauss(shift, mp.log(1 + (a - 1) / g))
            room = 1 - a * (1 - g)
            addition = room * gauss(shift, mp.log(a * g / room)) if room > 0 else mp.mpf(0)
            c, linear = g * mp.e ** (-shift * shift / 2), (a - 1) * (1 - g)
            y = (linear + mp.sqrt(linear * linear + 4 * a * c * c)) / (2 * c)
            x = mp.log(y) / shift
            opposite = g * mp.ncdf(shift - x) - linear * mp.ncdf(-x) - a * g * mp.ncdf(-x - shift)
            where = np.array([epsilon])
            for found, truth in (
                (one._removal(where)[0], removal),
                (one._addition(where)[0], addition),
                (two.log_delta(where)[0], opposite),
            ):
                if truth > mp.mpf("1e-300"):
                    assert mp.mpf(float(found)) >= mp.log(truth), (rate, mu, epsilon)


# -- rounding, sizes, speed -------------------------------------------------------------------


def test_concentrated_bounds_near_order_one_are_never_below_the_truth():
    """With α itself in doubles, 1 − δ was off by 7e-9."""
    draw = random.Random(3)
    for _ in range(400):
        top, epsilon = Fraction(draw.uniform(12, 36)), draw.choice([0.0, draw.uniform(0, 5)])
        found = p.Zcdp(Fraction(p.Pure(top).rho)).delta_at(epsilon)
        e = mp.e ** many_digits(top)
        assert mp.mpf(found) >= (e - mp.e ** mp.mpf(epsilon)) / (1 + e)


def test_an_unbounded_loss_never_has_delta_zero():
    for loss in (
        p.Gaussian(1),
        p.Zcdp("0.5"),
        p.DiscreteGaussian(3, 1),
        p.Renyi({2: "0.1", 30: 2}),
    ):
        for epsilon in (60, 1000, "1e50", "1e400"):
            assert 0 < loss.delta(epsilon) < 1e-3
    assert p.compose([p.Gaussian(1), p.Laplace("0.5")]).delta(1000) > 0


def test_group_growth_beyond_the_range_of_doubles_is_refused():
    with pytest.raises(ParameterError, match="no guarantee left"):
        p.group(p.Approx(1, "1e-306"), 800)
    kept = p.group(p.Approx(1, "1e-306"), 700)
    truth = mp.mpf("1e-306") * mp.expm1(700) / mp.expm1(1)
    assert truth <= many_digits(kept.delta0) <= truth * (1 + mp.mpf(10) ** -9)


@pytest.mark.parametrize(
    "loss",
    [
        p.Pure(800), p.Approx(800, "1e-6"), p.Laplace(900), p.DiscreteLaplace("0.001", 1),
        p.BoundedRange(900), p.sample(p.Pure(800), "0.1"), p.Gaussian(40), p.Zcdp(900),
        p.DiscreteGaussian("0.01", 5), pytest.param(p.Gaussian(10**5), marks=pytest.mark.long),
        pytest.param(p.Zcdp("1e6"), marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_large_losses_compose_without_overflow(loss):
    joint = p.compose([loss, p.Pure(1)])
    assert joint.epsilon("1e-5") > 100
    assert joint.delta(1) > 0.09


def test_absurd_parameters_are_refused_in_words():
    for make in (lambda: p.Pure("1e400"), lambda: p.Zcdp("1e400"), lambda: p.Gaussian("1e400")):
        with pytest.raises(ParameterError, match="too large"):
            make()


def test_optimal_composition_of_large_epsilons():
    assert p.kov_delta(800, 3, 900) == pytest.approx(1)
    assert p.murtagh_vadhan_delta([800, 1], 700) == pytest.approx(1)
    assert p.murtagh_vadhan_delta([800, 1], 801) == 0


def test_a_million_and_a_trillion_terms_are_answered_by_closed_forms(monkeypatch):
    """16 s and minutes; now no transform runs for the trillion, and no product of rationals."""
    million = p.compose([p.Approx("0.001", "1e-12")] * 10**6)
    assert million.mass_at_infinity >= 1 - (1 - mp.mpf("1e-12")) ** 10**6
    assert million.mass_at_infinity <= Fraction(10**6, 10**12)
    trillion = p.Composition.build(terms=((p.Pure("1e-6"), 10**12),))

    def forbidden(*_):
        raise AssertionError("a transform of a trillion terms")

    monkeypatch.setattr("discreet.privacy._compose._window", forbidden)
    assert trillion.epsilon("1e-6") == p.Zcdp(trillion.zcdp().rho0).epsilon("1e-6")
    assert p.group(trillion, 2).epsilon("1e-6") < math.inf


def test_records_of_laws_ask_for_no_recursion_and_no_terabytes():
    record = noise.DiscreteLaplace(1).to_dict()
    for _ in range(5000):
        record = {"law": "sum", "terms": [{"count": 1, **record}]}
    with pytest.raises(ParameterError):
        noise.law_from_dict(record)
    for count in (10**12, 10**6 + 1, 0, -1):
        wide = {"law": "sum", "terms": [{"count": count, "law": "geometric", "scale": "1"}]}
        with pytest.raises(ParameterError):
            noise.law_from_dict(wide)


# -- admission --------------------------------------------------------------------------------


def test_admission_is_exact_and_changes_nothing_when_it_refuses():
    cap, spent = p.Amount(Fraction(1), Fraction(1, 10**6)), p.Amount(Fraction(0))
    for _ in range(10):
        spent = p.admit(spent, p.Amount(Fraction(1, 10), Fraction(1, 10**7)), cap)
    assert spent == cap
    for tiny in (p.Amount(Fraction(1, 10**18)), p.Amount(Fraction(0), Fraction(1, 10**18))):
        with pytest.raises(BudgetExceededError):
            p.admit(spent, tiny, cap)
    with pytest.raises(ParameterError, match="negative"):
        p.admit(spent, p.Amount(Fraction(-1)), cap)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "1e-9"), ("8", "1e-5")])
def test_a_cap_from_a_target_keeps_the_target(epsilon, delta):
    rule = p.Accounting("zcdp")
    cap = rule.cap(epsilon, delta)
    assert cap.delta == Fraction(delta) / 2
    assert rule.guarantee(cap).delta(epsilon) <= Fraction(delta)
    more = p.Amount(cap.size * Fraction(1_000_001, 10**6), cap.delta)
    assert rule.guarantee(more).delta(epsilon) > Fraction(delta)


def test_pure_accounting_admits_no_delta():
    rule = p.Accounting("pure")
    with pytest.raises(BudgetExceededError):
        p.admit(p.Amount(Fraction(0)), rule.charge(p.Approx("0.1", "1e-9")), rule.cap(1))


@pytest.mark.parametrize(
    ("target", "units", "menu"),
    [("1e-2", 10, (1, 3)), ("1e-3", 10, (2, 5)), ("1e-1", 6, (1, 2, 3))],
)
def test_the_best_adaptive_strategy_stays_within_the_filter(target, units, menu):
    """Dynamic programming over every adaptive tree of randomised responses that is admitted."""
    step = 1.0 / units
    budget = float(p.Accounting("zcdp").cap(1, target, aside=0).size)
    rho = {a: a * step * math.tanh(a * step / 2) for a in menu}
    likely = {a: 1 / (1 + math.exp(-a * step)) for a in menu}

    @functools.cache
    def best(counts, place):
        value = max(0.0, 1 - math.exp(1 - place * step))
        spent = sum(c * rho[a] for c, a in zip(counts, menu, strict=True))
        for i, a in enumerate(menu):
            if spent + rho[a] <= budget:
                after = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
                up, down = best(after, place + a), best(after, place - a)
                value = max(value, likely[a] * up + (1 - likely[a]) * down)
        return value

    assert best((0,) * len(menu), 0) <= float(target)


def test_the_odometer_is_exceeded_no_more_often_than_it_says():
    """The best adaptive strategy against the reading, by dynamic programming."""
    menu, delta, last = (1, 3, 6), Fraction(1, 10), 16
    likely = {a: 1 / (1 + math.exp(-a / 10)) for a in menu}

    @functools.cache
    def reading(counts):
        meter = p.Odometer(delta, "0.05")
        for count, a in zip(counts, menu, strict=True):
            for _ in range(count):
                meter.record(p.Pure(Fraction(a, 10)))
        return meter.epsilon

    @functools.cache
    def worst(counts, place):
        if sum(counts) and place / 10 > reading(counts) + 1e-12:
            return 1.0
        if sum(counts) == last:
            return 0.0
        after = [(*counts[:i], counts[i] + 1, *counts[i + 1 :]) for i in range(len(menu))]
        return max(
            likely[a] * worst(n, place + a) + (1 - likely[a]) * worst(n, place - a)
            for a, n in zip(menu, after, strict=True)
        )

    assert worst((0, 0, 0), 0) <= float(delta)


def test_a_group_that_moves_several_coordinates_is_within_its_bound():
    """Two units that move a cell each: (1, 1) and (2) are both within the group's loss."""
    for sigma in ("0.7", "2"):
        variance = Fraction(sigma) ** 2
        pair = p.group(p.DiscreteGaussian(sigma, 1), 2)
        wide = p.group(p.DiscreteGaussian.from_variance(variance, 2, 2), 2)
        for epsilon in (0.0, 0.5, 2.0):
            for shift in [(2,), (1, 1)]:
                assert pair.delta(epsilon) >= gaussian_profile(variance, shift, epsilon)
            for shift in [(2, 2), (1, 1, 1, 1), (2, 1, 1)]:
                assert wide.delta(epsilon) >= gaussian_profile(variance, shift, epsilon)
