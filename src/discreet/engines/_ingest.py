"""Raw columns to codes, in SQL: the meaning of :func:`discreet.plan.ingest`, rendered.

Every branch of a CASE compares before it converts, in the column's own type or
one that holds all its values, so no conversion can fail whatever the column
holds: NULL and NaN become NULL, what lies outside the bounds is clamped or
becomes NULL, and doubles are quantised by the same IEEE operations in the same
order as in the reference. NaN sorts above infinity in every engine here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from discreet import policy as pol
from discreet.engines._dialect import Dialect
from discreet.engines._physical import Field, Physical
from discreet.plan import Type, ingest, of_column

WORD: Final = 2**63
_DAY: Final = 86_400_000_000
_CERTAIN: Final = 2**48
"""Grid bounds up to here survive quantisation exactly, so clamping once is enough.

Two roundings of relative size 2^-53 move a code below 2^48 by less than 0.1, so
the nearest integer cannot leave the bounds.
"""


def raw(dialect: Dialect, column: pol.Column, field: Field, x: str) -> str:
    """Physical value in the form that :func:`code` compares, computed once."""
    kind = field.kind
    match column:
        case pol.Integer() | pol.Real():
            return x if _whole(column, field) else dialect.as_double(x, field)
        case pol.Date() | pol.Timestamp() if kind is Physical.DATE:
            return dialect.days(x)
        case pol.Date() | pol.Timestamp():
            return dialect.micros(x, field)
        case pol.Text() if kind is Physical.TEXT:
            # here and nowhere else: no operator can meet a text that is longer than declared
            return dialect.collated(f"substr({dialect.as_text(x, field)}, 1, {column.longest})")
        case pol.Text():
            return dialect.as_text(x, field)
        case pol.Category() if kind is Physical.TEXT:
            return dialect.label(x, field)
        case pol.Category() | pol.Boolean() if kind is Physical.BOOLEAN:
            return dialect.bit(x)
        case pol.Category() | pol.Boolean() if kind is Physical.FLOAT:
            return dialect.as_double(x, field)
        case pol.Category() | pol.Boolean() if kind is Physical.DECIMAL:
            return dialect.decimal(x)
    return x


def _whole(column: pol.Integer | pol.Real, field: Field) -> bool:
    step = column.step if isinstance(column, pol.Real) else 1
    return field.kind is Physical.INTEGER and step == 1


def code(dialect: Dialect, column: pol.Column, field: Field, r: str) -> str:
    """Code of a raw value `r` (an identifier), by the policy of its column."""
    value = _code_or_null(dialect, column, field, r)
    if column.null is None:
        return value
    fill = ingest(column, None)
    literal = dialect.text(fill) if isinstance(fill, str) else dialect.integer(int(fill or 0))
    return f"COALESCE({value}, {literal})"


def _code_or_null(dialect: Dialect, column: pol.Column, field: Field, r: str) -> str:
    kind = of_column(column)
    match column:
        case pol.Text():
            return r
        case pol.Boolean():
            if field.kind is Physical.BOOLEAN:
                return r
            return dialect.place(r, (0, 1), field)
        case pol.Category():
            return _category(dialect, column, field, r)
        case pol.Date():
            tick = 1 if field.kind is Physical.DATE else _DAY
            return _moment(dialect, r, tick, kind, column.outside)
        case pol.Timestamp():
            tick = int(column.step * 1_000_000)
            if field.kind is Physical.DATE:
                r = f"(CAST({r} AS {dialect.wide}) * {_DAY})"
            return _moment(dialect, r, tick, kind, column.outside)
        case pol.Integer() | pol.Real():
            if _whole(column, field):
                return _integer(dialect, r, kind, column.outside)
            step = column.step if isinstance(column, pol.Real) else Fraction(1)
            return _double(dialect, r, step, kind, column.outside)
    raise AssertionError(column)


def _integer(dialect: Dialect, r: str, kind: Type, outside: str) -> str:
    lo, hi = dialect.integer(kind.lo), dialect.integer(kind.hi)
    if outside == "null":
        return f"CASE WHEN {r} BETWEEN {lo} AND {hi} THEN CAST({r} AS BIGINT) END"
    inside = f"CASE WHEN {r} >= {lo} AND {r} <= {hi} THEN CAST({r} AS BIGINT)"
    return f"{inside} WHEN {r} < {lo} THEN {lo} WHEN {r} > {hi} THEN {hi} END"


def _double(dialect: Dialect, r: str, step: Fraction, kind: Type, outside: str) -> str:
    """Nearest grid point of a double, halves to even."""
    low, high = dialect.real(float(kind.lo * step)), dialect.real(float(kind.hi * step))
    lo, hi = dialect.integer(kind.lo), dialect.integer(kind.hi)
    scaled = r
    if step < 1:
        scaled = f"{r} * {dialect.real(float(1 / step))}"
    elif step > 1:
        scaled = dialect.scaled(r, float(step))
    grid = dialect.rounded(scaled)
    if max(abs(kind.lo), abs(kind.hi)) > _CERTAIN:
        grid = f"CASE WHEN {grid} < {lo} THEN {lo} WHEN {grid} > {hi} THEN {hi} ELSE {grid} END"
    # the common case stands first: a batch that lies inside takes one branch only
    inside = f"CASE WHEN {r} >= {low} AND {r} <= {high} THEN {grid}"
    if outside == "null":
        return f"{inside} END"
    # NaN sorts above infinity in every engine here, so the last test drops it
    infinity = dialect.real(math.inf)
    return f"{inside} WHEN {r} < {low} THEN {lo} WHEN {r} <= {infinity} THEN {hi} END"


def _category(dialect: Dialect, column: pol.Category, field: Field, r: str) -> str:
    labels, numbers = column.values, [int(v) for v in column.values if not isinstance(v, str)]
    if numbers:
        place = dialect.place(r, numbers, field)
    else:
        place = dialect.position(r, [str(v) for v in labels])
    if column.other is None:
        return place
    other = column.domain.index(column.other)
    present = dialect.is_text(r) if field.kind is Physical.TEXT else f"{r} IS NOT NULL"
    if field.kind is Physical.FLOAT:
        present += f" AND {r} <> {dialect.real(math.nan)}"
    return f"COALESCE({place}, CASE WHEN {present} THEN {dialect.integer(other)} END)"


def _moment(dialect: Dialect, m: str, tick: int, kind: Type, outside: str) -> str:
    start, end = kind.lo * tick, (kind.hi + 1) * tick
    inside = floor_div(dialect, f"CAST({m} AS BIGINT)", tick, (start, end - 1))
    first = f"CASE WHEN {m} >= {start} AND {m} < {end} THEN {inside}"
    if outside == "null":
        return f"{first} END"
    lo, hi = dialect.integer(kind.lo), dialect.integer(kind.hi)
    return f"{first} WHEN {m} < {start} THEN {lo} WHEN {m} >= {end} THEN {hi} END"


def floor_div(
    dialect: Dialect,
    n: str,
    d: int,
    bounds: tuple[int, int],
    hold: Callable[[str], str] = str,
) -> str:
    """Floor of an integer within public bounds over a positive constant.

    Engines cut off towards zero, so the dividend is first moved above zero.
    """
    if d == 1:
        return n
    lo, hi = bounds
    shift = max(0, -(lo // d))
    if shift == 0:
        return dialect.divide(n, dialect.integer(d))
    if hi + shift * d >= WORD:
        return dialect.floor_wide(n, d, shift, hold)
    moved = f"({n} + {dialect.integer(shift * d)})"
    return f"({dialect.divide(moved, dialect.integer(d))} - {dialect.integer(shift)})"
