"""Refusals that stand in one line each, and that no other test asks for by their words."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import discreet as dc
from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet import sql
from discreet.errors import NotProvedError, ParameterError
from discreet.noise import bernoulli_exp_many
from discreet.plan import expr as ex
from discreet.plan._parts import Cells, LaplaceRule
from discreet.plan._per_unit import Fold, FoldKind
from discreet.plan._stability import Sensitivity
from discreet.plan._vectors import Vector

TEXT = ex.Column("t", pl.Scan(pol.Table("t", [pol.Text("t")])).schema["t"])
KIND = ex.Column("c", pl.Scan(pol.Table("t", [pol.Category("c", values=["a"])])).schema["c"])


@pytest.mark.parametrize(
    ("kind", "column", "words"),
    [(FoldKind.SUM, TEXT, "SUM needs a number"), (FoldKind.MIN, TEXT, "MIN needs ordered"),
     (FoldKind.MAX, KIND, "MAX needs ordered")],
)  # fmt: skip
def test_what_has_no_order_has_no_extremes(kind, column, words):
    with pytest.raises(ParameterError, match=words):
        Fold(kind, column)


def test_plain_numbers_select_no_keys():
    part = Vector(0, Sensitivity(1, 1, 1), 1, 0)
    priced = part.price(LaplaceRule(Fraction(1)))
    for attempt in (
        lambda: part.select(priced, {}, pl.Draw()),
        lambda: part.select_further(priced, Cells([()]), {}, pl.Draw()),
    ):
        with pytest.raises(NotProvedError, match="a vector does not select keys"):
            attempt()


def test_a_target_that_no_loss_is_small_enough_for():
    with pytest.raises(ParameterError, match="no ρ is small enough"):
        p.Accounting.ZCDP.cap("1e-300", "1e-300")


@pytest.mark.parametrize("accounting", ["pure", "approx"])
def test_a_loss_without_an_epsilon_has_no_price_in_it(accounting):
    with pytest.raises(ParameterError, match="choose the δ to charge"):
        p.Accounting(accounting).charge(p.Gaussian(1))


def test_exponents_stand_in_a_row():
    with pytest.raises(ParameterError, match="must be one-dimensional"):
        bernoulli_exp_many([[1, 2], [3, 4]])


def test_no_sample_is_amplified_without_a_proof():
    with pytest.raises(NotProvedError, match="no amplification is proved"):
        p.sample(p.Pure(1), "0.1", scheme="shuffled")


@pytest.fixture
def two():
    tables = [pol.Table(name, [pol.Category("c", values=["a", "b"])], fixed=["c"]) for name in "tu"]
    policy = pol.Policy(tables, pol.Budget("10"))
    data = pa.table({"c": ["a", "b"]})
    return dc.open({"t": data, "u": data}, policy, ledger=":memory:")


def test_of_several_tables_the_one_to_divide_is_named(two):
    with pytest.raises(ParameterError, match="name the table to divide"):
        two.partition("c", epsilon=1)
    assert two.partition("c", table="u", epsilon=1)["a"].value == "a"


def test_only_a_loss_is_entered_as_one(two):
    with pytest.raises(ParameterError, match="is a privacy loss, not float"):
        two.record_external(0.5, what="elsewhere")


@pytest.mark.parametrize("margin", ["-1", "-1e-9"])
def test_a_margin_below_zero_is_no_promise(margin):
    policy = pol.Policy([pol.Table("t", [pol.Boolean("b")])], pol.Budget("1"))
    low = pl.lower(sql.parse("SELECT COUNT(*) AS n FROM t", policy).query)
    with pytest.raises(ParameterError, match="a margin must not be negative"):
        pl.price(low, pl.Ask(within={"n": Fraction(margin)}, confidence=0.9))


def test_rows_are_divided_by_listed_values_however_fixed_they_are():
    table = pol.Table("t", [pol.Integer("x", 0, 9)], fixed=["x"])
    policy = pol.Policy([table], pol.Budget("10"))
    asked = dc.open(pa.table({"x": [1, 2]}), policy, ledger=":memory:")
    with pytest.raises(ParameterError, match="whose values the policy lists"):
        asked.partition("x", epsilon=1)
    assert asked.budget.spent["epsilon"] == 0
