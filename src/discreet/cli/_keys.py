"""``discreet key``: who may ask a service, and what they may do; imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli._options import Json, module
from discreet.cli._outcome import deliver

key_app = typer.Typer(
    help="Keys of a service: add, list, copy, revoke.", rich_markup_mode=None, no_args_is_help=True
)

HomeFolder = Annotated[
    Path,
    typer.Option(
        "--home", envvar="DISCREET_HOME", metavar="FOLDER",
        help="The service's own folder: keys, orders, signing key.",
    ),
]  # fmt: skip
HOME = Path("discreet-service")


class Role(StrEnum):
    """What somebody may do."""

    OWNER = "owner"
    ANALYST = "analyst"
    AUDITOR = "auditor"
    WITNESS = "witness"


def _run(command: str, function: str, *, as_json: bool, **given: Any) -> None:
    deliver(command, lambda: getattr(module("_serve"), function)(**given), as_json=as_json)


@key_app.command()
def add(
    name: Annotated[str, typer.Argument(help="Whose key it is: the name in the ledger.")],
    *,
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.ANALYST,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only for this policy; left out: for all."),
    ] = None,
    home: HomeFolder = HOME,
    as_json: Json = False,
) -> None:
    """Make a key; it is shown once and stored as a hash."""
    _run("key add", "add_key", name=name, role=role.value, policies=tuple(policy or ()),
         home=home, as_json=as_json)  # fmt: skip


@key_app.command("list")
def list_(*, home: HomeFolder = HOME, as_json: Json = False) -> None:
    """List names, roles and ids, never the keys themselves."""
    _run("key list", "list_keys", home=home, as_json=as_json)


@key_app.command()
def copy(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Another service's folder, or a copy of it.")
    ],
    *,
    home: HomeFolder = HOME,
    as_json: Json = False,
) -> None:
    """Take over another service's keys, as hashes, and what it has revoked."""
    _run("key copy", "copy_keys", source=source, home=home, as_json=as_json)


@key_app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID|NAME", help="A key's id, or all of a name.")],
    *,
    home: HomeFolder = HOME,
    as_json: Json = False,
) -> None:
    """Revoke a key; a running service refuses it from its next request on."""
    _run("key revoke", "revoke_key", key=key, home=home, as_json=as_json)
