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
  Rényi divergence α‖k−k'‖²/(2σ²) (Canonne, Kamath, Steinke 2020), so
  σ² = m²/(2ρ) is exact.
* :func:`gaussian` with ``epsilon`` and ``delta`` takes the least variance at which the
  loss of the *discrete law that is drawn* is certified within (ε, δ)
  (:func:`discreet.privacy.discrete_gaussian_variance`). The classical √(2 ln(1.25/δ)) rule
  is never used: it is loose for small ε and false for large ε.

Assumptions: the stated sensitivity is true of the query, and ``integer=True`` is said of
queries that return whole numbers on every data set. The lattice follows from what the
caller states, never from the value or its type: ``statistics.mean`` of integers is
sometimes an int and sometimes not, and a lattice that followed would say which. A cell
that is no integer although the query was called one is rounded like any other.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from discreet import _exact, noise
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.mechanisms import _lattice
from discreet.mechanisms._calls import recorded
from discreet.mechanisms._lattice import Values
from discreet.mechanisms._parameters import read_sensitivity, sqrt_up
from discreet.mechanisms._release import Release, tainted
from discreet.privacy import read_neighbours


@recorded("l1")
def laplace(
    value: Any,
    sensitivity: Number,
    epsilon: Number,
    *,
    step: Number | None = None,
    integer: bool = False,
    neighbours: p.Neighbours | str | None = None,
) -> Release:
    """Add discrete Laplace noise of scale about Δ/ε: ε-DP.

    Parameters
    ----------
    value
        Private answer: a number or an array of numbers.
    sensitivity
        Public bound Δ on the L1 change of `value` between neighbours.
    epsilon
        Privacy parameter.
    step
        Public lattice step. By default 1 for integer queries, otherwise a power of
        two some 2^20 times finer than the noise.
    integer
        State that the query returns whole numbers on every data set: they are then
        not rounded, and stay integers.
    neighbours
        The relation under which Δ was computed; it labels the loss.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> count = m.laplace(1000, 1, "0.1", integer=True, neighbours="add-remove")
    >>> abs(count.value - 1000) < 500
    True
    >>> count.loss.epsilon()
    0.1
    """
    eps, delta_1 = _exact.epsilon(epsilon), read_sensitivity(sensitivity)
    relation = read_neighbours(neighbours)
    query = _Query.read(value, delta_1, delta_1 / eps, step, integer=integer)
    return _laplace_on(query, delta_1, eps, relation=relation, name="laplace")


@recorded("l1")
def geometric(
    value: Any,
    sensitivity: Number,
    epsilon: Number,
    *,
    neighbours: p.Neighbours | str | None = None,
) -> Release:
    """Add two-sided geometric noise to integers: ε-DP.

    Pr[k] = p/(2−p)·(1−p)^|k| with p = 1 − e^{−ε/Δ}; the same law as
    :func:`laplace` with ``integer=True``. Other numbers are rounded to integers before
    the noise: integer noise on thirds would leave neighbours with disjoint supports.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.geometric(3, sensitivity=1, epsilon=1).law
    DiscreteLaplace(scale=1)
    >>> type(m.geometric(1 / 3, sensitivity=1, epsilon=1).value)
    <class 'int'>
    """
    eps, delta_1 = _exact.epsilon(epsilon), read_sensitivity(sensitivity)
    relation = read_neighbours(neighbours)
    query = _Query(_lattice.read_values(value), Fraction(1), integer=True)
    return _laplace_on(query, delta_1, eps, relation=relation, name="geometric")


@dataclass(frozen=True, slots=True)
class _Query:
    """Private cells, their public lattice, and whether the caller calls them integers."""

    values: Values
    step: Fraction
    integer: bool

    @classmethod
    def read(
        cls,
        value: Any,
        sensitivity: Fraction,
        scale: Fraction,
        step: Number | None,
        *,
        integer: bool,
    ) -> _Query:
        """Read the cells and choose the lattice from public facts."""
        values = _lattice.read_values(value)
        if step is not None:
            grid = _lattice.read_step(step)
        elif integer:
            grid = Fraction(1)
        else:
            grid = _lattice.fine_step(sensitivity / max(values.size, 1), scale)
        return cls(values, grid, bool(integer))

    @property
    def exact(self) -> bool:
        """Whether rounding changes nothing."""
        return _lattice.is_exact(self.step, integer=self.integer)

    def l2_squared(self, sensitivity: Fraction) -> Fraction:
        """Squared L2 sensitivity in steps, rounding included."""
        m, size = sensitivity / self.step, self.values.size
        if size <= 1:
            return Fraction(math.ceil(m) ** 2)
        if not self.exact:
            return (m + sqrt_up(Fraction(size))) ** 2
        return Fraction(round(m * m)) if _is_root(m) else m * m


