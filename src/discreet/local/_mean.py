r"""Means of numbers on a public range, from reports that are small integers.

Guarantee
---------
A value is first placed on a public grid by exact stochastic rounding; the grid
point is then reported by a mixture (see :mod:`discreet.local._rationals`), so one report is
ε-DP with exactly the rational odds stated, and no floating-point number ever leaves.

*Duchi* (Duchi, Jordan, Wainwright 2018): round to an end of the range, then answer by binary
randomized response. On [−1, 1] the report is worth ±C, C = (ρ+1)/(ρ−1):
unbiased, variance C² − t².

*Piecewise* (Wang et al., ICDE 2019), here on integers: input j ∈ −m…m, output y uniform on
the window |y−j| ≤ w with probability κ, otherwise uniform on −(m+w)…(m+w). E[y] = κj, so
y/(κm) is exactly unbiased; its variance is computed below in closed form. Rounding to
the grid adds at most 1/(4m²). w minimises the worst case.

*Hybrid*: a public coin chooses piecewise with probability a, Duchi otherwise. The variance is the
same mixture, linear in a at t = 0 and at t = 1; a is where the two lines cross, or
an end. With the integer piecewise law this a is not the paper's 1 − e^{−ε/2}.

Several coordinates: report k of d, drawn uniformly, each with ε/k; per coordinate
n·Var = (d/k)(v + t²) − t², minimised over k exactly. Splitting ε over all d is
far worse.

Intervals: Duchi's reports are binomial (Clopper–Pearson). The others are means of known
laws (Chernoff, see :mod:`discreet.local._intervals`); E[e^{s·worth}] is convex in the value.
Where the noise is small against the range, an empirical Bernstein bound for the
population's own spread is taken beside it, each at half the error (Maurer, Pontil 2009).

Quantising a double to the grid of 2⁻³² steps before rounding moves a value by less than
2⁻³² of the range; privacy does not depend on it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _rationals as rat
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, read_array, respond
from discreet.local._draws import Rng
from discreet.local._estimate import Bounds, Estimate, population_only
from discreet.local._intervals import CHERNOFF, EXACT, Floats, clopper_pearson, mean_bounds
from discreet.local._protocol import LocalProtocol
from discreet.local._wire import Columns, Field

STEPS = 32
"""Grid steps m on each side of the middle: rounding adds at most 1/(4m²)."""

_FINE = 32
"""Bits of the fine grid that values are quantised to before they are rounded at random."""

_HUGE = sys.float_info.max
_ENDS = Fraction(0), Fraction(1)

METHODS = ("duchi", "piecewise", "hybrid")


@dataclass(frozen=True, slots=True)
class Piecewise:
    """The integer piecewise law on inputs −m…m with window half-width w."""

    steps: int
    window: int
    kappa: Fraction
    odds: Fraction

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return 2 * (self.steps + self.window) + 1

    @property
    def scale(self) -> Fraction:
        """Worth of one output step, on [−1, 1]."""
        return 1 / (self.kappa * self.steps)

    def variance(self, t: Fraction) -> Fraction:
        """Return the exact variance of one report at grid point t = j/m."""
        m, w, k = self.steps, self.window, self.kappa
        j = t * m
        reach = m + w
        second = (1 - k) * Fraction(reach * (reach + 1), 3) + k * (j * j + Fraction(w * (w + 1), 3))
        return second * self.scale**2 - t * t

    def law(self, j: int) -> list[Fraction]:
        """Return the exact probabilities of outputs −(m+w)…(m+w) for input j."""
        reach = self.steps + self.window
        uniform = (1 - self.kappa) / self.outputs
        lifted = uniform + self.kappa / (2 * self.window + 1)
        return [lifted if abs(y - j) <= self.window else uniform for y in range(-reach, reach + 1)]


@lru_cache(maxsize=64)
def piecewise(epsilon: Fraction, steps: int = STEPS) -> Piecewise:
    """Return the integer piecewise law whose worst-case variance is least."""
    rho = rat.odds_below(epsilon)

    def law(w: int) -> Piecewise:
        size = 2 * (steps + w) + 1
        kappa = rat.mixture(rho, 2 * w + 1, size)
        return Piecewise(steps, w, kappa, rat.mixture_odds(kappa, 2 * w + 1, size))

    def worst(w: int) -> float:
        candidate = law(w)
        return float(max(candidate.variance(Fraction(0)), candidate.variance(Fraction(1))))

    return law(min(range(6 * steps + 1), key=worst))


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class LocalMean(LocalProtocol):
    """The mean of numbers on a public range.

    Parameters
    ----------
    epsilon
        ε of one report.
    low, high
        The public range; values outside are moved to its ends.
    method
        ``"hybrid"`` (default, the least worst-case variance), ``"duchi"`` (exact
        intervals) or ``"piecewise"``.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.LocalMean(epsilon=2, low=0, high=10)
    >>> estimate = protocol.aggregator().update(protocol.randomize([2.5] * 50_000)).estimate()
    >>> abs(estimate.value - 2.5) < 0.3
    True
    """

    name: ClassVar[str] = "mean"
    stated: ClassVar[tuple[str, ...]] = ("epsilon", "low", "high", "method")
    low: Fraction
    high: Fraction
    method: str
    duchi: Fraction
    law: Piecewise
    share: Fraction

    def __init__(
        self, epsilon: Number, low: Number = -1, high: Number = 1, method: str = "hybrid"
    ) -> None:
        eps = rat.read_epsilon(epsilon)
        ends = read_range(low, high)
        if method not in METHODS:
            raise ParameterError(
                f"method must be one of {', '.join(METHODS)}", hint=Hint("method", "hybrid")
            )
        rho = rat.odds_below(eps)
        kappa, law = rat.mixture(rho, 1, 2), piecewise(eps)
        share = {"duchi": Fraction(0), "piecewise": Fraction(1)}.get(method)
        if share is None:
            share = _crossing(kappa, law)
        parts = [rat.mixture_odds(kappa, 1, 2)] * (share < 1) + [law.odds] * (share > 0)
        self._set(
            claimed=eps, odds=rat.checked_odds(max(parts), rho), low=ends[0], high=ends[1],
            method=method, duchi=kappa, law=law, share=share,
            # which of the two laws, and its output
            fields=(Field("form", limit=2), Field("output", limit=law.outputs)),
            state_shape=(5,),  # Duchi reports, those with +; piecewise reports, Σy, Σy²
        )  # fmt: skip

    def variance(self, value: Number | None = None, n: int = 1) -> float:
        """Return the exact variance of the mean when all `n` values equal `value`.

        Parameters
        ----------
        value
            A point of the range; left out: the worst case, rounding to the grid included.
        n
            Number of reports.
        """
        return self.scaled_variance(self.variance_at, value, n)

    def scaled_variance(
        self, at: Callable[[Fraction], Fraction], value: Number | None, n: int
    ) -> float:
        """Return a variance on [−1, 1], at a value or at its worst, in units of the range."""
        half = (self.high - self.low) / 2
        if value is None:
            spread = worst(at)
        else:
            point = _exact.decimal(value, "value")
            if not self.low <= point <= self.high:
                raise ParameterError(
                    "value must lie in the public range", hint=Hint("value", float(self.low))
                )
            spread = at((point - self.low) / half - 1)
        return float(spread * half**2) / rat.read_whole(n, "n", most=1 << 62)

    def unit(self, t: Any) -> Any:
        """Map [−1, 1] to the range."""
        return float(self.low) + float(self.high - self.low) / 2 * (t + 1)

    def variance_at(self, t: Fraction) -> Fraction:
        """Return the exact variance of one report at any point of [−1, 1]."""
        part = t * self.law.steps % 1
        rounding = self.law.kappa * part * (1 - part) * self.law.scale**2
        steps = self.law.variance(t) + rounding
        return self.share * steps + (1 - self.share) * (1 / self.duchi**2 - t * t)

    @property
    def gain(self) -> float:
        """Largest shift of the mean per unit share of fake clients, in half ranges."""
        reach = (self.law.steps + self.law.window) * self.law.scale
        return float(max((reach,) * (self.share > 0) + (1 / self.duchi,) * (self.share < 1)))

    # -- client -----------------------------------------------------------------

    def parse(self, values: Any) -> tuple[NDArray[np.int64], bool]:
        return quantise(values, self.low, self.high)

    def draw(self, flat: NDArray[np.int64]) -> Columns:
        n = len(flat)
        form = np.asarray(noise.bernoulli_many(self.share, n))
        kind = self.fields[1].dtype
        out = np.zeros(n, dtype=kind)
        for which, draw in ((False, self._draw_duchi), (True, self._draw_piecewise)):
            users = np.flatnonzero(form == which)
            if users.size:
                out[users] = draw(flat[users])
        return form.astype(np.uint8), out

    def _draw_duchi(self, fine: NDArray[np.int64]) -> NDArray[Any]:
        return respond(self.duchi, round_at_random(fine, 1), 2)

    def _draw_piecewise(self, fine: NDArray[np.int64]) -> NDArray[Any]:
        point = round_at_random(fine, 2 * self.law.steps)
        near = point + np.asarray(noise.uniform_many(2 * self.law.window + 1, len(fine)))
        return respond(self.law.kappa, near, self.law.outputs)

    # -- server -----------------------------------------------------------------

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse unknown forms and outputs out of reach."""
        form, output = columns
        good = np.where(form == 0, output < 2, output < self.law.outputs) & (form < 2)
        if not self.share:
            good &= form == 0
        if self.share == 1:
            good &= form == 1
        return np.asarray(good)

    def possible(self, state: Counts, n: int) -> bool:
        """All reports have one of two forms, and sums of outputs in reach."""
        return possible_sums(self.law, state, n)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Add counts and exact integer sums."""
        form, output = columns
        signs = output[form == 0]
        y = output[form == 1].astype(np.int64) - (self.law.steps + self.law.window)
        state += [signs.size, int(signs.sum()), y.size, int(y.sum()), int((y * y).sum())]

    def read(self, tally: Tally) -> MeanEstimate:
        """Read the mean from what was tallied."""
        value, error = self.moments(tally.state, tally.n)
        return MeanEstimate(self, tally, float(value), float(error))

    def moments(self, state: Counts, n: int, lift: float = 1.0) -> tuple[Any, Any]:
        """Return the mean of the reports' worths (times `lift`) and its standard error."""
        n0, plus, _, sum_y, sum_yy = state.T.astype(np.float64)
        worth, scale = float(1 / self.duchi) * lift, float(self.law.scale) * lift
        mean = ((2 * plus - n0) * worth + sum_y * scale) / n
        # no population spreads less than people who all stand at the middle or at an end
        least = min(lift * float(self.variance_at(t) + t * t) - float(t) for t in _ENDS)
        spread = np.maximum((n0 * worth**2 + sum_yy * scale**2) / n - mean**2, least) / n
        half = float(self.high - self.low) / 2
        return self.unit(mean), half * np.sqrt(spread)

    def lifts(self, s: Floats, t: int) -> Floats:
        """Return E[e^{s·worth} − 1] for a value at an end of the range, t = ±1."""
        up, down = (np.expm1(s * e / float(self.duchi)) for e in (1, -1))
        signs = (up + down + float(self.duchi) * t * (up - down)) / 2
        reach = self.law.steps + self.law.window
        worths = np.expm1(np.outer(s, np.arange(-reach, reach + 1) * float(self.law.scale)))
        window = 2 * self.law.window + 1
        near = worths[:, -window:] if t > 0 else worths[:, :window]
        kappa, share = float(self.law.kappa), float(self.share)
        steps = (1 - kappa) * worths.mean(axis=1) + kappa * near.mean(axis=1)
        # 0 · ∞ where a law is not used at all
        return np.asarray((share and share * steps) + (1 - share and (1 - share) * signs))

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw from the joint law: binomials and multinomials for each value."""
        fine, _ = quantise([0.0] if values is None else values, self.low, self.high)
        return self.simulate_fine(fine, counts, rng)

    def simulate_fine(self, fine: NDArray[np.int64], counts: Counts, rng: Any) -> Counts:
        """Draw Duchi's counts and piecewise sums, one value and grid point at a time."""
        state = np.zeros(5, dtype=np.int64)
        law = self.law
        reach = law.steps + law.window
        outputs = np.arange(-reach, reach + 1)
        for place, people in zip(fine.tolist(), counts.tolist(), strict=True):
            t = Fraction(place, 1 << _FINE)
            to_piecewise = int(rng.binomial(people, float(self.share)))
            plus = Fraction(1, 2) + (t - Fraction(1, 2)) * self.duchi
            state[0] += people - to_piecewise
            state[1] += rng.binomial(people - to_piecewise, float(plus))
            grid, rest = divmod(t * 2 * law.steps, 1)
            up = int(rng.binomial(to_piecewise, float(rest)))
            for j, some in ((int(grid), to_piecewise - up), (int(grid) + 1, up)):
                if some:
                    chances = np.array([float(w) for w in law.law(j - law.steps)])
                    picks = rng.multinomial(some, chances)
                    state[2:] += [some, int(picks @ outputs), int(picks @ outputs**2)]
        return state


