"""Generated expressions, tables and limits: Spark equals the reference, and DuckDB, every time.

The generator is that of ``tests/conformance/test_engine_generated.py``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from discreet import engines, plan
from discreet import policy as pol

pytestmark = pytest.mark.races  # a session is a process, and talks through sockets
_FILE = Path(__file__).parents[1] / "conformance" / "test_engine_generated.py"
_SPEC = importlib.util.spec_from_file_location("generated_plans", _FILE)
generated = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generated)

SCHEMA = pa.schema({"c": pa.string(), "f": pa.bool_(), "n": pa.int32(), "m": pa.int32(),
                    "x": pa.float64(), "d": pa.date32(), "id": pa.int64()})  # fmt: skip
BATCH = 8
PLANS = given(
    st.lists(generated.aggregates(), min_size=BATCH, max_size=BATCH),
    generated.TABLES,
    st.binary(min_size=1, max_size=4),
)
# a batch that disagrees names its plan; making it smaller would run Spark a thousand times
ONCE = {
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
    "deadline": None,
}


def agree(spark, kit, chosen, rows, key):
    salt = plan.Salt(key)
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
    parts = {}
    for choices, asked in chosen:
        parts.setdefault(tuple(sorted(choices.items())), []).append(asked)
    for choices, asked in parts.items():
        table = pol.Table("t", generated.COLUMNS, **dict(choices))
        engine = engines.connect({"t": frame}, pol.Policy([table], pol.Budget("1")))
        for one, found in zip(asked, kit.together(engine, asked, salt), strict=True):
            assert found == plan.run(one, {"t": rows}, salt), engine.sql(one)
        engine.close()


@settings(max_examples=1, **ONCE)
@PLANS
def test_generated_plans_agree(spark, kit, chosen, rows, key):
    agree(spark, kit, chosen, rows, key)


@pytest.mark.long
@settings(max_examples=2000 // BATCH, **ONCE)
@PLANS
def test_two_thousand_generated_plans_agree(spark, kit, chosen, rows, key):
    agree(spark, kit, chosen, rows, key)


def test_a_wrong_integer_is_noticed(spark, kit):
    """The comparison can fail: one more row is one more unit."""
    rows = [dict.fromkeys(SCHEMA.names) | {"id": 1}]
    table = pol.Table("t", generated.COLUMNS)
    asked = plan.aggregate(plan.Scan(table), (), (plan.Measure(plan.MeasureKind.UNITS),),
                           plan.Limits(rows=1))  # fmt: skip
    with pytest.raises(AssertionError):
        frame = [*rows, *rows]
        salt = plan.Salt(b"x")
        engine = engines.connect(
            {"t": spark.createDataFrame(pa.Table.from_pylist(frame, SCHEMA))},
            pol.Policy([table], pol.Budget("1")),
        )
        assert kit.together(engine, [asked], salt) == [plan.run(asked, {"t": rows}, salt)]
