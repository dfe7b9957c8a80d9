"""``discreet check``: whether a policy is usable, and whether the data fit it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet._exact import show
from discreet.cli._console import facts, grid, heading, show_table, working
from discreet.cli._outcome import Reply
from discreet.cli._session import Where, curator, policy_file
from discreet.policy import Column, Policy, Table

if TYPE_CHECKING:
    from rich.console import Console


def run(path: Path | None, source: str | None, *, schema: bool) -> Reply:
    """Load a policy, compare it with the schema of its data, sum it up."""
    where = Where(policy_file(path), source, None, None)
    policy = where.load()
    left = None
    if schema:
        with working("comparing with the schema…"), curator(where, spend=False) as opened:
            left = repr(opened.budget)
    data: dict[str, Any] = {
        "file": str(where.path),
        "identity": policy.identity,
        "fingerprint": policy.fingerprint,
        "schema": "fits" if schema else "not compared",
        "ledger": where.place(),
        "policy": policy.to_mapping(),
    }
    return Reply(data, lambda console: _show(console, where, policy, left))


def _show(console: Console, where: Where, policy: Policy, left: str | None) -> None:
    name = policy.name or f"unnamed ({policy.identity[:19]}…)"
    lines = [
        ("policy", f"{where.path}: {name}"),
        ("budget", _budget(policy)),
        ("ledger", where.place() if Path(where.place()).exists() else "none yet: nothing asked"),
    ]
    if left is not None:
        lines.append(("left", left.partition("left ")[2]))
    facts(console, lines)
    for table in policy.tables.values():
        heading(console, f"{table.name}: {whom(table)}")
        rows = [(c.name, c.type, domain(c)) for c in table.columns.values()]
        if table.unit is not None and table.unit not in table.columns:
            rows.insert(0, (table.unit, "unit", "tells people apart; never shown"))
        show_table(console, grid(("column", "type", "public domain"), rows, keys=1))
    console.print()
    if left is None:
        console.print("The policy is usable. The data were not looked at.", style="green")
    else:
        console.print("The policy is usable, and the schema of the data fits it.", style="green")


def _budget(policy: Policy) -> str:
    budget = policy.budget
    parts = [
        f"{symbol} = {show(value)}"
        for symbol, value in (("ε", budget.epsilon), ("ρ", budget.rho), ("δ", budget.delta))
        if value
    ]
    shares = ", ".join(f"{who} {show(part)}" for who, part in budget.shares.items())
    return f"{', '.join(parts)} ({budget.accounting} accounting)" + (
        f"; shares: {shares}" if shares else ""
    )


def whom(table: Table) -> str:
    """Say whom a table protects, and how far."""
    if table.public:
        return "public, protects nobody"
    if table.unit is None:
        return f"each row is one person ({table.neighbours})"
    limits = [
        f"{limit} {words}"
        for limit, words in (
            (table.max_rows_per_unit, "rows"),
            (table.max_groups_per_unit, "groups"),
            (table.max_rows_per_group, "rows per group"),
        )
        if limit is not None
    ]
    return f"protects each {table.unit}, at most {', '.join(limits)} ({table.neighbours})"


def domain(column: Column) -> str:
    """Say what a column may hold, as the policy file does."""
    arguments = repr(column).partition("(")[2].removesuffix(")")
    return arguments.partition(", ")[2] or (
        "any; selected privately" if column.type == "text" else ""
    )
