r"""Square wave: the distribution of a smooth ordinal value.

Guarantee
---------
Li et al., SIGMOD 2020, on integers: value j ∈ 0…d−1 gives an output y uniform on the
window j…j+2b with probability κ, otherwise uniform on 0…d+2b−1. Odds as in
:mod:`discreet.local._rationals`.

The distribution is read by expectation maximisation with smoothing, which suits smooth
shapes; it is biased near spikes, and its standard errors are bootstrapped, hence approximate.
Beside it stands the raw, unbiased reading, whose variance is exact and large. Intervals
come from neither: linear readings in between, whose bias has known bounds for every
distribution, with Chernoff bounds for their noise; they hold for every n and shape.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.local import _draws
from discreet.local import _rationals as rat
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, read_items, respond
from discreet.local._draws import Rng
from discreet.local._frequency import read_shares
from discreet.local._intervals import CHERNOFF, Floats, channel_reach
from discreet.local._ordinal import DistributionEstimate
from discreet.local._protocol import LocalProtocol
from discreet.local._wire import Columns, Field

_REPLICATES = 40
_PATIENCE = 10_000


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SquareWave(LocalProtocol):
    """The distribution of a smooth ordinal value.

    Parameters
    ----------
    domain
        Values are 0, …, domain − 1, in order.
    epsilon
        ε of one report.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.SquareWave(domain=64, epsilon=2)
    >>> estimate = protocol.aggregator().update(protocol.randomize([20] * 20_000)).estimate()
    >>> 15 <= estimate.quantile(0.5) <= 25
    True
    """

    name: ClassVar[str] = "square-wave"
    in_one_cell: ClassVar[bool] = True
    domain: int
    window: int
    outputs: int
    """Number of outputs."""
    kappa: Fraction

    def __init__(self, domain: int, epsilon: Number) -> None:
        d, eps = rat.read_whole(domain, "domain", least=2, most=1 << 12), rat.read_epsilon(epsilon)
        rho = rat.odds_below(eps)
        e, x = float(rho), float(eps)
        # the half width of least expected error in the paper, on integers; 0.5 at ε = 0
        wide = 0.5 if x < 1e-4 else (x * e - e + 1) / (2 * e * (e - 1 - x))
        b = math.floor(d * wide)
        outputs = d + 2 * b
        kappa = rat.mixture(rho, 2 * b + 1, outputs)
        odds = rat.checked_odds(rat.mixture_odds(kappa, 2 * b + 1, outputs), rho)
        self._set(
            claimed=eps, odds=odds, domain=d, window=b, outputs=outputs, kappa=kappa,
            fields=(Field("output", limit=outputs),), state_shape=(outputs,),
        )  # fmt: skip

    def parse(self, values: Any) -> tuple[NDArray[Any], bool]:
        return read_items(values, self.domain)

    def draw(self, flat: NDArray[Any]) -> Columns:
        places = np.asarray(noise.uniform_many(2 * self.window + 1, len(flat)))
        outputs = respond(self.kappa, flat.astype(np.int64) + places, self.outputs)
        return (outputs.astype(self.fields[0].dtype),)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count the outputs."""
        state += np.bincount(columns[0], minlength=self.outputs)

    def law(self, value: int) -> list[Fraction]:
        """Return the exact probability of each output."""
        uniform = (1 - self.kappa) / self.outputs
        lifted = uniform + self.kappa / (2 * self.window + 1)
        last = value + 2 * self.window
        return [lifted if value <= y <= last else uniform for y in range(self.outputs)]

    def matrix(self) -> Floats:
        """Return P(output | value), one column per value."""
        return np.array([[float(w) for w in self.law(v)] for v in range(self.domain)]).T

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:  # noqa: ARG002 - all items
        """Draw from the joint law: uniform outputs, and kept ones on the values' windows."""
        keepers = rng.binomial(counts, float(self.kappa))
        out = _draws.over_groups(int(counts.sum() - keepers.sum()), self.outputs, rng)
        wide = 2 * self.window + 1
        for value in np.flatnonzero(keepers):
            out[value : value + wide] += _draws.over_groups(int(keepers[value]), wide, rng)
        return out

    def expectations(self, worths: Floats) -> Floats:
        """Return E[worth | value], for rows of worths over the outputs."""
        sums = np.cumsum(np.pad(worths, ((0, 0), (1, 0))), axis=1)
        wide, kappa = 2 * self.window + 1, float(self.kappa)
        near = (sums[:, wide:] - sums[:, :-wide]) / wide
        return np.asarray(kappa * near + (1 - kappa) * worths.mean(axis=1, keepdims=True))

    def variance(self, frequencies: Any = None, n: int = 1, *, cumulative: bool = False) -> Floats:
        """Return the exact variances of all *raw* shares for `n` people drawn from a population.

        The smooth estimate is not linear and has no variance in closed form.

        Parameters
        ----------
        frequencies
            True shares; left out: equal ones.
        n
            Number of reports.
        cumulative
            Of cumulative shares instead.
        """
        f = np.full(self.domain, 1 / self.domain) if frequencies is None else frequencies
        reading, law = _unbiased(self), self.matrix() @ read_shares(f, self.domain)
        if cumulative:
            reading = np.cumsum(reading, axis=0)
        spread = reading**2 @ law - (reading @ law) ** 2
        return np.asarray(spread / rat.read_whole(n, "n", most=1 << 62))

    def read(self, tally: Tally) -> DistributionEstimate:
        """Read the distribution by expectation maximisation with smoothing."""
        matrix, e = self.matrix(), float(self.odds)
        shares = _smooth_em(matrix, tally.state, e)
        return DistributionEstimate(
            self, tally, shares, _unbiased(self) @ (tally.state / tally.n),
            lambda: _bootstrap(matrix, shares, tally.n, e),
            lambda error, cumulative: _band(self, tally, error, cumulative=cumulative),
            f"{CHERNOFF[:-1]}, smoothing allowed for)", approximate=True,
        )  # fmt: skip


