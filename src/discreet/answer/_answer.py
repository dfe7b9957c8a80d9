"""Answers: a table of noisy numbers that knows how far off it may be."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._exact import Number
from discreet._print import plural
from discreet._text import visible
from discreet._vega import Chart
from discreet.answer import _chart, _moments, _outputs, _show
from discreet.answer._folds import is_whole
from discreet.answer._levels import Rows, moved_by
from discreet.answer._record import UNION, Record, parsed, read
from discreet.answer._selected import Bar, bar_of
from discreet.errors import Hint, ParameterError
from discreet.plan import (
    Box,
    Grouping,
    KeyValue,
    Numbers,
    OutputExpr,
    Release,
    StatisticValue,
    Window,
    choosing,
    damaged,
    outside_windows,
    parts_of,
    shares_noise,
    statistics_of,
    windows_of,
)

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

COVERS = "the exact value of this query on the stored table after the policy's clamping and limits"
NOT = "it does not cover sampling error"


class Answer:
    """A released table with error bars, cost and what is left of the budget.

    Build one from :meth:`Curator.sql`, or with :meth:`from_record` from the JSON
    of a record. Everything shown is computed from the record alone.

    Notes
    -----
    ``interval(c)`` holds per cell with probability at least c over the noise;
    ``interval(c, simultaneous=True)`` for all cells and columns at once. Where noisy
    numbers chose the rows (HAVING, or ORDER BY with LIMIT), the intervals of the columns
    that share their noise allow for the choice: of the rows shown at most 1 − c are
    missed in expectation (:mod:`discreet.answer._selected`), or, where the choice has no simple
    form, the intervals hold for all rows that could have been chosen at once.

    An interval covers the exact value of the query on the clamped and limited table, not a
    population; :attr:`covers` says what that is here.
    """

    def __init__(
        self,
        record: Record,
        *,
        left: str | None = None,
        tainted: bool = False,
        cached: bool = False,
    ) -> None:
        self._record = record
        self._question: str | None = None
        self._signed: Mapping[str, Any] | None = None
        self._left = left
        self.tainted = tainted
        self._cached = cached
        self._found: dict[tuple[str, float, bool], Box | None] = {}
        self.rivals: int | None = None
        """Rows of all branches, where this is one of a union whose LIMIT chooses by noise."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | str) -> Answer:
        """Rebuild an answer from its record (a mapping or JSON text)."""
        from discreet.answer._union import Union  # noqa: PLC0415 - it is made of answers

        data = parsed(record)
        answer = Union.of_record(data) if UNION in data else cls(read(data))
        try:
            answer.to_dicts()
            answer.interval()
        except (ArithmeticError, LookupError, TypeError, ValueError):
            raise damaged("its numbers do not fit its formulas") from None
        return answer

    def record(self) -> dict[str, Any]:
        """Return the JSON-able record from which anyone can recompute everything."""
        return self._record.to_dict()

    @property
    def parts(self) -> tuple[Release, ...]:
        """What was released, part by part."""
        return self._record.parts

    @property
    def cost(self) -> Mapping[str, str]:
        """What the query cost, in every currency defined for it."""
        return self._record.cost

    @property
    def left(self) -> str | None:
        """What was left of the budget right after this answer."""
        return self._left

    @property
    def question(self) -> str | None:
        """The SQL that was asked, as typed; None in Python and from a record."""
        return self._question

    def asked(self, question: str) -> Self:
        """Remember the words of the question: charts are titled by them."""
        self._question = question
        return self

    @property
    def signed(self) -> Mapping[str, Any] | None:
        """What a service has signed, as ``discreet verify`` reads it; None from a local curator.

        It holds the records of all answers that were asked for together.
        """
        return self._signed

    def vouched(self, signed: Mapping[str, Any]) -> Self:
        """Remember what a service has signed."""
        self._signed = signed
        return self

    @property
    def cached(self) -> bool:
        """Whether this is a stored answer, given again for free."""
        return self._cached

    @property
    def dummy(self) -> bool:
        """Whether this comes from made-up data and says nothing about anybody."""
        return self._record.statement.get("dummy") is True

    @property
    def covers(self) -> str:
        """What the intervals cover: limits, clamps and choices by noisy numbers included."""
        facts = ", ".join(self.target)
        about = COVERS.replace("the stored table", "made-up rows") if self.dummy else COVERS
        parts = [about + (f" ({facts})" if facts else ""), f"{self.margins}: {NOT}"]
        if columns := self.chosen:
            parts.append(
                "the rows were chosen by noisy numbers, and the intervals of "
                f"{', '.join(columns)} allow for it: {self.selection}"
            )
        return "; ".join(parts)

    @property
    def margins(self) -> str:
        """What ± and the ends of intervals allow for, in words: noise, and the steps of curves."""
        moved = (moved_by(self._record, i) for i in range(len(self._record.formulas)))
        return "± covers noise and steps only" if any(moved) else "± covers noise only"

    @property
    def target(self) -> tuple[str, ...]:
        """What stands between the stored table and these numbers, in words.

        Limits, clamps, what became of missing and unlisted values, which keys are shown.
        """
        stated = self._record.statement.get("target")
        facts = [f for f in stated if isinstance(f, str)] if isinstance(stated, list) else []
        # records of earlier versions said here what the margins say now
        facts = [f.removesuffix(", for which ± allows") for f in facts]
        unit, limit = self._record.statement.get("unit"), self._record.limit
        short = limit is not None and len(self._rows) < limit
        facts += [
            f"only keys shown whose noisy {part.selects} of {unit}s reached {part.reached}"
            + (", fewer than LIMIT asks for" if short else "")
            for part in self._record.parts
            if isinstance(part, Numbers) and part.threshold is not None
        ]
        if names := [o.name for o in self._record.outputs if self._is_of_shown(o.expr)]:
            facts.append(f"{', '.join(names)}: of the rows released, not of all that truly pass")
        return tuple(visible(fact) for fact in facts)

    @property
    def cut(self) -> tuple[str, ...]:
        """What limits cut off numbers per person, in words: it stands above the table."""
        stated = self._record.statement.get("cut")
        facts = [f for f in stated if isinstance(f, str)] if isinstance(stated, list) else []
        return tuple(visible(fact) for fact in facts)

    def _is_of_shown(self, out: OutputExpr) -> bool:
        """Whether a column looks at other rows, and at those only that the noise let through."""
        r = self._record
        noisy = r.having is not None and bool(statistics_of(r.having))
        selected = any(isinstance(p, Numbers) and p.threshold is not None for p in r.parts)
        return any(selected or (noisy and not is_whole(w)) for w in windows_of(out))

    @property
    def chosen(self) -> tuple[str, ...]:
        """Columns whose noise helped to choose the rows that are shown."""
        return tuple(o.name for o in self._record.outputs if self._is_chosen(o.expr))

    @property
    def selection(self) -> str | None:
        """How intervals allow for rows that noisy numbers chose; None where none did."""
        ways = {}
        for out in self._record.outputs:
            if self._is_chosen(out.expr) and not _is_one(out.expr):
                bar = self._bar(out.expr)
                ways[out.name] = bar is not None and bar.shortens(0.95, self._record.cells)
        words = []
        if hybrid := [name for name, yes in ways.items() if yes]:
            words.append(
                f"± of {', '.join(hybrid)} covers the rows shown, over the choice (conditional and "
                "simultaneous intervals together)"
            )
        if wide := [name for name, yes in ways.items() if not yes]:
            words.append(
                f"± of {', '.join(wide)} holds at once for every row that could be shown "
                f"({plural(self._source.cells, 'row')})"
            )
        ones = [o for o in self._record.outputs if _is_one(o.expr) and self._is_chosen(o.expr)]
        if one := [o.name for o in ones if not self._is_of_shown(o.expr)]:
            words.append(
                f"± of {', '.join(one)} covers the exact value over the rows that truly pass, "
                "whichever of those in doubt they are"
            )
        return "; ".join(words) or None

    @property
    def chooses(self) -> bool:
        """Whether noisy numbers choose rows at all: whose people they are follows from these."""
        return bool(self._choosing)

    @property
    def _choosing(self) -> set[int]:
        r = self._record
        return choosing(r.having, r.order, r.limit, self._source.cells, r.qualify)

    def _is_chosen(self, out: OutputExpr) -> bool:
        return shares_noise(self._record.formulas, self._basis(out), self._choosing)

    def _basis(self, out: OutputExpr) -> set[int]:
        """Statistics that an output rests on: those by which its rows were chosen, too."""
        test = self._record.having
        folds = test is not None and any(is_whole(window) for window in windows_of(out))
        return statistics_of(out) | (statistics_of(test) if test is not None and folds else set())

    @property
    def exact(self) -> frozenset[str]:
        """Columns that hold public numbers, to which no noise was added."""
        basis = {o.name: self._basis(o.expr) for o in self._record.outputs}
        return frozenset(n for n, s in basis.items() if s and not self._source.statements(s))

    @property
    def columns(self) -> list[str]:
        """Names of the output columns, in order."""
        return [o.name for o in self._record.outputs]

    @cached_property
    def moments(self) -> dict[str, str]:
        """Noisy columns that hold moments, each with its kind: "date" or "timestamp"."""
        kinds = {o.name: _moments.kind_of(o.expr, self._record.formulas)
                 for o in self._record.outputs}  # fmt: skip
        return {name: kind for name, kind in kinds.items() if kind}

    def __len__(self) -> int:
        return int(self._rows.size)

    @property
    def totals(self) -> list[frozenset[str]]:
        """Keys that each row adds up over, as ROLLUP and CUBE do."""
        over = {name: self._source.grouping(name) for name in self._record.keys}
        return [frozenset(n for n, flags in over.items() if flags[row]) for row in self._rows]

    @property
    def rolled_up(self) -> list[frozenset[str]]:
        """Columns in which each row stands for all values of a key; NULL is their value."""
        keys = {o.name: o.expr.name for o in self._record.outputs if isinstance(o.expr, KeyValue)}
        return [frozenset(n for n, key in keys.items() if key in over) for over in self.totals]

    # -- values -----------------------------------------------------------------

    @cached_property
    def _source(self) -> Rows:
        return Rows(self._record)

    def _evaluate(self, out: OutputExpr) -> NDArray[Any]:
        return _outputs.evaluate(out, self._source)

    @cached_property
    def _all(self) -> dict[str, NDArray[Any]]:
        return {o.name: self._evaluate(o.expr) for o in self._record.outputs}

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """Cells shown, in order, after HAVING, ORDER BY and LIMIT."""
        return self._passing if self._record.limit is None else self._passing[: self._record.limit]

    @cached_property
    def _passing(self) -> NDArray[np.int64]:
        """Cells that HAVING and QUALIFY let through, in order."""
        record = self._record
        first = record.limit == 1 and record.qualify is None
        if first and all(_is_one(o.expr) for o in record.outputs):
            # one row for all rows, also where HAVING leaves none
            return np.arange(min(self._source.cells, 1))
        rows = self._source.survivors
        if self._record.qualify is not None:
            rows = rows[self._evaluate(self._record.qualify)[rows].astype(bool)]
        return self._sorted(rows, self._record.order)

    def _sorted(
        self, rows: NDArray[np.int64], order: Sequence[tuple[OutputExpr, bool]]
    ) -> NDArray[np.int64]:
        for out, descending in reversed(order):
            values = _outputs.sortable(self._evaluate(out))[rows]
            rows = rows[np.argsort(-values if descending else values, kind="stable")]
        return rows

    # -- intervals ----------------------------------------------------------------

    def interval(
        self,
        confidence: Number = 0.95,
        *,
        simultaneous: bool = False,
        target: Literal["query", "population"] = "query",
        size: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return, row by row, ``(low, high)`` for every number and keys as they are.

        Parameters
        ----------
        confidence
            Probability with which each interval (or, `simultaneous`, all of them
            together) contains what it is about.
        target
            "query": the exact value of the query on the clamped and limited table.
            "population": that of the population from which the people in the table
            were drawn; see :func:`discreet.inference.population_interval`.
        size
            Rows of the population, for the population value of counts and sums.
        """
        if target == "population":
            from discreet import inference  # noqa: PLC0415 - only for those who ask

            return inference.population_interval(
                self, confidence, size=size, simultaneous=simultaneous
            )
        if target != "query":
            raise ParameterError(
                f"an interval is about the query or about the population, not {target!r}",
                hint=Hint("target", "population"),
            )
        level = _exact.confidence(confidence)
        ends = {name: self.ends(name, level, simultaneous=simultaneous) for name in self.columns}
        return self.rows_of(ends)

    def distortion(self, column: str, confidence: Number = 0.95) -> list[dict[str, Any]]:
        """Return bias and spread of a column that was altered after the noise, row by row.

        For what follows from one count or sum, such as ``GREATEST(COUNT(*), 0)`` or
        ``ROUND(…)``; see :func:`discreet.inference.distortion`.
        """
        from discreet import inference  # noqa: PLC0415 - only for those who ask

        return inference.distortion(self, column, confidence)

    def rows_of(self, ends: Mapping[str, Box | None]) -> list[dict[str, Any]]:
        """Lay ends of all cells out by the rows that are shown; None: values as they are."""
        rows = []
        for row in self._rows:
            cells: dict[str, Any] = {}
            for name in self.columns:
                box = ends[name]
                if box is None:
                    cells[name] = self._value(name, row)
                    continue
                low, high = float(box.low[row]), float(box.high[row])
                kind = self.moments.get(name)
                cells[name] = (low, high) if kind is None else _moments.ends(low, high, kind)
            rows.append(cells)
        return rows

    @property
    def full_record(self) -> Record:
        """The record, read; :meth:`record` gives it as plain data."""
        return self._record

    @property
    def cells(self) -> int:
        """How many rows there are, of which HAVING, QUALIFY and LIMIT show some."""
        return self._source.cells

    def values_of(self, name: str) -> NDArray[Any]:
        """Values of a column in all rows, also of those that are not shown."""
        return self._all[name]

    def ends(self, name: str, level: float, *, simultaneous: bool = False) -> Box | None:
        """Ends of a column in all rows; where noise chose which are shown, valid over that."""
        key = (name, level, simultaneous)
        if key not in self._found:
            self._found[key] = self._ends(name, level, simultaneous=simultaneous)
        return self._found[key]

    def _ends(self, name: str, level: float, *, simultaneous: bool) -> Box | None:
        out = next(o.expr for o in self._record.outputs if o.name == name)
        if not self._basis(out):
            return None
        if not simultaneous and self._is_chosen(out) and (bar := self._bar(out)) is not None:
            return bar.ends(level, self._record.cells)
        outs = [o.expr for o in self._record.outputs] if simultaneous else [out]
        windows = set().union(*(windows_of(o) for o in outs))
        # a number that is the same in every row is one statement
        cells = 1 if all(_is_one(o) for o in outs) else max(self._source.cells, 1)
        miss = 1 - level
        if simultaneous or self._is_chosen(out):
            # the noise of cells is independent, so their levels multiply; rows that add
            # up the same cells share noise
            shared = windows or self._record.levels
            miss = miss / cells if shared else -math.expm1(math.log(level) / cells)
        statistics = (
            set(range(len(self._record.formulas))) if simultaneous else outside_windows(out)
        )
        if not simultaneous and not windows:
            ratio = _outputs.of_quotient(out, self._source, 1 - miss)
            if ratio is not None:
                return ratio
        per = miss / max(self._source.statements(statistics) + len(windows), 1)
        return _outputs.bounds(out, self._source, 1 - per)

    def _bar(self, out: OutputExpr) -> Bar | None:
        """What the noisy numbers of a column had to reach, where that is one bar."""
        if self._record.levels or self._record.qualify is not None:
            return None  # rows that add up others share their noise; windows compare several
        places = self._sorted(np.arange(self._record.cells), self._record.order[1:])
        ranks = np.empty(places.size, dtype=np.int64)
        ranks[places] = np.arange(places.size)
        return bar_of(self._record, out, self._passing, ranks)

    # -- ways out -------------------------------------------------------------------

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of Python values; what ± covers is in :attr:`covers`."""
        return [{name: self._value(name, row) for name in self.columns} for row in self._rows]

    def _value(self, name: str, row: int) -> Any:
        value, kind = self._all[name][row], self.moments.get(name)
        return _show.scalar(value) if kind is None else _moments.moment(float(value), kind)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_dicts())

    def to_columns(self, confidence: Number | None = 0.95) -> dict[str, list[Any]]:
        """Return the values of every column, those of noisy ones with both ends.

        Parameters
        ----------
        confidence
            Level of the intervals, which are the columns ``…_low`` and ``…_high`` after each
            noisy one; None leaves them out.
        """
        rows = self.to_dicts()
        ends = [] if confidence is None else self.interval(confidence)
        columns: dict[str, list[Any]] = {}
        names = set(self.columns)
        for name in self.columns:
            columns[name] = [row[name] for row in rows]
            if ends and isinstance(ends[0][name], tuple):
                for place, end in enumerate(("low", "high")):
                    own = _show.unused(f"{name}_{end}", names)
                    columns[own] = [_show.scalar(row[name][place]) for row in ends]
        return columns

    def to_arrow(self, confidence: Number | None = 0.95) -> pa.Table:
        """Return an Arrow table; see :meth:`to_columns`.

        The schema's metadata say what ± covers, as ``covers``.
        """
        import pyarrow as pa  # noqa: PLC0415 - only for those who ask

        return pa.table(self.to_columns(confidence), metadata=_show.marks(self))

    def to_pandas(self, confidence: Number | None = 0.95) -> pd.DataFrame:
        """Return a pandas DataFrame; see :meth:`to_columns`.

        Its ``attrs["covers"]`` say what ± covers.
        """
        frame: pd.DataFrame = _frames("pandas").DataFrame(self.to_columns(confidence))
        frame.attrs.update(_show.marks(self))
        return frame

    def to_polars(self, confidence: Number | None = 0.95) -> pl.DataFrame:
        """Return a Polars DataFrame; see :meth:`to_columns`.

        It has no place for what ± covers: keep :attr:`covers` beside it.
        """
        # a bound of the policy may be an integer among other numbers, which Polars refuses
        frame: pl.DataFrame = _frames("polars").from_arrow(self.to_arrow(confidence))
        return frame

    def chart(self, confidence: Number = 0.95, *, title: str | None = None) -> Chart:
        """Draw every number with its interval.

        Notebooks show the picture; ``chart().save("n.svg")`` writes it (also .png, .html and
        .json). It is a Vega-Lite specification, and so a dictionary.

        Parameters
        ----------
        confidence
            Level of the intervals.
        title
            Instead of the question.
        """
        return _chart.chart(self, _exact.confidence(confidence), title)

    def __repr__(self) -> str:
        return _show.text(self)

    def _repr_html_(self) -> str:
        return _show.html(self)


def _is_one(out: OutputExpr) -> bool:
    """Whether an output is one number for all rows: it folds them, and reads no row by itself."""
    if isinstance(out, Window):
        return is_whole(out) and not out.partition
    if isinstance(out, StatisticValue | KeyValue | Grouping):
        return False
    return bool(windows_of(out)) and all(_is_one(o) or not _reads(o) for o in parts_of(out))


def _reads(out: OutputExpr) -> bool:
    """Whether an output reads a row at all."""
    return isinstance(out, StatisticValue | KeyValue | Grouping | Window) or any(
        _reads(part) for part in parts_of(out)
    )


def _frames(library: str) -> Any:
    """Import a library of data frames, or say what is missing."""
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError:
        raise ParameterError(
            f"to_{library} needs {library}, which is not installed", hint=f"pip install {library}"
        ) from None
