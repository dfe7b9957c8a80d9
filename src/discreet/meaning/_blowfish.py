r"""Blowfish: protect the distinctions that matter, and pay only for those.

A policy graph G lists which pairs of values of *one* record must stay
indistinguishable (He, Machanavajjhala & Ding 2014). Databases are neighbours if they
have the same number of records and differ in one record, whose two values are
joined by an edge. M is (ε, G)-Blowfish private if the usual ratio holds for these.

Guarantees
----------
* *Sensitivity.* A linear query with one column per value moves by at most
  :math:`\max_{(x,y)\in E}\lVert B_x-B_y\rVert`, so Laplace noise of that sensitivity over ε is
  private (the proof of the Laplace mechanism, with these neighbours). On a line graph the
  cumulative histogram has sensitivity 1 instead of n − 1.
* *Meaning.* For an attacker who knows everyone else (or thinks records
  independent), the odds of x against y for one record move by at most
  :math:`e^{d(x,y)\varepsilon}`, d the distance in G: walk the shortest path, one ε per
  edge. Values with no path between them are *not protected from each other*.
* *As change-one privacy.* If G is connected with diameter w, (ε, G)-privacy is
  wε-DP under change-one, by the same walk; this is what a ledger kept under
  change-one may be charged (:meth:`Blowfish.loss`). If G is not connected no ε will do
  and it is refused. Conversely ε-DP under change-one implies (ε, G) for every G.
* *Composition.* ε's add up, as for any neighbour relation. Over disjoint groups the two
  largest add, as under change-one: a record may leave one group for another.

The number of records is public. Deterministic public constraints (known totals)
change who is a neighbour and need an analysis of their own (ibid., §8); they
are refused here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet import privacy as p
from discreet._dataclass import dataclass, field
from discreet._exact import Number, ceil_float, decimal, exact
from discreet._lazy import sparse
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.meaning._odds import factor_of, pure_epsilon
from discreet.meaning._words import exactly, number

_MAX_PAIRS = 5_000_000
_MAX_EXACT = 4096
"""Up to this many values the diameter is computed from all shortest paths."""

Edges = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Blowfish:
    """A policy graph over the values one record can take.

    Use the constructors :meth:`line`, :meth:`within`, :meth:`partition`,
    :meth:`attributes`, :meth:`complete` or :meth:`of_pairs`.

    Attributes
    ----------
    values
        The public domain, in order.
    edges
        Pairs of positions that must stay indistinguishable, one row each.
    secret
        The protected distinction in words.
    """

    values: tuple[Hashable, ...]
    edges: Edges
    secret: str
    _places: dict[Hashable, int] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ParameterError("a policy graph needs at least two values", hint="range(10)")
        places = {value: i for i, value in enumerate(self.values)}
        if len(places) != len(self.values):
            raise ParameterError("the values of a policy graph must be distinct")
        edges = np.asarray(self.edges, dtype=np.int64).reshape(-1, 2)
        if not len(edges):
            raise ParameterError("a policy graph without edges protects nothing")
        edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "_places", places)

    # -- the usual graphs ---------------------------------------------------------

    @classmethod
    def line(cls, values: Iterable[Hashable]) -> Blowfish:
        """Protect each value from the next: the exact value within a rough range.

        >>> ages = Blowfish.line(range(100))
        >>> ages.sensitivity("cumulative"), ages.sensitivity("histogram")
        (1, 2)
        """
        domain = tuple(values)
        steps = np.arange(len(domain) - 1)
        return cls(domain, np.column_stack([steps, steps + 1]), "a value from the next one")

    @classmethod
    def within(cls, values: Iterable[Number], distance: Number) -> Blowfish:
        """Protect values at most `distance` apart.

        >>> Blowfish.within(range(0, 1000, 10), 50).sensitivity("sum")
        50
        """
        domain = tuple(values)
        exacts = [exact(v, "value") for v in domain]
        reach = decimal(distance, "distance")
        order = sorted(range(len(domain)), key=lambda i: exacts[i])
        pairs: list[tuple[int, int]] = []
        for a, i in enumerate(order):
            for j in order[a + 1 :]:
                if exacts[j] - exacts[i] > reach:
                    break
                pairs.append((i, j))
            _check_size(len(pairs))
        words = f"values at most {exactly(reach)} apart from each other"
        return cls(domain, np.array(pairs, dtype=np.int64), words)

    @classmethod
    def partition(cls, blocks: Iterable[Iterable[Hashable]]) -> Blowfish:
        """Protect values inside each block; which block it is, is public.

        >>> towns = Blowfish.partition([["A1", "A2"], ["B1", "B2", "B3"]])
        >>> towns.sensitivity([[1, 1, 0, 0, 0]])          # the size of a block
        0
        """
        domain: list[Hashable] = []
        pairs: list[tuple[int, int]] = []
        for block in blocks:
            start = len(domain)
            domain.extend(block)
            pairs.extend(itertools.combinations(range(start, len(domain)), 2))
            _check_size(len(pairs))
        words = "values of the same block from each other (the block itself is public)"
        return cls(tuple(domain), np.array(pairs, dtype=np.int64), words)

    @classmethod
    def attributes(cls, domains: Mapping[str, Sequence[Hashable]]) -> Blowfish:
        """Protect each attribute on its own: records that differ in one attribute.

        >>> graph = Blowfish.attributes({"sex": ["F", "M"], "ill": [False, True]})
        >>> graph.distance(("F", False), ("M", True))
        2
        """
        rows = tuple(itertools.product(*domains.values()))
        sizes = [len(domain) for domain in domains.values()]
        index = np.arange(len(rows)).reshape(sizes)
        pairs: list[Edges] = []
        for axis, size in enumerate(sizes):
            along = np.moveaxis(index, axis, -1).reshape(-1, size)
            _check_size(len(along) * size * (size - 1) // 2)
            pairs += [along[:, list(ij)] for ij in itertools.combinations(range(size), 2)]
        words = f"each attribute ({', '.join(domains)}) of a record, the others being known"
        return cls(rows, np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64), words)

    @classmethod
    def complete(cls, values: Iterable[Hashable]) -> Blowfish:
        """Protect every value from every other: change-one privacy itself."""
        domain = tuple(values)
        _check_size(len(domain) * (len(domain) - 1) // 2)
        rows, columns = np.triu_indices(len(domain), 1)
        return cls(domain, np.column_stack([rows, columns]), "every value from every other")

    @classmethod
    def of_pairs(
        cls, values: Iterable[Hashable], pairs: Iterable[tuple[Hashable, Hashable]]
    ) -> Blowfish:
        """Protect the pairs given, and no others."""
        domain = tuple(values)
        places = {value: i for i, value in enumerate(domain)}
        try:
            edges = [(places[a], places[b]) for a, b in pairs]
        except KeyError as e:
            raise ParameterError(f"{e.args[0]!r} is not among the values") from None
        if any(a == b for a, b in edges):
            raise ParameterError("a value cannot be kept from itself")
        return cls(domain, np.array(edges, dtype=np.int64), f"the {len(edges)} pairs listed")

    # -- what it implies ------------------------------------------------------------

    def sensitivity(self, query: Any, norm: int = 1) -> int | float:
        """Return how far the query moves when one record moves along one edge.

        Parameters
        ----------
        query
            ``"histogram"``, ``"cumulative"`` (how many records at or below each
            value), ``"sum"`` (of numeric values), or a matrix with one column per value.
        norm
            1 or 2.

        Returns
        -------
        int or float
            Exact when whole, otherwise rounded up. 0 means that the policy
            treats the answer as public.
        """
        if norm not in (1, 2):
            raise ParameterError("norm must be 1 or 2", hint=Hint("norm", 1))
        if isinstance(query, str):
            return self._of_name(query, norm)
        matrix = np.atleast_2d(np.asarray(query))
        if matrix.dtype == bool:
            matrix = matrix.astype(np.int64)
        if matrix.shape[1:] != (len(self.values),) or matrix.dtype.kind not in "iuf":
            raise ParameterError(
                f"the query needs one numeric column for each of the {len(self.values)} values"
            )
        return self._of_matrix(matrix, norm)

    def _of_name(self, query: str, norm: int) -> int | float:
        if query == "histogram":
            return 2 if norm == 1 else math.nextafter(math.sqrt(2), 2)
        if query == "cumulative":
            # counts at i, …, j−1 change by one each
            gap = int(np.abs(self.edges[:, 1] - self.edges[:, 0]).max())
            return gap if norm == 1 else _root(Fraction(gap))
        if query == "sum":
            try:
                numbers = [exact(v, "value") for v in self.values]  # type: ignore[arg-type] # refused if not a number
            except ParameterError:
                raise ParameterError("a sum needs numeric values", hint='"histogram"') from None
            farthest = max(abs(numbers[a] - numbers[b]) for a, b in self.edges.tolist())
            return _whole(farthest)
        raise ParameterError(
            f"unknown query {query[:40]!r}: histogram, cumulative, sum, or a matrix",
            hint='"histogram"',
        )

    def _of_matrix(self, matrix: npt.NDArray[Any], norm: int) -> int | float:
        if not np.isfinite(matrix).all():
            raise ParameterError("the query must hold finite numbers")
        whole = matrix.dtype.kind in "iu"
        if whole and (largest := int(np.abs(matrix.astype(object)).max())):
            # int64 must hold rows·(2·largest)², otherwise count in Python integers
            fits = matrix.shape[0] * (2 * largest) ** 2 < 2**62
            matrix = matrix.astype(np.int64 if fits else object)
        columns = matrix.T
        chunk = max(1, 2_000_000 // matrix.shape[0])
        worst: Any = 0
        for start in range(0, len(self.edges), chunk):
            part = self.edges[start : start + chunk]
            moved = np.abs(columns[part[:, 0]] - columns[part[:, 1]])
            worst = max(worst, (moved if norm == 1 else moved * moved).sum(axis=1).max())
        if whole:
            return int(worst) if norm == 1 else _root(Fraction(int(worst)))
        raised = float(worst) * (1 + (matrix.shape[0] + 4) * 2.0**-51)
        return raised if norm == 1 else math.nextafter(math.sqrt(raised), math.inf)

    @cached_property
    def _graph(self) -> Any:
        n = len(self.values)
        ones = np.ones(len(self.edges), dtype=np.int8)
        return sparse.coo_matrix((ones, (self.edges[:, 0], self.edges[:, 1])), shape=(n, n)).tocsr()

    def _distances(self, start: int | None) -> npt.NDArray[np.float64]:
        distances = sparse.csgraph.shortest_path(
            self._graph, directed=False, unweighted=True, indices=start, method="D"
        )
        return np.asarray(distances)

    def distance(self, x: Hashable, y: Hashable) -> int | float:
        """Return the number of edges between two values (inf: not protected from each other)."""
        for value in (x, y):
            if value not in self._places:
                raise ParameterError(f"{value!r} is not among the values")
        steps = self._distances(self._places[x])[self._places[y]]
        return int(steps) if steps < math.inf else math.inf

    @cached_property
    def diameter(self) -> int | float:
        """Longest distance between two values; inf if some are not protected from each other."""
        if len(self.values) <= _MAX_EXACT:
            length = float(self._distances(None).max())
        else:
            # every walk can pass through one value: twice its reach is an upper bound
            length = 2 * float(self._distances(len(self.values) // 2).max())
        return int(length) if length < math.inf else math.inf

    def odds_factor(self, x: Hashable, y: Hashable, epsilon: Number) -> float:
        """Return by how much the odds of x against y for one record can move."""
        far = self.distance(x, y)
        if far == math.inf:
            return math.inf
        return factor_of(int(far) * pure_epsilon(epsilon), against="binary") if far else 1.0

    def loss(self, epsilon: Number) -> p.PrivacyLoss:
        """Return what an (ε, G)-private release costs under change-one, for a ledger.

        >>> Blowfish.line(range(5)).loss("0.1")
        Pure(epsilon=0.4, neighbours='change-one')
        """
        if self.diameter == math.inf:
            raise NotProvedError(
                "some values are not protected from each other by this policy, so no ε "
                "holds under change-one",
                hint="charge a budget of its own, stated for this policy",
            )
        return p.Pure(int(self.diameter) * pure_epsilon(epsilon)).under("change-one")

    def meaning(self, epsilon: Number) -> str:
        """Say what is protected, how far, and what is not."""
        one = number(factor_of(epsilon, against="binary"), "up")
        lines = [
            f"Protected: {self.secret}, for each record.",
            "To whoever knows all other records, the odds of two joined values move",
            f"by at most a factor {one} (ε = {exactly(pure_epsilon(epsilon))}),",
            f"of values d steps apart by at most {one}^d.",
            "Public: the number of records.",
        ]
        if self.diameter == math.inf:
            lines.append("Not protected: values that no path of pairs connects.")
        else:
            far = number(factor_of(int(self.diameter) * pure_epsilon(epsilon), against="binary"))
            lines.append(f"The farthest values are {self.diameter} steps apart: a factor {far}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Blowfish({len(self.values)} values, {len(self.edges)} pairs: {self.secret})"


def _check_size(pairs: int) -> None:
    if pairs > _MAX_PAIRS:
        raise ParameterError(
            f"this policy has more than {_MAX_PAIRS} pairs; describe it with a coarser domain",
            hint="Blowfish.line(values)",
        )


def _whole(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else ceil_float(value)


def _root(square: Fraction) -> int | float:
    root = math.isqrt(int(square))
    return root if root * root == square else math.nextafter(math.sqrt(square), math.inf)
