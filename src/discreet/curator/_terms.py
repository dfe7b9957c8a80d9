"""What a curator is opened with: policy, ledger and analyst, fixed from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from discreet._text import plain_str
from discreet.errors import ParameterError
from discreet.ledger import ChainedLedger

if TYPE_CHECKING:
    from discreet import policy as pol
    from discreet.ledger import Ledger


class Terms:
    """Terms that can be read and not replaced: another policy or ledger is another curator."""

    def __init__(self, policy: pol.Policy, ledger: Ledger, analyst: str | None) -> None:
        self._policy, self._ledger = policy, ledger
        self._analyst = None if analyst is None else plain_str(analyst, "analyst")

    @property
    def policy(self) -> pol.Policy:
        """What is public and how much may be lost."""
        return self._policy

    @property
    def ledger(self) -> Ledger:
        """Every debit so far."""
        return self._ledger

    @property
    def analyst(self) -> str | None:
        """Who asks; decides which share of the budget is charged."""
        return self._analyst

    def close(self) -> None:
        """Let go of the connections that the ledger keeps for its next use."""
        if isinstance(self._ledger, ChainedLedger):
            self._ledger.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse to replace what callers see: terms, and the methods that rest on them."""
        if not name.startswith("_") or name.startswith("__"):
            raise ParameterError(
                f"{name} of a curator is fixed", hint="open another curator: discreet.open(…)"
            )
        super().__setattr__(name, value)
