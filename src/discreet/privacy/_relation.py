"""Who counts as a neighbour: the relation and the unit a privacy statement is about.

A privacy loss means nothing until it says *which* data sets must look alike.

* **add-remove** (unbounded): one unit is added or removed; the number of
  units is private.
* **change-one** (bounded): one unit's data are replaced by other data; the
  number of units is public.

A change is one removal and one addition, so a statement under add-remove
yields a (twice as large) statement under change-one, never the other way
round: data sets of different sizes are not neighbours under change-one.

Labels travel with losses. Two *stated* labels must agree when losses are
combined; an unstated label takes the stated one. The unit (``"person"``,
``"household"``, …) follows the same rule.

A third label names what is *unprotected*: numbers that were released exactly beside what a
loss is about. The loss then holds between neighbours that agree on these numbers, and says
nothing about others. What several losses name adds up: all of them hold between neighbours
that agree on everything named.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError, RelationError

if TYPE_CHECKING:
    from discreet.privacy._loss import PrivacyLoss


class Neighbours(StrEnum):
    """The neighbour relation a privacy statement refers to.

    >>> Neighbours("add-remove") is Neighbours.ADD_REMOVE
    True
    """

    ADD_REMOVE = "add-remove"
    CHANGE_ONE = "change-one"


def read_neighbours(x: Neighbours | str | None) -> Neighbours | None:
    """Accept the enum, its text, or None (not stated).

    >>> read_neighbours("change-one")
    <Neighbours.CHANGE_ONE: 'change-one'>
    """
    if x is None:
        return None
    try:
        return Neighbours(x)
    except ValueError:
        raise ParameterError(
            f"neighbours must be 'add-remove' or 'change-one', got {str(x)[:40]!r}",
            hint=Hint("neighbours", "add-remove"),
        ) from None


@dataclass(frozen=True, slots=True)
class Label:
    """For whom a loss holds: see the head of this module."""

    neighbours: Neighbours | None = None
    unit: str | None = None
    unprotected: tuple[str, ...] = ()


def shared_label(losses: Iterable[PrivacyLoss]) -> Label:
    """Return the one relation and unit all `losses` agree on, or refuse."""
    neighbours: Neighbours | None = None
    unit: str | None = None
    unprotected: dict[str, None] = {}
    for loss in losses:
        unprotected |= dict.fromkeys(loss.unprotected)
        if loss.neighbours is not None:
            if neighbours not in (None, loss.neighbours):
                raise RelationError(
                    f"losses under {neighbours} and {loss.neighbours} cannot be combined: "
                    "they are promises about different pairs of data sets",
                    hint="state every loss under one relation, e.g. p.to_change_one(loss)",
                )
            neighbours = loss.neighbours
        if loss.unit is not None:
            if unit not in (None, loss.unit):
                raise RelationError(
                    f"losses that protect one {unit} and one {loss.unit} cannot be combined",
                    hint="state every loss for the same unit",
                )
            unit = loss.unit
    return Label(neighbours, unit, tuple(unprotected))
