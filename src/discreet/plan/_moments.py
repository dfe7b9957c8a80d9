r"""Second moments of two columns: nine cells that are all measured at the price of one.

Guarantee
---------
With s ∈ 0…K and t ∈ 0…L the codes of two columns, :math:`B_0=(K-s)^2`,
:math:`B_1=2s(K-s)`, :math:`B_2=s^2` are never negative and add up to K², and likewise for t.
So the nine products :math:`B_i(s)B_j(t)` of a row are never negative and add up to D = K²L²:
one unit with at most m rows, at most p in a group, moves the nine vectors *together* by at
most as much as D times a count moves. Every cell therefore gets the noise of the whole loss.

Proof sketch
------------
Let z ≥ 0 be the nine numbers that a unit adds to one group, and c ≤ p its rows there:
‖z‖₁ = Dc exactly, and ‖z‖₂ ≤ ‖z‖₁. Over groups, norms of z are at most those of the
vector (Dc) of scaled counts: L1 and L2 sensitivity under add-remove. Changing a unit
adds one and removes one, so ‖z − z'‖₁ ≤ ‖z‖₁ + ‖z'‖₁, and since both are ≥ 0,
‖z − z'‖₂² ≤ ‖z‖₂² + ‖z'‖₂², and no number moves by more than the larger. Rows in which one
of the two is NULL add nothing. The cells of (t, s) are those of (s, t), transposed: both orders
of a pair read one draw, and nothing that moves is counted twice.

All of n, Σx, Σy, Σx², Σxy, Σy² are combinations of the cells with coefficients 0, ½, 1
(in units of the ranges): 1 = (1,1,1), u = (0,½,1), u² = (0,0,1). At equal loss the noise
of a slope is 2.6 to 2.8 times smaller than with six vectors at a sixth each.

D/ε must fit 60 bits, so that K·L is at most :data:`AREA`: of two ranges of more than :data:`FINEST`
codes both are rounded to so many, and beside a narrow column a wide one keeps more.

Intervals
---------
Given the exact means (m, l), every second moment about them is linear in the cells, with
noise of a known law (:mod:`._tails`); so is
:math:`\sum(u-m)\{(v-l)-\beta(u-m)\}`, which is zero at the exact slope. What is kept is
kept at some of nine points of a region that holds the means (Berger and Boos): a tenth of
the error allowed is the region's. Nothing noisy is divided by; where no slope can be ruled out,
the interval is unbounded and says so.

With :math:`k^2=S_{yy}/S_{xx}` a correlation is r where :math:`S_{xy}-\tfrac r2(kS_{xx}+S_{yy}/k)`
is zero, a combination of the cells once k is known. An error of k moves it by
:math:`rS_{xx}(k-k_0)^2/2k` only, so one k serves: an interval of k² (a ratio of two moments) and a
bound of Sxx get a tenth of the error each, and the combination may be off by as much as they
allow. R² is the square. By interval arithmetic from three moments, as it is still done where
columns were rounded, intervals were 1.2 to 3.3 times as wide as the error needs, now 1.2.

Where columns were rounded, each value by d or e of its range at most, exact statistics differ from
those of rounded values: means by d; with σ² = Sxx/n and τ² = Syy/n of the rounded values, Sxx by
:math:`nc_{xx}=n(2\sigma d+d^2)` and Sxy by :math:`nc_{xy}=n(\sigma e+\tau d+de)`, as Cauchy and
Schwarz say; hence a slope β by :math:`(c_{xy}+|\beta|c_{xx})/(\sigma^2-c_{xx})`. Ends are moved by
that much. Bounds of n, σ and τ get a tenth of the error that is left.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass
from discreet.plan._expr import Arithmetic, AsNumber, Constant, Expr, Rescale, Square
from discreet.plan._formula import Formula, Releases, read
from discreet.plan._parts import (
    Floats,
    Law,
)
from discreet.plan._relation import Measure, MeasureKind
from discreet.plan._tails import half_width, wave_tail
from discreet.plan._tensor import Tensors
from discreet.plan._types import Type
from discreet.plan._valid import damaged
from discreet.plan._vectors import Box

FINEST: Final = 2**13
AREA: Final = FINEST**2
"""Codes of two columns, one times the other, at most; finer values are rounded."""

NINE: Final = tuple(product(range(3), range(3)))
_ONE, _U, _UU = np.array([1.0, 1, 1]), np.array([0.0, 0.5, 1]), np.array([0.0, 0, 1])

_PRODUCTS: Final = (
    (_ONE, _ONE), (_U, _ONE), (_ONE, _U), (_UU, _ONE), (_U, _U), (_ONE, _UU),
)  # fmt: skip
MOMENTS: Final = np.stack([np.kron(a, b) for a, b in _PRODUCTS])
"""Coefficients of n, Σu, Σv, Σu², Σuv, Σv² on the nine cells, u and v in units of the ranges."""

SHARE: Final = 0.1
"""Part of the error allowed that the region of the means gets."""


# -- what is measured ------------------------------------------------------------------


@dataclass(frozen=True)
class Scaled:
    """A column as codes 0…``top``, each ``width`` wide, the first at ``lo``."""

    code: Expr
    top: int
    lo: Fraction
    width: Fraction
    step: Fraction

    @property
    def off(self) -> Fraction:
        """How far a value is rounded at most."""
        return self.width / 2 if self.width > self.step else Fraction(0)

    @classmethod
    def pair(cls, *columns: Expr) -> tuple[Scaled, Scaled]:
        """Two columns: a narrow one leaves more codes to the other."""
        sizes = [max(e.type.hi - e.type.lo, 1) for e in columns]
        first, second = (
            cls.of(e, AREA // min(other, FINEST))
            for e, other in zip(columns, reversed(sizes), strict=True)
        )
        return first, second

    @classmethod
    def of(cls, expr: Expr, finest: int) -> Scaled:
        """Shift a column to zero, and round it where it is finer than that."""
        t = expr.type
        first = Constant(t.lo, Type.number(t.lo, t.lo, t.step, null=False))
        code: Expr = Arithmetic("-", AsNumber(expr) if not t.is_numeric else expr, first)
        coarse = -(-(t.hi - t.lo) // finest)
        if coarse > 1:
            code = Rescale(code, coarse * t.step)
        return cls(code, max(code.type.hi, 1), t.lo * t.step, max(coarse, 1) * t.step, t.step)

    @property
    def basis(self) -> tuple[Expr, Expr, Expr]:
        """(K − s)², 2s(K − s), s²."""
        step = self.code.type.step
        whole = Constant(self.top, Type.number(self.top, self.top, step, null=False))
        two = Constant(2, Type.number(2, 2, null=False))
        rest = Arithmetic("-", whole, self.code)
        both = Arithmetic("*", two, Arithmetic("*", self.code, rest))
        return Square(rest), both, Square(self.code)


def cells_of_pair(x: Scaled, y: Scaled) -> list[Measure]:
    """The nine measures of two columns."""
    return [Measure(MeasureKind.SUM, Arithmetic("*", x.basis[i], y.basis[j])) for i, j in NINE]


# -- what follows ------------------------------------------------------------------------

WORDS: Final = (
    "count", "avgx", "avgy", "sxx", "sxy", "syy", "covar_pop", "covar_samp", "corr", "slope",
    "intercept", "r2",
)  # fmt: skip
"""What two columns' moments answer."""

