"""Report noisy max on a lattice: the index of the largest noisy value, and only that.

Guarantee
---------
Let every value of neighbouring databases differ by at most m lattice steps. Independent
noise Zᵢ of scale s is added to each value kᵢ, ties are broken by an independent uniform
ranking of the indices, and the winner's index is released. With s = 2m/ε this is ε-DP;
with s = m/ε if all values can only move together (monotone).

Proof, ties included. Fix the ranking and all noise but that of i. Index i wins exactly when
Zᵢ ≥ r, where r = max over j ≠ i of kⱼ + Zⱼ − kᵢ + [j ranks before i] is an integer. On a
neighbour, with the same ranking and the same other noise, r' ≤ r + 2m (r' ≤ r + m if
all values move in the same direction). Both laws on offer satisfy
P(Z ≥ r + t) ≥ e^{−t/s}·P(Z ≥ r) for all integers r and t ≥ 0: the one-sided geometric
has P(Z ≥ r) = min(1, e^{−r/s}), and the discrete Laplace has e^{−r/s}/(1 + e^{−1/s})
for r > 0 and a slower decay for r ≤ 0. So P(i wins) falls by at most e^ε; averaging
over the rest preserves it. (Dwork, Roth 2014, Claim 3.9, is the continuous case.)

Real values are rounded to a public grid first, each alone, so m = ⌈Δ/g⌉; rounding is
monotone, which keeps monotone queries monotone.

The winner's *value* is a second question. ``with_value`` answers it with fresh
Laplace noise and its own ε; the loss is the composition of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet import noise as laws
from discreet import privacy as p
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.mechanisms import _lattice
from discreet.mechanisms._additive import laplace
from discreet.mechanisms._calls import recorded
from discreet.mechanisms._orders import first_largest, random_orders
from discreet.mechanisms._parameters import read_candidates, read_scores, read_sensitivity
from discreet.mechanisms._release import Release, Selection, interval_of_all
from discreet.privacy import read_neighbours


@recorded("linf")
def noisy_max(
    values: Any,
    sensitivity: Number,
    epsilon: Number,
    *,
    candidates: Sequence[object] | None = None,
    monotone: bool = False,
    noise: Literal["geometric", "laplace"] = "geometric",
    step: Number | None = None,
    integer: bool = False,
    with_value: bool | Number = False,
    neighbours: p.Neighbours | str | None = None,
) -> Selection:
    """Release the index of the largest value: ε-DP.

    Parameters
    ----------
    values
        Private values, one per candidate.
    sensitivity
        Public bound Δ on the change of any one value between neighbours.
    epsilon
        Privacy parameter of the choice.
    candidates
        Public names; the index is returned without them.
    monotone
        Whether one record moves all values in the same direction (as counts
        under add-remove do): half the noise then suffices.
    noise
        "geometric" (one-sided, the more accurate) or "laplace".
    step, integer
        Public lattice, and whether all values are whole, as for :func:`laplace`.
    with_value
        Also release the winner's value: an ε for that second question, or True
        to spend `epsilon` again. The loss is that of both.
    neighbours
        The relation under which Δ was computed.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.noisy_max([3, 500, 8], 1, 1, candidates=["a", "b", "c"]).value
    'b'
    """
    eps, delta_inf = _exact.epsilon(epsilon), read_sensitivity(sensitivity)
    relation = read_neighbours(neighbours)
    private = read_scores(values, "values")
    names = read_candidates(candidates, private.size)
    grid = _grid(delta_inf, eps, step, integer=integer)
    factor = 1 if monotone else 2
    law = _law(noise, factor * math.ceil(delta_inf / grid) / eps)
    index = int(winners(_lattice.quantise(private, grid), law, 1)[0])
    loss: p.PrivacyLoss = p.Pure(eps).under(relation)
    price, measured = f"ε={_exact.show(eps)}", tuple[Release, ...]()
    if with_value is not False:
        extra = eps if with_value is True else _exact.epsilon(with_value, "with_value")
        winner = private.flat[[index]].tolist()[0]
        second = laplace(winner, delta_inf, extra, step=grid, integer=integer, neighbours=relation)
        measured = (second,)
        loss = p.compose([loss, second.loss])
        price += f" + ε={_exact.show(extra)} for the value"
    return Selection(
        value=index if names is None else names[index],
        loss=loss,
        mechanism="noisy-max",
        price=price,
        measured=measured,
        tainted=laws.is_deterministic(),
        _accuracy=partial(_shortfall, law, private.size, grid),
    )


def _grid(sensitivity: Fraction, eps: Fraction, step: Number | None, *, integer: bool) -> Fraction:
    if step is not None:
        return _lattice.read_step(step)
    return Fraction(1) if integer else _lattice.fine_step(sensitivity, sensitivity / eps)


def _law(kind: str, scale: Fraction) -> Any:
    if kind == "geometric":
        return laws.Geometric(scale)
    if kind == "laplace":
        return laws.DiscreteLaplace(scale)
    raise ParameterError("noise must be 'geometric' or 'laplace'", hint=Hint("noise", "geometric"))


def winners(k: _lattice.IntArray, law: Any, runs: int) -> NDArray[np.int64]:
    """Run the choice `runs` times independently; the mechanism runs it once, audits often."""
    noisy = _lattice.add(np.tile(k, runs), law.sample(runs * k.size))
    return first_largest(np.asarray(noisy).reshape(runs, -1), random_orders(runs, k.size))


def _shortfall(law: Any, size: int, step: Fraction, confidence: float) -> float:
    """Bound all noise at once: the best can lose by no more than the noises differ."""
    bounds, _ = interval_of_all(law, confidence, size)
    return float((bounds.high - bounds.low + 1) * step)