@lru_cache(maxsize=4)
def _unbiased(wave: SquareWave) -> Floats:
    """Return the least-squares inverse of the law: shares = inverse @ output shares."""
    return np.asarray(np.linalg.pinv(wave.matrix()))


def _band(
    wave: SquareWave, tally: Tally, error: float, *, cumulative: bool
) -> tuple[Floats, Floats]:
    """Return bounds for shares from readings that trade noise for a bias known to its last digit.

    A reading A has expectation (AM)f, M the law; it differs from the wanted Cf by
    (AM − C)f, which for any shares f lies between the least and the largest entry of a row.
    How much each row smooths depends on n and ε alone.
    """
    matrix, n = wave.matrix(), tally.n
    target = np.tri(wave.domain) if cumulative else np.eye(wave.domain)
    u, sigma, vt = np.linalg.svd(matrix, full_matrices=False)
    depth = math.log(2 / error)
    best: Floats = np.full(wave.domain, np.inf)
    reading = np.zeros((wave.domain, wave.outputs))
    for ridge in sigma[0] ** 2 * np.geomspace(1e-8, 1, 17):
        trial = (target @ vt.T * (sigma / (sigma**2 + ridge))) @ u.T
        bias = np.ptp(trial @ matrix - target, axis=1)
        width = bias + 2 * np.sqrt(2 * depth * np.mean(trial**2, axis=1) / n)
        reading[width < best] = trial[width < best]
        best = np.minimum(best, width)
    bias = reading @ matrix - target
    above, below = channel_reach(reading, n, wave.expectations, error)
    centre = reading @ (tally.state / n)
    return centre - above - bias.max(axis=1), centre + below - bias.min(axis=1)


def _bootstrap(matrix: Floats, shares: Floats, n: int, e: float) -> Floats:
    """Return the covariance of estimates of people drawn from the estimate itself."""
    rng = np.random.default_rng()
    law = matrix @ shares
    copies = np.array(
        [_smooth_em(matrix, rng.multinomial(n, law / law.sum()), e) for _ in range(_REPLICATES)]
    )
    centred = copies - copies.mean(axis=0)
    return np.asarray(centred.T @ centred / (_REPLICATES - 1))


def _smooth_em(matrix: Floats, counts: Counts, e: float) -> Floats:
    """Maximise the likelihood of output counts, averaging neighbours at each step."""
    x = np.full(matrix.shape[1], 1 / matrix.shape[1])
    before = -math.inf
    for _ in range(_PATIENCE):
        x = x * (matrix.T @ (counts / (matrix @ x)))
        x /= x.sum()
        y = x / 2
        y[1:-1] += (x[:-2] + x[2:]) / 4
        y[0] = (2 * x[0] + x[1]) / 3
        y[-1] = (2 * x[-1] + x[-2]) / 3
        x = y / y.sum()
        now = float(counts @ np.log(matrix @ x))
        if abs(now - before) < 1e-3 * e:
            break
        before = now
    return x
