"""Assistants over HTTP: the tools of :mod:`._mcp`, each caller known by the key of each message.

A conversation is a session of the protocol under one key, with a cap of its own; messages
without a session share one conversation of their key. A key in the header of the message
decides who asks, never the session that it belongs to; the address decides which policy is asked.
A session is its key's alone. It ends when it was idle for long, or when its key opens so many
that it is the one idle longest: each holds memory and a task. The cap is a guard for whoever
lets an assistant ask, no boundary: a new session has a new one; shares and budgets bound a key.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio.to_thread
from fastapi import Request

from discreet._dataclass import dataclass, field
from discreet.answer import Answer
from discreet.curator import Budget
from discreet.errors import AwaitsOwnerError, EngineError, Hint
from discreet.policy import Policy
from discreet.service import _api, _forms, _views
from discreet.service._client import Price
from discreet.service._desk import Desk
from discreet.service._errors import GoneError
from discreet.service._http import App, Message, Receive, Scope, Send
from discreet.service._keys import Actor, Role
from discreet.service._mcp import Tools, server

T = TypeVar("T")

_SESSIONS: Final = 16
"""Sessions of one key; one more ends the one that is idle longest."""
_IDLE: Final = 1800.0
"""Seconds without a message after which a session ends."""
_PATIENCE: Final = 300.0
_TURNS: Final = 4
"""Calls of one key at the same time, in all its conversations: each holds a thread."""
_THREADS: Final = 128


class Inside:
    """A curator for :class:`Tools`, on behalf of one caller of the service."""

    def __init__(self, desk: Desk, actor: Actor, loop: asyncio.AbstractEventLoop) -> None:
        self._desk, self._actor, self._loop = desk, actor, loop

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._desk.counter.policy

    @property
    def budget(self) -> Budget:
        """Spent and left."""
        return _views.spending_of(self._desk, self._actor.name)

    def preview(self, sql: str, **offer: Any) -> Price:
        """Price a question."""
        name, body = self._actor.name, {"sql": sql, **offer}
        price = self._desk.preview(name, lambda: _views.price(self._desk, name, body))
        return Price(self._wait(price))

    def sql(self, sql: str, key: str | None = None, **offer: Any) -> Answer:
        """Ask, and wait until the answer leaves."""
        _api.need(self._actor, Role.ANALYST, Role.OWNER)
        texts = {k: v if isinstance(v, Mapping) else str(v) for k, v in offer.items()}
        body = {"sql": sql, **texts}
        if key is None and self.policy.service.approval is not None:
            key = secrets.token_hex(16)  # by which it is found again, should it wait
        order = self._wait(self._desk.ask(self._actor.name, key, body))
        if order.state == "waiting":
            raise AwaitsOwnerError(
                "this question waits for an owner's decision: its price is set aside, and nothing "
                "is charged before it",
                hint=None if key is None else Hint("key", key),
            )
        if not order.over:
            self._wait(asyncio.wait_for(order.ended.wait(), _PATIENCE))
        if order.state != "done":
            raise EngineError(f"there is no answer: the question is {order.state}")
        return _forms.answers_of(order)[0]

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@dataclass(slots=True, eq=False)
class Session:
    """One conversation: what it has spent and knows, by policy."""

    tools: dict[str, Tools] = field(default_factory=dict)
    busy: int = 0
    """Messages that are not answered yet."""
    latest: float = 0.0
    """When the last one was."""


@dataclass(slots=True, eq=False)
class Caller:
    """The conversations of one key, the longest idle first, and the one without a session."""

    sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict)
    loose: Session = field(default_factory=Session)
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_TURNS))

    def session(self, id_: str) -> Session:
        """Give a session of this key's; somebody else's does not exist for it."""
        session = self.sessions.get(id_) if id_ else self.loose
        if session is None:
            raise GoneError("there is no such session; begin a new one")
        return session

    def ending(self, moment: float) -> list[str]:
        """Take out the sessions that are idle for long, or are too many."""
        idle = [name for name, session in self.sessions.items() if not session.busy]
        many = max(0, len(self.sessions) - _SESSIONS)
        surplus = [name for place, name in enumerate(idle)
                   if place < many or moment - self.sessions[name].latest > _IDLE]  # fmt: skip
        for name in surplus:
            del self.sessions[name]
        return surplus


class Talk:
    """The route ``/mcp`` of a service."""

    def __init__(self, house: _api.House, cap: str) -> None:
        self._house, self._cap = house, cap
        self._callers: defaultdict[str, Caller] = defaultdict(Caller)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server = server(self._find)
        self._app: App = self._server.streamable_http_app(
            json_response=True, transport_security=_anywhere(), session_idle_timeout=_IDLE,
            max_sessions=None,  # of each key there are few
        )  # fmt: skip

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep conversations while the service runs."""
        self._loop = asyncio.get_running_loop()
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        async with self._server.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one message; without a key in force it is refused before it is read."""
        request = Request(scope)
        actor, _ = self._who(request)
        if scope["method"] == "GET":  # streams that only the server speaks on: it never does
            await send({"type": "http.response.start", "status": 405, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        caller, id_ = self._callers[actor.key], request.headers.get("mcp-session-id", "")
        session, opened = caller.session(id_), ""

        async def out(message: Message) -> None:
            nonlocal opened
            if not id_ and message.get("status", 400) < 400:
                opened = dict(message["headers"]).get(b"mcp-session-id", b"").decode()
            if opened and opened not in caller.sessions:
                caller.sessions[opened] = Session(latest=self._now())
            await send(message)

        session.busy += 1
        try:
            await self._app({**scope, "path": "/mcp", "raw_path": b"/mcp"}, receive, out)
        finally:
            session.busy -= 1
            session.latest = self._now()
            if id_ in caller.sessions:
                caller.sessions.move_to_end(id_)
            if scope["method"] == "DELETE":
                caller.sessions.pop(id_, None)
        if opened:
            await self._tidy()

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    async def _tidy(self) -> None:
        """End sessions that are idle for long, or are too many, as their clients would."""
        ids = [id_ for caller in self._callers.values() for id_ in caller.ending(self._now())]
        for id_ in ids:
            headers = [(b"mcp-session-id", id_.encode())]
            scope = {"type": "http", "method": "DELETE", "path": "/mcp", "raw_path": b"/mcp",
                     "query_string": b"", "headers": headers}  # fmt: skip
            await self._app(scope, _nothing, _unheard)

    def _who(self, request: Request) -> tuple[Actor, Desk]:
        """Say who asks, and about which policy: as everywhere, by the header and the address."""
        actor = self._house.caller(request.headers.get("authorization", ""))
        return actor, self._house.desk(actor, request)

    def _find(self, request: Request) -> Tools:
        actor, desk = self._who(request)
        assert self._loop is not None
        with self._lock:
            caller = self._callers[actor.key]
            tools = caller.session(request.headers.get("mcp-session-id", "")).tools
            if desk.name not in tools:
                inside = Inside(desk, actor, self._loop)
                tools[desk.name] = Tools(inside, self._cap, caller.turns)
            return tools[desk.name]


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(_: Message) -> None:
    """Nobody waits for what is said."""


def _anywhere() -> Any:
    """Whoever has a key may come by any name of the host: no cookie is ever believed here."""
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415 - an extra

    return TransportSecuritySettings(enable_dns_rebinding_protection=False)
