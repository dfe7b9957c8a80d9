"""The HTTP interface under ``/v1``."""

from __future__ import annotations

import asyncio
import collections
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from discreet import _exact
from discreet._dataclass import dataclass, field
from discreet._log import note
from discreet.errors import DiscreetError, Hint
from discreet.release import About
from discreet.service import _forms, _schema, _views
from discreet.service._desk import Desk
from discreet.service._errors import (
    ForbiddenError,
    GoneError,
    UnknownCallerError,
    WhichPolicyError,
)
from discreet.service._http import Scope, from_json, to_json
from discreet.service._keys import Actor, Keys, Role
from discreet.service._oidc import Provider
from discreet.service._orders import Order, check_key
from discreet.service._press import Press
from discreet.service._public import entry
from discreet.service._rehearsal import Rehearsal
from discreet.service._sessions import Sessions
from discreet.service._sign import Signer, records_of, signed_part
from discreet.service._ticks import FIRST

_LONGEST_WAIT: Final = 300.0
_WAITS: Final = 64
"""Requests of one analyst that wait for an answer at the same time, at most."""
_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(slots=True)
class House:
    """What all routes share: the keys, the desks of the policies, the signing key."""

    keys: Keys
    desks: Mapping[str, Desk]
    signer: Signer
    sessions: Sessions
    cap: str = "0.2"
    """ε that one conversation of an assistant may spend."""
    oidc: Provider | None = None
    """Who signs people in, beside keys."""
    press: Press = field(default_factory=Press)
    draft: Callable[[str, str], str] | None = None
    """Drafts a policy from a table's name and its columns' names and types."""

    def actor(self, request: Request) -> Actor:
        """Say who asks: by the key in the header, and by nothing else."""
        header = request.headers.get("authorization", "")
        if not header and request.method == "GET":
            # a browser that has signed in may read the twin of a page; it changes nothing
            session = self.sessions.find(request.cookies.get("discreet_session", "-"))
            if session is not None:
                return session.actor
        return self.caller(header)

    def caller(self, header: str) -> Actor:
        """Say whose key an Authorization header carries."""
        kind, _, key = header.partition(" ")
        actor = self.keys.find(key.strip()) if kind.lower() == "bearer" else None
        if actor is None:
            raise UnknownCallerError(
                "this needs a key that is in force; the owner of the data gives and revokes them",
                hint="Authorization: Bearer dk_…",
            )
        return actor

    def desk(self, actor: Actor, request: Request) -> Desk:
        """Give the desk of the policy that is asked about; others do not exist for the caller."""
        name = request.query_params.get("policy")
        mine = [d for n, d in self.desks.items() if actor.may_use(n)]
        if name is None and len(mine) == 1:
            return mine[0]
        if name is None and mine:
            listed = ", ".join(sorted(d.name for d in mine))
            raise WhichPolicyError(f"several policies are served here ({listed}): say which",
                                   hint=Hint("policy", "NAME"))  # fmt: skip
        desk = next((d for d in mine if d.name == name), None)
        if desk is None:
            raise GoneError("there is no such policy")
        return desk

    def public_desk(self, request: Request) -> Desk:
        """Give the desk that a stranger asks about: the named one, or the first."""
        name = request.query_params.get("policy", next(iter(self.desks)))
        if name not in self.desks:
            raise GoneError("there is no such policy")
        return self.desks[name]

    def add_key(self, name: str, role: str, by: Actor) -> str:
        """Make a key on behalf of an owner; it is good for no more than theirs is."""
        if role == Role.OWNER and self.two_persons:
            raise ForbiddenError(
                "two owners decide here, so nobody makes an owner through the service",
                hint=f"on its host: discreet key add {name} --role owner",
            )
        return self.keys.add(name, role, by.policies)

    def keys_of(self, owner: Actor) -> list[Actor]:
        """List the keys that an owner may see and revoke."""
        return [a for a in self.keys.all() if owner.may_manage(a)]

    def revocable(self, id_: str, by: Actor) -> Actor:
        """Give a key that an owner may revoke; one of other policies does not exist for them."""
        actor = next((a for a in self.keys_of(by) if a.key == id_ and a.revoked is None), None)
        if actor is None:
            raise GoneError("there is no such key")
        self.keys.check_not_last(actor)
        return actor

    def revoke_key(self, id_: str, by: Actor) -> None:
        """Revoke a key by its id."""
        self.keys.revoke(self.revocable(id_, by).key, named=False)

    @property
    def two_persons(self) -> bool:
        """Whether some budget here is raised by two owners together."""
        return any(d.counter.policy.service.owners > 1 for d in self.desks.values())

    def order(self, actor: Actor, id_: str) -> tuple[Desk, Order]:
        """Give an order of the caller's; what is somebody else's does not exist for them."""
        for desk in self.desks.values() if _ID.fullmatch(id_) else ():
            if actor.may_use(desk.name):
                order = desk.orders.find(id_)
                if order is None and desk.rehearsal is not None:
                    order = desk.rehearsal.find(id_)
                if order is not None and order.analyst == actor.name:
                    return desk, order
        raise GoneError("there is no such answer")


