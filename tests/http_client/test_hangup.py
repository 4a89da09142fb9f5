"""Test that data unacknowledged at an abort never arrives."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from fieldmouse.http.connection import discard_unsent_on_abort

MUCH = 8 * 1024 * 1024  # more than the system buffers on both sides together


class Caller(asyncio.Protocol):
    def __init__(self) -> None:
        self.over = asyncio.get_running_loop().create_future()

    def connection_lost(self, trouble: Exception | None) -> None:
        self.over.set_result(None)


async def hung_up(drops: bool) -> bool:
    """Return whether the server sees a reset instead of the remaining data."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport, caller = await loop.create_connection(Caller, *server.getsockname())
        peer, _ = server.accept()
        with peer:
            transport.write(b"x" * MUCH)
            if drops:
                discard_unsent_on_abort(transport)
            transport.abort()
            await caller.over
            peer.settimeout(30)
            try:
                while peer.recv(1 << 20):
                    pass
            except ConnectionResetError:
                return True
            return False


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_unacknowledged_data_is_not_retransmitted(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(hung_up(drops=True))
        assert not runner.run(hung_up(drops=False)), "or else this shows nothing"
