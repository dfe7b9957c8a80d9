r"""How useful a release is: noise size, error, (α, β)-usefulness, and their price.

Definitions [1]_: a release of queries F is *(α, β)-useful* if
:math:`P(\max_f|f(D)-\hat f(D)|\le\alpha)\ge1-\beta`. For k cells with independent noise
of one law this is :math:`1-(1-P(|N|>\alpha))^k=\beta`, exactly. For synthetic data the
error is that of queries asked of the synthetic table; its law is not known in
closed form, so it is estimated from repeated runs, with a Clopper–Pearson bound.

References
----------
.. [1] T. Zhu, G. Li, W. Zhou, P. Yu, "Differential Privacy and Applications",
   2017, section 2.5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
from scipy import special

from discreet import _exact, _vega
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.inference._chosen import among, by_noise, unchosen
from discreet.inference._inputs import Description, Noisy, read_law, resolve
from discreet.inference._laws import Noise, noise_by_name


@dataclass(frozen=True, slots=True)
class NoiseSize:
    """How much noise one cell carries, in units."""

    mean_absolute: float
    std: float
    margin: float
    confidence: float


def noise_size(law: Any, confidence: Number = 0.95, *, step: Number = 1) -> NoiseSize:
    """Return the expected size of noise, its standard deviation and its margin.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> size = inf.noise_size(inf.Laplace(10))
    >>> round(size.mean_absolute, 6), round(size.margin, 2)
    (10.0, 29.96)
    """
    if isinstance(law, Noisy):
        unchosen(by_noise(law.chosen), "the size of noise")
    noise = law.noise if isinstance(law, Noisy) else read_law(law, step)
    low, high, achieved = noise.range(_exact.confidence(confidence))
    return NoiseSize(_mean_absolute(noise), math.sqrt(noise.variance), max(-low, high), achieved)


def _mean_absolute(noise: Noise) -> float:
    """E|N| = ∫ P(|N| > t) dt, by Gauss–Legendre pieces (continuous) or a sum (lattice)."""
    unit = float(noise.step)
    reach = max(abs(e) for e in noise.range(1 - 1e-13)[:2])
    if noise.discrete and reach / unit <= 2_000_000:
        k = np.arange(1, math.ceil(reach / unit) + 2) * unit
        return float((noise.at_least(k) + noise.at_most(-k)).sum() * unit)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.concatenate([[0], np.geomspace(reach / 1e3, reach, 24)])
    total = 0.0
    for a, b in itertools.pairwise(edges):
        t = (b - a) / 2 * nodes + (a + b) / 2
        total += (b - a) / 2 * float((noise.at_least(t) + noise.at_most(-t)) @ weights)
    return float(total)


def usefulness(
    value: Any,
    alpha: float,
    *,
    cells: int | None = None,
    **description: Unpack[Description],
) -> float:
    """Return β such that the release is (α, β)-useful: P(some cell is off by more than α).

    Parameters
    ----------
    value
        A release, or None with `cells` and the noise described as for
        :func:`interval`.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> round(inf.usefulness(None, 12.283, cells=3, noise="laplace", epsilon=1, sensitivity=3), 3)
    0.049
    """
    bound = float(alpha)
    if not bound >= 0 or not math.isfinite(bound):
        raise ParameterError("alpha must be a non-negative number", hint=Hint("alpha", 10))
    shaped = np.zeros(_cells(cells)) if value is None else value
    item = resolve(shaped, of_chosen=True, **description)
    if item.noise.discrete:
        # the first lattice point beyond alpha; alpha on the lattice is itself inside
        unit = float(item.noise.step)
        bound = (math.floor(bound / unit + 1e-9) + 1) * unit
    one = float(item.noise.at_least(bound) + item.noise.at_most(-bound))
    cells = item.size * among(by_noise(item.chosen), "usefulness")
    return -math.expm1(cells * math.log1p(-min(one, 1 - 1e-16)))


def accuracy(
    value: Any,
    beta: Number = 0.05,
    *,
    cells: int | None = None,
    **described: Any,
) -> float:
    """Return the least α such that the release is (α, β)-useful."""
    from discreet.inference._intervals import interval  # noqa: PLC0415 - siblings

    level = 1 - _exact.confidence(beta, "beta")
    shaped = np.zeros(_cells(cells)) if value is None else value
    item = resolve(shaped, of_chosen=True, **described)
    # of a row that noise chose all that could be shown are meant
    rows = among(by_noise(item.chosen), "accuracy")
    item = (
        replace(item, value=np.broadcast_to(item.value, (rows,)), chosen=()) if rows > 1 else item
    )
    result = interval(item, level, simultaneous=True)
    return float(np.max(result.half_width))


def _cells(cells: object) -> int:
    if cells is None:
        return 1
    if isinstance(cells, bool) or not isinstance(cells, int) or cells < 1:
        raise ParameterError("cells must be a positive whole number", hint=Hint("cells", 10))
    return cells


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of released answers against the truth (public or synthetic benchmarks only)."""

    largest: float
    mean_absolute: float
    root_mean_square: float
    relative: float


