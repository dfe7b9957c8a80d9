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
    OnLedger,
    PolicyFile,
    TableName,
    Yes,
    command,
    module,
    on_ledger,
)
from discreet.cli._outcome import deliver

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
        deliver(
            "budget",
            lambda: module("_budget").show(on_ledger(ctx), analyst=analyst, last=last),
            as_json=as_json,
        )


@command(budget_app, "budget plan", "_budget.plan")
def plan(
    table: TableName = None,
    *,
    questions: Annotated[int, "-n", "Counts asked in a month.", {"min": 1}],
    within: Annotated[str, "-w", "NUMBER", "Margin of each count."],
    months: Annotated[int, "Months to plan for.", {"min": 1, "max": 1200}] = 12,
    confidence: Annotated[str, "NUMBER", "Level of the margin."] = "0.95",
    where: OnLedger,
) -> None:
    """Say which ε so many questions of such a margin need; nothing is charged."""


@command(
    budget_app,
    "budget raise",
    "_budget.raise_totals",
    sure=lambda **_: "This allows more privacy to be lost than was promised. Raise the budget?",
)
def raise_totals(
    *,
    epsilon: Annotated[str | None, "-e", "NUMBER", "New total ε."] = None,
    delta: Annotated[str | None, "-d", "NUMBER", "New total δ."] = None,
    rho: Annotated[str | None, "NUMBER", "New total ρ."] = None,
    lower: Annotated[bool, "The new total may be smaller than the present one."] = False,
    note: Note = "",
    by: By = "owner",
    yes: Yes = False,
    where: OnLedger,
) -> None:
    """Put a new total on record; what was spent stays spent."""


@command(budget_app, "budget shares", "_budget.set_shares")
def shares(
    parts: Annotated[
        list[str] | None, "ANALYST=PART", "Parts of the whole; none: no shares."
    ] = None,
    *,
    note: Note = "",
    by: By = "owner",
    where: OnLedger,
) -> None:
    """Split the budget among analysts, on record."""


@command(
    budget_app,
    "budget close",
    "_budget.close",
    sure=lambda table, **_: (
        f"No more questions about {table or 'any table'} will be answered. Close?"
    ),
)
def close(
    table: TableName = None, *, note: Note = "", by: By = "owner", yes: Yes = False, where: OnLedger
) -> None:
    """Refuse all new questions about a table, on record."""


@command(budget_app, "budget reopen", "_budget.reopen")
def reopen(table: TableName = None, *, note: Note = "", by: By = "owner", where: OnLedger) -> None:
    """Allow questions again, on record."""


@command(
    budget_app,
    "budget new-period",
    "_budget.new_period",
    sure=lambda **_: "People who stay in the data lose the budget once more. Begin a new period?",
)
def new_period(*, note: Note = "", by: By = "owner", yes: Yes = False, where: OnLedger) -> None:
    """Begin a new period with the whole budget; over periods losses add up."""
