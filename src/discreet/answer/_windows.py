"""Windows over the rows of an answer: totals, running sums, ranks, neighbours.

All of it is computed from released numbers, so it costs nothing. A window's value is
computed on the estimates. Its range is computed on boxes that hold for all cells at
once, by interval arithmetic:

* sums, averages, least and greatest values are monotone in every cell, and neighbours
  (LAG, LEAD, FIRST_VALUE, LAST_VALUE) are other cells' values;
* the rank of a row is one more than the number of rows that truly lie before it. At
  least the rows whose boxes lie wholly before its own do, at most those whose boxes do
  not lie wholly behind it.

Where noisy numbers order the rows, a range speaks about the rows in the order that is
shown. The sum of cells of one vector is the exception: the noise of k cells has the law of
a sum of k independent noises (``half_widths``), which is narrower than k boxes. The interval of
a larger number of terms is never shorter, since the laws are symmetric and unimodal: what
lies within c of zero becomes less likely with each independent symmetric term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet.plan import Box, Number, Window, damaged, few_digits, half_of_sum

Column = NDArray[Any]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Frames:
    """Rows of one partition in order: which rows each one looks at, and with whom it ties.

    ``rows`` are places in the answer; ``start``, ``stop``, ``first`` and ``last`` are
    places in the partition: the frame (half open) and the rows that tie.
    """

    rows: Places
    start: Places
    stop: Places
    first: Places
    last: Places

    @property
    def size(self) -> int:
        """How many rows the partition has."""
        return int(self.rows.size)


def frames(
    window: Window, rows: Places, partition: Sequence[Column], order: Sequence[Column]
) -> Iterator[Frames]:
    """Partitions of the rows that are kept; `order` holds numbers that sort them."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in rows:
        groups.setdefault(tuple(column[row] for column in partition), []).append(int(row))
    for members in groups.values():
        own = np.array(members, dtype=np.int64)
        for column in reversed(order):
            own = own[np.argsort(column[own], kind="stable")]
        yield _framed(window, own, order)


def _framed(window: Window, rows: Places, order: Sequence[Column]) -> Frames:
    n = rows.size
    places = np.arange(n)
    if order:
        new = np.zeros(n, dtype=bool)
        for column in order:
            new[1:] |= column[rows][1:] != column[rows][:-1]
        group = np.cumsum(new)
        first = np.searchsorted(group, group, side="left")
        last = np.searchsorted(group, group, side="right") - 1
    else:
        first, last = np.zeros(n, dtype=np.int64), np.full(n, n - 1)
    if window.rows is None:
        return Frames(rows, np.zeros(n, dtype=np.int64), last + 1, first, last)
    before, after = window.rows
    start = np.zeros(n, dtype=np.int64) if before is None else np.maximum(places - before, 0)
    stop = np.full(n, n) if after is None else np.minimum(places + after + 1, n)
    return Frames(rows, start, np.maximum(stop, start), first, last)


# -- functions ----------------------------------------------------------------------------


def _added(x: Column, f: Frames) -> Column:
    total = np.concatenate([[0.0], np.cumsum(x)])
    return np.asarray(total[f.stop] - total[f.start])


def _count(x: Column, f: Frames) -> Column:
    return _added(~np.isnan(x), f)


def _sum(x: Column, f: Frames) -> Column:
    # ends of boxes may be infinite, and infinity taken away from itself is no number
    infinite = np.isinf(x)
    finite = _added(np.where(infinite | np.isnan(x), 0.0, x), f)
    beyond = _added(np.where(infinite, np.sign(x), 0.0), f)
    total = np.where(beyond > 0, np.inf, np.where(beyond < 0, -np.inf, finite))
    return np.where(_count(x, f) > 0, total, np.nan)


def _extreme(of: np.ufunc) -> Callable[[Column, Frames], Column]:
    def extreme(x: Column, f: Frames) -> Column:
        # frames begin at the partition's first row: the front end lets no other through
        return np.asarray(of.accumulate(x))[f.stop - 1]

    return extreme


def _pick(place: Callable[[Frames], Places]) -> Callable[[Column, Frames], Column]:
    def pick(x: Column, f: Frames) -> Column:
        at = place(f)
        return np.where(f.stop > f.start, x[np.clip(at, 0, f.size - 1)], np.nan)

    return pick


def shift(x: Column, f: Frames, by: int, default: float) -> Column:
    """Value of the row `by` places earlier, `default` where there is none."""
    at = np.arange(f.size) - by
    inside = (at >= 0) & (at < f.size)
    return np.where(inside, x[np.clip(at, 0, f.size - 1)], default)


MOVES: Final[dict[str, Callable[[Column, Frames], Column]]] = {
    "SUM": _sum,
    "AVG": lambda x, f: _sum(x, f) / np.maximum(_count(x, f), 1),
    "COUNT": _count,
    "MIN": _extreme(np.fmin),
    "MAX": _extreme(np.fmax),
    "FIRST_VALUE": _pick(lambda f: f.start),
    "LAST_VALUE": _pick(lambda f: f.stop - 1),
}
"""Functions of a frame; each is monotone in every cell of it."""

SHIFTS: Final = {"LAG": 1, "LEAD": -1}
"""Functions of another row, and the direction in which it lies."""


_Figure = Callable[[Column, int, int], Column]


@dataclass(frozen=True, slots=True)
class Rank:
    """A function of a row's place: the place, and what is shown of it.

    ``figure`` takes places from 1, the partition's size and the number of tiles; it is monotone.
    """

    place: Callable[[Frames], Column]
    figure: _Figure = lambda place, *_: place


