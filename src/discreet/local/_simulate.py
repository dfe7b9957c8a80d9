"""Plan a collection: draw what the aggregator would see, without drawing people.

Aggregates have laws of their own. Where bits are independent given the values, an
item's count is Bin(n_v, p) + Bin(n−n_v, q); a k-ary response is a kept
value or a uniform item, so its counts are kept binomials plus one multinomial. A hundred
million people cost as much as a hundred.

Simulated estimates use NumPy's generator and are marked as test noise: nothing private
went in, and nothing that comes out may pass for a collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from discreet import privacy as p_
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.local import _charts
from discreet.local._aggregator import Tally
from discreet.local._best import best
from discreet.local._bits import Counts
from discreet.local._frequency import FrequencyProtocol
from discreet.local._mean import LocalMean, quantise
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_whole


def simulate(
    protocol: LocalProtocol | None = None,
    frequencies: Any = None,
    *,
    n: int,
    domain: int | None = None,
    epsilon: Number = 1,
    values: Sequence[float] | None = None,
    seed: int | None = None,
    **options: Any,
) -> Any:
    """Draw the estimate that `n` people would give.

    Parameters
    ----------
    protocol
        A frequency protocol, a sketch with a domain, or :class:`LocalMean`; left out: the
        :func:`best` one for `domain` and `epsilon`.
    frequencies
        True shares of the items (or of `values`); left out: equal ones.
    n
        Number of people.
    domain, epsilon
        In place of a protocol.
    values
        For means: the values that occur.
    seed
        Of NumPy's generator; left out: another draw each time.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.OptimizedUnary(domain=1024, epsilon=1)
    >>> estimate = local.simulate(protocol, n=10**8)
    >>> estimate.n, bool(estimate.tally.tainted)
    (100000000, True)
    """
    people = read_whole(n, "n", most=1 << 40)
    if protocol is None:
        size = domain if frequencies is None else len(frequencies)
        protocol = best(size, epsilon).protocol
    rng = np.random.default_rng(seed)
    if isinstance(protocol, LocalMean):
        points = np.asarray([0.0] if values is None else values, dtype=np.float64)
        counts = _people(frequencies, len(points), people, rng)
        state = _mean_state(protocol, points, counts, rng)
    elif isinstance(protocol, FrequencyProtocol) and protocol.domain:
        counts = _people(frequencies, protocol.domain, people, rng)
        state = protocol.simulate_state(counts, rng)
    else:
        raise ParameterError(
            f"{type(protocol).__name__} has no joint law that is drawn at once; "
            "randomize values instead",
            hint="protocol.aggregator().update(protocol.randomize(values))",
        )
    loss: p_.PrivacyLoss = protocol.loss
    return protocol.estimate(Tally(people, state, {}, loss, tainted=True), **options)


def _people(frequencies: Any, size: int, n: int, rng: np.random.Generator) -> Counts:
    if frequencies is None:
        share = np.full(size, 1 / size)
    else:
        share = np.asarray(frequencies, dtype=np.float64)
    if (
        share.shape != (size,)
        or not np.isfinite(share).all()
        or (share < 0).any()
        or not share.any()
    ):
        raise ParameterError(
            f"frequencies must be {size} shares, none negative",
            hint=f"frequencies=[{1 / size:.3g}, …]",
        )
    return np.asarray(rng.multinomial(n, share / share.sum()))


def _mean_state(
    protocol: LocalMean, points: Any, counts: Counts, rng: np.random.Generator
) -> Counts:
    """Draw Duchi's counts and piecewise sums, one value and grid point at a time."""
    state = np.zeros(5, dtype=np.int64)
    law = protocol.law
    fine, _ = quantise(points, protocol.low, protocol.high)
    reach = law.steps + law.window
    outputs = np.arange(-reach, reach + 1)
    for place, people in zip(fine.tolist(), counts.tolist(), strict=True):
        t = Fraction(place, 1 << 32)
        to_piecewise = int(rng.binomial(people, float(protocol.share)))
        to_duchi = people - to_piecewise
        plus = Fraction(1, 2) + (t - Fraction(1, 2)) * protocol.duchi
        state[0] += to_duchi
        state[1] += rng.binomial(to_duchi, float(plus))
        grid, rest = divmod(t * 2 * law.steps, 1)
        up = int(rng.binomial(to_piecewise, float(rest)))
        for j, some in ((int(grid), to_piecewise - up), (int(grid) + 1, up)):
            if not some:
                continue
            drawn = rng.multinomial(some, np.array([float(w) for w in law.law(j - law.steps)]))
            state[2:] += [some, int(drawn @ outputs), int(drawn @ outputs**2)]
    return state


def error_chart(
    kinds: Sequence[type[FrequencyProtocol]],
    domain: int,
    *,
    people: Sequence[int] = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8),
    epsilons: Sequence[Number] = ("0.5", 1, 2, 4),
) -> dict[str, Any]:
    """Return a Vega-Lite chart: standard error of a rare item against people, by ε.

    Examples
    --------
    >>> from discreet import local
    >>> chart = local.error_chart([local.OptimizedUnary], domain=64)
    >>> len(chart["data"]["values"])
    24
    """
    rows = [
        {
            "people": n,
            "standard error": made.variance(0, n) ** 0.5,
            "protocol": f"{kind.__name__}, ε = {eps}",
        }
        for kind in kinds
        for eps in epsilons
        for made in [kind(domain=domain, epsilon=eps)]  # type: ignore[call-arg]
        for n in people
    ]
    return _charts.lines(
        rows,
        x="people",
        y="standard error",
        colour="protocol",
        title=f"Error of a rare item's share, {domain} items",
    )
