"""DuckDB's compiled module without the package around it, which only builds queries in Python.

The package gives out the same classes and functions; it takes four times as long to load, a tenth
of a fresh process's first answer. Where the module has another name, the package is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
else:
    try:
        import _duckdb as duckdb
    except ImportError:
        import duckdb

__all__ = ["duckdb", "register"]


def register(connection: duckdb.DuckDBPyConnection, name: str, frame: Any) -> None:
    """Give a frame a name on a connection; here the package is needed, for Arrow."""
    import duckdb as _  # noqa: F401, PLC0415 - it sets something up

    connection.register(name, frame)
