r"""Exact draws that need no table: uniform, Bernoulli, permutation, softmax.

Every function here draws from exactly the stated law. Real probabilities are
compared with a uniform real by :mod:`discreet.noise._compare`: first in floating
point with an error bound far above the true error, then, when that cannot
decide (less than once in 10⁹ draws), in exact arithmetic with fresh bits. No
probability is ever rounded to 0 or 1.

:func:`categorical_exp` proposes candidate i with integer weight
:math:`q_i \ge 2^B e^{e_i - e_{max}}` and accepts it with probability
:math:`2^B e^{e_i - e_{max}} / q_i`; an accepted candidate therefore has
probability proportional to :math:`e^{e_i}` exactly. Since every
:math:`q_i \ge 1`, every candidate can be drawn.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from discreet._dataclass import dataclass
from discreet._exact import Number, exact, show
from discreet.errors import Hint, ParameterError
from discreet.noise import _entropy
from discreet.noise._compare import below_scaled_exp
from discreet.noise._deterministic import mark, mark_int

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Exponents: TypeAlias = NDArray[Any] | Sequence[Number]

MARGIN = 2.0**-38
"""Relative error allowed to float exp(−y) of a rational y ≤ 700, itself in error by a few
units in the last place: 700·8·2⁻⁵³ + 4·2⁻⁵³ < 2⁻³⁹."""
FLOOR = 1e-300
"""Absolute error allowed where exp(−y) is subnormal or underflows (y > 690)."""


def random_words(n: int) -> NDArray[np.uint64]:
    """Return `n` independent uniform 64-bit words.

    >>> random_words(3).dtype, random_words(3).shape
    (dtype('uint64'), (3,))
    """
    return mark(_entropy.current().words(count(n)))


@overload
def uniform_below(n: int) -> int: ...
@overload
def uniform_below(n: int, size: int) -> NDArray[Any]: ...
def uniform_below(n: int, size: int | None = None) -> int | NDArray[Any]:
    """Draw uniform integers from 0, …, `n` − 1.

    Parameters
    ----------
    n
        How many integers there are; of any size.
    size
        Draw an array of this length instead of one integer.

    Examples
    --------
    >>> 0 <= uniform_below(10**30) < 10**30
    True
    >>> sorted(set(uniform_below(3, 1000).tolist()))
    [0, 1, 2]
    """
    n = int(n)
    if n < 1:
        raise ParameterError(f"n must be at least 1, got {n}")
    width = (n - 1).bit_length()
    if size is None:
        while (value := _entropy.bits(width) if width else 0) >= n:
            pass
        return mark_int(value)
    if width > 63:
        return mark(np.array([int(uniform_below(n)) for _ in range(count(size))], dtype=object))
    return mark(_uniform_array(n, width, count(size)))


def _uniform_array(n: int, width: int, size: int) -> NDArray[np.int64]:
    source = _entropy.current()
    out = np.zeros(size, dtype=np.int64)
    pending = np.arange(size if width else 0)
    while pending.size:
        values = (source.words(pending.size) >> np.uint64(64 - width)).astype(np.int64)
        out[pending] = values
        pending = pending[values >= n]
    return out


def bernoulli(p: Number) -> bool:
    """Return True with probability exactly `p`.

    >>> bernoulli("1"), bernoulli(0)
    (True, False)
    """
    p = exact(p, "p")
    if not 0 <= p <= 1:
        raise ParameterError(f"p must lie between 0 and 1, got {show(p)}", hint=Hint("p", "0.5"))
    return uniform_below(p.denominator) < p.numerator


def permutation(n: int) -> NDArray[np.int64]:
    """Draw a uniform permutation of 0, …, `n` − 1.

    Sorting independent uniform words orders them uniformly, provided they are
    distinct; if two are equal all are drawn again.

    >>> sorted(permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    n = count(n)
    source = _entropy.current()
    while True:
        keys = source.words(n)
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return mark(order)


@dataclass(frozen=True, slots=True)
class _Exponents:
    """Exponents y ≥ 0: doubles good to 3 units in the last place, and exact on demand."""

    approximate: NDArray[np.float64]
    exact: Any
    denominator: Fraction
    origin: Any = 0

    def __getitem__(self, i: int) -> Fraction:
        value = self.exact[i]
        number = Fraction(value.item() if isinstance(value, np.generic) else value)
        return (self.origin - number if self.origin is not None else number) / self.denominator


def _numbers(values: Exponents, denominator: Number, name: str) -> tuple[NDArray[Any], Fraction]:
    """Return `values` as a one-dimensional array of floats, ints or Fractions."""
    divisor = exact(denominator, "denominator")
    if divisor <= 0:
        raise ParameterError(f"denominator must be positive, got {show(divisor)}")
    array = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=object)
    if array.ndim != 1:
        raise ParameterError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
        if not np.isfinite(array).all():
            raise ParameterError(f"{name} must be finite")
    elif array.dtype.kind not in "iu":
        fractions = np.empty(array.shape, dtype=object)
        fractions[:] = [exact(x, name) for x in array]
        array = fractions
    elif array.size and max(abs(int(array.min())), abs(int(array.max()))) >= 1 << 61:
        array = array.astype(object)
    return np.asarray(array), divisor


