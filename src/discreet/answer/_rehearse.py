"""Before the debit: what follows the noise is tried on made-up numbers.

Guarantee: an answer whose outputs, HAVING, QUALIFY or order cannot be computed is refused while
it is free. Only the question is read. Every operation is total on numbers and on
NULL, so three rows (two values of each key, and NULL, as in a row of totals) stand for all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet.answer import _outputs
from discreet.answer._levels import Rows
from discreet.errors import UnsupportedQueryError
from discreet.plan import Box, Expr, Key, Kind, Lowered, OutputExpr

_CELLS: Final = 3
_FAULTS: Final = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)

Ends = tuple[object, object]


@dataclass(frozen=True)
class _Shape:
    """What is done with the noisy numbers, and the ends of what is no number."""

    outputs: tuple[OutputExpr, ...]
    having: OutputExpr | None
    qualify: OutputExpr | None
    order: tuple[OutputExpr, ...]
    keys: tuple[tuple[str, Ends], ...]
    values: tuple[Ends | None, ...]
    """Of each statistic that releases a value of its column."""


class _Sample(Rows):
    """Three made-up rows. Windows look at all of them, or at none."""

    def __init__(self, shape: _Shape, *, empty: bool) -> None:
        self._shape = shape
        self.cells = _CELLS
        self.survivors = np.arange(0 if empty else _CELLS)
        # ends of each key's range, and NULL
        self.keys = {name: _column(ends) for name, ends in shape.keys}

    @property
    def test(self) -> OutputExpr | None:
        """HAVING."""
        return self._shape.having

    def grouping(self, name: str) -> NDArray[Any]:  # noqa: ARG002 - of every key
        """The last row is a total."""
        return np.array([0.0, 0.0, 1.0])

    def statistic(self, index: int) -> NDArray[Any]:
        """Numbers and NULL; a value of the column where that is what is released."""
        values = self._shape.values
        ends = values[index] if index < len(values) else None
        return np.array([0.0, 1.5, np.nan]) if ends is None else _column(ends)

    def box(self, index: int, level: float) -> Box:  # noqa: ARG002 - of every statistic
        """Ends around the numbers."""
        numbers = np.array([0.0, 1.5, np.nan])
        return Box(numbers - 1, numbers + 1)

    def added(self, index: int) -> tuple[noise.Law | None, float] | None:  # noqa: ARG002 - of any
        """None: totals are taken from boxes."""
        return None

    def statements(self, statistics: set[int]) -> int:
        """One about each."""
        return len(statistics)


def _column(ends: Ends) -> NDArray[Any]:
    return np.array([*ends, None], dtype=object)


def _ends_of(key: Key) -> Ends:
    """Values of a key at both ends of its public codes; other codes may stand for no value."""
    if key.codes and key.expr.type.kind is not Kind.TEXT:
        return key.expr.type.value(key.codes[0]), key.expr.type.value(key.codes[-1])
    return _ends(key.expr)


def _ends(expr: Expr) -> Ends:
    t = expr.type
    return ("a", "b") if t.kind is Kind.TEXT else (t.value(t.lo), t.value(t.hi))


def rehearse(lowered: Lowered) -> None:
    """Refuse a question whose answer could not be computed from the numbers released."""
    query = lowered.query
    if lowered.labels is not None:
        return  # rows of a matrix: no text says what is done with them
    values = [_ends(s.expr) if s.word == "mode" and s.expr is not None else None
              for s in query.statistics]  # fmt: skip
    shape = _Shape(
        tuple(o.expr for o in lowered.outputs),
        query.having,
        query.qualify,
        tuple(out for out, _ in query.order),
        tuple((key.name, _ends_of(key)) for key in query.keys),
        tuple(values),
    )
    if not _computes(shape):
        raise UnsupportedQueryError(
            "what is to be computed from the noisy numbers cannot be: an operation does not suit "
            "its arguments"
        )


@lru_cache(256)
def _computes(shape: _Shape) -> bool:
    tests = [t for t in (shape.having, shape.qualify) if t is not None]
    try:
        for empty in (False, True):
            sample = _Sample(shape, empty=empty)
            for out in (*shape.outputs, *tests, *shape.order):
                _outputs.sortable(_outputs.evaluate(out, sample))
            for out in shape.outputs:
                _outputs.bounds(out, sample, 0.95)
            for test in tests:
                _outputs.truth(test, sample, 0.95)
    except _FAULTS:
        return False
    return True
