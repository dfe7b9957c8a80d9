"""Older disclosure controls on tables of counts: suppression and adjustment.

Each table is seen as a matrix (first column by the rest) whose row and column totals
are published. Small counts are *sensitive*.

* **Suppression** blanks sensitive cells, and then further cells until the totals leave more
  than one value for each sensitive one. It protects against an attacker who looks at one table
  at a time, and :func:`cell_bounds` shows what even that one learns. Totals stand as they are,
  however small, and where they alone leave one value no blank hides it.
* **Controlled adjustment** moves sensitive cells to a safe value and changes the others
  as little as it can, so that all totals stay true.

References
----------
Cox 1980 (suppression); Cox, Kelly & Patil 2004 (controlled tabular adjustment).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from discreet.lab._blocks import extremes
from discreet.lab._methods import check_count
from discreet.lab._release import Release
from discreet.lab._table import Floats, Names, Table


def suppress_cells(table: Table, threshold: int = 3) -> Release:
    """Blank counts below a threshold, and enough others to hide them; totals are exact.

    Hidden is a count for which the totals of its own table leave more than one value. Totals
    below the threshold are published, and a count that totals alone give away stays given away.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import lab
    >>> release = lab.suppress_cells(lab.town())
    >>> bool(np.isnan(release.counts["block", "age", "ill"]).any())
    True
    """
    check_count(threshold, "threshold")
    counts: dict[Names, Floats] = {}
    for names, cells in table.published().items():
        if len(names) == 1:
            counts[names] = cells
            continue
        matrix = cells.reshape(len(cells), -1)
        blank = secondary((matrix > 0) & (matrix < threshold), matrix)
        counts[names] = np.where(blank, np.nan, matrix).reshape(cells.shape)
        counts.setdefault(names[:1], table.counts(names[:1]))
        counts.setdefault(names[1:], table.counts(names[1:]))
    return Release(f"suppression below {threshold}", counts, float(table.numbers.mean()))


def secondary(blank: Any, matrix: Floats) -> Any:
    """Blank more cells until no line has exactly one, and totals fix none that can be hidden.

    >>> import numpy as np
    >>> counts = np.array([[1.0, 5.0, 9.0], [7.0, 8.0, 4.0], [6.0, 5.0, 9.0]])
    >>> int(secondary(counts < 2, counts).sum())
    4
    """
    first = np.argwhere(blank)
    blank = np.array(blank, dtype=bool)
    while _accompanied(blank, matrix):
        pass
    for i, j in first:
        if _fixed(blank, matrix, i, j):
            _free(blank, matrix, i, j)
    return blank


def _fixed(blank: Any, matrix: Floats, i: int, j: int) -> bool:
    """Whether the totals leave one value for a blank cell.

    The cell can change if a closed walk of blank cells, rows and columns in turn, can: every
    other one grows, and those between them shrink, which 0 cannot.
    """
    others = blank.copy()
    others[i, j] = False
    holding = others & (matrix > 0)
    ways = [(holding, others), (others, holding)] if matrix[i, j] > 0 else [(holding, others)]
    for out, back in ways:
        rows, columns = np.arange(len(matrix)) == i, np.zeros(matrix.shape[1], dtype=bool)
        for _ in range(sum(matrix.shape)):
            columns |= out[rows].any(axis=0)
            rows |= back[:, columns].any(axis=1)
        if columns[j]:
            return False
    return True


def _free(blank: Any, matrix: Floats, i: int, j: int) -> None:
    """Blank the rectangle with the fewest and smallest more cells that frees a cell, if any does.

    A cell that no rectangle frees is freed by no walk: it grows only if its row and its column
    hold more elsewhere, and shrinks only if a cell in neither of them holds something.
    """
    holds = matrix > 0
    up = holds[i][None, :] & holds[:, j][:, None]
    corners = up | (holds if holds[i, j] else False)
    corners[i], corners[:, j] = False, False
    new = ~blank
    more = new.astype(int) + new[i][None, :] + new[:, j][:, None]
    size = new * matrix + (new[i] * matrix[i])[None, :] + (new[:, j] * matrix[:, j])[:, None]
    if corners.any():
        order = np.lexsort([size.ravel(), more.ravel(), ~corners.ravel()])
        r, c = np.unravel_index(order[0], matrix.shape)
        blank[i, c] = blank[r, j] = blank[r, c] = True


def _accompanied(blank: Any, matrix: Floats) -> bool:
    """Blank one more cell where a column or row has exactly one; say whether that was needed."""
    for lines, counts in ((blank.T, matrix.T), (blank, matrix)):
        # prefer a crossing line that has blanks already: fewer are needed in all
        crossing = lines.any(axis=0)
        for line in np.flatnonzero(lines.sum(axis=1) == 1):
            order = np.lexsort([counts[line], ~crossing, counts[line] == 0])
            free = order[~lines[line, order]]
            if len(free):
                lines[line, free[0]] = True
                return True
    return False


def cell_bounds(published: Floats, rows: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """Return the least and greatest value that each blank cell can have.

    Parameters
    ----------
    published
        A matrix of counts; nan where a cell was suppressed.
    rows, columns
        The published totals.

    Examples
    --------
    One blank in a row is no secret:

    >>> import numpy as np
    >>> low, high = cell_bounds(
    ...     np.array([[np.nan, 4.0], [3.0, 5.0]]), np.array([6.0, 8.0]), np.array([5.0, 9.0])
    ... )
    >>> float(low[0, 0]), float(high[0, 0])
    (2.0, 2.0)
    """
    blank = np.isnan(published)
    low, high = np.where(blank, 0.0, published), np.where(blank, 0.0, published)
    lines = _lines(*blank.shape)[:, blank.ravel()]
    values = np.nan_to_num(published)
    rest = np.concatenate([rows - values.sum(axis=1), columns - values.sum(axis=0)])
    for k, at in enumerate(np.argwhere(blank)):
        low[*at], high[*at] = (round(end, 9) for end in extremes(lines, rest, k))
    return low, high


def controlled_adjustment(table: Table, threshold: int = 3) -> Release:
    """Move small counts to 0 or the threshold and adjust the rest; totals stay true.

    Examples
    --------
    >>> from discreet import lab
    >>> town = lab.town()
    >>> cells = lab.controlled_adjustment(town, 3).counts["block", "age", "ill"]
    >>> bool((cells.sum(axis=(1, 2)) == town.counts(("block",))).all())
    True
    """
    check_count(threshold, "threshold")
    counts = table.published()
    wide = {names: cells for names, cells in counts.items() if len(names) > 1}
    changed = _adjusted([cells.reshape(len(cells), -1) for cells in wide.values()], threshold)
    for (names, cells), matrix in zip(wide.items(), changed, strict=True):
        counts[names] = matrix.reshape(cells.shape)
    return Release(f"controlled adjustment below {threshold}", counts, float(table.numbers.mean()))


def _adjusted(matrices: list[Floats], threshold: int) -> list[Floats]:
    """Solve for the least change that keeps all totals; sensitive cells move if they can."""
    if not matrices:
        return []
    aims, prices, totals = [], [], []
    for matrix in matrices:
        sensitive = (matrix > 0) & (matrix < threshold)
        safe = np.where(matrix * 2 < threshold, 0.0, float(threshold))
        aims.append(np.where(sensitive, safe, matrix).ravel())
        prices.append(np.where(sensitive, 10.0, 1.0).ravel())
        totals += [matrix.sum(axis=1), matrix.sum(axis=0)]
    # variables: rise and fall of each cell, from where it would be safe
    aim, price = np.concatenate(aims), np.concatenate(prices)
    lines = sparse.block_diag([_lines(*matrix.shape) for matrix in matrices], format="csr")
    solved = linprog(
        np.concatenate([price, price]),
        A_eq=sparse.hstack([lines, -lines]),
        b_eq=np.concatenate(totals) - lines @ aim,
        bounds=np.column_stack(
            [np.zeros(2 * len(aim)), np.concatenate([np.full(len(aim), np.inf), aim])]
        ),
        method="highs-ds",
    )
    # the matrix of a transport problem has integer vertices; rounding only removes dust
    moved = aim + np.rint(solved.x[: len(aim)] - solved.x[len(aim) :])
    ends = np.cumsum([matrix.size for matrix in matrices])
    parts = np.split(moved, ends[:-1])
    return [part.reshape(m.shape) for part, m in zip(parts, matrices, strict=True)]


def _lines(rows: int, columns: int) -> Any:
    """Return the matrix that sums the cells of each row, then of each column."""
    across, down = sparse.identity(rows), sparse.identity(columns)
    in_rows = sparse.kron(across, np.ones((1, columns)))
    in_columns = sparse.kron(np.ones((1, rows)), down)
    return sparse.vstack([in_rows, in_columns], format="csr")
