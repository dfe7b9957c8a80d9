r"""Batches: several questions fixed in advance, priced together, charged once.

Because all parameters are fixed before anything runs, the losses may be
composed numerically (privacy loss distributions), which is not valid for
questions chosen one after another (design rule 5).

One price for all
-----------------
Where a row is a unit and neighbours differ by one row more or less, questions whose WHEREs the
public types prove disjoint are asked of different people: a *group* of them costs as much as its
dearest (:func:`discreet.privacy.parallel`), so at equal weights each gets all of the group's share.

Let question i have k draws and weight w; in a group whose largest weight is W it gets w/W of the
group's share of ε (the square of that, of ρ). At a share s of ε the standard deviation of each of
its numbers, relative to its sensitivity, goes with k/s; at a share of ρ with :math:`\sqrt{k/s}`.
Shares minimise the sum of variances over all draws of all questions, weighed (by w³, by w⁴) so that
weights are shares of ε where all questions stand alone and have one draw:

.. math:: \min\sum_g \sum_{i\in g} w_i W_g^2 k_i^3/s_g^2 \;\Rightarrow\; s_g \propto
   \Big(\sum_{i\in g} w_i W_g^2 k_i^3\Big)^{1/3}, \qquad
   \min\sum_g \sum_{i\in g} w_i^2 W_g^2 k_i^2/s_g \;\Rightarrow\; s_g \propto
   \Big(\sum_{i\in g} w_i^2 W_g^2 k_i^2\Big)^{1/2},

by Laplace and by Gaussian noise, as :math:`\sum_g s_g` is what one unit's whole contribution loses
(Lagrange; both are convex). So every draw of an undivided table gets the same share, and a
partition that many questions are about gets more than a question that stands alone. Whatever the
shares are, what is charged is composed from the losses of the parts.

Without δ the shares add up to ε. With δ the common factor is the largest at which all losses
together stay within (ε, δ), for Laplace noise and for Gaussian noise; the smaller sum of variances
is taken (with a budget in ρ alone, the smaller ρ).

Margins first
-------------
Without ε each question states ``within``: its laws are the least that meet its margins, and the
price of all is what their losses compose to, by Laplace or by Gaussian noise, whichever is lower
in the budget's currency. With δ the ε is the least, rounded up to four digits, at which the
composed losses fit (ε, δ). Of a budget that pays by ε or by ρ, the law is taken that leaves more
(:mod:`discreet.curator._room`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from discreet import _exact
from discreet._dataclass import dataclass, replace
from discreet._exact import Number, turning
from discreet.answer import Answer
from discreet.curator._offer import read_margins
from discreet.curator._room import (
    check_delta,
    fitting_delta,
    pays_either,
    pays_rho,
    room_after,
    stated_at,
)
from discreet.curator._stored import job
from discreet.errors import Hint, ParameterError
from discreet.plan import (
    Ask,
    Cost,
    Count,
    Lowered,
    Noise,
    Plan,
    Query,
    about_same_rows,
    apart,
    base,
    charge,
    fits,
    keeps_same_rows,
    price,
    rounded_up,
    with_null_groups,
)
from discreet.privacy import Neighbours, PrivacyLoss, Zcdp, compose, gaussian_sigma, parallel

Margins = Mapping[str, Number]
"""Largest half-widths of intervals, by output column."""

if TYPE_CHECKING:
    from discreet.curator._curator import Curator
    from discreet.frame import Table
    from discreet.inference import Consistent

_Groups = list[list[int]]
"""Places of questions, those that are asked of different people together."""

_Priced = tuple[list[Plan], Cost]
"""All questions by one law, and what they cost together."""

_STEPS = 12
"""Halvings of the common factor's range: within 0.03 % of the best."""

_HEAVIEST = 10**6
"""Largest weight of a question; the least is its inverse."""

_KINDS = 24
"""Kinds of units that are composed one by one."""


_APART = "limits keep other rows in each question, so margins differ: batch(consistent=True)"


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
    margins: Ask | None = None


