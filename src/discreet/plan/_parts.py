r"""Parts: one class for each kind of thing that is measured.

A question is measured in *parts*: a vector of integers, a linear image of one, a
tree of counts, a pick of labels, a selection of keys. A part knows everything
about itself: its sensitivity, what it costs at a rule of noise (law and loss), how
it is measured and released, how its release is stored, read and bounded, and how
far two neighbouring tables move it. Nothing outside this family lists the kinds.

Guarantee
---------
The cost of a plan, of a batch and of a record is :func:`charge` of the losses that
the parts themselves state. A :class:`Priced` part cannot be made without a loss
unless no unit can move it at all, and a law that the accountant does not know has
no loss. Because prices are searched and charged by the same list of parts, what is
charged covers what is released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import privacy as p
from discreet._dataclass import dataclass, field
from discreet._exact import show
from discreet.errors import NotProvedError, ParameterError
from discreet.noise import LARGEST_SCALE, DiscreteGaussian, DiscreteLaplace, Sum
from discreet.plan._choices import Choice
from discreet.plan._stability import Sensitivity
from discreet.plan._types import Code

if TYPE_CHECKING:
    from discreet.plan._relation import Aggregate

Ints: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Law: TypeAlias = DiscreteLaplace | DiscreteGaussian
Groups: TypeAlias = Mapping[tuple[Code, ...], tuple[int, ...]]
Exact: TypeAlias = Mapping[tuple[Code, ...], int]
"""Integers before noise, by cell (and leaf, label or query)."""


class Question(Protocol):
    """One question of a part that asks several, one after the other."""

    def ask(self, counts: Any) -> Ints:
        """Return the released answer."""

    def blank(self) -> Ints:
        """Return an answer of the right form that knows no data."""

    def record(self) -> dict[str, Any]:
        """Return the public parameters."""


class Draw:
    """Where randomness enters a release; audits replace it with a recorder."""

    def sample(self, law: Law, n: int) -> Ints:
        """Draw `n` integers of a law."""
        noise: Ints = law.sample(n)
        return noise

    def choose(self, scores: Ints, choice: Choice) -> int:
        """Choose an index of high score."""
        return choice.draw(scores)

    def answer(self, question: Question, counts: Any) -> Ints:
        """Put a question of a publication to private counts."""
        return question.ask(counts)


@dataclass(frozen=True)
class Cells:
    """The groups of an answer, in order; the last may gather all other keys."""

    keys: Sequence[tuple[Code, ...]]
    rest: str | None = None
    counts: tuple[int, ...] = ()
    """Noisy numbers of units by which the cells were selected, where they were."""
    first: tuple[int, ...] = ()
    """Places of those that the first of two rounds has selected."""

    def __len__(self) -> int:
        return len(self.keys) + (self.rest is not None)

    def totals(self, groups: Groups, measure: int) -> Ints:
        """Exact integers of one measure, cell by cell."""
        values: list[int | None] = [
            0 if (row := groups.get(c)) is None else row[measure] for c in self.keys
        ]
        if self.rest is not None:
            keys = set(self.keys)
            values.append(sum(v[measure] for cell, v in groups.items() if cell not in keys))
        # a list of one tuple must not become a matrix, nor wide integers floats
        return np.array([*values, None], dtype=object)[:-1]


# -- rules: how one draw is paid ------------------------------------------------------


class Rule(Protocol):
    """How much noise one draw gets, and what key selection may fail with."""

    @property
    def delta(self) -> Fraction | None:
        """Probability with which a selection of keys may fail; None: not offered."""

    @property
    def epsilon(self) -> Fraction | None:
        """ε of one draw, where a choice needs it; None: not offered."""

    @property
    def rho(self) -> Fraction | None:
        """ρ of one draw, where the price is stated in it."""

    @property
    def flip(self) -> bool:
        """Whether choices are the most accurate ones; else those that cost the least ρ."""

    def law(self, sensitivity: Sensitivity) -> Law:
        """Noise of one draw."""
        ...

    def times(self, shares: Fraction | int) -> Rule:
        """The rule of a draw that gets so many shares (of ε, or of ρ)."""
        ...


def _in_reach(value: Fraction, square: Fraction) -> Fraction:
    """Refuse a wider noise than is drawn (`square` is that of its scale), in the asker's words."""
    if square > LARGEST_SCALE**2:
        raise ParameterError(
            "at this price the noise would need more than 60 bits, because one unit can move what "
            "is measured so far",
            hint="narrow the range: WHERE column BETWEEN low AND high, or a coarser step",
        )
    return value


