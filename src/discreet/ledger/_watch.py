"""A witness over HTTP: another host's service keeps the mark of a ledger.

As at a witness in PostgreSQL (:mod:`discreet.ledger._witness`), whoever writes holds the mark
from before the check until it is moved. The service gives a hold for a short time only: if
it runs out before the mark is moved, the mark stays, nothing is released, and the next
one to hold it compares as everybody does. A service that does not answer means
that nothing is released.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlsplit

from discreet._canonical import canonical
from discreet._dataclass import asdict, dataclass
from discreet.errors import LedgerBusyError, LedgerError
from discreet.ledger._anchor import Mark, behind, elsewhere_used
from discreet.ledger._witness import Afar

_PATH: Final = "/v1/marks"
_KEY: Final = "DISCREET_WITNESS_KEY"
_LONGEST: Final = 1 << 16
_HERE: Final = ("127.0.0.1", "::1", "localhost")
_GONE: Final = 409
_BUSY: Final = 503
_DENIED: Final = (401, 403, 404)


@dataclass(frozen=True, slots=True)
class Service(Afar):
    """The mark of one policy at a service; the key comes from ``DISCREET_WITNESS_KEY``."""

    def read(self) -> Mark | None:
        """Give the mark; None if there is none."""
        reply = self._call("GET", f"{_PATH}?ledger={quote(self.policy, safe='')}", None, self.wait)
        return _mark(reply)

    @contextmanager
    def hold(self, wait: float) -> Iterator[ServiceHold]:
        """Keep everybody else from moving the mark."""
        reply = self._call("POST", _PATH, {"ledger": self.policy, "wait": f"{wait:.3f}"}, wait)
        hold = str(reply.get("hold"))
        try:
            yield ServiceHold(self, hold, _mark(reply))
        finally:
            with contextlib.suppress(LedgerError):  # else it runs out by itself
                self._call("PUT", _PATH, {"ledger": self.policy, "hold": hold}, wait)

    def move(self, hold: str, mark: Mark, *, back: bool) -> None:
        """Move the mark that we hold."""
        body = {"ledger": self.policy, "hold": hold, "mark": asdict(mark), "back": back}
        if self._call("PUT", _PATH, body, self.wait).get("moved") is not True:
            raise elsewhere_used(mark)

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None, wait: float
    ) -> Mapping[str, Any]:
        """Ask the service; give its result."""
        from http import client  # noqa: PLC0415 - few have such a witness, and all would load it

        parts = urlsplit(self.url)
        make: type[client.HTTPConnection] = client.HTTPConnection
        if parts.scheme == "https":
            make = client.HTTPSConnection
        elif parts.hostname not in _HERE:
            raise LedgerError(
                "the witness's key would travel in the clear; nothing was released",
                hint='witness = "https://…"',
            )
        headers = {"Authorization": f"Bearer {os.environ.get(_KEY, '')}",
                   "Content-Type": "application/json"}  # fmt: skip
        try:
            with contextlib.closing(
                make(parts.hostname or "", parts.port, timeout=max(2.0, wait) + 2)
            ) as line:
                text = None if body is None else canonical(body)
                line.request(method, parts.path.rstrip("/") + path, text, headers)
                answer = line.getresponse()
                status, reply = answer.status, json.loads(answer.read(_LONGEST))
        except (OSError, client.HTTPException, ValueError):
            raise LedgerError(
                "the ledger's witness cannot be reached; nothing was released"
            ) from None
        if status == _GONE and method == "PUT":
            return {"moved": False}
        if status == _BUSY:
            raise LedgerBusyError(
                f"the ledger's witness was in use for {wait:g} s; nothing was charged"
            )
        if status in _DENIED:
            raise LedgerError(
                "the ledger's witness does not let this host in, or has the ledger's mark under "
                "another key's name; nothing was released",
                hint="export DISCREET_WITNESS_KEY=…, one for all hosts of the ledger, made there "
                "with: discreet key add NAME --role witness",
            )
        result = reply.get("result") if isinstance(reply, dict) else None
        if status != client.OK or not isinstance(result, dict):
            raise LedgerError("the ledger's witness cannot be written; nothing was released")
        return result


@dataclass(frozen=True, slots=True)
class ServiceHold:
    """A mark at a service that we hold."""

    service: Service
    hold: str
    mark: Mark | None

    def move(self, mark: Mark, *, back: bool = False) -> None:
        """Move the mark forward; an owner may move it back."""
        if not back and behind(mark, self.mark):
            raise elsewhere_used(mark)
        self.service.move(self.hold, mark, back=back)


def _mark(reply: Mapping[str, Any]) -> Mark | None:
    mark = reply.get("mark")
    try:
        return None if mark is None else Mark(**mark)
    except TypeError:
        raise LedgerError("what the ledger's witness has stored cannot be read") from None
