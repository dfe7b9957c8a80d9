"""Synthetic records: measured marginals, a graphical model, records drawn from it.

Guarantee
---------
Discrete Gaussian measurements of all one-way tables, then rounds of a :class:`Choice` (of the
pair of attributes that the model fits worst) and a measurement of that pair's table. The ρ of
all questions add up to the price. Scores are ‖table − model‖₁ − handicap with public integers
for the model, so one record moves a score by at most 1 (2 for a change). Which pairs may be
chosen depends on released choices only; values that are rare in the *released* one-way tables
share a code. Model, records and repetitions are post-processing.

How
---
In the spirit of MST and AIM (McKenna, Miklau, Sheldon 2021, 2022). The model maximises
N·ln-likelihood with Gaussian slack: min over potentials θ of
N·ln Z(θ) − Σ⟨θ_c, y_c⟩ + (τ/2)Σσ_c²‖θ_c‖², convex, by L-BFGS from the last solution; τ = 0 would be
least squares on the marginal polytope, τ = 1 the posterior mode over data sets, which
smooths too much; τ = 0.01 is a public constant.

Uncertainty
-----------
An analysis of one synthetic set as if it were data is too sure of itself. :meth:`Synthetic.sets`
gives m sets, each from a model refitted to *released tables plus fresh noise of the same law*:
with v the variance of the privacy noise, each set varies by v around the first model, which itself
is off by v from the private table. So an estimate's variance is (1 + 1/m)·b, b the variance
between sets, with t_{m−1} quantiles (:func:`combine`). It covers the values of the private table,
as far as the measured tables determine them. It does *not* cover those of a population of which
that table is a sample: records are drawn in strata, so that sets hardly vary by their own sampling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet import privacy as p
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet._lazy import optimize, special
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release._counts import LARGEST, Counts, Records, apart, fitting, read_counts
from discreet.release._junction import Clique, Junction, cells_of, spread_draw, uniforms
from discreet.release._mechanism import Job, Mechanism
from discreet.release._price import Price
from discreet.release._queries import Query, marginal
from discreet.release._questions import Choice, Course, conduct
from discreet.release._workload import Marginals, Workload

Array = NDArray[np.float64]

TAU = 0.01
ONE_WAY, SELECTION = Fraction(15, 100), Fraction(10, 100)
EXTRA = 12
MOST_CELLS = 400_000
MERGE = 2.0
_SAMPLE = 30_000


@dataclass(frozen=True, eq=False)
class Tables(Query):
    """Tables of pairs of attributes, their values recoded by public maps."""

    maps: Sequence[NDArray[np.int64]]
    sizes: Sequence[int]
    pairs: Sequence[Clique]

    @property
    def rows(self) -> int:  # type: ignore[override]  # a property for an attribute
        """Cells of all tables."""
        return sum(self.sizes[a] * self.sizes[b] for a, b in self.pairs)

    @property
    def l1(self) -> int:
        """One cell of each table."""
        return len(self.pairs)

    @property
    def l2(self) -> int:
        """One cell of each table."""
        return len(self.pairs)

    @property
    def lowest_inner(self) -> int:
        """Two records may share no cell."""
        return 0

    def apply(self, counts: Counts) -> NDArray[Any]:
        """Return the tables one after the other."""
        return np.concatenate([self._table(counts, pair) for pair in self.pairs])

    def _table(self, counts: Counts, pair: Clique) -> NDArray[np.int64]:
        a, b = pair
        x = counts.marginal(pair)
        out = np.zeros((self.sizes[a], x.shape[1]), dtype=np.int64)
        np.add.at(out, self.maps[a], x)
        both = np.zeros((self.sizes[b], self.sizes[a]), dtype=np.int64)
        np.add.at(both, self.maps[b], out.T)
        return both.T.ravel()


@dataclass(frozen=True)
class Table:
    """A released table: attributes, noisy counts, standard deviations."""

    clique: Clique
    values: Array
    sigma: Array


@dataclass(frozen=True)
class Model:
    """A fitted graphical model and what it was fitted to."""

    sizes: tuple[int, ...]
    maps: tuple[NDArray[np.int64], ...]
    spare: tuple[Array, ...]
    tables: tuple[Table, ...]
    records: float
    theta: Array

    def fitted(self, steps: int) -> tuple[Model, Junction, list[Array]]:
        """Minimise the dual from the present potentials."""
        tree = Junction(self.sizes, [table.clique for table in self.tables])
        theta, bags = _fit(tree, self.tables, self.records, self.theta, steps)
        return replace(self, theta=theta), tree, bags

    def with_table(self, table: Table) -> Model:
        """Add a table with zero potentials."""
        theta = np.concatenate([self.theta, np.zeros(table.values.size)])
        return replace(self, tables=(*self.tables, table), theta=theta)

    def renoised(self) -> Model:
        """Add fresh noise to the released tables."""
        noisy = [replace(t, values=t.values + _normal(t.sigma)) for t in self.tables]
        return replace(self, tables=tuple(noisy))

    def draw(self, n: int, steps: int = 100) -> NDArray[np.int64]:
        """Fit and draw n records in the original codes."""
        _, tree, bags = self.fitted(steps)
        codes = tree.draw(bags, n)
        # the merging of rare values is undone by their released counts
        columns = [spread_draw(self._split(i), code) for i, code in enumerate(codes.T)]
        return np.stack(columns, axis=1)

    def tables_of(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return the expected tables of some attributes, in the original codes."""
        _, tree, bags = self.fitted(1)
        tables = [self._split(i) for i in range(len(self.maps))]
        split = [t / np.maximum(t.sum(axis=1, keepdims=True), 1e-300) for t in tables]
        out = []
        for axes in cliques:
            table = tree.table(bags, axes) * self.records
            for k, i in enumerate(axes):
                table = np.moveaxis(np.tensordot(table, split[i], axes=(k, 0)), -1, k)
            out.append(table)
        return out

    def _split(self, i: int) -> Array:
        """Weights of the values of an attribute (columns) that share each code (rows)."""
        table = np.zeros((self.sizes[i], len(self.maps[i])))
        table[self.maps[i], np.arange(len(self.maps[i]))] = np.maximum(self.spare[i], 1e-9)
        return table


