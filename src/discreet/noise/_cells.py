r"""Exact, constant-work sampling of integer laws ∝ exp(−a|x| − bx²).

Guarantee
---------
:func:`draw` returns independent integers distributed *exactly* as the kernel
:math:`f(x) = e^{-(a|x| + b x^2)}` normalised over the integers (or over
0, 1, 2, … for one-sided kernels), for any rationals a, b ≥ 0 not both zero.

Method and proof
----------------
Draw a point uniformly in a region that contains the graph of f and keep its
abscissa when the point lies under the graph: the abscissae kept follow f
exactly. The region here is a heap of 2^m *cells*, rectangles of one common
area c, so that a point is uniform in the heap when its cell is uniform and its
place in the cell is uniform: the leading m bits of a word name the cell, later
bits the place. The integers are cut into buckets of width w = 2^i; a bucket
holds cells of height c/w, stacked from the ground until they cover
max f. Three kinds of cell follow, and nothing else:

* *sure*: lies under min f over its bucket, hence under the graph. The point is
  kept without looking at its height. About 97 % of cells are sure.
* *edge*: level h of its bucket. Kept when :math:`(h + U)\,c/w < f(x)`.
* *waste*: fills the heap up to 2^m cells; always rejected.

Far out, one cell a side stands for everything from x = ±t on. Its point is
:math:`\pm(t + G)` with G geometric of rate :math:`\lambda = a + 2bt`, whose
density in the cell is :math:`c(1-e^{-\lambda})e^{-\lambda g}`; keeping it
when :math:`U c (1-e^{-\lambda}) < f(t)` and, independently, with probability
:math:`e^{-b g^2}` leaves exactly
:math:`f(t) e^{-\lambda g} e^{-b g^2} = f(t + g)`.

No normalising constant occurs. The area c is a double, i.e. an exact dyadic
rational; which cells are sure, and how many cover a bucket, is decided in
floating point with bounds pushed outward, so rounding can only turn a sure
cell into an edge or add a cell that is always rejected. The test of an edge
cell is a comparison of a uniform real with a real number, decided in floating
point when a generous error bound allows and otherwise exactly
(:mod:`discreet.noise._compare`).

Timing
------
Up to :data:`SMALL` draws, a fixed number of candidates goes through the same
array operations, sure or not, and the first ones kept are returned: the work
does not depend on the values. (The exact comparison is reached with probability
below 10⁻⁷.) Above, draws share one pass over large arrays. Table lookups leave
traces in the processor's cache; against an attacker on the same core nothing
here helps.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._dataclass import dataclass
from discreet.noise import _entropy
from discreet.noise._compare import below_scaled_exp, exp_bounds, less_than, log2
from discreet.noise._uniform import FLOOR, MARGIN, bernoulli_exp, uniform_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALL = 256
"""Up to this many draws the work does not depend on the values drawn."""

_BULK_BITS = 16  # a cell index is one 16-bit word
_CHUNK = 1 << 15
_TUNINGS = 6
_WIDE = 2.0**55  # from this width on, 63 bits may not hold a draw


@dataclass(frozen=True, slots=True)
class Kernel:
    """The unnormalised law f(x) = exp(−`linear`·|x| − `square`·x²)."""

    linear: Fraction
    square: Fraction
    two_sided: bool

    def exponent(self, x: int) -> Fraction:
        """Return −ln f(x), exactly."""
        return self.linear * abs(x) + self.square * x * x

    def values(self, magnitude: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return f in floating point (relative error below MARGIN, absolute below FLOOR)."""
        a, b = float(self.linear), float(self.square)
        result: NDArray[np.float64] = np.exp(-(magnitude * (a + b * magnitude)))
        return result

    def rate(self, x: int) -> Fraction:
        """Return the rate of the geometric law that dominates f beyond `x`."""
        return self.linear + 2 * self.square * x

    @property
    def width(self) -> float:
        """Where the exponent reaches 1."""
        a, b = float(self.linear), float(self.square)
        return 2 / (a + math.sqrt(a * a + 4 * b))


