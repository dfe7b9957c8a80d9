"""Privacy as a value: neighbours, losses, conversions, composition, filters.

>>> from discreet import privacy as p
>>> answers = [p.DiscreteLaplace(10, 1)] * 50 + [p.DiscreteGaussian(20, 1)] * 50
>>> total = p.compose(answers)
>>> round(total.epsilon(delta=1e-6), 2)
3.65

Two kinds of accounting, and where each is valid
------------------------------------------------
*Parameters fixed in advance* (one batch): :func:`compose`, :func:`parallel`,
:func:`group`, :func:`sample` give tight joint losses.

*Parameters chosen as answers come in* (a session): only a filter may admit
queries, :class:`BasicFilter`, :class:`ZcdpFilter`, :class:`GaussianFilter`. What
`compose` says about the path taken is not a bound there;
:mod:`discreet.privacy._filters` has the counterexample. A batch composed with
fixed parameters may be charged to a filter as one loss.
"""

from __future__ import annotations

from discreet.privacy._account import Accounting, Amount, admit
from discreet.privacy._additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from discreet.privacy._calibrate import (
    discrete_gaussian_variance,
    discrete_gaussian_variances,
    gaussian_sigma,
)
from discreet.privacy._combine import Group, Parallel, group, parallel, to_change_one
from discreet.privacy._compose import Composition, compose
from discreet.privacy._filters import (
    BasicFilter,
    Filter,
    GaussianFilter,
    Odometer,
    ZcdpFilter,
)
from discreet.privacy._keys import key_threshold, key_threshold_delta
from discreet.privacy._kov import kov_closed_form, kov_delta, kov_epsilon, murtagh_vadhan_delta
from discreet.privacy._loss import PrivacyLoss
from discreet.privacy._losses import (
    Approx,
    BoundedRange,
    Concentrated,
    Probabilistic,
    Pure,
    Renyi,
    Zcdp,
)
from discreet.privacy._relation import Neighbours, read_neighbours, shared_label
from discreet.privacy._sampling import Sampled, sample

__all__ = [
    "Accounting",
    "Amount",
    "Approx",
    "BasicFilter",
    "BoundedRange",
    "Composition",
    "Concentrated",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Filter",
    "Gaussian",
    "GaussianFilter",
    "Group",
    "Laplace",
    "Neighbours",
    "Odometer",
    "Parallel",
    "PrivacyLoss",
    "Probabilistic",
    "Pure",
    "Renyi",
    "Sampled",
    "Zcdp",
    "ZcdpFilter",
    "admit",
    "compose",
    "discrete_gaussian_variance",
    "discrete_gaussian_variances",
    "gaussian_sigma",
    "group",
    "key_threshold",
    "key_threshold_delta",
    "kov_closed_form",
    "kov_delta",
    "kov_epsilon",
    "murtagh_vadhan_delta",
    "parallel",
    "read_neighbours",
    "sample",
    "shared_label",
    "to_change_one",
]