def _normal(sigma: Array) -> Array:
    """Draw noise of the released tables' own law, cell by cell (post-processing)."""
    return np.asarray(special.ndtri(uniforms(sigma.size)).reshape(sigma.shape) * sigma)


def _fit(
    tree: Junction, tables: Sequence[Table], size: float, theta: Array, steps: int
) -> tuple[Array, list[Array]]:
    homes = [tree.home(t.clique) for t in tables]
    stops = np.cumsum([t.values.size for t in tables])
    y = np.concatenate([t.values.ravel() for t in tables])
    slack = TAU * np.concatenate([np.broadcast_to(t.sigma**2, t.values.shape).ravel()
                                  for t in tables])  # fmt: skip
    # at huge prices the noise is nothing, and the slack must stay something
    slack = np.maximum(slack, 1e-6)
    scale = 1 / np.sqrt((np.maximum(y, 0.0) + slack) / size)

    def potentials(t: Array) -> list[Array]:
        out = tree.empty()
        for table, home, part in zip(tables, homes, np.split(t, stops[:-1]), strict=True):
            out[home] += tree.widened(part.reshape(table.values.shape), table.clique,
                                      tree.bags[home])  # fmt: skip
        return out

    def objective(u: Array) -> tuple[float, Array]:
        t = u * scale
        bags, log_z = tree.calibrate(potentials(t))
        mu = np.concatenate([tree.marginal(bags, table.clique).ravel() for table in tables])
        value = size * log_z - float(t @ y) + 0.5 * float((slack * t) @ t)
        return value / size, (size * mu - y + slack * t) * scale / size

    optimum = optimize.minimize(objective, theta / scale, jac=True, method="L-BFGS-B",
                     options={"maxiter": steps, "maxcor": 20, "ftol": 1e-10,
                              "gtol": 1e-7})  # fmt: skip
    t = np.asarray(optimum.x * scale)
    return t, tree.calibrate(potentials(t))[0]


