"""Statistics of two columns: nine cells at one price, intervals that hold, slopes that are honest.

Statistical tests draw noise of seeded generators, or state how rarely they fail.
"""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet import inference as inf
from discreet import plan as pl
from discreet import policy as pol
from discreet import sql
from discreet.answer import Answer
from discreet.curator import fresh_salt, measure
from discreet.engines import Reference
from discreet.noise import DiscreteLaplace, _deterministic
from discreet.plan import _tails as tails
from discreet.plan._moments import MOMENTS

WORDS = {
    "REGR_SLOPE": lambda y, x: stats.linregress(x, y).slope,
    "REGR_INTERCEPT": lambda y, x: stats.linregress(x, y).intercept,
    "REGR_R2": lambda y, x: stats.linregress(x, y).rvalue ** 2,
    "CORR": lambda y, x: np.corrcoef(x, y)[0, 1],
    "COVAR_SAMP": lambda y, x: np.cov(x, y)[0, 1],
    "COVAR_POP": lambda y, x: np.cov(x, y, ddof=0)[0, 1],
    "REGR_COUNT": lambda _, x: len(x),
    "REGR_AVGX": lambda _, x: x.mean(),
    "REGR_AVGY": lambda y, _: y.mean(),
    "REGR_SXX": lambda _, x: ((x - x.mean()) ** 2).sum(),
    "REGR_SXY": lambda y, x: ((x - x.mean()) * (y - y.mean())).sum(),
    "REGR_SYY": lambda y, _: ((y - y.mean()) ** 2).sum(),
}
SELECT = ", ".join(f"{name}(y, x) AS {name.lower()}" for name in WORDS)


def table(neighbours="add-remove", unit=None, **limits):
    columns = [
        pol.Integer("id", 0, 100),
        pol.Integer("x", -20, 100),
        pol.Real("y", 0, 50, step="0.5"),
        pol.Category("g", ["a", "b"]),
    ]
    return pol.Table("t", columns, unit=unit, neighbours=neighbours, **limits)


def lowered(text, own):
    policy = pol.Policy(tables=[own], budget=pol.Budget("1"))
    return pl.lower(sql.parse(text, policy).query)


def data(rng, n):
    x = rng.integers(-20, 101, n)
    y = np.clip(np.round((10 + 0.2 * x + rng.normal(0, 5, n)) * 2) / 2, 0, 50)
    return x.astype(float), y


def test_all_statistics_of_a_pair_cost_as_much_as_one():
    """One part and one loss; at this ε the noise is far below the tolerance (1e-300)."""
    x, y = data(np.random.default_rng(0), 400)
    policy = {
        "policy": {"name": "pairs"},
        "budget": {"epsilon": "1e7", "accounting": "pure"},
        "tables": {
            "t": {
                "columns": {
                    "x": {"type": "integer", "min": -20, "max": 100},
                    "y": {"type": "real", "min": 0, "max": 50, "step": "0.5"},
                }
            }
        },
    }
    rows = pa.table({"x": [*x, None, 3], "y": [*y, 7.0, None]})
    curator = dc.open(rows, policy=policy, ledger=":memory:")
    answer = curator.sql(f"SELECT {SELECT} FROM t", epsilon=1_000_000)
    assert len(answer.parts) == 1
    assert answer.cost["epsilon"] == "1000000"
    (row,) = answer.to_dicts()
    (ends,) = answer.interval()
    for name, truth in WORDS.items():
        exact = truth(y, x)
        assert row[name.lower()] == pytest.approx(exact, rel=1e-3)
        low, high = ends[name.lower()]
        assert low - 1e-9 <= exact <= high + 1e-9
        assert high - low <= 0.01 * abs(exact) + 0.1
    assert Answer.from_record(answer.record()).to_dicts() == answer.to_dicts()
    fluent = curator.table("t").agg(b=dc.slope("y", on="x"), r=dc.corr("y", "x"))
    same = fluent.answer(epsilon=1_000_000).to_dicts()[0]
    assert same["b"] == pytest.approx(row["regr_slope"], rel=1e-3)


