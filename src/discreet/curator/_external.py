"""Losses from elsewhere: what other software releases, debited to the same budget.

The statement is the caller's: a loss of a mechanism that ran on these people's data.
With it in the ledger, the sum over all lines is the loss of everything that was
released about them, as far as its owner has said so. Admission is that of every other
debit, and composition is adaptive on both sides: what was released elsewhere may have
been chosen in the light of our answers, and the other way round.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from discreet import _exact
from discreet import privacy as p
from discreet._canonical import canonical
from discreet._exact import Number
from discreet._text import plain_str
from discreet.curator._road import Job, Road
from discreet.errors import Hint, NotProvedError, ParameterError, RelationError
from discreet.ledger import Ledger, Receipt, floor
from discreet.plan import charge
from discreet.policy import Policy

_LONGEST: Final = 500


def external_job(
    policy: Policy,
    loss: p.PrivacyLoss,
    *,
    what: str,
    table: str | None = None,
    delta: Number | None = None,
) -> Job:
    """Make the job that enters a loss from elsewhere."""
    words = plain_str(what, "what").strip()
    if not 0 < len(words) <= _LONGEST or not words.isprintable():
        raise ParameterError(
            f"what is one line of 1 to {_LONGEST} characters that says what was released",
            hint=Hint("what", "model of hospital stays, 2026"),
        )
    if not isinstance(loss, p.PrivacyLoss):
        raise ParameterError(
            f"a loss from elsewhere is a privacy loss, not {type(loss).__name__}",
            hint='privacy.Approx("1", "1e-6")',
        )
    about = policy.tables.values() if table is None else [policy.table(table)]
    private = [t for t in about if not t.public]
    if not private:
        raise ParameterError(f"table {table!r} is public: it has no budget")
    # add-remove first: what says nothing about it is refused, whatever the order of a set
    for own in sorted({t.neighbours for t in private}, key=lambda own: own.value):
        loss = _under(loss, own)
    try:
        cost = charge([loss], _claim(policy, loss, delta))
    except OverflowError:
        raise ParameterError(
            "this loss is too large to be stated as a price: it promises nothing"
        ) from None
    return Job(
        plan=f"external {words}",
        cost=cost,
        noise=canonical({"loss": repr(loss), **_beside(loss)}),
        neighbours="+".join(sorted({t.neighbours.value for t in private})),
        unit="+".join(sorted({t.unit for t in private if t.unit is not None})) or None,
        tables=tuple(sorted(t.name for t in private)),
        run=str,
        external=words,
    )


def _beside(loss: p.PrivacyLoss) -> dict[str, list[str]]:
    """What was released exactly beside it, as for a publication of our own."""
    return {"unprotected": list(loss.unprotected)} if loss.unprotected else {}


def _under(loss: p.PrivacyLoss, relation: p.Neighbours) -> p.PrivacyLoss:
    """State a loss under the relation of a table, where it says something about it."""
    if loss.neighbours in (None, relation):
        return loss
    if relation is p.Neighbours.CHANGE_ONE:
        return p.to_change_one(loss)
    raise RelationError(
        f"this loss is about {loss.neighbours}, the policy's tables are under {relation}: it says "
        "nothing about tables of different sizes",
        hint=f"state the loss under {relation}",
    )


def _claim(
    policy: Policy, loss: p.PrivacyLoss, delta: Number | None
) -> tuple[Fraction, Fraction] | None:
    """The (ε, δ) at which a loss without a finite ε is charged."""
    if loss.top != math.inf:
        return None
    budget = policy.budget
    at = budget.delta if delta is None and budget.accounting == "zcdp" else delta
    if not at:
        raise NotProvedError(
            f"{type(loss).__name__} has no finite ε of its own: say at which δ it is charged",
            hint=Hint("delta", "1e-6"),
        )
    level = _exact.delta(at)
    return Fraction(loss.epsilon(float(level))), level


def record_external(
    policy: Policy,
    ledger: Ledger,
    loss: p.PrivacyLoss,
    *,
    what: str,
    table: str | None = None,
    delta: Number | None = None,
    analyst: str | None = None,
    key: str | None = None,
) -> Receipt:
    """Enter a loss from elsewhere without opening any data; see :class:`Curator`."""
    job = external_job(policy, loss, what=what, table=table, delta=delta)
    least = floor(ledger, policy)
    road = Road(ledger, policy.payer, policy.fingerprint, analyst, "", least)
    return road.enter(job, key=key)