class SyntheticRecords(Mechanism):
    """Rounds of choosing and measuring pairs, then a model."""

    method: ClassVar[str] = "synthetic"

    def __init__(self, job: Job, *, pairs: int | None = None) -> None:
        super().__init__(job)
        if job.price.pure:
            raise ParameterError("synthetic draws Gaussian noise", hint=Hint("delta", "1e-9"))
        self.shape = job.workload.shape
        d = len(self.shape)
        most = d * (d - 1) // 2
        self.rounds = min(most, d - 1 + EXTRA) if pairs is None else min(pairs, most)

    @property
    def memory(self) -> int:
        """Tables of all pairs, the model's cliques with what fits them, and the answers."""
        pairs = sum(a * b for a, b in itertools.combinations(self.shape, 2))
        return 8 * (4 * pairs + 40 * MOST_CELLS + 2 * min(self.job.workload.queries, LARGEST))

    def _one_way(self) -> Course:
        """Measure one-way tables; merge rare values; return the first model."""
        job, d = self.job, len(self.shape)
        share = (ONE_WAY if self.rounds else Fraction(1)) / d
        noisy = []
        sigma = 0.0
        for i in range(d):
            measurement = job.measurement(marginal(self.shape, (i,)), share, f"attribute {i}")
            noisy.append(np.asarray((yield measurement), dtype=np.float64))
            sigma = measurement.law.std
        size = max(1.0, float(np.mean([y.sum() for y in noisy])))
        maps, tables, sizes = [], [], []
        for i, y in enumerate(noisy):
            mask = y > MERGE * sigma
            mapping = np.where(mask, np.cumsum(mask) - 1, int(mask.sum()))
            count = int(mask.sum()) + int(not mask.all())
            members = np.bincount(mapping, minlength=count)
            values = np.asarray(np.bincount(mapping, weights=y, minlength=count), dtype=np.float64)
            maps.append(mapping.astype(np.int64))
            sizes.append(count)
            tables.append(Table((i,), values, sigma * np.sqrt(members)))
        theta = np.zeros(sum(sizes))
        return Model(tuple(sizes), tuple(maps), tuple(noisy), tuple(tables), size, theta)

    def course(self) -> Course:
        """Measure, choose and fit."""
        model = yield from self._one_way()
        job, d = self.job, len(self.shape)
        candidates: list[Clique] = list(itertools.combinations(range(d), 2))
        pairs: list[Clique] = []
        model, tree, bags = model.fitted(50)
        for r in range(self.rounds):
            selection = SELECTION / self.rounds
            measuring = (1 - ONE_WAY - SELECTION) / self.rounds
            candidates = [c for c in candidates if cells_of(model.sizes, [*pairs, c]) <= MOST_CELLS]
            if not candidates:
                break
            sigma = job.measurement(
                Tables(model.maps, model.sizes, candidates[:1]), measuring
            ).law.std
            sample = tree.draw(bags, max(1, min(round(model.records), _SAMPLE)))
            pick = yield self._choice(model, sample, candidates, sigma=sigma, share=selection, r=r)
            pair = candidates.pop(int(pick[0]))
            pairs.append(pair)
            query = Tables(model.maps, model.sizes, [pair])
            y = yield job.measurement(query, measuring, f"attributes {pair}")
            shape = (model.sizes[pair[0]], model.sizes[pair[1]])
            values = np.asarray(y, dtype=np.float64).reshape(shape)
            model = model.with_table(Table(pair, values, np.full(shape, sigma)))
            model, tree, bags = model.fitted(25)
        return model.fitted(200)[0]

    def answers(self, estimate: Model) -> Array:
        """Answer the workload from the model, without drawing records."""
        workload, d = self.job.workload, len(self.shape)
        if isinstance(workload, Marginals):
            return np.concatenate([t.ravel() for t in estimate.tables_of([*workload.tables])])
        fitting(self.shape, "release.Workload.marginals(sizes, ways=2)")
        (whole,) = estimate.tables_of([tuple(range(d))])
        return np.asarray(workload.answers(whole), dtype=np.float64)

    def describe(self) -> str:
        """Name the number of tables."""
        return f"synthetic: {len(self.shape)} one-way tables, {self.rounds} pairs"

    def _choice(
        self,
        model: Model,
        sample: NDArray[np.int64],
        candidates: list[Clique],
        *,
        sigma: float,
        share: Fraction,
        r: int,
    ) -> Choice:
        """Score every pair by how badly a sample of the model shows it."""
        weight = model.records / len(sample)
        targets, groups, handicap = [], [], []
        for g, (a, b) in enumerate(candidates):
            size = model.sizes[a] * model.sizes[b]
            index = sample[:, a] * model.sizes[b] + sample[:, b]
            targets.append(np.rint(weight * np.bincount(index, minlength=size)))
            groups.append(np.full(size, g))
            handicap.append(round(math.sqrt(2 / math.pi) * sigma * size))
        return Choice.priced(
            Tables(model.maps, model.sizes, list(candidates)),
            np.concatenate(targets).astype(np.int64),
            np.array(handicap, dtype=np.int64),
            price=self.job.price,
            share=share,
            neighbours=self.job.neighbours,
            groups=np.concatenate(groups),
            sensitivity=apart(self.job.neighbours),
            label=f"round {r}: worst pair",
        )


