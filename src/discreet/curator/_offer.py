"""What the caller offers to pay, as written and as parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from discreet import _exact
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.plan import Ask

if TYPE_CHECKING:
    from discreet.sql import Parsed


@dataclass(frozen=True)
class Offer:
    """ε (and δ), or ρ, or margins to be met: exactly one kind."""

    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    within: Mapping[str, Number] | None = None
    confidence: Number = 0.95

    def merged(self, parsed: Parsed) -> Offer:
        """Take ε and δ from the query's own OPTIONS unless the call says them."""
        offer = self
        if self.epsilon is None and self.rho is None and self.within is None:
            offer = replace(offer, epsilon=parsed.epsilon)
        return offer if self.delta is not None else replace(offer, delta=parsed.delta)

    def ask(self) -> Ask:
        """Read every amount exactly; refuse an offer that is not of one kind."""
        within = self.within
        if within is not None and not isinstance(within, Mapping):
            raise ParameterError(
                "within= maps output columns to margins", hint=Hint("within", {"n": 25})
            )
        return Ask(
            epsilon=None if self.epsilon is None else _exact.epsilon(self.epsilon),
            delta=None if self.delta is None else _exact.delta(self.delta),
            rho=None if self.rho is None else _exact.epsilon(self.rho, "rho"),
            within=None
            if within is None
            else {str(k): _exact.decimal(v, f"the margin of {k}") for k, v in within.items()},
            confidence=_exact.confidence(self.confidence),
        )
