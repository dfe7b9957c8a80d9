"""What reading a text gives, and what joins need to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from discreet._dataclass import dataclass
from discreet.plan import Key, Query

Fanout: TypeAlias = Callable[[str, tuple[str, ...]], int] | Mapping[str, int]
"""How many rows of a public table share one value of the join columns, at most."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A question read from text: the query, and ε and δ if the text states them."""

    query: Query
    epsilon: Fraction | None = None
    delta: Fraction | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        """Keys of the question."""
        return self.query.keys


@dataclass(frozen=True, slots=True)
class United:
    """Questions whose answers stand below each other (UNION ALL).

    ``order`` names columns by their place, with True for descending.
    """

    branches: tuple[Query, ...]
    order: tuple[tuple[int, bool], ...] = ()
    limit: int | None = None
    epsilon: Fraction | None = None
    delta: Fraction | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        """Keys of all branches."""
        return tuple(k for query in self.branches for k in query.keys)
