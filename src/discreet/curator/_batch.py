"""Batches: several questions fixed in advance, composed tightly, charged once.

Because all parameters are fixed before anything runs, the losses may be
composed numerically (privacy loss distributions), which is not valid for
questions chosen one after another (design rule 5). Each question gets ε in
proportion to its weight; the common factor is the largest at which the losses
of all parts of all questions together stay within the (ε, δ) asked for. Without δ
that is plain addition.

Where a row is a unit and neighbours differ by one row more or less, questions whose WHEREs the
public types prove disjoint are asked of different people: together they cost as much as the
dearest of them (:func:`discreet.privacy.parallel`), and their weights count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Self

from discreet import _exact
from discreet._exact import Number
from discreet.answer import Answer
from discreet.errors import ParameterError
from discreet.plan import (
    Ask,
    Cost,
    Lowered,
    Plan,
    Query,
    apart,
    charge,
    fits,
    price,
    with_null_groups,
)
from discreet.privacy import Neighbours, PrivacyLoss, compose, parallel

if TYPE_CHECKING:
    from discreet.curator._curator import Curator
    from discreet.frame import Table
    from discreet.inference import Consistent

_STEPS = 12
"""Halvings of the common factor's range: within 0.03 % of the best."""


class Pending:
    """An answer that is there once its batch has closed."""

    def __init__(self) -> None:
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The answer; only after the ``with`` block."""
        if self._answer is None:
            raise ParameterError("the batch has not run yet: read answers after the with block")
        return self._answer

    def fill(self, answer: Answer) -> None:
        """Give the answer; once."""
        assert self._answer is None
        self._answer = answer

    def __repr__(self) -> str:
        return "pending: the batch has not run yet" if self._answer is None else repr(self._answer)


@dataclass(frozen=True)
class _Question:
    """One question of a batch, fixed when it is added."""

    lowered: Lowered
    weight: Fraction
    pending: Pending


class Batch:
    """Collects questions inside a ``with`` block and runs them when it closes.

    If the block raises, nothing is charged and nothing runs.
    """

    def __init__(
        self, curator: Curator, epsilon: Number, delta: Number | None, *, nulls: bool = False
    ) -> None:
        self._curator = curator
        self._epsilon = _exact.epsilon(epsilon)
        self._delta = None if delta is None else _exact.delta(delta)
        self._nulls = nulls
        self._questions: list[_Question] = []
        self._closed = False
        self.cost: Cost | None = None

    def sql(self, query: str, *, weight: Number = 1) -> Pending:
        """Add a SQL query; `weight` says how exact it is beside the others."""
        return self.ask(query, weight=weight)

    def ask(self, question: str | Table, *, weight: Number = 1) -> Pending:
        """Add a question: SQL text, or a table of the fluent API."""
        if self._closed:
            raise ParameterError("this batch has run; start another one")
        query = self._curator._question(question).query  # noqa: SLF001 - its own batch
        return self.add(query, weight=weight)

    def add(self, query: Query, *, weight: Number = 1) -> Pending:
        """Add a question that has been read."""
        asked = with_null_groups(query) if self._nulls else query
        lowered = self._curator._lowered(asked)  # noqa: SLF001 - as above
        part = _exact.positive(_exact.decimal(weight, "weight"), "weight")
        self._questions.append(_Question(lowered, part, Pending()))
        return self._questions[-1].pending

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
        questions = tuple(self._questions)
        if not questions:
            raise ParameterError("the batch is empty", hint='b.sql("SELECT COUNT(*) AS n FROM …")')
        plans, self.cost = self.priced()
        answers = self._curator._run(plans, self.cost)  # noqa: SLF001 - its own batch
        for question, answer in zip(questions, answers, strict=True):
            question.pending.fill(answer)

    def consistent(self) -> Consistent:
        """Fit the counts of all questions together, so that margins add up; after the block.

        Costs nothing. Every count becomes at least as exact as it was; see
        :func:`discreet.inference.consistent`. Rows without a key are in a margin and in none
        of its cells: where keys may be missing, ``batch(nulls=True)`` lets margins add up.
        """
        from discreet import inference  # noqa: PLC0415 - loaded when it is called

        asked = [(q.lowered.query, q.pending.answer) for q in self._questions]
        return inference.consistent(asked)

    def priced(self) -> tuple[list[Plan], Cost]:
        """Price all questions, and what they cost together."""
        plans = self._priced(tuple(self._questions))
        claim = (self._epsilon, self._delta or Fraction(0))
        return plans, charge(together(plans), claim)

    def _priced(self, questions: tuple[_Question, ...]) -> list[Plan]:
        groups = apart([q.lowered.query for q in questions])
        heaviest = [max(questions[i].weight for i in group) for group in groups]
        basic = self._epsilon / sum(heaviest, Fraction(0))
        keys = sum(q.lowered.selector is not None for q in questions)
        if self._delta is None:
            return _plans(questions, basic, None)
        # half of δ for key selections, if there are any; the rest for composition
        key_delta = self._delta / (2 * keys) if keys else None
        low, high = Fraction(1), Fraction(2)
        while self._fits(_plans(questions, basic * high, key_delta)):
            low, high = high, high * 2
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if self._fits(_plans(questions, basic * middle, key_delta)):
                low = middle
            else:
                high = middle
        return _plans(questions, basic * low, key_delta)

    def _fits(self, plans: list[Plan]) -> bool:
        losses = together(plans)
        # without any loss every factor fits, and none is needed
        return bool(losses) and fits(losses, self._epsilon, self._delta or Fraction(0))


def together(plans: Sequence[Plan]) -> list[PrivacyLoss]:
    """Losses of all questions; of those that ask about different people, the worst."""
    losses: list[PrivacyLoss] = []
    for group in apart([plan.lowered.query for plan in plans]):
        each = [plans[i].losses for i in group if plans[i].losses]
        if len(each) < 2:
            losses += [loss for some in each for loss in some]
        else:
            losses.append(parallel([compose(some) for some in each], Neighbours.ADD_REMOVE))
    return losses


def _plans(questions: tuple[_Question, ...], unit: Fraction, delta: Fraction | None) -> list[Plan]:
    return [
        price(
            q.lowered,
            Ask(epsilon=q.weight * unit, delta=delta if q.lowered.selector is not None else None),
            noise="laplace",
        )
        for q in questions
    ]
