"""Marks of other hosts' ledgers: this service as their witness.

A mark belongs to the name of the key that it was brought with, so that nobody moves
another host's. Whoever moves one holds it first, for a short time, and moves it with
the hold's own random name: a hold that has run out, or was never given, moves nothing.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from discreet._canonical import canonical
from discreet._exact import decimal
from discreet._log import note
from discreet.errors import LedgerBusyError
from discreet.ledger import Mark, behind
from discreet.service import _schema
from discreet.service._api import House, body_of, need, reply
from discreet.service._errors import RequestError, StateError
from discreet.service._home import Home
from discreet.service._keys import Role

LEASE: Final = 60.0
"""Seconds that a hold lasts."""
_LONGEST: Final = 30
_STEP: Final = 0.02


class Marks:
    """The marks that are kept for other hosts."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self, host: str, ledger: str) -> Mapping[str, Any] | None:
        """Give a mark, if there is one."""
        rows = self._home.read(
            "SELECT mark FROM marks WHERE host = ? AND ledger = ?", (host, ledger)
        )
        return json.loads(rows[0][0]) if rows and rows[0][0] else None

    def hold(self, host: str, ledger: str) -> str | None:
        """Hold a mark, if nobody does; give the hold's name."""
        name, now = secrets.token_hex(16), time.time()
        self._home.write("INSERT OR IGNORE INTO marks (host, ledger) VALUES (?, ?)", (host, ledger))
        taken = self._home.write(
            "UPDATE marks SET hold = ?, until = ? WHERE host = ? AND ledger = ? "
            "AND (hold IS NULL OR until < ?)",
            (name, now + LEASE, host, ledger, now),
        )
        return name if taken else None

    def move(self, host: str, ledger: str, hold: str, mark: Mapping[str, Any] | None) -> None:
        """Move a mark that is held; without a mark, let it go."""
        change = "hold = NULL" if mark is None else "mark = ?"
        values = () if mark is None else (canonical(dict(mark)),)
        done = self._home.write(
            f"UPDATE marks SET {change} WHERE host = ? AND ledger = ? AND hold = ? AND until > ?",  # noqa: S608 - constants
            (*values, host, ledger, hold, time.time()),
        )
        if not done:
            raise StateError("this mark is not held, or no longer")


class MarkRoutes:
    """``/v1/marks``, for keys of the role witness."""

    def __init__(self, house: House, home: Home) -> None:
        self._house, self._marks = house, Marks(home)
        self.router = APIRouter(prefix="/v1", responses=_schema.responses())
        for method, handler, document in (
            ("GET", self.read, None),
            ("POST", self.hold, _schema.body("Hold")),
            ("PUT", self.move, _schema.body("Move")),
        ):
            self.router.add_api_route(
                "/marks", handler, methods=[method], openapi_extra=document,
                response_class=Response, summary=(handler.__doc__ or "").strip(),
            )  # fmt: skip

    def _host(self, request: Request) -> str:
        actor = self._house.actor(request)
        need(actor, Role.WITNESS)
        return actor.name

    async def read(self, request: Request) -> Response:
        """Give the mark of a ledger of yours."""
        host, ledger = self._host(request), request.query_params.get("ledger", "")
        return reply({"mark": self._marks.read(host, ledger)})

    async def hold(self, request: Request) -> Response:
        """Hold the mark of a ledger of yours: nobody else moves it for a minute."""
        host, body = self._host(request), await body_of(request, _schema.HOLD)
        wait = float(min(decimal(body.get("wait", "0"), "wait"), Fraction(_LONGEST)))
        over = time.monotonic() + wait
        while (hold := self._marks.hold(host, body["ledger"])) is None:
            if time.monotonic() > over:
                raise LedgerBusyError("the mark is held by somebody else")
            await asyncio.sleep(_STEP)
        return reply({"hold": hold, "mark": self._marks.read(host, body["ledger"])})

    async def move(self, request: Request) -> Response:
        """Move a mark that you hold; without a mark, let it go."""
        host, body = self._host(request), await body_of(request, _schema.MOVE)
        ledger, given = body["ledger"], body.get("mark")
        if given is not None:
            known, mark = self._marks.read(host, ledger), Mark(**given)
            if mark.policy != ledger:
                raise RequestError("this mark is another ledger's")
            if behind(mark, None if known is None else Mark(**known)):
                if not body.get("back"):
                    raise StateError("this mark is behind the one that is known")
                note("mark moved back", host=host)
        self._marks.move(host, ledger, body["hold"], given)
        return reply({"moved": True})
