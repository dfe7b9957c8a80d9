r"""Totals, means and spreads read off joint parts, with intervals of exact tails.

A joint part (:mod:`discreet.plan._joint`) releases noisy versions z of integers that share one
total per row. Counts and sums are combinations w·z; a mean is a quotient of two of
them; a variance is a quotient less the square of another.

Intervals
---------
*WeightedSum.* Its error is w·η, whose tail is known (:mod:`discreet.plan._tails`).

*Mean (Fieller).* At the true mean m the combination (top − m·bottom)·z has no expectation:
its value is pure noise c·η, c = top − m·bottom. The interval is the hull of all m in the public
range for which noise as large as that has probability at least α. It holds the truth with
probability at least 1 − α at every sample size, without approximation. Where the noisy
size is not clearly positive it may be the whole range.

*Variance (Berger and Boos).* With the shares :math:`b_0=(1-t)^2, b_1=2t(1-t), b_2=t^2`,
mean m and second moment about it s², the combination with c = (m² − s², m² − m − s²,
(1 − m)² − s²) is pure noise. m is a nuisance: an interval for it at :math:`α/10` comes first,
then s² is kept when some m in it keeps it at :math:`9α/10`, and s² ≤ m(1 − m).
Over a cell of the grid of m the statistic moves by at most the cell's width times a
bound on its slope; that much is allowed for, so the grid costs no coverage.

References
----------
E. Fieller, "Some problems in interval estimation", JRSS B 1954. R. Berger, D. Boos,
"P values maximized over a confidence set for the nuisance parameter", JASA 1994.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from discreet._dataclass import dataclass
from discreet._print import if_rows, number
from discreet.plan._formula import (
    ONE_VALUE,
    Combination,
    Formula,
    Powers,
    Releases,
    read,
    spread_margin,
)
from discreet.plan._parts import Floats, Law, Priced
from discreet.plan._tails import margin, tail
from discreet.plan._valid import damaged
from discreet.plan._vectors import Box, Numbers

_NODES = 14
_FEW = 50
_HALVINGS = 26
_FIRST = np.array([0.0, 0.5, 1.0])
"""The first moment in the shares of degree two."""
_PLACES = 15
"""Means that the interval of a variance looks at."""
_SLACK = 1 - 1e-9
"""Rounding in a tail must not refuse a value that it keeps."""


@dataclass(frozen=True, slots=True)
class Linear(Formula):
    """What all formulas over a joint part have in common: the releases they read."""

    cells: tuple[int, ...]

    @property
    def parts(self) -> tuple[int, ...]:
        """The releases of the joint part."""
        return self.cells

    def noisy(self, releases: Releases) -> Floats:
        """Noisy integers, a column for each release."""
        return np.stack([read(releases, i, Numbers).floats for i in self.cells], axis=-1)

    def laws(self, releases: Releases) -> list[Law | None]:
        """Laws of their noise."""
        return [read(releases, i, Numbers).law for i in self.cells]

    def statements(self, releases: Releases) -> set[object]:
        """One about all its noise together."""
        return {self} if any(self.laws(releases)) else set()


@dataclass(frozen=True, slots=True)
class WeightedSum(Linear):
    """A count or a sum: noisy integers times weights."""

    weights: tuple[Fraction, ...]

    def estimate(self, releases: Releases) -> Floats:
        """Weighted sum."""
        return self.noisy(releases) @ _floats(self.weights)

    def box(self, releases: Releases, level: float) -> Box:
        """Estimate, give or take what the noise may be."""
        middle = self.estimate(releases)
        half = margin(self.laws(releases), list(map(float, self.weights)), level)
        return Box(middle - half, middle + half)

    @property
    def combination(self) -> Combination:
        """Releases times their weights."""
        return dict(zip(self.cells, self.weights, strict=True))

    def half(self, laws: Sequence[Law | None], level: float) -> float:
        """Half-width of its noise, where these are the laws of all releases."""
        mine = [laws[i] for i in self.cells]
        return margin(mine, list(map(float, self.weights)), level)

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Half-width of the noise."""
        half = self.half([x.noise for x in priced], confidence)
        return f"± {number(half, half or None)}"

    def check(self, releases: Releases) -> None:
        """Refuse weights that do not fit the releases."""
        Formula.check(self, releases)
        _fit(self.cells, self.weights)


