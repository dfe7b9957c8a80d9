"""What a ledger is: the only thing that can say yes to a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from discreet.plan import Cost


@dataclass(frozen=True)
class Entry:
    """One debit: who asked what, under which policy, at which cost.

    Everything here is public: parameters and hashes, never data.
    """

    policy: str  # identity
    fingerprint: str
    analyst: str | None
    plan: str  # hash
    cost: Cost
    noise: str
    neighbours: str
    unit: str | None
    tainted: bool = False  # noise would come from the deterministic test source


@dataclass(frozen=True)
class Balance:
    """Spent, total and remaining budget in the policy's own currency.

    ``amounts`` maps a currency ("epsilon", "delta", "rho") to ``(spent, total)``.
    """

    accounting: str
    amounts: dict[str, tuple[Fraction, Fraction]]

    def left(self, currency: str) -> Fraction:
        """What remains of one currency."""
        spent, total = self.amounts[currency]
        return total - spent


class Ledger(Protocol):
    """Debit before run, exact rationals, no refund."""

    def debit(self, entry: Entry) -> None:
        """Record a debit, or refuse (over budget, test noise) and record nothing."""
        ...

    def balance(self, analyst: str | None = None) -> Balance:
        """Balance of the table, or of one analyst's share."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """All debits, oldest first."""
        ...
