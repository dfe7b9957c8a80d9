"""Least squares over noisy moments: coverage from a thousand rows to a million.

Coverage is tested at the true coefficient: misses must not pass what a binomial of R trials
and 6.5 % (the intervals are asymptotic) passes with probability 1e-9. The default run has the
same data and noise every time. Least squares that ignores the noise fails the same harness.
"""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from functools import cache
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet import inference as inf
from discreet.errors import ParameterError, QueryError
from discreet.inference._logistic import ENDLESS, STEEP, Cells
from discreet.inference._regression import HIDDEN, Term, _products
from discreet.inference._slope import Released, Score
from discreet.plan import MOMENTS, Splines

DESIGNS = {
    "mid": lambda rng, n: (np.clip(rng.normal(0.5, 0.2, n), 0, 1), 0.4, 0.3, 0.1),
    "skew": lambda rng, n: (rng.beta(1.2, 6, n), 0.3, 0.3, 0.1),
    "null": lambda rng, n: (rng.beta(2, 5, n), 0.0, 0.5, 0.15),
}
PLACE = ((0, 1, 2), (1, 3, 4), (2, 4, 5))


@cache
def _population(kind):
    rng = np.random.default_rng(1)
    u, slope, start, sd = DESIGNS[kind](rng, 400_000)
    v = np.clip(start + slope * u + rng.normal(0, sd, u.size), 0, 1)
    moments = np.stack([np.ones(u.size), u, v, u * u, u * v, v * v], -1)
    mean = moments.mean(axis=0)
    root = np.linalg.cholesky(np.cov(moments.T) + 1e-12 * np.eye(6))
    return mean, root, (mean[4] - mean[1] * mean[2]) / (mean[3] - mean[1] ** 2)


def _generator(name):
    return np.random.default_rng(None if os.environ.get("DISCREET_FRESH") else crc32(name.encode()))


def _missed(kind, n, epsilon, replicates, told=1.0):
    """Misses of the true slope; the procedure is told `told` times the noise's variance."""
    mean, root, beta = _population(kind)
    rng = _generator(f"{kind}{n}{epsilon}")
    covariance = MOMENTS @ MOMENTS.T * 2 / epsilon**2 * told
    missed = 0
    for _ in range(replicates):
        noise = MOMENTS @ rng.laplace(0, 1 / epsilon, 9)
        values = n * mean + np.sqrt(n) * (root @ rng.normal(size=6)) + noise
        score = Score(Released(values, covariance, PLACE, laplace=True, rows=1), np.eye(3), 1)
        missed += score.determined and not score.kept(beta, 0.05)
    return missed


