"""Tracing: who was among those whose averages were published.

Homer et al. 2008 asked it of genomes, Dwork et al. 2015 proved it for any averages of
many attributes. The score of a person y is T(y) = ⟨μ̃ − ref, y − ref⟩: members lean
towards the published averages μ̃ more than the public reference explains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet import _exact
from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.lab._table import Floats


def trace(published: Any, reference: Any, people: Any) -> Floats:
    """Return the score of each person: the higher, the more likely a member.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import lab
    >>> rng = np.random.default_rng(1)
    >>> share = rng.uniform(0.1, 0.9, 2000)
    >>> members, others = rng.random((2, 50, 2000)) < share
    >>> scores = lab.trace(members.mean(axis=0), share, np.vstack([members, others]))
    >>> bool(scores[:50].min() > scores[50:].max())
    True
    """
    mean = np.asarray(published, dtype=np.float64)
    ref = np.asarray(reference, dtype=np.float64)
    rows = np.atleast_2d(np.asarray(people, dtype=np.float64))
    if mean.shape != ref.shape or rows.shape[1:] != mean.shape:
        raise ParameterError("averages, reference and people must have the same attributes")
    return np.asarray((rows - ref) @ (mean - ref))


@dataclass(frozen=True, slots=True)
class Tracing:
    """How well scores tell members from others.

    Attributes
    ----------
    tpr
        Share of members who are named.
    fpr
        Share of others who are named wrongly.
    """

    tpr: float
    fpr: float


def tracing(members: Any, others: Any, fpr: float = 0.05) -> Tracing:
    """Name everybody whose score exceeds what a share `fpr` of the others reach.

    >>> from discreet import lab
    >>> lab.tracing([5, 6, 7, 8], [1, 2, 3, 5.5], fpr=0.25)
    Tracing(tpr=1.0, fpr=0.25)
    """
    inside, outside = np.asarray(members, float), np.sort(np.asarray(others, float))
    if not 0 <= fpr < 1 or not len(inside) or not len(outside):
        raise ParameterError("give scores of both kinds and fpr in [0, 1)", hint=Hint("fpr", 0.05))
    bar = outside[len(outside) - 1 - int(_exact.decimal(fpr, "fpr") * len(outside))]
    return Tracing(float(np.mean(inside > bar)), float(np.mean(outside > bar)))
