"""Reconstruction of people from published tables, as constraint solving.

The published tables of a block are linear constraints on how many people of each kind
(all columns crossed) live there. Few small blocks leave much choice: the solver finds
people who fit, and where only one number of people of a kind fits, that kind is *certain*.
In 2010 the tables of the United States census determined records of this form for a large
part of the population (Garfinkel, Abowd & Martindale 2019; Abowd et al. 2023).

Tables with noise fit nobody exactly; then the people of least misfit are returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from discreet._dataclass import dataclass
from discreet.errors import ParameterError
from discreet.lab._table import Floats, Names, Table

_UNBOUNDED: Final = 3
"""How scipy says that a program has no end: nothing published counts a kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """People who fit the published tables of a block.

    Attributes
    ----------
    columns
        Names of the axes of :attr:`people`.
    people
        How many people of each kind.
    misfit
        Sum of the differences between the tables of these people and the published ones.
    certain
        Kinds whose number no other fit changes; None unless asked for.
    """

    columns: Names
    people: Floats
    misfit: float
    certain: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None = None

    def agreement(self, truth: Floats) -> float:
        """Return the share of the block's people who are in the reconstruction."""
        return float(np.minimum(self.people, truth).sum() / max(truth.sum(), 1))


def reconstruct_block(
    counts: Mapping[Names, Floats],
    sizes: Mapping[str, int],
    *,
    whole: bool = True,
    certainty: bool = False,
) -> Reconstruction:
    """Find people who fit the published tables of one block.

    Parameters
    ----------
    counts
        The block's tables: names of columns, and counts by them (nan: suppressed).
    sizes
        Number of values of every column to be reconstructed.
    whole
        Whether to look for whole people (an integer program) or fractions (a linear one,
        faster).
    certainty
        Whether to find out which kinds are certain: two more programs per kind.

    Examples
    --------
    Two published tables of a block of three people, and the only people who fit:

    >>> import numpy as np
    >>> from discreet import lab
    >>> by_ill, by_age = np.array([[2, 0], [0, 1]]), np.array([[1, 1], [0, 1]])
    >>> found = lab.reconstruct_block(
    ...     {("sex", "ill"): by_ill, ("sex", "old"): by_age},
    ...     {"sex": 2, "old": 2, "ill": 2}, certainty=True,
    ... )
    >>> found.people.tolist(), bool(found.certain.all())
    ([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]], True)
    """
    names = tuple(sizes)
    shape = tuple(sizes.values())
    a, b = _constraints(counts, names, shape)
    kinds = a.shape[1]
    lines = a.shape[0]
    identity = sparse.identity(lines, format="csr")
    goal = np.concatenate([np.zeros(kinds), np.ones(2 * lines)])
    system = sparse.hstack([a, identity, -identity]).tocsc()
    if whole:
        kind = np.concatenate([np.ones(kinds), np.zeros(2 * lines)])
        solved = milp(
            goal, integrality=kind, constraints=LinearConstraint(system, b, b),
            bounds=Bounds(0, np.inf), options={"time_limit": 60},
        )  # fmt: skip
    else:
        solved = linprog(goal, A_eq=system, b_eq=b, bounds=(0, None), method="highs")
    if solved.x is None:
        raise ParameterError("no people were found in the time given: leave out some columns")
    people = np.rint(solved.x[:kinds]) if whole else solved.x[:kinds]
    misfit = float(np.abs(a @ people - b).sum())
    certain = _certain(a, b, people) if certainty else None
    return Reconstruction(
        names,
        np.asarray(people.reshape(shape)),
        misfit,
        None if certain is None else certain.reshape(shape),
    )


def block_tables(release: Mapping[Names, Floats], table: Table, block: int) -> dict[Names, Floats]:
    """Return the part of published tables that is about one block (the first column).

    >>> from discreet import lab
    >>> town = lab.town()
    >>> sorted(lab.block_tables(lab.as_it_is(town).counts, town, block=0))[0]
    ('age', 'ill')
    """
    first = table.quasi[0]
    tables = {}
    for names, cells in release.items():
        if first in names and len(names) > 1:
            rest = tuple(name for name in names if name != first)
            tables[rest] = np.take(cells, block, axis=names.index(first))
    return tables


def _constraints(
    counts: Mapping[Names, Floats], names: Names, shape: tuple[int, ...]
) -> tuple[sparse.csr_matrix, Floats]:
    """Return A and b with A·people = b for every published cell."""
    kinds = np.indices(shape).reshape(len(shape), -1)
    parts, totals = [], []
    for columns, cells in counts.items():
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise ParameterError(f"no size is given for {', '.join(unknown)}")
        published = np.asarray(cells, dtype=np.float64)
        at = np.ravel_multi_index([kinds[names.index(n)] for n in columns], published.shape)
        matrix = sparse.csr_matrix(
            (np.ones(kinds.shape[1]), (at, np.arange(kinds.shape[1]))),
            (published.size, kinds.shape[1]),
        )
        mask = ~np.isnan(published.ravel())
        parts.append(matrix[mask])
        totals.append(published.ravel()[mask])
    if not parts:
        raise ParameterError("no tables are given to reconstruct people from")
    return sparse.vstack(parts).tocsr(), np.concatenate(totals)


def _certain(
    a: sparse.csr_matrix, b: Floats, people: Floats
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Tell which kinds have the same number of people in every (fractional) fit."""
    fixed = np.zeros(len(people), dtype=bool)
    if np.abs(a @ people - b).sum() > 1e-6:
        return fixed  # nobody fits exactly: nothing is certain
    for k in range(len(people)):
        low, high = extremes(a, b, k)
        fixed[k] = high - low < 1e-6
    return fixed


def extremes(lines: Any, totals: Floats, cell: int) -> tuple[float, float]:
    """Return the least and greatest value that one of several numbers, never negative, can have."""
    ends = []
    for sign in (1.0, -1.0):
        goal = np.zeros(lines.shape[1])
        goal[cell] = sign
        solved = linprog(goal, A_eq=lines, b_eq=totals, bounds=(0, None), method="highs")
        if not solved.success and solved.status != _UNBOUNDED:
            raise ParameterError("the totals contradict the cells")
        ends.append(sign * solved.fun if solved.success else np.inf)
    return ends[0], ends[1]
