"""Functions, flags, categories and interactions in formulas, beside ordinary fits."""

import ast
import itertools
import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy import special, stats

import discreet as dc
from discreet.curator._fits import _check_built
from discreet.errors import ParameterError, QueryError
from discreet.inference._formula import read_formula
from discreet.inference._slope import Released, Score, definite
from discreet.sql import parse

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


# -- what a formula means, and what it may not hold ----------------------------------------


NUMBERS, FLAGS = ("a", "b"), ("f", "g")


def _random_number(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*NUMBERS, *NUMBERS, "2", "0.5", "-1"])
    a, b = (_random_number(rng, depth - 1) for _ in range(2))
    return rng.choice([f"({a}) + ({b})", f"({a}) - ({b})", f"({a}) * ({b})", f"({a}) / 4",
                       f"-({a})", f"({a}) ** 2", f"np.abs({a})"])  # fmt: skip


def _random_flag(rng, depth):
    if depth == 0 or rng.random() < 0.1:
        return rng.choice([*FLAGS, *FLAGS, "c == 'u'", "c != 'v'", "a > 1"])
    a, b = (_random_flag(rng, depth - 1) for _ in range(2))
    x, y = (_random_number(rng, depth - 1) for _ in range(2))
    sign = rng.choice([">", ">=", "<", "<=", "==", "!="])
    return rng.choice([f"({a}) & ({b})", f"({a}) | ({b})", f"({a}) and ({b})", f"({a}) or ({b})",
                       f"not ({a})", f"({a}) == ({b})", f"({a}) != ({b})",
                       f"({x}) {sign} ({y})"])  # fmt: skip


def test_sql_of_factors_means_what_python_means():
    """Brackets that Python does not need are left out of formulas, as people leave them out."""
    rng = random.Random(5)
    policy = dc.policy.Policy([dc.policy.Table("t", [
        dc.policy.Real("y", 0, 1, step="0.1"),
        *(dc.policy.Integer(n, -2, 3) for n in NUMBERS),
        *(dc.policy.Boolean(n) for n in FLAGS),
        dc.policy.Category("c", ["u", "v"]),
    ])], dc.policy.Budget("1"), name="net")  # fmt: skip
    rows = list(itertools.product((-2, 1, 3), (0, 2), (False, True), (False, True), ("u", "v")))
    held = pa.table(dict(zip("abfgc", map(list, zip(*rows, strict=True)), strict=True)))
    data = {n: held[n].to_numpy(zero_copy_only=False) for n in held.column_names}
    base, asked = duckdb.connect(), []
    base.register("t", held)
    while len(asked) < 400:
        made = (_random_flag if len(asked) % 4 else _random_number)(rng, 3)
        text = ast.unparse(ast.parse(made))
        if not {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)} - {"np"}:
            continue
        (factor,) = read_formula(f"y ~ I({text})", policy.tables["t"]).factors
        asked.append((text, factor))
    outputs = ", ".join(f"({f.sql})::DOUBLE AS x{i}" for i, (_, f) in enumerate(asked))
    found = base.sql(f"SELECT {outputs} FROM t").to_arrow_table()
    for i, (text, factor) in enumerate(asked):
        expected = np.broadcast_to(np.asarray(factor.of(data), dtype=float), len(rows))
        assert found[f"x{i}"].to_pylist() == pytest.approx(expected.tolist()), text


def _refused(curator, formula, **given):
    """Refused in our own words, for nothing."""
    spent = curator.budget.spent
    with pytest.raises(dc.errors.DiscreetError) as refused:
        curator.regression(formula, epsilon="3.25", **given)
    assert curator.budget.spent == spent
    return refused.value


def test_a_comparison_binds_as_in_python(curator):
    # (wed & age) > 30
    assert "a condition is needed here" in _refused(curator, "pay ~ I(wed & age > 30)").message
    found = curator.regression("pay ~ I((wed and age > 30) == wed)", epsilon=1e8)
    flag = np.where(WED, AGE > 30, True).astype(bool)
    name = "I((wed and age > 30) == wed)[T.True]"
    beta, _, fitted = _least_squares({"Intercept": ONE, name: flag}, PAY)
    assert found.params == pytest.approx(beta, rel=1e-4)
    assert found.predict(ROWS) == pytest.approx(fitted, rel=1e-4)