_ABOUT: Final = {"sxx": (0, 0), "sxy": (0, 1), "syy": (1, 1)}

_TURNED: Final = {
    "avgx": "avgy", "avgy": "avgx", "sxx": "syy", "syy": "sxx",
    "slope": "slope of x", "intercept": "intercept of x",
}  # fmt: skip
"""What the other order says of the same columns; the rest is the same in both."""


@dataclass(frozen=True, slots=True)
class Pairwise(Formula):
    """A statistic of two columns, from their nine cells."""

    tensor: int
    what: str
    whole: int
    x: Fraction
    x_range: Fraction
    y: Fraction
    y_range: Fraction
    x_off: Fraction = Fraction(0)
    y_off: Fraction = Fraction(0)
    """How far rounding moved a value at most."""
    turned: bool = False
    """Whether the cells were measured for the other order, (y, x)."""

    @property
    def parts(self) -> tuple[int, ...]:
        """The one part that holds the cells."""
        return (self.tensor,)

    def cells(self, releases: Releases) -> Floats:
        """Noisy cells in rows, one line per group."""
        cells = read(releases, self.tensor, Tensors).floats / float(self.whole)
        cells = cells.reshape(-1, 3, 3)
        return (cells.transpose(0, 2, 1) if self.turned else cells).reshape(-1, len(NINE))

    def moments(self, releases: Releases) -> Floats:
        """Noisy n, Σu, Σv, Σu², Σuv, Σv² of every cell, u and v in units of the ranges."""
        return np.asarray(self.cells(releases) @ MOMENTS.T)

    def estimate(self, releases: Releases) -> Floats:
        """Plug the noisy moments in, inside what is possible."""
        n, su, sv, suu, suv, svv = self.moments(releases).T
        rows = np.maximum(n, 1.0)
        mu, mv = np.clip(su / rows, 0, 1), np.clip(sv / rows, 0, 1)
        a, b = float(self.x_range), float(self.y_range)
        about = {
            "sxx": np.maximum(suu - su * mu, 0) * a * a,
            "sxy": (suv - su * mv) * a * b,
            "syy": np.maximum(svv - sv * mv, 0) * b * b,
        }
        sxx, sxy, syy = about.values()
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(sxx > 0, sxy / sxx, np.nan)
            corr = np.where(sxx * syy > 0, np.clip(sxy / np.sqrt(sxx * syy), -1, 1), np.nan)
        avgx, avgy = float(self.x) + a * mu, float(self.y) + b * mv
        outputs = about | {
            "count": n,
            "avgx": avgx,
            "avgy": avgy,
            # at most a quarter of the ranges' product, which n − 1 doubles at most
            "covar_pop": np.clip(sxy / rows, -a * b / 4, a * b / 4),
            "covar_samp": np.clip(sxy / np.maximum(n - 1, 1.0), -a * b / 2, a * b / 2),
            "slope": slope,
            "intercept": avgy - slope * avgx,
            "corr": corr,
            "r2": corr**2,
        }
        return np.asarray(outputs[self.what], dtype=np.float64)

    def box(self, releases: Releases, level: float) -> Box:
        """Ends of the noise alone, cell by cell."""
        release = read(releases, self.tensor, Tensors)
        ends = [self._ends(row, release.law, 1 - level) for row in self.cells(releases)]
        intervals = np.array(ends).reshape(-1, 2)
        return Box(intervals[:, 0], intervals[:, 1])

    def statements(self, releases: Releases) -> set[object]:  # noqa: ARG002 - always one
        """All that is said about one pair rests on one draw, each by itself."""
        what = _TURNED.get(self.what, self.what) if self.turned else self.what
        return {("tensor", self.tensor, what)}

    def margin(self, priced: Any, confidence: float) -> str:
        """Of a count: half its width; the rest depends on data."""
        if self.what != "count":
            return "± follows from noisy moments; see the interval of the answer"
        law = priced[self.tensor].law
        width = half_width(np.ones((1, len(NINE))) / self.whole, law, 1 - confidence)[0]
        return f"± {width:.3g}"

    def check(self, releases: Releases) -> None:
        """Refuse what the cells cannot answer."""
        if read(releases, self.tensor, Tensors).width not in (0, len(NINE)):
            raise damaged("a pair of columns has nine cells")
        if self.what not in WORDS or self.whole < 1 or min(self.x_range, self.y_range) <= 0:
            raise damaged("a pair of columns has no range")

    # -- intervals, in units of the ranges ---------------------------------------------------

    @property
    def _slack(self) -> _Slack:
        return _Slack(float(self.x_off / self.x_range), float(self.y_off / self.y_range))

    def _ends(self, cells: Floats, law: Law, error: float) -> tuple[float, float]:
        noise, slack = _Noise(law, float(self.whole)), self._slack
        a, b = float(self.x_range), float(self.y_range)
        match self.what:
            case "count":
                least, most = noise.rows(cells, error)
                return max(least, 0.0), max(most, 0.0)
            case "avgx":
                low, high = noise.mean(cells, 1, error)
                return float(self.x) + a * (low - slack.x), float(self.x) + a * (high + slack.x)
            case "avgy":
                low, high = noise.mean(cells, 2, error)
                return float(self.y) + b * (low - slack.y), float(self.y) + b * (high + slack.y)
            case "intercept":
                return self._intercept(cells, noise, error)
        region = noise.region(cells, SHARE * error)
        moved, rest = slack.moves(noise, cells, region, (1 - SHARE) * error)
        match self.what:
            case "sxx" | "sxy" | "syy":
                low, high = moved.sums(noise, cells, [_ABOUT[self.what]], region, rest)[0]
                scale = {"sxx": a * a, "sxy": a * b, "syy": b * b}[self.what]
                return low * scale, high * scale
            case "covar_pop" | "covar_samp":
                part = SHARE * rest if self.what == "covar_samp" else 0.0
                low, high = noise.ratio(cells, (0, 1), None, region, rest - part)
                low, high = low - moved.each((0, 1)), high + moved.each((0, 1))
                low, high = max(low, -0.25), min(high, 0.25)
                if self.what == "covar_samp":
                    low, high = _divided_by_one_less(low, high, noise.rows(cells, part))
                return low * a * b, high * a * b
            case "slope":
                low, high = moved.slope(noise, cells, region, rest)
                return low * b / a, high * b / a
        if any(moved.off):
            ends = _correlation(moved.sums(noise, cells, list(_ABOUT.values()), region, rest))
        else:
            if self.turned:  # the same in both orders
                cells, region = cells.reshape(3, 3).T.reshape(-1), (region[1], region[0])
            ends = noise.correlation(cells, region, rest)
        return ends if self.what == "corr" else _squared(*ends)

    def _intercept(self, cells: Floats, noise: _Noise, error: float) -> tuple[float, float]:
        a, b, slack = float(self.x_range), float(self.y_range), self._slack
        region = noise.region(cells, error / 2)
        moved, rest = slack.moves(noise, cells, region, error / 2)
        slope = moved.slope(noise, cells, region, rest)
        if not np.isfinite(slope).all():
            return -np.inf, np.inf
        places = [
            float(self.y) + b * v - s * b / a * (float(self.x) + a * u)
            for s in slope
            for u in (region[0][0] - slack.x, region[0][1] + slack.x)
            for v in (region[1][0] - slack.y, region[1][1] + slack.y)
        ]
        return min(places), max(places)


