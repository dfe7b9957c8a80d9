r"""Joint parts: several integers per cell, protected by one draw and paid for once.

Guarantee
---------
All integers of a :class:`Joint` part, in all cells together, move by at most its declared
sensitivity when one unit is added, removed or changed. It draws one vector of noise over all
of them and states one loss. :meth:`Joint.measurements` hands out that whole vector, so a
replay measures the distance that the loss speaks of.

Which integers
--------------
Values x of a column lie in lo … hi, R = hi − lo, and t = x − lo. A row that counts adds
shares of one total D to the integers of a *family*:

===========  ==========================================  ======
asked        integers (sums over rows)                   D
===========  ==========================================  ======
a count      1                                           1
a mean       t, R − t                                    R
a variance   (R − t)², 2t(R − t), t²                     R²
===========  ==========================================  ======

and, where all rows are counted too, D for a row whose value is NULL. The shares are never
negative and add up to D or, for a row that does not count, to nothing; so
:func:`~discreet.plan._stability.partition_sensitivity` applies. NULL costs nothing more,
and neither do count and sum beside a mean: all are linear in the same integers, hence
SUM = AVG · COUNT in every row of an answer.

Every integer is a form with whole coefficients over sums that the engine returns: rows,
rows with a value, Σx and Σ(x − c)², c the middle of the range. The statement is
proved for each of these sums on its own (:attr:`Joint.inputs`); that the forms are shares of
D is algebra, by

.. math:: \sum t^2 = \sum(x-c)^2 + 2(c-lo)\sum(x-c) + (c-lo)^2 n.

Where the number of rows is public
----------------------------------
(Row units, change-one, no NULL, no groups.) Then a mean needs Σy alone, a variance Σy and Σy²,
y = x − c. With h the larger distance of an end from c, a row's (hy, y²) moves by at most 9h²/4 in
L1: Δ(ay ± by²) is at most :math:`b(h+a/2b)^2=bh^2(1+\theta)^2`, :math:`\theta=a/2bh\le1`. So the
noise of Σy² is :math:`(1+\theta)^2`, that of Σy :math:`(1+\theta)^2/4\theta` times what it would
be were it asked alone; at half of the price each both would be 2. The error of nσ² is that of Σy²
less 2(m − c) times that of Σy. For means m spread evenly over the range its mean square is least
near θ = 0.45; a mean alone wants θ = 1. At θ = ½ the noises are 9/4 and 9/8: means are 1.78 times
as exact as by halves, variances 0.89 times with m = c, 1.64 times with m at an end of the range.
With m − c = μh a variance has :math:`\tfrac14(1+\theta)^2\sqrt{1+\mu^2/\theta^2}` times the noise
that would be added to it directly (R² for one row): at θ = ½ it is 0.56 at μ = 0 and 1.26 at
μ = 1, where no θ gives less than 1.24. So a variance asked alone is measured in two rounds
(:mod:`discreet.plan._variances`); beside a mean or a sum this is ahead of paying for both.
Gaussian noise is there 2 and 1 times that of each alone, instead of √2. The exact norms are
those of :func:`~discreet.plan._stability.powers_sensitivity`.

References
----------
A. Kulesza, A. Suresh, Y. Wang, "Mean estimation in the add-remove model of differential
privacy", ICML 2024, for the pair; Bernstein's basis of degree two for the variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from discreet._dataclass import dataclass
from discreet.plan._parts import (
    Cells,
    Draw,
    Exact,
    Groups,
    Ints,
    Law,
    Part,
    Priced,
    Release,
    Rule,
    add,
    loss_of,
)
from discreet.plan._stability import Sensitivity
from discreet.plan._vectors import Numbers

Form = tuple[tuple[int, int], ...]
"""Measures with whole coefficients."""


class Power(NamedTuple):
    """A sum of powers: its release, the factor it was measured by, what was taken off each row."""

    place: int
    times: int = 1
    shift: int = 0


@dataclass(frozen=True)
class Joint(Part):
    """Several integers per cell: forms over measures, with noise of one law."""

    forms: tuple[Form, ...]
    read: tuple[tuple[int, Sensitivity], ...]

    kind: ClassVar[str] = "joint"

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """The first measure stands for all: they count the same rows."""
        return self.read[0]

    @property
    def inputs(self) -> tuple[tuple[int, Sensitivity], ...]:
        """Every measure of the forms."""
        return self.read

    @property
    def outlets(self) -> int:
        """One release for each form."""
        return len(self.forms)

    @property
    def numbers(self) -> int:
        """One for each form."""
        return len(self.forms)

    def price(self, rule: Rule) -> Priced:
        """One draw over all forms and cells."""
        if not self.private:
            return Priced(self, None, ())
        law = self.law(rule)
        return Priced(self, law, (loss_of(law, self.sensitivity, self.coordinates),))

    def releases(
        self, priced: Priced, groups: Groups, cells: Cells, draw: Draw
    ) -> tuple[Release, ...]:
        """Add the one draw, form by form."""
        totals = {m: cells.totals(groups, m) for m, _ in self.read}
        zero = np.array([0] * len(cells), dtype=object)
        exact = [sum((c * totals[m] for m, c in form), zero) for form in self.forms]
        if priced.law is None:
            noise: Ints = np.zeros((len(self.forms), len(cells)), dtype=object)
        else:
            draws = draw.sample(priced.law, len(self.forms) * len(cells))
            noise = np.asarray(draws).reshape(len(self.forms), len(cells))
        return tuple(
            Numbers(tuple(map(int, add(one, more))), priced.law)
            for one, more in zip(exact, noise, strict=True)
        )

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """All forms of every group that the table holds, as one vector."""
        yield (
            "",
            {
                (*cell, j): sum(c * values[m] for m, c in form)
                for cell, values in groups.items()
                for j, form in enumerate(self.forms)
            },
        )


@dataclass(frozen=True)
class TwoShares(Joint):
    """A joint part whose one draw gets two shares of a price, as two counts apart would get."""

    @property
    def draws(self) -> int:
        """Equal shares of a price."""
        return 2 * super().draws

    @property
    def losses(self) -> int:
        """One, whatever it is paid with."""
        return int(self.private)

    def law(self, rule: Rule) -> Law:
        """Noise for both shares."""
        return rule.times(2).law(self.sensitivity)
