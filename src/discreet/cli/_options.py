"""Options that several commands share, and how a command runs on a ledger."""

from __future__ import annotations

import importlib
import shlex
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
        help="Policy file, or the name of a service's policy. Left out: the only one.",
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


def _check_sure(question: str, *, asked: bool) -> None:
    """Ask before a decision that cannot be taken back; without a terminal --yes is the answer."""
    if asked:
        typer.confirm(question, abort=True)
        return
    statement, _, _ = question.rpartition(". ")
    typed = shlex.join(["discreet", *sys.argv[1:]])
    error: Exception = module("_outcome").UsageError(
        f"{statement}: without a terminal, say so with --yes", hint=f"{typed} --yes"
    )
    raise error


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
    unless: tuple[bool, str] = (True, ""),
    **given: Any,
) -> None:
    """Run one command on the ledger that was named before or after the command.

    `unless` it was said before, the question is asked whether the user is sure.
    """
    above = ctx.obj or (None, None)
    asked = sys.stdin.isatty() and not as_json
    if asked and not unless[0]:
        _check_sure(unless[1], asked=True)

    def work() -> Any:
        if not asked and not unless[0]:
            _check_sure(unless[1], asked=False)
        where = module("_session").Where(policy or above[0], None, ledger or above[1], None)
        return getattr(module(within), function)(where, **given)

    deliver(command, work, as_json=as_json)
