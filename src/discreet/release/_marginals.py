"""Marginal tables: optimal for Gaussian noise, well weighted for Laplace noise.

The residual spaces
-------------------
Functions on the domain split into orthogonal spaces, one for each set S of attributes: what an
S-marginal shows beyond its own margins, of dimension ∏_{i∈S}(n_i − 1). A marginal table B is
Σ_{S⊆B} (S-residual)/∏_{B∖S} n_j: residuals are estimated apart and tables put together
from them, so that all tables agree exactly.

Gaussian noise (:class:`Residuals`)
-----------------------------------
ResidualPlanner (Xiao, He, Zhang, Kifer 2023) measures each residual once; this is optimal
among all linear unbiased mechanisms. Its noise is correlated, for which no discrete
version is proved. Here each axis has **integer Helmert rows** h_k = (1, …, 1, −k, 0, …),
k = 1 … n−1, orthogonal with norm² k(k+1). Rows of ⊗_{i∈A} H_i are products, with norm²
K = ∏k_i(k_i+1). *Independent* discrete Gaussians of variance σ_A²K do the same as the
correlated noise:

* one record of any type moves them by Σ_rows h²/(σ_A²K) = P_A/σ_A², P_A = ∏_A (n_i−1)/n_i, so
  ρ = Σ_A P_A/(2σ_A²), whatever the record. A change moves at most 2P_A·m/(m−1), m the least
  n_i in A (two normalised columns of an axis have inner product (n−1)/n if equal and −1/n if
  not);
* the tables asked for have variance Σ_A σ_A²v_A, v_A = ∏_A(n_i−1)·Σ_{B⊇A} ∏_{B∖A} 1/n_j,
  computed for all A at once by elementary symmetric sums;
* the best σ_A² are ∝ √(P_A/v_A); the total variance is then (Σ√(v_A P_A))²/(2ρ), the optimum.

To draw few laws, a row is multiplied by an integer g in [2^20, 2^21] and gets noise of
σ = 2^o, with g²σ_A²K ≤ 4^o: g is rounded down, so the privacy stands as stated and the
variance grows by less than 1 in 2^19.

Laplace noise (:class:`WeightedMarginals`)
------------------------------------------
Marginals a are measured as they are, each with a share θ_a of ε (HDMM's OPT_M). AᵀA acts on
residual space S as λ_S = Σ_{a⊇S} θ_a²∏_{i∉a} n_i, the workload has energy t_S there, and
(Σθ)²·Σ t_S/λ_S is minimised over θ. One record lies in one cell of each marginal: L1 sensitivity 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet import privacy as p
from discreet._dataclass import dataclass, replace
from discreet._lazy import optimize
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release._counts import LARGEST, Counts, fitting, widened
from discreet.release._mechanism import Job, Mechanism, Strategy
from discreet.release._price import draws, variance
from discreet.release._queries import Factor, Kron, Sum, along, marginal
from discreet.release._questions import Course, Measurement, OfQuery
from discreet.release._workload import Marginals

Array = NDArray[np.float64]
Axes = tuple[int, ...]
Tables = dict[Axes, Array]

_BITS = 20
"""Integer weights of rows have this many bits or one more."""


class Helmert(Factor):
    """Integer Helmert rows of one axis."""

    def __init__(self, n: int) -> None:
        self.size, self.rows = n, n - 1
        k = np.arange(1, n)
        self.norms = k * (k + 1.0)
        self.largest = n
        # column j holds −j in row j and 1 in the n − 1 − j rows below
        self.l1 = n - 1
        self.l2 = max(j * j + n - 1 - j for j in range(n))
        self.inner = (-(n - 1), self.l2)

    def along(self, x: NDArray[Any], total: int) -> NDArray[Any]:
        """Σ_{j<k} x_j − k·x_k by cumulative sums."""
        del total
        sums = np.cumsum(x, axis=0)[:-1]
        k = np.arange(1, self.size).astype(x.dtype)[:, None]
        return np.asarray(sums - k * x[1:])

    def lift(self, y: Array) -> Array:
        """Return Hᵀ(HHᵀ)⁻¹y: the centred marginal."""
        z = y / self.norms[:, None]
        tails = np.cumsum(z[::-1], axis=0)[::-1]
        out = np.zeros((self.size, y.shape[1]))
        out[:-1] += tails
        out[1:] -= np.arange(1, self.size)[:, None] * z
        return out


@lru_cache(maxsize=512)
def helmert(n: int) -> Helmert:
    """Return a cached factor."""
    return Helmert(n)


@dataclass(frozen=True)
class Contrasts(OfQuery):
    """All Helmert contrasts of one residual, row by row with its own noise.

    Guarantee: ρ-zCDP with ρ = P/(2σ²), exactly as derived above; rows are independent and
    each adds its squared move over twice its variance (Bun & Steinke 2016).
    """

    axes: Axes
    sizes: tuple[int, ...]
    sigma2: Fraction
    neighbours: Neighbours
    label: str = ""

    @property
    def reach(self) -> Fraction:
        """P: the squared move of normalised rows by one record."""
        own = [self.sizes[i] for i in self.axes]
        moved = Fraction(math.prod(n - 1 for n in own), math.prod(own))
        if self.neighbours is Neighbours.CHANGE_ONE and own:
            moved *= Fraction(2 * min(own), min(own) - 1)
        return moved

    @property
    def loss(self) -> p.PrivacyLoss:
        """ρ = P/(2σ²)."""
        return p.Zcdp(self.reach / (2 * self.sigma2)).under(self.neighbours)

    def most(self, rows: int) -> int:
        """Distances are squares."""
        return rows**2

    @property
    def query(self) -> Kron:  # type: ignore[override]  # a property for an attribute
        """The integer contrasts, unweighted."""
        return Kron([helmert(n) if i in self.axes else Sum(n) for i, n in enumerate(self.sizes)])

    def scales(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the integer weight g and the exponent o of the noise 2^o, for each row."""
        norms = [helmert(self.sizes[axis]).norms for axis in self.axes]
        target = float(self.sigma2) * reduce(np.multiply.outer, norms, np.ones(())).ravel()
        octave = np.ceil(np.log2(target) / 2).astype(np.int64) + _BITS
        octave = np.maximum(octave, 0)
        # the margin covers every rounding of this line
        weight = np.floor(np.exp2(octave) / np.sqrt(target) * (1 - 2.0**-40))
        return weight.astype(np.int64), octave

    def _rows(self, counts: Counts) -> NDArray[Any]:
        weight, _ = self.scales()
        rows = self.query.apply(counts)
        largest = int(weight.max()) * math.prod(self.sizes[i] for i in self.axes)
        rows = widened(rows, largest, counts.total)
        return np.asarray(rows * weight.astype(rows.dtype))

    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return g·(Hx) + noise, row by row."""
        rows = self._rows(counts)
        _, octave = self.scales()
        order = np.argsort(octave, kind="stable")
        parts = [
            draws(noise.DiscreteGaussian(1 << o), k)
            for o, k in zip(*(u.tolist() for u in np.unique(octave, return_counts=True)),
                            strict=True)
        ]  # fmt: skip
        # the draws stay as they come, so that a mark of test noise survives
        return np.asanyarray(np.concatenate(parts)[np.argsort(order, kind="stable")] + rows)

    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return Σ (gΔ)²/4^o over P/σ²."""
        _, octave = self.scales()
        gap = (self._rows(x) - self._rows(y)).tolist()
        moved = sum(Fraction(int(v) ** 2, 4**o) for v, o in zip(gap, octave.tolist(), strict=True))
        return moved * self.sigma2 / self.reach

    def record(self) -> dict[str, Any]:
        """Return the axes and σ²."""
        return {
            "kind": "contrasts",
            "label": self.label,
            "axes": list(self.axes),
            "sigma2": str(self.sigma2),
        }

    def lifted(self, released: NDArray[Any]) -> Array:
        """Return the estimate of the centred marginal."""
        weight, _ = self.scales()
        x = np.asarray(released, dtype=np.float64) / weight
        x = x.reshape([self.sizes[i] - 1 for i in self.axes])
        for position, axis in enumerate(self.axes):
            x = along(x, position, helmert(self.sizes[axis]).lift)
        return x


