"""Levels of a category that the noise hides, and the log-odds of all other rows.

With a level of a few rows the noisy information is not told from a singular one. But cells are
disjoint: those of the other levels are a fit of their own, with the same log-odds of everything but
the level, whose rows say nothing of them but by its own intercept. So they are left out. Where the
whole fit is determined all rows stay, and only the level's own log-odds are not given. Which levels
are left out is read off the noise and rows of their own cells, of which what is left is
independent. That they are left out only where the whole fit is not determined looks at the other
cells too; simulated at the edge, where a level is hidden every second time.

A level's own log-odds stay undetermined; where it is the reference, so do the intercept and the
levels that are compared with it. A formula that takes hidden levels for the reference asks for the
same cells, which are stored: that fit is free, and is advised if it is determined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass, replace
from discreet._print import number
from discreet._text import quoted
from discreet.inference._columns import Term
from discreet.inference._laws import Floats

if TYPE_CHECKING:
    from discreet.inference._logistic import Logistic

_CLEAR: Final = 5.0
"""Deviations of noise by which rows with and without the response stand out."""

_SEEN: Final = 3.0
_FEWEST: Final = 5.0
"""The same for a level's own log-odds, where the fit of all levels is determined; and rows."""


@dataclass(frozen=True)
class _Level:
    """One value of a category: its term (None: the reference) and its rows."""

    name: str
    source: str | None
    term: Term | None
    rows: float
    margin: float
    fewer: float
    """Rows with the response, or those without."""
    clear: float
    """The same in deviations of noise."""

    @property
    def rare(self) -> bool:
        """Whether a fit is better without its rows."""
        return self.clear < _CLEAR

    @property
    def unseen(self) -> bool:
        """Whether its own log-odds are next to nothing but noise."""
        return self.clear < _SEEN or self.fewer < _FEWEST


@dataclass(frozen=True)
class Less:
    """A fit of all levels but those that are hidden."""

    fit: Logistic
    keep: tuple[int, ...]
    """Its terms, among those of the whole fit."""
    terms: frozenset[int]
    """Terms of the whole fit that say what a hidden level is."""
    levels: tuple[_Level, ...]
    insides: tuple[Floats, ...]
    """For each hidden level, the terms whose sum, with the last for the constant, is not zero."""

    def hides(self, rows: Floats) -> NDArray[np.bool_]:
        """Which rows of a design belong to hidden levels."""
        each = [rows @ inside[:-1] + inside[-1] != 0 for inside in self.insides]
        return np.asarray(np.any(each, axis=0), dtype=np.bool_)


def less(fit: Logistic) -> Less | None:
    """Fit the cells of levels that have rows enough; None if that is not determined either."""
    rare: list[_Level] = []
    gone: set[int] = set()
    own: set[int] = set()
    for source in dict.fromkeys(t.source for t in fit.terms if _is_flag(t)):
        levels = list(_levels(fit, source))
        if levels[0].rare and _crossed(fit, source):
            return None  # an interaction has its own reference
        hidden = [level for level in levels if level.rare]
        rare += hidden
        places = {i for i, t in enumerate(fit.terms) for v in hidden if _is_of(t, v.term)}
        merged = _merged(levels)
        gone |= places | {i for i, t in enumerate(fit.terms) if t.name in merged}
        own |= places
        if levels[0].rare:
            own |= {0} | {i for i, t in enumerate(fit.terms) if t.source == source}
    insides = tuple(_inside(fit, level) for level in rare)
    keep = tuple(i for i in range(len(fit.terms)) if i not in gone)
    found = Less(fit, keep, frozenset(own), tuple(rare), insides)
    if not rare or len(keep) == 1:
        return None
    groups = ~found.hides(_plain(fit))
    left = replace(
        fit,
        terms=tuple(fit.terms[i] for i in keep),
        cells=replace(fit.cells, design=fit.cells.design[groups][..., keep]),
        counts=fit.counts[:, groups],
    )
    return replace(found, fit=left) if groups.any() and left.determined else None


