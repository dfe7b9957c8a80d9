"""The table of row functions: every name works in SQL, every method in the fluent API."""

from __future__ import annotations

import pytest

from discreet import frame as f
from discreet import sql
from discreet.errors import QueryError
from discreet.plan import expr, functions
from discreet.policy import Budget, Category, Date, Integer, Policy, Real, Table, Text, Timestamp

PEOPLE = Table(
    "people",
    [
        Integer("age", 0, 115),
        Real("income", 0, 1000, step="0.01"),
        Date("day", "2000-01-01", "2020-12-31"),
        Timestamp("seen", "2020-01-01", "2021-01-01"),
        Category("city", ["Bern", "Basel", "Chur"]),
        Text("note"),
    ],
)
POLICY = Policy(tables=[PEOPLE], budget=Budget("1"))
SAMPLES = {
    "value": "age", "moment": "seen", "text": "city", "format": "'%Y-%m'", "unit": "'day'",
    "number": "3.5", "whole": "2", "word": "'year'", "values": "age, 7",
}  # fmt: skip


def arguments(name):
    function = functions.FUNCTIONS[name]
    if name == "WIDTH_BUCKET":
        return "age, 0, 100, 4"
    if name.startswith("REGEXP"):
        return "city, '^B', 'i'"
    if name == "EXP":
        return "LEAST(age, 5)"
    if name in ("LOG", "LOG10"):
        return "2, age"
    if name == "TO_CHAR":
        return "seen, 'YYYY-MM'"
    if name == "CONCAT":
        return "city, '!'"
    return ", ".join(SAMPLES[t] for t in function.takes)


@pytest.mark.parametrize("name", functions.FUNCTIONS)
def test_every_function_can_be_asked_for(name):
    text = f"SELECT COUNT({name}({arguments(name)})) AS n FROM people"
    assert sql.parse(text, POLICY).query.statistics


@pytest.mark.parametrize("name", functions.FUNCTIONS)
def test_the_wrong_number_of_arguments_is_refused(name):
    if functions.FUNCTIONS[name].takes != ("values",):
        with pytest.raises(QueryError, match=f"{name} takes"):
            sql.parse(f"SELECT SUM({name}(1, 2, 3, 4, 5)) AS n FROM people", POLICY)


@pytest.mark.parametrize(
    "function", [g for g in dict.fromkeys(functions.FUNCTIONS.values()) if g.fluent]
)
def test_every_method_of_a_term_is_its_function(function):
    term = getattr(f.col("income"), function.fluent)()
    asked = f.Table("people", POLICY).agg(s=f.sum(term)).query
    text = f"SELECT SUM({function.names[0]}(income)) AS s FROM people"
    assert asked.hash == sql.parse(text, POLICY).query.hash


@pytest.mark.parametrize("operator", expr.operators(), ids=lambda c: c.__name__)
def test_every_operator_has_words(operator):
    assert operator.words or operator.describe is not expr.Expr.describe


def test_names_of_functions_do_not_repeat():
    names = [n for g in dict.fromkeys(functions.FUNCTIONS.values()) for n in g.names]
    assert len(names) == len(set(names)) == len(functions.FUNCTIONS)
