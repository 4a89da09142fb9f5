"""A crawl that is made again on a Redis-protocol server: its facts lie in `hidden` until it is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fieldmouse.balancer.board import blocks
from fieldmouse.balancer.board.contract import Charter, Luggage, Name
from fieldmouse.balancer.board.rebuilding import RestoredHost
from fieldmouse.balancer.board.server.board import RedisBoard
from fieldmouse.balancer.board.server.connect import Argument
from fieldmouse.balancer.board.server.messages import luggage_words, milliseconds
from fieldmouse.url import Host


class RedisBuilder(RedisBoard):
    """See `rebuilding.BoardBuilder`. The scripts are those of the board, but for four."""

    def _named_keys(self) -> tuple[str, ...]:
        return (self._prefix, f"{self._prefix}hidden")

    async def hide(self, charter: Charter) -> Charter:
        await self._server.check_that_it_keeps()
        told = await self._call("hide", msgspec.json.encode(charter))
        return msgspec.json.decode(told, type=Charter)

    async def restore(
        self, name: Name, hosts: Sequence[RestoredHost], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        words: list[Argument] = [name.agent, name.incarnation, int(bounded), urls, len(hosts)]
        for its in hosts:
            words += (its.host, its.site, len(its.keys), *map(blocks.decimal, its.keys))
            words += (len(its.kinds), *its.kinds)
        return int(await self._call("restore", *words))

    async def settle_hosts(self, luggage: Mapping[Host, Luggage]) -> None:
        words: list[Argument] = [len(luggage)]
        for host, its in luggage.items():
            words += (host, *luggage_words(its))
        await self._call("settlehosts", *words)

    async def publish(self, lease: float, delay: float, age: float = 0.0) -> None:
        await self._call("publish", milliseconds(lease), milliseconds(delay), milliseconds(age))
