"""Physical columns: what a data source really holds, and whether it suits the policy.

The schema of a source is public, its values are not. So a mismatch is found
when the engine is connected, before any question is priced, and the error may
name the column, the type that was found and one line that repairs it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from discreet import policy as pol
from discreet.errors import SchemaError


class Physical(StrEnum):
    """Families of column types, the same names for every engine."""

    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Found:
    """A column as it stands in the source: its real name and type."""

    name: str
    kind: Physical
    native: str


_NUMBERS = (Physical.INTEGER, Physical.FLOAT, Physical.DECIMAL)
_MOMENTS = (Physical.DATE, Physical.TIMESTAMP)
_UNITS = (Physical.INTEGER, Physical.TEXT)


def suitable(column: pol.Column) -> tuple[Physical, ...]:
    """Physical types from which a declared column can be read."""
    match column:
        case pol.Integer() | pol.Real():
            return _NUMBERS
        case pol.Boolean():
            return (Physical.BOOLEAN, *_NUMBERS)
        case pol.Date() | pol.Timestamp():
            return _MOMENTS
        case pol.Text():
            return _UNITS
        case pol.Category():
            first = column.values[0]
            if isinstance(first, bool):
                return (Physical.BOOLEAN, *_NUMBERS)
            return _NUMBERS if isinstance(first, int) else (Physical.TEXT,)
    raise AssertionError(column)


_CASTS = {
    Physical.INTEGER: "BIGINT",
    Physical.FLOAT: "DOUBLE PRECISION",
    Physical.TEXT: "VARCHAR",
    Physical.BOOLEAN: "BOOLEAN",
    Physical.TIMESTAMP: "TIMESTAMP",
}


def check(table: pol.Table, found: Mapping[str, Found]) -> dict[str, Found]:
    """Match a table's declared columns and unit with what the source holds.

    Raises
    ------
    SchemaError
        When a column is missing or of a type that cannot be read as declared.
    """
    matched = {name: _find(table, name, found) for name in table.columns}
    for name, column in table.columns.items():
        _suits(table, column, matched[name])
    if table.unit is not None:
        unit = _find(table, table.unit, found)
        if unit.kind not in _UNITS:
            raise SchemaError(
                f"the unit column {table.unit!r} of table {table.name!r} is {unit.native}; "
                "units are told apart by integers or text",
                hint=_cast(unit.name, Physical.TEXT),
            )
        matched[table.unit] = unit
    return matched


def _find(table: pol.Table, name: str, found: Mapping[str, Found]) -> Found:
    if name in found:
        return found[name]
    near = difflib.get_close_matches(name, found, n=1, cutoff=0.0)
    raise SchemaError(
        f"table {table.name!r} has no column {name!r}",
        hint=f"name it {near[0]!r} in the policy" if near else None,
    )


def _suits(table: pol.Table, column: pol.Column, found: Found) -> None:
    allowed = suitable(column)
    if found.kind not in allowed:
        raise SchemaError(
            f"column {column.name!r} of table {table.name!r} is declared as {column.type}, "
            f"but the source holds {found.native}",
            hint=_cast(found.name, allowed[0]),
        )
    # a double does not hold every larger integer, so equality would be guessed
    wide = isinstance(column, pol.Category) and any(
        isinstance(v, int) and abs(v) > 2**53 for v in column.values
    )
    if wide and found.kind is Physical.FLOAT:
        raise SchemaError(
            f"column {column.name!r} of table {table.name!r} has values above 2^53, "
            f"but the source holds {found.native}",
            hint=_cast(found.name, Physical.INTEGER),
        )


def _cast(name: str, kind: Physical) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    return f"CAST({quoted} AS {_CASTS.get(kind, kind.upper())}) AS {quoted}"
