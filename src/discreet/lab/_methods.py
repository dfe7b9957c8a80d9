"""Older disclosure controls on records: each a function on a table with its parameters.

None of them has a privacy loss. They are baselines: what was done before, and in
many places still is. Randomness comes from an ordinary generator, as it did there.

References
----------
Dalenius & Reiss 1982 (swapping); Sweeney 2002 (k-anonymity); LeFevre, DeWitt &
Ramakrishnan 2006 (Mondrian); Machanavajjhala et al. 2007 (l-diversity); Abowd et al.
2009 (multiplicative noise of the Quarterly Workforce Indicators).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from discreet.errors import Hint, ParameterError
from discreet.lab._release import Records, Release, from_table
from discreet.lab._table import Floats, Ints, Names, Table

Generator = np.random.Generator


def check_share(value: float, name: str) -> None:
    """Refuse what is no share of a whole."""
    if not 0 <= value <= 1:
        raise ParameterError(f"{name} must lie in [0, 1]", hint=Hint(name, 0.1))


def check_count(value: int, name: str, least: int = 1) -> None:
    """Refuse counts that are too small."""
    if value < least:
        raise ParameterError(f"{name} must be at least {least}", hint=Hint(name, least))


def as_it_is(table: Table) -> Release:
    """Publish everything but the names: the tables and the records as they are.

    >>> from discreet import lab
    >>> lab.as_it_is(lab.town()).method
    'names removed'
    """
    return from_table("names removed", table)


def tables_only(table: Table) -> Release:
    """Publish exact tables and no records.

    >>> from discreet import lab
    >>> lab.tables_only(lab.town()).records is None
    True
    """
    return from_table("exact tables", table, records=False)


def swap(table: Table, rate: float = 0.1, *, generator: Generator | None = None) -> Release:
    """Swap the places of pairs of similar people (the first column of `table.quasi`).

    Parameters
    ----------
    rate
        Share of people who are moved, each once, as long as somebody lives elsewhere. A partner
        agrees in as many of the other columns as anybody who is left does.

    Examples
    --------
    >>> from discreet import lab
    >>> town = lab.town()
    >>> release = lab.swap(town, rate=0.2)
    >>> bool((release.counts["ill",] == town.counts(("ill",))).all())
    True
    """
    check_share(rate, "rate")
    rng = np.random.default_rng(generator)
    codes = table.codes.copy()
    free, pairs = set(rng.permutation(len(table)).tolist()), round(rate * len(table) / 2)
    for person in map(int, rng.permutation(len(table))):
        if not pairs:
            break
        if person not in free:
            continue
        free.discard(person)
        others = np.array([i for i in free if codes[i, 0] != codes[person, 0]], dtype=np.int64)
        if not len(others):
            continue
        alike = (codes[others, 1:] == codes[person, 1:]).sum(axis=1)
        partner = int(rng.choice(others[alike == alike.max()]))
        free.discard(partner)
        pairs -= 1
        codes[[person, partner], 0] = codes[[partner, person], 0]
    return from_table(f"swapping {rate:.0%}", replace(table, codes=codes))


def top_code(table: Table, share: float = 0.05) -> Release:
    """Replace the amounts beyond a quantile by the quantile, which may lie between two amounts.

    Examples
    --------
    The mean is too small, and nothing else is protected:

    >>> from discreet import lab
    >>> town = lab.town()
    >>> bool(lab.top_code(town).average < town.numbers.mean())
    True
    """
    check_share(share, "share")
    top = float(np.quantile(table.numbers, 1 - share))
    changed = replace(table, numbers=np.minimum(table.numbers, top))
    return from_table(f"top-coding {share:.0%}", changed)


def ad_hoc_noise(
    table: Table,
    spread: float = 1.5,
    kind: Literal["normal", "uniform"] = "normal",
    *,
    generator: Generator | None = None,
) -> Release:
    """Add rounded noise of a size that seemed right to each count; negative counts become 0.

    Examples
    --------
    >>> from discreet import lab
    >>> lab.ad_hoc_noise(lab.town(), spread=2).records is None
    True
    """
    if spread < 0:
        raise ParameterError("spread must not be negative", hint=Hint("spread", 1.5))
    rng = np.random.default_rng(generator)

    def noisy(counts: Floats) -> Floats:
        reach = spread * np.sqrt(3)  # the same variance for both kinds
        draw = (
            rng.normal(0, spread, counts.shape)
            if kind == "normal"
            else rng.uniform(-reach, reach, counts.shape)
        )
        return np.asarray(np.maximum(np.rint(counts + draw), 0))

    counts = {names: noisy(cells) for names, cells in table.published().items()}
    average = float(table.numbers.mean() * (1 + rng.normal(0, spread / len(table))))
    return Release(f"ad hoc noise ±{spread:g}", counts, average, permanent=False)


def multiplicative_noise(
    table: Table,
    least: float = 0.07,
    most: float = 0.13,
    *,
    generator: Generator | None = None,
) -> Release:
    """Count each person as a little more or less than one, by a secret permanent factor.

    Factors lie between `least` and `most` away from 1, never nearer. They are drawn once
    and for all: who asks again sees the same.

    Examples
    --------
    >>> from discreet import lab
    >>> town = lab.town()
    >>> release = lab.multiplicative_noise(town)
    >>> bool(abs(release.counts["ill",] - town.counts(("ill",))).max() < 20)
    True
    """
    if not 0 <= least <= most < 1:
        raise ParameterError(
            "give 0 ≤ least ≤ most < 1", hint=Hint("least", 0.07).also("most", 0.13)
        )
    rng = np.random.default_rng(generator)
    size = rng.triangular(least, least, most, len(table)) if most > least else least
    factors = 1 + size * rng.choice([-1, 1], len(table))
    counts = {names: np.rint(table.counts(names, factors)) for names in table.tables}
    average = float(np.sum(factors * table.numbers) / np.sum(factors))
    return Release(f"multiplicative noise {least:.0%}-{most:.0%}", counts, average)


# -- k-anonymity ------------------------------------------------------------------


def k_anonymity(table: Table, k: int = 5, diversity: int = 1) -> Release:
    """Coarsen what others know until every record shares it with at least k − 1 others.

    Parameters
    ----------
    k
        Size of the smallest group. (It is k, not k − 1 as one tutorial says.)
    diversity
        Distinct values of the secret that each group must have (l-diversity).

    Examples
    --------
    >>> from discreet import lab
    >>> release = lab.k_anonymity(lab.town(), k=5)
    >>> person = lab.town().codes[0]
    >>> bool(len(release.records.matching(person)) >= 5)
    True
    """
    check_count(k, "k")
    check_count(diversity, "diversity")
    if len(table) < k or len(set(table.secrets.tolist())) < diversity:
        raise ParameterError("the table itself is smaller or less diverse than asked for")
    low, high = table.codes.copy(), table.codes.copy()
    groups = _groups(table, np.arange(len(table)), k, diversity)
    for group in groups:
        low[group] = table.codes[group].min(axis=0)
        high[group] = table.codes[group].max(axis=0)
    records = Records(low, high, table.secrets, table.numbers)
    counts = {names: _spread(table, records, groups, names) for names in table.tables}
    words = f"{k}-anonymity" + (f", {diversity}-diversity" if diversity > 1 else "")
    return Release(words, counts, float(table.numbers.mean()), records)


def _groups(table: Table, rows: Ints, k: int, diversity: int) -> list[Ints]:
    """Halve a group along its widest column while both halves remain allowed."""
    codes = table.codes[rows]
    spans = np.ptp(codes, axis=0) / [max(len(values) - 1, 1) for values in table.domain]
    for j in np.argsort(-spans, kind="stable"):
        values = codes[:, j]
        if len(rows) < 2 * k or spans[j] == 0:
            break
        cuts = np.unique(values)[1:]
        for cut in cuts[np.argsort(np.abs(cuts - np.median(values)), kind="stable")]:
            parts = rows[values < cut], rows[values >= cut]
            if all(len(p) >= k and len(np.unique(table.secrets[p])) >= diversity for p in parts):
                return [g for part in parts for g in _groups(table, part, k, diversity)]
    return [rows]


def _spread(table: Table, records: Records, groups: list[Ints], names: Names) -> Floats:
    """Count coarse records, each group spread evenly over the cells it may belong to."""
    total = np.zeros(table.shape(names))
    last = names.index(table.secret) if table.secret in names else None
    for group in groups:
        low, high = records.low[group[0]], records.high[group[0]]
        spans = dict(zip(table.quasi, map(slice, low, high + 1), strict=True))
        at = tuple(spans.get(name, slice(None)) for name in names)
        part = total[at]
        if last is None:
            part += len(group) / part.size
            continue
        shares = np.bincount(records.secrets[group], minlength=2) * 2 / part.size
        part += shares.reshape([2 if i == last else 1 for i in range(len(names))])
    return total
