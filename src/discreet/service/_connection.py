"""Connections that nobody can keep for nothing: a request's head is short and comes soon.

The server's parser knows no limit of its own. Whoever sends half a head, or is silent after an
answer, is let go when others come: the longest silent first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD: Final = 16 << 10
LONGEST_REQUEST: Final = 1 << 20
"""Bytes of a body with all that divides it into chunks and follows it."""
SLOWEST_HEAD: Final = 10.0
SILENT: Final = 256
"""Connections without a whole request, at most."""
ALL: Final = 512 + SILENT
"""Connections at most: each takes a descriptor, and workers need some."""
_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)  # fmt: skip
_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)  # fmt: skip


class Connection(HttpToolsProtocol):
    """One connection to the service."""

    silent: ClassVar[OrderedDict[Connection, None]] = OrderedDict()
    """Those without a whole request, the longest silent first."""

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__(*values, **options)
        self._bytes = self._head = 0
        self._whole = False
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request; uvicorn narrows the transport in the same way."""
        super().connection_made(transport)
        if len(self.connections) > ALL:
            transport.abort()
            return
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._heed()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what has come, if it is not too much."""
        self._bytes += len(data)
        if self._whole and self._bytes > LONGEST_REQUEST:
            self.transport.abort()
            return
        super().data_received(data)
        if not self._whole and self._bytes > LONGEST_HEAD:
            self._end(_LONG)

    def on_message_begin(self) -> None:
        """Begin with a request."""
        super().on_message_begin()
        if self._whole:  # the first one is expected since the connection was made
            self._expect()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what follows a body is none."""
        if not self._whole:
            self._count(len(name) + len(value))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Serve the request."""
        self._heed()
        self._whole, self._bytes = True, 0
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Be ready for the next one."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._keep()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > LONGEST_HEAD:
            raise ValueError  # the parser gives up, and the request is refused

    def _expect(self) -> None:
        """Wait for a head, but not for long."""
        self._heed()
        self._whole, self._bytes, self._head = False, 0, 0
        self._clock = self.loop.call_later(SLOWEST_HEAD, self._end, _SLOW)
        self._keep()

    def _keep(self) -> None:
        """Keep it while it is silent, unless too many are."""
        self.silent[self] = None
        while len(self.silent) > SILENT:
            oldest, _ = self.silent.popitem(last=False)
            oldest.transport.abort()

    def _heed(self) -> None:
        """It is silent no longer."""
        self.silent.pop(self, None)
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _end(self, response: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(response)
            self.transport.close()
