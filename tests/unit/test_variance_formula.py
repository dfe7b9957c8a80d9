"""What is made of the numbers of a variance alone: releases by hand, with noise that is chosen.

The truth is the variance of a table; a release is what the table measures, plus noise at the edge
of what an interval allows for. Nothing is drawn.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import plan as pl
from discreet import policy as pol
from discreet import sql
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.plan import _tails
from discreet.plan import _variances as va
from discreet.plan._vectors import Numbers

TOP = 200
TABLES = {
    "low": np.arange(60) % 21,
    "middle": 60 + np.arange(60) % 81,
    "high": 178 + np.arange(61) % 21,
    "both ends": np.array([0, 200] * 30),
    "skewed": np.array([0] * 50 + [200] * 9),
    "two": np.array([44, 120]),  # fewer are certain: see test_plan_variances
}
ASKED = (va.ITSELF, va.ABOUT_THE_MIDDLE, *va.EXAMPLES)
SMALL = DiscreteLaplace(2**12)


def formula(step="1", *, sample=False, root=False):
    return va.PublicVariance(0, 1, Fraction(-7), Fraction(step), TOP, sample=sample, root=root)


def released(table, asked, noise=(0, 0), law=SMALL):
    sums = va.ExactSums(len(table), int(table.sum()), int((table**2).sum()))
    gaussian = isinstance(law, DiscreteGaussian)
    exact = sums.measured(asked, TOP, gaussian=gaussian)
    squares = va.Squares(
        sums.rough(TOP),
        Fraction(va.WHOLE, TOP),
        law,
        (1 + asked.centre) * Fraction(TOP, 2),
        asked.factors(TOP, len(table), gaussian=gaussian),
        tuple(x + e for x, e in zip(exact, noise, strict=False)),
        law,
    )
    return [squares, Numbers((len(table),), None)]


def hair(table, asked):
    """What one step of the lattice is in the variance."""
    *once, b = asked.factors(TOP, len(table), gaussian=False)
    return float(sum((2 * TOP / a for a in once), 1 / b) / len(table))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("step", ["1", "1/4"])
def test_without_noise_the_estimate_is_the_variance_whatever_was_asked(name, step):
    table = TABLES[name]
    for asked in ASKED:
        for sample, root in itertools.product((False, True), repeat=2):
            (found,) = formula(step, sample=sample, root=root).estimate(released(table, asked))
            n = len(table)
            times = float(Fraction(step)) ** 2 * (n / (n - 1) if sample else 1)
            found = found**2 if root else found
            assert found == pytest.approx(table.var() * times, abs=times * hair(table, asked)), (
                asked
            )


@pytest.mark.parametrize("centre", [Fraction(-1, 2), Fraction(0), Fraction(3, 4)])
@pytest.mark.parametrize("name", ["low", "middle", "high", "skewed"])
def test_a_mean_bounds_the_variance_where_the_first_sum_has_most_weight(name, centre):
    """No table of that mean has a larger variance than one of both ends; other weights trust it
    less."""
    table = TABLES[name]
    most = (TOP - table.mean()) * table.mean()
    for tilt in va._TILTS:
        (found,) = formula().estimate(released(table, va.Focus(centre, tilt), (0, 2**40)))
        bound = most if tilt == Fraction(1, 2) else TOP**2 / 4
        assert found == pytest.approx(bound, rel=1e-6)
        (found,) = formula().estimate(released(table, va.Focus(centre, tilt), (0, -(2**40))))
        assert found == 0
    # a mean beyond an end leaves no variance at all
    for noise in (2**40, -(2**40)):
        (found,) = formula().estimate(released(table, va.Focus(centre, Fraction(1, 2)), (noise, 0)))
        assert found == 0


@pytest.mark.parametrize("noise", [2**45, -(2**45)])
@pytest.mark.parametrize("sample", [False, True])
def test_whatever_the_noise_numbers_are_possible_ones(noise, sample):
    for (name, table), asked in itertools.product(TABLES.items(), (va.ITSELF, ASKED[5])):
        n = len(table)
        most = TOP**2 / 4 * (n / (n - 1) if sample else 1)
        numbers = released(table, asked, (0, noise) if asked.tilt else (noise,))
        (found,) = formula(sample=sample).estimate(numbers)
        box = formula(sample=sample).box(numbers, 0.95)
        assert found == (most if noise > 0 else 0), name
        assert 0 <= box.low[0] <= found <= box.high[0] <= most


@pytest.mark.parametrize("law", [SMALL, DiscreteLaplace(Fraction(5, 2)), DiscreteGaussian(2**10)])
@pytest.mark.parametrize("name", ["low", "middle", "skewed"])
def test_the_interval_of_the_variance_itself_ends_where_its_noise_does(name, law):
    """The largest noise of the level leaves the truth inside, one more does not."""
    table = TABLES[name]
    for level in (0.5, 0.95, 0.999):
        most = law.interval(level).high
        for noise, inside in ((most, True), (-most, True), (most + 1, False), (-most - 1, False)):
            box = formula().box(released(table, va.ITSELF, (noise,), law), level)
            room = hair(table, va.ITSELF) / 50 * (1 if inside else -1)
            assert bool(box.low[0] - room <= table.var() <= box.high[0] + room) is inside


def edges(table, asked, law, level):
    """Noise at the edge of what an interval allows for, as the module's note divides the error.

    The first sum's noise within its region, and the noise of V at the exact mean within its margin;
    or, where the region is wide, each sum's noise within half of the error.
    """
    n, error = len(table), 1 - level
    a, b = map(float, asked.factors(TOP, n, gaussian=isinstance(law, DiscreteGaussian)))
    m = float(table.mean() - (1 + asked.centre) * TOP / 2)
    first = law.interval(1 - error / 10).high
    if 2 * (first + 0.5) > 0.15 * TOP * a * n:
        half = law.interval(1 - error / 2).high
        yield from itertools.product((-half, 0, half), repeat=2)
        return
    margin = _tails.margin((law, law), (2 * abs(m) / a, 1 / b), 1 - 0.9 * error)
    for once, side in itertools.product((-first, 0, first), (-1, 0, 1)):
        yield once, math.floor(b * abs(side) * margin) * side + round(b * 2 * m * once / a)


@pytest.mark.parametrize(
    "law",
    [SMALL, DiscreteLaplace(2**25), DiscreteLaplace(2**32), DiscreteGaussian(2**24)],
    ids=["precise", "region", "boxes", "gaussian"],
)
@pytest.mark.parametrize("name", [n for n in TABLES if n != "two"])
def test_intervals_of_two_sums_hold_at_the_edge_of_their_noise(name, law):
    """And somewhere they end near the truth: an interval of everything would hold as well."""
    table = TABLES[name]
    truth, nearest = float(np.var(table)), {-1: math.inf, 1: math.inf}
    for centre, tilt in itertools.product(
        (Fraction(-1), Fraction(-3, 4), Fraction(0), Fraction(2, 3), Fraction(1)), va._TILTS[::5]
    ):
        asked = va.Focus(centre, tilt)
        for noise in edges(table, asked, law, 0.95):
            box = formula().box(released(table, asked, noise, law), 0.95)
            low, high = float(box.low[0]), float(box.high[0])
            room = hair(table, asked)
            assert low - room <= truth <= high + room, (asked, noise)
            if low > 0 and high < TOP**2 / 4:
                nearest[-1] = min(nearest[-1], (truth - low) / (high - low))
                nearest[1] = min(nearest[1], (high - truth) / (high - low))
    if name != "both ends":  # whose variance is the largest possible one
        assert max(nearest.values() if law is SMALL else [nearest[-1]]) < 1e-3 or law.std > 2**30


def stated(lo, hi, step):
    column = pol.Real("x", lo, hi, step=step, null=lo)
    policy = pol.Policy([pol.Table("t", [column], neighbours="change-one")], pol.Budget("1"))
    low = pl.lower(sql.parse("SELECT VAR_POP(x) AS v FROM t", policy).query)
    priced = pl.price(low, pl.Ask(Fraction(1)))
    return low.formulas[0].margin(priced.parts, 0.95)


def test_what_a_preview_states_follows_the_range_and_not_its_steps():
    one = stated("0", "1000", "1")
    assert " if 1\u2009000 rows (a tenth of it if 10\u2009000)" in one
    assert stated("0", "1000", "0.5") == stated("-500", "500", "1") == one
    assert stated("0", "2000", "1") != one


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize(
    "law",
    [SMALL, DiscreteLaplace(2**25), DiscreteLaplace(2**28), DiscreteLaplace(2**32),
     DiscreteGaussian(2**24)],
    ids=["precise", "region", "wider", "boxes", "gaussian"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["low", "middle", "skewed"])
def test_intervals_of_two_sums_are_those_of_the_note(name, law, level):
    """Each mean of the region in turn, and V, or both boxes, at it."""
    table, error, kinds = TABLES[name], 1 - level, set()
    n = len(table)
    for centre, tilt in itertools.product((Fraction(-1), Fraction(1, 3), Fraction(1)), va._TILTS):
        asked = va.Focus(centre, tilt)
        a, b = map(float, asked.factors(TOP, n, gaussian=isinstance(law, DiscreteGaussian)))
        u, v = float(-(1 + centre) * TOP / 2), float((1 - centre) * TOP / 2)
        for noise in ((0, 0), (law.interval(0.9).high, -law.interval(0.8).high)):
            numbers = released(table, asked, noise, law)
            first, second = (x + 0.5 for x in numbers[0].values)
            off = law.interval(1 - error / 10).high + 0.5
            wide = 2 * off / (a * n) > 0.15 * TOP
            if wide:
                off = law.interval(1 - error / 2).high + 0.5
            means = np.clip((first + np.linspace(-off, off, 2001)) / (a * n), u, v)
            turns = np.array([0, (u + v) / 2, first / (a * n)])
            means = np.append(means, turns[(min(means) <= turns) & (turns <= max(means))])
            most = max((v - m) * (m - u) for m in means)
            if wide:
                low = (second - off) / (b * n) - max(means**2)
                high = (second + off) / (b * n) - min(means**2)
            else:
                weights = 2 * max(abs(means)) / a, 1 / b
                margin = _tails.margin((law, law), weights, 1 - 0.9 * error)
                about = second / (b * n) - 2 * means * first / (a * n) + means**2
                low = min(about) - (margin + sum(weights) / 2) / n
                high = max(about) + (margin + sum(weights) / 2) / n
            (found,), box = formula().estimate(numbers), formula().box(numbers, level)
            ends = np.clip([low, min(high, most)], 0, TOP**2 / 4)
            expected = [min(ends[0], found), max(ends[1], found)]
            assert [box.low[0], box.high[0]] == pytest.approx(expected, rel=1e-5, abs=1e-5)
            kinds.add(wide)
    assert kinds == {law.std > 2**30} or len(kinds) == 2


def test_the_interval_of_a_choice_is_stated_for_a_public_range():
    """Noise on the variance itself, 1/ε(1 − 3 %) ranges squared, at 95 %: ln 20 of them."""
    words = stated("0", "1000", "1").split("about ")[1].split(" if")[0]
    one = float("".join(words.split()))
    assert one == pytest.approx(1000**2 * math.log(20) / 0.97 / 1000, rel=1e-3)


# -- what is asked ---------------------------------------------------------------------------


def choice(rough, n, law):
    """What the note chooses, one mean at a time."""
    noise, less = 4 * law.law.std / (va.WHOLE * n), 1 - 1 / n
    if n < 3 or noise * less**3 > 0.19:
        return va.ITSELF if n < 3 else va.ABOUT_THE_MIDDLE
    scale = 2 * law.first.std / (va.WHOLE * n)
    grid = Fraction(2) ** (math.floor(math.log2(scale)) - 6)
    rough = float(round(min(max(rough, -1 - 24 * scale), 1 + 24 * scale) / grid) * grid)
    inner = min(max(rough, -1), 1)
    ends = max(inner - 12 * scale, -1), min(inner + 12 * scale, 1)
    means = [ends[0] + (ends[1] - ends[0]) * k / 96 for k in range(97)]
    off = [abs(m - rough) / scale for m in means]
    nearest = min(off)
    gaussian = isinstance(law.law, DiscreteGaussian)
    odds = [math.exp((nearest**2 - x * x) / 2 if gaussian else (nearest - x) * 2**0.5) for x in off]
    mean = math.fsum(o * m for o, m in zip(odds, means, strict=True)) / math.fsum(odds)
    centre = min(max(round(mean / grid) * grid, Fraction(-1)), Fraction(1))
    spread = math.fsum(
        o * (m - float(centre)) ** 2 for o, m in zip(odds, means, strict=True)
    ) / math.fsum(odds)  # fmt: skip
    errors = {}
    for t in va._TILTS:
        norm = max(4 * t, 1 + Fraction(11, 4) * t * t) if gaussian else (1 + t) ** 2
        far = 1 + abs(float(centre))
        own = (far**2 * float(norm) / 4) ** 2
        mean2 = own / (2 * float(t) * far) ** 2
        errors[t] = own + 4 * spread * mean2 + 6 * (mean2 * noise) ** 2
    best = min(errors, key=errors.__getitem__)
    return va.Focus(centre, best) if errors[best] < (0.78 * less) ** 2 else va.ITSELF


@pytest.mark.parametrize("offer", ["epsilon", "rho"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 40, 1000])
def test_what_is_asked_is_what_the_note_chooses(n, offer):
    column = pol.Integer("x", 0, 1000, null=0)
    policy = pol.Policy([pol.Table("t", [column], neighbours="change-one")], pol.Budget("1"))
    low = pl.lower(sql.parse("SELECT VAR_POP(x) AS v FROM t", policy).query)
    seen = set()
    for price in (1, 8, 20, 26, 30, 34, 40, 60, 100, 300, 1000, 30_000):
        share = Fraction(price, n) ** (2 if offer == "rho" else 1)
        law = pl.price(low, pl.Ask(**{offer: share})).parts[0].law
        for rough in (-9.0, -1.2, -1.01, -0.97, -0.6, -0.25, 0.0, 1e-3, 0.3, 0.5, 0.8, 1.0, 1.05):
            asked = va.choose_focus(rough, n, law)
            assert asked == choice(rough, n, law), (price, rough)
            seen.add(bool(asked.tilt))
    assert len(seen) == (1 if n < 3 else 2)
