r"""Pricing: which noise for which part, and what the whole query costs.

One meaning of ε
----------------
``epsilon`` (with ``delta``) is what the *whole query* satisfies on its own: all its
parts together, key selection included. ``rho`` says the same in zCDP. Whatever was
asked, the cost is :func:`discreet.plan.charge` of the losses that the parts state.

The split
---------
What can share a draw does (``_joint``). Each draw that is left (a family of statistics, one level
of a tree, one choice) gets an equal share. With weights w the total variance
:math:`\sum w_j\sigma_j^2` is least at Laplace shares :math:`\propto(w_j\Delta_j^2)^{1/3}`
and Gaussian shares :math:`\propto\sqrt{w_j}\Delta_j`; how large the answers are is
private, so each variance is weighed by the square of its own sensitivity, and both rules say
*equal*. That also makes the worst relative error least. With ``within`` the shares follow
from the margins instead.

Laplace or Gaussian
-------------------
With k draws of sensitivities :math:`(\Delta_1, \Delta_2)`, Laplace noise has
standard deviation :math:`\sqrt2\,k\Delta_1/\varepsilon`, Gaussian noise
:math:`\sqrt k\,\Delta_2\sigma(\varepsilon,\delta)`: many parts and many groups
per unit favour the Gaussian. Without ``delta`` (and without ``rho``) only Laplace keeps
the promise. Where both keep it, the planner takes what is cheapest in the budget's own
currency, and says so: with a budget in ρ the law of less ρ, otherwise that of
the smaller worst ratio (both cost ε). Margins (``within``) are met by the law that
costs less. Of a budget that is paid by ε or by ρ the balance decides
(:mod:`discreet.curator._room`).

The largest groups
------------------
Where only k of many groups are asked for, the largest by a count, both ways of
:mod:`discreet.plan._top` are priced at what is offered, and the one whose counts
have the narrower interval is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal as Choice

from discreet import privacy as p
from discreet._dataclass import dataclass, replace
from discreet._exact import show
from discreet.errors import Hint, ParameterError
from discreet.plan._formula import Total
from discreet.plan._lowered import Lowered
from discreet.plan._means import WeightedSum
from discreet.plan._parts import (
    Cost,
    GaussianRule,
    LaplaceRule,
    Priced,
    Rule,
    charge,
    fits,
)
from discreet.plan._query import OutputExpr, StatisticValue
from discreet.plan._target import statistics_of
from discreet.plan._top import largest_first
from discreet.plan._widths import Widths

Noise = Choice["laplace", "gaussian"]

_LEAST = Fraction(1, 10**9)
_FINE = Fraction(10001, 10000)
"""Least share that is tried, and how close to the least that meets a margin is close enough."""


@dataclass(frozen=True)
class Ask:
    """What the analyst offers to pay, or the accuracy to be met."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    within: Mapping[str, Fraction] | None = None
    confidence: float = 0.95
    currency: Choice["epsilon", "rho"] = "epsilon"
    """What the budget counts; where laws differ, that of the lower price is taken."""
    stated: Fraction = Fraction(1, 10**6)
    """δ at which ρ is stated as an ε, where none is offered."""

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
    notes: tuple[str, ...] = ()
    """What else is to be said about it: how a limit was chosen."""
    instead: Plan | None = None
    """The same offer taken up otherwise: with all groups measured, or by another law of noise."""

    @property
    def losses(self) -> list[p.PrivacyLoss]:
        """Losses of all draws of all parts."""
        return [loss for priced in self.parts for loss in priced.losses]

    @property
    def target(self) -> list[str]:
        """What stands between the table and the numbers, in words."""
        own = [fact for priced in self.parts for fact in priced.part.facts(priced.law)]
        return [*self.lowered.target, *own, *self.notes]

    @cached_property
    def outlets(self) -> tuple[Priced, ...]:
        """The priced part behind every release."""
        return tuple([priced for priced in self.parts for _ in range(priced.part.outlets)])

    @property
    def spread(self) -> float:
        """Sum of variances over all draws, each relative to the part's squared L2 sensitivity."""
        return sum(priced.part.draws * share for priced, share in self._relative)

    @property
    def _relative(self) -> Iterator[tuple[Priced, float]]:
        for priced in self.parts:
            law, square = priced.noise, priced.part.sensitivity.l2_squared
            if law and square:
                yield priced, law.variance / square

    @cached_property
    def cost(self) -> Cost:
        """What the parts' own losses cost together."""
        cost = charge(self.losses, self.claim)
        return cost if self.least is None else cost.at_least(self.least)


