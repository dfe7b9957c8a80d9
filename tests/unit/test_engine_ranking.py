"""Codes packed into words: read back as they were, in their order, in as few words as can be."""

from __future__ import annotations

import itertools

import duckdb
import pytest

from discreet.engines._dialect import DuckDB
from discreet.engines._ranking import Item, mixed, pack, residue
from discreet.plan import PRIME, TURNS, Kind, Type

TEXT = Type(Kind.TEXT)


def number(lo, hi, *, null=True):
    return Type.number(lo, hi, null=null)


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        (number(0, 0, null=False), 0), (number(0, 0), 1), (number(0, 1, null=False), 1),
        (number(0, 1), 2), (number(0, 2), 2), (number(0, 3, null=False), 2), (number(0, 3), 3),
        (number(-4, 3, null=False), 3), (number(-4, 3), 4), (number(5, 2**40), 40),
        (number(0, 2**62 - 1, null=False), 62), (number(0, 2**62 - 2), 62),
        (number(0, 2**62 - 1), 63),
    ],
)  # fmt: skip
def test_bits_hold_every_code_and_null(kind, bits):
    assert Item("x", kind).bits == bits


def packed(kinds):
    items = [Item(f"c{i}", kind) for i, kind in enumerate(kinds)]
    names = itertools.count()
    return items, pack(DuckDB(), items, lambda: f"w{next(names)}")


WORDS = [
    ([number(0, 2**31 - 1, null=False), number(0, 2**32 - 1, null=False)], 1),  # 63 bits
    ([number(0, 2**32 - 1, null=False), number(0, 2**32 - 1, null=False)], 2),  # 64 bits
    ([number(0, 2**62 - 1), number(0, 0, null=False)], 1),
    ([number(0, 2**62 - 1), number(0, 0)], 2),
    ([number(-5, 5), number(0, 3), number(7, 9, null=False)], 1),
    ([number(-5, 5), TEXT, number(0, 3)], 3),
    ([TEXT, TEXT], 2),
    ([number(1 - 2**62, 2**62 - 1)], 1),  # 63 bits, the widest there is
    ([number(1 - 2**62, 2**62 - 1, null=False), number(0, 1)], 2),
    ([number(1, 2**20), number(-1, 2**20), number(0, 2**20)], 1),
    ([number(1, 2**20), number(-1, 2**20), number(0, 2**21)], 2),
    ([], 0),
]


def ends(kind):
    if kind.kind is Kind.TEXT:
        return ["", "a", "b'", None]
    found = {kind.lo, min(kind.lo + 1, kind.hi), max(kind.hi - 1, kind.lo), kind.hi}
    return [*sorted(found), *([None] if kind.nullable else [])]


def literal(value):
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'" if isinstance(
        value, str) else f"CAST({value} AS BIGINT)"  # fmt: skip


@pytest.mark.parametrize(("kinds", "words"), WORDS)
def test_words_hold_the_codes_in_their_order(kinds, words):
    items, found = packed(kinds)
    assert (len(found.names), len(found.columns), len(found.order)) == (words,) * 3
    assert set(found.values) == {item.name for item in items}
    if not items:
        return
    rows = list(itertools.product(*map(ends, kinds)))  # each list is in order, NULL last
    held = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    names = ", ".join(item.name for item in items)
    read = ", ".join(found.values[item.name] for item in items)
    with duckdb.connect() as db:
        got = db.execute(
            f"SELECT {read} FROM (SELECT {', '.join(found.columns)} FROM (VALUES {held}) "
            f"AS t ({names})) AS s ORDER BY {', '.join(found.order)}"
        ).fetchall()
    assert got == rows


@pytest.mark.parametrize(
    ("kind", "moved"),
    [
        (number(0, PRIME - 1), False), (number(0, PRIME), True), (number(-1, 5), True),
        (number(1, 5), False), (number(0, 0), False), (number(PRIME, PRIME + 5), True),
    ],
)  # fmt: skip
def test_residues_lie_below_the_prime(kind, moved):
    text = residue(DuckDB(), Item("x", kind))
    assert (text != "x") == moved
    with duckdb.connect() as db:
        for code in (kind.lo, kind.hi):
            (found,) = db.execute(f"SELECT {text} FROM (SELECT {code}::BIGINT AS x)").fetchone()
            assert found == code % PRIME


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_a_hash_takes_new_numbers_at_every_step_and_stays_below_the_prime(parts):
    text = mixed(DuckDB(), 4, "u", [f"p{i}" for i in range(parts)])
    holes = 1 + 3 * parts + 2 * TURNS
    assert all(text.count(f":salt4_{i} ") + text.count(f":salt4_{i})") == 1 for i in range(holes))
    assert f":salt4_{holes}" not in text
    for salt in (1, PRIME - 1):
        filled = text
        for i in reversed(range(holes)):
            filled = filled.replace(f":salt4_{i}", f"CAST({salt} AS BIGINT)")
        codes = "".join(f", {PRIME - 1}::BIGINT AS p{i}" for i in range(parts))
        with duckdb.connect() as db:
            for unit in (0, 2 * PRIME - 1):
                row = db.execute(f"SELECT {filled} FROM (SELECT {unit}::BIGINT AS u{codes})")
                assert 0 <= row.fetchone()[0] < PRIME
