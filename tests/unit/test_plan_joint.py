"""Joint parts: declared sensitivities against the truth, found by trying all neighbours."""

from __future__ import annotations

import itertools
import json
import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet import audit, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet.answer import Answer
from discreet.curator import measure
from discreet.engines import Reference
from discreet.errors import ParameterError
from discreet.privacy import Neighbours

SALT = pl.Salt(b"0123456789abcdef")
LO, HI = -1, 2
QUESTIONS = [
    "AVG(x) AS a",
    "AVG(x) AS a, COUNT(*) AS n",
    "SUM(x) AS s, COUNT(*) AS n",
    "SUM(x) AS s, COUNT(x) AS n, AVG(x) AS a",
    "VAR(x) AS v",
    "STDDEV(x) AS v, COUNT(*) AS n, AVG(x) AS a",
    "COUNT(x) AS m, COUNT(*) AS n",
    "COUNT(*) FILTER (WHERE x > 0) AS m, COUNT(*) AS n",
    "AVG(x > 0) AS p, COUNT(*) AS n",
    "AVG(y) AS a, COUNT(*) AS n",
    "VAR_POP(y) AS v, COUNT(*) AS n",
]
P, Q = "FILTER (WHERE y > 1)", "FILTER (WHERE y <= 1)"
UNITED = [
    f"AVG(x) {P} AS a, COUNT(*) {P} AS n",
    f"SUM(x) {P} AS a, COUNT(*) {P} AS n, COUNT(*) AS k",
    f"VAR(x) {P} AS v, COUNT(*) {P} AS n, COUNT(x) {P} AS m, COUNT(*) AS k",
    f"AVG(x) {P} AS a, COUNT(*) {P} AS n, AVG(x) {Q} AS b, COUNT(*) {Q} AS m",
    f"AVG(x) {P} AS a, COUNT(*) {P} AS n, AVG(x) {Q} AS b, COUNT(*) {Q} AS m, COUNT(*) AS k",
    f"AVG(y) {P} AS a, COUNT(*) {P} AS n",
]
"""Statistics under a condition, and how many rows pass it."""
SHAPES = ["SELECT {} FROM t", "SELECT {} FROM t WHERE y < 3", "SELECT g, {} FROM t GROUP BY g"]
ROWS = [
    {"g": g, "x": x, "y": y} for g in "ab" for x in (*range(LO, HI + 1), None) for y in (1, 2, 4)
]
LIMITS = [
    {"max_rows_per_unit": 1},
    {"max_rows_per_unit": 3},
    {"max_groups_per_unit": 2, "max_rows_per_group": 2},
    {"max_rows_per_unit": 3, "max_groups_per_unit": 2, "max_rows_per_group": 2},
]


def lowered(what, shape, relation, **limits):
    columns = [
        pol.Category("g", values=["a", "b"]),
        pol.Integer("x", min=LO, max=HI),
        pol.Integer("y", min=1, max=4, null=1),
    ]
    unit = {"unit": "id"} if limits else {}
    table = pol.Table("t", columns, neighbours=relation, **unit, **limits)
    policy = pol.Policy(tables=[table], budget=pol.Budget("1"))
    return pl.lower(sql.parse(shape.format(what), policy).query)


def moves(part, agg, left, right):
    """(L1, L2², L∞) of the whole joint vector, by arithmetic of this file's own."""
    sides = [pl.run(agg, {"t": rows}, SALT) for rows in (left, right)]
    a, b = (
        {
            (cell, j): sum(c * values[m] for m, c in form)
            for cell, values in side.items()
            for j, form in enumerate(part.forms)
        }
        for side in sides
    )
    d = [abs(a.get(k, 0) - b.get(k, 0)) for k in a.keys() | b.keys()]
    return sum(d), sum(x * x for x in d), max(d, default=0)


