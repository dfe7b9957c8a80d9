"""Net of ``verify``: verdicts on what is one small change from known expressions and statements.

The tables beside the verifier's tests say what is known of 2 700 expressions and 180 statements.
Here each of them is changed in several small ways (a number, an operator, a column, a type, a word
left out or said twice), and what is said of that is recorded, whatever it is.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from functools import cache, partial

from tests.snapshots import Case
from tests.unit import test_verify_readings as statements
from tests.unit import test_verify_values as table

from discreet import verify
from discreet.errors import UnprovenStatementError
from discreet.verify import _domain, _read, _readings
from discreet.verify._read import Unproven

DIALECTS = ("duckdb", "postgresql", "spark")
PARTS = 12
"""Tests for each dialect."""
CASES = 16
"""Cases of a test, at most: each holds a few expressions."""

_WORDS = re.compile(
    r"\{\w+\}|'(?:[^']|'')*'|[A-Za-z_]\w*|\d+(?:\.\d+)?|<=|>=|<>|>>|<<|\|\||//|->>|[^\s\w]"
)
_OPERATORS = (
    ("+", "-", "*", "/", "%", "//"),
    ("<", "<=", ">", ">=", "=", "<>"),
    (">>", "<<", "&", "|", "#", "^"),
    ("AND", "OR"),
    ("NULL", "TRUE", "FALSE"),
    ("least", "greatest", "coalesce", "nullif"),
    ("floor", "ceil", "round", "trunc", "abs", "rint", "sign"),
    ("LEFT", "INNER"),
    ("row_number", "dense_rank", "rank"),
    ("min", "max", "sum", "count", "avg"),
    ("year", "month", "day", "quarter", "week", "dow", "hour", "minute", "epoch"),
    ("lower", "upper", "trim", "length", "md5", "reverse"),
)
_NUMBERS = (
    0,
    1,
    2,
    7,
    31,
    63,
    127,
    128,
    255,
    32767,
    32768,
    2**31 - 1,
    2**31,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    2**64,
)
_TYPES = {
    "duckdb": (
        "BIGINT",
        "INTEGER",
        "SMALLINT",
        "TINYINT",
        "HUGEINT",
        "UBIGINT",
        "DOUBLE",
        "FLOAT",
        "VARCHAR",
        "DATE",
        "TIMESTAMP",
        "BOOLEAN",
    ),
    "postgresql": (
        "BIGINT",
        "INTEGER",
        "SMALLINT",
        "int8",
        "int4",
        "float8",
        "float4",
        "numeric",
        "text",
        "date",
        "timestamp",
    ),
    "spark": ("BIGINT", "INT", "DOUBLE", "FLOAT", "STRING", "DATE", "TIMESTAMP", "BOOLEAN"),
}


def _pick(many: tuple[object, ...] | list[object], *seed: object) -> object:
    """One of many, by what is hashed: the same in every version of Python."""
    number = int.from_bytes(hashlib.sha256(repr(seed).encode()).digest()[:8], "big")
    return many[number % len(many)]


def changed(text: str, dialect: str, kind: int) -> str:
    """A text after one small change."""
    words = [(m.start(), m.end(), m[0]) for m in _WORDS.finditer(text)]
    choices: list[tuple[int, int, str]] = []
    for start, end, word in words:
        if kind % 3 == 0:
            choices += _another((start, end, word), dialect, kind)
        elif kind % 3 == 1 and re.fullmatch(r"\d+", word):
            near = (int(word) + 1, max(int(word) - 1, 0), int(word) * 2, *_NUMBERS)
            choices.append((start, end, str(_pick(near, text, kind, start))))
        elif kind % 3 == 2:
            choices.append((start, end, "" if kind % 2 else f"{word} {word}"))
    if not choices:
        start, end, word = words[-1]
        choices = [(start, end, "")]
    start, end, new = _pick(choices, text, kind)  # type: ignore[misc]
    return text[:start] + new + text[end:]


def _another(
    place: tuple[int, int, str], dialect: str, kind: int
) -> Iterator[tuple[int, int, str]]:
    start, end, word = place
    for group in (*_OPERATORS, tuple(table.COLUMNS[dialect]), _TYPES[dialect]):
        others = [w for w in group if w.lower() != word.lower()]
        if len(others) < len(group):
            yield start, end, str(_pick(others, word, start, kind))
    if word.startswith("{"):
        yield start, end, "{" + str(_pick(list("ABNZYGSXPTHKQ"), word, start, kind)) + "}"


def told(expression: str, dialect: str) -> str:
    """All that is known of a value, or the whole reason why it is refused."""
    try:
        v = table.value(expression, dialect)
    except Unproven as why:
        return f"refused, {why}"
    except Exception as why:
        return f"not foreseen, {type(why).__name__}"
    return repr(
        (
            v.type,
            v.lo,
            v.hi,
            v.null,
            v.nan,
            v.infinite,
            v.whole,
            v.literal,
            v.unit,
            v.sure,
            v.id and 1,
            v.far,
            v.gap,
            v.form,
            v.statistics,
            v.fields,
            v.per,
        )
    )


def _place(text: str, places: int) -> int:
    """Place of a text among some, whatever other texts there are."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % places


