"""Hanging up for good: nothing that was asked for arrives after we have stopped asking."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

_AT_ONCE = struct.pack("ii", 1, 0)  # linger: yes, for no time


def drop_unsent(transport: asyncio.Transport) -> None:
    """Let the system forget what the server has not acknowledged, once the transport is aborted.

    Otherwise it goes on sending that for minutes. Where the network was away meanwhile, a request
    would reach a host that is somebody else's by then.
    """
    plug = transport.get_extra_info("socket")
    if plug is not None:
        with contextlib.suppress(OSError):
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
