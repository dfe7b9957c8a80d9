"""Black-box audits: certify from samples that a mechanism leaks at least so much.

A mechanism is run on two neighbouring inputs x and y. If it were (ε, δ)-DP then
P_x(E) ≤ e^ε·P_y(E) + δ for every event E, in both directions. Half of the draws
choose an event, the other half test it: with Clopper–Pearson bounds p̲ ≤ P_x(E) and
P_y(E) ≤ q̄, each at level α/2,

    ε ≥ ln((p̲ − δ)/q̄)   with confidence 1 − α.

*Sequential stopping.* The draws come in stages of growing size. Each stage tests
one event on draws that nobody has looked at, at a level α_j with Σ α_j = α, and
the audit ends with the first stage that refutes the claim. An honest mechanism
is accused with probability at most α whatever the stages show (union bound).

*Profiles.* A claim may be a whole profile δ(ε): a loss, or any function. Every
point of it must hold, so the search walks along it and tests where the excess is
largest. A wrong formula at (20, 1e-6) cannot be refuted there (it would take some
10¹⁰ draws), but the same formula at ε = 4 can.

*Probabilistic DP* asks that outputs with P_x(o) > e^ε·P_y(o) have probability at
most δ together. For one output o it says: P_x(o) ≤ δ or P_x(o) ≤ e^ε·P_y(o).

*Forms.* If kind or shape of the outputs differ between the inputs, the form itself is the
event; it is tested on calls for one output each, which are independent.

An audit can only accuse. It is blind to inputs it was not shown, to events rarer than
some tens per half of the draws, to rare events that are neither single values nor tails (a bin
holds about 1/400 of the outputs), and to functions of many coordinates at once that no
family of :mod:`discreet.audit` describes; passing it is not a proof (those stand beside
the mechanisms). What so many draws may miss is part of the result.

References
----------
Clopper, Pearson (1934). Ding, Wang, Wang, Zhang, Kifer, "Detecting violations of
differential privacy", CCS 2018. Bichsel et al., "DP-Sniper", S&P 2021. Lokna et al.,
"Group and attack: auditing differential privacy", CCS 2023.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet import privacy as p
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet._lazy import special
from discreet.audit._binomial import clopper_pearson
from discreet.audit._draws import Drawer, Mechanism, drawer, form, progress
from discreet.audit._events import Candidate, Event, Point, search
from discreet.errors import Hint, ParameterError

Claim: TypeAlias = Number | p.PrivacyLoss | Callable[[float], float]
"""An ε (with δ beside it), a loss, or a function from ε to δ."""

Definition: TypeAlias = Literal["approximate", "probabilistic"]

_GROWTH = 4
_STAGES = 4
_LEAST = 1_000
_CALLS = 1_000
_POWER = 2.33  # standard errors: 99 % power


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """The verdict of a black-box audit.

    Attributes
    ----------
    violated
        Whether the claim is refuted.
    epsilon_lower_bound
        Certified lower bound on ε at δ = :attr:`delta` (0 if nothing is certified).
    epsilon, delta
        The point of the claim that was tested last (or that fell).
    delta_lower_bound
        Certified lower bound on δ at ε = :attr:`epsilon`.
    event
        The event tested; prints in words, and marks outputs when called.
    hits, tested
        How often the event happened on the first and on the second input, in so many tests each.
    swapped
        Whether the second input was held against the first; the report then prints its hits first.
    draws
        Draws made per input, search included.
    visible_epsilon
        Smallest true ε that so many draws tell from the claim in 99 of 100 audits, if the leak is
        the easiest one to see. Other leaks need a larger ε or more draws; what was certified
        may lie far above it.
    visible_probability
        An event that is seen less often than this refutes nothing with so many draws.
    confidence
        1 − confidence bounds the probability of a false accusation.
    seconds
        How long the audit took, by the clock on the wall.
    """

    violated: bool
    epsilon_lower_bound: float
    epsilon: float
    delta: float
    delta_lower_bound: float
    event: Event
    hits: tuple[int, int]
    tested: int
    draws: int
    visible_epsilon: float
    visible_probability: float
    confidence: float
    seconds: float
    swapped: bool = False

    def refutes(self, epsilon: Number) -> bool:
        """Tell whether "(epsilon, delta)-DP" is refuted, for the δ that was tested."""
        return self.epsilon_lower_bound > float(_exact.decimal(epsilon, "epsilon"))

    def __repr__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not refuted"
        bound = f"certified ε ≥ {self.epsilon_lower_bound:.4g} (confidence {self.confidence:.12g})"
        one, other = self.hits[::-1] if self.swapped else self.hits
        hits = f"{one} against {other} hits in {self.tested} tests each"
        lines = [
            f"{verdict}: claimed {self.claimed}; {bound}",
            f"event: {self.event.words}; {hits}",
            f"{self.draws} draws per input: {self.blind}",
        ]
        return "\n".join(lines)

    @property
    def claimed(self) -> str:
        """The point of the claim that the certified bound is held against, in words."""
        return f"ε = {self.epsilon:.6g}" + (f", δ = {self.delta:.3g}" if self.delta else "")

    @property
    def blind(self) -> str:
        """What so many draws may miss, in words."""
        return (
            f"even the easiest leak may pass below ε = {self.visible_epsilon:.4g}, "
            f"and an event seen less often than {self.visible_probability:.2g} refutes nothing"
        )


def estimate(  # noqa: PLR0917 - mechanism, pair, claim and draws are its public order
    mechanism: Mechanism,
    d1: Any,
    d2: Any,
    epsilon: Claim,
    delta: Number = 0,
    draws: int = 200_000,
    *,
    confidence: Number = "0.9999",
    event: Callable[[NDArray[Any]], NDArray[np.bool_]] | None = None,
    definition: Definition = "approximate",
    workers: int | None = None,
    processes: bool = False,
    show_progress: bool | None = None,
) -> Estimate:
    """Certify a lower bound on the ε of a mechanism, and hold it against a claim.

    Parameters
    ----------
    mechanism
        ``mechanism(data, n)`` returns n independent outputs as an array: numbers or
        texts, one row each if outputs are vectors.
    d1, d2
        Two neighbouring inputs.
    epsilon
        The ε claimed; or a :class:`~discreet.privacy.PrivacyLoss`, or a function
        from ε to δ, whose whole profile is then walked (leave `delta` out).
    delta
        The δ claimed beside ε.
    draws
        Draws per input at most; half search for events, half test them. The audit
        ends earlier if the claim falls.
    confidence
        1 − confidence bounds the probability of a false accusation.
    event
        A fixed event to test instead of searching; then all draws test it.
    definition
        ``"probabilistic"`` tests single outputs against probabilistic DP.
    workers
        Threads (or processes) that draw; as many as there are cores if left out, 1 for
        a mechanism that must not be called from several threads.
    processes
        Draw in processes of their own: for mechanisms in pure Python that can be
        pickled. Threads suffice for mechanisms made of NumPy calls.
    show_progress
        Show a bar after a second; left out, only on a terminal.

    Examples
    --------
    Half the noise that ε = 1 needs, and the noise it needs:

    >>> from discreet import audit, noise
    >>> half, whole = noise.DiscreteLaplace("0.5"), noise.DiscreteLaplace(1)
    >>> verdict = audit.estimate(
    ...     lambda count, n: count + half.sample(n), 10, 11, epsilon=1, draws=20_000
    ... )
    >>> verdict.violated, verdict.epsilon_lower_bound > 1
    (True, True)
    >>> audit.estimate(
    ...     lambda count, n: count + whole.sample(n), 10, 11, epsilon=1, draws=20_000
    ... ).violated
    False
    """
    start = time.monotonic()
    if draws != int(draws) or draws < 100:
        raise ParameterError("an audit needs at least 100 draws", hint=Hint("draws", 200_000))
    draws = int(draws)  # 1e6 means what it says
    if definition not in ("approximate", "probabilistic"):
        raise ParameterError(
            f"there is no definition {definition!r} to audit",
            hint=Hint("definition", "approximate"),
        )
    trial = _Trial(
        points=_points(epsilon, delta, draws),
        error=1 - float(_exact.confidence(confidence)),
        atoms=definition == "probabilistic",
    )
    with (
        drawer(mechanism, workers, processes=processes) as source,
        progress(2 * draws, show_progress) as advance,
    ):
        if event is not None:
            target = Event("the event given", event)
            result = trial.fixed(source, (d1, d2), draws, target, advance)
        else:
            result = trial.staged(source, (d1, d2), draws, advance)
    return replace(result, seconds=time.monotonic() - start)


# -- the claim -----------------------------------------------------------------------


def _points(epsilon: Claim, delta: Number, draws: int) -> tuple[Point, ...]:
    """Return the points of the claim that the search walks along."""
    if not isinstance(epsilon, p.PrivacyLoss) and not callable(epsilon):
        eps = float(_exact.decimal(epsilon, "epsilon"))
        allowed = float(_exact.decimal(delta, "delta"))
        if eps < 0:
            raise ParameterError("epsilon must not be negative", hint=Hint("epsilon", 1))
        if not 0 <= allowed < 1:
            raise ParameterError("delta must lie in [0, 1)", hint=Hint("delta", 0))
        return ((eps, allowed),)
    if delta != 0:
        raise ParameterError("a claim that is a whole profile has its own δ", hint=Hint("delta", 0))
    profile = epsilon.delta if isinstance(epsilon, p.PrivacyLoss) else epsilon
    # beyond ln(draws) the other side's bound alone hides everything
    walk = np.linspace(0, math.log(draws), 25)
    if isinstance(epsilon, p.PrivacyLoss) and epsilon.epsilon() <= walk[-1]:
        walk = np.append(walk, epsilon.epsilon())
    points = [(float(e), float(profile(float(e)))) for e in walk]
    usable = tuple((e, max(d, 0.0)) for e, d in points if d < 1)
    if not usable:
        raise ParameterError("the profile claims nothing that so many draws could refute")
    return usable


# -- the trial -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trial:
    """One claim under test."""

    points: tuple[Point, ...]
    error: float
    atoms: bool

    def fixed(
        self,
        source: Drawer,
        data: tuple[Any, Any],
        draws: int,
        event: Event,
        advance: Callable[[int], None],
    ) -> Estimate:
        """Test one event on all draws, in both directions."""
        xs, ys = (source.draw(d, draws, advance) for d in data)
        if form(xs) != form(ys):
            return self.forms(source, data, form(xs), advance)
        hits = int(np.count_nonzero(event(xs))), int(np.count_nonzero(event(ys)))
        return self.worst(event, hits, draws, (False, True))

    def worst(
        self, event: Event, hits: tuple[int, int], tested: int, directions: tuple[bool, ...]
    ) -> Estimate:
        """Return the worst of an event's verdicts, over the points of the claim."""
        # two directions and as many points as the claim has share the error
        share = self.error / (2 * len(self.points))
        verdicts = [
            self.verdict(Candidate(event, point, swapped, 0.0), hits, tested, share)
            for point in self.points
            for swapped in directions
        ]
        return max(verdicts, key=_margin)

    def staged(
        self, source: Drawer, data: tuple[Any, Any], draws: int, advance: Callable[[int], None]
    ) -> Estimate:
        """Search and test in stages until the claim falls or the draws are used up."""
        pool: tuple[list[NDArray[Any]], list[NDArray[Any]]] = ([], [])
        sizes = _stages(draws)
        before = len(sizes) - 1
        best: Estimate | None = None
        for j, size in enumerate(sizes):
            # the last stage has half of the error, or all of it
            share = self.error * (0.5 if j == before else 0.5 / before) if before else self.error
            fresh = [source.draw(d, size, advance) for d in data]
            if form(fresh[0]) != form(fresh[1]):
                return self.forms(source, data, form(fresh[0]), advance)
            half = size // 2
            for side, part in zip(pool, fresh, strict=True):
                side.append(part[:half])
            z = -float(special.ndtri(share / 2))
            candidate = search(
                np.concatenate(pool[0]), np.concatenate(pool[1]), self.points, z, atoms=self.atoms
            )
            tests = [part[half:] for part in fresh]
            hits = tuple(int(np.count_nonzero(candidate.event(part))) for part in tests)
            verdict = self.verdict(candidate, (hits[0], hits[1]), size - half, share)
            verdict = replace(verdict, draws=sum(sizes[: j + 1]))
            if best is None or _margin(verdict) >= _margin(best):
                best = verdict
            best = replace(
                best,
                draws=verdict.draws,
                visible_epsilon=verdict.visible_epsilon,
                visible_probability=verdict.visible_probability,
            )
            if best.violated:
                break
            for side, part in zip(pool, tests, strict=True):
                side.append(part)
        assert best is not None
        return best

    def forms(
        self, source: Drawer, data: tuple[Any, Any], first: Any, advance: Callable[[int], None]
    ) -> Estimate:
        """Test "the outputs have the form of the first input's" on calls for one output each.

        These calls are fresh and one event is tested once, in one direction at each point.
        """
        sides = [[source.draw(d, 1, advance) for _ in range(_CALLS)] for d in data]
        hits = [sum(form(outputs) == first for outputs in side) for side in sides]
        event = Event("the form of the output", lambda o: np.full(len(o), form(o) == first))
        best = self.worst(event, (hits[0], hits[1]), _CALLS, (False,))
        if not best.violated:
            raise ParameterError(
                "kind or shape of the outputs differ between the two inputs, and "
                f"{_CALLS} calls do not refute the claim: give outputs of one form",
                hint="lambda data, n: np.asarray(release(data, n), float)",
            )
        return best

    def verdict(
        self, candidate: Candidate, hits: tuple[int, int], tested: int, error: float
    ) -> Estimate:
        """Return what the hits of one event certify, wrong with probability ≤ `error`."""
        epsilon, delta = candidate.point
        first, second = hits[::-1] if candidate.swapped else hits
        low, _ = clopper_pearson(first, tested, error / 2)
        _, high = clopper_pearson(second, tested, error / 2)
        over = (low if low > delta else 0.0) if self.atoms else low - delta
        bound = math.log(over / high) if over > high else 0.0
        side = "second input against first" if candidate.swapped else "first input against second"
        return Estimate(
            violated=bound > epsilon or (epsilon == 0 and over > high),
            epsilon_lower_bound=bound,
            epsilon=epsilon,
            delta=delta,
            delta_lower_bound=max(0.0, low - math.exp(min(epsilon, 700)) * high),
            event=Event(f"{candidate.event.words} ({side})", candidate.event.marks),
            hits=hits,
            tested=tested,
            draws=tested,
            visible_epsilon=_visible_epsilon(candidate.point, tested, error),
            visible_probability=_visible_probability(candidate.point, tested, error),
            confidence=1 - self.error,
            seconds=0.0,
            swapped=candidate.swapped,
        )