def _laplace_on(
    query: _Query,
    sensitivity: Fraction,
    eps: Fraction,
    *,
    relation: p.Neighbours | None,
    name: str,
) -> Release:
    m = _lattice.l1_on_lattice(query.values.size, sensitivity, query.step, integer=query.integer)
    law = noise.DiscreteLaplace(m / eps)
    # holds for vectors too: the shift of one cell by m dominates any way of spreading it
    loss = p.DiscreteLaplace(m / eps, m).under(relation)
    return _release(query, law, loss, mechanism=name, price=f"ε={_exact.show(eps)}")


@recorded("l2")
def gaussian(
    value: Any,
    sensitivity: Number,
    epsilon: Number | None = None,
    delta: Number | None = None,
    *,
    rho: Number | None = None,
    step: Number | None = None,
    integer: bool = False,
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
    step, integer, neighbours
        As for :func:`laplace`.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> answer = m.gaussian(1000, sensitivity=1, epsilon=1, delta="1e-5")
    >>> answer.loss.delta(1) <= 1e-5
    True
    >>> m.gaussian([3, 5, 2], sensitivity=1, rho="0.5", integer=True).law.sigma2
    Fraction(1, 1)
    """
    delta_2, relation = read_sensitivity(sensitivity), read_neighbours(neighbours)
    if rho is not None and epsilon is None and delta is None:
        target = _exact.epsilon(rho, "rho")
        sigma = Fraction(float(delta_2)) / sqrt_up(2 * target)
        query = _Query.read(value, delta_2, sigma, step, integer=integer)
        m2 = query.l2_squared(delta_2)
        variance, price = m2 / (2 * target), f"ρ={_exact.show(target)}"
    elif rho is None and epsilon is not None and delta is not None:
        eps, dlt = _exact.epsilon(epsilon), _exact.delta(delta)
        sigma = Fraction(p.gaussian_sigma(float(delta_2), eps, dlt))
        query = _Query.read(value, delta_2, sigma, step, integer=integer)
        m2, cells = query.l2_squared(delta_2), max(query.values.size, 1)
        variance = p.discrete_gaussian_variance(m2, eps, dlt, coordinates=cells)
        price = f"ε={_exact.show(eps)}, δ={_exact.show(dlt)}"
    else:
        raise ParameterError(
            "gaussian needs either epsilon and delta, or rho",
            hint=Hint("epsilon", "1").also("delta", "1e-6"),
        )
    law = noise.DiscreteGaussian.from_variance(variance)
    loss = p.DiscreteGaussian.from_variance(variance, m2, max(query.values.size, 1))
    return _release(query, law, loss.under(relation), mechanism="gaussian", price=price)


def _is_root(m: Fraction) -> bool:
    """Tell whether m stands for the root of an integer, as the double sqrt(3) does.

    Distances between integer vectors are such roots; the double nearest to √3 lies just
    below it, and that sliver would be a false sensitivity.
    """
    square = m * m
    nearest = round(square)
    return nearest > 0 and abs(square - nearest) <= Fraction(nearest, 2**50)


def _release(
    query: _Query, law: Any, loss: p.PrivacyLoss, *, mechanism: str, price: str
) -> Release:
    k = _lattice.quantise(query.values, query.step)
    z = law.sample(query.values.size)
    return Release(
        value=_lattice.to_units(_lattice.add(k, z), query.step, query.values.shape),
        law=law,
        step=query.step,
        loss=loss,
        mechanism=mechanism,
        price=price,
        rounded=not query.exact,
        tainted=tainted(z),
    )
