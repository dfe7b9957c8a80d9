"""How much a question is: bounds on what is built of it, before anything walks that.

A name stands for all that it names, each time it is written. In memory that is one object; to
whoever hashes, proves, renders or prices an expression it is as many as it is written. So a few
levels of subqueries make more than any text could hold. Guarantee: no expression, no relation
and no question is heavier than :data:`MOST`, counted as trees; and while one text is read no
more than :data:`MOST_BUILT` operators are made. Both counts follow from the question and the
policy alone, and each is kept in one step for each operator, from the counts of its arguments.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from discreet.errors import UnsupportedQueryError

MOST: Final = 12_000
"""Parts of a question: so many are read, proved and priced in a second or two."""
AT_ONCE: Final = 3
"""Heaviest questions that may be asked together."""
TOGETHER: Final = AT_ONCE * MOST
"""Parts of all questions that are asked together, below each other or as a batch."""
MOST_BUILT: Final = 30_000
"""Operators that are made while one text is read, those that are thrown away included."""
LISTED: Final = 16
"""Listed constants that weigh as much as one operator."""
_HINT: Final = "ask in parts; in a subquery, write each name once in each column"


class _Work(threading.local):
    """What a thread may still build for the text that it reads; outside of one there is no end."""

    left: float = math.inf


_WORK: Final = _Work()


@contextmanager
def counted(texts: int = 1) -> Iterator[None]:
    """Count what is built from now on, as for so many texts."""
    if _WORK.left < math.inf:  # a text inside another: a branch, or a hint that is tried
        yield
        return
    _WORK.left = texts * MOST_BUILT
    try:
        yield
    finally:
        _WORK.left = math.inf


def built(weight: int) -> int:
    """Count one operator of some weight, or refuse it."""
    _WORK.left -= 1
    if _WORK.left < 0:
        raise UnsupportedQueryError(
            "too many operators would be built to read this: a name stands for all that it names, "
            "each time it is written",
            hint=_HINT,
        )
    return weighed(weight)


def weighed(weight: int) -> int:
    """Give a weight, or refuse it."""
    if weight > MOST:
        raise UnsupportedQueryError(
            f"the question has more than {MOST} parts where every name is written out as what it "
            "names, each time that it stands there",
            hint=_HINT,
        )
    return weight


def together(weights: Iterable[int]) -> int:
    """Weight of one thing that is made of others."""
    return weighed(sum(weights, 1))


def check_together(weights: Iterable[int]) -> None:
    """Refuse several questions that are too much at once."""
    if sum(weights) > TOGETHER:
        raise UnsupportedQueryError(
            f"these questions have more than {TOGETHER} parts together, where every name is "
            "written out as what it names",
            hint="ask fewer of them at once",
        )
