"""SciPy tests over a curator's table: paid first, stored, and only SciPy's own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet import inference as inf
from discreet.errors import BudgetExceededError, DiscreetError, ParameterError, PrivacyError

POLICY = """
[budget]
epsilon = "{budget}"
[tables.people]
{unit}
[tables.people.columns]
sex = {{ type = "category", values = ["F", "M"] }}
age = {{ type = "integer", min = 0, max = 115 }}
pay = {{ type = "integer", min = 0, max = 500 }}
ill = {{ type = "boolean" }}
"""


def people(shift=0, n=2000, copies=1):
    rng = np.random.default_rng(7)
    sex = rng.integers(0, 2, n)
    table = {
        "who": np.arange(n),
        "sex": np.array(["F", "M"])[sex],
        "age": rng.integers(20, 60, n),
        "pay": rng.integers(100, 300, n) + shift * sex,
        "ill": rng.random(n) < 0.2,
    }
    return pa.table({k: np.repeat(v, copies) for k, v in table.items()})


def curator(table, budget="10", unit=""):
    return dc.open(table, policy=POLICY.format(budget=budget, unit=unit), ledger=":memory:")


def test_a_difference_is_found_and_paid_for():
    with curator(people(shift=60)) as c:
        found = inf.curated_test(c, stats.ttest_ind, "pay", by="sex", epsilon=2)
        assert found.pvalue < 0.01
        assert found.loss.epsilon() == 2
        assert c.budget.spent["epsilon"] == 2


def test_the_same_question_is_answered_from_the_ledger():
    with curator(people()) as c:
        first = inf.curated_test(c, stats.pearsonr, "age", "pay", epsilon=1, rng=1)
        again = inf.curated_test(c, stats.pearsonr, "age", "pay", epsilon=1, rng=1)
        assert again.statistic == first.statistic
        assert c.budget.spent["epsilon"] == 1
        inf.curated_test(c, stats.pearsonr, "age", "pay", epsilon=1, fresh=True)
        assert c.budget.spent["epsilon"] == 2


def test_options_and_conditions_reach_the_test():
    with curator(people()) as c:
        found = inf.curated_test(
            c, stats.ttest_1samp, "age", where="sex = 'F'", options={"popmean": 20}, epsilon=2
        )
        assert found.pvalue < 0.01


def test_many_rows_of_one_unit_count_once():
    # 40 equal rows per person would make every part reject; one row per person does not
    with curator(people(n=60, copies=40), unit='unit = "who"\nmax_rows_per_unit = 40') as c:
        seen = []
        execute = c._engine.execute

        def spy(aggregate, salt):
            groups = execute(aggregate, salt)
            seen.append(sum(v[0] for v in groups.values()))
            return groups

        c._engine.execute = spy
        inf.curated_test(c, stats.ttest_ind, "pay", by="sex", epsilon=1)
        assert seen == [60]


def test_nothing_is_charged_for_questions_that_cannot_be_asked():
    with curator(people()) as c:
        bad = [
            lambda: inf.curated_test(c, len, "age", epsilon=1),
            lambda: inf.curated_test(c, stats.describe, "age", epsilon=1),
            lambda: inf.curated_test(c, stats.ttest_ind, "sex", epsilon=1),
            lambda: inf.curated_test(c, stats.ttest_ind, "nothing", epsilon=1),
            lambda: inf.curated_test(c, stats.ttest_ind, epsilon=1),
            lambda: inf.curated_test(c, stats.ttest_ind, "age", "pay", by="sex", epsilon=1),
            lambda: inf.curated_test(c, stats.ttest_ind, "age", by="sex", epsilon=0),
            lambda: inf.curated_test(c, stats.ttest_ind, "age", by="sex", epsilon=1, parts=1),
            lambda: inf.curated_test(
                c, stats.ttest_ind, "age", by="sex", epsilon=1, options={"alternative": len}
            ),
        ]
        for call in bad:
            with pytest.raises(DiscreetError):
                call()
        assert c.budget.spent["epsilon"] == 0


def test_an_impostor_of_a_scipy_test_sees_nothing():
    def ttest_ind(*samples):
        raise AssertionError(samples)

    with pytest.raises(PrivacyError, match="SciPy's own"):
        inf.curated_test(None, ttest_ind, "age", by="sex", epsilon=1)


def test_the_budget_holds():
    with curator(people(), budget="1") as c:
        with pytest.raises(BudgetExceededError):
            inf.curated_test(c, stats.ttest_ind, "age", by="sex", epsilon=2)
        assert c.budget.spent["epsilon"] == 0


def test_a_test_that_fails_in_every_part_is_an_ordinary_outcome():
    # wilcoxon of one boolean column with impossible options raises in every part
    with curator(people()) as c:
        found = inf.curated_test(
            c, stats.wilcoxon, "ill", options={"zero_method": "nonsense"}, epsilon=1
        )
        assert 0 <= found.pvalue <= 1
        assert c.budget.spent["epsilon"] == 1


def test_error_estimates_are_bought_from_the_curator():
    with curator(people()) as c:
        truth = people()["sex"].to_pylist().count("F")
        published = c.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'F'", epsilon="0.5")
        found = inf.error_of(
            c, 0, "SELECT COUNT(*) AS n FROM people WHERE sex = 'F' AND age >= 0", 1
        )
        assert abs(found.value - truth) < 60
        assert found.total_cost == 1
        query = "SELECT COUNT(*) AS n FROM people WHERE sex = 'F'"
        again = [inf.error_of(c, published, query, "0.5") for _ in range(8)]
        assert again[0].total_cost == 1
        # fresh noise every time: eight equal errors have probability below 1e-4
        assert len({e.value for e in again}) > 1
        assert c.budget.spent["epsilon"] == Fraction(11, 2)
        with pytest.raises(ParameterError):
            inf.error_of(c, "soon", "SELECT COUNT(*) AS n FROM people", 1)
