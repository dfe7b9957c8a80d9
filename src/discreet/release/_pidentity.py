"""p-Identity strategies: every cell, and p learned weighted sums of cells.

A = [I; B]·diag(1/s) with B ≥ 0 of p rows and s_j the norm of column j of [I; B], so that
every column has norm 1 (L1 for Laplace noise, L2 for Gaussian noise). With
M = (I + BBᵀ)⁻¹ (Woodbury), V the Gram matrix of the workload and S = diag(s),

    f(B) = tr(V(AᵀA)⁻¹) = Σ s_j²V_jj − tr(M·B SVS Bᵀ),

    ∂f/∂s = 2(V_jj s_j − diag(VSBᵀMB)),   ∂f/∂B = −2(G − (GBᵀ)MB) at fixed s, G = MB·SVS,

plus ∂f/∂s·∂s/∂B, which is 1 (L1) or B/s (L2). V is applied as an operator, so an evaluation
costs O(p²n), not O(pn²). L-BFGS-B needs a good start for large n: a coarse grid (n/4 cells) is
solved first and its columns are repeated. Reference: McKenna et al. 2018 (OPT_0).

The strategy that is measured is integer: round(scale·A), with at least 1 on every cell. Its
sensitivity and its error are taken after the rounding, so both are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._lazy import optimize
from discreet.release import _factors
from discreet.release._counts import exact_product
from discreet.release._factors import Array, Axis
from discreet.release._queries import Factor

SCALE = 1 << 14
"""Integer grid of the strategies; at 2^14 the rounding costs less than 0.1 % of the error."""

_COARSEST = 256
_STARTS = 4


class Mixture(_factors.GramOnly):
    """A weighted sum of Gram matrices over one axis (an axis of a union of products)."""

    name = "mixture"

    def __init__(self, parts: Sequence[tuple[float, Axis]]) -> None:
        merged: dict[tuple[Any, ...], tuple[float, Axis]] = {}
        for weight, axis in parts:
            total = merged.get(axis.key(), (0.0, axis))[0]
            merged[axis.key()] = (total + weight, axis)
        largest = max(weight for weight, _ in merged.values())
        self.scale = largest
        self.parts = [(weight / largest, axis) for weight, axis in merged.values()]
        self.n, self.m = self.parts[0][1].n, sum(axis.m for _, axis in self.parts)

    def gram_rows(self, y: Array) -> Array:
        """Sum of the parts."""
        return np.asarray(sum(weight * axis.gram_rows(y) for weight, axis in self.parts))

    def diagonal(self) -> Array:
        """Sum of the parts."""
        return np.asarray(sum(weight * axis.diagonal() for weight, axis in self.parts))

    def block_forms(self, side: int) -> Array:
        """Sum of the parts."""
        return np.asarray(sum(weight * axis.block_forms(side) for weight, axis in self.parts))

    def key(self) -> tuple[Any, ...]:
        """Weights to three digits: nearby mixtures share a strategy."""
        return tuple((round(weight, 3), *axis.key()) for weight, axis in self.parts)


class PIdentity(Factor):
    """An integer p-Identity matrix [diag(d); B] over one axis."""

    def __init__(self, d: NDArray[np.int64], B: NDArray[np.int64]) -> None:
        self.d, self.B = d, B
        self.size, self.rows = len(d), len(d) + len(B)
        self.l1 = int((d + B.sum(axis=0)).max())
        self.l2 = int((d * d + (B * B).sum(axis=0)).max())
        self.inner = (0, self.l2)
        self.largest = int(max(d.max(), B.max() if B.size else 0))
        scaled = B / d.astype(np.float64)
        # (I + B D⁻² Bᵀ)⁻¹ B D⁻²
        gram = np.eye(len(B)) + scaled @ scaled.T
        self._lift = np.linalg.solve(gram, scaled / d) if len(B) else np.zeros((0, self.size))
        self._low = scaled / d

    def along(self, x: NDArray[Any], total: int) -> NDArray[Any]:
        """Cells, then weighted sums."""
        top = self.d.astype(x.dtype)[:, None] * x
        if not len(self.B):
            return np.asarray(top)
        return np.concatenate([top, exact_product(self.B, x, self.largest, total)])

    def scales(self) -> list[list[int]]:
        """Weight of each cell, then the largest of each weighted sum."""
        most = np.concatenate([self.d, self.B.max(axis=1)]) if len(self.B) else self.d
        return [[int(w) or self.largest, 1] for w in most.tolist()]  # empty rows are noise only

    def solve(self, y: Array) -> Array:
        """Return (AᵀA)⁻¹Aᵀy along the first axis."""
        z = self.d[:, None] * y[: self.size] + self.B.T.astype(np.float64) @ y[self.size :]
        return np.asarray(z / (self.d**2.0)[:, None] - self._low.T @ (self._lift @ z))

    def trace(self, axis: Axis) -> float:
        """Return tr(V(AᵀA)⁻¹)."""
        whole = float((axis.diagonal() / self.d**2.0).sum())
        if not len(self.B):
            return whole
        return whole - float((self._lift * axis.gram_rows(self._low)).sum())


def plain(n: int) -> PIdentity:
    """Return the identity."""
    return PIdentity(np.ones(n, dtype=np.int64), np.zeros((0, n), dtype=np.int64))


def grid_for(axes: int) -> int:
    """Return the grid of each factor of a product: entries of the product stay below 2^32."""
    return 1 << max(6, min(14, 32 // axes))


def optimum(
    axis: Axis, *, pure: bool, p: int | None = None, patience: int = 250, scale: int = SCALE
) -> PIdentity:
    """Return a p-Identity strategy for one axis, from a cache if it was solved before."""
    if isinstance(axis, Mixture) and len(axis.parts) == 1:
        axis = axis.parts[0][1]
    if isinstance(axis, _factors.Identity) or axis.n == 1:
        return plain(axis.n)
    if isinstance(axis, _factors.Total):
        return PIdentity(np.ones(axis.n, dtype=np.int64), np.full((1, axis.n), scale))
    rows = default_rows(axis.n) if p is None else p
    key = (axis.key(), pure, rows, patience)
    if key not in _SOLVED:
        if len(_SOLVED) > 64:
            _SOLVED.clear()
        # the axis is kept with its strategy, so that the identity in its key stays its own
        _SOLVED[key] = (_solve(axis, rows, pure=pure, patience=patience), axis)
    return on_grid(_SOLVED[key][0], pure=pure, scale=scale)


_SOLVED: dict[Any, tuple[Array, Axis]] = {}


def default_rows(n: int) -> int:
    """Rows of B: about n/12, at most 96."""
    return max(2, min(96, n // 12))


def on_grid(B: Array, *, pure: bool, scale: int = SCALE) -> PIdentity:
    """Round [I; B]·diag(1/s) to the integer grid."""
    s = _norms(B, pure=pure)
    d = np.maximum(np.rint(scale / s), 1).astype(np.int64)
    return PIdentity(d, np.rint(scale * B / s).astype(np.int64))


def _norms(B: Array, *, pure: bool) -> Array:
    return np.asarray(1 + B.sum(axis=0) if pure else np.sqrt(1 + (B * B).sum(axis=0)))


def _coarser(axis: Axis, n: int) -> Axis | None:
    """Return the same kind of workload on fewer cells, if there is one."""
    if isinstance(axis, Mixture):
        fewer = [(w, part) for w, own in axis.parts if (part := _coarser(own, n)) is not None]
        return Mixture(fewer) if len(fewer) == len(axis.parts) else None
    if isinstance(axis, _factors.Rows | _factors.Gram):
        return None
    return type(axis)(n)


def _solve(axis: Axis, p: int, *, pure: bool, patience: int) -> Array:
    """Solve on coarse grids first, then refine."""
    grids = [axis]
    while grids[0].n > _COARSEST and (fewer := _coarser(axis, -(-grids[0].n // 4))) is not None:
        grids.insert(0, fewer)
    coarse, *finer = grids
    # of large problems most time goes into the optimiser's own steps, which grow with its memory
    starts, steps, memory = (1, 400, 4) if finer else (_STARTS, 1000, 8)
    solved = [
        _descend(coarse, scatter(p, coarse.n, seed), pure=pure, steps=steps, memory=memory)
        for seed in range(starts)
    ]
    B = min(solved, key=lambda B: objective(B, coarse, coarse.diagonal(), pure=pure)[0])
    for here in finer:
        B = np.repeat(B, -(-here.n // B.shape[1]), axis=1)[:, : here.n]
        steps = patience if here is axis else 400
        B = _descend(here, B, pure=pure, steps=steps, memory=memory)
    return B


def scatter(p: int, n: int, seed: int = 0) -> Array:
    """Return a fixed scattered start in [0, ½): public, the same every time (splitmix64)."""
    z = np.arange(1, p * n + 1, dtype=np.uint64) + np.uint64(seed << 32)
    z *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-54).reshape(p, n)


def _descend(axis: Axis, start: Array, *, pure: bool, steps: int, memory: int) -> Array:
    shape, diagonal = start.shape, axis.diagonal()
    first = objective(start, axis, diagonal, pure=pure)[0]

    def scaled(b: Array) -> tuple[float, Array]:
        value, slope = objective(b.reshape(shape), axis, diagonal, pure=pure)
        return value / first, slope.ravel() / first

    optimum = optimize.minimize(
        scaled,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * start.size,
        options={
            "maxiter": steps,
            "maxfun": 2 * steps,
            "ftol": 1e-9,
            "gtol": 1e-12,
            "maxcor": memory,
        },
    )
    return np.asarray(optimum.x.reshape(shape))


def objective(B: Array, axis: Axis, diagonal: Array, *, pure: bool) -> tuple[float, Array]:
    """Return f(B) and its gradient."""
    s = _norms(B, pure=pure)
    # I + BBᵀ ⪰ I is well conditioned, and a product is much faster than solving for n columns
    MB = np.linalg.inv(np.eye(len(B)) + B @ B.T) @ B
    BSV = axis.gram_rows(B * s)
    columns = np.einsum("ij,ij->j", BSV, MB)
    value = float((s * s * diagonal).sum() - (columns * s).sum())
    ds = 2 * (diagonal * s - columns)
    G = axis.gram_rows(MB * s) * s
    slope = (G @ B.T) @ MB
    slope -= G
    slope *= 2
    slope += ds if pure else ds * B / s
    return value, slope
