"""List of the crawls on a server: each has one key that identifies it."""

from __future__ import annotations

import re
from typing import Any

from fieldmouse.balancer.board.decoding import DamagedValue
from fieldmouse.balancer.board.server.complaints import unreadable
from fieldmouse.balancer.board.server.connect import BoardServer
from fieldmouse.balancer.board.server.replies import names_of

_KEYS = 10_000  # keys scanned in one step
_ROUNDS = 300  # most steps, because a server may hold many millions of keys
_META = re.compile(rb"fm:\{([A-Za-z0-9._-]{1,64})\}:meta")


async def crawls_on(url: str) -> set[str]:
    """Names of the crawls; perhaps not all on a server with more than three million keys."""
    server, crawls, cursor = BoardServer(url), set[str](), b"0"
    try:
        for _ in range(_ROUNDS):
            reply: Any = await server.command("SCAN", cursor, "MATCH", "fm:{*}:meta", "COUNT", _KEYS)
            try:
                cursor, names = names_of(reply, _META)
            except DamagedValue as nonsense:
                raise unreadable(server.label, nonsense) from nonsense
            crawls |= names
            if cursor == b"0":
                break
    finally:
        await server.close()
    return crawls