class Batch:
    """Collects questions inside a ``with`` block and runs them when it closes.

    If the block raises, nothing is charged and nothing runs.
    """

    def __init__(
        self,
        curator: Curator,
        epsilon: Number | None,
        delta: Number | None,
        *,
        nulls: bool = False,
        consistent: bool = False,
    ) -> None:
        self._curator = curator
        self._offer = None if epsilon is None else _exact.epsilon(epsilon)
        self._delta = None if delta is None else _exact.delta(delta)
        self._nulls = nulls
        self._agree = consistent
        self._questions: list[_Question] = []
        self._closed = False
        self.cost: Cost | None = None

    @property
    def _weights(self) -> list[int]:
        """How much each of its questions is."""
        return [q.lowered.query.weight for q in self._questions]

    def sql(self, query: str, **how: Any) -> Pending:
        """Add a SQL query; the parameters are those of :meth:`ask`."""
        return self.ask(query, **how)

    def ask(
        self,
        question: str | Table,
        *,
        weight: Number = 1,
        within: Margins | None = None,
        confidence: Number = 0.95,
    ) -> Pending:
        """Add a question: SQL text, or a table of the fluent API.

        Parameters
        ----------
        question
            What to ask.
        weight
            How exact it is beside the others, where the batch has an ε.
        within, confidence
            Where it has none: the largest half-width of an interval, by output column. The
            batch then costs the least that meets all margins.
        """
        if self._closed:
            raise ParameterError("this batch has run; start another one")
        query = self._curator._question(question).query  # noqa: SLF001 - its own batch
        return self._add(query, weight=weight, within=within, confidence=confidence)

    def _add(
        self,
        query: Query,
        *,
        weight: Number = 1,
        within: Margins | None = None,
        confidence: Number = 0.95,
    ) -> Pending:
        """Add a question that was read under the curator's own policy, and by nobody else."""
        question = with_null_groups(query) if self._nulls else query
        lowered = self._curator._lowered(question)  # noqa: SLF001 - as above
        part = _exact.positive(_exact.decimal(weight, "weight"), "weight")
        if not Fraction(1, _HEAVIEST) <= part <= _HEAVIEST:
            raise ParameterError(
                "a weight lies between a millionth and a million", hint=Hint("weight", 10)
            )
        margins = None if within is None else read_margins(within)
        if (self._offer is None) != (margins is not None):
            raise ParameterError(
                "a batch has a price for all its questions, or margins for each of them: "
                "state epsilon= for the batch, or within= with every question",
                hint=Hint("epsilon", "1") if margins is None else "curator.batch()",
            )
        ask = (
            None
            if margins is None
            else Ask(within=margins, confidence=_exact.confidence(confidence))
        )
        self._questions.append(_Question(lowered, part, Pending(), ask))
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
        if not self._questions:
            raise ParameterError("the batch is empty", hint='b.sql("SELECT COUNT(*) AS n FROM …")')
        plans, self.cost = Batch.priced(self)  # no other price than this one is charged
        answers = self._curator._run(plans, self.cost)  # noqa: SLF001 - its own batch
        for question, answer in zip(self._questions, answers, strict=True):
            question.pending.fill(answer)

    def consistent(self) -> Consistent:
        """Fit the counts of all questions together, so that margins add up; after the block.

        Costs nothing. Every count becomes at least as exact as it was; see
        :func:`discreet.inference.consistent`. Rows without a key are in a margin and in none
        of its cells: where keys may be missing, ``batch(nulls=True)`` lets margins add up. Where
        a unit may have several rows, it needs ``batch(consistent=True)``.
        """
        from discreet import inference  # noqa: PLC0415 - loaded when it is called

        pairs = [(q.lowered.query, q.pending.answer) for q in self._questions]
        return inference.consistent(pairs)

    @property
    def _fixed(self) -> tuple[_Question, ...]:
        """The questions as they are measured: about the same rows, where they are to agree."""
        questions = tuple(self._questions)
        if not self._agree or not questions:
            return questions
        from discreet import inference  # noqa: PLC0415 - loaded when it is called

        queries = [q.lowered.query for q in questions]
        inference.check_consistent(queries)
        return tuple(
            replace(question, lowered=self._curator._lowered(query))  # noqa: SLF001 - its own batch
            for question, query in zip(questions, about_same_rows(queries), strict=True)
        )

    def priced(self) -> tuple[list[Plan], Cost]:
        """Price all questions, and what they cost together."""
        check_delta(self._curator._balances, self._delta)  # noqa: SLF001 - its own batch
        if self._offer is not None:
            # the least price is charged anyway: it buys as much accuracy
            self._offer = max(self._offer, self._curator._standing.least.epsilon)  # noqa: SLF001 - as above
        with fitting_delta(self._curator._balances, self._delta):  # noqa: SLF001 - its own batch
            plans, cost = self._all_priced()
        if not self._agree and _apart_in_truth([plan.lowered.query for plan in plans]):
            plans = [replace(plan, notes=(*plan.notes, _APART)) for plan in plans]
        return plans, self._curator._road.owed(cost)  # noqa: SLF001 - its own batch

    def _all_priced(self) -> tuple[list[Plan], Cost]:
        questions = self._fixed
        groups = apart([q.lowered.query for q in questions])
        if self._offer is None:
            return self._meeting(questions, groups)
        plans = self._priced(questions, groups)
        claim = (self._epsilon, self._delta or Fraction(0))
        return plans, charged(together(plans, groups), claim)

    @property
    def _epsilon(self) -> Fraction:
        assert self._offer is not None
        return self._offer

    def _key_delta(self, questions: tuple[_Question, ...]) -> Fraction | None:
        """Half of δ for key selections, if there are any; the rest is for composition."""
        keys = sum(q.lowered.selector is not None for q in questions)
        return self._delta / (2 * keys) if keys and self._delta else None

    def _meeting(
        self, questions: tuple[_Question, ...], groups: _Groups
    ) -> tuple[list[Plan], Cost]:
        """Price margins: the cheaper of Laplace and Gaussian noise for all questions."""
        each, rho = self._key_delta(questions), pays_rho(self._curator._balances)  # noqa: SLF001 - its own batch
        either = pays_either(self._curator._balances)  # noqa: SLF001 - as above
        kinds: tuple[Noise, ...] = ("laplace",)
        smooth = all(part.gaussian for q in questions for part in q.lowered.parts)
        if smooth and (rho or either or self._delta is not None):
            kinds = ("laplace", "gaussian")
        candidates = []
        for kind in kinds:
            plans = [_meeting(question, kind, each) for question in questions]
            candidates.append((plans, self._composed(together(plans, groups))))
        if (known := self._known(candidates)) is not None:
            return known
        if either:
            return max(candidates, key=lambda pair: self._room(pair[1]))
        return min(candidates, key=lambda pair: pair[1].rho if rho else pair[1].epsilon)

    def _known(self, candidates: Sequence[_Priced]) -> _Priced | None:
        """Whichever of several laws these questions were answered by: they are free."""
        if len(candidates) < 2 or "epsilon" not in self._curator._balances[0].amounts:  # noqa: SLF001 - its own batch
            return None  # the same law is chosen again
        road = self._curator._road  # noqa: SLF001 - as above
        return next((x for x in candidates if road.knows(job(x[0], road.owed(x[1]), str))), None)

    def _room(self, cost: Cost) -> Fraction:
        """What a price leaves of the budget: decides where it can be paid in two ways."""
        now = self._curator._standing  # noqa: SLF001 - its own batch
        return room_after(now.balances, cost, now.least)

    def _composed(self, units: Units) -> Cost:
        """What losses cost: their sum, or the least ε at which they fit δ."""
        delta = self._delta or stated_at(self._curator._balances)  # noqa: SLF001 - its own batch
        if self._delta is None and all(isinstance(x.top, Fraction) for one in units for x in one):
            return charged(units)
        claim = rounded_up(max(_least(one, delta) for one in units))
        # bounds of ε by δ and of δ by ε are rounded apart
        for _ in range(_STEPS):
            if all(fits(one, claim, delta) for one in units):
                break
            claim = rounded_up(claim * Fraction(1001, 1000))
        return charged(units, (claim, delta))

    def _priced(self, questions: tuple[_Question, ...], groups: _Groups) -> list[Plan]:
        if self._delta is None:
            return _plans(questions, _shares(questions, groups, rho=False), self._epsilon, None)
        each = self._key_delta(questions)
        laplace = self._laplace(questions, groups, each)
        try:
            gaussian = self._gaussian(questions, groups, each, self._delta / (2 if each else 1))
        except ParameterError:
            return laplace  # a question that is priced by ε alone
        if not self._fits(gaussian, groups):
            return laplace
        both, claim = (laplace, gaussian), (self._epsilon, self._delta)
        costs = [charged(together(plans, groups), claim) for plans in both]
        if (known := self._known(list(zip(both, costs, strict=True)))) is not None:
            return known[0]
        if pays_rho(self._curator._balances):  # noqa: SLF001 - its own batch
            return min(both, key=lambda plans: _rho(plans, groups))
        smaller = min(both, key=lambda plans: sum(plan.spread for plan in plans))
        if not pays_either(self._curator._balances):  # noqa: SLF001 - its own batch
            return smaller
        first, second = map(self._room, costs)
        return gaussian if second >= first and (smaller is gaussian or first < 0) else laplace

    def _laplace(
        self, questions: tuple[_Question, ...], groups: _Groups, key_delta: Fraction | None
    ) -> list[Plan]:
        shares = _shares(questions, groups, rho=False)

        def plans(factor: Fraction) -> list[Plan]:
            return _plans(questions, shares, self._epsilon * factor, key_delta)

        low, high = Fraction(1), Fraction(2)
        while self._fits(plans(high), groups):
            low, high = high, high * 2
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if self._fits(plans(middle), groups):
                low = middle
            else:
                high = middle
        return plans(low)

    def _gaussian(
        self,
        questions: tuple[_Question, ...],
        groups: _Groups,
        key_delta: Fraction | None,
        left: Fraction,
    ) -> list[Plan]:
        shares = _shares(questions, groups, rho=True)

        def plans(rho: Fraction) -> list[Plan]:
            return _plans(questions, shares, rho, key_delta, gaussian=True)

        parts = [part for q in questions for part in q.lowered.parts]
        if len(groups) == len(questions) and all(part.gaussian for part in parts):
            # what Gaussian noise on real numbers would need; on integers it is a hair more
            most = 1 / (2 * Fraction(gaussian_sigma(1, self._epsilon, left)) ** 2)
            for less in (12, 9, 6):
                candidate = plans(most * (1 - Fraction(1, 2**less)))
                if self._fits(candidate, groups):
                    return candidate
        # choices and disjoint questions are composed by their ρ
        fine = Fraction(1, 2**60)
        _, over = turning(lambda r: Zcdp(r * fine).delta(self._epsilon) > left, 1, 2**70)
        return plans((over - 1) * fine * (1 - Fraction(1, 2**30)))  # a hair for rounding

    def _fits(self, plans: list[Plan], groups: _Groups) -> bool:
        units, delta = together(plans, groups), self._delta or Fraction(0)
        # without any loss every factor fits, and none is needed
        return any(units) and all(fits(one, self._epsilon, delta) for one in units)


