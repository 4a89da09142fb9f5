"""Rebuild of a crawl on a Redis-protocol server: its facts stay in the key `hidden` until it is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fieldmouse.cluster.coordinator import AgentId, CrawlSpec, HeartbeatId, HostPayload, RestoredOutcomes
from fieldmouse.cluster.error_messages import agents_active_error
from fieldmouse.cluster.redis import script_codec as codec
from fieldmouse.cluster.redis.connection import ScriptRefusal, load_script
from fieldmouse.cluster.redis.coordinator import RedisCoordinator, parse_bool_reply, parse_int_reply
from fieldmouse.url import Host

_KEYS = 1000  # keys in one step


class RedisRebuilder(RedisCoordinator):
    """Implementation of `CrawlRebuilder`, mostly with the scripts of the coordinator."""

    def __init__(self, url: str, crawl: str = "fieldmouse", timeout: float = 10.0) -> None:
        super().__init__(url, crawl, timeout)
        self._hidden = f"{self._prefix}hidden"
        self._script_keys = (self._prefix, self._hidden)

    async def begin_hidden(self, spec: CrawlSpec) -> CrawlSpec:
        await self._server.check_no_eviction()
        return await self._call(self._decode_spec, "hide", msgspec.json.encode(spec))

    async def clear_outdated_crawl(self, key_seed: int, since: Sequence[HeartbeatId]) -> bool:
        visible = await self.crawl_spec()  # of the visible crawl
        if visible is not None and visible.key_seed != key_seed:
            return False  # a different crawl: `begin_hidden` refuses
        try:
            # With the keys of a visible crawl.
            marks = codec.count_and_flatten(map(codec.heartbeat_mark_args, since))
            older = await self._server.run_script(load_script("clear"), (self._prefix,), marks)
        except ScriptRefusal:
            older = 0  # there is no crawl
        if isinstance(older, list):
            raise agents_active_error(self._crawl, self._decode_reply(codec.parse_agent_names, older))
        if not self._decode_reply(parse_bool_reply, older) and not await self._server.run_command(
            "HEXISTS", self._hidden, "clearing"
        ):
            return False
        await self._delete_all_keys()
        return True

    async def _delete_all_keys(self) -> None:
        """Delete the crawl completely; `hidden` goes last, because until then it marks the crawl for
        deletion."""
        cursor = b"0"
        while True:
            reply = await self._server.run_command("SCAN", cursor, "MATCH", f"{self._prefix}*", "COUNT", _KEYS)
            cursor, keys = self._decode_reply(codec.parse_scan, reply)
            if gone := [key for key in keys if key != self._hidden.encode()]:
                await self._server.run_command("UNLINK", *gone)
            if cursor == b"0":
                break
        await self._server.run_command("DEL", self._hidden)

    async def remove_crawl(self) -> None:
        await self._server.run_command("HSET", self._hidden, "clearing", "1")
        await self._server.run_command("DEL", f"{self._prefix}meta")
        await self._delete_all_keys()

    async def restore_outcomes(
        self, name: AgentId, hosts: Sequence[RestoredOutcomes], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        words = (name.agent, int(bounded), *codec.restore_args(hosts, urls))
        return await self._call(parse_int_reply, "restore", *words)

    async def mark_agent_restored(self, name: AgentId, told: int) -> None:
        await self._run_script("noterestored", name.agent, name.incarnation, told)

    async def restore_host_payloads(self, host_payload: Mapping[Host, HostPayload]) -> None:
        words = codec.count_and_flatten((host, *codec.payload_args(payload)) for host, payload in host_payload.items())
        await self._run_script("settlehosts", *words)

    async def publish_crawl(self, lease: float, delay: float, age: float = 0.0) -> None:
        await self._run_script("publish", codec.milliseconds(lease), codec.milliseconds(delay), codec.milliseconds(age))
