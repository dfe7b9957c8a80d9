r"""A variance asked alone where the number of rows is public: a rough mean, then squares.

(Row units, change-one, no NULL, no groups.) Values y are whole, in 0 … K; n is public.

What is released
----------------
*First round.* :math:`\lfloor D\,\Sigma y/K\rfloor`, with a small share of the price. It says about
where the mean lies and, with n, chooses what the second round measures:

- *the variance itself*: :math:`\lfloor b\,\Sigma(y-\bar y)^2\rfloor`, b = Dn/K²(n−1); or
- *two sums about a centre* g: :math:`\lfloor a\,\Sigma(y-g)\rfloor` and
  :math:`\lfloor b\,\Sigma(y-g)^2\rfloor`, with w the distance of g from the farther end, a = 2tbw
  and :math:`b=(D-2)/w^2(1+t)^2` (under Gaussian noise :func:`_norm` instead of (1+t)²).

Guarantee
---------
D is a constant (:data:`WHOLE`), so both laws and both losses are fixed before anything is
measured. What the second round asks is a function of n and of what the first has released, and no
unit moves it by more than D, whatever it is: losses compose.

Proof sketch
------------
A row y is replaced by y'. Σy moves by K at most. With c the mean of the other rows,
:math:`\Sigma(y-\bar y)^2` moves by
:math:`\frac{n-1}n|(y-c)^2-(y'-c)^2|\le\frac{n-1}nK^2`. The L1 norm of a move of (aΣx, bΣx²),
x = y − g, is the larger of the ranges of bx² ± ax on \|x\| ≤ w: from :math:`-a^2/4b=-bt^2w^2`
(t ≤ 1) to :math:`bw^2(1+2t)`, together :math:`bw^2(1+t)^2`. For L2: two values d apart have a
sum of at most 2w − d, so the square is at most
:math:`b^2w^4\max_{0\le x\le2}x^2(4t^2+(2-x)^2)`. Beyond t² = 1/8 that grows with x, up to
16t². Below, it has one more maximum, at an x ≤ 3/2; as a maximum of functions that are linear in
t² that is convex in t², hence below its chord from 1 (t = 0) to 27/16 (t² = 1/8): at most
1 + 11t²/2. Rounding down: what moves by no more than a whole D does
so rounded, too; of two numbers each moves by less than one more, which D − 2 allows for.

What it gives
-------------
Let E = εn, and the mean lie μ half ranges from the middle. Noise on the variance itself, which is
what other libraries add, is the same for all μ: call it 1. Two sums about g ≈ the mean have
:math:`\tfrac14(1+|\mu|)^2(1+t)^2\sqrt{1+r^2/t^2(1+|\mu|)^2}`, r half ranges being the error of g; t
follows from r. What is expected to be smaller is taken, the two sums only below :data:`_AHEAD`.
By integration over the first round, its share paid for, errors are (Laplace noise)

=======  ====  ====  ====  ====  =====  =====  ======
E        50    100   250   500   1000   5000   50000
=======  ====  ====  ====  ====  =====  =====  ======
worst μ  1.03  1.04  1.04  1.04  1.04   1.03   1.03
μ = 0    1.03  1.01  0.83  0.62  0.48   0.31   0.27
=======  ====  ====  ====  ====  =====  =====  ======

Where noise on the variance itself would be beyond :data:`_ALONE` quarters of the squared range
(E < 30), the first round knows nothing. There two sums about the middle with t = ½ are ahead (0.55
to 0.8 in the middle, 1.04 at most), as the mean that they give bounds the variance:
:math:`\sigma^2\le(K-\bar y)\bar y`. Only below E = 8, where all is noise, would a variance near the
largest possible be better off with noise of its own, clamped, by up to √2.

Of few rows the variance itself moves by (n−1)/n of K² only, and two sums by as much as ever. They
are held against that, and taken about the middle below :math:`E=30(\frac{n-1}n)^3`, up to which
they are level at the ends of the range (by simulation; of two rows never). One row has no variance,
and none of a sample: n being public, that is said without noise.

Intervals
---------
Of the variance itself: that of the noise, without approximation. Of two sums: with m the exact mean
less g, :math:`V(m)=S/n-2mA/n+m^2` differs from the variance by noise alone, of coefficients 1/bn
and 2m/an. A region of m gets a tenth of the error; the variance lies between the least and the
largest V over it, less and plus a margin for the largest \|m\| in it (Berger and Boos), and
below (K − ȳ)ȳ. Where the region is wide, boxes of both sums at half of the error each say more.
The estimate belongs to the interval in any case: of two values, as of yes and no, the variance is
(K − ȳ)ȳ, and what little noise raises it would lie above.
Given the first round all of this is about the noise of the second, so what the first one chose
costs no coverage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import floor, frexp
from typing import Any, ClassVar, Final, Self

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet.noise import DiscreteGaussian
from discreet.plan._expr import Arithmetic, Constant, Expr, Square
from discreet.plan._formula import Formula, Releases, read, spread_margin
from discreet.plan._parts import (
    Cells,
    Draw,
    Drawn,
    Exact,
    Floats,
    Groups,
    Law,
    Part,
    Priced,
    Release,
    Rule,
    loss_of,
)
from discreet.plan._stability import Sensitivity
from discreet.plan._tails import margin as noise_margin
from discreet.plan._types import Type
from discreet.plan._valid import damaged, integer, integers, rational
from discreet.plan._vectors import Box, Numbers, read_law

WHOLE: Final = 2**30
"""How far one unit moves what either round measures: fine enough that rounding is nothing."""

_FIRST: Final = Fraction(3, 100)
"""Share of the first round under Laplace noise; twice that under Gaussian, which costs as much."""

_AHEAD: Final = 0.78
"""Two sums are taken below so much of the error of the variance itself: they may be misled."""

_ALONE: Final = 0.19
"""Noise of a variance, in quarter ranges squared, beyond which the first round knows nothing."""

_TILTS: Final = tuple(
    Fraction(10, k) for k in (20, 25, 33, 40, 50, 70, 100, 140, 200, 280, 400, 560, 800, 1600, 3200)
)
"""Weights t of the first sum that are tried."""

_FAR: Final = 12
_PLACES: Final = 97
"""Means that the first round does not rule out: how many scales away, and at how many places."""

_FINEST: Final = -40
"""Means are told apart by two to this power at least, in half ranges."""

_MEANS: Final = 0.1
"""Part of the error allowed that the region of the mean gets."""

_NEAR: Final = 0.15
"""Width of that region, in ranges, up to which it is used."""

MOVES: Final = Sensitivity(WHOLE, WHOLE**2, WHOLE)
"""How far one unit moves either round."""


# -- what is asked ---------------------------------------------------------------------


@dataclass(frozen=True)
class Focus:
    """What the second round measures: sums about a centre, or (no tilt) the variance itself."""

    centre: Fraction
    """In half ranges from the middle."""
    tilt: Fraction = Fraction(0)

    def factors(self, top: int, rows: int, *, gaussian: bool) -> tuple[Fraction, ...]:
        """Factors of what is measured, so that one unit moves it by WHOLE at most."""
        if not self.tilt:
            return (Fraction(WHOLE * max(rows, 2), top**2 * (max(rows, 2) - 1)),)
        far = (1 + abs(self.centre)) * Fraction(top, 2)
        second = (WHOLE - 2) / (far**2 * _norm(self.tilt, gaussian=gaussian))
        return 2 * self.tilt * second * far, second


ITSELF: Final = Focus(Fraction(0))
ABOUT_THE_MIDDLE: Final = Focus(Fraction(0), _TILTS[0])


def _norm(tilt: Fraction, *, gaussian: bool) -> Fraction:
    """Bound how far (2tx, x²) moves, x between −1 and 1."""
    if not gaussian:
        return (1 + tilt) ** 2
    # √(1 + x) is at most 1 + x/2
    return max(4 * tilt, 1 + Fraction(11, 4) * tilt**2)


def choose_focus(rough: float, rows: int, law: TwoRounds) -> Focus:
    """What to measure where the mean is about `rough`, in half ranges from the middle."""
    if rows < 3:
        return ITSELF  # half as sensitive as two sums, or nothing varies
    n, noise, less = rows, 4 * law.law.std / (WHOLE * rows), 1 - 1 / rows
    if noise * less**3 > _ALONE:
        return ABOUT_THE_MIDDLE
    # noise that is almost never there would leave nothing to divide by
    scale = max(2 * law.first.std, 2.0**-20) / (WHOLE * n)
    # far finer than the noise, so that there are few distinct cases; not so fine as a double,
    # whose last bits are the machine's
    grid = Fraction(2) ** max(frexp(scale)[1] - 7, _FINEST)
    limit = 1 + 2 * _FAR * scale
    place = round(min(max(rough, -limit), limit) / grid)
    return _best_focus(place, grid, scale, (noise, less), law.gaussian)


@lru_cache(4096)
def _best_focus(
    place: int, grid: Fraction, scale: float, noises: tuple[float, float], gaussian: bool
) -> Focus:
    """The smaller expected error, means being as likely as the first round says they are."""
    noise, less = noises
    rough = float(place * grid)
    low, high = min(max(rough, -1.0), 1.0) - _FAR * scale, min(max(rough, -1.0), 1.0) + _FAR * scale
    m = np.linspace(max(low, -1.0), min(high, 1.0), _PLACES)
    off = np.abs(m - rough) / scale
    odds = -off * off / 2 if gaussian else -off * np.sqrt(2)
    weights = np.exp(odds - odds.max())
    weights /= weights.sum()
    mean = float(weights @ m)
    centre = round(mean / grid) * grid
    if not -1 <= centre <= 1:
        centre = Fraction(1 if centre > 0 else -1)
    spread = float(weights @ (m - float(centre)) ** 2)
    expected = {t: _expected(float(centre), spread, t, noise, gaussian=gaussian) for t in _TILTS}
    best = min(expected, key=expected.__getitem__)
    return Focus(centre, best) if expected[best] < (_AHEAD * less) ** 2 else ITSELF


def _expected(
    centre: float, spread: float, tilt: Fraction, noise: float, *, gaussian: bool
) -> float:
    """Mean square error of two sums, that of the variance itself of many rows being 1."""
    far, t = 1 + abs(centre), float(tilt)
    own = (far**2 * float(_norm(tilt, gaussian=gaussian)) / 4) ** 2
    first = own / (2 * t * far) ** 2  # of the mean
    return own + 4 * spread * first + 6 * (first * noise) ** 2


# -- the part --------------------------------------------------------------------------


@dataclass(frozen=True)
class TwoRounds:
    """Noise of the rough mean, and of what follows it."""

    first: Law
    law: Law

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        return isinstance(self.law, DiscreteGaussian)

    def to_dict(self) -> dict[str, Any]:
        """Write both laws on record."""
        return {"first": self.first.to_dict(), "law": self.law.to_dict()}


def squared(about: Expr) -> tuple[Expr, int]:
    """Squares less half of the largest, so that a row moves their sum less, and that half."""
    squares = Square(about)
    half = squares.type.hi // 2
    shift = Constant(half, Type.number(half, half, squares.type.step, null=False))
    return Arithmetic("-", squares, shift), half


@dataclass(frozen=True)
class ExactSums:
    """Exact sums of values 0 … K: their number, Σy and Σy²."""

    rows: int
    first: int
    second: int

    def rough(self, top: int) -> int:
        """What the first round measures."""
        return self.first * WHOLE // top

    def measured(self, focus: Focus, top: int, *, gaussian: bool) -> tuple[int, ...]:
        """What the second round measures."""
        factors = focus.factors(top, self.rows, gaussian=gaussian)
        if not focus.tilt:
            squares = Fraction(self.rows * self.second - self.first**2, max(self.rows, 1))
            return (floor(factors[0] * squares),)
        g = (1 + focus.centre) * Fraction(top, 2)
        once = self.first - self.rows * g
        twice = self.second - 2 * g * self.first + self.rows * g * g
        return floor(factors[0] * once), floor(factors[1] * twice)


@dataclass(frozen=True)
class Variances(Part):
    """The variance of one column whose number of rows is public, in two rounds."""

    places: tuple[int, int, int]
    """Measures: rows, Σ(y − k) and Σ((y − k)² − h)."""
    read: tuple[Sensitivity, ...]
    """How far one unit moves each of them."""
    top: int
    """K, the largest value."""
    middle: int
    """k."""
    half: int
    """h."""

    kind: ClassVar[str] = "variance"

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """The rows stand for all."""
        return self.inputs[0]

    @property
    def inputs(self) -> tuple[tuple[int, Sensitivity], ...]:
        """All three."""
        return tuple(zip(self.places, self.read, strict=True))

    @property
    def numbers(self) -> int:
        """A rough mean, and two more."""
        return 3

    @property
    def work(self) -> int:
        """To choose takes as long as some numbers do."""
        return 64

    def price(self, rule: Rule) -> Priced:
        """A small share for the rough mean, the rest for what it chooses."""
        gaussian = rule.epsilon is None
        # under Gaussian noise two sums are bounded in L2 alone
        part = replace(self, sensitivity=replace(MOVES, l1=2 * WHOLE)) if gaussian else self
        share = 2 * _FIRST if gaussian else _FIRST
        laws = [rule.times(x).law(part.sensitivity) for x in (share, 1 - share)]
        losses = tuple(loss_of(law, part.sensitivity, part.coordinates) for law in laws)
        return Priced(part, TwoRounds(*laws), losses)

    @property
    def _gaussian(self) -> bool:
        return self.sensitivity.l1 > WHOLE

    def powers(self, groups: Groups) -> ExactSums:
        """Sums of values from zero on, as the engine's follow from them."""
        row = groups.get(())
        n, once, twice = (0, 0, 0) if row is None else (row[m] for m in self.places)
        k = self.middle
        return ExactSums(n, once + n * k, twice + n * self.half + 2 * k * once + n * k * k)

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Squares:
        """Draw the rough mean; choose; draw the rest, as many numbers whatever was chosen."""
        del cells  # there is one
        sums, law = self.powers(groups), priced.law
        rough = sums.rough(self.top) + int(draw.sample(law.first, 1)[0])
        about = (2 * rough + 1) / (WHOLE * max(sums.rows, 1)) - 1
        focus = choose_focus(about, sums.rows, law)
        exact = sums.measured(focus, self.top, gaussian=law.gaussian)
        noise = draw.sample(law.law, 2)
        return Squares(
            rough,
            Fraction(WHOLE, self.top),
            law.first,
            (1 + focus.centre) * Fraction(self.top, 2),
            focus.factors(self.top, sums.rows, gaussian=law.gaussian),
            tuple(x + int(more) for x, more in zip(exact, noise, strict=False)),
            law.law,
        )

    def drawn(self, law: TwoRounds) -> Iterator[Drawn]:
        """One draw in each round."""
        yield from (Drawn(x, self.sensitivity) for x in (law.first, law.law))

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """What the first round measures, and the second for some of its outcomes."""
        sums = self.powers(groups)
        yield " (rough mean)", {(0,): sums.rough(self.top)}
        for focus in EXAMPLES:
            values = sums.measured(focus, self.top, gaussian=self._gaussian)
            words = f" about {float(focus.centre):g}, {focus.tilt}" if focus.tilt else " (itself)"
            yield words, {(j,): value for j, value in enumerate(values)}


