"""Additive noise: Laplace, geometric and Gaussian, drawn on a public lattice.

Guarantees
----------
Let neighbouring databases move the query by at most Δ (L1 for Laplace and
geometric, L2 for Gaussian), under whichever relation the caller states.

* :func:`laplace`, :func:`geometric` are ε-DP. The value is an integer vector k on a
  lattice of step g with L1 sensitivity m (rounding included, see
  :mod:`._lattice`); the noise is discrete Laplace of scale s = m/ε, P(z) ∝ e^{−|z|/s}.
  Then P(k+Z = y)/P(k'+Z = y) ≤ e^{‖k−k'‖₁/s} ≤ e^ε cell by cell (J Thm 2.2, C Thm 8, on ℤ).
  For m = 1 this is the geometric mechanism of Ghosh, Roughgarden, Sundararajan (2009).
* :func:`gaussian` with ``rho`` is ρ-zCDP: the discrete Gaussian of parameter σ² has
  Rényi divergence α‖k−k'‖²/(2σ²) (Canonne, Kamath, Steinke 2020, Thm 4), so
  σ² = m²/(2ρ) is exact.
* :func:`gaussian` with ``epsilon`` and ``delta`` starts from the analytic calibration of
  the continuous law (Balle, Wang 2018), valid for every ε, and then *certifies the
  discrete law that is drawn*: δ(ε) of the lattice loss is evaluated, and σ is raised
  until it is at most δ. The classical √(2 ln(1.25/δ)) rule is never used: it is loose
  for small ε and false for large ε.

Assumptions: the stated sensitivity is true of the query, and the *type* of the
value (integer or real) is fixed by the query, not by the data: integer types on
whole sensitivities use step 1, everything else a fine power-of-two grid.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet import _exact, noise
from discreet import privacy as p
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.mechanisms import _lattice
from discreet.mechanisms._lattice import Values
from discreet.mechanisms._parameters import read_sensitivity, sqrt_up
from discreet.mechanisms._release import Release, tainted
from discreet.privacy._relation import read_neighbours


def laplace(
    value: Any,
    sensitivity: Number,
    epsilon: Number,
    *,
    step: Number | None = None,
    neighbours: p.Neighbours | str | None = None,
) -> Release:
    """Add discrete Laplace noise of scale about Δ/ε: ε-DP.

    Parameters
    ----------
    value
        Private answer: a number or an array of numbers (integers stay integers).
    sensitivity
        Public bound Δ on the L1 change of `value` between neighbours.
    epsilon
        Privacy parameter.
    step
        Public lattice step. By default 1 for integers with a whole sensitivity,
        otherwise a power of two some 2^20 times finer than the noise.
    neighbours
        The relation under which Δ was computed; it labels the loss.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> count = m.laplace(1000, sensitivity=1, epsilon="0.1", neighbours="add-remove")
    >>> abs(count.value - 1000) < 500
    True
    >>> count.loss.epsilon()
    0.1
    """
    eps, delta_1 = _exact.epsilon(epsilon), read_sensitivity(sensitivity)
    relation = read_neighbours(neighbours)
    values = _lattice.read_values(value)
    whole = delta_1.denominator == 1
    grid = _choose_step(values, delta_1, delta_1 / eps, step, whole=whole)
    return _laplace_on(values, delta_1, eps, grid, relation=relation, name="laplace")


def geometric(
    value: Any,
    sensitivity: Number,
    epsilon: Number,
    *,
    neighbours: p.Neighbours | str | None = None,
) -> Release:
    """Add two-sided geometric noise to integers: ε-DP.

    Pr[k] = p/(2−p)·(1−p)^|k| with p = 1 − e^{−ε/Δ}; the same law as
    :func:`laplace` with step 1, for integer queries only.

    Raises
    ------
    LatticeError
        If the value is not of integer type.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.geometric(3, sensitivity=1, epsilon=1).law
    DiscreteLaplace(scale=1)
    >>> m.geometric(1 / 3, sensitivity=1, epsilon=1)
    Traceback (most recent call last):
        ...
    discreet.errors.LatticeError: value must be an integer: ...
    """
    eps, delta_1 = _exact.epsilon(epsilon), read_sensitivity(sensitivity)
    relation = read_neighbours(neighbours)
    values = _lattice.read_values(value)
    _lattice.require_integers(values)
    return _laplace_on(values, delta_1, eps, Fraction(1), relation=relation, name="geometric")


def _laplace_on(
    values: Values,
    sensitivity: Fraction,
    eps: Fraction,
    step: Fraction,
    *,
    relation: p.Neighbours | None,
    name: str,
) -> Release:
    m = _lattice.l1_on_lattice(values, sensitivity, step)
    law = noise.DiscreteLaplace(m / eps)
    # holds for vectors too: the shift of one cell by m dominates any way of spreading it
    loss = p.DiscreteLaplace(m / eps, m).under(relation)
    return _release(values, law, step, loss, mechanism=name, price=f"ε={_exact.show(eps)}")


def gaussian(
    value: Any,
    sensitivity: Number,
    epsilon: Number | None = None,
    delta: Number | None = None,
    *,
    rho: Number | None = None,
    step: Number | None = None,
    neighbours: p.Neighbours | str | None = None,
) -> Release:
    """Add discrete Gaussian noise: (ε, δ)-DP, or ρ-zCDP.

    Parameters
    ----------
    value
        Private answer: a number or an array of numbers.
    sensitivity
        Public bound Δ on the L2 change of `value` between neighbours.
    epsilon, delta
        Target for the analytic calibration, valid for every ε > 0; or
    rho
        zero-concentrated target, σ² = Δ²/(2ρ).
    step, neighbours
        As for :func:`laplace`.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> answer = m.gaussian(1000, sensitivity=1, epsilon=1, delta="1e-5")
    >>> answer.loss.delta(1) <= 1e-5
    True
    >>> m.gaussian([3, 5, 2], sensitivity=1, rho="0.5").law.sigma2
    Fraction(1, 1)
    """
    delta_2, relation = read_sensitivity(sensitivity), read_neighbours(neighbours)
    if rho is not None and epsilon is None and delta is None:
        target = _exact.epsilon(rho, "rho")
        return _gaussian_zcdp(_lattice.read_values(value), delta_2, target, step, relation)
    if rho is not None or epsilon is None or delta is None:
        raise ParameterError(
            "gaussian needs either epsilon and delta, or rho", hint='epsilon="1", delta="1e-6"'
        )
    eps, dlt = _exact.epsilon(epsilon), _exact.delta(delta)
    values = _lattice.read_values(value)
    sigma = Fraction(p.gaussian_sigma(float(delta_2), eps, dlt))
    grid = _choose_step(values, delta_2, sigma, step, whole=_is_root(delta_2))
    law, loss = certified_gaussian(_l2_squared(values, delta_2, grid), eps, dlt, values.size)
    price = f"ε={_exact.show(eps)}, δ={_exact.show(dlt)}"
    return _release(values, law, grid, loss.under(relation), mechanism="gaussian", price=price)


def _gaussian_zcdp(
    values: Values,
    sensitivity: Fraction,
    rho: Fraction,
    step: Number | None,
    relation: p.Neighbours | None,
) -> Release:
    sigma = Fraction(float(sensitivity)) / sqrt_up(2 * rho)
    grid = _choose_step(values, sensitivity, sigma, step, whole=_is_root(sensitivity))
    m2 = _l2_squared(values, sensitivity, grid)
    law = noise.DiscreteGaussian.from_variance(m2 / (2 * rho))
    loss = p.DiscreteGaussian.from_variance(law.sigma2, m2, values.size).under(relation)
    return _release(values, law, grid, loss, mechanism="gaussian", price=f"ρ={_exact.show(rho)}")


@lru_cache(maxsize=256)
def certified_gaussian(
    m2: Fraction, eps: Fraction, dlt: Fraction, cells: int
) -> tuple[noise.DiscreteGaussian, p.PrivacyLoss]:
    """Find σ such that the discrete law drawn has δ(ε) ≤ δ for a squared L2 distance `m2`."""
    least = p.gaussian_sigma(sqrt_up(m2), eps, dlt)

    def certified(excess: float) -> p.DiscreteGaussian | None:
        loss = p.DiscreteGaussian.from_variance(Fraction(least * (1 + excess)) ** 2, m2, cells)
        return loss if loss.delta(eps) <= dlt else None

    low, high = 0.0, 1e-9
    loss = certified(low) or certified(high)
    while loss is None:
        low, high = high, 2 * high
        if high > 2**20:
            raise ParameterError(
                f"no discrete Gaussian is certified at ε={_exact.show(eps)}, δ={_exact.show(dlt)}",
                hint='rho="0.5"',
            )
        loss = certified(high)
    while high - low > 1e-3 * high and high > 1e-6:
        middle = (low + high) / 2
        better = certified(middle)
        low, high, loss = (low, middle, better) if better else (middle, high, loss)
    return noise.DiscreteGaussian.from_variance(loss.sigma2), loss


def _choose_step(
    values: Values, sensitivity: Fraction, scale: Fraction, step: Number | None, *, whole: bool
) -> Fraction:
    if step is not None:
        return _lattice.read_step(step)
    if values.integer and whole:
        return Fraction(1)
    return _lattice.fine_step(sensitivity / values.size, scale)


def _l2_squared(values: Values, sensitivity: Fraction, step: Fraction) -> Fraction:
    """Squared L2 sensitivity in steps, rounding included."""
    m = sensitivity / step
    if values.size == 1:
        return Fraction(math.ceil(m) ** 2)
    if not _lattice.is_exact(values, step):
        return (m + sqrt_up(Fraction(values.size))) ** 2
    return Fraction(round(m * m)) if _is_root(m) else m * m


def _is_root(m: Fraction) -> bool:
    """Tell whether m stands for the root of an integer, as the double sqrt(3) does.

    Distances between integer vectors are such roots; the double nearest to √3 lies just
    below it, and that sliver would be a false sensitivity.
    """
    square = m * m
    nearest = round(square)
    return nearest > 0 and abs(square - nearest) <= Fraction(nearest, 2**50)


def _release(
    values: Values,
    law: Any,
    step: Fraction,
    loss: p.PrivacyLoss,
    *,
    mechanism: str,
    price: str,
) -> Release:
    k = _lattice.quantise(values, step)
    z = law.sample(values.size)
    return Release(
        value=_lattice.to_units(_lattice.add(k, z), step, values.shape),
        law=law,
        step=step,
        loss=loss,
        mechanism=mechanism,
        price=price,
        rounded=not _lattice.is_exact(values, step),
        tainted=tainted(z),
    )