def need(actor: Actor, *roles: Role) -> None:
    """Refuse somebody whose role may not do this."""
    if actor.role not in roles:
        raise ForbiddenError(f"this needs the role {' or '.join(roles)}; yours is {actor.role}")


def enveloped(data: Mapping[str, Any]) -> bytes:
    """Write a result in its envelope."""
    return to_json({"ok": True, "result": data})


def reply(data: Mapping[str, Any], status: int = 200, **headers: str) -> Response:
    """Give a result in its envelope."""
    body = enveloped(data)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body, status, fields, "application/json")


async def until_first_tick(request: Request) -> None:
    """Refusals leave together, whatever was refused."""
    arrival = request.scope["state"]["arrival"]
    await asyncio.sleep(arrival + FIRST - asyncio.get_running_loop().time())


_waits: collections.Counter[str] = collections.Counter()
"""Requests that wait for answers, by analyst."""


async def until_over(order: Order, seconds: float, request: Request) -> None:
    """Wait for what becomes of a question, but no longer than this, nor for who has hung up.

    Too many of one analyst do not wait at all: they are told that it is still to come.
    """
    if not seconds or order.over or _waits[order.analyst] >= _WAITS:
        return
    _waits[order.analyst] += 1
    both = [asyncio.ensure_future(order.ended.wait()), asyncio.ensure_future(_hung_up(request))]
    try:
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        _waits[order.analyst] -= 1
        if not _waits[order.analyst]:
            del _waits[order.analyst]


async def _hung_up(request: Request) -> None:
    """Wait until the caller goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def give(house: House, desk: Desk, order: Order, request: Request) -> Response:
    """Give an answer in the form that is accepted, or say that it is still to come."""
    if not order.over:
        seconds = str(max(1, round(order.tick)))
        place = f"/v1/answers/{order.id}"
        return reply(_views.state_of(order), 202, Location=place, Retry_After=seconds)
    if order.state != "done":
        return reply(_views.state_of(order))
    form = _forms.form_for(request.headers.get("accept", ""))
    level = request.query_params.get("confidence") or str(order.body.get("confidence", "0.95"))

    def write() -> bytes:
        _exact.confidence(level)
        return _forms.write(order, form, desk.fingerprint, house.signer, level)

    content = await house.press.copy(order, form, level, write)
    return Response(content, 200, _forms.headers(order, form), form)


def dummy(request: Request) -> bool:
    """Whether somebody wants made-up data: ``?dummy=1``."""
    return request.query_params.get("dummy", "0") not in ("0", "false", "")


def rehearsed(desk: Desk) -> Rehearsal:
    """Give what answers a policy's questions from made-up data."""
    if desk.rehearsal is None:
        raise GoneError("this service has no made-up data")
    return desk.rehearsal


def _wait(request: Request) -> float:
    """Seconds that a caller wants to wait for the answer: ``Prefer: wait=5``."""
    match = re.search(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])", request.headers.get("prefer", ""))
    return min(float(match[1]), _LONGEST_WAIT) if match else 0.0


