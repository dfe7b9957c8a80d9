"""Functions, flags, categories and interactions in formulas, beside ordinary fits."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import special, stats

import discreet as dc
from discreet.errors import ParameterError

N = 4_000
_RNG = np.random.default_rng(11)
AGE = _RNG.integers(18, 90, N)
SEX = _RNG.choice(["F", "M", "X"], N)
WED = _RNG.random(N) < 0.4
ED = _RNG.integers(0, 4, N)
PAY = np.clip(
    np.round(200 + 90 * np.log(AGE) + (SEX == "M") * AGE + 20 * WED + 9 * ED
             + _RNG.normal(0, 50, N), 2),
    1, 2000,
)  # fmt: skip
ILL = _RNG.random(N) < special.expit(-2 + 0.5 * np.log(AGE) + 0.8 * (SEX == "M") * (AGE > 40))
ROWS = {"age": AGE, "sex": SEX, "wed": WED, "ed": ED, "pay": PAY, "ill": ILL}
COLUMNS = {
    "age": {"type": "integer", "min": 18, "max": 90},
    "sex": {"type": "category", "values": ["F", "M", "X"]},
    "wed": {"type": "boolean"},
    "ed": {"type": "integer", "min": 0, "max": 3},
    "pay": {"type": "real", "min": 1, "max": 2000, "step": "0.01"},
    "ill": {"type": "boolean"},
}
ONE, M, X = np.ones(N), SEX == "M", SEX == "X"


@pytest.fixture(scope="module")
def curator():
    policy = {
        "policy": {"name": "terms"},
        "budget": {"epsilon": "1e12"},
        "tables": {"t": {"columns": COLUMNS}},
    }
    return dc.open(pa.table(ROWS), policy=policy, ledger=":memory:")


LINES = {
    "pay ~ age + I(age**2)": {"age": AGE, "I(age ** 2)": AGE**2},
    "pay ~ C(sex) + age": {"C(sex)[T.M]": M, "C(sex)[T.X]": X, "age": AGE},
    "pay ~ C(ed)": {f"C(ed)[T.{k}]": k == ED for k in (1, 2, 3)},
    "pay ~ age > 30": {"age > 30[T.True]": AGE > 30},
    "pay ~ (age > 30) + wed": {"age > 30[T.True]": AGE > 30, "wed": WED},
    "pay ~ I((age > 30) & wed)": {"I((age > 30) & wed)[T.True]": (AGE > 30) & WED},
    "pay ~ sex*age": {
        "sex[M]": M, "sex[X]": X, "age": AGE, "sex[T.M]:age": M * AGE, "sex[T.X]:age": X * AGE,
    },
    "pay ~ wed*C(sex)": {
        "wed": WED, "C(sex)[T.M]": M, "C(sex)[T.X]": X,
        "wed[T.True]:C(sex)[T.M]": WED & M, "wed[T.True]:C(sex)[T.X]": WED & X,
    },
    "pay ~ age + ed + age:ed": {"age": AGE, "ed": ED, "age:ed": AGE * ED},
    "pay ~ sex + sex:age": {
        "sex[M]": M, "sex[X]": X, "sex[T.F]:age": (SEX == "F") * AGE,
        "sex[T.M]:age": M * AGE, "sex[T.X]:age": X * AGE,
    },
    "pay ~ I(age/10) + Q('ed')": {"I(age / 10)": AGE / 10, "ed": ED},
    "I(pay / 100) ~ ed": {"ed": ED},
    "pay > 600 ~ ed": {"ed": ED},
}  # fmt: skip
FREE = {
    "pay ~ sex - 1": {"sex[F]": SEX == "F", "sex[M]": M, "sex[X]": X},
    "pay ~ 0 + age + ed": {"age": AGE, "ed": ED},
    "pay ~ C(sex) + ed - 1": {
        "C(sex)[F]": SEX == "F", "C(sex)[M]": M, "C(sex)[X]": X, "ed": ED,
    },
}  # fmt: skip
RESPONSES = {"I(pay / 100) ~ ed": PAY / 100, "pay > 600 ~ ed": PAY > 600}


def _least_squares(design, y):
    x = np.column_stack(list(design.values())).astype(float)
    beta, *_ = np.linalg.lstsq(x, y.astype(float), rcond=None)
    error = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * np.mean((y - x @ beta) ** 2))
    return dict(zip(design, beta, strict=True)), dict(zip(design, error, strict=True)), x @ beta


@pytest.mark.parametrize("formula", [*LINES, *FREE])
def test_terms_are_those_of_an_ordinary_fit(curator, formula):
    """At an ε that leaves no noise: names, coefficients, errors and predictions."""
    design = FREE.get(formula) or {"Intercept": ONE, **LINES[formula]}
    found = curator.regression(formula, epsilon=1e8)
    beta, error, fitted = _least_squares(design, RESPONSES.get(formula, PAY))
    assert found.params == pytest.approx(beta, rel=1e-4, abs=1e-3)
    assert found.bse == pytest.approx(error, rel=1e-3)
    assert list(found.params) == list(design)
    assert found.predict(ROWS) == pytest.approx(fitted, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("name", ["np.log(age)", "log(age)", "np.sqrt(age)"])
def test_functions_are_exact_up_to_their_steps(curator, name):
    x = np.sqrt(AGE) if "sqrt" in name else np.log(AGE)
    beta, error, fitted = _least_squares({"Intercept": ONE, name: x}, PAY)
    for formula in (f"pay ~ {name}", f"pay ~ {name} + wed"):  # nine cells, and sums
        found = curator.regression(formula, epsilon=1e8)
        if "wed" not in formula:
            assert found.predict(ROWS) == pytest.approx(fitted, rel=1e-3)
            assert abs(found.params[name] - beta[name]) < error[name] / 10


ODDS = {
    "ill ~ np.log(age)": {"np.log(age)": np.log(AGE)},
    "ill ~ age + I(age**2)": {"age": AGE, "I(age ** 2)": AGE**2},
    "ill ~ age + (age > 40)": {"age": AGE, "age > 40[T.True]": AGE > 40},
    "ill ~ sex*(age > 40)": {
        "sex[M]": M, "sex[X]": X, "age > 40[T.True]": AGE > 40,
        "sex[T.M]:age > 40[T.True]": M & (AGE > 40), "sex[T.X]:age > 40[T.True]": X & (AGE > 40),
    },
    "ill ~ sex*age": {
        "sex[M]": M, "sex[X]": X, "age": AGE, "sex[T.M]:age": M * AGE, "sex[T.X]:age": X * AGE,
    },
    "ill ~ C(ed) + (ed > 1):age + age": {
        **{f"C(ed)[T.{k}]": k == ED for k in (1, 2, 3)},
        "age": AGE, "ed > 1[T.True]:age": (ED > 1) * AGE,
    },
}  # fmt: skip


@pytest.mark.parametrize("formula", ODDS)
def test_log_odds_are_those_of_an_ordinary_fit(curator, formula):
    design = {"Intercept": ONE, **ODDS[formula]}
    x = np.column_stack(list(design.values())).astype(float)
    beta = np.zeros(x.shape[1])
    for _ in range(40):
        p = special.expit(x @ beta)
        information = (x.T * (p * (1 - p))) @ x
        beta += np.linalg.solve(information, x.T @ (ILL - p))
    error = np.sqrt(np.diag(np.linalg.inv(information)))
    found = curator.regression(formula, family="logistic", epsilon=1e8)
    assert list(found.params) == list(design)
    off = np.abs(np.array(list(found.params.values())) - beta) / error
    assert off.max() < 1e-3
    assert list(found.bse.values()) == pytest.approx(error, rel=1e-3)
    assert found.predict(ROWS) == pytest.approx(special.expit(x @ beta), abs=1e-4)


@pytest.mark.parametrize(
    ("formula", "words", "hint"),
    [
        ("pay ~ age^2", "I(…)", "I(age ** 2)"),
        ("pay ~ age**2", "I(…)", "I(age ** 2)"),
        ("pay ~ age/10", "I(…)", "I(age / 10)"),
        ("pay ~ wed:sex", "beside both", "wed*sex"),
        ("pay ~ center(age)", "depends on the data", None),
        ("pay ~ bs(age, 3)", "depends on the data", None),
        ("pay ~ np.sin(age)", "not supported in a formula", None),
        ("pay ~ __import__('os').system(age)", "not supported in a formula", None),
        ("pay ~ age.__class__", "not supported in a formula", None),
        ("pay ~ age*sex*wed", "two factors", None),
        ("pay ~ C(age)", "at most 24", None),
        ("pay ~ log(sex)", "log(sex)", None),
        ("pay ~ log(pay)", "one side", None),
        ("pay ~ 1", "to explain with", None),
        ("pay ~ _c0_", "no column", None),
        ("pay ~ " + "+".join(["age"] * 3000), "", None),
        ("pay ~ I(" + "(" * 12 + "age" + ")**4" * 12 + ")", "not supported in a formula", None),
    ],
)
def test_other_terms_are_refused_before_payment(curator, formula, words, hint):
    spent = curator.budget.spent
    with pytest.raises(dc.errors.DiscreetError) as refused:
        curator.regression(formula, epsilon=1)
    assert words in refused.value.message
    assert refused.value.hint is not None
    if hint is not None:
        assert refused.value.hint == hint
        assert curator.regression(f"pay ~ {hint}", epsilon=1e8).params
    assert hint is not None or curator.budget.spent == spent


def test_log_odds_refuse_functions_without_a_value(curator):
    with pytest.raises(ParameterError, match="has no value where age is 18") as refused:
        curator.regression("ill ~ log(age - 18)", family="logistic", epsilon=1)
    assert curator.regression(f"ill ~ {refused.value.hint}", family="logistic", epsilon=1e8).params
    with pytest.raises(ParameterError, match="intercept"):
        curator.regression("ill ~ age - 1", family="logistic", epsilon=1)


def test_intervals_of_interactions_cover(curator):
    """90 % intervals of a fixed line, by their noise; more misses have probability below 1e-9.

    The mutant leaves the noise out, as an ordinary fit of noisy moments would.
    """
    runs, missed, ignored = 40, 0, 0
    truth = curator.regression("pay ~ wed*age", epsilon=1e8).params["wed[T.True]:age"]
    spread = curator.regression("pay ~ wed*age", epsilon=1e8).bse["wed[T.True]:age"]
    for run in range(runs):
        found = curator.regression("pay ~ wed*age", epsilon=f"2.{run:04}")
        low, high = found.conf_int("0.1")["wed[T.True]:age"]
        missed += not low <= truth <= high
        ignored += abs(found.params["wed[T.True]:age"] - truth) > 1.645 * spread
    assert missed <= stats.binom.isf(1e-9, runs, 0.1)
    assert ignored > stats.binom.isf(1e-9, runs, 0.1)
