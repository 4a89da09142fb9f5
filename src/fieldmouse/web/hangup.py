"""Abort of a connection without retransmission of sent data."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

_AT_ONCE = struct.pack("ii", 1, 0)  # linger: on, for zero seconds


def drop_unsent(transport: asyncio.Transport) -> None:
    """Discard unacknowledged data when the transport is aborted.

    Otherwise the system retransmits it for minutes. After a network outage the request could reach a host
    that another agent has leased since.
    """
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
