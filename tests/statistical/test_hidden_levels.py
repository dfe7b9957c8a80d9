"""A level of a few rows hides its own coefficient, and no other.

Coverage is counted over all replicates, whichever levels the noise picks out as hidden: misses
must not pass what a binomial of R trials and 6.5 % passes with probability 1e-9. Fits that take the
level silently for the reference fail the same harness. The default run has the same data and noise
every time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet import inference as inf
from discreet import policy as pol
from discreet.inference import _logistic
from discreet.inference._hidden import CLEAR
from discreet.inference._logistic import Cells
from discreet.inference._regression import FEW, HIDDEN, Term, _products
from discreet.inference._slope import Released, Score

LEVELS = ("A", "B", "C")
TERMS = (
    Term("Intercept", "1"),
    Term("x", "x"),
    *(Term(f"w[{v}]", "", source="w", value=v, listed=LEVELS) for v in LEVELS[1:]),
)
PLACE, SUMS = _products([*TERMS, Term("y", "y")])
SLOTS = np.array(PLACE)
TRUTH = np.array([-0.6, 0.2, 0.2])


def most(replicates):
    return stats.binom.isf(1e-9, replicates, 0.065)


def _released(rng, n, few, scale, rows=1):
    """Moments of n rows; a few are of the last level, at the ends of both ranges."""
    x, level = np.clip(rng.normal(0, 0.35, n), -1, 1), rng.integers(0, 2, n)
    x[:few], level[:few] = 1.0, 2
    y = (
        TRUTH[0]
        + TRUTH[1] * x
        + TRUTH[2] * (level == 1)
        + np.clip(rng.normal(0, 0.1, n), -0.2, 0.2)
    )
    y[:few] = 1.0
    columns = np.vstack([np.ones(n), x, level == 1, level == 2, y])
    values = np.zeros(len(SUMS))
    values[SLOTS[SLOTS >= 0]] = rows * (columns @ columns.T)[SLOTS >= 0]
    values += rng.laplace(0, scale, values.size)
    return Released(values, np.eye(values.size) * 2 * scale**2, PLACE, laplace=True, rows=rows)


def _fit(released):
    return inf.Regression(TERMS, Term("y", "y"), None, released, (-1.0, 1.0))


@cache
def _misses(n, few, scale, replicates, rows=1):
    """Misses of three coefficients; how often the level is hidden; misses without its column."""
    rng = np.random.default_rng(crc32(f"{n}{few}{scale}{rows}".encode()))
    missed, blind, hidden = np.zeros(3), 0, 0
    for _ in range(replicates):
        fit = _fit(_released(rng, n, few, scale, rows))
        each = zip([fit.score(t.name) for t in TERMS[:3]], TRUTH, strict=True)
        missed += [s.determined and not s.kept(b, 0.05) for s, b in each]
        hidden += fit._why[3] == FEW
        merged = Score(fit.released, np.delete(np.eye(5), 3, 0), 1)
        blind += merged.determined and not merged.kept(TRUTH[1], 0.05)
    return missed, hidden, blind


CASES = [(n, scale, few) for n in (1000, 10_000, 100_000) for scale in (4.0, 12.0, 40.0)
         for few in (0, 1, 5, 20, 60)]  # fmt: skip


@pytest.mark.parametrize(
    ("n", "scale", "few", "replicates"),
    [(2000, 12.0, 25, 300)]
    + [pytest.param(*case, 1000, marks=pytest.mark.long) for case in CASES]
    + [pytest.param(3000, 12.0, few, 10_000, marks=pytest.mark.long) for few in (0, 25, 34, 43)],
)
def test_coefficients_beside_a_level_of_few_rows_are_covered(n, scale, few, replicates):
    """At 34 rows and a scale of 12 the level is hidden every second time."""
    missed, _, _ = _misses(n, few, scale, replicates)
    assert (missed <= most(replicates)).all(), missed


def test_a_level_taken_silently_for_the_reference_fails_the_same_harness():
    _, hidden, blind = _misses(2000, 25, 12.0, 300)
    assert hidden > 200
    assert blind > most(300), blind


def test_units_of_several_rows_beside_a_level_of_few_are_covered():
    missed, hidden, _ = _misses(1000, 6, 24.0, 150, rows=3)
    assert hidden > 100
    assert (missed <= most(150)).all(), missed


def test_a_level_of_few_rows_has_no_coefficient_and_the_others_have():
    fit = _fit(_released(np.random.default_rng(1), 5000, 3, 4.0))
    ends = fit.conf_int()
    assert ends["w[C]"] == fit.conf_int("0.5")["w[C]"] == (-np.inf, np.inf)
    assert np.isnan([fit.params["w[C]"], fit.bse["w[C]"]]).all()
    assert fit.pvalues["w[C]"] == 1
    for name, truth in zip(ends, TRUTH, strict=False):
        low, high = ends[name]
        assert low < truth < high
        assert low < fit.params[name] < high
        assert fit.bse[name] > 0
    assert fit.pvalues["x"] < 1e-3
    assert not fit.determined
    assert fit._why == [HIDDEN] * 3 + [FEW]


def test_p_values_and_intervals_beside_a_hidden_level_agree():
    rng = np.random.default_rng(3)
    for _ in range(5):
        score = _fit(_released(rng, 3000, 10, 8.0)).score("x")
        low, high = score.interval(0.05, 1e6)
        assert score.pvalue(low + 1e-4) > 0.05 > score.pvalue(low - 1e-4)
        assert score.pvalue(high - 1e-4) > 0.05 > score.pvalue(high + 1e-4)


def test_without_numbers_a_hidden_level_is_left_out_exactly():
    """Its rows move no other mean, whatever they are; the noise of its count is not seen."""
    place, sums = _products([TERMS[0], *TERMS[2:], Term("y", "y")])
    values, slots = np.zeros(len(sums)), np.array(place)
    level = np.repeat([0, 1, 2], [500, 400, 4])
    y = np.where(level == 2, 1.0, np.where(np.arange(904) % 2, 0.1, -0.1))
    columns = np.vstack([np.ones(904), level == 1, level == 2, y])
    values[slots[slots >= 0]] = (columns @ columns.T)[slots >= 0]
    released = Released(values, np.eye(values.size) * 9, place, False, 1)
    terms = TERMS[0], *TERMS[2:]
    ends = inf.Regression(terms, Term("y", "y"), None, released).conf_int()
    assert sum(ends["Intercept"]) == pytest.approx(0, abs=1e-6)
    assert sum(ends["w[B]"]) == pytest.approx(0, abs=1e-6)
    assert np.ptp(ends["Intercept"]) < 0.06


# -- the curator's road -----------------------------------------------------------------------


def _open(levels, shares, n=20_000, accounting="pure"):
    rng = np.random.default_rng(0)
    w, x = rng.choice([*levels], n, p=shares), rng.integers(20, 80, n)
    y = np.clip(20 + 0.4 * x + 5 * (w == "B") + rng.normal(0, 8, n), 0, 100).round()
    odd = rng.random(n) < 0.0002
    yes = rng.random(n) < 1 / (1 + np.exp(1 - 0.02 * x - 0.3 * (w == "B")))
    columns = {name: {"type": "integer", "min": 0, "max": 100} for name in "xy"}
    columns |= {name: {"type": "boolean"} for name in ("odd", "yes")}
    columns["w"] = {"type": "category", "values": list(levels)}
    policy = {
        "policy": {"name": "few"},
        "budget": {"epsilon": "1000", "accounting": accounting}
        | ({"delta": "1e-6"} if accounting != "pure" else {}),
        "tables": {"t": {"columns": columns}},
    }
    table = pa.table({"x": x, "y": y.astype(int), "w": w, "odd": odd, "yes": yes})
    return dc.open(table, policy=policy, ledger=":memory:")


AT = {"x": [50, 50, 30], "w": ["A", "C", "B"], "odd": [False, False, False]}
FITS = {
    "last": ("ABC", [0.5, 0.4999, 0.0001], "y ~ x + w", {"w[C]"}),
    "C()": ("ABC", [0.5, 0.4999, 0.0001], "y ~ x + C(w)", {"C(w)[T.C]"}),
    "none is the reference": ("ABC", [0.5, 0.4999, 0.0001], "y ~ x + w - 1", {"w[C]"}),
    "reference": ("CAB", [0.0001, 0.4999, 0.5], "y ~ x + w", {"Intercept", "w[A]", "w[B]"}),
    "two": ("CABD", [0.0001, 0.4998, 0.5, 0.0001], "y ~ x + w",
            {"Intercept", "w[A]", "w[B]", "w[D]"}),
    "flag": ("ABC", [0.4, 0.3, 0.3], "y ~ x + w + odd", {"odd"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_least_squares_leave_the_hidden_level_undetermined_and_nothing_else(name):
    levels, shares, formula, hidden = FITS[name]
    fit = _open(levels, shares).regression(formula, epsilon=3)
    unbounded = {k for k, (low, high) in fit.conf_int().items() if low == -np.inf}
    assert unbounded == hidden
    assert {k for k, v in fit.params.items() if np.isnan(v)} == hidden
    assert fit.summary().count(FEW) == len(hidden)
    assert "too few rows to tell from noise: " in repr(fit)
    low, high = fit.conf_int()["x"]
    assert low < 0.4 < high < low + 0.2
    found, heights = fit.get_prediction(AT), fit.predict(AT)
    few = np.array([False, name != "flag", False])
    assert np.isnan(heights).tolist() == few.tolist()
    # each height has a score of its own
    np.testing.assert_allclose(found.predicted_mean, heights, atol=0.05 * found.se_mean[0])
    ends = found.conf_int()
    assert np.isinf(ends).all(axis=1).tolist() == few.tolist()
    assert heights[[0, 2]] == pytest.approx([40, 37], abs=3)
    rows = found.conf_int(obs=True)
    assert (rows[:, 0] <= np.nan_to_num(heights, nan=50)).all()
    assert not few.any() or rows[1].tolist() == [0, 100]


def test_levels_of_few_rows_in_two_categories_are_as_before():
    fit = _open("ABC", [0.5, 0.4999, 0.0001]).regression("y ~ x + w + odd", epsilon=3)
    assert set(fit._why) == {HIDDEN}
    assert "too few" not in repr(fit)


def test_the_currency_of_a_fit_beside_a_hidden_level_is_either():
    own = _open("ABC", [0.5, 0.4999, 0.0001], accounting="zcdp")
    fit = own.regression("y ~ x + w", rho=1)
    low, high = fit.conf_int()["x"]
    assert low < 0.4 < high < low + 0.2
    assert fit._why[3] == FEW


# -- log-odds ---------------------------------------------------------------------------------

CITIES = (
    Term("Intercept", "1"),
    *(Term(f"city[{v}]", "", source="city", value=v) for v in "BCD"),
    Term("a", "a"),
)
ODDS = np.array([-0.5, 0.5, -0.2, 4.0, 0.6])


def _cities(rng, people):
    """Counts of four cities times five ages; nearly all people of the last city say yes."""
    design = np.array([[1, c == 1, c == 2, c == 3, a / 2 - 1] for c in range(4) for a in range(5)])
    shares = np.array([100, 440, 440, people]) / (980 + people)
    sizes = rng.multinomial(1000, np.repeat(shares, 5) / 5)
    yes = rng.binomial(sizes, 1 / (1 + np.exp(-design @ ODDS)))
    noisy = np.stack([sizes - yes, yes])[..., None] + rng.laplace(0, 1, (2, 20, 1))
    return inf.Logistic(CITIES, Term("y", "y"), None, Cells.exact(design * 1.0), noisy, 2.0, 1)


@pytest.mark.parametrize(
    ("people", "replicates"),
    [(20, 300)] + [pytest.param(n, 10_000, marks=pytest.mark.long) for n in (0, 5, 20, 60, 150)],
)
def test_log_odds_beside_a_level_of_few_rows_are_covered(people, replicates):
    """Those of the other levels; the level's own are another matter where they are determined."""
    rng, missed = np.random.default_rng(people), np.zeros(4)
    hidden, blind, finite, keep = 0, 0, 0, [0, 1, 2, 4]
    for _ in range(replicates):
        fit = _cities(rng, people)
        low, high = np.asarray(fit.conf_int()).T
        missed += ((low > ODDS) | (high < ODDS))[keep]
        hidden += fit._why[3] == FEW
        finite += np.isfinite(low[0])
        cells = replace(fit.cells, design=fit.cells.design[..., keep])
        merged = replace(fit, terms=tuple(CITIES[i] for i in keep), cells=cells)
        low, high = merged.conf_int()["Intercept"]
        blind += not low <= ODDS[0] <= high
    assert (missed <= most(replicates)).all(), missed
    assert finite > 0.95 * replicates
    if people == 20:
        assert hidden > replicates / 2
        assert blind > most(replicates), blind


