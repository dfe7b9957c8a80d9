"""Questions: all that a mechanism can do with private counts.

A mechanism is a generator. It yields a question, is sent the released answer, and in the
end returns an estimate; it never holds the counts. So its privacy is that of its
questions, composed by the one who drives it (:func:`conduct`): before a question is put,
its cost is added up exactly, and a sum above the price is refused. Whatever a mechanism
does between questions is post-processing, however clever.

Each kind of question states its proof and can be replayed: :meth:`Question.distance`
says how far two neighbours are apart in units of what was declared, at most 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import mechanisms, noise
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet.errors import PrivacyError
from discreet.privacy import Neighbours
from discreet.release._counts import Counts
from discreet.release._price import Price, cost, draws
from discreet.release._queries import Query


def alike(move: int, numbers: int) -> tuple[int, int, int]:
    """Return the norms of so many numbers that may each move by so much."""
    return move * numbers, move * move * numbers, move


class Question(ABC):
    """One thing asked of the private counts."""

    label: str
    neighbours: Neighbours

    @abstractmethod
    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return the released answer."""

    @property
    @abstractmethod
    def loss(self) -> p.PrivacyLoss:
        """What it costs."""

    @abstractmethod
    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return how far two inputs are apart, in units of the declared sensitivity (replay)."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return the public parameters, for the release record."""

    @abstractmethod
    def exact(self, counts: Counts) -> NDArray[Any]:
        """Return the integers that it is about, before any noise. PRIVATE."""

    @abstractmethod
    def moves(self) -> tuple[int, int, int]:
        """Return how far one record moves them: L1, squared L2, L∞."""

    def most(self, rows: int) -> int:
        """Return the largest distance of two tables that differ in so many records."""
        return rows

    def blank(self) -> NDArray[Any]:
        """Return an answer of the right form that knows no data (for replays)."""
        return np.zeros(1, dtype=np.int64)

    def spends(self, price: Price) -> Fraction:
        """Return the exact part of the price it takes: ε of a pure price, otherwise ρ."""
        return Fraction(self.loss.top if price.pure else self.loss.rho)


class OfQuery(Question):
    """A question about the integers of one query."""

    query: Query

    def exact(self, counts: Counts) -> NDArray[Any]:
        """Return Ax."""
        return self.query.apply(counts)

    def moves(self) -> tuple[int, int, int]:
        """Return the sensitivities of A."""
        return self.query.norms(self.neighbours)

    def blank(self) -> NDArray[Any]:
        """Return zeros."""
        return np.zeros(self.query.rows, dtype=np.int64)


class OwnProof(Question):
    """A question whose own proof gives it a pure ε."""

    epsilon: Fraction

    @property
    def loss(self) -> p.PrivacyLoss:
        """ε, pure."""
        return p.Pure(self.epsilon).under(self.neighbours)


@dataclass(frozen=True)
class Measurement(OfQuery):
    """Ax plus independent integer noise of one law.

    Guarantee: Pr[Ax+Z = y]/Pr[Ax'+Z = y] ≤ e^{‖Ax−Ax'‖₁/scale} for discrete Laplace noise; Rényi
    divergence α‖Ax−Ax'‖²/2σ² for discrete Gaussian noise (Canonne, Kamath, Steinke 2020).
    The sensitivities are exact properties of the integer matrix A (:mod:`._queries`).
    """

    query: Query
    law: noise.Law
    neighbours: Neighbours
    label: str = ""

    @classmethod
    def priced(
        cls,
        query: Query,
        price: Price,
        neighbours: Neighbours,
        share: Fraction | None = None,
        label: str = "",
    ) -> Measurement:
        """Return the measurement that costs this share of a price, or, alone, all of it."""
        l1, l2, _ = query.norms(neighbours)
        return cls(query, price.law(l1, l2, share, query.rows), neighbours, label)

    @property
    def loss(self) -> p.PrivacyLoss:
        """The loss of the law drawn, for this matrix and relation."""
        l1, l2, _ = self.moves()
        return cost(self.law, l1, l2, self.query.rows, self.neighbours)

    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return Ax + noise."""
        # the draw comes first, so that a mark of test noise survives
        return np.asanyarray(draws(self.law, self.query.rows) + self.exact(counts))

    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return ‖Ax−Ay‖₁/Δ₁ or ‖Ax−Ay‖²/Δ₂²."""
        gap = (self.query.apply(x) - self.query.apply(y)).astype(object)
        l1, l2, _ = self.moves()
        if isinstance(self.law, noise.DiscreteLaplace):
            return Fraction(int(abs(gap).sum()), l1)
        return Fraction(int((gap * gap).sum()), l2)

    def most(self, rows: int) -> int:
        """Distances of Gaussian noise are squares."""
        return rows if isinstance(self.law, noise.DiscreteLaplace) else rows**2

    def record(self) -> dict[str, Any]:
        """Return law, number of rows and sensitivities."""
        l1, l2, _ = self.moves()
        return {
            "kind": "measurement",
            "label": self.label,
            "rows": self.query.rows,
            "law": self.law.to_dict(),
            "l1": l1,
            "l2_squared": l2,
            "scales": self.query.scales(),
        }


