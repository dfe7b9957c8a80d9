"""Kruskal and Wallis' question over a curator's table: one noisy integer, paid from the ledger.

Guarantee
---------
At most one row per unit enters (the curator's own contribution limit, with a fresh secret
salt). One such row more or less, or another in its place, moves what is measured no further
than :mod:`._absolute_ranks` proves, under either relation: ε-DP for the policy's unit, under
its relation. Rows without a value or a listed group do not count, and need not: the proof
asks for no public number of rows.

That number chooses how far scores go, and the p-value needs it. It is public where one row
may change, a row is the unit, nothing can be missing and no WHERE picks rows; then it is
given exactly, and all of ε is the statistic's. Else :data:`COUNTED` of ε releases it first,
with noise: one unit moves it by one. The p-value then takes :data:`SPARE` deviations of
that noise more than was released: f grows in law with the number of rows, and a number too
small rejects too often. How much more is simulated, not proved; where noise hides the number,
no evidence is claimed.

The road is that of :func:`curated_test`: parsed and checked, proved, debited, run, stored,
shown; asked again, it is free, and has the same p-value.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import _exact, noise
from discreet import mechanisms as m
from discreet import privacy as p
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet.curator import Job, execute, travel
from discreet.errors import ParameterError
from discreet.inference import _absolute_ranks as ranks
from discreet.inference._inputs import seeded
from discreet.inference._laws import Noise, Rng
from discreet.inference._regression import table_of
from discreet.inference._results import TestResult, least_of, read_draws
from discreet.inference._rows import moves_of, one_row_each
from discreet.inference._twosample import HIDDEN
from discreet.plan import Aggregate, Query, Scan, charge, digest

if TYPE_CHECKING:
    from discreet.curator import Curator

COUNTED: Final = Fraction(1, 10)
"""Share of ε for the number of rows, where that is private."""

SPARE: Final = 0.5
"""Standard deviations of its noise that are added to a private number of rows."""

_CLEAR: Final = 3.0
"""Standard deviations of its noise that a private number of rows must be."""

DRAWS: Final = 1_999


@dataclass(frozen=True, slots=True)
class Design:
    """What of a test is public beforehand: groups, rows that one unit moves, and the noise."""

    groups: int
    times: int
    epsilon: Fraction
    law: noise.DiscreteLaplace
    counted: noise.DiscreteLaplace | None

    @classmethod
    def of(cls, groups: int, relation: p.Neighbours, epsilon: Fraction, *, public: bool) -> Design:
        """Share out ε: all to the statistic where the number of rows is public."""
        share = Fraction(0) if public else COUNTED
        left = epsilon * (1 - share)
        counted = noise.DiscreteLaplace(1 / (epsilon * share)) if share else None
        times = 2 if relation is p.Neighbours.CHANGE_ONE else 1
        return cls(groups, times, left, noise.DiscreteLaplace(ranks.GRID / left), counted)

    @property
    def losses(self) -> list[p.PrivacyLoss]:
        """Loss of the statistic, and of the number of rows."""
        own = p.DiscreteLaplace(self.law.scale, ranks.GRID)
        return [own] if self.counted is None else [own, p.DiscreteLaplace(self.counted.scale, 1)]

    @property
    def laws(self) -> str:
        """The laws, as the ledger enters them."""
        both = [self.law] if self.counted is None else [self.law, self.counted]
        return json.dumps([law.to_dict() for law in both], sort_keys=True)

    def reach(self, rows: int) -> int:
        """How far scores go, by a number of rows that is public or released."""
        return ranks.clip(rows, self.groups, self.epsilon, self.times)

    def measure(
        self, values: Any, places: Any, words: ranks.Words = noise.random_words
    ) -> tuple[int, int]:
        """Release the number of rows, and the statistic with scores that go as far as it says."""
        rows = int(values.size)
        if self.counted is not None:
            rows = int(m.geometric(rows, sensitivity=1, epsilon=1 / self.counted.scale).value)
        reach = self.reach(rows)
        found = ranks.excess(values, places, self.groups, reach, words)
        steps = ranks.in_steps(found, reach, self.times)
        return rows, int(m.geometric(steps, sensitivity=ranks.GRID, epsilon=self.epsilon).value)

    def read(self, release: dict[str, Any], draws: int, rng: Rng) -> TestResult:
        """Make the result of what was released."""
        rows, value = int(release["rows"]), int(release["excess"])
        about = "" if self.counted is None else "about "
        parameters: dict[str, object] = {
            "groups": self.groups,
            "rows": f"{about}{max(rows, 0)}",
            "scores": f"ranks up to {self.reach(rows)} from the middle",
            "noise": self.law,
        }
        statistic, most = value / ranks.GRID, rows
        if self.counted is not None:
            spread = math.sqrt(self.counted.variance)
            most = math.ceil(rows + SPARE * spread)
            if rows < _CLEAR * spread:
                parameters["note"] = HIDDEN.replace("a group is small", "there are few rows")
                method = "absolute ranks of groups (not applied)"
                return TestResult(statistic, 1.0, "greater", method, parameters)
        source = seeded(rng, json.dumps(release, sort_keys=True).encode())
        found = ranks.pvalue(
            value,
            Noise(self.law),
            most,
            groups=self.groups,
            reach=self.reach(rows),
            times=self.times,
            draws=draws,
            source=source,
        )
        method = f"absolute ranks of groups (Monte Carlo, {draws} draws)"
        return TestResult(statistic, found, "greater", method, parameters, floor=least_of(draws))


def curated_kruskal(
    curator: Curator,
    column: str,
    *,
    by: str,
    epsilon: Number,
    table: str | None = None,
    where: str | None = None,
    draws: int = DRAWS,
    fresh: bool = False,
    rng: Rng = None,
) -> TestResult:
    """Test whether groups of a curator's table have one distribution, by exact ranks.

    Needs no bins, unless the column has more than 100 000 values. Serves this question only: where
    the counts of :func:`kruskal_test` are released anyway, that costs nothing further.

    Parameters
    ----------
    curator
        Whose table is tested; its ledger is debited.
    column
        What is ranked: a numeric column or row expression. NULL rows are left out.
    by
        A column of public values: the groups.
    epsilon
        Cost of the whole test. A tenth counts the rows where their number is private.
    table, where
        Which table (needed when the policy has several) and which rows, as in SQL.
    draws
        Simulated null statistics.
    fresh
        Pay again even if the same question was answered before.
    rng
        For the simulation; left out, the same release has the same p-value.

    Examples
    --------
    >>> import discreet as dc, pyarrow as pa
    >>> from discreet import inference as inf
    >>> sex, pay = ["F", "M"] * 200, [i % 97 + 40 * (i % 2) for i in range(400)]
    >>> policy = {"budget": {"epsilon": "1"}, "tables": {"jobs": {"columns": {
    ...     "sex": {"type": "category", "values": ["F", "M"]},
    ...     "pay": {"type": "integer", "min": 0, "max": 500}}}}}
    >>> data = pa.table({"sex": sex, "pay": pay})
    >>> with dc.open(data, policy=policy, ledger=":memory:") as curator:
    ...     found = inf.curated_kruskal(curator, "pay", by="sex", epsilon=1)
    >>> found.pvalue < 0.05, found.loss.epsilon()
    (True, 1.0)
    """
    epsilon, draws = _exact.epsilon(epsilon), read_draws(draws)
    aggregate, query = one_row_each(curator, [column], by, table, where)
    groups = len(aggregate.keys[-1].codes or ())
    design = Design.of(groups, query.neighbours, epsilon, public=_all_rows(aggregate, query))
    if design.groups < 2:
        raise ParameterError(
            f"{by!r} has one public value; ranks are compared between groups",
            hint="by a column of two values or more",
        )

    def run() -> str:
        rows, value = design.measure(*_rows(curator, aggregate))
        coin = noise.random_words(2).tobytes().hex()
        return json.dumps({"absolute ranks": 1, "rows": rows, "excess": value, "coin": coin})

    job = Job(
        plan=f"absolute-ranks {json.dumps({'by': by})} {digest(aggregate)}",
        cost=charge(design.losses),
        noise=design.laws,
        neighbours=query.neighbours.value,
        unit=aggregate.unit,
        tables=(table_of(curator, table).name,),
        run=run,
    )
    text = travel(curator, job, aggregate, moves_of(query), fresh=fresh).text
    loss = p.compose(
        [x.under(query.neighbours, unit=aggregate.unit or "row") for x in design.losses]
    )
    return replace(design.read(json.loads(text), draws, rng), loss=loss)


def _all_rows(aggregate: Aggregate, query: Query) -> bool:
    """Whether the number of rows that count is public: all rows do, and neighbours keep them."""
    scan = query.relation
    return (
        query.neighbours is p.Neighbours.CHANGE_ONE
        and isinstance(scan, Scan)
        and scan.table.unit is None
        and not any(key.expr.type.nullable for key in aggregate.keys)
    )


def _rows(curator: Curator, aggregate: Aggregate) -> tuple[Any, Any]:
    """Read the rows: codes of values, which are ordered as values are, and places of groups."""
    place: dict[object, int] = {c: i for i, c in enumerate(aggregate.keys[-1].codes or ())}
    cells = [
        (value, place[group], count)
        for (value, group), (count, *_) in execute(curator, aggregate).items()
        if value is not None and group in place
    ]
    table = np.array(cells, dtype=np.int64).reshape(-1, 3)
    return np.repeat(table[:, 0], table[:, 2]), np.repeat(table[:, 1], table[:, 2])