@cache
def _known(dialect: str) -> dict[int, list[str]]:
    """Expressions by their place: one more of them changes one case."""
    found: dict[int, list[str]] = {}
    for x in table.TABLE[dialect]:
        if len(x) < 400:
            found.setdefault(_place(x, PARTS * CASES), []).append(x)
    return dict(sorted(found.items()))


def _expressions(dialect: str, part: int, kinds: tuple[int, ...]):  # type: ignore[no-untyped-def]
    def cases() -> Iterator[tuple[str, Case]]:
        for place, some in _known(dialect).items():
            if place % PARTS == part:
                made = [changed(x, dialect, kind) for x in some for kind in kinds]
                yield f"{place}", lambda made=made: [(x, told(x, dialect)) for x in made]

    return cases


# -- statements ---------------------------------------------------------------------------------

_NATIVE = {
    "postgresql": {"BIGINT": "int8", "INTEGER": "int4", "VARCHAR": "text"},
    "spark": {"BIGINT": "bigint", "INTEGER": "int", "VARCHAR": "string"},
}


def _spelled(text: str, dialect: str) -> str:
    if dialect == "spark":
        return text.replace('"', "`")
    return (
        text.replace("DOUBLE", "float8").replace("VARCHAR", "text")
        if dialect == "postgresql"
        else text
    )


@cache
def _tables(dialect: str) -> tuple[dict[str, verify.Table], dict[tuple[str, frozenset[str]], int]]:
    from discreet._dataclass import replace

    types = _NATIVE.get(dialect, {})
    held = {
        _spelled(name, dialect): replace(
            t,
            columns={c: types.get(n, n) for c, n in t.columns.items()},
            owner=None
            if t.owner is None
            else (t.owner[0], _spelled(t.owner[1], dialect), t.owner[2]),
        )
        for name, t in statements.TABLES.items()
    }
    return held, {(_spelled(n, dialect), c): k for (n, c), k in statements.FANOUTS.items()}


def verdict(sql: str, dialect: str) -> object:
    """What is read off a statement, and what it bounds; or why it is refused."""
    tables, fanouts = _tables(dialect)
    try:
        proof = verify.prove(sql, dialect=dialect, tables=tables, fanouts=fanouts)
    except UnprovenStatementError as why:
        return f"refused, {why.reason}"
    reach = [r.sensitivity(n) for r in proof.measures for n in ("add-remove", "change-one")]
    return [repr(c) for c in proof.columns], repr(reach)


def _statements(dialect: str, part: int):  # type: ignore[no-untyped-def]
    def cases() -> Iterator[tuple[str, Case]]:
        for name, sql in statements.STATEMENTS.items():
            if _place(name, PARTS) != part:
                continue
            text = _spelled(sql, dialect)
            made = [
                text,
                *(
                    changed(text, "duckdb" if dialect == "duckdb" else dialect, kind)
                    for kind in range(12)
                ),
            ]
            if dialect != "duckdb":
                made = made[:6]
            yield name, lambda made=made: [(x, verdict(x, dialect)) for x in made]

    return cases


# -- pieces -------------------------------------------------------------------------------------


