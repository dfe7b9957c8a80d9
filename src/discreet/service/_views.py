"""What routes and pages say about prices, orders, budgets and policies, as data."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from fractions import Fraction
from typing import Any
from urllib.parse import quote as address

from discreet import meaning
from discreet._dataclass import replace
from discreet._exact import show
from discreet._print import short_down
from discreet.curator import Bill, Budget, Counter, Quote
from discreet.errors import LedgerClosedError
from discreet.ledger import Balance, caps, charge
from discreet.plan import describe
from discreet.policy import Policy
from discreet.service._desk import Desk
from discreet.service._forms import payment
from discreet.service._keys import Actor, Role
from discreet.service._orders import OFFER, Order
from discreet.service._public import in_force, statement
from discreet.service._sign import Signer
from discreet.service._ticks import GRID


def quoted(desk: Desk, quote: Quote, bill: Bill) -> dict[str, Any]:
    """Write a price as the command line does, and what else is known before paying."""
    plan, query = quote.plan, quote.plan.lowered.query
    texts = [describe(p.lowered.query) for p in quote.plans]
    limit = desk.counter.policy.service.approval
    return {
        "cost": quote.cost,
        "pays": {"epsilon": Fraction(0) if quote.stored else quote.whole.epsilon},
        "left": quote.left,
        "noise": plan.noise,
        "why": plan.why,
        "error": desk.error_of(quote),
        "refused": quote.refused,
        "stored": quote.stored,
        "warnings": quote.warnings,
        "confidence": quote.confidence,
        "plan": query.hash,
        "sql": list(quote.sql),
        "describes": "\n".join(texts),
        "tick": desk.times(bill, quote.sql)[1],
        "needs_approval": limit is not None and bill.cost.epsilon > limit,
    }


def price(
    desk: Desk, analyst: str, body: Mapping[str, Any], counter: Counter | None = None
) -> dict[str, Any]:
    """Price a question for one analyst.

    "more" says how many more like it would fit, "after" what would be left.
    """
    at = desk.counter if counter is None else counter
    offer = {k: v for k, v in body.items() if k in OFFER}
    quote = at.quote(body["sql"], analyst, **offer)
    own, all_ = at.ledger.balance(analyst), at.ledger.balance()
    balances = (own,) if own == all_ else (own, all_)
    counts = [balance.more(quote.whole) for balance in balances]
    fits = min((n for n in counts if n is not None), default=None)
    rest = min(balance.after(quote.whole).remaining for balance in balances)
    bill = Bill(quote.plans, quote.whole)
    if counter is None and not quote.stored:
        quote = replace(quote, refused=_refusal(desk, analyst, bill, quote))
    after = None if quote.stored or quote.refused else short_down(rest)
    return {**quoted(desk, quote, bill), "more": fits, "after": after}


def _refusal(desk: Desk, analyst: str, bill: Bill, quote: Quote) -> str | None:
    """Say why asking would be refused now, by the rule of asking."""
    refusal = desk.admission.refusal(analyst, bill)
    if refusal is None:
        return None
    # the price's own words say what would fit
    words = None if isinstance(refusal, LedgerClosedError) else quote.refused
    return words or refusal.message


def state_of(order: Order) -> dict[str, Any]:
    """Say where an order stands: nothing of it depends on the data before its tick."""
    loop = asyncio.get_running_loop()
    wait = order.tick
    if order.run is not None and order.run.placed:
        wait = max(0.0, order.run.release - loop.time())
    ready = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=wait)
    view: dict[str, Any] = {
        "id": order.id,
        "state": order.state,
        "paid": payment(order),
        "cached": order.cached,
        "tick": order.tick,
        "links": {"self": f"/v1/answers/{order.id}", "record": f"/v1/answers/{order.id}/record"},
    }
    if order.state == "running" and order.run is not None and order.run.held:
        view["held"] = True
    elif order.state == "running":
        # while others are before it, when it starts is not known: no time is promised
        view["ready"] = ready.isoformat(timespec="seconds")
    if order.decided is not None:
        view["decision"] = order.decided
    return view


def key_of(actor: Actor) -> dict[str, Any]:
    return {"id": actor.key, "name": actor.name, "role": actor.role.value, "made": actor.made,
            "revoked": actor.revoked, "policies": list(actor.policies)}  # fmt: skip


def spending_of(desk: Desk, name: str) -> Budget:
    """Say what is spent and left for somebody, and what of it is set aside."""
    aside = desk.admission.room(name, everybody=False).aside
    return replace(desk.counter.budget(name), held=aside)


def budget_of(desk: Desk, actor: Actor) -> dict[str, Any]:
    """Say what is spent and left; an analyst sees their own share and what the cap leaves."""
    budget = spending_of(desk, actor.name)
    state = desk.ledger.state
    mine, whole = map(_amounts, (budget.share, budget.table))
    service = desk.counter.policy.service
    spent = state.spent.get(actor.name)
    own = {} if spent is None else charge(budget.table.amounts, spent)
    return {
        "policy": desk.name,
        "analyst": actor.name,
        "mine": {currency: own.get(currency, Fraction(0)) for currency in whole},
        "draws_on": _drawn_on(state.limits.shares, actor.name),
        "accounting": budget.table.accounting,
        "left": budget.left,
        "share": mine,
        "shares": shares_of(desk) if actor.role in (Role.OWNER, Role.AUDITOR) else {},
        "whole": whole,
        "says": repr(budget),
        "set_aside": budget.held,
        "daily": service.daily,
        "approval_above": service.approval,
        "closed": list(state.closed),
        "period": state.period,
        "waiting": [o.id for o in desk.waiting() if o.analyst == actor.name],
        "overruns": desk.overruns,
    }


def _amounts(balance: Balance) -> dict[str, dict[str, Fraction]]:
    return {c: {"spent": s, "total": t, "left": t - s} for c, (s, t) in balance.amounts.items()}


def shares_of(desk: Desk) -> dict[str, dict[str, dict[str, Fraction]]]:
    """Say what each share has spent and left, and what is there for all others."""
    shares = desk.ledger.state.limits.shares
    labels = {**{name: name for name in shares}, **({"all others": ""} if shares else {})}
    return {label: _amounts(desk.ledger.balance(name)) for label, name in labels.items()}


def left_of(desk: Desk, name: str) -> str:
    """Say what is left for somebody in one line: in which currency, and of what."""
    left = desk.counter.left(name)
    signed = f"ε {left}" if left[:1].isdigit() else left
    part = {"your share": " of your share", "the whole": ""}
    return signed + part.get(
        _drawn_on(desk.ledger.state.limits.shares, name), " outside the shares"
    )


def _drawn_on(shares: Mapping[str, Any], name: str) -> str:
    """Say what somebody's questions are paid from: "share" in a budget is the balance of that."""
    if not shares:
        return "the whole"
    return "your share" if name in shares else "the share of all others together"


