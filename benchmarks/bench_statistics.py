"""More statistics at equal loss: people with several rows, pairs of columns, ratios, modes, zCDP.

``make bench-accuracy`` runs this after ``bench_accuracy``. Each line has our error, the median
width of our 95 % intervals, the best known figure and, where its interface gives the same unit at
the same loss, OpenDP's. It says BEHIND where one of these is ahead by more than 5 %, or where our
interval is wider by more than a tenth than it need be. ``--markdown`` prints the table of
docs/accuracy.md instead.

*Ours* are parsed, lowered and priced as a curator does it; the reference engine gives exact
integers once, and every cell of the release that follows is a replicate. What needs more than the
formula of one output (ratios, choices, fits) goes through a curator as a whole.

*Best known.* Sums, means and variances: the first-order deviation of the best published mechanism,
times the rows of a unit (where units are replaced, √2 times that for a mean and twice for a
variance, whose cells then move twice).
Slopes: nine tensor cells, and under zCDP a convex design, with figures of the research that the
recipes come from. CORR: the same cells, by its gradient. Medians: the exponential mechanism.
Choices by noise, MODE and the test: simulations of a review.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import discreet as dc
from benchmarks.bench_accuracy import (
    Table,
    best_linear,
    exponential,
    flipped,
    generated,
    lattice_counts,
    linear_cases,
    opendp_linear,
    opendp_prelude,
    quantile_errors,
    quantile_width,
    rms,
)
from benchmarks.figures import (
    BOXES,
    HIGH,
    RUNS,
    Data,
    Figure,
    Floats,
    integer,
    markdown,
    numbers,
    plain,
    scaled,
)
from discreet import inference as inf
from discreet import noise
from discreet import policy as pol
from discreet.plan._quantiles import Rank

RELATIONS = ("add-remove", "change-one")
EPSILONS = ("0.1", "0.5", "1")
RHOS = ("0.005", "0.125", "0.5")


# -- people with two to four rows, of which three count -----------------------------------------

LIMIT = 3
REPLACED = {"COUNT": 1, "SUM": 1, "AVG": math.sqrt(2), "VAR": 2}
"""Errors where a person is replaced: a total moves as far as one person goes, cells twice."""


def people() -> Iterator[Figure]:
    """Statistics of one column where a person is the unit: all rows of a person are alike."""
    for kind in ("uniform", "skewed"):
        for persons in (200, 2000):
            x = generated(kind, persons)
            count = np.random.default_rng(2).integers(2, 5, persons)
            kept = Table(kind, np.repeat(x, np.minimum(count, LIMIT)))
            own = np.repeat(np.arange(persons), count)
            rows = numbers(x=np.repeat(x, count), id=own)
            where = f"{kind}, {persons} people"
            for relation in RELATIONS:
                declared = {"unit": "id", "max_rows_per_unit": LIMIT, "neighbours": relation}
                data = Data((integer("x", null=0),), rows, declared)
                for epsilon in EPSILONS:
                    yield from _people(data, kept, where, epsilon)
                    yield _median_of_people(data, kind, persons, where, epsilon)


def _people(data: Data, kept: Table, where: str, epsilon: str) -> Iterator[Figure]:
    relation, eps = data.declared["neighbours"], float(epsilon) / LIMIT
    price = "epsilon", epsilon
    alone = relation == "add-remove"
    peers = opendp_linear(kept, eps, RUNS) if alone else {}
    best = best_linear(kept, eps)
    for what, (text, truth) in linear_cases(kept).items():
        ((error, width),) = data.ours(f"{text} AS v", price, [truth])
        known = best[what] * (1 if alone else REPLACED[what])
        yield Figure(what, where, relation, price, error, width, known, peers.get(what))


def _median_of_people(data: Data, kind: str, persons: int, where: str, epsilon: str) -> Figure:
    """Exact errors over a few tables of people with three rows, or two."""
    relation = data.declared["neighbours"]
    times = LIMIT if relation == "add-remove" else 2 * LIMIT
    shares = data.priced("MEDIAN(x) AS v", ("epsilon", epsilon)).parts
    tables = []
    for seed in range(1, 41):
        count = np.random.default_rng(seed).integers(2, 5, persons)
        x = generated(kind, persons, seed)
        tables.append(Table(kind, np.repeat(x, np.minimum(count, LIMIT))))
    eps = float(epsilon) / times
    laws = np.array([quantile_errors(t, "0.5", eps, shares) for t in tables])
    ours, opendp, _, best = (rms(column) for column in laws.T)
    width = float(np.median([quantile_width(t, "0.5", shares[0]) for t in tables[:20]]))
    peer = opendp if opendp_prelude() is not None and relation == "add-remove" else None
    return Figure("MEDIAN", where, relation, ("epsilon", epsilon), ours, width, best, peer)


# -- two columns --------------------------------------------------------------------------------

SLOPES = {
    "N(.5, .2)": (21.1, 7.8, 0.0217),
    "beta(1.2, 6)": (60.8, 23.2, 0.030),
    "beta(2, 5)": (35.5, 14.8, 0.042),
}
"""Slope noise times nε and times n√ρ; width of the population's interval of 10⁴ rows at ε = 1."""
ROWS, COPIES = 10_000, 10


