"""``discreet meaning``: what a loss means, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet import meaning
from discreet._exact import decimal
from discreet.cli._console import say, stderr, verbatim
from discreet.cli._outcome import Reply, UsageError
from discreet.cli._session import Where, check_writable, ledger_of, policies_here, write

if TYPE_CHECKING:
    from rich.console import Console


def of_epsilon(
    epsilon: str,
    prior: str,
    *,
    delta: str | None,
    group: int,
    neighbours: str,
    html: Path | None,
) -> Reply:
    """Explain an ε, with δ or without."""
    check_writable(html, "the page")
    page = meaning.page(epsilon, prior, delta=delta or 0, group=group, neighbours=neighbours)
    data: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta or "0",
        "prior": float(decimal(prior, "prior")),
        "group": group,
        "neighbours": neighbours,
        "page": page,
    }
    if delta is None:
        belief = meaning.posterior(prior, epsilon, group, neighbours=neighbours)
        data |= {
            "factor": meaning.odds_bound(1, epsilon, group),
            "posterior": {"low": belief.low, "high": belief.high},
        }
    if html is not None:
        if delta is not None:
            raise UsageError("the page with sliders is about ε alone", hint="leave out --delta")
        write(html, meaning.html(epsilon, prior, group=group, neighbours=neighbours))
        data["html"] = str(html)

    def show(console: Console) -> None:
        verbatim(console, page.rstrip("\n"))
        if html is not None:
            say(stderr(), f"wrote {html}", "dim")

    return Reply(data, show)


def of_ledger(where: Where, group: int, table: str | None, html: Path | None) -> Reply:
    """Explain everything a ledger has spent."""
    if where.ledger is None and where.policy is None and not policies_here():
        raise UsageError(
            "say which ε, or whose ledger", hint="discreet meaning --epsilon 0.5 --prior 0.02"
        )
    if html is not None:
        raise UsageError("the page with sliders is about an ε", hint="--epsilon 0.5 --html FILE")
    policy = where.load()
    tables = policy.tables.values() if table is None else [policy.table(table)]
    beside = [f"{word} ({t.name})" for t in tables for word in t.unprotected]
    statement = meaning.of(ledger_of(where, "try"), group=group, table=table, beside=beside)
    data = {
        "group": group,
        "basis": statement.basis,
        "epsilon": statement.epsilon,
        "factor": statement.factor,
        "accuracy": statement.attacker.accuracy(),
        "lost": statement.lost,
        "unprotected": list(statement.unprotected),
        "text": str(statement),
    }
    return Reply(data, lambda console: say(console, str(statement)))
