"""Physical columns: what a data source really holds, and whether it suits the policy.

The schema of a source is public, its values are not. So a mismatch is found
when the engine is connected, before any question is priced, and the error may
name the column, the type that was found and one line that repairs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from discreet import policy as pol
from discreet._dataclass import dataclass, replace
from discreet._text import nearest
from discreet.errors import SchemaError
from discreet.privacy import Neighbours

Schema: TypeAlias = dict[str, "dict[str, Field]"]
"""Physical columns by table and declared name."""


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
class Field:
    """A column as it stands in the source: its real name and type."""

    name: str
    kind: Physical
    native: str
    widened: bool = False
    """Whether units of another table have another integer type, so that all are widened."""

    @property
    def digits(self) -> tuple[int, int]:
        """Digits in all and after the point of a decimal that says so."""
        width, scale = self.native[len("DECIMAL(") : -1].split(",")
        return int(width), int(scale)


def families(names: Mapping[Physical, str]) -> dict[str, Physical]:
    """Family of each native type, from comma-separated names of the types of each family."""
    return {name: kind for kind, listed in names.items() for name in listed.split(", ")}


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
}


def check(policy: pol.Policy, fields: Mapping[str, Mapping[str, Field]]) -> Schema:
    """Match the declared columns and units of all tables with what the sources hold.

    Raises
    ------
    SchemaError
        When a column is missing or of a type that cannot be read as declared, or
        when the units of two tables could not be compared without a cast.
    """
    matched = {name: _matched(table, fields[name]) for name, table in policy.tables.items()}
    for neighbours in Neighbours:
        units = [
            (table.name, table.unit)
            for table in policy.tables.values()
            if table.neighbours is neighbours and table.owner is None and table.unit is not None
        ]
        _comparable(units, matched, "unit")
    for above in policy.tables.values():
        links = [
            (table.name, table.owner.column)
            for table in policy.tables.values()
            if table.owner is not None and table.owner.name == above.name
        ]
        if above.key is not None:
            _comparable([(above.name, above.key), *links], matched, "key")
    return matched


def check_spellings(table: pol.Table) -> None:
    """Refuse spellings of numbers and dates where the source is not a CSV file."""
    if table.numbers:
        raise SchemaError(
            f"table {table.name!r}: numbers = … is for CSV files, and its source is not one"
        )
    for name, column in table.columns.items():
        if isinstance(column, pol.Date | pol.Timestamp) and column.format:
            raise SchemaError(
                f"column {name!r} of table {table.name!r}: format = … is for CSV files, and the "
                "table's source is not one",
                hint=f"leave out format, and give {name!r} as a {column.type} in the source",
            )


def _comparable(pairs: Sequence[tuple[str, str]], matched: Schema, what: str) -> None:
    """See that what a statement compares between tables needs no cast to be compared."""
    ids = [matched[table][column] for table, column in pairs]
    for (table, _), own in zip(pairs[1:], ids[1:], strict=True):
        first = ids[0]
        if own.kind is not first.kind:
            number = first if own.kind is Physical.TEXT else own
            raise SchemaError(
                f"the {what} of table {pairs[0][0]!r} is {first.native} and that of table "
                f"{table!r} is {own.native}: compared with a number, '7' and '007' would "
                "be one person",
                hint=_cast(number.name, Physical.TEXT),
            )
    if len({own.native for own in ids}) > 1:
        for (table, column), own in zip(pairs, ids, strict=True):
            matched[table][column] = replace(own, widened=True)


def _matched(table: pol.Table, fields: Mapping[str, Field]) -> dict[str, Field]:
    matched = {name: _find(table, name, fields) for name in table.columns}
    for name, column in table.columns.items():
        _suits(table, column, matched[name])
    for name in table.ids:
        unit = _find(table, name, fields)
        if unit.kind not in _UNITS:
            what = "unit" if name == table.unit else "key"
            raise SchemaError(
                f"the {what} column {name!r} of table {table.name!r} is {unit.native}; "
                f"{what}s are told apart by integers or text",
                hint=_cast(unit.name, Physical.TEXT),
            )
        matched[name] = unit
    return matched


def _find(table: pol.Table, name: str, fields: Mapping[str, Field]) -> Field:
    if name in fields:
        return fields[name]
    near = nearest(name, fields)
    raise SchemaError(
        f"table {table.name!r} has no column {name!r}",
        hint=f"name it {near!r} in the policy" if near else None,
    )


def _suits(table: pol.Table, column: pol.Column, field: Field) -> None:
    allowed = suitable(column)
    if field.kind not in allowed:
        raise SchemaError(
            f"column {column.name!r} of table {table.name!r} is declared as {column.type}, "
            f"but the source holds {field.native}",
            hint=_cast(field.name, allowed[0]),
        )
    # a double does not hold every larger integer, so equality would be guessed
    wide = isinstance(column, pol.Category) and any(
        isinstance(v, int) and abs(v) > 2**53 for v in column.values
    )
    if wide and field.kind is Physical.FLOAT:
        raise SchemaError(
            f"column {column.name!r} of table {table.name!r} has values above 2^53, "
            f"but the source holds {field.native}",
            hint=_cast(field.name, Physical.INTEGER),
        )


def _cast(name: str, kind: Physical) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    return f"CAST({quoted} AS {_CASTS.get(kind, kind.upper())}) AS {quoted}"
