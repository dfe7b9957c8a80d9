"""Lengths of raw texts: what is read of them and no model of the work counts.

Names of people, categories and texts are read whole, and names hashed, before anything is
cut or looked up. That takes some nanoseconds for each byte, so whoever fills tens of
megabytes decides how long every question takes. A policy states no length for most of
this. So a public one is taken for granted, :data:`PLAIN` bytes of each cell or four for each
letter that a text declares, and what all cells of a column have beyond that is added up, by one
look at their lengths. Cells alone would not do: many of one person's, each a little long, are as
long together.

What a view or a generated column gives out says nothing about what it reads, and each run reads
that. So private tables must be stored: a view over a name of any length gives out a hash of it.

This is about private rows, and so is the refusal: it is for the owner who opens the tables, before
anybody asks.
"""

from __future__ import annotations

from typing import Final

from discreet import policy as pol
from discreet.engines._physical import Field, Physical
from discreet.engines._protocol import Engine
from discreet.engines._statements import Statements
from discreet.errors import SchemaError

PLAIN: Final = 128
"""Bytes of a cell that coefficients of work have room for: two hashes as long as there are."""
SPARE: Final = 1 << 20
"""Bytes beyond that in all cells of a column: up to 7 ms, and a bound has 15 at the least."""
_LETTER: Final = 4
"""Bytes of a letter, at most."""


def check_lengths(engine: Engine, policy: pol.Policy) -> None:
    """Refuse private tables that are not stored, or whose texts are longer than anybody was told.

    Raises
    ------
    SchemaError
        For the owner alone: it may say that somebody's cells are long.
    """
    if not isinstance(engine, Statements):
        return
    for name, table in policy.tables.items():
        source = engine.sources[name]
        if source.computed and not table.public:
            raise SchemaError(
                f"table {name!r} is computed while it is read (a view, a generated column, a "
                "foreign table, row security): how long that takes is decided by rows and texts "
                "that it does not give out",
                hint=f"have {name!r} stored, not by a view: CREATE TABLE ... AS, or a materialized "
                "view of PostgreSQL",
            )
        fields = {} if table.public else source.columns
        plain = {own: _plain(table, own) for own, f in fields.items() if _open(f)}
        for own, beyond in engine.beyond(name, plain).items():
            if beyond > SPARE:
                raise SchemaError(
                    f"column {own!r} of table {name!r} holds more than {SPARE >> 20} MiB beyond "
                    f"{plain[own]} bytes for each cell: reading that takes time, which would "
                    "tell about whoever it belongs to",
                    hint=_hint(table, own),
                )


def _open(field: Field) -> bool:
    """Whether cells may have any length: texts, and decimals of PostgreSQL."""
    return field.kind is Physical.TEXT or field.native == "numeric"


def _plain(table: pol.Table, name: str) -> int:
    """Bytes that cells of a column may have, by what is public."""
    column = table.columns.get(name)
    if name in table.ids or column is None:
        return PLAIN
    match column:
        case pol.Text():
            return max(PLAIN, _LETTER * column.longest)
        case pol.Category():
            return max(PLAIN, *(len(str(v).encode()) for v in column.values))
    return PLAIN


def _hint(table: pol.Table, name: str) -> str:
    if name in table.ids:
        return f"hash {name!r} in the source, or leave out such rows"
    if isinstance(table.columns[name], pol.Text):
        return f"cut {name!r} in the source, or declare a larger longest"
    return f"cut {name!r} in the source"
