r"""Karwa–Vadhan intervals: a normal mean, private, with finite-sample coverage.

Guarantee
---------
*Privacy*: ε-DP (with δ > 0 and no bound on the mean: (ε, δ)-DP) under change-one,
n being public. The range comes from a noisy histogram, in which replacing one
value moves two counts by one; the clamped sum has sensitivity b − a; the sum of
squared deviations, times n, (n − 1)(b − a)² [1]_. Values are rounded to a grid of the
range, one by one, so both are exact integers; the rounding is in the margins. Costs add up.

*Coverage*: at least 1 − α for normal data, every n, μ, σ inside the stated bounds:
α = α₀ + … is shared by the sampling error, the noise and the steps below.

* *Range, known σ* (Algorithm 1): bins of width σ, the fullest noisy bin l gives
  :math:`\sigma l\mp4\sigma\sqrt{\ln(n/\beta)}`. The bin of μ or its neighbour has mass at
  least Φ(1) − ½, bins at distance d ≥ 2 widths at most Φ(d+½) − Φ(d−½); the chance
  that one of those looks fullest is bounded by exact tails of binomial plus noise
  (:func:`_misled`). If l is within two widths, all data are inside but for
  :math:`2n\Phi(2-4\sqrt{\ln(n/\beta)})`. KV ask for "n large enough"; here, where
  the two bounds together exceed β, the search is skipped (a public decision), its
  ε goes to the mean and the full public range is used: the coverage always holds.
* *Scale, unknown σ* (Algorithm 2): :math:`|X_{2i}-X_{2i-1}|` in bins
  :math:`(2^j,2^{j+1}]`; :math:`\hat\sigma=2^{l+2}`. Coverage needs σ̂ ≥ σ, so only bins
  below log₂σ − 2 mislead; the same bound applies, and the same way out (σ̂ = σ_max).
* *Mean* (Algorithms 4 and 5): :math:`\tilde\mu\pm[\frac{\sigma}{\sqrt n}z_{1-\alpha_0/2}+
  \beta_1\ln(1/\alpha_1)]`, with σ known, or with :math:`\tilde s\,t_{n-1}` in its place and
  :math:`\tilde s^2` raised by its own noise margin.

It is a guarantee, not a tight default: for practical widths see
:func:`mean_interval` and :func:`parametric_bootstrap`.

References
----------
.. [1] V. Karwa, S. Vadhan, "Finite sample differentially private confidence
   intervals", ITCS 2018.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from discreet import _exact
from discreet import mechanisms as m
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.inference._inputs import private
from discreet.inference._laws import Floats, Noise
from discreet.inference._proportion import tail_above, tail_below
from discreet.inference._results import POPULATION, Interval
from discreet.noise import DiscreteLaplace

_AWAY = np.arange(2.0, 9.0)
_NEAR = float(special.ndtr(1.0) - 0.5)
_FAR = tuple(np.repeat(special.ndtr(_AWAY + 0.5) - special.ndtr(_AWAY - 0.5), 2).tolist())
"""Least mass of the best bin, and most of the bins two widths and more away, both sides."""


@dataclass(frozen=True, slots=True, eq=False)
class NormalMean:
    """A private interval for a normal mean.

    Attributes
    ----------
    low, high, confidence, covers
        The interval.
    mean
        The released noisy mean, the interval's centre.
    range
        Where the data were clamped.
    loss
        What was spent.
    """

    low: float
    high: float
    confidence: float
    mean: float
    range: tuple[float, float]
    loss: Any
    covers: str = POPULATION

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def interval(self) -> Interval:
        """Return it as a plain interval."""
        return Interval(self.low, self.high, self.confidence, self.covers)

    def summary(self) -> str:
        """Return a short report in plain text."""
        return (
            f"normal mean {self.mean:.6g}, {self.interval()!r}\n"
            f"  clamped to   [{self.range[0]:.6g}, {self.range[1]:.6g}]\n"
            f"  cost         {self.loss}"
        )


def normal_mean_interval(
    values: Any,
    *,
    epsilon: Number,
    bound: Number | None = None,
    sigma: Number | None = None,
    sigma_bounds: tuple[Number, Number] | None = None,
    delta: Number | None = None,
    confidence: Number = 0.95,
    shares: tuple[Number, ...] | None = None,
) -> NormalMean:
    """Return a private confidence interval for the mean of normal data.

    Parameters
    ----------
    values
        Private sample; its size is public.
    epsilon
        Total cost.
    bound
        Public R with −R ≤ μ ≤ R. May be left out when `delta` is given (then only
        ``|μ| < 10¹² σ`` is assumed).
    sigma
        Standard deviation if it is known, otherwise
    sigma_bounds
        public bounds (σ_min, σ_max) on it.
    delta
        Only for an unbounded mean.
    shares
        Split of ε: (mean, range) for known σ, (mean, variance, range) otherwise;
        equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import inference as inf
    >>> x = np.random.default_rng(1).normal(70, 5, 500)
    >>> found = inf.normal_mean_interval(x, epsilon=1, sigma=5, bound=1000)
    >>> round(found.half_width, 3), found.loss.epsilon()
    (2.639, 1.0)
    """
    # total in every record: whether the call fails must not depend on private values
    x = np.nan_to_num(private(values), nan=0.0)
    if x.size < 4:
        raise ParameterError(f"at least four values are needed, got {x.size}")
    eps, level = _exact.epsilon(epsilon), _exact.confidence(confidence)
    if (sigma is None) == (sigma_bounds is None):
        raise ParameterError(
            "give sigma if it is known, otherwise sigma_bounds", hint=Hint("sigma", 5)
        )
    reach = _reach(bound, delta)
    split = _shares(shares, 2 if sigma is not None else 3, eps)
    if sigma is not None:
        spread = float(_exact.positive(_exact.exact(sigma, "sigma"), "sigma", example=5))
        return _estimate(x, spread, None, reach, split, delta=delta, level=level)
    assert sigma_bounds is not None
    low, high = (float(_exact.exact(s, "sigma_bounds")) for s in sigma_bounds)
    if not 0 < low < high:
        raise ParameterError(
            "sigma_bounds must be 0 < low < high", hint=Hint("sigma_bounds", (0.1, 100))
        )
    return _estimate(x, high, (low, high), reach, split, delta=delta, level=level)


def _reach(bound: Number | None, delta: Number | None) -> float:
    if bound is not None:
        if delta is not None:
            raise ParameterError(
                "with a bound on the mean no delta is needed", hint=Hint("delta", None)
            )
        return float(_exact.positive(_exact.exact(bound, "bound"), "bound", example=1000))
    if delta is None:
        raise ParameterError(
            "an unbounded mean needs delta, a pure guarantee needs bound", hint=Hint("bound", 1000)
        )
    return math.inf


def _shares(shares: tuple[Number, ...] | None, parts: int, eps: Fraction) -> list[Fraction]:
    if shares is None:
        return [eps / parts] * parts
    weights = [_exact.epsilon(s, "share") for s in shares]
    if len(weights) != parts:
        raise ParameterError(
            f"shares must be {parts} positive numbers", hint=Hint("shares", (1, 1))
        )
    return [eps * s / sum(weights) for s in weights]


def _estimate(
    x: Floats,
    sigma: float,
    bounds: tuple[float, float] | None,
    reach: float,
    split: list[Fraction],
    *,
    delta: Number | None,
    level: float,
) -> NormalMean:
    """Range, mean and, where `bounds` are all that is known of σ, first its scale and last σ."""
    alpha, part = (1 - level) / (3 if bounds is None else 4), 1 if bounds is None else 2
    losses: list[Any] = []
    unspent, eps = Fraction(0), split[-1] / part
    if bounds is not None:
        sigma, unspent, losses = _scale(x, bounds, eps, alpha / part)
    low, high, left, more = _range(x, sigma, reach, eps, delta=delta, beta=alpha / part)
    losses = [*losses, *more]
    if not math.isfinite(high - low):
        return NormalMean(low, high, level, math.nan, (low, high), p.compose(losses))
    mean, margin, loss = _noisy_mean(x, low, high, split[0] + unspent + left, alpha)
    losses.append(loss)
    z = -float(special.ndtri(alpha / 2))
    if bounds is not None:
        sd, loss = _noisy_spread(x, (low, high), split[1], alpha)
        losses.append(loss)
        sigma = sd if 0 < sd <= bounds[1] else bounds[1]
        z = -float(special.stdtrit(x.size - 1, alpha / 2))
    margin += sigma / math.sqrt(x.size) * z
    return NormalMean(mean - margin, mean + margin, level, mean, (low, high), p.compose(losses))


def _codes(x: Floats, ends: tuple[float, float], bits: int) -> Any:
    """Clamp and round each value to one of 2^bits + 1 points of the range."""
    low, high = ends
    unit = np.clip((np.clip(x, low, high) - low) / (high - low), 0.0, 1.0)
    return np.rint(unit * 2**bits).astype(np.int64)


def _noisy_mean(
    x: Floats, low: float, high: float, eps: Fraction, alpha: float
) -> tuple[float, float, Any]:
    """Return the noisy clamped mean, the margin of its noise and rounding, and the loss."""
    bits, n = 30, x.size
    total = m.geometric(
        int(_codes(x, (low, high), bits).sum()),
        sensitivity=2**bits,
        epsilon=eps,
        neighbours="change-one",
    )
    unit = (high - low) / 2**bits
    margin = (int(total.interval(1 - alpha).high) - int(total.value)) / n + 0.5
    return low + int(total.value) / n * unit, margin * unit, total.loss


def _noisy_spread(
    x: Floats, ends: tuple[float, float], eps: Fraction, alpha: float
) -> tuple[float, Any]:
    """Return an upper bound on the sample's standard deviation (nan if noise swamps it)."""
    bits, n = 15, x.size
    code = _codes(x, ends, bits)
    squares = n * int((code**2).sum()) - int(code.sum()) ** 2
    released = m.geometric(
        squares, sensitivity=(n - 1) * 4**bits, epsilon=eps, neighbours="change-one"
    )
    # raised by its own margin: KV's β₂·ln(1/α) is the symmetric interval's
    top = int(released.interval(1 - alpha).high) / (n * (n - 1))
    unit = (ends[1] - ends[0]) / 2**bits
    # rounding moves a standard deviation by at most half a step, times √(n/(n−1))
    return (math.sqrt(top) + 0.6) * unit if top > 0 else math.nan, released.loss


