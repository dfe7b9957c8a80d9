"""Quotes: price, expected error and plan, before anything is touched."""

from __future__ import annotations

from dataclasses import dataclass

from discreet._exact import show
from discreet._print import number, short
from discreet.plan import Plan, StatisticValue, describe, level_of_each


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

    @property
    def cost(self) -> dict[str, str]:
        """Price in every currency defined for it."""
        return self.plan.cost.to_dict()

    def error(self, confidence: float | None = None) -> dict[str, str]:
        """Expected margin of every output at a confidence, in words."""
        level = self.confidence if confidence is None else confidence
        lowered = self.plan.lowered
        return {
            output.name: lowered.formulas[output.expr.index].margin(
                self.plan.outlets, level_of_each(lowered, output.expr, level)
            )
            for output in lowered.outputs
            if isinstance(output.expr, StatisticValue)
        }

    def __repr__(self) -> str:
        plan, query = self.plan, self.plan.lowered.query
        cost = f"ρ {short(plan.cost.rho)}" if self.left.startswith("ρ") else None
        cost = cost or f"ε {show(plan.cost.epsilon)}"
        lines = [f"cost    {'free: answered before' if self.stored else cost}"]
        if self.refused is not None and not self.stored:
            lines.append(f"        would be refused: {self.refused}")
        lines += [f"budget  {self.left}", f"noise   {plan.why}"]
        level = f"{100 * self.confidence:.4g} %"
        lines += [f"error   {name}: {margin} at {level}" for name, margin in self.error().items()]
        limits = query.limits
        unit = plan.lowered.aggregates[0].unit
        bound = ", ".join(
            f"{getattr(limits, f)} {f.replace('_', ' ')}"
            for f in ("rows", "groups", "rows_per_group")
            if getattr(limits, f) is not None
        )
        lines.append(f"unit    {'one row' if unit is None else unit}: at most {bound}")
        if plan.lowered.selector is not None:
            law = plan.parts[plan.lowered.selector].law
            what = "number" if law.scale == 1 else "weight"
            at = number(law.at / law.scale)
            lines.append(f"keys    shown when their noisy {what} of units reaches {at}")
        lines.append(f"plan    {query.hash[:12]}")
        lines += ["        " + line for line in describe(query).splitlines()]
        return "\n".join(lines)
