"""The kit for a mechanism of one's own: contract, freshness, lattice, and the claim itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._exact import Number
from discreet.audit._draws import Mechanism, outputs
from discreet.audit._estimate import Claim, Estimate, estimate
from discreet.errors import ParameterError

_PROBE = 2_000
_DOUBLE = 53


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked, on one pair of inputs where there are pairs (else 0)."""

    name: str
    pair: int
    passed: bool
    words: str


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """What a kit found; made by :func:`check_mechanism`, `check_engine` and `check_ledger`."""

    checks: tuple[Check, ...]
    estimates: tuple[Estimate, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)

    def __repr__(self) -> str:
        lines = []
        for c in self.checks:
            pair = f"pair {c.pair}  " if c.pair else ""
            lines.append(f"{'pass' if c.passed else 'FAIL'}  {pair}{c.name}: {c.words}")
        verdict = "nothing found" if self.ok else f"{len(self.failures)} found"
        return "\n".join([*lines, f"{verdict}; an audit can accuse, not prove"])


def check_mechanism(
    mechanism: Mechanism,
    pairs: Sequence[tuple[Any, Any]],
    epsilon: Claim,
    delta: Number = 0,
    *,
    draws: int = 200_000,
    confidence: Number = "0.9999",
    lattice: bool = True,
) -> Report:
    """Check a mechanism of one's own on pairs of neighbouring inputs.

    Parameters
    ----------
    mechanism
        ``mechanism(data, n)`` returns n independent outputs as an array.
    pairs
        Neighbouring inputs, extreme ones above all: the worst a person can do.
    epsilon, delta
        The claim; see :func:`estimate`.
    draws
        Draws per input and pair, at most.
    confidence
        1 − confidence bounds the probability that an honest claim is accused, for all
        pairs together.
    lattice
        Whether real outputs must lie on one public lattice. Turn it off for a
        mechanism that rounds exact reals correctly.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import audit, noise
    >>> law = noise.DiscreteLaplace(2)
    >>> audit.check_mechanism(lambda x, n: x + law.sample(n), [(0, 1), (7, 6)], "0.5").ok
    True
    >>> floats = lambda x, n: x + np.random.default_rng(1).laplace(scale=2, size=n)
    >>> [check.name for check in audit.check_mechanism(floats, [(0, 1)], "0.5").failures]
    ['freshness', 'lattice']
    """
    if not pairs:
        raise ParameterError("give at least one pair of neighbouring inputs", hint="[(0, 1)]")
    error = (1 - Fraction(str(_exact.confidence(confidence)))) / len(pairs)
    checks: list[Check] = []
    estimates: list[Estimate] = []
    for i, (d1, d2) in enumerate(pairs, 1):
        first = [outputs(mechanism, d, _PROBE) for d in (d1, d2)]
        second = [outputs(mechanism, d, _PROBE) for d in (d1, d2)]
        needed = [*_contract(first, i), *_freshness(first, second, i)]
        checks += needed
        if lattice and first[0].dtype.kind == "f":
            checks.append(_lattice(first, i))
        if any(not c.passed for c in needed if c.name in ("form", "freshness")):
            continue  # draws that are not alike or not independent would accuse falsely
        verdict = estimate(mechanism, d1, d2, epsilon, delta, draws, confidence=1 - error)
        estimates.append(verdict)
        words = (
            f"certified ε ≥ {verdict.epsilon_lower_bound:.4g} by {verdict.event.words}"
            if verdict.violated
            else f"not refuted; {verdict.draws} draws could have shown"
            f" ε ≥ {verdict.visible_epsilon:.4g}"
        )
        checks.append(Check("claim", i, not verdict.violated, words))
    return Report(tuple(checks), tuple(estimates))


def _contract(sides: list[NDArray[Any]], i: int) -> Iterator[Check]:
    same = sides[0].shape == sides[1].shape and sides[0].dtype.kind == sides[1].dtype.kind
    words = "both inputs give outputs of one form" if same else "the form depends on the input"
    yield Check("form", i, same, words)
    numbers = all(side.dtype.kind != "f" or bool(np.isfinite(side).all()) for side in sides)
    yield Check("numbers", i, numbers, "all are finite" if numbers else "some are nan or infinite")


def _freshness(first: list[NDArray[Any]], second: list[NDArray[Any]], i: int) -> Iterator[Check]:
    """Tell constant, seeded and copied outputs from random ones."""
    constant = [bool((side == side[0]).all()) for side in first]
    if all(constant):
        again = all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
        if again:
            equal = np.array_equal(first[0], first[1])
            words = "constant" if equal else "deterministic, and it tells the inputs apart"
            yield Check("randomness", i, bool(equal), words)
            return
        yield Check("freshness", i, False, "one draw is repeated for all outputs of a call")
        return
    repeated = any(
        np.array_equal(a, b) and not flat
        for a, b, flat in zip(first, second, constant, strict=True)
    )
    # outputs that hardly vary agree by chance; two thousand that do not, do not
    rare = min(float(np.mean(side[1:] == side[:-1])) for side in first) > 1 - 30 / _PROBE
    words = "two calls give the same outputs: the noise has a seed" if repeated else "fresh"
    yield Check("freshness", i, rare or not repeated, words)


def _lattice(sides: list[NDArray[Any]], i: int) -> Check:
    """All outputs are multiples of one step that none of them outgrows."""
    values = np.concatenate([side.ravel() for side in sides])
    values = values[np.isfinite(values) & (values != 0)]
    if values.size == 0:
        return Check("lattice", i, True, "all outputs are zero")
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, _DOUBLE).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1 + exponent - _DOUBLE
    step, top = int(lowest.min()), int(exponent.max())
    fits = top - step <= _DOUBLE
    words = (
        f"all outputs are multiples of 2^{step}"
        if fits
        else "no common step: which doubles occur may depend on the input"
    )
    return Check("lattice", i, fits, words)