@dataclass(frozen=True)
class LaplaceRule:
    """Discrete Laplace noise, ε for each draw."""

    epsilon: Fraction
    delta: Fraction | None = None
    flip: bool = True
    rho: Fraction | None = field(default=None, init=False)

    def times(self, shares: Fraction | int) -> LaplaceRule:
        """So many shares of ε."""
        return LaplaceRule(self.epsilon * shares, self.delta, self.flip)

    def law(self, sensitivity: Sensitivity) -> Law:
        """Scale the noise to the L1 sensitivity."""
        scale = Fraction(sensitivity.l1) / self.epsilon
        return DiscreteLaplace(_in_reach(scale, scale**2))


@dataclass(frozen=True)
class GaussianRule:
    """Discrete Gaussian noise of variance ``per_square``·Δ₂² + ``constant``."""

    per_square: Fraction = Fraction(0)
    constant: Fraction = Fraction(0)
    delta: Fraction | None = None
    epsilon: Fraction | None = field(default=None, init=False)
    flip: bool = field(default=False, init=False)

    @property
    def rho(self) -> Fraction | None:
        """What noise of variance ``per_square``·Δ₂² costs; not stated otherwise."""
        return None if self.constant or not self.per_square else 1 / (2 * self.per_square)

    def times(self, shares: Fraction | int) -> GaussianRule:
        """So many shares of ρ."""
        return GaussianRule(self.per_square / shares, self.constant / shares, self.delta)

    def law(self, sensitivity: Sensitivity) -> Law:
        """Scale the noise to the L2 sensitivity."""
        variance = sensitivity.l2_squared * self.per_square + self.constant
        return DiscreteGaussian.from_variance(_in_reach(variance, variance))


def loss_of(law: Law, sensitivity: Sensitivity, coordinates: int) -> p.PrivacyLoss:
    """Loss of one draw: integers that move by `sensitivity`, plus noise of `law`.

    `coordinates` bounds how many of the integers one unit can move.
    """
    match law:
        case DiscreteLaplace():
            return p.DiscreteLaplace(law.scale, sensitivity.l1)
        case DiscreteGaussian():
            return p.DiscreteGaussian.from_variance(
                law.sigma2, sensitivity.l2_squared, dimension=coordinates
            )
    raise NotProvedError(f"no loss is known for noise of {type(law).__name__}")


# -- parts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """One draw of a release: noise on integers that one unit moves so far."""

    law: Law
    moves: Sensitivity


@dataclass(frozen=True)
class Chosen:
    """One choice in every cell.

    ``span`` is how far apart one unit can move two scores, all cells together; of the ``rows``
    that it moves, ``squares`` bounds the sum of squares by cell.
    """

    choice: Choice
    span: int
    squares: int
    rows: int


@dataclass(frozen=True)
class Hidden:
    """Keys of one unit alone, each of so much weight, that must not be shown at a threshold."""

    law: Law
    at: int
    keys: int
    weight: int


