"""Accuracy at equal loss: error and width of our answers beside peers and the best known bound.

``make bench-accuracy`` prints one row for each statistic, table, n and ε: our RMSE, the median
width of our 95 % intervals, that width over 3.92 RMSE, the RMSE of OpenDP and of diffprivlib, and
the best known bound. Tables are three fixed generators and, where ../shared/data lies beside the
checkout, Adult (age), Maryland's salaries and PUMS (income). A row says BEHIND where a peer is
ahead of us by more than 5 %. ``--markdown`` prints the table of docs/accuracy.md instead.

*Ours* are parsed, lowered and priced as a curator does it. Exact integers come from the reference
engine, value by value; sums get 10 000 draws of the noise that was priced (a variance alone with
public n, whose second round depends on the first, 40 000 first rounds). Errors of quantiles are
exact, over 200 tables of a generator and 20 resamples of other data, once with the interval that
the default pays for and once alone.

*Peers.* Under add-remove OpenDP's mean is a sum over a count at half of ε each; it has no variance
then, and diffprivlib has neither. "n public" is change-one: OpenDP's mean and variance of known
size (its own sensitivity, the law of its noise) and diffprivlib's; asked for both, users halve ε.
OpenDP's errors of quantiles are those of its law, which was compared with 20 000 of its own draws;
diffprivlib's errors of quantiles and means are those of its laws. Neither gives an interval; a
tenth of our ε pays for one, unless the point is asked alone.

*The bound* of a count, sum or mean is the deviation of the best published mechanism to first order
(a table of 50 rows at ε = 0.1 is beyond it), of a quantile the exponential mechanism with all of
ε, of a variance with public n the Laplace mechanism on the variance itself.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from discreet import plan as pl
from discreet import policy as pol
from discreet import sql
from discreet.plan._quantiles import Rank

Floats = np.ndarray
EPSILONS = ("0.1", "0.5", "1")
SIZES = (50, 500, 5_000, 100_000)
GENERATORS = ("uniform", "skewed", "normal")
TABLES = 200
"""Tables over which the error of a quantile is averaged: of a generator, or resampled."""
RESAMPLED = 20
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tabular"
NONE = 1e-4
"""An error below this is none: not one answer of a million is off by a value."""
SLOW = 1000
"""Draws of a peer that draws one at a time."""


@dataclass(frozen=True)
class Table:
    """Values of one column, inside public bounds."""

    name: str
    x: np.ndarray = field(compare=False)
    high: int = 1000

    @property
    def n(self) -> int:
        return len(self.x)

    def again(self, seed: int) -> Table:
        """Another table of the kind: of the generator, or rows drawn from this one."""
        if self.name in GENERATORS:
            return Table(self.name, generated(self.name, self.n, seed))
        x = np.random.default_rng(seed).choice(self.x, self.n)
        return Table(self.name, x, self.high)


def tables() -> Iterator[Table]:
    """Three generators at every size, then what lies in the data folder."""
    for name in GENERATORS:
        for n in SIZES:
            yield Table(name, generated(name, n))
    if DATA.is_dir():
        yield Table("adult", _column((DATA / "adult.csv").read_text(), "age", 84), 84)
        with zipfile.ZipFile(DATA / "salary.zip") as archive:
            text = archive.read("salary.csv").decode()
        yield Table("salary", _column(text, "annual-salary", 100), 100)
        yield Table(
            "pums", _column((DATA / "PUMS_1000.csv").read_text(), "income", 500_000), 500_000
        )


def generated(name: str, n: int, seed: int = 1) -> np.ndarray:
    """All over the range; few large values, lognormal(3, 1.2); values around the middle."""
    rng = np.random.default_rng(seed)
    if name == "uniform":
        return rng.integers(0, 1001, n)
    x = rng.lognormal(3, 1.2, n) if name == "skewed" else rng.normal(500, 100, n)
    return np.clip(np.round(x), 0, 1000).astype(np.int64)


def _column(text: str, name: str, high: int) -> np.ndarray:
    found = [int(float(row[name])) for row in csv.DictReader(io.StringIO(text))]
    return np.clip(found, 0, high)


@dataclass
class Row:
    """One line of the table."""

    what: str
    table: Table
    epsilon: str
    rmse: float
    width: float
    peers: dict[str, float]
    best: float | None = None

    @property
    def behind(self) -> bool:
        return any(self.rmse > 1.05 * max(peer, NONE) for peer in self.peers.values())

    @property
    def ratio(self) -> str:
        """Our error over that of the better peer; where that makes none, a dash."""
        best = min(self.peers.values())
        return f"{self.rmse / best:.2f}" if best >= NONE else "-"


# -- ours -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A question about x in 0 … high without groups, and what a row of each value adds."""

    text: str
    high: int
    public: bool = False

    @cache  # noqa: B019 - a few dozen questions
    def lowered(self) -> pl.Lowered:
        column = pol.Integer("x", 0, self.high, null=0)
        relation = "change-one" if self.public else "add-remove"
        policy = pol.Policy([pol.Table("t", [column], neighbours=relation)], pol.Budget("9"))
        return pl.lower(sql.parse(f"SELECT {self.text} FROM t", policy).query)

    @cache  # noqa: B019 - as above
    def sums(self, value: int) -> np.ndarray:
        """What one row adds to what the engine returns."""
        (main,) = self.lowered().aggregates
        (row,) = pl.run(main, {"t": [{"x": value}]}, pl.Salt(b"bench")).values()
        return np.array(row, dtype=object)

    @cache  # noqa: B019 - as above
    def added(self, value: int) -> np.ndarray:
        """What one row adds to every release."""
        lowered = self.lowered()
        plan = pl.price(lowered, pl.Ask(Fraction(1)))
        salt = pl.Salt(b"bench")
        groups = [pl.run(a, {"t": [{"x": value}]}, salt) for a in lowered.aggregates]
        silent = (
            release
            for priced in plan.parts
            for release in priced.releases(groups, pl.Cells([()]), Silence())
        )
        return np.array([int(release.values[0]) for release in silent], dtype=object)

    def asked(self, epsilon: str, x: np.ndarray) -> Asked:
        plan = pl.price(self.lowered(), pl.Ask(Fraction(epsilon)))
        values, counts = np.unique(x, return_counts=True)
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        if any(isinstance(part, pl.Variances) for part in self.lowered().parts):
            return InRounds(plan, sum(n * self.sums(int(v)) for v, n in pairs))
        return Asked(plan, sum(n * self.added(int(v)) for v, n in pairs))