ODDS_FITS = {
    "last": ("ABC", [0.5, 0.4999, 0.0001], "yes ~ x + w", {"w[C]"}),
    "reference": ("CAB", [0.0001, 0.4999, 0.5], "yes ~ x + w", {"Intercept", "w[A]", "w[B]"}),
    "two": ("CABD", [0.0001, 0.4998, 0.5, 0.0001], "yes ~ x + w",
            {"Intercept", "w[A]", "w[B]", "w[D]"}),
    "flag": ("ABC", [0.4, 0.3, 0.3], "yes ~ x + w + odd", {"odd"}),
    "both": ("ABC", [0.5, 0.4999, 0.0001], "yes ~ x + w + odd", {"odd", "w[C]"}),
    "slopes": ("ABC", [0.5, 0.4999, 0.0001], "yes ~ x * w", {"w[C]", "x:w[T.C]"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ODDS_FITS)
def test_log_odds_leave_the_hidden_level_undetermined_and_nothing_else(name):
    levels, shares, formula, hidden = ODDS_FITS[name]
    fit = _open(levels, shares).regression(formula, family="logistic", epsilon=3)
    assert {k for k, (low, _) in fit.conf_int().items() if low == -np.inf} == hidden
    assert {k for k, v in fit.params.items() if np.isnan(v)} == hidden
    assert {k for k, v in fit.bse.items() if np.isnan(v)} == hidden
    assert not fit.determined
    low, high = fit.conf_int()["x"]
    assert low < 0.02 < high
    assert repr(fit).count(FEW) == len(hidden)
    assert "too few of one answer" in repr(fit)
    few = np.array([False, name != "flag", False])
    found = fit.get_prediction(AT)
    np.testing.assert_array_equal(found.predicted_mean, fit.predict(AT))
    assert np.isnan(fit.predict(AT)).tolist() == few.tolist()
    assert (found.conf_int() == [0, 1]).all(axis=1).tolist() == few.tolist()


def test_where_no_level_has_rows_enough_nothing_is_determined():
    own = _open("ABC", [0.4, 0.3, 0.3], n=60)
    for formula, family in (("y ~ x + w", "ols"), ("yes ~ x + w", "logistic")):
        fit = own.regression(formula, family=family, epsilon="0.05")
        assert set(fit.conf_int().values()) == {(-np.inf, np.inf)}
    assert CLEAR < 5


# -- log-odds of few events ------------------------------------------------------------------


@cache
def _counted(levels):
    """A fit of counted cells, whose counts a test replaces."""
    names = [f"v{i}" for i in range(levels)]
    columns = [pol.Boolean("y", null=False), pol.Category("s", names, null="v0")]
    rows = pa.table({"y": np.arange(400) % 2 == 0, "s": np.array(names)[np.arange(400) // 2 % 2]})
    asked = dc.open(
        rows, policy=pol.Policy([pol.Table("t", columns)], pol.Budget("9")), ledger=":memory:"
    )
    return asked.regression("y ~ s", family="logistic", epsilon="1")


def _null_pvalues(rows, share, scale, replicates, seed):
    """P-values of the last level, which is like all others, by noise of a scale."""
    rng, rows = np.random.default_rng(seed), np.array(rows)
    fit = _counted(len(rows))
    variance = 2 * np.exp(-1 / scale) / (1 - np.exp(-1 / scale)) ** 2
    found = []
    for _ in range(replicates):
        y = rng.binomial(rows, share)
        ones = rng.geometric(1 - np.exp(-1 / scale), (2, 2, rows.size))
        counts = np.array([rows - y, y]) + ones[0] - ones[1]
        one = replace(fit, counts=counts[:, :, None].astype(float), variance=variance)
        found.append(one.pvalues[f"s[v{rows.size - 1}]"])
    return np.array(found)


@pytest.mark.parametrize(
    ("rows", "share", "scale", "replicates"),
    [
        ((20_000, 1_000), 0.02, 20, 1_000),
        ((20_000, 1_000), 0.02, 10, 1_000),
        pytest.param((20_000, 1_000), 0.02, 20, 10_000, marks=pytest.mark.long),
        pytest.param((20_000, 1_000), 0.02, 10, 10_000, marks=pytest.mark.long),
        pytest.param((20_000, 3_000), 0.01, 20, 10_000, marks=pytest.mark.long),
        pytest.param((20_000, 20_000, 20_000, 1_000), 0.02, 20, 10_000, marks=pytest.mark.long),
        pytest.param((1_000, 20_000), 0.02, 20, 10_000, marks=pytest.mark.long),
    ],
)
def test_log_odds_of_few_events_are_no_more_often_apart_than_stated(rows, share, scale, replicates):
    """Sizes at 5, 1 and .1 %: no more than a binomial of each passes with probability 1e-9."""
    found = _null_pvalues(rows, share, scale, replicates, replicates)
    for level in (0.05, 0.01, 0.001):
        assert (found <= level).sum() <= stats.binom.isf(1e-9, replicates, 1.1 * level), level


def test_log_odds_whose_noise_is_taken_for_symmetric_fail_the_same_harness(monkeypatch):
    """Mutants: half-widths as they are, and levels of next to no events, told all the same."""
    monkeypatch.setattr(_logistic, "stretched", lambda half, _: half)
    monkeypatch.setattr(_logistic, "unstretched", lambda far, _: far)
    monkeypatch.setattr(_logistic, "unseen", lambda _: None)
    found = _null_pvalues((20_000, 1_000), 0.02, 20, 3_000, 1_000)
    assert (found <= 0.01).sum() > stats.binom.isf(1e-9, 3_000, 0.011)


@pytest.mark.parametrize("formula", ["x ~ k", "b ~ k", "x ~ b + k"])
@pytest.mark.parametrize("rows", [0, 30])
def test_a_fit_of_next_to_no_rows_is_printed_whatever_the_noise(formula, rows):
    """One level has all rows but one, the third none: what is paid for must not raise or warn."""
    table = pa.table(
        {
            "x": pa.array([1] * rows, pa.int64()),
            "b": pa.array([True] * rows, pa.bool_()),
            "k": pa.array((["a"] * rows)[:-1] + ["b"] * (rows > 0), pa.string()),
        }
    )
    columns = [pol.Integer("x", 0, 9), pol.Boolean("b"), pol.Category("k", ["a", "b", "c"])]
    policy = pol.Policy([pol.Table("t", columns)], pol.Budget("1000"))
    asked = dc.open(table, policy=policy, ledger=":memory:")
    for epsilon in ("0.1", "1"):
        for _ in range(30):
            fit = asked.regression(formula, epsilon=epsilon, fresh=True)
            assert "k[b]" in str(fit.summary())
            fit.get_prediction({"k": ["a", "b"], "b": [True, False]}).conf_int()