def assembled(table: Axes, residuals: Tables, sizes: Sequence[int]) -> Array:
    """Put a marginal table together from residuals of its subsets."""
    out = np.zeros([sizes[i] for i in table])
    for k in range(len(table) + 1):
        for part in itertools.combinations(table, k):
            if part in residuals:
                shape = [sizes[i] if i in part else 1 for i in table]
                share = math.prod(sizes[i] for i in table if i not in part)
                out += residuals[part].reshape(shape) / share
    return out


class _Tables(Mechanism):
    """What both mechanisms share: a workload of marginals, answered from residuals."""

    method: ClassVar[str] = "marginals"
    linear = True
    note = Strategy.note

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        if not isinstance(job.workload, Marginals):
            raise ParameterError(
                f"marginals publishes marginal tables; this workload is {job.workload.describe()}",
                hint="release.Workload.marginals(sizes, 2)",
            )
        self.workload = job.workload
        self.sizes = job.workload.shape

    @property
    def memory(self) -> int:
        """Tables and their residuals: no array of all cells."""
        return 8 * 6 * self.workload.queries

    def answers(self, estimate: Any) -> NDArray[Any]:
        """Return the tables' cells, one table after the other."""
        return np.concatenate([estimate[table].ravel() for table in self.workload.tables])

    def _outside(self, axes: Axes) -> int:
        """Return how many cells of the domain a cell of a table is made of."""
        return math.prod(n for i, n in enumerate(self.sizes) if i not in axes)

    def _tables(self, residuals: Tables) -> Tables:
        return {table: assembled(table, residuals, self.sizes) for table in self.workload.tables}


