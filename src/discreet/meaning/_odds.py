r"""What ε does to an attacker's beliefs, as odds.

Three comparisons are in use; each has its own exponent c, and all of them say
*odds move by at most a factor* :math:`e^{\pm c g \varepsilon}` for a group of g people.

``"counterfactual"`` (the default), c = 2
    The attacker's belief after the release, against the belief the same
    attacker would hold had the person's data not been used (add-remove), or been
    replaced by fixed other data (change-one). Holds for *every* prior, every
    output, every statement S against S' and every dependence between people.

    *Proof* (Ashmead, Leclerc & Sexton 2019; after Kasiviswanathan & Smith
    2014). :math:`\pi[S, M(D)=\omega]=\sum_{d\in S}\pi(d)\Pr[M(d)=\omega]` changes by a
    factor within :math:`e^{\pm\varepsilon}` when each d is replaced by its neighbour
    without person i; so does the sum over S'; the ratio of the two moves by at most
    :math:`e^{2\varepsilon}`. Under dependence the factor 2 is attained under both relations.

``"prior"``, c = 2 under add-remove and 1 under change-one
    Belief after the release against belief before it, about the person's own
    record. Valid **only if the record is independent of all other records** in the
    attacker's mind; otherwise facts about the population ("smoking causes cancer")
    count as leaks and no ε bounds them (Kifer & Machanavajjhala 2012).
    *Proof*: with the others fixed, two values of the record are two steps apart
    under add-remove and one step under change-one; average over the others.

``"binary"``, c = 1
    Was the database D₁ or D₂, two neighbours? Bayes' rule and the definition give
    :math:`e^{\pm\varepsilon}` at once (Lalanne 2020). "Was I in the data at all?" under
    add-remove is of this form, other people being known.

A group of g people is at distance g, hence gε (group privacy).

No statement of this kind holds for every output once δ > 0: an output of
probability δ may reveal everything. Losses without a pure ε are therefore refused
here; :func:`discreet.meaning.attacker` reads them by their trade-off curve.

Upper bounds are rounded up, lower bounds down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number, ceil_float, decimal, positive, show
from discreet.errors import Hint, NotProvedError, ParameterError, RelationError
from discreet.meaning._words import number
from discreet.privacy import read_neighbours

_SLACK = 2.0**-50
"""Covers the rounding of one exponential and two products."""

Privacy: TypeAlias = "Number | p.PrivacyLoss"
"""What the questions below accept as "how private": an ε or any loss."""


class Against(StrEnum):
    """The world that an attacker's belief is compared with."""

    COUNTERFACTUAL = "counterfactual"
    PRIOR = "prior"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Belief:
    """Least and greatest probability an attacker can come to hold."""

    low: float
    high: float

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))


def odds_bound(
    prior_odds: Number,
    epsilon: Privacy,
    group: int = 1,
    *,
    neighbours: p.Neighbours | str | None = None,
    against: Against | str = Against.COUNTERFACTUAL,
) -> float:
    """Return the highest odds an attacker can come to, from `prior_odds` in the other world.

    Parameters
    ----------
    prior_odds
        Odds (not probability) of the statement in the world compared with.
    epsilon
        Pure ε of everything released, or a loss that has one.
    group
        Number of people whose data the statement is about.
    neighbours
        Relation ε is stated under; add-remove unless the loss says otherwise.
    against
        ``"counterfactual"``, ``"prior"`` (needs independent records) or
        ``"binary"``; see the module's text.

    Examples
    --------
    >>> round(odds_bound(prior_odds=1.1, epsilon="0.01"), 4)
    1.1222
    """
    factor = factor_of(epsilon, group, neighbours, against)
    odds = positive(decimal(prior_odds, "prior_odds"), "prior_odds", example=1.1)
    return factor * ceil_float(odds) * (1 + _SLACK)


def posterior(
    prior: Number,
    epsilon: Privacy,
    group: int = 1,
    *,
    neighbours: p.Neighbours | str | None = None,
    against: Against | str = Against.COUNTERFACTUAL,
) -> Belief:
    """Return the beliefs an attacker can come to from probability `prior` in the other world.

    Examples
    --------
    >>> low, high = posterior("0.5", 1)
    >>> round(low, 3), round(high, 3)
    (0.119, 0.881)
    >>> low, high = posterior("0.5", "1.0986122886681098", against="binary")
    >>> round(low, 6), round(high, 6)
    (0.25, 0.75)
    """
    before = chance(prior, "prior")
    factor = factor_of(epsilon, group, neighbours, against)
    return Belief(_shifted(before, 1 / factor) * (1 - _SLACK), ceiling(before, factor))


def ceiling(prior: float, factor: float) -> float:
    """Return the probability whose odds are `factor` times those of `prior`."""
    return min(1.0, _shifted(prior, factor) * (1 + _SLACK))


