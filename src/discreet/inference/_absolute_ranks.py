r"""Absolute ranks: one number that says whether groups differ, and that no row moves far.

The statistic
-------------
Each of the m rows that count has a value and a group. Rows are put in order, equal values in
random order (each row brings its own random number), so every row has a centred rank
:math:`R=2\cdot\text{rank}-(m+1)` in :math:`-(m-1),-(m-3),\dots,m-1`, no two alike. It is clipped
to a score :math:`J=\min(\max(R,-M),M)`, M a public whole number. With :math:`D_i` the sum of the
scores of group i, and :math:`D_S` that of a set S of groups,

.. math:: f=\sum_i\max(D_i,0)=\max_SD_S=\tfrac12\sum_i|D_i|,

the second and third because all scores add up to zero. Without clipping this is half the absolute
rank statistic of [1]_.

Guarantee
---------
**One row more or less changes f by at most M; another row in its place (another value, another
group, or one that does not count) by at most 2M.** The random numbers are drawn for each row
independently of its values: fix them, the same in both tables. Put in one row. A row below it had
R and has R − 1: its score falls by one if −M < R ≤ M, and stays otherwise. A row above it has R +
1: its score rises by one if −M ≤ R < M, and stays otherwise. Say a rows fall and b rise: each is
at most M, as ranks are two apart. All scores add up to zero before and after, so the new row's
own score is a − b. Of these rows, :math:`a_S` and :math:`b_S` are in S. For a set S without the
new row, :math:`D_S` changes by :math:`b_S-a_S`, which is between −M and M. For one that holds it,
by :math:`a-b+b_S-a_S`, which is a − b less what the rest has, between −M and M too. All
:math:`D_S` move by at most M, so their maximum does. A row that does not count (its value or its
group is missing, or WHERE leaves it out) is no row here. A change is one row less and then one
more. Nothing here needs m to be public, only M. Both bounds are attained, the second where M is at
most m − 3.

What is released is :math:`\lfloor1024f/(tM)\rfloor`, t being 1, or 2 where a row may change. f
moves by at most tM, so this moves by at most 1024: x ≤ y + 1024 holds of the floors if it holds
of the numbers. Its noise is thus known before any row is read. If M is chosen by a noisy count,
that was released before, under a share of its own: the bound holds whatever that count was, and
the two compose.

Why clipped
-----------
M bounds what one row moves, and ranks far out weigh more in that than in what they tell. Where
noise is most of the variance, half of the range finds more (three normal groups of 100, half a
deviation apart, ε = 0.3, where one row may change: .90 against .80). :func:`clip` takes all,
three quarters or half by the ratio of the two variances, which is public.

Null law
--------
If groups are alike, ranks are a random permutation, whatever the values and their ties: given the
sizes of the groups the law of f is known exactly. Sizes are private. Each :math:`D_S` has
variance :math:`n_S(m-n_S)\sum J^2/m(m-1)`, concave in the sizes: so for two groups equal sizes
are the worst in the limit, and for any number the mean of f is largest there. Tails are those of
the sets that are nearest half of all rows: of three groups, sizes with one smaller group reach
further, by a third at p = 0.0005 without noise. So the p-value is the largest one over a few
sizes (:func:`sizes`); that no others go beyond them is simulated over grids of sizes, not proved.
Likewise f grows in law with m while M stays, so a bound of m from above serves.

References
----------
.. [1] S. Couch, Z. Kazan, K. Shi, A. Bray, A. Groce, "Differentially private nonparametric
   hypothesis testing", CCS 2019: the statistic with mid-ranks, of public sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet.inference._laws import Floats, Noise
from discreet.inference._results import monte_carlo

Words: TypeAlias = Callable[[int], NDArray[np.uint64]]
"""So many random numbers, which put equal values in order."""

GRID: Final = 1024
"""Steps of what is released: the farthest that one unit moves it."""

_PERMUTED: Final = 400
"""Rows up to which null ranks are permuted; a normal law stands for more."""

_CLIPS: Final = (
    (Fraction(1, 12), Fraction(1)),
    (Fraction(1, 4), Fraction(3, 4)),
)
"""Ratios of noise to sampling variance, and the share of the ranks' range that is best below."""


