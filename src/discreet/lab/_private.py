"""The same tables with differential privacy: integer noise with a stated loss."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from discreet import _exact
from discreet import mechanisms as m
from discreet import privacy as p
from discreet._exact import Number
from discreet.lab._release import Release
from discreet.lab._table import Table

_FOR_AVERAGE = Fraction(1, 10)


def private(table: Table, epsilon: Number = 1) -> Release:
    """Publish all counts and the mean under ε-DP, neighbours differing in one person.

    Changing a person moves two cells of each table by one, and the mean by the public
    width of the amount over the (public) number of people. Nine tenths of ε buy the
    counts, one tenth the mean.

    Examples
    --------
    >>> from discreet import lab
    >>> release = lab.private(lab.town(), epsilon=2)
    >>> release.loss.epsilon(), sorted(release.margins) == sorted(release.counts)
    (2.0, True)
    """
    eps = _exact.epsilon(epsilon)
    truth = table.published()
    flat = np.concatenate([cells.ravel() for cells in truth.values()]).astype(np.int64)
    counts = m.geometric(flat, 2 * len(truth), eps * (1 - _FOR_AVERAGE), neighbours="change-one")
    low, high = (Fraction(bound) for bound in table.bounds)
    clipped = np.clip(table.numbers, *table.bounds)
    exact = sum((Fraction(float(x)) for x in clipped), Fraction(0)) / len(table)
    average = m.laplace(
        exact, (high - low) / len(table), eps * _FOR_AVERAGE, neighbours="change-one"
    )
    ends = np.cumsum([cells.size for cells in truth.values()])
    parts = np.split(np.asarray(counts.value, dtype=np.float64), ends[:-1])
    assert counts.law is not None
    reach = counts.law.interval(0.95)
    margin = float(max(-reach[0], reach[1]))
    return Release(
        f"differential privacy, ε = {_exact.show(eps)}",
        {names: part.reshape(truth[names].shape) for names, part in zip(truth, parts, strict=True)},
        float(average.value),
        margins=dict.fromkeys(truth, margin),
        loss=_loss(eps, len(truth)),
    )


@lru_cache(maxsize=64)
def _loss(eps: Fraction, tables: int) -> Any:
    counts = p.DiscreteLaplace(2 * tables / (eps * (1 - _FOR_AVERAGE)), 2 * tables)
    both = p.compose([counts, p.Pure(eps * _FOR_AVERAGE)])
    return both.under("change-one") if hasattr(both, "under") else both
