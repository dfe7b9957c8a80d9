r"""Quantiles: values of a public lattice, chosen by their ranks, with an interval that covers.

The point
---------
For a value v let B be the number of rows below v and A of rows at or above it, and
:math:`D(v) = \beta B - \alpha A - o`, which never falls as v grows. The q-quantile has
β = 1−q, α = q, o = 0 (times the denominator, so that all is integer); the j-th value from the top
has β = 0, α = 1, o = −j; from the bottom β = 1, α = 0, o = j. A value is exact when
:math:`D(v) \le 0 \le D(v^+)`. The score is :math:`-\max(D(v), -D(v^+))`: minus the distance from
that for a value that is not exact; for one that is, how far its ties reach beyond the quantile
on the nearer side. (A score of zero there would be as private, and is what is usually
done; where several rows share a value it is two to three times less exact.)

*One more row* moves D by β where it lies below and by −α elsewhere, so each score, being the
larger of two such numbers, by at most Δ = max(α, β); see :mod:`discreet.plan._choices` for the
price of all cells together.
*Changing a unit* of at most k rows, where all rows are one cell: b ≤ k rows come, a ≤ k go,
and D moves by at most :math:`\beta b + \alpha a \le k(\alpha+\beta)`. That is the smaller bound
for q ≠ ½ (Smith 2011; the constants are worked out here).

Several quantiles
-----------------
One in the middle is chosen first; rows below it and rows at or above it are two disjoint slices in
which the others are chosen, at the levels q'/q and (q'−q)/(1−q) (Kaplan, Schnapp, Stemmer 2022).
One *level* of this recursion draws from disjoint slices, so it costs one draw. Of those that do not
add a level the one nearest to the median comes first: scores at its level move least. Ties would
unbalance the slices, hence every row is spread evenly over the 2^s parts of its lattice value: it
gives each part a mass of 2^−s. Rows so move scores as before (D moves by a value between −α and β,
times the mass in the slice), and a row whose mass falls into two slices loses in each in
proportion: together what a whole row loses in one.

The joint choice of all m (Gillenwater, Joseph, Kulesza 2021) draws the whole sequence with a factor
e for every :math:`4(1-\min w)/\varepsilon` of :math:`\sum_j|n_j-w_jn|`, the rows between neighbours
against their share. Its mean error of ranks at ε = 1, beside this recursion by permute-and-flip,
on 600 ranks without ties: m = 2: 1.6 / 2.6, 3: 2.3 / 1.9, 5: 3.3 / 3.8, 7: 3.9 / 3.5, 9: 4.9 / 5.8,
15: 6.6 / 5.5. It is well ahead for two alone, and not used: on 2^18 places of a lattice it has 2^35
sequences of two, whose weights would have to be added up exactly. To draw two places independently
and accept them by the rows in between is exact too, but accepts one in :math:`e^{cn}` where many
rows share a value, so that it need not end, and how long it takes would tell.

MIN and MAX
-----------
All values beyond the largest are equally exact as a maximum, so no private choice finds it. What is
given is the j-th value from the end, j being the least for which the choice is likely to be right:
:math:`j = \lceil (2L/\varepsilon)(\ln V + 1)\rceil` for V values; the answer says so.

The interval
------------
A share of the price is kept for a *ladder*: counts of cells with edges at distances 1, 2, 4, … from
the released points (functions of these alone), each with independent noise. Cells are disjoint, so
one row moves one count. Noisy D̂ at an edge is D plus a known combination of noise, whose
quantiles are computed exactly (:mod:`discreet.plan._tails`). A cell is ruled out if D̂ at its
left edge exceeds its margin, or at its right edge falls short of minus its margin. The cell that
holds the exact quantile is ruled out by two one-sided events of probability β/2 each, whatever the
data; the interval is the hull of what is left (and of the point).

The two compete. With a tenth of the price for the interval the point stays within 1.12 times
the error of the best choices at the whole price, over tables of every benchmark; that is the
default. A twentieth would give 1.05, and intervals twice as wide, which say nothing at all where
rows are few. With seven tenths the interval is about 10 times narrower, and the
point about 3 times worse: ``interval_share => 0.7`` asks for that.

Why no surer score
------------------
Let v be exact with D(v⁺) = d ≤ −D(v), and α ≥ β. Then d/α rows more above v put the quantile on
the edge between v and v⁺, where a fair score prefers neither. One row moves the gap between two
scores by at most 2α, so no fair score of this sensitivity has a gap above 2d here; this one has
2d. A score that is surer at one place within the ties is wrong at another: the usual one,
−\|βB − α(rows above v)\|, prefers the value beneath wherever the quantile of level .9 lies in
the lower four tenths of its ties. It is ahead on some tables, and over many behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf, log
from typing import Any, ClassVar, Final, Self

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet.plan._choices import Choice, Moves
from discreet.plan._parts import (
    Cells,
    Chosen,
    Draw,
    Drawn,
    Exact,
    Floats,
    Groups,
    Ints,
    Law,
    Part,
    Priced,
    Release,
    Rule,
    add,
    loss_of,
)
from discreet.plan._picks import squares_moved
from discreet.plan._tails import edge_margin, tail_margin
from discreet.plan._trees import Tree, steps, typical
from discreet.plan._types import Code
from discreet.plan._valid import damaged, integer, integers, rational
from discreet.plan._vectors import Box, read_law

FINEST: Final = 2**16
"""Most lattice values of one cell, where cells are few."""

COARSEST: Final = 2**12
"""Most lattice values of one cell, where they are many."""

_FEW: Final = 64
_SPREAD: Final = 18
"""Several quantiles: lattice values times parts, as a power of two."""

_ALONE: Final = Fraction(1, 10)
_TOGETHER: Final = Fraction(1, 4)
"""Share of the price for the interval unless one is stated: of one point, or of several."""

_HALF: Final = Fraction(1, 2)
_DENOMINATOR: Final = 2**20
"""Levels between the quantiles asked for are rounded to this."""


def lattice_of(size: int, cells: int | None) -> tuple[int, int]:
    """Codes in one lattice value, and how many values there are, for a range of `size` codes."""
    most = FINEST if cells is not None and cells <= _FEW else COARSEST
    width = -(-size // most)
    return width, -(-size // width)


# -- ranks --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rank:
    """D(v) = ``below``·#{x < v} − ``above``·#{x ≥ v} − ``offset``, in integers."""

    below: int
    above: int
    offset: int = 0

    @classmethod
    def quantile(cls, q: Fraction) -> Rank:
        """The q-quantile; a level of more digits than any table has rows is rounded."""
        if q.denominator > _DENOMINATOR:
            q = Fraction(min(max(round(q * _DENOMINATOR), 1), _DENOMINATOR - 1), _DENOMINATOR)
        return cls(q.denominator - q.numerator, q.numerator)

    @classmethod
    def of(cls, at: Fraction, j: int) -> Rank:
        """A quantile, or the j-th value from an end."""
        if at == 0:
            return cls(1, 0, j)
        return cls(0, 1, -j) if at == 1 else cls.quantile(at)

    @property
    def largest(self) -> int:
        """How far one more row moves D, or a score, at most."""
        return max(self.below, self.above)

    @property
    def factors(self) -> tuple[int, int]:
        """Weights of what lies below and above, without sign."""
        return self.below, self.above

    def scores(self, mass: Ints, unit: int = 1) -> Ints:
        """Scores of all values, from the mass at each; `unit` is the mass of one row."""
        total = int(mass.sum())
        if self.largest * (total + unit * (abs(self.offset) + 1)) >= 2**61:
            mass = mass.astype(object)
        upto = np.cumsum(mass)
        left = self.at_edges(upto - mass, total, unit)
        right = self.at_edges(upto, total, unit)
        scores: Ints = -np.maximum(left, -right)
        return scores

    def at_edges(self, below: Ints, total: int, unit: int = 1) -> Ints:
        """D at edges with so much mass below."""
        d: Ints = below * (self.below + self.above) - (self.above * total + self.offset * unit)
        return d


