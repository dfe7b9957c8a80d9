"""What a ledger is: the only thing that can say yes to a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from discreet.plan import Cost


@dataclass(frozen=True, slots=True)
class Entry:
    """One debit: who asked what, under which policy, at which cost.

    Everything here is public: parameters and hashes, never data.

    Parameters
    ----------
    policy, fingerprint
        Identity of the policy, which owns the budget, and hash of its whole text.
    analyst
        Who asks; decides which share is charged.
    plan
        Hash of the question.
    cost
        Price in every currency.
    noise
        Kind and exact parameters of the noise that will be drawn.
    neighbours, unit
        What the price protects.
    tainted
        Whether the noise would come from the deterministic test source.
    tables
        The private tables asked about.
    source
        Label of the data; a stored answer is reused only for the same label.
    key
        Idempotency key of the caller: one key, one debit, one answer.
    fresh
        Pay for a new answer even if an equal question has been answered. A run that was
        cut short is taken up nevertheless: it has no answer yet.
    runs
        Whether a run follows whose outcome will be stored; otherwise the debit
        meters something that another debit has paid for, or enters a loss from elsewhere.
    external
        What was released by other software, for a loss from elsewhere.
    live
        Hashes of debits whose runs go on in this process, where its own is entered: a
        fresh question is none of theirs.
    """

    policy: str
    fingerprint: str
    analyst: str | None
    plan: str
    cost: Cost
    noise: str
    neighbours: str
    unit: str | None
    tainted: bool = False
    tables: tuple[str, ...] = ()
    source: str = ""
    key: str | None = None
    fresh: bool = False
    runs: bool = True
    external: str | None = None
    live: set[str] = field(default_factory=set, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a ledger says to a debit.

    ``number`` and ``hash`` name the line that paid. With ``stored`` there is an
    answer already, free of charge; with ``failed`` the run that was paid for is
    known to have failed; with neither, the run may begin.
    """

    number: int
    hash: str
    when: str
    charged: bool = True
    stored: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
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

    def debit(self, entry: Entry) -> Receipt:
        """Record a debit durably, or find the answer it already paid for, or refuse."""
        ...

    def found(self, entry: Entry) -> Receipt | None:
        """Give the stored answer that an equal question has, or its key; nothing is written."""
        ...

    def settle(self, receipt: Receipt, record: str | None) -> str | None:
        """Store the outcome of a run (None: it failed), unless one is stored.

        Returns the outcome that is stored. Only that may be released.
        """
        ...

    def balance(self, analyst: str | None = None) -> Balance:
        """Balance of the table, or of one analyst's share."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """All debits, oldest first."""
        ...
