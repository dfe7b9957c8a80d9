"""The door: a statement is proved, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from discreet._dataclass import dataclass
from discreet.errors import UnprovenStatementError
from discreet.verify._limits import Statement, Table
from discreet.verify._read import Unproven, read
from discreet.verify._readings import Reading


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
        ``"duckdb"``, ``"postgresql"`` or ``"spark"``.
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
    try:
        readings = Statement(dialect, tables, fanouts or {}).readings(read(sql, dialect))
    except Unproven as why:
        reason = str(why)
    except Exception as why:  # noqa: BLE001 - what the rules did not foresee is not proved
        reason = f"not foreseen: {type(why).__name__}"
    else:
        return Proof(sql, readings)
    raise UnprovenStatementError(
        "the statement is not proved safe on every possible table, so it does not run",
        reason=reason,
    )
