"""Urns: made-up destinations' origins, drawn from counts and a prior (OnTheMap's way).

Input x[d, o]: how many records of destination d come from origin o (or a vector for one
destination). For every destination m origins are drawn from an urn that holds its records, α
imaginary records of every origin, and a copy of whatever was drawn before: the
Dirichlet-multinomial of the synthesiser behind OnTheMap (Machanavajjhala, Kifer, Abowd, Gehrke,
Vilhuber 2008).

Guarantee (ε-DP under add-remove)
---------------------------------
The draws y of a destination with k origins, n = Σx and A = kα have probability

    m!/∏y_o! · Γ(n+A)/Γ(n+A+m) · ∏ Γ(x_o+α+y_o)/Γ(x_o+α).

One record more of origin o multiplies it by

    (x_o+α+y_o)/(x_o+α) · (n+A)/(n+A+m).

The first factor lies between 1 and 1 + m/α, the second between A/(A+m) and 1. So with
α ≥ m/(e^ε − 1) the product lies between e^{−ε} and e^ε. A record lies in one destination, hence ε
for the whole; a change is a removal and an addition, so that ε/2 is used for each.

The published product used ε = 8.6 with δ = 10⁻⁵, which allows smaller priors for origins that
are hardly ever drawn; the prior here is the one of pure ε, so that no δ is needed.

The urn is exact: α is a multiple of 2⁻²⁰, rounded up from rational bounds on e^ε, and every draw
is one uniform integer below the urn's integer weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release._counts import Counts, apart, fitting
from discreet.release._mechanism import Job, Mechanism
from discreet.release._questions import Course, OwnProof, alike

_GRID = 1 << 20
_MOST = 1 << 22


def prior(draws: int, epsilon: Fraction) -> Fraction:
    """Return the least α on a grid of 2⁻²⁰ with α ≥ draws/(e^ε − 1).

    >>> float(prior(1000, Fraction("8.6"))) < 0.185
    True
    """
    high = noise.exp_bounds(epsilon, 40)[1]
    return Fraction(math.ceil(draws * high / (1 - high) * _GRID), _GRID)


@dataclass(frozen=True)
class Urn(OwnProof):
    """Origins drawn for every destination."""

    shape: tuple[int, ...]
    draws: tuple[int, ...]
    epsilon: Fraction
    neighbours: Neighbours
    label: str = "urn"

    def alpha(self, draws: int) -> Fraction:
        """Prior of every origin of a destination with so many draws."""
        return prior(draws, self.epsilon / apart(self.neighbours))

    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return how often each origin was drawn for each destination."""
        table = counts.array().reshape(len(self.draws), -1)
        samples = [polya(row, self.alpha(m), m) for row, m in zip(table, self.draws, strict=True)]
        return np.concatenate(samples)

    def exact(self, counts: Counts) -> NDArray[Any]:
        """Return how many records each urn holds of each origin."""
        return counts.array().ravel()

    def moves(self) -> tuple[int, int, int]:
        """One record more, or one less and one more."""
        return alike(1, apart(self.neighbours))

    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return how many records two tables are apart."""
        return Fraction(int(np.abs(self.exact(x) - self.exact(y)).sum()), self.moves()[0])

    def blank(self) -> NDArray[Any]:
        """Draw nothing."""
        return np.zeros(math.prod(self.shape), dtype=np.int64)

    def record(self) -> dict[str, Any]:
        """Return draws and priors."""
        return {
            "kind": "urn",
            "label": self.label,
            "draws": list(self.draws),
            "epsilon": str(self.epsilon),
            "priors": [str(self.alpha(m)) for m in self.draws],
        }


def polya(counts: NDArray[np.int64], alpha: Fraction, draws: int) -> NDArray[np.int64]:
    """Draw from an urn with `counts` records and `alpha` more of every kind, with copies put back.

    In units of 2⁻²⁰ records: first the records, then the prior, then the copies.
    """
    a, one = int(alpha * _GRID), _GRID
    ends = np.cumsum(counts)
    records, imaginary = one * int(ends[-1]), a * len(counts)
    picks: list[int] = []
    for _ in range(draws):
        at = int(noise.uniform_below(records + imaginary + one * len(picks)))
        if at < records:
            picks.append(int(np.searchsorted(ends, at // one, side="right")))
        elif at < records + imaginary:
            picks.append((at - records) // a)
        else:
            picks.append(picks[(at - records - imaginary) // one])
    return np.bincount(np.array(picks, dtype=np.int64), minlength=len(counts))


class OriginDestination(Mechanism):
    """Synthetic origins for every destination."""

    method: ClassVar[str] = "urn"

    def __init__(self, job: Job, *, draws: int | Sequence[int]) -> None:
        super().__init__(job)
        shape = job.workload.shape
        fitting(shape)
        rows = shape[0] if len(shape) > 1 else 1
        each = [draws] * rows if isinstance(draws, int) else list(draws)
        if len(each) != rows or any(type(m) is not int or m < 1 for m in each):
            raise ParameterError(
                "draws= must be the public number of records to draw for each destination",
                hint=Hint("draws", 1000),
            )
        if not job.price.pure:
            raise ParameterError("the urn is proved for pure ε", hint=Hint("epsilon", "8.6"))
        if sum(each) > _MOST:
            raise ParameterError(f"the urn draws one record at a time, at most {_MOST}")
        self.draws = tuple(each)

    def course(self) -> Course:
        """Ask the urn once."""
        job = self.job
        trips = yield Urn(job.workload.shape, self.draws, job.price.total, job.neighbours)
        return np.asarray(trips, dtype=np.float64).reshape(job.workload.shape)

    def describe(self) -> str:
        """Name the draws."""
        return f"urn: {sum(self.draws)} records drawn for {len(self.draws)} destinations"
