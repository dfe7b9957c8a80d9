"""One nasty table: every kind of column over every physical type, with the values that hurt.

Engines are compared on it (:func:`discreet.audit.check_engine`); our own tests use it too.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

from discreet import policy as pol

Row = dict[str, Any]

# The nasty table: every column with its policy, its physical type and its pool of values.

_HUGE = 2**62 - 1
_INF, _NAN = math.inf, math.nan
_FLOATS = (
    None, _NAN, _INF, -_INF, 0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.5, 2.5, -2.5,
    0.005, 0.015, 1.005, 1234.565, 99999.995, 1e5, 1e16, 2.0**53 + 2, -1e300,
    1.7976931348623157e308, 0.49999999999999994, -0.5,
)  # fmt: skip
_INTEGERS = (None, 0, 1, -1, 2, 3, 7, 100, -100, 2**31 - 1, -(2**31))
_LONGS = (*_INTEGERS, 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63))
_DAYS = (None, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29),
         dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2023, 12, 31),
         dt.date(2024, 1, 1))  # fmt: skip
_MOMENTS = tuple(
    None if d is None else dt.datetime.combine(d, t)
    for d in _DAYS
    for t in (dt.time(), dt.time(23, 59, 59, 999999), dt.time(12, 30, 0, 1))
)
_WORDS = (
    None,
    "",
    "a",
    "A",
    "b",
    "ä",
    "é\u0301",
    "😀",
    "o'clock",
    'say "x"',
    "100%",
    "a ",
    "\\",
    "z",
)
_SEXES = (None, "F", "M", "X", "f", "F ", "other", "", "divers")
_DECIMALS = tuple(
    None if x is None else Decimal(x)
    for x in (None, "0", "1", "0.005", "-0.005", "1.005", "2.675", "99999.999", "-123.450")
)
_WIDE_DECIMALS = tuple(
    None if x is None else Decimal(x)
    for x in (None, "0", "0.1000000000", "12345678901234567.8901234567", "-0.0049999999",
              "9999999999999999999999999999.9999999999", "1.0049999999")
)  # fmt: skip
_ZONED = tuple(None if m is None else m.replace(tzinfo=dt.UTC) for m in _MOMENTS[3:12])

SPEC: dict[str, tuple[pol.Column, str, tuple[object, ...]]] = {
    "sex": (pol.Category("sex", ["F", "M", "X"]), "TEXT", _SEXES),
    "sex other": (pol.Category("sex other", ["F", "M"], other="X"), "TEXT", _SEXES),
    "sex filled": (pol.Category("sex filled", ["F", "M"], null="M"), "TEXT", _SEXES),
    "many": (pol.Category("many", [*(f"k{i}" for i in range(40)), *(w for w in _WORDS if w)]),
             "TEXT", (*_WORDS, "k0", "k7", "k39", "k40")),
    "level": (pol.Category("level", [1, 2, 3]), "INTEGER", _INTEGERS),
    "odd": (pol.Category("odd", [7, -1, 100], other=0), "BIGINT", _LONGS),
    "odd many": (pol.Category("odd many", [*range(0, 90, 3), -1, 2**62 - 1]), "BIGINT",
                 (*_LONGS, 2**62 - 1)),
    "float level": (pol.Category("float level", [1, 2, -1], other=9), "DOUBLE PRECISION",
                    (*_FLOATS, 1.0, 2.0, -1.0)),
    "decimal level": (pol.Category("decimal level", [0, 1]), "DECIMAL(18,3)", _DECIMALS),
    "yes": (pol.Category("yes", [True, False]), "BOOLEAN", (None, True, False)),
    "yes number": (pol.Category("yes number", [False, True]), "INTEGER", (None, 0, 1, 2)),
    "flag": (pol.Boolean("flag"), "BOOLEAN", (None, True, False)),
    "flag filled": (pol.Boolean("flag filled", null=True), "BOOLEAN", (None, True, False)),
    "flag number": (pol.Boolean("flag number"), "INTEGER", (None, 0, 1, 2, -1)),
    "flag float": (pol.Boolean("flag float"), "DOUBLE PRECISION",
                   (None, _NAN, 0.0, -0.0, 1.0, 0.5)),
    "age": (pol.Integer("age", 0, 115), "INTEGER", _INTEGERS),
    "age null": (pol.Integer("age null", -100, 3, outside="null"), "INTEGER", _INTEGERS),
    "age filled": (pol.Integer("age filled", -7, 7, null=-3), "INTEGER", _INTEGERS),
    "big": (pol.Integer("big", -_HUGE, _HUGE), "BIGINT", _LONGS),
    "positive": (pol.Integer("positive", 1, _HUGE, outside="null"), "BIGINT", _LONGS),
    "float age": (pol.Integer("float age", -3, 2**53), "DOUBLE PRECISION", _FLOATS),
    "float big": (pol.Integer("float big", -_HUGE, _HUGE), "DOUBLE PRECISION", _FLOATS),
    "decimal age": (pol.Integer("decimal age", -10, 90), "DECIMAL(18,3)", _DECIMALS),
    "income": (pol.Real("income", 0, 100_000, "0.01"), "DOUBLE PRECISION", _FLOATS),
    "income null": (pol.Real("income null", "-2.5", 100_000, "0.5", outside="null"),
                    "DOUBLE PRECISION", _FLOATS),
    "income filled": (pol.Real("income filled", -1, 1, "0.001", null="0.125"),
                      "DOUBLE PRECISION", _FLOATS),
    "share": (pol.Real("share", -1, 1), "DOUBLE PRECISION", _FLOATS),
    "third": (pol.Real("third", -2, 2, "1/3"), "DOUBLE PRECISION", _FLOATS),
    "fine": (pol.Real("fine", 0, 2**22, "1/1073741824"), "DOUBLE PRECISION", _FLOATS),
    "coarse": (pol.Real("coarse", -9000, 9000, 3), "DOUBLE PRECISION", _FLOATS),
    "short": (pol.Real("short", -10, 10, "0.1"), "REAL", (None, _NAN, _INF, 0.5, -2.25, 3.0)),
    "price": (pol.Real("price", -10, 500, "0.01"), "DECIMAL(18,3)", _DECIMALS),
    "wide price": (pol.Real("wide price", 0, 8 * 10**13, "0.01"), "DECIMAL(38,10)", _WIDE_DECIMALS),
    "half": (pol.Real("half", 0, 50, "0.5"), "BIGINT", _LONGS),
    "one": (pol.Real("one", -50, 50, 1), "BIGINT", _LONGS),
    "day": (pol.Date("day", "1960-01-01", "2023-12-31"), "DATE", _DAYS),
    "day null": (pol.Date("day null", "1970-01-01", "2000-02-29", outside="null"), "DATE", _DAYS),
    "day of": (pol.Date("day of", "1960-01-01", "2023-12-31", null="1999-09-09"), "TIMESTAMP",
               _MOMENTS),
    "moment": (pol.Timestamp("moment", "1969-12-31", "2024-01-01"), "TIMESTAMP", _MOMENTS),
    "hour": (pol.Timestamp("hour", "1969-12-31", "2024-01-01", 3600, outside="null"), "TIMESTAMP",
             _MOMENTS),
    "zoned": (pol.Timestamp("zoned", "1900-01-01", "2024-01-01", 60), "TIMESTAMP WITH TIME ZONE",
              _ZONED),
    "zoned day": (pol.Date("zoned day", "1900-01-01", "2024-01-01"), "TIMESTAMP WITH TIME ZONE",
                  _ZONED),
    "midnight": (pol.Timestamp("midnight", "1960-01-01", "2023-12-31", 3600), "DATE", _DAYS),
    "word": (pol.Text("word"), "TEXT", _WORDS),
    "word filled": (pol.Text("word filled", null="it's"), "TEXT", _WORDS),
    "word number": (pol.Text("word number"), "BIGINT", _LONGS),
    'Größe "x" %s': (pol.Integer('Größe "x" %s', 0, 9), "INTEGER", _INTEGERS),
}  # fmt: skip
UNITS: dict[str, tuple[str, tuple[object, ...]]] = {
    "id": ("BIGINT", (None, *range(-9, 30), 2**63 - 1, -(2**63), 2**31 - 1, 2**31 - 2)),
    "person": ("TEXT", (*_WORDS, *(f"p{i}" for i in range(25)))),
}
LIMITS: tuple[dict[str, Any], ...] = (
    {"max_rows_per_unit": 1},
    {"max_rows_per_unit": 3},
    {"max_groups_per_unit": 2, "max_rows_per_group": 2},
    {"max_groups_per_unit": 1, "max_rows_per_group": 1},
    {"max_rows_per_unit": 4, "max_groups_per_unit": 3, "max_rows_per_group": 2},
    {"max_rows_per_unit": 5, "max_rows_per_group": 3},
    {"max_rows_per_unit": 3, "max_groups_per_unit": 2},
)
TABLE = 'people "of" öðrum'


def table(*names: str, **choices: Any) -> pol.Table:
    """Build the private table under a unit and limits, with all columns or a few.

    The reference ingests every declared column, so narrow tables keep the suite fast.
    """
    return pol.Table(TABLE, [SPEC[name][0] for name in names or SPEC], **choices)


def policy(**choices: Any) -> pol.Policy:
    """Build a policy of the nasty private table and a small public one."""
    columns: list[pol.Column] = [
        pol.Category("code", ["F", "M", "X"]),
        pol.Integer("weight", -5, 5),
        pol.Text("label"),
    ]
    region = pol.Table("region", columns, public=True)
    return pol.Policy([table(**choices), region], pol.Budget("1"), name="nasty")


def draw_rows(count: int, seed: int) -> list[Row]:
    """Draw rows at random from the pools; then a unit that owns a tenth of all rows."""
    source = random.Random(seed)  # noqa: S311 - the same rows every time
    rows: list[Row] = []
    for i in range(count):
        row: Row = {name: source.choice(pool) for name, (_, _, pool) in SPEC.items()}
        row |= {unit: source.choice(pool) for unit, (_, pool) in UNITS.items()}
        if i % 10 == 0:
            row |= {"id": 77, "person": "heavy"}
        rows.append(row)
    return rows


REGION: list[Row] = [
    {"code": "F", "weight": 1, "label": "one"},
    {"code": "M", "weight": 9, "label": None},
    {"code": "M", "weight": None, "label": "two"},
    {"code": "Q", "weight": 3, "label": "three"},
    {"code": None, "weight": 3, "label": "four"},
]
REGION_TYPES = {"code": "TEXT", "weight": "INTEGER", "label": "TEXT"}


def types_of_private() -> dict[str, str]:
    """Physical types of the private table, units included."""
    types = {name: kind for name, (_, kind, _) in SPEC.items()}
    return types | {unit: kind for unit, (kind, _) in UNITS.items()}
