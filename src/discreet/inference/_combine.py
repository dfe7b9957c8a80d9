r"""Combining released linear answers: weighted least squares, and what it cannot know.

Released :math:`y = Ax + N`, independent N of known laws with variances σ². The
best linear unbiased estimate of a derived query w·x is :math:`g\cdot y` with

.. math:: A^\top g = w,\qquad \sum_i \sigma_i^2 g_i^2 \text{ least};

its variance is that least value (Gauss–Markov). A query is *estimable* exactly
when some g exists, i.e. when w lies in the row space of A; otherwise no unbiased
estimate exists, whatever the method, and asking for one is refused. The weights g
are found per query (dense: by pseudo-inverse; sparse: by LSQR, whose limit is
the least-norm solution), so a million cells take seconds and no covariance
matrix is ever formed.

Intervals
---------
The error of the estimate is :math:`\sum g_iN_i`, a known law:

* one weight: exact, from the law itself;
* all Gaussian: normal with the variance above (exact for continuous laws; for
  discrete ones the error of this is of the order :math:`e^{-2\pi^2\sigma^2}`);
* otherwise Monte Carlo. The true error and B simulated ones are exchangeable,
  so the k-th smallest simulated |error| covers with probability at least
  k/(B+1), exactly, for every B; k = ⌈(B+1)c⌉. Equal weights are drawn together as
  one negative binomial (or gamma) difference, weights rounded up by at most 10⁻⁴
  (the laws are symmetric and unimodal, so this can only widen).

The same holds for the largest standardised error of several queries, which gives
simultaneous intervals for dependent estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from scipy.sparse.linalg import lsqr

from discreet import _exact, noise
from discreet import mechanisms as m
from discreet._dataclass import dataclass, field
from discreet._exact import Number
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.inference import _nonnegative
from discreet.inference._chosen import by_noise, unchosen
from discreet.inference._inputs import Noisy, noisy, read_law, seeded, shared
from discreet.inference._laws import Floats, Gaussian, Laplace, Noise, Rng, generator
from discreet.inference._results import QUERY, Interval

DENSE = 1_000_000
"""Entries of A up to which it is solved densely."""

DRAWS = 19_999
TOLERANCE = 1e-7

_EXACT = 1e-6
"""Standard deviations below this part of the largest are weighed as if they were that much."""

_NONE = 1e-60
"""Standard deviations up to which all answers pass for exact: weights would not be finite."""


@dataclass(frozen=True, slots=True, eq=False)
class Noises:
    """The noise of many answers: the few different laws, and which answer has which."""

    laws: tuple[Noise, ...]
    which: NDArray[np.int64]

    @classmethod
    def of(cls, parts: Sequence[tuple[Noise, int]]) -> Noises:
        """Build from runs (noise, how many answers)."""
        laws = {law: 0 for law, _ in parts}
        place = {law: i for i, law in enumerate(laws)}
        if any(not law.symmetric for law in laws):
            raise ParameterError(
                "combining needs symmetric noise; a one-sided law biases the answers"
            )
        index = np.array([place[law] for law, _ in parts], dtype=np.int64)
        return cls(tuple(laws), np.repeat(index, [n for _, n in parts]))

    @property
    def std(self) -> Floats:
        """Standard deviation of every answer."""
        return np.sqrt([law.variance for law in self.laws])[self.which]

    def simulate(self, rng: np.random.Generator, draws: int) -> Floats:
        """Draw the noise of all answers, `draws` times (answers down, draws across)."""
        errors = np.empty((self.which.size, draws))
        for i, law in enumerate(self.laws):
            here = self.which == i
            errors[here] = law.simulate(rng, (int(here.sum()), draws))
        return errors


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A derived query: value, variance, and the weight of every released answer."""

    value: float
    variance: float
    weights: Floats = field(repr=False)
    _noise: Noises = field(repr=False)

    @property
    def std(self) -> float:
        """Standard error."""
        return math.sqrt(self.variance)

    def interval(self, confidence: Number = 0.95, *, rng: Rng = None) -> Interval:
        """Return where the exact value of the derived query lies.

        The noise of mixed Laplace answers has no closed law; it is simulated, from a seed
        that follows from the estimate unless `rng` gives one: one estimate has one interval.
        """
        level = _exact.confidence(confidence)
        source = seeded(rng, np.float64(self.value).tobytes(), self.weights.tobytes())
        margin = _margin(self.weights, self._noise, level, source)
        return Interval(self.value - margin, self.value + margin, level, QUERY)

    confidence_interval = interval


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """Released answers, ready for derived queries.

    Attributes
    ----------
    y, A, noise
        Released values, the queries they answer, their noise.
    """

    y: Floats
    A: Any
    noise: Noises
    _sd: Floats = field(repr=False)

    def estimate(self, w: Any) -> Estimate:
        """Return the best linear unbiased estimate of the query w·x.

        Raises
        ------
        NotProvedError
            If the released answers do not determine the query.
        """
        row = self._row(w)
        weights = self._weights(row)
        if weights is None:
            raise _undetermined()
        variance = float(np.sum((weights * self.noise.std) ** 2))
        return Estimate(float(weights @ self.y), variance, weights, self.noise)

    def estimates(self, queries: Any) -> list[Estimate]:
        """Estimate many queries, the rows; see :meth:`estimate`."""
        if sparse.issparse(self.A):
            return [self.estimate(w) for w in queries]
        rows = np.array([self._row(w) for w in queries]).reshape(-1, self.A.shape[1])
        system = self._system().T
        solution = _shortest(system, rows.T)
        missed = np.linalg.norm(system @ solution - rows.T, axis=0)
        if (missed > TOLERANCE * np.linalg.norm(rows, axis=1)).any():
            raise _undetermined()
        weights = solution.T / self._sd
        values, variances = weights @ self.y, ((weights * self.noise.std) ** 2).sum(axis=1)
        each = zip(values.tolist(), variances.tolist(), weights, strict=True)
        return [Estimate(value, variance, own, self.noise) for value, variance, own in each]

    def estimable(self, w: Any) -> bool:
        """Tell whether the released answers determine the query."""
        return self._weights(self._row(w)) is not None

    def inestimable(self) -> list[int]:
        """Return the cells (columns of A) that the released answers do not determine.

        From the null space of A, so for systems of at most :data:`DENSE` entries.
        """
        if self.A.shape[0] * self.A.shape[1] > DENSE:
            raise ParameterError("too large to list; ask combined.estimable(w) per query")
        _, values, vectors = np.linalg.svd(self._dense(), full_matrices=True)
        rank = int((values > values.max(initial=0) * 1e-10).sum())
        free = np.abs(vectors[rank:]).max(axis=0, initial=0)
        return np.flatnonzero(free > TOLERANCE).tolist()

    @property
    def x(self) -> Floats:
        """Least-squares estimate of all cells (shortest one where undetermined)."""
        return _shortest(self._system(), self.y / self._sd)

    @property
    def covariance(self) -> Floats:
        """Covariance of :attr:`x`, (AᵀWA)⁻¹; for systems of full rank and modest size."""
        if self.A.shape[1] > 5000:
            raise ParameterError("the covariance of so many cells does not fit; ask per query")
        if self.inestimable():
            raise NotProvedError("some cells are not determined; see combined.inestimable()")
        scaled = self._dense()
        return np.asarray(np.linalg.inv(scaled.T @ scaled))

    def intervals(
        self, queries: Any, confidence: Number = 0.95, *, draws: int = DRAWS, rng: Rng = None
    ) -> Interval:
        """Return intervals that hold for all `queries` (rows) at once.

        Every margin is the same multiple of its standard error: the
        Monte Carlo quantile of the largest standardised error. Unless `rng` is given its seed
        follows from the released values and the queries.
        """
        level = _exact.confidence(confidence)
        source = seeded(rng, self.y.tobytes(), np.asarray(queries, dtype=np.float64).tobytes())
        estimates = [self.estimate(w) for w in np.atleast_2d(np.asarray(queries, dtype=np.float64))]
        scale = np.array([e.std for e in estimates])
        scale[scale == 0] = 1.0
        weights = np.array([e.weights for e in estimates]) / scale[:, None]
        k = _order(level, draws)
        worst = np.empty(draws)
        chunk = max(1, 20_000_000 // self.y.size)
        for start in range(0, draws, chunk):
            size = min(chunk, draws - start)
            errors = weights @ self.noise.simulate(source, size)
            worst[start : start + size] = np.abs(errors).max(axis=0)
        margin = np.sort(worst)[k - 1] * scale
        values = np.array([e.value for e in estimates])
        return Interval(values - margin, values + margin, level, QUERY)

    def nonnegative(self, total: float | None = None) -> _nonnegative.Reconstruction:
        """Return cells x ≥ 0 that fit the released answers best, hence agree with one another.

        Parameters
        ----------
        total
            Public total that the cells must have, if there is one.

        Notes
        -----
        Non-negative estimates are biased: zeros are pulled up. The result says by
        how much at most; for unbiased sums use :meth:`estimate`.
        """
        sd, A = self._sd, sparse.csr_array(self.A)
        return _nonnegative.reconstruct(A, self.y, sd, self.x, total)

    # -- machinery ------------------------------------------------------------------

    def _system(self) -> Any:
        """A with every answer in units of its noise."""
        scale = 1 / self._sd
        return (
            sparse.diags_array(scale) @ self.A
            if sparse.issparse(self.A)
            else scale[:, None] * self.A
        )

    def _dense(self) -> Floats:
        system = self._system()
        return np.asarray(system.toarray() if sparse.issparse(system) else system)

    def _row(self, w: Any) -> Floats:
        row = np.asarray(w.toarray() if sparse.issparse(w) else w, dtype=np.float64).ravel()
        if row.size != self.A.shape[1] or not np.isfinite(row).all():
            raise ParameterError(
                f"a query has one finite weight per cell: {self.A.shape[1]}, got {row.size}"
            )
        return row

    def _weights(self, row: Floats) -> Floats | None:
        if not row.any():
            return np.zeros(self.y.size)
        system = self._system().T
        h = _shortest(system, row)
        missed = float(np.linalg.norm(system @ h - row))
        return h / self._sd if missed <= TOLERANCE * np.linalg.norm(row) else None


def _undetermined() -> NotProvedError:
    return NotProvedError(
        "the released answers do not determine this query: no unbiased estimate exists",
        hint="check with combined.estimable(w), or release one more answer",
    )


def half_widths(estimates: Sequence[Estimate], confidence: Number, seed: int) -> list[float]:
    """Half-widths of intervals, each by itself; those whose errors have one law share its draws."""
    level, margins = _exact.confidence(confidence), dict[_Terms, float]()
    return [_margin(e.weights, e._noise, level, seed, margins) for e in estimates]  # noqa: SLF001 - as above


def _shortest(system: Any, aim: Floats) -> Floats:
    """The least-squares solution, the shortest one where there are several."""
    if sparse.issparse(system):
        solution = lsqr(system.tocsr(), aim, atol=1e-12, btol=1e-12, iter_lim=5000)[0]
        return np.asarray(solution)
    return np.asarray(np.linalg.lstsq(system, aim)[0])


def combine(y: Any, A: Any = None, laws: Any = None) -> Combined:
    """Combine released linear answers y = Ax + noise.

    Parameters
    ----------
    y
        Released values, or a sequence of releases (which bring their laws).
    A
        One row per released value: the weights of the cells it adds up. Dense
        or SciPy sparse. Left out: one cell per value.
    laws
        One noise law for all, or one per value.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import inference as inf, noise
    >>> A = np.vstack([np.eye(6), [1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1]])
    >>> y = [3, 0, -1, 4, 2, 4, 2, 7]
    >>> married = inf.combine(y, A, noise.DiscreteLaplace(3)).estimate([1, 0, 0, 1, 0, 0])
    >>> round(married.value, 5), round(married.variance, 4)
    (3.54545, 11.3491)
    """
    values, noises = _read(y, laws)
    if A is None:
        A = sparse.eye_array(values.size, format="csr")
    if sparse.issparse(A):
        A = sparse.csr_array(A, dtype=np.float64)
        if A.shape[0] * A.shape[1] <= DENSE:
            A = A.toarray()
    else:
        A = np.atleast_2d(np.asarray(A, dtype=np.float64))
        if A.size > DENSE:
            A = sparse.csr_array(A)
    if A.shape[0] != values.size:
        raise ParameterError(f"A has {A.shape[0]} rows for {values.size} released values")
    if not np.isfinite(A.data if sparse.issparse(A) else A).all():
        raise ParameterError("A must hold finite weights")
    return Combined(values, A, noises, _scales(noises.std))


def _scales(std: Floats) -> Floats:
    """Units in which answers are weighed: finite weights, whatever the noise.

    At a large ε the variance of integer noise is zero in floating point, or so small that its
    inverse is no number. Any weights leave the estimate unbiased; its variance is its noise's.
    """
    most = float(std.max(initial=0.0))
    return np.maximum(std, _EXACT * most) if most > _NONE else np.ones_like(std)


def _read(y: Any, laws: Any) -> tuple[Floats, Noises]:
    if laws is None:
        items = [noisy(item) for item in (y if isinstance(y, Sequence) else [y])]
        if not items:
            raise ParameterError("there is no released answer to combine")
        shared(items)
        unchosen(by_noise(m for item in items for m in item.chosen), "a combination")
        values = np.concatenate([np.ravel(i.value) for i in items])
        return values, Noises.of([(i.noise, i.size) for i in items])
    if isinstance(y, Noisy | m.Release) or (
        isinstance(y, Sequence) and any(isinstance(i, Noisy | m.Release) for i in y)
    ):
        raise ParameterError("these answers bring their own laws", hint="inf.combine(answers, A)")
    checked = noisy(y, law=Laplace(1.0))  # any law: only the numbers are looked at
    values = np.ravel(np.asarray(checked.value, dtype=np.float64))
    if isinstance(laws, Sequence) and not isinstance(laws, str):
        if len(laws) != values.size:
            raise ParameterError(f"{len(laws)} laws for {values.size} released values")
        noises = {id(law): read_law(law) for law in laws}
        return values, Noises.of([(noises[id(law)], 1) for law in laws])
    return values, Noises.of([(read_law(laws), values.size)])


def _order(level: float, draws: int) -> int:
    k = math.ceil((draws + 1) * level - 1e-9)
    if k > draws:
        raise ParameterError(
            f"{draws} draws are too few for confidence {level}", hint=Hint("draws", 99999)
        )
    return k


_Terms: TypeAlias = tuple[tuple[int, float, int], ...]
"""A sum of noises: law, weight and how many there are of each."""


def _margin(
    weights: Floats,
    noises: Noises,
    level: float,
    rng: Rng,
    margins: dict[_Terms, float] | None = None,
) -> float:
    """Margin of a sum of noises; `margins` are those simulated so far."""
    size = np.abs(weights)
    places = np.flatnonzero(size > 1e-12 * size.max(initial=0))
    if not places.size:
        return 0.0
    laws = [noises.laws[i] for i in np.unique(noises.which[places])]
    if places.size == 1:
        return float(size[places[0]] * laws[0].range(level)[1])
    if all(law.gaussian for law in laws):
        std = math.sqrt(float(np.sum((size[places] * noises.std[places]) ** 2)))
        return float(special.ndtri((1 + level) / 2)) * std
    draws, margins = max(DRAWS, math.ceil(20 / (1 - level))), {} if margins is None else margins
    terms = _terms(size[places], noises.which[places])
    if terms not in margins:
        errors, k = np.abs(_errors(terms, noises, draws, generator(rng))), _order(level, draws)
        margins[terms] = float(np.partition(errors, k - 1)[k - 1])
    return margins[terms]


def _terms(size: Floats, which: NDArray[np.int64]) -> _Terms:
    """Read Σ |gᵢ|Nᵢ with terms of equal law and weight together."""
    # iterative weights differ in far digits: rounding them up joins them, and only widens
    power = np.floor(np.log10(size)) - 4
    rounded = np.ceil(size / 10.0**power - 1e-3) * 10.0**power
    terms: list[tuple[int, float, int]] = []
    for i in np.unique(which).tolist():
        each = zip(*np.unique(rounded[which == i], return_counts=True), strict=True)
        terms += [(i, float(g), int(copies)) for g, copies in each]
    return tuple(terms)


def _errors(terms: _Terms, noises: Noises, draws: int, rng: np.random.Generator) -> Floats:
    """Simulate a sum of noises."""
    total = np.zeros(draws)
    for i, g, copies in terms:
        total += g * _copies(noises.laws[i], copies, draws, rng)
    return total


def _copies(law: Noise, copies: int, draws: int, rng: np.random.Generator) -> Floats:
    step = float(law.step)
    match law.law:
        case noise.DiscreteLaplace(scale) if copies > 1:
            p = -math.expm1(-1 / float(scale))
            up = rng.negative_binomial(copies, p, draws)
            return np.asarray((up - rng.negative_binomial(copies, p, draws)) * step)
        case Laplace(scale, m):
            return Laplace(scale, m * copies).simulate(rng, draws) * step
        case Gaussian(sigma):
            return rng.normal(0, sigma * math.sqrt(copies) * step, draws)
        case noise.DiscreteGaussian() as gaussian if copies > 64:
            # a sum of so many is normal beyond what the draws could show
            return rng.normal(0, math.sqrt(gaussian.variance * copies) * step, draws)
    return np.asarray(sum(law.simulate(rng, draws) for _ in range(copies)))


def inverse_variance(estimates: Any) -> Estimate:
    """Average independent unbiased estimates of one number, weighted by precision.

    Parameters
    ----------
    estimates
        Releases, or pairs (value, law).

    Examples
    --------
    >>> from discreet import inference as inf, noise
    >>> law = noise.DiscreteLaplace(3)
    >>> best = inf.inverse_variance([(2, law), (3 + 4, law + law)])
    >>> round(best.value, 5), round(best.variance, 4)
    (3.66667, 11.8895)
    """
    items = [
        noisy(e[0], law=e[1]) if isinstance(e, tuple) and len(e) == 2 else noisy(e)
        for e in estimates
    ]
    if not items or any(i.size != 1 for i in items):
        raise ParameterError(
            "give one or more numbers, not arrays", hint="[(2, law), (7, law + law)]"
        )
    return combine(items, np.ones((len(items), 1))).estimate([1])
