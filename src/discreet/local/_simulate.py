"""Plan a collection: draw what the aggregator would see, without drawing people.

Aggregates have laws of their own. Where bits are independent given the values, an
item's count is Bin(n_v, p) + Bin(n−n_v, q); a k-ary response is a kept
value or a uniform item, so its counts are kept binomials plus one multinomial. A hundred
million people cost as much as a hundred. Every protocol draws its *joint* law: sets item by
item, symbols on hyperplanes bit by bit, tables of real hash functions cell by cell.

Simulated estimates use NumPy's generator and are marked as test noise: nothing private
went in, and nothing that comes out may pass for a collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _charts
from discreet.local._aggregator import Tally
from discreet.local._best import best
from discreet.local._bits import Counts, read_items
from discreet.local._frequency import FrequencyProtocol
from discreet.local._ordinal import Hierarchy
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_whole
from discreet.local._wave import SquareWave


def simulate(
    protocol: LocalProtocol | None = None,
    frequencies: Any = None,
    *,
    n: int,
    domain: int | None = None,
    epsilon: Number = 1,
    values: Sequence[Any] | None = None,
    seed: int | None = None,
    **options: Any,
) -> Any:
    """Draw the estimate that `n` people would give.

    Parameters
    ----------
    protocol
        Any protocol; left out: the :func:`best` one for `domain` and `epsilon`.
    frequencies
        True shares of the items (or of `values`); left out: equal ones.
    n
        Number of people.
    domain, epsilon
        In place of a protocol.
    values
        The values that occur, as ``randomize`` takes them; items 0, …, domain − 1 if left out.
    seed
        Of NumPy's generator; left out: another draw each time.
    options
        Of the protocol's estimates: ``candidates`` and the like.

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
    size = getattr(protocol, "domain", 0) if values is None else len(values)
    if not size:
        raise ParameterError(
            f"say which values people hold: {type(protocol).__name__} has no list of its own",
            hint=Hint("values", ["a", "b"]),
        )
    counts = _people(frequencies, size, people, rng)
    listed = isinstance(protocol, FrequencyProtocol | Hierarchy | SquareWave) and protocol.domain
    if values is not None and listed:  # people per item of the domain; a sketch may have none
        items, _ = read_items(values, listed)
        counts, values = np.bincount(items, counts, listed).astype(np.int64), None
    state = protocol.simulate_state(counts, rng, values)
    return protocol.estimate(Tally(people, state, {}, protocol.loss, tainted=True), **options)


def _people(frequencies: Any, size: int, n: int, rng: np.random.Generator) -> Counts:
    shares = [1 / size] * size if frequencies is None else frequencies
    share = np.asarray(shares, dtype=np.float64)
    usable = share.shape == (size,) and np.isfinite(share).all() and (share >= 0).all()
    if not usable or not share.any():
        raise ParameterError(
            f"frequencies must be {size} shares, none negative",
            hint=Hint("frequencies", [1 / size] * size) if size < 8 else None,
        )
    return np.asarray(rng.multinomial(n, share / share.sum()))


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
            "standard error": protocol.variance(0, n) ** 0.5,
            "protocol": f"{kind.__name__}, ε = {eps}",
        }
        for kind in kinds
        for eps in epsilons
        for protocol in [kind(domain=domain, epsilon=eps)]  # type: ignore[call-arg]  # protocols of this table take these
        for n in people
    ]
    return _charts.lines(
        rows,
        x="people",
        y="standard error",
        colour="protocol",
        title=f"Error of a rare item's share, {domain} items",
    )
