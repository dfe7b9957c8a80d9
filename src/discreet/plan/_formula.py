"""From releases to statistics: estimates, intervals and margins.

A formula says how a statistic follows from the releases of the parts it names. It
is evaluated on the noisy values (the estimate) and, by interval arithmetic, on a
box ``[low, high]`` per part. If the boxes contain the true integers with probability
c, the resulting interval contains the true statistic with probability at least c:
that is the whole argument, for every formula, without approximation. Public ranges
may only shrink an interval.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass
from discreet._print import about, enough, if_rows, number
from discreet.plan._parts import Floats, Law, Priced, Release
from discreet.plan._picks import Labels
from discreet.plan._points import Points
from discreet.plan._quantiles import Quantiles, farthest, reach
from discreet.plan._tails import margin as noise_margin
from discreet.plan._trees import Levels, Tree, rank_error
from discreet.plan._valid import damaged
from discreet.plan._vectors import Box, Numbers

Releases = Sequence[Release]
ONE_VALUE: Final = "none: one value is possible, if there is any such row"
"""The margin of a mean where WHERE leaves a single value."""
_MEANS: Final = 0.1
"""Part of the error allowed to a variance that the interval of its mean gets."""
_NEAR: Final = 0.15
"""Width of that interval, in ranges of values, up to which it is used."""
R = TypeVar("R", bound=Release)


def corners(op: np.ufunc, a: Box, b: Box) -> Box:
    """Range of a monotone-by-parts operation over two boxes."""
    ends = [op(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Box(np.minimum.reduce(ends), np.maximum.reduce(ends))


def read(releases: Releases, index: int, kind: type[R]) -> R:
    """One release, of the kind that a formula needs."""
    release = releases[index] if 0 <= index < len(releases) else None
    if not isinstance(release, kind):
        raise damaged("a formula names a part that is not there")
    return release


Combination = Mapping[int, Fraction]
"""A linear combination of parts' integers: coefficients by the index of the part."""


@dataclass(frozen=True, slots=True)
class Powers:
    """Number, sum and, where released, sum of squares of the values in a public range."""

    sums: tuple[Combination, ...]
    lo: Fraction
    hi: Fraction


@dataclass(frozen=True, slots=True)
class Formula(ABC):
    """How one statistic follows from releases."""

    kinds: ClassVar[dict[str, type[Formula]]] = {}
    """Formulas by the name under which a record holds them."""
    needs_rows: ClassVar[bool] = False
    """Whether it has no value where there are no rows."""

    def __init_subclass__(cls) -> None:
        Formula.kinds[cls.__name__] = cls

    @property
    @abstractmethod
    def parts(self) -> tuple[int, ...]:
        """Indices of the parts it reads."""

    @abstractmethod
    def estimate(self, releases: Releases) -> NDArray[Any]:
        """Value in every cell."""

    @abstractmethod
    def box(self, releases: Releases, level: float) -> Box:
        """Ends in every cell, if every statement about noise holds with `level`."""

    def statements(self, releases: Releases) -> set[object]:
        """Independent statements about noise that its box rests on."""
        return {i for i in self.parts if read(releases, i, Numbers).law is not None}

    @property
    def powers(self) -> Powers | None:
        """Sums of powers of one column's values that its parts release, where they do."""
        return None

    @property
    def combination(self) -> Combination | None:
        """A count or sum as a combination of its parts' integers, where it is one."""
        return None

    @abstractmethod
    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Expected error before anything is measured, in words."""

    def check(self, releases: Releases) -> None:
        """Refuse parts of another kind."""
        for index in self.parts:
            read(releases, index, Numbers)


def _half(priced: Priced, level: float) -> float:
    """Half-width of the noise of a vector, in grid units."""
    law = getattr(priced.law, "law", priced.law)  # a selection of keys holds its law
    return 0.0 if law is None else float(law.interval(level).high)


@dataclass(frozen=True, slots=True)
class Total(Formula):
    """A count or sum: grid integers times the step."""

    vector: int
    step: Fraction

    @property
    def parts(self) -> tuple[int, ...]:
        """The vector that holds the total."""
        return (self.vector,)

    def estimate(self, releases: Releases) -> Floats:
        """Turn grid integers into units of the column."""
        return read(releases, self.vector, Numbers).floats * float(self.step)

    def box(self, releases: Releases, level: float) -> Box:
        """Turn the box of the noise into units of the column."""
        box, step = read(releases, self.vector, Numbers).box(level), float(self.step)
        return Box(box.low * step, box.high * step)

    def half(self, laws: Sequence[Law | None], level: float) -> float:
        """Half-width of its noise, where these are the laws of all releases."""
        law = laws[self.vector]
        return 0.0 if law is None else float(law.interval(level).high) * float(self.step)

    @property
    def combination(self) -> Combination:
        """The vector times its step."""
        return {self.vector: self.step}

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Half-width of the noise."""
        margin = _half(priced[self.vector], confidence) * float(self.step)
        return f"± {number(margin, margin or None)}"