@dataclass(frozen=True, slots=True)
class _Slack:
    """How far rounding moves a value of either column, in units of the ranges."""

    x: float
    y: float

    def moves(
        self, noise: _Noise, cells: Floats, region: Region, error: float
    ) -> tuple[_Moved, float]:
        """How far it moves second moments, and the error that is left."""
        if not (self.x or self.y):
            return _Moved((0.0, 0.0), 0.0, 0.0, (0.0, 0.0)), error
        part = SHARE * error / 3
        n, off = float(MOMENTS[0] @ cells), noise.half(MOMENTS[:1], part)[0]
        least, most = max(n - off, 1.0), max(n + off, 1.0)
        (low, high), (_, other) = (noise.about(cells, p, region, part) for p in ((0, 0), (1, 1)))
        top = tuple(min(s / least, 0.25) ** 0.5 for s in (high, other))
        return _Moved((self.x, self.y), most, low / most, (top[0], top[1])), (1 - SHARE) * error


@dataclass(frozen=True, slots=True)
class _Moved:
    """What rounding may have done to second moments."""

    off: tuple[float, float]
    rows: float
    least: float
    """Sxx/n, at least."""
    spread: tuple[float, float]
    """Roots of Sxx/n and Syy/n, at most."""

    def each(self, pair: tuple[int, int]) -> float:
        """How far it moves a second moment, for each row."""
        (d, e), (a, b) = ([of[i] for i in pair] for of in (self.off, self.spread))
        return a * e + b * d + d * e

    def sums(
        self,
        noise: _Noise,
        cells: Floats,
        pairs: list[tuple[int, int]],
        region: Region,
        error: float,
    ) -> list[tuple[float, float]]:
        """Second moments about the means, all at once."""
        intervals = []
        for pair in pairs:
            low, high = noise.about(cells, pair, region, error / len(pairs))
            off = self.rows * self.each(pair)
            intervals.append((low - off if pair == (0, 1) else max(low - off, 0.0), high + off))
        return intervals

    def slope(
        self, noise: _Noise, cells: Floats, region: Region, error: float
    ) -> tuple[float, float]:
        """One second moment over the other."""
        low, high = noise.ratio(cells, (0, 1), (0, 0), region, error)
        if not any(self.off):
            return low, high
        under = self.least - self.each((0, 0))
        if under <= 0 or not np.isfinite([low, high]).all():
            return -np.inf, np.inf
        off = (self.each((0, 1)) + max(abs(low), abs(high)) * self.each((0, 0))) / under
        return low - off, high + off


