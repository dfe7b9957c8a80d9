r"""The attacker's view: everything an attack can achieve, from one trade-off curve.

Let f(α) be the least false-negative rate of any test "this person's data were
used" against "they were not" (or: were replaced) with false-positive rate α.
:meth:`discreet.privacy.PrivacyLoss.tradeoff` bounds it from below for every loss,
pure or not, composed or not. Then, for any attacker of any power and knowledge:

* *membership advantage*, max TPR − FPR, is δ(0), the total variation distance;
* *true-positive rate* at false-positive rate α is at most 1 − f(α);
* *accuracy* of telling the two worlds apart when they have prior π and 1 − π is at most
  :math:`1-\min(\pi,1-\pi)\,(1-\delta(|\ln\frac{\pi}{1-\pi}|))`: the Bayes error, π·FNR +
  (1−π)·FPR, is π(FNR + e^ε·FPR) ≥ π(1 − δ(ε)) with e^ε = (1−π)/π ≥ 1, and symmetrically
  (Dong, Roth & Su 2022);
* *any other success* (re-identification, attribute inference, reconstruction) that has
  probability at most η without the person's data has probability at most 1 − f(η) with
  them (Kulynych et al. 2025; for reconstruction Hayes, Mahloujifar & Balle 2023).
  *Proof*: let Z be the person's data and A the event that the attack succeeds on
  (Z, output). Given Z = z the outputs in the two worlds satisfy f, and f is convex, so
  the pairs (Z, output) satisfy f too; A is a test with false-positive rate ≤ η in the
  world without the person and f is non-increasing.
  The baseline η counts what other people's data reveal: the counterfactual again.

* *exceptional outputs*: the odds in favour of the truth rise by more than a factor e^t with
  probability at most :math:`\inf_{s<t}\delta(s)/(1-e^{s-t})`, since
  :math:`\delta(s)\ge E[(1-e^{s-L})_+]\ge(1-e^{s-t})\Pr[L>t]` for the privacy loss L. This is the
  only statement about odds that survives δ > 0, and it is of the ``"binary"`` kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number, decimal
from discreet.errors import Hint, ParameterError
from discreet.meaning._odds import Privacy, chance, pure_epsilon, read_group
from discreet.meaning._words import percent


@dataclass(frozen=True, slots=True, repr=False)
class Attacker:
    """Upper bounds on what any attack can achieve; made by :func:`attacker`.

    Attributes
    ----------
    bounds
        Losses, each of which bounds the same releases; the best one answers.
    group
        Number of people whose data the attack is after.
    """

    bounds: tuple[p.PrivacyLoss, ...]
    group: int = 1

    @property
    def advantage(self) -> float:
        """Largest true-positive minus false-positive rate."""
        return min((loss.delta(0) for loss in self.bounds), default=1.0)

    def tpr(self, fpr: float) -> float:
        """Return the best true-positive rate at false-positive rate `fpr`."""
        missed = max((loss.tradeoff(float(fpr)) for loss in self.bounds), default=0.0)
        return 1.0 - missed

    def success(self, baseline: Number) -> float:
        """Return the best chance of an attack that has chance `baseline` without the data."""
        return self.tpr(chance(baseline, "baseline"))

    def reidentification(self, candidates: int) -> float:
        """Return the best chance to name the right one among equally likely `candidates`."""
        if candidates < 2:
            raise ParameterError("give at least two candidates", hint=Hint("candidates", 100))
        return self.success(1 / candidates)

    def reconstruction(self, bits: Number) -> float:
        """Return the best chance to guess data of which `bits` bits are unknown."""
        unknown = decimal(bits, "bits")
        if not 0 < unknown <= 1000:
            raise ParameterError("bits must lie in (0, 1000]", hint=Hint("bits", 10))
        return self.success(2.0 ** -float(unknown))

    def accuracy(self, prior: Number = "0.5") -> float:
        """Return the best share of right guesses when the data were used with chance `prior`."""
        pi = chance(prior, "prior")
        rarer = min(pi, 1 - pi)
        slope = abs(math.log(pi) - math.log1p(-pi))
        best = min((loss.delta(slope * (1 - 2.0**-48)) for loss in self.bounds), default=1.0)
        return min(1.0, 1 - rarer * (1 - best) * (1 - 2.0**-50))

    def factor(self, exception: Number) -> float:
        """Return a factor that odds (binary kind) exceed with at most this probability."""
        never = decimal(exception, "exception") == 0
        eta = 0.0 if never else chance(exception, "exception")
        tail = min((_tail(loss, eta) for loss in self.bounds), default=math.inf)
        return math.exp(tail) * (1 + 2.0**-48) if tail < 709 else math.inf

    def curve(self, points: int = 201) -> npt.NDArray[np.float64]:
        """Return (false-positive rate, best true-positive rate) rows, for charts."""
        fpr = np.linspace(0.0, 1.0, points)
        best = [_chords(loss, fpr) for loss in self.bounds] or [0 * fpr]
        return np.column_stack([fpr, 1 - np.max(best, axis=0)])

    def __repr__(self) -> str:
        whose = "one person" if self.group == 1 else f"any of {self.group} people"
        rows = [
            ("telling whether the data were used, a coin being right 50 %", self.accuracy()),
            ("naming members while accusing 1 % of non-members", self.tpr(0.01)),
            ("naming members while accusing 5 % of non-members", self.tpr(0.05)),
            ("finding the right one among 100 candidates (blind: 1 %)", self.reidentification(100)),
        ]
        width = max(len(text) for text, _ in rows)
        lines = [f"  {text.ljust(width)}  {percent(x, 'up'):>8}" for text, x in rows]
        return "\n".join([f"At best, an attack on {whose} succeeds in", *lines])


def attacker(losses: Privacy | Sequence[p.PrivacyLoss], group: int = 1) -> Attacker:
    """Return what any attack can achieve, given an ε, a loss, or losses with fixed parameters.

    Parameters
    ----------
    losses
        A pure ε, one loss, or a sequence of losses that is composed. Composition
        presumes parameters fixed in advance; for a ledger use :func:`discreet.meaning.of`.
    group
        Number of people whose data the attack is after.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> round(attacker(1).advantage, 3), round(attacker(p.Laplace(1)).advantage, 3)
    (0.462, 0.393)
    >>> view = attacker(p.Gaussian(1))
    >>> round(view.advantage, 5), round(view.tpr(0.01), 5)
    (0.38292, 0.09236)
    """
    return Attacker(grouped(read_loss(losses), group), read_group(group))


def read_loss(x: Privacy | Sequence[p.PrivacyLoss]) -> p.PrivacyLoss:
    """Read an ε, a loss, or losses to be composed."""
    if isinstance(x, p.PrivacyLoss):
        return x
    if isinstance(x, Sequence) and not isinstance(x, str):
        return p.compose(x)
    return p.Pure(pure_epsilon(x))


def grouped(loss: p.PrivacyLoss, group: int) -> tuple[p.PrivacyLoss, ...]:
    """Return bounds on the loss for a group of people; none if nothing can be promised."""
    size = read_group(group)
    if size == 1:
        return (loss,)
    if not isinstance(loss, p.Zcdp) or not loss.delta0:
        try:
            return (p.group(loss, size),)
        except (ParameterError, OverflowError):  # δ of the group would reach 1
            return ()
    # approximate zCDP has no group bound of its own: go through (ε, δ) at several δ
    losses: list[p.PrivacyLoss] = []
    for share in (Fraction(3, 2), 2, 10, 100, 1000):
        delta = loss.delta0 * share
        if delta < 1:
            losses += grouped(p.Approx(loss.epsilon(delta), delta).under(loss.neighbours), size)
    return tuple(losses)


def _tail(loss: p.PrivacyLoss, eta: float) -> float:
    """Return a t with P[L > t] ≤ η: δ(s) = η(1 − e^{s−t}) solved for t, best over s."""
    best = loss.epsilon()
    if eta == 0:
        return best
    for share in (0.5, 0.8, 0.9, 0.95, 0.98, 0.99):
        s = loss.epsilon(eta * share)
        # 1 − e^{s−t} = share  ⇔  t = s − ln(1 − share)
        best = min(best, s - math.log1p(-share))
    return best * (1 + 2.0**-48)


def _chords(loss: p.PrivacyLoss, fpr: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a lower bound on f at many rates, from a few points of the profile."""
    top = min(loss.epsilon(loss.mass_at_infinity + Fraction(1, 10**9)), 60.0)
    curve = np.zeros_like(fpr)
    for e in np.concatenate([[0.0], np.geomspace(top / 256, top, 48)]) if top else [0.0]:
        missing = 1 - loss.delta(float(e))
        chords = np.maximum(missing - math.exp(e) * fpr, math.exp(-e) * (missing - fpr))
        curve = np.maximum(curve, chords)
    return curve
