"""What a method lets out: counts, an average, perhaps records, perhaps margins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from discreet._dataclass import dataclass
from discreet.lab._table import Floats, Ints, Names, Table
from discreet.privacy import PrivacyLoss

Method: TypeAlias = "Callable[[Table], Release]"
"""A way to publish a table; fresh randomness at each call."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Published records; each value is a range of codes, a single one if exact."""

    low: Ints
    high: Ints
    secrets: Ints
    numbers: Floats

    def __len__(self) -> int:
        return len(self.secrets)

    def matching(self, person: Ints) -> Ints:
        """Return the records that a person with these codes could be."""
        fits = (self.low <= person) & (person <= self.high)
        return np.flatnonzero(fits.all(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """What was published about a table, by one method.

    Attributes
    ----------
    method
        The method and its parameters, in words.
    counts
        Published tables; a suppressed cell is nan.
    average
        Published mean of the amount.
    records
        Published records, or None.
    margins
        Half-widths of 95 % intervals for the counts, per table, if the method says
        enough to compute them; None if it does not.
    loss
        Privacy loss, if the method has one.
    permanent
        Whether asking again would show the same. So it is where nothing is drawn, where
        one changed file serves all tables, and where a curator stores its answers.
    """

    method: str
    counts: Mapping[Names, Floats]
    average: float
    records: Records | None = None
    margins: Mapping[Names, float] | None = None
    loss: PrivacyLoss | None = None
    permanent: bool = True

    def cells(self, table: Table, names: Names) -> Floats | None:
        """Return published counts by the columns named, summing a finer table if need be."""
        best = None
        for published, counts in self.counts.items():
            if set(names) <= set(published):
                others = tuple(i for i, name in enumerate(published) if name not in names)
                summed = counts.sum(axis=others)
                if best is None or (np.isnan(best).any() and not np.isnan(summed).any()):
                    axes = [name for name in published if name in names]
                    best = np.transpose(summed, [axes.index(name) for name in names])
                if published == names:
                    return counts
        assert best is None or best.shape == table.shape(names)
        return best


def from_table(
    method: str, table: Table, *, records: bool = True, permanent: bool = True
) -> Release:
    """Publish the counts, the mean and the records of a (changed) table."""
    own = Records(table.codes, table.codes, table.secrets, table.numbers) if records else None
    mean = float(table.numbers.mean())
    return Release(method, table.published(), mean, own, permanent=permanent)