@cache
def design(name: str) -> tuple[Floats, Floats]:
    """Two columns of the research, in thousandths."""
    rng = np.random.default_rng(7)
    if name == "N(.5, .2)":
        x = np.clip(rng.normal(0.5, 0.2, ROWS), 0, 1)
        y = 0.3 + 0.4 * x + rng.normal(0, 0.1, ROWS)
    elif name == "beta(1.2, 6)":
        x = rng.beta(1.2, 6, ROWS)
        y = 0.05 + 0.3 * x + rng.exponential(0.05, ROWS)
    else:
        x, y = rng.beta(2, 5, ROWS), rng.beta(2, 5, ROWS)
    x, y = (np.rint(HIGH * np.clip(v, 0, 1)).astype(int) for v in (x, y))
    return x, y


def _slope(m: Floats) -> float:
    return float((m[4] - m[1] * m[2]) / (m[3] - m[1] ** 2))


def _correlation(m: Floats) -> float:
    squares = (m[3] - m[1] ** 2) * (m[5] - m[2] ** 2)
    return float((m[4] - m[1] * m[2]) / math.sqrt(squares))


def cells_noise(x: Floats, y: Floats, of: Callable[[Floats], float]) -> float:
    """√2 times the length of a statistic's gradient in nine tensor cells: its noise times nε."""
    powers = (np.array([1, 1, 1]), np.array([0, 0.5, 1]), np.array([0, 0, 1]))
    order = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    cells = np.stack([np.kron(powers[i], powers[j]) for i, j in order])
    s, t, h = x / HIGH, y / HIGH, 1e-6
    moments = np.array([np.mean(s**i * t**j) for i, j in order])

    def per_row(change: Floats) -> float:
        moved = moments + change
        return of(moved / moved[0])

    steps = [(per_row(h * c) - per_row(-h * c)) / (2 * h) for c in cells.T]
    return math.sqrt(2) * float(np.linalg.norm(steps))


def pairs() -> Iterator[Figure]:
    """REGR_SLOPE and CORR in SQL."""
    columns = integer("x", null=0), integer("y", null=0)
    for name, (laplace, convex, _) in SLOPES.items():
        x, y = design(name)
        rows, n = numbers(x=x, y=y), ROWS * COPIES
        slope = float(np.polyfit(x, y, 1)[0])
        correlation = float(np.corrcoef(x, y)[0, 1])
        of_correlation = cells_noise(x, y, _correlation)
        for relation in RELATIONS:
            data = Data(columns, rows, {"neighbours": relation}, COPIES)
            for price in (("epsilon", "1"), ("rho", "0.5")):
                pure = price[0] == "epsilon"
                # one row replaced moves two cells
                moved = 1 if relation == "add-remove" else 2 if pure else math.sqrt(2)
                gauss = of_correlation / 2
                for text, truth, one in (
                    ("REGR_SLOPE(y, x)", slope, laplace if pure else convex),
                    ("CORR(y, x)", correlation, of_correlation if pure else gauss),
                ):
                    ((error, width),) = data.ours(f"{text} AS v", price, [truth])
                    best, where = moved * scaled(price, one) / n, f"x {name}, n = 100 000"
                    yield Figure(
                        text,
                        where,
                        relation,
                        price,
                        error,
                        width,
                        best,
                        best_width=3.92 * best,  # so many rows: noise of nine cells is near normal
                    )


