"""Several readings of one moment: what a ledger knows of its head while nobody has written."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import Final

from discreet._dataclass import replace
from discreet._log import note
from discreet.errors import LedgerError
from discreet.ledger import _budget
from discreet.ledger._anchor import AnyAnchor
from discreet.ledger._chain import Head
from discreet.ledger._protocol import Standing
from discreet.ledger._state import State
from discreet.ledger._store import Transaction
from discreet.policy import Policy

_VIEW = threading.local()
"""The state and head that a thread has read, and of which ledger."""
_NOTHING: Final = (None, None, None)


class Glances(ABC):
    """The state of a ledger, read once for whoever asks several times."""

    _anchors: tuple[AnyAnchor, ...]
    _guest: str | None
    identity: str
    _latest: Head | None = None
    _stood: tuple[State | None, dict[tuple[Fraction, str | None], Standing]] = (None, {})
    """The latest state whose balances were worked out, and these."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[tuple[Transaction, Head]]:
        """Read one committed state."""

    @property
    def state(self) -> State:
        """Budget in force, closed tables, period, spending by analyst."""
        whose, view, _ = getattr(_VIEW, "state", _NOTHING)
        if whose is self and view is not None:
            state: State = view
            return state
        with self.reading() as (_, head):
            return head.content

    @property
    def view(self) -> State:
        """The state as a glance shows it: enough for prices; debits read the ledger itself."""
        whose, view, _ = getattr(_VIEW, "state", _NOTHING)
        if whose is self and view is not None:
            state: State = view
            return state
        return self._glimpse().content

    def _glimpse(self) -> Head:
        """The end of the ledger, read again only where its mark has moved."""
        beside = next((anchor for anchor in self._anchors if anchor.durable), None)
        mark, head = None if beside is None else beside.read(), self._latest
        if head is None or mark is None or mark.hash != head.hash:
            with self.reading() as (_, head):
                self._latest = head
        return head

    @contextmanager
    def glance(self) -> Iterator[Head]:
        """Let all balances that this thread reads until the end be those of one moment.

        Nothing is held meanwhile: others write, and a debit sees what they wrote. While the mark
        beside a file is where it was, which every writer moves, the file is not read again. One
        within another is of the same moment.
        """
        whose, _, known = getattr(_VIEW, "state", _NOTHING)
        if whose is self and known is not None:
            yield known
            return
        head = self._glimpse()
        _VIEW.state = (self, head.content, head)
        try:
            yield head
        finally:
            _VIEW.state = _NOTHING

    def standing(self, policy: Policy, analyst: str | None, *, checked: bool = False) -> Standing:
        """Least price and balances under one state; without a name, what the shares leave over.

        `checked`: the ledger itself is read and compared with its marks, outside of glances.
        """
        try:
            state, minimum = self.state if checked else self.view, policy.budget.minimum
        except LedgerError as refusal:
            note("ledger refused", refusal, policy=self.identity, said=refusal.message)
            raise
        about, standings = self._stood
        if about is not state:  # the same one is asked about several times for a question
            standings = {}
            self._stood = (state, standings)
        standing = standings.get((minimum, analyst))
        if standing is None:
            standing = standings[minimum, analyst] = self._stands(state, minimum, analyst)
        return standing

    def _stands(self, state: State, minimum: Fraction, analyst: str | None) -> Standing:
        limits = state.limits
        if self._guest is not None:  # whoever spends from it sets no lower one
            minimum = max(minimum, limits.minimum)
        if minimum != limits.minimum:
            limits = replace(limits, minimum=minimum)
        least, whole = _budget.least_cost(limits), _budget.balance(state)
        share = _budget.balance(state, analyst or "") if limits.shares else whole
        return Standing(least, (whole, share))
