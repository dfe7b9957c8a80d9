"""What the critical rooms refuse, each with its own words: no other check may stand in for it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import noise
from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet.errors import NotProvedError, ParameterError
from discreet.mechanisms._median import _read_beta
from discreet.plan import expr as ex
from discreet.plan._keys import Weights
from discreet.plan._picks import Labels
from discreet.plan._trees import Levels
from discreet.plan._vectors import Numbers, Threshold, read_law
from discreet.privacy import _kov

LAW = noise.DiscreteLaplace(3)
COLUMNS = [pol.Integer("x", -2, 3), pol.Category("g", ["a", "b"]), pol.Text("t")]
ROWS = pl.Scan(pol.Table("rows", COLUMNS))
PEOPLE = pl.Scan(pol.Table("people", COLUMNS, unit="id", max_rows_per_unit=2))
SEEN = pl.Scan(pol.Table("seen", [pol.Integer("y", 0, 1)], unit="id", max_rows_per_unit=2))
X, G, T = (ex.Column(name, PEOPLE.schema[name]) for name in ("x", "g", "t"))
SUM, UNITS = pl.MeasureKind.SUM, pl.MeasureKind.UNITS


def levels(**changes):
    shape = {"lo": Fraction(0), "width": Fraction(4), "hi": Fraction(3), "step": Fraction(1)}
    nodes = {"levels": (((1, 2),), ((1, 2, 3, 4),)), "law": LAW, "branching": 2}
    return Levels(**(shape | nodes | changes)).check(1)


EARLIER = Threshold(LAW, 8, 1)


def weights(first, values, *, before=EARLIER, cells=2):
    return Weights(values, LAW, 5, first=first, before=before).check(cells)


REFUSALS = [
    # mechanisms
    ("state the relation", lambda: m.sensitivity([[1]], None)),
    ("norm must be 1 or 2", lambda: m.sensitivity([[1]], "add-remove", norm=3)),
    ("B must be a matrix", lambda: m.sensitivity([1, 2], "add-remove")),
    ("B must be a matrix", lambda: m.sensitivity(np.ones((0, 2)), "add-remove")),
    ("B must hold real", lambda: m.sensitivity([[1j]], "add-remove")),
    ("B must hold real", lambda: m.sensitivity(np.array([[None]]), "add-remove")),
    ("B must hold finite", lambda: m.sensitivity([[math.inf]], "add-remove")),
    ("beyond the range of doubles", lambda: m.sensitivity([[1.7e308], [1.7e308]], "add-remove")),
    ("either epsilon and delta, or rho", lambda: m.gaussian(5, 1, 1)),
    ("either epsilon and delta, or rho", lambda: m.gaussian(5, 1, 1, "1e-6", rho=1)),
    ("'geometric' or 'laplace'", lambda: m.noisy_max([1, 2], 1, 1, noise="normal")),
    ("ask takes one number", lambda: m.SparseVector(5, 1, 1).ask([1, 2])),
    ("one number per question", lambda: m.sparse_vector(5, 5, 1, 1)),
    ("outside what smooth", lambda: _read_beta(700.0)),
    ("outside what smooth", lambda: _read_beta(0.0)),
    ("one number each", lambda: m.local_sensitivity_median([[1, 2]], 0, 9)),
    ("no answers to estimate", lambda: m.RandomizedResponse(p="0.5").estimate([])),
    (
        "the answers say nothing",
        lambda: m.RandomizedResponse(p=Fraction(1, 10**400)).estimate([0, 1]),
    ),
    ("counts must map keys", lambda: m.threshold_keys([("a", 5)], 1, "1e-6")),
    ("must be 'laplace' or 'gaussian'", lambda: m.threshold_keys({}, 1, "1e-6", noise="normal")),
    ("lower must be below upper", lambda: m.local_sensitivity_median([1], 9, 9)),
    ("must be one-dimensional", lambda: noise.categorical_exp(np.ones((2, 2)))),
    ("exponents must be finite", lambda: noise.categorical_exp(np.array([np.inf, 0.0]))),
    (r"n must be at most 2\^63", lambda: noise.uniform_many(2**63 + 1, 3)),
    ("confidence must be at most", lambda: LAW.interval("0.9999999999999999")),
    ("must lie within", lambda: m.local_sensitivity_median([1], 0, "1.01e300")),
    ("scale", lambda: noise.DiscreteLaplace(Fraction(1, 10**9 + 1))),
    ("scale", lambda: noise.DiscreteLaplace(2**60 + 1)),
    # losses
    (r"fpr must lie in \[0, 1\], got -", lambda: p.Gaussian(1).tradeoff(-0.1)),
    (r"fpr must lie in \[0, 1\], got 1", lambda: p.Gaussian(1).tradeoff(1.1)),
    ("dimension must be", lambda: p.DiscreteGaussian(5, 1, dimension=0)),
    ("is below one lattice step: integer", lambda: p.DiscreteLaplace(5, "0.9")),
    ("sensitivity is below one", lambda: p.DiscreteGaussian(5, "0.9")),
    (r"delta must lie in \[0, 1\), got 1", lambda: p.Zcdp(1, 1)),
    (r"delta must lie in \[0, 1\), got -", lambda: p.Zcdp(1, -1)),
    ("mu must not be negative", lambda: p.Concentrated("-0.001", "0.1")),
    ("divergence is never negative", lambda: p.Renyi({2: "-0.1"})),
    ("parallel needs the relation", lambda: p.parallel([p.Pure(1)], None)),
    ("a group of 40 has no guarantee", lambda: p.group(p.Approx(1, "1e-6"), 40)),
    ("keys must be a positive", lambda: p.key_threshold(LAW, "1e-6", 0)),
    ("min_count must be a positive", lambda: p.key_threshold(LAW, "1e-6", 1, min_count=True)),
    ("below what the noise law can", lambda: p.key_threshold(LAW, "1e-300", 1)),
    ("a cost must not be negative", lambda: p.admit(ZERO, p.Amount(Fraction(-1)), ZERO)),
    (
        "a cost must not be negative",
        lambda: p.admit(ZERO, p.Amount(Fraction(0), Fraction(-1)), ZERO),
    ),
    # plans
    ("WHERE needs a condition", lambda: pl.Filter(PEOPLE, X)),
    ("only text keys", lambda: pl.Key("x", X, None)),
    ("a limit is at least 1", lambda: pl.LimitRows(PEOPLE, 0)),
    ("a limit is at least 1", lambda: pl.LimitGroups(PEOPLE, 0, ("g",))),
    ("a limit needs a unit", lambda: pl.LimitRows(ROWS, 1)),
    ("a limit needs a unit", lambda: pl.LimitGroups(ROWS, 1, ("g",))),
    ("rows must be at least 1", lambda: pl.Limits(rows=0)),
    ("groups must be at least 1", lambda: pl.Limits(rows=1, groups=0)),
    ("contribution is unbounded", lambda: pl.Limits(groups=1)),
    ("contribution is unbounded", lambda: pl.Limits(rows_per_group=1)),
    ("except a count of units", lambda: pl.Measure(SUM)),
    ("except a count of units", lambda: pl.Measure(UNITS, X)),
    ("text cannot be added", lambda: pl.Measure(SUM, T)),
    ("stands on its own keys", lambda: pl.Aggregate(PEOPLE, (), (pl.Measure(UNITS),))),
    ("SUM needs a number", lambda: pl.Fold(pl.FoldKind.SUM, T)),
    ("MIN needs ordered", lambda: pl.Fold(pl.FoldKind.MIN, T)),
    ("MAX needs ordered", lambda: pl.Fold(pl.FoldKind.MAX, G)),
    ("is not public", lambda: pl.JoinPublic(PEOPLE, SEEN, "x", "y")),
    ("both sides of a join", lambda: pl.JoinUnit(PEOPLE, SEEN)),
    ("joined on their unit", lambda: pl.JoinUnit(pl.LimitRows(PEOPLE, 1), ROWS)),
    # records
    ("a noise law is missing", lambda: read_law(noise.Geometric(3).to_dict())),
    ("its columns differ", lambda: Numbers((1, 2), LAW, None).check(1)),
    ("that was not selected", lambda: Numbers((5, 4), LAW, 5).check(2)),
    ("that was not selected", lambda: Numbers((5,), None, 5).check(1)),
    ("a tree has no levels", lambda: levels(branching=1)),
    ("a tree has no levels", lambda: levels(levels=())),
    ("a tree has no range", lambda: levels(step=Fraction(5))),
    ("a tree has no range", lambda: levels(width=Fraction(0), step=Fraction(0))),
    ("a tree has no range", lambda: levels(lo=Fraction(4))),
    ("a tree has no range", lambda: levels(step=Fraction(-1))),
    ("levels do not fit", lambda: levels(levels=(((1, 2),), ((1, 2, 3),)))),
    ("levels do not fit", lambda: levels(levels=(((1, 2), (1, 2)),))),
    ("levels do not fit", lambda: levels(levels=(((1, 2**62),),))),
    ("columns differ in length", lambda: Labels((("a",),)).check(2)),
    ("a selection is empty", lambda: Labels((("a",), ())).check(2)),
    ("not a single value", lambda: Labels(((["a"],),)).check(1)),
    ("that was not selected", lambda: weights((0,), (7, 6))),
    ("that was not selected", lambda: weights((), (6, 4))),
    ("that was not selected", lambda: weights((0, 0), (9, 6), cells=3)),
    ("that was not selected", lambda: weights((2,), (9, 6), cells=3)),
    ("that was not selected", lambda: weights((0,), (9, 6), before=None)),
]
ZERO = p.Amount(Fraction(0))


@pytest.mark.parametrize(("words", "call"), REFUSALS)
def test_what_is_refused_is_refused_for_its_own_reason(words, call):
    with pytest.raises(ParameterError, match=words):
        call()


def test_what_stands_beside_the_refused_is_taken():
    levels()
    levels(step=Fraction(4))
    levels(step=Fraction(0), lo=Fraction(3))
    levels(levels=(((1, 2**62 - 1),),))
    Numbers((5, 6), LAW, 5).check(2)
    Labels((("a", 1, None),)).check(1)
    weights((0,), (8, 5))
    pl.Limits(rows=1)
    pl.Limits(groups=1, rows_per_group=1)
    pl.LimitRows(PEOPLE, 1)
    _read_beta(699.0)
    assert m.local_sensitivity_median([1], 0, "1e300") > 0
    assert (
        noise.DiscreteLaplace(Fraction(1, 10**9)).variance < noise.DiscreteLaplace(2**60).variance
    )
    assert p.Gaussian(1).tradeoff(0.0) == pytest.approx(1)
    assert p.Gaussian(1).tradeoff(1.0) == 0.0
    assert p.Renyi({2: 0}).renyi(2) == 0
    assert p.Concentrated(0, "0.1").rho == Fraction(1, 200)
    assert p.group(p.Approx(1, "1e-6"), 2).eps0 == 2


def test_an_unknown_law_has_no_loss():
    from discreet.plan._parts import loss_of

    with pytest.raises(NotProvedError, match="no loss is known"):
        loss_of(noise.Geometric(3), 1, 1)


def test_what_is_not_proved_is_not_priced():
    with pytest.raises(NotProvedError, match="not Gaussian DP with a known"):
        p.GaussianFilter(1).spend(p.Pure(1))
    loss = p.Pure(1).under("add-remove")
    for relation in ("add-remove", None):
        with pytest.raises(NotProvedError, match="amplifies change-one losses only"):
            p.sample(loss, "0.1", scheme="without-replacement", neighbours=relation)
    with pytest.raises(NotProvedError, match="amplifies change-one losses only"):
        p.sample(p.Pure(1), "0.1", scheme="without-replacement", neighbours="add-remove")


def test_long_lists_are_refused(monkeypatch):
    monkeypatch.setattr(_kov, "_ENUMERABLE", 4)
    assert p.murtagh_vadhan_delta([1, 2], 1) > 0
    with pytest.raises(ParameterError, match="enumeration is for at most 4"):
        p.murtagh_vadhan_delta([1, 2, 4], 1)