def worst(at: Callable[[Fraction], Fraction]) -> Fraction:
    """Return the largest variance over [0, 1], hence over [−1, 1].

    Between two points of the grid the second moment is linear: the variance is c + st − t²
    there, and largest at t = s/2 or at an end.
    """
    largest = at(Fraction(0))
    for j in range(STEPS):
        a, b = Fraction(j, STEPS), Fraction(j + 1, STEPS)
        slope = (at(b) - at(a)) * STEPS + a + b
        largest = max(largest, at(min(max(slope / 2, a), b)))
    return largest


def _crossing(duchi: Fraction, law: Piecewise) -> Fraction:
    """Return the share of piecewise reports that minimises the worst variance."""
    at0, at1 = law.variance(Fraction(0)), law.variance(Fraction(1))
    d0 = 1 / duchi**2
    d1 = d0 - 1
    # a·at0 + (1−a)·d0 = a·at1 + (1−a)·d1; otherwise the best lies at an end
    choices = [Fraction(0), Fraction(1)]
    slope = (at0 - d0) - (at1 - d1)
    if slope and 0 < (d1 - d0) / slope < 1:
        choices.append(rat.round_down((d1 - d0) / slope))

    def worst(a: Fraction) -> Fraction:
        return max(a * at0 + (1 - a) * d0, a * at1 + (1 - a) * d1)

    return min(choices, key=worst)


