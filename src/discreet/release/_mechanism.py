"""What a method is: a course of questions, and what is known of its error beforehand."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release._counts import LARGEST
from discreet.release._price import Price
from discreet.release._queries import Levels, Query
from discreet.release._questions import Course, Measurement
from discreet.release._workload import Workload


@dataclass(frozen=True)
class Job:
    """A workload, what its publication may cost, and who counts as a neighbour."""

    workload: Workload
    price: Price
    neighbours: Neighbours

    def measurement(
        self, query: Query, share: Fraction | None = None, label: str = ""
    ) -> Measurement:
        """Return the measurement that costs this share of the price, or, alone, all of it."""
        return Measurement.priced(query, self.price, self.neighbours, share, label)

    def strength(self, share: Fraction = Fraction(1)) -> float:
        """ε of a share of the price; for Gaussian noise the ε whose Laplace noise is as wide."""
        part = float(share * self.price.total)
        return part if self.price.pure else 2 * math.sqrt(part)


def read_share(share: float, example: float, name: str = "share") -> Fraction:
    """Put a share of the price on a public grid of thousandths; refuse what is none."""
    if not 0 < share < 1 or not 0 < (fraction := Fraction(round(share * 1000), 1000)) < 1:
        raise ParameterError(f"{name} must lie between 0 and 1", hint=Hint(name, example))
    return fraction


class Mechanism(ABC):
    """One way to publish a workload.

    Attributes
    ----------
    linear
        True when the measurements do not depend on data and the estimate is a linear,
        unbiased function of them: then the error has the same law for every data set.
    note
        One sentence on what is known of its error.
    unprotected
        What is released exactly, in words: the loss holds beside it.
    """

    method: ClassVar[str]
    linear: ClassVar[bool] = False
    note: str = "its error depends on the data and is not known beforehand"
    unprotected: tuple[str, ...] = ()

    def __init__(self, job: Job) -> None:
        self.job = job

    @abstractmethod
    def course(self) -> Course:
        """Start the mechanism: a generator of questions that returns an estimate."""

    def error(self) -> float | None:
        """Return the expected total squared error of the workload, if it is known."""
        return None

    @property
    def loss(self) -> p.PrivacyLoss:
        """What the whole costs."""
        return self.job.price.loss.under(self.job.neighbours).beside(*self.unprotected)

    @property
    def memory(self) -> int:
        """Roughly how many bytes a publication needs: a few arrays of cells, and the answers."""
        workload = self.job.workload
        return 8 * (min(workload.cells, LARGEST) * 4 + min(workload.queries, LARGEST) * 2)

    def describe(self) -> str:
        """Say what is measured."""
        return self.method

    def answers(self, estimate: Any) -> NDArray[Any]:
        """Answer the workload from an estimate."""
        return self.job.workload.answers(estimate)


class Sized(Mechanism):
    """A mechanism that must know how many records there are: it buys the number, or is told."""

    def _read_total(self, total: int | str, share: float, example: float) -> None:
        if total != "private" and not (isinstance(total, int) and total >= 0):
            raise ParameterError('total must be "private" or a public number of records')
        self.total = total
        if total == "private":
            self.total_share = read_share(share, example, "total_share")

    @property
    def _source(self) -> str:
        return "bought" if self.total == "private" else "public"

    def _size(self) -> Course:
        """Buy the number of records, or take it as given; return it and what is left."""
        if self.total != "private":
            return float(self.total), Fraction(1)
        shape = self.job.workload.shape
        side = 1 << max((n - 1).bit_length() for n in shape)
        y = yield self.job.measurement(Levels(shape, ((1, side),)), self.total_share, "total")
        return max(1.0, float(y[0])), 1 - self.total_share


class Strategy(Mechanism):
    """One integer matrix, measured once, inverted by least squares.

    Guarantee: that of a single :class:`Measurement`. Expected squared error of the workload
    W: Var(noise)·tr(W(AᵀA)⁻¹Wᵀ), the same for every data set (Li et al. 2010).
    """

    linear = True
    note = "unbiased; the expected error is the same for every data set"
    query: Query

    @abstractmethod
    def trace(self) -> float:
        """Return tr(W(AᵀA)⁻¹Wᵀ)."""

    @abstractmethod
    def reconstruct(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the least-squares estimate of the counts from released integers."""

    @property
    def measurement(self) -> Measurement:
        """The one question."""
        return self.job.measurement(self.query, label=self.describe())

    @property
    def loss(self) -> p.PrivacyLoss:
        """The loss of the one measurement."""
        return self.measurement.loss

    def error(self) -> float:
        """Return the expected total squared error."""
        return self.measurement.law.variance * self.trace()

    def course(self) -> Course:
        """Measure once, then solve."""
        released = yield self.measurement
        return self.reconstruct(released)
