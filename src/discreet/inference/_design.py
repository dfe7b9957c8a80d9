"""How many people an interval or a test needs, before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Callable

from discreet import _exact
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.inference._laws import Laplace, Noise
from discreet.inference._sampling import NormalPlus
from discreet.inference._ump import ump_power

_MOST = 10**12


def sample_size(
    *,
    epsilon: Number,
    within: Number | None = None,
    p: Number = "0.5",
    sd: Number | None = None,
    low: Number = 0,
    high: Number = 1,
    confidence: Number = 0.95,
    p0: Number | None = None,
    p1: Number | None = None,
    power: Number = "0.8",
    alpha: Number = 0.05,
) -> int:
    """Return the least number of people for a margin, or for the power of a test, at ε.

    Parameters
    ----------
    within, confidence
        Half-width of the population interval of a share, or of a mean if `sd` is given.
    p
        The share; one half needs the most people.
    sd, low, high
        Standard deviation of one value and its public bounds, for a mean.
    p0, p1, power, alpha
        Instead: the one-sided test of a share of `p0` should find `p1` with this
        probability. No private test needs fewer people (:func:`ump_power`).

    Notes
    -----
    The number of people is taken as public, the sum gets Laplace noise of scale
    (high − low)/ε, and every person has one row.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> inf.sample_size(within="0.02", epsilon=1), inf.sample_size(within="0.02", epsilon="0.05")
    (2409, 4283)
    >>> inf.sample_size(p0="0.5", p1="0.55", epsilon=1)
    624
    """
    eps = float(_exact.epsilon(epsilon))
    if (within is None) == (p0 is None and p1 is None):
        raise ParameterError(
            "say the margin to be met, or the two shares to be told apart",
            hint=Hint("within", "0.02"),
        )
    if within is None:
        if p0 is None or p1 is None:
            raise ParameterError(
                "a test tells p0 from p1: give both", hint=Hint("p0", "0.5").also("p1", "0.6")
            )
        aim = _exact.confidence(power, "power")
        # power rises with n but for the ripples of a discrete law
        return _least(lambda n: ump_power(n, p0, p1, epsilon=epsilon, alpha=alpha) >= aim)
    margin = float(_exact.positive(_exact.decimal(within, "within"), "within", example="0.02"))
    level = _exact.confidence(confidence)
    a, b = float(_exact.exact(low, "low")), float(_exact.exact(high, "high"))
    if not a < b:
        raise ParameterError("low must be below high", hint=Hint("low", 0).also("high", 100))
    share = _exact.confidence(p, "p")
    spread = math.sqrt(share * (1 - share)) if sd is None else float(_exact.exact(sd, "sd"))

    def met(n: int) -> bool:
        law = NormalPlus(max(spread, 1e-12) / math.sqrt(n), Noise(Laplace((b - a) / (eps * n))))
        return law.margin(level) <= margin

    return _least(met)


def _least(met: Callable[[int], bool]) -> int:
    high = 2
    while not met(high):
        high *= 2
        if high > _MOST:
            raise ParameterError(f"more than {_MOST} people would be needed")
    return _exact.turning(met, 1, high)[1]