@dataclass(frozen=True)
class _Slice:
    """A stretch of the lattice, the quantiles that lie in it and their levels there."""

    first: int
    last: int
    names: tuple[Fraction, ...]
    levels: tuple[Fraction, ...]

    @property
    def middle(self) -> int:
        """The quantile nearest to the median among those that leave the depth as it is."""
        size = len(self.names)
        most = 2 ** (size.bit_length() - 1) - 1
        able = range(max(size - 1 - most, 0), min(most, size - 1) + 1)
        return min(able, key=lambda i: (abs(self.levels[i] - _HALF), abs(2 * i + 1 - size)))

    def split(self, place: int, q: Fraction) -> Iterator[_Slice]:
        """Slices on both sides of the middle quantile, where quantiles are left to choose."""
        i = self.middle
        if i:
            lower = tuple(x / q for x in self.levels[:i])
            yield _Slice(self.first, place, self.names[:i], lower)
        if self.names[i + 1 :]:
            upper = tuple((x - q) / (1 - q) for x in self.levels[i + 1 :])
            yield _Slice(place, self.last, self.names[i + 1 :], upper)


@dataclass(frozen=True)
class Ladder:
    """How points are chosen, and the noise of the counts around them."""

    choice: Choice
    law: Law
    ends: int
    """MIN and MAX are the so-manieth value from their end."""

    def to_dict(self) -> dict[str, Any]:
        """Write the choice and the law on record."""
        return self.choice.to_dict() | {"law": self.law.to_dict(), "ends": self.ends}