def joint(low):
    return [part for part in low.parts if isinstance(part, pl.Joint)]


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("what", QUESTIONS + UNITED)
def test_all_neighbours_of_rows(what, shape, relation):
    low = lowered(what, shape, relation)
    parts = joint(low)
    free = relation == "change-one" and shape == SHAPES[0]
    alone = "x" not in what or "WHERE" in what
    if free and alone and what in QUESTIONS:
        assert not parts
    for part in parts:
        worst = (0, 0, 0)
        pairs = (
            [([], [r]) for r in ROWS]
            if relation == "add-remove"
            else [([a], [b]) for a, b in itertools.product(ROWS, ROWS)]
        )
        for left, right in pairs:
            worst = tuple(map(max, worst, moves(part, low.aggregates[0], left, right)))
        s = part.sensitivity
        declared = (s.l1, s.l2_squared, s.linf)
        assert all(w <= d for w, d in zip(worst, declared, strict=True))
        # attained, except where a change of rows within one certain row moves less
        if not free and (what in QUESTIONS or relation == "add-remove"):
            assert worst == declared


def person(rng, unit, most=5):
    return [
        {"id": unit, "g": rng.choice("ab?"), "x": rng.choice([LO, 0, HI, None]), "y": y}
        for _ in range(rng.randrange(most + 1))
        for y in [rng.choice([1, 2, 4])]
    ]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@pytest.mark.parametrize("shape", SHAPES)
def test_random_units_under_limits(shape, relation, limits):
    rng = random.Random(f"{shape}{relation}{limits}")
    for what in QUESTIONS + UNITED:
        low = lowered(what, shape, relation, **limits)
        assert joint(low)
        for part in joint(low):
            s = part.sensitivity
            for _ in range(40):
                others = [row for u in range(rng.randrange(3)) for row in person(rng, u)]
                left = others + (person(rng, 99) if relation == "change-one" else [])
                found = moves(part, low.aggregates[0], left, others + person(rng, 99))
                assert all(f <= d for f, d in zip(found, (s.l1, s.l2_squared, s.linf), strict=True))


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_worst_unit_attains_the_declared_norms(shape, relation, limits):
    for what in QUESTIONS:
        low = lowered(what, shape, relation, **limits)
        units = [
            [{"id": 1, "g": g, "x": x, "y": 1} for g in groups for _ in range(9)]
            for x in (LO, HI, None)
            for groups in ("a", "b", "ab")
        ]
        for part in joint(low):
            lefts = [[]] if relation == "add-remove" else [[], *units]
            found = [
                moves(part, low.aggregates[0], left, right)
                for left, right in itertools.product(lefts, units)
            ]
            assert max(f[0] for f in found) == part.sensitivity.l1 or "y" in what


# -- values under a condition ------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2]])
@pytest.mark.parametrize("what", UNITED[:5])
def test_rows_that_pass_a_condition_are_counted_beside_its_values(what, shape, relation):
    """One draw where rows come and go; without noise all counts and sums are right."""
    rng = random.Random(11)
    rows = [rng.choice(ROWS) for _ in range(60)]
    low = lowered(what, shape, str(relation))
    if relation is Neighbours.ADD_REMOVE:
        assert [part.kind for part in low.parts] == ["joint"]
    groups = pl.run(low.aggregates[0], {"t": rows}, SALT)
    cells = pl.Cells(pl.cells_of(low.query.keys))
    plan = pl.price(low, pl.Ask(Fraction(1)))
    bare = [replace(p, law=None) for p in plan.parts]
    told = [r for p in bare for r in p.part.releases(p, groups, cells, pl.Draw())]
    for i, g in enumerate("ab" if "GROUP" in shape else [None]):
        mine = [r for r in rows if g in (None, r["g"])]
        names = [o.name for o in low.query.outputs if o.name != "g"]
        for name, s, formula in zip(names, low.query.statistics, low.formulas, strict=False):
            some, more = "case" in str(s), "y > 1" in str(s)
            passing = [r for r in mine if not some or (r["y"] > 1) == more]
            values = [r["x"] for r in passing if r["x"] is not None]
            want = len(values) if "COUNT(x)" in what and name == "m" else len(passing)
            if name in "ab":
                want = sum(values) / (1 if "SUM" in what else len(values))
            elif name == "v":
                want = float(np.var(values, ddof=1))
            assert formula.estimate(told)[i] == pytest.approx(want), str(s)


# -- two sums --------------------------------------------------------------------------------