def fits(runs: int = 500) -> Iterator[Figure]:
    """`curator.regression`: noise alone, and widths of intervals for the population."""
    columns = integer("x"), integer("y")
    for name, (laplace, convex, wide) in SLOPES.items():
        x, y = design(name)
        slope, rows = float(np.polyfit(x, y, 1)[0]), numbers(x=x, y=y)
        for relation in RELATIONS:
            data = Data(columns, rows, {"neighbours": relation})
            for kind, amount in (("epsilon", "1"), ("rho", "0.5")):
                pure, curator = kind == "epsilon", data.curator(kind)
                asked = {kind: amount, "fresh": True}
                found = [curator.regression("y ~ x", **asked) for _ in range(runs)]
                error = rms(np.array([fit.params["x"] - slope for fit in found]))
                ends = [fit.conf_int()["x"] for fit in found[:BOXES]]
                width = float(np.median([high - low for low, high in ends]))
                moved = 1 if relation == "add-remove" else 2 if pure else math.sqrt(2)
                best = moved * scaled((kind, amount), laplace if pure else convex) / ROWS
                known = wide if pure and relation == "add-remove" else None
                where = f"x {name}, n = 10 000"
                yield Figure(
                    "regression y ~ x",
                    where,
                    relation,
                    (kind, amount),
                    error,
                    width,
                    best,
                    best_width=known,
                    doubt=2 * 1.2 / math.sqrt(2 * runs),  # tails a little heavier than normal
                )


# -- sums ---------------------------------------------------------------------------------------


def sums() -> Iterator[Figure]:
    """Two sums, their ratio, a nullable column, a sum less a count."""
    x, y = generated("uniform", 500), generated("uniform", 500, 2)
    for relation in RELATIONS:
        alone = relation == "add-remove"
        declared = {"neighbours": relation}
        data = Data((integer("x", null=0), integer("y", null=0)), numbers(x=x, y=y), declared)
        price = ("epsilon", "1")
        where = "uniform, n = 500"
        each = data.ours("SUM(x) AS v, SUM(y) AS w", price, [float(x.sum()), float(y.sum())])
        split = 2 * math.sqrt(2) * HIGH
        best = 2 * HIGH if alone else split
        for (error, width), name in zip(each, "xy", strict=True):
            what = f"SUM({name}) of SUM(x), SUM(y)"
            yield Figure(what, where, relation, price, error, width, best, split if alone else None)
        yield _ratio(data, relation)
        text, truth = "SUM(x) - 3 * COUNT(*) AS v", float(x.sum() - 3 * x.size)
        ((error, width),) = data.ours(text, price, [truth])
        reach = HIGH - 3 if alone else HIGH
        what, wide = text.removesuffix(" AS v"), 2 * math.log(20) * reach
        known = math.sqrt(2) * reach
        yield Figure(what, where, relation, price, error, width, known, best_width=wide)
        yield from _nullable(relation)


