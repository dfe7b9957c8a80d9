"""The matrix mechanism: any strategy, and the certified optimum for Gaussian noise.

Guarantee
---------
One integer matrix measured once (:class:`~._mechanism.Strategy`). A real strategy is rounded
to an integer grid first, and its sensitivity is that of the rounded matrix.

For Laplace noise no optimum is known; without a strategy of the caller's, a p-Identity
matrix is learned for the workload's Gram matrix (:mod:`._pidentity`).

The optimum
-----------
For Gaussian noise the error is ‖A‖²·tr(V(AᵀA)⁻¹), ‖A‖ the largest column norm, V = WᵀW.
With X = AᵀA: minimise tr(VX⁻¹) over X ≻ 0 with diag X ≤ 1, a convex problem. For v > 0, D = diag v
and S = (D^½VD^½)^½, weak duality gives for *every* v

    tr(VX⁻¹) ≥ (tr S)²/Σv for all feasible X,

since tr(VX⁻¹)·tr(DX) ≥ (tr (D^½VD^½)^½)² by Cauchy–Schwarz and tr(DX) ≤ Σv. The fixed point
v ← diag S has X = D^{−½}SD^{−½} with diag X = 1 and equality. So each iteration yields a
feasible X (after scaling its diagonal to 1), its error, and a *certificate* of how far any
strategy whatsoever could be below it (Yuan, Yang, Zhang 2016 state the problem; Li et al. 2015
the matrix mechanism).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass, replace
from discreet.errors import Hint, ParameterError
from discreet.release import _factors
from discreet.release._mechanism import Job, Strategy
from discreet.release._pidentity import optimum as pidentity
from discreet.release._queries import Matrix

Array = NDArray[np.float64]

LARGEST = 2048
_SCALE = 1 << 14


@dataclass(frozen=True)
class Optimum:
    """A strategy, its error at unit noise, and a bound below which no strategy gets.

    Attributes
    ----------
    matrix
        The strategy A, columns of norm at most 1.
    error
        tr(V(AᵀA)⁻¹).
    bound
        Lower bound on the error of every strategy.
    """

    matrix: Array
    error: float
    bound: float

    @property
    def gap(self) -> float:
        """Relative distance between error and bound, in RMSE."""
        return float(np.sqrt(self.error / self.bound) - 1) if self.bound else 0.0


def gaussian_optimum(V: Array, *, gap: float = 1e-3, rounds: int = 400) -> Optimum:
    """Find the best strategy for Gaussian noise, certified to a relative gap in RMSE.

    Parameters
    ----------
    V
        Gram matrix of the workload.
    gap
        Stop when error and lower bound agree to this.
    rounds
        Most iterations; each is one eigendecomposition.
    """
    mask = np.diag(V) > 0
    if not mask.all():
        # cells that no query touches get rows of their own: they cost the others nothing
        if not mask.any():
            return Optimum(np.eye(len(V)), 0.0, 0.0)
        inner = gaussian_optimum(V[np.ix_(mask, mask)], gap=gap, rounds=rounds)
        whole = np.eye(len(V))
        whole[np.ix_(mask, mask)] = inner.matrix
        return Optimum(whole, inner.error, inner.bound)
    n = len(V)
    # a trace of the identity keeps V definite, and only raises the error
    V = V + np.eye(n) * (1e-12 * np.trace(V) / n)
    v = np.sqrt(np.maximum(np.diag(V), 1e-300))
    best = Optimum(np.eye(n), float(np.trace(V)), 0.0)
    for _ in range(rounds):
        root = np.sqrt(v)
        values, vectors = np.linalg.eigh(root[:, None] * V * root)
        roots = np.sqrt(np.maximum(values, 0.0))
        diagonal = (vectors * vectors) @ roots
        bound = max(best.bound, float(roots.sum() ** 2 / v.sum()))
        # X = D^{−½}SD^{−½} has diagonal diag(S)/v; scale it to at most 1
        half = np.sqrt(np.sqrt(np.maximum(values, 0.0)))[:, None] * vectors.T / root
        peak = float((diagonal / v).max())
        inverse = (vectors / np.maximum(roots, 1e-300)) @ vectors.T
        error = float(peak * ((root[:, None] * V * root) * inverse).sum())
        if error < best.error:
            best = Optimum(half / np.sqrt(peak), error, bound)
        best = replace(best, bound=bound)
        if best.gap <= gap:
            break
        v = diagonal
    return best


class MatrixStrategy(Strategy):
    """A given matrix, the certified optimum (Gaussian) or a learned one (Laplace), on a grid."""

    method: ClassVar[str] = "matrix"
    query: Matrix

    def __init__(
        self, job: Job, *, strategy: Any = None, scale: int = _SCALE, gap: float = 1e-3
    ) -> None:
        super().__init__(job)
        cells = job.workload.cells
        if cells > LARGEST:
            raise ParameterError(
                f"matrix writes strategies out: {cells} cells are more than {LARGEST}",
                hint=Hint("method", "hb"),
            )
        self.optimum: Optimum | None = None
        if strategy is None:
            V = job.workload.gram()
            if job.price.pure:
                factor = pidentity(_factors.Gram(V), pure=True)
                strategy = np.vstack([np.diag(factor.d), factor.B])
            else:
                self.optimum = gaussian_optimum(V, gap=gap)
                strategy = self.optimum.matrix
        self.query = Matrix(_integers(strategy, cells, scale))
        A = self.query.matrix.astype(np.float64)
        gram = A.T @ A
        if np.linalg.matrix_rank(A) < cells:
            raise ParameterError(
                "the strategy is rank-deficient: some counts leave no trace in what it measures, "
                "so they cannot be estimated",
                hint="add the rows of the identity to the strategy",
            )
        self._inverse = np.linalg.inv(gram)
        self._lift = self._inverse @ A.T

    def trace(self) -> float:
        """Return tr(V(AᵀA)⁻¹) of the integer matrix."""
        return float((self.job.workload.gram() * self._inverse).sum())

    def reconstruct(self, y: NDArray[Any]) -> Array:
        """Solve by least squares."""
        z = self._lift @ np.asarray(y, dtype=np.float64)
        return np.asarray(z.reshape(self.job.workload.shape))

    def describe(self) -> str:
        """Name size and certificate."""
        rows, cells = self.query.matrix.shape
        if self.optimum is None:
            return f"matrix: a strategy of {rows} × {cells}, written out"
        return f"matrix: {rows} × {cells}, within {100 * self.optimum.gap:.2g} % of the optimum"


def _integers(strategy: Any, cells: int, scale: int) -> NDArray[np.int64]:
    matrix = np.asarray(strategy.toarray() if hasattr(strategy, "toarray") else strategy)
    if matrix.ndim != 2 or matrix.shape[1] != cells or matrix.dtype.kind not in "biuf":
        raise ParameterError(
            f"a strategy needs one column for each of the {cells} cells",
            hint="the identity: numpy.eye(cells)",
        )
    if matrix.dtype.kind == "f" and not np.isfinite(matrix).all():
        raise ParameterError("a strategy must hold finite numbers")
    whole = bool((matrix == np.rint(matrix)).all())
    rounded = np.rint(matrix if whole else matrix * (scale / np.abs(matrix).max()))
    if np.abs(rounded).max(initial=0) >= 1 << 24:
        raise ParameterError(
            "entries of a strategy must stay below 2^24", hint=Hint("scale", 16_384)
        )
    return np.asarray(rounded[np.abs(rounded).sum(axis=1) > 0], dtype=np.int64)
