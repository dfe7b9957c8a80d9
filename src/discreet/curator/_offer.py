"""What the caller offers to pay, read exactly."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet import _exact
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.plan import Ask

if TYPE_CHECKING:
    from discreet.sql import Parsed, United


def read_offer(
    parsed: Parsed | United | None,
    epsilon: Number | None,
    delta: Number | None,
    rho: Number | None,
    within: Mapping[str, Number] | None = None,
    *,
    confidence: Number = 0.95,
) -> Ask:
    """Read ε (and δ), or ρ, or margins to be met: exactly one kind.

    The query's own OPTIONS say ε and δ where the call does not.
    """
    if parsed is not None:
        silent = epsilon is None and rho is None and within is None
        epsilon = parsed.epsilon if silent else epsilon
        delta = parsed.delta if delta is None else delta
    margins = None if within is None else read_margins(within)
    return Ask(
        epsilon=None if epsilon is None else _exact.epsilon(epsilon),
        delta=None if delta is None else _exact.delta(delta),
        rho=None if rho is None else _exact.epsilon(rho, "rho"),
        within=margins,
        confidence=_exact.confidence(confidence),
    )


def read_margins(within: Mapping[str, Number]) -> dict[str, Fraction]:
    """Read margins by output column."""
    if not isinstance(within, Mapping):
        raise ParameterError(
            "within= maps output columns to margins", hint=Hint("within", {"n": 25})
        )
    return {str(k): _exact.decimal(v, f"the margin of {k}") for k, v in within.items()}