def errors(truth: Any, released: Any) -> Errors:
    """Compare answers with the truth; for data whose truth is public.

    For synthetic data pass the queries' answers on both tables.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> inf.errors([10, 20], [13, 16])
    Errors(largest=4.0, mean_absolute=3.5, root_mean_square=3.5355..., relative=0.25)
    """
    a, b = np.asarray(truth, dtype=np.float64).ravel(), np.asarray(released, np.float64).ravel()
    if a.size != b.size or not a.size:
        raise ParameterError(f"{a.size} true answers for {b.size} released ones")
    off = np.abs(a - b)
    return Errors(
        float(off.max()),
        float(off.mean()),
        math.sqrt(float((off**2).mean())),
        float(np.mean(off / np.maximum(np.abs(a), 1))),
    )


@dataclass(frozen=True, slots=True)
class Usefulness:
    """(α, β)-usefulness seen in repeated runs: β, and a bound on it that holds."""

    alpha: float
    beta: float
    beta_upper: float
    confidence: float
    runs: int


def usefulness_of_runs(
    largest: Sequence[float], alpha: float, confidence: Number = 0.95
) -> Usefulness:
    """Estimate β from the largest error of each independent run (synthetic data).

    Examples
    --------
    >>> from discreet import inference as inf
    >>> estimate = inf.usefulness_of_runs([3, 5, 4, 12] * 25, alpha=10)
    >>> estimate.beta, round(estimate.beta_upper, 3)
    (0.25, 0.331)
    """
    errors = np.asarray(largest, dtype=np.float64).ravel()
    if not errors.size or np.isnan(errors).any():
        raise ParameterError("give the largest error of each run")
    level = _exact.confidence(confidence)
    bad, runs = int((errors > alpha).sum()), errors.size
    upper = 1.0 if bad == runs else float(special.betaincinv(bad + 1, runs - bad, level))
    return Usefulness(float(alpha), bad / runs, upper, level, runs)


@dataclass(frozen=True, slots=True)
class Curve:
    """Margins against ε: what more budget buys."""

    epsilon: tuple[float, ...]
    margin: tuple[float, ...]
    label: str

    def to_dicts(self) -> list[dict[str, float]]:
        """Return the curve as rows."""
        return [{"epsilon": e, "margin": a} for e, a in zip(self.epsilon, self.margin, strict=True)]

    def chart(self) -> _vega.Chart:
        """Return a line, as Vega-Lite; ``save("curve.png")`` draws it."""
        log = {"scale": {"type": "log"}}
        encoding = {
            "x": _vega.number("epsilon", title="ε (privacy loss)", **log),
            "y": _vega.number("margin", title=self.label, **log),
        }
        title = {"text": self.label, "fontSize": 11}
        return _vega.chart(title, self.to_dicts(), **_vega.layer("line", encoding, point=True))


def accuracy_curve(
    epsilons: Sequence[Number],
    *,
    noise: str = "laplace",
    delta: Number | None = None,
    sensitivity: Number = 1,
    cells: int = 1,
    confidence: Number = 0.95,
    margin_of: Callable[[Number], float] | None = None,
) -> Curve:
    """Return how the margin of all cells shrinks as ε grows.

    Parameters
    ----------
    epsilons
        Where to look.
    noise, delta, sensitivity, cells, confidence
        Mechanism, number of cells covered at once, and confidence.
    margin_of
        Instead: any function of ε, for instance
        ``lambda e: curator.preview(query, epsilon=e)…``.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> inf.accuracy_curve(["0.1", 1]).to_dicts()[1]["margin"]
    2.995...
    """
    level = _exact.confidence(confidence)
    points = [float(_exact.epsilon(e)) for e in epsilons]
    if not points:
        raise ParameterError("give at least one epsilon", hint=Hint("epsilons", [0.1, 1]))

    def margin(e: Number) -> float:
        if margin_of is not None:
            return float(margin_of(e))
        law = noise_by_name(noise, epsilon=e, delta=delta, sensitivity=sensitivity)
        return accuracy(np.zeros(_cells(cells)), 1 - level, law=law)

    label = f"margin of {cells} cell{'s' if cells > 1 else ''} at {level:.0%}"
    return Curve(tuple(points), tuple(margin(e) for e in epsilons), label)
