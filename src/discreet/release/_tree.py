"""Estimates from block sums of nested grids: linear time, all of it post-processing.

Let level l measure the sums of cubes of t_l cells, each with noise variance v_l. Nested
block averages P_l commute, so least squares splits over the orthogonal parts
range(P_l) − range(P_{l−1}): the contrasts between the children of one parent. A contrast of
level s is seen by every level t ≤ s, a sum over s/t blocks with precision t/(s·v_t). So
(:func:`pooled`) one pass up collects Σ (t/v_t)·(block sum) over finer levels and divides by
Σ t/v_t; one pass down (:func:`descend`) adds to each child its share of the parent's
value and its own contrast. This is Hay et al. (2010) for any branching and any weights.

Two steps are optional and only shrink the error of typical data: block James–Stein on
the contrasts of each parent (Stein 1956), and projection of children on
{≥ 0, sum = parent}, the nearest point of a simplex (Held, Wolfe, Crowder 1974).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet._lazy import optimize

Array = NDArray[np.float64]


def folded(x: Array, ratio: Sequence[int]) -> Array:
    """Return the children of each parent as rows: (parents, children of one)."""
    split: list[int] = []
    for n, r in zip(x.shape, ratio, strict=True):
        split += [n // r, r]
    order = [2 * i for i in range(x.ndim)] + [2 * i + 1 for i in range(x.ndim)]
    return np.asarray(x.reshape(split).transpose(order).reshape(-1, math.prod(ratio)))


def unfolded(rows: Array, shape: Sequence[int], ratio: Sequence[int]) -> Array:
    """Undo :func:`folded`; `shape` is that of the children."""
    d = len(shape)
    parents = [n // r for n, r in zip(shape, ratio, strict=True)]
    order = [axis for i in range(d) for axis in (i, d + i)]
    return np.asarray(rows.reshape([*parents, *ratio]).transpose(order).reshape(shape))


def _ratio(parent: Array, child: Array) -> list[int]:
    return [c // p for p, c in zip(parent.shape, child.shape, strict=True)]


def pooled(
    levels: Sequence[Array], sizes: Sequence[int], variances: Sequence[float]
) -> tuple[list[Array], list[float]]:
    """Return, coarse to fine, each level pooled with all finer ones, and its precision.

    Parameters
    ----------
    levels
        Noisy block sums, coarse to fine, each shape a multiple of the one before.
    sizes
        Cells of a block, level by level.
    variances
        Noise variance of a block sum, level by level.
    """
    out: list[Array] = []
    precisions: list[float] = []
    gathered: Array | None = None
    weight = 0.0
    for y, size, variance in reversed(list(zip(levels, sizes, variances, strict=True))):
        own = size / variance
        if gathered is not None:
            ratio = _ratio(y, gathered)
            gathered = folded(gathered, ratio).sum(axis=1).reshape(y.shape) + own * y
        else:
            gathered = own * y
        weight += own
        out.append(gathered / weight)
        precisions.append(weight / size)
    return out[::-1], precisions[::-1]


def descend(
    pools: Sequence[Array],
    precisions: Sequence[float],
    *,
    shrink: float = 0.0,
    simplex: bool = False,
) -> Array:
    """Return estimates of the finest level's blocks, from the top down.

    Parameters
    ----------
    pools, precisions
        From :func:`pooled`.
    shrink
        James–Stein factor c: contrasts d of r children are multiplied by
        max(0, 1 − c(r−1)/(P‖d‖²)); 0 leaves them.
    simplex
        Whether children are projected on {≥ 0, sum = parent}.
    """
    total = float(pools[0].sum())
    parent = np.full((1,) * pools[0].ndim, max(total, 0.0) if simplex else total)
    for pool, precision in zip(pools, precisions, strict=True):
        ratio = _ratio(parent, pool)
        r = math.prod(ratio)
        rows = folded(pool, ratio)
        contrast = rows - rows.mean(axis=1, keepdims=True)
        if shrink and r > 2:
            size = np.maximum((contrast * contrast).sum(axis=1, keepdims=True), 1e-300)
            contrast = contrast * np.maximum(0.0, 1 - shrink * (r - 1) / (precision * size))
        children = parent.reshape(-1, 1) / r + contrast
        if simplex:
            children = onto_simplex(children, parent.ravel())
        parent = unfolded(children, pool.shape, ratio)
    return parent


def spread(blocks: Array, shape: Sequence[int], side: int) -> Array:
    """Share block sums equally among their cells and cut the padding off."""
    out = blocks / side ** len(shape)
    for axis in range(out.ndim):
        out = np.repeat(out, side, axis=axis)
    return np.asarray(out[tuple(slice(0, n) for n in shape)])


def onto_simplex(rows: Array, totals: Array) -> Array:
    """Project each row on {v ≥ 0, Σv = total}."""
    ordered = -np.sort(-rows, axis=1)
    excess = np.cumsum(ordered, axis=1) - totals[:, None]
    rank = np.arange(1, rows.shape[1] + 1)
    active = np.maximum((ordered - excess / rank > 0).sum(axis=1), 1)
    cut = excess[np.arange(len(rows)), active - 1] / active
    return np.asarray(np.maximum(rows - cut[:, None], 0.0))


def isotonic(cells: Array) -> Array:
    """Make prefix sums of a vector non-decreasing and ≥ 0, by projection in their own metric.

    The true prefix sums lie in this convex cone, so the projection never moves them
    farther from the truth, whatever the noise. Clipping the cells has no such promise: its
    positive errors add up along a range.
    """
    sums = np.maximum(optimize.isotonic_regression(np.cumsum(cells)).x, 0.0)
    return np.diff(sums, prepend=0.0)
