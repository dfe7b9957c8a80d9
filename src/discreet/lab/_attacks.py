"""Attackers for :func:`discreet.lab.compare`: each guesses one bit about one person.

The experiment is the same for all. A person is picked, a fair coin sets their secret (or
decides whether they are in the table at all), the method publishes, the attacker guesses
the coin. Guessing blindly is right half of the time. Both worlds are neighbours, so under
differential privacy nobody can be right more often than
:meth:`discreet.meaning.Attacker.accuracy` of the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from discreet._dataclass import dataclass
from discreet.lab._blocks import block_tables, reconstruct_block
from discreet.lab._release import Release
from discreet.lab._table import Ints, Names, Table


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What the attacker has beside the release.

    Attributes
    ----------
    table
        The table's public form: columns and domains. Its records are not looked at.
    person
        The target's codes.
    secret
        The target's secret, where membership is the question.
    others
        Everybody else's records, for attackers who know all but one.
    reference
        Another table of the same population.
    """

    table: Table
    person: Ints
    secret: int
    others: Table
    reference: Table

    def cell(self, names: Names, *, secret: int | None = None) -> tuple[int, ...]:
        """Return where the target stands in a table of counts."""
        table = self.table
        return tuple(
            (self.secret if secret is None else secret)
            if name == table.secret
            else int(self.person[table.quasi.index(name)])
            for name in names
        )


Guess = Callable[[Sequence[Release], Knowledge], float | None]


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to guess a bit about a person from what was published.

    Attributes
    ----------
    name
        Its name in the comparison.
    about
        What the coin decides: the person's secret, or whether they are a member.
    guess
        From releases and knowledge to a score: above zero means 1, below means 0, zero
        or None means no idea.
    repeats
        How often the method is asked.
    """

    name: str
    about: Literal["secret", "member"]
    guess: Guess
    repeats: int = 1


# -- guesses --------------------------------------------------------------------------


def _by_difference(releases: Sequence[Release], know: Knowledge) -> float | None:
    """Subtract the others from the published number of people with the secret."""
    names = (know.table.secret,)
    published = [release.cells(know.table, names) for release in releases]
    counts = [cells for cells in published if cells is not None and not np.isnan(cells).any()]
    if not counts:
        return None
    rest = np.mean(counts, axis=0) - know.others.counts(names)
    return float(rest[1] - rest[0])


def _by_linkage(releases: Sequence[Release], know: Knowledge) -> float | None:
    """Look at the records that could be the target's; say what they say more than usual."""
    records = releases[0].records
    if records is None:
        return None
    secrets = records.secrets[records.matching(know.person)]
    ones = float(secrets.sum())
    return _evidence(ones, len(secrets) - ones, releases[0], know) if len(secrets) else None


def _by_inference(releases: Sequence[Release], know: Knowledge) -> float | None:
    """Compare the shares of the secret among people like the target with its share overall."""
    table = know.table
    score, used = 0.0, 0
    for names, cells in releases[0].counts.items():
        if table.secret not in names or len(names) == 1:
            continue
        ones = cells[know.cell(names, secret=1)]
        zeros = cells[know.cell(names, secret=0)]
        if not (math.isnan(ones) or math.isnan(zeros)):
            score += _evidence(ones, zeros, releases[0], know)
            used += 1
    return score if used else None


def _evidence(ones: float, zeros: float, release: Release, know: Knowledge) -> float:
    """Return the log-odds that a member of a group has the secret, less the usual odds.

    If the others of the group have the secret with probability r each, this is the
    log-likelihood ratio of the two values of the member's own bit.
    """
    overall = release.cells(know.table, (know.table.secret,))
    usual = (0.0, 0.0) if overall is None else np.nan_to_num(overall)
    base = math.log(max(usual[1], 1) / max(usual[0], 1))
    return math.log((max(ones, 0) + 0.01) / (max(zeros, 0) + 0.01)) - base


def _by_reconstruction(releases: Sequence[Release], know: Knowledge) -> float | None:
    """Reconstruct the target's block from its tables and look the target up."""
    table = know.table
    tables = block_tables(releases[0].counts, table, int(know.person[0]))
    columns = (*table.quasi[1:], table.secret)
    tables = {names: cells for names, cells in tables.items() if set(names) <= set(columns)}
    if not any(table.secret in names for names in tables):
        return None
    sizes = {name: table.size(name) for name in columns}
    block = reconstruct_block(tables, sizes, whole=False)
    zeros, ones = block.people[tuple(know.person[1:])]
    return _evidence(ones, zeros, releases[0], know) if ones + zeros > 1e-6 else None


def _by_tracing(releases: Sequence[Release], know: Knowledge) -> float | None:
    """Ask whether the counts of the target's own cells fit better with the target in them."""
    table, reference = know.table, know.reference
    score, used = 0.0, 0
    for names, cells in releases[0].counts.items():
        count = cells[know.cell(names)]
        if len(names) == 1 or math.isnan(count):
            continue
        usual = reference.counts(names) + 0.5
        expected = usual[know.cell(names)] / usual.sum() * (len(table) - 1)
        # likelihood ratio of count c as 1 + Poisson(μ) and as Poisson(μ): c/μ
        score += math.log((max(count, 0) + 0.02) / expected)
        used += 1
    return score if used else None


DIFFERENCING = Attack("differencing", "secret", _by_difference)
AVERAGING = Attack("averaging", "secret", _by_difference, repeats=25)
LINKAGE = Attack("linkage", "secret", _by_linkage)
INFERENCE = Attack("inference", "secret", _by_inference)
RECONSTRUCTION = Attack("reconstruction", "secret", _by_reconstruction)
TRACING = Attack("tracing", "member", _by_tracing)

ATTACKS = (DIFFERENCING, AVERAGING, LINKAGE, INFERENCE, RECONSTRUCTION, TRACING)
"""All attacks of the comparison."""