def _reads() -> Iterator[tuple[str, Case]]:
    """Readings and what they bound, over all kinds of limits."""
    inf = float("inf")
    places = itertools.product(
        ((0, 5), (-5, 0), (-2, 5), (-5, 5), (1, 5), (0, 0)),
        (0, 1, 3, inf),
        (1, 2, inf),
        (1, 2, inf),
        (1, 2, 5, inf),
    )
    fields = {f.name for f in __import__("dataclasses").fields(_readings.Reading)}
    grouped: dict[str, list[object]] = {}
    for ends, rows, groups, share, cells in places:
        given = {
            "lo": ends[0],
            "hi": ends[1],
            "rows": rows,
            "groups": groups,
            "rows_per_group": share,
            "cells": cells,
        }
        grouped.setdefault(f"{ends} {rows}", []).append(
            {k: v for k, v in given.items() if k in fields}
        )

    def bounded(many: list[dict[str, object]]) -> object:
        found = []
        for given, once, certain in itertools.product(many, (False, True), (False, True)):
            r = _reading(given, once=once, certain=certain)
            for relation in ("add-remove", "change-one"):
                s = r.sensitivity(relation)
                near = [
                    r.within(s.l1 - 1, s.l2_squared, s.linf, relation),
                    r.within(s.l1, s.l2_squared, s.linf, relation),
                    r.within(s.l1, s.l2_squared - 1, s.linf, relation),
                    r.within(s.l1, s.l2_squared, s.linf - 1, relation),
                ]
                found.append((repr(s), near))
            found.append(repr(r.coarser(2).sensitivity("change-one")))
        return found

    for name, many in grouped.items():
        yield name, partial(bounded, many)
    yield "times", lambda: [repr(_readings.times(a, b)) for a in (0, 2, inf) for b in (0, 3, inf)]


def _reading(given: dict[str, object], **more: bool) -> verify.Reading:
    import dataclasses

    names = {f.name: f for f in dataclasses.fields(_readings.Reading)}
    made = {"key": False, "name": "", **given, **more}
    known = {k: v for k, v in made.items() if k in names}
    return _readings.Reading(**known)  # type: ignore[arg-type]


