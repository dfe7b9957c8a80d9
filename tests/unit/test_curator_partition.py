"""Questions about the parts of a partition that was named first cost the dearest part."""

from __future__ import annotations

import threading
from fractions import Fraction

import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet.errors import (
    BudgetExceededError,
    DiscreetError,
    EngineError,
    ParameterError,
    PolicyError,
    QueryError,
)

ROWS = {"sex": ["F", "M", "M", None] * 50, "age": list(range(200)), "smoker": [True, False] * 100}


def policy(**of_table):
    columns = [
        pol.Category("sex", ["F", "M"], other="it's"),
        pol.Integer("age", 0, 250),
        pol.Boolean("smoker"),
    ]
    budget = of_table.pop("budget", pol.Budget("10"))
    told = {"fixed": ["sex", "smoker"], **of_table}
    return pol.Policy([pol.Table("people", columns, **told)], budget, name="p")


def curator(**how):
    return dc.open(pa.table(ROWS), policy=policy(**how), ledger=":memory:")


def spent(asked):
    return asked.budget.spent["epsilon"]


F = "SELECT COUNT(*) AS n FROM people WHERE sex = 'F'"
M = "SELECT COUNT(*) AS n, SUM(age) AS s FROM people WHERE sex = 'M' AND age > 20"


def test_two_and_three_give_three():
    """Z's example: ε 2 on one part and ε 3 on the other cost 3, and the least price of two runs."""
    asked = curator()
    parts = asked.partition("sex", epsilon=3)
    least = Fraction(1, 1000)
    assert spent(asked) == 3
    parts["F"].sql(F, epsilon=2)
    parts["M"].sql(M, epsilon=3)
    assert spent(asked) == 3 + 2 * least
    assert (parts["F"].left, parts["M"].left) == (1, 0)


def test_a_part_never_spends_more_than_the_partition():
    parts = curator().partition("sex", epsilon=1)
    parts["F"].sql(F, epsilon="0.6")
    with pytest.raises(BudgetExceededError) as refused:
        parts["F"].sql(F, epsilon="0.5")
    assert "0.4" in str(refused.value)
    parts["F"].sql(F, epsilon="0.4")
    assert parts["F"].left == 0
    with pytest.raises(BudgetExceededError):
        parts["F"].sql(F, epsilon="0.001", fresh=True)


def test_an_equal_question_is_given_again():
    parts = curator().partition("sex", epsilon=1)
    first, again = (parts["F"].sql(F, epsilon="0.5") for _ in range(2))
    assert again.to_dicts() == first.to_dicts()
    assert again.cached
    assert parts["F"].spent == Fraction(1, 2)
    fresh = parts["F"].sql(F, epsilon="0.5", fresh=True)
    assert not fresh.cached
    assert parts["F"].left == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM people",
        "SELECT COUNT(*) AS n FROM people WHERE sex = 'M'",
        "SELECT COUNT(*) AS n FROM people WHERE sex <> 'M'",
        "SELECT COUNT(*) AS n FROM people WHERE sex = 'F' OR age > 3",
        "SELECT COUNT(*) AS n FROM people WHERE sex IS NULL OR sex = 'F'",
        "SELECT COUNT(*) AS n FROM people WHERE NOT smoker",
        "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING sex = 'F'",
        "SELECT SUM(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) AS n FROM people",
        "SELECT COUNT(*) AS n FROM people AS a JOIN people AS b ON a.age = b.age WHERE a.sex = 'F'",
    ],
)
def test_what_may_reach_other_rows_is_refused_before_any_debit(text):
    asked = curator()
    parts = asked.partition("sex", epsilon=1)
    with pytest.raises(DiscreetError):
        parts["F"].sql(text, epsilon="0.1")
    assert spent(asked) == 1
    assert parts["F"].spent == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM people WHERE sex IN ('F') AND age < 100",
        "SELECT smoker, COUNT(*) AS n FROM people WHERE 'F' = sex GROUP BY smoker",
        "SELECT AVG(age) AS n FROM people WHERE sex NOT IN ('M', 'it''s')",
    ],
)
def test_what_keeps_to_the_part_is_answered(text):
    assert curator().partition("sex", epsilon=9)["F"].sql(text, epsilon=9).to_dicts()


def test_values_with_quotes_and_booleans_are_parts():
    asked = curator()
    by_sex, by_smoker = asked.partition("sex", epsilon=1), asked.partition("smoker", epsilon=1)
    assert [part.value for part in by_sex] == ["F", "M", "it's"]
    by_sex["it's"].sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'it''s'", epsilon=1)
    by_smoker[True].sql("SELECT COUNT(*) AS n FROM people WHERE smoker", epsilon=1)
    by_smoker[False].sql("SELECT COUNT(*) AS n FROM people WHERE NOT smoker", epsilon=1)
    for wrong in ("X", None, 1):
        with pytest.raises(ParameterError):
            by_smoker[wrong]


