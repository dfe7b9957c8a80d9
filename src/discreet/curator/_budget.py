"""How the balance of a ledger is shown."""

from __future__ import annotations

from fractions import Fraction

from discreet._dataclass import dataclass
from discreet._print import short, short_down
from discreet.ledger import Balance
from discreet.plan import Cost

_SYMBOLS = {"epsilon": "ε", "rho": "ρ", "delta": "δ"}


@dataclass(frozen=True)
class Budget:
    """What has been spent and what is left."""

    table: Balance
    share: Balance
    analyst: str | None
    held: Fraction = Fraction(0)
    """ε of what is left that is set aside for questions that wait for an owner of a service."""

    @property
    def spent(self) -> dict[str, Fraction]:
        """Spent so far by everybody, per currency."""
        return {c: s for c, (s, _) in self.table.amounts.items()}

    @property
    def left(self) -> dict[str, Fraction]:
        """Left for this analyst, per currency."""
        return {c: min(self.table.left(c), self.share.left(c)) for c in self.table.amounts}

    @property
    def shown(self) -> str:
        """What is left, in words."""
        return describe_balance((self.table, self.share))

    def __repr__(self) -> str:
        who = f" of {self.analyst}" if self.analyst else ""
        text = f"budget{who}, {self.table.accounting} accounting: {self.shown}"
        if self.held:
            text += f"; ε {short(self.held)} is set aside for questions that wait for an owner"
        return text


def describe_balance(balances: tuple[Balance, Balance], cost: Cost | None = None) -> str:
    """Say what is left in the budget's own currency, and how many more of a cost fit.

    `balances` are those of the whole and of the share that pays. What is left is the largest
    price of one more question: asked for exactly that, it is answered.
    """
    whole, share = balances
    each = (whole,) if share == whole else balances
    symbol = "" if share.currency == "epsilon" else f"{_SYMBOLS[share.currency]} "
    fitting = min(balance.remaining for balance in each)
    left = f"{symbol}{short_down(fitting)} of {short(share.total, 12)} left"
    counts = [] if cost is None else [balance.more(cost) for balance in each]
    more = min((n for n in counts if n is not None), default=None)
    return left if more is None else f"{left} ({f'≈ {more}' if more else 'no'} more like this)"
