"""Units by key and degree, and counts by lattice value: the same integers in every engine."""

from __future__ import annotations

import pytest

from discreet import sql
from discreet.audit import _nasty
from discreet.plan import lower

TABLE = _nasty.TABLE.replace('"', '""')
QUESTIONS = (
    'SELECT word, COUNT(*) AS n FROM "{t}" GROUP BY word',
    'SELECT "word filled", SUM(age) AS n FROM "{t}" WHERE age > 1 GROUP BY "word filled"',
    'SELECT MEDIAN("float age") AS m, MAX(day) AS d, QUANTILE(income, 0.9) AS q FROM "{t}"',
    'SELECT sex, MEDIAN(moment) AS m, MODE(level) AS o FROM "{t}" GROUP BY sex',
)


@pytest.mark.parametrize("unit", ["id", "person"])
@pytest.mark.parametrize("limits", _nasty.LIMITS, ids=str)
@pytest.mark.parametrize("text", QUESTIONS)
def test_engines_and_reference_agree(world, unit, limits, text):
    choices = {"unit": unit, **limits}
    low = lower(sql.parse(text.format(t=TABLE), _nasty.policy(**choices)).query)
    for part in low.parts:
        aggregate = low.aggregates[part.aggregate]
        assert world.agree(aggregate, **choices)
        for engine in world.engines(**choices):
            proof = engine.proof(aggregate)
            reading = proof.columns[len(aggregate.keys) + part.reads[0]]
            declared = part.reads[1]
            norms = (declared.l1, declared.l2_squared, declared.linf)
            assert reading.within(*norms, aggregate.neighbours.value)
            assert part.degree in {None, reading.upto}
