"""Batches: several questions fixed in advance, composed tightly, charged once.

Because all parameters are fixed before anything runs, the losses may be
composed numerically (privacy loss distributions), which is not valid for
questions chosen one after another (design rule 5). Each question gets ε in
proportion to its weight; the common factor is the largest at which the composed
loss of everything stays within the (ε, δ) asked for. Without δ that is plain
addition.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Self

from discreet import _exact
from discreet import privacy as p
from discreet._exact import Number
from discreet.answer import Answer
from discreet.curator._own import check_own
from discreet.curator._release import count_cells
from discreet.errors import ParameterError
from discreet.noise import DiscreteLaplace
from discreet.plan import Ask, Cost, Lowered, Plan, Query, lower, price
from discreet.plan._price import groups_picked

if TYPE_CHECKING:
    from discreet.curator._curator import Curator

_STEPS = 12
"""Halvings of the common factor's range: within 0.03 % of the best."""


@dataclass
class Pending:
    """An answer that is there once its batch has closed."""

    query: Query
    weight: Fraction
    _answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The answer; only after the ``with`` block."""
        if self._answer is None:
            raise ParameterError("the batch has not run yet: read answers after the with block")
        return self._answer

    def __repr__(self) -> str:
        return "pending: the batch has not run yet" if self._answer is None else repr(self._answer)


class Batch:
    """Collects questions inside a ``with`` block and runs them when it closes.

    If the block raises, nothing is charged and nothing runs.
    """

    def __init__(self, curator: Curator, epsilon: Number, delta: Number | None) -> None:
        self._curator = curator
        self._epsilon = _exact.epsilon(epsilon)
        self._delta = None if delta is None else _exact.delta(delta)
        self._pending: list[Pending] = []
        self._closed = False
        self.cost: Cost | None = None

    def sql(self, query: str, *, weight: Number = 1) -> Pending:
        """Add a SQL query; `weight` says how exact it is beside the others."""
        return self.ask(self._curator.parse(query).query, weight=weight)

    def ask(self, query: Query, *, weight: Number = 1) -> Pending:
        """Add a question given as a plan."""
        if self._closed:
            raise ParameterError("this batch has run; start another one")
        check_own(query, self._curator.policy)
        pending = Pending(query, _exact.positive(_exact.decimal(weight, "weight"), "weight"))
        self._pending.append(pending)
        return pending

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        if kind is not None:
            return
        if not self._pending:
            raise ParameterError("the batch is empty", hint='b.sql("SELECT COUNT(*) AS n FROM …")')
        lowered = [lower(pending.query) for pending in self._pending]
        plans = self._priced(lowered)
        self.cost = self._total(plans)
        answers = self._curator.run(plans, self.cost)
        for pending, answer in zip(self._pending, answers, strict=True):
            pending._answer = answer  # noqa: SLF001 - a batch fills its own slots

    def _priced(self, lowered: list[Lowered]) -> list[Plan]:
        weights = [pending.weight for pending in self._pending]
        basic = self._epsilon / sum(weights, Fraction(0))
        keys = sum(low.selector is not None for low in lowered)
        if self._delta is None:
            return _plans(lowered, weights, basic, self._delta)
        # half of δ for key selections, if there are any; the rest for composition
        key_delta = self._delta / (2 * keys) if keys else None
        target = self._delta / 2 if keys else self._delta
        low, high = Fraction(1), Fraction(2)
        while self._fits(_plans(lowered, weights, basic * high, key_delta), target):
            low, high = high, high * 2
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if self._fits(_plans(lowered, weights, basic * middle, key_delta), target):
                low = middle
            else:
                high = middle
        return _plans(lowered, weights, basic * low, key_delta)

    def _fits(self, plans: list[Plan], delta: Fraction) -> bool:
        loss = p.compose([part for plan in plans for part in losses(plan)])
        return loss.epsilon(delta) <= self._epsilon

    def _total(self, plans: list[Plan]) -> Cost:
        """Cost of all plans together: what was asked for, and the sum of ρ."""
        delta = self._delta if self._delta is not None else Fraction(0)
        rho = sum((plan.cost.rho for plan in plans), Fraction(0))
        failure = sum((plan.cost.rho_delta for plan in plans), Fraction(0))
        return Cost(self._epsilon, delta, rho, failure)


def _plans(
    lowered: list[Lowered], weights: list[Fraction], unit: Fraction, delta: Fraction | None
) -> list[Plan]:
    plans = []
    for low, weight in zip(lowered, weights, strict=True):
        ask = Ask(epsilon=weight * unit, delta=delta if low.selector is not None else None)
        plan = price(low, ask, noise="laplace")
        count_cells(plan)
        plans.append(plan)
    return plans


def losses(plan: Plan) -> list[p.PrivacyLoss]:
    """Losses of all parts of a plan, as drawn on their lattices."""
    low = plan.lowered
    parts: list[p.PrivacyLoss] = []
    pairs = [(law, v.sensitivity.l1, 1) for law, v in zip(plan.laws, low.vectors, strict=True)]
    pairs += [
        (law, t.sensitivity.l1, t.levels) for law, t in zip(plan.tree_laws, low.trees, strict=True)
    ]
    for law, moves, times in pairs:
        if isinstance(law, DiscreteLaplace):
            parts += [p.DiscreteLaplace(law.scale, moves)] * times
    for pick, epsilon in zip(low.picks, plan.pick_epsilons, strict=True):
        parts += [p.Pure(epsilon)] * (pick.top * groups_picked(low))
    return parts
