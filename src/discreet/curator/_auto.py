r"""Contribution limits chosen from the data, privately: one more question, paid first.

Guarantee
---------
A fifth of the price buys the histogram of rows per unit (:mod:`discreet.curator._coverage`); the
limit is computed from what was released, so it is post-processing. The question then runs under
that limit, which the statement itself enforces, for what is left of the price. Both are debited,
one after the other: together they cost what was offered (adaptive composition by sums). The
policy's limit is the largest that is ever chosen.

The choice
----------
A limit c drops :math:`\sum_u (n_u - c)^+` rows and has noise of deviation proportional to c. With
ĥ the histogram, buckets that noise alone may have filled left out, c minimises
:math:`\big(\sum \hat h_i (m_i - c)^+\big)^2 + (cs)^2`, where m_i is the middle of a bucket and s
the deviation of a count of units. (The balance of bias and noise: Amin, Kulesza, Munoz Medina,
Vassilvitskii, "Bounding user contributions", ICML 2019; the rule and its constants are worked out
here.) Below a thousand units times 1/ε nothing beats a limit that somebody who knows the
data declared.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from discreet._dataclass import dataclass, replace
from discreet._exact import show
from discreet.curator import _room, _stored
from discreet.curator._coverage import Coverage, coverage_query
from discreet.errors import BudgetExceededError, Hint, ParameterError
from discreet.plan import Ask, Plan, Query

if TYPE_CHECKING:
    from discreet.curator._curator import Curator

_SHARE: Final = Fraction(1, 5)
"""What the choice gets of the price."""


@dataclass(frozen=True)
class Choice:
    """What choosing a limit takes, before anything is paid."""

    histogram: Query
    plan: Plan
    """Of the histogram."""
    first: Ask
    rest: Ask
    """What is left for the question itself."""
    currency: str
    limit: int
    least: tuple[int, ...]
    most: tuple[int, ...]

    @property
    def cost(self) -> Fraction:
        """Price of the histogram."""
        return Fraction(getattr(self.plan.cost, self.currency))


def priced(curator: Curator, query: Query, offer: Ask, limits: str | None) -> Choice | None:
    """Price the histogram and what it leaves; None where no limit is to be chosen."""
    if limits is None:
        return None
    if limits != "auto":
        raise ParameterError(
            f"limits= takes 'auto', or nothing for the policy's own, not {limits!r}",
            hint=Hint("limits", "auto"),
        )
    paid = {n: v for n in ("epsilon", "rho") if (v := getattr(offer, n)) is not None}
    if not paid:
        raise ParameterError(
            "choosing a limit costs something: state the price of the whole question, not within=",
            hint=Hint("epsilon", "0.5"),
        )
    ((currency, price),) = paid.items()
    if currency == "rho" and curator.policy.budget.accounting == "approx":
        # each of the two runs would become (ε, δ) of its own, and cost more than was offered
        raise ParameterError(
            "this budget is kept in ε and δ: a limit is chosen at a price in ε",
            hint=Hint("epsilon", "0.5"),
        )
    histogram, limit, least, most = coverage_query(curator, query)
    if limit == 1:
        raise ParameterError("the policy keeps one row of each unit: there is no limit to choose")
    first = replace(offer, **{currency: price * _SHARE}, delta=None)
    plan = curator._plan(histogram, first)  # noqa: SLF001 - part of it
    cost = getattr(plan.cost, currency)
    if cost > price / 2:
        raise ParameterError(
            "at this price choosing a limit would take more than half of it",
            hint=Hint(currency, show(4 * cost)),
        )
    rest = replace(offer, **{currency: price - cost})
    return Choice(histogram, plan, first, rest, currency, limit, least, most)


def chosen(
    curator: Curator, query: Query, offer: Ask, limits: str | None, *, key: str | None, fresh: bool
) -> tuple[Query, Ask, tuple[str, ...]]:
    """Buy the histogram; return the question under the limit, what is left to pay, and words."""
    choice = priced(curator, query, offer, limits)
    if choice is None:
        return query, offer, ()
    whole = curator._plan(query, offer)  # noqa: SLF001 - part of it
    refused = _room.would_refuse(curator._balances, whole, offer)  # noqa: SLF001 - part of it
    job = _stored.job([choice.plan], choice.plan.cost, str)
    if refused is not None and (fresh or not curator._road.knows(job)):  # noqa: SLF001 - part of it
        raise BudgetExceededError(refused)
    name = None if key is None else f"{key} (limit)"
    answer = curator._ask(choice.histogram, choice.first, key=name, fresh=fresh)  # noqa: SLF001 - part of it
    found = Coverage(answer, choice.limit, choice.least, choice.most)
    in_epsilon = choice.currency == "epsilon"
    left = float(getattr(choice.rest, choice.currency))
    off = 2 / left**2 if in_epsilon else 1 / (2 * left)
    found = replace(found, limit=best_limit(found, off))
    words = (
        f"that limit chosen privately, for {'ε' if in_epsilon else 'ρ'} {show(choice.cost)} more: "
        f"about {found.rows_lost()[0]:.1%} of rows lost, at most {found.units_cut()[2]:.1%} of "
        "units lose any"
    )
    limited = replace(query, limits=replace(query.limits, rows=found.limit))
    return limited, choice.rest, (words,)


def check_alone(limits: str | None) -> None:
    """Refuse limits for several questions with UNION ALL between them."""
    if limits is not None:
        raise ParameterError("limits are chosen for one question, not for several")


def best_limit(found: Coverage, variance: float) -> int:
    """Limit of least predicted error, given the variance of a noisy count of units.

    Where no bucket stands out of the noise nothing is known, and the policy's limit stays.
    """
    units = found.certain_units()
    if not any(units):
        return found.limit
    ends = zip(units, found.least, found.most, strict=True)
    middles = [(n, min((a + b) / 2, found.limit)) for n, a, b in ends]

    def error(c: int) -> float:
        lost = sum(n * max(m - c, 0) for n, m in middles)
        return lost**2 + variance * c**2

    return min((c for c in found.most if c <= found.limit), key=error)
