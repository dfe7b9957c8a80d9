r"""Choosing ε from a tolerance that people can state, and secret samples.

Each rule solves a bound of :mod:`discreet.meaning._odds` or
:mod:`discreet.meaning._attacker` for ε, rounds down, and returns a number that
carries the assumption it rests on.

* ``increase=r``: the probability of any inference about a person is at most r times what
  it would be without the person's data. From odds :math:`q/(1-q)`, the bound gives
  :math:`q'/q \le e^{c\varepsilon}/(1-q+qe^{c\varepsilon}) \le e^{c\varepsilon}` for every q, so
  :math:`\varepsilon=\ln(r)/c`; it is approached as q → 0. (c = 2 counterfactually.)
* ``prior=q, ceiling=q'``: :math:`\varepsilon=\ln[q'(1-q)/((1-q')q)]/c`.
* ``advantage=a``: true- minus false-positive rate of any membership attack is at most
  :math:`\tanh(\varepsilon/2)` for a pure ε, so :math:`\varepsilon=\ln\frac{1+a}{1-a}`.
* ``tpr=t, fpr=a``: :math:`t\le\min(e^\varepsilon a,\,1-e^{-\varepsilon}(1-a))`, so
  :math:`\varepsilon=\max(\ln\frac ta,\ln\frac{1-a}{1-t})`.
* ``population=ε', rate=r``: see :func:`secret_sample`.

A group of g people divides ε by g.

Secrecy of the sample. Let the release be ε-DP in the sample, and let the sample be a
secret, data-independent draw of a fraction r of the population: each person
independently with probability r (``"poisson"``, for add-remove), or a simple random
sample of fixed size without replacement (``"simple-random"``, for change-one). Then for
the population list the release is :math:`(\ln(1+r(e^\varepsilon-1)),\,r\delta)`-DP (Balle, Barthe &
Gaboardi 2018). Clustered, stratified with data-dependent sizes, or adaptive
designs can *lose* privacy instead (Bun, Drechsler, Gaboardi, McMillan & Sarathy 2022)
and are refused.
"""

from __future__ import annotations

import math
from fractions import Fraction

from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number, ceil_float, decimal, floor_float, show
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.meaning._odds import Against, chance, pure_epsilon, read_group, steps
from discreet.meaning._words import exactly
from discreet.privacy import read_neighbours

_DOWN = 1 - 2.0**-48


class Epsilon(float):
    """An ε together with the assumption under which it keeps the stated promise.

    An ordinary number in every use; only its printed form says more.
    """

    __slots__ = ("assumption",)
    assumption: str

    def __new__(cls, value: float, assumption: str) -> Epsilon:  # noqa: PYI034 - float's own signature
        number = super().__new__(cls, value)
        number.assumption = assumption
        return number

    def __reduce__(self) -> tuple[object, ...]:
        return (Epsilon, (float(self), self.assumption))

    def __str__(self) -> str:
        return float.__repr__(self)

    def __repr__(self) -> str:
        return f"{float(self):.6g} ({self.assumption})"


def epsilon_for(
    *,
    increase: Number | None = None,
    prior: Number | None = None,
    ceiling: Number | None = None,
    advantage: Number | None = None,
    tpr: Number | None = None,
    fpr: Number | None = None,
    population: Number | None = None,
    rate: Number | None = None,
    group: int = 1,
    neighbours: p.Neighbours | str | None = None,
    against: Against | str = Against.COUNTERFACTUAL,
) -> Epsilon:
    """Return the largest total ε that keeps a stated tolerance, rounded down.

    Exactly one tolerance is given: `increase`, `prior` with `ceiling`, `advantage`,
    `tpr` with `fpr`, or `population` with `rate`.

    Parameters
    ----------
    increase
        Largest tolerated ratio of probabilities, for example 1.25.
    prior, ceiling
        A probability in the world compared with, and the highest tolerated one.
    advantage
        Largest tolerated advantage of a membership attack (0 to 1).
    tpr, fpr
        Largest tolerated true-positive rate at a false-positive rate.
    population, rate
        Target ε for the population list, and the rate of a secret sample.
    group
        Number of people to be protected together.
    neighbours, against
        As in :func:`discreet.meaning.odds_bound`.

    Examples
    --------
    >>> epsilon_for(increase=1.25)
    0.111572 (against a world without one person's data; everything released about them counted)
    >>> round(epsilon_for(prior=0.02, ceiling=0.05), 4)
    0.4737
    >>> round(epsilon_for(population=1, rate=0.1), 5)
    2.90048
    """
    together = read_group(group)
    tolerances = {
        "increase": (increase,),
        "prior, ceiling": (prior, ceiling),
        "advantage": (advantage,),
        "tpr, fpr": (tpr, fpr),
        "population, rate": (population, rate),
    }
    names = [name for name, values in tolerances.items() if any(v is not None for v in values)]
    if len(names) != 1 or any(v is None for v in tolerances[names[0]]):
        raise ParameterError(
            "give exactly one complete tolerance: " + "; ".join(tolerances),
            hint=Hint("increase", 1.25),
        )
    values = tuple(v for v in tolerances[names[0]] if v is not None)
    if names[0] in ("increase", "prior, ceiling"):
        c = steps(against, read_neighbours(neighbours))
        total = _log_increase(*values) if len(values) == 1 else _log_odds(*values)
        return Epsilon(total / (c * together) * _DOWN, _odds_assumption(Against(against), together))
    if names[0] == "population, rate":
        target, part = pure_epsilon(values[0]), _rate(values[1])
        epsilon = math.log1p(math.expm1(floor_float(target)) / part) / together * _DOWN
        return Epsilon(epsilon, f"{exactly(target)} for the population while the sample is secret")
    total = _of_advantage(*values) if len(values) == 1 else _of_rates(*values)
    return Epsilon(
        total / together * _DOWN, f"against any test of {_who(together)} data used or not"
    )


