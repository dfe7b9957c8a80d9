"""Tables whose rows belong to people through another table: measurements through visits.

Guarantee
---------
A row of an owned table belongs to each unit that has a row of the owner table whose key
equals the row's own column, and to no other; so a row without an owner does not exist, an
owner's row that occurs twice counts once, and a row that two units claim is in both of
their parts. Neighbours differ in one unit's rows in all tables, and in the owned rows that
this unit alone reaches.

Proof sketch
------------
The rows of unit u are the disjoint union, over the different keys k of u's rows in the
owner table, of the owned rows that name k. Take u's rows of the owner table away, with the
owned rows that nobody else reaches: the keys of other units stay, and so do all rows
that name them. So the part of u goes and no other part moves, whether or not
keys are unique. (To drop rows that two units claim looks safer and is the hole: one unit
that claims every key would then erase everybody's rows.) Chains follow by induction.
What a row says that k units claim is protected as a group of k.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from discreet._dataclass import dataclass, replace
from discreet._frozen import Frozen
from discreet._text import quote
from discreet.policy._check import nearest, refusal, settle, text
from discreet.policy._columns import Column
from discreet.policy._labels import MAX_LENGTH, Text

if TYPE_CHECKING:
    from discreet.policy._model import Table

LONGEST: Final = 4
"""Owners that one row may have above it."""


@dataclass(frozen=True, slots=True, init=False)
class Owner:
    """The table through which rows belong to people, and the column that names its key.

    A policy puts the table itself in the place of its name.
    """

    table: str | Table
    column: str

    def __init__(self, table: str | Table, column: str) -> None:
        target = text(table, "owner", "table", limit=255) if isinstance(table, str) else table
        settle(self, table=target, column=text(column, "owner", "column", limit=255))

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table if isinstance(self.table, str) else self.table.name

    @property
    def above(self) -> Table | None:
        """The table itself, once a policy has found it."""
        return None if isinstance(self.table, str) else self.table


def owner_of(value: object, subject: str) -> Owner | None:
    """Read an owner from a policy file's table, or take it as it is."""
    if value is None or isinstance(value, Owner):
        return value
    if not isinstance(value, Mapping) or set(value) != {"table", "column"}:
        raise refusal(
            f"{subject}: owner names a table, and the column that says which row of it",
            "owner",
            fix={"owner": {"table": "visits", "column": "visit_id"}},
        )
    return Owner(value["table"], value["column"])


def with_ids(columns: Frozen[Column], ids: Iterable[str | None]) -> Frozen[Column]:
    """Columns, and those that name keys: as text, where nothing else is declared."""
    names = {name.casefold() for name in columns}
    more = {
        name: Text(name, longest=MAX_LENGTH)
        for name in ids
        if name is not None and name.casefold() not in names
    }
    return Frozen({**columns, **more}) if more else columns


def linked(tables: Mapping[str, Table]) -> Frozen[Table]:
    """Put owners in the place of their names; refuse what leads to no unit."""
    return Frozen({name: _linked(tables, name, ()) for name in tables})


def _linked(tables: Mapping[str, Table], name: str, below: tuple[str, ...]) -> Table:
    table = tables[name]
    if table.owner is None:
        return table
    subject, where = f"table {quote(name)}", ("tables", name, "owner")
    if name in below or len(below) >= LONGEST:
        raise refusal(f"{subject}: its chain of owners is a loop, or longer than {LONGEST}", *where)
    if table.owner.name not in tables:
        message = f"{subject}: its owner {quote(table.owner.name)} is not a table of this policy"
        near = nearest(table.owner.name, tables) or "visits"
        example = f'owner = {{ table = "{near}", column = "{table.owner.column}" }}'
        raise refusal(message, *where, hint=example)
    above = _linked(tables, table.owner.name, (*below, name))
    column, owner = table.owner.column, f"its owner {quote(above.name)}"
    if above.public or above.unit is None or above.key == above.unit:
        raise refusal(f"{subject}: {owner} has no unit of its own beside the key, so the rows "
                      "name their unit themselves", *where, hint=f'unit = "{column}"')  # fmt: skip
    if above.key is None:
        raise refusal(f"{subject}: {owner} does not say which column names its rows",
                      *where, hint=f'key = "{column}" in [tables.{above.name}]')  # fmt: skip
    if above.unit in table.columns:
        message = f"{subject} has a column {quote(above.unit)}, the owner's unit: make it the unit"
        raise refusal(message, *where, hint=f'unit = "{above.unit}"')
    return replace(table, owner=Owner(above, column), unit=above.unit, neighbours=above.neighbours)