@dataclass(frozen=True)
class Quantiles(Part):
    """Quantiles of one expression in every cell, MIN and MAX among them."""

    targets: tuple[Fraction, ...]
    """Levels asked for, ascending; 0 and 1 are MIN and MAX."""
    share: Fraction | None
    """Share of the price for the interval, where it is stated."""
    leaves: int
    name: str
    squares: int
    """Bound on the sum over cells of squared rows that one unit moves."""
    half: int | None
    """Change-one without groups: most rows of one unit."""
    lo: Fraction
    width: Fraction
    hi: Fraction
    step: Fraction

    kind: ClassVar[str] = "quantiles"

    @property
    def gaussian(self) -> bool:
        """A choice needs ε, or ρ."""
        return False

    @property
    def inner(self) -> tuple[Fraction, ...]:
        """Levels between 0 and 1."""
        return tuple(q for q in self.targets if 0 < q < 1)

    @property
    def levels(self) -> int:
        """Depth of the recursion."""
        return len(self.inner).bit_length()

    @property
    def draws(self) -> int:
        """One for each level of the recursion, one for each end."""
        return self.levels + len(self.targets) - len(self.inner)

    @property
    def numbers(self) -> int:
        """Values that are scored."""
        return self.leaves

    @property
    def work(self) -> int:
        """A value is scored eight times as fast as a number is released, once for each point."""
        return 16 * len(self.targets) + self.leaves * len(self.targets) // 8

    @property
    def rungs(self) -> int:
        """Factor from one rung to the next."""
        return 2 if len(self.targets) == 1 else 4

    def facts(self, law: Ladder) -> list[str]:
        """Which value stands for an end, and how coarse the lattice is."""
        words = {Fraction(0): "MIN", Fraction(1): "MAX"}
        ends = [at for at in self.targets if at in words]
        found = [f"{words[at]} of {self.name}: {describe_end(at, law.ends)}" for at in ends]
        if self.width > self.step:
            found.append(steps(self.name, self.width))
        return found

    def price(self, rule: Rule) -> Priced:
        """Most of the price for the points, the rest for the ladder; a tree, if that is better."""
        total = rule.times(self.draws)
        share = self.share or (_ALONE if self.draws == 1 else _TOGETHER)
        one = total.times((1 - share) / self.draws)
        choice, loss = Choice.priced(one, Moves(self.sensitivity.l1, self.squares))
        law = total.times(share).law(self.sensitivity)
        rows = Fraction(self.sensitivity.l1)
        if self.inner == self.targets:
            tree = self.tree.price(total.times(Fraction(1, self.tree.levels)))
            # mean error of ranks, from simulations of the recursion
            if float(rows / choice.epsilon) * 0.28 * self.levels > typical(self.tree, tree.law):
                return tree
        j = ceil(2 * float(rows / choice.epsilon) * (log(self.leaves) + 1))
        noise = loss_of(law, self.sensitivity, self.coordinates)
        return Priced(self, Ladder(choice, law, j), ((loss,) * self.draws) + (noise,))

    @property
    def tree(self) -> Tree:
        """A tree over the same counts."""
        levels = 1
        while 16**levels < self.leaves:
            levels += 1
        shape = (levels, 16**levels, self.lo, self.width, self.hi, self.step)
        return Tree(self.aggregate, self.sensitivity, self.coordinates, *shape, self.name)

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Points:
        """Choose the points of each cell, then count the cells of their ladders."""
        rows: dict[tuple[Code, ...], list[tuple[int, int]]] = {cell: [] for cell in cells.shown}
        for key, values in groups.items():
            if key[:-1] in rows:
                rows[key[:-1]].append((leaf_of(key), values[0]))
        ladder = priced.law
        points, edges, exact = [], [], []
        for cell in cells.shown:
            counts = np.zeros(self.leaves, dtype=np.int64)
            for leaf, n in rows[cell]:
                counts[leaf] = n
            points.append(self._choose(counts, ladder, draw))
            edges.append(edges_around(points[-1], self.leaves, self.rungs))
            upto = np.append(0, np.cumsum(counts))[np.array(edges[-1])]
            exact += np.diff(upto).tolist()
        noisy = add(np.array(exact, dtype=object), draw.sample(ladder.law, len(exact)))
        counted, start = [], 0
        for e in edges:
            counted.append(tuple(map(int, noisy[start : start + len(e) - 1])))
            start += len(e) - 1
        shape = (self.leaves, self.lo, self.width, self.hi, self.step)
        return Points(
            self.targets,
            ladder.ends,
            tuple(points),
            tuple(edges),
            tuple(counted),
            ladder.law,
            *shape,
        )

    def _choose(self, counts: Ints, ladder: Ladder, draw: Draw) -> tuple[int, ...]:
        found = dict.fromkeys(self.targets, 0)
        for at in self.targets:
            if at in {0, 1}:
                rank = Rank.of(at, ladder.ends)
                found[at] = draw.choose(rank.scores(counts), self._choice(ladder.choice, rank))
        bits = 0 if len(self.inner) < 2 else max(_SPREAD - (self.leaves - 1).bit_length(), 0)
        mass = np.repeat(counts, 2**bits)
        slices = [_Slice(0, mass.size, self.inner, self.inner)] if self.inner else []
        while slices:
            here = slices.pop()
            name, q = here.names[here.middle], here.levels[here.middle]
            rank = Rank.quantile(q)
            scores = rank.scores(mass[here.first : here.last], 2**bits)
            choice = self._choice(ladder.choice, rank, 2**bits)
            place = here.first + draw.choose(scores, choice)
            found[name] = place >> bits
            for part in here.split(place, q):
                if part.first == part.last:  # nothing lies below the first value
                    found |= dict.fromkeys(part.names, place >> bits)
                else:
                    slices.append(part)
        return tuple(found[at] for at in self.targets)

    def _choice(self, choice: Choice, rank: Rank, unit: int = 1) -> Choice:
        """Scale a choice to scores in units of mass."""
        return replace(choice, sensitivity=self._reach(rank) * unit)

    def _reach(self, rank: Rank) -> int:
        """How far one unit moves a score, up or down, in all cells together."""
        moves = self.sensitivity.l1 * rank.largest
        if self.half is not None and len(self.targets) == 1:
            moves = min(moves, self.half * (rank.below + rank.above))
        return moves

    def drawn(self, law: Ladder) -> Iterator[Drawn | Chosen]:
        """A choice for each level of the recursion and each end, then the ladder's counts."""
        ends = [at for at in self.targets if at in {0, 1}]
        for at in (*ends, *self.inner[: self.levels]):
            rank = Rank.of(at, law.ends)
            span = 2 * self._reach(rank)  # some scores rise while others fall
            yield Chosen(self._choice(law.choice, rank), span, self.squares, self.sensitivity.l1)
        yield Drawn(law.law, self.sensitivity)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Counts of every value in every cell: scores and ladders are made of these."""
        yield "", {key: values[0] for key, values in groups.items()}

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """Besides distances: squares by cell, and what the scores really do."""
        found = super().moved(left, right) + squares_moved(self.kind, left, right, self.squares)
        for at in self.targets:
            rank = Rank.of(at, 1)
            declared = self._choice(Choice(Fraction(1)), rank).sensitivity
            moves = sum(
                _farthest(rank, *(self._counts(side, cell) for side in (left, right)))
                for cell in {key[:-1] for key in left.keys() | right.keys()}
            )
            if moves > declared:
                found.append(f"scores of {at} moved by {moves}, declared {declared}")
        return found

    def _counts(self, groups: Groups, cell: tuple[Code, ...]) -> Ints:
        counts = np.zeros(self.leaves, dtype=np.int64)
        for key, values in groups.items():
            if key[:-1] == cell:
                counts[leaf_of(key)] = values[0]
        return counts


def _farthest(rank: Rank, left: Ints, right: Ints) -> int:
    return int(np.abs(rank.scores(left) - rank.scores(right)).max())


def leaf_of(key: tuple[Code, ...]) -> int:
    """Lattice value of a histogram's key."""
    leaf = key[-1]
    assert isinstance(leaf, int)
    return leaf


