"""Net of ``engines``: statements of many questions in every dialect; how columns are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from tests.snapshots import Case
from tests.snapshots._questions import COLUMNS, RULES, TEXTS, VISITS, lowered, policy

from discreet import plan as pl
from discreet import policy as pol
from discreet.engines import _ingest, _physical, _ranking, _render
from discreet.engines._dialect import Dialect, DuckDB, Postgres, Spark
from discreet.engines._physical import Field, Physical

DIALECTS: dict[str, Dialect] = {"duckdb": DuckDB(), "postgresql": Postgres(), "spark": Spark()}
NATIVE = {
    "duckdb": {
        "int": "INTEGER",
        "real": "DOUBLE",
        "text": "VARCHAR",
        "bool": "BOOLEAN",
        "date": "DATE",
        "time": "TIMESTAMP",
        "unit": "BIGINT",
        "dec": "DECIMAL(9,2)",
    },
    "postgresql": {
        "int": "int4",
        "real": "float8",
        "text": "text",
        "bool": "bool",
        "date": "date",
        "time": "timestamp",
        "unit": "int8",
        "dec": "numeric",
    },
    "spark": {
        "int": "int",
        "real": "double",
        "text": "string",
        "bool": "boolean",
        "date": "date",
        "time": "timestamp",
        "unit": "bigint",
        "dec": "decimal(9,2)",
    },
}
KINDS = {
    "int": Physical.INTEGER,
    "real": Physical.FLOAT,
    "text": Physical.TEXT,
    "bool": Physical.BOOLEAN,
    "date": Physical.DATE,
    "time": Physical.TIMESTAMP,
    "unit": Physical.INTEGER,
    "dec": Physical.DECIMAL,
}
OWN = {
    pol.Integer: "int",
    pol.Real: "real",
    pol.Category: "text",
    pol.Boolean: "bool",
    pol.Text: "text",
    pol.Date: "date",
    pol.Timestamp: "time",
}


def found(name: str, kind: str, dialect: str) -> Field:
    """A column as it stands in a source."""
    return Field(name, KINDS[kind], NATIVE[dialect][kind])


def sources(dialect: str, computed: bool = False) -> dict[str, _render.Source]:
    """Tables of the questions, as an engine sees them."""
    unit = {"id": found("id", "unit", dialect)}
    held = {"t": COLUMNS, "v": VISITS, "r": [COLUMNS[0], pol.Integer("zone", 0, 2)]}
    return {
        name: _render.Source(
            DIALECTS[dialect].quote(name),
            {c.name: found(c.name, OWN[type(c)], dialect) for c in columns}
            | ({} if name == "r" else unit),
            computed,
        )
        for name, columns in held.items()
    }


def _statements(dialect: str, rules: str):  # type: ignore[no-untyped-def]
    def cases() -> Iterator[tuple[str, Case]]:
        for text in TEXTS:
            yield text, partial(_written, dialect, rules, text)

    return cases


def _written(dialect: str, rules: str, text: str) -> object:
    told = []
    for aggregate in lowered(rules, text).aggregates:
        if aggregate.measures:
            for more in ({}, {"chunk": (1, 3)}):
                told.append(_render.render(DIALECTS[dialect], sources(dialect), aggregate, **more))
            told.append(_render.render(DIALECTS[dialect], sources(dialect, True), aggregate))
    return told


def _columns() -> list[pol.Column]:
    wide = 2**49
    return [
        pol.Integer("a", 0, 9),
        pol.Integer("a", -5, 5, outside="null"),
        pol.Integer("a", -3, 3, null=1),
        pol.Real("a", -1, 1, "0.1"),
        pol.Real("a", 0, 100, 5),
        pol.Real("a", 0, 9, "1/3", outside="null"),
        pol.Real("a", -wide, wide, 1),
        pol.Real("a", 0, 2**48, 1),
        pol.Real("a", 0, wide, 1),
        pol.Real("a", -wide, 0, 1),
        pol.Boolean("a"),
        pol.Boolean("a", null=True),
        pol.Text("a"),
        pol.Category("a", ["x", "y'"]),
        pol.Category("a", ["x", "y"], other="z", null="x"),
        pol.Category("a", [1, 2, 4]),
        pol.Category("a", [3, -2], other=0),
        pol.Date("a", "2020-01-01", "2021-01-01"),
        pol.Timestamp("a", "2020-01-01", "2021-01-01", 60),
        pol.Date("a", "2020-01-01", "2021-01-01", outside="null"),
    ]


def _reads() -> Iterator[tuple[str, Case]]:
    for dialect, (i, column) in itertools.product(DIALECTS, enumerate(_columns())):

        def told(dialect: str = dialect, column: pol.Column = column) -> object:
            spelled = []
            for kind in KINDS:
                own = found("a", kind, dialect)
                if own.kind in _physical.suitable(column):
                    raw = _ingest.raw(DIALECTS[dialect], column, own, "x")
                    spelled.append((kind, raw, _ingest.code(DIALECTS[dialect], column, own, "r")))
            return spelled

        yield f"{dialect} {i}", told
    for i, column in enumerate(_columns()):
        yield f"suits {i}", partial(_physical.suitable, column)


_SUMS = ((0, 1), (-5, 2**31), (0, 2**62), (-(2**63), 2**63 - 1), (0, 2**23 - 1), (0, 2**23),
         (-(2**23), 0), (0, 2**44 - 1), (0, 2**44), (-(2**44), 5))  # fmt: skip


def _words() -> Iterator[tuple[str, Case]]:
    """Pieces of statements, dialect by dialect."""
    for name, d in DIALECTS.items():
        yield (
            f"{name} literals",
            lambda d=d: [
                *(d.integer(x) for x in (0, -1, 2**31, -(2**63), 2**63 - 1)),
                *(d.real(x) for x in (0.0, -0.0, 0.1, 1e300, float("inf"), float("nan"))),
                *(d.text(x) for x in ("", "it's", "a\\b", "$x", "é")),
                d.quote("a", 'b"`'),
            ],
        )
        yield (
            f"{name} pieces",
            lambda d=d: [
                d.trimmed("x"),
                d.xor("a", "b"),
                d.bit("t"),
                d.divide("n", "d"),
                d.rounded("x"),
                d.is_whole("x"),
                d.days("x"),
                d.day("x"),
                d.decimal("x"),
                d.shifted("x", 3),
                d.scaled("x", 2.5),
                d.text_residue("x", 7),
                d.is_text("x"),
                d.collated("x"),
                *(d.total("x", b) for b in _SUMS),
                *(d.choose("x", v) for v in ((0,), (1, 2, 3), ("a", "b"))),
                *(d.position("x", v) for v in (("a",), [f"v{i}" for i in range(40)])),
                *(d.lookup("x", v) for v in ((1, 2), ("a", "b'"))),
            ],
        )
        for kind in KINDS:
            own = found("a", kind, name)
            yield (
                f"{name} {kind}",
                lambda d=d, f=own: [
                    _spelled(lambda: d.whole("x", f, (0, 9))),
                    _spelled(lambda: d.place("x", (0, 1), f)),
                    _spelled(lambda: d.unit("x", f)),
                    _spelled(lambda: d.touched(f)),
                    _spelled(lambda: d.as_double("x", f)),
                    _spelled(lambda: d.as_text("x", f)),
                    _spelled(lambda: d.label("x", f)),
                    _spelled(lambda: d.micros("x", f)),
                    _spelled(lambda: d.remainder("x", 7, f)),
                ],
            )
        for low, high in itertools.product((-(2**60), -5, 0, 3), (5, 2**20, 2**60)):
            yield f"{name} packed {low} {high}", partial(_packed, d, low, high)
        for low, room in itertools.product((-7, -8, 0, 5), (-9, -8, -7, -1)):
            ends = (low, 2**63 + room)
            yield f"{name} over 7 {ends}", partial(_ingest.floor_div, d, "x", 7, ends)
        for n, k in itertools.product((1, 3, 7, 2**40), (0, 5)):
            yield (
                f"{name} floor {n} {k}",
                lambda d=d, n=n, k=k: d.floor_wide("x", n, k, lambda s: f"[{s}]"),
            )


def _spelled(case: Case) -> object:
    try:
        return case()
    except Exception as refusal:
        return type(refusal).__name__


def _packed(dialect: Dialect, low: int, high: int) -> object:
    number, bit = pl.Type.number(low, high, null=True), pl.Type.number(0, 1, null=False)
    names = (f"w{i}" for i in itertools.count())
    items = [_ranking.Item("a", number), _ranking.Item("b", bit), _ranking.Item("c", number)]
    packed = _ranking.pack(dialect, items, lambda: next(names))
    mixed = [_ranking.mixed(dialect, c, "u", p) for c in (0, 3) for p in ((), ("a",), ("a", "b"))]
    return packed, mixed, [_ranking.residue(dialect, x) for x in items], [x.bits for x in items]


def _checks() -> Iterator[tuple[str, Case]]:
    """Sources that suit a policy, and those that do not."""
    base = {c.name: found(c.name, OWN[type(c)], "duckdb") for c in COLUMNS}
    base |= {"id": found("id", "unit", "duckdb")}
    rest = {
        "cost": found("cost", "int", "duckdb"),
        "ward": found("ward", "text", "duckdb"),
        "id": found("id", "unit", "duckdb"),
    }
    zones = {"sex": base["sex"], "zone": found("zone", "int", "duckdb")}
    changes: dict[str, dict[str, Field | None]] = {
        "as it is": {},
        "missing": {"age": None},
        "near": {"age": None, "agee": base["age"]},
        "text for a number": {"age": found("age", "text", "duckdb")},
        "number for a date": {"day": found("day", "int", "duckdb")},
        "upper": {"age": None, "AGE": found("AGE", "int", "duckdb")},
        "real unit": {"id": found("id", "real", "duckdb")},
        "text unit": {"id": found("id", "text", "duckdb")},
        "no unit": {"id": None},
        "narrow unit": {"id": Field("id", Physical.INTEGER, "INTEGER")},
        "number for a label": {"sex": found("sex", "int", "duckdb")},
    }
    for rules, (name, change) in itertools.product(("rows", "few rows"), changes.items()):

        def told(rules: str = rules, change: dict[str, Field | None] = change) -> object:
            own = {n: f for n, f in (base | change).items() if f is not None}
            return _physical.check(policy(rules), {"t": own, "v": rest, "r": zones})

        yield f"{rules} {name}", told
    yield "digits", lambda: [found("a", "dec", d).digits for d in ("duckdb", "spark")]


FAMILIES = {
    **{f"{d} {r}": _statements(d, r) for d in DIALECTS for r in RULES},
    "reads": _reads,
    "words": _words,
    "checks": _checks,
}