@dataclass(frozen=True, slots=True)
class Cells:
    """A heap of 2^`bits` cells of area `area`; the first `edges` are not sure."""

    kernel: Kernel
    bits: int
    shift: int  # sure cells have width 2^shift
    unit: int  # positions in the arrays below are in units of 2^unit
    area: float
    tails: tuple[int, ...]  # the first edges are the tail cells; |x| they begin at, by side
    edges: int
    sure: NDArray[np.int64]  # smallest x, by cell index (edges hold 0)
    edge_low: NDArray[np.int64]  # smallest x of the edge's bucket
    edge_log: NDArray[np.uint64]  # log2 of the bucket's width
    edge_level: NDArray[np.float64]  # ∞ for waste
    edge_height: NDArray[np.float64]


def draw(kernel: Kernel, n: int) -> NDArray[Any]:
    """Draw `n` independent integers from the law of `kernel`.

    The result is int64, or object when the law reaches beyond 63 bits.
    """
    if n <= SMALL or kernel.width >= _WIDE:
        return _draw_small(cells(kernel, bits=12, resolution=3), n)
    return _draw_bulk(cells(kernel), n)


# --- building the heap ---------------------------------------------------------


@lru_cache(maxsize=128)
def cells(
    kernel: Kernel, *, bits: int = _BULK_BITS, resolution: int = 5, tail_bits: int = 48
) -> Cells:
    """Build the heap of `kernel`.

    Parameters
    ----------
    kernel
        The law.
    bits
        The heap has 2^bits cells.
    resolution
        Buckets are about 2^resolution to the unit of the exponent, or single
        integers.
    tail_bits
        The tail begins where less than 2^−tail_bits of a cell remains.
    """
    width = kernel.width
    shift = max(0, math.floor(math.log2(width)) - resolution)
    total = 1 << bits
    sides = 2 if kernel.two_sided else 1
    area = sides * (width + 1) / total
    for attempt in itertools.count():
        outlines = [_outline(kernel, area, shift, side, tail_bits) for side in range(sides)]
        number = sum(1 + int(outline.cover.sum()) for outline in outlines)
        if number <= total and (number >= 0.98 * total or attempt >= _TUNINGS):
            break
        # aim a little below the full heap, so that the next round fits
        area *= number / (0.99 * total) if attempt < _TUNINGS else 1.05
    halves = [_half(kernel, area, shift, *pair) for pair in enumerate(outlines)]
    return _assemble(kernel, bits, shift, area, halves)


@dataclass(frozen=True, slots=True)
class _Outline:
    """Buckets of one side, as far as it takes to count its cells."""

    ends: NDArray[np.float64]  # where buckets of the finest width begin
    cover: NDArray[np.int64]  # cells needed to cover f
    start: list[int]  # where the wider buckets beyond begin
    log: list[int]  # log2 of their widths
    tail: int  # |x| from which the tail cell takes over


@dataclass(frozen=True, slots=True)
class _Half:
    """Buckets of one side, outward from x = 0 or x = −1."""

    low: NDArray[np.int64]  # smallest integer of each bucket, in the heap's units
    log: NDArray[np.int64]  # log2 of its width
    cover: NDArray[np.int64]  # cells needed to cover f
    sure: NDArray[np.int64]  # of these, cells surely under f
    tail: int  # |x| from which the tail cell takes over


def _unit(kernel: Kernel, shift: int) -> int:
    """Return the power of two that positions are counted in, so that int64 holds them."""
    return shift if kernel.width >= _WIDE else 0


def _outline(kernel: Kernel, area: float, shift: int, side: int, tail_bits: int) -> _Outline:
    """Cut one side into buckets; side 1 is the negative one, whose first integer is −1."""
    w = 1 << shift
    # at this distance a bucket of the finest width needs less than one cell
    limit = kernel.width * math.log(max(w / area, math.e))
    ends = np.arange(math.ceil(limit / w) + 3, dtype=np.float64) * w + side
    at_start = kernel.values(ends[:-1]) * (w / area)
    inner = int(np.count_nonzero(at_start > 1 - 4 * MARGIN))
    start, log, tail = _far(kernel, area, inner << shift, side, tail_bits)
    cover = np.ones(inner + len(log), dtype=np.int64)
    cover[:inner] = np.ceil(at_start[:inner] * (1 + MARGIN))
    return _Outline(ends, cover, start, log, tail)