def _shares(questions: Sequence[_Question], groups: _Groups, *, rho: bool) -> list[Fraction]:
    """Share of each question, of ε or of ρ, such that the largest of all groups add up to one."""
    power = 2 if rho else 1
    draws = 2 if rho else 3
    tops = [max(questions[i].weight for i in group) for group in groups]
    sizes = []
    for group, top in zip(groups, tops, strict=True):
        each = ((float(questions[i].weight), questions[i].lowered.draws) for i in group)
        total = sum(w**power * float(top) ** 2 * k**draws for w, k in each)
        sizes.append(Fraction(f"{total ** (1 / draws):.6g}"))
    whole = sum(sizes, Fraction(0)) or Fraction(1)
    shares = {
        i: size / whole * (questions[i].weight / top) ** power
        for group, size, top in zip(groups, sizes, tops, strict=True)
        for i in group
    }
    # what no unit moves costs nothing, but has a price like any other
    return [shares[i] or Fraction(1) for i in range(len(questions))]


def _plans(
    questions: Sequence[_Question],
    shares: Sequence[Fraction],
    unit: Fraction,
    key_delta: Fraction | None,
    *,
    gaussian: bool = False,
) -> list[Plan]:
    """Questions at their shares of ε or, with Gaussian noise, of ρ."""
    plans = []
    for question, share in zip(questions, shares, strict=True):
        delta = key_delta if question.lowered.selector is not None else None
        amount = share * unit
        ask = Ask(rho=amount, delta=delta) if gaussian else Ask(epsilon=amount, delta=delta)
        plans.append(price(question.lowered, ask, noise="laplace"))
    return plans


