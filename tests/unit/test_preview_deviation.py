"""What a preview says of the error of a variance and of a deviation, against releases."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet import plan as pl
from discreet import policy as pol
from discreet import sql

SALT = pl.Salt(b"0123456789abcdef")
ASKS = {"epsilon": pl.Ask(Fraction(1)), "rho": pl.Ask(rho=Fraction(1, 10))}
KINDS = {
    "public, alone": ("", "change-one", pl.PublicVariance),
    "public, beside a mean": ("AVG(x) AS a, ", "change-one", pl.Spread),
    "private": ("", "add-remove", pl.Dispersion),
}
N, RUNS = 1000, 1000
TABLES = {
    "a quarter of the range, mean near an end": np.repeat([0, 1000], [933, 67]),
    "a quarter of the range, mean in the middle": np.repeat([250, 750], [500, 500]),
    "none": np.zeros(N, dtype=int),
    "half of the range": np.repeat([0, 1000], [500, 500]),
}
LEAST = stats.binom.ppf(1e-9, RUNS, 0.95)
FIGURES = re.compile(
    r"± at most about (?P<usual>[\d.]+) if (?P<n>\d+) rows have a deviation of (?P<such>[\d.]+) "
    r"\(a tenth of it if \d+\), (?P<any>[\d.]+) whatever it is \(a third of it\)"
)


def planned(kind, ask, what="STDDEV_POP"):
    beside, relation, formula = KINDS[kind]
    table = pol.Table("t", [pol.Integer("x", 0, 1000, null=0)], neighbours=relation)
    policy = pol.Policy([table], pol.Budget("1"))
    low = pl.lower(sql.parse(f"SELECT {beside}{what}(x) AS v FROM t", policy).query)
    plan = pl.price(low, ASKS[ask])
    assert isinstance(low.formulas[-1], formula)
    return plan


def told(plan):
    return plan.lowered.formulas[-1].margin(plan.outlets, 0.95).replace("\u2009", "")


def errors(plan, values):
    """How far so many releases are from the truth."""
    data = {"t": [{"x": int(x)} for x in values]}
    groups = [pl.run(a, data, SALT) for a in plan.lowered.aggregates]
    formula = plan.lowered.formulas[-1]
    truth = np.std(values) if formula.root else np.var(values)
    found = [
        formula.estimate([r for p in plan.parts for r in p.releases(groups, CELL, pl.Draw())])[0]
        for _ in range(RUNS)
    ]
    return np.abs(np.array(found) - truth)


CELL = pl.Cells([()])


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_deviation_is_as_exact_as_its_preview_says(kind, ask):
    """Eight cases of 1000 releases for each: a sound package fails with probability 1e-8."""
    plan = planned(kind, ask)
    figures = FIGURES.fullmatch(told(plan))
    assert figures is not None
    usual, such, most = (float(figures[k]) for k in ("usual", "such", "any"))
    n = int(figures["n"])
    usual, most = usual * n, most * n**0.5
    assert such == 250
    for name, values in TABLES.items():
        off = errors(plan, values)
        assert (off <= most / N**0.5).sum() >= LEAST
        if name.startswith("a quarter"):
            assert (off <= 1.05 * usual / N).sum() >= LEAST
            # no idle bound: where the mean is near an end, most of it is needed
            if "end" in name:
                assert np.quantile(off, 0.95) > 0.4 * usual / N
        if name == "none":
            assert (off <= most / 3 / N**0.5).sum() < LEAST


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_variance_is_as_exact_as_its_preview_says(kind, ask):
    plan = planned(kind, ask, "VAR_POP")
    figure = re.match(r"± at most about ([\d.]+) if (\d+) rows", told(plan))
    assert figure is not None
    most = float(figure[1]) * int(figure[2])
    worst = []
    for values in TABLES.values():
        off = errors(plan, values)
        assert (off <= 1.02 * most / N).sum() >= LEAST
        worst.append((off <= most / 3 / N).sum())
    assert min(worst) < LEAST
