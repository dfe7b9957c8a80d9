"""HDMM: optimised strategies for Kronecker products and their unions.

Guarantee
---------
Every strategy is one integer matrix measured once, or several measured with shares of the
price that add up to 1 (basic composition). Sensitivities are exact (:mod:`._queries`):
for ⊗A_i they multiply.

How (McKenna, Miklau, Hay, Machanavajjhala 2018)
------------------------------------------------
* One product: tr factorises, so each axis is optimised alone (:mod:`._pidentity`).
* A union of products, one strategy ⊗A_i: for fixed other axes the error is that of axis i
  with the Gram matrix Σ_j w_j²·∏_{k≠i} tr(V_jk(A_kᵀA_k)⁻¹)·V_ji; a few rounds over the axes.
* A union of products, one strategy for each product: with errors e_j at full price, the best
  shares are ∝ e_j^{1/3} (ε) or e_j^{1/2} (ρ, where a share buys variance 1/share); totals
  (Σe^{1/3})³ and (Σe^{1/2})².

The better of the last two is taken. Reference for figures: see `docs/release.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import ParameterError
from discreet.release._counts import fitting
from discreet.release._factors import Axis
from discreet.release._mechanism import Job, Mechanism, Strategy
from discreet.release._pidentity import Mixture, PIdentity, grid_for, optimum
from discreet.release._queries import Kron, along
from discreet.release._questions import Course, Measurement
from discreet.release._workload import Marginals, Products

_ROUNDS = 4

Terms = Sequence[tuple[float, tuple[Axis, ...]]]


class KronStrategy(Strategy):
    """⊗ of p-Identity strategies, one for each axis."""

    method: ClassVar[str] = "hdmm"
    query: Kron

    def __init__(self, job: Job, factors: Sequence[PIdentity], terms: Terms) -> None:
        super().__init__(job)
        self.factors, self.terms = list(factors), terms
        self.query = Kron(self.factors)

    def trace(self) -> float:
        """Σ w² ∏ traces."""
        return sum(
            w**2 * math.prod(f.trace(a) for f, a in zip(self.factors, axes, strict=True))
            for w, axes in self.terms
        )

    def reconstruct(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Apply each factor's pseudo-inverse along its axis."""
        x = np.asarray(y, dtype=np.float64).reshape([f.rows for f in self.factors])
        for i, factor in enumerate(self.factors):
            x = along(x, i, factor.solve)
        return x

    def describe(self) -> str:
        """Name the shape of each factor."""
        factors = " ⊗ ".join(f"{f.size}+{len(f.B)} rows" for f in self.factors)
        return f"{self.method}: p-Identity, {factors}"


class UnionStrategy(Mechanism):
    """One Kronecker strategy for each product of a union, with shares of the price."""

    method: ClassVar[str] = "hdmm"
    linear = True
    note = Strategy.note

    def __init__(self, job: Job, parts: Sequence[KronStrategy]) -> None:
        super().__init__(job)
        self.parts = list(parts)
        errors = np.array([part.trace() * _unit(part.query, job) for part in parts])
        power = 1 / 3 if job.price.pure else 1 / 2
        weights = errors**power
        # shares on a grid, rounded down: they add up to at most 1
        self.shares = [
            Fraction(max(1, math.floor(w / weights.sum() * (1 << 16))), 1 << 16) for w in weights
        ]

    @property
    def _measurements(self) -> list[Measurement]:
        return [
            self.job.measurement(part.query, share, f"product {i}")
            for i, (part, share) in enumerate(zip(self.parts, self.shares, strict=True))
        ]

    def error(self) -> float:
        """Sum over the products."""
        return sum(
            m.law.variance * part.trace()
            for m, part in zip(self._measurements, self.parts, strict=True)
        )

    def course(self) -> Course:
        """Measure each product's strategy."""
        estimates = []
        for part, measurement in zip(self.parts, self._measurements, strict=True):
            released = yield measurement
            estimates.append(part.reconstruct(released))
        return estimates

    def answers(self, estimate: Any) -> NDArray[Any]:
        """Answer each product from its own estimate."""
        return np.concatenate(
            [Products([(1.0, part.terms[0][1])]).answers(x)
             for part, x in zip(self.parts, estimate, strict=True)]
        )  # fmt: skip

    def describe(self) -> str:
        """Name the number of parts."""
        return f"{self.method}: {len(self.parts)} products, each with its own strategy"


def _unit(query: Kron, job: Job) -> float:
    """Noise variance at unit price, up to a constant."""
    if job.price.pure:
        return float(query.l1_sensitivity(job.neighbours)) ** 2
    return float(query.l2_sensitivity(job.neighbours))


def hdmm(job: Job, *, rows: int | None = None, patience: int = 250) -> Mechanism:
    """Return the best of the product and the union strategies.

    Parameters
    ----------
    job
        Workload and price.
    rows
        Learned rows for each axis; by default about n/12, at most 96.
    patience
        Iterations on the finest grid.
    """
    terms = _terms(job)
    fitting(job.workload.shape)
    scale = grid_for(len(job.workload.shape))
    solved = partial(optimum, pure=job.price.pure, p=rows, patience=patience, scale=scale)
    alone = [[solved(axis) for axis in axes] for _, axes in terms]
    if len(terms) == 1:
        return KronStrategy(job, alone[0], terms)
    joint = KronStrategy(job, _block_descent(terms, solved), terms)
    each = [KronStrategy(job, f, [term]) for f, term in zip(alone, terms, strict=True)]
    union = UnionStrategy(job, each)
    return joint if joint.error() <= union.error() else union


def _terms(job: Job) -> Terms:
    if isinstance(job.workload, Products):
        return job.workload.terms
    hint = 'method="marginals"' if isinstance(job.workload, Marginals) else 'method="hb"'
    raise ParameterError(
        "hdmm optimises workloads made of Kronecker products; this one is "
        f"{job.workload.describe()}",
        hint=hint,
    )


def _block_descent(terms: Terms, solved: Callable[[Axis], PIdentity]) -> list[PIdentity]:
    d = len(terms[0][1])
    factors = [solved(Mixture([(w * w, axes[i]) for w, axes in terms])) for i in range(d)]
    for _ in range(_ROUNDS if d > 1 else 0):
        for i in range(d):
            weights = [
                w * w * math.prod(factors[k].trace(axes[k]) for k in range(d) if k != i)
                for w, axes in terms
            ]
            mixed = Mixture([(w, axes[i]) for w, (_, axes) in zip(weights, terms, strict=True)])
            factors[i] = solved(mixed)
    return factors