def _squared(low: float, high: float) -> tuple[float, float]:
    """Range of a square."""
    least = 0.0 if low <= 0 <= high else min(low**2, high**2)
    return least, max(low**2, high**2)


def _correlation(ends: list[tuple[float, float]]) -> tuple[float, float]:
    """Range of Sxy/√(Sxx·Syy) over three intervals."""
    (xx, xx_top), (low, high), (yy, yy_top) = ends

    def at(top: float, *, small: bool) -> float:
        under = xx * yy if small else xx_top * yy_top
        return float(np.clip(top / np.sqrt(under), -1, 1)) if under > 0 else float(np.sign(top))

    return at(low, small=low < 0), at(high, small=high > 0)


Region = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Noise:
    """Noise of nine cells in units of the ranges."""

    law: Law
    whole: float

    def half(self, weights: Floats, error: float) -> Floats:
        return half_width(weights / self.whole, self.law, error)

    def allows(self, weights: Floats, cells: Floats, error: float) -> NDArray[np.bool_]:
        return wave_tail(np.abs(weights @ cells), weights / self.whole, self.law) >= error

    def rows(self, cells: Floats, error: float) -> tuple[float, float]:
        """Numbers of rows that the cells do not rule out."""
        n, off = float(MOMENTS[0] @ cells), float(self.half(MOMENTS[:1], error)[0])
        return n - off, n + off

    def mean(self, cells: Floats, which: int, error: float) -> tuple[float, float]:
        """Means that the cells do not rule out, between 0 and 1."""
        middle = float(np.clip(MOMENTS[which] @ cells / max(MOMENTS[0] @ cells, 1.0), 0, 1))

        def test(m: Floats) -> NDArray[np.bool_]:
            return self.allows(MOMENTS[which] - m[:, None] * MOMENTS[0], cells, error)

        return _outermost(test, middle, 0.0), _outermost(test, middle, 1.0)

    def region(self, cells: Floats, error: float) -> Region:
        """Means of both columns."""
        return self.mean(cells, 1, error / 2), self.mean(cells, 2, error / 2)

    def points(self, region: Region) -> list[tuple[float, float]]:
        """Nine points of a region."""
        return [(u, v) for u in np.linspace(*region[0], 3) for v in np.linspace(*region[1], 3)]

    def about(
        self, cells: Floats, pair: tuple[int, int], region: Region, error: float
    ) -> tuple[float, float]:
        """A second moment about the means."""
        weights = np.array([_about(pair, *m) for m in self.points(region)])
        values, off = weights @ cells, self.half(weights, error)
        low, high = float((values - off).min()), float((values + off).max())
        return (low, high) if pair == (0, 1) else (max(low, 0.0), max(high, 0.0))

    def ratio(
        self,
        cells: Floats,
        top: tuple[int, int],
        bottom: tuple[int, int] | None,
        region: Region,
        error: float,
    ) -> tuple[float, float]:
        """One second moment over another, or over the number of rows."""
        ends: list[tuple[float, float]] = []
        for m in self.points(region):
            above = _about(top, *m)
            below = MOMENTS[0] if bottom is None else _about(bottom, *m)
            under = float(below @ cells)
            middle = float(above @ cells) / under if under > 0 else 0.0

            def test(r: Floats, above: Floats = above, below: Floats = below) -> NDArray[np.bool_]:
                return self.allows(above - r[:, None] * below, cells, error)

            far = test(np.array([-_FAR, _FAR])) if bottom is not None else np.zeros(2, dtype=bool)
            if far.any():
                return -np.inf, np.inf
            limit = max(1.0, abs(middle)) * (1.0 if bottom is None else _FAR)
            ends.append((_outermost(test, middle, -limit), _outermost(test, middle, limit)))
        return min(e[0] for e in ends), max(e[1] for e in ends)

    def correlation(self, cells: Floats, region: Region, error: float) -> tuple[float, float]:
        """Correlations that the cells do not rule out: see the module's head."""
        part = SHARE * error
        low, high = self.ratio(cells, (1, 1), (0, 0), region, part)
        if not 0 < low <= high < np.inf:
            return -1.0, 1.0
        k = (low * high) ** 0.25
        _, most = self.about(cells, (0, 0), region, part)
        off = most * max((k - low**0.5) ** 2, (high**0.5 - k) ** 2) / (2 * k)
        ends: list[tuple[float, float]] = []
        for m in self.points(region):
            xy = _about((0, 1), *m)
            both = (k * _about((0, 0), *m) + _about((1, 1), *m) / k) / 2
            under = float(both @ cells)
            middle = float(np.clip(xy @ cells / under, -1, 1)) if under > 0 else 0.0

            def test(r: Floats, xy: Floats = xy, both: Floats = both) -> NDArray[np.bool_]:
                weights = xy - r[:, None] * both
                far = np.maximum(np.abs(weights @ cells) - off, 0.0)
                return wave_tail(far, weights / self.whole, self.law) >= error - 2 * part

            ends.append((_outermost(test, middle, -1.0), _outermost(test, middle, 1.0)))
        return min(e[0] for e in ends), max(e[1] for e in ends)


