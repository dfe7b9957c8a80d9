"""Quotes: price, expected error and plan, before anything is touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from discreet._dataclass import dataclass, replace
from discreet._print import number
from discreet.answer import CURRENCIES, price
from discreet.plan import (
    Cost,
    Law,
    Level,
    OutputExpr,
    Plan,
    Priced,
    StatisticValue,
    Threshold,
    Total,
    Widths,
    level_of_each,
    possible,
    ratio_margin,
    statistics_of,
)

_LEVELS: Final = 4
"""Levels of totals whose margins are stated one by one."""


@dataclass(frozen=True)
class Quote:
    """What a query would cost and how exact its answer would be.

    Nothing here depends on the data: the same query on any table of this policy
    has the same quote.
    """

    plan: Plan
    sql: tuple[str, ...]
    left: str
    confidence: float = 0.95
    refused: str | None = None
    """Why the question would be refused now, and what would fit; None: it would be answered."""
    stored: bool = False
    """Whether the same question has been answered: it would be free."""
    choice: Plan | None = None
    """What chooses the limit first, with ``limits="auto"``: paid besides."""
    later: str | None = None
    """What it leaves to later questions, where it closes a way to pay."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What would run."""
        return (self.plan,) if self.choice is None else (self.choice, self.plan)

    @property
    def whole(self) -> Cost:
        """Price of everything that would run."""
        own, first = self.plan.cost, self.choice
        if first is None:
            return own
        return Cost(**{n: getattr(own, n) + getattr(first.cost, n) for n in CURRENCIES})

    @property
    def cost(self) -> dict[str, str]:
        """Price in every currency defined for it."""
        return self.whole.to_dict()

    @property
    def price(self) -> str:
        """Price in words: in the budget's currency, with its δ."""
        return price(self.cost, self.left)

    def error(self, confidence: float | None = None) -> dict[str, str]:
        """Expected margin of every output at a confidence, in words."""
        level = self.confidence if confidence is None else confidence
        found = {o.name: self._margin(o.expr, level) for o in self.plan.lowered.outputs}
        return {name: margin for name, margin in found.items() if margin is not None}

    def _margin(self, out: OutputExpr, level: float) -> str | None:
        """In words; None where nothing is known before."""
        lowered, outlets = self.plan.lowered, self.plan.outlets
        if not statistics_of(out):
            return None
        widths = Widths(lowered, [priced.noise for priced in outlets])
        each = level_of_each(lowered, out, level)
        if isinstance(out, StatisticValue):
            return self._of_levels(out, each, widths.levels)
        ratio = ratio_margin(out, lowered.formulas, lowered.values_of_one_row, outlets, each)
        return ratio or widths.words(out, level) or widths.ratio_words(out, level)

    def _of_levels(self, out: StatisticValue, confidence: float, levels: Sequence[Level]) -> str:
        """Margin of a statistic in words: of every level of totals, of many the two ends."""
        lowered, outlets = self.plan.lowered, self.plan.outlets
        formula, added = lowered.formulas[out.index], lowered.allowance(out.index)
        own = formula.margin(outlets, confidence) + added
        if not lowered.query.levels:
            return own
        if not levels:
            return f"{own}, more where rows add others up"
        shown = levels if len(levels) <= _LEVELS else (levels[0], levels[-1])
        margins: dict[str, list[Level]] = {}
        for each in shown:
            words = formula.margin(_with_laws(outlets, each.laws), confidence) + added
            margins.setdefault(words, []).append(each)
        if len(margins) == 1 and len(shown) == len(levels):
            return next(iter(margins))
        return "; ".join(f"{words} {' and '.join(map(str, x))}" for words, x in margins.items())

    @property
    def warnings(self) -> list[str]:
        """What to know before paying: that the answer would be noise, or mostly so."""
        lowered, notes = self.plan.lowered, []
        if self.choice is not None:
            cost = price(self.choice.cost.to_dict(), self.left)
            notes.append(f"{cost} of it chooses the limit; errors are those of the policy's")
        notes += dict.fromkeys((*possible(lowered.query), *lowered.cut))
        for formula in lowered.formulas:
            if not isinstance(formula, Total) or formula.step != 1 or not lowered.query.keys:
                continue
            law = self.plan.outlets[formula.vector].noise
            if law is not None:
                rows = 2 * law.interval(self.confidence).high
                notes.append(f"a group of fewer than about {rows:g} would be mostly noise")
                break
        if self.plan.least is not None and self.plan.cost.epsilon == self.plan.least.epsilon:
            notes.append("this is the least price of any question")
        if self.later is not None:
            notes.append(self.later)
        return notes

    def __repr__(self) -> str:
        plan, query = self.plan, self.plan.lowered.query
        own = plan.cost.to_dict() if self.choice is None else self.cost
        cost = "free: answered before" if self.stored else price(own, self.left)
        lines = [f"cost    {cost}"]
        if self.refused is not None and not self.stored:
            lines.append(f"        would be refused: {self.refused}")
        lines += [f"budget  {self.left}", f"noise   {plan.why}"]
        level = f"{100 * self.confidence:.4g} %"
        for name, margin in self.error().items():
            lines.append(f"error   {name}: {margin}" + f" at {level}" * (margin[:4] != "none"))
        lines += [f"note    {text}" for text in self.warnings]
        limits = query.limits
        unit = plan.lowered.aggregates[0].unit
        bound = ", ".join(
            _count(getattr(limits, f), f.replace("_", " "))
            for f in ("rows", "groups", "rows_per_group")
            if getattr(limits, f) is not None
        )
        lines.append(f"unit    {'each row' if unit is None else f'{unit}: at most {bound}'}")
        selector = None if plan.lowered.selector is None else plan.parts[plan.lowered.selector]
        if selector is not None and isinstance(law := selector.law, Threshold):
            what = "number" if law.scale == 1 else "weighted number"
            at = number(law.at / law.scale)
            lines.append(f"keys    shown when their noisy {what} of units reaches {at}")
        elif selector is not None:
            lines += [f"keys    {fact}" for fact in selector.part.facts(selector.law)]
        lines.append(f"plan    {plan.lowered.measured[:12]}")
        lines += ["        " + line for line in str(query).splitlines()]
        return "\n".join(lines)


def _with_laws(outlets: Sequence[Priced], laws: Sequence[Law | None]) -> list[Priced]:
    """The same parts with the noise of several cells added up, where it is a law."""
    pairs = zip(outlets, laws, strict=True)
    return [replace(x, law=law) if isinstance(x.law, Law) else x for x, law in pairs]


def _count(n: int, words: str) -> str:
    """So many rows or groups, one of them in the singular."""
    first, *rest = words.split(" ")
    return " ".join([str(n), first.removesuffix("s") if n == 1 else first, *rest])