def _range(
    x: Floats, sigma: float, reach: float, eps: Fraction, *, delta: Number | None, beta: float
) -> tuple[float, float, Fraction, list[Any]]:
    """Algorithm 1: ends that hold all data but for probability beta, ε unspent, losses."""
    n = x.size
    spread = 4 * math.sqrt(math.log(n / beta))
    outside = 2 * n * float(special.ndtr(2 - spread))
    bins = 2 * math.ceil(reach / sigma) + 1 if math.isfinite(reach) else n
    safe = outside + _misled(n, eps, _NEAR, _FAR, bins) <= beta
    index = np.ceil(x / sigma - 0.5)
    if not math.isfinite(reach):
        if not safe:
            raise ParameterError(
                f"{n} values are too few to find an unbounded mean at this epsilon",
                hint=Hint("bound", 1000),
            )
        return _search_unbounded(index, sigma, spread * sigma, eps, delta)
    if not safe:
        whole = reach + sigma * -float(special.ndtri(beta / (2 * n)))
        return -whole, whole, eps, []
    r = bins // 2
    counts = np.bincount(np.clip(index, -r, r).astype(np.int64) + r, minlength=bins)
    best, loss = _fullest(counts, eps)
    place = sigma * (best - r)
    return place - spread * sigma, place + spread * sigma, Fraction(0), [loss]


