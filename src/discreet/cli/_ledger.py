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
    Json,
    LedgerPlace,
    Note,
    Output,
    PolicyFile,
    Rho,
    on_ledger,
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
def _named(ctx: typer.Context, *, policy: PolicyFile = None, ledger: LedgerPlace = None) -> None:
    ctx.obj = (policy, ledger)


@ledger_app.command()
def verify(
    ctx: typer.Context,
    *,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Recompute every hash, total and admission; compare answers, indices and anchors."""
    on_ledger("ledger verify", "verify", ctx, policy, ledger, as_json=as_json)


@ledger_app.command()
def export(
    ctx: typer.Context,
    *,
    form: Annotated[Format, typer.Option("--format", help="Form of the file.")] = Format.CSV,
    output: Output = None,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Write the whole history, one line per entry."""
    on_ledger(
        "ledger export", "export", ctx, policy, ledger, form=form.value, output=output,
        as_json=as_json,
    )  # fmt: skip


@ledger_app.command()
def health(
    ctx: typer.Context,
    *,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Give figures for monitoring, which say nothing about the data."""
    on_ledger("ledger health", "health", ctx, policy, ledger, as_json=as_json, within="_operate")


@ledger_app.command()
def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup, a new file.")],
    *,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Copy the ledger into a new file, checked whole."""
    on_ledger(
        "ledger backup", "backup", ctx, policy, ledger, file=file, as_json=as_json,
        within="_operate",
    )  # fmt: skip


@ledger_app.command()
def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")],
    *,
    older: Annotated[
        bool,
        typer.Option("--older", help="Lines are lost: all that was left counts as spent."),
    ] = False,
    no_witness: Annotated[
        bool, typer.Option("--no-witness", help="Give up the witness that it had.")
    ] = False,
    by: By = "owner",
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Put a backup in the place of a ledger that is gone."""
    on_ledger(
        "ledger restore", "restore", ctx, policy, ledger, file=file, older=older,
        no_witness=no_witness, by=by, as_json=as_json, within="_operate",
    )  # fmt: skip


@ledger_app.command()
def adopt(
    ctx: typer.Context,
    *,
    note: Note = "",
    by: By = "owner",
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Accept, on record, a ledger that has come here without its anchor or its witness."""
    on_ledger(
        "ledger adopt", "adopt", ctx, policy, ledger, note=note, by=by, as_json=as_json,
        within="_operate",
    )  # fmt: skip


@ledger_app.command()
def forget(
    ctx: typer.Context,
    *,
    fresh_budget: Annotated[
        bool,
        typer.Option("--fresh-budget", help="A fresh budget is meant, whatever was spent."),
    ] = False,
    by: By = "owner",
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Forget a ledger that is gone together with its data: the next one starts afresh."""
    on_ledger(
        "ledger forget", "forget", ctx, policy, ledger, fresh_budget=fresh_budget, by=by,
        as_json=as_json, within="_operate",
    )  # fmt: skip


@ledger_app.command()
def consent(
    ctx: typer.Context,
    *,
    to: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the policy that may spend from it.")
    ],
    note: Note = "",
    by: By = "owner",
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Let another policy over the same data spend from this budget, on record."""
    on_ledger(
        "ledger consent", "consent", ctx, policy, ledger, to=to, note=note, by=by,
        as_json=as_json, within="_operate",
    )  # fmt: skip


@ledger_app.command()
def vouch(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The source, as the refusal names it.")
    ],
    *,
    note: Note = "",
    by: By = "owner",
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Answer, on record, for a source that could be under another budget unseen."""
    on_ledger(
        "ledger vouch", "vouch", ctx, policy, ledger, source=source, note=note, by=by,
        as_json=as_json, within="_operate",
    )  # fmt: skip


@ledger_app.command()
def external(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="WHAT", help="What is released, in one line.")],
    *,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="The table it is about; left out: all.")
    ] = None,
    analyst: Analyst = None,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With it, entering twice pays once.")
    ] = None,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Debit what other software releases about the same people."""
    price = {"epsilon": epsilon, "delta": delta, "rho": rho}
    on_ledger(
        "ledger external", "external", ctx, policy, ledger, what=what, price=price, table=table,
        analyst=analyst, key=key, as_json=as_json, within="_operate",
    )  # fmt: skip
