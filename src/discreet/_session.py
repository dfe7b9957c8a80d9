"""PostgreSQL sessions: the settings that a statement's meaning rests on, in one table.

A role, a database, a URL or the server's file may set any of them. They are set again in
each transaction of ours and read back: what does not hold is not believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg

MEANING: Final = {
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "bytea_output": "hex",
    "xmloption": "content",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "extra_float_digits": "1",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "timezone_abbreviations": "Default",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "row_security": "on",
    "constraint_exclusion": "partition",
    "jit": "off",  # compiling costs more than these statements
}
"""What changes how text is sent, literals are read, values printed or rows left out."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def pinned(
    connection: psycopg.Connection[Any],
    more: Mapping[str, str] = _NONE,
    *,
    begin: str = "",
    unread: Mapping[str, str] = _NONE,
) -> bool:
    """Set the meaning until the transaction ends; whether it then holds.

    One message of plain bytes, without parameters: how those are sent depends on the settings.

    Parameters
    ----------
    connection
        A connection in a transaction, or on which `begin` begins one.
    more
        Further settings.
    begin
        Statement that goes first.
    unread
        Settings that the server may spell otherwise; they are set and not read back.
    """
    settings = {**MEANING, **more}
    values = {**settings, **unread}.items()
    writes = ", ".join(f"pg_catalog.set_config('{n}', '{v}', true)" for n, v in values)
    reads = ", ".join(f"pg_catalog.current_setting('{n}')" for n in settings)
    steps = [*filter(None, [begin]), f"SELECT {writes}", f"SELECT {reads}"]
    cursor = connection.execute("; ".join(steps).encode(), prepare=False)
    while cursor.nextset():
        pass
    (row,) = cursor.fetchall()
    return tuple(row) == tuple(settings.values())