_FAR: Final = 1e6
"""A slope, in ranges of y per range of x, beyond which none is told from infinity."""


def _divided_by_one_less(low: float, high: float, rows: tuple[float, float]) -> tuple[float, float]:
    """What was divided by n, times n/(n−1), which is at most 2 and falls with n."""
    most, least = (max(n, 2.0) / (max(n, 2.0) - 1) for n in rows)
    return low * (least if low > 0 else most), high * (most if high > 0 else least)


def _about(pair: tuple[int, int], m: float, other: float) -> Floats:
    """Coefficients of Σ(u − m)², Σ(u − m)(v − l) or Σ(v − l)² on the cells."""
    n, u, v, uu, uv, vv = MOMENTS
    match pair:
        case (0, 0):
            return np.asarray(uu - 2 * m * u + m * m * n)
        case (1, 1):
            return np.asarray(vv - 2 * other * v + other * other * n)
    return np.asarray(uv - other * u - m * v + m * other * n)


def _outermost(test: Any, inside: float, limit: float) -> float:
    """Outermost number between two that a test keeps, searched on ever finer grids."""
    line = inside + (limit - inside) * np.concatenate([[0.0], np.geomspace(1e-7, 1.0, 48)])
    for _ in range(5):
        good = np.flatnonzero(test(line))
        if good.size == 0:
            return float(line[0])
        if good[-1] == line.size - 1:
            return float(line[-1])
        line = np.linspace(line[good[-1]], line[good[-1] + 1], 17)
    return float(line[-1])