def test_truth_values_add_up_in_predictions_as_in_the_question(curator):
    found = curator.regression("pay ~ I(wed + ill)", epsilon=1e8)
    both = {"Intercept": ONE, "I(wed + ill)": WED.astype(int) + ILL}
    beta, _, fitted = _least_squares(both, PAY)
    assert found.params == pytest.approx(beta, rel=1e-4)
    assert found.predict(ROWS) == pytest.approx(fitted, rel=1e-4)


CLAUSES = [
    "age > 20) GROUP BY wed, (wed", "age > 20) GROUP BY wed --", "age > 20) LIMIT 0 --",
    "age > 20) HAVING (COUNT(*) > 1", "age > 20) OR (age IS NULL", "1=1 /*)",
    "age > 20) /*", "wed /* all",
    "age > 20) GROUP BY wed ORDER BY wed LIMIT 1 --", "age > 20 GROUP BY wed", "age > 20 AS old",
    "age > 20, wed", "age > 20) GROUP BY ROLLUP (wed) --", "DISTINCT wed", "TOP 3 wed", " ", "--",
    "wed; SELECT 1", "wed OPTION (FAST) --", "wed) OPTION (x", "*", "age + 1", 3, ["wed"],
]  # fmt: skip


@pytest.mark.parametrize("where", CLAUSES)
def test_where_is_one_condition(curator, where):
    _refused(curator, "pay ~ age + ed", where=where)
    _refused(curator, "ill ~ wed", where=where, family="logistic")


@pytest.mark.parametrize(
    "where", ["wed -- GROUP BY sex", "wed /* all */", "wed;", "(wed)", "wed\n--\n", "wed OR FALSE"]
)
def test_comments_of_where_end_with_it(curator, where):
    expected = curator.regression("pay ~ age + ed", where="wed", epsilon="1e8").params
    found = curator.regression("pay ~ age + ed", where=where, epsilon="1e8").params
    assert found == pytest.approx(expected, rel=1e-4)


def test_what_is_asked_is_what_was_built():
    """Whatever a condition may yet turn out to do, keys and clauses are the caller's."""
    policy = dc.policy.Policy([dc.policy.Table("t", [dc.policy.Boolean("f")])],
                              dc.policy.Budget("1"), name="fence")  # fmt: skip
    start = "SELECT f, COUNT(*) AS n FROM t GROUP BY"
    _check_built(parse(f"{start} f", policy).query, ["f"])
    for text, keys in [
        (f"{start} f", []), (f"{start} f HAVING COUNT(*) > 3", ["f"]),
        (f"{start} f LIMIT 1", ["f"]), (f"{start} f ORDER BY n", ["f"]),
        (f"{start} ROLLUP (f)", ["f"]),
    ]:  # fmt: skip
        with pytest.raises(QueryError, match="no other clause"):
            _check_built(parse(text, policy).query, keys)


