"""After the noise: non-negative estimates and made-up records. None of it costs privacy.

Non-negativity
--------------
Clipping the cells wrecks ranges: positive errors add up. Instead the *answers* Wx̂ are
projected on the convex set {Wx : x ≥ 0}, which contains the true answers, so that for
every outcome ‖W(x̃ − x)‖ ≤ ‖W(x̂ − x)‖. For prefix sums this is isotonic regression; for other
workloads the quadratic programme min_{x ≥ 0} ‖W(x − x̂)‖² is solved by accelerated projected
gradients on the Gram operator (Beck, Teboulle 2009).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet.errors import Hint, ParameterError
from discreet.release import _factors, _tree
from discreet.release._queries import along
from discreet.release._workload import Products, Workload

Array = NDArray[np.float64]

_STEPS = 3000


def nonnegative(workload: Workload, estimate: Any) -> Array:
    """Return the non-negative estimate nearest in the metric of the workload."""
    if not isinstance(estimate, np.ndarray) or not isinstance(workload, Products):
        raise ParameterError(
            "nonnegative needs one estimate of all counts, for a workload of products",
            hint=Hint("nonnegative", False),
        )
    axes = [axes for _, axes in workload.terms]
    if len(axes) == 1 and all(isinstance(axis, _factors.Identity) for axis in axes[0]):
        return np.maximum(estimate, 0.0)
    if len(axes) == 1 and len(axes[0]) == 1 and isinstance(axes[0][0], _factors.Prefix):
        return _tree.isotonic(estimate)
    return _projected(workload, estimate)


def _gram(workload: Products, x: Array) -> Array:
    out = np.zeros_like(x)
    for weight, axes in workload.terms:
        y = x
        for i, axis in enumerate(axes):
            y = along(y, i, lambda table, a=axis: a.gram_rows(table.T).T)
        out += weight**2 * y
    return out


def _projected(workload: Products, estimate: Array) -> Array:
    # Lipschitz constant by power iteration, with a margin
    z = np.ones_like(estimate)
    for _ in range(30):
        z = _gram(workload, z)
        z /= np.linalg.norm(z)
    step = 1 / (1.05 * float((z * _gram(workload, z)).sum()))
    x = y = np.maximum(estimate, 0.0)
    momentum = 1.0
    best, least = x, math.inf
    for _ in range(_STEPS):
        slope = _gram(workload, y - estimate)
        new = np.maximum(y - step * slope, 0.0)
        after = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        y = new + (momentum - 1) / after * (new - x)
        if float(((y - new) * (new - x)).sum()) < 0:
            y, after = new, 1.0
        moved = float(np.abs(new - x).max())
        x, momentum = new, after
        value = float(((x - estimate) * _gram(workload, x - estimate)).sum())
        if value < least:
            best, least = x, value
        if moved < 1e-9 * (1 + float(np.abs(x).max())):
            break
    return np.asarray(best)


def records(estimate: Array, n: int | None) -> NDArray[np.int64]:
    """Round an estimate to whole records: floors, then the largest remainders."""
    weights = np.maximum(np.asarray(estimate, dtype=np.float64), 0.0).ravel()
    total = float(weights.sum())
    size = round(total) if n is None else n
    if size < 0 or size > 1 << 28:
        raise ParameterError(
            "n must be a number of records that memory holds", hint=Hint("n", 1000)
        )
    if total <= 0:
        weights, total = np.ones_like(weights), float(weights.size)
    expected = weights * (size / total)
    whole = np.floor(expected)
    rest = size - int(whole.sum())
    if rest > 0:
        # ties are broken by a public random order
        order = np.asarray(noise.permutation(weights.size))
        ranked = order[np.argsort(-(expected - whole)[order], kind="stable")]
        whole[ranked[:rest]] += 1
    cells = np.repeat(np.arange(weights.size), whole.astype(np.int64))
    return np.stack(np.unravel_index(cells, estimate.shape), axis=1).astype(np.int64)
