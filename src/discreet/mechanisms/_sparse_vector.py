"""The sparse vector technique: pay only for the answers above a threshold.

Guarantee
---------
Values of neighbours differ by at most m lattice steps each, chosen adaptively or not. One
threshold noise R of scale m/ε₁ is drawn at the start; each question gets fresh noise
Nᵢ of scale 2cm/ε₂ (cm/ε₂ if monotone) and the answer "above" if kᵢ + Nᵢ ≥ T + R.
After c answers "above" it stops for good. The sequence of answers is (ε₁ + ε₂)-DP, however
many answers "below" it contains. Each numeric answer is k plus *fresh* noise of scale
cm/ε₃; all of them together cost ε₃ more.

Proof (after Lyu, Su, Li 2017, with sums over ℤ for integrals). Fix an output.
For R = r let f(r) be the probability that all "below" answers come out as they do, and g(r)
that the "above" ones do; the output has probability Σ P(R=r)·f(r)·g(r). On a neighbour,
replace r by r + m: P(R=r) ≤ e^{ε₁}·P(R=r+m); f(r) ≤ f'(r+m), because each kᵢ rises by at
most m while the threshold rises by m; and each of the at most c factors of g satisfies
P(Nᵢ ≥ t+r−kᵢ) ≤ e^{ε₂/c}·P(Nᵢ ≥ t+r+m−k'ᵢ), a shift of at most 2m. If all values move one
way, either this shift is at most m, or r needs no replacement and the shift is again at
most m. All shifts are whole lattice steps, so no rounding enters. A threshold off the
lattice is rounded up, which changes no comparison of integers.

ε₁ : ε₂ = 1 : (2c)^{2/3} (monotone: c^{2/3}) minimises the variance of the comparison.
The split is rounded to a rational that sums to ε exactly.

Broken variants in the literature (Lyu et al.) re-use the comparison's noise for
the value, do not scale the noise with c, or add none to the values: see the audits.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import BudgetExceededError, ParameterError, PrivacyError
from discreet.mechanisms import _lattice
from discreet.mechanisms._calls import recorded
from discreet.mechanisms._lattice import Values
from discreet.mechanisms._parameters import read_count, read_sensitivity
from discreet.mechanisms._release import Release, Selection, interval_of_all, tainted
from discreet.privacy import read_neighbours


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything public about one run: lattice, noise laws, price."""

    step: Fraction
    threshold: int
    cutoff: int
    epsilon: Fraction
    threshold_law: noise.DiscreteLaplace
    question_law: noise.DiscreteLaplace
    value_law: noise.DiscreteLaplace | None
    value_epsilon: Fraction | None
    loss: p.PrivacyLoss

    def quantise(self, value: Any, name: str) -> tuple[_lattice.IntArray, Values]:
        """Put private values on the lattice."""
        values = _lattice.read_values(value, name)
        return _lattice.quantise(values, self.step), values

    def above(self, k: _lattice.IntArray, runs: int) -> NDArray[np.bool_]:
        """Answer all questions in `runs` independent runs, one per row, before any cutoff.

        Noise for every question is drawn, so that the work says nothing about
        where a run stops.
        """
        bars = self.threshold_law.sample(runs)
        noisy = _lattice.add(np.tile(k, runs), self.question_law.sample(runs * k.size))
        levels = _lattice.add(_lattice.object_array([self.threshold] * runs), bars)
        return np.asarray(np.asarray(noisy).reshape(runs, -1) >= np.asarray(levels)[:, None])

    def measure(self, k: int) -> tuple[Release, ...]:
        """Release one value with fresh noise, if a share was set aside for values."""
        if self.value_law is None or self.value_epsilon is None:
            return ()
        z = self.value_law.sample(1)
        noisy = _lattice.add(_lattice.object_array([k]), z)
        release = Release(
            value=_lattice.to_units(noisy, self.step, ()),
            law=self.value_law,
            step=self.step,
            loss=p.Pure(self.value_epsilon).under(self.loss.neighbours),
            mechanism="laplace",
            price=f"ε={_exact.show(self.value_epsilon)} of the sparse vector's",
            rounded=True,
            tainted=tainted(z),
        )
        return (release,)

    def accuracy(self, questions: int, confidence: float) -> float:
        """Bound the noise of all comparisons at once, for public numbers only."""
        each = math.sqrt(confidence)
        first, _ = interval_of_all(self.threshold_law, each, 1)
        rest, _ = interval_of_all(self.question_law, each, questions)
        return float((first.high + rest.high + 1) * self.step)


def _plan(
    threshold: Number,
    sensitivity: Number,
    epsilon: Number,
    cutoff: int,
    *,
    monotone: bool,
    numeric: Number | None,
    step: Number | None,
    neighbours: p.Neighbours | str | None,
) -> _Plan:
    eps, delta_inf = _exact.epsilon(epsilon), read_sensitivity(sensitivity)
    c = read_count(cutoff, "cutoff")
    share = Fraction(0) if numeric is None else _exact.delta(numeric, "numeric")
    grid = (
        _lattice.fine_step(delta_inf, delta_inf / eps) if step is None else _lattice.read_step(step)
    )
    m = math.ceil(delta_inf / grid)
    width = c if monotone else 2 * c
    first = (1 - share) * eps * Fraction(1 / (1 + width ** (2 / 3))).limit_denominator(10**6)
    second = (1 - share) * eps - first
    values = share * eps / c
    return _Plan(
        step=grid,
        threshold=math.ceil(_exact.decimal(threshold, "threshold") / grid),
        cutoff=c,
        epsilon=eps,
        threshold_law=noise.DiscreteLaplace(m / first),
        question_law=noise.DiscreteLaplace(width * m / second),
        value_law=noise.DiscreteLaplace(m / values) if values else None,
        value_epsilon=values or None,
        loss=p.Pure(eps).under(read_neighbours(neighbours)),
    )


