"""Identity, hierarchies and wavelets: strategies made of block sums.

Guarantee
---------
Each is one integer matrix measured once (:class:`~._mechanism.Strategy`): ε-DP with discrete
Laplace noise, ρ-zCDP or certified (ε, δ)-DP with discrete Gaussian noise, under the stated
relation. A record lies in one block of each level, so the L1 sensitivity of weighted
levels is Σw and the squared L2 sensitivity Σw² (twice that for a change, less what a
level of one block saves). Weights are integers, so this is exact.

Error in closed form
--------------------
With block sizes s_l and weights w_l, AᵀA = Σ w_l² s_l P_l with commuting nested projectors
P_l. On the part of level l its eigenvalue is λ_l = Σ w_m² s_m over finer or equal m, so
tr(W(AᵀA)⁻¹Wᵀ) = Σ_l t_l/λ_l with t_l = ‖WP_l‖² − ‖WP_{l−1}‖². Haar contrasts are
orthogonal: with block size s and weight w the eigenvalue is w²s.

* ``identity``: cells only.
* ``hierarchical``: a binary tree with equal weights (Hay et al. 2010).
* ``hb``: block sizes and weights that minimise the closed form for the workload; the idea of
  Qardaji et al. (2013), who compare equal-weight trees of different branching. Block
  sets are searched by adding, removing and moving one level at a time.
* ``wavelet``: Haar (Xiao, Wang, Gehrke 2010), level weights optimal for the workload:
  w ∝ (t/s)^{1/3} for Laplace noise, (t/s)^{1/4} for Gaussian noise.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet._lazy import optimize
from discreet.errors import Hint, ParameterError
from discreet.release import _tree
from discreet.release._counts import fitting
from discreet.release._mechanism import Job, Strategy
from discreet.release._queries import Haar, Levels
from discreet.release._workload import Workload

Array = NDArray[np.float64]

GRID = 1 << 12
"""Integer weights: the largest weight of a strategy is about this."""


class _Blocks(Strategy):
    """Any strategy of weighted levels, coarse to fine, cells last."""

    query: Levels

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        fitting(job.workload.shape)
        self.query = Levels(job.workload.shape, self._levels())

    def _levels(self) -> tuple[tuple[int, int], ...]:
        raise NotImplementedError

    @property
    def sizes(self) -> list[int]:
        """Cells of a block, level by level."""
        return [side ** len(self.job.workload.shape) for _, side in self.query.levels]

    def trace(self) -> float:
        """Return the closed form above."""
        sides = [side for _, side in self.query.levels]
        weights = np.array([w for w, _ in self.query.levels], dtype=np.float64)
        return tree_trace(
            parts_of(self.job.workload, sides), weights, np.array(self.sizes, dtype=np.float64)
        )

    def reconstruct(self, y: NDArray[Any]) -> Array:
        """Pool and descend."""
        variances = [1.0 / w**2 for w, _ in self.query.levels]
        pools, precisions = _tree.pooled(self.query.split(y), self.sizes, variances)
        finest = _tree.descend(pools, precisions)
        return _tree.spread(finest, self.job.workload.shape, self.query.levels[-1][1])

    def describe(self) -> str:
        """Name block sides and shares."""
        total = sum(w for w, _ in self.query.levels)
        sides = ", ".join(f"{side} ({w / total:.3f})" for w, side in self.query.levels)
        return f"{self.method}: blocks of side {sides}"


class IdentityStrategy(_Blocks):
    """Measure every cell."""

    method: ClassVar[str] = "identity"

    def _levels(self) -> tuple[tuple[int, int], ...]:
        return ((1, 1),)


class Hierarchical(_Blocks):
    """Measure a binary tree (per axis), every level with the same weight."""

    method: ClassVar[str] = "hierarchical"

    def _levels(self) -> tuple[tuple[int, int], ...]:
        return tuple((1, 1 << k) for k in reversed(range(_height(self.job.workload) + 1)))


class HB(_Blocks):
    """Measure the levels and weights that suit the workload best."""

    method: ClassVar[str] = "hb"

    def _levels(self) -> tuple[tuple[int, int], ...]:
        return best_levels(self.job.workload, pure=self.job.price.pure)


class Wavelet(Strategy):
    """Measure weighted Haar contrasts of a vector."""

    method: ClassVar[str] = "wavelet"
    query: Haar

    def __init__(self, job: Job, *, weighted: bool = True) -> None:
        super().__init__(job)
        if len(job.workload.shape) != 1:
            raise ParameterError(
                f"wavelet publishes vectors; this domain has {len(job.workload.shape)} attributes",
                hint=Hint("method", "hb"),
            )
        n = fitting(job.workload.shape)
        height = (n - 1).bit_length()
        self._sizes = np.array([1 << height] + [1 << k for k in range(height, 0, -1)], float)
        # contrasts between halves of blocks of 2^k cells: the level of blocks of 2^(k−1)
        self._parts = parts_of(job.workload, [1 << k for k in range(height, -1, -1)])
        weights = np.ones(height + 1)
        if weighted:
            power = 1 / 3 if job.price.pure else 1 / 4
            weights = np.maximum(self._parts, 1e-12 * self._parts.sum()) / self._sizes
            weights = weights**power / (weights**power).max()
            weights *= GRID
        self.query = Haar(n, tuple(max(1, round(w)) for w in weights.tolist()))

    def trace(self) -> float:
        """Σ t/(w²s)."""
        w = np.array(self.query.weights, dtype=np.float64)
        return float((self._parts / (w**2 * self._sizes)).sum())

    def reconstruct(self, y: NDArray[Any]) -> Array:
        """Rebuild sums of halves from sums of wholes and differences."""
        z = np.asarray(y, dtype=np.float64)
        sums, at = z[:1] / self.query.weights[0], 1
        for weight in self.query.weights[1:]:
            gaps = z[at : at + len(sums)] / weight
            at += len(sums)
            sums = np.stack([(sums + gaps) / 2, (sums - gaps) / 2], axis=1).ravel()
        return np.asarray(sums[: self.query.cells])


def _height(workload: Workload) -> int:
    return max((n - 1).bit_length() for n in workload.shape)


def parts_of(workload: Workload, sides: list[int]) -> Array:
    """Return t_l: the energy that each level of blocks adds to the coarser ones."""
    energies = np.array([workload.energy(side) for side in sides])
    return np.maximum(np.diff(energies, prepend=0.0), 0.0)


def tree_trace(parts: Array, weights: Array, sizes: Array) -> float:
    """Return Σ t_l/λ_l."""
    eigenvalues = np.cumsum((weights**2 * sizes)[::-1])[::-1]
    return float((parts / eigenvalues).sum())


def best_weights(parts: Array, sizes: Array, *, pure: bool) -> tuple[float, Array]:
    """Minimise ‖w‖²·Σ t/λ over weights (‖·‖ is L1 for Laplace, L2 for Gaussian noise)."""

    def objective(u: Array) -> tuple[float, Array]:
        w = np.exp(u - u.max())
        square = w**2 * sizes
        eigenvalues = np.cumsum(square[::-1])[::-1]
        value = float((parts / eigenvalues).sum())
        slope = -np.cumsum(parts / eigenvalues**2) * square * 2 / value
        if pure:
            return math.log(value) + 2 * math.log(w.sum()), slope + 2 * w / w.sum()
        norm2 = float((w * w).sum())
        return math.log(value) + math.log(norm2), slope + 2 * w * w / norm2

    bounds = [(-7.0, 7.0)] * len(parts)
    optimum = optimize.minimize(
        objective, np.zeros(len(parts)), jac=True, bounds=bounds, method="L-BFGS-B"
    )
    w = np.exp(optimum.x - optimum.x.max())
    return float(optimum.fun), np.asarray(w / w.sum())


def best_levels(workload: Workload, *, pure: bool) -> tuple[tuple[int, int], ...]:
    """Search block sides (powers of two, cells always) by local moves from a few starts.

    Returns pairs of integer weights and sides, coarse to fine.
    """
    height, d = _height(workload), len(workload.shape)
    energies = {1 << k: workload.energy(1 << k) for k in range(height + 1)}
    memo: dict[tuple[int, ...], tuple[float, Array]] = {}

    def value(exponents: tuple[int, ...]) -> float:
        if exponents not in memo:
            sides = [1 << k for k in exponents]
            parts = np.maximum(np.diff([energies[s] for s in sides], prepend=0.0), 0.0)
            sizes = np.array([float(s) ** d for s in sides])
            memo[exponents] = best_weights(parts, sizes, pure=pure)
        return memo[exponents][0]

    def moves(exponents: tuple[int, ...]) -> set[tuple[int, ...]]:
        inner, rest = set(exponents) - {0}, set(range(1, height + 1)) - set(exponents)
        sets = [inner | {k} for k in rest] + [inner - {k} for k in inner]
        sets += [(inner - {k}) | {j} for k in inner for j in (k - 1, k + 1) if j in rest]
        return {(*sorted(s, reverse=True), 0) for s in sets}

    best: tuple[int, ...] = (0,)
    for step in (1, 2, 3, 4, 6):
        here = (*sorted(set(range(step, height + 1, step)), reverse=True), 0)
        while True:
            near = min(moves(here), key=value, default=here)
            if value(near) >= value(here) - 1e-9:
                break
            here = near
        best = min(best, here, key=value)
    # levels that the optimum does without have weights near zero: drop them
    lean = tuple(k for k, w in zip(best, memo[best][1], strict=True) if w > 2e-3 or k == 0)
    value(lean)
    weights = memo[lean][1]
    whole = np.maximum(np.rint(GRID * weights / weights.max()), 1).astype(int).tolist()
    return tuple((w, 1 << k) for w, k in zip(whole, lean, strict=True))