ODD = {
    "y": {"type": "integer", "min": 0, "max": 9}, "a": {"type": "integer", "min": 0, "max": 9},
    "one": {"type": "integer", "min": 3, "max": 3}, "s": {"type": "category", "values": ["s"]},
    "f": {"type": "boolean"}, "_c1_": {"type": "integer", "min": 0, "max": 9},
    "my_c7_x": {"type": "integer", "min": 0, "max": 9},
    "c": {"type": "category", "values": ["_c0_", "b"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def odd():
    policy = {"policy": {"name": "odd terms"}, "budget": {"epsilon": "1e12"},
              "tables": {"t": {"weight": "a", "columns": ODD}}}  # fmt: skip
    i = np.arange(400)
    rows = {"y": i % 7, "a": i % 10, "one": i * 0 + 3, "s": ["s"] * 400, "f": i % 3 == 0,
            "_c1_": i % 8, "my_c7_x": i % 9, "c": [("_c0_", "b")[k % 2] for k in i]}  # fmt: skip
    return dc.open(pa.table(rows), policy=policy, ledger=":memory:")


@pytest.mark.parametrize(
    "number",
    ["1e999", "-1e400", "0x" + "f" * 5000, "9" * 4200, "9" * 5000, "1e308", str(2**62), "1e-320"],
)
def test_numbers_without_end_are_refused(odd, number):
    for text in (f"I(a + {number})", f"I(a > {number})", f"np.log(a, x={number})", f"Q({number})"):
        assert len(_refused(odd, f"y ~ {text}").message) < 5000


def test_texts_are_not_taken_for_columns(odd):
    assert "I(c == '_c0_')" in odd.regression(
        "y ~ I(c == '_c' '0_')", epsilon=1e8
    ).summary()  # as it is meant  # fmt: skip
    refused = _refused(odd, "_c1_ ~ a + I(c == '_c' '99_')")
    assert refused.message.startswith("I(c == '_c99_'): there is no value")
    for formula in ("y ~ a + _c0_", '_c1_ ~ "a" + I(_c0_ + 1)', "y ~ `a` + I(_ｃ0_ + 1)"):
        assert "_c0_" in _refused(odd, formula).message
    found = odd.regression("y ~ `a` + `f` + I(_c1_ * 2) + I(my_c7_x / 2)", epsilon=1e8)
    assert list(found.params) == ["Intercept", "a", "f", "I(_c1_ * 2)", "I(my_c7_x / 2)"]


@pytest.mark.parametrize(
    ("formula", "words"),
    [("y ~ one", "one value"), ("y ~ one + a", "one value"), ("y ~ s + a", "one value"),
     ("y ~ C(s)", "one value"), ("y ~ a + I(a*0)", "one value"), ("y ~ a + (a > 99)", "one value"),
     ("y ~ a + one:f", "one value"), ("y ~ a + I(a)", "the same as a"),
     ("y ~ f + C(f)", "the same as f"), ("y ~ c + C(c)", "the same as c"),
     ("y ~ a + np.abs(_c1_) + abs(_c1_)", "the same as"),
     ("y ~ f + a:f + I(a):f", "the same as a:f")],
)  # fmt: skip
@pytest.mark.parametrize("family", ["ols", "logistic"])
def test_terms_that_nothing_tells_apart_are_refused(odd, formula, words, family):
    if family == "logistic":
        formula = formula.replace("y ~", "y > 3 ~")
    refused = _refused(odd, formula, family=family)
    assert words in refused.message
    assert odd.regression(ast.literal_eval(refused.hint), epsilon=1).params


@pytest.mark.parametrize("where", ["a = 3", "f", "a = 3 AND f", "a < 0", "FALSE"])
@pytest.mark.parametrize("formula", ["y ~ a", "y ~ a + f", "y ~ f + a + a:f", "y ~ 0 + a + f"])
def test_what_is_singular_is_not_determined(odd, formula, where):
    """Columns that the rows asked about do not tell apart: words, whatever is read of them."""
    for epsilon in ("1e8", "1"):
        try:
            found = odd.regression(formula, where=where, epsilon=epsilon)
        except dc.errors.DiscreetError:
            continue
        assert found.conf_int() is not None
        assert found.summary()
        assert found.pvalues


def test_a_singular_matrix_is_not_determined():
    place = ((0, 1, 2), (1, 3, 4), (2, 4, 5))
    for a, b, d in [(1, 3, 9), (1, 1, 1 + 1e-15), (1, np.nan, 1), (1, np.inf, 1), (0, 0, 0)]:
        values = np.array([a, b, 0.5, d, 0.5, 2.0])
        for which in (0, 1):
            own = Score(Released(values, np.zeros((6, 6)), place, False, 1), np.eye(3), which)
            assert not own.determined
            assert own.pvalue(0.0) == 1.0
            assert own.interval(0.05, 1e6) == (-np.inf, np.inf)
    year = np.array([[1.0, 2e3, 4e6], [2e3, 4e6 + 100, 8e9 + 6e5], [4e6, 8e9 + 6e5, 1.6e13 + 24e8]])
    assert definite(year[:2, :2])  # units far from zero are no rounding


class Loud(str):
    """Says something else to whoever asks."""

    __slots__ = ()

    def __str__(self):
        return "y ~ f"

    def __format__(self, spec):
        return "f"

    def __getitem__(self, key):
        return "y ~ f"[key]

    def __len__(self):
        return 1

    def __eq__(self, other):
        return True

    def __contains__(self, other):
        return True

    def strip(self, *_):
        return "f"

    def replace(self, *_):
        return "f"

    __hash__ = str.__hash__


def test_texts_are_copied_at_the_door(odd):
    for given in ("y ~ a", "y ~ a + f"):
        expected = odd.regression(given, epsilon=1e8).params
        assert odd.regression(Loud(given), epsilon=1e8).params == expected
    expected = odd.regression("y ~ a", where="a > 2", epsilon=1e8).params
    found = odd.regression("y ~ a", table=Loud("t"), where=Loud("a > 2"), epsilon=1e8)
    assert found.params == expected
    plain = odd.survey("y", by=["f"], table="t", where="a > 2", epsilon=10).rows()
    loud = odd.survey(Loud("y"), by=[Loud("f")], table=Loud("t"), where=Loud("a > 2"), epsilon=10)
    assert loud.rows() == plain
    with pytest.raises(dc.errors.DiscreetError):
        odd.regression("y ~ a", family=Loud("other"), epsilon=1)


@pytest.mark.parametrize("where", CLAUSES)
def test_where_of_surveys_is_one_condition(odd, where):
    if isinstance(where, str):
        where = where.replace("age", "a").replace("wed", "f")
    spent = odd.budget.spent
    with pytest.raises(dc.errors.DiscreetError):
        odd.survey("y", where=where, epsilon=1)
    assert odd.budget.spent == spent


@pytest.mark.parametrize(
    ("formula", "family", "hint"),
    [
        ("pay = age + sex", "ols", '"pay ~ age + sex"'),
        ("pay", "ols", '"pay ~ age + sex"'),
        ("pay ~", "ols", '"pay ~ age + sex"'),
        ("pay ~ pay", "ols", '"pay ~ age + sex"'),
        ("pay ~ 1", "ols", '"pay ~ age + sex"'),
        ("np.log(pay) ~ sex - wed", "ols", '"np.log(pay) ~ age + sex"'),
        ("pay ~ cut(age)", "ols", '"pay ~ age + sex"'),
        ("pay ~ age + I(age)", "ols", '"pay ~ age + sex"'),
        ("ill ~ (age:wed):sex", "logistic", '"ill ~ age + sex"'),
        ("pay > 500 ~ bs(age)", "logistic", '"pay > 500 ~ age + sex"'),
        ("rank(pay) ~ age", "ols", '"pay ~ age + sex"'),
        ("pay ^^ ~ age", "ols", '"pay ~ age + sex"'),
    ],
)
def test_hints_explain_the_response_that_was_written(curator, formula, family, hint):
    refused = _refused(curator, formula, family=family)
    assert refused.hint == hint
    curator.regression(refused.hint.strip('"'), family=family, epsilon=1e8)


@pytest.fixture(scope="module")
def coded():
    """Categories that are written as numbers, and one with a level of two rows."""
    level = np.array(["a", "b", "c"])[_RNG.integers(0, 3, N)]
    level[:2] = "rare"
    rows = {"sex": _RNG.integers(0, 2, N), "level": level, "pay": _RNG.integers(0, 100, N)}
    columns = {
        "sex": {"type": "category", "values": [0, 1]},
        "level": {"type": "category", "values": ["rare", "a", "b", "c"]},
        "pay": {"type": "integer", "min": 0, "max": 99},
    }
    policy = {
        "policy": {"name": "coded"},
        "budget": {"epsilon": "1e9"},
        "tables": {"t": {"columns": columns}},
    }
    return dc.open(pa.table(rows), policy=policy, ledger=":memory:")


@pytest.mark.parametrize("formula", ["pay ~ sex", "pay ~ C(sex)", "pay ~ sex*level"])
def test_a_category_of_0_and_1_is_a_category(coded, formula):
    """Both equal truth values, so it was refused as a condition that it is not."""
    fit = coded.regression(formula, where="level <> 'rare'", epsilon="1e6")
    assert any("1]" in name for name in fit.params)
    assert np.isfinite(list(fit.params.values())).all()


@pytest.mark.parametrize("family", ["ols", "logistic"])
def test_levels_that_where_rules_out_have_no_column(coded, family):
    """They were columns of zeros, and left nothing determined at any price."""
    formula = {"ols": "pay ~ level", "logistic": "sex ~ level"}[family]
    fit = coded.regression(formula, where="level <> 'rare'", epsilon="1e6", family=family)
    assert list(fit.params) == ["Intercept", "level[b]", "level[c]"]
    assert np.isfinite(list(fit.params.values())).all()
    whole = coded.regression(formula, epsilon="1e6", family=family)
    assert "level[a]" in whole.params


@pytest.mark.parametrize("formula", ["pay ~ level", "pay ~ C(level)", "pay ~ sex*level"])
def test_a_prediction_for_a_value_that_no_row_has_is_refused(coded, formula):
    """It counted as the reference, without a word."""
    fit = coded.regression(formula, where="level <> 'rare'", epsilon="1e6")
    known = {"sex": [0, 1], "level": ["a", "c"]}
    assert np.isfinite(fit.predict(known)).all()
    for odd in ("rare", "z"):
        for ask in (fit.predict, fit.get_prediction):
            with pytest.raises(ParameterError, match=f"level has no value '{odd}'"):
                ask(known | {"level": ["a", odd]})
