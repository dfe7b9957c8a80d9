"""The HTTP interface under ``/v1``."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from discreet import _exact, meaning
from discreet._exact import show
from discreet._log import note
from discreet.curator import Bill, Quote
from discreet.errors import DiscreetError, Hint
from discreet.ledger import caps, charge
from discreet.plan import describe
from discreet.service import _forms, _schema
from discreet.service._desk import OFFER, Desk, Order, check_key
from discreet.service._errors import (
    ForbiddenError,
    GoneError,
    RequestError,
    UnknownCallerError,
)
from discreet.service._http import from_json, to_json
from discreet.service._keys import Actor, Keys, Role
from discreet.service._sessions import Sessions
from discreet.service._sign import Signer
from discreet.service._ticks import FIRST, GRID

_LONGEST_WAIT: Final = 300.0
_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(slots=True)
class House:
    """What all routes share: the keys, the desks of the policies, the signing key."""

    keys: Keys
    desks: Mapping[str, Desk]
    signer: Signer
    sessions: Sessions

    def actor(self, request: Request) -> Actor:
        """Say who asks: by the key in the header, and by nothing else."""
        given = request.headers.get("authorization", "")
        kind, _, key = given.partition(" ")
        found = self.keys.find(key.strip()) if kind.lower() == "bearer" else None
        if not given and request.method == "GET":
            # a browser that has signed in may read the twin of a page; it changes nothing
            session = self.sessions.find(request.cookies.get("discreet_session", "-"))
            found = None if session is None else session.actor
        if found is None:
            raise UnknownCallerError(
                "this needs a key that is in force", hint="Authorization: Bearer dk_…"
            )
        return found

    def desk(self, actor: Actor, request: Request) -> Desk:
        """Give the desk of the policy that is asked about; others do not exist for the caller."""
        name = request.query_params.get("policy")
        mine = [d for n, d in self.desks.items() if actor.may_use(n)]
        if name is None and len(mine) == 1:
            return mine[0]
        if name is None and mine:
            raise RequestError("several policies are served here: say which",
                               hint=Hint("policy", mine[0].name))  # fmt: skip
        found = next((d for d in mine if d.name == name), None)
        if found is None:
            raise GoneError("there is no such policy")
        return found

    def order(self, actor: Actor, id_: str) -> tuple[Desk, Order]:
        """Give an order of the caller's; what is somebody else's does not exist for them."""
        for desk in self.desks.values() if _ID.fullmatch(id_) else ():
            if actor.may_use(desk.name):
                order = desk.find(id_)
                if order is not None and order.analyst == actor.name:
                    return desk, order
        raise GoneError("there is no such answer")


def need(actor: Actor, *roles: Role) -> None:
    """Refuse somebody whose role may not do this."""
    if actor.role not in roles:
        listed = " or ".join(roles)
        raise ForbiddenError(f"this is for {listed}; your key is one for {actor.role}")


def reply(data: Mapping[str, Any], status: int = 200, **headers: str) -> Response:
    """Give a result in its envelope."""
    body = to_json({"ok": True, "result": data})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body, status, named, "application/json")


async def until_first_tick(request: Request) -> None:
    """Refusals leave together, whatever was refused."""
    arrival = request.scope["state"]["arrival"]
    await asyncio.sleep(arrival + FIRST - asyncio.get_running_loop().time())


def quoted(desk: Desk, quote: Quote, bill: Bill) -> dict[str, Any]:
    """Write a price as the command line does, and what else is known before paying."""
    plan, query = quote.plan, quote.plan.lowered.query
    limit = desk.counter.policy.service.approval
    return {
        "cost": quote.cost,
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
        "describes": describe(query),
        "tick": desk.tick_of(bill),
        "needs_approval": limit is not None and bill.cost.epsilon > limit,
    }


def price(desk: Desk, analyst: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Price a question for one analyst; "more" says how many more like it would fit."""
    offer = {k: v for k, v in body.items() if k in OFFER}
    quote = desk.counter.quote(body["sql"], analyst, **offer)
    bill = Bill((quote.plan,), quote.plan.cost)
    budget = desk.counter.budget(analyst)
    prices = charge(budget.left, quote.plan.cost)
    rooms = [budget.left[c] // p for c, p in prices.items() if p and c in budget.left]
    return {**quoted(desk, quote, bill), "more": int(max(0, min(rooms, default=0)))}


def state_of(order: Order) -> dict[str, Any]:
    """Say where an order stands: nothing of it depends on the data before its tick."""
    loop = asyncio.get_running_loop()
    wait = order.tick
    if order.run is not None and order.run.started.is_set():
        wait = max(0.0, order.run.release - loop.time())
    ready = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=wait)
    shown: dict[str, Any] = {
        "id": order.id,
        "state": order.state,
        "paid": {"epsilon": order.price},
        "tick": order.tick,
        "links": {"self": f"/v1/answers/{order.id}", "record": f"/v1/answers/{order.id}/record"},
    }
    if order.state == "running":
        # while others are before it, when it starts is not known: no time is promised
        shown["ready"] = ready.isoformat(timespec="seconds")
    if order.decided is not None:
        shown["decision"] = order.decided
    return shown