def _half(kernel: Kernel, area: float, shift: int, side: int, outline: _Outline) -> _Half:
    """Say where the buckets of one side are, and how many of their cells are sure."""
    unit, size = _unit(kernel, shift), outline.cover.size
    inner = size - len(outline.log)
    at_end = kernel.values(outline.ends[1 : inner + 1] - 1) * ((1 << shift) / area)
    start, log, sure = np.zeros((3, size), dtype=np.int64)
    start[:inner] = np.arange(inner, dtype=np.int64) << (shift - unit)
    start[inner:] = [m >> unit for m in outline.start]
    log[:inner], log[inner:] = shift, outline.log
    sure[:inner] = np.floor(at_end * (1 - MARGIN))
    return _Half(
        low=start if side == 0 else -(start + (1 << (log - unit))),
        log=log,
        cover=outline.cover,
        sure=sure,
        tail=outline.tail,
    )


def _far(
    kernel: Kernel, area: float, m: int, side: int, tail_bits: int
) -> tuple[list[int], list[int], int]:
    """Continue with one-cell buckets, each as wide as f allows, until little is left."""
    a, b = float(kernel.linear), float(kernel.square)
    widest = max(0, math.floor(math.log2(kernel.width)) + 2)
    start: list[int] = []
    log: list[int] = []
    while True:
        x = float(m + side)
        f = math.exp(-x * (a + b * x)) * (1 + MARGIN)
        if f <= -math.expm1(-(a + 2 * b * x)) * area * 2.0**-tail_bits * (1 - MARGIN):
            return start, log, m + side
        i = min(math.floor(math.log2(area / f * (1 - MARGIN))), widest)
        start.append(m)
        log.append(i)
        m += 1 << i


def _assemble(kernel: Kernel, bits: int, shift: int, area: float, halves: list[_Half]) -> Cells:
    low = np.concatenate([half.low for half in halves])
    log = np.concatenate([half.log for half in halves])
    sure = np.concatenate([half.sure for half in halves])
    edge = np.concatenate([half.cover for half in halves]) - sure
    # an edge cell's level: the sure levels of its bucket, then one by one
    first = np.cumsum(edge) - edge
    level = np.arange(int(edge.sum()), dtype=np.int64) + np.repeat(sure - first, edge)
    edge_log = np.repeat(log, edge)
    tails = len(halves)
    waste = (1 << bits) - tails - int(sure.sum()) - level.size
    edges = tails + level.size + waste
    # one more waste cell at the end: looked up in place of any sure cell
    size, inner = edges + 1, slice(tails, tails + level.size)
    levels = np.full(size, np.inf)
    levels[:tails], levels[inner] = 0.0, level
    height = np.ones(size)
    height[:tails] = [_tail_height(kernel, area, half.tail) for half in halves]
    height[inner] = np.ldexp(area, -edge_log)
    lows, logs = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.uint64)
    lows[inner], logs[inner] = np.repeat(low, edge), edge_log
    return Cells(
        kernel=kernel,
        bits=bits,
        shift=shift,
        unit=_unit(kernel, shift),
        area=area,
        tails=tuple(half.tail for half in halves),
        edges=edges,
        sure=np.concatenate([np.zeros(edges, dtype=np.int64), np.repeat(low, sure)]),
        edge_low=lows,
        edge_log=logs,
        edge_level=levels,
        edge_height=height,
    )


def _tail_height(kernel: Kernel, area: float, tail: int) -> float:
    """Return c(1−e^−λ)/f(t), so that the tail's test looks like an edge's at x = 0."""
    f = float(kernel.values(np.array([float(tail)]))[0])
    height = -area * math.expm1(-float(kernel.rate(tail)))
    return height / f if f > height * 1e-290 else 1e290