def edges_around(points: tuple[int, ...], leaves: int, ratio: int) -> tuple[int, ...]:
    """Edges of the cells that are counted around released points."""
    edges = {0, leaves}
    known = sorted({-1, *points, leaves})
    for before, point, after in zip(known, known[1:], known[2:], strict=False):
        step = 1
        while step < max(point - before, after - point):
            # beyond the neighbouring points their own edges serve
            edges |= {e for e in (point + 1 - step, point + step) if before < e <= after}
            step *= ratio
    return tuple(sorted(e for e in edges if 0 <= e <= leaves))


@dataclass(frozen=True)
class Points(Release):
    """The points chosen in each cell, and noisy counts around them."""

    targets: tuple[Fraction, ...]
    ends: int
    points: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    law: Law
    leaves: int
    lo: Fraction
    width: Fraction
    hi: Fraction
    step: Fraction

    kind: ClassVar[str] = "points"

    @property
    def size(self) -> int:
        """Points and counts of all cells."""
        return sum(map(len, self.points)) + sum(map(len, self.counts))

    def to_dict(self) -> dict[str, Any]:
        """Write points, ladders, law and range."""
        return {
            "targets": [str(q) for q in self.targets],
            "ends": self.ends,
            **{
                name: [[int(x) for x in row] for row in getattr(self, name)]
                for name in ("points", "edges", "counts")
            },
            "law": self.law.to_dict(),
            "leaves": self.leaves,
            **{name: str(getattr(self, name)) for name in ("lo", "width", "hi", "step")},
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        points, edges, counts = (
            tuple(integers(row) for row in data[name]) for name in ("points", "edges", "counts")
        )
        return cls(
            tuple(rational(q) for q in data["targets"]),
            integer(data["ends"]),
            points,
            edges,
            counts,
            read_law(data["law"]),
            integer(data["leaves"]),
            *(rational(data[name]) for name in ("lo", "width", "hi", "step")),
        )

    def check(self, cells: int) -> None:
        """Refuse points and ladders that do not fit the cells or each other."""
        if {len(self.points), len(self.edges), len(self.counts)} != {cells}:
            raise damaged("its columns differ in length")
        if not 0 < self.step <= self.width or self.lo > self.hi or self.ends < 1:
            raise damaged("a quantile has no range")
        if any(not 0 <= q <= 1 for q in self.targets):
            raise damaged("a quantile lies outside 0 and 1")
        for points, edges, counts in zip(self.points, self.edges, self.counts, strict=True):
            rising = all(a < b for a, b in pairwise(edges))
            whole = edges[:1] == (0,) and edges[-1:] == (self.leaves,) and rising
            inside = all(0 <= v < self.leaves for v in points)
            if not whole or not inside or len(points) != len(self.targets):
                raise damaged("a quantile's points do not fit it")
            if len(counts) != len(edges) - 1 or any(abs(x) >= 2**62 for x in counts):
                raise damaged("a quantile's counts do not fit it")

    def place(self, at: Fraction) -> int:
        """Which of the points answers a level."""
        if at not in self.targets:
            raise damaged("a quantile was not chosen")
        return self.targets.index(at)

    def quantile(self, at: Fraction) -> Floats:
        """The point of every cell; on a coarse lattice, the middle of its values."""
        i = self.place(at)
        middle = (self.width / self.step - 1) // 2 * self.step
        raw = [self.lo + row[i] * self.width + middle for row in self.points]
        return np.array([float(min(x, self.hi)) for x in raw], dtype=np.float64)

    def interval(self, at: Fraction, confidence: float) -> Box:
        """Ends per cell of an interval for the exact value on the clamped table.

        That of MIN reaches to the lower bound of the policy, that of MAX to the upper one: it
        holds the outermost value itself, of which nothing private says more.
        """
        i, rank = self.place(at), Rank.of(at, self.ends)
        # one end is certain there, so the other may fail with all of the probability
        miss = (1 - confidence) * (2 if at in {0, 1} else 1)
        ends = [self._hull(rank, cell, row[i], miss) for cell, row in enumerate(self.points)]
        low = [float(self.lo if at == 0 else self.lo + a * self.width) for a, _ in ends]
        top = [self.hi if at == 1 else self.lo + b * self.width - self.step for _, b in ends]
        high = [float(min(x, self.hi)) for x in top]
        return Box(np.array(low, dtype=np.float64), np.array(high, dtype=np.float64))

    def ranked(
        self, cell: int, near: Fraction, at: Fraction, confidence: float
    ) -> tuple[float, float]:
        """Ends in one cell for another level, from the counts around a point that was chosen."""
        point = self.points[cell][self.place(near)]
        a, b = self._hull(Rank.quantile(at), cell, point, 1 - confidence)
        top = min(self.lo + b * self.width - self.step, self.hi)
        return float(self.lo + a * self.width), float(top)

    def sizes(self, level: float) -> Box:
        """Bounds of the number of values in every cell."""
        totals = np.array([float(sum(row)) for row in self.counts])
        draws = np.array([float(len(row)) for row in self.counts])
        off = tail_margin(self.law, draws, np.ones_like(draws), (1 - level) / 2)
        return Box(totals - off, totals + off)

    @property
    def whole(self) -> Box:
        """The public range, cell by cell."""
        cells = np.ones(len(self.points))
        return Box(cells * float(self.lo), cells * float(self.hi))

    def _hull(self, rank: Rank, cell: int, point: int, miss: float) -> tuple[int, int]:
        """First and last edge of what is not ruled out; always around the point."""
        edges, counts = self.edges[cell], np.array(self.counts[cell], dtype=object)
        d = rank.at_edges(np.append(0, np.cumsum(counts)), int(counts.sum()))
        cells = len(counts)
        margins = [
            edge_margin(self.law, i, cells - i, rank.factors, miss) for i in range(cells + 1)
        ]
        margins[0] = margins[-1] = inf  # at the ends of the range D has its sign for certain
        kept = [
            i for i in range(cells) if d[i] <= margins[i] and d[i + 1] >= -margins[i + 1]
        ] or list(range(cells))
        first, last = edges[min(kept)], edges[max(kept) + 1]
        return min(first, point), max(last, point + 1)


def describe_end(at: Fraction, j: int) -> str:
    """MIN and MAX, as what they are."""
    if at not in {0, 1}:
        return ""
    return f"value no. {j} from the {'top' if at else 'bottom'}"


def reach(part: Quantiles, ladder: Ladder, at: Fraction, confidence: float) -> tuple[float, float]:
    """Rows by which the point is usually off, and by which its interval rules values out."""
    rank = Rank.of(at, ladder.ends)
    scale = rank.below + rank.above
    usual = 2 * rank.largest / scale * float(part.sensitivity.l1 / ladder.choice.epsilon)
    each = part.leaves // len(part.targets)
    points = tuple(each // 2 + i * each for i in range(len(part.targets)))
    cells = len(edges_around(points, part.leaves, part.rungs)) - 1
    by = edge_margin(ladder.law, cells // 2, cells - cells // 2, rank.factors, 1 - confidence)
    return usual * log(1 / (1 - confidence)), by / scale