def _approximate(y: NDArray[Any], divisor: Fraction) -> NDArray[np.float64]:
    if y.dtype.kind == "O":
        return np.array([_to_float(Fraction(v) / divisor) for v in y], dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(y.astype(np.float64) / _to_float(divisor))


def _to_float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return 1e308


def bernoulli_exp(x: Number) -> bool:
    """Return True with probability exactly exp(−`x`), x ≥ 0.

    >>> bernoulli_exp(0)
    True
    """
    return bool(bernoulli_exp_many([exact(x, "x")])[0])


def bernoulli_exp_many(numerators: Exponents, denominator: Number = 1) -> NDArray[np.bool_]:
    """Return an array of independent Bernoulli(exp(−numerators/denominator)), exactly.

    Parameters
    ----------
    numerators
        Integers, floats (taken as the binary numbers they are), Fractions or
        decimal strings, all ≥ 0.
    denominator
        A positive number that divides them all.

    Examples
    --------
    >>> bernoulli_exp_many([0, 10**9], 1)
    array([ True, False])
    """
    values, divisor = _numbers(numerators, denominator, "numerators")
    if (values < 0).any():
        raise ParameterError("numerators must not be negative")
    y = _Exponents(_approximate(values, divisor), values, divisor, None)
    words = _entropy.current().words(values.size)
    f = np.exp(-y.approximate)
    u = words * 2.0**-64
    accept = u * (1 + MARGIN) + 2.0**-60 < f * (1 - MARGIN) - FLOOR
    undecided = ~accept & (u < f * (1 + MARGIN) + FLOOR)
    for i in np.flatnonzero(undecided).tolist():
        accept[i] = below_scaled_exp(int(words[i]), y[i], Fraction(1))
    return mark(accept)


@overload
def categorical_exp(exponents: Exponents, denominator: Number = 1) -> int: ...
@overload
def categorical_exp(
    exponents: Exponents, denominator: Number = 1, *, size: int
) -> NDArray[np.int64]: ...
def categorical_exp(
    exponents: Exponents, denominator: Number = 1, *, size: int | None = None
) -> int | NDArray[np.int64]:
    """Draw index i with probability proportional to exp(exponents[i]/denominator), exactly.

    Parameters
    ----------
    exponents
        Integers, floats (taken as the binary numbers they are), Fractions or
        decimal strings, of either sign and any size.
    denominator
        A positive number that divides them all.
    size
        Draw an array of this many independent indices instead of one.

    Examples
    --------
    >>> categorical_exp([0, -10**6])
    0
    """
    values, divisor = _numbers(exponents, denominator, "exponents")
    if not values.size:
        raise ParameterError("exponents must not be empty")
    top = values.max()
    with np.errstate(over="ignore"):
        gaps = _approximate(top - values, divisor)
    origin = Fraction(top.item() if isinstance(top, np.generic) else top)
    y = _Exponents(gaps, values, divisor, origin)
    precision = 61 - values.size.bit_length()
    relative = np.exp(-y.approximate)
    weights = np.ceil(relative * (1 + MARGIN) * 2.0**precision).astype(np.int64) + 1
    cumulative = np.cumsum(weights)
    draw = _Softmax(y, relative, weights, cumulative, precision)
    if size is None:
        return mark_int(int(draw.sample(1)[0]))
    return mark(draw.sample(count(size)))


@dataclass(frozen=True, slots=True)
class _Softmax:
    y: _Exponents
    relative: NDArray[np.float64]
    weights: NDArray[np.int64]
    cumulative: NDArray[np.int64]
    precision: int

    def sample(self, n: int) -> NDArray[np.int64]:
        out = np.zeros(n, dtype=np.int64)
        pending = np.arange(n)
        while pending.size:
            out[pending], accepted = self._propose(pending.size)
            pending = pending[~accepted]
        return out

    def _propose(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        total = int(self.cumulative[-1])
        ticket = _uniform_array(total, (total - 1).bit_length(), n)
        index = np.searchsorted(self.cumulative, ticket, side="right")
        words = _entropy.current().words(n)
        u = words * 2.0**-64
        chance = self.relative[index] * 2.0**self.precision / self.weights[index]
        accept = u * (1 + MARGIN) + 2.0**-60 < chance * (1 - MARGIN) - FLOOR
        undecided = ~accept & (u < chance * (1 + MARGIN) + FLOOR * 2.0**self.precision)
        for j in np.flatnonzero(undecided).tolist():
            i = int(index[j])
            factor = Fraction(1 << self.precision, int(self.weights[i]))
            accept[j] = below_scaled_exp(int(words[j]), self.y[i], factor)
        return index, accept


def count(n: int) -> int:
    """Return `n` as a plain non-negative int, or refuse it."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise ParameterError(f"a count must be an integer, got {type(n).__name__}")
    if n < 0:
        raise ParameterError(f"a count must not be negative, got {n}")
    return int(n)