def _ratio(data: Data, relation: str, times: int = 1500) -> Figure:
    """Through a curator: its value and interval are computed from both sums' release."""
    curator, price = data.curator("epsilon"), ("epsilon", "1")
    x, y = (np.array([row[name] for row in data.rows]) for name in "xy")
    ratio = float(y.sum() / x.sum())
    text = "SELECT SUM(y) / SUM(x) AS r FROM t"
    found = [curator.sql(text, epsilon="1", fresh=True) for _ in range(times)]
    error = rms(np.array([answer.to_dicts()[0]["r"] for answer in found]) - ratio)
    ends = [answer.interval(0.95)[0]["r"] for answer in found[:BOXES]]
    width = float(np.median([high - low for low, high in ends]))
    unit = math.sqrt(2) * HIGH / float(x.sum())
    alone = relation == "add-remove"
    cells = unit * math.hypot(1, ratio, 1 - ratio) * (1 if alone else 2)
    split = 2 * unit * math.hypot(1, ratio)
    best, peer, what = min(cells, split), split if alone else None, "SUM(y) / SUM(x)"
    return Figure(what, "uniform, n = 500", relation, price, error, width, best, peer)


def _nullable(relation: str) -> Iterator[Figure]:
    """COUNT, SUM and AVG of a column of which a tenth is missing."""
    kept, missing = generated("uniform", 900), 100
    rows = [*numbers(x=kept), *({"x": None} for _ in range(missing))]
    data, price = Data((integer("x"),), rows, {"neighbours": relation}), ("epsilon", "0.5")
    truths = [1000.0, float(kept.sum()), float(kept.mean())]
    found = data.ours("COUNT(*) AS n, SUM(x) AS s, AVG(x) AS v", price, truths)
    known = best_linear(Table("uniform", kept), 0.5)
    alone = relation == "add-remove"
    times = 1 if alone else REPLACED["AVG"]  # one draw serves both; a sum alone would need less
    best = {
        "COUNT(*)": math.sqrt(6) / 0.5,
        "SUM(x)": times * known["SUM"],
        "AVG(x)": times * known["AVG"],
    }
    where = "uniform, 900 of 1 000 not null"
    for (what, one), (error, width) in zip(best.items(), found, strict=True):
        if alone or what != "COUNT(*)":  # the number of rows is public there
            name = f"{what} of COUNT, SUM, AVG"
            yield Figure(name, where, relation, price, error, width, one)


# -- MODE, zCDP ---------------------------------------------------------------------------------


def mode(times: int = 3000) -> Iterator[Figure]:
    """How often the most frequent of ten values is found."""
    keys, labels = [f"k{i:04d}" for i in range(times)], [f"v{i}" for i in range(10)]
    values = np.repeat(labels, [12, 10, 8, 7, 6, 5, 4, 4, 3, 1])
    table = pol.Table("t", [pol.Category("g", keys), pol.Category("v", labels)])
    rows = pa.table({"g": np.repeat(keys, values.size), "v": np.tile(values, times)})
    curator = dc.open(
        rows, policy=pol.Policy([table], pol.Budget("9"), name="mode"), ledger=":memory:"
    )
    answer = curator.sql("SELECT g, MODE(v) AS m FROM t GROUP BY g", epsilon="1")
    right = float(np.mean([row["m"] == "v0" for row in answer.to_dicts()]))
    where = "60 rows, 10 values: P(right)"
    yield Figure("MODE", where, "add-remove", ("epsilon", "1"), right, best=0.92, more=True)


def gaussian() -> Iterator[Figure]:
    """Statistics of one column under zCDP, beside OpenDP's Gaussian noise and its choice."""
    for kind in ("uniform", "skewed"):
        for n in (500, 5000):
            table = Table(kind, generated(kind, n))
            data = Data((integer("x", null=0),), numbers(x=table.x), {})
            where = f"{kind}, n = {n}"
            for rho in RHOS:
                price = "rho", rho
                sigma = 1 / math.sqrt(2 * float(rho))
                peers = opendp_gaussian(table, sigma)
                tau = abs(table.x.mean() / HIGH - 0.5) * 2
                best = {
                    "COUNT": sigma,
                    "SUM": sigma * HIGH,
                    "AVG": sigma * HIGH / (2 * n) * math.sqrt(2 + 2 * tau**2),
                }
                cases = linear_cases(table)
                for what, known in best.items():
                    text, truth = cases[what]
                    ((error, width),) = data.ours(f"{text} AS v", price, [truth])
                    peer = peers.get(what)
                    yield Figure(what, where, "add-remove", price, error, width, known, peer)
                yield _gaussian_median(data, kind, n, where, rho)


