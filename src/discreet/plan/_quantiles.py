r"""Quantiles: values of a public lattice, chosen by their ranks, with an interval that covers.

The point
---------
For a value v let B be the number of rows below v and A of rows at or above it, and
:math:`D(v) = \beta B - \alpha A - o`, which never falls as v grows. The q-quantile has
β = 1−q, α = q, o = 0 (times the denominator, so that all is integer). A value is exact when
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
*Two* are chosen each from all rows, and put into order. A recursion takes two draws as well, and
spreads ties for the first (below): at ε = 1 the thirds of 1 000 normal, log-normal and all
different values of 1 … 1000 are 1.0, .6 and 2.2 ranks off so, 1.3, .9 and 2.1 by the recursion
(means of six tables, 100 draws each, no interval).

*Of three or more* one in the middle is chosen first; rows below it and rows at or above it are two
disjoint slices in which the others are chosen, at the levels q'/q and (q'−q)/(1−q) (Kaplan,
Schnapp, Stemmer 2022). One *level* of this recursion draws from disjoint slices, so it costs one
draw. Of those that do not add a level the one nearest to the median comes first: scores at its
level move least. Ties would unbalance the slices, hence every row is spread evenly over the 2^s
parts of its lattice value: it gives each part a mass of 2^−s. Rows so move scores as before (D
moves by a value between −α and β, times the mass in the slice), and a row whose mass falls into two
slices loses in each in proportion: together what a whole row loses in one. The last choice of a
slice splits nothing, so there the parts of a value stay together, which is a fifth more exact where
rows share values.

The joint choice of all m (Gillenwater, Joseph, Kulesza 2021) draws the whole sequence with a factor
e for every :math:`4(1-\min w)/\varepsilon` of :math:`\sum_j|n_j-w_jn|`, the rows between neighbours
against their share. Its mean error of ranks at ε = 1, beside this recursion by permute-and-flip, on
600 ranks without ties: m = 2: 1.6 / 2.6, 3: 2.3 / 1.9, 5: 3.3 / 3.8, 7: 3.9 / 3.5, 9: 4.9 / 5.8,
15: 6.6 / 5.5. It is well ahead for two without ties, and not used: on 2^16 places of a lattice it
has 2^31 sequences of two, whose weights would have to be added up exactly. To draw two places
independently and accept them by the rows in between is exact too, but accepts one in :math:`e^{cn}`
where many rows share a value, so that it need not end, and how long it takes would tell.

MIN and MAX
-----------
Their scores aim at the outermost row and prefer values close to rows: :mod:`discreet.plan._ends`.

What an interval costs
----------------------
A share s of the price pays for the counts around the points (:mod:`discreet.plan._points`), and the
two compete. By exact laws, over tables of every benchmark: with s = 0 no peer's choice is ahead of
this one by more than 1 %. Else errors are 1/(1−s) times those where misses are of a few
ranks, and more where a miss goes past all rows: its probability falls like
:math:`e^{-(1-s)\varepsilon n/2}`, so that a tenth costs 1.5 times at n = 50 and ε = .5. The
interval reaches over :math:`6/s\varepsilon` ranks on each side (twenty cells). No other use of the
same share was found that is much narrower: were the right edge known, counting below and
above it would still take :math:`2.6/s\varepsilon`, and to find it costs as much again. That the
point is within :math:`(\ln V+5)/\varepsilon` ranks is known for nothing, and counts between
the point and an edge alone have less noise than all of them; but that shows only where
few cells lie between, and the interval is narrow anyway.

A tenth is the default, as the interval suffers more from a smaller share than the point gains: at a
twentieth errors fall by 5 %, and intervals are twice as wide, which for 500 rows at ε = .5 is
the step from a fifth of the range to all of it. ``interval_share => 0`` gives the point
everything, and no interval; seven tenths make the interval about 10 times narrower and the point
about 3 times worse.

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

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import log
from typing import Any, ClassVar, Final

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet.plan._choices import Choice, Moves
from discreet.plan._ends import CHANGE, WHOLE, End, describe_end, unit_of
from discreet.plan._parts import (
    Cells,
    Chosen,
    Draw,
    Drawn,
    Exact,
    Groups,
    Ints,
    Law,
    Part,
    Priced,
    Rule,
    add,
    loss_of,
)
from discreet.plan._picks import squares_moved
from discreet.plan._points import Points, Rank, edges_around
from discreet.plan._tails import edge_margin
from discreet.plan._trees import Tree, steps, typical
from discreet.plan._types import Code

FINEST: Final = 2**16
"""Most lattice values of one cell, where cells are few."""

COARSEST: Final = 2**12
"""Most lattice values of one cell, where they are many."""

_FEW: Final = 64
_SPREAD: Final = 18
"""Several quantiles: lattice values times parts, as a power of two."""

_FEW_POINTS: Final = Fraction(1, 10)
_TOGETHER: Final = Fraction(1, 4)
"""Share of the price for the interval unless one is stated: of one or two points, or of more."""

_HALF: Final = Fraction(1, 2)
_PRICES: Final = (Fraction(1), Fraction(100), Fraction(10_000))
"""At which audits look at the scores of MIN and MAX: caps far beyond the rows, and of a few."""


def lattice_of(size: int, cells: int | None) -> tuple[int, int]:
    """Codes in one lattice value, and how many values there are, for a range of `size` codes."""
    most = FINEST if cells is not None and cells <= _FEW else COARSEST
    width = -(-size // most)
    return width, -(-size // width)


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

    def values(self, counts: Ints, bits: int) -> tuple[int, Ints]:
        """The first lattice value of the slice, and the mass of each that lies in it."""
        low, high = self.first >> bits, -(-self.last >> bits)
        mass = counts[low:high] << bits
        mass[0] -= counts[low] * (self.first - (low << bits))
        mass[-1] -= counts[high - 1] * ((high << bits) - self.last)
        return low, mass

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
    law: Law | None
    """None where no interval was asked for, and nothing is counted."""

    def to_dict(self) -> dict[str, Any]:
        """Write the choice and the law on record."""
        law = None if self.law is None else self.law.to_dict()
        return self.choice.to_dict() | {"law": law}


@dataclass(frozen=True)
class Quantiles(Part):
    """Quantiles of one expression in every cell, MIN and MAX among them."""

    targets: tuple[Fraction, ...]
    """Levels asked for, ascending; 0 and 1 are MIN and MAX."""
    share: Fraction | None
    """Share of the price for the interval, where it is stated; 0: no interval."""
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
    def nested(self) -> bool:
        """Whether quantiles are chosen one inside the other: two alone are not."""
        return len(self.inner) > 2

    @property
    def levels(self) -> int:
        """Depth of the recursion; two alone are two draws as well."""
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
        """A value is scored eight times as fast as a number is released, once for each point.

        For MIN and MAX it takes twice as long.
        """
        times = 2 * len(self.targets) - len(self.inner)
        return 16 * len(self.targets) + self.leaves * times // 8

    @property
    def rungs(self) -> int:
        """Factor from one rung to the next."""
        return 2 if len(self.targets) <= 2 else 4

    def facts(self, law: Ladder) -> list[str]:
        """What MIN and MAX aim at, and how coarse the lattice is."""
        words = {Fraction(0): "MIN", Fraction(1): "MAX"}
        ends = [at for at in self.targets if at in words]
        lines = [f"{words[at]} of {self.name}: {describe_end(at)}" for at in ends]
        if law.law is None:
            lines.append(
                f"quantiles of {self.name}: no interval was asked for, it is the whole range"
            )
        if self.width > self.step:
            lines.append(steps(self.name, self.width))
        return lines

    def price(self, rule: Rule) -> Priced:
        """Most of the price for the points, the rest for the ladder; a tree, if that is better."""
        total = rule.times(self.draws)
        usual = _FEW_POINTS if len(self.targets) <= 2 else _TOGETHER
        share = usual if self.share is None else self.share
        one = total.times((1 - share) / self.draws)
        choice, loss = Choice.priced(one, Moves(self.sensitivity.l1, self.squares))
        law = total.times(share).law(self.sensitivity) if share else None
        rows = Fraction(self.sensitivity.l1)
        if self.inner == self.targets:
            tree = self.tree.price(total.times(Fraction(1, self.tree.levels)))
            # mean error of ranks, from simulations of the recursion
            if float(rows / choice.epsilon) * 0.28 * self.levels > typical(self.tree, tree.law):
                return tree
        noise = (loss_of(law, self.sensitivity, self.coordinates),) if law is not None else ()
        return Priced(self, Ladder(choice, law), (loss,) * self.draws + noise)

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
        rows: dict[tuple[Code, ...], list[tuple[int, int]]] = {cell: [] for cell in cells.keys}
        for key, values in groups.items():
            if key[:-1] in rows:
                rows[key[:-1]].append((leaf_of(key), values[0]))
        ladder = priced.law
        points, edges, exact = [], [], []
        for cell in cells.keys:
            counts = np.zeros(self.leaves, dtype=np.int64)
            for leaf, n in rows[cell]:
                counts[leaf] = n
            points.append(self._choose(counts, ladder, draw))
            around = edges_around(points[-1], self.leaves, self.rungs) if ladder.law else ()
            edges.append(around)
            upto = np.append(0, np.cumsum(counts))[np.array(around, dtype=np.int64)]
            exact += np.diff(upto).tolist()
        noisy_counts = _noisy_counts(edges, exact, ladder.law, draw)
        shape = (self.leaves, self.lo, self.width, self.hi, self.step)
        return Points(
            self.targets,
            1,
            tuple(points),
            tuple(edges),
            noisy_counts,
            ladder.law,
            *shape,
        )

    def _choose(self, counts: Ints, ladder: Ladder, draw: Draw) -> tuple[int, ...]:
        places = dict.fromkeys(self.targets, 0)
        for at in self.targets:
            if at in {0, 1}:
                scores = self.end(at, ladder.choice).scores(counts)
                places[at] = draw.choose(scores, self._outermost(ladder.choice))
        inside = self._nested if self.nested else self._apart
        places |= inside(counts, ladder.choice, draw)
        return tuple(places[at] for at in self.targets)

    def _apart(self, counts: Ints, choice: Choice, draw: Draw) -> dict[Fraction, int]:
        """Each from all rows; put into order, which brings none farther from its quantile."""
        ranks = [Rank.quantile(q) for q in self.inner]
        drawn = [draw.choose(rank.scores(counts), self._choice(choice, rank)) for rank in ranks]
        return dict(zip(self.inner, sorted(drawn), strict=True))

    def _nested(self, counts: Ints, choice: Choice, draw: Draw) -> dict[Fraction, int]:
        """The middle one from all rows, the others from the rows on either side."""
        bits = max(_SPREAD - (self.leaves - 1).bit_length(), 0)
        mass = np.repeat(counts, 2**bits)
        places: dict[Fraction, int] = {}
        slices = [_Slice(0, mass.size, self.inner, self.inner)]
        while slices:
            here = slices.pop()
            name, q = here.names[here.middle], here.levels[here.middle]
            rank = Rank.quantile(q)
            of = self._choice(choice, rank, 2**bits)
            if len(here.names) == 1:  # nothing is split, so ties may stay together
                low, whole = here.values(counts, bits)
                places[name] = low + draw.choose(rank.scores(whole, 2**bits), of)
                continue
            scores = rank.scores(mass[here.first : here.last], 2**bits)
            place = here.first + draw.choose(scores, of)
            places[name] = place >> bits
            for part in here.split(place, q):
                if part.first == part.last:  # nothing lies below the first value
                    places |= dict.fromkeys(part.names, place >> bits)
                else:
                    slices.append(part)
        return places

    def _choice(self, choice: Choice, rank: Rank, unit: int = 1) -> Choice:
        """Scale a choice to scores in units of mass."""
        return replace(choice, sensitivity=self._reach(rank) * unit)

    def _outermost(self, choice: Choice) -> Choice:
        """Scale a choice to the scores of MIN and MAX, whose range one unit moves so far."""
        moves = self.sensitivity.l1 * WHOLE
        if self.half is not None:
            moves = min(moves, self.half * CHANGE)
        return replace(choice, sensitivity=moves * unit_of(self.leaves), monotone=True)

    def end(self, at: Fraction, choice: Choice) -> End:
        """Scores of MIN or MAX at a price."""
        outer = self._outermost(choice)
        rows = outer.sensitivity / (WHOLE * unit_of(self.leaves) * outer.epsilon)
        return End.of(at, self.leaves, rows)

    def _reach(self, rank: Rank) -> int:
        """How far one unit moves a score, up or down, in all cells together."""
        moves = self.sensitivity.l1 * rank.largest
        if self.half is not None and not self.nested:
            moves = min(moves, self.half * (rank.below + rank.above))
        return moves

    def moved_rows(self, rank: Rank) -> float:
        """How far one unit moves a score, in rows of sorted order."""
        return self._reach(rank) / (rank.below + rank.above)

    def drawn(self, law: Ladder) -> Iterator[Drawn | Chosen]:
        """A choice for each level of the recursion and each end, then the ladder's counts."""
        for _ in range(len(self.targets) - len(self.inner)):
            outer = self._outermost(law.choice)
            yield Chosen(outer, outer.sensitivity, self.squares, self.sensitivity.l1)
        for at in self.inner[: self.levels]:
            rank = Rank.quantile(at)
            span = 2 * self._reach(rank)  # some scores rise while others fall
            yield Chosen(self._choice(law.choice, rank), span, self.squares, self.sensitivity.l1)
        if law.law is not None:
            yield Drawn(law.law, self.sensitivity)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Counts of every value in every cell: scores and ladders are made of these."""
        yield "", {key: values[0] for key, values in groups.items()}

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """Besides distances: squares by cell, and what the scores really do."""
        faults = super().moved(left, right) + squares_moved(self.kind, left, right, self.squares)
        cells = {key[:-1] for key in left.keys() | right.keys()}
        pairs = [[self._counts(side, cell) for side in (left, right)] for cell in cells]
        for at in self.inner:
            rank = Rank.quantile(at)
            declared = self._choice(Choice(Fraction(1)), rank).sensitivity
            moves = sum(_farthest(rank, *pair) for pair in pairs)
            if moves > declared:
                faults.append(f"scores of {at} moved by {moves}, declared {declared}")
        ends = [at for at in self.targets if at in {0, 1}]
        for at, price in product(ends, _PRICES):
            choice = Choice(price)  # caps follow from the price
            declared, end = self._outermost(choice).sensitivity, self.end(at, choice)
            apart = sum(int(np.ptp(end.scores(a) - end.scores(b))) for a, b in pairs)
            if apart > declared:
                faults.append(f"scores of {at} moved apart by {apart}, declared {declared}")
        return faults

    def _counts(self, groups: Groups, cell: tuple[Code, ...]) -> Ints:
        counts = np.zeros(self.leaves, dtype=np.int64)
        for key, values in groups.items():
            if key[:-1] == cell:
                counts[leaf_of(key)] = values[0]
        return counts


def _farthest(rank: Rank, left: Ints, right: Ints) -> int:
    return int(np.abs(rank.scores(left) - rank.scores(right)).max())


def _noisy_counts(
    edges: list[tuple[int, ...]], exact: list[int], law: Law | None, draw: Draw
) -> tuple[tuple[int, ...], ...]:
    """Counts with noise, ladder by ladder."""
    if law is None:
        return ((),) * len(edges)
    noisy = add(np.array(exact, dtype=object), draw.sample(law, len(exact)))
    ladders, start = [], 0
    for e in edges:
        ladders.append(tuple(map(int, noisy[start : start + len(e) - 1])))
        start += len(e) - 1
    return tuple(ladders)


def largest_share(shares: Sequence[Fraction | None]) -> Fraction | None:
    """The largest share that a quantile states for its interval; 0 where all say so."""
    stated = max((share for share in shares if share is not None), default=None)
    return None if stated == 0 and None in shares else stated


def leaf_of(key: tuple[Code, ...]) -> int:
    """Lattice value of a histogram's key."""
    leaf = key[-1]
    assert isinstance(leaf, int)
    return leaf


