"""Marks of other hosts' ledgers: this service as their witness.

A mark belongs to the name of the key that it was brought with, so that nobody moves
another's. Under two names the copies of one ledger would never meet, so a ledger, known by the
hash of its first line, has its mark under one name: all its hosts share a key. A name whose
keys are all revoked counts no more.

Whoever moves a mark holds it first, for a short time, and moves it with the hold's own random
name: a hold that has run out, or was never given, moves nothing. A mark that was moved is on
disk.
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
from discreet.service._errors import ForbiddenError, RequestError, StateError
from discreet.service._home import Home
from discreet.service._keys import Role

LEASE: Final = 60.0
"""Seconds that a hold lasts."""
_LONGEST: Final = 30
_STEP: Final = 0.02
_ELSEWHERE: Final = (
    "EXISTS (SELECT 1 FROM marks AS other JOIN keys ON keys.name = other.host "
    "WHERE keys.role = 'witness' AND keys.revoked IS NULL AND other.host <> ? "
    "AND other.ledger = ? AND json_extract(other.mark, '$.first') = ?)"
)
"""Whether a ledger has a mark under another name that is in force."""


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
        rows = self._home.write(
            "UPDATE marks SET hold = ?, until = ? WHERE host = ? AND ledger = ? "
            "AND (hold IS NULL OR until < ?)",
            (name, now + LEASE, host, ledger, now),
        )
        return name if rows else None

    def check_name(self, host: str, ledger: str, mark: Mapping[str, Any] | None) -> None:
        """Refuse a ledger that has its mark under another name."""
        values = (host, ledger, None if mark is None else mark["first"])
        if self._home.read(f"SELECT {_ELSEWHERE}", values) == [(1,)]:
            raise ForbiddenError(
                "this ledger has its mark under another key's name: all hosts of a ledger share "
                "one key",
                hint="use that key, or revoke it here if no host has it any more",
            )

    def move(self, host: str, ledger: str, hold: str, mark: Mapping[str, Any]) -> None:
        """Move a mark that is held."""
        rows = self._home.write(
            "UPDATE marks SET mark = ? WHERE host = ? AND ledger = ? AND hold = ? AND until > ? "  # noqa: S608 - constants
            f"AND NOT {_ELSEWHERE}",
            (canonical(dict(mark)), host, ledger, hold, time.time(), host, ledger, mark["first"]),
            durable=True,
        )
        if not rows:
            self.check_name(host, ledger, mark)
            raise _not_held()

    def let_go(self, host: str, ledger: str, hold: str) -> None:
        """Let a mark go that is held."""
        if not self._home.write(
            "UPDATE marks SET hold = NULL WHERE host = ? AND ledger = ? AND hold = ? AND until > ?",
            (host, ledger, hold, time.time()),
        ):
            raise _not_held()


def _not_held() -> StateError:
    return StateError("this mark is not held, or is held no longer")


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
        self._marks.check_name(host, body["ledger"], self._marks.read(host, body["ledger"]))
        while (hold := self._marks.hold(host, body["ledger"])) is None:
            if time.monotonic() > over:
                raise LedgerBusyError("the mark is held by somebody else")
            await asyncio.sleep(_STEP)
        return reply({"hold": hold, "mark": self._marks.read(host, body["ledger"])})

    async def move(self, request: Request) -> Response:
        """Move a mark that you hold; without a mark, let it go."""
        host, body = self._host(request), await body_of(request, _schema.MOVE)
        ledger, fields = body["ledger"], body.get("mark")
        if fields is None:
            self._marks.let_go(host, ledger, body["hold"])
            return reply({"moved": True})
        before, mark = self._marks.read(host, ledger), Mark(**fields)
        if mark.policy != ledger:
            raise RequestError("this mark is another ledger's")
        if behind(mark, None if before is None else Mark(**before)):
            if not body.get("back"):
                raise StateError("this mark is behind the one that is known")
            note("mark moved back", host=host)
        self._marks.move(host, ledger, body["hold"], fields)
        return reply({"moved": True})