def opendp_gaussian(table: Table, sigma: float) -> dict[str, float]:
    """RMSE of OpenDP's count and sum alone, and of their ratio at half of ρ each."""
    if (dp := opendp_prelude()) is None:
        return {}
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=int)
    n, total = table.n, int(table.x.sum())

    def released(value: int, scale: float) -> Floats:
        return np.array((space >> dp.m.then_gaussian(scale))([value] * RUNS), dtype=np.float64)

    half = math.sqrt(2) * sigma
    mean = released(total, half * HIGH) / np.maximum(released(n, half), 1)
    return {
        "COUNT": rms(released(n, sigma) - n),
        "SUM": rms(released(total, sigma * HIGH) - total),
        "AVG": rms(np.clip(mean, 0, HIGH) - total / n),
    }


def _gaussian_median(data: Data, kind: str, n: int, where: str, rho: str) -> Figure:
    """Exact errors over a few tables: Gumbel noise is the exponential mechanism, ρ = ε²/8."""
    (made,) = data.priced("MEDIAN(x) AS v", ("rho", rho)).parts
    choice, eps = next(made.part.drawn(made.law)).choice, math.sqrt(8 * float(rho))
    scale = float((1 if choice.monotone else 2) * choice.sensitivity / choice.epsilon)
    tables, found = [Table(kind, generated(kind, n, seed)) for seed in range(1, 41)], []
    for table in tables:
        rank = math.ceil(table.n / 2) - 1
        truth = float(np.partition(table.x, rank)[rank])
        counts, step = lattice_counts(table, made.part)
        shown = np.arange(made.part.leaves) * step + (step - 1) // 2
        scores = Rank.quantile(Fraction(1, 2)).scores(counts).astype(float)
        law = flipped(scores, scale) if choice.flip else softmax(scores / scale)
        upto = np.cumsum(np.bincount(table.x, minlength=HIGH + 1))
        theirs = softmax(-eps * np.abs(np.append(0, upto[:-1]) - (n - upto)) / 2)
        squares = (np.arange(HIGH + 1) - truth) ** 2
        ours = law @ (np.minimum(shown, HIGH) - truth) ** 2
        best = exponential(table, 0.5, eps, truth)
        found.append([math.sqrt(ours), math.sqrt(theirs @ squares), best])
    error, opendp, best = (rms(column) for column in np.array(found).T)
    width = float(np.median([quantile_width(t, "0.5", made) for t in tables[:20]]))
    return Figure("MEDIAN", where, "add-remove", ("rho", rho), error, width, best, opendp)


def softmax(scores: Floats) -> Floats:
    """The law of the exponential mechanism."""
    p = np.exp(scores - scores.max())
    return p / p.sum()


def currency() -> Iterator[Figure]:
    """± of a count of people by `epsilon=` under zCDP, beside what its ρ gives by `rho=`."""
    columns = [
        pol.Category("sex", ["F", "M", "X"]),
        pol.Real("income", 0, 200_000, step="0.01"),
    ]
    table = pol.Table("t", columns, unit="id", max_rows_per_unit=2)
    budget = pol.Budget("1000", "1e-6", accounting="zcdp")
    rows = pa.table({"id": [1, 2], "sex": ["F", "M"], "income": [1.0, 2.0]})
    text = "SELECT sex, COUNT(*) AS n, AVG(income) AS pay FROM t GROUP BY sex"

    def margin(**offer: Any) -> tuple[float, Fraction]:
        # a ledger for each: what another offer has paid for would be given again
        policy = pol.Policy([table], budget, name=f"currency of {offer}")
        curator = dc.open(rows, policy=policy, ledger=":memory:")
        cost = curator.preview(text, **offer).plan.cost
        low, high = curator.sql(text, **offer).interval(0.95)[0]["n"]
        return (high - low) / 2, cost.rho

    where = "COUNT, AVG by sex, 2 rows a person"
    for offer in ({"epsilon": "0.5"}, {"epsilon": "0.5", "delta": "1e-6"}):
        ours, rho = margin(**offer)
        same, _ = margin(rho=rho)
        what, at = "± of COUNT by " + ", ".join(offer), f"{where}: ρ {float(rho):.4f}"
        yield Figure(what, at, "add-remove", ("epsilon", "0.5"), ours, 2 * ours, same)
    ours, _ = margin(rho="0.04157")
    price = "rho", "0.04157"
    yield Figure("± of COUNT by rho", where, "add-remove", price, ours, 2 * ours, 24)