def price(lowered: Lowered, ask: Ask, noise: Noise | None = None) -> Plan:
    """Choose noise laws that give exactly what `ask` says; pure function of public facts.

    `noise` insists on a kind instead of letting the smaller error decide; all groups are then
    measured, also where the largest alone are asked for.
    """
    plan = _priced(lowered, ask, noise)
    if noise is not None or ask.within is not None or (few := largest_first(lowered)) is None:
        return plan
    other = _priced(few, ask, None)
    if _first_half(other) >= _first_half(plan) or _wider(other, plan) >= 1:
        return plan
    why = f"{other.why}; the largest groups are chosen first"
    return replace(other, why=why, instead=plan)


def _first_half(plan: Plan) -> float:
    """Half-width of the number by which rows are ordered."""
    lowered = plan.lowered
    by, _ = lowered.query.order[0]
    formula = lowered.formulas[by.index] if isinstance(by, StatisticValue) else None
    assert isinstance(formula, Total | WeightedSum)
    return formula.half([priced.noise for priced in plan.outlets], 0.95)


def _wider(few: Plan, plan: Plan) -> float:
    """How much wider the noise of all that is shown is where groups are chosen first: the product.

    What a unit moves in few groups as far as in all pays for the choice and gains nothing by it.
    """
    pairs = zip(few.parts, plan.parts, strict=False)  # the choice comes last
    return math.prod(a.noise.std / b.noise.std for a, b in pairs if a.noise and b.noise)


def _priced(lowered: Lowered, ask: Ask, noise: Noise | None) -> Plan:
    if ask.within is not None:
        return _within(lowered, ask, noise)
    if ask.rho is not None:
        return _gaussian_rho(lowered, ask.rho, ask)
    assert ask.epsilon is not None
    rule = LaplaceRule(
        ask.epsilon / max(lowered.draws, 1), ask.delta, flip=ask.currency == "epsilon"
    )
    why = "Laplace noise: a pure guarantee"
    claim = None if ask.delta is None else (ask.epsilon, ask.delta)
    laplace = _plan(lowered, "laplace", [rule] * len(lowered.parts), why, claim)
    if ask.delta is None or noise == "laplace" or not all(x.gaussian for x in lowered.parts):
        return laplace
    both = (laplace, _gaussian(lowered, ask.epsilon, ask.delta))
    if ask.currency == "rho":
        best = min(both, key=lambda plan: plan.cost.rho)
        return replace(best, why=f"{best.noise.capitalize()} noise costs less ρ here")
    best = min(both, key=_worst)
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


def _worst(plan: Plan) -> float:
    """Worst variance, each relative to the part's own squared L2 sensitivity."""
    return max((share for _, share in plan._relative), default=0.0)  # noqa: SLF001 - its own module


# -- Gaussian -----------------------------------------------------------------


def _gaussian_rho(lowered: Lowered, rho: Fraction, ask: Ask) -> Plan:
    """Gaussian noise of total ρ, exactly; δ only selects keys."""
    share = rho / max(lowered.draws, 1)
    rules = [GaussianRule(1 / (2 * share), delta=ask.delta)] * len(lowered.parts)
    why = "Gaussian noise: the cost is stated in ρ"
    plan = _plan(lowered, "gaussian", rules, why)
    try:
        return _claimed(plan, ask)
    except OverflowError:
        raise ParameterError(f"rho={show(rho)} protects nothing", hint=Hint("rho", "0.1")) from None


def _claimed(plan: Plan, ask: Ask) -> Plan:
    """Gaussian noise with the ε that its ρ implies at a δ."""
    if not plan.losses:
        return plan
    total = p.compose(plan.losses).zcdp()
    reported = ask.stated if ask.delta is None else ask.delta
    epsilon = _epsilon_of(Fraction(total.rho0), reported) if total.rho0 else Fraction(0)
    return replace(plan, claim=(epsilon, reported + total.delta0))


@lru_cache(maxsize=1024)
def _epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    return Fraction(p.Zcdp(rho).epsilon(delta))


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
    for wider in (Fraction(0), *(Fraction(1, 2**n) for n in range(12, 0, -2))):
        rules = [
            GaussianRule(constant=variance_of.get(id(x), one) * (1 + wider), delta=failure)
            for x in lowered.parts
        ]
        plan = _plan(lowered, "gaussian", rules, why, (epsilon, delta))
        # a draw that is split into rounds costs a hair more than whole
        if len(plan.losses) == len(draws) or fits(plan.losses, epsilon, delta):
            break
    return plan


# -- accuracy first -----------------------------------------------------------