class SparseVector:
    """An interactive run of the sparse vector technique: ε-DP in total.

    Parameters
    ----------
    threshold
        Public threshold.
    sensitivity
        Public bound on the change of any one value between neighbours.
    epsilon
        Privacy parameter of the whole run.
    cutoff
        How many answers "above" may be given before the run ends.
    monotone
        Whether one record moves all values in the same direction.
    numeric
        Share of ε, between 0 and 1, set aside to release the values found above.
    step
        Public lattice; by default a fine power of two.
    neighbours
        The relation under which the sensitivity was computed.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> watch = m.SparseVector(threshold=100, sensitivity=1, epsilon=1)
    >>> [watch.ask(v) for v in (0, 1, 500)]
    [False, False, True]
    >>> watch.exhausted
    True
    """

    def __init__(
        self,
        threshold: Number,
        sensitivity: Number,
        epsilon: Number,
        cutoff: int = 1,
        *,
        monotone: bool = False,
        numeric: Number | None = None,
        step: Number | None = None,
        neighbours: p.Neighbours | str | None = None,
    ) -> None:
        self._plan = _plan(
            threshold,
            sensitivity,
            epsilon,
            cutoff,
            monotone=monotone,
            numeric=numeric,
            step=step,
            neighbours=neighbours,
        )
        self._public = {"sensitivity": sensitivity, "monotone": monotone, "plan": self._plan}
        bar = self._plan.threshold_law.sample(1)
        self._tainted = tainted(bar)
        self._bar = self._plan.threshold + int(bar[0])  # Python's integers do not wrap
        self._count = 0
        self._lock = Lock()

    @property
    def tainted(self) -> bool:
        """Whether the threshold's noise came from the deterministic test source."""
        return self._tainted

    @property
    def loss(self) -> p.PrivacyLoss:
        """The loss of the whole run, due at its start."""
        return self._plan.loss

    @property
    def exhausted(self) -> bool:
        """Whether the run has given its last answer."""
        return self._count >= self._plan.cutoff

    def _replay(self, outcome: bool | Release) -> None:
        """Count an answer that was given again."""
        self._count += outcome is not False

    @recorded("linf", public=attrgetter("_public"), replayed=_replay)
    def ask(self, value: Any) -> bool | Release:
        """Tell whether a private value is above the threshold.

        Returns
        -------
        bool or Release
            False below; above, True or, if a share of ε was set aside for
            values, the value with fresh noise.

        Raises
        ------
        BudgetExceededError
            After `cutoff` answers above.
        """
        k, values = self._plan.quantise(value, "value")
        if values.size != 1:
            raise ParameterError("ask takes one number; m.sparse_vector takes a list")
        noisy = _lattice.add(k, self._plan.question_law.sample(1))
        # two threads must not share the last answer
        with self._lock:
            if self.exhausted:
                raise BudgetExceededError(
                    f"this sparse vector has given its {self._plan.cutoff} answers above",
                    hint="start a new m.SparseVector(…) and pay for it",
                )
            if int(noisy[0]) < self._bar:
                return False
            self._count += 1
        measured = self._plan.measure(int(k[0]))
        return measured[0] if measured else True

    def __reduce__(self) -> Never:
        raise PrivacyError("a running sparse vector cannot be copied: each copy would answer again")

    def __repr__(self) -> str:
        rest = self._plan.cutoff - self._count
        return f"SparseVector(ε={_exact.show(self._plan.epsilon)}, {rest} answers above left)"


@recorded("linf")
def sparse_vector(
    values: Any,
    threshold: Number,
    sensitivity: Number,
    epsilon: Number,
    cutoff: int = 1,
    *,
    monotone: bool = False,
    numeric: Number | None = None,
    step: Number | None = None,
    neighbours: p.Neighbours | str | None = None,
) -> Selection:
    """Find the first `cutoff` values above a threshold: ε-DP.

    Takes a list of private values, in a public order, and the parameters of
    :class:`SparseVector`. The result's ``value`` is the tuple of indices found
    above, ``asked`` how many questions were answered before it stopped, and
    ``measured`` the noisy values, if ``numeric`` set aside a share for them.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.sparse_vector([0, 500, 1, 900, 700], 250, 1, 1, cutoff=2).value
    (1, 3)
    """
    plan = _plan(
        threshold,
        sensitivity,
        epsilon,
        cutoff,
        monotone=monotone,
        numeric=numeric,
        step=step,
        neighbours=neighbours,
    )
    k, private = plan.quantise(values, "values")
    if len(private.shape) != 1:
        raise ParameterError("values must be a list with one number per question")
    above = np.flatnonzero(plan.above(k, 1)[0])
    indices = tuple(int(i) for i in above[: plan.cutoff])
    measured = [plan.measure(int(k[i])) for i in indices]
    return Selection(
        value=indices,
        loss=plan.loss,
        mechanism="sparse-vector",
        price=f"ε={_exact.show(plan.epsilon)}",
        measured=tuple(release for pair in measured for release in pair),
        asked=indices[-1] + 1 if len(indices) == plan.cutoff else private.size,
        tainted=noise.is_deterministic(),
        _accuracy=partial(plan.accuracy, private.size),
    )