class Silence(pl.Draw):
    """No noise: the exact integers, to which each run adds its own."""

    def sample(self, law: object, n: int) -> np.ndarray:
        """Zeros."""
        del law
        return np.zeros(n, dtype=np.int64)


@dataclass
class Asked:
    """A priced question and the exact integers behind its answer."""

    plan: pl.Plan
    exact: np.ndarray

    def ours(self, column: str, truth: float, runs: int) -> tuple[float, float]:
        """RMSE and median width."""
        low = self.plan.lowered
        formula = low.formulas[next(o.expr.index for o in low.outputs if o.name == column)]
        values = formula.estimate(self._released(runs))
        box = formula.box(self._released(max(runs // 100, 10)), 0.95)
        return rms(values - truth), float(np.median(box.high - box.low))

    def _released(self, runs: int) -> list[pl.Numbers]:
        """What independent answers hold, one beside the other as if they were groups."""
        laws = [priced.noise for priced in self.plan.outlets]
        pairs = zip(self.exact.tolist(), laws, strict=True)
        return [
            pl.Numbers(tuple(map(int, v + (law.sample(runs) if law else np.zeros(runs)))), law)
            for v, law in pairs
        ]


@dataclass
class Stock(pl.Draw):
    """Noise drawn in advance, many numbers of each law at once."""

    size: int = 1000
    left: dict[str, list[int]] = field(default_factory=dict)

    def sample(self, law: pl.Law, n: int) -> np.ndarray:
        """Hand out the next numbers; none is given twice."""
        have = self.left.setdefault(repr(law), [])
        if len(have) < n:
            have += law.sample(self.size).tolist()
        return np.array([have.pop() for _ in range(n)], dtype=object)


class InRounds(Asked):
    """A question of which one round asks what an earlier one chose: run by run."""

    def ours(self, column: str, truth: float, runs: int) -> tuple[float, float]:
        """RMSE and median width."""
        (formula,) = self.plan.lowered.formulas
        assert self.plan.lowered.outputs[0].name == column
        groups, draw = [{(): tuple(self.exact.tolist())}], Stock()
        squares, widths = [], []
        for run in range(4 * runs):
            found = [
                release
                for priced in self.plan.parts
                for release in priced.releases(groups, pl.Cells([()]), draw)
            ]
            squares.append(self._square(formula, found, truth))
            if run < max(runs // 20, 10):
                box = formula.box(found, 0.95)
                widths.append(float(box.high[0] - box.low[0]))
        return math.sqrt(np.mean(squares)), float(np.median(widths))

    def _square(self, formula: pl.PublicVariance, found: list, truth: float) -> float:
        """Squared error: expected where the variance itself was measured, else of this run.

        A hair decides whether a peer is ahead by 5 %, and draws of few large errors are coarse.
        """
        squares, n = formula.inputs(found)
        if len(squares.factors) > 1:
            return float(formula.estimate(found)[0] - truth) ** 2
        scale = float(squares.law.scale / squares.factors[0]) / n
        return clamped(truth, scale, formula.top**2 / 4) ** 2


def rms(x: Floats) -> float:
    return math.sqrt(np.mean(np.square(x)))


# -- counts, sums, means, variances -----------------------------------------------------------


def linear(table: Table, epsilon: str, runs: int) -> Iterator[Row]:
    """What adds rows up, under add-remove."""
    peer, best = opendp_linear(table, float(epsilon), runs), best_linear(table, float(epsilon))
    for what, (text, truth) in linear_cases(table).items():
        asked = Question(f"{text} AS v", table.high).asked(epsilon, table.x)
        found = {"OpenDP": peer[what]} if what in peer else {}
        yield Row(what, table, epsilon, *asked.ours("v", truth, runs), found, best[what])


def linear_cases(table: Table) -> dict[str, tuple[str, float]]:
    """What is asked, and the exact answer."""
    x = table.x
    return {
        "COUNT": ("COUNT(*)", table.n),
        "SUM": ("SUM(x)", float(x.sum())),
        "AVG": ("AVG(x)", float(x.mean())),
        "VAR": ("VAR_POP(x)", float(x.var())),
    }


def best_linear(table: Table, eps: float) -> dict[str, float]:
    """Deviations of the best published mechanisms, to first order."""
    t, high, noise = table.x / table.high, table.high, math.sqrt(2) / eps
    m, w = t.mean(), 2 * t.mean() ** 2 - (t * t).mean()
    spread = float(np.linalg.norm([w, w - m, w + 1 - 2 * m]))
    return {
        "COUNT": noise,
        "SUM": noise * high,
        "AVG": noise * high * math.hypot(1 - m, m) / table.n,
        "VAR": noise * high**2 * spread / table.n,
    }


def public(table: Table, epsilon: str, runs: int) -> Iterator[Row]:
    """Means and variances where the number of rows is public; alone, then both of one question."""
    x, high, eps, n = table.x, table.high, float(epsilon), table.n
    truth = {"AVG": float(x.mean()), "VAR": float(x.var())}
    text = {"AVG": "AVG(x) AS AVG", "VAR": "VAR_POP(x) AS VAR"}
    best = {"AVG": math.sqrt(2) * high / (eps * n), "VAR": math.sqrt(2) * high**2 / (eps * n)}
    for what, value in truth.items():
        asked = Question(text[what], high, public=True).asked(epsilon, x)
        found = opendp_sized(what, table, eps) | diffprivlib(what, table, eps, runs)
        yield Row(
            f"{what}, n public",
            table,
            epsilon,
            *asked.ours(what, value, runs),
            found,
            best[what],
        )
    both = Question(", ".join(text.values()), high, public=True).asked(epsilon, x)
    for what, other in (("AVG", "VAR"), ("VAR", "AVG")):
        found = opendp_sized(what, table, eps / 2) | diffprivlib(what, table, eps / 2, runs)
        name = f"{what} beside {other}, n public"
        yield Row(name, table, epsilon, *both.ours(what, truth[what], runs), found)


def opendp_linear(table: Table, eps: float, runs: int) -> dict[str, float]:
    """RMSE of OpenDP's sum alone, count alone, and mean as their ratio at half of ε each."""
    if (dp := opendp_prelude()) is None:
        return {}
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    n, total, high = table.n, int(table.x.sum()), table.high

    def released(value: int, scale: float) -> Floats:
        return np.array((space >> dp.m.then_laplace(scale))([value] * runs), dtype=np.float64)

    half = released(total, 2 * high / eps), released(n, 2 / eps)
    found = {
        "COUNT": released(n, 1 / eps) - n,
        "SUM": released(total, high / eps) - total,
        "AVG": np.clip(half[0] / np.maximum(half[1], 1), 0, high) - total / n,
    }
    return {k: rms(v) for k, v in found.items()}


def opendp_sized(what: str, table: Table, eps: float) -> dict[str, float]:
    """RMSE of OpenDP's mean or variance of known size, inside the possible range: by its law."""
    if (dp := opendp_prelude()) is None:
        return {}
    bounds = (0.0, float(table.high))
    sized = dp.vector_domain(dp.atom_domain(bounds=bounds), size=table.n)
    make = dp.t.make_mean if what == "AVG" else dp.t.make_variance
    extra = {} if what == "AVG" else {"ddof": 0}
    moves = make(sized, dp.symmetric_distance(), **extra).map(2)
    truth = float(table.x.mean() if what == "AVG" else table.x.var())
    most = table.high if what == "AVG" else table.high**2 / 4
    return {"OpenDP": clamped(truth, moves / eps, most)}


def clamped(truth: float, scale: float, most: float) -> float:
    """Exact error of Laplace noise on a number that is then clamped to 0 … most."""

    def side(room: float) -> float:
        """E min(|noise|, room)², half of it."""
        r = room / scale
        return scale**2 * (1 - math.exp(-r) * (1 + r))

    return math.sqrt(side(truth) + side(most - truth))


def diffprivlib(what: str, table: Table, eps: float, runs: int) -> dict[str, float]:
    """RMSE of diffprivlib's mean, by its law (Laplace noise, clamped), or of its variance."""
    if what == "AVG":
        off = np.random.default_rng(7).laplace(0, table.high / (eps * table.n), runs)
        m = float(table.x.mean())
        return {"diffprivlib": rms(np.clip(m + off, 0, table.high) - m)}
    try:
        from diffprivlib import tools
    except ImportError:
        return {}
    truth, x = float(table.x.var()), table.x.astype(float)
    drawn = [tools.var(x, epsilon=eps, bounds=(0, table.high)) for _ in range(SLOW)]
    return {"diffprivlib": rms(np.array(drawn) - truth)}


@cache
def opendp_prelude() -> object:
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    return dp


# -- quantiles --------------------------------------------------------------------------------


def quantiles(table: Table, epsilon: str, runs: int) -> Iterator[Row]:  # noqa: ARG001 - exact laws
    """One quantile over many tables of a kind: with the interval of the default, and alone.

    One table alone says where in its ties the quantile lies, which suits one score or the other.
    """
    count = TABLES if table.name in GENERATORS else RESAMPLED
    tables = [table.again(seed) for seed in range(1, count + 1)]
    for q in ("0.5", "0.9"):
        shares = [_priced(table, q, epsilon, more) for more in ("", ", interval_share => 0")]
        found = np.array([quantile_errors(each, q, float(epsilon), shares) for each in tables])
        default, alone, opendp, theirs, best = (rms(c) for c in found.T)
        wide = [quantile_width(each, q, shares[0]) for each in tables[:RESAMPLED]]
        name, peers = (
            "MEDIAN" if q == "0.5" else f"QUANTILE {q}",
            {"OpenDP": opendp, "diffprivlib": theirs},
        )
        yield Row(name, table, epsilon, default, float(np.median(wide)), peers, best)
        yield Row(f"{name}, point alone", table, epsilon, alone, float(table.high), peers, best)


def _priced(table: Table, q: str, epsilon: str, more: str) -> pl.Priced:
    lowered = Question(f"QUANTILE(x, {q}{more}) AS v", table.high).lowered()
    (priced,) = pl.price(lowered, pl.Ask(Fraction(epsilon))).parts
    return priced


def lattice_counts(table: Table, part: pl.Part) -> tuple[np.ndarray, int]:
    """Rows by value of the lattice, and how many steps one value has."""
    step = int(part.width / part.step)
    return np.bincount(table.x // step, minlength=part.leaves), step


def quantile_errors(table: Table, q: str, eps: float, shares: list[pl.Priced]) -> list[float]:
    """Exact errors: ours by share, OpenDP's, diffprivlib's, the exponential mechanism's."""
    rank = max(0, math.ceil(float(q) * table.n - 1e-9) - 1)
    truth = float(np.partition(table.x, rank)[rank])
    found = []
    for priced in shares:
        counts, step = lattice_counts(table, priced.part)
        shown = np.arange(priced.part.leaves) * step + (step - 1) // 2
        choice = next(priced.part.drawn(priced.law)).choice
        scale = float((1 if choice.monotone else 2) * choice.sensitivity / choice.epsilon)
        p = flipped(Rank.quantile(Fraction(q)).scores(counts).astype(float), scale)
        found.append(math.sqrt(p @ (np.minimum(shown, table.high) - truth) ** 2))
    return [
        *found,
        *quantile_peers(table, float(q), eps, truth),
        exponential(table, float(q), eps, truth),
    ]


def quantile_width(table: Table, q: str, priced: pl.Priced) -> float:
    """Width of one interval."""
    counts, _ = lattice_counts(table, priced.part)
    groups = {(leaf,): (int(n),) for leaf, n in enumerate(counts) if n}
    release = priced.part.release(priced, groups, pl.Cells([()]), pl.Draw())
    box = release.interval(Fraction(q), 0.95)
    return float(box.high[0] - box.low[0])


NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)
PLACES = ((NODES + 1) / 2) ** 4
"""Nodes of an integral over 0 … 1, close together at 0, where many candidates end it."""


def flipped(scores: Floats, scale: float) -> Floats:
    """Law of permute-and-flip with a factor e for every `scale`; equal scores are one candidate.

    A candidate's place in the order is uniform; it wins if it is accepted and none before it is.
    """
    values, where, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    p = np.exp((values - values.max()) / scale)
    kept = p > 1e-30
    none = np.log1p(-np.outer(PLACES, np.minimum(p[kept], 1 - 1e-16)))
    before = np.exp((none @ sizes[kept])[:, None] - none)
    law = np.zeros(values.size)
    law[kept] = p[kept] * (WEIGHTS * 2 * ((NODES + 1) / 2) ** 3 @ before)
    return (law / (law @ sizes))[where]


def _ranks(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every value, the rows below it and the rows above it."""
    values = np.arange(table.high + 1)
    upto = np.cumsum(np.bincount(table.x, minlength=table.high + 1))
    return values, np.append(0, upto[:-1]), table.n - upto


def exponential(table: Table, q: float, eps: float, truth: float) -> float:
    """Exact error of the exponential mechanism with all of ε."""
    values, below, above = _ranks(table)
    at = q * table.n
    off = np.maximum(0, np.maximum(below - at, at - (table.n - above)))
    p = np.exp(-eps * (off - off.min()) / (2 * max(q, 1 - q)))
    return math.sqrt(p @ (values - truth) ** 2 / p.sum())


def quantile_peers(table: Table, q: float, eps: float, truth: float) -> tuple[float, float]:
    """Errors of OpenDP and diffprivlib, by their laws."""
    values, below, above = _ranks(table)
    scores = -np.abs((1 - q) * below - q * above)
    opendp = flipped(scores, 2 * max(q, 1 - q) / eps) @ (values - truth) ** 2
    ends = np.sort(np.concatenate([table.x, [0, table.high]])).astype(float)
    sizes = np.diff(ends)
    off = np.abs(np.arange(table.n + 1) - q * table.n)
    p = sizes * np.exp(-eps / 2 * (off - off[sizes > 0].min()))
    middle = (ends[1:] + ends[:-1]) / 2 - truth
    squares = middle**2 + sizes**2 / 12
    return math.sqrt(opendp), math.sqrt(p @ squares / p.sum())


# -- printing -----------------------------------------------------------------------------------

SECTIONS = (linear, quantiles, public)
PEERS = ("OpenDP", "diffprivlib")


def rows(runs: int) -> Iterator[Row]:
    """Everything, table by table."""
    warnings.simplefilter("ignore")  # diffprivlib warns about what it leaks
    for table in tables():
        for epsilon in EPSILONS:
            for section in SECTIONS:
                yield from section(table, epsilon, runs)


def number(x: float | None) -> str:
    if x is None:
        return "-"
    return "0" if x < NONE else f"{x:,.3g}" if x < 1000 else f"{x:,.0f}"


def _plain(found: Iterator[Row]) -> None:
    head = ("", "data", "n", "ε", "RMSE", "w95", "w/3.92RMSE", *PEERS, "best", "")
    line = "{:25} {:8} {:>7} {:>4} {:>13} {:>13} {:>10} {:>13} {:>13} {:>13} {}"
    print(line.format(*head))
    for r in found:
        ratio = f"{r.width / (3.92 * r.rmse):.2f}" if r.rmse else "-"
        values = (r.rmse, r.width), (*(r.peers.get(p) for p in PEERS), r.best)
        own, others = (map(number, v) for v in values)
        mark = "BEHIND" if r.behind else ""
        start = (r.what, r.table.name, r.table.n, r.epsilon)
        print(line.format(*start, *own, ratio, *others, mark), flush=True)


def _markdown(found: Iterator[Row]) -> None:
    """Three ε in one line: ours, width, peers, bound; and where a peer is ahead."""
    lines: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in found:
        lines[row.what, row.table.name, row.table.n].append(row)
    wide = (
        "| statistic | table | n | ours | width | OpenDP | diffprivlib | best known | ours / peer |"
    )
    print(f"{wide}\n|{'---|' * 9}")
    names = list(dict.fromkeys(what for what, _, _ in lines))
    for what, name, n in sorted(lines, key=lambda key: names.index(key[0])):
        three = lines[what, name, n]
        columns = [[r.rmse for r in three], [r.width for r in three]]
        columns += [[r.peers.get(p) for r in three] for p in PEERS] + [[r.best for r in three]]
        shown = [" / ".join(map(number, c)) if None not in c else "" for c in columns]
        last = " / ".join(r.ratio for r in three) if three[0].peers else ""
        size = f"{n:,}".replace(",", " ")
        mark = "**" if any(r.behind for r in three) else ""
        cells = [what, name, size, *shown, mark + last + mark]
        print("| " + " | ".join(c.replace(",", " ") if c is not what else c for c in cells) + " |")


def main(runs: int = 10_000, *, markdown: bool = False) -> None:
    """Print the tables."""
    if markdown:
        _markdown(rows(runs))
        return
    _plain(rows(runs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--markdown", action="store_true")
    given = parser.parse_args()
    main(given.runs, markdown=given.markdown)
