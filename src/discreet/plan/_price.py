r"""Pricing: which noise for which vector, and what the whole query costs.

One meaning of ε
----------------
``epsilon`` (with ``delta``) is what the *whole query* satisfies on its own: all
its vectors, tree levels, selections and its key selection together. ``rho``
says the same in zCDP.

The split
---------
Each thing measured (a vector, one level of a tree, one pick) is a *part*. Noise
relative to a part's own sensitivity is inversely proportional to its share, so
the worst relative error is least when the shares are equal; with ``within`` the
shares follow from the margins instead.

Laplace or Gaussian
-------------------
With k parts of sensitivities :math:`(\Delta_1, \Delta_2)`, Laplace noise has
standard deviation :math:`\sqrt2\,k\Delta_1/\varepsilon`, Gaussian noise
:math:`\sqrt k\,\Delta_2\sigma(\varepsilon,\delta)`: many parts and many groups
per unit favour the Gaussian. The planner takes whichever has the smaller worst
ratio, and says so. Without ``delta`` (and without ``rho``) only Laplace keeps
the promise.

The bucket for other keys
-------------------------
Keys below the threshold may be added up into one more cell with Laplace noise.
Rows fall into exactly one released cell, so each vector keeps its L1
sensitivity; only the vector that selects is used twice for unselected keys
(once to hide the key, once inside the bucket). One more share pays for that.

Guarantee of the Gaussian form
------------------------------
Part i draws the discrete Gaussian of variance :math:`\sigma_i^2 = k\Delta_{2,i}^2
/\mu^2 + s^2`, in grid units. By the lemma of ``privacy._additive`` (applied to the
d coordinates that one unit can move; the others have the same law on both
sides and drop out) the query is dominated, up to the factor
:math:`((1+\eta)/(1-\eta))^d`, by a Gaussian mechanism with
:math:`\sum\Delta_{2,i}^2/(\sigma_i^2-s^2) = \mu^2`. μ is the analytic
calibration at (ε − dκ, δ/(1+η)^d).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal as Choice

from discreet._exact import show
from discreet.errors import ParameterError
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.plan._formula import Total
from discreet.plan._lower import Lowered
from discreet.plan._query import Of
from discreet.plan._stability import Sensitivity, reach
from discreet.privacy import Neighbours, Pure, gaussian_sigma

Law = DiscreteLaplace | DiscreteGaussian
Noise = Choice["laplace", "gaussian"]
_LawOf = Callable[[Sensitivity], DiscreteGaussian]


@dataclass(frozen=True)
class Ask:
    """What the analyst offers to pay, or the accuracy to be met."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    within: Mapping[str, Fraction] | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        given = [x is not None for x in (self.epsilon, self.rho, self.within)]
        if sum(given) != 1:
            raise ParameterError(
                "say what the query may cost: exactly one of epsilon=, rho= or within=",
                hint='curator.sql(query, epsilon="0.1")',
            )


