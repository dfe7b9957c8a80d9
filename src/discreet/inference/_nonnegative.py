r"""Non-negative, consistent tables from noisy answers, with their bias stated.

The reconstruction minimises :math:`\sum_i (a_i\cdot x-y_i)^2/\sigma_i^2` over
:math:`x\ge0` (and, where the total is public, over tables with that total) by
block principal pivoting. Every query of the result is consistent with
every other, because all are computed from one table.

Bias: a cell whose true count is zero cannot be estimated below zero. For cells
measured directly its bias is at most :math:`E\max(N,0)`, attained at zero
(Laplace: b/2), and fades as the true count grows; k empty cells inflate a free
total by up to k times that. A public total removes the inflation of the total
and takes it from the large cells instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lsqr

from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """A non-negative table and the bias it bought.

    Attributes
    ----------
    x
        The cells.
    shift
        Change of the total against the unbiased least-squares solution: the
        inflation that non-negativity caused here.
    bias
        What non-negativity does, in words.
    """

    x: Floats
    shift: float
    bias: str


def reconstruct(
    A: Any, y: Floats, sd: Floats, start: Floats, total: float | None
) -> Reconstruction:
    """Solve the constrained least-squares problem; `start` is the unconstrained solution."""
    unbiased = float(start.sum())
    rows, aims = sparse.diags_array(1 / sd) @ A, y / sd
    if total is not None:
        if not (np.isfinite(total) and total >= 0):
            raise ParameterError(
                "a public total is a non-negative number", hint=Hint("total", 1000)
            )
        # the total as an answer far more exact than any other; the rest is projected away
        weight = 1e4 / float(sd.min())
        whole = sparse.csr_array(np.full((1, A.shape[1]), weight))
        rows, aims = sparse.vstack([rows, whole], format="csr"), np.append(aims, total * weight)
    x = _pivot(sparse.csc_array(rows), aims)
    if total is not None:
        x = onto_simplex(x[None, :], total)[0]
    per_cell = float(np.median(sd)) / np.sqrt(8)
    report = (
        "cells near zero are biased upwards: Laplace noise measured alone by half its scale at a "
        f"true zero, here about {per_cell:.3g} per empty cell; "
        + (
            "the total is inflated accordingly"
            if total is None
            else "the public total holds, so large cells are biased downwards instead"
        )
    )
    return Reconstruction(x, float(x.sum()) - unbiased, report)


def _pivot(B: Any, c: Floats) -> Floats:
    """Minimise ‖Bx − c‖² over x ≥ 0 by block principal pivoting (Portugal et al. 1994).

    Cells are free or zero. All cells that violate the optimality conditions change
    sides at once; when that stops making progress, only the last one does, a rule
    that ends for every full-rank problem.
    """
    cells = B.shape[1]
    free = np.ones(cells, dtype=bool)
    fewest, patience = cells + 1, 3
    x = np.zeros(cells)
    for _ in range(200):
        x = np.zeros(cells)
        if free.any():
            x[free] = lsqr(B[:, free], c, atol=1e-11, btol=1e-11, iter_lim=2000)[0]
        slope = B.T @ (B @ x - c)
        slack = 1e-7 * (1 + float(np.abs(x).max(initial=0)))
        steep = 1e-7 * (1 + float(np.abs(slope[free]).max(initial=0)) + float(np.abs(c).max()))
        wrong = np.where(free, x < -slack, slope < -steep)
        bad = int(wrong.sum())
        if not bad:
            break
        if bad < fewest:
            fewest, patience = bad, 3
        elif patience:
            patience -= 1
        else:
            wrong = np.arange(cells) == np.flatnonzero(wrong)[-1]
        free = free ^ wrong
    return np.maximum(x, 0.0)


def onto_simplex(tables: Floats, total: float | Floats) -> Floats:
    """Project each row onto {x ≥ 0, Σx = total}, in the Euclidean norm.

    >>> onto_simplex(np.array([[3.0, 1.0, -2.0]]), 3.0)
    array([[2.5, 0.5, 0. ]])
    """
    goal = np.broadcast_to(np.asarray(total, dtype=np.float64), (len(tables),))[:, None]
    ordered = -np.sort(-tables, axis=1)
    excess = (np.cumsum(ordered, axis=1) - goal) / np.arange(1, tables.shape[1] + 1)
    last = (ordered > excess).sum(axis=1, keepdims=True) - 1
    return np.maximum(tables - np.take_along_axis(excess, np.maximum(last, 0), axis=1), 0.0)
