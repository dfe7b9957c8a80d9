"""What malicious clients can do: no local protocol avoids it, all can be compared.

A fake client sends whatever report moves the estimate most. With a share β of fake
clients an item's estimated share moves by β·(gain − f), gain = (1−q)/(p−q): every
fake report supports the item, and debiasing enlarges it. The smaller ε, the larger the gain:
privacy for the honest is leverage for the dishonest (Cheu, Smith, Ullman, S&P 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.local._categorical import (
    KaryResponse,
    OptimizedUnary,
    RandomizedResponse,
    SymmetricUnary,
)
from discreet.local._hadamard import HadamardResponse
from discreet.local._hashing import LocalHashing
from discreet.local._heavy import HeavyHitters
from discreet.local._keyvalue import KeyValue
from discreet.local._mean import LocalMean
from discreet.local._ordinal import Hierarchy
from discreet.local._rappor import Rappor
from discreet.local._sketch import CountMeanSketch, HadamardSketch
from discreet.local._subset import SubsetSelection
from discreet.local._vector import LocalVector


@dataclass(frozen=True, slots=True)
class Gain:
    """Leverage of fake clients on one estimate.

    Attributes
    ----------
    protocol, epsilon
        Which protocol at which ε.
    gain
        Shift of one share (or of a mean, in half ranges) per unit share of fake clients.
    fakes
        Share of fake clients that moves a share by five points.
    targets
        How many items one fake report can promote at once.
    """

    protocol: str
    epsilon: float
    gain: float
    targets: str

    @property
    def fakes(self) -> float:
        """Share of fake clients that moves the estimate by 0.05."""
        return 0.05 / self.gain


def manipulation(epsilons: Sequence[Number] = ("0.5", 1, 2, 4), domain: int = 64) -> list[Gain]:
    """Return the manipulation gain of each protocol.

    Eight coordinates for :class:`LocalVector`, 32 bits for :class:`HeavyHitters` (every fake
    joins the last level). The square wave is not linear and has no one number.

    Examples
    --------
    >>> from discreet import local
    >>> rows = local.manipulation([1])
    >>> {r.protocol: round(r.gain, 2) for r in rows}["OptimizedUnary"]
    3.16
    """
    rows = []
    for eps in epsilons:
        protocols: tuple[tuple[Any, str], ...] = (
            (RandomizedResponse(epsilon=eps), "1"),
            (KaryResponse(domain, eps), "1"),
            (SymmetricUnary(domain, eps), "all"),
            (OptimizedUnary(domain, eps), "all"),
            (LocalHashing(domain, eps), "a few, by search for a seed"),
            (SubsetSelection(domain, eps), "as many as a set holds"),
            (HadamardResponse(domain, eps, blocks=1), "all (column 0 supports every item)"),
            (LocalMean(eps, method="duchi"), "1"),
            (LocalMean(eps, method="piecewise"), "1"),
            (CountMeanSketch(eps), "all"),
            (HadamardSketch(eps), "all (column 0 supports every item)"),
            (KeyValue(domain, eps), "all"),
            (LocalVector(8, eps), "as many as are reported"),
            (HeavyHitters(32, eps), "a few, by search for a seed"),
            (Hierarchy(domain, eps), "all of one level"),
        )
        for p, targets in protocols:
            which = f" ({p.method})" if isinstance(p, LocalMean) else ""
            rows.append(Gain(f"{type(p).__name__}{which}", p.epsilon, p.gain, targets))
    published = Rappor()
    # fakes spread over the cohorts, or all in the one whose bit they promote
    for where, times in (("every cohort", 1), ("one cohort", published.cohorts)):
        gain = times * published.gain
        rows.append(Gain(f"Rappor ({where})", published.epsilon_instant, gain, "all bits"))
    return rows