@dataclass(frozen=True)
class Cost:
    """What a query costs, in every currency that is defined for it.

    ``epsilon`` and ``delta``: the whole query is (ε, δ)-DP. ``rho`` and
    ``rho_delta``: it is ``rho_delta``-approximate ρ-zCDP.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction
    rho_delta: Fraction

    def __str__(self) -> str:
        delta = f", δ={show(self.delta)}" if self.delta else ""
        return f"ε={show(self.epsilon)}{delta} (ρ={float(self.rho):.4g})"


@dataclass(frozen=True)
class Threshold:
    """A key is released when its noisy number of units reaches ``at``."""

    vector: int
    at: int


@dataclass(frozen=True)
class Plan:
    """A priced query: everything that will happen, before anything happens."""

    lowered: Lowered
    noise: Noise
    laws: tuple[Law | None, ...]  # per vector; None: public, no noise
    tree_laws: tuple[Law, ...]  # per tree, the same at every level
    pick_epsilons: tuple[Fraction, ...]  # per pick and group
    threshold: Threshold | None
    cost: Cost
    why: str


def price(lowered: Lowered, ask: Ask, noise: Noise | None = None) -> Plan:
    """Choose noise laws that give exactly what `ask` says; pure function of public facts.

    `noise` insists on a kind instead of letting the smaller error decide.
    """
    if ask.within is not None:
        return _within(lowered, ask)
    if ask.rho is not None:
        return _gaussian_rho(lowered, ask.rho, ask.delta)
    assert ask.epsilon is not None
    laplace = _laplace(lowered, ask.epsilon, ask.delta)
    if ask.delta is None or lowered.picks or lowered.query.other or noise == "laplace":
        return laplace
    gaussian = _gaussian(lowered, ask.epsilon, ask.delta)
    return min((laplace, gaussian), key=_worst)


def _parts(lowered: Lowered) -> int:
    vectors = sum(v.private for v in lowered.vectors) + (lowered.query.other is not None)
    return vectors + sum(t.levels for t in lowered.trees) + sum(p.top for p in lowered.picks)


def _worst(plan: Plan) -> float:
    """Worst standard deviation, each relative to its own L2 sensitivity."""
    low = plan.lowered
    pairs = [(law, v.sensitivity) for law, v in zip(plan.laws, low.vectors, strict=True) if law]
    pairs += [(law, t.sensitivity) for law, t in zip(plan.tree_laws, low.trees, strict=True)]
    return max(
        (math.sqrt(law.variance / s.l2_squared) for law, s in pairs if s.l2_squared), default=0.0
    )


def _need_delta(lowered: Lowered, delta: Fraction | None) -> Fraction:
    if delta is None:
        name = next(k.name for k in lowered.query.keys if k.codes is None)
        raise ParameterError(
            f"the values of {name!r} are themselves private: selecting them needs a delta",
            hint='delta="1e-6", or list public values for the column in the policy',
        )
    return delta


# -- Laplace ------------------------------------------------------------------


def _laplace(lowered: Lowered, epsilon: Fraction, delta: Fraction | None) -> Plan:
    parts = max(_parts(lowered), 1)
    return _laplace_shares(
        lowered, [epsilon / parts] * len(lowered.vectors), epsilon / parts, delta
    )


def _laplace_shares(
    lowered: Lowered, shares: list[Fraction], other: Fraction, delta: Fraction | None
) -> Plan:
    """Laplace noise with a share of ε per vector and one for every other part."""
    laws = tuple(
        DiscreteLaplace(Fraction(v.sensitivity.l1) / share) if v.private else None
        for v, share in zip(lowered.vectors, shares, strict=True)
    )
    tree_laws = tuple(DiscreteLaplace(Fraction(t.sensitivity.l1) / other) for t in lowered.trees)
    touched = groups_picked(lowered)
    picks = tuple(other / touched for _ in lowered.picks)
    spent = [s for v, s in zip(lowered.vectors, shares, strict=True) if v.private]
    spent += [other] * sum(t.levels for t in lowered.trees)
    if lowered.query.other is not None:
        spent.append(other)
    rho = sum((_rho(e) for e in spent), Fraction(0))
    # an exponential mechanism of range η is η²/8-zCDP; `touched` of them per pick
    rho += sum(p.top * touched * (other / touched) ** 2 / 8 for p in lowered.picks)
    total = sum(spent, Fraction(0)) + other * sum(p.top for p in lowered.picks)
    threshold, failure = None, Fraction(0)
    if lowered.selector is not None:
        failure = _need_delta(lowered, delta)
        law = laws[lowered.selector]
        assert law is not None
        threshold = _threshold(lowered, lowered.selector, law, failure)
    why = (
        "Laplace noise: a pure guarantee" if delta is None else "Laplace noise is the smaller here"
    )
    return Plan(
        lowered,
        "laplace",
        laws,
        tree_laws,
        picks,
        threshold,
        Cost(total, failure, rho, failure),
        why,
    )


def _rho(epsilon: Fraction) -> Fraction:
    rho = Pure(epsilon).rho
    return rho if isinstance(rho, Fraction) else Fraction(rho)


# -- Gaussian -----------------------------------------------------------------


def _gaussian_rho(lowered: Lowered, rho: Fraction, delta: Fraction | None) -> Plan:
    """Gaussian noise of total ρ, exactly; δ only selects keys."""
    if lowered.picks or lowered.query.other is not None:
        what = "MODE" if lowered.picks else "a bucket for other keys"
        raise ParameterError(f"{what} is priced by epsilon=, not rho=", hint='epsilon="0.5"')
    share = rho / max(_parts(lowered), 1)

    def law(s: Sensitivity) -> DiscreteGaussian:
        return DiscreteGaussian.from_variance(Fraction(s.l2_squared) / (2 * share))

    failure = Fraction(0)
    if lowered.selector is not None:
        failure = _need_delta(lowered, delta)
    total = rho if _parts(lowered) else Fraction(0)
    shown = delta if delta is not None else Fraction(1, 10**6)
    epsilon = _rho_to_epsilon(total, shown)
    cost = Cost(epsilon, shown + failure if total else failure, total, failure)
    return _gaussian_plan(lowered, law, cost, failure, "Gaussian noise: the cost is stated in ρ")


def _rho_to_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    from discreet.privacy import Zcdp  # noqa: PLC0415 - only when asked in ρ

    if not rho:
        return Fraction(0)
    try:
        return Fraction(Zcdp(rho).epsilon(delta))
    except OverflowError:
        raise ParameterError(f"rho={show(rho)} protects nothing", hint='rho="0.1"') from None


def _gaussian(lowered: Lowered, epsilon: Fraction, delta: Fraction) -> Plan:
    """Gaussian noise such that the whole query is (ε, δ)-DP."""
    parts = max(_parts(lowered), 1)
    failure = delta / 2 if lowered.selector is not None else Fraction(0)
    mu_inverse, smoothing = _calibrate(epsilon, delta - failure, _coordinates(lowered, parts))

    def law(s: Sensitivity) -> DiscreteGaussian:
        return DiscreteGaussian.from_variance(parts * s.l2_squared * mu_inverse**2 + smoothing)

    spent = [v.sensitivity for v in lowered.vectors if v.private]
    spent += [t.sensitivity for t in lowered.trees for _ in range(t.levels)]
    rho = sum((Fraction(s.l2_squared) / (2 * law(s).sigma2) for s in spent), Fraction(0))
    cost = Cost(epsilon, delta, rho, failure) if spent else Cost(*[Fraction(0)] * 4)
    return _gaussian_plan(lowered, law, cost, failure, "Gaussian noise is the smaller here")


def _gaussian_plan(lowered: Lowered, law: _LawOf, cost: Cost, failure: Fraction, why: str) -> Plan:
    laws = tuple(law(v.sensitivity) if v.private else None for v in lowered.vectors)
    tree_laws = tuple(law(t.sensitivity) for t in lowered.trees)
    threshold = None
    if lowered.selector is not None:
        selector = laws[lowered.selector]
        assert selector is not None
        threshold = _threshold(lowered, lowered.selector, selector, failure)
    return Plan(lowered, "gaussian", laws, tree_laws, (), threshold, cost, why)


def _coordinates(lowered: Lowered, parts: int) -> int:
    """Bound the noisy integers that one unit can move."""
    rows = [a.relation.m or 0 for a in lowered.aggregates]
    return 2 * parts * max(rows)


def _calibrate(epsilon: Fraction, delta: Fraction, d: int) -> tuple[Fraction, Fraction]:
    """Return 1/μ and the smoothing variance s² of the lemma, rounded outward."""
    # η = 2Σexp(−2π²s²k²); with s² = c/(2π²), η ≤ 2.1·e^{−c}; make d·κ ≤ 1e-9·ε
    c = math.log(1e11 * d / min(float(epsilon), 1.0))
    smoothing = Fraction(math.ceil(c / (2 * math.pi**2) * 1024) + 1, 1024)
    eta = 2.1 * math.exp(-2 * math.pi**2 * float(smoothing))
    kappa = Fraction(3 * eta)  # ln((1+η)/(1−η)) ≤ 3η for small η
    slack = 1 + Fraction(2 * d * eta)
    sigma = gaussian_sigma(1, epsilon - d * kappa, delta / slack)
    return Fraction(math.nextafter(float(sigma), math.inf)), smoothing


# -- keys and picks -----------------------------------------------------------


def groups_touched(lowered: Lowered) -> int:
    """Bound the groups in whose content one unit can make a difference."""
    return _touched(lowered, 0)


def groups_picked(lowered: Lowered) -> int:
    """Bound the groups in which one unit can influence a pick (see ``_histogram``)."""
    return _touched(lowered, lowered.picks[0].aggregate) if lowered.picks else 1


def _touched(lowered: Lowered, index: int) -> int:
    touched = reach(lowered.aggregates[index], len(lowered.query.keys))
    changed = lowered.query.keys and lowered.query.neighbours is Neighbours.CHANGE_ONE
    return touched * (2 if changed else 1)


def _threshold(lowered: Lowered, vector: int, law: Law, delta: Fraction) -> Threshold:
    """Least T such that keys of a single unit stay hidden but for probability δ.

    A key present in only one of two neighbouring tables is held by one unit
    alone, so its true count is 1 and it appears with probability
    P(1 + X ≥ T) = sf(T − 2), strict tail. One unit brings at most `touched` such
    keys; by the union bound their total is at most δ.
    """
    share = float(delta / groups_touched(lowered))
    low, high = 1, 2
    while law.sf(high - 2) > share:
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if law.sf(middle - 2) > share:
            low = middle + 1
        else:
            high = middle
    # one more than necessary absorbs the rounding of sf
    return Threshold(vector, low + 1)


# -- accuracy first -----------------------------------------------------------


def _within(lowered: Lowered, ask: Ask) -> Plan:
    """Least ε whose Laplace noise meets every margin at the stated confidence."""
    assert ask.within is not None
    query = lowered.query
    if lowered.trees or lowered.picks:
        raise ParameterError(
            "margins are met for counts and sums; quantiles and modes have none in advance",
            hint='ask those with epsilon="0.5"',
        )
    shares: dict[int, Fraction] = {}
    outputs = {o.name: o.expr for o in query.outputs}
    for name, margin in ask.within.items():
        if name not in outputs:
            raise ParameterError(
                f"within names {name!r}, which is no output column",
                hint=f"within={{{next(iter(outputs))!r}: {show(margin)}}}",
            )
        vector, step = _single(lowered, outputs[name], name)
        moves = lowered.vectors[vector].sensitivity.l1
        shares[vector] = max(shares.get(vector, Fraction(0)), _share(moves, margin / step, ask))
    missing = [i for i, v in enumerate(lowered.vectors) if v.private and i not in shares]
    if missing and not shares:
        raise ParameterError("within= needs at least one margin", hint='within={"n": 25}')
    least = min(shares.values(), default=Fraction(1))
    every = [shares.get(i, least) for i in range(len(lowered.vectors))]
    plan = _laplace_shares(lowered, every, least, ask.delta)
    return replace(plan, why=f"least ε that meets the margins at {ask.confidence:.0%}")


def _single(lowered: Lowered, out: object, name: str) -> tuple[int, Fraction]:
    formula = lowered.formulas[out.index] if isinstance(out, Of) else None
    if not isinstance(formula, Total):
        raise ParameterError(
            f"the error of {name!r} depends on private counts, so no price can promise it",
            hint="put margins on a COUNT or SUM column",
        )
    return formula.vector, formula.step


def _share(moves: int, margin: Fraction, ask: Ask) -> Fraction:
    """Smallest ε (rounded up to 4 digits) with P(|X| ≤ margin) ≥ confidence.

    With r = e^{−1/s} the tail is P(|X| > m) = 2r^{m+1}/(1+r) ≤ 2r^{m+1}/(1+r); the
    bound 2r^{m+1}/(1+r) ≤ β is solved by iterating r ← (β(1+r)/2)^{1/(m+1)}, which
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


def expected_error(law: Law | None, confidence: float) -> float:
    """Half-width of the noise interval, in grid units."""
    return 0.0 if law is None else float(law.interval(confidence).high)