def _who(group: int) -> str:
    return "one person's" if group == 1 else f"{group} people's"


def _odds_assumption(against: Against, group: int) -> str:
    world = {
        Against.COUNTERFACTUAL: f"against a world without {_who(group)} data",
        Against.PRIOR: f"if {_who(group)} records are independent of all others",
        Against.BINARY: "for two databases known but for one difference",
    }[against]
    return f"{world}; everything released about them counted"


def _log_increase(increase: Number) -> float:
    ratio = decimal(increase, "increase")
    if ratio <= 1:
        raise ParameterError(
            f"increase is a ratio above 1, got {show(ratio)}", hint=Hint("increase", 1.25)
        )
    return _log(ratio)


def _log_odds(prior: Number, ceiling: Number) -> float:
    chance(prior, "prior"), chance(ceiling, "ceiling")
    low, high = decimal(prior, "prior"), decimal(ceiling, "ceiling")
    if high <= low:
        raise ParameterError(
            f"ceiling must exceed prior, got {show(high)} and {show(low)}",
            hint=Hint("ceiling", 0.05),
        )
    return _log(high * (1 - low) / ((1 - high) * low))


def _of_advantage(advantage: Number) -> float:
    chance(advantage, "advantage")
    a = decimal(advantage, "advantage")
    return _log((1 + a) / (1 - a))


def _of_rates(tpr: Number, fpr: Number) -> float:
    chance(tpr, "tpr"), chance(fpr, "fpr")
    t, a = decimal(tpr, "tpr"), decimal(fpr, "fpr")
    if t <= a:
        raise ParameterError(
            "tpr must exceed fpr: guessing at random reaches tpr = fpr",
            hint=Hint("tpr", 0.1).also("fpr", 0.05),
        )
    return max(_log(t / a), _log((1 - a) / (1 - t)))


def _log(ratio: Fraction) -> float:
    # near 1, ln(1 + x) keeps the digits that ln would lose
    return math.log1p(float(ratio - 1)) if ratio < 2 else math.log(ratio)


def _rate(rate: Number) -> float:
    value = decimal(rate, "rate")
    if not 0 < value <= 1:
        raise ParameterError(f"rate must lie in (0, 1], got {show(value)}", hint=Hint("rate", 0.05))
    return float(value)


@dataclass(frozen=True, slots=True, repr=False)
class SecretSample:
    """What a release from a secret sample means for the whole population list.

    Attributes
    ----------
    loss
        The loss for the population list, under the relation the design belongs to.
    delta
        Failure probability at which :attr:`epsilon` is read.
    condition
        What must stay true; print it beside the figure.
    """

    loss: p.PrivacyLoss
    delta: float
    condition: str

    @property
    def epsilon(self) -> float:
        """ε for the population list, at :attr:`delta`."""
        return self.loss.epsilon(self.delta)

    def __repr__(self) -> str:
        delta = f", δ={self.delta:.3g}" if self.delta else ""
        return f"ε={self.epsilon:.6g}{delta} for the population ({self.condition})"


_DESIGNS = {
    "simple-random": ("without-replacement", p.Neighbours.CHANGE_ONE),
    "poisson": ("poisson", p.Neighbours.ADD_REMOVE),
}


def secret_sample(
    epsilon: Number, rate: Number, delta: Number = 0, *, design: str = "simple-random"
) -> SecretSample:
    """Return what ε in a secret random sample means for the population it was drawn from.

    Parameters
    ----------
    epsilon, delta
        What the release satisfies for the sample.
    rate
        Fraction of the population that was sampled. What was released must not depend on the
        order of the sample: a list in the population's order gains less.
    design
        ``"simple-random"`` (fixed size, without replacement) or ``"poisson"``.

    Examples
    --------
    >>> secret_sample(1, rate="0.05")
    ε=0.0824221 for the population (while nobody learns who was sampled; simple-random, change-one)
    """
    if design not in _DESIGNS:
        raise NotProvedError(
            f"no gain is proved for the design {str(design)[:40]!r}; "
            "clustered and data-dependent samples can even lose privacy",
            hint=Hint("design", "simple-random"),
        )
    scheme, relation = _DESIGNS[design]
    dlt = decimal(delta, "delta")
    base = p.Approx(epsilon, dlt) if dlt else p.Pure(epsilon)
    loss = p.sample(base.under(relation), rate, scheme=scheme, neighbours=relation)
    condition = f"while nobody learns who was sampled; {design}, {relation}"
    return SecretSample(loss, ceil_float(dlt * decimal(rate, "rate")), condition)
