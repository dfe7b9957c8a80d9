"""Assistants over HTTP: the tools of :mod:`._mcp`, each caller known by the key of each message.

A conversation is a session of the protocol under one key, with a cap of its own; messages
without a session share one conversation of their key. A key in the header of the message
decides who asks, never the session that it belongs to; the address decides which policy is asked.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio.to_thread
from fastapi import Request

from discreet.answer import Answer
from discreet.curator import Budget
from discreet.errors import AwaitsOwnerError, EngineError, Hint
from discreet.policy import Policy
from discreet.service import _api, _forms, _views
from discreet.service._client import Price
from discreet.service._desk import Desk
from discreet.service._http import App, Receive, Scope, Send
from discreet.service._keys import Actor, Role
from discreet.service._mcp import Tools, server

T = TypeVar("T")

_CONVERSATIONS: Final = 1000
"""Conversations of late whose spending is remembered; a forgotten one begins anew."""
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
        return Price(_views.price(self._desk, self._actor.name, {"sql": sql, **offer}))

    def sql(self, sql: str, key: str | None = None, **offer: Any) -> Answer:
        """Ask, and wait until the answer leaves."""
        _api.need(self._actor, Role.ANALYST, Role.OWNER)
        given = {k: v if isinstance(v, Mapping) else str(v) for k, v in offer.items()}
        body = {"sql": sql, **given}
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


class Talk:
    """The route ``/mcp`` of a service."""

    def __init__(self, house: _api.House, cap: str) -> None:
        self._house, self._cap = house, cap
        self._tools: OrderedDict[tuple[str, str, str], Tools] = OrderedDict()
        self._turns: dict[str, threading.Semaphore] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server = server(self._find)
        self._app: App = self._server.streamable_http_app(
            json_response=True, transport_security=_anywhere()
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep conversations while the service runs."""
        self._loop = asyncio.get_running_loop()
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        async with self._server.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one message; without a key in force it is refused before it is read."""
        self._asked(Request(scope))
        if scope["method"] == "GET":  # streams that only the server speaks on: it never does
            await send({"type": "http.response.start", "status": 405, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app({**scope, "path": "/mcp", "raw_path": b"/mcp"}, receive, send)

    def _asked(self, request: Request) -> tuple[Actor, Desk]:
        """Say who asks, and about which policy: as everywhere, by the header and the address."""
        actor = self._house.caller(request.headers.get("authorization", ""))
        return actor, self._house.desk(actor, request)

    def _find(self, request: Request) -> Tools:
        actor, desk = self._asked(request)
        assert self._loop is not None
        name = (actor.key, request.headers.get("mcp-session-id", ""), desk.name)
        with self._lock:
            if name not in self._tools:
                turns = self._turns.setdefault(actor.key, threading.Semaphore(_TURNS))
                self._tools[name] = Tools(Inside(desk, actor, self._loop), self._cap, turns)
            self._tools.move_to_end(name)
            while len(self._tools) > _CONVERSATIONS:
                self._tools.popitem(last=False)
            return self._tools[name]


def _anywhere() -> Any:
    """Whoever has a key may come by any name of the host: no cookie is ever believed here."""
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415 - an extra

    return TransportSecuritySettings(enable_dns_rebinding_protection=False)