# -- rows that noise chose, and a test ----------------------------------------------------------

CHOSEN = {"ORDER BY n DESC LIMIT 1": (0.966, 124), "HAVING COUNT(*) >= 140": (0.967, 124)}
"""Coverage and width of the hybrid interval; intervals that ignore the choice cover .099 and 0."""


def chosen(times: int = 1000) -> Iterator[Figure]:
    """Whether 95 % intervals of rows that noise chose cover: 100 groups of 100 rows each."""
    keys = [f"k{i:03d}" for i in range(100)]
    table = pol.Table("t", [pol.Category("g", keys)])
    policy = pol.Policy([table], pol.Budget("100000"), name="chosen")
    rows = pa.table({"g": np.repeat(keys, 100)})
    curator = dc.open(rows, policy=policy, ledger=":memory:")
    for clause, (best, wide) in CHOSEN.items():
        text, ends = f"SELECT g, COUNT(*) AS n FROM t GROUP BY g {clause}", []
        for _ in range(times):
            answer = curator.sql(text, epsilon="0.1", fresh=True)
            ends += [row["n"] for row in answer.interval(0.95)]
        low, high = np.array(ends).T
        cover = float(np.mean((low <= 100) & (high >= 100)))
        yield Figure(
            clause.replace("n DESC", "COUNT(*) DESC"),
            "100 groups of 100: coverage",
            "add-remove",
            ("epsilon", "0.1"),
            cover,
            float(np.median(high - low)),
            min(best, 0.95),
            best_width=wide,
            more=True,
        )


FITTED = [
    (1000, (0.5, 0.3, 0.1, 0.05, 0.05), (0.56, 0.24, 0.1, 0.05, 0.05), 10, 0.692),
    (1000, (0.5, 0.3, 0.1, 0.05, 0.05), (0.56, 0.24, 0.1, 0.05, 0.05), 20, 0.267),
    (2000, (0.7, 0.2, 0.05, 0.03, 0.02), (0.66, 0.24, 0.05, 0.03, 0.02), 10, 0.797),
    (1000, (0.25,) * 4, (0.3, 0.25, 0.25, 0.2), 10, 0.773),
]
"""Rows, the null, the truth, the scale of Laplace noise; power of the better of two statistics."""


def fitted(runs: int = 2000) -> Iterator[Figure]:
    """How often χ² goodness of fit finds it at 5 %; the number of rows is private."""
    rng = np.random.default_rng(1)
    for n, null, truth, scale, best in FITTED:
        law = noise.DiscreteLaplace(scale)
        counts = rng.multinomial(n, truth, runs)
        counts += inf.Noise(law).simulate(rng, counts.shape).astype(np.int64)
        tests = (inf.chisquare_gof(z, null, law=law, rng=i) for i, z in enumerate(counts))
        power = float(np.mean([test.pvalue <= 0.05 for test in tests]))
        where = f"n = {n}, {len(null)} cells from {null[0]}: power"
        price = "epsilon", f"{1 / scale:g}"
        yield Figure("goodness of fit", where, "add-remove", price, power, best=best, more=True)


# -- all ----------------------------------------------------------------------------------------

SECTIONS = (people, pairs, fits, sums, mode, gaussian, currency, chosen, fitted)


def figures() -> Iterator[Figure]:
    """All lines, one after the other."""
    for section in SECTIONS:
        yield from section()


def main(*, as_markdown: bool = False) -> None:
    """Print the table."""
    (markdown if as_markdown else plain)(figures())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true")
    main(as_markdown=parser.parse_args().markdown)