def reach(part: Quantiles, ladder: Ladder, at: Fraction, confidence: float) -> tuple[float, float]:
    """Rows by which the point is usually off, and by which its interval rules values out.

    The first is that of values that lie close, a row or so on each; without an interval the second
    is what the choice itself keeps (:func:`farthest`).
    """
    rank = Rank.of(at, 1)
    scale, miss = rank.below + rank.above, 1 - confidence
    usual = 2 * part.moved_rows(rank) / float(ladder.choice.epsilon) * log(1 / miss)
    if at in {0, 1}:
        usual = part.end(at, ladder.choice).usual(miss)
    if ladder.law is None:
        return usual, farthest(part, ladder, at, confidence)
    each = part.leaves // len(part.targets)
    points = tuple(each // 2 + i * each for i in range(len(part.targets)))
    cells = len(edges_around(points, part.leaves, part.rungs)) - 1
    by = edge_margin(ladder.law, cells // 2, cells - cells // 2, rank.factors, miss)
    return usual, by / scale


def farthest(part: Quantiles, ladder: Ladder, at: Fraction, confidence: float) -> float:
    """Rows by which the point is off at most, whatever the data.

    A value is chosen that scores x less than the best with probability e^−x/scale at most, and V
    values are scored: where many rows share a value, or none lie between two, most of the V are
    equally far from the quantile. Where several are chosen, one inside the other, what they are off
    adds up.
    """
    if at in {0, 1}:
        return part.end(at, ladder.choice).farthest(1 - confidence)
    rank, miss = Rank.quantile(at), 1 - confidence
    rows = float(part.sensitivity.l1 / ladder.choice.epsilon)
    if not part.nested:
        alone = part.moved_rows(rank) / float(ladder.choice.epsilon)
        return 2 * alone * log(part.leaves / miss)
    places = max(part.leaves, 2**_SPREAD)
    return 2 * part.levels * rows * log(places * part.levels / miss)
