"""Events that could give a mechanism away, and the search for the best of them.

An event is a set of values of one *feature* of the output. Features are the
output itself (or a coordinate, the sum, the largest of several), the low bits
of its representation beside its rough size, each bit of its 64-bit word, which of
nan and ±∞ it is, the whole row, how many coordinates are equal, and a score learned by
logistic regression. For each feature the search orders bins by how much likelier they are
on one input (histogram) or by size (threshold) and cuts where the claim is exceeded most.
Single values that are frequent on one input alone are bins of their own, however rare they
are. Bins are ordered on one part of the draws and cut on another, so that the choice is not
flattered by its own noise.

Of outputs with many coordinates all are screened first (largest distance of their
distribution functions, of their bits and of their atoms, on a part of the draws), and the
ones that differ most are searched.

Nothing here is proof: whatever is found is tested on fresh draws.

References
----------
Ding et al. 2018 (histogram events); Bichsel et al. 2021 (learned thresholds);
Mironov 2012 and Lokna et al. 2023 (bits of floating-point noise).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass
from discreet.audit._binomial import wilson

Outputs = NDArray[Any]
Feature = Callable[[Outputs], NDArray[Any]]
Point = tuple[float, float]
"""An (ε, δ) that the claim implies."""

_BINS = 400
_TAILS = 12
_COORDINATES = 16
_SCREEN = 600_000
_WIDE = 256
_VALUES = 256
_ENOUGH = 3
_LEAST = 500
_BITS = 20_000
_FIT = 100_000
_CHOOSE = 200_000
_LEARN = 10_000
_MOST = 1_000_000
_NARROW = 6
_WORTH = 2e-3
_EXACT = ("the answer", "coordinate", "the whole row")  # single values can be events of theirs
_CODED = ("the whole row", "the low bits")  # their sizes mean nothing


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outputs: ``event(outputs)`` marks those that belong to it."""

    words: str
    marks: Callable[[Outputs], NDArray[np.bool_]]

    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Mark which of the outputs belong to the event."""
        return np.asarray(self.marks(outputs), dtype=bool)

    def __repr__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Candidate:
    """The event chosen, the point of the claim it threatens, and its direction."""

    event: Event
    point: Point
    swapped: bool
    score: float


def search(
    xs: Outputs, ys: Outputs, points: tuple[Point, ...], z: float, *, atoms: bool = False
) -> Candidate:
    """Return the event that exceeds one of the points most, in either direction."""
    cut = max(len(xs) // 3, 1)
    first = slice(0, min(cut, _FIT))
    rest = slice(cut, cut + _CHOOSE)
    if atoms:
        return _best_output((xs[first], ys[first]), (xs[rest], ys[rest]), points, z)
    best: Candidate | None = None
    for words, feature in _features(xs[first], ys[first]):
        parts = [(feature(xs[part]), feature(ys[part])) for part in (first, rest)]
        candidates = [_best_set(words, feature, (parts[0], parts[1]), points, z)]
        if words == "the answer" and len(xs) > cut + _CHOOSE:
            parts = [(feature(xs[part]), feature(ys[part])) for part in _all(cut, len(xs))]
        if words.startswith(_EXACT) and not words.endswith("a number"):
            candidates += _best_values(words, feature, (parts[0], parts[1]), points, z)
        for candidate in candidates:
            # of two events that say as much, the one named first is easier to understand
            if best is None or candidate.score > best.score + _WORTH:
                best = candidate
    assert best is not None
    return best


def _all(cut: int, end: int) -> tuple[slice, slice]:
    """Return more draws than histograms need: rare values show in many draws only."""
    return slice(0, min(cut, _MOST)), slice(cut, min(end, cut + 2 * _MOST))


# -- features -----------------------------------------------------------------------


def _features(xs: Outputs, ys: Outputs) -> Iterator[tuple[str, Feature]]:
    """Yield named features of outputs of this shape."""
    if xs.dtype.kind not in "biuf":
        vocabulary = np.unique(np.concatenate([xs, ys]).ravel())
        if xs.ndim == 1:
            yield "the answer", lambda o: _codes(o, vocabulary)
            return
        xs, ys = _codes(xs, vocabulary), _codes(ys, vocabulary)
        for words, feature in _features(xs, ys):
            yield words, _after(lambda o: _codes(o, vocabulary), feature)
        return
    if xs.ndim > 1:
        yield "the whole row", _row_code
        yield "the number of equal coordinates", _equals
    for i in _screened(xs, ys):
        yield from _of_coordinate("the answer" if xs.ndim == 1 else f"coordinate {i}", i, xs, ys)
    if xs.ndim > 1:
        yield "the sum", lambda o: _finite(o).sum(axis=1)
        yield "the largest", lambda o: _finite(o).max(axis=1)
        yield "the smallest", lambda o: _finite(o).min(axis=1)
    yield "a learned score", _learned_score(xs, ys)


def _equals(outputs: Outputs) -> NDArray[np.int64]:
    ordered = np.sort(outputs, axis=1)
    return np.asarray((ordered[:, 1:] == ordered[:, :-1]).sum(axis=1))


def _screened(xs: Outputs, ys: Outputs) -> list[int]:
    """Return the coordinates that differ most between the inputs."""
    if xs.ndim == 1 or xs.shape[1] <= _COORDINATES:
        return list(range(1 if xs.ndim == 1 else xs.shape[1]))
    n = max(_SCREEN // xs.shape[1], _LEAST)
    xs, ys = xs[:n], ys[:n]
    apart = [_apart(xs[:, i], ys[:, i]) for i in range(xs.shape[1])]
    return sorted(np.argsort(-np.array(apart), kind="stable")[:_COORDINATES].tolist())


def _apart(x: Outputs, y: Outputs) -> float:
    """Return how unlike two samples are: the larger of the distances of thresholds and of bits."""
    a, b = _finite(x), _finite(y)
    values, at = np.unique(np.concatenate([a, b]), return_inverse=True)
    left, right = (
        np.bincount(part, minlength=len(values)) for part in (at[: len(a)], at[len(a) :])
    )
    steps = (left - right) / len(a)
    # in standard errors, so that a rare value which one side alone has counts as much
    atoms = np.abs(left - right) / np.sqrt(len(a) * (left + right)).clip(min=1)
    bits = np.abs(_bit_shares(x) - _bit_shares(y))
    return float(max(np.abs(np.cumsum(steps)).max(), atoms.max(), bits.max()))


def _words(values: Outputs) -> NDArray[np.uint64]:
    """Return the 64-bit words that the values are stored as."""
    wide = values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)
    return np.ascontiguousarray(wide).view(np.uint64)


def _bit_shares(values: Outputs) -> NDArray[np.float64]:
    """Return how often each of the 64 bits is set, lowest first."""
    octets = _words(values).astype("<u8").view(np.uint8).reshape(-1, 8)
    return np.asarray(np.unpackbits(octets, axis=1, bitorder="little").mean(axis=0))


def _after(first: Feature, then: Feature) -> Feature:
    return lambda outputs: then(first(outputs))


def _codes(outputs: Outputs, vocabulary: Outputs) -> NDArray[np.int64]:
    """Number the values of a sorted list; others are −1."""
    at = np.searchsorted(vocabulary, outputs).clip(max=len(vocabulary) - 1)
    return np.where(vocabulary[at] == outputs, at, -1).astype(np.int64)


def _of_coordinate(name: str, i: int, xs: Outputs, ys: Outputs) -> Iterator[tuple[str, Feature]]:
    def column(o: Outputs) -> Outputs:
        return o if o.ndim == 1 else o[:, i]

    if xs.dtype.kind == "f":
        yield f"{name} being a number", lambda o: _kind(column(o))
    yield name, lambda o: _finite(column(o))
    if xs.dtype.kind != "b":
        rough = np.quantile(
            _finite(np.concatenate([column(xs), column(ys)])).astype(np.float64),
            np.linspace(0, 1, 17)[1:-1],
        )
        yield (
            f"the low bits of {name} beside its rough size",
            lambda o: 4096 * np.searchsorted(rough, _finite(column(o))) + _low_bits(column(o)),
        )
        left, right = (_bit_shares(column(side)[:_BITS]) for side in (xs, ys))
        bit = np.uint64(int(np.argmax(np.abs(left - right))))
        yield (
            f"bit {bit} of {name}",
            lambda o: ((_words(column(o)) >> bit) & np.uint64(1)).view("i8"),
        )


def _kind(values: Outputs) -> NDArray[np.int64]:
    """0 for numbers, 1 for nan, 2 and 3 for ±∞."""
    return np.select([np.isnan(values), values == np.inf, values == -np.inf], [1, 2, 3], 0)


def _finite(values: Outputs) -> Outputs:
    if values.dtype.kind != "f":
        return values.astype(np.int64) if values.dtype.kind == "b" else values
    return np.nan_to_num(values.astype(np.float64, copy=False), nan=0.0)


def _low_bits(values: Outputs) -> NDArray[np.int64]:
    """Place of the lowest bit that is set (floats), or the last three bits (integers)."""
    if values.dtype.kind != "f":
        return (values & 7).astype(np.int64)
    mantissa, exponent = np.frexp(_finite(values))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    place = np.frexp(lowest)[1] - 1 + exponent - 53
    return np.where(whole == 0, 0, place + 2048).astype(np.int64)


def _row_code(outputs: Outputs) -> NDArray[np.uint64]:
    """Mix the bits of a row into one word; equal rows have equal words."""
    code = np.zeros(len(outputs), dtype=np.uint64)
    for i in range(outputs.shape[1]):
        column = np.ascontiguousarray(outputs[:, i])
        wide = column.astype(np.float64 if column.dtype.kind == "f" else np.int64)
        code = (code ^ (wide + 0).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    return code


def _learned_score(xs: Outputs, ys: Outputs) -> Feature:
    """Fit which input an output came from; the score is a feature like any other."""
    xs, ys = xs[:_LEARN], ys[:_LEARN]
    both = _matrix(np.concatenate([xs, ys]))
    centre = np.median(both, axis=0)
    spread = np.quantile(np.abs(both - centre), 0.75, axis=0)
    spread[spread == 0] = 1.0

    def design(outputs: Outputs) -> NDArray[np.float64]:
        z = ((_matrix(outputs) - centre) / spread).clip(-8, 8)
        columns = [np.ones((len(z), 1)), z]
        if z.shape[1] <= 2 * _COORDINATES + _NARROW:
            columns += [np.abs(z), z * z]
        if z.shape[1] <= _NARROW:
            i, j = np.triu_indices(z.shape[1], 1)
            columns.append(z[:, i] * z[:, j])
        return np.hstack(columns)

    weights = _logistic(design(xs), design(ys))
    return lambda outputs: design(outputs) @ weights


def _matrix(outputs: Outputs) -> NDArray[np.float64]:
    wide = outputs.reshape(len(outputs), -1)
    values = _finite(wide).astype(np.float64).clip(-1e150, 1e150)
    if values.shape[1] > _WIDE:
        values = _sketch(values)
    if outputs.dtype.kind == "b":
        return values
    return np.hstack([values, _low_bits(wide[:, :_NARROW]).astype(np.float64)])


def _sketch(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add many coordinates up into few sums with signs, the same for every output."""
    at = np.arange(values.shape[1])
    signs = np.where((at * 0x9E3779B1 >> 7) & 1, 1.0, -1.0)
    sums = np.zeros((len(values), _WIDE))
    for start in range(0, values.shape[1], _WIDE):
        block = values[:, start : start + _WIDE] * signs[start : start + _WIDE]
        sums[:, : block.shape[1]] += block
    return sums