def clip(rows: int, groups: int, epsilon: Fraction, times: int) -> int:
    """How far scores may go: the M that finds normal shifts best, by public numbers alone.

    >>> clip(90, 3, Fraction(1), 2), clip(3000, 3, Fraction(1), 2)
    (45, 3000)
    """
    rows = max(rows, 1)
    # of the noise, and of the scores of a group of equal size, both over the squared range
    ratio = 2 * (times * groups / epsilon) ** 2 / (rows * (groups - 1))
    share = next((s for most, s in _CLIPS if ratio < most), Fraction(1, 2))
    return max(1, int(share * rows))


def excess(
    values: NDArray[np.int64],
    places: NDArray[np.int64],
    groups: int,
    reach: int,
    words: Words = noise.random_words,
) -> int:
    """F of rows with these values in these groups, with scores clipped to `reach`.

    >>> values, places = np.array([3, 1, 2, 4]), np.array([1, 0, 0, 1])
    >>> excess(values, places, 2, 9), excess(values, places, 2, 1)
    (4, 2)
    """
    order = np.lexsort((_distinct(values.size, words), values))
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, places[order], _scores(values.size, reach))
    return int(sums[sums > 0].sum())


def in_steps(found: int, reach: int, times: int) -> int:
    """F in steps, of which one unit moves it by no more than :data:`GRID`."""
    return GRID * found // (times * reach)


def sizes(groups: int) -> list[Floats]:
    """Shares of the groups of which one or another makes f as large as any do."""
    last = (1.0, 0.7, 0.4, 0.2, 0.1, 0.0) if groups > 2 else (1.0,)
    return [np.array([1.0] * (groups - 1) + [x]) / (groups - 1 + x) for x in last]


def pvalue(
    value: float,
    drawn: Noise,
    rows: int,
    *,
    groups: int,
    reach: int,
    times: int,
    draws: int,
    source: np.random.Generator,
) -> float:
    """Largest p-value of a noisy f in steps, over the sizes of the groups."""
    noises = drawn.simulate(source, draws)
    return max(
        float(monte_carlo(value, np.floor(GRID * null / (times * reach)) + noises))
        for null in null_draws(rows, groups, reach, draws, source)
    )


def null_draws(
    rows: int, groups: int, reach: int, draws: int, source: np.random.Generator
) -> list[Floats]:
    """Draws of f among groups that are alike, for each of :func:`sizes`."""
    shares = sizes(groups)
    if rows < 2:
        return [np.zeros(draws) for _ in shares]
    scores = _scores(rows, reach)
    if rows <= _PERMUTED:
        # one walk through all rows serves every way to cut it
        walks = np.zeros((draws, rows + 1), dtype=np.int64)
        np.cumsum(source.permuted(np.tile(scores, (draws, 1)), axis=1), axis=1, out=walks[:, 1:])
        cuts = [np.rint(np.cumsum([0.0, *s]) * rows).astype(int) for s in shares]
        return [_excess(np.diff(walks[:, at], axis=1)) for at in cuts]
    spread = float((scores.astype(np.float64) ** 2).sum()) * rows / (rows - 1)
    steps = source.normal(size=(draws, groups))
    found = []
    for share in shares:
        sums = steps * np.sqrt(share)
        found.append(_excess((sums - share * sums.sum(axis=1, keepdims=True)) * np.sqrt(spread)))
    return found


def _excess(sums: NDArray[Any]) -> Floats:
    return np.asarray(np.maximum(sums, 0).sum(axis=1), dtype=np.float64)


def _scores(rows: int, reach: int) -> NDArray[np.int64]:
    return np.clip(2 * np.arange(rows, dtype=np.int64) - (rows - 1), -reach, reach)


def _distinct(rows: int, words: Words) -> NDArray[np.uint64]:
    """Random numbers that differ: given that, any of them are as good as those of fewer rows."""
    while True:
        drawn = np.asarray(words(rows))
        if np.unique(drawn).size == rows:
            return drawn
