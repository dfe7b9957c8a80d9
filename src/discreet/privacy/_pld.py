"""Composed privacy-loss distributions by exponentially tilted convolution.

The task: given grids (see :mod:`discreet.privacy._pair`) with counts, bound

    δ(ε) = δ_∞ + Σ_{l>ε} p_l (1 − e^{ε−l}),   p = ⊛ᵢ pᵢ^{⊛kᵢ},   δ_∞ = 1 − ∏(1−δ_{∞,i})^{kᵢ}

from above. A plain FFT has absolute error near 1e-16 and is useless (and unsound)
for small δ. Instead every factor is *tilted*, p̃ᵢ(l) = pᵢ(l)e^{λl}/Mᵢ(λ), with λ such
that the mean of the composed tilted law sits at the ε in question. Tilting
commutes with convolution and

    δ(ε) − δ_∞ = e^{K(λ)−λε} · Σ_{l>ε} p̃_l w(l−ε),   w(x) = e^{−λx}(1−e^{−x}),  K = Σkᵢ ln Mᵢ,

so the error relative to δ is what the FFT does near the bulk of p̃.

Error bounds, all added to δ
----------------------------
* *Window.* The convolution is circular of length N on [lo, lo+N). Mass outside
  is folded in, which only adds. Mass above the window is lost from its true
  place and at most e^{−λ(top−ε)}·P̃(L > top) is added back, bounded by Chernoff:
  P̃(L > top) ≤ e^{K(λ+t)−K(λ)−t·top} for any t > 0.
* *Rounding of the transform.* In a fast Fourier transform each output is a sum
  of inputs times products of at most log₂N accurate twiddles, so it errs by at
  most c·u·log₂N·‖p̃‖₁; c = 16 leaves room for the radices in use. With factors
  F̃ⱼ off by at most φ, |∏F̃−∏F| ≤ Σkⱼ φ ∏(|F̃|+φ)/min(|F̃|+φ) per frequency, evaluated
  from the computed transforms. Parseval turns it into an ℓ2 and Cauchy–Schwarz
  into an ℓ1 error e₁ of p̃, which changes the sum by at most e₁·max w,
  max w = (λ/(1+λ))^λ/(1+λ).
* *Many different losses* are first multiplied in blocks on short transforms;
  their ℓ1 errors add because the other factors have ℓ1 norm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from discreet._dataclass import dataclass
from discreet._exact import ceil_float, turning
from discreet._lazy import fft, special
from discreet.privacy._loss import ULP, Array
from discreet.privacy._pair import Atoms, Grid

_BLOCK = 16
_NEGLIGIBLE = -38.0  # ln of the tilted mass that may stay outside the window
_WIDTHS = (7.5, 9.0, 11.0, 14.0, 20.0, 30.0, 50.0, 80.0, 130.0, 200.0, 400.0)
_NEAR = 1e-4  # relative movement of ε by error terms that is not worth another window
_LONGEST = 1 << 22  # cells on either side of the mean


@dataclass(frozen=True, slots=True)
class Cumulant:
    """K(λ) of a composition with its first two derivatives."""

    value: float
    mean: float
    variance: float


class Composed:
    """Grids with counts on one common step: the composition to be evaluated."""

    def __init__(self, terms: Sequence[tuple[Grid, int]], step: Fraction) -> None:
        self.terms = tuple(terms)
        self.step = float(step)
        self._exact_step = step
        self.count = sum(k for _, k in terms)
        self._offset = sum((k * t.offset for t, k in terms), Fraction(0))
        self._start = sum(k * t.start for t, k in terms)
        log_kept = sum(k * math.log1p(-min(t.infinite, 1.0)) for t, k in terms if t.infinite < 1)
        certain = any(t.infinite >= 1 for t, _ in terms)
        self.infinite = 1.0 if certain else -math.expm1(log_kept) * (1 + 2.0**-44)
        lengths = [len(t.masses) for t, _ in terms]
        self._bounds = np.concatenate([[0], np.cumsum(lengths)])
        self._index = np.concatenate([np.arange(n, dtype=np.float64) for n in lengths])
        with np.errstate(divide="ignore"):
            self._log_masses = np.log(np.concatenate([t.masses for t, _ in terms]))
        self._counts = np.array([k for _, k in terms], dtype=np.float64)
        self._steps = sum(k * (n - 1) for n, (_, k) in zip(lengths, terms, strict=True))

    @property
    def top(self) -> float:
        """The largest composed loss, rounded up; beyond it only the mass at infinity is left."""
        return self.loss_at(self._steps)

    def loss_at(self, index: int) -> float:
        """Return the composed loss at a (relative) grid index, rounded up."""
        return ceil_float(self._offset + self._exact_step * (self._start + index))

    def cumulant(self, tilt: float) -> Cumulant:
        """Return K and its derivatives in units of loss, relative to index 0."""
        logs, weights = self._tilted(tilt)
        starts = self._bounds[:-1]
        first = np.add.reduceat(weights * self._index, starts)
        second = np.add.reduceat(weights * self._index**2, starts)
        variance = np.maximum(second - first**2, 0.0)
        g = self.step
        return Cumulant(
            float(self._counts @ logs),
            g * float(self._counts @ first),
            g * g * float(self._counts @ variance),
        )

    def _tilted(self, tilt: float) -> tuple[Array, Array]:
        """Return ln Mᵢ(λ) (loss measured from each grid's start) and all p̃ᵢ."""
        exponents = self._log_masses + tilt * self.step * self._index
        starts = self._bounds[:-1]
        peak = np.maximum.reduceat(exponents, starts)
        lengths = np.diff(self._bounds)
        weights = np.exp(exponents - np.repeat(peak, lengths))
        totals = np.add.reduceat(weights, starts)
        weights /= np.repeat(totals, lengths)
        return peak + np.log(totals), weights

    # -- choosing the tilt -------------------------------------------------------

    def tilt_for_delta(self, delta: float) -> float:
        """Return λ ≥ 0 whose tilted mean is near the ε of this δ (a saddle point)."""
        target = math.log(delta)

        def log_delta(tilt: float) -> float:
            k = self.cumulant(tilt)
            s = math.sqrt(max(k.variance, 1e-300))
            root = math.sqrt(math.pi / 2)
            near = root * special.erfcx(tilt * s / math.sqrt(2))
            far = root * special.erfcx((tilt + 1) * s / math.sqrt(2))
            tail = math.log(max(near - far, 1e-300) / math.sqrt(2 * math.pi))
            return k.value - tilt * k.mean + tail

        return _search(log_delta, target, self._first_tilt())

    def tilt_for_loss(self, epsilon: float) -> float:
        """Return λ ≥ 0 whose tilted mean is `epsilon`."""
        aim = epsilon - self.loss_at(0)
        return _search(lambda tilt: -self.cumulant(tilt).mean, -aim, self._first_tilt())

    def _first_tilt(self) -> float:
        return 4.0 / math.sqrt(max(self.cumulant(0.0).variance, 1e-300))

    # -- the window ----------------------------------------------------------------

    def window(self, tilt: float) -> Window:
        """Convolve the tilted factors on a window around their mean."""
        assert tilt >= 0  # the window's bound on what its error adds
        k = self.cumulant(tilt)
        low, high, log_above = self._extent(tilt, k)
        size = fft.next_fast_len(max(high - low + 1, 2), real=True)
        weights = self._tilted(tilt)[1]
        masses, error = _convolve(
            [
                (weights[a:b], c)
                for a, b, (_, c) in zip(
                    self._bounds[:-1], self._bounds[1:], self.terms, strict=True
                )
            ],
            size,
        )
        masses = np.roll(masses, -(low % size))
        # rounding of exponents and logarithms, as a factor on δ
        scale = self.count * (4 + tilt * self.step * float(self._index.max())) + abs(k.value)
        base = self.loss_at(low)
        log_scale = k.value - tilt * (base - self.loss_at(0)) + 16 * ULP * scale
        log_above -= tilt * self.step * (size - 1)
        return Window(base, self.step, tilt, masses, error, log_scale, log_above, self.infinite)

    def _extent(self, tilt: float, k: Cumulant) -> tuple[int, int, float]:
        """Return the index range that holds all but a negligible tilted mass."""
        s = math.sqrt(max(k.variance, 1e-300))
        low, _ = self._end(tilt, k, -1, s)
        high, log_above = self._end(tilt, k, 1, s)
        return low, high, log_above

    def _end(self, tilt: float, k: Cumulant, sign: int, s: float) -> tuple[int, float]:
        index, outside = 0, 0.0
        for width in _WIDTHS:
            place = (k.mean + sign * width * s) / self.step
            index = math.floor(place) if sign < 0 else math.ceil(place)
            if index <= 0 or index >= self._steps:  # the whole support is inside
                return (0 if sign < 0 else self._steps), -math.inf
            if abs(index - k.mean / self.step) > _LONGEST:
                break
            outside = self._log_chernoff(tilt, k, sign, index * self.step, width / s)
            if outside < _NEGLIGIBLE:
                break
        return index, outside

    def _log_chernoff(
        self, tilt: float, k: Cumulant, sign: int, place: float, guess: float
    ) -> float:
        """Bound the ln of the mass beyond `place`: every t is valid, the bound is convex in t.

        The guess is right for a Gaussian tail; a heavier one wants a smaller t.
        """
        best, t = 0.0, guess
        for _ in range(40):
            bound = self.cumulant(tilt + sign * t).value - k.value - sign * t * place
            if bound > best and best < 0:
                break
            best = min(best, bound)
            if best < _NEGLIGIBLE:
                break
            t *= 0.6
        return best


def _search(f: Callable[[float], float], target: float, first: float) -> float:
    """Find λ ≥ 0 with a decreasing function near target; rough is good enough."""
    low, at_low = 0.0, f(0.0)
    if at_low <= target:
        return 0.0
    high = first
    at_high = f(high)
    for _ in range(30):
        if at_high <= target:
            break
        low, at_low = high, at_high
        high *= 2
        at_high = f(high)
        if at_high >= at_low:  # it falls no further: any λ is valid, a larger one is no better
            return low
    mid = high
    for turn in range(40):
        # the chord when it is going well, the middle every other time in case it is not
        rise = at_low - at_high
        share = (at_low - target) / rise if turn % 2 == 0 and rise > 0 else 0.5
        mid = low + min(max(share, 0.02), 0.98) * (high - low)
        value = f(mid)
        if abs(value - target) < 0.02 * abs(target) + 1e-3 or high - low < 1e-3 * high:
            break
        if value > target:
            low, at_low = mid, value
        else:
            high, at_high = mid, value
    return float(mid)


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A composed tilted law on base + i·step, with every error bound it needs."""

    base: float
    step: float
    tilt: float
    masses: Array
    error: float
    log_scale: float
    log_above: float
    infinite: float

    def delta(self, epsilon: float) -> float:
        """Return a rigorous upper bound on δ(ε), for ε ≥ the window's base."""
        # losses are rounded up and ε down: both directions raise δ
        size = len(self.masses) * self.step
        distance = (epsilon - self.base) - 4 * ULP * (abs(epsilon) + abs(self.base) + size)
        first = max(0, math.floor(distance / self.step))
        x = np.maximum(np.arange(first, len(self.masses)) * self.step - distance, 0.0)
        inner = float(np.sum(self.masses[first:] * np.exp(-self.tilt * x) * -np.expm1(-x)))
        t = self.tilt
        peak = math.exp(t * math.log(t / (1 + t))) / (1 + t) if t > 0 else 1.0
        # log_above already carries the tilt from base to the end of the window
        above = math.exp(min(self.log_above + t * distance, 0.0))
        log_factor = self.log_scale - t * distance
        total = inner * (1 + 2.0**-40) + self.error * peak + above
        if total <= 0:
            return self.infinite
        log_finite = log_factor + math.log(total)
        return min(1.0, self.infinite + math.exp(min(log_finite, 0.0)) * (1 + 2.0**-44))

    def solve(self, target: float, *, loose: bool = False) -> float | None:
        """Return an ε in the window with δ(ε) ≤ target, as small as can be shown; else None.

        `loose` accepts one that the error terms have moved further than a hair's breadth.
        """
        floor = max(self.base, 0.0)
        if self.delta(floor) <= target:
            return 0.0 if floor == 0.0 else None
        guess = self._guess(target)
        if guess is None:
            return None
        # the guess ignores the error terms: step up until the bound itself agrees
        bump = 2.0**-44 * (1 + abs(guess))
        limit = 0.2 * (1 + abs(guess)) if loose else max(2 * self.step, _NEAR * abs(guess))
        while bump < limit:
            if self.delta(guess + bump) <= target:
                return guess + bump
            bump *= 1.5 if loose else 4
        return None

    def _guess(self, target: float) -> float | None:
        """Solve δ(ε) = target on the computed masses alone.

        Between grid points δ(ε) − δ_∞ is A − B·e^ε with A, B sums over the losses above.
        """
        log_left = math.log(max(target - self.infinite, 1e-320)) - self.log_scale
        grid = self.step * np.arange(len(self.masses))
        falling = self.masses * np.exp(-self.tilt * grid)
        head = np.cumsum(falling[::-1])[::-1]
        tail = np.cumsum((falling * np.exp(-grid))[::-1])[::-1]
        gap = math.exp(min(log_left, 700.0))
        with np.errstate(over="ignore", invalid="ignore"):
            above = head - np.exp(grid) * tail > gap
        last = int(np.flatnonzero(above)[-1]) + 1 if above.any() else 0
        if last >= len(grid) or tail[last] <= 0:
            return None
        x = math.log(max((head[last] - gap) / tail[last], 1e-300))
        return self.base + float(np.clip(x, grid[max(last - 1, 0)], grid[last]))


@dataclass(frozen=True, slots=True, eq=False)
class Enumerated:
    """A composition small enough to list: losses in rising order, and their masses."""

    losses: Array
    masses: Array
    infinite: float

    @classmethod
    def of(cls, factors: Sequence[Atoms]) -> Enumerated:
        """Add up every choice of one atom from each factor."""
        losses, masses, log_kept, size = np.zeros(1), np.ones(1), 0.0, 0.0
        for f in factors:
            own = float(f.offset) + np.arange(len(f.masses)) * float(f.spacing)
            losses = (losses[:, None] + own[None, :]).ravel()
            masses = (masses[:, None] * f.masses[None, :]).ravel()
            log_kept += math.log1p(-f.infinite)
            size += float(np.abs(own).max()) + abs(float(f.offset))
        order = np.argsort(losses)
        rounding = 4 * ULP * len(factors)
        infinite = -math.expm1(log_kept) * (1 + rounding)
        return cls(losses[order] + rounding * size, masses[order] * (1 + rounding), infinite)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on δ(ε)."""
        first = int(np.searchsorted(self.losses, epsilon))
        terms = self.masses[first:] * -np.expm1(epsilon - self.losses[first:])
        return min(1.0, self.infinite + float(terms.sum()) * (1 + 2.0**-44))

    def solve(self, target: float) -> float:
        """Return the least ε (rounded up) with δ(ε) ≤ target, inf if there is none."""
        low, high = 0.0, math.nextafter(max(float(self.losses[-1]), 0.0), math.inf)
        if self.delta(high) > target:
            return math.inf
        if self.delta(low) <= target:
            return low
        return turning(lambda e: self.delta(e) <= target, low, high, 4 * ULP)[1]


def _transform_error(size: int) -> float:
    return 16 * 2.0**-53 * math.log2(max(size, 2))


def _convolve(factors: Sequence[tuple[Array, int]], size: int) -> tuple[Array, float]:
    """Return the circular convolution of all factors and a bound on its ℓ1 error."""
    single = [_fold(w, size) for w, k in factors if k == 1]
    error = 0.0
    while len(single) > _BLOCK:
        single, more, progress = _merge_blocks(single, size)
        error += more
        if not progress:
            break
    work = [(w, 1) for w in single] + [(_fold(w, size), k) for w, k in factors if k > 1]
    phi = _transform_error(size)
    product: npt.NDArray[np.complex128] | None = None
    log_bound = np.zeros(size // 2 + 1)
    least = np.full(size // 2 + 1, np.inf)
    for weights, k in work:
        transform = fft.rfft(weights, size)
        magnitude = np.abs(transform) + phi
        log_bound += k * np.log(magnitude)
        np.minimum(least, magnitude, out=least)
        powered = _power(transform, k)
        product = powered if product is None else product * powered
    assert product is not None
    total = sum(k for _, k in work)
    per_frequency = total * (phi + 4 * ULP) * np.exp(np.minimum(log_bound, 0.0)) / least
    # both halves of the spectrum
    l2 = math.sqrt(2 * float(np.sum(np.minimum(per_frequency, 2.0) ** 2)) / size)
    masses = fft.irfft(product, size)
    l2 += phi * float(np.linalg.norm(masses)) + phi * l2
    return np.maximum(masses, 0.0), error + math.sqrt(size) * l2


def _merge_blocks(factors: list[Array], size: int) -> tuple[list[Array], float, bool]:
    """Multiply neighbours in size in blocks, as long as a block fits the window."""
    ordered = sorted(factors, key=len)
    merged: list[Array] = []
    error, progress = 0.0, False
    for i in range(0, len(ordered), _BLOCK):
        block = ordered[i : i + _BLOCK]
        length = sum(len(w) - 1 for w in block) + 1
        if len(block) == 1 or length > size:
            merged.extend(block)
            continue
        n = fft.next_fast_len(length, real=True)
        stack = np.zeros((len(block), n))
        for row, w in zip(stack, block, strict=True):
            row[: len(w)] = w
        product = np.prod(fft.rfft(stack, axis=1), axis=0)
        merged.append(np.maximum(fft.irfft(product, n)[:length], 0.0))
        error += math.sqrt(n) * (len(block) + 1) * (_transform_error(n) + 4 * ULP) * 1.01
        progress = True
    return merged, error, progress


def _fold(weights: Array, size: int) -> Array:
    """Wrap a factor longer than the window: circular convolution would do the same."""
    if len(weights) <= size:
        return weights
    padded = np.zeros(-(-len(weights) // size) * size)
    padded[: len(weights)] = weights
    return np.asarray(padded.reshape(-1, size).sum(axis=0))


def _power(z: npt.NDArray[np.complex128], k: int) -> npt.NDArray[np.complex128]:
    """Raise to a positive power by squaring: relative error at most ~3k ulp."""
    result: npt.NDArray[np.complex128] | None = None
    while True:
        if k & 1:
            result = z if result is None else result * z
        k >>= 1
        if not k:
            assert result is not None
            return result
        z = z * z