def test_a_partition_is_taken_up_again_where_it_was(tmp_path):
    """Another handle on the same data: what was asked stays asked, nothing is paid twice."""
    import pyarrow.parquet as pq

    pq.write_table(pa.table(ROWS), tmp_path / "p.parquet")
    own = policy(source=str(tmp_path / "p.parquet"))

    def again():
        return dc.open(policy=own, ledger=tmp_path / "a.ledger")

    with again() as asked:
        asked.partition("sex", epsilon=1)["F"].sql(F, epsilon="0.7")
    with again() as asked:
        parts = asked.partition("sex", epsilon=1)
        assert parts["F"].left == Fraction(3, 10)
        assert parts["F"].sql(F, epsilon="0.7").cached
        assert spent(asked) == 1 + Fraction(1, 1000)
        other = asked.partition("sex", epsilon=1, name="second")
        assert other["F"].left == 1
        assert spent(asked) == 2 + Fraction(1, 1000)


class _Fails:
    """An engine whose next run fails."""

    def __init__(self, monkeypatch, asked):
        self.engine, self.execute = asked._engine, type(asked._engine).execute
        self.left = 0
        monkeypatch.setattr(type(asked._engine), "execute", self.run)

    def run(self, *terms, **named):
        if self.left:
            self.left -= 1
            raise OSError("a secret")
        return self.execute(self.engine, *terms[-2:], **named)


def test_a_question_that_failed_is_paid_and_the_part_goes_on(monkeypatch):
    """It had cost its part nothing; elsewhere a failure stays paid. Nor does it close the part."""
    asked = curator()
    parts, engine = asked.partition("sex", epsilon=1), _Fails(monkeypatch, asked)
    parts["F"].sql(F, epsilon="0.2")
    engine.left = 1
    with pytest.raises(EngineError, match="could not compute") as failure:
        parts["F"].sql(f"{F} AND age > 3", epsilon="0.5")
    assert "secret" not in str(failure.value)
    # a failure is an outcome: its price is spent, and it is no answer
    assert parts["F"].left == Fraction(3, 10)
    with pytest.raises(BudgetExceededError):
        parts["F"].sql(f"{F} AND age > 3", epsilon="0.5")
    assert not parts["F"].sql(f"{F} AND age > 3", epsilon="0.3").cached
    assert (parts["F"].left, parts["M"].left) == (0, 1)
    assert parts["F"].sql(F, epsilon="0.2").cached
    assert spent(asked) == 1 + 3 * Fraction(1, 1000)


@pytest.mark.races
def test_threads_that_race_for_the_last_of_a_part():
    """Eight ask for 0.3 of 1 at once, each another question: three are answered, always."""
    asked = curator()
    parts, told = asked.partition("sex", epsilon=1), []

    def ask(i):
        try:
            parts["F"].sql(f"{F} AND age > {i}", epsilon="0.3")
            told.append(True)
        except BudgetExceededError:
            told.append(False)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(told) == 3
    assert parts["F"].spent == Fraction(9, 10)


def test_rho():
    budget = pol.Budget(rho="2", delta="1e-6", accounting="zcdp")
    asked = curator(budget=budget)
    parts = asked.partition("sex", rho="0.5")
    (paid,) = asked.ledger.entries
    assert (paid.cost.rho, paid.cost.delta) == (Fraction(1, 2), Fraction(1, 10**6))
    parts["F"].sql(F, rho="0.5")
    parts["M"].sql(M, rho="0.25")
    assert parts["M"].left == Fraction(1, 4)
    with pytest.raises(ParameterError, match="paid in ρ"):
        parts["M"].sql(M, epsilon="0.1")


def test_where_parts_add_up_there_is_no_partition():
    ids = pa.table({**ROWS, "id": list(range(200))})
    owned = policy(unit="id", max_rows_per_unit=2)
    with pytest.raises(PolicyError, match="may have rows in several"):
        dc.open(ids, policy=owned, ledger=":memory:").partition("sex", epsilon=1)
    with pytest.raises(PolicyError, match="parts add up"):
        curator(neighbours="change-one").partition("sex", epsilon=1)
    for column in ("age", "nothing"):
        with pytest.raises(ParameterError, match="whose values the policy lists"):
            curator().partition(column, epsilon=1)
    with pytest.raises(ParameterError, match="epsilon or rho"):
        curator().partition("sex")


def test_questions_of_a_partition_spend_no_delta():
    columns = [pol.Category("sex", ["F", "M"]), pol.Text("town")]
    own = pol.Policy(
        [pol.Table("t", columns, fixed=["sex"])], pol.Budget("9", delta="1e-3"), name="p"
    )
    data = pa.table({"sex": ["F", "M"], "town": ["a", "b"]})
    parts = dc.open(data, policy=own, ledger=":memory:").partition("sex", epsilon=1)
    with pytest.raises((QueryError, ParameterError)):
        parts["F"].sql("SELECT town, COUNT(*) AS n FROM t WHERE sex = 'F' GROUP BY town", epsilon=1)