@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
def test_both_orders_of_a_pair_are_one_draw(neighbours):
    """They were two at half the price each, although the nine cells are the same, transposed."""
    own = table(neighbours)
    one = ", ".join(f"{w}(y, x) AS {w.lower()}" for w in WORDS)
    other = ", ".join(f"{w}(x, y) AS {w.lower()}_t" for w in WORDS)
    plans = [
        pl.price(lowered(f"SELECT {text} FROM t", own), pl.Ask(Fraction(1)))
        for text in (one, other, f"{one}, {other}")
    ]
    assert len({repr((p.parts, p.losses)) for p in plans}) == 1
    x, y = data(np.random.default_rng(3), 400)
    rows = [
        {"id": 0, "x": a, "y": b, "g": "a"}
        for a, b in zip(x.astype(int).tolist(), y.tolist(), strict=True)
    ]
    answers = []
    for plan in plans:
        with _deterministic.deterministic("pairs"):
            answers.append(Answer(measure(plan, Reference({"t": rows}), fresh_salt())))
    first, second, both = (a.to_dicts()[0] | {"ends": a.interval()[0]} for a in answers)
    for told in (first, second):
        ends = told.pop("ends")
        assert told.items() <= both.items()
        assert {n: pytest.approx(e) for n, e in ends.items()} == {n: both["ends"][n] for n in ends}
    turned = {"sxx": "syy", "avgx": "avgy"}
    for word in ("corr", "covar_samp", "covar_pop", "regr_r2", "regr_sxy", "regr_count"):
        assert both[f"{word}_t"] == pytest.approx(both[word])
        assert both["ends"][f"{word}_t"] == pytest.approx(both["ends"][word])
    for word, same in (turned | {b: a for a, b in turned.items()}).items():
        assert both[f"regr_{word}_t"] == pytest.approx(both[f"regr_{same}"])
        assert both["ends"][f"regr_{word}_t"] == pytest.approx(both["ends"][f"regr_{same}"])
    # the slopes of both orders are two statements, whose product is R²
    assert both["regr_slope"] * both["regr_slope_t"] == pytest.approx(both["regr_r2"])
    again = Answer.from_record(answers[2].record())
    assert again.to_dicts() == answers[2].to_dicts()
    assert stats.linregress(y, x).slope == pytest.approx(both["regr_slope_t"], rel=0.5)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
def test_a_sample_covariance_is_as_sharp_as_the_other(neighbours, sign):
    """n is bounded on both sides: n/(n−1) moves both ends. A draw fails with probability 1e-9."""
    x = np.arange(100) - 20
    own = {"x": {"type": "integer", "min": -20, "max": 100}}
    own["y"] = {"type": "integer", "min": -100, "max": 100}
    policy = {
        "policy": {"name": "pairs"},
        "budget": {"epsilon": "1e7", "accounting": "pure"},
        "tables": {"t": {"neighbours": neighbours, "columns": own}},
    }
    rows = pa.table({"x": x, "y": sign * x})
    answer = dc.open(rows, policy=policy, ledger=":memory:").sql(
        "SELECT COVAR_SAMP(y, x) AS s, COVAR_POP(y, x) AS p FROM t", epsilon=10_000
    )
    (ends,) = answer.interval("0.999999999")
    exact, wide = np.cov(x, sign * x)[0, 1], [high - low for low, high in ends.values()]
    assert ends["s"][0] <= exact <= ends["s"][1]
    assert wide[0] <= 1.1 * wide[1]


