"""iReduct: marginals with small *relative* error, by noise that is taken back step by step.

Gradual release
---------------
Let α₀ < α₁ < … be multiples of one public η, and r_k = e^{−α_k}. Discrete Laplace noise with
ratio r has characteristic function (1−r)²/(1 − 2r cos t + r²), so for i < j

    φ_i/φ_j = a + (1−a)·φ_i,   a = ((1−r_i)/(1−r_j))²·r_j/r_i ∈ (0, 1):

noise of level i is noise of level j plus an independent X, which is 0 with probability a and
level-i noise otherwise. (The discrete form of Koufogiannis, Han, Pappas 2016.) The whole ladder
is drawn from its fine end: V_K, then V_{k−1} = V_k + X_k, each X_k independent.

Guarantee
---------
Released are y_k = q + V_k for k = 0, 1, …, stopping wherever the released values (of this and
of other queries) suggest. The probability of a transcript y_0, …, y_k is P(V_k = y_k −
q)·∏P(X_l = y_{l−1} − y_l); only the first factor knows q, hence neighbours differ by a factor
of at most e^{α_k·|q−q'|}: *the transcript costs what its last value costs*. The rule that says
what to refine next is a function of the transcript, equal on both sides. So refining from α_i
to α_j costs (α_j − α_i)·Δ, and the sum over marginals, each with L1 sensitivity 1 (2 for a
change), is kept within ε. The original's re-noising has its conditional law by a formula of its
own; this one needs no conditional law at all.

The coins are exact: with z = e^{−η}, r_i = z^i, a geometric variable G of ratio z falls below i
modulo j with probability (1−z^i)/(1−z^j), twice, and r_j/r_i = e^{−(j−i)η}.

What is refined (Xiao, Bender, Hay, Gehrke 2011): the marginal whose refinement lowers
Σ scale/max(count, floor) most for its price.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet import privacy as p
from discreet._dataclass import dataclass, field
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release._counts import Counts, apart
from discreet.release._mechanism import Job, Mechanism
from discreet.release._queries import Query, marginal
from discreet.release._questions import Course, OfQuery
from discreet.release._workload import Marginals

Array = NDArray[np.float64]


def coarser(fine: NDArray[Any], i: int, j: int, eta: Fraction) -> NDArray[Any]:
    """Return noise of level i from noise of level j > i, adding an independent variable."""
    n = len(fine)
    period = noise.Geometric(1 / eta)
    same = np.asarray(noise.bernoulli_exp_many([(j - i) * eta] * n))
    for _ in range(2):
        same &= np.asarray(period.sample(n) % j) < i
    fresh = noise.DiscreteLaplace(1 / (i * eta)).sample(n)
    return np.asanyarray(fine + np.where(same, 0, fresh))


@dataclass
class Ladder:
    """The secret noise of one query at every level; drawn once, shown from the coarse end."""

    levels: tuple[int, ...]
    eta: Fraction
    rows: int
    _paths: list[NDArray[Any]] = field(default_factory=list, repr=False)

    def noise(self, position: int) -> NDArray[Any]:
        """Return the noise at a position of the ladder. PRIVATE until released."""
        if not self._paths:
            path = noise.DiscreteLaplace(1 / (self.levels[-1] * self.eta)).sample(self.rows)
            paths = [path]
            for k in range(len(self.levels) - 1, 0, -1):
                path = coarser(path, self.levels[k - 1], self.levels[k], self.eta)
                paths.append(path)
            self._paths = paths[::-1]
        return self._paths[position]


@dataclass(frozen=True)
class Refinement(OfQuery):
    """A query's value with the noise of the next level of its ladder."""

    query: Query
    ladder: Ladder
    position: int
    neighbours: Neighbours
    label: str = ""

    @property
    def _step(self) -> Fraction:
        """Growth of α by this refinement."""
        before = self.ladder.levels[self.position - 1] if self.position else 0
        return (self.ladder.levels[self.position] - before) * self.ladder.eta

    @property
    def loss(self) -> p.PrivacyLoss:
        """What the transcript costs more than before."""
        return p.Pure(self._step * self.query.l1_sensitivity(self.neighbours)).under(
            self.neighbours
        )

    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return the refined values."""
        return np.asanyarray(self.ladder.noise(self.position) + self.exact(counts))

    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return ‖qx − qy‖₁/Δ."""
        gap = np.abs(self.exact(x) - self.exact(y)).sum()
        return Fraction(int(gap), self.query.l1_sensitivity(self.neighbours))

    def record(self) -> dict[str, Any]:
        """Return the scale of this level's noise."""
        scale = 1 / (self.ladder.levels[self.position] * self.ladder.eta)
        return {"kind": "refinement", "label": self.label, "rows": self.query.rows,
                "scale": str(scale)}  # fmt: skip