def _search_unbounded(
    index: Floats, sigma: float, spread: float, eps: Fraction, delta: Number | None
) -> tuple[float, float, Fraction, list[Any]]:
    # beyond 2^40 widths doubles could not tell the ends of a range apart
    counts = Counter(np.clip(index, -(2.0**40), 2.0**40).tolist())
    keys = m.threshold_keys(counts, epsilon=eps, delta=delta, neighbours="change-one")
    if not keys.value:
        return -math.inf, math.inf, Fraction(0), [keys.loss]
    place = sigma * max(keys.value, key=lambda k: keys.value[k])
    return place - spread, place + spread, Fraction(0), [keys.loss]


def _scale(
    x: Floats, bounds: tuple[float, float], eps: Fraction, beta: float
) -> tuple[float, Fraction, list[Any]]:
    """Algorithm 2: σ̂ ≥ σ but for probability beta, ε unspent, losses."""
    first = math.floor(math.log2(bounds[0])) - 2
    last = math.ceil(math.log2(bounds[1])) + 1
    # disjoint pairs: one value is in one pair, so the histogram again moves by two
    half = x.size // 2
    pairs = np.abs(x[1 : 2 * half : 2] - x[: 2 * half : 2])
    chance = max(_misled(half, eps, good, bad, last - first + 1) for good, bad in _scale_masses())
    if chance > beta:
        return bounds[1], eps, []
    with np.errstate(divide="ignore"):
        j = np.ceil(np.log2(pairs)) - 1
    bins = np.clip(j, first, last).astype(np.int64) - first
    best, loss = _fullest(np.bincount(bins, minlength=last - first + 1), eps)
    return 2.0 ** (best + first + 2), Fraction(0), [loss]


