"""A gallery of mechanisms with known faults, and of those that are shipped.

The auditor must flag every exhibit that is broken and pass every one that is
sound. All are functions ``mechanism(data, n)`` of this module, so that they can
be read, run and sent to other processes.

References
----------
Mironov 2012 (bits of float noise); Balle & Wang 2018 (the classic Gaussian);
Lyu, Su & Li 2017 (sparse vectors 3 to 6); Ding et al. 2018 (noisy max with its
value); Meiser 2018 (probabilistic DP under post-processing).
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import mechanisms as m
from discreet import noise
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet._print import number
from discreet.audit._draws import Mechanism
from discreet.audit._estimate import Claim, Definition, Estimate, estimate

Array = NDArray[Any]

_CONFIDENCE = "0.9999999999"
_GRID = 4096
_SCALAR = 2_000


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A mechanism, two neighbouring inputs, the claim made for it, and what is wrong.

    Attributes
    ----------
    fault
        What is wrong with the claim; empty if nothing is, None if nobody has said.
    """

    name: str
    mechanism: Mechanism
    d1: Any
    d2: Any
    epsilon: Claim
    delta: Number = 0
    fault: str | None = ""
    draws: int = 200_000
    definition: Definition = "approximate"
    claim: str = ""

    @property
    def broken(self) -> bool | None:
        """Whether the claim is known to be false; None if nobody has said."""
        return None if self.fault is None else bool(self.fault)

    def audit(
        self,
        draws: int | None = None,
        confidence: Number = _CONFIDENCE,
        *,
        show_progress: bool | None = None,
    ) -> Estimate:
        """Run the auditor on the exhibit."""
        return estimate(
            self.mechanism,
            self.d1,
            self.d2,
            self.epsilon,
            self.delta,
            draws or self.draws,
            confidence=confidence,
            definition=self.definition,
            show_progress=show_progress,
        )

    def words(self) -> str:
        """Return the claim in words."""
        if self.claim:
            return self.claim
        return f"ε = {self.epsilon}" + (f", δ = {self.delta}" if self.delta else "")


