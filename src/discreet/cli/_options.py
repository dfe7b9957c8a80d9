"""Options that several commands share, and how a command runs on a ledger."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli._outcome import deliver

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, errors too.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        "-p",
        envvar="DISCREET_POLICY",
        metavar="FILE",
        help="Policy file. Left out: the only policy in this folder.",
    ),
]
LedgerPlace = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="DISCREET_LEDGER",
        metavar="PATH|URL",
        help="The ledger. Left out: POLICY.ledger, beside it.",
    ),
]
Analyst = Annotated[
    str | None,
    typer.Option(
        envvar="DISCREET_ANALYST", metavar="NAME", help="Who asks: decides which share pays."
    ),
]
Epsilon = Annotated[
    str | None, typer.Option("--epsilon", "-e", metavar="NUMBER", help="What it may cost: ε.")
]
Delta = Annotated[
    str | None,
    typer.Option(
        "--delta", "-d", metavar="NUMBER", help="δ, where keys are selected or noise is Gaussian."
    ),
]
Rho = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Instead of ε: zero-concentrated ρ.")
]
Limits = Annotated[
    str | None,
    typer.Option(
        metavar="auto", help="Choose privately how many rows of a unit count, for a fifth of ε."
    ),
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Write here; - is stdout.")
]
Note = Annotated[str, typer.Option(metavar="TEXT", help="Why; goes on record.")]
By = Annotated[str, typer.Option(metavar="NAME", help="Who decides; goes on record.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Decide without being asked again.")]
TableName = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="Table; left out: everything.")
]


def sure(question: str, yes: bool) -> None:
    """Ask whoever sits at a terminal before a decision that cannot be taken back."""
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True)


def module(name: str) -> Any:
    """Import what a command does, when it runs."""
    return importlib.import_module(f"discreet.cli.{name}")


def on_ledger(
    command: str,
    function: str,
    ctx: typer.Context,
    policy: Path | None,
    ledger: str | None,
    *,
    as_json: bool,
    within: str = "_budget",
    **given: Any,
) -> None:
    """Run one command on the ledger that was named before or after the command."""
    above = ctx.obj or (None, None)

    def work() -> Any:
        where = module("_session").Where(policy or above[0], None, ledger or above[1], None)
        return getattr(module(within), function)(where, **given)

    deliver(command, work, as_json=as_json)
