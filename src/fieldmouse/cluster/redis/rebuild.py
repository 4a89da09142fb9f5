"""Rebuild of a crawl on a Redis-protocol server: its facts stay in the key `hidden` until it is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fieldmouse.cluster.coordinator import Charter, Heard, Luggage, Name
from fieldmouse.cluster.errors import awake_there
from fieldmouse.cluster.rebuild import RestoredHost
from fieldmouse.cluster.redis.connection import Argument, script
from fieldmouse.cluster.redis.coordinator import RedisBoard, read_flag, read_number
from fieldmouse.cluster.redis.errors import ScriptRefusal
from fieldmouse.cluster.redis.messages import (
    heard_words,
    luggage_words,
    milliseconds,
    restored_words,
)
from fieldmouse.cluster.redis.replies import agents_in, keys_found
from fieldmouse.url import Host

_KEYS = 1000  # keys in one step


class RedisBuilder(RedisBoard):
    """Implementation of `rebuilding.BoardBuilder`, mostly with the scripts of the coordinator."""

    def _named_keys(self) -> tuple[str, ...]:
        return (self._prefix, f"{self._prefix}hidden")

    async def hide(self, charter: Charter) -> Charter:
        await self._server.check_that_it_keeps()
        reply = await self._call("hide", msgspec.json.encode(charter))
        return self._read(self._charter, reply)

    async def clear(self, key_seed: int, since: Sequence[Heard]) -> bool:
        visible = await self.charter()  # of the visible crawl
        if visible is not None and visible.key_seed != key_seed:
            return False  # a different crawl: `hide` refuses
        words: list[Argument] = [len(since)]
        for heard in since:
            words += heard_words(heard)
        hidden = f"{self._prefix}hidden"
        try:
            # With the keys of a visible crawl.
            older = await self._server.call(script("clear"), (self._prefix,), words)
        except ScriptRefusal:
            older = 0  # there is no crawl
        if isinstance(older, list):
            raise awake_there(self._crawl, self._read(agents_in, older))
        if not self._read(read_flag, older) and not await self._server.command("HEXISTS", hidden, "clearing"):
            return False
        await self._unlink()
        return True

    async def _unlink(self) -> None:
        """Delete the crawl completely; `hidden` goes last, because until then it marks the crawl for
        deletion."""
        hidden, cursor = f"{self._prefix}hidden", b"0"
        while True:
            reply = await self._server.command("SCAN", cursor, "MATCH", f"{self._prefix}*", "COUNT", _KEYS)
            cursor, keys = self._read(keys_found, reply)
            if gone := [key for key in keys if key != hidden.encode()]:
                await self._server.command("UNLINK", *gone)
            if cursor == b"0":
                break
        await self._server.command("DEL", hidden)

    async def remove(self) -> None:
        await self._server.command("HSET", f"{self._prefix}hidden", "clearing", "1")
        await self._server.command("DEL", f"{self._prefix}meta")
        await self._unlink()

    async def restore(
        self, name: Name, hosts: Sequence[RestoredHost], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        reply = await self._call("restore", name.agent, int(bounded), *restored_words(hosts, urls))
        return self._read(read_number, reply)

    async def note_restored(self, name: Name, told: int) -> None:
        await self._call("noterestored", name.agent, name.incarnation, told)

    async def settle_hosts(self, luggage: Mapping[Host, Luggage]) -> None:
        words: list[Argument] = [len(luggage)]
        for host, payload in luggage.items():
            words += (host, *luggage_words(payload))
        await self._call("settlehosts", *words)

    async def publish(self, lease: float, delay: float, age: float = 0.0) -> None:
        await self._call("publish", milliseconds(lease), milliseconds(delay), milliseconds(age))
