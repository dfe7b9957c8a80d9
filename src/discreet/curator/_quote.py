"""Quotes: price, expected error and plan, before anything is touched."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.answer._show import number
from discreet.plan import Plan, describe
from discreet.plan._formula import Mean, Mode, Quantile, Spread, Total
from discreet.plan._query import Of


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

    @property
    def cost(self) -> dict[str, str]:
        """Price in every currency defined for it."""
        cost = self.plan.cost
        return {n: str(getattr(cost, n)) for n in ("epsilon", "delta", "rho", "rho_delta")}

    def error(self, confidence: float | None = None) -> dict[str, str]:
        """Expected margin of every output at a confidence, in words."""
        confidence = self.confidence if confidence is None else confidence
        lowered = self.plan.lowered
        said = {}
        for output in lowered.query.outputs:
            if not isinstance(output.expr, Of):
                continue
            said[output.name] = self._margin(lowered.formulas[output.expr.index], confidence)
        return said

    def _margin(self, formula: object, confidence: float) -> str:
        laws = self.plan.laws

        def half(vector: int, level: float) -> float:
            law = laws[vector]
            return 0.0 if law is None else float(law.interval(level).high)

        split = 1 - (1 - confidence) / 2
        match formula:
            case Total(vector, step):
                margin = half(vector, confidence) * float(step)
                return f"± {number(margin, margin or None)}"
            case Mean(total, count, _, step, _, _):
                margin = half(total, split) * float(step)
                return (
                    f"± about {number(margin, margin)}/n "
                    f"(and ± {number(half(count, split))} on n rows)"
                )
            case Spread():
                return "± follows from noisy moments; see the interval of the answer"
            case Quantile(tree, _):
                scale = self.plan.tree_laws[tree].variance ** 0.5
                return f"ranks off by about {number(round(4 * scale))} rows"
            case Mode():
                return "a selection: no margin"
        raise AssertionError(formula)

    def __repr__(self) -> str:
        plan = self.plan
        lines = [f"cost    {plan.cost}", f"left    {self.left}", f"noise   {plan.why}"]
        level = f"{100 * self.confidence:.4g} %"
        lines += [f"error   {name}: {margin} at {level}" for name, margin in self.error().items()]
        limits = plan.lowered.query.limits
        unit = plan.lowered.aggregates[0].unit
        bound = ", ".join(
            f"{getattr(limits, f)} {f.replace('_', ' ')}"
            for f in ("rows", "groups", "rows_per_group")
            if getattr(limits, f) is not None
        )
        lines.append(f"unit    {'one row' if unit is None else unit}: at most {bound}")
        if plan.threshold is not None:
            lines.append(
                f"keys    shown when their noisy number of units reaches {plan.threshold.at}"
            )
        lines.append(f"plan    {plan.lowered.query.hash[:12]}")
        lines += ["        " + line for line in describe(plan.lowered.query).splitlines()]
        return "\n".join(lines)