def _fullest(counts: Any, eps: Fraction) -> tuple[int, Any]:
    released = m.geometric(counts.tolist(), sensitivity=2, epsilon=eps, neighbours="change-one")
    return int(np.argmax(released.value)), released.loss


@lru_cache(maxsize=256)
def _misled(n: int, eps: Fraction, good: float, bad: tuple[float, ...], bins: int) -> float:
    """Bound the chance that a bad bin's noisy count reaches the good bin's.

    For every level t: the good one stays at t or below, or a bad one reaches t.
    """
    noise = Noise(DiscreteLaplace(2 / eps))
    t = np.round(np.linspace(0, n * good, 60))
    short = tail_below(t, n, good, noise)
    # bins beyond those listed hold next to nothing: their count is zero but for 1e-12
    empty = max(bins - len(bad), 0) * (noise.at_least(t) + n * 1e-16)
    full = sum(tail_above(t, n, q, noise) for q in bad)
    return float(np.min(short + empty + full))


@lru_cache(maxsize=1)
def _scale_masses() -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Masses of dyadic bins of √2|Z| for log₂σ between grid points: best, and too small.

    With σ = 2^f the bin l holds √2|Z| ∈ (2^(l−f), 2^(l+1−f)]; it misleads when
    l < f − 2. Masses are unimodal in f, and those of misleading bins increase towards
    the mode, so ends of a grid interval bound what happens inside it.
    """
    f = np.linspace(0, 1, 17)
    bins = np.arange(-40, 8)
    low = 2.0 ** (bins[:, None] - f[None, :]) / math.sqrt(2)
    mass = 2 * (special.ndtr(2 * low) - special.ndtr(low))
    masses = []
    for i in range(f.size - 1):
        ends = mass[:, i : i + 2]
        best = float(ends.min(axis=1).max())
        masses.append((best, tuple(ends.max(axis=1)[bins < f[i + 1] - 2].tolist())))
    return tuple(masses)