CROSSED = ["SUM(u) AS a, SUM(y) AS b", "SUM(u) AS a, SUM(y) AS b, COUNT(*) AS n"]
CROSSED_ROWS = [{"g": g, "u": u, "y": y} for g in "ab" for u in (0, 1, 3, None) for y in (1, 2, 4)]


def crossed(what, shape, **limits):
    columns = [
        pol.Category("g", values=["a", "b"]),
        pol.Integer("u", min=0, max=3),
        pol.Integer("y", min=1, max=4, null=1),
    ]
    unit = {"unit": "id"} if limits else {}
    table = pol.Table("t", columns, **unit, **limits)
    policy = pol.Policy(tables=[table], budget=pol.Budget("1"))
    return pl.lower(sql.parse(shape.format(what), policy).query)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("what", CROSSED)
def test_two_sums_move_together_by_one_product(what, shape):
    low = crossed(what, shape)
    (part,) = joint(low)
    assert len(low.parts) == 1
    assert len(part.forms) == 3 + ("COUNT" in what)
    found = [moves(part, low.aggregates[0], [], [r]) for r in CROSSED_ROWS]
    s = part.sensitivity
    whole = 3 * (2 if "WHERE" in shape else 4)  # a condition narrows what is public
    assert (s.l1, s.l2_squared, s.linf) == (whole, whole**2, whole)
    assert [max(f[i] for f in found) for i in range(3)] == [whole, whole**2, whole]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_two_sums_of_random_units_move_as_declared(shape, limits):
    rng = random.Random(f"crossed{shape}{limits}")
    for what in CROSSED:
        low = crossed(what, shape, **limits)
        (part,) = joint(low)
        s = part.sensitivity
        for _ in range(60):
            own = [rng.choice(CROSSED_ROWS) | {"id": 99} for _ in range(rng.randrange(6))]
            others = [rng.choice(CROSSED_ROWS) | {"id": 1} for _ in range(rng.randrange(6))]
            found = moves(part, low.aggregates[0], others, others + own)
            assert all(f <= d for f, d in zip(found, (s.l1, s.l2_squared, s.linf), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("what", CROSSED)
def test_two_sums_without_noise_are_the_sums(what, shape):
    rng = random.Random(3)
    rows = [rng.choice(CROSSED_ROWS) for _ in range(50)]
    low = crossed(what, shape)
    (part,) = low.parts
    groups = pl.run(low.aggregates[0], {"t": rows}, SALT)
    cells = pl.Cells(pl.cells_of(low.query.keys))
    none = replace(pl.price(low, pl.Ask(Fraction(1))).parts[0], law=None)
    told = part.releases(none, groups, cells, pl.Draw())
    used = [r for r in rows if "WHERE" not in shape or r["y"] < 3]
    for i, g in enumerate("ab" if "GROUP" in shape else [None]):
        mine = [r for r in used if g in (None, r["g"])]
        wants = [sum(r["u"] or 0 for r in mine), sum(r["y"] for r in mine), len(mine)]
        for formula, want in zip(low.formulas, wants, strict=False):
            assert formula.estimate(told)[i] == pytest.approx(want)


def test_a_replay_sees_a_product_that_is_priced_as_one_of_its_columns():
    """The mutant declares what the larger of the two columns moves: 4 in place of 12."""
    low = crossed(CROSSED[0], SHAPES[0])
    left, right = [], [{"g": "a", "u": 3, "y": 4}]
    assert replayed(low, left, right).ok
    small = pl.Sensitivity(4, 16, 4)
    assert not replayed(planted(low, sensitivity=small), left, right).ok


def test_sums_are_crossed_only_where_that_gains():
    def kinds(what, relation="add-remove", lo=0):
        columns = [pol.Integer(c, min=lo, max=9) for c in "uvwz"]
        table = pol.Table("t", columns, neighbours=relation)
        policy = pol.Policy(tables=[table], budget=pol.Budget("1"))
        low = pl.lower(sql.parse(f"SELECT {what} FROM t", policy).query)
        return [part.kind for part in low.parts]

    two = "SUM(u) AS a, SUM(v) AS b"
    assert kinds(two) == ["joint"]
    assert kinds(f"{two}, SUM(w) AS c, SUM(z) AS d") == ["joint", "joint"]
    assert kinds(f"{two}, SUM(w) AS c") == ["vector"] * 3
    assert kinds(two, "change-one") == ["vector"] * 2
    assert kinds(two, lo=-1) == ["vector"] * 2
    assert kinds(f"{two}, MEDIAN(w) AS m") == ["vector", "vector", "quantiles"]


def test_a_ratio_of_sums_has_one_interval_of_one_noise():
    """The lattice of ratios that the noise keeps: exact tails, as wide as four errors.

    Of 400 equal groups at 95 % no more than 35 are missed but with probability 1e-3 (binomial);
    noise in this test is a function of its name. The mutant divides boxes, and is twice as wide.
    """
    rng, keys = np.random.default_rng(5), [f"k{i:03d}" for i in range(400)]
    x, y = rng.integers(0, 1001, 500), rng.integers(0, 1001, 500)
    columns = [pol.Category("g", keys), pol.Integer("x", 0, 1000), pol.Integer("y", 0, 1000)]
    policy = pol.Policy([pol.Table("t", columns)], pol.Budget("9"))
    rows = pa.table({"g": np.repeat(keys, 500), "x": np.tile(x, 400), "y": np.tile(y, 400)})
    asked = dc.open(rows, policy=policy, ledger=":memory:")
    answer = asked.sql("SELECT g, SUM(y) / SUM(x) AS r FROM t GROUP BY g", epsilon=1)
    truth = y.sum() / x.sum()
    ends = np.array([row["r"] for row in answer.interval("0.95")])
    missed = ~((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    assert missed.sum() <= 35
    errors = np.array([row["r"] for row in answer.to_dicts()]) - truth
    width = float(np.median(ends[:, 1] - ends[:, 0]))
    assert width < 1.15 * 3.92 * float(np.sqrt(np.mean(errors**2)))
    assert np.sqrt(np.mean(errors**2)) < 1.15 * 2 / 500 / (x.mean() / 1000)
    for form in (
        "100 * SUM(y) / SUM(x)",
        "SUM(y) * 100 / SUM(x)",
        "100 * (SUM(y) / SUM(x))",
        "100 * SUM(y) / NULLIF(SUM(x), 0)",
    ):
        other = asked.sql(f"SELECT g, {form} AS r FROM t GROUP BY g", epsilon=1)
        assert np.array([row["r"] for row in other.interval("0.95")]) == pytest.approx(100 * ends)
    both = answer.interval("0.95", simultaneous=True)  # boxes of both sums in all rows
    assert both[0]["r"][1] - both[0]["r"][0] > 2 * width


def test_a_ratio_over_nothing_is_unbounded():
    policy = pol.Policy([pol.Table("t", [pol.Integer(c, 0, 9) for c in "xy"])], pol.Budget("9"))
    rows = pa.table({"x": [0] * 40, "y": [9] * 40})
    answer = dc.open(rows, policy=policy, ledger=":memory:").sql(
        "SELECT SUM(y) / SUM(x) AS r FROM t", epsilon=1
    )
    assert answer.interval("0.95")[0]["r"] == (-np.inf, np.inf)


# -- what a replay sees --------------------------------------------------------------------


def replayed(low, left, right):
    plan = pl.price(low, pl.Ask(Fraction(1)))
    return audit.replay(plan, Reference({"t": left}), Reference({"t": right}), SALT)


def planted(low, **changes):
    """The same question with its joint part changed."""
    parts = tuple(replace(p, **changes) if isinstance(p, pl.Joint) else p for p in low.parts)
    return replace(low, parts=parts)


def scaled(s, num, den):
    return pl.Sensitivity(s.l1 * num // den, s.l2_squared * num**2 // den**2, s.linf * num // den)


PAIRS = [([], [row]) for row in ROWS]


@pytest.mark.parametrize("what", QUESTIONS)
def test_replay_passes_what_is_priced_right(what):
    low = lowered(what, SHAPES[2], "add-remove")
    for left, right in PAIRS:
        found = replayed(low, left, right)
        assert found.ok
        assert any(step.name == "joint" for step in found.steps)


def test_a_pair_priced_as_a_centred_sum_is_caught():
    """Mutant: half of the range, as if the other integer did not move."""
    low = lowered("AVG(x) AS a", SHAPES[0], "add-remove")
    (part,) = joint(low)
    mutant = planted(low, sensitivity=scaled(part.sensitivity, 1, 2))
    assert not all(replayed(mutant, *pair).ok for pair in PAIRS)


def test_null_counted_among_the_values_is_caught():
    """Mutant: rows where the number of values belongs; a NULL then moves all three integers."""
    low = lowered("AVG(x) AS a, COUNT(*) AS n", SHAPES[0], "add-remove")
    (part,) = joint(low)
    rows, count = ({m for m, _ in part.forms[-1]} - {0}, part.forms[-1])
    (where, _), (value, _) = count
    assert rows
    forms = tuple(
        tuple((where if m == value else m, c) for m, c in form) for form in part.forms[:-1]
    )
    mutant = planted(low, forms=(*forms, part.forms[-1]))
    assert not all(replayed(mutant, *pair).ok for pair in PAIRS)


def test_a_turned_pair_under_add_remove_is_caught():
    """Mutant: difference and sum of a pair at the price of the pair."""
    low = lowered("AVG(x) AS a", SHAPES[0], "add-remove")
    (part,) = joint(low)
    u, v = (dict(form) for form in part.forms)
    turned = tuple(tuple((m, u.get(m, 0) + sign * v.get(m, 0)) for m in u | v) for sign in (-1, 1))
    mutant = planted(low, forms=turned)
    assert not all(replayed(mutant, *pair).ok for pair in PAIRS)


def test_a_variance_priced_like_a_mean_is_caught():
    low = lowered("VAR(x) AS v", SHAPES[0], "add-remove")
    (part,) = joint(low)
    mutant = planted(low, sensitivity=scaled(part.sensitivity, 1, HI - LO))
    assert not all(replayed(mutant, *pair).ok for pair in PAIRS)


# -- what is asked together agrees ---------------------------------------------------------


@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(x)", "COUNT(x)"])
def test_one_number_asked_alone_is_a_plain_vector(what):
    low = lowered(f"{what} AS a", SHAPES[2], "add-remove")
    assert [part.kind for part in low.parts] == ["vector"]


def test_count_sum_and_mean_of_a_nullable_column_cost_one_draw():
    low = lowered("COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a", SHAPES[2], "add-remove")
    plan = pl.price(low, pl.Ask(Fraction(1, 2)))
    (only,) = plan.parts
    assert (only.part.numbers, only.law.scale) == (3, 2 * (HI - LO))
    assert plan.cost.epsilon == Fraction(1, 2)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("what", QUESTIONS)
def test_without_noise_the_estimates_are_the_statistics(what, shape, relation):
    """Forms and weights invert each other, whatever the basis."""
    rng = random.Random(7)
    rows = [rng.choice(ROWS) for _ in range(60)]
    low = lowered(f"{what}, SUM(x) AS s9, SUM(y) AS s8", shape, str(relation))
    groups = pl.run(low.aggregates[0], {"t": rows}, SALT)
    cells = pl.Cells(pl.cells_of(low.query.keys))

    class Zero(pl.Draw):
        def sample(self, law, n):
            return [0] * n

    plan = pl.price(low, pl.Ask(Fraction(1)))
    told = [r for p in plan.parts for r in p.releases([groups], cells, Zero())]
    used = [r for r in rows if "WHERE" not in shape or r["y"] < 3]
    for i, g in enumerate("ab" if "GROUP" in shape else [None]):
        mine = [r for r in used if g in (None, r["g"])]
        values = {"x": [r["x"] for r in mine if r["x"] is not None], "y": [r["y"] for r in mine]}
        for s, formula in zip(low.query.statistics, low.formulas, strict=True):
            want = truth(str(s), values, len(mine))
            assert formula.estimate(told)[i] == pytest.approx(want), s


def truth(name, values, rows):
    """The statistic by its name, with arithmetic of this file's own."""
    column = values["y" if "y" in name else "x"]
    if "x > 0" in name:
        column = [int(x > 0) for x in values["x"]]
    if name == "count(*)":
        return rows
    if name.startswith("count"):
        return sum(column) if "case" in name or "x > 0" in name else len(column)
    n, total = len(column), sum(column)
    mean = total / n
    spread = sum((x - mean) ** 2 for x in column)
    return {
        "sum": total,
        "avg": mean,
        "var": spread / (n if "_pop" in name else n - 1),
        "std": (spread / (n - 1)) ** 0.5,
    }[name[:3]]


# -- a public number of rows ---------------------------------------------------------------


@pytest.mark.parametrize(("n", "error"), [(25, 0.113137), (100, 0.0282843)])
def test_a_proportion_with_public_n_has_the_textbook_error(n, error):
    """Change-one, ε = ½: √2/(nε) for continuous noise; integer noise is a little smaller."""
    columns = [pol.Category("sex", values=["F", "M"], null="F")]
    policy = pol.Policy([pol.Table("t", columns, neighbours="change-one")], pol.Budget("1"))
    low = pl.lower(sql.parse("SELECT AVG(sex = 'M') AS p, COUNT(*) AS n FROM t", policy).query)
    plan = pl.price(low, pl.Ask(Fraction(1, 2)))
    (only,) = [priced for priced in plan.parts if priced.law is not None]
    assert float(only.law.scale) * 2**0.5 / n == pytest.approx(error, rel=1e-5)
    assert only.law.std / n <= error
    # the sum and the public count beside it cost nothing more
    more = "SELECT AVG(sex = 'M') AS p, SUM(sex = 'M') AS s, COUNT(*) AS n FROM t"
    assert len([p for p in pl.lower(sql.parse(more, policy).query).parts if p.private]) == 1


def test_the_preview_of_a_mean_with_public_n_is_the_interval():
    columns = [pol.Integer("age", 0, 99, null=0)]
    policy = pol.Policy([pol.Table("t", columns, neighbours="change-one")], pol.Budget("1"))
    low = pl.lower(sql.parse("SELECT AVG(age) AS a FROM t", policy).query)
    plan = pl.price(low, pl.Ask(Fraction(1, 2)))
    margin = plan.parts[0].law.interval(0.95).high
    words = low.formulas[0].margin(plan.outlets, 0.95).replace("\u2009", "")
    half = re.fullmatch(r"± about ([\d.]+) if 1000 rows \(a tenth of it if 10000\)", words)
    assert float(half[1]) == pytest.approx(margin / 1000, rel=5e-3)


FIRST_AND_SECOND = ["AVG(x) AS a, STDDEV(x) AS s", "SUM(x) AS s, VAR_POP(x) AS v"]


def public(what, lo, hi):
    """A question about values without NULL whose number is public."""
    table = pol.Table("t", [pol.Integer("x", lo, hi, null=lo)], neighbours="change-one")
    policy = pol.Policy([table], pol.Budget("1"))
    return pl.lower(sql.parse(f"SELECT {what} FROM t", policy).query)


@pytest.mark.parametrize("what", FIRST_AND_SECOND)
@pytest.mark.parametrize(("lo", "hi"), [(0, 1), (0, 2), (-1, 2), (5, 9), (-7, -2), (-30, 31)])
def test_both_powers_of_a_public_number_of_values_move_as_declared(what, lo, hi):
    """All pairs of values; the norms are attained, and a hair less is caught by the replay."""
    low = public(what, lo, hi)
    (part,) = joint(low)
    assert [p.private for p in low.parts].count(True) == 1
    pairs = [([{"x": a}], [{"x": b}]) for a in range(lo, hi + 1) for b in range(lo, a)]
    found = [moves(part, low.aggregates[0], *pair) for pair in pairs]
    s = part.sensitivity
    assert tuple(max(f[i] for f in found) for i in range(3)) == (s.l1, s.l2_squared, s.linf)
    worst = pairs[max(range(len(pairs)), key=lambda i: found[i][0])]
    assert replayed(low, *worst).ok
    short = s.l1 - 1
    less = planted(low, sensitivity=pl.Sensitivity(short, short**2, min(s.linf, short)))
    assert not replayed(less, *worst).ok


def test_a_mean_beside_a_variance_with_public_n_costs_an_eighth_more_noise():
    """ε = 1: 9/8 of the noise of a mean alone and 9/4 of that of squares alone, not twice each."""
    low = public("AVG(x) AS a, VAR(x) AS v", 0, 1000)
    plan = pl.price(low, pl.Ask(Fraction(1)))
    mean, spread = low.formulas
    scale = float(plan.parts[0].law.scale)
    assert scale * float(mean.step) == pytest.approx(1000 * 9 / 8, rel=1e-4)
    assert scale / spread.times[1] == pytest.approx(500**2 * 9 / 4, rel=1e-4)
    by_rho = pl.price(low, pl.Ask(rho=Fraction(1, 2)))
    assert by_rho.parts[0].law.std * float(mean.step) == pytest.approx(1000, rel=1e-4)
    # the interval of the mean is that of its own noise, and both statistics agree with the data
    rows = [{"x": x} for x in (0, 250, 500, 1000)] * 500
    answer = Answer(measure(pl.price(low, pl.Ask(Fraction(1000))), Reference({"t": rows}), SALT))
    ((a, v),) = [(row["a"], row["v"]) for row in answer.to_dicts()]
    assert a == pytest.approx(437.5, abs=0.05)
    assert v == pytest.approx(136718.75 * 2000 / 1999, abs=50)


@pytest.mark.parametrize("offer", ["epsilon", "rho"])
@pytest.mark.parametrize(("size", "near"), [(2000, True), (30, False)])
@pytest.mark.parametrize("high", [1000, 400])
def test_intervals_of_variances_with_public_n_hold_and_are_those_of_one_noise(
    offer, size, near, high
):
    """2000 releases; fewer inside than the 1e-11 quantile allows is refused. Half of the noise (the
    mutant) is; where rows are many, width is that of the noise, and narrower than by two boxes."""
    low = public("VAR_POP(x) AS v, AVG(x) AS a", 0, 1000)
    plan = pl.price(low, pl.Ask(**{offer: Fraction(1, 2)}))
    formula, law = low.formulas[0], plan.parts[0].law
    a, b = formula.times
    x = [i * high // (size - 1) for i in range(size)]
    mean, square = sum(x) / size, sum(v * v for v in x) / size
    centre = 500
    exact = (
        a * sum(v - centre for v in x),
        b * sum((v - centre) ** 2 - formula.half for v in x),
    )
    runs = 2000
    noisy = [pl.Numbers(tuple(int(e + n) for n in law.sample(runs)), law) for e in exact]
    releases = [None, None, None]
    releases[formula.first], releases[formula.second] = noisy
    releases[formula.count] = pl.Numbers((size,) * runs, None)
    truth = square - mean**2

    def inside(told):
        told = [r if r.law is None else replace(r, law=told) for r in releases]
        box = formula.box(told, 0.95)
        return int(((box.low <= truth) & (truth <= box.high)).sum()), box

    least = stats.binom.ppf(1e-11, runs, 0.95)
    found, box = inside(law)
    assert found >= least
    estimate = formula.estimate(releases)
    assert ((box.low <= estimate) & (estimate <= box.high)).all()
    assert len(formula.statements(releases)) == 1
    if near:
        half = law.scale / 2 if offer == "epsilon" else law.std / 2
        assert inside(type(law)(Fraction(half)))[0] < least
        spread = law.std / size * ((2 * (mean - centre) / a) ** 2 + 1 / b**2) ** 0.5
        plain = formula._combined(releases, 0.975)
        wide = [float(np.median(each.high - each.low)) for each in (box, plain)]
        assert 3.5 * spread < wide[0] < 4.8 * spread
        assert wide[1] > 1.1 * wide[0]
    else:
        assert (box.low == formula._combined(releases, 0.975).low).all()


# -- margins and laws ------------------------------------------------------------------------


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_margins_of_a_count_beside_a_mean_are_met_at_the_least_price(currency):
    low = lowered("COUNT(*) AS n, AVG(x) AS a", SHAPES[0], "add-remove")
    ask = pl.Ask(within={"n": Fraction(25)}, currency=currency)
    plan = pl.price(low, ask)
    assert plan.noise == ("laplace" if currency == "epsilon" else "gaussian")
    laws = [priced.noise for priced in plan.outlets]
    assert low.formulas[0].half(laws, 0.95) <= 25
    # a price lower by half a thousandth would not do
    spent = plan.cost.epsilon if currency == "epsilon" else plan.cost.rho
    less = {currency: spent * Fraction(9995, 10000)}
    cheaper = pl.price(low, pl.Ask(**less))
    assert low.formulas[0].half([x.noise for x in cheaper.outlets], 0.95) > 25


def test_a_budget_in_rho_takes_the_law_of_less_rho_and_says_so():
    low = lowered("COUNT(*) AS n", SHAPES[2], "add-remove")
    ask = pl.Ask(Fraction(1), delta=Fraction(1, 10**6))
    by_error = pl.price(low, ask)
    by_rho = pl.price(low, replace(ask, currency="rho"))
    assert (by_error.noise, by_rho.noise) == ("laplace", "gaussian")
    assert by_rho.cost.rho < by_error.cost.rho
    assert by_rho.why == "Gaussian noise costs less ρ here"
    for plan in (by_error, by_rho):
        assert (plan.cost.epsilon, plan.cost.delta) <= (1, Fraction(1, 10**6))


# -- outputs that are linear -----------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize(
    "out",
    ["SUM(x) - 3 * COUNT(*)", "COUNT(*) - COUNT(x) / 2 + 2 * SUM(x)", "(SUM(y) - COUNT(*)) / 4"],
)
def test_a_linear_output_asked_alone_is_one_vector(out, shape, relation):
    low = lowered(f"{out} AS d", shape, relation)
    (part,) = low.parts
    assert part.outlets == 1
    pairs = (
        [([], [r]) for r in ROWS]
        if relation == "add-remove"
        else [([a], [b]) for a, b in itertools.product(ROWS, ROWS)]
    )
    found = [moves(part, low.aggregates[0], *pair) for pair in pairs]
    s = part.sensitivity
    assert tuple(max(f[i] for f in found) for i in range(3)) == (s.l1, s.l2_squared, s.linf)


def test_a_linear_output_beside_others_is_one_combination():
    low = lowered("SUM(x) - 3 * COUNT(*) + 1 AS d, COUNT(*) AS n", SHAPES[0], "add-remove")
    assert len(low.parts) == 1
    assert isinstance(low.formulas[-1], pl.WeightedSum)
    assert low.outputs[0].expr == pl.Apply("+", (pl.StatisticValue(2), pl.Number(Fraction(1))))


def test_a_share_of_counts_is_a_mean_with_one_interval():
    low = lowered("COUNT(*) FILTER (WHERE x > 0) / COUNT(*) AS p", SHAPES[2], "add-remove")
    share = low.formulas[low.outputs[1].expr.index]
    assert isinstance(share, pl.Quotient)
    assert (share.lo, share.hi) == (0, 1)


# -- records ---------------------------------------------------------------------------------


def test_records_of_split_shares_are_still_read():
    """A record of the version that measured means as a centred sum and a count."""
    text = Path(__file__).with_name("record_of_split_shares.json").read_text(encoding="utf-8")
    answer = Answer.from_record(text)
    first = answer.to_dicts()[0]
    assert (first["n"], first["d"]) == (205, 164)
    assert first["a"] == pytest.approx(3.9609756)
    assert first["sd"] == pytest.approx(2.9577812)
    low, high = answer.interval(0.95)[0]["a"]
    assert (low, high) == (pytest.approx(3.5684210), pytest.approx(4.3473684))


def test_records_of_joint_parts_are_read_back_and_checked():
    low = lowered("COUNT(*) AS n, AVG(x) AS a, VAR(x) AS v", SHAPES[2], "add-remove")
    plan = pl.price(low, pl.Ask(Fraction(1)))
    record = measure(plan, Reference({"t": ROWS}), SALT).to_dict()
    answer = Answer.from_record(json.dumps(record))
    assert answer.record() == record
    for damage in (
        {"weights": ["1"]},
        {"cells": [0, 1]},
        {"cells": [0, 1, 9]},
        {"top": ["1", "x", "1"]},
        {"lo": "5", "hi": "1"},
        {"total": 0},
    ):
        for i, formula in enumerate(record["formulas"]):
            if damage.keys() <= formula.keys():
                broken = record | {
                    "formulas": [
                        f | damage if j == i else f for j, f in enumerate(record["formulas"])
                    ]
                }
                with pytest.raises(ParameterError):
                    Answer.from_record(broken)
