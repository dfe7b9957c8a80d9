r"""Pricing: which noise for which part, and what the whole query costs.

One meaning of ε
----------------
``epsilon`` (with ``delta``) is what the *whole query* satisfies on its own: all its
parts together, key selection included. ``rho`` says the same in zCDP. Whatever was
asked, the cost is :func:`discreet.plan.charge` of the losses that the parts state.

The split
---------
Each draw (a vector, one level of a tree, one choice) gets an equal share: noise
relative to a part's own sensitivity is inversely proportional to its share, so the
worst relative error is least when shares are equal. With ``within`` the shares
follow from the margins instead.

Laplace or Gaussian
-------------------
With k draws of sensitivities :math:`(\Delta_1, \Delta_2)`, Laplace noise has
standard deviation :math:`\sqrt2\,k\Delta_1/\varepsilon`, Gaussian noise
:math:`\sqrt k\,\Delta_2\sigma(\varepsilon,\delta)`: many parts and many groups
per unit favour the Gaussian. The planner takes whichever has the smaller worst
ratio, and says so. Without ``delta`` (and without ``rho``) only Laplace keeps
the promise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal as Choice

from discreet import privacy as p
from discreet._exact import show
from discreet.errors import Hint, ParameterError
from discreet.noise import DiscreteLaplace
from discreet.plan._formula import Total
from discreet.plan._lower import Lowered
from discreet.plan._parts import (
    Cost,
    GaussianRule,
    LaplaceRule,
    Priced,
    Rule,
    charge,
)
from discreet.plan._query import StatisticValue
from discreet.plan._target import level_of_each

Noise = Choice["laplace", "gaussian"]


@dataclass(frozen=True)
class Ask:
    """What the analyst offers to pay, or the accuracy to be met."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    within: Mapping[str, Fraction] | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        offers = [x is not None for x in (self.epsilon, self.rho, self.within)]
        if sum(offers) != 1:
            raise ParameterError(
                "say what the query may cost: exactly one of epsilon=, rho= or within=",
                hint=Hint("epsilon", "0.1"),
            )


@dataclass(frozen=True)
class Plan:
    """A priced query: everything that will happen, before anything happens."""

    lowered: Lowered
    noise: Noise
    parts: tuple[Priced, ...]
    why: str
    claim: tuple[Fraction, Fraction] | None = None
    """The (ε, δ) that the losses compose to, where that is less than their sum."""
    least: Cost | None = None
    """What any question costs at least."""

    @property
    def losses(self) -> list[p.PrivacyLoss]:
        """Losses of all draws of all parts."""
        return [loss for priced in self.parts for loss in priced.losses]

    @property
    def target(self) -> list[str]:
        """What stands between the table and the numbers, in words."""
        own = [fact for priced in self.parts for fact in priced.part.facts(priced.law)]
        return [*self.lowered.target, *own]

    @cached_property
    def cost(self) -> Cost:
        """What the parts' own losses cost together."""
        cost = charge(self.losses, self.claim)
        return cost if self.least is None else cost.at_least(self.least)


def price(lowered: Lowered, ask: Ask, noise: Noise | None = None) -> Plan:
    """Choose noise laws that give exactly what `ask` says; pure function of public facts.

    `noise` insists on a kind instead of letting the smaller error decide.
    """
    if ask.within is not None:
        return _within(lowered, ask)
    if ask.rho is not None:
        return _gaussian_rho(lowered, ask.rho, ask.delta)
    assert ask.epsilon is not None
    rule = LaplaceRule(ask.epsilon / max(_draws(lowered), 1), ask.delta)
    why = "Laplace noise: a pure guarantee"
    claim = None if ask.delta is None else (ask.epsilon, ask.delta)
    laplace = _plan(lowered, "laplace", [rule] * len(lowered.parts), why, claim)
    if ask.delta is None or noise == "laplace" or not all(x.gaussian for x in lowered.parts):
        return laplace
    best = min((laplace, _gaussian(lowered, ask.epsilon, ask.delta)), key=_worst)
    return replace(best, why=f"{best.noise.capitalize()} noise is the smaller here")


def _plan(
    lowered: Lowered,
    noise: Noise,
    rules: Sequence[Rule],
    why: str,
    claim: tuple[Fraction, Fraction] | None = None,
) -> Plan:
    parts = tuple(part.price(rule) for part, rule in zip(lowered.parts, rules, strict=True))
    return Plan(lowered, noise, parts, why, claim)


def _draws(lowered: Lowered) -> int:
    return sum(part.draws for part in lowered.parts)


def _worst(plan: Plan) -> float:
    """Worst standard deviation, each relative to the part's own L2 sensitivity."""
    pairs = [(priced.noise, priced.part.sensitivity) for priced in plan.parts]
    return max(
        (math.sqrt(law.variance / s.l2_squared) for law, s in pairs if law and s.l2_squared),
        default=0.0,
    )


# -- Gaussian -----------------------------------------------------------------


