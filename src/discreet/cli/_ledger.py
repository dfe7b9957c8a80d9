"""``discreet ledger``: what operators do with a ledger; imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli._options import (
    Analyst,
    By,
    Delta,
    Epsilon,
    LedgerPlace,
    Note,
    OnLedger,
    Output,
    PolicyFile,
    Rho,
    command,
)

ledger_app = typer.Typer(
    help="Verify, export, back up, restore and move a ledger; losses from elsewhere.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


class Format(StrEnum):
    """Forms of an exported ledger."""

    CSV = "csv"
    JSON = "json"


@ledger_app.callback()
def _places(ctx: typer.Context, *, policy: PolicyFile = None, ledger: LedgerPlace = None) -> None:
    ctx.obj = (policy, ledger)


@command(ledger_app, "ledger verify", "_budget.verify")
def verify(where: OnLedger) -> None:
    """Recompute every hash, total and admission; compare answers, indices and anchors."""


@command(ledger_app, "ledger export", "_budget.export")
def export(
    *,
    form: Annotated[Format, "--format", "Form of the file."] = Format.CSV,
    output: Output = None,
    where: OnLedger,
) -> None:
    """Write the whole history, one line per entry."""


@command(ledger_app, "ledger health", "_operate.health")
def health(where: OnLedger) -> None:
    """Give figures for monitoring, which say nothing about the data."""


@command(ledger_app, "ledger backup", "_operate.backup")
def backup(
    file: Annotated[Path, "FILE", "The backup, a new file."],
    where: OnLedger,
) -> None:
    """Copy the ledger into a new file, checked whole."""


@command(ledger_app, "ledger restore", "_operate.restore")
def restore(
    file: Annotated[Path, "FILE", "The backup."],
    *,
    older: Annotated[bool, "Lines are lost: all that was left counts as spent."] = False,
    no_witness: Annotated[bool, "Give up the witness that it had."] = False,
    by: By = "owner",
    where: OnLedger,
) -> None:
    """Put a backup in the place of a ledger that is gone."""


@command(ledger_app, "ledger adopt", "_operate.adopt")
def adopt(*, note: Note = "", by: By = "owner", where: OnLedger) -> None:
    """Accept, on record, a ledger that has come here without its anchor or its witness."""


@command(ledger_app, "ledger forget", "_operate.forget")
def forget(
    *,
    fresh_budget: Annotated[bool, "A fresh budget is meant, whatever was spent."] = False,
    by: By = "owner",
    where: OnLedger,
) -> None:
    """Forget a ledger that is gone together with its data: the next one starts afresh."""


@command(ledger_app, "ledger consent", "_operate.consent")
def consent(
    *,
    to: Annotated[str, "NAME", "Name of the policy that may spend from it."],
    note: Note = "",
    by: By = "owner",
    where: OnLedger,
) -> None:
    """Let another policy over the same data spend from this budget, on record."""


@command(ledger_app, "ledger vouch", "_operate.vouch")
def vouch(
    source: Annotated[str, "SOURCE", "The source, as the refusal names it."],
    *,
    note: Note = "",
    by: By = "owner",
    where: OnLedger,
) -> None:
    """Answer, on record, for a source that could be under another budget unseen."""


@command(ledger_app, "ledger external", "_operate.external")
def external(
    what: Annotated[str, "WHAT", "What is released, in one line."],
    *,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    table: Annotated[str | None, "NAME", "The table it is about; left out: all."] = None,
    analyst: Analyst = None,
    key: Annotated[str | None, "TEXT", "With it, entering twice pays once."] = None,
    where: OnLedger,
) -> None:
    """Debit what other software releases about the same people."""
