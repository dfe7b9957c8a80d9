"""Linear queries over the data vector: from a matrix to a question."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import _exact
from discreet._dataclass import replace
from discreet._text import plain_str
from discreet.errors import Hint, ParameterError
from discreet.plan import KeyValue, LinearImage, OutputColumn, Query, StatisticValue

if TYPE_CHECKING:
    from discreet.curator._curator import Curator

_MOST = 10**8
"""Largest number of matrix entries."""


def linear_query(
    curator: Curator,
    matrix: Any,
    over: Sequence[str],
    *,
    table: str | None,
    where: str | None,
    labels: Sequence[str] | None,
) -> Query:
    """Build the question; see :meth:`Curator.linear`."""
    from discreet import frame  # noqa: PLC0415 - only for questions in Python

    private = [name for name, t in curator.policy.tables.items() if not t.public]
    if table is None and len(private) != 1:
        raise ParameterError("the policy has several tables", hint=Hint("table", private[0]))
    started = curator.table(table or private[0])
    if where is not None:
        started = started.where(where)
    query = curator._question(started.group_by(*over).agg(value=frame.count())).query  # noqa: SLF001 - part of it
    cells = 1
    for key in query.keys:
        if key.codes is None:
            raise ParameterError(
                f"{key.name!r} has no public values, so its cells are not known",
                hint="list its values in the policy",
            )
        cells *= len(key.codes)
    rows, denominator = _integers(matrix, cells)
    names = _numbered(len(rows))
    if labels is not None:
        names = tuple(plain_str(x) if isinstance(x, str) else str(x) for x in labels)
    if len(names) != len(rows):
        raise ParameterError(f"{len(rows)} queries have {len(names)} labels")
    outputs = (OutputColumn("query", KeyValue("query")), OutputColumn("value", StatisticValue(0)))
    image = LinearImage(None, rows, denominator, names)
    return replace(query, statistics=(image,), outputs=outputs)


def _numbered(n: int) -> tuple[str, ...]:
    return tuple(f"q{i + 1}" for i in range(n))


def _integers(matrix: Any, cells: int) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Read a public matrix exactly, over one common denominator."""
    dense = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix, dtype=object)
    if dense.ndim != 2 or dense.shape[1] != cells or not dense.shape[0]:
        shape = "×".join(map(str, dense.shape))
        raise ParameterError(
            f"the matrix is {shape}; it needs one column for each of {cells} cells"
        )
    if dense.size > _MOST:
        raise ParameterError(f"the matrix has more than {_MOST} entries")
    values = {x: _exact.decimal(x, "a matrix entry") for x in set(dense.ravel().tolist())}
    denominator = lcm(*(v.denominator for v in values.values()))
    whole = {x: int(v * denominator) for x, v in values.items()}
    rows = tuple(tuple(whole[x] for x in row) for row in dense.tolist())
    if not any(map(any, rows)):
        raise ParameterError("the matrix is zero: every answer is known to be 0")
    if max(abs(x) for row in rows for x in row) >= 2**62:
        raise ParameterError("the matrix needs more than 62 bits over a common denominator")
    return rows, denominator