EXAMPLES: Final = (
    ITSELF,
    *(Focus(Fraction(g, 4), t) for g in (-4, -3, 0, 1, 4) for t in _TILTS[::4]),
)
"""Second rounds that a replay looks at, whatever the first one would say."""


# -- the release -----------------------------------------------------------------------


@dataclass(frozen=True)
class Squares(Release):
    """Noisy numbers of both rounds, with what the second one was asked."""

    rough: int
    times: Fraction
    """Factor of the sum in the first round."""
    first: Law
    centre: Fraction
    """What squares were taken about, from the low end of the range on."""
    factors: tuple[Fraction, ...]
    """Of both sums; a single one: of squares about the exact mean."""
    values: tuple[int, ...]
    law: Law

    kind: ClassVar[str] = "squares"

    @property
    def size(self) -> int:
        """Numbers of both rounds."""
        return 1 + len(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Write both rounds."""
        return {
            "rough": int(self.rough),
            "times": str(self.times),
            "first": self.first.to_dict(),
            "centre": str(self.centre),
            "factors": [str(x) for x in self.factors],
            "values": [int(x) for x in self.values],
            "law": self.law.to_dict(),
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        return cls(
            integer(data["rough"]),
            rational(data["times"]),
            read_law(data["first"]),
            rational(data["centre"]),
            tuple(rational(x) for x in data["factors"]),
            integers(data["values"]),
            read_law(data["law"]),
        )

    def check(self, cells: int) -> None:
        """Refuse numbers that were not asked for."""
        if cells != 1 or len(self.values) != len(self.factors) or len(self.values) not in (1, 2):
            raise damaged("a variance does not fit what was asked")
        if min(self.times, *self.factors) <= 0 or self.centre < 0:
            raise damaged("a variance was measured by nothing")


# -- the formula -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublicVariance(Formula):
    """Variance or standard deviation from squares whose number is public.

    The public range starts at ``low`` and has ``top`` steps.
    """

    needs_rows = True
    squares: int
    count: int
    low: Fraction
    step: Fraction
    top: int
    sample: bool
    root: bool

    @property
    def parts(self) -> tuple[int, ...]:
        """Both rounds, and the number of rows."""
        return self.squares, self.count

    def inputs(self, releases: Releases) -> tuple[Squares, int]:
        """What was released, and how many rows there are."""
        rows = read(releases, self.count, Numbers).values[0]
        return read(releases, self.squares, Squares), rows

    def _certain(self, rows: int) -> float | None:
        """What so few rows have: no variance (NULL, as in SQL), or none of one row."""
        if rows < (2 if self.sample else 1):
            return float("nan")
        return None if rows > 1 else 0.0

    def estimate(self, releases: Releases) -> Floats:
        """The variance, inside the possible range."""
        release, n = self.inputs(releases)
        if (certain := self._certain(n)) is not None:
            return np.array([certain])
        if len(release.factors) == 1:
            return self._finish([_middle(release.values[0]) / float(release.factors[0]) / n], n)
        (a, b), (u, v) = map(float, release.factors), self._ends(release)
        m, square = (_middle(x) / (k * n) for x, k in zip(release.values, (a, b), strict=True))
        variance = square - m * m
        if a >= 2 * float(_TILTS[0]) * b * max(v, -u) * (1 - 1e-9):
            # so few rows that the mean says more about the variance than the squares may
            inside = min(max(m, u), v)
            variance = min(variance, (v - inside) * (inside - u))
        return self._finish([variance], n)

    def box(self, releases: Releases, level: float) -> Box:
        """All variances that the noise of the second round does not rule out."""
        release, n = self.inputs(releases)
        if (certain := self._certain(n)) is not None:
            return Box(np.array([certain]), np.array([certain]))
        if len(release.factors) == 1:
            off = release.law.interval(level).high + 0.5
            middle, b = _middle(release.values[0]), float(release.factors[0])
            low, high = (middle - off) / (b * n), (middle + off) / (b * n)
        else:
            low, high = self._about(release, n, 1 - level)
        # what the mean allows may lie below what the squares say: then nothing would be left
        point = self.estimate(releases)
        least, most = self._finish([low], n), self._finish([high], n)
        return Box(np.minimum(least, point), np.maximum(most, point))

    def _ends(self, release: Squares) -> tuple[float, float]:
        """Ends of the range, from the centre."""
        return float(-release.centre), float(self.top - release.centre)

    def _about(self, release: Squares, n: int, error: float) -> tuple[float, float]:
        (a, b), (u, v), law = map(float, release.factors), self._ends(release), release.law
        first, second = (_middle(x) for x in release.values)
        off = law.interval(1 - _MEANS * error).high + 0.5
        near = 2 * off <= _NEAR * self.top * a * n
        if not near:
            off = law.interval(1 - error / 2).high + 0.5
        low, high = (min(max(x / (a * n), u), v) for x in (first - off, first + off))
        far, least = max(abs(low), abs(high)), 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        most = max((v - m) * (m - u) for m in (low, high, min(max((u + v) / 2, low), high)))
        if not near:
            return (second - off) / (b * n) - far**2, min((second + off) / (b * n) - least**2, most)
        weights = (2 * far / a, 1 / b)
        rest = (noise_margin((law, law), weights, 1 - (1 - _MEANS) * error) + sum(weights) / 2) / n

        def at(m: float) -> float:
            return second / (b * n) - 2 * m * first / (a * n) + m * m

        inside = at(min(max(first / (a * n), low), high))
        return inside - rest, min(max(at(low), at(high)) + rest, most)

    def statements(self, releases: Releases) -> set[object]:  # noqa: ARG002 - always one
        """One about the noise of the second round, whatever is made of it."""
        return {("variance", self.squares)}

    def _finish(self, variance: Sequence[float], n: int) -> Floats:
        """In units, of a sample where that is asked for, inside what is possible."""
        times = float(self.step) ** 2 * (n / max(n - 1, 1) if self.sample else 1.0)
        spreads = np.clip(np.array(variance), 0.0, self.top**2 / 4) * times
        return np.asarray(np.sqrt(spreads) if self.root else spreads)

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Error at its worst: that of the variance itself."""
        worst, width = priced[self.squares].law.law.interval(confidence).high / WHOLE, self.top
        half = worst * float(width * self.step) ** 2
        more = "; less if the mean is far from both ends"
        return spread_margin(half, float(width * self.step), root=self.root, more=more)

    def check(self, releases: Releases) -> None:
        """Refuse an empty range and squares about what lies outside of it."""
        read(releases, self.count, Numbers)
        release = read(releases, self.squares, Squares)
        if self.step <= 0 or self.top < 1 or release.centre > self.top:
            raise damaged("a variance has no range")


def _middle(value: int) -> float:
    """A number that was rounded down, as the middle of what it may have been."""
    return value + 0.5
