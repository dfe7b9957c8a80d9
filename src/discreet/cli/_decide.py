"""``discreet budget`` and its commands: looking, planning, and the owner's decisions."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli._options import (
    Analyst,
    By,
    Json,
    LedgerPlace,
    Note,
    PolicyFile,
    TableName,
    Yes,
    on_ledger,
)

budget_app = typer.Typer(
    help="See spending, decide as owner.",
    rich_markup_mode=None,
)


@budget_app.callback(invoke_without_command=True)
def budget(
    ctx: typer.Context,
    *,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    analyst: Analyst = None,
    last: Annotated[int, typer.Option(min=0, help="Entries to list, newest last.")] = 10,
    as_json: Json = False,
) -> None:
    """See spending, decide as owner."""
    ctx.obj = (policy, ledger)
    if ctx.invoked_subcommand is None:
        on_ledger(
            "budget", "show", ctx, policy, ledger, analyst=analyst, last=last, as_json=as_json
        )


@budget_app.command("plan")
def plan_(
    ctx: typer.Context,
    *,
    questions: Annotated[
        int, typer.Option("--questions", "-n", min=1, help="Counts asked in a month.")
    ],
    within: Annotated[
        str, typer.Option("--within", "-w", metavar="NUMBER", help="Margin of each count.")
    ],
    months: Annotated[int, typer.Option(min=1, max=1200, help="Months to plan for.")] = 12,
    confidence: Annotated[
        str, typer.Option(metavar="NUMBER", help="Level of the margin.")
    ] = "0.95",
    table: TableName = None,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Say which ε so many questions of such a margin need; nothing is charged."""
    on_ledger(
        "budget plan", "plan", ctx, policy, ledger, questions=questions, margin=within,
        months=months, confidence=confidence, table=table, as_json=as_json,
    )  # fmt: skip


@budget_app.command("raise")
def raise_(
    ctx: typer.Context,
    *,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", "-e", metavar="NUMBER", help="New total ε.")
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", "-d", metavar="NUMBER", help="New total δ.")
    ] = None,
    rho: Annotated[str | None, typer.Option(metavar="NUMBER", help="New total ρ.")] = None,
    lower: Annotated[
        bool, typer.Option("--lower", help="The new total may be smaller than the present one.")
    ] = False,
    note: Note = "",
    by: By = "owner",
    yes: Yes = False,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Put a new total on record; what was spent stays spent."""
    question = "This allows more privacy to be lost than was promised. Raise the budget?"
    totals = {"epsilon": epsilon, "delta": delta, "rho": rho}
    on_ledger(
        "budget raise", "raise_totals", ctx, policy, ledger, totals=totals, lower=lower, note=note,
        by=by, unless=(yes, question), as_json=as_json,
    )  # fmt: skip


@budget_app.command()
def shares(
    ctx: typer.Context,
    *,
    parts: Annotated[
        list[str] | None,
        typer.Argument(metavar="ANALYST=PART", help="Parts of the whole; none: no shares."),
    ] = None,
    note: Note = "",
    by: By = "owner",
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Split the budget among analysts, on record."""
    on_ledger(
        "budget shares", "set_shares", ctx, policy, ledger, parts=parts or [], note=note, by=by,
        as_json=as_json,
    )  # fmt: skip


@budget_app.command()
def close(
    ctx: typer.Context,
    *,
    table: TableName = None,
    note: Note = "",
    by: By = "owner",
    yes: Yes = False,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Refuse all new questions about a table, on record."""
    question = f"No more questions about {table or 'any table'} will be answered. Close?"
    on_ledger(
        "budget close", "close", ctx, policy, ledger, table=table, note=note, by=by,
        unless=(yes, question), as_json=as_json,
    )  # fmt: skip


@budget_app.command()
def reopen(
    ctx: typer.Context,
    *,
    table: TableName = None,
    note: Note = "",
    by: By = "owner",
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Allow questions again, on record."""
    on_ledger(
        "budget reopen", "reopen", ctx, policy, ledger, table=table, note=note, by=by,
        as_json=as_json,
    )  # fmt: skip


@budget_app.command("new-period")
def new_period(
    ctx: typer.Context,
    *,
    note: Note = "",
    by: By = "owner",
    yes: Yes = False,
    policy: PolicyFile = None,
    ledger: LedgerPlace = None,
    as_json: Json = False,
) -> None:
    """Begin a new period with the whole budget; over periods losses add up."""
    question = "People who stay in the data lose the budget once more. Begin a new period?"
    on_ledger(
        "budget new-period", "new_period", ctx, policy, ledger, note=note, by=by,
        unless=(yes, question), as_json=as_json,
    )  # fmt: skip
