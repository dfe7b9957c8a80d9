"""The public domain by name: what the axes of a publication are called, and their values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from discreet._dataclass import dataclass
from discreet.errors import ParameterError
from discreet.release._factors import Axis
from discreet.release._workload import Boxes, Marginals, Products, Workload

EVERY = "all"
"""How a table spells an attribute that is summed out."""

BETWEEN = " … "

LONGEST = 1 << 24
"""Most rows of a table that are written out."""


@dataclass(frozen=True)
class Domain:
    """Names and public values of the axes, in order."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @classmethod
    def of_shape(cls, shape: Sequence[int]) -> Domain:
        """Return the domain of codes, for counts without names."""
        names = ("cell",) if len(shape) == 1 else tuple(f"axis {i}" for i in range(len(shape)))
        return cls(names, tuple(tuple(map(str, range(n))) for n in shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(len(values) for values in self.values)

    def rows(self, workload: Workload) -> dict[str, list[str]]:
        """Say what each query of a workload asks: one column for each axis."""
        if workload.queries > LONGEST:
            raise ParameterError(
                f"a table of {workload.queries} rows is not written out",
                hint="ask for fewer queries",
            )
        columns: dict[str, list[str]] = {name: [] for name in self.names}
        for labels in self._blocks(workload):
            sizes = [len(values) for values in labels]
            for i, name in enumerate(self.names):
                before, after = math.prod(sizes[:i]), math.prod(sizes[i + 1 :])
                column = np.tile(np.repeat(np.array(labels[i], dtype=object), after), before)
                columns[name].extend(column.tolist())
        return columns

    def panels(self, workload: Workload) -> list[str]:
        """Name what each query of a workload belongs to: its attributes, and their levels."""
        out: list[str] = []
        if isinstance(workload, Products):
            for _, axes in workload.terms:
                labels = [a.levels or (n if a.name != "total" else "",) * a.m
                         for a, n in zip(axes, self.names, strict=True)]  # fmt: skip
                out += [" × ".join(filter(None, parts)) for parts in itertools.product(*labels)]
        elif isinstance(workload, Marginals):
            for table, cells in zip(workload.tables, self._blocks(workload), strict=True):
                name = " × ".join(self.names[i] for i in table)
                out += [name or EVERY] * math.prod(map(len, cells))
        return out or [" × ".join(self.names)] * workload.queries

    def _blocks(self, workload: Workload) -> Iterable[list[Sequence[str]]]:
        """Labels of each axis for every product of queries."""
        if isinstance(workload, Products):
            for _, axes in workload.terms:
                yield [labels_of(a, v) for a, v in zip(axes, self.values, strict=True)]
        elif isinstance(workload, Marginals):
            for table in workload.tables:
                yield [v if i in table else (EVERY,) for i, v in enumerate(self.values)]
        elif isinstance(workload, Boxes):
            for low, high in zip(workload.low.tolist(), workload.high.tolist(), strict=True):
                ends = zip(self.values, low, high, strict=True)
                yield [(span(v[a], v[b - 1]),) for v, a, b in ends]


def labels_of(axis: Axis, values: Sequence[str]) -> Sequence[str]:
    """Name the queries of one axis."""
    match axis.name:
        case "identity":
            return values
        case "total":
            return (EVERY,)
        case "prefix":
            return [f"≤ {v.split(BETWEEN)[-1]}" for v in values]
        case "all-range":
            n = len(values)
            return [span(values[a], values[b]) for a in range(n) for b in range(a, n)]
    return axis.labels or [f"query {i + 1}" for i in range(axis.m)]


def span(first: str, last: str) -> str:
    """Name a range of values, which may be ranges themselves."""
    a, b = first.split(BETWEEN, maxsplit=1)[0], last.rsplit(BETWEEN, maxsplit=1)[-1]
    return a if a == b else f"{a}{BETWEEN}{b}"
