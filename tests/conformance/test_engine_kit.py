"""The kit for engines: ours give the reference's integers on every case, broken ones do not."""

from __future__ import annotations

import pytest

from discreet import audit, engines
from discreet.audit import _nasty
from discreet.engines import Reference


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_our_engines_conform(world, kind):
    """The world holds the very rows that the kit draws."""
    connection = world.connections[kind == "postgres"]
    report = audit.check_engine(lambda _, policy: engines.connect(connection, policy))
    assert report.ok, report
    assert {c.name for c in report.checks} == {"columns", "groups", "expressions", "conditions",
        "keys", "limits", "public joins", "fan-out", "private fan-out", "joins", "values",
        "private values", "per unit", "private joins", "salts", "repeats"}  # fmt: skip


def test_rows_come_as_arrow_tables_too():
    report = audit.check_engine(
        lambda held, policy: engines.connect(held.arrow(), policy), rows=50, every=25
    )
    assert report.ok, report


class Doubled(Reference):
    """Mutant: every integer is even."""

    def execute(self, aggregate, salt):
        groups = super().execute(aggregate, salt)
        return {k: tuple(2 * (v // 2) for v in vs) for k, vs in groups.items()}


class Open(Reference):
    """Mutant: limits are not kept."""

    def execute(self, aggregate, salt):
        tables = {t: [r | {"id": i, "person": str(i)} for i, r in enumerate(rows)]
                  for t, rows in self._tables.items()}  # fmt: skip
        return Reference(tables).execute(aggregate, salt)


class Talkative(Reference):
    """Mutant: tells how often keys of any table repeat."""

    def fanout(self, public, columns):
        return 2


class Failing(Reference):
    """Mutant: NULL in a column fails the run."""

    def execute(self, aggregate, salt):
        if any(r["age"] is None for r in self._tables[_nasty.TABLE]):
            raise ValueError
        return super().execute(aggregate, salt)


@pytest.mark.parametrize(
    ("engine", "check"),
    [(Doubled, "columns"), (Open, "limits"), (Talkative, "private fan-out"), (Failing, "groups")],
)
def test_broken_engines_are_told_apart(engine, check):
    report = audit.check_engine(lambda held, _: engine(held.rows), rows=60, every=9)
    assert check in {c.name for c in report.failures}, report