@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
@pytest.mark.parametrize(
    "text", [f"SELECT {SELECT} FROM t", f"SELECT g, {SELECT} FROM t GROUP BY g"]
)
def test_no_neighbour_moves_the_cells_further_than_declared(neighbours, text):
    """Replay of random and extreme neighbours; a price of one cell alone would not hold."""
    own = table(neighbours, unit="id", max_rows_per_unit=3)
    plan = lowered(text, own)
    (part,) = plan.parts
    (aggregate,) = [a for a in plan.aggregates if a.measures]
    rng, pairs = np.random.default_rng(1), []
    corners = [(-20, 0.0), (100, 50.0), (-20, 50.0), (100, 0.0), (40, 25.0)]

    def person(i, trial):
        for j in range(3):
            x, y = int(rng.integers(-20, 101)), float(rng.integers(0, 101)) / 2
            if trial % 2:
                x, y = corners[(i + trial) % 5]
            yield {"id": i, "x": x, "y": y, "g": "ab"[j % 2 if trial % 3 else 0]}

    for trial in range(60):
        base = [*person(1, trial), *person(2, trial)]
        other = [*base, *person(3, trial)]
        if neighbours == "change-one":
            other = [r for r in other if r["id"] != 2]
        pairs.append(
            [Reference({"t": rows}).execute(aggregate, fresh_salt()) for rows in (base, other)]
        )
        assert part.moved(*pairs[-1]) == []
    short = replace(part, sensitivity=pl.Sensitivity(part.sensitivity.l1 // 4, 10**60, 1))
    assert any(short.moved(*pair) for pair in pairs)


@pytest.mark.parametrize(("kind", "nine"), [("mid", 21.1), ("skew", 60.8), ("null", 35.5)])
def test_the_noise_of_a_slope_is_that_of_the_recipe(kind, nine):
    """Standard deviation·n·ε of the slope's noise, to first order, against the table."""
    rng = np.random.default_rng(3)
    n = 400_000
    if kind == "mid":
        u, slope, sd = np.clip(rng.normal(0.5, 0.2, n), 0, 1), 0.4, 0.1
    elif kind == "skew":
        u, slope, sd = rng.beta(1.2, 6, n), 0.3, 0.1
    else:
        u, slope, sd = rng.beta(2, 5, n), 0.0, 0.15
    v = np.clip(0.3 + slope * u + rng.normal(0, sd, n), 0, 1)
    m = np.array([1, u.mean(), v.mean(), (u * u).mean(), (u * v).mean(), (v * v).mean()])
    vx, cxy = m[3] - m[1] ** 2, m[4] - m[1] * m[2]
    beta = cxy / vx
    r = m[2] - beta * m[1]
    g = np.array([m[1] * r, -r + beta * m[1], -m[1], -beta, 1, 0]) / vx
    found = np.sqrt(2) * np.linalg.norm(g @ MOMENTS)
    assert found == pytest.approx(nine, rel=0.12)


# -- coverage of the noise alone ----------------------------------------------------------


def answers(text, ask, x, y, replicates):
    """Answers whose noise is drawn fast, around the exact cells of fixed data."""
    plan = pl.price(lowered(text, table()), ask)
    (aggregate,) = [a for a in plan.lowered.aggregates if a.measures]
    rows = [
        {"id": i, "x": int(a), "y": float(b), "g": "a"}
        for i, (a, b) in enumerate(zip(x, y, strict=True))
    ]
    exact = Reference({"t": rows}).execute(aggregate, fresh_salt())

    class Fixed:
        def execute(self, _aggregate, _salt):
            return exact

    template = measure(plan, Fixed(), fresh_salt())
    (part,) = template.parts
    cells = np.array([exact[()][m] for m in plan.lowered.parts[0].measures], dtype=object)
    fresh = os.environ.get("DISCREET_FRESH")
    rng = np.random.default_rng(None if fresh else crc32(text.encode()))
    noise = inf.Noise(part.law)
    for _ in range(replicates):
        drawn = noise.simulate(rng, 9).astype(object)
        values = (tuple(int(c) + int(d) for c, d in zip(cells, drawn, strict=True)),)
        yield Answer(replace(template, parts=(replace(part, values=values),)))


CHEAP = {"REGR_COUNT", "REGR_AVGX", "REGR_AVGY"}
"""Intervals of the others take 4 to 14 ms each."""


@pytest.mark.parametrize(
    ("name", "replicates"),
    [(name, 1000 if name in CHEAP else 100) for name in WORDS]
    + [pytest.param(name, 10_000, marks=pytest.mark.long) for name in WORDS],
)
def test_intervals_of_pairs_hold(name, replicates):
    """Misses beyond what a binomial at 5 % passes with probability 1e-9."""
    x, y = data(np.random.default_rng(5), 300)
    truth = WORDS[name](y, x)
    found = answers(f"SELECT {name}(y, x) AS v FROM t", pl.Ask(Fraction(1)), x, y, replicates)
    ends = [a.interval(0.95)[0]["v"] for a in found]
    missed = sum(not low - 1e-9 <= truth <= high + 1e-9 for low, high in ends)
    assert missed <= stats.binom.isf(1e-9, replicates, 0.05)


@pytest.mark.parametrize("kind", ["even", "just below the middle of a step", "one side each"])
def test_intervals_allow_for_columns_that_are_rounded(kind):
    """Hardly any noise, so that only rounding is left; taken for exact (the mutant) it is seen.

    Values 0 … 200 000 are rounded to steps of 25. Noise of ε = 10⁷ misses with probability 1e-9."""
    high, rng = 200_000, np.random.default_rng(5)
    x = rng.integers(0, high // 25, 500) * 25
    y = np.clip(x // 50 * 25 + rng.integers(-400, 400, 500) * 25, 25, high - 25)
    if kind == "even":
        x, y = x + rng.integers(0, 25, 500), y + rng.integers(0, 25, 500)
    elif kind == "one side each":
        x, y = x + np.where(x > high / 2, 12, 13), y + np.where(x > high / 2, 12, -12)
    else:
        x, y = x + 12, y + 12
    columns = [pol.Integer("x", 0, high), pol.Integer("y", 0, high)]
    policy = pol.Policy([pol.Table("t", columns)], pol.Budget("1e9"))
    asked = dc.open(pa.table({"x": x, "y": y}), policy=policy, ledger=":memory:")
    answer = asked.sql(f"SELECT {SELECT} FROM t", epsilon="1e7")
    exact = {name.lower(): truth(y, x) for name, truth in WORDS.items()}
    (box,) = answer.interval(1 - 1e-9)
    for name, truth in exact.items():
        low, high_end = box[name]
        assert low <= truth <= high_end, name
        assert high_end - low <= (300 if "intercept" in name else 0.02 * abs(truth)), name
    record = answer.record()
    for formula in record["formulas"]:
        for name in ("x_off", "y_off"):
            assert formula.pop(name) == "25/2"  # as records of earlier releases lack it
    (blind,) = Answer.from_record(record).interval(1 - 1e-9)
    seen = sum(not low <= exact[name] <= top for name, (low, top) in blind.items())
    assert seen >= 3


@pytest.mark.parametrize(
    ("x", "y", "steps"),
    [
        (100, 200_000, (1, 1)),
        (200_000, 100, (1, 1)),
        (200_000, 200_000, (25, 25)),
        (1000, 10**7, (1, 150)),
        (8192, 8193, (1, 2)),
        (10**12, 1, (14902, 1)),
    ],
)
def test_columns_are_rounded_no_more_than_both_together_need(x, y, steps):
    columns = [pol.Integer("x", 0, x, null=0), pol.Integer("y", 0, y, null=0)]
    low = lowered("SELECT CORR(y, x) AS r FROM t", pol.Table("t", columns))
    (formula,) = (f for f in low.formulas if isinstance(f, pl.Pairwise))
    assert formula.whole <= 2**52
    found = [2 * off if off else 1 for off in (formula.x_off, formula.y_off)]
    assert tuple(found) == steps
    assert formula.x_range >= x - steps[0]


def test_half_the_noise_fails_the_same_harness():
    x, y = data(np.random.default_rng(5), 300)
    truth = WORDS["REGR_SLOPE"](y, x)
    text = "SELECT REGR_SLOPE(y, x) AS v FROM t"
    missed = 0
    for a in answers(text, pl.Ask(Fraction(1, 2)), x, y, 80):
        (part,) = a.parts
        told = replace(part, law=DiscreteLaplace(part.law.scale / 4))
        low, high = Answer(replace(a.full_record, parts=(told,))).interval()[0]["v"]
        missed += not low <= truth <= high
    assert missed > stats.binom.isf(1e-9, 80, 0.05)


def test_a_slope_that_the_noise_hides_is_said_to_be_undetermined():
    x, y = data(np.random.default_rng(5), 30)
    (answer,) = answers("SELECT REGR_SLOPE(y, x) AS b FROM t", pl.Ask(Fraction(1, 100)), x, y, 1)
    assert answer.interval()[0]["b"] == (-np.inf, np.inf)
    assert "not determined at this ε" in repr(answer)


def test_two_numbers_are_needed():
    with pytest.raises(dc.errors.DiscreetError):
        lowered("SELECT CORR(x, g) AS r FROM t", table())
    with pytest.raises(dc.errors.DiscreetError):
        lowered("SELECT CORR(x) AS r FROM t", table())


def test_few_terms_of_a_tail_are_as_good_as_many(monkeypatch):
    """Random weights, some zero; few terms alone (the mutant) miss the tail of one noise."""
    rng = np.random.default_rng(3)
    weights = rng.uniform(-1, 1, (400, 9)) * (
        rng.integers(0, 2, (400, 9)) | np.eye(9, dtype=int)[0]
    )
    x = rng.uniform(0, 6000, 400)
    one, law = np.eye(9)[:1], DiscreteLaplace(1000)
    short = tails.wave_tail(x, weights, law)
    pairs = zip(x, weights, strict=True)
    each = np.array([tails.wave_tail(np.array([a]), w[None], law)[0] for a, w in pairs])
    monkeypatch.setattr(tails, "_FEW", tails._POINTS)
    long = tails.wave_tail(x, weights, law)
    assert np.abs(short - long).max() < 4e-5
    assert np.abs(each - long).max() < 4e-5
    exact = np.exp(-(3000 - 1.5) / 1000)
    assert 0 <= tails.wave_tail(np.array([3000.0]), one, law)[0] - exact < 4e-4
    monkeypatch.setattr(tails, "_POINTS", 24)
    assert abs(tails.wave_tail(np.array([3000.0]), one, law)[0] - exact) > 4e-4


def test_an_interval_of_a_correlation_is_that_of_one_combination():
    """A skewed column: less than half as wide as by interval arithmetic from three moments."""
    rng = np.random.default_rng(8)
    x = rng.beta(1.2, 6, 20_000)
    y = np.clip(0.3 * x + 0.2 + rng.normal(0, 0.1, x.size), 0, 1)
    rows = pa.table({"x": (1000 * x).astype(int), "y": (1000 * y).astype(int)})
    own = pol.Table("t", [pol.Integer("x", 0, 1000), pol.Integer("y", 0, 1000)])
    asked = dc.open(rows, policy=pol.Policy([own], pol.Budget("9")), ledger=":memory:")
    words = "CORR(y, x) AS r, REGR_SXX(y, x) AS xx, REGR_SXY(y, x) AS xy, REGR_SYY(y, x) AS yy"
    answer = asked.sql(f"SELECT {words} FROM t", epsilon=1)
    (ends,) = answer.interval(0.95)
    low, high = ends["r"]
    assert low < np.corrcoef(rows["x"], rows["y"])[0, 1] < high
    (third,) = answer.interval(1 - 0.05 / 3)
    least, most = (
        third["xy"][i] / np.sqrt(third["xx"][1 - i] * third["yy"][1 - i]) for i in (0, 1)
    )
    assert 2 * (high - low) < most - least
