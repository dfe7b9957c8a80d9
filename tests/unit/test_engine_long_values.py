"""Long values get names: Spark's parser reads a bracket to its end, and remembers every step."""

from __future__ import annotations

import math

from discreet import audit, engines
from discreet.audit import _nasty
from discreet.audit._engine_kit import cases, sample
from discreet.engines import _dialect, _render
from discreet.engines._physical import Field, check
from discreet.engines._spark import family
from discreet.errors import UnsupportedQueryError

SPARK = _dialect.Spark()
NATIVE = {
    "TEXT": "string", "INTEGER": "int", "REAL": "float", "DOUBLE PRECISION": "double",
    "TIMESTAMP": "timestamp_ntz", "TIMESTAMP WITH TIME ZONE": "timestamp",
}  # fmt: skip


def columns():
    """Columns of the kit's tables, as Spark holds them."""
    for table, types in sample(1).types.items():
        named = {name: NATIVE.get(kind, kind.lower()) for name, kind in types.items()}
        yield table, {name: Field(name, family(kind), kind) for name, kind in named.items()}


def statements():
    """What Spark is asked in every third case of the kit."""
    found = dict(columns())
    for case in list(cases())[::3]:
        matched = check(_nasty.policy(**case.choices), found)
        sources = {n: _render.Source(SPARK.quote(n), held) for n, held in matched.items()}
        try:
            yield _render.render(SPARK, sources, case.aggregate)
        except UnsupportedQueryError:
            continue


def steps(text):
    """Letters in brackets, once for each bracket about them; subqueries are read as they come."""
    begun, count = [], 0
    for at, letter in enumerate(text):
        if letter == "(":
            begun.append(at)
        elif letter == ")":
            start = begun.pop()
            count += 0 if text.startswith("(SELECT", start) else at - start
    return count


def most_steps():
    """Steps of the statement that has most."""
    return max(map(steps, statements()))


def test_what_spark_reads_before_it_opens_brackets_grows_with_the_statement():
    """One statement of the kit, of some millions of steps, had left 620 MB in Spark's parser."""
    assert most_steps() < 150_000


def test_long_values_in_brackets_are_noticed(monkeypatch):
    monkeypatch.setattr(_dialect.Spark, "longest", math.inf)
    assert most_steps() > 200_000


def test_values_with_names_of_their_own_are_the_same_integers(monkeypatch):
    """On DuckDB, where every value gets one."""
    monkeypatch.setattr(_dialect.DuckDB, "longest", 0)
    report = audit.check_engine(
        lambda held, policy: engines.connect(held.arrow(), policy), rows=60, every=17
    )
    assert report.ok, report
