"""Synthetic data without a privacy loss: some columns, or all, drawn from a fitted model.

References
----------
Rubin 1993 (fully synthetic); Little 1993 (partially synthetic).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet.errors import Hint, ParameterError
from discreet.lab._methods import Generator
from discreet.lab._release import Release, from_table
from discreet.lab._table import Floats, Ints, Table


def partially_synthetic(table: Table, *, generator: Generator | None = None) -> Release:
    """Keep what others know; draw secret and amount anew from frequencies in the data.

    The secret is drawn by its share among people who agree in the second and third
    column (all columns if there are fewer), the amount from the people whose secret agrees.

    Examples
    --------
    >>> from discreet import lab
    >>> town = lab.town()
    >>> release = lab.partially_synthetic(town)
    >>> bool((release.records.low == town.codes).all())
    True
    """
    rng = np.random.default_rng(generator)
    draws = _secret_and_amount(table, table.codes, rng)
    made_up = replace(table, secrets=draws[0], numbers=draws[1])
    return from_table("partially synthetic", made_up, permanent=False)


def fully_synthetic(
    table: Table, people: int | None = None, *, generator: Generator | None = None
) -> Release:
    """Draw every column: each given the one before it, as often as in the data.

    Examples
    --------
    >>> from discreet import lab
    >>> len(lab.fully_synthetic(lab.town(), 100).records)
    100
    """
    rng = np.random.default_rng(generator)
    n = len(table) if people is None else people
    if n < 1:
        raise ParameterError("draw at least one person", hint=Hint("people", 400))
    codes = np.empty((n, len(table.quasi)), dtype=np.int64)
    codes[:, 0] = table.codes[rng.integers(0, len(table), n), 0]
    for j in range(1, len(table.quasi)):
        for value in np.unique(codes[:, j - 1]):
            here = codes[:, j - 1] == value
            donors = table.codes[table.codes[:, j - 1] == value, j]
            codes[here, j] = rng.choice(donors, int(here.sum()))
    secrets, numbers = _secret_and_amount(table, codes, rng)
    made_up = replace(table, codes=codes, secrets=secrets, numbers=numbers)
    return from_table("fully synthetic", made_up, permanent=False)


def _secret_and_amount(table: Table, codes: Ints, rng: Generator) -> tuple[Ints, Floats]:
    columns = slice(1, 3) if len(table.quasi) > 2 else slice(None)
    overall = float(table.secrets.mean())
    secrets = np.empty(len(codes), dtype=np.int64)
    numbers = np.empty(len(codes))
    sizes = [len(values) for values in table.domain[columns]]
    kinds = int(np.prod(sizes))
    donors_of = np.ravel_multi_index(list(table.codes[:, columns].T), sizes)
    ones = np.bincount(donors_of, table.secrets, kinds) + overall
    share = ones / (np.bincount(donors_of, minlength=kinds) + 1)
    secrets[:] = (
        rng.random(len(codes)) < share[np.ravel_multi_index(list(codes[:, columns].T), sizes)]
    )
    for bit in (0, 1):
        here = np.flatnonzero(secrets == bit)
        donors = table.numbers[table.secrets == bit]
        numbers[here] = rng.choice(donors if len(donors) else table.numbers, len(here))
    return secrets, numbers
