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
A limit c drops :math:`\sum_u (n_u - c)^+` rows and has noise of deviation proportional to c. The
limit is the bucket's end c that minimises :math:`\hat B(c)^2 + (cs)^2`, with s the deviation of a
count of units. (The balance of bias and noise: Amin, Kulesza, Munoz Medina, Vassilvitskii,
"Bounding user contributions", ICML 2019; the rule is worked out here.)

:math:`\hat B` must not take a bucket for empty because it is sparse: few units of many rows may
have most rows, and are what noise hides first. Up to the last bucket that stands out of the noise,
B̂ adds up what was released. Beyond it, it takes the larger of two: what was released there, if
that is more than one deviation of its noise, and the tail that goes on falling by the factor by
which it fell before. A tail ends where it is contradicted: a bucket that cannot hold, at 95 %,
what the tail predicts holds what was released and what noise hides on average, and from there on
the tail falls by the factor by which it fell to that. A single bucket that stands out says nothing
of a tail, which is then flat until it is contradicted; without any, the policy's limit stays.

No rule can do without an assumption: whether somebody with as many rows as the policy allows
exists is what the price protects, so lost rows are not known better than to several times the
noise that the policy's limit has. So the bound that is stated beside the estimate is wide. What
is assumed here is that nobody is far beyond a gap in the numbers of rows: people of a thousand rows
among people of two are found only if they stand out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

_EMPTY: Final = 0.7
"""Units that noise hides on average in a bucket that looks empty, in its deviations (Laplace)."""


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
    prices = {n: v for n in ("epsilon", "rho") if (v := getattr(offer, n)) is not None}
    if not prices:
        raise ParameterError(
            "choosing a limit costs something: state the price of the whole question, not within=",
            hint=Hint("epsilon", "0.5"),
        )
    ((currency, price),) = prices.items()
    if currency == "rho" and curator.policy.budget.accounting == "approx":
        # each of the two runs would become (ε, δ) of its own, and cost more than was offered
        raise ParameterError(
            "this budget is kept in ε and δ: a limit is chosen at a price in ε",
            hint=Hint("epsilon", "0.5"),
        )
    histogram, limit, least, most = coverage_query(curator, query, beyond=False)
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


def choose(
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
    coverage = Coverage(answer, choice.limit, choice.least, choice.most)
    in_epsilon = choice.currency == "epsilon"
    left = float(getattr(choice.rest, choice.currency))
    off = 2 / left**2 if in_epsilon else 1 / (2 * left)
    coverage = replace(coverage, limit=best_limit(coverage, off))
    cost = f"{'ε' if in_epsilon else 'ρ'} {show(choice.cost)}"
    words = f"that limit chosen privately, for {cost} more: {_losses(coverage, choice.limit)}"
    limited = replace(query, limits=replace(query.limits, rows=coverage.limit))
    return limited, choice.rest, (words,)


def check_alone(limits: str | None) -> None:
    """Refuse limits for several questions with UNION ALL between them."""
    if limits is not None:
        raise ParameterError("limits are chosen for one question, not for several")


def best_limit(coverage: Coverage, variance: float) -> int:
    """Limit of least predicted error, given the variance of a noisy count of units."""
    # of equal ones the largest: where nothing is known, the policy's own
    return min(
        sorted(coverage.most, reverse=True),
        key=lambda c: rows_lost(coverage, c) ** 2 + variance * c**2,
    )


def rows_lost(coverage: Coverage, limit: int) -> float:
    """Predict how many rows a limit drops of those that the policy's keeps."""
    units = [float(row["units"]) for row in coverage.answer.to_dicts()]
    sure = [i for i, n in enumerate(coverage.certain_units()) if n]
    if not sure:
        return math.inf if limit < coverage.most[-1] else 0.0
    last = sure[-1]
    losses = [
        max(math.sqrt(a * b) - limit, 0) for a, b in zip(coverage.least, coverage.most, strict=True)
    ]
    visible = sum(n * w for n, w in zip(units[: last + 1], losses, strict=False))
    rest = losses[last + 1 :]
    beyond = sum(n * w for n, w in zip(units[last + 1 :], rest, strict=True))
    if beyond < coverage.deviation * math.hypot(*rest):
        beyond = 0.0
    tail = sum(n * w for n, w in zip(_tail(coverage, units, sure), rest, strict=True))
    return max(visible, 0.0) + max(beyond, tail)


def _tail(coverage: Coverage, units: Sequence[float], sure: Sequence[int]) -> list[float]:
    """Units predicted in the buckets beyond those that stand out of the noise."""
    last, possible = sure[-1], coverage.possible_units()
    before, fall, tail = units[last], _fall(units, sure), []
    for n, most in zip(units[last + 1 :], possible[last + 1 :], strict=True):
        predicted = before * fall
        if predicted > most:
            predicted = min(max(n, 0.0) + _EMPTY * coverage.deviation, most)
            fall = predicted / before
        tail.append(predicted)
        before = predicted
    return tail


def _fall(units: Sequence[float], sure: Sequence[int]) -> float:
    """Factor from bucket to bucket at the end of what stands out of the noise; at most one."""
    if len(sure) == 1:
        return 1.0
    before, last = sure[-2:]
    return float(min((units[last] / units[before]) ** (1 / (last - before)), 1))


def most_lost(coverage: Coverage, confidence: float = 0.95) -> float:
    """Bound the share of rows that the limit drops of those that the policy's keeps.

    Of the rows lost the upper end, every unit at the end of its bucket; of the rows kept the lower
    one, every unit at its beginning. Each end errs with half of what the confidence leaves.
    """
    from discreet import inference  # noqa: PLC0415 - loaded when it is called

    released = inference.combine(inference.noisy(coverage.answer.record(), "units"))
    losses = [max(b - coverage.limit, 0) for b in coverage.most]
    rest = [min(a, coverage.limit) for a in coverage.least]
    # the noise of a weighted sum is simulated: with a seed, one answer always says the same
    high = float(released.estimate(losses).interval(confidence, rng=0).high)
    low = float(released.estimate(rest).interval(confidence, rng=0).low)
    return max(high, 0.0) / (max(high, 0.0) + low) if low > 0 else 1.0


def _losses(coverage: Coverage, policy: int) -> str:
    """Say what the chosen limit loses, beside the policy's."""
    if coverage.limit == policy:
        return "the policy's own"
    loss = rows_lost(coverage, coverage.limit)
    units = zip(coverage.certain_units(), coverage.least, coverage.most, strict=True)
    rest = sum(n * min(math.sqrt(a * b), coverage.limit) for n, a, b in units)
    return (
        f"of the rows that {policy} would keep about {loss / (loss + rest):.1%} lost if the tail "
        f"falls on as it does, at most {most_lost(coverage):.0%} in any case (95 %)"
    )