async def give(house: House, desk: Desk, order: Order, request: Request) -> Response:
    """Give an answer in the form that is accepted, or say that it is still to come."""
    if not order.over:
        seconds = str(max(1, round(order.tick)))
        return reply(state_of(order), 202, Location=f"/v1/answers/{order.id}", Retry_After=seconds)
    if order.state != "done":
        return reply(state_of(order))
    form = _forms.wanted(request.headers.get("accept", ""))
    level = request.query_params.get("confidence") or str(order.body.get("confidence", "0.95"))
    shown = order.shown.get((form, level))
    if shown is None:
        _exact.confidence(level)
        print_ = desk.counter.policy.fingerprint
        shown = await asyncio.to_thread(_forms.write, order, form, print_, house.signer, level)
        if len(order.shown) < 8:
            order.shown[form, level] = shown
    headers = {} if form == _forms.JSON else {"Content-Disposition": "attachment"}
    return Response(shown, 200, headers, form)


def _wait(request: Request) -> float:
    """Seconds that a caller wants to wait for the answer: ``Prefer: wait=5``."""
    found = re.search(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])", request.headers.get("prefer", ""))
    return min(float(found[1]), _LONGEST_WAIT) if found else 0.0


async def _json(request: Request, fields: Mapping[str, _schema.Field]) -> dict[str, Any]:
    data = from_json(await request.body(), request.headers.get("content-type", ""))
    return _schema.read(fields, data)


Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """The routes under ``/v1``."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.router = APIRouter(prefix="/v1", responses=_schema.responses())
        for method, path, handler, document in (
            ("POST", "/preview", self.preview, _schema.body("Preview")),
            ("POST", "/answers", self.ask, _schema.body("Answer")),
            ("GET", "/answers", self.answers, None),
            ("GET", "/answers/{id_}", self.answer, None),
            ("GET", "/answers/{id_}/record", self.record, None),
            ("POST", "/batches", self.batch, _schema.body("Batch")),
            ("GET", "/budget", self.budget, None),
            ("POST", "/budget", self.raise_budget, _schema.body("Raise")),
            ("POST", "/closure", self.closure, _schema.body("Closure")),
            ("GET", "/policy", self.policy, None),
            ("GET", "/requests", self.requests, None),
            ("POST", "/requests/{id_}/decision", self.decide, _schema.body("Decision")),
            ("GET", "/keys", self.list_keys, None),
            ("POST", "/keys", self.add_key, _schema.body("NewKey")),
            ("DELETE", "/keys/{id_}", self.revoke_key, None),
            ("GET", "/ledger", self.ledger, None),
            ("GET", "/verify", self.verify, None),
        ):
            self.router.add_api_route(
                path, handler, methods=[method], openapi_extra=document,
                response_class=Response, summary=(handler.__doc__ or "").strip(),
                responses=_done(path),
            )  # fmt: skip

    def _who(self, request: Request) -> tuple[Actor, Desk]:
        actor = self._house.actor(request)
        return actor, self._house.desk(actor, request)

    async def preview(self, request: Request) -> Response:
        """Price a question; nothing is read and nothing is charged."""
        actor, desk = self._who(request)
        body = await _json(request, _schema.PREVIEW)
        return reply(await desk.preview(lambda: price(desk, actor.name, body)))

    async def ask(self, request: Request) -> Response:
        """Ask a question and pay for it."""
        return await self._order(request, _schema.ANSWER)

    async def batch(self, request: Request) -> Response:
        """Ask several questions that are paid for together."""
        return await self._order(request, _schema.BATCH)

    async def _order(self, request: Request, fields: Mapping[str, _schema.Field]) -> Response:
        try:
            actor, desk = self._who(request)
            need(actor, Role.ANALYST, Role.OWNER)
            key = check_key(request.headers.get("idempotency-key"))
            body = await _json(request, fields)
            order = await desk.ask(actor.name, key, body)
        except DiscreetError:
            await until_first_tick(request)
            raise
        wait = _wait(request)
        if wait and not order.over:
            try:
                async with asyncio.timeout(wait):
                    await order.ended.wait()
            except TimeoutError:
                pass
        response = await give(self._house, desk, order, request)
        response.headers["Idempotency-Key"] = order.key
        return response

    async def answers(self, request: Request) -> Response:
        """List your latest questions."""
        actor, desk = self._who(request)
        listed = [{**state_of(o), "asked": o.asked, "question": dict(o.body)}
                  for o in desk.of(actor.name)]  # fmt: skip
        return reply({"answers": listed})

    async def answer(self, request: Request, id_: str) -> Response:
        """Give an answer of yours: JSON, CSV, Arrow or HTML."""
        try:
            actor = self._house.actor(request)
            desk, order = self._house.order(actor, id_)
        except DiscreetError:
            await until_first_tick(request)
            raise
        return await give(self._house, desk, order, request)

    async def record(self, request: Request, id_: str) -> Response:
        """Give the signed record of an answer of yours."""
        try:
            actor = self._house.actor(request)
            desk, order = self._house.order(actor, id_)
            if order.state != "done":
                raise GoneError("there is no such answer yet")
        except DiscreetError:
            await until_first_tick(request)
            raise
        print_ = desk.counter.policy.fingerprint
        made = await asyncio.to_thread(_forms.result, order, print_, self._house.signer, "0.95")
        records = [a["record"] for a in made.get("answers", [made])]
        kept = {n: made[n] for n in ("id", "line", "policy", "signature")}
        return reply({**kept, "records": records})

    async def budget(self, request: Request) -> Response:
        """Say what is spent and left, for you and for the whole."""
        actor, desk = self._who(request)
        return reply(await desk.write(lambda: budget_of(desk, actor)))

    async def policy(self, request: Request) -> Response:
        """Give the policy: what is public about the data, without where they are."""
        _, desk = self._who(request)
        return reply(policy_of(desk, self._house.signer))

    async def requests(self, request: Request) -> Response:
        """List questions that wait for an owner: text, price, meaning, predicted error."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        return reply({"requests": await desk.write(lambda: requests_of(desk))})

    async def decide(self, request: Request, id_: str) -> Response:
        """Approve or decline a question that waits."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        body = await _json(request, _schema.DECISION)
        order = await desk.decide(
            id_, approve=body["approve"], by=actor.name, reason=body["reason"], seen=body["seen"]
        )
        return reply({"id": order.id, "state": order.state, "decision": order.decided})

    async def raise_budget(self, request: Request) -> Response:
        """Put a new total on record; what was spent stays spent."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        body = await _json(request, _schema.RAISE)
        reason = body.pop("reason")
        await desk.write(lambda: desk.ledger.raise_budget(**body, by=actor.name, note=reason))
        return reply(await desk.write(lambda: budget_of(desk, actor)))

    async def closure(self, request: Request) -> Response:
        """Close the policy for new questions, or open it again."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        body = await _json(request, _schema.CLOSURE)
        act = desk.ledger.close if body["closed"] else desk.ledger.reopen
        await desk.write(lambda: act(by=actor.name, note=body["reason"]))
        if not body["closed"]:
            desk.acknowledge()
        return reply({"closed": body["closed"]})

    async def list_keys(self, request: Request) -> Response:
        """List keys: names and roles, never the keys themselves."""
        actor, _ = self._who(request)
        need(actor, Role.OWNER)
        return reply({"keys": [_key_of(a) for a in self._house.keys.all()]})

    async def add_key(self, request: Request) -> Response:
        """Make a key; it is shown once."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        body = await _json(request, _schema.NEW_KEY)
        key = self._house.keys.add(body["name"], body["role"], actor.policies)
        note("key added", policy=desk.name, by=actor.name, name=body["name"])
        return reply({"key": key, "name": body["name"], "role": body["role"]}, 201)

    async def revoke_key(self, request: Request, id_: str) -> Response:
        """Revoke a key by its id; its next request is refused."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        if not any(a.key == id_ for a in self._house.keys.all()):
            raise GoneError("there is no such key")
        self._house.keys.revoke(id_)
        note("key revoked", policy=desk.name, by=actor.name)
        return reply({"revoked": id_})

    async def ledger(self, request: Request) -> Response:
        """Give the whole history, one object for each line."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER, Role.AUDITOR)
        lines = await desk.write(lambda: desk.ledger.lines)
        shown = [
            {"number": x.number, "when": x.when, "kind": x.kind, "hash": x.hash, **x.content}
            for x in lines
        ]
        return reply({"policy": desk.name, "lines": shown})

    async def verify(self, request: Request) -> Response:
        """Recompute every hash, total and admission of the ledger."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER, Role.AUDITOR)
        found = await desk.write(desk.ledger.verify)
        return reply(
            {"lines": found.lines, "debits": found.debits, "period": found.period,
             "head": found.head, "says": str(found)}
        )  # fmt: skip


def _done(path: str) -> dict[int | str, dict[str, Any]]:
    """Say in the OpenAPI document what a route gives."""
    schema = {"$ref": "#/components/schemas/Result"}
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    said: dict[int | str, dict[str, Any]] = {200: {"description": "done", "content": content}}
    if path in ("/answers", "/batches", "/answers/{id_}"):
        tables: dict[str, Any] = {form: {} for form in (_forms.CSV, _forms.ARROW, _forms.HTML)}
        said[200] = {"description": "done", "content": {**content, **tables}}
        said[202] = {"description": "still to come", "content": content}
    if path == "/keys":
        said[201] = {"description": "made", "content": content}
    return said


def _key_of(actor: Actor) -> dict[str, Any]:
    return {"id": actor.key, "name": actor.name, "role": actor.role.value, "made": actor.made,
            "revoked": actor.revoked, "policies": list(actor.policies)}  # fmt: skip


def budget_of(desk: Desk, actor: Actor) -> dict[str, Any]:
    """Say what is spent and left; an analyst sees their own share and what the cap leaves."""
    budget = desk.counter.budget(actor.name)
    state = desk.ledger.state
    mine, whole = (
        {c: {"spent": s, "total": t, "left": t - s} for c, (s, t) in balance.amounts.items()}
        for balance in (budget.share, budget.table)
    )
    service = desk.counter.policy.service
    return {
        "policy": desk.name,
        "analyst": actor.name,
        "accounting": budget.table.accounting,
        "left": budget.left,
        "share": mine,
        "whole": whole,
        "says": repr(budget),
        "daily": service.daily,
        "approval_above": service.approval,
        "closed": list(state.closed),
        "period": state.period,
        "waiting": [o.id for o in desk.waiting() if o.analyst == actor.name],
        "overruns": desk.overruns,
    }


def policy_of(desk: Desk, signer: Signer) -> dict[str, Any]:
    """Give what a policy says to everybody: no places of data, nobody's share."""
    policy = desk.counter.policy
    mapping: Any = policy.to_mapping()
    mapping.pop("ledger", None)
    mapping["budget"] = {k: v for k, v in mapping["budget"].items() if k != "shares"}
    for table in mapping["tables"].values():
        table.pop("source", None)
    return {
        "name": desk.name,
        "fingerprint": policy.fingerprint,
        "policy": mapping,
        "toml": _public_toml(mapping),
        "caps": caps(policy.budget),
        "signing_key": signer.public,
        "ticks": list(GRID),
        "timing": "answers leave at ticks that the plan and declared sizes decide before the run",
    }


def _public_toml(mapping: Any) -> str:
    from discreet.policy import toml  # noqa: PLC0415 - only here

    return toml.dump(mapping)


def requests_of(desk: Desk) -> list[dict[str, Any]]:
    """List what waits for an owner; no answer is among it, for there is none."""
    found = []
    for order in desk.waiting():
        bill = desk.bill(order.body, order.analyst)
        errors: dict[str, str] = {}
        if "sql" in order.body:
            offer = {k: v for k, v in order.body.items() if k in OFFER}
            errors = desk.counter.quote(order.body["sql"], order.analyst, **offer).error()
        found.append(
            {
                "id": order.id,
                "analyst": order.analyst,
                "asked": order.asked,
                "question": dict(order.body),
                "cost": bill.cost.to_dict(),
                "price": show(order.price),
                "meaning": str(meaning.of(bill.cost.epsilon)),
                "error": errors,
                "seen": desk.shown(order, bill),
            }
        )
    return found
