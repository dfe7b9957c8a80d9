"""How the balance of a ledger is shown."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from discreet._print import short
from discreet.ledger import Balance

_SYMBOLS = {"epsilon": "ε", "rho": "ρ", "delta": "δ"}


@dataclass(frozen=True)
class Budget:
    """What has been spent and what is left."""

    table: Balance
    share: Balance
    analyst: str | None

    @property
    def spent(self) -> dict[str, Fraction]:
        """Spent so far by everybody, per currency."""
        return {c: s for c, (s, _) in self.table.amounts.items()}

    @property
    def left(self) -> dict[str, Fraction]:
        """Left for this analyst, per currency."""
        return {c: min(self.table.left(c), self.share.left(c)) for c in self.table.amounts}

    def __repr__(self) -> str:
        who = f" of {self.analyst}" if self.analyst else ""
        return (
            f"budget{who}, {self.table.accounting} accounting: left {describe_balance(self.share)}"
        )


def describe_balance(balance: Balance) -> str:
    """Say what is left, every currency once."""
    return ", ".join(
        f"{_SYMBOLS[currency]}={short(total - spent)} of {short(total)}"
        for currency in _SYMBOLS
        if currency in balance.amounts
        for spent, total in [balance.amounts[currency]]
        if total
    )
