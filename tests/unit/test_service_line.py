"""The line to a service: what its sockets are told."""

from __future__ import annotations

import asyncio
import socket

import pytest

from discreet.service._serve import Options, _bound

pytestmark = pytest.mark.races


def test_a_response_does_not_wait_for_the_acknowledgement_of_its_headers():
    """Without this each response on an open line came 40 ms late."""

    async def asked() -> int:
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def met(_, writer):
            own = writer.get_extra_info("socket")
            told.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with _bound(Options(port=0)) as listener:
            where = listener.getsockname()
            async with await asyncio.start_server(met, sock=listener):
                _, writer = await asyncio.open_connection(*where)
                found = await told
                writer.close()
                return found

    assert asyncio.run(asked()) != 0