class Residuals(_Tables):
    """Optimal Gaussian marginals by integer residual measurements."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        if job.price.pure:
            raise ParameterError("residual bases need Gaussian noise", hint=Hint("rho", "0.5"))
        d, orders = len(self.sizes), self.workload.ways
        n = np.array(self.sizes, dtype=np.float64)
        top = max(orders)
        symmetric = np.zeros(top + 1)
        symmetric[0] = 1.0
        for value in 1 / n:
            symmetric[1:] = symmetric[1:] + value * symmetric[:-1]
        self.groups: list[tuple[NDArray[np.int64], Array]] = []
        self._root = 0.0
        for k in range(top + 1):
            sets = _subsets(d, k)
            e = np.tile(symmetric, (len(sets), 1))
            for j in range(k):
                # divide the generating polynomial by (1 + z/n_i)
                value = 1 / n[sets[:, j]]
                for i in range(1, top + 1):
                    e[:, i] -= value * e[:, i - 1]
            demand = np.sum([e[:, w - k] for w in orders if w >= k], axis=0)
            v = np.maximum(demand, 0.0) * np.prod(n[sets] - 1, axis=1)
            roots = np.sqrt(v * self._reach(n[sets]))
            keep = roots > 0
            self.groups.append((sets[keep], roots[keep]))
            self._root += float(roots.sum())

    def _reach(self, sizes: Array) -> Array:
        moved = np.prod((sizes - 1) / sizes, axis=1)
        if self.job.neighbours is Neighbours.CHANGE_ONE and sizes.shape[1]:
            least = np.maximum(sizes.min(axis=1), 1 + 1e-9)
            moved = moved * 2 * least / (least - 1)
        return np.asarray(moved)

    def error(self) -> float:
        """Return (Σ√(vP))²/(2ρ), and the most that rounding adds."""
        return self._root**2 / (2 * float(self.job.price.total)) * (1 + 2.0**-19)

    def _questions(self) -> Iterator[Contrasts]:
        """One question for each residual; its share of ρ is √(vP)/Σ√(vP), rounded down."""
        rho = self.job.price.total
        for sets, roots in self.groups:
            shares = np.maximum(np.floor(roots / self._root * (1 - 2.0**-20) * 2.0**44), 1)
            for axes, share in zip(sets.tolist(), shares.tolist(), strict=True):
                blank = Contrasts(tuple(axes), self.sizes, Fraction(1), self.job.neighbours)
                sigma2 = blank.reach / (2 * Fraction(int(share), 1 << 44) * rho)
                yield replace(blank, sigma2=sigma2, label=f"residual {axes}")

    def course(self) -> Course:
        """Measure all residuals, put the tables together."""
        if self.workload.queries > LARGEST:
            raise ParameterError(
                f"the tables have about {self.workload.queries:.3g} cells in all, more than "
                "memory holds",
                hint=Hint("ways", max(1, max(self.workload.ways) - 1)),
            )
        residuals: Tables = {}
        for question in self._questions():
            released = yield question
            residuals[question.axes] = question.lifted(released)
        return self._tables(residuals)

    def describe(self) -> str:
        """Name the number of residuals."""
        count = sum(len(sets) for sets, _ in self.groups)
        return f"marginals: {count} residuals, integer Helmert rows"


def _subsets(d: int, k: int) -> NDArray[np.int64]:
    if k == 0:
        return np.zeros((1, 0), dtype=np.int64)
    flat = np.fromiter(
        itertools.chain.from_iterable(itertools.combinations(range(d), k)),
        dtype=np.int64,
        count=k * math.comb(d, k),
    )
    return flat.reshape(-1, k)


class WeightedMarginals(_Tables):
    """Marginals measured with shares of ε that suit the workload."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        d, top = len(self.sizes), max(self.workload.ways)
        count = sum(math.comb(d, k) for k in range(top + 1))
        if count > 1 << 10:
            raise ParameterError(
                f"{count} marginals would be weighted against each other under a pure ε",
                hint=Hint("rho", "0.5"),
            )
        if d <= 7 and math.prod(self.sizes) <= 1 << 20:
            top = d
        self.sets: list[Axes] = [
            axes for k in range(top + 1) for axes in itertools.combinations(range(d), k)
        ]
        self._weigh()

    def _weigh(self) -> None:
        """Minimise (Σθ)²·Σ t/λ, which is not convex, over shares of the marginals."""
        masks = np.array([sum(1 << i for i in axes) for axes in self.sets], dtype=object)
        within = np.array([[(s & ~a) == 0 for a in masks] for s in masks])
        outside = np.array([float(self._outside(axes)) for axes in self.sets])
        dims = np.array([float(math.prod(self.sizes[i] - 1 for i in axes)) for axes in self.sets])
        demand = np.array([float(len(axes) in self.workload.ways) for axes in self.sets])
        energy = dims * (within @ (demand * outside))
        active = energy > 0
        within, energy = within[active], energy[active]

        def objective(u: Array) -> tuple[float, Array]:
            theta = np.exp(u)
            square = theta**2 * outside
            eigenvalues = within @ square
            value = float((energy / eigenvalues).sum())
            slope = -2 * square * (within.T @ (energy / eigenvalues**2)) / value
            total = theta.sum()
            return math.log(value) + 2 * math.log(total), slope + 2 * theta / total

        theta = self._searched(objective, demand)
        weights = np.where(theta > 1e-3 * theta.max(), theta, 0.0)
        if (within @ (weights > 0) == 0).any():
            # a residual nobody measures any more would be lost
            weights = np.where(demand > 0, np.maximum(theta, 1e-3 * theta.max()), weights)
        shares = [math.floor(t / weights.sum() * (1 << 20)) for t in weights]
        self.measured = [
            (axes, Fraction(share, 1 << 20))
            for axes, share in zip(self.sets, shares, strict=True)
            if share
        ]

    def _searched(self, objective: Any, demand: Array) -> Array:
        """Minimise from what is asked, from the largest sets, and from everything at once."""
        largest = np.array([len(axes) == len(self.sets[-1]) for axes in self.sets])
        starts = [np.where(demand > 0, 0.0, -3.0), np.where(largest, 0.0, -6.0), 0 * demand]
        tries = [
            optimize.minimize(objective, start, jac=True, bounds=[(-12.0, 3.0)] * len(demand),
                     method="L-BFGS-B", options={"maxiter": 2000})
            for start in starts
        ]  # fmt: skip
        return np.asarray(np.exp(min(tries, key=lambda t: float(t.fun)).x))

    def _measurement(self, axes: Axes, share: Fraction) -> Measurement:
        return self.job.measurement(marginal(self.sizes, axes), share, f"marginal {list(axes)}")

    def _precisions(self) -> dict[Axes, float]:
        """What a measured table tells of each residual space in it: ∏_{i∉a} n_i/variance."""
        return {
            axes: self._outside(axes) / variance(self._measurement(axes, share).law)
            for axes, share in self.measured
        }

    def error(self) -> float:
        """Σ t_S/λ_S with the laws drawn."""
        precisions, total = self._precisions(), 0.0
        for part in self.sets:
            dims = math.prod(self.sizes[i] - 1 for i in part)
            tables = [t for t in self.workload.tables if set(part) <= set(t)]
            if energy := dims * sum(map(self._outside, tables)):
                total += energy / sum(_above(part, precisions).values())
        return total

    def course(self) -> Course:
        """Measure marginals, pool what they say of each residual."""
        fitting((self.workload.queries,))
        tables: Tables = {}
        for axes, share in self.measured:
            released = yield self._measurement(axes, share)
            shape = [self.sizes[i] for i in axes]
            tables[axes] = np.asarray(released, dtype=np.float64).reshape(shape)
        precisions = self._precisions()
        residuals: Tables = {}
        for part in self.sets:
            if above := _above(part, precisions):
                gathered = [w * _centred(tables[axes], axes, part) for axes, w in above.items()]
                residuals[part] = np.sum(gathered, axis=0) / sum(above.values())
        return self._tables(residuals)

    def describe(self) -> str:
        """Name how many marginals are measured."""
        return f"marginals: {len(self.measured)} weighted marginals"


def _above(part: Axes, tables: Mapping[Axes, float]) -> dict[Axes, float]:
    """Keep the tables of at least these attributes."""
    return {axes: w for axes, w in tables.items() if set(part) <= set(axes)}


def _centred(y: Array, axes: Axes, part: Axes) -> Array:
    """Sum out what is not in `part`, then subtract means along every axis."""
    x = y.sum(axis=tuple(i for i, axis in enumerate(axes) if axis not in part))
    for axis in range(x.ndim):
        x = x - x.mean(axis=axis, keepdims=True)
    return np.asarray(x)


def marginals(job: Job) -> Mechanism:
    """Return the optimal mechanism for Gaussian noise, weighted marginals for Laplace noise."""
    return WeightedMarginals(job) if job.price.pure else Residuals(job)