@dataclass(frozen=True)
class Part(ABC):
    """Something measured: which aggregate it reads and how far one unit moves it."""

    aggregate: int
    sensitivity: Sensitivity
    coordinates: int
    """Most integers of one draw that one unit can move."""

    kind: ClassVar[str]

    @property
    def gaussian(self) -> bool:
        """Whether Gaussian noise protects it."""
        return True

    @property
    def draws(self) -> int:
        """How many equal shares of a price it takes."""
        return int(self.sensitivity.l1 > 0)

    @property
    def losses(self) -> int:
        """How many losses it states at least: one for each draw."""
        return self.draws

    def law(self, rule: Rule) -> Law:
        """Noise of its numbers, where each of them gets one draw."""
        return rule.law(self.sensitivity)

    @property
    def numbers(self) -> int:
        """Noisy numbers that it releases for each cell."""
        return 1

    @property
    def work(self) -> int:
        """Noisy numbers for each cell that take as long to release as it does, at most."""
        return self.numbers

    @property
    def private(self) -> bool:
        """Whether a unit can move it at all."""
        return self.draws > 0

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """Which measure of its aggregate it reads, and how far one unit moves that."""
        return 0, self.sensitivity

    @property
    def inputs(self) -> tuple[tuple[int, Sensitivity], ...]:
        """All measures that it reads, and how far one unit moves each."""
        return (self.reads,)

    @property
    def outlets(self) -> int:
        """How many releases it makes; formulas name them, not parts."""
        return 1

    @property
    def degree(self) -> int | None:
        """Key of its aggregate by whose value the groups of a unit are limited; None: none."""
        return None

    @property
    def groups(self) -> int | None:
        """Most groups of one unit that its price rests on; None: it rests on none."""
        return None

    def facts(self, law: Any) -> list[str]:  # noqa: ARG002 - a hook
        """What its numbers are about, beyond limits and clamps, in words."""
        return []

    @abstractmethod
    def price(self, rule: Rule) -> Priced:
        """Law and losses under a rule."""

    def select(self, priced: Priced, groups: Groups, draw: Draw) -> Cells:  # noqa: ARG002 - a hook
        """Cells that it lets out, where it selects keys."""
        raise NotProvedError(f"a {self.kind} does not select keys")

    def further(self, priced: Priced, cells: Cells) -> Aggregate | None:  # noqa: ARG002 - a hook
        """What a second round of selecting keys reads, after the first one; None: there is none.

        It is a function of what was released; :attr:`reads`, :attr:`groups` and :attr:`degree`
        hold for it as for the first.
        """
        return None

    def select_further(self, priced: Priced, cells: Cells, groups: Groups, draw: Draw) -> Cells:  # noqa: ARG002 - a hook
        """Cells of both rounds."""
        raise NotProvedError(f"a {self.kind} does not select keys")

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Release:  # noqa: ARG002 - a hook
        """Add noise to the exact integers of the cells."""
        raise NotProvedError(f"a {self.kind} does not make one release")

    def releases(
        self, priced: Priced, groups: Groups, cells: Cells, draw: Draw
    ) -> tuple[Release, ...]:
        """Everything that it lets out, in the order of its outlets."""
        return (self.release(priced, groups, cells, draw),)

    @abstractmethod
    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Exact integers as noise is added to them, draw by draw, with a suffix of the name."""

    def drawn(self, law: Any) -> Iterator[Drawn | Chosen | Hidden]:
        """Everything that a release draws by a law; audits price it anew.

        One draw for each measurement, whatever number of shares was paid for.
        """
        if self.private:
            yield from (Drawn(law, self.sensitivity) for _ in self.measurements({}))

    def steps(self, groups: Groups) -> Iterator[tuple[str, Sensitivity, Exact]]:
        """Everything that is measured, with how far one unit moves it."""
        for suffix, exact in self.measurements(groups):
            yield suffix, self.sensitivity, exact

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """What two neighbouring tables violate; empty when the declared bounds hold."""
        distances = []
        pairs = zip(self.measurements(left), self.measurements(right), strict=True)
        for (suffix, a), (_, b) in pairs:
            moves = distance(a, b)
            if not moves.within(self.sensitivity):
                distances.append(
                    f"{self.kind}{suffix} moved by {moves}, declared {self.sensitivity}"
                )
        return distances


def distance(left: Exact, right: Exact) -> Sensitivity:
    """How far two tables' exact integers lie apart."""
    moves = [abs(left.get(k, 0) - right.get(k, 0)) for k in left.keys() | right.keys()]
    return Sensitivity(sum(moves), sum(d * d for d in moves), max(moves, default=0))


@dataclass(frozen=True)
class Priced:
    """A part with the noise it will get and the losses of its draws."""

    part: Part
    law: Any
    losses: tuple[p.PrivacyLoss, ...]

    def __post_init__(self) -> None:
        if self.part.private and len(self.losses) < self.part.losses:
            raise NotProvedError(f"a {self.part.kind} was priced without the loss of each draw")

    def select(self, groups: Sequence[Groups], draw: Draw) -> Cells:
        """Cells that a selection of keys lets out."""
        return self.part.select(self, groups[self.part.aggregate], draw)

    @property
    def noise(self) -> Law | None:
        """Law of the integers that are added, where there are any."""
        law: Any = getattr(self.law, "law", self.law)  # a selection of keys holds its law
        # a total of a level has the noise of its cells, added up
        return law if isinstance(law, DiscreteLaplace | DiscreteGaussian | Sum) else None  # type: ignore[return-value]

    def releases(self, groups: Sequence[Groups], cells: Cells, draw: Draw) -> tuple[Release, ...]:
        """Measure the groups and add the noise that was priced."""
        return self.part.releases(self, groups[self.part.aggregate], cells, draw)

    def to_dict(self) -> dict[str, Any]:
        """Kind and exact noise, for the ledger."""
        law = None if self.law is None else self.law.to_dict()
        return {"kind": self.part.kind, "law": law, "moves": self.part.sensitivity.l1}


