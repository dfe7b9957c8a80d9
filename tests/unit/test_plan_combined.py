"""Combinations of sums are one vector: within its ends, and never wider than sums apart."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet import audit, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet.engines import Reference
from discreet.plan import _combined, _lower

SALT = pl.Salt(b"0123456789abcdef")
COLUMNS = [
    pol.Integer("x", min=2, max=4),
    pol.Integer("y", min=-1, max=3, null=0),
    pol.Real("z", min=-2, max=1, step="0.5", null=0),
    pol.Category("s", values=["F", "M"], null="F"),
]
ROWS = [
    {"x": x, "y": y, "z": z, "s": s}
    for x in (2, 4, None)
    for y in (-1, 0, 3)
    for z in (-2, 1)
    for s in ("F", "M")
]
COMBINATIONS = [
    "SUM(x) - SUM(y)",
    "SUM(x) + 2 * SUM(y)",
    "SUM(y) / 3 - SUM(z)",
    "SUM(x) - SUM(y) - SUM(z)",
    "SUM(y) - 2 * (SUM(x) - SUM(z) / 7)",
    "SUM(x) FILTER (WHERE s = 'F') - SUM(x) FILTER (WHERE s = 'M')",
    "SUM(y) FILTER (WHERE s = 'F') + SUM(z) FILTER (WHERE s = 'M')",
    "SUM(CASE WHEN s = 'F' THEN y ELSE 0 END) + SUM(CASE WHEN s = 'M' THEN x ELSE 0 END)",
    "SUM(x) FILTER (WHERE y > 0) - SUM(x) FILTER (WHERE s = 'M')",
]
LIMITS = [{}, {"unit": "id", "max_rows_per_unit": 3},
          {"unit": "id", "max_groups_per_unit": 2, "max_rows_per_group": 2}]  # fmt: skip
RELATIONS = ["add-remove", "change-one"]


def lowered(what, relation="add-remove", by="", **limits):
    table = pol.Table("t", COLUMNS, neighbours=relation, **limits)
    policy = pol.Policy([table], pol.Budget("1000"), name="combined")
    keys = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    return pl.lower(sql.parse(f"SELECT {keys[0]}{what} AS d FROM t{keys[1]}", policy).query)


def tables(limits, seed):
    rng = random.Random(seed)
    units = [[r | {"id": 1}] for r in ROWS]
    if limits:
        units += [[r | {"id": 1}] * 6 for r in ROWS]
        units += [[rng.choice(ROWS) | {"id": 1} for _ in range(6)] for _ in range(20)]
    return units


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("what", COMBINATIONS)
def test_one_unit_moves_a_combination_by_no_more_than_it_declares(what, relation, limits):
    for by in ("", "s"):
        low = lowered(what, relation, by, **limits)
        (part,) = low.parts
        assert isinstance(part, pl.Joint)
        sides = [pl.run(low.aggregates[0], {"t": u}, SALT) for u in tables(limits, what)]
        nobody = pl.run(low.aggregates[0], {"t": []}, SALT)
        pairs = itertools.product(sides, repeat=2) if relation == "change-one" else None
        worst = 0
        for left, right in pairs or ((nobody, side) for side in sides):
            assert part.moved(left, right) == []
            (_, a), (_, b) = (next(iter(part.measurements(g))) for g in (left, right))
            worst = max(worst, pl.distance(a, b).l1)
        assert worst * 3 > part.sensitivity.l1
        if relation == "add-remove" and "y > 0" not in what and "max_groups_per_unit" not in limits:
            assert worst == part.sensitivity.l1  # attained


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("what", COMBINATIONS)
def test_without_noise_it_is_the_difference_of_the_sums(what, relation):
    """NULL is passed over by each sum on its own."""
    low = lowered(what, relation)
    groups = pl.run(low.aggregates[0], {"t": ROWS}, SALT)

    class Zero(pl.Draw):
        def sample(self, law, n):
            return [0] * n

    plan = pl.price(low, pl.Ask(Fraction(1)))
    (release,) = (r for x in plan.parts for r in x.releases([groups], pl.Cells([()]), Zero()))
    formula = low.formulas[low.outputs[0].expr.index]

    def total(column, keep=lambda _: True):
        return sum(r[column] or 0 for r in ROWS if keep(r))

    x, y, z = map(total, "xyz")
    female, male = (lambda r, s=s: r["s"] == s for s in "FM")
    want = [
        x - y, x + 2 * y, y / 3 - z, x - y - z, y - 2 * (x - z / 7),
        total("x", female) - total("x", male), total("y", female) + total("z", male),
        total("y", female) + total("x", male), total("x", lambda r: r["y"] > 0) - total("x", male),
    ]  # fmt: skip
    assert formula.estimate([release])[0] == pytest.approx(want[COMBINATIONS.index(what)])


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("what", COMBINATIONS)
def test_it_is_never_wider_than_the_sums_apart(what, relation, limits, monkeypatch):
    for by, ask in itertools.product(("", "s"), (pl.Ask(Fraction(1)), pl.Ask(rho=Fraction(1)))):
        stds = []
        for alone in (True, False):
            if not alone:
                monkeypatch.setattr(_lower, "exclusive", lambda _: None)
            plan = pl.price(lowered(what, relation, by, **limits), ask)
            formula = plan.lowered.formulas[plan.lowered.outputs[-1].expr.index]
            laws = [plan.outlets[c].noise for c in formula.cells]
            pairs = zip(formula.weights, laws, strict=True)
            stds.append(sum(float(w) ** 2 * law.variance for w, law in pairs) ** 0.5)
            monkeypatch.undo()
        assert stds[0] <= stds[1] * (1 + 1e-9)


def test_values_that_are_asked_for_elsewhere_are_measured_apart():
    for text in ("SUM(x) - SUM(y) AS e, SUM(x)", "SUM(x) - SUM(y) AS e, AVG(y)"):
        assert not lowered(text).alone


def caught(low):
    plan = pl.price(low, pl.Ask(Fraction(1)))
    return not all(
        audit.replay(plan, Reference({"t": []}), Reference({"t": [row]}), SALT).ok for row in ROWS
    )


def test_a_missing_value_that_counts_as_present_is_caught(monkeypatch):
    """Mutant: priced as SUM(x - 3 * y), which passes over a row without x."""
    what = "SUM(x) - 3 * SUM(y)"
    assert not caught(lowered(what))

    def naive(expr, a, c):
        return [a * code + c for code in (expr.type.lo, expr.type.hi)]

    monkeypatch.setattr(_combined, "_corners", naive)
    assert caught(lowered(what))


def test_sums_of_rows_that_overlap_are_not_priced_as_disjoint(monkeypatch):
    what = COMBINATIONS[-1].replace("-", "+")
    assert not caught(lowered(what))
    monkeypatch.setattr(_combined, "exclusive", lambda _: True)
    assert caught(lowered(what))


def test_half_of_the_price_is_caught():
    low = lowered("SUM(x) - SUM(y)")
    (part,) = low.parts
    s = part.sensitivity
    less = replace(s, l1=s.l1 // 2, l2_squared=s.l2_squared // 4, linf=s.linf // 2)
    assert caught(replace(low, parts=(replace(part, sensitivity=less),)))