def _logistic(ones: NDArray[np.float64], zeros: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit by Newton steps with a small ridge."""
    a = np.vstack([ones, zeros])
    y = np.repeat([1.0, 0.0], [len(ones), len(zeros)])
    w = np.zeros(a.shape[1])
    ridge = 1e-3 * len(a) * np.eye(a.shape[1])
    for _ in range(8):
        p = 1 / (1 + np.exp(-(a @ w).clip(-30, 30)))
        curvature = (a * (p * (1 - p))[:, None]).T @ a + ridge
        step = np.linalg.solve(curvature, a.T @ (y - p) - ridge @ w)
        w = w + step
        if np.abs(step).max() < 1e-4:
            break
    return w


# -- sets of values ------------------------------------------------------------------


def _best_set(
    words: str,
    feature: Feature,
    parts: tuple[tuple[Outputs, Outputs], tuple[Outputs, Outputs]],
    points: tuple[Point, ...],
    z: float,
) -> Candidate:
    """Order bins on one part of the draws, cut on the other."""
    fit, choose = parts
    edges = _bin_edges(np.concatenate(fit))
    bins = len(edges) + 1
    base, fresh = [
        [np.bincount(np.searchsorted(edges, s, side="right"), minlength=bins) for s in part]
        for part in parts
    ]
    best = (-np.inf, points[0], np.zeros(0, dtype=np.int64), False)
    for i in (0, 1):
        a, b = fresh[i], fresh[1 - i]
        for order in _orders(base[i], base[1 - i]):
            hits = np.cumsum(a[order]), np.cumsum(b[order])
            for point in points:
                scores = excess(*hits, len(choose[0]), point, z)
                at = int(np.argmax(scores))
                if scores[at] > best[0]:
                    best = (float(scores[at]), point, order[: at + 1], bool(i))
    score, point, members, swapped = best
    inside = np.zeros(bins, dtype=bool)
    inside[members] = True

    def marks(outputs: Outputs) -> NDArray[np.bool_]:
        return inside[np.searchsorted(edges, feature(outputs), side="right")]

    where = (
        f"in {len(members)} of {bins} bins" if words.startswith(_CODED) else _where(inside, edges)
    )
    return Candidate(Event(f"{words} {where}", marks), point, swapped, score)


def _best_values(
    words: str,
    feature: Feature,
    parts: tuple[tuple[Outputs, Outputs], tuple[Outputs, Outputs]],
    points: tuple[Point, ...],
    z: float,
) -> Iterator[Candidate]:
    """Yield the best union of single values, which may be far rarer than a bin."""
    fit, choose = parts
    values, at = np.unique(np.concatenate(fit), return_inverse=True)
    if len(values) <= _BINS:
        return  # each is a bin already
    counts = [
        np.bincount(side, minlength=len(values)) for side in (at[: len(fit[0])], at[len(fit[0]) :])
    ]
    for i in (0, 1):
        a, b = counts[i], counts[1 - i]
        # values that one input has more often, by standard errors of their difference
        unlike = np.where(a >= _ENOUGH, (a - b) / np.sqrt(a + b).clip(min=1), -np.inf)
        top = np.argsort(-unlike, kind="stable")[:_VALUES]
        top = top[unlike[top] > 0]
        if len(top) == 0:
            continue
        # by what each would certify: three hits against none are mostly luck
        sure = excess(a[top], b[top], len(fit[0]), (0.0, 0.0), 2.0)
        order = top[np.argsort(-sure, kind="stable")]
        hits = [np.cumsum(_counts(side, values[order])) for side in choose]
        for point in points:
            scores = excess(hits[i], hits[1 - i], len(choose[0]), point, z)
            cut = int(np.argmax(scores)) + 1
            members = np.sort(values[order[:cut]])
            text = str(members[0]) if cut == 1 else f"one of {cut} values"
            event = Event(f"{words} being {text}", _after(feature, partial(_among, members)))
            yield Candidate(event, point, bool(i), float(scores[cut - 1]))


def _counts(sample: Outputs, values: Outputs) -> NDArray[np.int64]:
    """Count how often each of a few values occurs."""
    order = np.argsort(values, kind="stable")
    at = _codes(sample, values[order])
    counts = np.empty(len(values), dtype=np.int64)
    counts[order] = np.bincount(at[at >= 0], minlength=len(values))
    return counts


def _among(values: Outputs, sample: Outputs) -> NDArray[np.bool_]:
    """Mark the values of a sorted list."""
    return _codes(sample, values) >= 0


def _best_output(
    fit: tuple[Outputs, Outputs],
    choose: tuple[Outputs, Outputs],
    points: tuple[Point, ...],
    z: float,
) -> Candidate:
    """Return the single output that exceeds a point most, for probabilistic DP.

    It must be one output indeed: of a union the definition says less.
    """
    outputs, counts = np.unique(np.concatenate(fit), axis=0, return_counts=True)
    frequent = outputs[np.argsort(-counts, kind="stable")[:_BINS]]
    draws = len(choose[0])
    best: Candidate | None = None
    for output in frequent:
        event = Event(f"the answer being {_short(output)}", partial(_equal, output))
        hits = [int(np.count_nonzero(event(side))) for side in choose]
        for swapped in (False, True):
            first, second = hits[::-1] if swapped else hits
            for point in points:
                score = float(excess(first, second, draws, point, z, atoms=True))
                if best is None or score > best.score:
                    best = Candidate(event, point, swapped, score)
    assert best is not None
    return best


def _equal(output: Any, outputs: Outputs) -> NDArray[np.bool_]:
    """Mark the outputs that equal one output."""
    same = outputs == output
    return np.asarray(same if same.ndim == 1 else same.all(axis=1))


def _short(output: Any) -> str:
    text = str(output)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _orders(a: Outputs, b: Outputs) -> list[NDArray[np.int64]]:
    likeliest = np.argsort(-(a + 0.5) / (b + 0.5), kind="stable")
    # unions of the likeliest bins find anything; half-lines need fewer draws
    ascending = np.arange(len(a))
    return [likeliest, ascending, ascending[::-1]]


def excess(
    hits_x: Any, hits_y: Any, draws: int, point: Point, z: float, *, atoms: bool = False
) -> NDArray[Any]:
    """Return roughly how far ln(P_x/P_y) will be certified above ε, allowing for δ."""
    epsilon, delta = point
    low, _ = wilson(hits_x, draws, z)
    _, high = wilson(hits_y, draws, z)
    over = np.where(low > delta, low, 0.0) if atoms else low - delta
    return np.asarray(np.log(np.maximum(over, 1e-300) / high) - epsilon)


def _bin_edges(pooled: Outputs) -> Outputs:
    """Every value apart while few; otherwise quantiles, finer in the tails."""
    values, counts = np.unique(pooled[:: max(1, len(pooled) // 100_000)], return_counts=True)
    if len(values) <= _BINS:
        return values[1:]
    cumulative = np.cumsum(counts)
    total = cumulative[-1]
    tails = total / _BINS / 2.0 ** np.arange(1, _TAILS)
    targets = np.concatenate([np.arange(1, _BINS) * (total / _BINS), tails, total - tails])
    at = np.searchsorted(cumulative, np.sort(targets))
    return np.unique(values[np.minimum(at, len(values) - 1)])


def _where(inside: NDArray[np.bool_], edges: Outputs) -> str:
    """Say which values belong to the event, as briefly as is true."""
    changes = np.flatnonzero(inside[1:] != inside[:-1])
    if len(changes) == 0:
        return "being anything"
    if len(changes) == 1:
        edge = edges[changes[0]]
        return f"< {edge:.6g}" if inside[0] else f"≥ {edge:.6g}"
    if len(changes) == 2 and not inside[0]:
        low, high = edges[changes[0]], edges[changes[1]]
        return f"in [{low:.6g}, {high:.6g})"
    return f"in {int(inside.sum())} of {len(inside)} bins"