async def body_of(request: Request, fields: Mapping[str, _schema.Field]) -> dict[str, Any]:
    """Read the object that a request brings."""
    data = from_json(await request.body(), request.headers.get("content-type", ""))
    return _schema.read(fields, data)


Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """The routes under ``/v1``."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.router = APIRouter(prefix="/v1", responses=_schema.responses())
        for method, path, handler, document in (
            ("GET", "/answers/{id_}", self.answer, None),  # the most frequent ones stand first
            ("POST", "/preview", self.preview, _schema.body("Preview")),
            ("POST", "/answers", self.ask, _schema.body("Answer")),
            ("GET", "/answers", self.answers, None),
            ("GET", "/answers/{id_}/record", self.record, None),
            ("POST", "/batches", self.batch, _schema.body("Batch")),
            ("GET", "/budget", self.budget, None),
            ("POST", "/budget", self.raise_budget, _schema.body("Raise")),
            ("POST", "/closure", self.closure, _schema.body("Closure")),
            ("GET", "/policy", self.policy, None),
            ("GET", "/requests", self.requests, None),
            ("DELETE", "/requests/{id_}", self.withdraw, None),
            ("POST", "/requests/{id_}/decision", self.decide, _schema.body("Decision")),
            ("GET", "/health", self.health, None),
            ("GET", "/keys", self.list_keys, None),
            ("POST", "/keys", self.add_key, _schema.body("NewKey")),
            ("DELETE", "/keys/{id_}", self.revoke_key, None),
            ("GET", "/releases", self.releases, None),
            ("GET", "/releases/{number}", self.release, None),
            ("GET", "/registry", self.registry, None),
            ("GET", "/ledger", self.ledger, None),
            ("GET", "/verify", self.verify, None),
        ):
            self.router.add_api_route(
                path, handler, methods=[method], response_class=Response,
                summary=(handler.__doc__ or "").strip(), responses=_results(path),
                openapi_extra={**(document or {}), **(_schema.ADDRESS if "{id_}" in path else {})},
            )  # fmt: skip

    def shortcut(self, scope: Scope) -> Handler | None:
        """Give the handler of the most frequent requests, which need nothing of the framework."""
        method, path = scope["method"], scope["path"]
        if method == "POST":
            return {"/v1/preview": self.preview, "/v1/answers": self.ask}.get(path)
        start, _, id_ = path.rpartition("/")
        if method != "GET" or start != "/v1/answers" or not id_:
            return None
        scope["path_params"] = {"id_": id_}
        return self.answer

    def _who(self, request: Request) -> tuple[Actor, Desk]:
        actor = self._house.actor(request)
        return actor, self._house.desk(actor, request)

    async def preview(self, request: Request) -> Response:
        """Price a question; nothing is read and nothing is charged."""
        actor, desk = self._who(request)
        body = await body_of(request, _schema.PREVIEW)
        if dummy(request):
            counter = await rehearsed(desk).counter()
            quote = await desk.preview(
                actor.name, lambda: _views.price(desk, actor.name, body, counter)
            )
            return reply({"dummy": True, **quote})

        def price() -> bytes:
            return desk.priced(
                actor.name, body, lambda: enveloped(_views.price(desk, actor.name, body))
            )

        return Response(await desk.preview(actor.name, price), media_type="application/json")

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
            body = await body_of(request, fields)
            order = await (rehearsed(desk) if dummy(request) else desk).ask(actor.name, key, body)
        except DiscreetError:
            await until_first_tick(request)
            raise
        await until_over(order, _wait(request), request)
        response = await give(self._house, desk, order, request)
        response.headers["Idempotency-Key"] = order.key
        return response

    async def answers(self, request: Request) -> Response:
        """List your latest questions."""
        actor, desk = self._who(request)
        listed = [{**_views.state_of(o), "asked": o.asked, "question": dict(o.body)}
                  for o in desk.orders.of(actor.name)]  # fmt: skip
        return reply({"answers": listed})

    async def answer(self, request: Request) -> Response:
        """Give an answer of yours: JSON, CSV, Arrow or HTML."""
        try:
            actor = self._house.actor(request)
            desk, order = self._house.order(actor, request.path_params["id_"])
        except DiscreetError:
            await until_first_tick(request)
            raise
        return await give(self._house, desk, order, request)

    async def record(self, request: Request) -> Response:
        """Give the signed record of an answer of yours."""
        try:
            actor = self._house.actor(request)
            desk, order = self._house.order(actor, request.path_params["id_"])
            if order.state != "done":
                raise GoneError("there is no such answer yet")
        except DiscreetError:
            await until_first_tick(request)
            raise

        def write() -> bytes:
            answer = _forms.result(order, desk.fingerprint, self._house.signer, "0.95")
            if order.dummy:
                return enveloped({"dummy": True, "id": order.id, "records": records_of(answer)})
            return enveloped(signed_part(answer))

        content = await self._house.press.work(order, write)
        return Response(content, 200, media_type="application/json")

    async def budget(self, request: Request) -> Response:
        """Say what is spent and left, for you and for the whole."""
        actor, desk = self._who(request)
        return reply(await desk.write(lambda: _views.budget_of(desk, actor)))

    async def policy(self, request: Request) -> Response:
        """Give the policy: what is public about the data, without where they are."""
        _, desk = self._who(request)
        return reply(await desk.write(lambda: _views.policy_of(desk, self._house.signer)))

    async def requests(self, request: Request) -> Response:
        """List questions that wait for an owner: text, price, meaning, predicted error."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        questions = await desk.write(lambda: _views.requests_of(desk))
        raises = await desk.write(desk.raises.waiting)
        return reply({"requests": questions, "raises": [r.to_dict() for r in raises]})

    async def withdraw(self, request: Request) -> Response:
        """Take back a question of yours that waits for an owner; nothing was charged."""
        desk, order = self._house.order(self._house.actor(request), request.path_params["id_"])
        await desk.withdraw(order)
        return reply(_views.state_of(order))

    async def decide(self, request: Request) -> Response:
        """Approve or decline a question that waits."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        body = await body_of(request, _schema.DECISION)
        return reply(await desk.decide(request.path_params["id_"], by=actor.name, **body))

    async def raise_budget(self, request: Request) -> Response:
        """Put a new total on record; what was spent stays spent."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        body = await body_of(request, _schema.RAISE)
        reason = body.pop("reason")
        proposal = await desk.write(lambda: desk.raises.propose(body, by=actor.name, reason=reason))
        if proposal is not None:
            return reply({**proposal.to_dict(), "state": "waiting"}, 202)
        return reply(await desk.write(lambda: _views.budget_of(desk, actor)))

    async def closure(self, request: Request) -> Response:
        """Close the policy for new questions, or open it again."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        body = await body_of(request, _schema.CLOSURE)
        act = desk.ledger.close if body["closed"] else desk.ledger.reopen
        await desk.write(lambda: act(by=actor.name, note=body["reason"]))
        if not body["closed"]:
            desk.acknowledge()
        return reply({"closed": body["closed"]})

    async def health(self, request: Request) -> Response:
        """Say whether every worker is there, and whether questions are held."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        return reply(await desk.write(lambda: _views.health_of(desk)))

    async def list_keys(self, request: Request) -> Response:
        """List keys: names and roles, never the keys themselves."""
        actor, _ = self._who(request)
        need(actor, Role.OWNER)
        return reply({"keys": [_views.key_of(a) for a in self._house.keys_of(actor)]})

    async def add_key(self, request: Request) -> Response:
        """Make a key; it is shown once."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        body = await body_of(request, _schema.NEW_KEY)
        key = self._house.add_key(body["name"], body["role"], actor)
        note("key added", policy=desk.name, by=actor.name, name=body["name"])
        return reply({"key": key, "name": body["name"], "role": body["role"]}, 201)

    async def revoke_key(self, request: Request) -> Response:
        """Revoke a key by its id; its next request is refused."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER)
        id_ = request.path_params["id_"]
        self._house.revoke_key(id_, actor)
        note("key revoked", policy=desk.name, by=actor.name)
        return reply({"revoked": id_})

    async def releases(self, request: Request) -> Response:
        """List what was released under a policy, and what holds about it; needs no key."""
        desk = self._house.public_desk(request)
        return reply(await desk.write(lambda: _views.public_of(desk, self._house.signer)))

    async def release(self, request: Request, number: int) -> Response:
        """Give the signed record of what was released; needs no key."""
        desk = self._house.public_desk(request)
        release = await desk.write(lambda: desk.board.find(number))
        if release is None:
            raise GoneError("there is no such release")
        return reply(release.signed(desk.fingerprint, self._house.signer))

    async def registry(self, request: Request) -> Response:
        """Give the entry for the public registry of deployments, as YAML; needs no key."""
        desk = self._house.public_desk(request)
        text = await desk.write(
            lambda: entry(desk.counter.policy, desk.ledger, desk.board, About())
        )
        return Response(text, media_type="application/yaml")

    async def ledger(self, request: Request) -> Response:
        """Give the whole history, one object for each line."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER, Role.AUDITOR)
        lines = await desk.write(lambda: desk.ledger.lines)
        history = [
            {"number": x.number, "when": x.when, "kind": x.kind, "hash": x.hash, **x.content}
            for x in lines
        ]
        return reply({"policy": desk.name, "lines": history})

    async def verify(self, request: Request) -> Response:
        """Recompute every hash, total and admission of the ledger."""
        actor, desk = self._who(request)
        need(actor, Role.OWNER, Role.AUDITOR)
        report = await desk.write(desk.ledger.verify)
        return reply(
            {"lines": report.lines, "debits": report.debits, "period": report.period,
             "head": report.head, "says": str(report)}
        )  # fmt: skip


def _results(path: str) -> dict[int | str, dict[str, Any]]:
    """Say in the OpenAPI document what a route gives."""
    schema = {"$ref": "#/components/schemas/Result"}
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    results: dict[int | str, dict[str, Any]] = {200: {"description": "done", "content": content}}
    if path in ("/answers", "/batches", "/answers/{id_}"):
        tables: dict[str, Any] = {form: {} for form in (_forms.CSV, _forms.ARROW, _forms.HTML)}
        results[200] = {"description": "done", "content": {**content, **tables}}
        results[202] = {"description": "still to come", "content": content}
    if path == "/registry":
        results[200] = {"description": "done", "content": {"application/yaml": {}}}
    if path == "/budget":
        results[202] = {"description": "waits for a second owner", "content": content}
    if path == "/keys":
        results[201] = {"description": "made", "content": content}
    return results