def _meeting(question: _Question, kind: Noise, key_delta: Fraction | None) -> Plan:
    """Price one question by its margins, with noise of one kind."""
    assert question.margins is not None
    delta = key_delta if question.lowered.selector is not None else None
    return price(question.lowered, replace(question.margins, delta=delta), noise=kind)


def _rho(plans: Sequence[Plan], groups: _Groups) -> Fraction:
    units = [one for one in together(plans, groups) if one]
    return max((Fraction(compose(one).zcdp().rho0) for one in units), default=Fraction(0))


def _least(losses: list[PrivacyLoss], delta: Fraction) -> Fraction:
    """Return about the least ε at which losses fit δ; above zero."""
    failures = sum((loss.mass_at_infinity for loss in losses if loss.top == 0), Fraction(0))
    rest = [loss for loss in losses if loss.top != 0]
    epsilon = Fraction(compose(rest).epsilon(delta - failures)) if rest else Fraction(0)
    return max(epsilon, Fraction(1, 10**9))


def _apart_in_truth(queries: Sequence[Query]) -> bool:
    """Whether counts look like margins of one table, and limits keep other rows in each."""
    first = queries[0]
    margins = len({q.keys for q in queries}) > 1
    margins = margins and all(q.relation == first.relation for q in queries)
    counts = all(q.statistics == (Count(),) for q in queries)
    # limits stand where a column is the unit
    limited = base(first.relation).table.unit is not None
    return limited and margins and counts and not keeps_same_rows(queries)


Units = list[list[PrivacyLoss]]
"""For every kind of unit, the losses that it meets; no unit loses more than one of these lists."""


def together(plans: Sequence[Plan], groups: _Groups) -> Units:
    """Losses of all questions, for units that each meet one question of every group.

    All questions are fixed before anything runs, so which of them a unit meets is fixed too:
    what it loses is the composition of these alone. Where there are many kinds of units, the
    worst question of each group stands for all (a bound for each of them).
    """
    kinds = [list(dict.fromkeys(tuple(plans[i].losses) for i in group)) for group in groups]
    if math.prod(map(len, kinds)) <= _KINDS:
        return [[loss for some in choice for loss in some] for choice in product(*kinds)]
    losses: list[PrivacyLoss] = []
    for some in kinds:
        each = [kind for kind in some if kind]
        if len(each) < 2:
            losses += [loss for kind in each for loss in kind]
        else:
            losses.append(parallel([compose(kind) for kind in each], Neighbours.ADD_REMOVE))
    return [losses]


def charged(units: Units, claim: tuple[Fraction, Fraction] | None = None) -> Cost:
    """Cost of whichever unit loses most, in each currency."""
    return reduce(Cost.at_least, [charge(one, claim) for one in units])
