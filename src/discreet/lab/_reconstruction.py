"""Reconstruction of bits from answers to many random subset counts (Dinur & Nissim 2003).

n people have one secret bit each. A query is a random subset; its answer is the number
of ones in it, give or take some noise. With m queries and noise well below √n nearly all
bits come back, by a linear program (least total misfit) or by least squares. That is
the law of information recovery: too many answers that are too accurate reveal everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from discreet.errors import ParameterError
from discreet.lab._table import Floats, Ints


def subset_queries(people: int, queries: int, *, seed: int = 2003) -> Ints:
    """Return random subsets, one per row: 1 for members, 0 for the rest.

    >>> from discreet import lab
    >>> lab.subset_queries(64, 256).shape
    (256, 64)
    """
    return np.random.default_rng(seed).integers(0, 2, (queries, people), dtype=np.int64)


def reconstruct_lp(queries: Any, answers: Any) -> Ints:
    """Return the bits that fit the answers best, by linear programming.

    The program: minimise Σ(u + v) subject to Qx + u − v = a, 0 ≤ x ≤ 1, u, v ≥ 0; then
    round x at one half.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import lab
    >>> bits = np.random.default_rng(1).integers(0, 2, 32)
    >>> queries = lab.subset_queries(32, 128)
    >>> lab.recovered(bits, lab.reconstruct_lp(queries, queries @ bits))
    1.0
    """
    q, a = _read(queries, answers)
    m, n = q.shape
    identity = sparse.identity(m, format="csr")
    solved = linprog(
        np.concatenate([np.zeros(n), np.ones(2 * m)]),
        A_eq=sparse.hstack([sparse.csr_matrix(q), identity, -identity]),
        b_eq=a,
        bounds=[(0, 1)] * n + [(0, None)] * (2 * m),
        method="highs",
    )
    return np.asarray(solved.x[:n] > 0.5, dtype=np.int64)


def reconstruct_least_squares(queries: Any, answers: Any) -> Ints:
    """Return the bits that fit the answers best, by least squares, rounded at one half.

    >>> import numpy as np
    >>> from discreet import lab
    >>> bits = np.random.default_rng(1).integers(0, 2, 32)
    >>> queries = lab.subset_queries(32, 128)
    >>> lab.recovered(bits, lab.reconstruct_least_squares(queries, queries @ bits))
    1.0
    """
    q, a = _read(queries, answers)
    return np.asarray(np.linalg.lstsq(q, a)[0] > 0.5, dtype=np.int64)


def recovered(bits: Any, guess: Any) -> float:
    """Return the share of bits guessed right; a coin gets one half.

    >>> from discreet import lab
    >>> lab.recovered([0, 1, 1, 0], [0, 1, 0, 0])
    0.75
    """
    return float(np.mean(np.asarray(bits) == np.asarray(guess)))


def _read(queries: Any, answers: Any) -> tuple[Floats, Floats]:
    q, a = np.asarray(queries, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    if q.ndim != 2 or a.shape != q.shape[:1]:
        raise ParameterError("give one answer per query", hint="queries @ bits")
    return q, a