@dataclass(frozen=True, repr=False, eq=False)
class Synthetic:
    """A released model from which records are drawn.

    Attributes
    ----------
    model
        The fitted model: public.
    loss
        What it cost.
    """

    model: Model
    loss: p.PrivacyLoss
    price: Price
    neighbours: Neighbours
    tainted: bool = False

    def records(self, n: int | None = None) -> NDArray[np.int64]:
        """Draw `n` made-up records (by default as many as were estimated)."""
        return self.model.draw(self._size(n), steps=1)

    def sets(self, m: int = 10, n: int | None = None) -> list[NDArray[np.int64]]:
        """Draw `m` sets, each from a model refitted to the tables with fresh noise.

        Analyse each alone and put the results together with :func:`combine`.
        """
        if m < 2:
            raise ParameterError("uncertainty needs at least two sets", hint=Hint("m", 10))
        return [self.model.renoised().draw(self._size(n)) for _ in range(m)]

    def _size(self, n: int | None) -> int:
        size = round(self.model.records) if n is None else n
        if not 0 < size <= 1 << 26:
            raise ParameterError(
                "n must be a number of records that memory holds", hint=Hint("n", 1000)
            )
        return size

    def __repr__(self) -> str:
        taint = "  [TEST NOISE: NOT PRIVATE]" if self.tainted else ""
        pairs = sum(len(t.clique) == 2 for t in self.model.tables)
        return (
            f"Synthetic({len(self.model.sizes)} attributes, {pairs} pairs, {self.price}, "
            f"{self.neighbours}){taint}"
        )


def synthetic(
    records: Records,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    neighbours: Neighbours | str = "add-remove",
    pairs: int | None = None,
) -> Synthetic:
    """Release a model of a table of records, and with it any number of made-up records.

    Parameters
    ----------
    records
        The private table.
    epsilon, delta, rho
        The price: ε and δ, or ρ.
    neighbours
        "add-remove" or "change-one".
    pairs
        How many pairs of attributes are measured; by default attributes + 11.

    Examples
    --------
    >>> from discreet import release
    >>> people = release.Records([[0, 1, 2], [1, 0, 2]] * 500, sizes=(2, 2, 3))
    >>> made = release.synthetic(people, epsilon=1, delta="1e-6")
    >>> made.records(100).shape
    (100, 3)
    """
    if not isinstance(records, Records):
        raise ParameterError(
            "synthetic needs a table of coded records", hint="release.Records(table, sizes)"
        )
    job = Job(Workload.marginals(records.sizes, 1), Price.read(epsilon, delta, rho),
              Neighbours(neighbours))  # fmt: skip
    mechanism = SyntheticRecords(job, pairs=pairs)
    counts = read_counts(records, records.sizes)
    model, _ = conduct(mechanism.course(), job.price, lambda q: q.ask(counts))
    return Synthetic(model, mechanism.loss, job.price, job.neighbours, noise.is_deterministic())


@dataclass(frozen=True)
class Combined:
    """An estimate from several synthetic sets."""

    value: float
    variance: float
    low: float
    high: float


def combine(estimates: Sequence[float], confidence: Number = 0.95) -> Combined:
    """Put together one estimate for each set of :meth:`Synthetic.sets`.

    The variance is (1 + 1/m)·b with b the variance between sets; the interval uses
    Student's t with m − 1 degrees of freedom. It is about the private table, not about a
    population from which its people were drawn: add their sampling variance for that.

    >>> combine([1.0, 1.2, 0.8, 1.1]).value
    1.025
    """
    values = np.asarray(estimates, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ParameterError("combine needs at least two estimates", hint="made.sets(10)")
    level = _exact.confidence(confidence)
    m = len(values)
    variance = (1 + 1 / m) * float(values.var(ddof=1))
    reach = float(special.stdtrit(m - 1, 0.5 + level / 2)) * math.sqrt(variance)
    mean = float(values.mean())
    return Combined(mean, variance, mean - reach, mean + reach)