def _gaussian_rho(lowered: Lowered, rho: Fraction, delta: Fraction | None) -> Plan:
    """Gaussian noise of total ρ, exactly; δ only selects keys."""
    share = rho / max(_draws(lowered), 1)
    rules = [GaussianRule(1 / (2 * share), delta=delta)] * len(lowered.parts)
    why = "Gaussian noise: the cost is stated in ρ"
    plan = _plan(lowered, "gaussian", rules, why)
    if not plan.losses:
        return plan
    total = p.compose(plan.losses).zcdp()
    reported = delta if delta is not None else Fraction(1, 10**6)
    try:
        epsilon = Fraction(p.Zcdp(total.rho0).epsilon(reported)) if total.rho0 else Fraction(0)
    except OverflowError:
        raise ParameterError(f"rho={show(rho)} protects nothing", hint=Hint("rho", "0.1")) from None
    return replace(plan, claim=(epsilon, reported + total.delta0))


def _gaussian(lowered: Lowered, epsilon: Fraction, delta: Fraction) -> Plan:
    """Gaussian noise such that the whole query is (ε, δ)-DP."""
    why = "Gaussian noise is the smaller here"
    failure = delta / 2 if lowered.selector is not None else None
    draws = [part for part in lowered.parts for _ in range(part.draws)]
    one = Fraction(1)
    if not draws:
        return _plan(lowered, "gaussian", [GaussianRule(one)] * len(lowered.parts), why)
    variances = p.discrete_gaussian_variances(
        [part.sensitivity.l2_squared for part in draws],
        epsilon,
        delta - (failure or 0),
        coordinates=[part.coordinates for part in draws],
    )
    variance_of = dict(zip(map(id, draws), variances, strict=True))
    rules = [
        GaussianRule(constant=variance_of.get(id(x), one), delta=failure) for x in lowered.parts
    ]
    return _plan(lowered, "gaussian", rules, why, (epsilon, delta))


# -- accuracy first -----------------------------------------------------------


def _within(lowered: Lowered, ask: Ask) -> Plan:
    """Least ε whose Laplace noise meets every margin at the stated confidence."""
    assert ask.within is not None
    shares: dict[int, Fraction] = {}
    outputs = {o.name: o.expr for o in lowered.query.outputs}
    for name, margin in ask.within.items():
        if name not in outputs:
            raise ParameterError(
                f"within names {name!r}, which is not an output column",
                hint=Hint("within", {next(iter(outputs)): _shown(margin)}),
            )
        index, step = _single(lowered, outputs[name], name)
        moves = lowered.parts[index].sensitivity.l1
        here = replace(ask, confidence=level_of_each(lowered, outputs[name], ask.confidence))
        shares[index] = max(
            shares.get(index, Fraction(0)),
            _share(moves, margin / step, here),
        )
    if not shares:
        raise ParameterError("within= needs at least one margin", hint=Hint("within", {"n": 25}))
    least = min(shares.values())
    rules = [LaplaceRule(shares.get(i, least), ask.delta) for i in range(len(lowered.parts))]
    why = f"least ε that meets the margins at {ask.confidence:.0%}"
    return _plan(lowered, "laplace", rules, why)


def _single(lowered: Lowered, out: object, name: str) -> tuple[int, Fraction]:
    formula = lowered.formulas[out.index] if isinstance(out, StatisticValue) else None
    if not isinstance(formula, Total):
        raise ParameterError(
            f"the error of {name!r} depends on private counts, so no price can promise it",
            hint="put margins on a COUNT or SUM column",
        )
    return formula.vector, formula.step


def _share(moves: int, margin: Fraction, ask: Ask) -> Fraction:
    """Smallest ε (rounded up to 4 digits) with P(|X| ≤ margin) ≥ confidence.

    With r = e^{−1/s} the tail is P(|X| > m) = 2r^{m+1}/(1+r); the equation
    2r^{m+1}/(1+r) = β is solved by iterating r ← (β(1+r)/2)^{1/(m+1)}, which
    increases to the root from below, then checked on the law itself.
    """
    if moves == 0:
        return Fraction(1, 10**6)
    whole = margin.numerator // margin.denominator
    if whole < 0:
        raise ParameterError("a margin must not be negative")
    beta = 1 - ask.confidence
    r = (beta / 2) ** (1 / (whole + 1))
    for _ in range(60):
        r = (beta * (1 + r) / 2) ** (1 / (whole + 1))
    # a margin beyond all reason, or hardly any confidence, would round to a price of zero
    share = _round_up(max(Fraction(-math.log(r) * moves), Fraction(1, 10**9)))
    while DiscreteLaplace(Fraction(moves) / share).interval(ask.confidence).high > whole:
        share = _round_up(share * Fraction(1001, 1000))
    return share


def _round_up(x: Fraction) -> Fraction:
    """Round up to four significant decimal digits."""
    exponent = math.floor(math.log10(float(x))) - 3
    unit = Fraction(10) ** exponent
    return -(-x // unit) * unit


def _shown(margin: Fraction) -> object:
    """A margin as a hint writes it: a number where one is short, else the text."""
    if margin.denominator == 1 and abs(margin) < 10**9:
        return int(margin)
    return show(margin)