def _margin(verdict: Estimate) -> float:
    return verdict.epsilon_lower_bound - verdict.epsilon


def _stages(draws: int) -> list[int]:
    """Sizes that grow fourfold in total and add up to `draws`."""
    ends = [draws // _GROWTH**k for k in range(_STAGES - 1, -1, -1)]
    ends = [end for end in ends if end >= _LEAST] or [draws]
    return [end - before for before, end in zip([0, *ends[:-1]], ends, strict=True)]


def _certified(first: float, second: float, tested: int, delta: float, error: float) -> float:
    """Return the ε that these (possibly fractional) hits would certify."""
    low = float(special.betaincinv(first, tested - first + 1, error / 2)) if first > 0 else 0.0
    high = (
        float(special.betainccinv(second + 1, tested - second, error / 2))
        if second < tested
        else 1.0
    )
    return math.log(max(low - delta, 1e-300) / high)


def _visible_epsilon(point: Point, tested: int, error: float) -> float:
    """Return the least ε′ whose easiest leak is certified above ε in 99 of 100 audits.

    The easiest leak of an (ε′, δ) mechanism is the likelier answer of randomized
    response: no event of such a mechanism is more frequent at the same ratio.
    """
    epsilon, delta = point

    def visible(true: float) -> bool:
        q = (1 - delta) / (1 + math.exp(true))
        p_ = 1 - q
        reach = _POWER * math.sqrt(tested * q * p_)
        first = max(0.0, tested * p_ - reach)
        second = min(float(tested), tested * q + reach)
        return _certified(first, second, tested, delta, error) > epsilon

    low, high = epsilon, epsilon + 1e-6
    while not visible(high):
        low, high = high, epsilon + 2 * (high - epsilon)
        if high > epsilon + 700:
            return math.inf
    return _exact.turning(visible, low, high)[1]


def _visible_probability(point: Point, tested: int, error: float) -> float:
    """Return the least p̂ that refutes the claim when the other side never sees the event."""
    epsilon, delta = point
    enough = _exact.turning(
        lambda hits: _certified(hits, 0, tested, delta, error) > epsilon, 0, tested
    )
    return enough[1] / tested