def unseen(fit: Logistic) -> Less | None:
    """Levels of a determined fit whose own log-odds the noise hides; None if there are none.

    Next to no rows with the response, or without, are no rows but for noise: the log-odds would
    follow from the noise alone, and their interval missed 27 % where it was finite (20 people, two
    of whom in a hundred differ, ε = 3). The other log-odds hardly depend on such rows.
    """
    own: set[int] = set()
    hidden: list[_Level] = []
    for source in dict.fromkeys(t.source for t in fit.terms if _is_flag(t)):
        levels = list(_levels(fit, source))
        few = [level for level in levels if level.unseen]
        hidden += few
        own |= {i for i, t in enumerate(fit.terms) for v in few if _is_of(t, v.term)}
        if levels[0] in few:
            own |= {0} | {i for i, t in enumerate(fit.terms) if t.source == source}
    insides = tuple(_inside(fit, level) for level in hidden)
    every = tuple(range(len(fit.terms)))
    return Less(fit, every, frozenset(own), tuple(hidden), insides) if hidden else None


def notes(fit: Logistic, part: Less) -> list[str]:
    """Name levels with too few rows, and a formula without them that is determined."""
    words = [
        f"{level.name} (about {number(round(level.rows))} ± {number(math.ceil(level.margin))})"
        for level in part.levels
    ]
    said = [f"too few rows, or too few of one answer, to tell from noise: {', '.join(words)}"]
    if part.fit is not fit:
        said.append("the other log-odds are fitted without those rows")
    formula = _merged_formula(fit)
    if formula is None:
        return said
    those = "these" if len(words) > 1 else "this"
    return [
        *said,
        f"free, as the cells are stored: the same with {those} in the reference,",
        f'    "{formula}"',
    ]


def _merged_formula(fit: Logistic) -> str | None:
    """A formula that takes hidden levels for the reference, if that is determined."""
    if any(len(t.parts) > 1 for t in fit.terms):
        return None  # interactions know a level in several columns
    gone: set[str] = set()
    for source in dict.fromkeys(t.source for t in fit.terms if _is_level(t)):
        gone |= _merged(list(_levels(fit, source)))
    if not gone:
        return None
    keep = [i for i, term in enumerate(fit.terms) if term.name not in gone]
    cells = replace(fit.cells, design=fit.cells.design[..., keep])
    merged = replace(fit, terms=tuple(fit.terms[i] for i in keep), cells=cells)
    return _formula(merged) if len(keep) > 1 and merged.determined else None


def _plain(fit: Logistic) -> Floats:
    """Flags of each group, as a design has them; numbers are of no matter."""
    return np.asarray(fit.cells.design[:, 0, :])


def _inside(fit: Logistic, level: _Level) -> Floats:
    """Weights of a design's columns, and of one, whose sum is 1 in a level's rows alone."""
    own = [t.source == level.source for t in fit.terms]
    if level.term is None:
        return np.array([*(-1.0 * np.array(own)), 1.0])
    return np.array([*(float(t is level.term) for t in fit.terms), 0.0])


def _is_flag(term: Term) -> bool:
    return term.value is not None and len(term.parts) < 2


def _is_of(term: Term, flag: Term | None) -> bool:
    """Whether a column is a level's flag, or an interaction of it."""
    if flag is None or term is flag:
        return flag is not None
    columns = {flag.source} if not flag.parts else set(flag.parts[0][0].columns)
    own = [v for f, v in term.parts if columns & set(f.columns)]
    return len(term.parts) > 1 and flag.value in own


def _crossed(fit: Logistic, source: str | None) -> bool:
    """Whether a category stands in an interaction."""
    own = {source}.union(*(f.columns for t in fit.terms if t.source == source for f, _ in t.parts))
    both = [f for t in fit.terms if len(t.parts) > 1 for f, _ in t.parts]
    return any(own & set(f.columns) for f in both)


def _is_level(term: Term) -> bool:
    return isinstance(term.value, str)


def _levels(fit: Logistic, source: str | None) -> Iterator[_Level]:
    """Levels of one category with their rows; the reference is where no flag is set."""
    flags = {i: term for i, term in enumerate(fit.terms) if term.source == source}
    design = _plain(fit)
    reference = _name(next(iter(flags.values())))
    first = f"the first value of {reference}"
    yield _level(fit, (first, source, None), 1 - design[:, [*flags]].sum(axis=1))
    for i, term in flags.items():
        yield _level(fit, (term.name, source, term), design[:, i])


def _level(fit: Logistic, what: tuple[str, str | None, Term | None], inside: Floats) -> _Level:
    without, having = (inside @ fit.counts).sum(axis=1).tolist()
    deviation = math.sqrt(fit.variance * float(inside.sum()) * fit.counts.shape[2])
    fewer, margin = min(without, having), 2 * math.sqrt(2) * deviation
    clear = fewer / deviation if deviation else math.inf
    return _Level(*what, without + having, margin, fewer, clear)


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
