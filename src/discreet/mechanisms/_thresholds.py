"""Which groups exist: releasing noisy counts of keys that nobody listed beforehand.

Mechanism
---------
Keys with a count below the public ``min_count`` are dropped; noise Z is added to the count of
every remaining key, and a key is released with its noisy count if that is at least the
threshold T. (``strict`` prints the same rule as "> T − 1": on the integers they are one.)

Guarantee
---------
A unit contributes to at most ℓ = ``max_groups`` keys and at most Δ = ``sensitivity`` to each.
The mechanism is (ε, δ)-DP, where the noise alone is (ε, δ_noise)-DP for the counts of the keys
one unit (add-remove) or two units (change-one) can touch, and δ = δ_noise + δ_T; δ_T, its
proof and the least T stand in :mod:`discreet.privacy._keys`.

Noise: discrete Laplace of scale ℓΔ/ε (change-one: 2ℓΔ/ε) with δ_noise = 0, or discrete Gaussian for
the L2 distance √ℓ·Δ (√(2ℓ)·Δ) with δ_noise = δ/2, certified for the law drawn.
(Korolova, Kenthapadi, Mishra, Ntoulas 2009; Wilson et al. 2020; Swanberg et al. 2023.)

Intervals are for counts *given that the key was released*: selection favours lucky noise,
and the usual interval would cover small counts too rarely.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any, Literal

from discreet import _exact, noise
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.mechanisms import _lattice
from discreet.mechanisms._calls import recorded
from discreet.mechanisms._parameters import read_count
from discreet.mechanisms._release import Interval, tainted
from discreet.privacy import read_neighbours


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """Released keys with their noisy counts.

    Attributes
    ----------
    value
        Noisy count by key, ordered by key (or at random where keys have no
        order), so that the order says nothing.
    threshold
        A key is released when its noisy count is at least this.
    law, loss, mechanism, price
        As in :class:`Release`.
    """

    value: dict[Any, int]
    threshold: int
    law: Any
    loss: p.PrivacyLoss
    price: str
    min_count: int = 1
    strict: bool = False
    tainted: bool = False
    mechanism: str = "threshold-keys"

    @property
    def step(self) -> Fraction:
        """Counts are integers."""
        return Fraction(1)

    def interval(self, confidence: Number = 0.95) -> dict[Any, Interval]:
        """Return an interval per key for its true count, given that it was released."""
        level = _exact.confidence(confidence)
        ends = {
            y: interval_given_release(y, self.threshold, self.law, level, self.min_count)
            for y in set(self.value.values())
        }
        return {key: ends[y] for key, y in self.value.items()}

    def __repr__(self) -> str:
        rule = f"> {self.threshold - 1}" if self.strict else f"≥ {self.threshold}"
        rows = ", ".join(f"{k!r}: {v}" for k, v in list(self.value.items())[:6])
        more = ", …" if len(self.value) > 6 else ""
        relation = "" if self.loss.neighbours is None else f", {self.loss.neighbours}"
        taint = "  [TEST NOISE: NOT PRIVATE]" if self.tainted else ""
        return f"{{{rows}{more}}} (count {rule})  {self.mechanism}, {self.price}{relation}{taint}"


def interval_given_release(
    y: int, threshold: int, law: Any, confidence: float, min_count: int = 1
) -> Interval:
    """Return an interval for a count that is seen only because y reached the threshold.

    Inverts the two tails of the truncated law; both are monotone in the count.
    """
    error = (1 - confidence) / 2
    most = max(y, min_count) + 2 + 2 * int(law.interval(1 - error / 4).high)

    def at_least(c: int) -> float:
        return _ratio(law.sf(y - 1 - c), law.sf(threshold - 1 - c))

    def at_most(c: int) -> float:
        return 1 - _ratio(law.sf(y - c), law.sf(threshold - 1 - c))

    low = _exact.turning(lambda c: at_least(c) > error, min_count - 1, most)[1]
    high = _exact.turning(lambda c: at_most(c) <= error, min_count - 1, most)[0]
    return Interval(low, max(high, min_count), confidence)


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole > 0 else 0.0


@dataclass(frozen=True, slots=True)
class KeyThreshold:
    """The public side of key selection: law, threshold, δ; made by :meth:`design`."""

    law: Any
    threshold: int
    epsilon: Fraction
    delta: Fraction
    min_count: int
    strict: bool
    neighbours: p.Neighbours

    @property
    def loss(self) -> p.PrivacyLoss:
        """(ε, δ)-DP under the stated relation."""
        return p.Approx(self.epsilon, self.delta).under(self.neighbours)

    @classmethod
    def design(
        cls,
        epsilon: Number,
        delta: Number | None = None,
        *,
        threshold: int | None = None,
        max_groups: int = 1,
        sensitivity: int = 1,
        noise: Literal["laplace", "gaussian"] = "laplace",
        min_count: int = 1,
        strict: bool = False,
        neighbours: p.Neighbours | str = p.Neighbours.ADD_REMOVE,
    ) -> KeyThreshold:
        """Calibrate; the parameters are those of :func:`threshold_keys`."""
        relation = read_neighbours(neighbours)
        if relation is None:
            raise ParameterError("state the relation", hint=Hint("neighbours", "add-remove"))
        eps, groups = _exact.epsilon(epsilon), read_count(max_groups, "max_groups")
        each, minimum = read_count(sensitivity, "sensitivity"), read_count(min_count, "min_count")
        touched = groups * (2 if relation is p.Neighbours.CHANGE_ONE else 1)
        if (delta is None) == (threshold is None):
            raise ParameterError("give either delta or threshold", hint=Hint("delta", "1e-6"))
        dlt = None if delta is None else _exact.delta(delta)
        law, left = _calibrate(noise, eps, dlt, touched, each)
        if dlt is None:
            least = read_count(threshold, "threshold") + bool(strict)
            dlt = p.key_threshold_delta(law, least, groups, sensitivity=each, min_count=minimum)
            if dlt >= 1:
                raise ParameterError("this threshold protects nobody", hint=Hint("delta", "1e-6"))
        else:
            assert left is not None
            least = p.key_threshold(law, left, groups, sensitivity=each, min_count=minimum)
        return cls(law, least, eps, dlt, minimum, bool(strict), relation)

    def select(self, counts: Mapping[Any, int]) -> Keys:
        """Release the keys that pass, with noisy counts."""
        keys, k = _read_counts(counts, self.min_count)
        z = self.law.sample(len(keys))
        noisy = _lattice.add(k, z) if keys else k
        passed = {
            key: int(c) for key, c in zip(keys, noisy.tolist(), strict=True) if c >= self.threshold
        }
        price = f"ε={_exact.show(self.epsilon)}, δ={_exact.show(self.delta)}"
        return Keys(
            value=_in_neutral_order(passed),
            threshold=self.threshold,
            law=self.law,
            loss=self.loss,
            price=price,
            min_count=self.min_count,
            strict=self.strict,
            tainted=tainted(z),
        )


@recorded("keys")
def threshold_keys(
    counts: Mapping[Any, int],
    epsilon: Number,
    delta: Number | None = None,
    *,
    threshold: int | None = None,
    max_groups: int = 1,
    sensitivity: int = 1,
    noise: Literal["laplace", "gaussian"] = "laplace",
    min_count: int = 1,
    strict: bool = False,
    neighbours: p.Neighbours | str = p.Neighbours.ADD_REMOVE,
) -> Keys:
    """Release the keys with enough units, and their noisy counts: (ε, δ)-DP.

    Parameters
    ----------
    counts
        Private counts by key; the keys themselves are private.
    epsilon, delta
        Privacy parameters. The threshold is the least that δ allows; or
    threshold
        a threshold to use instead of `delta` (Laplace only); its exact δ is
        then in the result's loss.
    max_groups, sensitivity
        How many keys one unit may contribute to, and how much to each. The
        caller must have enforced both.
    noise
        "laplace", or "gaussian" (better when `max_groups` is large).
    min_count
        Public minimum: keys with a smaller true count are never released.
    strict
        Whether a key must exceed the given threshold rather than reach it.
    neighbours
        "add-remove" or "change-one".

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> poll = {"pizza": 900, "sushi": 700, "my secret recipe": 1}
    >>> list(m.threshold_keys(poll, epsilon=1, delta="1e-6").value)
    ['pizza', 'sushi']
    """
    design = KeyThreshold.design(
        epsilon,
        delta,
        threshold=threshold,
        max_groups=max_groups,
        sensitivity=sensitivity,
        noise=noise,
        min_count=min_count,
        strict=strict,
        neighbours=neighbours,
    )
    return design.select(counts)


def _calibrate(
    kind: str, eps: Fraction, dlt: Fraction | None, touched: int, each: int
) -> tuple[Any, Fraction | None]:
    """Return the noise law and the part of δ that is left for the threshold."""
    if kind == "laplace":
        return noise.DiscreteLaplace(touched * each / eps), dlt
    if kind != "gaussian":
        raise ParameterError("noise must be 'laplace' or 'gaussian'", hint=Hint("noise", "laplace"))
    if dlt is None:
        raise ParameterError(
            "gaussian noise needs delta, not a threshold", hint=Hint("delta", "1e-6")
        )
    reach2 = touched * each * each
    variance = p.discrete_gaussian_variance(reach2, eps, dlt / 2, coordinates=touched)
    return noise.DiscreteGaussian.from_variance(variance), dlt / 2


def _read_counts(
    counts: Mapping[Hashable, int], min_count: int
) -> tuple[list[Hashable], _lattice.IntArray]:
    if not isinstance(counts, Mapping):
        raise ParameterError("counts must map keys to whole numbers", hint='{"a": 10, "b": 3}')
    keys = list(counts)
    k = _lattice.quantise(_lattice.read_values([counts[key] for key in keys]), Fraction(1))
    places = [i for i, count in enumerate(k.tolist()) if count >= min_count]
    return [keys[i] for i in places], k[places]


_ORDERED = (bool, int, float, str, bytes, date, datetime)
"""Types whose ``<`` is a total order (NaN apart); a subclass may be anything."""


def _in_neutral_order(passed: dict[Any, int]) -> dict[Any, int]:
    """Order by key where keys have a total order, else at random.

    Sorting sets, or floats among which one is no number, would leave them in an order
    that depends on how they came in. What decides is what was released.
    """
    keys = list(passed)
    alike = len(set(map(type, keys))) == 1 and type(keys[0]) in _ORDERED
    if alike and all(key == key for key in keys):  # noqa: PLR0124 - NaN differs from itself
        try:
            return {key: passed[key] for key in sorted(keys)}
        except TypeError:  # datetimes with and without a time zone
            pass
    return {keys[i]: passed[keys[i]] for i in noise.permutation(len(keys)).tolist()}