def _tile(place: Column, size: int, tiles: int) -> Column:
    least, longer = divmod(size, tiles)
    sizes = np.full(tiles, least)
    sizes[:longer] += 1
    return np.asarray(np.repeat(np.arange(1, tiles + 1), sizes)[place.astype(np.int64) - 1])


RANKS: Final = {
    "ROW_NUMBER": Rank(lambda f: np.arange(1, f.size + 1)),
    "RANK": Rank(lambda f: f.first + 1),
    "DENSE_RANK": Rank(lambda f: np.cumsum(f.first == np.arange(f.size))),
    "PERCENT_RANK": Rank(lambda f: f.first + 1, lambda place, n, _: (place - 1) / max(n - 1, 1)),
    "CUME_DIST": Rank(lambda f: f.last + 1, lambda place, n, _: place / n),
    "NTILE": Rank(lambda f: np.arange(1, f.size + 1), _tile),
}
"""Functions of a row's place in its partition."""

FARTHEST: Final = 1_000_000
"""Most rows that a frame names, or tiles."""

NEIGHBOURS: Final = frozenset({*SHIFTS, "FIRST_VALUE", "LAST_VALUE"})
"""Functions that give the value of one other row."""

ONE_SIDED: Final = frozenset({"MIN", "MAX"})
"""Functions whose frame must begin at the first row."""


def value(window: Window, args: Sequence[Column], parts: Sequence[Frames], cells: int) -> Column:
    """Value of a window in every row that is kept; NaN elsewhere."""
    out = np.full(cells, np.nan)
    for f in parts:
        if window.op in RANKS:
            rank = RANKS[window.op]
            out[f.rows] = rank.figure(rank.place(f), f.size, _tiles(window))
        elif window.op in SHIFTS:
            by = int(_constant(window, 1, 1)) * SHIFTS[window.op]
            x = np.asarray(args[0][f.rows], dtype=np.float64)
            out[f.rows] = shift(x, f, by, _constant(window, 2, np.nan))
        else:
            x = args[0][f.rows] if args else np.zeros(f.size)
            out[f.rows] = MOVES[window.op](np.asarray(x, dtype=np.float64), f)
    return out


def _constant(window: Window, place: int, default: float) -> float:
    """A constant among the arguments."""
    arg = window.args[place] if place < len(window.args) else None
    return float(arg.value) if isinstance(arg, Number) else default


def _tiles(window: Window) -> int:
    return int(_constant(window, 0, 1))


def check_window(window: Window) -> None:
    """Refuse a window from elsewhere that means nothing or looks too far."""
    op, args, rows = window.op, window.args, window.rows
    numbers = [a.value for a in args if isinstance(a, Number)]
    known = (op in RANKS and len(numbers) == len(args) == (op == "NTILE")) or (
        op in SHIFTS and 1 <= len(args) <= 3 and len(args) - 1 <= len(numbers)
    )
    known = known or (op in MOVES and (len(args) == 1 or (op == "COUNT" and not args)))
    ends = [] if rows is None else [n for n in rows if n is not None]
    far = [n for n in ends if type(n) is not int or not 0 <= n <= FARTHEST]
    tiles = op == "NTILE" and not 1 <= numbers[0] <= FARTHEST
    shifted = op in SHIFTS and len(args) > 1 and not 0 <= _constant(window, 1, 1) <= FARTHEST
    halved = op in ONE_SIDED and rows is not None and rows[0] is not None
    if not known or far or tiles or shifted or halved or (rows is not None and len(rows) != 2):
        raise damaged("a window means nothing")


# -- ranges -------------------------------------------------------------------------------


def box(
    window: Window, args: Sequence[Box], by: Box | None, parts: Sequence[Frames], cells: int
) -> Box:
    """Range of a window over boxes that hold for all cells at once.

    `by` is the box of what ranks are ordered by, greatest first (None: it is no number).
    """
    if window.op in RANKS:
        return _ranks(window, by, parts, cells)
    low, high = ([getattr(a, end) for a in args] for end in ("low", "high"))
    return Box(value(window, low, parts, cells), value(window, high, parts, cells))


def _ranks(window: Window, by: Box | None, parts: Sequence[Frames], cells: int) -> Box:
    low, high = np.full(cells, np.nan), np.full(cells, np.nan)
    rank, tiles = RANKS[window.op], _tiles(window)
    for f in parts:
        if by is None:
            ends = np.ones(f.size), np.full(f.size, f.size)
        else:
            ends = _places(by, f, dense=window.op == "DENSE_RANK")
        low[f.rows], high[f.rows] = (rank.figure(end, f.size, tiles) for end in ends)
    return Box(low, high)


def _places(by: Box, f: Frames, *, dense: bool) -> tuple[Column, Column]:
    """Least and greatest place that boxes allow."""
    low, high = by.low[f.rows], by.high[f.rows]
    surely = f.size - np.searchsorted(np.sort(low), high, side="right")
    # the row itself is among those that its own box does not put behind it
    possibly = f.size - np.searchsorted(np.sort(high), low, side="left") - 1
    # rows that lie before it may all be equal
    return (np.minimum(surely, 1) if dense else surely) + 1, possibly + 1


def half_widths(law: noise.Law, level: float, terms: Places) -> Column:
    """Half-widths of the noise in sums of so many cells; of many, that of a few more."""
    rounded = [few_digits(int(k)) for k in terms]
    widths = {k: half_of_sum(law, level, k) for k in set(rounded)}
    return np.array([widths[k] for k in rounded])
