"""Address leases on several servers.

An address and its hosts may lie on two servers. The server of the address then cannot check the holder of
the host and trusts the caller; it still checks the lease of the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from fieldmouse.balancer.board.contract import AddressAnswer, AddressAsk, Board, Held, Name
from fieldmouse.balancer.board.spread.gathering import answered
from fieldmouse.balancer.board.spread.shares import place_of_address, place_of_host
from fieldmouse.errors import BoardUnreachable

_ASK_AGAIN = 1.0  # seconds to wait for an address whose server cannot be reached


async def ask_on(boards: Sequence[Board], name: Name, asks: Sequence[AddressAsk]) -> list[AddressAnswer]:
    """Lease addresses; those of a server that cannot be reached are refused."""
    parts: dict[int, dict[int, AddressAsk]] = {}
    for number, ask in enumerate(asks):
        place = place_of_address(ask.address, len(boards))
        if place_of_host(ask.held.host, len(boards)) != place:
            ask = replace(ask, held=Held(ask.held.host, 0))
        parts.setdefault(place, {})[number] = ask
    replies = await asyncio.gather(
        *(boards[place].ask_addresses(name, list(part.values())) for place, part in parts.items()),
        return_exceptions=True,
    )
    answered([answer for answer in replies if not isinstance(answer, BoardUnreachable)] or replies)
    answers = [AddressAnswer(granted=False, rest=_ASK_AGAIN)] * len(asks)
    for part, part_answers in zip(parts.values(), replies, strict=True):
        if not isinstance(part_answers, BaseException):
            for number, answer in zip(part, part_answers, strict=True):
                answers[number] = answer
    return answers