@dataclass(frozen=True, slots=True)
class Quotient(Linear):
    """A mean: one combination over another, inside the public range."""

    needs_rows = True
    top: tuple[Fraction, ...]
    bottom: tuple[Fraction, ...]
    lo: Fraction
    hi: Fraction

    def estimate(self, releases: Releases) -> Floats:
        """Divide; by one at least."""
        z = self.noisy(releases)
        return self._clipped(z @ _floats(self.top), z @ _floats(self.bottom))

    @property
    def powers(self) -> Powers:
        """Number and sum."""
        sums = (dict(zip(self.cells, c, strict=True)) for c in (self.bottom, self.top))
        return Powers(tuple(sums), self.lo, self.hi)

    def _clipped(self, top: Floats, bottom: Floats) -> Floats:
        return np.clip(top / np.maximum(bottom, 1.0), float(self.lo), float(self.hi))

    def box(self, releases: Releases, level: float) -> Box:
        """All means that the noise does not rule out."""
        z, laws = self.noisy(releases), self.laws(releases)
        top, bottom = _floats(self.top), _floats(self.bottom)
        if not any(laws):
            value = self.estimate(releases)
            return Box(value, value)

        def test(m: Floats) -> NDArrayBool:
            c = top - m[..., None] * bottom
            # pure noise at the truth; the estimate itself is always kept
            return tail(laws, c, np.abs((c * z).sum(axis=-1))) >= (1 - level) * _SLACK

        middle = self._clipped(z @ top, z @ bottom)
        return hull(test, middle, float(self.lo), float(self.hi))

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Error as far as it is known before: how it divides depends on the private size."""
        if self.lo == self.hi:
            return ONE_VALUE
        laws = [priced[i].noise for i in self.cells]
        ends = [self.lo, (self.lo + self.hi) / 2, self.hi]
        halves = [self._about(laws, m, confidence) for m in ends]
        return f"± about {if_rows((min(halves), max(halves)), float(self.hi - self.lo))}"

    def _about(self, laws: Sequence[Law | None], m: Fraction, level: float) -> float:
        c = [float(a - m * b) for a, b in zip(self.top, self.bottom, strict=True)]
        return margin(laws, c, level)

    def check(self, releases: Releases) -> None:
        """Refuse an empty range and coefficients that do not fit."""
        Formula.check(self, releases)
        _fit(self.cells, self.top, self.bottom)
        if self.lo > self.hi:
            raise damaged("a mean has no range")


NDArrayBool = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def ratio_box(
    top: Combination, bottom: Combination, releases: Releases, level: float
) -> Box | None:
    """All ratios of two sums that the noise does not rule out, as one statement.

    At the true ratio r the combination top − r·bottom is noise alone, as for a mean; at ±∞ that is
    the noise below the line. None where a release shows only what passed a threshold.
    """
    cells = sorted({*top, *bottom})
    read_off = [read(releases, i, Numbers) for i in cells]
    if any(numbers.threshold is not None for numbers in read_off):
        return None
    laws = [numbers.law for numbers in read_off]
    z = np.stack([numbers.floats for numbers in read_off], axis=-1)
    above, below = (_floats([c.get(i, Fraction(0)) for i in cells]) for c in (top, bottom))
    over, under = z @ above, z @ below
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.where(under == 0, 0.0, over / np.where(under == 0, 1.0, under))
    # steps of the search, in parts of what the noise may do to a ratio of this size
    reach = margin(laws, above.tolist(), level) + np.abs(middle) * margin(
        laws, below.tolist(), level
    )
    unit = np.maximum(reach / np.maximum(np.abs(under), 1.0), 1e-12)

    def ratio(u: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(middle + unit * u / (1 - np.abs(u)))

    def test(u: Floats) -> NDArrayBool:
        far = np.abs(u) >= 1
        r = ratio(np.where(far, 0.0, u))[..., None]
        c = np.where(far[..., None], below, above - r * below)
        return tail(laws, c, np.abs((c * z).sum(axis=-1))) >= (1 - level) * _SLACK

    if not any(laws):
        return Box(middle, middle)
    ends = hull(test, np.zeros_like(middle), -1.0, 1.0)
    return Box(ratio(ends.low), ratio(ends.high))


def hull(test: Callable[[Floats], NDArrayBool], middle: Floats, lo: float, hi: float) -> Box:
    """Outermost values, cell by cell, that a test keeps; everything where it keeps none.

    Looks outward from the `middle` at steps that grow in proportion, then halves between the
    last value that is kept and the next.
    """
    steps = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, _NODES)])
    limits = np.array([[lo], [hi]])
    inside, outside = np.stack([middle, middle]), np.broadcast_to(limits, (2, middle.size)).copy()
    found = np.zeros(middle.shape, dtype=bool)
    for step in np.array_split(steps, max(1, min(steps.size, middle.size // _FEW))):
        at = middle + (limits - middle) * step[:, None, None]
        for place, good in zip(at, test(at), strict=True):
            inside = np.where(good, place, inside)
            outside = np.where(good, limits, np.where(outside == limits, place, outside))
            found |= good.any(axis=0)
    for _ in range(_HALVINGS):
        at = (inside + outside) / 2
        good = test(at)
        inside, outside = np.where(good, at, inside), np.where(good, outside, at)
    return Box(np.where(found, outside[0], lo), np.where(found, outside[1], hi))


def _floats(values: Sequence[Fraction]) -> Floats:
    return np.array([float(v) for v in values])


def _fit(cells: Sequence[int], *coefficients: Sequence[Fraction]) -> None:
    if not cells or any(len(c) != len(cells) for c in coefficients):
        raise damaged("coefficients do not fit the parts they weigh")


@dataclass(frozen=True, slots=True)
class Dispersion(Linear):
    """Variance or standard deviation from the three shares of degree two.

    ``total`` is the share of one row (R² in grid steps); the public range starts at ``low``
    and is ``width`` wide, in units.
    """

    needs_rows = True
    total: int
    low: Fraction
    width: Fraction
    sample: bool
    root: bool

    def estimate(self, releases: Releases) -> Floats:
        """Second moment less the square of the first, inside the possible range."""
        z = self.noisy(releases) / self.total
        n = np.maximum(z.sum(axis=-1), 1.0)
        first, second = z @ _FIRST / n, z[..., 2] / n
        spread = np.clip(second - first**2, 0.0, 0.25)
        return self._in_units(spread * n / np.maximum(n - 1, 1.0) if self.sample else spread)

    @property
    def powers(self) -> Powers:
        """Number, sum and sum of squares of low + width·t."""
        low, width, one = self.low, self.width, Fraction(1, self.total)
        nothing = Fraction(0)
        shares = ((one, one, one), (nothing, one / 2, one), (nothing, nothing, one))
        moments = (
            (Fraction(1), nothing, nothing),
            (low, width, nothing),
            (low * low, 2 * low * width, width * width),
        )
        sums = []
        for each in moments:
            terms = [[a * s for s in row] for a, row in zip(each, shares, strict=True)]
            totals = [sum(column, nothing) for column in zip(*terms, strict=True)]
            sums.append(dict(zip(self.cells, totals, strict=True)))
        return Powers(tuple(sums), low, low + width)

    @property
    def _widest(self) -> float:
        """Largest variance of values in 0 … 1: two of them, if divided by n − 1."""
        return 0.5 if self.sample else 0.25

    def _in_units(self, spread: Floats) -> Floats:
        value = np.clip(spread, 0.0, self._widest) * float(self.width) ** 2
        return np.sqrt(value) if self.root else value

    def box(self, releases: Releases, level: float) -> Box:
        """All variances that the noise does not rule out, whatever the mean."""
        z, laws = self.noisy(releases), self.laws(releases)
        if not any(laws):
            value = self.estimate(releases)
            return Box(value, value)
        nuisance = (1 - level) / 10
        span = self._means(z, laws, nuisance)
        q = np.linspace(span.low, span.high, _PLACES, axis=-1)
        apart = ((span.high - span.low) / (2 * (_PLACES - 1)))[:, None]
        size, first = z.sum(axis=-1)[:, None], (z @ _FIRST)[:, None]
        slack = apart * (2 * np.abs(q * size - first) + apart * np.abs(size))
        most = (q * (1 - q) + apart) * (2 if self.sample else 1) + 1e-9
        alpha = (1 - level - nuisance) * _SLACK

        def test(spread: Floats) -> NDArrayBool:
            s = spread[..., None]
            c = np.stack([q * q - s, q * q - q - s, (1 - q) ** 2 - s], axis=-1)
            value = (c @ z[..., None])[..., 0] + (s * self.total if self.sample else 0.0)
            far = np.maximum(np.abs(value) - slack, 0.0)
            chance = tail(laws, np.abs(c) + 2 * apart[..., None], far)
            return np.asarray(((chance >= alpha) & (s <= most)).any(axis=-1))

        middle = self.estimate(releases) / float(self.width) ** (1 if self.root else 2)
        ends = hull(test, middle**2 if self.root else middle, 0.0, self._widest)
        return Box(self._in_units(ends.low), self._in_units(ends.high))

    def _means(self, z: Floats, laws: list[Law | None], miss: float) -> Box:
        """Interval of the mean in 0 … 1."""

        def test(m: Floats) -> NDArrayBool:
            c = _FIRST - m[..., None]
            return tail(laws, c, np.abs((c * z).sum(axis=-1))) >= miss * _SLACK

        middle = z @ _FIRST / np.maximum(z.sum(axis=-1), self.total)
        return hull(test, np.clip(middle, 0.0, 1.0), 0.0, 1.0)

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Error of the variance at its worst, as far as it is known before."""
        laws = [priced[i].noise for i in self.cells]
        scale = float(self.width) ** 2 / self.total
        worst = margin(laws, [scale, scale, scale], confidence)
        return spread_margin(worst, float(self.width), root=self.root)

    def check(self, releases: Releases) -> None:
        """Refuse anything but three shares of a positive total."""
        Formula.check(self, releases)
        if len(self.cells) != 3 or self.total <= 0 or self.width < 0:
            raise damaged("a spread has no range")
