"""Addresses of databases: what of a connection string may be kept."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import quote, urlsplit

from discreet.errors import ParameterError

_SCHEMES: Final = ("postgresql://", "postgres://")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_PORTS: Final = re.compile(r"[0-9]*(,[0-9]*)*")
_FOR_A_SERVER: Final = re.compile(
    r"://|^\s|\b(?:host|hostaddr|dbname|user|password|service)\s*=", re.IGNORECASE
)


def is_for_server(text: str) -> bool:
    """Whether a text is meant for a server, in whatever spelling.

    Taken for a file's name it would put a password into a folder or a message.

    >>> is_for_server("mysql://ana:secret@db/x"), is_for_server("people.csv")
    (True, False)
    """
    return _FOR_A_SERVER.search(text) is not None


def address(url: str) -> str:
    """Give host, port and database of a URL, and nothing else that it says.

    A PostgreSQL URL is read by libpq's own parser: a password may hold ``#``, ``?`` or
    ``/``, where other parsers take what follows for another part. What a
    URL leaves open is filled in as libpq does it.

    >>> address("postgresql://ana:s#cret@db:5433/clinic?sslpassword=key")
    'postgresql://db:5433/clinic'
    """
    if not url.startswith(_SCHEMES):
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    parameters = _parsed(url)
    host = parameters.get("host") or parameters.get("hostaddr") or os.environ.get("PGHOST", "")
    port = parameters.get("port") or os.environ.get("PGPORT", "")
    user = parameters.get("user") or os.environ.get("PGUSER", "")
    name = quote(parameters.get("dbname") or os.environ.get("PGDATABASE") or user, safe="")
    if _PORTS.fullmatch(port) is None:
        raise _unreadable()
    if _NAME.fullmatch(host) is not None:
        return f"postgresql://{host}{':' if port else ''}{port}/{name}"
    more = [f"{k}={quote(v, safe='/,')}" for k, v in (("host", host), ("port", port)) if v]
    return f"postgresql:///{name}{'?' if more else ''}{'&'.join(more)}"


def _parsed(url: str) -> dict[str, str]:
    try:
        from psycopg import ProgrammingError, conninfo  # noqa: PLC0415 - an optional engine
    except ImportError:
        raise ParameterError(
            "PostgreSQL needs the extra 'postgres'", hint='pip install "discreet[postgres]"'
        ) from None
    try:
        return {k: str(v) for k, v in conninfo.conninfo_to_dict(url).items() if v is not None}
    except ProgrammingError:  # whose message repeats parts of the URL
        raise _unreadable() from None


def _unreadable() -> ParameterError:
    return ParameterError(
        "this is not a URL that PostgreSQL can read",
        hint="write special characters of a password as %XX, or leave it to PGPASSWORD",
    )
