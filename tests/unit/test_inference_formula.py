"""Formulas whose columns have odd names, and what a refusal suggests."""

import pyarrow as pa
import pytest

import discreet as dc
from discreet.errors import ParameterError, QueryError

COLUMNS = {
    "age": {"type": "integer", "min": 0, "max": 90},
    "hours-per-week": {"type": "integer", "min": 0, "max": 99},
    "marital status": {"type": "category", "values": ["no", "yes"]},
    'a+b ~ "c"': {"type": "integer", "min": 0, "max": 9},
    "back`tick": {"type": "boolean"},
    "0": {"type": "integer", "min": 0, "max": 9},
}
NAMES = [n for n in COLUMNS if n != "age"]


@pytest.fixture(scope="module")
def curator():
    policy = {
        "policy": {"name": "odd"},
        "budget": {"epsilon": "1e6"},
        "tables": {"adult": {"weight": "age", "columns": COLUMNS}},
    }
    rows = {n: [i % 7 for i in range(400)] for n in COLUMNS}
    rows["marital status"] = [("no", "yes")[i % 2] for i in range(400)]
    rows["back`tick"] = [i % 3 == 0 for i in range(400)]
    return dc.open(pa.table(rows), policy=policy, ledger=":memory:")


def _quotes(name):
    return ['"' + name.replace('"', '""') + '"', "`" + name.replace("`", "``") + "`"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", [0, 1])
def test_odd_names_stand_in_quotes(curator, name, which):
    quoted = _quotes(name)[which]
    found = curator.regression(f"age ~ {quoted}", epsilon=100)
    assert found.terms[1].source == name
    if COLUMNS[name]["type"] != "category":
        assert curator.regression(f"{quoted}~age", epsilon=100).response.name == name
    assert "Intercept" in found.summary()


@pytest.mark.parametrize("marital", ['"marital status"', "`marital status`", "marital status"])
def test_log_odds_take_them_too(curator, marital):
    found = curator.regression(f"{marital} ~ hours-per-week", family="logistic", epsilon=100)
    assert set(found.params) == {"Intercept", "hours-per-week"}


def test_odd_names_stand_alone_where_nothing_else_is_meant(curator):
    found = curator.regression("hours-per-week ~ age + marital status", epsilon=100)
    assert set(found.params) == {"Intercept", "age", "marital status[yes]"}


def test_surveys_take_quotes(curator):
    (plain,) = curator.survey("hours-per-week", epsilon=10).rows()
    (quoted,) = curator.survey('"hours-per-week"', epsilon=10).rows()
    assert plain == quoted
    assert len(curator.survey("hours-per-week", by="`marital status`", epsilon=10).rows()) == 2


@pytest.mark.parametrize(
    "formula",
    ["age * 2 ~ age", "age ~ 0", "age ~ 5", "age ~ log(age)", 'age ~ "', 'age ~ ""', "age ~",
     "age ~ back`tick + `", "age", "age ~ age", "age ~ back`tick ~ age", "age + age ~ age", 3,
     'age ~ x "hours-per-week"'],
)  # fmt: skip
def test_refusals_suggest_the_tables_own_columns(curator, formula):
    with pytest.raises(ParameterError) as refused:
        curator.regression(formula, epsilon=1)
    assert refused.value.hint == """'age ~ "hours-per-week" + "marital status"'"""


def test_a_wrong_name_suggests_the_nearest(curator):
    with pytest.raises(QueryError) as refused:
        curator.regression('age ~ "hours-per-weak"', epsilon=1)
    assert refused.value.hint == '"hours-per-week"'
    with pytest.raises(ParameterError) as refused:
        curator.regression('"hours-per-week" ~ age', family="logistic", epsilon=1)
    assert refused.value.hint == """'"marital status" ~ age + "hours-per-week"'"""