# --- drawing from it -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trial:
    """Outcome of testing some edge cells: x = low·2^unit + offset where kept."""

    low: NDArray[np.int64]
    offset: NDArray[np.uint64]
    kept: NDArray[np.bool_]
    beyond: dict[int, int]  # draws from the tail, by place


def _try(heap: Cells, cell: NDArray[np.int64], stream: _entropy.WordSource) -> _Trial:
    """Draw a point in each edge cell and test whether it lies under the graph."""
    words = stream.words(2 * cell.size)
    place, word = words[: cell.size], words[cell.size :]
    low = heap.edge_low.take(cell, mode="clip")
    log = heap.edge_log.take(cell, mode="clip")
    height = heap.edge_height.take(cell, mode="clip")
    # in two steps, because shifting a word by 64 is undefined
    offset = (place >> np.uint64(1)) >> (np.uint64(63) - log)
    x = low * 2.0**heap.unit + offset
    f = heap.kernel.values(np.abs(x))
    point = (heap.edge_level.take(cell, mode="clip") + word * 2.0**-64) * height
    kept = point * (1 + MARGIN) + height * 2.0**-60 < f * (1 - MARGIN) - FLOOR
    unclear = (point < f * (1 + MARGIN) + FLOOR) & (~kept | (cell < len(heap.tails)))
    beyond: dict[int, int] = {}
    if unclear.any():
        for j in np.flatnonzero(unclear).tolist():
            if cell[j] >= len(heap.tails):
                kept[j] = _settle(heap, int(cell[j]), int(offset[j]), int(word[j]))
            elif (far := _tail(heap, int(cell[j]), int(word[j]))) is not None:
                kept[j], beyond[j] = True, far
            else:
                kept[j] = False
    return _Trial(low, offset, kept, beyond)


def _settle(heap: Cells, cell: int, offset: int, word: int) -> bool:
    """Decide the test of an edge cell exactly."""
    x = (int(heap.edge_low[cell]) << heap.unit) + offset
    cells_per_height = Fraction(1 << int(heap.edge_log[cell])) / Fraction(heap.area)
    level = int(heap.edge_level[cell])
    return below_scaled_exp(word, heap.kernel.exponent(x), cells_per_height, level)


def _tail(heap: Cells, cell: int, word: int) -> int | None:
    """Draw x from a tail cell exactly, or nothing."""
    kernel, area, tail = heap.kernel, Fraction(heap.area), heap.tails[cell]
    rate, exponent = kernel.rate(tail), kernel.exponent(tail)

    def bounds(digits: int) -> tuple[Fraction, Fraction]:
        low, high = exp_bounds(exponent, digits)
        rate_low, rate_high = exp_bounds(rate, digits)
        upper = high / (area * (1 - rate_high)) if rate_high < 1 else Fraction(1)
        return low / (area * (1 - rate_low)), upper

    # the tail cell dominates, so the threshold is at most 1; and 1 − e^−λ ≥ min(λ, 1)/2
    upper = log2(2 / (area * min(rate, Fraction(1)))) - 1.4426 * float(exponent)
    if not less_than(word, bounds, min(0.0, upper + 1)):
        return None
    g = geometric(rate)
    if not bernoulli_exp(kernel.square * g * g):
        return None
    return tail + g if cell == 0 else -(tail + g)


def geometric(rate: Fraction) -> int:
    """Draw g ≥ 0 with probability ∝ exp(−`rate`·g), without a table.

    With rate = p/q, write g·p + r = u + q·v: u < q is kept with probability
    exp(−u/q) and v counts successes of Bernoulli(1/e), so u + q·v is geometric
    of rate 1/q, and its quotient by p is geometric of rate p/q [1]_.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for
       differential privacy", 2020.
    """
    p, q = rate.numerator, rate.denominator
    while not bernoulli_exp(Fraction(u := int(uniform_below(q)), q)):
        pass
    v = 0
    while bernoulli_exp(1):
        v += 1
    return (u + q * v) // p


