"""Losses of additive noise: the law that is actually drawn, on its own lattice.

Shifts add up (why a scalar covers vectors)
-------------------------------------------
Let noise on ℤ have a symmetric log-concave pmf and cdf F. The likelihood ratio
of shift m against 0 is monotone, so the optimal tests are thresholds and the
trade-off curve f_m is the polygon through (1−F(k), F(k−m)), k ∈ ℤ. At these knots
f_b(1 − f_a(1−F(k))) = F(k−a−b), and both sides are linear between, hence
f_{a+b} = f_b∘(1−f_a). On the other hand for any laws P₀, P₁, P₂ with trade-off
curves at least f_a (P₀, P₁) and f_b (P₁, P₂), a test with E_{P₀}φ = α has
E_{P₁}φ ≤ 1−f_a(α) and so E_{P₂}(1−φ) ≥ f_b(1−f_a(α)). Moving a vector with
independent noise coordinate by coordinate, shifts m₁, …, m_d, therefore gives a
curve of at least f_{|m₁|+…+|m_d|}: *the scalar shift by the L1 distance dominates
every way of spreading it over coordinates*, and larger shifts dominate smaller
ones. So ``DiscreteLaplace(scale, sensitivity)`` holds for vectors of any
dimension whose L1 sensitivity it states.

Discrete Gaussian vectors (L2)
------------------------------
The L1 argument is useless here and the continuous formula is not a theorem for
lattice noise. Let 0 < s² < σ², τ² = σ² − s². Draw t ~ N(m, τ²), then X on ℤ with
probability ∝ e^{−(x−t)²/2s²}. By Poisson summation the normaliser is
s√(2π)(1 + 2Σ_k e^{−2π²s²k²}cos 2πkt) ∈ s√(2π)(1 ± η), η = 2Σ_{k≥1} e^{−2π²s²k²}.
The convolution of the two Gaussians is N(x; m, σ²), so X has the law of the
discrete Gaussian times a factor in (1+η_σ)·[1/(1+η), 1/(1−η)], 0 ≤ η_σ ≤ η. X is a
post-processing of N(m, τ²). In d coordinates, with u/l = ((1+η)/(1−η))^d,

    δ(ε) ≤ l^{−1} δ_X(ε − ln(u/l)) ≤ (1+η)^d · δ_{Gauss, μ=Δ/τ}(ε − d·κ),
    κ = ln((1+η)/(1−η)).

With s² = 2, η < 2e-17: the price is τ for σ, 0.25 % at σ = 20. Several vectors with
variances σᵢ² are dominated in the same way by μ² = Σ Δᵢ²/(σᵢ² − s²) and the d of all of
them together. ρ = Δ²/(2σ²) exactly in every dimension (Canonne, Kamath & Steinke 2020).

Where that price matters, for small σ, the profile is summed exactly instead. For an
integer shift m the loss Σ(mᵢ² − 2mᵢxᵢ)/(2σ²) depends on T = Σmᵢxᵢ alone, whose law is a
convolution. A shift dominates every one that is smaller in each coordinate, and signs and
order do not matter, so the supremum runs over few *shapes*: the maximal multisets of
positive integers with Σmᵢ² ≤ Δ² and at most d members. In one dimension there is one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet import _exact, noise
from discreet._dataclass import dataclass
from discreet._exact import Number, ceil_float, decimal, exact, show
from discreet._lazy import special
from discreet.errors import Hint, ParameterError
from discreet.privacy._convert import pure_to_rho, zcdp_to_log_delta
from discreet.privacy._loss import ULP, Array, PrivacyLoss, assign, log_up, read_order, up
from discreet.privacy._pair import Atoms, Pair

_NOISE_ACCURACY = 2e-12
"""Relative error the noise laws state for their pmf."""

_LARGE = 10_000
"""Above this σ the scalar discrete Gaussian is bounded by the lemma, not summed."""

_SMALL_VARIANCE, _FEW_STEPS = 150, 12
"""Vectors are summed up to this σ² and this Δ²; beyond it the lemma costs under 0.5 %."""

SMOOTHING = tuple(Fraction(x, 16) for x in (56, 40, 32, 24, 20, 16, 13, 11, 9, 8, 7, 6, 5, 4))
"""Variances s² that the lemma is tried with."""

_FEW = 4096
"""Up to this sensitivity discrete Laplace losses are composed atom by atom."""


def log_gaussian_delta(mu: float, epsilon: Array) -> Array:
    """Return ln[Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)] for any real ε, rounded up.

    With x = ε/μ − μ/2 and Mills' ratio R the value is φ(x)(R(x) − R(x+μ)), which
    keeps its digits however small δ is. R is completely monotone, so −R' is
    convex and the trapezium μ(−R'(x)−R'(x+μ))/2 is an upper bound too, better
    conditioned for small μ. The rounding of whichever is smaller is added.
    """
    # beyond 10^150 standard deviations squares would overflow; δ only falls there
    e = np.minimum(np.abs(epsilon), 1e150 * mu)
    x = e / mu - 0.5 * mu
    near, far = mills(np.maximum(x, -6.0)), mills(np.maximum(x, -6.0) + mu)
    difference = near - far + 4 * ULP * (near + far)
    slopes = (1 - x * near) + (1 - (x + mu) * far)
    trapezium = 0.5 * mu * (slopes + 8 * ULP * (2 + np.abs(x) * near + np.abs(x + mu) * far))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.log(np.minimum(difference, np.where(x > -6, trapezium, np.inf)))
        tail -= 0.5 * x * x + 0.5 * math.log(2 * math.pi)
        # here μ > 12, so Φ is nearly 1 and nothing cancels
        bulk = np.log(special.ndtr(-x) - np.exp(e + special.log_ndtr(-x - mu)) + 4 * ULP)
        out = np.where(x > -6, tail, bulk) + 8 * ULP * (1 + np.abs(x)) * (1 + e / mu + mu)
        out = np.minimum(out, 0.0)
        negative = np.log(-np.expm1(-e) + np.exp(out - e)) + 8 * ULP  # h(−ε)=1−e^{−ε}+e^{−ε}h(ε)
    return np.where(epsilon >= 0, out, np.minimum(negative, 0.0))


def mills(x: Array) -> Array:
    """Return (1 − Φ(x))/φ(x)."""
    return np.asarray(math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2)))


def sqrt_up(value: Fraction) -> float:
    """Round the square root of a rational up to a double."""
    root = math.sqrt(ceil_float(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Gaussian(PrivacyLoss):
    """Gaussian DP: as hard to tell apart as N(0, 1) and N(μ, 1); μ = Δ₂/σ.

    Exact for continuous Gaussian noise of any dimension (Balle & Wang 2018).

    >>> round(Gaussian("0.05").epsilon(1e-6), 6)
    0.189213
    """

    mu2: Fraction

    def __init__(self, mu: Number) -> None:
        assign(self, mu2=_exact.positive(decimal(mu, "mu"), "mu", example="0.1") ** 2)

    @classmethod
    def from_square(cls, mu2: Number) -> Gaussian:
        """Build from μ², which stays rational under composition."""
        return cls.build(mu2=_exact.positive(decimal(mu2, "mu2"), "mu2"))

    @property
    def mu(self) -> float:
        """μ, rounded up."""
        return sqrt_up(self.mu2)

    def _details(self) -> dict[str, str]:
        mu = self.mu
        exact_root = decimal(mu, "mu")
        return {"mu": show(exact_root) if exact_root**2 == self.mu2 else f"{mu:.6g}"}

    def log_delta(self, epsilon: Array) -> Array:
        return log_gaussian_delta(self.mu, epsilon)

    @property
    def rho(self) -> Fraction:
        """ρ = μ²/2, exactly."""
        return self.mu2 / 2

    def tradeoff(self, fpr: float) -> float:
        """Return Φ(Φ⁻¹(1−α) − μ), rounded down."""
        if not 0 <= fpr <= 1:
            raise ParameterError(f"fpr must lie in [0, 1], got {fpr}", hint=Hint("fpr", 0.05))
        return max(0.0, float(special.ndtr(-special.ndtri(fpr) - self.mu)) - 16 * ULP)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Laplace(PrivacyLoss):
    """Continuous Laplace noise of scale Δ₁/ε: the limit of a fine lattice.

    What a computer draws is :class:`DiscreteLaplace`; this is the ideal law
    that textbooks and other accountants speak of.

    >>> round(Laplace("0.1").epsilon(1e-6), 6)
    0.099998
    """

    eps0: Fraction

    def __init__(self, epsilon: Number) -> None:
        assign(self, eps0=_exact.epsilon(epsilon))

    @property
    def top(self) -> Fraction:
        return self.eps0

    def log_delta(self, epsilon: Array) -> Array:
        gap = np.maximum(ceil_float(self.eps0) - epsilon, 0.0)
        with np.errstate(divide="ignore"):
            return log_up(np.log(-np.expm1(-0.5 * gap)))

    @property
    def rho(self) -> float:
        """ρ ≤ ε·tanh(ε/2), the bound of every ε-DP mechanism."""
        return pure_to_rho(self.eps0)

    def renyi(self, alpha: Number) -> float:
        """Return D_α in closed form (Mironov 2017), rounded up."""
        order = read_order(alpha)
        bound = PrivacyLoss.renyi(self, order)
        a, e = float(order), ceil_float(self.eps0)
        if (a - 1) * min(e, 1.0) < 1e-6:
            return bound
        grow = (a - 1) * e + math.log(a / (2 * a - 1))
        fade = -a * e + math.log((a - 1) / (2 * a - 1))
        closed = (np.logaddexp(grow, fade) + 2.0**-48 * (1 + a * e)) / (a - 1)
        return min(bound, float(closed))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteLaplace(PrivacyLoss):
    """Discrete Laplace noise of a given scale on ℤ, for an integer L1 sensitivity.

    Pr[x] ∝ e^{−|x|/scale}. Holds for vectors of any dimension (see above).

    >>> DiscreteLaplace(10, 1).epsilon()
    0.1
    >>> DiscreteLaplace(10, 1)
    DiscreteLaplace(scale=10, sensitivity=1)
    """

    scale: Fraction
    sensitivity: int

    def __init__(self, scale: Number, sensitivity: Number = 1) -> None:
        assign(
            self,
            scale=_exact.positive(exact(scale, "scale"), "scale", example=10),
            sensitivity=_lattice_steps(sensitivity),
        )

    @property
    def top(self) -> Fraction:
        return self.sensitivity / self.scale

    def log_delta(self, epsilon: Array) -> Array:
        # the losses above ε are x ≤ k, k = ⌈(m − εs)/2⌉ − 1; with d = m/s − ε,
        # (1+r)·δ = (1 − e^{−(d − k/s)}) + r(1 − r^k), r = e^{−1/s}: no cancellation
        s, top = float(self.scale), ceil_float(self.top)
        gap = np.maximum(top - epsilon, 0.0)
        # any k gives a lower bound on the supremum and the profile is continuous in
        # ε, so a k rounded wrongly at a breakpoint changes nothing
        k = np.maximum(np.ceil(0.5 * gap * s) - 1, 0.0)
        outer = -np.expm1(-np.maximum(gap - k / s, 0.0))
        inner = math.exp(-1 / s) * -np.expm1(-k / s)
        with np.errstate(divide="ignore"):
            return log_up(np.log(outer + inner) - math.log1p(math.exp(-1 / s)), 32)

    @property
    def rho(self) -> float:
        """ρ ≤ ε·tanh(ε/2), ε = sensitivity/scale."""
        return pure_to_rho(self.top)

    def pairs(self) -> tuple[Pair, ...]:
        """Return the losses (m − 2j)/scale as atoms, while they are few."""
        m, s = self.sensitivity, float(self.scale)
        if m > _FEW:
            return (Pair.symmetric(self),)
        j = np.arange(m, -1, -1)
        masses = np.exp(-j / s) * (-math.expm1(-1 / s))
        masses[0] = math.exp(-m / s)
        masses[-1] = 1.0
        masses *= (1 + 2.0**-46) / (1 + math.exp(-1 / s))
        return (Pair.symmetric(self, Atoms(-self.top, 2 / self.scale, masses, 0.0)),)


def _lattice_steps(x: Number) -> int:
    """Read a sensitivity on ℤ: integer outputs move by a whole number of steps."""
    value = _exact.positive(exact(x, "sensitivity"), "sensitivity", example=1)
    steps = math.floor(value)
    if steps < 1:
        raise ParameterError(
            f"sensitivity {show(value)} is below one lattice step: integer answers could not "
            "differ at all",
            hint="state the sensitivity in lattice steps, at least 1",
        )
    return steps


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteGaussian(PrivacyLoss):
    """Discrete Gaussian noise on ℤ^d, Pr[x] ∝ e^{−x²/2σ²}, for an L2 sensitivity.

    Examples
    --------
    >>> loss = DiscreteGaussian(20, 1)
    >>> loss.rho
    Fraction(1, 800)
    >>> round(loss.epsilon(1e-6), 4)
    0.1892
    >>> DiscreteGaussian.from_variance(400, 3, dimension=3).rho
    Fraction(3, 800)
    """

    sigma2: Fraction
    sensitivity2: Fraction
    dimension: int

    def __init__(self, sigma: Number, sensitivity: Number = 1, dimension: int = 1) -> None:
        root = _exact.positive(exact(sigma, "sigma"), "sigma", example=10)
        reach = _exact.positive(exact(sensitivity, "sensitivity"), "sensitivity")
        self._fill(root**2, reach**2, dimension)

    @classmethod
    def from_variance(
        cls, sigma2: Number, sensitivity2: Number = 1, dimension: int = 1
    ) -> DiscreteGaussian:
        """Build from σ² and Δ₂², which may be rational when σ and Δ₂ are not."""
        loss = object.__new__(cls)
        loss._fill(
            _exact.positive(exact(sigma2, "sigma2"), "sigma2", example=100),
            _exact.positive(exact(sensitivity2, "sensitivity2"), "sensitivity2"),
            dimension,
        )
        return loss

    def _fill(self, sigma2: Fraction, sensitivity2: Fraction, dimension: int) -> None:
        if not isinstance(dimension, int) or dimension < 1:
            raise ParameterError("dimension must be a positive integer", hint=Hint("dimension", 1))
        # squared distances between integer points are integers, each coordinate adds one or more
        steps2 = math.floor(sensitivity2)
        dimension = max(min(dimension, steps2), 1)
        if dimension == 1:
            steps2 = math.isqrt(steps2) ** 2
        if steps2 < 1:
            raise ParameterError(
                "sensitivity is below one lattice step: integer answers could not differ at all",
                hint="state the sensitivity in lattice steps, at least 1",
            )
        assign(self, sigma2=sigma2, sensitivity2=Fraction(steps2), dimension=dimension)

    def _details(self) -> dict[str, str]:
        details = {"sigma": _show_root(self.sigma2), "sensitivity": _show_root(self.sensitivity2)}
        return details if self.dimension == 1 else {**details, "dimension": str(self.dimension)}

    @property
    def sigma(self) -> float:
        """σ, to double precision."""
        return math.sqrt(self.sigma2)

    @property
    def rho(self) -> Fraction:
        """ρ = Δ²/(2σ²), exactly."""
        return self.sensitivity2 / (2 * self.sigma2)

    @property
    def summed(self) -> bool:
        """Whether the profile is summed exactly rather than bounded by the lemma."""
        if self.dimension == 1:
            return self.sigma2 <= _LARGE**2
        return self.sigma2 <= _SMALL_VARIANCE and self.sensitivity2 <= _FEW_STEPS

    def log_delta(self, epsilon: Array) -> Array:
        if self.summed:
            sums = [_sum_profile(atoms, epsilon) for atoms in self._atoms()]
            return np.asarray(np.max(sums, axis=0))
        return Smoothed.build(terms=((self, 1),)).log_delta(epsilon)

    def _atoms(self) -> list[Atoms]:
        shapes = _shapes(int(self.sensitivity2), self.dimension)
        return [_shape_atoms(self.sigma2, shape) for shape in shapes]

    def pairs(self) -> tuple[Pair, ...]:
        """Return the lattice losses m(m − 2x)/2σ² themselves when they are summed."""
        if not self.summed:
            return (Pair.symmetric(self, convex=False),)
        atoms = self._atoms()
        return (Pair.symmetric(self, atoms[0] if len(atoms) == 1 else None),)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Smoothed(PrivacyLoss):
    """Discrete Gaussians with counts, bounded together by the lemma and by the sum of ρ."""

    terms: tuple[tuple[DiscreteGaussian, int], ...]

    def log_delta(self, epsilon: Array) -> Array:
        rho = sum((k * loss.rho for loss, k in self.terms), Fraction(0))
        best = zcdp_to_log_delta(rho, epsilon)
        least = min(loss.sigma2 for loss, _ in self.terms)
        dimension = sum(k * loss.dimension for loss, k in self.terms)
        for s2 in SMOOTHING:
            factor, shift = smoothing_price(s2, dimension)
            if s2 < least and shift < math.inf:
                squares = (k * t.sensitivity2 / (t.sigma2 - s2) for t, k in self.terms)
                mu = sqrt_up(sum(squares, Fraction(0)))
                best = np.minimum(best, log_gaussian_delta(mu, epsilon - shift) + factor)
        return np.minimum(best, 0.0)


def smoothing_price(s2: Fraction, dimension: int) -> tuple[float, float]:
    """Return the ln of the factor on δ and the shift of ε that the lemma costs, rounded up."""
    first = math.exp(-2 * math.pi**2 * float(s2) * (1 - 2.0**-50))
    eta = up(2 * first / (1 - first))  # geometric bound on 2Σ e^{−2π²s²k²}
    if eta >= 1:
        return math.inf, math.inf
    factor = up(dimension * math.log1p(eta))
    return factor, up(dimension * (math.log1p(eta) - math.log1p(-eta)))


def _show_root(square: Fraction) -> str:
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    return show(root) if root**2 == square else f"{math.sqrt(square):.6g}"


@lru_cache(maxsize=256)
def _shapes(steps2: int, dimension: int) -> tuple[tuple[int, ...], ...]:
    """Return the integer shifts, up to order and sign, that no other one within reach exceeds."""
    if dimension == 1:
        return ((math.isqrt(steps2),),)
    shapes: list[tuple[int, ...]] = []

    def extend(shape: tuple[int, ...], rest: int) -> None:
        largest = min(shape[-1] if shape else rest, math.isqrt(rest))
        if largest == 0 or len(shape) == dimension:
            shapes.append(shape)
            return
        for step in range(largest, 0, -1):
            extend((*shape, step), rest - step * step)

    extend((), steps2)

    def exceeds(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return len(a) >= len(b) and all(x >= y for x, y in zip(a, b, strict=False)) and a != b

    return tuple(b for b in shapes if not any(exceeds(a, b) for a in shapes))


@lru_cache(maxsize=64)
def _shape_atoms(sigma2: Fraction, shape: tuple[int, ...]) -> Atoms:
    """Return the losses (Σm² − 2T)/(2σ²) of T = Σmᵢxᵢ, rising.

    Large losses are negative T, so the index runs from the largest T down. With g the
    greatest common divisor of the shape T/g is an integer. Beyond 37σ each x has
    probability below e^{−684}; what is cut off counts as an infinite loss.
    """
    law = noise.DiscreteGaussian.from_variance(sigma2)
    reach = math.ceil(37 * law.sigma) + 2
    x = np.arange(-reach, reach + 1)
    masses = law.pmf(x)
    # P(|x| > reach) is at most twice its first term times 1/(1 − e^{−reach/σ²}) ≤ 1 + σ²/reach
    outside = 2 * float(masses[0]) * (1 + float(sigma2) / reach) + 1e-323
    unit = math.gcd(*shape)
    total = np.ones(1)
    for step in shape:
        stride = step // unit
        spread = np.zeros((len(x) - 1) * stride + 1)
        spread[::stride] = masses
        total = np.convolve(total, spread)
    raised = 1 + len(shape) * (2 * _NOISE_ACCURACY + 2 * len(total) * ULP)
    furthest = reach * sum(shape)
    offset = Fraction(sum(m * m for m in shape) - 2 * furthest) / (2 * sigma2)
    # the law of T is symmetric, so rising losses meet the masses in order
    return Atoms(offset, unit / sigma2, total * raised, len(shape) * outside)


def _sum_profile(atoms: Atoms, epsilon: Array) -> Array:
    """Return ln Σ p(1 − e^{ε−L})₊ plus the rest at infinity, elementwise in ε."""
    losses = float(atoms.offset) + np.arange(len(atoms.masses)) * float(atoms.spacing)
    losses = losses + 4 * ULP * (abs(float(atoms.offset)) + np.abs(losses))
    starts = np.searchsorted(losses, epsilon)
    out = np.empty(epsilon.shape)
    for i, (e, start) in enumerate(zip(epsilon, starts, strict=True)):
        terms = atoms.masses[start:] * -np.expm1(e - losses[start:])
        out[i] = math.log(up(float(terms.sum()), 64) + atoms.infinite)
    return out