def _within(lowered: Lowered, ask: Ask, noise: Noise | None) -> Plan:
    """Least price whose noise meets every margin at the stated confidence."""
    laplace = _meeting(lowered, ask, lambda x: LaplaceRule(x, ask.delta))
    why = f"least ε that meets the margins at {ask.confidence:.0%}"
    best = _plan(lowered, "laplace", laplace, f"Laplace noise: {why}")
    if noise == "laplace" or not all(x.gaussian for x in lowered.parts) or not best.losses:
        return best
    if noise is None and ask.currency == "epsilon" and ask.delta is None:
        return best
    rules = _meeting(lowered, ask, lambda x: GaussianRule(1 / (2 * x), delta=ask.delta))
    why = why.replace("ε", "ρ") if ask.currency == "rho" else why
    other = _claimed(_plan(lowered, "gaussian", rules, f"Gaussian noise: {why}"), ask)
    if noise == "gaussian" or getattr(other.cost, ask.currency) < getattr(best.cost, ask.currency):
        return other
    return replace(best, why=f"Laplace noise: {why}")


def _margin_hint(lowered: Lowered, margin: Fraction) -> Hint | None:
    """Give a margin for the first column that holds a noisy number."""
    noisy = [o.name for o in lowered.outputs if isinstance(o.expr, StatisticValue)]
    return Hint("within", {noisy[0]: _spelling(margin)}) if noisy else None


def _meeting(lowered: Lowered, ask: Ask, rule: Callable[[Fraction], Rule]) -> list[Rule]:
    """Rules of the least shares that meet the margins, part by part."""
    assert ask.within is not None
    shares: dict[int, Fraction] = {}
    outputs = {o.name: o.expr for o in lowered.outputs}
    for name, margin in ask.within.items():
        if name not in outputs:
            raise ParameterError(
                f"within names {name!r}, which is not an output column",
                hint=_margin_hint(lowered, margin),
            )
        if margin < 0:
            raise ParameterError("a margin must not be negative")
        out = outputs[name]
        _check_promise(lowered, out, name)
        formulas = [lowered.formulas[i] for i in statistics_of(out)]
        parts = {id(lowered.outlets[i]) for formula in formulas for i in formula.parts}
        indices = [i for i, part in enumerate(lowered.parts) if id(part) in parts and part.private]
        within = (out, margin, ask.confidence)
        share = _least(lowered, within, parts, rule) if indices else Fraction(1, 10**6)
        for i in indices or range(0):
            shares[i] = max(shares.get(i, Fraction(0)), share)
    if not ask.within:
        raise ParameterError(
            "within= needs at least one margin", hint=_margin_hint(lowered, Fraction(25))
        )
    least = min(shares.values(), default=Fraction(1, 10**6))
    return [rule(shares.get(i, least)) for i in range(len(lowered.parts))]


def _check_promise(lowered: Lowered, out: OutputExpr, name: str) -> None:
    """Refuse a margin of what has no noise, or noise that does not alone decide its error."""
    quiet = [None] * len(lowered.outlets)
    if not statistics_of(out) or Widths(lowered, quiet).widest(out, 0.95) is None:
        raise ParameterError(
            f"the error of {name!r} depends on private counts, so no price can promise it",
            hint="put margins on a COUNT or SUM column",
        )


def _least(
    lowered: Lowered,
    within: tuple[OutputExpr, Fraction, float],
    parts: set[int],
    rule: Callable[[Fraction], Rule],
) -> Fraction:
    """Smallest share (rounded up to 4 digits) at which every row stays within a margin.

    Intervals grow with the noise, so halving finds it; the laws themselves decide.
    """
    out, margin, confidence = within

    def meets(share: Fraction) -> bool:
        trial = rule(share)
        laws = [
            part.law(trial) if part.private and id(part) in parts else None
            for part in lowered.outlets
        ]
        half = Widths(lowered, laws).widest(out, confidence)
        # a hair is left for the rounding of a product of doubles
        return half is not None and Fraction(half) <= margin * (1 + Fraction(1, 10**12))

    low = high = _LEAST
    while not meets(high):
        low, high = high, high * 16
    while high / low > _FINE:
        middle = rounded_up(Fraction(math.sqrt(low * high)))
        if not low < middle < high:
            break
        low, high = (low, middle) if meets(middle) else (middle, high)
    share = rounded_up(high)
    return share if meets(share) else rounded_up(share * Fraction(1001, 1000))


def rounded_up(x: Fraction) -> Fraction:
    """Round up to four significant decimal digits."""
    exponent = math.floor(math.log10(float(x))) - 3
    unit = Fraction(10) ** exponent
    return -(-x // unit) * unit


def _spelling(margin: Fraction) -> object:
    """A margin as a hint writes it: a number where one is short, else the text."""
    if margin.denominator == 1 and abs(margin) < 10**9:
        return int(margin)
    return show(margin)
