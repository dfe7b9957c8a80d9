"""What the commands of ``discreet ledger`` do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet._exact import decimal
from discreet._exact import show as number
from discreet._print import plural
from discreet.cli._budget import decided
from discreet.cli._console import facts, say, working
from discreet.cli._outcome import Reply, UsageError
from discreet.cli._session import Where, check_writable, ledger_of
from discreet.ledger import RESTORED

if TYPE_CHECKING:
    from rich.console import Console

    from discreet.ledger import ChainedLedger
    from discreet.privacy import PrivacyLoss


def health(where: Where) -> Reply:
    """Figures for monitoring."""
    from discreet.ledger import health  # noqa: PLC0415 - imported when used

    data = health(ledger_of(where, "look"))

    def show(console: Console) -> None:
        facts(console, [(name, _words(value)) for name, value in data.items()])

    return Reply(data, show)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join("none" if v is None else str(v) for v in value) or "none"
    return "none" if value is None else str(value)


def backup(where: Where, *, file: Path) -> Reply:
    """Copy the ledger into a new file."""
    from discreet.ledger import backup  # noqa: PLC0415 - imported when used

    check_writable(file, "the backup")
    with working("copying and checking the ledger…"):
        lines = backup(ledger_of(where, "look"), file)
    data = {"written": str(file), "lines": lines}
    message = f"wrote {plural(lines, 'line')} to {file}, checked whole."
    return Reply(data, lambda console: say(console, message, "green"))


def restore(where: Where, *, file: Path, older: bool, no_witness: bool, by: str) -> Reply:
    """Put a backup in the ledger's place."""
    from discreet.ledger import restore  # noqa: PLC0415 - imported when used

    with working("checking and copying the backup…"):
        ledger = restore(
            file, where.place(), policy=where.load(), older=older, unwatched=no_witness, by=by
        )
    last = ledger.lines[-1]
    if last.kind == "adopt":
        return decided(ledger, "the ledger is adopted: no mark here says whether it is the latest")
    if last.kind == "debit" and last.content["plan"] == RESTORED:
        return decided(
            ledger,
            "the ledger is restored, and all that was left counts as spent. If the budget was "
            "raised or a new period begun on a lost line, what was spent under that is not counted "
            f"here: keep it in mind before you raise it again{_raise(ledger)}",
        )
    return decided(ledger, "the ledger is restored: nothing was lost")


def _raise(ledger: ChainedLedger) -> str:
    """What a raise takes where lost lines count as one release of the whole budget."""
    balance = ledger.balance()
    if not {"epsilon", "rho"} <= set(balance.amounts):
        return ""
    least = number(2 * balance.delta)
    return f". A raise needs a larger ε, and --delta above {least}; a new period needs neither"


def adopt(where: Where, *, note: str, by: str) -> Reply:
    """Accept a ledger without an anchor."""
    from discreet.ledger import adopt  # noqa: PLC0415 - imported when used

    return decided(adopt(where.place(), where.load(), by=by, note=note), "the ledger is adopted")


def forget(where: Where, *, fresh_budget: bool, by: str) -> Reply:
    """Forget a ledger that is gone."""
    from discreet.ledger import forget  # noqa: PLC0415 - imported when used

    policy = where.load()
    forget(policy, where.place(), fresh_budget=fresh_budget, by=by)
    message = f"the ledger of {policy.identity} is forgotten; the next one starts a fresh budget"
    return Reply({"decision": message}, lambda console: say(console, f"{message}.", "green"))


def consent(where: Where, *, to: str, note: str, by: str) -> Reply:
    """Let another policy spend from this budget."""
    ledger = ledger_of(where, "decide")
    ledger.consent(to, by=by, note=note)
    return decided(ledger, f"{to} spends from this budget")


def vouch(where: Where, *, source: str, note: str, by: str) -> Reply:
    """Answer for a source that could have another budget."""
    ledger = ledger_of(where, "decide")
    ledger.vouch(source, by=by, note=note)
    return decided(ledger, f"its owner answers for {source}")


def external(
    where: Where,
    *,
    what: str,
    table: str | None,
    analyst: str | None,
    key: str | None,
    **price: str | None,
) -> Reply:
    """Debit a loss from elsewhere; no data are opened."""
    from discreet.curator import record_external  # noqa: PLC0415 - imported when used

    ledger = ledger_of(where, "ask")
    receipt = record_external(
        where.load(), ledger, _loss(price), what=what, table=table, analyst=analyst, key=key
    )
    words = "is entered" if receipt.charged else "was entered before"
    return decided(ledger, f"{what!r} {words}", receipt.number)


def _loss(price: dict[str, str | None]) -> PrivacyLoss:
    from discreet import privacy  # noqa: PLC0415 - imported when used

    epsilon, delta, rho = (price[name] for name in ("epsilon", "delta", "rho"))
    if (epsilon is None) == (rho is None):
        raise UsageError("state the loss: ε (with δ), or ρ", hint="--epsilon 1 --delta 1e-6")
    if not any(decimal(x, "the loss") for x in (epsilon, rho) if x is not None):
        raise UsageError("a loss of 0 is no loss: there is nothing to enter", hint="--epsilon 1")
    if rho is not None:
        return privacy.Zcdp(rho, delta or 0)
    assert epsilon is not None
    return privacy.Approx(epsilon, delta) if delta else privacy.Pure(epsilon)
