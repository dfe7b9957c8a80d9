"""How the balance of a ledger is shown."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from discreet._print import short
from discreet.ledger import Balance
from discreet.plan import Cost

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
        return f"budget{who}, {self.table.accounting} accounting: {describe_balance(self.share)}"


def describe_balance(balance: Balance, cost: Cost | None = None) -> str:
    """Say what is left in the budget's own currency, and how many more of a cost fit.

    Where a budget may be paid by ε or by ρ, what is left is that part of the whole which
    the cheaper way leaves.
    """
    symbol = "" if balance.currency == "epsilon" else f"{_SYMBOLS[balance.currency]} "
    left = f"{symbol}{short(balance.remaining)} of {short(balance.total)} left"
    more = None if cost is None else balance.more(cost)
    return left if more is None else f"{left} (≈ {more} more like this)"