def _draw_small(heap: Cells, n: int) -> NDArray[Any]:
    """Draw few values with work that does not depend on them."""
    source = _entropy.current()
    pieces: list[Any] = []
    have = 0
    while have < n or not pieces:
        m = n + n // 4 + 16
        words = source.words(2 * m)
        cell = (words[:m] >> np.uint64(64 - heap.bits)).astype(np.int64)
        trial = _try(heap, cell, source)
        sure = cell >= heap.edges
        low = np.where(sure, heap.sure[cell], trial.low)
        offset = np.where(sure, words[m:] & np.uint64((1 << heap.shift) - 1), trial.offset)
        values = _put(_join(heap, low, offset), trial.beyond)
        pieces.append(values[trial.kept | sure])
        have += pieces[-1].size
    return np.concatenate(pieces)[:n]


def _join(heap: Cells, low: NDArray[np.int64], offset: NDArray[np.uint64]) -> NDArray[Any]:
    if heap.unit:
        return np.asarray((low.astype(object) << heap.unit) + offset.astype(object))
    return low + offset.view(np.int64)


def _put(out: NDArray[Any], beyond: dict[int, int]) -> NDArray[Any]:
    """Put the draws from the tail in their places, widening the array if one needs it."""
    if any(not -(1 << 63) <= x < 1 << 63 for x in beyond.values()):
        out = out.astype(object)
    for place, x in beyond.items():
        out[place] = x
    return out


def _draw_bulk(heap: Cells, n: int) -> NDArray[Any]:
    """Draw many values: one lookup each, and a second look at the few edge cells."""
    stream = _entropy.current().stream()
    out: NDArray[Any] = np.empty(n, dtype=np.int64)
    buffers = _Buffers.of(min(n, _CHUNK))
    batches: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for start in range(0, n, _CHUNK):
        part = out[start : start + _CHUNK]
        cell = _look(heap, stream, part, buffers)
        places = np.flatnonzero(cell < heap.edges)
        batches.append((places + start, cell[places]))
    places, cell = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    beyond: dict[int, int] = {}
    while places.size:
        trial = _try(heap, cell, stream)
        out[places] = trial.low + trial.offset.view(np.int64)
        beyond.update((int(places[j]), x) for j, x in trial.beyond.items())
        # what was rejected starts afresh
        places = places[~trial.kept]
        values = np.empty(places.size, dtype=np.int64)
        cell = _look(heap, stream, values, _Buffers.of(places.size))
        out[places] = values
        edge = cell < heap.edges
        places, cell = places[edge], cell[edge]
    return _put(out, beyond)


@dataclass(frozen=True, slots=True)
class _Buffers:
    """Arrays reused from chunk to chunk, small enough to stay in the cache."""

    words: NDArray[np.uint64]
    cell: NDArray[np.int64]

    @classmethod
    def of(cls, n: int) -> _Buffers:
        return cls(np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.int64))


def _look(
    heap: Cells, stream: _entropy.Stream, out: NDArray[np.int64], buffers: _Buffers
) -> NDArray[np.int64]:
    """Write the value of a uniform cell, if sure, to each place of `out`; return the cells."""
    n = out.size
    words, cell = buffers.words[:n], buffers.cell[:n]
    if heap.shift == 0:
        # a cell is all that is needed: four to a word
        quarter = words[: -(-n // 4)]
        stream.fill(quarter)
        np.copyto(cell, quarter.view(np.uint16)[:n])
        np.take(heap.sure, cell, out=out, mode="clip")
        return cell
    stream.fill(words)
    np.right_shift(words, np.uint64(64 - _BULK_BITS), out=cell.view(np.uint64))
    np.take(heap.sure, cell, out=out, mode="clip")
    if heap.shift > 64 - _BULK_BITS:
        stream.fill(words)
    words &= np.uint64((1 << heap.shift) - 1)
    out += words.view(np.int64)
    return cell
