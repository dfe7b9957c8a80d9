"""Faults of the sample of seed 9700 that no test saw, until these did."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from discreet import noise, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet.plan._trees import Tree
from discreet.privacy._combine import Group
from discreet.privacy._loss import PrivacyLoss
from discreet.privacy._pair import Pair


@pytest.mark.parametrize(("width", "told"), [(1, 0), (2, 1)])
def test_leaves_of_one_value_are_not_called_coarse(width, told):
    moves = pl.Sensitivity(1, 1, 1)
    tree = Tree(0, moves, 1, levels=1, leaves=16, lo=Fraction(0), width=Fraction(width),
                hi=Fraction(16 * width), step=Fraction(1), name="age")  # fmt: skip
    assert len(tree.facts(noise.DiscreteLaplace(1))) == told


class Heard(PrivacyLoss):
    """A loss that remembers where it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def log_delta(self, epsilon):
        self.asked += epsilon.tolist()
        return -epsilon


@pytest.mark.parametrize("k", [2, 3, 7, 10])
def test_a_group_s_profile_is_read_no_later_than_at_its_share(k):
    """Rounded up, the place would be one where less is lost."""
    base, places = Heard(), np.linspace(0.01, 9, 500)
    Group.build(base=base, k=k).log_delta(places)
    assert all(Fraction(x) * k < Fraction(e) for x, e in zip(base.asked, places, strict=True))


def test_the_largest_loss_of_a_small_sample_is_not_rounded_below_itself():
    """Where ε and the logarithm of the rate cancel, little is left but their rounding."""
    with localcontext() as context:
        context.prec = 60
        for i in range(1, 400):
            rate = Fraction(i, 10**17)
            exact = (1 + Decimal(i) / 10**17 * (Decimal(30).exp() - 1)).ln()
            assert Decimal(float(p.sample(p.Pure(30), rate).top)) >= exact


def test_a_grid_is_raised_until_it_loses_as_much_one_way_as_the_other():
    base, g = p.Laplace(1), 0.1
    pair = Pair(lambda e: base.log_delta(e) - 1e-4, base.log_delta, base.top, base.top)
    grid = pair.on_grid(Fraction(1, 10))
    start = -grid.start
    ahead, behind = grid.masses[start + 1 :], grid.masses[:start][::-1]
    forward, backward = (-np.expm1(-g * np.arange(1, len(x) + 1)) for x in (ahead, behind))
    back = behind * np.exp(g * np.arange(1, len(behind) + 1))
    assert float((ahead * forward).sum()) + grid.infinite >= float((back * backward).sum())


def test_keys_that_where_leaves_open_are_listed_where_nothing_counts_rows():
    table = pol.Table("t", [pol.Integer("a", 0, 10**7)])
    policy = pol.Policy([table], pol.Budget("1"))
    text = "SELECT a % 7 AS s, COUNT(*) AS n FROM t WHERE a % 5 = 2 GROUP BY s"
    query = sql.parse(text, policy).query
    assert query.vague == ("s",)
