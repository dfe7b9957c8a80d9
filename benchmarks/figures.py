"""Lines of ``bench_statistics``: one figure beside the best known one, and how ours are drawn."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

import discreet as dc
from benchmarks.bench_accuracy import number, rms
from discreet import plan as pl
from discreet import policy as pol
from discreet import sql

Floats = np.ndarray
RUNS = 10_000
BOXES = 60
"""Replicates of which the interval is computed: those of pairs take long."""
HIGH = 1000
WIDE = 1.1
"""A median width of so few is coarser than an error of thousands, and ends are whole steps."""


@dataclass(frozen=True)
class Figure:
    """One figure, beside what is known to be possible."""

    what: str
    where: str
    neighbours: str
    price: tuple[str, str]
    """ε or ρ, and how much of it."""
    ours: float
    width: float | None = None
    best: float | None = None
    peer: float | None = None
    best_width: float | None = None
    more: bool = False
    """Whether the larger figure is the better one."""
    doubt: float = 0.0
    """Two standard errors of ours, where replicates are few, as a part of it."""

    @property
    def ratio(self) -> float:
        """How far behind the better of both; below one is ahead."""
        others = [x for x in (self.best, self.peer) if x is not None]
        if self.more:
            return max(others) / self.ours
        return self.ours / min(others)

    @property
    def excess(self) -> float | None:
        """Width of our interval over what it need be, where that is known."""
        return self.width / self.best_width if self.best_width and self.width else None

    @property
    def behind(self) -> bool:
        return self.ratio > 1.05 + self.doubt or (self.excess or 1) > WIDE


@dataclass(frozen=True)
class Data:
    """Rows of a table and who is protected in it."""

    columns: tuple[Any, ...]
    rows: list[dict[str, Any]] = field(repr=False)
    declared: Mapping[str, Any]
    copies: int = 1
    """How many times each row stands in the table."""

    def policy(self, kind: str) -> pol.Policy:
        budget = ("1000000", "0.1") if kind == "rho" else ("1000000",)
        accounting = {"accounting": "zcdp"} if kind == "rho" else {}
        table = pol.Table("t", self.columns, **self.declared)
        return pol.Policy([table], pol.Budget(*budget, **accounting), name=kind)

    def lowered(self, text: str, price: tuple[str, str]) -> pl.Lowered:
        query = sql.parse(f"SELECT {text} FROM t", self.policy(price[0])).query
        return pl.lower(query)

    def priced(self, text: str, price: tuple[str, str]) -> pl.Plan:
        kind, amount = price
        return pl.price(self.lowered(text, price), pl.Ask(**{kind: Fraction(amount)}))

    def ours(
        self, text: str, price: tuple[str, str], truths: list[float], runs: int = RUNS
    ) -> list[tuple[float, float]]:
        """RMSE and median width of each output."""
        plan = self.priced(text, price)
        low = plan.lowered
        groups = [pl.run(a, {"t": self.rows}, pl.Salt(b"bench")) for a in low.aggregates]
        many, few = (self._released(plan, groups, k) for k in (runs, BOXES))
        found = []
        for output, truth in zip(low.outputs, truths, strict=True):
            formula = low.formulas[output.expr.index]
            box = formula.box(few, 0.95)
            width = float(np.median(box.high - box.low))
            found.append((rms(formula.estimate(many) - truth), width))
        return found

    def _released(self, plan: pl.Plan, groups: list[pl.Groups], runs: int) -> list[Any]:
        """What so many groups of equal rows would be told."""
        wide = [
            {
                (i, *key): tuple(self.copies * v for v in values)
                for i in range(runs)
                for key, values in group.items()
            }
            for group in groups
        ]
        cells = pl.Cells([(i,) for i in range(runs)])
        return [r for p in plan.parts for r in p.releases(wide, cells, pl.Draw())]

    def curator(self, kind: str) -> dc.Curator:
        names = [c.name for c in self.columns]
        rows = pa.table({n: [row[n] for row in self.rows] for n in names})
        return dc.open(rows, policy=self.policy(kind), ledger=":memory:")


def numbers(**columns: Floats) -> list[dict[str, int]]:
    """Rows of columns."""
    lists = {name: values.tolist() for name, values in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def integer(name: str, **more: Any) -> pol.Integer:
    """A column of 0 … 1000."""
    return pol.Integer(name, 0, HIGH, **more)


def scaled(price: tuple[str, str], one: float) -> float:
    """An error at ε = 1 or ρ = 1 as one at a price."""
    kind, amount = price
    return one / (float(amount) if kind == "epsilon" else math.sqrt(float(amount)))


# -- printing -----------------------------------------------------------------------------------

SIGNS = {"epsilon": "ε", "rho": "ρ"}


def plain(figures: Iterable[Figure]) -> None:
    """One figure a line."""
    line = "{:32} {:50} {:>10} {:>10} {:>12} {:>12} {:>12} {:>12} {:>6} {:10} {}"
    head = ("", "data", "neighbours", "price", "ours", "width", "best", "OpenDP", "behind", "", "")
    print(line.format(*head))
    for f in figures:
        values = map(number, (f.ours, f.width, f.best, f.peer))
        price = f"{SIGNS[f.price[0]]} {f.price[1]}"
        mark = "BEHIND" if f.behind else ""
        start = (f.what, f.where, f.neighbours, price)
        wide = "" if f.excess is None else f"width {f.excess:.2f}"
        print(line.format(*start, *values, f"{f.ratio:.2f}", wide, mark), flush=True)


def markdown(figures: Iterable[Figure]) -> None:
    """Prices of one kind in one line."""
    lines: dict[tuple[str, ...], list[Figure]] = defaultdict(list)
    for f in figures:
        lines[f.what, f.where, f.neighbours, SIGNS[f.price[0]]].append(f)
    heads = "statistic, data, neighbours, price, ours, width, best known, OpenDP, ours / better one"
    names = heads.split(", ")
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for (what, where, neighbours, sign), some in lines.items():
        columns = [[f.ours for f in some], [f.width for f in some], [f.best for f in some]]
        columns.append([f.peer for f in some])
        shown = [" / ".join(map(number, c)) if None not in c else "" for c in columns]
        ratios = " / ".join(f"{f.ratio:.2f}" for f in some)
        mark = "**" if any(f.behind for f in some) else ""
        wide = [f"{f.excess:.2f}" for f in some if f.excess is not None]
        ratios += f", width {' / '.join(wide)}" if wide else ""
        price = f"{sign} " + " / ".join(f.price[1] for f in some)
        cells = [*(c.replace(",", " ") for c in shown), f"{mark}{ratios}{mark}"]
        print("| " + " | ".join([what, where, neighbours, price, *cells]) + " |", flush=True)