def policy_of(desk: Desk, signer: Signer) -> dict[str, Any]:
    """Give what the policy in force says to everybody: no places of data, nobody's share."""
    policy = in_force(desk.counter.policy, desk.ledger)
    mapping = _placeless(policy)
    mapping["budget"] = {k: v for k, v in mapping["budget"].items() if k != "shares"}
    return {
        "name": desk.name,
        "fingerprint": desk.fingerprint,
        "policy": mapping,
        "toml": _toml(mapping),
        "caps": caps(policy.budget),
        "signing_key": signer.public,
        "ticks": list(GRID),
        "timing": "answers leave at ticks that the plan and declared sizes decide before the run",
    }


def draft_of(desk: Desk) -> str:
    """Write the policy in force for its owners, to begin another one with: shares and all."""
    policy = in_force(desk.counter.policy, desk.ledger)
    mapping = _placeless(policy)
    if policy.service.approval is not None:
        mapping["service"] = {**mapping["service"], "expiry": policy.service.expiry}
    return _toml(mapping)


def _placeless(policy: Policy) -> dict[str, Any]:
    """Write a policy without places of data."""
    mapping: dict[str, Any] = policy.to_mapping()
    mapping.pop("ledger", None)
    for table in mapping["tables"].values():
        table.pop("source", None)
    return mapping


def _toml(mapping: Any) -> str:
    from discreet.policy import toml  # noqa: PLC0415 - only here

    return toml.dump(mapping)


def requests_of(desk: Desk) -> list[dict[str, Any]]:
    """List what waits for an owner; no answer is among it, for there is none."""
    requests = []
    for order in desk.waiting():
        bill, unpriced = desk.priced_anew(order)
        refusal = unpriced or desk.admission.refusal(order.analyst, bill, order.id)
        errors: dict[str, str] = {}
        if "sql" in order.body and unpriced is None:
            offer = {k: v for k, v in order.body.items() if k in OFFER}
            errors = desk.counter.quote(order.body["sql"], order.analyst, **offer).error()
        requests.append(
            {
                "id": order.id,
                "analyst": order.analyst,
                "asked": order.asked,
                "question": dict(order.body),
                "cost": bill.cost.to_dict(),
                "price": show(order.price),
                "meaning": str(meaning.of(bill.cost.epsilon)),
                "error": errors,
                "seen": desk.subject(order, bill),
                "refused": None if refusal is None else refusal.message,
            }
        )
    return requests


def health_of(desk: Desk) -> dict[str, Any]:
    """Say what an operator needs to know; for owners, since when a worker is missing is not public.

    It follows from how long it took to fail at opening the data.
    """
    return {
        "policy": desk.name,
        "workers": len(desk.places),
        "missing": sum(place.missing for place in desk.places),
        "paused": desk.braked,
        "overruns": desk.overruns,
    }


def public_of(desk: Desk, signer: Signer) -> dict[str, Any]:
    """Say what everybody may know about a policy and what was released under it."""
    released = desk.board.all()
    layers = statement(
        in_force(desk.counter.policy, desk.ledger),
        key=signer.public,
        overruns=desk.overruns,
        exact=desk.board.exact(desk.counter.policy),
    )
    return {
        "policy": desk.name,
        "fingerprint": desk.fingerprint,
        "signing_key": signer.public,
        "statement": [dict(zip(("layer", "holds", "known"), row, strict=True)) for row in layers],
        "releases": [r.to_dict() for r in released],
        "links": {"registry": f"/v1/registry?policy={address(desk.name)}"},
    }