@dataclass(frozen=True, slots=True)
class Finding:
    """An exhibit and what the auditor said about it."""

    exhibit: Exhibit
    estimate: Estimate

    @property
    def right(self) -> bool | None:
        """Whether the auditor flagged what is broken and passed what is sound."""
        broken = self.exhibit.broken
        return None if broken is None else broken == self.estimate.violated

    def to_dict(self) -> dict[str, Any]:
        """Return the row of the gallery's table."""
        return {
            "mechanism": self.exhibit.name,
            "broken": self.exhibit.broken,
            "fault": self.exhibit.fault,
            "claim": self.exhibit.words(),
            "flagged": self.estimate.violated,
            "right": self.right,
            # of a whole profile one point is tested: a bound says nothing without it
            "claimed": self.estimate.claimed,
            "claimed_epsilon": self.estimate.epsilon,
            "epsilon_lower_bound": self.estimate.epsilon_lower_bound,
            "at_delta": self.estimate.delta,
            "visible_epsilon": self.estimate.visible_epsilon,
            "event": self.estimate.event.words,
            "draws": self.estimate.draws,
            "seconds": self.estimate.seconds,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Gallery:
    """What the auditor said about a row of exhibits."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every verdict is the right one."""
        return all(finding.right is not False for finding in self.findings)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one row per exhibit."""
        return [finding.to_dict() for finding in self.findings]

    def __repr__(self) -> str:
        rows = self.to_dicts()
        wide, claims = (
            max((len(row[name]) for row in rows), default=0) for name in ("mechanism", "claimed")
        )
        return "\n".join(
            f"{row['mechanism']:<{wide}}  {'flagged' if row['flagged'] else 'passed':<7}"
            f"  ε ≥ {row['epsilon_lower_bound']:<6.3g}  claimed {row['claimed']:<{claims}}"
            f"  {number(row['draws']):>9} draws"
            f"{row['seconds']:7.2f} s{'  WRONG' if row['right'] is False else ''}"
            for row in rows
        )


def gallery(
    exhibits: Iterable[Exhibit] | None = None,
    *,
    draws: int | None = None,
    confidence: Number = _CONFIDENCE,
    each: Callable[[Finding], None] | None = None,
) -> Gallery:
    """Audit the gallery: known-broken mechanisms and the shipped ones.

    Parameters
    ----------
    exhibits
        What to audit; all of :func:`discreet.audit.exhibits` if left out.
    draws
        Draws per input, instead of each exhibit's own number.
    confidence
        1 − confidence bounds the probability of a false accusation, per exhibit.
    each
        Called with each finding as soon as it is there.

    Examples
    --------
    >>> from discreet import audit
    >>> shown = [e for e in audit.exhibits() if "float" in e.name or e.name == "geometric"]
    >>> [(f.exhibit.name, f.estimate.violated) for f in audit.gallery(shown).findings]
    [('float Laplace', True), ('geometric', False)]
    """
    findings: list[Finding] = []
    for exhibit in all_exhibits() if exhibits is None else exhibits:
        # one bar per exhibit would only flicker
        verdict = exhibit.audit(draws, confidence, show_progress=False)
        findings.append(Finding(exhibit, verdict))
        if each is not None:
            each(findings[-1])
    return Gallery(tuple(findings))


def all_exhibits() -> tuple[Exhibit, ...]:
    """Return all exhibits, the broken ones first.

    >>> from discreet import audit
    >>> sum(e.broken for e in audit.exhibits()) >= 12
    True
    """
    return (*_broken(), *_sound())


# -- broken ------------------------------------------------------------------------


def half_noise(count: int, n: int) -> Array:
    """Laplace noise of half the scale."""
    return count + noise.DiscreteLaplace(Fraction(1, 2)).sample(n)


def exact_count(count: int, n: int) -> Array:
    """No noise at all."""
    return np.full(n, count)


def float_laplace(value: float, n: int) -> Array:
    """Laplace noise in floating point, added in floating point."""
    return value + np.random.default_rng().laplace(size=n)


def off_lattice(value: Fraction, n: int) -> Array:
    """Integer noise on values that are no integers: the fraction stays to be seen."""
    return np.asarray(float(value) + noise.DiscreteLaplace(1).sample(n))


def classic_sigma(epsilon: float, delta: float) -> float:
    """Return √(2 ln(1.25/δ))/ε, proved for ε < 1 only."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def classic_gaussian(value: int, n: int) -> Array:
    """Gaussian noise by the classic formula at ε = 20, δ = 10⁻⁶, on a fine lattice."""
    sigma = Fraction(classic_sigma(20, 1e-6) * _GRID)
    return value * _GRID + noise.DiscreteGaussian(sigma).sample(n)


def classic_profile(epsilon: float) -> float:
    """Return the δ that the classic formula promises for the same noise at another ε."""
    return 1.25 * math.exp(-((classic_sigma(20, 1e-6) * epsilon) ** 2) / 2)


def noisy_max_with_value(scores: Sequence[int], n: int) -> Array:
    """The noisy maximum itself, for the price of its index."""
    q = np.array(scores)
    return np.asarray((q + noise.DiscreteLaplace(2).sample(n * q.size).reshape(n, -1)).max(axis=1))


def key_without_delta(count: int, n: int) -> Array:
    """A key that somebody has is shown with its noisy count if that is at least 2."""
    noisy = count + noise.DiscreteLaplace(1).sample(n)
    return np.where((count > 0) & (noisy >= 2), noisy, -1000)


def unclipped_mean(incomes: Sequence[int], n: int) -> Array:
    """A mean with noise for values up to 100, which nobody has clipped."""
    total = sum(incomes) + noise.DiscreteLaplace(100).sample(n)
    return np.asarray(total / len(incomes))


def parallel_change_one(counts: Sequence[int], n: int) -> Array:
    """A histogram with noise 1/ε per cell, where a person may move between cells."""
    q = np.array(counts)
    return np.asarray(q + noise.DiscreteLaplace(1).sample(n * q.size).reshape(n, -1))


def rare_tickets(bit: int, n: int) -> Array:
    """One time in ten, a fresh 61-bit ticket whose last bit is the secret."""
    tickets = (noise.random_words(n) >> np.uint64(3)).astype(np.int64) & ~np.int64(1)
    return np.where(noise.uniform_below(10, n) == 0, tickets | bit, 0)


def four_outputs(bit: int, n: int) -> Array:
    """Lalanne's K at ε = 1, δ = 1/10: probabilistic DP, outputs 0 to 3."""
    rare = noise.uniform_below(10, n) == 0
    # otherwise randomized response: 1 is e times as likely as 2 on input 0, and the reverse on 1
    reply = m.randomized_response(np.full(n, bit), epsilon=1).value
    return np.where(rare, 3 * bit, 1 + np.asarray(reply))


def merged_outputs(bit: int, n: int) -> Array:
    """Map T after K: outputs 0 and 1 become 4, which breaks probabilistic DP."""
    outputs = four_outputs(bit, n)
    return np.where(outputs <= 1, 4, outputs)


def sparse_vector_3(values: Sequence[int], n: int) -> Array:
    """Shows the very value that passed the threshold (index, value)."""
    noisy = np.array(values) + noise.DiscreteLaplace(2).sample(n * len(values)).reshape(n, -1)
    above = noisy >= noise.DiscreteLaplace(2).sample(n)[:, None]
    first = np.where(above.any(axis=1), above.argmax(axis=1), len(values))
    value = np.where(first < len(values), noisy[np.arange(n), first.clip(max=len(values) - 1)], 0)
    return np.column_stack([first, value])


def _sparse(
    threshold: Number, scale: Number, cutoff: int | None, values: Sequence[int], n: int
) -> Array:
    """Above or below for each value (1, 0), −1 after the cutoff."""
    q = np.array(values)
    noisy = q + noise.DiscreteLaplace(scale).sample(n * q.size).reshape(n, -1) if scale else q
    above = (noisy >= noise.DiscreteLaplace(threshold).sample(n)[:, None]).astype(np.int64)
    if cutoff is None:
        return above
    return np.where(np.cumsum(above, axis=1) - above < cutoff, above, -1)


sparse_vector_4 = partial(_sparse, 4, Fraction(4, 3), 5)
"""ε₁ = ¼, ε₂ = ¾; the noise of the values does not grow with the cutoff of 5."""
sparse_vector_5 = partial(_sparse, 2, 0, None)
"""No noise on the values, no cutoff."""
sparse_vector_6 = partial(_sparse, 2, 2, None)
"""No cutoff."""


def _broken() -> Iterator[Exhibit]:
    low, high = (0,) * 10, (1,) * 5 + (-1,) * 5
    yield Exhibit("half the noise", half_noise, 10, 11, 1, fault="scale halved: ε is 2")
    yield Exhibit(
        "exact count", exact_count, 10, 11, 5,
        fault="deterministic and not constant: no ε at all",
    )  # fmt: skip
    yield Exhibit(
        "float Laplace", float_laplace, 0.0, 1.0, 1,
        fault="low bits show which doubles the sum can reach",
    )  # fmt: skip
    yield Exhibit(
        "integer noise on thirds", off_lattice, Fraction(1, 3), Fraction(2, 3), 1,
        fault="neighbours have disjoint outputs",
    )  # fmt: skip
    yield Exhibit(
        "classic Gaussian at ε = 20", classic_gaussian, 0, 1, classic_profile,
        fault="the formula was proved for ε < 1", draws=4_000_000,
        claim="δ(ε) = 1.25·exp(−σ²ε²/2), σ = 0.265",
    )  # fmt: skip
    yield Exhibit(
        "sparse vector 3 (Lyu et al.)", sparse_vector_3, (0,) * 7, (1,) * 6 + (0,), 1,
        fault="shows the noisy value it compared", draws=4_000_000,
    )  # fmt: skip
    yield Exhibit(
        "sparse vector 4 (Lyu et al.)", sparse_vector_4, low, high, 1,
        fault="noise does not grow with the cutoff",
    )  # fmt: skip
    yield Exhibit(
        "sparse vector 5 (Lyu et al.)", sparse_vector_5, (0, 1), (1, 0), 1,
        fault="no noise on the values",
    )  # fmt: skip
    yield Exhibit("sparse vector 6 (Lyu et al.)", sparse_vector_6, low, high, 1, fault="no cutoff")
    yield Exhibit(
        "noisy max with its value", noisy_max_with_value, (0,) * 10, (1,) * 10, 1,
        fault="the value costs extra",
    )  # fmt: skip
    yield Exhibit(
        "threshold without δ", key_without_delta, 0, 1, 1, "0.01",
        fault="a key that only one person has is shown too often",
    )  # fmt: skip
    yield Exhibit(
        "unclipped mean", unclipped_mean, (50,) * 20, (50,) * 19 + (1000,), 1,
        fault="one value lies far outside the bounds that were assumed",
    )  # fmt: skip
    yield Exhibit(
        "parallel under change-one", parallel_change_one, (5, 5), (6, 4), 1,
        fault="two cells move: ε is 2",
    )  # fmt: skip
    yield Exhibit(
        "rare tickets", rare_tickets, 0, 1, 1, "1e-6",
        fault="no single output is likely, their set is",
    )  # fmt: skip
    yield Exhibit(
        "probabilistic DP, merged outputs", merged_outputs, 0, 1, 1, "0.1",
        fault="post-processing broke the definition", definition="probabilistic",
    )  # fmt: skip


# -- sound ------------------------------------------------------------------------


def _each(release: Callable[[Any], Any], data: Any, n: int) -> Array:
    return np.array([release(data) for _ in range(n)])


def _added(mechanism: Callable[..., Any], count: int, n: int) -> Array:
    return np.asarray(mechanism(np.full(n, count), 1, 1).value)


def _laplace_real(value: float, n: int) -> Array:
    one = m.laplace(value, "0.75", 1, step="0.125")
    assert one.law is not None
    return value + one.law.sample(n) * float(one.step)


def _gaussian(count: int, n: int) -> Array:
    law = m.gaussian(0, 1, 1, "0.01").law
    assert law is not None
    return count + law.sample(n)


def _randomized_response(bit: int, n: int) -> Array:
    return np.asarray(m.randomized_response(np.full(n, bit), epsilon=1).value)


def _choice(mechanism: Callable[..., Any], scores: Sequence[int]) -> int:
    return int(mechanism(scores, 1, 1).value)


def _sparse_vector(values: Sequence[int]) -> int:
    return sum(1 << i for i in m.sparse_vector(values, 0, 1, 1).value)


def _smooth_median(values: Sequence[float]) -> float:
    return float(m.smooth_median(values, 0, 1, 1).value)


def _threshold_keys(count: int, n: int) -> Array:
    # one design for all draws; every key is a table of its own
    output = np.zeros(n, dtype=np.int64)
    if count:
        for key, value in m.threshold_keys(dict.fromkeys(range(n), count), 1, "0.01").value.items():
            output[key] = value
    return output


def _sound() -> Iterator[Exhibit]:
    worst, other = (3, 3, 3, 3), (4, 2, 2, 2)
    dense = (0.0, 0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0, 1.0)
    moved = (0.0, 0.0, 0.3, 0.4, 1.0, 0.6, 0.7, 1.0, 1.0)
    yield Exhibit("laplace", partial(_added, m.laplace), 10, 11, 1)
    yield Exhibit("laplace on reals", _laplace_real, 0.25, 1.0, 1)
    yield Exhibit("geometric", partial(_added, m.geometric), 10, 11, 1)
    yield Exhibit("gaussian", _gaussian, 10, 11, 1, "0.01")
    gauss = m.gaussian(0, 1, 1, "0.01").loss
    yield Exhibit("gaussian, whole profile", _gaussian, 10, 11, gauss, claim="its own δ(ε)")
    yield Exhibit("randomized_response", _randomized_response, 0, 1, 1)
    yield Exhibit("threshold_keys", _threshold_keys, 0, 1, 1, "0.01")
    yield Exhibit("probabilistic DP itself", four_outputs, 0, 1, 1, "0.1",
                  definition="probabilistic")  # fmt: skip
    for name, release, d1, d2 in (
        ("exponential", partial(_choice, m.exponential), worst, other),
        ("permute_and_flip", partial(_choice, m.permute_and_flip), worst, other),
        ("noisy_max", partial(_choice, m.noisy_max), worst, other),
        ("sparse_vector", _sparse_vector, (0, 1), (1, 0)),
        ("smooth_median", _smooth_median, dense, moved),
    ):
        yield Exhibit(name, partial(_each, release), d1, d2, 1, draws=_SCALAR)


# -- other libraries ----------------------------------------------------------------


def _numpy_normal(value: float, n: int) -> Array:
    return value + np.random.default_rng().normal(scale=3.730632, size=n)


def _opendp_laplace(value: float, n: int) -> Array:
    import opendp.prelude as dp  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - a peer, where it is installed

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    return np.array(dp.m.make_laplace(*space, scale=1.0)([value] * n))


def _diffprivlib_laplace(value: float, n: int) -> Array:
    from diffprivlib.mechanisms import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - a peer, where it is installed
        Laplace,
    )

    law = Laplace(epsilon=1, sensitivity=1)
    return np.array([law.randomise(value) for _ in range(n)])


def _usable(module: str) -> bool:
    """Tell whether a library can be imported; an installed one may clash with others."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def peers() -> tuple[Exhibit, ...]:
    """Return exhibits of other libraries' noise, for those that are installed.

    Whether they are broken is for the auditor to say: none is marked.

    >>> from discreet import audit
    >>> audit.peers()[0].name
    'numpy: Laplace'
    """
    exhibits = [
        Exhibit("numpy: Laplace", float_laplace, 0.0, 1.0, 1),
        Exhibit("numpy: normal", _numpy_normal, 0.0, 1.0, 1, "1e-5"),
    ]
    slow = partial(Exhibit, d1=0.0, d2=1.0, epsilon=1, draws=20_000)
    if _usable("opendp.prelude"):
        exhibits.append(slow("opendp: Laplace", _opendp_laplace))
    if _usable("diffprivlib.mechanisms"):
        exhibits.append(slow("diffprivlib: Laplace", _diffprivlib_laplace))
    return tuple(replace(exhibit, fault=None) for exhibit in exhibits)
