r"""Amplification: shuffled reports, and reports of a secret sample.

Shuffling (clones)
------------------
n people send ε₀-DP reports and a trusted shuffler strips order, time and address. Each
other person's report is, with probability e^{−ε₀}, drawn as if by one of two
"clones" of the person in question; by post-processing, telling two neighbouring inputs
apart is no easier than telling P from Q (Feldman, McMillan, Talwar, FOCS 2021, Thm 3.2):

    C ~ Bin(n−1, e^{−ε₀}),  A ~ Bin(C, ½),  D ~ Bernoulli(w),  w = e^{ε₀}/(1+e^{ε₀}),
    P = (A+D, C−A+1−D),     Q = (A+1−D, C−A+D).

The total C+1 is seen. Given it, the likelihood ratio rises in the first entry, so the best
event is "at least a", and with b the pmf and S the upper tail of Bin(C, ½)

    δ_C(ε) = max_a  b(a−1)·(w − e^ε(1−w)) − S(a)·(e^ε − 1),    δ = Σ_C P(C)·δ_C.

P and Q are mirror images, so one profile serves both directions; it is a dominating
pair and composes with everything else. Any a understates, so the neighbours of the
best one are tried, too; what lies outside the window of C counts as δ = 1, and
a generous float budget is added. δ(ε) = 0 from ε₀ on.

Holds for: n *honest* reporters; one report each; nothing in a report but its
payload. Public cohorts, rows or seeds that split people make n the size of the
smallest part.

Secrecy of the sample
---------------------
If only a secret uniform sample of a known population reports (share r) *and the reports are
shuffled*, the loss for the population is that of sampling without replacement:
ε' = ln(1 + r(e^ε − 1)).

Proof sketch (Balle, Barthe, Gaboardi 2018). Couple the samples that hold the person with
those that do not: put the person in the place of a uniform member. The two outputs differ in
one person's report, if reports have no places: the mechanism must be a function of the *set*
that was sampled. Reports listed in the population's order are no such function. The first of
them is the first person's or a later one's, and the theorem fails: of four people two
report, ε = ln 3, the others hold 1, 1, 0; the loss is ln(13/6) = 0.773 and not ln 2 = 0.693.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from discreet import _exact
from discreet import privacy as p_
from discreet._dataclass import dataclass
from discreet._exact import Number, ceil_float, show
from discreet._lazy import special
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.local._intervals import Floats, log_binomial
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_whole

_TAIL = 1e-40
"""Bound on the mass of C outside the window; counted as δ = 1."""

_BUDGET = 1e-10
"""Relative float error allowed to each term; logs of pmfs are good to 1e-12."""

_FEW = 64
_KNOTS = 512

CONDITIONS = (
    "n counts honest reporters only",
    "each sends one report",
    "the shuffler strips order, time and address",
    "nothing in a report singles people out (fixed public cohorts: n is the cohort's size)",
)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Shuffled(p_.PrivacyLoss):
    """Loss of one person among `n` shuffled reports; made by :func:`shuffle`."""

    eps0: Fraction
    people: int

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must hold for the bound to be true."""
        return CONDITIONS

    def _details(self) -> dict[str, str]:
        return {"epsilon": show(self.eps0), "n": str(self.people)}

    @property
    def top(self) -> Fraction:
        """ε₀: no shuffling ever makes it worse."""
        return self.eps0

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return ln δ(ε); many values at once are read from chords of the convex profile."""
        eps = np.asarray(epsilon, dtype=np.float64)
        # a lower bound on e^{−ε₀} as clone probability raises δ: fewer clones hide less
        eps0 = ceil_float(self.eps0)
        if eps.size <= _FEW:
            delta = np.array([_delta(self.people, eps0, e) for e in eps.reshape(-1)])
        else:
            knots, heights = _profile(self.people, eps0)
            # chords in e^ε lie above a convex profile
            delta = np.interp(np.expm1(np.minimum(eps.reshape(-1), eps0)), np.expm1(knots), heights)
            delta *= 1 + 1e-12
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.minimum(delta, 1.0))).reshape(eps.shape)

    @property
    def rho(self) -> float:
        """ρ of the unshuffled report: a true, if loose, bound."""
        return float(p_.Pure(self.eps0).rho)


def shuffle(report: Any, n: int) -> Shuffled:
    """Return the loss of one person among `n` shuffled reports.

    Parameters
    ----------
    report
        A protocol, the pure loss of one report under change-one, or its ε₀. The unit of
        a loss is kept.
    n
        Honest people who report, this one included.

    Examples
    --------
    >>> from discreet import local
    >>> round(local.shuffle(1, 10_000).epsilon(1e-6), 6)
    0.053005
    """
    people = read_whole(n, "n", least=2, most=1 << 40)
    labels = {"neighbours": p_.Neighbours.CHANGE_ONE, "unit": getattr(report, "unit", None)}
    return Shuffled.build(**labels, eps0=_report_epsilon(report), people=people)


def _report_epsilon(report: Any) -> Fraction:
    if isinstance(report, LocalProtocol):
        return report.claimed
    if isinstance(report, p_.PrivacyLoss):
        if report.neighbours not in (None, p_.Neighbours.CHANGE_ONE):
            raise NotProvedError(
                "shuffling amplifies change-one losses of single reports only",
                hint="local.shuffle(local.KaryResponse(4, 1), 10_000)",
            )
        if report.top == math.inf or report.mass_at_infinity:
            raise NotProvedError(
                "amplification by shuffling is proved here for pure ε-DP reports only",
                hint="local.shuffle(local.KaryResponse(4, 1), 10_000)",
            )
        return Fraction(report.top)
    return _exact.epsilon(report)


def _delta(n: int, eps0: float, eps: float) -> float:
    """Return an upper bound on δ(ε)."""
    w = 1 / (1 + math.exp(-eps0))
    lift = w - math.exp(eps) * (1 - w)
    if eps >= eps0 or lift <= 0:
        return 0.0
    C, mass = _clones(n, eps0)
    x = (math.exp(eps) * w - (1 - w)) / lift
    best = np.zeros(len(C))
    start = np.ceil(x * (C + 1) / (1 + x))
    for shift in (-1, 0, 1):
        a = np.clip(start + shift, 0, C + 1)
        gain = np.exp(_log_half(C, a - 1)) * lift
        cost = np.where(a <= 0, 1.0, special.betainc(np.maximum(a, 1), C - a + 1, 0.5))
        cost = np.where(a > C, 0.0, cost) * math.expm1(eps)
        best = np.maximum(best, gain - cost + _BUDGET * (gain + cost))
    return min(1.0, float(mass @ best) * (1 + _BUDGET) + _TAIL)


@lru_cache(maxsize=8)
def _clones(n: int, eps0: float) -> tuple[Floats, Floats]:
    """Return the values of C in a window that leaves out less than `_TAIL`, and their pmf."""
    p, trials = math.exp(-eps0), n - 1
    depth = math.log(2 / _TAIL)
    # Bernstein: P(|C−np| > t) ≤ 2·exp(−t²/(2(np(1−p) + t/3)))
    reach = depth / 3 + math.sqrt(depth**2 / 9 + 2 * depth * trials * p * (1 - p))
    C = np.arange(
        max(0, math.floor(trials * p - reach)), min(trials, math.ceil(trials * p + reach)) + 1.0
    )
    return C, np.exp(log_binomial(float(trials), C, p))


def _log_half(n: Floats, x: Floats) -> Floats:
    """Return ln of the Bin(n, ½) pmf at x, −∞ outside."""
    inside = (x >= 0) & (x <= n)
    return np.where(inside, log_binomial(n, np.clip(x, 0, n), 0.5), -np.inf)


@lru_cache(maxsize=32)
def _profile(n: int, eps0: float) -> tuple[Floats, Floats]:
    """Return knots and δ at them: dense where δ changes, ending in 0 at ε₀."""
    low = eps0
    # beyond this δ is little more than the allowance for what lies outside the window
    while low > 1e-12 and _delta(n, eps0, low) < 100 * _TAIL:
        low /= 2
    reach = min(2 * low, eps0)
    knots = np.append(np.linspace(0, reach, _KNOTS), eps0)
    return knots, np.array([_delta(n, eps0, e) for e in knots])


def secret_sample(loss: Any, rate: Number, *, shuffled: bool = False) -> p_.PrivacyLoss:
    """Return the loss, for everybody on a population list, when a secret sample reports.

    Parameters
    ----------
    loss
        A protocol, or the loss of one report; or what :func:`shuffle` says about the
        sample's reports.
    rate
        Share r of the population in the sample, drawn uniformly, of fixed size, and never told.
    shuffled
        State that the reports are shuffled: order, time and address say nothing about
        places in the population. Without it nothing is amplified, and nothing is stated. Not
        needed for a loss of :func:`shuffle`.

    Examples
    --------
    >>> from discreet import local
    >>> survey = local.KaryResponse(domain=4, epsilon="2.900477")
    >>> round(local.secret_sample(survey, "0.1", shuffled=True).epsilon(), 5)
    1.0
    """
    _need_shuffled(shuffled or isinstance(loss, Shuffled))
    base = loss.loss if isinstance(loss, LocalProtocol) else loss
    if not isinstance(base, p_.PrivacyLoss):
        base = p_.Pure(base).under(p_.Neighbours.CHANGE_ONE)
    return p_.sample(base, rate, scheme="without-replacement", neighbours="change-one")


def sample_epsilon(target: Number, rate: Number, *, shuffled: bool = False) -> float:
    """Return the ε that a secret sample's shuffled reports may have for the population's `target`.

    Parameters
    ----------
    target
        ε for everybody on the population list.
    rate, shuffled
        See :func:`secret_sample`.

    Examples
    --------
    >>> [round(sample_epsilon(1, rate, shuffled=True), 5) for rate in ("0.1", "0.01")]
    [2.90048, 5.1523]
    """
    _need_shuffled(shuffled)
    share = _exact.decimal(rate, "rate")
    if not 0 < share <= 1:
        raise ParameterError(
            f"rate must lie in (0, 1], got {show(share)}", hint=Hint("rate", "0.1")
        )
    goal = float(_exact.epsilon(target, "target"))
    # rounded down: a smaller ε keeps the promise
    return math.log1p(math.expm1(goal) / float(share)) * (1 - 2.0**-48)


def _need_shuffled(stated: bool) -> None:
    if stated is not True:
        raise NotProvedError(
            "a secret sample amplifies shuffled reports only: in the population's order "
            "their places tell who was sampled",
            hint=Hint("shuffled", True),
        )
