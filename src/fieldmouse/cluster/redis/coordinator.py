"""Coordinator on a Redis-protocol server, for agents on many machines.

Each call is one script, which is atomic (in `lua/`). Long calls are cut into
several, none of which leaves anything half done. Rows are compressed and decompressed here, because all
agents share the server.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import msgspec

from fieldmouse.cluster import decoding, error_messages
from fieldmouse.cluster.coordinator import (
    MOST_EXAMPLES,
    MOST_LISTED_AGENTS,
    AckBatch,
    AddressReply,
    AddressRequest,
    AgentId,
    CrawlSpec,
    CrawlTotals,
    DamagedField,
    HeartbeatId,
    HeartbeatReply,
    HeartbeatRequest,
    HostGrant,
    HostPayload,
    LeaseId,
    LinkOffer,
    ListedAgent,
    OfferResult,
    PageCount,
    ReleasedHost,
    ReservationRequest,
    RetryBatch,
    Row,
    SiteBounds,
    StrandedHosts,
)
from fieldmouse.cluster.decoding import DamagedValue, UrlsToRefetch, decode_bool, decode_crawl_spec, decode_int
from fieldmouse.cluster.redis import script_codec as codec
from fieldmouse.cluster.redis.connection import (
    RedisClient,
    ScriptArgument,
    ScriptRefusal,
    load_script,
    unreadable_data_error,
)
from fieldmouse.url import Host, Url

_CHECK_EVERY = 12  # heartbeats between two checks that the server does not evict keys
_MOST_WISHES = 1000  # hosts in one script call
_MOST_HOSTS = 64  # hosts for which more URLs are requested in one script call
T = TypeVar("T")
log = logging.getLogger(__name__)


def parse_bool_reply(reply: object) -> bool:
    return decode_bool(reply, "answer")


def parse_int_reply(reply: object) -> int:
    return decode_int(reply, "answer")


def _parse_all_released(reply: object) -> int:
    return decode_int(reply, "swept", 0, 1)


class RedisCoordinator:
    """Coordinator of one crawl on one server."""

    def __init__(self, url: str, crawl: str = "fieldmouse", timeout: float = 10.0) -> None:
        self._server = RedisClient(url, timeout)
        self._crawl, self._prefix = crawl, f"fm:{{{crawl}}}:"
        self._script_keys: tuple[str, ...] = (self._prefix,)  # passed to every script
        self._beats = 0

    async def _run_script(self, act: str, *arguments: ScriptArgument, name: AgentId | None = None) -> Any:
        caller: tuple[ScriptArgument, ...] = (name.agent, name.incarnation) if name else ()
        try:
            return await self._server.run_script(load_script(act), self._script_keys, (*caller, *arguments))
        except ScriptRefusal as refused:
            match refused.code:
                case "LOST":
                    raise error_messages.crawl_lost_error(self._crawl) from None
                case "HIDDEN":
                    raise error_messages.rebuild_running_error(self._crawl) from None
                case "HELD":
                    raise error_messages.crawl_not_empty_error(self._crawl) from None
                case "OLDER":
                    raise error_messages.stale_data_error(refused.detail, self._server.label) from None
                case "FENCED" if name:
                    raise error_messages.fenced_error(name) from None
                case "NEWER" if name:
                    raise error_messages.superseded_error(name) from None
            raise

    def _decode_reply(self, read: Callable[[Any], T], reply: Any) -> T:
        """Decode an answer; a CoordinatorError if our scripts cannot have sent it."""
        try:
            return read(reply)
        except ValueError as trouble:  # `DamagedValue`
            raise unreadable_data_error(self._server.label, trouble) from trouble

    async def _call(
        self, read: Callable[[Any], T], act: str, *arguments: ScriptArgument, name: AgentId | None = None
    ) -> T:
        """Run a script and decode its answer."""
        return self._decode_reply(read, await self._run_script(act, *arguments, name=name))

    # -- the crawl

    async def server_identity(self) -> str:
        return await self._server.server_identity()

    async def crawl_spec(self) -> CrawlSpec | None:
        reply = await self._server.run_command("HGET", f"{self._prefix}meta", "charter")
        return self._decode_reply(self._decode_spec, reply) if reply is not None else None

    def _decode_spec(self, reply: bytes) -> CrawlSpec:
        return decode_crawl_spec(reply, self._server.label)

    async def create_crawl(self, spec: CrawlSpec) -> CrawlSpec:
        return await self._call(self._decode_spec, "found", msgspec.json.encode(spec))

    async def stop_crawl(self, why: str) -> None:
        await self._run_script("end", why)

    # -- agents

    async def join(self, name: AgentId, lease: float) -> None:
        await self._server.check_no_eviction()
        await self._release_leases_of_fenced_agents(
            await self._run_script("join", codec.milliseconds(lease), name=name)
        )

    async def _release_leases_of_fenced_agents(self, done: int) -> None:
        """Release the leases of fenced agents, a few at a time."""
        while not self._decode_reply(_parse_all_released, done):
            done = await self._run_script("sweep")

    async def was_never_fenced(self, name: AgentId) -> bool:
        return await self._call(parse_bool_reply, "outlives", name.agent, name.incarnation)

    async def check_no_data_lost(self, since: HeartbeatId) -> None:
        await self._run_script("recalls", *codec.heartbeat_mark_args(since))

    async def heartbeat(self, name: AgentId, beat: HeartbeatRequest) -> HeartbeatReply:
        self._beats += 1
        if self._beats % _CHECK_EVERY == 0:
            await self._server.check_no_eviction()
        since, lease = codec.heartbeat_mark_args(beat.since), codec.milliseconds(beat.lease_seconds)
        words = (beat.status, lease, beat.list_after, MOST_LISTED_AGENTS, beat.number, *since, beat.known_scope_pages)
        heartbeat_reply, swept = await self._call(codec.parse_heartbeat_reply, "beat", *words, name=name)
        await self._release_leases_of_fenced_agents(swept)
        return heartbeat_reply

    async def widen_scope(self, urls: Sequence[Url]) -> None:
        await self._run_script("widen", len(urls), *urls)

    async def leave(self, name: AgentId) -> None:
        await self._release_leases_of_fenced_agents(await self._run_script("leave", name.agent, name.incarnation, 1))

    async def totals(self) -> CrawlTotals:
        return await self._call(codec.parse_totals, "look")

    async def stranded_hosts(self) -> StrandedHosts:
        total, names, cursor = 0, dict[Host, None](), ""
        while True:
            cursor, count, hosts, repaired = await self._call(codec.parse_stranded, "stranded", cursor)
            fresh = [host for host in hosts if host not in names]
            total += count - (len(hosts) - len(fresh))  # a scan may return a key twice
            names.update(dict.fromkeys(fresh))
            if not cursor:
                return StrandedHosts(total, tuple(names)[:MOST_EXAMPLES], repaired)

    async def list_agents(self) -> list[ListedAgent]:
        return await self._call(codec.parse_agents_of_totals, "look")

    async def list_departed_agents(self) -> list[ListedAgent]:
        return await self._call(codec.parse_agents, "departed")

    async def request_drain(self, agent: str) -> bool:
        return await self._call(parse_bool_reply, "drain", agent)

    async def forget_agent(self, agent: str, *, again: bool) -> int:
        await self._release_leases_of_fenced_agents(await self._run_script("leave", agent, "", 0))
        spec, urls_again = await self.crawl_spec(), 0
        if not again or spec is None:
            return 0
        reply = await self._server.run_command("HGETALL", f"{self._prefix}back:{agent}")
        taken_back = Counter(self._decode_reply(codec.parse_retry_counts, reply))
        while kept := await self._run_script("kept", agent):
            digest, urls, counts, kinds = self._decode_reply(codec.parse_kept_batch, kept)
            try:
                batch = UrlsToRefetch(urls, counts, kinds, taken_back, spec.key_seed)
            except ValueError as trouble:
                log.warning("a batch of URLs that %s acknowledged cannot be read, and is left out: %s", agent, trouble)
                await self._run_script("again", agent, digest, 0, 0)
                continue
            left = codec.key_args(batch.retried_keys)
            hosts = [(host, rows, kinds) for host, (rows, kinds) in batch.hosts.items()]
            urls_again += await self._requeue_urls("again", (agent, digest, *left, len(hosts)), hosts)
        return urls_again

    async def _requeue_urls(
        self,
        act: str,
        words: tuple[ScriptArgument, ...],
        hosts: Sequence[codec.RequeuedUrls],
        name: AgentId | None = None,
    ) -> int:
        """Let URLs wait again; repeats the call without those that the server reports as waiting already."""
        waiting: set[int] = set()
        while True:
            parts = chain.from_iterable(codec.requeue_args(*codec.without_keys(part, waiting)) for part in hosts)
            reply = await self._run_script(act, *words, *parts, name=name)
            if not isinstance(reply, list):
                return self._decode_reply(parse_int_reply, reply)
            waiting |= self._decode_reply(codec.parse_keys, reply)

    # -- links

    async def offer_links(self, offers: Sequence[LinkOffer], bounds: SiteBounds, *, seeds: bool = False) -> OfferResult:
        results: list[OfferResult] = []
        for part in codec.split_offers(offers) if offers else [[]]:
            words = (bounds.hosts, bounds.urls, int(seeds), *codec.count_and_flatten(map(codec.offer_args, part)))
            result, raw = await self._call(codec.parse_offer_result, "offer", *words)
            results.append(result)
            if raw:
                await self._compress_queue_tails(raw)
        return OfferResult.sum_results(results)

    async def _compress_queue_tails(self, hosts: Sequence[bytes]) -> None:
        """Compress the raw ends of these queues, unless they change in between."""
        ends = await self._call(partial(codec.parse_queue_ends, hosts=len(hosts)), "tails", len(hosts), *hosts)
        queues: list[tuple[ScriptArgument, ...]] = []
        for host, (tail, digest) in zip(hosts, ends, strict=True):
            try:
                smaller = decoding.repack_blocks(tail)
            except DamagedValue:
                continue  # the agent that is granted it quarantines it
            queues.append((host, len(tail), digest, len(smaller), *smaller))
        if queues:
            await self._run_script("pack", *codec.count_and_flatten(queues))

    # -- hosts

    async def lease_hosts(self, name: AgentId, hosts: int, urls: int, soon: float = 0.0) -> list[HostGrant]:
        reply = await self._call(codec.parse_grants, "lease", hosts, urls, codec.milliseconds(soon), name=name)
        await self._release_leases_of_fenced_agents(reply.all_released)
        for host, epoch in reply.surplus:
            await self._run_script("surrender", 1, host, epoch, 0, 0, name=name)
        for host, epoch, why in reply.invalid:
            log.warning("a host of the coordinator cannot be read, and is set aside: %s", why)
            await self._run_script("quarantine", 1, host, epoch, "host", why[:500], 0, b"", name=name)
        return reply.grants

    async def request_hosts_for_polls(self, name: AgentId, hosts: Sequence[Host]) -> None:
        for start in range(0, len(hosts), _MOST_WISHES):
            part = hosts[start : start + _MOST_WISHES]
            await self._run_script("wish", len(part), *part, name=name)

    async def lease_more_urls(self, name: AgentId, held: Sequence[LeaseId], urls: int) -> list[HostGrant]:
        grants: list[HostGrant] = []
        for start in range(0, len(held), _MOST_HOSTS):
            part = held[start : start + _MOST_HOSTS]
            words = codec.count_and_flatten((each.host, each.epoch) for each in part)
            grants += await self._call(partial(codec.parse_more_urls, held=part), "more", urls, *words, name=name)
        return grants

    async def save_host_payloads(self, name: AgentId, host_payload: Mapping[LeaseId, HostPayload]) -> None:
        words = codec.count_and_flatten(
            (held.host, held.epoch, *codec.payload_args(payload)) for held, payload in host_payload.items()
        )
        await self._run_script("note", *words, name=name)

    async def release_hosts(self, name: AgentId, hosts: Sequence[ReleasedHost]) -> None:
        await self._run_script("giveback", *codec.count_and_flatten(map(codec.release_args, hosts)), name=name)

    async def return_urls(self, name: AgentId, rows: Mapping[LeaseId, Sequence[Row]]) -> None:
        words = codec.count_and_flatten(
            (held.host, held.epoch, *codec.row_args(host_rows)) for held, host_rows in rows.items()
        )
        await self._run_script("putback", *words, name=name)

    async def reconcile_leases(self, name: AgentId, known: Mapping[LeaseId, Collection[int]]) -> list[LeaseId]:
        holds, owes = await self._call(codec.parse_leases, "holdings", name=name)
        for held in sorted(holds | owes, key=lambda held: held.epoch):
            keys = known.get(held, ())
            words = (held.host, held.epoch, int(held in known), *codec.key_args(keys))
            await self._run_script("surrender", 1, *words, name=name)
        return [held for held in known if held not in holds and held not in owes]

    # -- addresses

    async def lease_addresses(self, name: AgentId, asks: Sequence[AddressRequest]) -> list[AddressReply]:
        words = codec.count_and_flatten(
            (ask.address, ask.lease.host, ask.lease.epoch, codec.milliseconds(ask.delay)) for ask in asks
        )
        return await self._call(partial(codec.parse_address_replies, asks=len(asks)), "ask", *words, name=name)

    async def release_addresses(self, name: AgentId, rests: Mapping[str, float]) -> None:
        words = codec.count_and_flatten((address, codec.milliseconds(rest)) for address, rest in rests.items())
        await self._run_script("rest", *words, name=name)

    # -- outcomes

    async def ack(self, name: AgentId, told: AckBatch) -> list[Sequence[int]]:
        read = partial(codec.parse_ack_results, bookings=len(told.acks))
        results = await self._call(read, "book", *codec.ack_args(told), name=name)
        return [() if counts else ack.keys for counts, ack in zip(results, told.acks, strict=True)]

    async def requeue_failed(self, name: AgentId, taken: RetryBatch) -> int:
        rows = [(taken.host, taken.rows, taken.kinds)]
        return await self._requeue_urls("takeback", (taken.number,), rows, name)

    async def reserve_pages(self, name: AgentId, ask: ReservationRequest) -> int:
        words = (ask.limit, ask.keep, ask.want, ask.acked_elsewhere, int(ask.frozen))
        return await self._call(parse_int_reply, "reserve", *words, name=name)

    async def acked_page_count(self) -> PageCount:
        return await self._call(codec.parse_page_count, "pages")

    async def last_acked_batch(self, name: AgentId) -> int:
        return await self._call(parse_int_reply, "lasttold", name.agent, name.incarnation)

    async def quarantine_damaged_values(self, name: AgentId, damaged: Mapping[LeaseId, Sequence[DamagedField]]) -> int:
        return await self._call(parse_int_reply, "quarantine", *codec.quarantine_args(damaged), name=name)

    async def close(self) -> None:
        await self._server.close()


_KEYS = 10_000  # keys scanned in one step
_ROUNDS = 300  # most steps, because a server may hold many millions of keys
_META = re.compile(rb"fm:\{([A-Za-z0-9._-]{1,64})\}:meta")


async def list_crawls(url: str) -> set[str]:
    """Names of the crawls; perhaps not all on a server with more than three million keys."""
    server, crawls, cursor = RedisClient(url), set[str](), b"0"
    try:
        for _ in range(_ROUNDS):
            reply: Any = await server.run_command("SCAN", cursor, "MATCH", "fm:{*}:meta", "COUNT", _KEYS)
            try:
                cursor, names = codec.parse_scan_names(reply, _META)
            except DamagedValue as nonsense:
                raise unreadable_data_error(server.label, nonsense) from nonsense
            crawls |= names
            if cursor == b"0":
                break
    finally:
        await server.close()
    return crawls
