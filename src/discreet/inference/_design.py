"""How many people an interval or a test needs, before anything is asked.

The margin that is promised is the margin that a curator shows: the question is planned and
priced as it would be, its record is filled with the numbers expected of n people, without
noise, and the population interval of that record is measured. It cannot differ from what
is shown later but by what the noise and the sample do to one answer.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from discreet import _exact
from discreet import policy as pol
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.answer import Answer
from discreet.curator import fresh_salt, measure
from discreet.engines import Reference
from discreet.errors import Hint, ParameterError
from discreet.inference._needed import Silent
from discreet.inference._population import population_interval
from discreet.inference._ump import ump_power
from discreet.plan import Ask, Plan, lower, price
from discreet.sql import parse

if TYPE_CHECKING:
    from discreet.plan import Aggregate, Groups, Salt

_MOST = 10**12


def sample_size(
    *,
    epsilon: Number,
    within: Number | None = None,
    p: Number = "0.5",
    sd: Number | None = None,
    low: Number = 0,
    high: Number = 1,
    confidence: Number = 0.95,
    p0: Number | None = None,
    p1: Number | None = None,
    power: Number = "0.8",
    alpha: Number = 0.05,
    neighbours: Literal["add-remove", "change-one"] = "add-remove",
    nullable: bool = True,
) -> int:
    """Return the least number of people for a margin, or for the power of a test, at ε.

    Parameters
    ----------
    within, confidence
        Half-width of the population interval that a curator shows for a share (``AVG`` of a
        truth value), or for a mean (``AVG`` beside ``STDDEV``) if `sd` is given.
    p
        The share; one half needs the most people.
    sd, low, high
        Standard deviation of one value and its public bounds, for a mean in their middle. Bounds
        without `sd` are refused: the spread of the values decides.
    neighbours
        The policy's relation: under "change-one" the number of people is public.
    nullable
        Whether the policy lets the column hold NULL, as it does unless a column says ``null =``.
        Under "change-one" how many people have a value is then not public, and more are needed.
    p0, p1, power, alpha
        Instead: the one-sided test of a share of `p0` should find `p1` with this
        probability. No private test needs fewer people (:func:`ump_power`).

    Notes
    -----
    Every person has one row with a value, and the question is asked alone at this ε.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> inf.sample_size(within="0.05", epsilon=1), inf.sample_size(within="0.05", epsilon="0.1")
    (449, 731)
    >>> inf.sample_size(p0="0.5", p1="0.55", epsilon=1)
    624
    """
    eps = _exact.epsilon(epsilon)
    if (within is None) == (p0 is None and p1 is None):
        raise ParameterError(
            "say the margin to be met, or the two shares to be told apart",
            hint=Hint("within", "0.02"),
        )
    if within is None:
        if p0 is None or p1 is None:
            raise ParameterError(
                "a test tells p0 from p1: give both", hint=Hint("p0", "0.5").also("p1", "0.6")
            )
        aim = _exact.confidence(power, "power")
        # power rises with n but for the ripples of a discrete law
        return _least(lambda n: ump_power(n, p0, p1, epsilon=epsilon, alpha=alpha) >= aim)
    margin = float(_exact.positive(_exact.decimal(within, "within"), "within", example="0.02"))
    level = _exact.confidence(confidence)
    a, b = _exact.exact(low, "low"), _exact.exact(high, "high")
    if not a < b:
        raise ParameterError("low must be below high", hint=Hint("low", 0).also("high", 100))
    share = _exact.confidence(p, "p")
    if sd is None:
        _check_share(margin, a, b)
        column = pol.Boolean("x") if nullable else pol.Boolean("x", null=False)
        question = _Question(column, "SELECT AVG(x) AS x FROM t", eps, neighbours, (True, False))
    else:
        question = _mean(_exact.exact(sd, "sd"), (a, b), eps, neighbours, nullable=nullable)
        share = 0.5
    return _least(lambda n: question.margin(n, share, level) <= margin)


def _check_share(margin: float, low: Fraction, high: Fraction) -> None:
    """Refuse what was meant for a mean: without a deviation a share is planned."""
    if low != 0 or high != 1:
        raise ParameterError(
            "bounds are those of a mean, and its margin needs the standard deviation of one value",
            hint=_deviation(low, high),
        )
    if margin >= 1:
        raise ParameterError(
            f"a share lies between 0 and 1, so that a margin of {margin:g} says nothing; "
            "for a mean say sd, low and high",
            hint=Hint("within", "0.02"),
        )


def _deviation(low: Fraction, high: Fraction) -> Hint:
    """Suggest a deviation that the bounds allow."""
    part = (high - low) / 4
    return Hint("sd", int(part) if part.denominator == 1 else _exact.show(part))


def _mean(
    sd: Fraction,
    bounds: tuple[Fraction, Fraction],
    epsilon: Fraction,
    neighbours: str,
    *,
    nullable: bool,
) -> _Question:
    """Plan a mean of values that lie one deviation above and below the middle."""
    low, high = bounds
    if not 0 < 2 * sd <= high - low:
        raise ParameterError(
            "a deviation is positive, and at most half of the range", hint=_deviation(low, high)
        )
    column = pol.Real("x", min=low, max=high, null=None if nullable else low)
    values = float((low + high) / 2 + sd), float((low + high) / 2 - sd)
    return _Question(
        column, "SELECT AVG(x) AS x, STDDEV(x) AS s FROM t", epsilon, neighbours, values
    )


@dataclass(frozen=True)
class _Question:
    """One question about people who have one of two values."""

    column: pol.Column
    question: str
    epsilon: Fraction
    neighbours: str
    values: tuple[Any, Any]

    @cached_property
    def _plan(self) -> Plan:
        table = pol.Table("t", [self.column], neighbours=self.neighbours)
        policy = pol.Policy([table], pol.Budget(self.epsilon), name="planned")
        return price(lower(parse(self.question, policy).query), Ask(self.epsilon))

    @cached_property
    def _each(self) -> dict[Aggregate, list[Groups]]:
        """What one person of each kind adds to every sum."""
        people = [Reference({"t": [{"x": value}]}) for value in self.values]
        measured = [a for a in self._plan.lowered.aggregates if a.measures]
        return {a: [p.execute(a, fresh_salt()) for p in people] for a in measured}

    def margin(self, n: int, share: float, level: float) -> float:
        """Half of what the population interval is long, at the numbers expected of n people."""
        first = round(n * share)
        expected = _Expected(self._each, (first, n - first))
        record = measure(self._plan, expected, fresh_salt(), Silent())
        low, high = population_interval(Answer(record), level)[0]["x"]
        return float(high - low) / 2


class _Expected(Reference):
    """An engine that adds up people of two kinds."""

    def __init__(self, each: dict[Aggregate, list[Groups]], counts: tuple[int, int]) -> None:
        super().__init__({})
        self.each, self.counts = each, counts

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Sums are linear in the people."""
        del salt
        first, second = (groups[()] for groups in self.each[aggregate])
        a, b = self.counts
        return {(): tuple(a * x + b * y for x, y in zip(first, second, strict=True))}


def _least(enough: Callable[[int], bool]) -> int:
    high = 2
    while not enough(high):
        high *= 2
        if high > _MOST:
            raise ParameterError(f"more than {_MOST} people would be needed")
    return _exact.turning(enough, 1, high)[1]
