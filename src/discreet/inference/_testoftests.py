# ruff: noqa: PT028 - the procedure is called so in the literature; it is no pytest test
r"""Test of tests: any public hypothesis test, made private.

Guarantee
---------
*Privacy*: every unit is assigned to one of m parts uniformly and independently, by
the protected random source. Adding, removing or changing one unit touches one
part (couple the assignments of all others), so the number K of parts whose public
test rejects at level α₀ changes by at most one; K is released by the geometric
mechanism: ε-DP under add-remove and change-one. A part whose test fails for any
reason counts as "no rejection", so nothing but K can leak: no error, no warning, no
message of the public test gets out.

*Validity*: if the public test is valid on each part (P(p ≤ α₀) ≤ α₀ under the null) and
units are independent, K is stochastically at most Binomial(m, α₀), and the most
powerful private binomial test of θ = α₀ against θ > α₀ is valid at every level [1]_.

References
----------
.. [1] Z. Kazan, K. Shi, A. Groce, A. Bray, "The test of tests: a framework for
   differentially private hypothesis testing", ICML 2023.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from discreet import _exact, noise
from discreet import mechanisms as m
from discreet._dataclass import replace
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.inference._laws import Rng
from discreet.inference._results import TestResult
from discreet.inference._ump import ump_power, ump_test

MOST_PARTS = 10_000


def test_of_tests(
    data: Any,
    test: Callable[..., Any],
    *,
    epsilon: Number,
    parts: int | None = None,
    alpha0: Number | None = None,
    alpha: Number = 0.05,
    neighbours: str = "add-remove",
    rng: Rng = None,
) -> TestResult:
    """Run any public test privately.

    Parameters
    ----------
    data
        Private table: an array with one unit per row, a mapping of equally long
        columns, or a sequence of samples in which every entry is a unit (as
        for two-sample tests; each is split separately).
    test
        ``test(part)`` for arrays and mappings, ``test(*samples)`` for sequences;
        returns a p-value or an object with ``.pvalue``, as SciPy's tests do.
    epsilon
        Cost of the whole procedure.
    parts, alpha0
        Number of parts and level of each part's test. By default what is most
        powerful for a moderate effect at this ε (:func:`tuned_parts`); both
        must not depend on the data.
    alpha
        Level the defaults are tuned for.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from discreet import inference as inf
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.normal(0, 1, 3000), rng.normal(0.6, 1, 3000)
    >>> inf.test_of_tests((x, y), stats.ttest_ind, epsilon=1).pvalue < 0.05
    True
    """
    samples, over_columns = _columns(data, test)
    count, level = plan_parts(epsilon, parts, alpha0, alpha)
    rejected = rejecting_parts(samples, over_columns, count, level)
    released = m.geometric(rejected, sensitivity=1, epsilon=epsilon, neighbours=neighbours)
    result = ump_test(released, count, level, alternative="greater", rng=rng)
    return replace(
        result,
        method="test of tests: noisy number of parts that reject",
        parameters={"parts": count, "level of each": level},
        loss=released.loss,
        _interval=None,
    )


test_of_tests.__test__ = False  # type: ignore[attr-defined]  # not a pytest test


def plan_parts(
    epsilon: Number, parts: int | None, alpha0: Number | None, alpha: Number
) -> tuple[int, float]:
    """Read or choose the number of parts and the level of each."""
    if parts is None or alpha0 is None:
        tuned = tuned_parts(epsilon, alpha)
        parts, alpha0 = parts or tuned[0], alpha0 or tuned[1]
    whole = isinstance(parts, int) and not isinstance(parts, bool)
    if not whole or not 2 <= int.__index__(parts) <= MOST_PARTS:
        raise ParameterError(f"parts must be between 2 and {MOST_PARTS}", hint=Hint("parts", 20))
    # a plain number: it meets the number of private rows
    return int.__index__(parts), _exact.confidence(alpha0, "alpha0")


def rejecting_parts(
    samples: list[list[Any]], test: Callable[..., Any], parts: int, level: float
) -> int:
    """Count rejections of ``test(*columns of all samples)``; rows of a sample stay together."""
    places = [_assign(len(columns[0]), parts) for columns in samples]
    placed = [(c, at) for own, at in zip(samples, places, strict=True) for c in own]
    return sum(_rejects(test, [c[at == i] for c, at in placed], level) for i in range(parts))


def _columns(data: Any, test: Callable[..., Any]) -> tuple[list[list[Any]], Callable[..., Any]]:
    """Samples, each a list of columns, and the test as a function of all columns."""
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        names = list(data.keys()) if isinstance(data, Mapping) else list(data.columns)
        columns = [np.asarray(data[n]) for n in names]
        if not columns or len({len(c) for c in columns}) != 1:
            raise ParameterError("all columns need one entry per unit")
        return [columns], lambda *part: test(dict(zip(names, part, strict=True)))
    if isinstance(data, np.ndarray):
        if data.ndim == 0:
            raise ParameterError("data needs one unit per row")
        return [[data]], test
    if isinstance(data, Sequence) and not isinstance(data, str) and len(data):
        samples = [np.asarray(s) for s in data]
        if all(s.ndim >= 1 for s in samples):
            return [[s] for s in samples], test
    raise ParameterError(
        "data must be an array, a mapping of columns or a sequence of samples",
        hint="inf.test_of_tests((x, y), scipy.stats.ttest_ind, 1)",
    )


def _assign(units: int, parts: int) -> NDArray[np.int64]:
    """Assign units to parts independently; the bias of the modulus is below 2^-50."""
    if not units:
        return np.zeros(0, dtype=np.int64)
    words = np.asarray(noise.random_words(units))
    return np.asarray(words % np.uint64(parts), dtype=np.int64)


def _rejects(test: Callable[..., Any], arguments: list[Any], level: float) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = test(*arguments)
            pvalue = float(getattr(result, "pvalue", result))
        except Exception:  # noqa: BLE001 - a failing part must look like one that accepts
            return False
    return pvalue <= level


def tuned_parts(epsilon: Number, alpha: Number = 0.05) -> tuple[int, float]:
    """Return the number of parts and their level that find a moderate effect most often.

    The public z-test on all data would see the effect :data:`EFFECT` standard errors
    from zero; m parts each see it √m times closer. The choice depends on ε and α
    only, never on data.

    Examples
    --------
    >>> tuned_parts(1)
    (32, 0.3)
    """
    return _tuned(_exact.epsilon(epsilon), _exact.confidence(alpha, "alpha"))


EFFECT = 4.0


@lru_cache(maxsize=64)
def _tuned(epsilon: Any, alpha: float) -> tuple[int, float]:
    powers = {}
    for parts in (4, 8, 16, 32, 64, 128):
        for level in (0.01, 0.05, 0.1, 0.2, 0.3, 0.4):
            rate = float(special.ndtr(EFFECT / math.sqrt(parts) + special.ndtri(level)))
            rate = min(rate, 1 - 1e-12)
            powers[parts, level] = ump_power(parts, level, rate, epsilon=epsilon, alpha=alpha)
    # small parts serve real tests badly: the fewest parts that come close to the best
    fewest = min(
        parts for (parts, _), power in powers.items() if power >= max(powers.values()) - 0.05
    )
    level = max((power, lv) for (parts, lv), power in powers.items() if parts == fewest)[1]
    return fewest, level