def quantise(values: Any, low: Fraction, high: Fraction) -> tuple[NDArray[np.int64], bool]:
    """Place numbers on the fine grid 0, …, 2³² of a range; refuse what is not a number."""
    array = read_numbers(values)
    if array.ndim > 1 or np.isnan(array).any():
        raise ParameterError("values must be numbers in one dimension, none missing")
    flat = np.clip(array.reshape(-1), float(low), float(high))
    place = (flat - float(low)) / float(high - low) * 2.0**_FINE
    return np.clip(np.rint(place), 0, 1 << _FINE).astype(np.int64), array.ndim == 0


def read_numbers(values: Any) -> Floats:
    """Read numbers as doubles; whole numbers that no double reaches become the largest."""
    with suppress(OverflowError):
        return read_array(values, np.float64)
    # comparing NaN with a number is no news: it is refused by whoever asks
    with suppress(TypeError, ValueError), np.errstate(invalid="ignore"):
        clip = np.frompyfunc(lambda v: min(max(v, -_HUGE), _HUGE), 1, 1)
        return read_array(clip(read_array(values, object)), np.float64)
    raise ParameterError("values must be numbers", hint="randomize([0.5, 1.0])")


def round_at_random(fine: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """Round fine grid points to 0, …, `steps`, unbiased, by exact coins."""
    scaled = fine * steps
    whole = scaled >> _FINE
    rest = scaled & ((1 << _FINE) - 1)
    coins = np.asarray(noise.uniform_many(1 << _FINE, len(fine))).astype(np.int64)
    return whole + (coins < rest)


def possible_sums(law: Piecewise, state: Counts, n: int) -> bool:
    """Tell whether `n` reports may have these counts and sums."""
    signs, plus, steps, total, squares = state.tolist()
    reach = law.steps + law.window
    counts = 0 <= plus <= signs and steps >= 0 and signs + steps == n
    # |y| ≤ y² for whole numbers
    return bool(counts and abs(total) <= squares <= reach**2 * steps)


def read_range(low: Number, high: Number) -> tuple[Fraction, Fraction]:
    """Parse a public range."""
    ends = _exact.decimal(low, "low"), _exact.decimal(high, "high")
    if ends[0] >= ends[1]:
        raise ParameterError("low must lie below high", hint=Hint("low", 0).also("high", 1))
    return ends


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MeanEstimate(Estimate):
    """An estimated mean, unbiased.

    Attributes
    ----------
    value, standard_error
        The estimate and its standard error (drawing respondents included).
    """

    shown: ClassVar[str] = "value"
    value: float
    standard_error: float

    @property
    def standard_errors(self) -> float:
        """The same as ``standard_error``."""
        return self.standard_error

    @property
    def limits(self) -> tuple[float, float]:
        """The public range."""
        return float(self.protocol.low), float(self.protocol.high)

    def bounds(self, error: float, of: str) -> Bounds:
        """Return bounds for the population's mean."""
        population_only(of)
        protocol: LocalMean = self.protocol
        if not protocol.share:  # every report is Duchi's
            ends = clopper_pearson(int(self.tally.state[1]), self.n, error)
            low, high = (protocol.unit((2 * float(e) - 1) / float(protocol.duchi)) for e in ends)
            return low, high, EXACT
        noise_spread = float(protocol.variance_at(Fraction(0)))
        tight = noise_spread < 1
        half = float(protocol.high - protocol.low) / 2
        mean, spread = (self.value - float(protocol.low)) / half - 1, noise_spread + 1
        part = error / 2 if tight else error
        low, high = mean_bounds(mean, self.n, protocol.lifts, spread, part)
        if not tight:
            return protocol.unit(low), protocol.unit(high), CHERNOFF
        variance = (self.standard_error / half) ** 2 * self.n * self.n / max(self.n - 1, 1)
        depth = math.log(4 / part)
        reach = math.sqrt(2 * variance * depth / self.n)
        reach += 14 * protocol.gain * depth / (3 * max(self.n - 1, 1))
        low, high = max(low, mean - reach), min(high, mean + reach)
        return protocol.unit(low), protocol.unit(high), f"{CHERNOFF[:-1]}, empirical Bernstein)"
