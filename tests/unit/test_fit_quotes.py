"""What a fit takes is said before it is paid for, and known without data."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet.errors import ParameterError

N = 6_000
_RNG = np.random.default_rng(5)
ROWS = {
    "id": np.arange(N),
    "x": _RNG.integers(0, 101, N),
    "kind": _RNG.choice([f"k{i}" for i in range(6)], N),
    "y": _RNG.random(N) < 0.5,
}
COLUMNS = {
    "x": {"type": "integer", "min": 0, "max": 100},
    "kind": {"type": "category", "values": [f"k{i}" for i in range(6)]},
    "y": {"type": "boolean"},
}


def _curator(rows, unit=None):
    table = {"columns": COLUMNS} | ({} if unit is None else {"unit": unit, "max_rows_per_unit": 2})
    policy = {
        "policy": {"name": "quotes"},
        "budget": {"epsilon": "1000"},
        "tables": {"t": table},
    }
    data = {n: v[:rows] for n, v in ROWS.items() if n in (*COLUMNS, unit)}
    return dc.open(pa.table(data), policy=policy, ledger=":memory:")


@pytest.mark.parametrize(
    ("formula", "family"), [("y ~ kind", "logistic"), ("y ~ x", "logistic"), ("x ~ kind", "ols")]
)
def test_a_fit_is_determined_by_twice_the_rows_and_not_by_a_quarter(formula, family):
    """At three fifths of the draws at least: noise is what it is."""
    rows = _curator(10).preview_regression(formula, family=family, epsilon=0.2).rows
    assert 40 < rows < N / 2
    for times, some in ((2.0, True), (0.25, False)):
        curator = _curator(int(times * rows))
        fits = [curator.regression(formula, family=family, epsilon=0.2, fresh=True)
                for _ in range(5)]  # fmt: skip
        assert (sum(fit.determined for fit in fits) >= 3) == some


def test_a_preview_of_a_fit_depends_on_no_data_and_costs_nothing():
    quotes = []
    for rows in (1, N):
        curator = _curator(rows, unit="id")
        quotes.append(curator.preview_regression("y ~ kind", family="logistic", epsilon=1))
        assert curator.budget.spent["epsilon"] == 0
    assert repr(quotes[0]) == repr(quotes[1])
    assert f"about {quotes[0].rows}, spread evenly" in repr(quotes[0])
    assert quotes[0].cost["epsilon"] == "1"
    dear = curator.preview_regression("y ~ kind", family="logistic", epsilon=2000)
    assert "would be refused" in repr(dear)
    assert dear.rows <= quotes[0].rows


def test_what_no_rows_determine_is_said():
    """All rows that WHERE keeps have one value of the predictor."""
    quote = _curator(10).preview_regression("y ~ x", where="x = 5", family="logistic", epsilon=1)
    assert quote.rows is None
    assert "no number determines" in repr(quote)


def test_a_fit_with_two_ends_everywhere_is_determined():
    fit = _curator(N).regression("y ~ kind", family="logistic", epsilon=0.01)
    assert not fit.determined
    assert all(math.isinf(end) for pair in fit.conf_int().values() for end in pair)
    with pytest.raises(ParameterError):
        _curator(10).preview_regression("y ~ nothing", family="other", epsilon=1)


def test_columns_that_a_fit_cannot_use_are_no_obstacle():
    """Dates, moments and texts are in the table, and not in the formula."""
    columns = [
        pol.Date("d", "2020-01-01", "2024-12-31"),
        pol.Timestamp("t", "2020-01-01 00:00:00", "2024-12-31 00:00:00"),
        pol.Text("name"),
        pol.Integer("x", 0, 20),
        pol.Integer("y", 0, 20),
    ]
    policy = pol.Policy([pol.Table("t", columns)], pol.Budget("9"), name="dates")
    moment = dt.datetime.fromisoformat("2021-01-01")
    rows = pa.table({"d": [moment.date()], "t": [moment], "name": ["a"], "x": [1], "y": [2]})
    quote = dc.open(rows, policy, ledger=":memory:").preview_regression("y ~ x", epsilon=1)
    assert 5 < quote.rows < 500
