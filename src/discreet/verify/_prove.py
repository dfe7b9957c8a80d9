"""The door: prove a statement once, remember the outcome by its exact text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from discreet.errors import UnprovenStatementError
from discreet.verify._limits import Reading, Statement, Table
from discreet.verify._read import Unproven, read

_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class Proof:
    """A statement that cannot fail, and its result columns read back from the text."""

    sql: str
    columns: tuple[Reading, ...]

    @property
    def measures(self) -> tuple[Reading, ...]:
        """Result columns that are added up, in order."""
        return tuple(c for c in self.columns if not c.key)


def prove(
    sql: str,
    *,
    dialect: str,
    tables: Mapping[str, Table],
    fanouts: Mapping[tuple[str, frozenset[str]], int] | None = None,
) -> Proof:
    """Prove that a statement cannot fail on any data, and read its limits back.

    Parameters
    ----------
    sql
        The statement, with placeholders (``:salt0``, ``:offset``) for the salt.
    dialect
        ``"duckdb"`` or ``"postgresql"``.
    tables
        The sources, by their names exactly as they stand in the statement.
    fanouts
        Most rows of a public table that share values of some physical columns, by
        the table's name and those columns.

    Raises
    ------
    UnprovenStatementError
        When it cannot be proved; ``reason`` says where. It depends on the
        statement and on types alone.
    """
    sources = tuple(
        (name, tuple(t.columns.items()), t.unit, t.public) for name, t in sorted(tables.items())
    )
    spread = tuple(sorted(((t, tuple(sorted(c))), n) for (t, c), n in (fanouts or {}).items()))
    found = _proved(sql, dialect, sources, spread)
    if isinstance(found, str):
        raise UnprovenStatementError(
            "the statement is not proved safe on every possible table, so it does not run",
            reason=found,
        )
    return found


@lru_cache(maxsize=_REMEMBERED)
def _proved(
    sql: str,
    dialect: str,
    sources: tuple[tuple[str, tuple[tuple[str, str], ...], str | None, bool], ...],
    spread: tuple[tuple[tuple[str, tuple[str, ...]], int], ...],
) -> Proof | str:
    tables = {name: Table(dict(columns), unit, public) for name, columns, unit, public in sources}
    fanouts = {(table, frozenset(columns)): most for (table, columns), most in spread}
    try:
        return Proof(sql, Statement(dialect, tables, fanouts).readings(read(sql)))
    except Unproven as why:
        return str(why)
    except Exception as why:  # noqa: BLE001 - what the rules did not foresee is not proved
        return f"not foreseen: {type(why).__name__}"
