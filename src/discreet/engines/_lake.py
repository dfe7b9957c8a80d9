"""Places of Spark's data: what two names of one data set have in common.

A budget belongs to data, so whatever is opened has to say what it reads. A table of the
catalogue has a location, a folder has its own path; and of both, and of views and data frames as
well, Spark names the files. A folder that has no scheme is read from where the session reads such:
its files say which file system that is. Files of this machine are claimed one by one, as other
engines claim them. Of those elsewhere the folders are, since they come and go; and so is a folder
of this machine with a file that Spark has named, since whatever is written over it has new names.

Of what is cached, and of what a scalar subquery reads, Spark names no files: such sources are
refused, as any of them would be a fresh budget.
"""

from __future__ import annotations

import os
import posixpath
import re
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from discreet.engines._protocol import SERVER
from discreet.errors import SchemaError

_ONE_SYSTEM: Final = {"s3": "s3a", "s3n": "s3a", "wasb": "abfs", "wasbs": "abfs", "abfss": "abfs"}
"""Schemes of one system of files, by one of them."""
_USUAL_PORTS: Final = {"hdfs": ":8020"}
_ADDRESS: Final = re.compile(
    r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*):(//(?P<netloc>[^/]*))?(?P<path>.*)", re.DOTALL
)
"""An address as Hadoop reads it: `?` and `#` are letters of a path."""
_NAMED: Final = "part-"
"""How the names begin that Spark gives to files, others each time."""
WHOLE: Final = {
    "spark.sql.maxPlanStringLength": str(2**31 - 16),
    "spark.sql.debug.maxToStringFields": str(2**31 - 1),
}
"""Settings under which Spark shows a plan as a whole."""
_HIDDEN: Final = {
    "InMemoryRelation": (
        "is cached in this Spark, or something that it reads is",
        "df.unpersist(), or spark.catalog.uncacheTable(name); then open it",
    ),
    "scalar-subquery#": (
        "reads a scalar subquery",
        "write it to a folder, and open the folder",
    ),
}
"""What a plan shows of files that are not named: why, and what to do."""


def place_of(text: str, *, coded: bool = True) -> str:
    """What a folder is known by: its path where it is of this machine, else its address.

    Names of files are `coded`, as in a URL; locations are as they are written.

    >>> place_of("file:///data/visits"), place_of("s3://key:secret@lake/visits/")
    ('/data/visits', 'server s3a://lake/visits')
    """
    address = _ADDRESS.fullmatch(text)
    if address is None:
        return text
    scheme, netloc = address["scheme"].lower(), address["netloc"] or ""
    path = unquote(address["path"]) if coded else address["path"]
    if scheme == "file":
        return path
    system = _ONE_SYSTEM.get(scheme, scheme)
    who, at, host = netloc.rpartition("@")
    host = host.lower().removesuffix(_USUAL_PORTS.get(system, ":"))
    if system == "abfs":  # before the sign stands a container; elsewhere a key
        host = who + at + host.replace(".blob.core.", ".dfs.core.")
    return f"{SERVER}{system}://{host}{posixpath.normpath('/' + path.lstrip('/'))}"


def places_of(session: Any, sql: str, location: str | None) -> tuple[str, ...]:
    """Places of what is read under a name in SQL: its own, and those of its files.

    `location` is its folder or address, if it says one.
    """
    files: list[str] = []
    with suppress(Exception):  # not every source is made of files
        files = [str(f) for f in session.sql(f"SELECT * FROM {sql}").inputFiles()]  # noqa: S608 - quoted
    places = dict.fromkeys(place for file in files for place in _of_file(file))
    if location is None:
        return tuple(places)
    own = place_of(location, coded=False)
    scheme, netloc, *_ = urlsplit(files[0]) if files else ("", "")
    if not urlsplit(location).scheme and scheme not in ("", "file"):
        # where this session reads such a path
        own = place_of(f"{scheme}://{netloc}{location}", coded=False)
    elif not own.startswith(SERVER) and urlsplit(location).scheme and not os.path.exists(own):  # noqa: PTH110 - a text
        own = f"{SERVER}{location}"  # of another machine's disk
    return tuple(dict.fromkeys((own, *places)))


def _of_file(file: str) -> tuple[str, ...]:
    """Places of a file: itself where it is here, and its folder if that holds Spark's own names."""
    place, folder = place_of(file), place_of(posixpath.dirname(file))
    if place.startswith(SERVER):
        return (folder,)
    if not os.path.exists(place):  # noqa: PTH110 - a text
        return (SERVER + file,)
    return (place, folder) if posixpath.basename(place).startswith(_NAMED) else (place,)


def check_named(table: str, plan: str) -> None:
    """Refuse a private table whose plan, as ``EXPLAIN EXTENDED`` has it, hides what it reads."""
    optimised = plan.partition("== Optimized Logical Plan ==")[2]
    if not optimised:
        raise SchemaError(f"Spark does not say what table {table!r} reads")
    for sign, (why, hint) in _HIDDEN.items():
        if sign in optimised:
            raise SchemaError(
                f"table {table!r} {why}: which files that are cannot be told, nor whether they "
                "have a budget already",
                hint=hint,
            )
