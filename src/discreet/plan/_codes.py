"""Sets of codes as intervals: as long as the number of intervals, not of codes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import overload

from discreet._dataclass import dataclass


@dataclass(frozen=True)
class Spans(Sequence[int]):
    """Whole numbers as intervals that increase and do not touch.

    >>> Spans.of([7, 1, 2, 3]).ends
    ((1, 3), (7, 7))
    >>> len(Spans(((0, 10**9),)))
    1000000001
    """

    ends: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, codes: Iterable[int]) -> Spans:
        """Gather single codes; a range or spans in one step."""
        if isinstance(codes, Spans):
            return codes
        if isinstance(codes, range) and codes.step == 1:
            return cls(((codes.start, codes.stop - 1),) if codes else ())
        return joined((c, c) for c in sorted(codes))

    @cached_property
    def _before(self) -> list[int]:
        """How many codes each interval and those before it hold."""
        return list(accumulate(hi - lo + 1 for lo, hi in self.ends))

    def __len__(self) -> int:
        return self._before[-1] if self.ends else 0

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        i = bisect_right(self._before, place)
        return self.ends[i][1] - (self._before[i] - 1 - place)

    def __iter__(self) -> Iterator[int]:
        for lo, hi in self.ends:
            yield from range(lo, hi + 1)

    def __contains__(self, code: object) -> bool:
        if not isinstance(code, int):
            return False
        i = bisect_right([lo for lo, _ in self.ends], code) - 1
        return i >= 0 and code <= self.ends[i][1]

    def both(self, other: Spans) -> Spans:
        """Codes of both."""
        spans, mine, theirs = [], list(self.ends), list(other.ends)
        i = j = 0
        while i < len(mine) and j < len(theirs):
            lo, hi = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if lo <= hi:
                spans.append((lo, hi))
            i, j = (i + 1, j) if mine[i][1] < theirs[j][1] else (i, j + 1)
        return Spans(tuple(spans))

    def either(self, other: Spans) -> Spans:
        """Codes of one or both."""
        return joined(sorted((*self.ends, *other.ends)))


def joined(ends: Iterable[tuple[int, int]]) -> Spans:
    """Join intervals that touch; they come in order."""
    spans: list[tuple[int, int]] = []
    for lo, hi in ends:
        if spans and lo <= spans[-1][1] + 1:
            spans[-1] = spans[-1][0], max(hi, spans[-1][1])
        else:
            spans.append((lo, hi))
    return Spans(tuple(spans))
