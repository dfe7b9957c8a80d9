"""How far several quantiles at once are off, in ranks, beside OpenDP with ε split evenly.

Values are 0 … 1000 (NumPy's default generator). Ours include what is paid for the intervals, whose
median width at 95 % stands beside them. Single quantiles are in ``bench_accuracy``. MAX stands
beside the exponential mechanism that counts the rows above, with all of ε, in tight bounds and in
bounds that are 2 to 100 times too far: root mean square distances from the largest, by exact laws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import discreet as dc
from benchmarks.bench_accuracy import flipped, generated
from discreet import plan as pl
from discreet import policy as pol
from discreet import sql

HIGH = 1000
TIMES = 40
"""Replicates of ours; each is a group of one question."""
CASES = [
    *((kind, 1000, 2, "1", 6) for kind in ("normal", "skewed")),
    *(("normal", 10_000, m, "1", 1) for m in (2, 3, 9, 99)),
    ("skewed", 1000, 3, "1", 6),
]
"""Rows, their number, how many quantiles, ε, and over how many tables."""

LARGEST = [
    *(("uniform", n, high, e) for n, high in ((50, 1000), (1000, 1000)) for e in ("0.1", "1")),
    *(("normal", 1000, high, e) for high in (1000, 2000) for e in ("0.1", "1")),
    *(("skewed", 1000, high, e) for high in (1000, 60_000) for e in ("0.1", "1")),
    *(("uniform", n, 60_000, "1") for n in (50, 1000)),
    *(("constant", n, 1000, "1") for n in (50, 1000)),
]
"""Rows of 0 to 1 000, their number, the upper bound, ε."""
TABLES = 20


class Row(NamedTuple):
    """One line: mean absolute errors of ranks, ours and the peer's, table by table."""

    name: str
    ours: list[float]
    width: float
    peer: list[float]


def data(kind: str, n: int, seed: int = 1) -> NDArray[np.int64]:
    """A fixed table."""
    rng = np.random.default_rng(seed)
    x = rng.normal(500, 100, n) if kind == "normal" else rng.lognormal(4, 1, n)
    return np.clip(x, 0, HIGH).astype(np.int64)


def ask(
    x: NDArray[np.int64], levels: list[str], epsilon: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points and widths of intervals, each group of one question being one replicate."""
    keys = [f"k{i:02d}" for i in range(TIMES)]
    table = pol.Table("t", [pol.Category("g", keys), pol.Integer("x", 0, HIGH)])
    policy = pol.Policy([table], pol.Budget("100000"))
    rows = pa.table({"g": np.repeat(keys, x.size), "x": np.tile(x, TIMES)})
    asked = dc.open(rows, policy=policy, ledger=":memory:")
    names = [f"q{i}" for i in range(len(levels))]
    outputs = ", ".join(f"QUANTILE(x, {q}) AS {n}" for q, n in zip(levels, names, strict=True))
    answer = asked.sql(f"SELECT g, {outputs} FROM t GROUP BY g", epsilon=epsilon)
    points = [[row[n] for n in names] for row in answer.to_dicts()]
    ends = [[row[n] for n in names] for row in answer.interval(0.95)]
    widths = [[high - low for low, high in row] for row in ends]
    return np.array(points, dtype=np.float64), np.array(widths)


def opendp() -> Callable[[NDArray[np.int64], float, float], Callable[[], float]] | None:
    """A table, a level and ε; then one draw for each call. None where it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()

    def theirs(x: NDArray[np.int64], q: float, epsilon: float) -> Callable[[], float]:
        scale = 2 * max(q, 1 - q) / epsilon
        candidates = list(range(HIGH + 1))
        made = dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, q, scale)
        assert made.map(1) <= epsilon * 1.0001  # it rounds q to a ten-thousandth
        rows = x.tolist()
        return lambda: float(made(rows))

    return theirs


