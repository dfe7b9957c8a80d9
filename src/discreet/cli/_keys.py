"""``discreet key``: who may ask a service, and what they may do; imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli._options import command

key_app = typer.Typer(
    help="Keys of a service: add, list, copy, revoke.", rich_markup_mode=None, no_args_is_help=True
)

HomeFolder = Annotated[
    Path,
    "FOLDER",
    "The service's own folder: keys, orders, signing key.",
    {"envvar": "DISCREET_HOME"},
]
HOME = Path("discreet-service")


class Role(StrEnum):
    """What somebody may do."""

    OWNER = "owner"
    ANALYST = "analyst"
    AUDITOR = "auditor"
    WITNESS = "witness"


@command(key_app, "key add", "_serve.add_key")
def add(
    name: Annotated[str, "Whose key it is: the name in the ledger."],
    *,
    role: Annotated[Role, "What they may do."] = Role.ANALYST,
    policy: Annotated[list[str] | None, "NAME", "Only for this policy; left out: for all."] = None,
    home: HomeFolder = HOME,
) -> None:
    """Make a key; it is shown once and stored as a hash."""


@command(key_app, "key list", "_serve.list_keys")
def list_keys(*, home: HomeFolder = HOME) -> None:
    """List names, roles and ids, never the keys themselves."""


@command(key_app, "key copy", "_serve.copy_keys")
def copy(
    source: Annotated[Path, "FOLDER", "Another service's folder, or a copy of it."],
    *,
    home: HomeFolder = HOME,
) -> None:
    """Take over another service's keys, as hashes, and what it has revoked."""


@command(key_app, "key revoke", "_serve.revoke_key")
def revoke(
    key: Annotated[str, "ID|NAME", "A key's id, or all of a name."],
    *,
    home: HomeFolder = HOME,
) -> None:
    """Revoke a key; a running service refuses it from its next request on."""
