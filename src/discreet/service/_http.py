"""At the door: what a request may be, before anything reads it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from discreet._canonical import plain
from discreet._log import note
from discreet._text import json_safe
from discreet.errors import DiscreetError
from discreet.service._errors import (
    INTERNAL,
    MediaError,
    RequestError,
    SizeError,
    SlowError,
    envelope,
    status_of,
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LONGEST_BODY: Final = 64 << 10
LONGEST_ADDRESS: Final = 4096
_KEY: Final = re.compile(rb"dk_[0-9a-f]{12}_")  # no shorter: random states hold "dk_" now and then
SLOWEST_BODY: Final = 10.0
_DEEPEST: Final = 20
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Door:
    """Limits bodies in size and time before they are read, and hides what goes wrong.

    Every response carries the headers that keep a browser from running or leaking anything.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["arrival"] = asyncio.get_running_loop().time()
        begun = False

        async def out(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                own = [(k, v) for k, v in message.get("headers", []) if k.lower() != b"server"]
                names = {k.lower() for k, _ in own}
                cache = () if b"cache-control" in names else ((b"cache-control", b"no-store"),)
                message = {**message, "headers": [*own, *HEADERS, *cache]}
            await send(message)

        try:
            body = await _body(scope, receive)
            await self._app(scope, _once(body, receive), out)
        except DiscreetError as refusal:
            if not begun:
                await _say(out, status_of(refusal), envelope(refusal))
        except Exception as error:  # noqa: BLE001 - whatever it says could depend on the data
            note("internal", error)
            if not begun:
                await _say(out, 500, INTERNAL)


async def _body(scope: Scope, receive: Receive) -> bytes:
    """Read the whole body, if it is short and comes in time."""
    address = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    if address > LONGEST_ADDRESS:
        raise SizeError(f"an address has at most {LONGEST_ADDRESS} bytes")
    if _KEY.search(scope.get("query_string") or b""):
        raise RequestError("a key does not belong in an address: addresses are logged everywhere",
                           hint="Authorization: Bearer …")  # fmt: skip
    headers = dict(scope["headers"])
    stated = headers.get(b"content-length", b"0")
    too_long = SizeError(f"a body has at most {LONGEST_BODY} bytes")
    if not stated.isdigit() or len(stated) > 12 or int(stated) > LONGEST_BODY:
        raise too_long
    empty = stated == b"0" and b"transfer-encoding" not in headers
    if empty and scope.get("method") == "GET":
        await receive()  # there is nothing that could be slow
        return b""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise SlowError("the body did not arrive")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > LONGEST_BODY:
                    raise too_long
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        raise SlowError(f"a body must arrive within {SLOWEST_BODY:g} s") from None


def _once(body: bytes, receive: Receive) -> Receive:
    """Give a body that has been read, and then whatever else comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _say(send: Send, status: int, message: Mapping[str, Any]) -> None:
    body = to_json(message)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)),
               (b"connection", b"close")]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_STRICT: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), default=plain
)


def to_json(data: Mapping[str, Any]) -> bytes:
    """Write strict JSON."""
    try:
        text = _STRICT.encode(data)
    except ValueError:  # a number that is not finite
        text = _STRICT.encode(plain(data))
    return json_safe(text).encode()


def from_json(body: bytes, media: str) -> dict[str, Any]:
    """Read an object of strict JSON: no key twice, nothing that is not a number, not too deep.

    Numbers with a point are kept as their text, so that 0.1 is a tenth.
    """
    if media.partition(";")[0].strip().lower() != "application/json":
        raise MediaError("a body here is JSON", hint="Content-Type: application/json")
    try:
        data = json.loads(
            body.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant,
            parse_float=str, parse_int=_integer,
        )  # fmt: skip
    except (ValueError, RecursionError):
        raise RequestError("the body is not JSON, or has a name twice") from None
    if not isinstance(data, dict) or _too_deep(data):
        raise RequestError(f"the body must be one JSON object, at most {_DEEPEST} deep")
    return data


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError
    return fields


def _constant(_: str) -> Any:
    raise ValueError


def _integer(text: str) -> int:
    if len(text) > 40:
        raise ValueError
    return int(text)


def _too_deep(data: Any, levels: int = _DEEPEST) -> bool:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return levels == 0 or any(_too_deep(value, levels - 1) for value in inner)
