r"""Uniformly most powerful private tests of a binomial proportion.

Among all (ε, δ)-DP tests of level α about θ from X ~ Binomial(n, θ), the one
that rejects according to Z = X + Tulap noise is most powerful against every
one-sided alternative, and nearly so among unbiased tests against two-sided
ones [1]_.

Tulap(b, q) with :math:`b=e^{-\varepsilon}` is discrete Laplace noise plus an
independent uniform on (−½, ½), with tails of total mass q cut off,
:math:`q = 2\delta b/(1-b+2\delta b)`. For δ = 0 nothing is cut: **a count released
by the geometric mechanism plus a uniform is a Tulap variable**, so these tests
are post-processing of released counts and cost nothing. With
:math:`F` the Tulap distribution function,

.. math:: p_>(Z,\theta) = \sum_x \mathrm{Bin}(x;n,\theta)\,F(x-Z)

is the exact one-sided p-value; the two-sided one is
:math:`p_>(n\theta+T)+1-p_>(n\theta-T)` with :math:`T=|Z-n\theta|`. Intervals
invert the tests in θ.

References
----------
.. [1] J. Awan, A. Slavković, "Differentially private uniformly most powerful
   tests for binomial data", NeurIPS 2018, and "Differentially private
   inference for binomial data", Journal of Privacy and Confidentiality 2020.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet import _exact, noise
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.inference._chosen import Chosen, among, said, unchosen
from discreet.inference._inputs import Noisy, noisy, read_n, sampled
from discreet.inference._laws import Floats, Rng, generator
from discreet.inference._proportion import binomial_window
from discreet.inference._results import POPULATION, Interval, TestResult, plain, read_alternative


@dataclass(frozen=True, slots=True)
class Tulap:
    """Truncated uniform-Laplace noise centred at zero.

    Examples
    --------
    >>> import math
    >>> round(Tulap(0.3, 0.05).cdf(0.5), 6), round(Tulap(math.exp(-1)).cdf(0.3), 6)
    (0.783401, 0.638635)
    """

    b: float
    q: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.b < 1 or not 0 <= self.q < 1:
            raise ParameterError(f"Tulap needs 0 < b < 1 and 0 ≤ q < 1, got {self.b}, {self.q}")

    @classmethod
    def of(cls, epsilon: Number, delta: Number = 0) -> Tulap:
        """Return the noise that makes a count (ε, δ)-DP."""
        b = math.exp(-float(_exact.epsilon(epsilon)))
        cut = 0.0 if delta == 0 else float(_exact.delta(delta))
        return cls(b, 2 * cut * b / (1 - b + 2 * cut * b))

    def cdf(self, t: ArrayLike) -> Any:
        """Return P(noise ≤ t)."""
        x = np.asarray(t, dtype=np.float64)
        far = np.abs(x)
        nearest = np.round(far)
        tail = self.b**nearest / (1 + self.b) * (self.b + (nearest - far + 0.5) * (1 - self.b))
        raw = np.where(x > 0, 1 - tail, tail)
        return plain(np.clip((raw - self.q / 2) / (1 - self.q), 0.0, 1.0))


def ump_test(
    value: Any,
    n: int,
    p0: Number,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    tulap: Tulap | None = None,
    alternative: str = "two-sided",
    rng: Rng = None,
) -> TestResult:
    """Test a proportion with the most powerful private test.

    Parameters
    ----------
    value
        A release of the geometric mechanism with sensitivity 1, or an answer's count (a
        uniform is added here, from the random bits that every release holds: one release has
        one p-value; of a number without such bits the p-value is the largest that any uniform
        gives), or a plain number: a Tulap variable, whose noise is given by `epsilon` and
        `delta`, or by `tulap`.
    rng
        Where the uniform is drawn from instead.
    n, p0, alternative
        As for :func:`proportion_test`.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> round(inf.ump_test(18.3, 30, "0.5", epsilon=1).pvalue, 4)
    0.2796
    """
    z, slack, law, marks = _read(value, epsilon, delta, tulap, rng)
    unchosen(marks)
    size = read_n(n, value if isinstance(value, Noisy) else None)
    side, null = read_alternative(alternative), _exact.confidence(p0, "p0")
    return TestResult(
        z,
        _pvalue(z, size, null, law, side, slack=slack),
        side,
        "most powerful private test of a proportion (Awan–Slavković)",
        {"null value": null, "n": size, "noise": law},
        None,
        lambda level: _invert(z, size, law, level, side, slack=slack),
    )


def ump_interval(
    value: Any,
    n: int,
    confidence: Number = 0.95,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    tulap: Tulap | None = None,
    alternative: str = "two-sided",
    rng: Rng = None,
) -> Interval:
    """Return the proportions that :func:`ump_test` would not reject.

    "greater" gives the most accurate lower bound, "less" the upper bound.

    Examples
    --------
    >>> import math
    >>> from discreet import inference as inf
    >>> inf.ump_interval(18, 30, tulap=inf.Tulap(math.exp(-1), 0.05))
    [0.410721, 0.76671] (95 %)
    """
    z, slack, law, marks = _read(value, epsilon, delta, tulap, rng)
    level, side = _exact.confidence(confidence), read_alternative(alternative)
    rows = among(marks, "a proportion")
    found = _invert(z, read_n(n), law, 1 - (1 - level) / rows, side, slack=slack)
    return replace(found, confidence=level, covers=said(POPULATION, rows))


def ump_power(
    n: int,
    p0: Number,
    p1: Number,
    *,
    epsilon: Number,
    delta: Number = 0,
    alpha: Number = 0.05,
) -> float:
    """Return the chance that the one-sided test of θ = `p0` finds θ = `p1`.

    No (ε, δ)-DP test of this level does better, so this is also the answer to
    "is a sample of this size, at this ε, worth asking?".

    Examples
    --------
    >>> from discreet import inference as inf
    >>> round(inf.ump_power(30, "0.8", "0.9", epsilon=1), 3)
    0.304
    """
    law, size = Tulap.of(epsilon, delta), read_n(n)
    null, other = _exact.confidence(p0, "p0"), _exact.confidence(p1, "p1")
    if other < null:
        null, other = 1 - null, 1 - other
    level = _exact.confidence(alpha, "alpha")
    x, mass = binomial_window(size, null)
    reach = 60 / -math.log(law.b) + 2
    cut = _exact.turning(lambda m: law.cdf(x - m) @ mass <= level, -reach, size + reach)[1]
    x, mass = binomial_window(size, other)
    return float(law.cdf(x - cut) @ mass)


def _read(
    value: Any, epsilon: Number | None, delta: Number, tulap: Tulap | None, rng: Rng
) -> tuple[float, float, Tulap, tuple[Chosen, ...]]:
    """A Tulap variable, how far off it may be without a uniform, its law, and what chose it."""
    if isinstance(value, bool):
        raise ParameterError("a released count is a number, got bool")
    if isinstance(value, int | float | np.number):
        if (tulap is None) == (epsilon is None):
            raise ParameterError("say epsilon or tulap for a plain number", hint=Hint("epsilon", 1))
        number = float(noisy(value, law=noise.DiscreteLaplace(1)).value)
        return number, 0.0, tulap or Tulap.of(epsilon, delta), ()  # type: ignore[arg-type]  # one is given
    item = noisy(*value) if isinstance(value, tuple) else noisy(value)
    law = item.noise.law
    if not isinstance(law, noise.DiscreteLaplace) or item.noise.step != 1 or item.size != 1:
        raise ParameterError(
            "the most powerful test needs one count released by the geometric mechanism",
            hint="m.geometric(count, 1, 1), or inf.proportion_test",
        )
    if epsilon is not None or tulap is not None or delta != 0:
        raise ParameterError("the release already says its noise", hint="leave out epsilon")
    sampled(item)
    number, own = float(item.value), Tulap(math.exp(-1 / float(law.scale)))
    if rng is not None:
        return number + float(generator(rng).uniform(-0.5, 0.5)), 0.0, own, item.chosen
    if item.coin is None:
        return number, 0.5, own, item.chosen
    return number + _uniform(item.coin), 0.0, own, item.chosen


def _uniform(coin: str) -> float:
    """Uniform on (−½, ½) from random bits: the same for the same bits."""
    bits = int.from_bytes(hashlib.sha256(coin.encode()).digest()[:6], "big")
    return (bits + 0.5) / 2**48 - 0.5


def _above(z: float | Floats, n: int, p: float, law: Tulap) -> float:
    x, mass = binomial_window(n, p)
    return float(law.cdf(x - z) @ mass)


def _pvalue(z: float, n: int, p: float, law: Tulap, side: str, *, slack: float) -> float:
    """P-value of a Tulap variable; the largest of all within `slack`."""
    if side == "greater":
        return _above(z - slack, n, p, law)
    if side == "less":
        return 1 - _above(z + slack, n, p, law)
    distance = max(abs(z - n * p) - slack, 0.0)
    return min(1.0, _above(n * p + distance, n, p, law) + 1 - _above(n * p - distance, n, p, law))


def _invert(z: float, n: int, law: Tulap, level: float, side: str, *, slack: float) -> Interval:
    alpha = 1 - level
    middle = min(max(z / n, 0.0), 1.0)
    start, end = (middle, middle) if side == "two-sided" else (1.0, 0.0)

    def test(p: float) -> bool:
        return _pvalue(z, n, p, law, side, slack=slack) >= alpha

    low, high = 0.0, 1.0
    if side != "less" and not test(0.0):
        low = _exact.turning(test, 0.0, start)[1] if test(start) else start
    if side != "greater" and not test(1.0):
        high = _exact.turning(lambda p: not test(p), end, 1.0)[1]
    return Interval(low, high, level, POPULATION)
