"""The kit for a mechanism of one's own: contract, freshness, lattice, and the claim itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.audit._binomial import clopper_pearson
from discreet.audit._draws import Mechanism, form, outputs
from discreet.audit._estimate import Claim, Estimate, estimate
from discreet.errors import DiscreetError, ParameterError

_PROBE = 2_000
_CALLS = 4
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


def accepted(action: Callable[[], object]) -> bool:
    """Whether something goes through that must be refused."""
    try:
        action()
    except DiscreetError:
        return False
    return True


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
        pairs and the checks of freshness, randomness and claim together. The others
        (form, numbers, lattice) state what was seen, and are never wrong.
    lattice
        Whether real outputs must be multiples of one power of two that fit a double. Turn
        it off for another public lattice, or a mechanism that rounds exact reals correctly.

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
    for i, pair in enumerate(pairs, 1):
        # all calls on one input follow each other: seeds used in turn would hide otherwise
        calls = [[outputs(mechanism, d, _PROBE) for _ in range(_CALLS)] for d in pair]
        shape, finite = _contract([part for side in calls for part in side], i)
        checks += [shape, finite]
        if not shape.passed:
            continue  # nothing else can be said of outputs that are not of one form
        fresh = _freshness(calls, i, float(error) / 4)
        checks.append(fresh)
        if lattice and calls[0][0].dtype.kind == "f":
            checks.append(_lattice([part for side in calls for part in side[:2]], i))
        if not fresh.passed:
            continue  # draws that are not independent would accuse falsely
        checks += _randomness(calls, i, epsilon, delta, 1 - error / 4)
        verdict = estimate(mechanism, *pair, epsilon, delta, draws, confidence=1 - error / 2)
        estimates.append(verdict)
        words = (
            f"certified ε ≥ {verdict.epsilon_lower_bound:.4g} by {verdict.event.words}"
            if verdict.violated
            else f"not refuted; {verdict.draws} draws may miss ε < {verdict.visible_epsilon:.4g}"
        )
        checks.append(Check("claim", i, not verdict.violated, words))
    return Report(tuple(checks), tuple(estimates))


def _contract(calls: list[NDArray[Any]], i: int) -> Iterator[Check]:
    same = len(set(map(form, calls))) == 1
    words = "all calls give outputs of one form" if same else "calls differ in kind or shape"
    yield Check("form", i, same, words)
    numbers = all(part.dtype.kind != "f" or bool(np.isfinite(part).all()) for part in calls)
    yield Check("numbers", i, numbers, "all are finite" if numbers else "some are nan or infinite")


def _freshness(calls: list[list[NDArray[Any]]], i: int, error: float) -> Check:
    """Tell seeded and copied outputs from independent ones; wrong with probability ≤ `error`."""
    words = [word for side in calls for word in _repeats(side, error / len(calls))]
    return Check("freshness", i, not words, words[0] if words else "fresh")


def _repeats(calls: list[NDArray[Any]], error: float) -> Iterator[str]:
    """Yield how the outputs of several calls on one input repeat each other.

    Independent outputs agree with one probability q, be they of one call or of two, and whole
    calls of n outputs agree with probability qⁿ. Accused are a lower bound on q from disjoint
    pairs inside two calls that lies above the upper bound from pairs across two others (a third
    of the error), and calls that agree although the upper bound on q (a third) makes that
    rarer, over all pairs of calls, than the last third.
    """
    one, two, three, four = calls
    inside = [_agree(c[::2], c[1::2]) for c in (one, two)]
    across = _agree(three, four)
    low, _ = clopper_pearson(sum(inside), _PROBE, error / 6)
    _, high = clopper_pearson(across, _PROBE, error / 6)
    if low > high:
        yield "a draw is used for several outputs of a call"
    _, most = clopper_pearson(inside[0], _PROBE // 2, error / 3)
    pairs = list(itertools.combinations(calls, 2))
    chance = len(pairs) * most**_PROBE
    if chance <= error / 3 and any(_agree(a, b) == _PROBE for a, b in pairs):
        yield "two calls give the same outputs: the noise has a seed"


def _alike(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows that agree, nan with nan."""
    same = (a == b) | ((a != a) & (b != b))  # noqa: PLR0124 - nan alone is unlike itself
    return np.asarray(same if same.ndim == 1 else same.all(axis=1))


def _agree(a: NDArray[Any], b: NDArray[Any]) -> int:
    return int(np.count_nonzero(_alike(a, b)))


def _randomness(
    calls: list[list[NDArray[Any]]], i: int, epsilon: Claim, delta: Number, confidence: Fraction
) -> Iterator[Check]:
    """Test constants that tell the inputs apart: named on one call, tested on the others."""
    constants = [side[0][:1] for side in calls]
    if any(_agree(side[0], one) < _PROBE for side, one in zip(calls, constants, strict=True)):
        return
    if _agree(*constants):
        yield Check("randomness", i, True, "constant, and the same on both inputs")
        return
    tests = [np.concatenate(side[1:]) for side in calls]
    verdict = estimate(
        lambda side, _: tests[side], 0, 1, epsilon, delta, len(tests[0]), confidence=confidence,
        event=lambda o: _alike(o, constants[0]), workers=1,
    )  # fmt: skip
    words = "constant, and it tells the inputs apart" if verdict.violated else "hardly varies"
    yield Check("randomness", i, not verdict.violated, words)


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
        else f"multiples of 2^{step} up to 2^{top} fit no double: roundings may tell the input"
    )
    return Check("lattice", i, fits, words)
