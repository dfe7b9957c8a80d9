"""Raising a budget under the two-person rule: one owner proposes, another one agrees.

A proposal changes nothing. It holds the new totals; agreeing names the hash of what was shown,
and both names go on record with the new total. Owners' keys are then added on the host alone:
somebody who could make a second owner would be two persons.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
from collections.abc import Mapping
from typing import Any

from discreet._canonical import canonical, digest
from discreet._dataclass import dataclass
from discreet.ledger import ChainedLedger
from discreet.policy import Policy
from discreet.service._errors import GoneError, StateError
from discreet.service._home import Home
from discreet.service._orders import now


@dataclass(frozen=True, slots=True)
class Raise:
    """A new total that somebody has proposed."""

    id: str
    totals: Mapping[str, Any]
    reason: str
    by: str
    asked: str

    @property
    def seen(self) -> str:
        """Hash of what a second owner agrees to."""
        return digest(canonical([self.id, dict(self.totals), self.reason, self.by]))

    def to_dict(self) -> dict[str, Any]:
        """Write it for owners."""
        return {"id": self.id, "raise": dict(self.totals), "reason": self.reason, "by": self.by,
                "asked": self.asked, "seen": self.seen}  # fmt: skip


class Raises:
    """Proposals of one policy."""

    def __init__(self, home: Home, policy: Policy, ledger: ChainedLedger) -> None:
        self._home, self._ledger = home, ledger
        self._policy, self._service = policy.identity, policy.service

    def propose(self, totals: Mapping[str, Any], *, by: str, reason: str) -> Raise | None:
        """Raise the budget, or, where two must agree, keep the proposal and give it."""
        if self._service.owners == 1:
            self._ledger.raise_budget(**dict(totals), by=by, note=reason)
            return None
        proposal = Raise(secrets.token_hex(16), dict(totals), reason, by, now())
        self._home.write(
            "INSERT INTO raises (id, policy, totals, reason, by, asked, state) "
            "VALUES (?, ?, ?, ?, ?, ?, 'waiting')",
            (proposal.id, self._policy, canonical(dict(totals)), reason, by, proposal.asked),
        )
        return proposal

    def waiting(self) -> list[Raise]:
        """Proposals that wait for a second owner; old ones count no longer."""
        oldest = dt.datetime.now(dt.UTC) - dt.timedelta(days=self._service.expiry)
        rows = self._home.read(
            "SELECT id, totals, reason, by, asked FROM raises "
            "WHERE policy = ? AND state = 'waiting' ORDER BY rowid",
            (self._policy,),
        )
        raises = [Raise(i, json.loads(totals), *rest) for i, totals, *rest in rows]
        return [r for r in raises if dt.datetime.fromisoformat(r.asked) >= oldest]

    def decide(self, id_: str, *, approve: bool, by: str, reason: str, seen: str) -> str:
        """Agree to a proposal, or decline it; give what has become of it."""
        proposal = next((r for r in self.waiting() if r.id == id_), None)
        if proposal is None:
            raise GoneError("there is no such request")
        if seen != proposal.seen:
            raise StateError("this is not what was proposed", hint="look at it again")
        if approve and by == proposal.by:
            raise StateError("another owner must agree to what you have proposed")
        state = "approved" if approve else "declined"
        changed = self._home.write(
            "UPDATE raises SET state = ? WHERE id = ? AND state = 'waiting'", (state, id_)
        )
        if not changed:
            raise StateError("this request is decided already")
        if approve:
            try:
                note = f"{proposal.reason} (agreed: {reason})"
                self._ledger.raise_budget(
                    **dict(proposal.totals), by=f"{proposal.by}, {by}", note=note
                )
            except BaseException:
                self._home.write("UPDATE raises SET state = 'waiting' WHERE id = ?", (id_,))
                raise
        return state
