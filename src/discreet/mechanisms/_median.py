"""The median with smooth sensitivity: little noise where the data are dense.

Guarantee
---------
Under *change-one* (the number of records n is public) :func:`smooth_median` is
ε-DP without ``delta`` and (ε, δ)-DP with it.

Setting
-------
Records are clipped to a public [L, U] and sorted, x₀ = L, x_{n+1} = U, and the
median is x_m with m = ⌈n/2⌉. The local sensitivity after k changes is
A(k) = max_t x_{m+t} − x_{m+t−k−1}, and

    S(x) = max_k e^{−kβ} A(k) = max_{i ≤ m ≤ j} (x_j − x_i)·e^{−β(j−i−1)}

is β-smooth: S ≥ local sensitivity and |ln S(x) − ln S(y)| ≤ β for neighbours
(Nissim, Raskhodnikova, Smith, "Smooth sensitivity and sampling in private data
analysis", 2007). For i < i' the best j cannot decrease: if j' < j is at least
as good for i', then for the lower x_i both sides gain x_{i'} − x_i times their
decay, which is larger for j'. So divide and conquer finds S in O(n log n).

The value f is released as f + (S/α)·Z. Write b = S(x)/α, b' = S(y)/α; then
|f(x) − f(y)| ≤ αb, αb' and |ln(b/b')| ≤ β.

*Pure variant, Z Cauchy.* For h(z) = 1/(π(1+z²)): |(ln h)'| = 2|z|/(1+z²) ≤ 1, so
moving the centre costs at most α; |d/dλ ln(e^λ h(e^λ z))| = |1−z²|/(1+z²) ≤ 1, so
changing the scale costs at most β. With α = β = ε/2 the total is ε.

*Approximate variant, Z Laplace.* The loss at y is
ln(b'/b) − |y−f|/b + |y−f'|/b'. If b' ≥ b it is at most β + α. Otherwise let
t = b/b' ∈ (1, e^β] and E = |y−f|/b, which is Exp(1): the loss is at most
α + E(t−1) − ln t. Beyond ε its excess is exponential of mean t−1, hence

    δ(ε) ≤ (1 − 1/t)·exp(−(ε−α+ln t)/(t−1)),

which grows with t (as ln t ≥ 1 − 1/t), so t = e^β is the worst. α = ε/2 is used,
with the largest β that keeps this at δ and α + β ≤ ε. (This is tighter than the
textbook β = ε/(2 ln(2/δ)) and needs no union of two failures.)

What is drawn
-------------
The released number is the *real* sum above, rounded exactly to a public grid
(:mod:`._refine`) and clamped to [L, U]; both are post-processing. S is computed in
floating point with relative error below 10⁻¹¹: it is scaled up by 1 + 10⁻¹⁰ and β is
lowered by 10⁻¹⁰, which pays for it. A floor of (U−L)·2⁻¹⁰⁰ keeps S positive; the larger
of a smooth bound and a constant is smooth.

The noise scale is private, so a release carries no law and no interval.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet import privacy as p
from discreet._exact import Number
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.mechanisms import _lattice, _refine
from discreet.mechanisms._calls import recorded
from discreet.mechanisms._release import Release
from discreet.privacy import read_neighbours

_SLACK = 1e-10
_LEAST_BETA = 1e-7
_LARGEST = Fraction(10) ** 300


@recorded("records")
def smooth_median(
    values: Any,
    lower: Number,
    upper: Number,
    epsilon: Number,
    delta: Number | None = None,
    *,
    step: Number | None = None,
    neighbours: p.Neighbours | str = p.Neighbours.CHANGE_ONE,
) -> Release:
    """Release the median with noise scaled to its smooth sensitivity.

    Parameters
    ----------
    values
        The private records, one per unit.
    lower, upper
        Public bounds; records are clipped to them.
    epsilon, delta
        Privacy parameters; without `delta` the release is pure ε-DP and has
        heavy (Cauchy) tails.
    step
        Public grid of the answer; by default about (upper − lower)/2^40.
    neighbours
        Only "change-one" is proved, with the number of records public.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> ages = [20 + i % 60 for i in range(1001)]
    >>> answer = m.smooth_median(ages, 0, 120, epsilon=2, delta="1e-6", step=1)
    >>> 20 <= answer.value <= 80
    True
    """
    if read_neighbours(neighbours) is not p.Neighbours.CHANGE_ONE:
        raise NotProvedError(
            "smooth_median is proved for change-one only: it treats n as public",
            hint=Hint("neighbours", "change-one"),
        )
    eps = _exact.epsilon(epsilon)
    low, high = _read_bounds(lower, upper)
    fine = _lattice.power_of_two_below((high - low) / 2**40)
    grid = fine if step is None else _lattice.read_step(step)
    price, alpha = f"ε={_exact.show(eps)}", eps / 2
    loss: p.PrivacyLoss = p.Pure(eps)
    beta, draw_rounded = float(alpha), _refine.rounded_cauchy
    if delta is not None:
        dlt = _exact.delta(delta)
        price, loss = f"{price}, δ={_exact.show(dlt)}", p.Approx(eps, dlt)
        beta, draw_rounded = laplace_beta(float(eps), float(dlt)), _refine.rounded_laplace
    x = _sorted_records(values, low, high)
    scale = _smooth_bound(x, _read_beta(beta), low, high) / alpha
    draw = draw_rounded(Fraction(float(x[_middle(x)])), scale, grid)
    k = min(max(draw.value, math.ceil(low / grid)), math.floor(high / grid))
    return Release(
        value=_lattice.to_units(_lattice.object_array([k]), grid, ()),
        law=None,
        step=grid,
        loss=loss.under(p.Neighbours.CHANGE_ONE),
        mechanism="smooth-median",
        price=price,
        rounded=True,
        tainted=draw.tainted,
    )


def laplace_beta(epsilon: float, delta: float) -> float:
    """Return the largest β allowed by the approximate variant with α = ε/2.

    >>> round(laplace_beta(1.0, 1e-6), 4)
    0.0497
    """
    half = epsilon / 2

    def excess(beta: float) -> float:
        return math.log(-math.expm1(-beta)) - (half + beta) / math.expm1(beta) - math.log(delta)

    return half if excess(half) <= 0 else _exact.turning(lambda b: excess(b) > 0, 0.0, half)[0]


def _read_beta(beta: float) -> float:
    if not _LEAST_BETA <= beta < 700:
        raise ParameterError(
            f"beta = {beta:.3g} is outside what smooth sensitivity can use",
            hint=Hint("epsilon", "1"),
        )
    return beta - _SLACK


def _read_bounds(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    low, high = _exact.decimal(lower, "lower"), _exact.decimal(upper, "upper")
    if low >= high:
        raise ParameterError(
            f"lower must be below upper, got {_exact.show(low)} and {_exact.show(high)}",
            hint=Hint("lower", 0).also("upper", 120),
        )
    if max(abs(low), abs(high)) > _LARGEST:
        raise ParameterError(
            "lower and upper must lie within ±1e300", hint=Hint("lower", 0).also("upper", 120)
        )
    # bounds become doubles, as the records do; one rounding for everybody is public
    return Fraction(float(low)), Fraction(float(high))


def _sorted_records(values: Any, low: Fraction, high: Fraction) -> NDArray[np.float64]:
    data = _lattice.read_values(values, "values")
    if len(data.shape) != 1:
        raise ParameterError("values must be a list of records, one number each")
    # every reading is a finite number within the range of doubles, so nothing here can fail
    clipped = np.sort(np.clip(data.flat.astype(np.float64), float(low), float(high)))
    return np.concatenate(([float(low)], clipped, [float(high)]))


def _middle(x: NDArray[np.float64]) -> int:
    return (x.size - 2 + 1) // 2


def local_sensitivity_median(values: Any, lower: Number, upper: Number) -> float:
    """Return the local sensitivity of the median. PRIVATE: an analysis tool, never release it.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.local_sensitivity_median([1, 2, 4, 9, 10], 0, 10)
    5.0
    """
    x = _sorted_records(values, *_read_bounds(lower, upper))
    middle = _middle(x)
    return float(max(x[middle + 1] - x[middle], x[middle] - x[middle - 1]))


def smooth_sensitivity_median(values: Any, beta: Number, lower: Number, upper: Number) -> float:
    """Return the β-smooth sensitivity of the median. PRIVATE: an analysis tool, never release it.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> round(m.smooth_sensitivity_median([1, 2, 4, 9, 10], "0.5", 0, 10), 6)
    5.0
    """
    b = float(_exact.epsilon(beta, "beta"))
    x = _sorted_records(values, *_read_bounds(lower, upper))
    return math.exp(_log_smooth(x, b))


def _smooth_bound(x: NDArray[np.float64], beta: float, low: Fraction, high: Fraction) -> Fraction:
    floor = (high - low) / 2**100
    computed = math.exp(max(_log_smooth(x, beta), math.log(floor)))
    return max(Fraction(computed) * (1 + Fraction(_SLACK)), floor)


def _log_smooth(x: NDArray[np.float64], beta: float) -> float:
    """Return ln S by divide and conquer over i; logarithms, so that no term underflows to 0."""
    middle = _middle(x)
    steps = beta * np.arange(x.size - middle, dtype=np.float64)
    best = -math.inf
    stack = [(0, middle, middle, x.size - 1)]
    with np.errstate(divide="ignore"):
        while stack:
            i_low, i_high, j_low, j_high = stack.pop()
            i = (i_low + i_high) // 2
            gains = (
                np.log(x[j_low : j_high + 1] - x[i]) - steps[j_low - middle : j_high + 1 - middle]
            )
            j = int(np.argmax(gains))
            best = max(best, float(gains[j]) - beta * (middle - i - 1))
            if i_low < i:
                stack.append((i_low, i - 1, j_low, j_low + j))
            if i < i_high:
                stack.append((i + 1, i_high, j_low + j, j_high))
    return best
