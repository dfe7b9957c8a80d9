"""On Spark, too, neighbouring tables differ in nothing that an analyst sees but the numbers.

Questions and what is looked at are those of ``tests/adversarial/test_leak_review.py``. A lonely key
may show with probability δ = 1e-9 on each of few tables: with fresh noise a run fails by chance
with a probability below 1e-7, without it never.
"""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import math
import re
from decimal import Decimal
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from discreet import engines, ledger
from discreet import policy as pol
from discreet.curator import Curator
from discreet.engines._spark import SparkEngine

pytestmark = pytest.mark.races  # a session is a process, and talks through sockets
REVIEW = Path(__file__).parents[1] / "adversarial" / "test_leak_review.py"
leaks = SimpleNamespace(**run_path(str(REVIEW)))
_NAMES = itertools.count()
SCHEMA = pa.schema({"id": pa.int64(), "sex": pa.string(), "age": pa.decimal128(38, 0),
                    "pay": pa.float64(), "member": pa.bool_(), "joined": pa.date32(),
                    "town": pa.string()})  # fmt: skip
DAY = dt.date(2010, 1, 1)
ROWS = [(i // 2, "FMX"[i % 3], Decimal(i % 99), i % 990 / 1, i % 2 == 0, DAY + dt.timedelta(i),
         f"t{i % 2}") for i in range(120)]  # fmt: skip
FAR = Decimal(10**38 - 1)
SOMEONE = {
    "nobody": [],
    "overflow": [(900, "X", FAR, 1e308, None, dt.date.max, leaks.SECRET)],
    "underflow": [(900, "Q", FAR.copy_negate(), -1e308, None, dt.date.min, "")],
    "infinite": [(900, None, Decimal(0), math.inf, True, DAY, chr(0))],
    "nan": [(900, "", Decimal(0), math.nan, False, None, None)],
    "no unit": [(None, "F", Decimal(1), 1.0, True, DAY, leaks.SECRET)],
    "many rows": [(900, "X", Decimal(i), 1.0, True, DAY, f"{i}") for i in range(60)],
}
"""Rows of one more person; each tries to make Spark fail, or say something."""


def seen(spark, rows, questions, limits):
    """What an analyst sees of each question."""
    own = pol.Policy(
        [pol.Table("people", leaks.COLUMNS, **limits)],
        pol.Budget("500", delta="1e-3", accounting="approx"),
        name=f"leaks on Spark {next(_NAMES)}",
    )
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in [*ROWS, *rows]]
    spark.createDataFrame(pa.Table.from_pylist(named, SCHEMA)).createOrReplaceTempView("people")
    asked = Curator(own, engines.connect(spark, own), ledger.MemoryLedger(own), "ann")
    shown = [leaks.visible(asked, text, epsilon=20, delta="1e-9") for text in questions]
    # statements are compared, too: the name of the view that holds the rows is another each time
    return [re.sub("discreet_[0-9a-f]{16}", "held", repr(one)) for one in shown]


def check(spark, people, questions, limits):
    shown = {name: seen(spark, SOMEONE[name], questions, limits) for name in people}
    for name, one in shown.items():
        for text, mine, nobodys in zip(questions, one, shown["nobody"], strict=True):
            assert mine == nobodys, (name, text)
    return shown["nobody"]


def test_nothing_but_the_numbers_differs(spark):
    questions = [leaks.QUESTIONS[i] for i in (4, 3)]
    check(spark, ["nobody", "overflow"], questions, leaks.LIMITS)


@pytest.mark.long
@pytest.mark.parametrize("limited", [False, True])
def test_nothing_but_the_numbers_differs_in_any_question(spark, limited):
    # without units, neighbours differ in one row
    people = [name for name in SOMEONE if limited or name != "many rows"]
    found = check(spark, people, leaks.QUESTIONS, leaks.LIMITS if limited else {})
    refused = [isinstance(shown[0][0], type) for shown in found]
    assert any(refused)
    assert not all(refused)


def test_the_comparison_can_fail(spark, monkeypatch):
    """Mutant: an engine that says what it has found is noticed."""
    whole = SparkEngine.execute

    def chatty(self, aggregate, salt):
        found = whole(self, aggregate, salt)
        logging.getLogger("engine").error("%d rows", next(iter(found.values()))[0])
        return found

    monkeypatch.setattr(SparkEngine, "execute", chatty)
    with pytest.raises(AssertionError):
        check(spark, ["nobody", "many rows"], leaks.QUESTIONS[:1], leaks.LIMITS)