class IReduct(Mechanism):
    """Marginals refined where relative error falls most."""

    method: ClassVar[str] = "ireduct"
    steps: ClassVar[int] = 64

    def __init__(self, job: Job, *, floor: float = 1.0) -> None:
        super().__init__(job)
        if not isinstance(job.workload, Marginals):
            raise ParameterError(
                "ireduct publishes marginal tables",
                hint="release.Workload.marginals(sizes, 1)",
            )
        if not job.price.pure:
            raise ParameterError("ireduct is proved for pure ε", hint=Hint("epsilon", "1"))
        self.workload = job.workload
        self.tables = list(job.workload.tables)
        if len(self.tables) > 1 << 12 or job.workload.queries > 1 << 26:
            raise ParameterError(
                f"ireduct refines {len(self.tables)} tables step by step",
                hint=Hint("method", "marginals"),
            )
        if not floor > 0:
            raise ParameterError("floor must be positive", hint=Hint("floor", 10))
        self.floor = floor
        # α grows in steps of η; every table starts at a tenth of its even share
        self.eta = job.price.total / (len(self.tables) * apart(job.neighbours) * self.steps)

    def course(self) -> Course:
        """Measure everything coarsely, then refine what helps most until ε is spent."""
        first = max(1, self.steps // 8)
        ladder = [first]
        while ladder[-1] < self.steps * 8:
            ladder.append(ladder[-1] + max(1, ladder[-1] // 4))
        levels = tuple(ladder)
        left = len(self.tables) * self.steps
        queries = [marginal(self.workload.shape, table) for table in self.tables]
        ladders = [Ladder(levels, self.eta, q.rows) for q in queries]
        at = [0] * len(self.tables)
        values: list[Array] = []
        for i, query in enumerate(queries):
            y = yield Refinement(query, ladders[i], 0, self.job.neighbours, f"table {i}")
            values.append(np.asarray(y, dtype=np.float64))
            left -= first
        while True:
            gains = [
                self._gain(values[i], levels[at[i]], levels[at[i] + 1])
                if at[i] + 1 < len(levels) and levels[at[i] + 1] - levels[at[i]] <= left
                else -1.0
                for i in range(len(queries))
            ]
            best = int(np.argmax(gains))
            if gains[best] < 0:
                break
            at[best] += 1
            left -= levels[at[best]] - levels[at[best] - 1]
            y = yield Refinement(
                queries[best], ladders[best], at[best], self.job.neighbours, f"table {best}"
            )
            values[best] = np.asarray(y, dtype=np.float64)
        return {
            table: values[i].reshape([self.workload.shape[a] for a in table])
            for i, table in enumerate(self.tables)
        }

    def _gain(self, y: Array, now: int, then: int) -> float:
        """Fall of Σ scale/max(y, floor) for a unit of ε."""
        weight = float((1 / np.maximum(y, self.floor)).sum())
        return weight * (1 / now - 1 / then) / (then - now)

    def answers(self, estimate: Any) -> NDArray[Any]:
        """Return the tables' cells, one table after the other."""
        return np.concatenate([estimate[table].ravel() for table in self.tables])

    def describe(self) -> str:
        """Name the number of tables."""
        return f"ireduct: {len(self.tables)} tables, refined step by step"
