r"""Noise and sampling error together: what a noisy mean says about a population.

Normal plus noise
-----------------
For S ~ N(0, s²) and Laplace noise L of scale b, with Φ the normal distribution,

.. math:: P(S+L\le x) = \Phi(x/s) - \tfrac12 e^{s^2/2b^2-x/b}\Phi(x/s-s/b)
          + \tfrac12 e^{s^2/2b^2+x/b}\Phi(-x/s-s/b),

evaluated with ln Φ so that nothing overflows. For discrete laws the sum over
the lattice is taken directly; where the lattice is fine (more than
:data:`LATTICE` points matter) the continuous law is used and one step is added to
the margin: a discrete Laplace variable is a difference of two rounded-down
exponentials, hence within one step of a Laplace variable.

The bootstrap
-------------
:func:`parametric_bootstrap` reruns the *whole* mechanism, clamping and noise
included, on data simulated from the released parameters [1]_. It is asymptotic,
and as honest as the model it is given. It needs a mechanism that is nearly unbiased at
the parameters released: where clamping bites, the released mean is that of clamped
values, the model that is fitted to it is another one, and neither kind of
interval finds its way back (a normal mean of 4.5, σ = 2, clamped to ±5, is covered in 33 and
1.5 % of cases). The bias shows in the replicates themselves, and more than
:data:`BIAS` of their standard deviations is refused.

Noise may hide it: a released variance that came out near zero makes a model of which nothing is
clamped. So the mechanism is also run at the parameters of :data:`_OTHERS` replicates, which are as
likely to have been released, and twice that bias at any of them is refused too.

References
----------
.. [1] C. Ferrando, S. Wang, D. Sheldon, "Parametric bootstrap for differentially
   private confidence intervals", AISTATS 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.inference._chosen import among, said
from discreet.inference._inputs import (
    Description,
    noisy,
    read_n,
    resolve,
    sampled,
    seeded,
    shared,
)
from discreet.inference._laws import Floats, Gaussian, Laplace, Noise, Rng
from discreet.inference._results import POPULATION, Interval, one_of
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Law

BIAS = 0.25
"""Bias of a mechanism, in standard deviations, beyond which its bootstrap is refused: at
this bias an interval of 95 % covers 94 %, or 92 % by percentiles, which double it."""

LATTICE = 20_000
"""Lattice points up to which a discrete law is convolved point by point."""


@dataclass(frozen=True, slots=True)
class NormalPlus:
    """The law of a normal variable of standard deviation `sd` plus independent noise.

    Examples
    --------
    >>> law = NormalPlus(1, Noise(Laplace(1)))
    >>> round(float(law.cdf(1)), 7), round(law.margin(0.95), 5)
    (0.7406916, 3.49513)
    """

    sd: float
    noise: Noise

    def cdf(self, x: ArrayLike) -> Any:
        """Return P(S + N ≤ x)."""
        points = np.asarray(x, dtype=np.float64)
        law, step = self.noise.law, float(self.noise.step)
        if isinstance(law, Gaussian):
            return special.ndtr(points / math.hypot(self.sd, law.sigma * step))
        if isinstance(law, Laplace) and law.copies == 1:
            return _normal_laplace(points, self.sd, law.scale * step)
        if isinstance(law, Law):
            return self._lattice(points, law, step)
        raise ParameterError(f"no distribution of normal plus {law!r} is known here")

    def _lattice(self, x: Any, law: Law, step: float) -> Any:
        reach = law.interval(1 - 1e-13)
        k = np.arange(reach.low, reach.high + 1)
        flat = np.atleast_1d(x)
        parts = [special.ndtr((v - k * step) / self.sd) @ law.pmf(k) for v in flat.ravel()]
        return np.array(parts).reshape(np.shape(x))[()]

    def margin(self, confidence: float) -> float:
        """Return c with ``P(|S + N| ≤ c) ≥ confidence``, for symmetric noise."""
        if not self.noise.symmetric:
            raise ParameterError("one-sided noise has no symmetric margin")
        smooth, slack = self._smooth()
        alpha = (1 - confidence) / 2
        high = 2 * math.sqrt(self.sd**2 + self.noise.variance)
        while float(smooth.cdf(-high)) > alpha:
            high *= 2
        return _exact.turning(lambda c: smooth.cdf(-c) <= alpha, 0.0, high)[1] + slack

    def _smooth(self) -> tuple[NormalPlus, float]:
        """Return the continuous law to use for a fine lattice, and what it may be off by."""
        law, step = self.noise.law, self.noise.step
        if not isinstance(law, Law) or law.std < LATTICE / 60:
            return self, 0.0
        if isinstance(law, DiscreteLaplace):
            return NormalPlus(self.sd, Noise(Laplace(float(law.scale)), step)), float(step)
        if isinstance(law, DiscreteGaussian):
            return NormalPlus(self.sd, Noise(Gaussian(law.sigma), step)), float(step)
        return self, 0.0


def _normal_laplace(x: Any, s: float, b: float) -> Any:
    lift = s * s / (2 * b * b)
    up = np.exp(np.minimum(lift - x / b + special.log_ndtr(x / s - s / b), 0.0))
    down = np.exp(np.minimum(lift + x / b + special.log_ndtr(-x / s - s / b), 0.0))
    return np.clip(special.ndtr(x / s) - up / 2 + down / 2, 0.0, 1.0)[()]


def mean_interval(
    value: Any,
    n: int,
    sd: float,
    confidence: Number = 0.95,
    **description: Unpack[Description],
) -> Interval:
    """Return an interval for a population mean, from a released sample mean.

    Parameters
    ----------
    value
        The released mean of n values, with its noise described as for
        :func:`interval`. For a released *sum*, use ``total=`` arithmetic first:
        pass ``inf.noisy(total / n, law=law, step=step / n)``.
    n
        Public sample size.
    sd
        Standard deviation of one value in the population. Half the clamping
        range is always large enough; a private estimate should carry its own
        upward correction.

    Notes
    -----
    Sampling error is taken as normal, the noise exactly. Adding the two margins
    instead would be far too wide, adding variances covers too little.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> inf.mean_interval(50, n=100, sd=10, noise="laplace", epsilon=1, sensitivity=1)
    [46.5049, 53.4951] (95 %)
    """
    item = resolve(value, of_chosen=True, **description)
    sampled(item)
    size, level = read_n(n, item), _exact.confidence(confidence)
    rows = among(item.chosen, "a mean")
    spread = float(_exact.positive(_exact.exact(sd, "sd"), "sd", example=1)) / math.sqrt(size)
    margin = NormalPlus(spread, item.noise).margin(1 - (1 - level) / rows)
    return Interval(item.value - margin, item.value + margin, level, said(POPULATION, rows))


_OTHERS = 40
"""Replicates at whose parameters bias is looked for as well."""
_RUNS = 100
"""Data sets for each of them."""

Model = Callable[[Any, np.random.Generator, int], Any]
Mechanism = Callable[[Any, np.random.Generator], Any]


def parametric_bootstrap(
    estimate: Any,
    model: Model,
    mechanism: Mechanism,
    confidence: Number = 0.95,
    *,
    target: Callable[[Any], Any] = lambda theta: theta,
    draws: int = 1999,
    kind: Literal["pivot", "percentile"] = "pivot",
    rng: Rng = None,
) -> Interval:
    """Return an interval by rerunning the whole mechanism on simulated data.

    Parameters
    ----------
    estimate
        The released parameters θ̃.
    model
        ``model(theta, rng, draws)`` simulates `draws` data sets at once.
    mechanism
        ``mechanism(data, rng)`` does everything the release did, clamping and
        noise included, and returns one estimate per data set.
    target
        The number of interest in θ (applied to θ̃ and to each replicate).
    kind
        "pivot" reflects the simulated errors about the estimate; "percentile" takes
        the quantiles. Neither corrects the bias of clamping: bounds that cut off
        much of the data are refused.
    rng
        Randomness of the replicates; left out, it follows from the estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import inference as inf
    >>> def model(mean, rng, draws):
    ...     return rng.normal(mean, 2, (draws, 200))
    >>> def mechanism(x, rng):
    ...     return np.clip(x, -5, 5).mean(axis=1) + rng.laplace(0, 10 / 200, len(x))
    >>> found = inf.parametric_bootstrap(1.0, model, mechanism, rng=1)
    >>> 0.2 < found.half_width < 0.4
    True
    """
    level, source = _exact.confidence(confidence), seeded(rng, repr(estimate).encode())
    one_of(kind, ("pivot", "percentile"), "kind")
    if draws < 2 / (1 - level):
        raise ParameterError(
            f"{draws} draws are too few for confidence {level}", hint=Hint("draws", 1999)
        )
    found = mechanism(model(estimate, source, draws), source)
    replicates = np.asarray(target(found))
    if replicates.shape != (draws,):
        raise ParameterError(
            f"the mechanism must return one number per data set: {draws}, got "
            f"an array of shape {replicates.shape}"
        )
    centre = float(target(estimate))
    _check_unbiased(replicates, centre, BIAS, "the released parameters")
    thetas = np.asarray(found)
    if thetas.shape[:-1] == np.shape(estimate):
        for theta in np.moveaxis(thetas, -1, 0)[:_OTHERS]:
            again = np.asarray(target(mechanism(model(theta, source, _RUNS), source)))
            words = "parameters that noise cannot tell from the released ones"
            _check_unbiased(again, float(target(theta)), 2 * BIAS, words)
    alpha = (1 - level) / 2
    low, high = np.quantile(replicates, [alpha, 1 - alpha])
    if kind == "pivot":
        low, high = 2 * centre - high, 2 * centre - low
    return Interval(float(low), float(high), level, POPULATION)


def _check_unbiased(replicates: Floats, centre: float, most: float, where: str) -> None:
    """Refuse a mechanism that is off by more than so many standard deviations."""
    off, spread = abs(float(replicates.mean()) - centre), float(replicates.std())
    # the mean of the replicates is itself uncertain by spread/√draws
    if off > most * spread + 3 * spread / math.sqrt(len(replicates)):
        raise ParameterError(
            f"the mechanism is off by {off:.3g} on average at {where}, which is "
            f"{off / spread if spread else math.inf:.2g} standard deviations: no bootstrap "
            "interval covers",
            hint="clamp less: wider bounds cost more noise and no bias",
        )


def clamped_normal(
    low: float, high: float, n: int, mean: Any, variance: Any
) -> tuple[Model, Mechanism]:
    """Return model and mechanism for clamped means and variances of normal data.

    Use with :func:`parametric_bootstrap` and ``estimate=(mean, sd)``.

    Parameters
    ----------
    low, high
        Clamping bounds.
    n
        Public sample size.
    mean, variance
        How the clamped mean and variance were noised: anything that
        :func:`noisy` reads; only their noise is used.
    """
    size = read_n(n, least=2)
    if not low < high:
        raise ParameterError("low must be below high", hint=Hint("low", 0).also("high", 100))
    first, second = noisy(mean), noisy(variance)
    shared([first, second])

    def model(theta: Any, rng: np.random.Generator, draws: int) -> Any:
        return rng.normal(theta[0], max(float(theta[1]), 0.0), (draws, size))

    def mechanism(data: Any, rng: np.random.Generator) -> Any:
        clamped = np.clip(data, low, high)
        draws = len(clamped)
        means = clamped.mean(axis=1) + first.noise.simulate(rng, draws)
        spreads = clamped.var(axis=1, ddof=1) + second.noise.simulate(rng, draws)
        return np.array([means, np.sqrt(np.maximum(spreads, 0.0))])

    return model, mechanism
