"""Levels of a category that the noise hides, and the formula that does without them.

With a level of a few rows no coefficient of a logistic fit is determined at any ε, and an interval
that ignored the level would not cover where it is finite. But a formula that takes the level for
the reference asks for the same cells: they are stored, and the second fit is free. Which levels
these are is read off the released counts, and the fit without them is made before it is advised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from discreet._dataclass import dataclass, replace
from discreet._print import number
from discreet._text import quoted
from discreet.inference._columns import Term
from discreet.inference._laws import Floats

if TYPE_CHECKING:
    from discreet.inference._logistic import Logistic

_CLEAR: Final = 5.0
"""Deviations of noise by which rows with and without the response stand out."""


@dataclass(frozen=True)
class _Level:
    """One value of a category: its term (None: the reference) and its rows."""

    name: str
    term: Term | None
    rows: float
    margin: float
    rare: bool


def advice(fit: Logistic) -> list[str]:
    """Name levels with too few rows, and a formula without them that is determined."""
    if any(len(term.parts) > 1 for term in fit.terms):
        return []  # interactions know a level in several columns
    rare: list[_Level] = []
    gone: set[str] = set()
    for source in dict.fromkeys(t.source for t in fit.terms if _is_level(t)):
        levels = list(_levels(fit, source))
        rare += [level for level in levels if level.rare]
        gone |= _merged(levels)
    keep = [i for i, term in enumerate(fit.terms) if term.name not in gone]
    merged = replace(
        fit,
        terms=tuple(fit.terms[i] for i in keep),
        cells=replace(fit.cells, design=fit.cells.design[..., keep]),
    )
    if not rare or len(keep) == 1 or not merged.determined:
        return []
    words = [
        f"{level.name} (about {number(round(level.rows))} ± {number(math.ceil(level.margin))})"
        for level in rare
    ]
    those = "these" if len(rare) > 1 else "this"
    return [
        f"too few rows to tell from noise: {', '.join(words)}",
        f"free, as the cells are stored: the same with {those} in the reference,",
        f'    "{_formula(merged)}"',
    ]


def _is_level(term: Term) -> bool:
    return isinstance(term.value, str)


def _levels(fit: Logistic, source: str | None) -> Iterator[_Level]:
    """Levels of one category with their rows; the reference is where no flag is set."""
    flags = {i: term for i, term in enumerate(fit.terms) if term.source == source}
    design = fit.cells.design[:, 0, :]
    reference = _name(next(iter(flags.values())))
    yield _level(fit, f"the first value of {reference}", None, 1 - design[:, [*flags]].sum(axis=1))
    for i, term in flags.items():
        yield _level(fit, term.name, term, design[:, i])


def _level(fit: Logistic, name: str, term: Term | None, inside: Floats) -> _Level:
    without, having = (inside @ fit.counts).sum(axis=1).tolist()
    deviation = math.sqrt(fit.variance * float(inside.sum()) * fit.counts.shape[2])
    rare = min(without, having) < _CLEAR * deviation
    return _Level(name, term, without + having, 2 * math.sqrt(2) * deviation, rare)


def _merged(levels: Sequence[_Level]) -> set[str]:
    """Columns to leave out so that rare levels are in the reference, and that is not rare."""
    gone = {level.term.name for level in levels if level.rare and level.term is not None}
    common = [level for level in levels if not level.rare and level.term is not None]
    if levels[0].rare and common:
        largest = max(common, key=lambda level: level.rows).term
        assert largest is not None
        gone.add(largest.name)
    return gone


def _name(term: Term) -> str:
    """The factor that a column comes from, as a formula spells it."""
    if term.parts:
        factor, level = term.parts[0]
        column = factor.columns[0] if level is not None and isinstance(level, str) else factor.name
        return _spelt(column) if column in factor.columns else column
    return _spelt(term.source or term.name)


def _spelt(column: str) -> str:
    return column if column.isidentifier() else quoted(column)


def _formula(fit: Logistic) -> str:
    """A formula of what is left."""
    left = fit.response
    texts: Mapping[str, Any] = {
        (f"({_name(t)} == {t.value!r})" if _is_level(t) else _name(t)): None for t in fit.terms[1:]
    }
    return f"{_name(left)} ~ {' + '.join(texts)}"