def _texts() -> Iterator[tuple[str, Case]]:
    """How texts are read, and what types hold."""
    for dialect in DIALECTS:
        texts = [
            "SELECT 1",
            "SELECT a FROM t",
            "SELECT a b FROM t",
            "SELECT a + b * c AS y FROM t",
            "SELECT a & b + c AS y FROM t",
            "SELECT a << 2 >> 1 AS y FROM t",
            "SELECT NOT a AND b OR c AS y FROM t",
            "SELECT a < b < c AS y FROM t",
            "SELECT - a AS y FROM t",
            "SELECT a BETWEEN 1 AND 2 AND b AS y FROM t",
            "SELECT a IN (1, 2) AS y FROM t",
            "SELECT a IN () AS y FROM t",
            "SELECT a IS NULL AS y FROM t",
            "SELECT a IS NOT NULL AS y FROM t",
            "SELECT CASE a WHEN 1 THEN 2 END AS y FROM t",
            "SELECT CASE END AS y FROM t",
            "SELECT a LIKE 'x%' AS y FROM t",
            "SELECT a LIKE 'x!%' ESCAPE '!' AS y FROM t",
            "SELECT 'it''s' AS y FROM t",
            "SELECT 'a\\b' AS y FROM t",
            "SELECT '$' AS y FROM t",
            "SELECT 1.5e3 AS y FROM t",
            "SELECT 1e AS y FROM t",
            "SELECT :salt0 AS y FROM t",
            "SELECT :Salt AS y FROM t",
            "SELECT a; SELECT b",
            "SELECT a -- b",
            "SELECT a /* b */ FROM t",
            "SELECT f(a, b) AS y FROM t",
            "SELECT f() AS y FROM t",
            "SELECT count(*) AS y FROM t GROUP BY a, b",
            "SELECT count(*) FILTER (WHERE a) AS y FROM t",
            "SELECT a FROM t WHERE b OFFSET 0",
            "SELECT a FROM t OFFSET 1",
            "SELECT a FROM t LIMIT 1",
            "SELECT * FROM t",
            "SELECT t.* FROM t",
            "SELECT a FROM (SELECT b FROM t) AS s",
            "SELECT a FROM t AS l INNER JOIN u AS r ON l.a = r.a",
            "SELECT a FROM t AS l LEFT JOIN u AS r ON l.a = r.a",
            "SELECT a FROM t AS l JOIN u AS r ON l.a = r.a",
            "SELECT a FROM t, u",
            "SELECT row_number() OVER (PARTITION BY a ORDER BY b, c) AS y FROM t",
            "SELECT rank() OVER () AS y FROM t",
            "SELECT current_date AS y FROM t",
            "SELECT EXTRACT(year FROM a) AS y FROM t",
            "SELECT CAST(a AS DECIMAL(5, 2)) AS y FROM t",
            "SELECT TRY_CAST(a AS BIGINT) AS y FROM t",
            'SELECT a COLLATE "C" AS y FROM t',
            "SELECT [1, 2][a] AS y FROM t",
            "SELECT a[1:2] AS y FROM t",
            "SELECT DATE '2020-01-01' AS y FROM t",
            "SELECT a -> b AS y FROM t",
            "SELECT a ->> '$.b' AS y FROM t",
            "SELECT ((((a)))) AS y FROM t",
            "SELECT a || b AS y FROM t",
            "SELECT a # b AS y FROM t",
            "SELECT a ^ b AS y FROM t",
            "SELECT a div b AS y FROM t",
            "SELECT a // b AS y FROM t",
            "select a from t",
            "SELECT É AS y FROM t",
            "SELECT a\tFROM t",
            "",
            "SELECT",
            "SELECT a AS FROM t",
            "SELECT DISTINCT a FROM t",
            "SELECT count(DISTINCT a) AS y FROM t",
        ]

        def reads(text: str, dialect: str) -> object:
            try:
                return re.sub(r" at 0x[0-9a-f]+", "", repr(_read.read(text, dialect)))
            except Unproven as why:
                return f"refused, {why}"

        for start in range(0, len(texts), 6):
            yield (
                f"{dialect} {start}",
                lambda t=texts[start : start + 6], d=dialect: [(x, reads(x, d)) for x in t],
            )
        natives = [
            "BIGINT",
            "int8",
            "INTEGER",
            "int",
            "int4",
            "SMALLINT",
            "int2",
            "TINYINT",
            "HUGEINT",
            "UBIGINT",
            "UTINYINT",
            "bigint",
            "DOUBLE",
            "double precision",
            "float8",
            "REAL",
            "float4",
            "FLOAT",
            "DECIMAL(5,4)",
            "DECIMAL(38,37)",
            "DECIMAL(38,0)",
            "DECIMAL",
            "numeric",
            "numeric(4,2)",
            "decimal(18,3)",
            "VARCHAR",
            "text",
            "varchar(3)",
            "string",
            "string collate UTF8_LCASE",
            "char(1)",
            "DATE",
            "TIMESTAMP",
            "TIMESTAMP_S",
            "TIMESTAMP_MS",
            "TIMESTAMP_NS",
            "timestamptz",
            "TIMESTAMP WITH TIME ZONE",
            "timestamp_ntz",
            "timestamp(3)",
            "BOOLEAN",
            "bool",
            "UUID",
            "ENUM('a', 'b')",
            "INTEGER[]",
            "STRUCT(a INTEGER)",
            "BLOB",
            "bytea",
            "json",
            "TIME",
            "interval",
            "x",
            "",
            "int8(3)",
            "DECIMAL(39,0)",
            "DECIMAL(0,0)",
            "decimal(3,5)",
        ]

        def held(native: str, dialect: str) -> object:
            try:
                return [repr(_domain.column(native, dialect, 1, unit=u)) for u in (False, True)]
            except Exception as why:
                return f"refused, {type(why).__name__} {why}"

        yield f"{dialect} types", lambda d=dialect, many=natives: [(n, held(n, d)) for n in many]
    yield (
        "filled",
        lambda: [
            verify.fill("SELECT :salt0 + :salt1 * :offset AS y", values)
            for values in (
                {"salt0": 1, "salt1": 2, "offset": 3},
                {"salt0": 2**31 - 2, "salt1": 0, "offset": 5},
            )
        ],
    )
    yield "filled wrong", lambda: verify.fill("SELECT :salt0 AS y", {})


FAMILIES = {
    **{f"{d} {i}": _expressions(d, i, (0, 1, 2, 3, 4, 6)) for d in DIALECTS for i in range(PARTS)},
    **{f"statements {d} {i}": _statements(d, i) for d in DIALECTS for i in range(PARTS)},
    "readings": _reads,
    "texts": _texts,
}
