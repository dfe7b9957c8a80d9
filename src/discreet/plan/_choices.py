r"""Choices: one candidate of each cell, drawn by its score, priced for all cells together.

Guarantee
---------
Candidates of a cell are scored by the rows of that cell. Let one more row move each
score of its cell by at most Δ, in either direction. A choice is drawn with a factor e for every
:math:`2L\Delta/\varepsilon` of score (permute-and-flip, or the exponential mechanism), where L
bounds how many rows one unit moves in all. Then the choices of all cells *together* are ε-DP:
a unit that moves :math:`c_g` rows of cell g moves its scores by :math:`c_g\Delta`, so cell g
loses :math:`\varepsilon c_g/L` (both mechanisms lose in proportion), cells are drawn
independently, and :math:`\sum c_g \le L`. (For the exponential mechanism the lengths of the
intervals within which log-likelihood ratios move add up likewise: all cells together have the
bounded range ε.) A cell costs nothing of its own: no limit on groups
enters, only rows. Where every row only raises the scores (``monotone``) the 2 falls away. So it
does where every row moves any two scores apart by at most Δ: to add the same number to all scores
changes neither law, and with it they only rise. Where
each row raises one score alone, the scores of cell g move within the range :math:`\max_v c_{gv}`
of the rows by value, and :math:`c_g` below stands for that.

Under zCDP the exponential mechanism is used. Its log-likelihood ratio in cell g moves within an
interval of length :math:`\varepsilon c_g/L`, which is :math:`(\varepsilon c_g/L)^2/8`-zCDP
(Dong, Durfee, Rogers 2020; Cesar, Rogers 2021), so all cells cost
:math:`\varepsilon^2 S/(8L^2)` with S a bound on :math:`\sum c_g^2`. For a price ρ,
:math:`\varepsilon = L\sqrt{8\rho/S}`, rounded down.

Changing one unit is removing one and adding one: with L rows moved on both sides together
the argument is the same, and :math:`\sum_g(a_g+b_g)^2 \le 4\max(\sum a_g^2, \sum b_g^2)`.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

from discreet import mechanisms as m
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet.errors import NotProvedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.plan._parts import Rule


@dataclass(frozen=True)
class Moves:
    """Rows that one unit moves: in all cells together, and the sum of squares by cell."""

    rows: int
    squares: int


@dataclass(frozen=True)
class Choice:
    """One choice among candidates, ε-DP for scores that move by `sensitivity` at most."""

    epsilon: Fraction
    sensitivity: int = 1
    flip: bool = False
    monotone: bool = False

    @classmethod
    def priced(cls, rule: Rule, moves: Moves) -> tuple[Choice, p.PrivacyLoss]:
        """Choice and loss of one draw, in all cells together."""
        if rule.epsilon is not None:
            flip, epsilon = rule.flip, rule.epsilon
            return cls(epsilon, flip=flip), p.Pure(epsilon) if flip else p.BoundedRange(epsilon)
        if rule.rho is None:
            raise NotProvedError("a choice is priced by ε or by ρ")
        square = 8 * rule.rho * moves.rows**2 / moves.squares
        root = Fraction(isqrt(square.numerator * 4**40 // square.denominator), 2**40)
        # a price below 2^-80 would round to no choice at all
        return cls(max(root, Fraction(1, 2**40))), p.Zcdp(max(rule.rho, Fraction(1, 2**80)))

    def draw(self, scores: NDArray[Any]) -> int:
        """Choose an index."""
        how = m.permute_and_flip if self.flip else m.exponential
        return int(how(scores, self.sensitivity, self.epsilon, monotone=self.monotone).value)

    def to_dict(self) -> dict[str, object]:
        """The mechanism and the exact ε of one choice in all cells."""
        name = "permute-and-flip" if self.flip else "exponential"
        return {"choice": name, "epsilon": str(self.epsilon)}