def _shifted(prior: float, factor: float) -> float:
    if factor == math.inf:
        return 1.0
    return prior * factor / (1 - prior + prior * factor)


def factor_of(
    epsilon: Privacy,
    group: int = 1,
    neighbours: p.Neighbours | str | None = None,
    against: Against | str = Against.COUNTERFACTUAL,
) -> float:
    """Return the factor e^(c·g·ε) by which odds can move, rounded up."""
    relation = read_neighbours(neighbours)
    if isinstance(epsilon, p.PrivacyLoss):
        if None not in (relation, epsilon.neighbours) and relation != epsilon.neighbours:
            raise RelationError(
                f"the loss is stated under {epsilon.neighbours}, the question under {relation}",
                hint=Hint("neighbours", str(epsilon.neighbours)),
            )
        relation = relation or epsilon.neighbours
    exact = steps(against, relation) * read_group(group) * pure_epsilon(epsilon)
    power = ceil_float(exact) if exact < 709 else math.inf
    return math.exp(power) * (1 + _SLACK) if power < 709 else math.inf


def steps(against: Against | str, neighbours: p.Neighbours | None) -> int:
    """Return c: how many neighbours lie between the two worlds compared."""
    try:
        kind = Against(against)
    except ValueError:
        raise ParameterError(
            f"against must be one of {', '.join(Against)}, got {str(against)[:40]!r}",
            hint=Hint("against", "counterfactual"),
        ) from None
    if kind is Against.BINARY:
        return 1
    if kind is Against.PRIOR and neighbours is p.Neighbours.CHANGE_ONE:
        return 1
    return 2


def pure_epsilon(x: Privacy) -> Fraction:
    """Read a pure ε ≥ 0; a loss must have one at δ = 0."""
    if isinstance(x, p.PrivacyLoss):
        value = x.epsilon()
        if value == math.inf:
            raise NotProvedError(
                f"{x!r} allows a failure probability: no bound on odds holds for every output",
                hint="meaning.attacker(loss) describes it by what an attack can achieve",
            )
        return Fraction(value)
    eps = decimal(x, "epsilon")
    if eps < 0:
        raise ParameterError(f"epsilon must not be negative, got {show(eps)}", hint='"0.1"')
    return eps


def read_group(group: int) -> int:
    """Read a number of people."""
    if isinstance(group, bool) or not isinstance(group, int | np.integer) or group < 1:
        raise ParameterError(
            f"group must be a whole number of people, got {group!r}", hint=Hint("group", 4)
        )
    return int(group)


def chance(x: Number, name: str) -> float:
    """Read a probability strictly between 0 and 1."""
    value = decimal(x, name)
    if not 0 < value < 1:
        raise ParameterError(
            f"{name} must be a probability strictly between 0 and 1, got {show(value)}",
            hint=Hint(name, 0.02),
        )
    return float(value)


@dataclass(frozen=True, slots=True, eq=False)
class RiskTable:
    """Highest odds an attacker can come to: priors down, epsilons across.

    Reads like a NumPy array (``table[1, 0]``, ``np.asarray(table)``) and prints as a table.
    """

    priors: tuple[float, ...]
    epsilons: tuple[float, ...]
    values: npt.NDArray[np.float64]
    group: int = 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.priors)

    def __iter__(self) -> Iterator[npt.NDArray[np.float64]]:
        return iter(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of priors and of epsilons."""
        return self.values.shape

    def __repr__(self) -> str:
        head = ["odds without", *(f"ε={e:g}" for e in self.epsilons)]
        body = [
            [f"{prior:g}", *(number(x, "up", 4) for x in row)]
            for prior, row in zip(self.priors, self.values, strict=True)
        ]
        widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
        rows = [
            "  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in [head, *body]
        ]
        who = "one person" if self.group == 1 else f"a group of {self.group}"
        return "\n".join(
            [f"Highest odds an attacker can come to, by the use of {who}'s data", *rows]
        )


def risk_table(priors: Sequence[Number], epsilons: Sequence[Number], group: int = 1) -> RiskTable:
    """Return the counterfactual odds bound for every prior (odds) and ε.

    Examples
    --------
    >>> risk_table([1.1, 2], ["0.01", 1])
    Highest odds an attacker can come to, by the use of one person's data
    odds without  ε=0.01    ε=1
             1.1   1.123  8.128
               2   2.041  14.78
    """
    if not len(priors) or not len(epsilons):
        raise ParameterError("give at least one prior and one epsilon", hint="risk_table([1], [1])")
    rows = [[odds_bound(prior, e, group) for e in epsilons] for prior in priors]
    values = np.array(rows, dtype=np.float64)
    values.setflags(write=False)
    return RiskTable(
        tuple(float(decimal(x, "prior")) for x in priors),
        tuple(float(decimal(e, "epsilon")) for e in epsilons),
        values,
        read_group(group),
    )
