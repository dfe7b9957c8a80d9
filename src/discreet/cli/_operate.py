"""What the commands of ``discreet ledger`` do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.cli._budget import decided, owned
from discreet.cli._console import facts, say, working
from discreet.cli._outcome import Reply, UsageError
from discreet.cli._session import Where, check_writable, ledger_of

if TYPE_CHECKING:
    from rich.console import Console

    from discreet.privacy import PrivacyLoss


def health(where: Where) -> Reply:
    """Figures for monitoring."""
    from discreet.ledger import health  # noqa: PLC0415 - imported when used

    data = health(ledger_of(where))

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
        lines = backup(owned(where), file)
    data = {"written": str(file), "lines": lines}
    return Reply(data, lambda c: say(c, f"{lines} lines are in {file}, checked whole.", "green"))


def restore(where: Where, *, file: Path, older: bool, by: str) -> Reply:
    """Put a backup in the ledger's place."""
    from discreet.ledger import restore  # noqa: PLC0415 - imported when used

    with working("checking and copying the backup…"):
        ledger = restore(file, where.place(), older=older, by=by)
    return decided(ledger, "the ledger is restored")


def adopt(where: Where) -> Reply:
    """Accept a ledger without an anchor."""
    from discreet.ledger import adopt  # noqa: PLC0415 - imported when used

    place = where.place()
    return decided(adopt(place, where.load()), "the ledger is adopted")


def forget(where: Where, *, fresh_budget: bool) -> Reply:
    """Forget a ledger that is gone."""
    from discreet.ledger import forget  # noqa: PLC0415 - imported when used

    policy, place = where.load(), where.place()
    forget(policy, None if "://" in place else place, fresh_budget=fresh_budget)
    said = f"the ledger of {policy.identity} is forgotten; the next one starts a fresh budget"
    return Reply({"decision": said}, lambda console: say(console, f"{said}.", "green"))


def consent(where: Where, *, to: str, note: str, by: str) -> Reply:
    """Let another policy spend from this budget."""
    ledger = owned(where)
    ledger.consent(to, by=by, note=note)
    return decided(ledger, f"{to} spends from this budget")


def external(
    where: Where,
    *,
    what: str,
    price: dict[str, str | None],
    table: str | None,
    analyst: str | None,
    key: str | None,
) -> Reply:
    """Debit a loss from elsewhere; no data are opened."""
    from discreet.curator import record_external  # noqa: PLC0415 - imported when used

    ledger = ledger_of(where, create=True)
    receipt = record_external(
        where.load(), ledger, _loss(price), what=what, table=table, analyst=analyst, key=key
    )
    said = "is entered" if receipt.charged else "was entered before"
    return decided(ledger, f"{what!r} {said}", receipt.number)


def _loss(price: dict[str, str | None]) -> PrivacyLoss:
    from discreet import privacy  # noqa: PLC0415 - imported when used

    epsilon, delta, rho = (price[name] for name in ("epsilon", "delta", "rho"))
    if (epsilon is None) == (rho is None):
        raise UsageError("say the loss: ε (with δ), or ρ", hint="--epsilon 1 --delta 1e-6")
    if rho is not None:
        return privacy.Zcdp(rho, delta or 0)
    assert epsilon is not None
    return privacy.Approx(epsilon, delta) if delta else privacy.Pure(epsilon)
