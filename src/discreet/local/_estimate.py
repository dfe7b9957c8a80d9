"""What all estimates share: counts, costs, intervals, words, charts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from discreet import _exact, _vega
from discreet import privacy as p_
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _charts
from discreet.local._aggregator import Tally
from discreet.local._intervals import NORMAL, POPULATION, Interval, normal_quantile, read_of

Bounds = tuple[Any, Any, str]
"""Lower ends, upper ends, and how they were found."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimate:
    """Base of all estimates; raw and unbiased unless a class says otherwise."""

    shown: ClassVar[str] = "frequencies"
    protocol: Any
    tally: Tally

    @property
    def n(self) -> int:
        """Reports counted."""
        return self.tally.n

    @property
    def refused(self) -> Mapping[str, int]:
        """Reports not counted, by reason."""
        return self.tally.refused

    @property
    def loss(self) -> p_.PrivacyLoss:
        """What taking part cost one unit."""
        return self.tally.loss

    @property
    def centre(self) -> Any:
        """The estimated shares or means."""
        return getattr(self, self.shown)

    @property
    def limits(self) -> tuple[float, float]:
        """Where the true numbers must lie."""
        return 0.0, 1.0

    @property
    def names(self) -> tuple[Any, ...]:
        """What the numbers are about."""
        return getattr(self, "labels", None) or tuple(range(np.size(self.centre)))

    @abstractmethod
    def bounds(self, error: float, of: str) -> Bounds:
        """Return ends that fail with probability at most `error` each, for every n."""

    def interval(
        self,
        confidence: Number = 0.95,
        *,
        simultaneous: bool = False,
        of: str = "population",
        exact: bool = True,
    ) -> Interval:
        """Return intervals; ``method`` on the result says how they were found.

        Parameters
        ----------
        confidence
            Level of each interval, or of all at once.
        simultaneous
            Let all intervals hold at once (Bonferroni).
        of
            ``"population"``: of the people the respondents were drawn from;
            ``"respondents"``: of the very people who answered (shorter; where offered).
        exact
            True: the level holds for every n. False: the normal approximation (central
            limit theorem), for the population.
        """
        level, covers = _exact.confidence(confidence), read_of(of)
        error = (1 - level) / (max(1, np.size(self.centre)) if simultaneous else 1)
        if exact:
            low, high, method = self.bounds(error, of)
            return Interval(low, high, level, covers, method, self.limits)
        errors: Any = self.standard_errors  # type: ignore[attr-defined]  # subclasses have it
        reach = normal_quantile(error) * errors
        low, high = self.centre - reach, self.centre + reach
        return Interval(low, high, level, POPULATION, NORMAL, self.limits)

    def chart(self, confidence: Number = 0.95, labels: Any = None) -> _vega.Chart:
        """Return bars with error bars, as Vega-Lite; ``save("shares.png")`` draws them."""
        names = self.names if labels is None else tuple(labels)
        return _charts.bars(self, names, self.centre, self.interval(confidence))

    def to_dict(self, confidence: Number = 0.95) -> dict[str, Any]:
        """Return estimates and intervals for JSON."""
        ends = self.interval(confidence)
        errors: Any = self.standard_errors  # type: ignore[attr-defined]  # subclasses have it
        numbers = {
            self.shown: self.centre, "standard_errors": errors, "low": ends.low, "high": ends.high,
        }  # fmt: skip
        return {
            "protocol": self.protocol.spec,
            "n": self.n,
            "refused": dict(self.refused),
            "epsilon": self.loss.epsilon(),
            **{k: np.asarray(v).tolist() for k, v in numbers.items()},
            "confidence": ends.confidence,
            "method": ends.method,
        }

    def __repr__(self) -> str:
        errors: Any = self.standard_errors  # type: ignore[attr-defined]  # subclasses have it
        pairs = list(zip(np.ravel(self.centre)[:8], np.ravel(errors)[:8], strict=True))
        text = ", ".join(f"{f:.4g} ± {1.959964 * s:.2g}" for f, s in pairs)
        more = ", …" if np.size(self.centre) > 8 else ""
        taint = "  [TEST NOISE: NOT PRIVATE]" if self.tally.tainted else ""
        return f"{text}{more} (95 %), n={self.n}{taint}"


def population_only(of: str) -> None:
    """Refuse intervals for the respondents where only the population's are known."""
    if of != "population":
        raise ParameterError(
            "for this protocol only intervals for the population are offered",
            hint=Hint("of", "population"),
        )