@dataclass(frozen=True)
class Choice(Question):
    """The index of a badly answered group of queries, by the exponential mechanism.

    Group g has score ``Σ_{i∈g} |(Qx)_i − target_i| − handicap_g``, with integer targets. One
    record moves the score of a group by at most the L1 norm of a column of its rows, so by
    at most Δ (given by the caller, who knows the structure; replay checks it). The exponential
    mechanism with temperature 2Δ/ε is ε-bounded range: ε-DP and ε²/8-zCDP.
    """

    query: Query
    target: NDArray[np.int64]
    groups: NDArray[np.int64] | None
    handicap: NDArray[np.int64]
    sensitivity: int
    epsilon: Fraction
    neighbours: Neighbours
    label: str = ""

    @classmethod
    def priced(
        cls,
        query: Query,
        target: NDArray[np.int64],
        handicap: NDArray[np.int64],
        *,
        price: Price,
        share: Fraction,
        neighbours: Neighbours,
        groups: NDArray[np.int64] | None = None,
        sensitivity: int = 1,
        label: str = "",
    ) -> Choice:
        """Return the choice that costs this share of a price."""
        epsilon = share * price.total
        if not price.pure:
            # ε²/8 ≤ share·ρ, ε rounded down to a multiple of 2⁻³⁰ of it
            root = Fraction(float(8 * epsilon) ** 0.5)
            while root * root > 8 * epsilon:
                root *= 1 - Fraction(1, 1 << 30)
            epsilon = root
        return cls(query, target, groups, handicap, sensitivity, epsilon, neighbours, label=label)

    def exact(self, counts: Counts) -> NDArray[np.int64]:
        """Return the scores."""
        gaps = np.abs(self.query.apply(counts) - self.target)
        if self.groups is None:
            return np.asarray(gaps - self.handicap)
        sums = np.zeros(len(self.handicap), dtype=np.int64)
        np.add.at(sums, self.groups, gaps)
        return np.asarray(sums - self.handicap)

    def moves(self) -> tuple[int, int, int]:
        """Every score may move by Δ."""
        return alike(self.sensitivity, len(self.handicap))

    @property
    def _mechanism(self) -> mechanisms.Exponential:
        return mechanisms.Exponential(self.sensitivity, self.epsilon, neighbours=self.neighbours)

    @property
    def loss(self) -> p.PrivacyLoss:
        """ε-bounded range."""
        return self._mechanism.loss

    def spends(self, price: Price) -> Fraction:
        """ε, or ε²/8 of ρ."""
        return self.epsilon if price.pure else self.epsilon**2 / 8

    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return the chosen index."""
        choice = self._mechanism.select(self.exact(counts))
        return np.asarray([choice.value], dtype=np.int64)

    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return the largest move of a score over Δ."""
        gap = np.abs(self.exact(x) - self.exact(y))
        return Fraction(int(gap.max()), self.sensitivity)

    def record(self) -> dict[str, Any]:
        """Return the parameters."""
        return {
            "kind": "choice",
            "label": self.label,
            "candidates": len(self.handicap),
            "epsilon": str(self.epsilon),
            "sensitivity": self.sensitivity,
        }


Course: TypeAlias = Generator[Question, NDArray[Any], Any]
"""A mechanism at work: yields questions, is sent released answers, returns an estimate."""


def conduct(
    course: Course,
    price: Price,
    answer: Callable[[Question], NDArray[Any]],
) -> tuple[Any, list[tuple[Question, NDArray[Any]]]]:
    """Drive a mechanism: add up costs, refuse beyond the price, pass answers on.

    Parameters
    ----------
    course
        The mechanism.
    price
        What it may cost. A single measurement may use all of an (ε, δ) price; otherwise the
        parts are summed as ε or ρ.
    answer
        Gives the released answer to a question: from counts, or from a record.

    Returns
    -------
    tuple
        The estimate, and the questions with their answers.
    """
    exchanges: list[tuple[Question, NDArray[Any]]] = []
    spent = Fraction(0)
    try:
        question = next(course)
        while True:
            spent += question.spends(price)
            if spent > price.total and not _alone(question, exchanges, price):
                raise PrivacyError("a mechanism asked for more than its price; nothing is released")
            released = answer(question)
            exchanges.append((question, released))
            question = course.send(released)
    except StopIteration as end:
        return end.value, exchanges


def _alone(question: Question, before: list[Any], price: Price) -> bool:
    """Tell whether one certified measurement takes the whole (ε, δ) price."""
    if before or price.epsilon is None or price.delta is None:
        return False
    return question.loss.delta(price.epsilon) <= price.delta


@dataclass(frozen=True)
class Unprotected(OfQuery):
    """Exact numbers that the owner has declared to be unprotected.

    Guarantee: none for these numbers. Whatever else is promised holds between neighbours
    that agree on them, and only between those; replay refuses others (distance above 1).
    """

    query: Query
    meaning: str
    neighbours: Neighbours
    label: str = "unprotected"

    @property
    def loss(self) -> p.PrivacyLoss:
        """Refuse: what is released exactly has no finite loss."""
        raise PrivacyError(f"{self.meaning} is released exactly: it has no privacy loss to state")

    def spends(self, price: Price) -> Fraction:
        """Nothing: it is outside the promise."""
        del price
        return Fraction(0)

    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return the exact numbers."""
        return self.exact(counts)

    def moves(self) -> tuple[int, int, int]:
        """Neighbours agree on them."""
        return 0, 0, 0

    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return 0 for neighbours that agree, 2 for others."""
        same = bool((self.exact(x) == self.exact(y)).all())
        return Fraction(0 if same else 2)

    def record(self) -> dict[str, Any]:
        """Say what is unprotected."""
        return {"kind": "unprotected", "label": self.label, "meaning": self.meaning}
