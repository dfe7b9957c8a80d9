r"""Many exact coins and dice at about one random byte each.

A coin of rational probability :math:`p` compares a uniform real :math:`U` with
:math:`p`, digit by digit in base 256. One byte decides unless it equals the
leading byte of :math:`p` (once in 256 draws); then the remaining digits of
:math:`U` are compared with the remaining fraction :math:`256p - \lfloor 256p
\rfloor`, first by one 64-bit word and, should that tie too (once in
:math:`2^{64}`), by a uniform integer below the denominator. No digit of
:math:`p` is dropped, so the law is exactly Bernoulli(:math:`p`).

A die with :math:`n` faces multiplies a uniform :math:`w`-bit word by :math:`n` and keeps
the high part; the :math:`2^w \bmod n` low parts that would favour some faces are
drawn again (Lemire, "Fast random integer generation in an interval", 2019).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._exact import Number, exact, show
from discreet.errors import Hint, ParameterError
from discreet.noise import _entropy
from discreet.noise._deterministic import mark
from discreet.noise._uniform import _uniform_array, count, uniform_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD = 1 << 64
_DIGITS = 8
"""Binary digits compared before the undecided words are sorted out."""


def bernoulli_many(p: Number, size: int) -> NDArray[np.bool_]:
    """Draw `size` independent booleans, each True with probability exactly `p`.

    Parameters
    ----------
    p
        A rational from 0 to 1; a float is the binary number it is.
    size
        How many.

    Examples
    --------
    >>> bernoulli_many("1/3", 5).shape, bernoulli_many(1, 2).tolist()
    ((5,), [True, True])
    """
    chance = exact(p, "p")
    if not 0 <= chance <= 1:
        raise ParameterError(
            f"p must lie between 0 and 1, got {show(chance)}", hint=Hint("p", "0.5")
        )
    n = count(size)
    if chance == 1:
        return mark(np.ones(n, dtype=bool))
    digit, rest = divmod(chance * 256, 1)
    digits = _small_words(n, np.dtype(np.uint8))
    out = digits < int(digit)
    if rest:
        ties = np.flatnonzero(digits == int(digit))
        out[ties] = _below_fraction(rest, ties.size)
    return mark(out)


def _below_fraction(rest: Fraction, n: int) -> NDArray[np.bool_]:
    """Compare fresh uniform reals with `rest`, a rational in (0, 1)."""
    digit, last = divmod(rest * _WORD, 1)
    words = _entropy.current().words(n)
    out = words < np.uint64(int(digit))
    if last:
        for i in np.flatnonzero(words == np.uint64(int(digit))).tolist():
            out[i] = uniform_below(last.denominator) < last.numerator
    return out


def bernoulli_bits(p: Number, words: int) -> NDArray[np.uint64]:
    """Draw 64·`words` independent bits, each 1 with probability exactly `p`, packed.

    All 64 uniform reals of a word are compared with `p` at once, one binary digit
    after the other: where p has a 1, a lane that draws 0 is decided (smaller);
    where p has a 0, a lane that draws 1 is (larger). After eight digits one word in four still
    has an undecided lane, and only those go on, for as long as it takes.

    Examples
    --------
    >>> bernoulli_bits(1, 2).tolist() == [2**64 - 1] * 2, bernoulli_bits("1/3", 4).shape
    (True, (4,))
    """
    rest = exact(p, "p")
    if not 0 <= rest <= 1:
        raise ParameterError(f"p must lie between 0 and 1, got {show(rest)}", hint=Hint("p", "0.5"))
    n = count(words)
    out = np.zeros(n, dtype=np.uint64)
    if rest == 1:
        return mark(~out)
    stream = _entropy.current().stream()
    lanes, where = ~out, np.arange(n)
    while rest and where.size:
        bits = np.empty(where.size, dtype=np.uint64)
        part = out[where]
        for _ in range(_DIGITS):
            if not rest:
                break
            stream.fill(bits)
            digit, rest = divmod(2 * rest, 1)
            # a lane stays open where the drawn bit equals p's; uniform bits serve either way
            bits &= lanes
            if digit:
                lanes ^= bits
                part |= lanes
            lanes, bits = bits, lanes
        out[where] = part
        survivors = np.flatnonzero(lanes)
        where, lanes = where[survivors], lanes[survivors]
    return mark(out)


def uniform_many(n: int, size: int) -> NDArray[Any]:
    """Draw `size` independent uniform integers from 0, …, `n` − 1, in the least unsigned type.

    Examples
    --------
    >>> rolls = uniform_many(6, 1000)
    >>> rolls.dtype, sorted(set(rolls.tolist()))
    (dtype('uint8'), [0, 1, 2, 3, 4, 5])
    """
    faces, size = int(n), count(size)
    if faces < 1:
        raise ParameterError(f"n must be at least 1, got {faces}", hint=Hint("n", 6))
    if faces > 1 << 63:
        raise ParameterError("n must be at most 2^63", hint="uniform_below(n, size)")
    kind = np.min_scalar_type(faces - 1)
    if not faces & (faces - 1):
        words = _small_words(size, kind)
        words &= kind.type(faces - 1)
        return mark(words)
    if faces > 1 << 24:
        return mark(_uniform_array(faces, (faces - 1).bit_length(), size).astype(kind))
    return mark(_lemire(faces, size).astype(kind))


def _lemire(n: int, size: int) -> NDArray[Any]:
    """Draw below `n` ≤ 2^24 from words twice as wide as the type that holds n."""
    narrow, wide = ("u2", "u4") if n <= 1 << 8 else ("u4", "u8")
    kind = np.dtype(narrow)
    width = kind.itemsize * 8
    biased = (1 << width) % n
    product: NDArray[Any] = _small_words(size, kind).astype(wide)
    product *= n
    pending = np.flatnonzero(product.astype(narrow) < biased)
    while pending.size:
        again: NDArray[Any] = _small_words(pending.size, kind).astype(wide)
        again *= n
        product[pending] = again
        pending = pending[again.astype(narrow) < biased]
    product >>= width
    return product


def _small_words(n: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return `n` uniform words of an unsigned type, cut from 64-bit ones."""
    per_word = 8 // kind.itemsize
    return _entropy.current().words(-(-n // per_word)).view(kind)[:n]