def most(replicates):
    return stats.binom.isf(1e-9, replicates, 0.065)


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("n", [10**3, 10**4, 10**5, 10**6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("replicates", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_slopes_are_covered(kind, n, epsilon, replicates):
    assert _missed(kind, n, epsilon, replicates) <= most(replicates)


@pytest.mark.parametrize(("kind", "n"), [("mid", 10**3), ("skew", 10**4), ("null", 10**4)])
def test_least_squares_that_ignores_the_noise_fails_the_same_harness(kind, n):
    """It covers 3 to 55 % at ε = .1."""
    missed = _missed(kind, n, 0.1, 150, told=1e-9)
    assert missed > most(150)
    assert 0.45 <= missed / 150 <= 0.97


TERMS = [
    Term("Intercept", "1"),
    Term("a", "a", 0.0, 1.0),
    Term("b", "b", 0.0, 1.0),
    Term("c[2]", "c", source="c", value=2),
    Term("c[3]", "d", source="c", value=3),
]


@pytest.mark.parametrize("replicates", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_several_predictors_are_covered(replicates):
    """Two numbers and a category of three values, 5000 rows; every coefficient."""
    rng = _generator("several")
    truth = np.array([0.1, 0.4, -0.2, 0.15, 0.0])
    place, sums = _products([*TERMS, Term("y", "y")])
    assert len(sums) == 1 + max(p for row in place for p in row)
    assert place[3][4] == -1
    assert place[3][3] == place[0][3]
    scale, missed, blind = 10.0, np.zeros(5), np.zeros(5)
    for _ in range(replicates):
        a, b = rng.uniform(-1, 1, (2, 5000))
        c = rng.integers(1, 4, 5000)
        z = np.stack([np.ones(5000), a, np.clip(b + 0.3 * a, -1, 1), c == 2, c == 3])
        y = truth @ z + rng.normal(0, 0.2, 5000)
        columns = np.vstack([z, y])
        exact = columns @ columns.T
        values = np.zeros(len(sums))
        for i, row in enumerate(place):
            for j, p in enumerate(row):
                if p >= 0:
                    values[p] = exact[i, j]
        values += rng.laplace(0, scale, values.size)
        released = Released(values, np.eye(values.size) * 2 * scale**2, place, True, 1)
        for j in range(5):
            missed[j] += not Score(released, np.eye(6), j).kept(truth[j], 0.05)
            none = replace(released, covariance=1e-9 * released.covariance)
            blind[j] += not Score(none, np.eye(6), j).kept(truth[j], 0.05)
    assert (missed <= most(replicates)).all(), missed
    assert blind.sum() > most(5 * replicates), blind


WIDE = [
    Term("Intercept", "1"),
    *(Term(f"a{i}", f"a{i}", 0.0, 1.0) for i in range(15)),
    *(Term(f"c[{i}]", f"c{i}", source="c", value=i) for i in range(1, 15)),
]
"""Thirty columns: numbers, and a category of fifteen values."""


def _wide(rng, n):
    shared = rng.uniform(-1, 1, n)
    numbers = rng.uniform(-1, 1, (15, n))
    numbers[::3] = (numbers[::3] + shared) / 2
    level = rng.choice(15, n, p=np.arange(20, 5, -1) / np.arange(20, 5, -1).sum())
    return np.vstack([np.ones((1, n)), numbers, level == np.arange(1, 15)[:, None]])


@pytest.mark.parametrize(
    ("replicates", "scale"),
    [(60, 10.0)] + [pytest.param(1000, scale, marks=pytest.mark.long) for scale in (10.0, 40.0)],
)
def test_thirty_columns_are_covered(replicates, scale):
    """10 000 rows; at a scale of 40 the noise hides many a coefficient. Six of thirty are read."""
    rng, n = _generator(f"wide{scale}"), 10_000
    truth = np.zeros(30)
    truth[[0, 1, 2, 3, 29]] = 0.05, 0.4, -0.2, 0.15, 0.1
    place, sums = _products([*WIDE, Term("y", "y")])
    slots = np.array(place)
    missed, blind = np.zeros(6), 0
    for _ in range(replicates):
        z = _wide(rng, n)
        columns = np.vstack([z, truth @ z + rng.normal(0, 0.2, n)])
        values = np.zeros(len(sums))
        values[slots[slots >= 0]] = (columns @ columns.T)[slots >= 0]
        values += rng.laplace(0, scale, values.size)
        released = Released(values, np.eye(values.size) * 2 * scale**2, place, True, 1)
        none = replace(released, covariance=1e-9 * released.covariance)
        for i, j in enumerate((0, 1, 2, 15, 16, 29)):
            score = Score(released, np.eye(31), j)
            missed[i] += score.determined and not score.kept(truth[j], 0.05)
            hidden = Score(none, np.eye(31), j)
            blind += not hidden.determined or not hidden.kept(truth[j], 0.05)
    assert (missed <= most(replicates)).all(), missed
    assert blind > most(6 * replicates)


def test_errors_without_noise_are_those_of_least_squares():
    """With twelve columns and sixty rows they were a tenth too small: no column was allowed for."""
    rng = np.random.default_rng(2)
    z = np.vstack([np.ones((1, 60)), rng.uniform(-1, 1, (11, 60))])
    y = z[1] + rng.normal(0, 0.2, 60)
    columns = np.vstack([z, y])
    names = [Term("Intercept", "1"), *(Term(f"a{i}", f"a{i}") for i in range(11))]
    place, sums = _products([*names, Term("y", "y")])
    slots, values = np.array(place), np.zeros(len(sums))
    values[slots] = columns @ columns.T
    released = Released(values, np.eye(values.size) * 1e-12, place, False, 1)
    fit = inf.Regression(tuple(names), Term("y", "y"), None, released)
    exact, rest, *_ = np.linalg.lstsq(z.T, y, rcond=None)
    errors = np.sqrt(np.diag(np.linalg.inv(z @ z.T)) * rest / (60 - 12))
    assert np.asarray(fit.params) == pytest.approx(exact)
    assert np.asarray(fit.bse) == pytest.approx(errors, rel=0.015)


ROWS = {"a": [0.0, 1, -1, 0.5], "b": [0.0, -1, 1, 0.5], "c": [1, 2, 3, 1]}


@pytest.mark.parametrize("errors", ["normal", "skewed", "spiked"])
@pytest.mark.parametrize("replicates", [150, pytest.param(5000, marks=pytest.mark.long)])
def test_predictions_are_covered(errors, replicates):
    """Heights of the line, in and beyond the middle of the data; and new rows of any one mode."""
    rng, n, scale = _generator(f"predict{errors}"), 1000, 5.0
    truth = np.array([0.1, 0.4, -0.2, 0.15, 0.0])
    draw = {
        "normal": lambda k: rng.normal(0, 0.2, k),
        "skewed": lambda k: 0.2 * (rng.exponential(1, k) - 1),
        "spiked": lambda k: rng.uniform(-1, 1, k) * (rng.random(k) < 0.15),
    }[errors]
    place, sums = _products([*TERMS, Term("y", "y")])
    slots = np.array(place)
    at = np.array([[1, a, b, c == 2, c == 3] for a, b, c in zip(*ROWS.values(), strict=True)])
    missed, blind, new = np.zeros(4), np.zeros(4), np.zeros(4)
    for _ in range(replicates):
        a, b = rng.uniform(-1, 1, (2, n))
        c = rng.integers(1, 4, n)
        z = np.stack([np.ones(n), a, np.clip(b + 0.3 * a, -1, 1), c == 2, c == 3])
        columns = np.vstack([z, truth @ z + draw(n)])
        values = np.zeros(len(sums))
        values[slots[slots >= 0]] = (columns @ columns.T)[slots >= 0]
        values += rng.laplace(0, scale, values.size)
        released = Released(values, np.eye(values.size) * 2 * scale**2, place, True, 1)
        fit = inf.Regression(tuple(TERMS), Term("y", "y"), None, released)
        found = fit.get_prediction(ROWS)
        low, high = found.conf_int().T
        missed += (low > at @ truth) | (high < at @ truth)
        row = at @ truth + draw(4)
        low, high = found.conf_int(obs=True).T
        new += (low > row) | (high < row)
        none = replace(fit, released=replace(released, covariance=1e-9 * released.covariance))
        low, high = none.get_prediction(ROWS).conf_int().T
        blind += (low > at @ truth) | (high < at @ truth)
    assert (missed <= most(replicates)).all(), missed
    assert (new <= most(replicates)).all(), new
    assert (blind > most(replicates)).all(), blind


def test_the_height_of_a_line_is_its_combination_of_coefficients():
    released = Released(
        np.array([2000.0, 0, 200, 667, 200, 160]), np.eye(6) * 50, PLACE, laplace=True, rows=1
    )
    terms = (Term("Intercept", "1"), Term("x", "x", 3.0, 2.0))
    fit = inf.Regression(terms, Term("y", "y", 1.0, 4.0), None, released, (-3.0, 5.0))
    found = fit.get_prediction({"x": [0.0, 3.0, 5.0]})
    assert found.predicted_mean == pytest.approx(fit.predict({"x": [0.0, 3.0, 5.0]}))
    # the constant is the height at zero
    assert found.conf_int()[0] == pytest.approx(fit.conf_int()["Intercept"], rel=1e-6)
    assert found.se_mean[0] == pytest.approx(fit.bse["Intercept"])
    rows = found.conf_int(obs=True)
    assert (rows[:, 0] >= -3).all()
    assert (rows[:, 1] <= 5).all()
    assert (rows[:, 1] - rows[:, 0] > np.ptp(found.conf_int(), axis=1)).all()
    frame = found.summary_frame(0.1)
    assert list(frame.columns) == [
        "mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "obs_ci_lower", "obs_ci_upper",
    ]  # fmt: skip
    assert frame["mean_ci_lower"].to_numpy() == pytest.approx(found.conf_int(0.1)[:, 0])
    assert "a\nnew row" in repr(found)


POLICY = {
    "policy": {"name": "regression"},
    "budget": {"epsilon": "1e7", "accounting": "pure"},
    "tables": {
        "t": {
            "columns": {
                "age": {"type": "integer", "min": 0, "max": 100},
                "pay": {"type": "real", "min": 0, "max": 1000, "step": "0.5"},
                "sex": {"type": "category", "values": ["F", "M"]},
                "city": {"type": "text"},
                "old": {"type": "boolean"},
            }
        }
    },
}


@pytest.fixture
def curator():
    rng = np.random.default_rng(0)
    n = 3000
    age, sex = rng.integers(18, 70, n), rng.choice(["F", "M"], n)
    pay = np.clip(100 + 8 * age + 50 * (sex == "M") + rng.normal(0, 80, n), 0, 1000)
    data = {"age": age, "pay": pay, "sex": sex, "city": ["x"] * n, "old": age > 50}
    return dc.open(pa.table(data), policy=POLICY, ledger=":memory:")


def test_a_regression_is_asked_and_paid_on_the_one_road(curator):
    found = curator.regression("pay ~ age + sex", epsilon=1000)
    assert set(found.params) == {"Intercept", "age", "sex[M]"}
    for name, truth in {"age": 8, "sex[M]": 50}.items():
        low, high = found.conf_int()[name]
        assert low < truth < high
        assert low < found.params[name] < high
        assert found.bse[name] > 0
        assert found.pvalues[name] < 1e-3
    wide, narrow = found.conf_int(0.01)["age"], found.conf_int(0.2)["age"]
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert abs(found.nobs - 3000) < 10
    assert curator.budget.spent["epsilon"] == 1000
    again = curator.regression("pay ~ age + sex", epsilon=1000)
    assert again.answer.cached
    assert again.params == found.params
    ages = {"age": [30, 40], "sex": ["F", "M"]}
    assert found.predict(ages) == pytest.approx([340, 470], abs=25)
    for word in ("coef", "std err", "95 % interval", "age", "cost ε=1000"):
        assert word in found.summary()


def test_a_design_of_thirty_columns_is_one_question_whatever_its_text_is_long():
    """Its sums are more letters than one text may have; more columns are refused unpaid."""
    rng, n = np.random.default_rng(0), 2000
    names = [f"a number that has quite a long name of its own {i}" for i in range(30)]
    data = {name: rng.integers(0, 101, n) for name in names}
    data["y"] = np.clip(30 + data[names[0]] // 2 + rng.integers(0, 9, n), 0, 100)
    columns = {name: {"type": "integer", "min": 0, "max": 100} for name in data}
    policy = {
        "policy": {"name": "wide"},
        "budget": {"epsilon": "1e9"},
        "tables": {"t": {"columns": columns}},
    }
    own = dc.open(pa.table(data), policy=policy, ledger=":memory:")
    formula = "y ~ " + " + ".join(f'"{name}"' for name in names[:29])
    assert len(formula) * 30 > 20_000
    found = own.regression(formula, epsilon=10_000)
    assert len(found.params) == 30
    exact = np.linalg.lstsq(
        np.stack([np.ones(n), *(data[name] for name in names[:29])], -1), data["y"], rcond=None
    )[0]
    assert np.asarray(found.params) == pytest.approx(exact, abs=2e-2)
    low, high = found.conf_int()[names[0]]
    assert low < 0.5 < high < 0.55
    assert own.regression(formula, epsilon=10_000).answer.cached
    with pytest.raises(ParameterError, match="at most 30"):
        own.regression(f'{formula} + "{names[29]}"', epsilon=1)
    with pytest.raises(QueryError):
        own.regression(formula, where="y > 1 GROUP BY y", epsilon=1)
    assert own.budget.spent["epsilon"] == 10_000


def test_one_number_is_explained_by_another_through_nine_cells(curator):
    found = curator.regression("pay ~ age", where="sex = 'F'", epsilon=100)
    assert len(found.answer.parts) == 1
    low, high = found.conf_int()["age"]
    assert low < 8 < high
    assert high - low < 1
    flag = curator.regression("pay ~ old", epsilon=100)
    assert flag.params["old"] > 100


BOUNDS = [(0, 90), (0, 15), (1, 16), (18, 81), (1, 90), (0, 99)]


def _two_numbers(low, high):
    rng = np.random.default_rng(4)
    b, c = rng.integers(0, 91, 4000), rng.integers(low, high + 1, 4000)
    a = np.clip(np.round(20 + 0.3 * b + 0.2 * (c - low) + rng.normal(0, 5, 4000)), 0, 90)
    columns = {"a": (0, 90), "b": (0, 90), "c": (low, high)}
    policy = {
        "policy": {"name": f"two {low} {high}"},
        "budget": {"epsilon": "1000000"},
        "tables": {"t": {"columns": {
            k: {"type": "integer", "min": lo, "max": hi} for k, (lo, hi) in columns.items()
        }}},
    }  # fmt: skip
    table = pa.table({"a": a.astype(int), "b": b, "c": c})
    exact = np.linalg.lstsq(np.stack([np.ones(4000), b, c], -1), a, rcond=None)[0]
    return dc.open(table, policy=policy, ledger=":memory:"), exact


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_two_numbers_explain_a_third_whatever_their_bounds_are(low, high):
    """Sums that share draws with the number of rows have weights of their own."""
    curator, exact = _two_numbers(low, high)
    found = curator.regression("a ~ b + c", epsilon=10_000)
    assert np.asarray(found.params) == pytest.approx(exact, abs=1e-2)


def test_noise_of_sums_that_share_draws_is_correlated():
    """Covariances stated against those of 600 releases; without the shared draws it fails.

    Each of 55 is within 6 standard errors (of fourth moments, bounded by that of Laplace noise):
    a false alarm has a probability below 1e-6, and the draws are the same in every run.
    """
    curator, _ = _two_numbers(0, 1)
    drawn = []
    for k in range(600):
        found = curator.regression("a ~ b + c", epsilon=f"10.{k:06}")  # none is stored
        drawn.append(found.released.values)
        stated = found.released.covariance
    seen, root = np.cov(np.array(drawn).T), np.sqrt(np.diag(stated))
    close = np.abs(seen - stated) <= 6 * np.sqrt(5 / 600) * np.outer(root, root)
    assert close.all()
    apart = np.abs(seen - np.diag(root**2)) <= 6 * np.sqrt(5 / 600) * np.outer(root, root)
    assert not apart.all()


def test_what_the_noise_hides_is_not_determined(curator):
    found = curator.regression("pay ~ age", epsilon="0.001")
    assert found.conf_int()["age"] == (-np.inf, np.inf)
    assert "not determined at this ε" in repr(found)


@pytest.mark.parametrize(
    ("formula", "error"),
    [
        ("pay", ParameterError),
        ("pay ~ age ^ sex", ParameterError),
        ("pay ~ age + I(age)", ParameterError),
        ("pay ~ city", ParameterError),
        ("sex ~ age + old", None),
        ("pay ~ nothing", QueryError),
        ("city ~ age", ParameterError),
    ],
)
def test_formulas_that_cannot_be_read_cost_nothing(curator, formula, error):
    if error is None:
        assert curator.regression(formula, epsilon=1).params  # a flag is a number
        return
    with pytest.raises(error):
        curator.regression(formula, epsilon=1)
    assert curator.budget.spent["epsilon"] == 0


# -- log-odds ---------------------------------------------------------------------------------

GRID = np.array([(a, s) for a in range(11) for s in range(2)])
ODDS = np.array([-0.5, 1.5, 0.7])


TERMS_OF_ODDS = (Term("Intercept", "1"), Term("a", "a"), Term("s", "s"))


def _odds(cells, counts, scale, told, rng):
    noisy = counts + rng.laplace(0, scale, counts.shape)
    variance = 2 * scale**2 * told
    return inf.Logistic(TERMS_OF_ODDS, Term("y", "y"), None, cells, noisy, variance, 1)


def _counted(rng, n, scale, told=1.0):
    """Counts of eleven values times two, drawn from known log-odds, with Laplace noise."""
    design = np.column_stack([np.ones(len(GRID)), GRID[:, 0] / 5 - 1, GRID[:, 1]])
    share = np.exp(-(((GRID[:, 0] - 5) / 2.5) ** 2))
    sizes = rng.multinomial(n, share / share.sum())
    yes = rng.binomial(sizes, 1 / (1 + np.exp(-design @ ODDS)))
    return _odds(Cells.exact(design), np.stack([sizes - yes, yes])[..., None], scale, told, rng)


FINE = Splines(0, 1, (Fraction(-1),), (Fraction(1, 4),))
U = np.linspace(-1, 1, 401)


def _splined(rng, n, scale, told=1.0):
    """A number between −1 and 1, read through its splines, and a flag."""
    (places,), (basis,) = FINE.axes()
    (_,), (at,) = FINE.axes(50)  # the same 401 places as U
    share = np.exp(-(((U - 0.1) / 0.5) ** 2))
    sizes = rng.multinomial(n, np.tile(share / share.sum() / 2, 2)).reshape(2, -1)
    eta = ODDS[0] + ODDS[1] * U + ODDS[2] * np.arange(2)[:, None]
    yes = rng.binomial(sizes, 1 / (1 + np.exp(-eta)))
    flag = np.broadcast_to(np.arange(2)[:, None], (2, places.size))
    design = np.stack([np.ones(flag.shape), np.broadcast_to(places, flag.shape), flag], axis=-1)
    cells = Cells(design, np.linalg.pinv(basis), basis)
    return _odds(cells, np.stack([(sizes - yes) @ at, yes @ at]), scale, told, rng)


KINDS = {"counts": _counted, "splines": _splined}


def _missed_odds(kind, n, scale, replicates, told=1.0):
    """Misses of each coefficient, and how often all were determined."""
    rng, missed, found = _generator(f"logistic{kind}{n}{scale}"), np.zeros(3), 0
    for _ in range(replicates):
        low, high = np.asarray(KINDS[kind](rng, n, scale, told).conf_int()).T
        missed += (low > ODDS) | (high < ODDS)
        found += np.isfinite(low).all()
    return missed, found / replicates


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n", "scale", "replicates"),
    [(1000, 1, 1000), (1_000_000, 10, 1000)]
    + [
        pytest.param(n, scale, 10_000, marks=pytest.mark.long)
        for n, scale in [(1000, 1), (10_000, 1), (10_000, 10), (100_000, 10), (1_000_000, 10)]
    ],
)
def test_log_odds_are_covered(kind, n, scale, replicates):
    missed, found = _missed_odds(kind, n, scale, replicates)
    assert (missed <= most(replicates)).all(), missed
    assert found > 0.9


PLACES = {"a": [-1.0, 0, 1], "s": [0, 1, 0]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicates", [200, pytest.param(5000, marks=pytest.mark.long)])
def test_predicted_probabilities_are_covered(kind, replicates):
    rng, missed, blind = _generator(f"odds{kind}"), np.zeros(3), np.zeros(3)
    truth = 1 / (1 + np.exp(-np.array([[1, -1, 0], [1, 0, 1], [1, 1, 0]]) @ ODDS))
    for _ in range(replicates):
        fit = KINDS[kind](rng, 10_000, 30)
        low, high = fit.get_prediction(PLACES).conf_int().T
        missed += (low > truth) | (high < truth)
        low, high = replace(fit, variance=1e-9).get_prediction(PLACES).conf_int().T
        blind += (low > truth) | (high < truth)
    assert (missed <= most(replicates)).all(), missed
    assert (blind > most(replicates)).all(), blind


@pytest.mark.parametrize("kind", KINDS)
def test_log_odds_that_ignore_the_noise_fail_the_same_harness(kind):
    missed, _ = _missed_odds(kind, 10_000, 30, 150, told=1e-9)
    assert (missed > most(150)).all(), missed


def test_log_odds_that_ignore_the_splines_error_fail_the_same_harness():
    """Four intervals, a narrow law: without the slack a million rows see the difference."""
    coarse, rng = Splines(0, 1, (Fraction(-1),) * 3, (Fraction(1, 2),) * 3), _generator("slack")
    places, basis = (x[0] for x in coarse.axes())
    at = coarse.axes(100)[1][0]
    u, odds, missed, slackless = np.linspace(-1, 1, 401), np.array([-2.0, 3.0]), 0, 0
    share = np.exp(-(((u - 0.2) / 0.2) ** 2))
    cells = Cells(np.stack([np.ones(places.size), places], -1)[None], np.linalg.pinv(basis), basis)
    for _ in range(100):
        sizes = rng.multinomial(1_000_000, share / share.sum())
        yes = rng.binomial(sizes, 1 / (1 + np.exp(-odds[0] - odds[1] * u)))
        counts = np.stack([(sizes - yes) @ at, yes @ at])[:, None]
        fit = inf.Logistic(TERMS_OF_ODDS[:2], Term("y", "y"), None, cells, counts, 1e-6, 1)
        assert np.isfinite(fit.bse["a"])
        low, high = fit.conf_int()["a"]
        half = 1.96 * fit.bse["a"]
        missed += not low <= odds[1] <= high
        slackless += abs(fit.params["a"] - odds[1]) > half
    assert missed <= most(100)
    assert slackless > most(100)
    # steeper curves are refused: there the slack is no small correction
    yes = rng.binomial(sizes, 1 / (1 + np.exp(2 - 9 * u)))
    counts = np.stack([(sizes - yes) @ at, yes @ at])[:, None]
    steep = inf.Logistic(TERMS_OF_ODDS[:2], Term("y", "y"), None, cells, counts, 1e-6, 1)
    assert steep.conf_int()["a"] == (-np.inf, np.inf)
    assert steep._why == [STEEP] * 2


def test_log_odds_that_the_noise_hides_are_not_determined():
    for make in KINDS.values():
        found = make(_generator("hidden"), 200, 50)
        assert all(e == (-np.inf, np.inf) for e in found.conf_int().values())
        assert set(found.pvalues.values()) == {1.0}
        assert set(found._why) == {HIDDEN}


@pytest.mark.parametrize(
    ("counts", "variance"),
    [
        ([[505, 483], [-8, 12]], 22),
        ([[490, 497], [0, 4]], 22),
        ([[507, 498], [0, 2]], 22),
        ([[501, 494], [0, 1]], 2),
        ([[488, 496], [-1, 8]], 2),
        ([[495, 501], [0, 4]], 2),
    ],
)
def test_a_noisy_count_of_no_events_has_no_finite_log_odds(counts, variance):
    """The information vanishes with its noise: numpy's `LinAlgError: Singular matrix` came out."""
    cells, noisy = Cells.exact(np.array([[1.0, 0], [1, 1]])), np.array(counts, float)[..., None]
    terms = TERMS_OF_ODDS[0], TERMS_OF_ODDS[2]
    found = inf.Logistic(terms, Term("y", "y"), None, cells, noisy, variance, 1)
    assert set(found.conf_int().values()) == {(-np.inf, np.inf)}
    assert np.isnan(list(found.params.values())).all()
    assert set(found._why) == {ENDLESS}


CITIES = (
    Term("Intercept", "1"),
    *(Term(f"city[{v}]", "", source="city", value=v) for v in "BCD"),
    Term("a", "a"),
)


def _cities(rng, shares):
    """Counts of four cities times five ages; the last city is as the first one is."""
    design = np.array([[1, c == 1, c == 2, c == 3, a / 2 - 1] for c in range(4) for a in range(5)])
    sizes = rng.multinomial(5000, np.repeat(shares, 5) / 5)
    yes = rng.binomial(sizes, 1 / (1 + np.exp(0.5 - design @ [0, 0.5, -0.2, 0, 0.6])))
    noisy = np.stack([sizes - yes, yes])[..., None] + rng.laplace(0, 1, (2, 20, 1))
    return inf.Logistic(CITIES, Term("y", "y"), None, Cells.exact(design * 1.0), noisy, 2.0, 1)


@pytest.mark.parametrize("replicates", [300, pytest.param(3000, marks=pytest.mark.long)])
def test_what_a_rare_level_leaves_is_covered_once_it_is_in_the_reference(replicates):
    """About 14 people live in the last city: the noise hides them now and then."""
    rng, missed, advised = _generator("cities"), np.zeros(4), 0
    truth = np.array([-0.5, 0.5, -0.2, 0.6])
    for _ in range(replicates):
        fit = _cities(rng, [0.4, 0.3, 0.2972, 0.0028])
        if not fit._notes:
            continue
        advised += 1
        assert fit._notes[-1].strip('" ') == "y ~ (city == 'B') + (city == 'C') + a"
        keep = [0, 1, 2, 4]
        cells = replace(fit.cells, design=fit.cells.design[..., keep])
        merged = replace(fit, terms=tuple(CITIES[i] for i in keep), cells=cells)
        low, high = np.asarray(merged.conf_int()).T
        missed += (low > truth) | (high < truth)
    assert advised > replicates / 10
    assert (missed <= most(advised)).all(), missed


def test_a_rare_level_is_named_with_a_formula_that_is_free():
    """That of the level itself is not determined, which no ε would change."""
    rng, n = np.random.default_rng(0), 5000
    for first, last in (("A", "D"), ("D", "A")):
        city = rng.choice([first, "B", "C", last], n, p=[0.4, 0.3, 0.299, 0.001])
        age = rng.integers(0, 5, n)
        table = pa.table({"city": city, "a": age, "y": rng.random(n) < 0.3 + 0.1 * (city == "B")})
        columns = {
            "city": {"type": "category", "values": ["A", "B", "C", "D"]},
            "a": {"type": "integer", "min": 0, "max": 4},
            "y": {"type": "boolean"},
        }
        policy = {
            "policy": {"name": f"cities {last}"},
            "budget": {"epsilon": "10"},
            "tables": {"t": {"columns": columns}},
        }
        own = dc.open(table, policy=policy, ledger=":memory:")
        for formula in ("y ~ city + a", "y ~ C(city) + a"):
            fit = own.regression(formula, family="logistic", epsilon=1)
            assert not fit.determined
            hidden, *_, line = fit._notes
            assert ("first value" in hidden) == (last == "A")
            assert np.isfinite(fit.bse["a"])
            free = own.regression(line.strip().strip('"'), family="logistic", epsilon=1)
            assert free.answer.cached
            assert free.determined
        assert own.budget.spent["epsilon"] == 1


def test_log_odds_are_asked_and_paid_on_the_one_road(curator):
    found = curator.regression("old ~ sex", family="logistic", epsilon=1000)
    share = np.mean(np.random.default_rng(0).integers(18, 70, 3000) > 50)
    assert found.predict({"sex": ["F", "M"]}) == pytest.approx([share] * 2, abs=0.05)
    assert found.conf_int()["sex[M]"][0] < 0 < found.conf_int()["sex[M]"][1]
    assert curator.budget.spent["epsilon"] == 1000
    assert "log-odds of old" in repr(found)
    by_age = curator.regression("sex ~ age", family="logistic", epsilon=1000)
    assert abs(by_age.params["age"]) < 0.02
    by_pay = curator.regression("sex ~ pay", family="logistic", epsilon=1000)
    assert by_pay.params["pay"] > 0
    separated = curator.regression("old ~ age", family="logistic", epsilon=1000)
    assert separated.conf_int()["age"] == (-np.inf, np.inf)
    assert repr(separated).count(separated._why[0]) == 2
    assert separated._why[0] in (STEEP, ENDLESS)
    for formula in ("pay ~ age", "old ~ city"):
        with pytest.raises(ParameterError):
            curator.regression(formula, family="logistic", epsilon=1)
    ages = {"age": [20, 40, 60]}
    chances = curator.regression("sex ~ age", family="logistic", epsilon=1000).get_prediction(ages)
    low, high = chances.conf_int().T
    assert (low < chances.predicted_mean).all()
    assert (chances.predicted_mean < high).all()
    assert list(chances.summary_frame().columns)[-1] == "mean_ci_upper"
    with pytest.raises(ParameterError, match="0 or 1"):
        chances.conf_int(obs=True)
    unknown = separated.get_prediction(ages)
    assert unknown.conf_int().tolist() == [[0, 1]] * 3
    assert np.isnan(unknown.predicted_mean).all()
    with pytest.raises(ParameterError, match="ols or logistic"):
        curator.regression("old ~ sex", family="probit", epsilon=1)