def too_few(count: Numbers, needed: int) -> NDArray[np.bool_]:
    """Cells whose number of rows is public and below what a statistic needs: NULL, as in SQL."""
    return (count.floats < needed) & (count.law is None)


def spread_margin(half: float, width: float, *, root: bool, more: str = "") -> str:
    """Error of a variance, `half` over the number of rows at its worst, or of its root, in words.

    |√a − √b| is at most √|a − b|, and about |a − b| ÷ 2√b; the range is `width` wide.
    """
    if not root:
        return f"± at most about {if_rows((half, half), width**2 / 4)}{more}"
    usual, such = 2 * half / width, width / 4
    n = enough(usual, width / 2)
    one, any_ = usual / n, (half / n) ** 0.5
    return (
        f"± at most about {about(one)} if {number(n)} rows have a deviation of "
        f"{number(such, such)} (a tenth of it if {number(10 * n)}), {about(any_)} "
        "whatever it is (a third of it)"
    )


def _at_least_one(count: Box) -> Box:
    return Box(np.maximum(count.low, 1), np.maximum(count.high, 1))


def _per_row(total: Box, count: Box) -> Box:
    return corners(np.divide, total, _at_least_one(count))


@dataclass(frozen=True, slots=True)
class Mean(Formula):
    """Centre plus centred sum over count, inside the public range."""

    needs_rows = True
    total: int
    count: int
    centre: Fraction
    step: Fraction
    lo: Fraction
    hi: Fraction

    @property
    def parts(self) -> tuple[int, ...]:
        """The vectors of the sum and of the count."""
        return (self.total, self.count)

    def estimate(self, releases: Releases) -> Floats:
        """Divide the noisy sum by the noisy count (at least one)."""
        total, count = (read(releases, i, Numbers).floats for i in self.parts)
        raw = float(self.centre) + total / np.maximum(count, 1) * float(self.step)
        return np.where(self._none(releases), np.nan, np.clip(raw, float(self.lo), float(self.hi)))

    def _none(self, releases: Releases) -> NDArray[np.bool_]:
        return too_few(read(releases, self.count, Numbers), 1)

    def box(self, releases: Releases, level: float) -> Box:
        """Range of the ratio over the box."""
        ratio = _per_row(*(read(releases, i, Numbers).box(level) for i in self.parts))
        centre, step = float(self.centre), float(self.step)
        raw = Box(centre + ratio.low * step, centre + ratio.high * step)
        return raw.clipped(float(self.lo), float(self.hi)).where(self._none(releases), np.nan)

    @property
    def powers(self) -> Powers:
        """Number and sum."""
        one = Fraction(1)
        total = {self.total: self.step, self.count: self.centre}
        return Powers(({self.count: one}, total), self.lo, self.hi)

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Error of sum and count; how it divides depends on private counts."""
        if self.lo == self.hi:
            return ONE_VALUE
        both = priced[self.total].noise and priced[self.count].noise
        split = 1 - (1 - confidence) / 2 if both else confidence
        margin = _half(priced[self.total], split) * float(self.step)
        rows = number(_half(priced[self.count], split))
        itself = f"; their number ± {rows}" if both else ""
        return f"± about {if_rows((margin, margin), float(self.hi - self.lo))}{itself}"

    def check(self, releases: Releases) -> None:
        """Refuse an empty range."""
        Formula.check(self, releases)
        if self.lo > self.hi:
            raise damaged("a mean has no range")


@dataclass(frozen=True, slots=True)
class Spread(Formula):
    """Variance or standard deviation from centred first and second sums.

    With y = value − centre in steps, the vectors hold Σy and Σ(y² − half); the
    variance is half + Σ(y² − half)/n − (Σy/n)², times n/(n−1) for a sample variance.
    It does not depend on the centre; a test of the mean behind it does.

    Where n is public, V(m) = half + second/n − 2m·first/n + m² differs from the variance, at the
    true mean m, by noise alone, of coefficients 1/n and 2m/n. An interval of the mean gets a tenth
    of the error; the variance then lies between the least and the largest V over it, less
    and plus a margin of that noise for the |m| that is largest in it (Berger and Boos). Where so
    few rows are behind it that the mean's interval is wide, both sums' intervals at half of the
    error each say more; which is taken depends on n and the law.
    """

    needs_rows = True
    first: int
    second: int
    count: int
    half: int
    centre: Fraction
    step: Fraction
    widest: Fraction
    sample: bool
    root: bool
    times: tuple[int, ...] = (1, 1)
    """Factors by which the two sums were measured."""

    @property
    def parts(self) -> tuple[int, ...]:
        """First moment, second moment, count."""
        return (self.first, self.second, self.count)

    def estimate(self, releases: Releases) -> Floats:
        """Combine the noisy moments, inside the possible range."""
        first, second, count = (read(releases, i, Numbers).floats for i in self.parts)
        n = np.maximum(count, 1)
        a, b = self.times
        value = self._finish(self.half + second / (b * n) - (first / (a * n)) ** 2, n)
        return self._settle(Box(value, value), releases).low

    def box(self, releases: Releases, level: float) -> Box:
        """Combine the moments' boxes; where n is public, invert the noise about the mean."""
        if read(releases, self.count, Numbers).law is not None:
            return self._combined(releases, level)
        about, near = self._about_the_mean(releases, level)
        plain = self._combined(releases, 1 - (1 - level) / 2)
        pairs = ((about.low, plain.low), (about.high, plain.high))
        return self._settle(Box(*(np.where(near, x, y) for x, y in pairs)), releases)

    def _settle(self, box: Box, releases: Releases) -> Box:
        """What a public number of rows says: no variance, or that of a single row."""
        count = read(releases, self.count, Numbers)
        single = box.where(too_few(count, 2), 0.0)
        return single.where(too_few(count, 2 if self.sample else 1), np.nan)

    def _combined(self, releases: Releases, level: float) -> Box:
        first, second, count = (read(releases, i, Numbers).box(level) for i in self.parts)
        n = _at_least_one(count)
        a, b = self.times
        mean = _per_row(Box(first.low / a, first.high / a), n)
        square = _per_row(Box(second.low / b, second.high / b), n)
        squares = np.minimum(mean.low**2, mean.high**2), np.maximum(mean.low**2, mean.high**2)
        least = np.where(mean.low * mean.high <= 0, 0.0, squares[0])
        low = self.half + square.low - squares[1]
        high = self.half + square.high - least
        # n/(n−1) is largest at n = 2; a single row has no sample variance
        return Box(self._finish(low, n.high), self._finish(high, np.maximum(n.low, 2)))

    def _about_the_mean(self, releases: Releases, level: float) -> tuple[Box, NDArray[np.bool_]]:
        """An interval about the mean, and whether the mean is known well enough for it."""
        first, second, count = (read(releases, i, Numbers) for i in self.parts)
        n = np.maximum(count.floats, 1)
        (a, b), error = self.times, 1 - level
        sums = first.box(1 - _MEANS * error)
        widest = float(self.widest / self.step)  # farther from the centre than any mean
        low, high = (np.clip(x / (a * n), -widest, widest) for x in (sums.low, sums.high))
        far, laws = np.maximum(np.abs(low), np.abs(high)), (first.law, second.law)
        rest = 1 - (1 - _MEANS) * error
        off = np.array([noise_margin(laws, (2 * m / a, 1 / b), rest) for m in far.tolist()]) / n

        def at(m: Floats) -> Floats:
            means = first.floats / (a * n)
            return np.asarray(self.half + second.floats / (b * n) - 2 * m * means + m * m)

        least = at(np.clip(first.floats / (a * n), low, high)) - off
        most = np.maximum(at(low), at(high)) + off
        near = sums.high - sums.low <= _NEAR * widest * a * n  # public: n and the law alone
        return Box(self._finish(least, n), self._finish(most, n)), near

    def statements(self, releases: Releases) -> set[object]:
        """One where n is public: its interval inverts the noise of both sums together."""
        own = Formula.statements(self, releases)
        return {self} if own and read(releases, self.count, Numbers).law is None else own

    @property
    def powers(self) -> Powers:
        """Number, sum and sum of squares of centre + step·y."""
        c, s = self.centre, self.step
        lo = c - s * (self.widest / s // 2)
        number = {self.count: Fraction(1)}
        a, b = self.times
        total = {self.first: s / a, self.count: c}
        squares = {
            self.second: s * s / b,
            self.first: 2 * c * s / a,
            self.count: c * c + s * s * self.half,
        }
        return Powers((number, total, squares), lo, lo + self.widest)

    def _finish(self, variance: Floats, n: Floats) -> Floats:
        if self.sample:
            variance = variance * n / np.maximum(n - 1, 1)
        ceiling = float(self.widest) ** 2 / 4 * (2 if self.sample else 1)
        variance = np.clip(variance * float(self.step) ** 2, 0, ceiling)
        return np.sqrt(variance) if self.root else variance

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Error at its worst, with the mean at an end of the range: there is a public n."""
        if not self.widest:
            return ONE_VALUE
        far = float(self.widest / self.step) / 2
        laws = [priced[i].noise for i in (self.first, self.second)]
        weights = [2 * far / self.times[0], 1 / self.times[1]]
        half = noise_margin(laws, weights, confidence) * float(self.step) ** 2
        return spread_margin(half, float(self.widest), root=self.root)

    def check(self, releases: Releases) -> None:
        """Refuse an empty range."""
        Formula.check(self, releases)
        if self.step <= 0 or self.widest < 0 or min(self.times) < 1 or len(self.times) != 2:
            raise damaged("a spread has no range")


@dataclass(frozen=True, slots=True)
class Quantile(Formula):
    """A quantile: a point that was chosen, or read off a noisy tree of counts."""

    needs_rows = True
    tree: int
    at: Fraction
    moment: str = ""

    @property
    def parts(self) -> tuple[int, ...]:
        """The points, or the tree of counts."""
        return (self.tree,)

    def _read(self, releases: Releases) -> Points | Levels:
        release = releases[self.tree] if 0 <= self.tree < len(releases) else None
        return release if isinstance(release, Points) else read(releases, self.tree, Levels)

    def estimate(self, releases: Releases) -> Floats:
        """The point, or the crossing of a monotone fit."""
        return self._read(releases).quantile(self.at)

    def box(self, releases: Releases, level: float) -> Box:
        """All values that the noise does not rule out."""
        return self._read(releases).interval(self.at, level)

    def sizes(self, releases: Releases, level: float) -> tuple[Box, Box]:
        """Bounds of how many values there are, and the public range, cell by cell."""
        release = self._read(releases)
        return release.sizes(level), release.whole

    def ranked(
        self, releases: Releases, cell: int, at: Fraction, level: float
    ) -> tuple[float, float]:
        """Ends in one cell for a level near its own, from the same release."""
        return self._read(releases).ranked(cell, self.at, at, level)

    def statements(self, releases: Releases) -> set[object]:  # noqa: ARG002 - always one
        """One statement for each quantile."""
        return {("quantile", self.tree, self.at)}

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Ranks by which the point is off, mostly and on any data, and those of its interval."""
        part, law = priced[self.tree].part, priced[self.tree].law
        if isinstance(part, Tree):
            off, by = rank_error(part, law, float(self.at), confidence)
            return f"{_rows_away(off)}, {_beyond(by)}"
        assert isinstance(part, Quantiles)
        off, by = reach(part, law, self.at, confidence)
        far = number(round(farthest(part, law, self.at, confidence)))
        beyond = " or beyond all rows" if self.at in {0, 1} else ""
        clauses = [f"{_rows_away(off)}{beyond} ({far} where values are tied or far apart)"]
        if law.law is not None:
            clauses.append(_beyond(by))
        return ", ".join(clauses)

    def check(self, releases: Releases) -> None:
        """Refuse probabilities outside 0 and 1, and points that were not chosen."""
        if not 0 <= self.at <= 1:
            raise damaged("a quantile lies outside 0 and 1")
        if self.moment not in ("", "date", "timestamp"):
            raise damaged("a quantile is of an unknown kind")
        self._read(releases).place(self.at)


def _rows_away(rows: float) -> str:
    return f"mostly {number(round(rows))} rows away in sorted order"


def _beyond(rows: float) -> str:
    """How far an interval reaches: its ends are edges of the few cells that were counted."""
    return f"interval {number(round(rows))} rows or more to either side"


@dataclass(frozen=True, slots=True)
class Mode(Formula):
    """The labels an exponential mechanism picked."""

    needs_rows = True
    pick: int

    @property
    def parts(self) -> tuple[int, ...]:
        """The draw that picks a label."""
        return (self.pick,)

    def estimate(self, releases: Releases) -> NDArray[Any]:
        """The labels that were picked, as text."""
        return read(releases, self.pick, Labels).texts

    def box(self, releases: Releases, level: float) -> Box:  # noqa: ARG002 - no margin at any level
        """A selection has no margin."""
        nothing = np.full(len(read(releases, self.pick, Labels).labels), np.nan)
        return Box(nothing, nothing)

    def statements(self, releases: Releases) -> set[object]:  # noqa: ARG002 - always one
        """One for each pick."""
        return {("pick", self.pick)}

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:  # noqa: ARG002 - none
        """A selection has no margin."""
        return "a selection: no margin"

    def check(self, releases: Releases) -> None:
        """Refuse parts of another kind."""
        read(releases, self.pick, Labels)


@dataclass(frozen=True, slots=True)
class NoRows(Formula):
    """A mean, spread, quantile or mode of rows that the policy rules out: NULL, whatever was drawn.

    `of` is the formula of the same statistic where there may be rows.
    """

    of: Formula

    @property
    def parts(self) -> tuple[int, ...]:
        """Those that were measured all the same."""
        return self.of.parts

    @property
    def moment(self) -> str:
        """What it would be: a date, an instant, or neither."""
        return str(getattr(self.of, "moment", ""))

    def estimate(self, releases: Releases) -> NDArray[Any]:
        """NULL in every cell."""
        values = self.of.estimate(releases)
        texts = values.dtype == object
        return np.full(values.shape, None if texts else np.nan, dtype=object if texts else float)

    def box(self, releases: Releases, level: float) -> Box:  # noqa: ARG002 - certain at any level
        """There is nothing to bound."""
        nothing = np.full(self.of.estimate(releases).shape, np.nan)
        return Box(nothing, nothing)

    def statements(self, releases: Releases) -> set[object]:  # noqa: ARG002 - the same for all
        """None: it rests on no noise."""
        return set()

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:  # noqa: ARG002 - as above
        """Say why there is none."""
        return "none: it will be NULL, as no row can meet the condition"

    def check(self, releases: Releases) -> None:
        """Refuse what has no formula inside."""
        if not isinstance(self.of, Formula):
            raise damaged("a formula is missing")
        self.of.check(releases)
