"""How wide intervals will be, where public facts alone say it.

The interval of a count or sum is as wide as its noise. So is that of what follows from counts
and sums by steps whose width does not depend on the numbers:

* a total of a level (ROLLUP, CUBE, GROUPING SETS) adds up the noise of its cells, whose number
  is public: laws of sums give its width;
* sums, differences and multiples add up the widths of their sides;
* GREATEST, LEAST, COALESCE, ABS are no wider than the widest of their arguments: none of them moves
  by more than these do. Rounding adds half a unit;
* windows in a public order add up, or pick, rows of the answer.

Everything else (quotients, logarithms, ranks, windows over rows that noisy numbers chose)
depends on what is private, and has no width here.

Confidence is split as answers split it: between statements about noise, and over all rows that
could be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

from discreet import noise
from discreet._dataclass import dataclass
from discreet._print import if_divided, number
from discreet.plan._formula import Total
from discreet.plan._means import WeightedSum
from discreet.plan._parts import Law
from discreet.plan._query import (
    Apply,
    KeyValue,
    Number,
    OutputExpr,
    StatisticValue,
    Window,
    windows_of,
)
from discreet.plan._target import (
    level_of_each,
    outside_windows,
    rows_by_level,
    statistics_of,
)

if TYPE_CHECKING:
    from discreet.plan._lowered import Lowered

_EXACT_COUNTS: Final = 16
"""Up to so many terms the law of a sum is computed for each number of terms."""

_FOLDS: Final = frozenset({"SUM", "AVG", "COUNT", "MIN", "MAX"})
_OTHER_ROWS: Final = frozenset({"LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE"})
_LINEAR: Final = frozenset({"+", "-", "*", "/"})
_NO_WIDER: Final = frozenset({"abs", "greatest", "least", "coalesce"})


def few_digits(terms: int) -> int:
    """Round a number of terms up to four binary digits."""
    if terms <= _EXACT_COUNTS:
        return terms
    unit = 1 << (terms.bit_length() - 4)
    return -(-terms // unit) * unit


def half_of_sum(law: noise.Law, level: float, terms: int) -> float:
    """Half-width of the noise in a sum of so many cells; of many, that of a few more."""
    if terms == 0:
        return 0.0
    total = law if terms == 1 else _sum_of(law, few_digits(terms))
    return float(total.interval(level).high)


def _sum_of(law: noise.Law, terms: int) -> Any:
    return noise.sum_of([law], [terms])


@dataclass(frozen=True)
class Level:
    """Rows of one level: the keys that they show, how many they are, cells added up in each."""

    names: tuple[str, ...]
    rows: int
    laws: tuple[Law | None, ...]
    """Laws of the noise of all releases, cells added up."""

    def __str__(self) -> str:
        return f"by {', '.join(self.names)}" if self.names else "in all"


class Widths:
    """Half-widths of outputs of a question whose releases have these laws."""

    def __init__(self, lowered: Lowered, laws: Sequence[Law | None]) -> None:
        self._lowered, self._laws = lowered, tuple(laws)
        self._sums: dict[tuple[Law, int], Law] = {}

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Levels from the most cells to the fewest; none where their sizes are not public."""
        query = self._lowered.query
        by_level = rows_by_level(query)
        if by_level is None:
            return () if query.levels else (Level((), 1, self._laws),)
        cells = max(prod(len(k.codes or ()) for k in query.keys), 1)
        order = sorted(by_level, key=lambda pair: -pair[1])
        return tuple(
            [Level(names, rows, self._added_up(cells // max(rows, 1))) for names, rows in order]
        )

    def _added_up(self, terms: int) -> tuple[Law | None, ...]:
        return tuple([law if law is None else self._sum(law, terms) for law in self._laws])

    def _sum(self, law: Law, terms: int) -> Law:
        if terms == 1:
            return law
        if (law, terms) not in self._sums:
            self._sums[law, terms] = _sum_of(law, terms)
        return self._sums[law, terms]

    def widest(self, out: OutputExpr, confidence: float) -> float | None:
        """Largest half-width over all rows; None where it depends on what is private."""
        halves = [half for _, half in self.by_level(out, confidence)]
        return None if not halves or None in halves else max(h for h in halves if h is not None)

    def by_level(self, out: OutputExpr, confidence: float) -> Iterator[tuple[Level, float | None]]:
        """Largest half-width in the rows of every level."""
        level = level_of_each(self._lowered, out, confidence)
        statements = self._statements(outside_windows(out)) + len(windows_of(out))
        each = 1 - (1 - level) / max(statements, 1)
        for rows in self.levels:
            yield rows, self._half(out, rows, each)

    def words(self, out: OutputExpr, confidence: float) -> str | None:
        """Margin of an output in words; None where it depends on what is private."""
        halves = [half for _, half in self.by_level(out, confidence)]
        if None in halves or not halves:
            return None
        half = max(h for h in halves if h is not None)
        same = len(set(halves)) == 1 and _is_even(out, levels=bool(self._lowered.query.levels))
        return f"± {'' if same else 'at most '}{number(half, half or None)}"

    def ratio_words(self, out: OutputExpr, confidence: float) -> str | None:
        """Margin of a quotient of such outputs, as far as it is known before."""
        match out:
            case Apply("round", (inner, *_)):
                return self.ratio_words(inner, confidence)
            case Apply("/", (above, below)) if statistics_of(below):
                each = 1 - (1 - confidence) / 2
                own, other = self.widest(above, each), self.widest(below, each)
                if own is None or other is None:
                    return None
                return f"± about {if_divided(own, other)}"
        return None

    def _statements(self, statistics: set[int]) -> int:
        found: set[object] = set()
        for formula in (self._lowered.formulas[i] for i in statistics):
            noisy = {i for i in formula.parts if self._laws[i] is not None}
            found |= noisy if isinstance(formula, Total) or not noisy else {formula}
        return len(found)

    def _half(self, out: OutputExpr, at: Level, level: float) -> float | None:
        if not statistics_of(out):
            return 0.0
        match out:
            case StatisticValue(index):
                return self._noise(index, at, level)
            case Window():
                return self._window(out, level)
            case Apply("*", (Number(value), inner)) | Apply("*", (inner, Number(value))):
                return _times(self._half(inner, at, level), abs(float(value)))
            case Apply("/", (inner, Number(value))) if value:
                return _times(self._half(inner, at, level), 1 / abs(float(value)))
            case Apply("round", (inner, *digits)):
                half = self._half(inner, at, level)
                unit = _unit(digits)
                return None if half is None or unit is None else half + unit / 2
            case Apply("floor" | "ceil", (inner,)):
                half = self._half(inner, at, level)
                return None if half is None else half + 0.5
            case Apply("case", (test, *branches)) if not statistics_of(test):
                return _most([self._half(b, at, level) for b in branches])
            case Apply("+" | "-", args):
                return _total([self._half(a, at, level) for a in args])
            case Apply(op, args) if op in _NO_WIDER:
                return _most([self._half(a, at, level) for a in args])
        return None

    def _noise(self, index: int, at: Level, level: float) -> float | None:
        """Half-width of one count or sum."""
        formula, rounded = self._lowered.formulas[index], self._lowered.rounded
        if not isinstance(formula, Total | WeightedSum):
            return None
        if index < len(rounded) and rounded[index] is not None:
            return None  # how far rounding moves it depends on how many rows there are
        return formula.half(at.laws, level)

    def _window(self, window: Window, level: float) -> float | None:
        """Half-width of a function of several rows, as one statement about noise."""
        query = self._lowered.query
        tested = query.having is not None and bool(statistics_of(query.having))
        public = not any(statistics_of(by) for by, _ in window.order)
        frame = self._frame(window)
        known = window.op in _FOLDS | _OTHER_ROWS and bool(window.args)
        if frame is None or not known or (tested and _is_whole(window)):
            return None
        if public and not tested and (one := self._one_law(window)) is not None:
            law, step = one
            if window.op == "AVG":
                terms = frame if _is_whole(window) else 1
                return 0.0 if law is None else half_of_sum(law, level, terms) * step / terms
            return 0.0 if law is None else half_of_sum(law, level, frame) * step
        rows = sum(each.rows for each in self.levels)
        spread = 1 if window.op in _OTHER_ROWS and public else rows
        each = 1 - (1 - level) / max(self._statements(statistics_of(window)) * spread, 1)
        halves = [self._half(window.args[0], at, each) for at in self.levels]
        if window.op == "COUNT":
            return None if None in halves else 0.0
        if window.op != "SUM":
            return _most(halves)
        return self._added(window, halves) if query.levels else _times(halves[0], frame)

    def _added(self, window: Window, halves: Sequence[float | None]) -> float | None:
        """Widths of the rows of all levels that one partition holds, at most, added up."""
        apart = {by.name for by in window.partition if isinstance(by, KeyValue)}
        sizes = {k.name: k.codes or () for k in self._lowered.query.keys}
        sums: dict[frozenset[str], list[float | None]] = {}
        for at, half in zip(self.levels, halves, strict=True):
            own = apart & set(at.names)
            rows = at.rows // max(prod(len(sizes[n]) for n in own), 1)
            # rows without a value share the partition of the rows that add up over it
            shown = frozenset(n for n in own if not self._may_be_null(n))
            sums.setdefault(shown, []).append(_times(half, rows))
        return _most([_total(each) for each in sums.values()])

    def _may_be_null(self, name: str) -> bool:
        """Whether NULL is among the values of a key."""
        (key,) = (k for k in self._lowered.query.keys if k.name == name)
        return None in map(key.expr.type.value, key.codes or ())

    def _one_law(self, window: Window) -> tuple[Law | None, float] | None:
        """Law and step of the cells that a window adds up, where they have noise of their own."""
        arg = window.args[0] if window.op in ("SUM", "AVG") else None
        formula = self._lowered.formulas[arg.index] if isinstance(arg, StatisticValue) else None
        if not isinstance(formula, Total) or self._lowered.query.levels:
            return None
        assert isinstance(arg, StatisticValue)
        law = self._laws[formula.vector]
        moved = arg.index < len(self._lowered.rounded) and self._lowered.rounded[arg.index]
        return None if moved or (law and not law.symmetric) else (law, float(formula.step))

    def _frame(self, window: Window) -> int | None:
        """Most rows that a window looks at; None where it is not public."""
        query = self._lowered.query
        if rows_by_level(query) is None:
            return None
        apart = {by.name for by in window.partition if isinstance(by, KeyValue)}
        size = prod(len(k.codes or ()) for k in query.keys if k.name not in apart)
        before, after = window.rows or (None, None)
        return size if before is None or after is None else min(size, before + after + 1)


def _is_whole(window: Window) -> bool:
    return window.op in _FOLDS and not window.order and window.rows is None


def _is_even(out: OutputExpr, *, levels: bool) -> bool:
    """Whether the interval is as wide in every row as in the widest, whatever the numbers."""
    match out:
        case Window():
            return not levels and (_is_whole(out) or out.op in _OTHER_ROWS)
        case Apply(op, args):
            return op in _LINEAR and all(_is_even(arg, levels=levels) for arg in args)
    return True


def _unit(digits: Sequence[Any]) -> float | None:
    """Unit to which ROUND rounds; None where it is not one public number."""
    if not digits:
        return 1.0
    (places,) = digits
    return 10.0 ** -int(places.value) if isinstance(places, Number) else None


def _times(half: float | None, factor: float) -> float | None:
    return None if half is None else half * factor


def _total(halves: Sequence[float | None]) -> float | None:
    return None if None in halves else sum(h for h in halves if h is not None)


def _most(halves: Sequence[float | None]) -> float | None:
    return None if None in halves else max(h for h in halves if h is not None)