def several(kind: str, n: int, m: int, epsilon: str, tables: int) -> Row:
    """Mean absolute rank errors of m quantiles at once, over some tables."""
    row = Row(f"{m} quantiles, {kind} n={n} ε={epsilon}", [], 0.0, [])
    levels = [Fraction(i, m + 1) for i in range(1, m + 1)]
    peer, wide = opendp(), []
    for seed in range(1, tables + 1):
        x = data(kind, n, seed)
        points, widths = ask(x, [f"{float(q):.12f}" for q in levels], epsilon)
        row.ours.append(float(np.mean([ranks(x, point, levels) for point in points])))
        wide.append(float(np.median(widths)))
        if peer is not None:
            draws = [peer(x, float(q), float(epsilon) / m) for q in levels]
            # few of many rows: each draw counts all of them
            times = TIMES if n * m < 10_000 else 10
            found = [ranks(x, [draw() for draw in draws], levels) for _ in range(times)]
            row.peer.append(float(np.mean(found)))
    return row._replace(width=float(np.median(wide)))


def shown(errors: list[float]) -> str:
    """A mean, and its standard error over tables."""
    if not errors:
        return "-"
    mean = f"{np.mean(errors):.2f}"
    if len(errors) == 1:
        return mean
    return f"{mean} ± {np.std(errors, ddof=1) / len(errors) ** 0.5:.2f}"


def ranks(x: NDArray[np.int64], points: Iterable[float], levels: list[Fraction]) -> float:
    """Mean distance of points from their ranks."""
    at, ordered = np.round(np.asarray(list(points))), np.sort(x)
    left, right = (np.searchsorted(ordered, at, side) for side in ("left", "right"))
    want = np.array([float(q) for q in levels]) * x.size
    return float(np.mean(np.maximum(0, np.maximum(left - want, want - right))))


def largest(kind: str, n: int, high: int, epsilon: str) -> tuple[float, float, float, float]:
    """Root mean square distances and mean ranks beyond the point: ours, and the other's."""
    table = pol.Table("t", [pol.Integer("x", 0, high)])
    query = sql.parse("SELECT MAX(x) AS m FROM t", pol.Policy([table], pol.Budget("9"))).query
    (made,) = pl.price(pl.lower(query), pl.Ask(Fraction(epsilon))).parts
    end, chosen = made.part.end(Fraction(1), made.law.choice), next(made.part.drawn(made.law))
    scale = float(chosen.choice.sensitivity / chosen.choice.epsilon)
    found = np.zeros(4)
    for seed in range(1, TABLES + 1):
        x = np.full(n, 100 + 37 * seed) if kind == "constant" else generated(kind, n, seed)
        counts = np.bincount(x, minlength=high + 1)
        above = n - np.cumsum(counts)
        off = (np.arange(high + 1.0) - x.max()) ** 2
        theirs = np.exp(-float(epsilon) * above)
        laws = flipped(end.scores(counts).astype(float), scale), theirs / theirs.sum()
        found += [law @ by for by in (off, above) for law in laws]
    ours, other, rank, others = found / TABLES
    return float(ours**0.5), float(other**0.5), float(rank), float(others)


def rows() -> Iterator[Row]:
    """All lines, one after the other."""
    yield from (several(*case) for case in CASES)


def main() -> None:
    """Print the table."""
    print(f"{'error of ranks':36} {'ours':>14} {'width':>7} {'OpenDP':>14}")
    for row in rows():
        ours, peer = shown(row.ours), shown(row.peer)
        print(f"{row.name:36} {ours:>14} {row.width:7.0f} {peer:>14}", flush=True)
    print(f"{'MAX: distance, rows beyond':36} {'ours':>8} {'counting':>8} {'rows':>6} {'rows':>6}")
    for kind, n, high, epsilon in LARGEST:
        ours, other, rank, others = largest(kind, n, high, epsilon)
        name = f"{kind} n={n} bound {high} ε={epsilon}"
        print(f"{name:36} {ours:8.1f} {other:8.1f} {rank:6.1f} {others:6.1f}", flush=True)


if __name__ == "__main__":
    main()