class Release(ABC):
    """What a part lets out: public, stored in the record, read by formulas."""

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[Release]]] = {}
    """Releases by the kind under which a record holds them."""

    def __init_subclass__(cls) -> None:
        Release.kinds[cls.kind] = cls

    @property
    def noise(self) -> Law | None:
        """Law of the noise in its integers, where there is any."""
        return getattr(self, "law", None)

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers or labels it lets out."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-able data, without the kind."""

    @classmethod
    @abstractmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`; what is missing or odd raises."""

    @abstractmethod
    def check(self, cells: int) -> None:
        """Refuse a release that does not hold together."""


def add(exact: Ints, noise: Ints) -> Ints:
    """Sum of exact integers and noise without overflow."""
    total: Ints = exact.astype(object) + np.asarray(noise).astype(object)
    return total


# -- cost -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What a query costs, in every currency that is defined for it.

    ``epsilon`` and ``delta``: the whole query is (ε, δ)-DP. ``rho`` and
    ``rho_delta``: it is ``rho_delta``-approximate ρ-zCDP.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction
    rho_delta: Fraction

    @property
    def by_rho(self) -> bool:
        """Whether ε holds at a δ of Gaussian noise or of numerical composition.

        Otherwise it is a sum of ε, and its δ, if any, is that of key selections, which both ways
        to pay have: :func:`charge` writes one number for both. A claim that has no more than that
        is proved with nothing left for such a δ, so it is covered by sums of ε as well.
        """
        return self.delta != self.rho_delta

    def __str__(self) -> str:
        delta = f", δ={show(self.delta)}" if self.delta else ""
        return f"ε={show(self.epsilon)}{delta} (ρ={float(self.rho):.4g})"

    def to_dict(self) -> dict[str, str]:
        """Exact amounts by currency."""
        return {name: str(getattr(self, name)) for name in self.__dataclass_fields__}

    def at_least(self, least: Cost) -> Cost:
        """The larger amount of each currency."""
        names = self.__dataclass_fields__
        return Cost(**{n: max(getattr(self, n), getattr(least, n)) for n in names})


def charge(losses: Sequence[p.PrivacyLoss], claim: tuple[Fraction, Fraction] | None = None) -> Cost:
    """Cost of losses together: their plain sum, or a claimed (ε, δ) if they fit it.

    Raises
    ------
    NotProvedError
        When the composed losses do not fit the claim, or nothing is claimed for
        losses that have no finite sum.
    """
    zcdp = [loss.zcdp() for loss in losses]
    rho = sum((Fraction(z.rho0) for z in zcdp), Fraction(0))
    failure = sum((z.delta0 for z in zcdp), Fraction(0))
    tops = [loss.top for loss in losses]
    bounded = [t for t in tops if isinstance(t, Fraction)]
    basic = sum(bounded, Fraction(0)) if len(bounded) == len(tops) else None
    if basic is not None and (claim is None or (basic <= claim[0] and failure <= claim[1])):
        return Cost(basic, failure, rho, failure)
    if claim is None or not fits(losses, *claim):
        raise NotProvedError("the losses of the parts are not covered by the price")
    return Cost(*claim, rho, failure)


def fits(losses: Sequence[p.PrivacyLoss], epsilon: Fraction, delta: Fraction) -> bool:
    """Whether losses, fixed in advance, compose to (ε, δ).

    Losses of δ alone (key selections) are set aside first: what remains may then
    compose in closed form.
    """
    rest = [loss for loss in losses if loss.top != 0]
    left = delta - sum((x.mass_at_infinity for x in losses if x.top == 0), Fraction(0))
    if left < 0 or not rest:
        return left >= 0
    joint = p.compose(rest)
    # the sum of ρ decides at once where the price was stated in ρ
    return joint.zcdp().delta(epsilon) <= left or joint.delta(epsilon) <= left
