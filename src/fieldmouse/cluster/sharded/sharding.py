"""Sharding of a crawl over several servers: the servers, mapping of hosts and addresses, and merging of answers.

A host lies with all others of its site, so that limits on a site are counted on one server. Hosts that
share no limit (IP addresses, `.test`) are sharded one by one. An address is sharded by its own text. The
servers of a crawl never change, so a hash is enough. An address and its hosts may lie on two servers. The
server of the address then cannot check the holder of the host and trusts the caller; it still checks the
lease of the caller.

Page limit: the first server stores reservations, each counts its acknowledged pages. The counts of the
other servers are read before and after pages are reserved. If they are the same, they held at the time of
the reservation. Otherwise it is repeated; until then only the caller could use the reserved pages, and it
does not.

The data of a server identifies it, not its name: a server that moved to another machine, or that two
agents know by different names, is the same one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TypeVar

import xxhash

from fieldmouse.cluster.coordinator import AckBatch, Coordinator, CrawlSpec, CrawlTotals, HeartbeatReply, ListedAgent
from fieldmouse.cluster.decoding import pack_urls, unpack_urls
from fieldmouse.errors import AgentFenced, AgentSuperseded, CoordinatorUnreachable, UsageError
from fieldmouse.policy.scope import site_for_limits
from fieldmouse.url import Host, hostname_of

T = TypeVar("T")


def _hash_to_shard(name: str, servers: int) -> int:
    return xxhash.xxh3_64_intdigest(name.encode()) % servers


@lru_cache(maxsize=1 << 15)
def shard_of_host(host: Host, servers: int) -> int:
    """Index of the server that has a host.

    >>> len({shard_of_host(Host(f"https://{n}.example.org"), 7) for n in range(99)})
    1
    >>> len({shard_of_host(Host(f"http://127.0.0.{n}:8080"), 7) for n in range(99)})
    7
    """
    return _hash_to_shard(site_for_limits(host) or hostname_of(host), servers)


def shard_of_address(address: str, servers: int) -> int:
    return _hash_to_shard(address, servers)


def group_by_shard(things: Iterable[T], shard_of: Callable[[T], int]) -> dict[int, list[T]]:
    """Group things by the index of their server, in the order in which the servers first come."""
    parts: dict[int, list[T]] = {}
    for thing in things:
        parts.setdefault(shard_of(thing), []).append(thing)
    return parts


def split_batch(told: AckBatch, servers: int) -> dict[int, tuple[list[int], AckBatch]]:
    """Split a batch of outcomes by server: the positions of its leases, and that part of the batch."""
    numbers = group_by_shard(range(len(told.acks)), lambda n: shard_of_host(told.acks[n].lease.host, servers))
    if len(numbers) == 1:
        return {place: (positions, told) for place, positions in numbers.items()}
    urls = PackedUrlGroups(told.urls, [len(booked.keys) for booked in told.acks])
    parts = {}
    for place, positions in sorted(numbers.items()):
        acks = [told.acks[number] for number in positions]
        parts[place] = (positions, AckBatch(acks, urls.pack_groups(positions), told.number))
    return parts


class PackedUrlGroups:
    """Packed URLs of several leases or hosts, of which each has one of the `counts`; may be empty."""

    def __init__(self, packed: bytes, counts: Iterable[int]):
        urls = iter(unpack_urls(packed) if packed else [])
        self._parts = [list(islice(urls, count)) for count in counts] if packed else None

    def pack_groups(self, numbers: Iterable[int]) -> bytes:
        """The URLs of some of them, packed again."""
        parts = self._parts
        return b"" if parts is None else pack_urls([url for number in numbers for url in parts[number]])


def sum_totals(books: Sequence[CrawlTotals]) -> CrawlTotals:
    """Sum of the totals of all servers. The crawl has begun when all of them have their seeds."""
    kinds = Counter[str]()
    for totals in books:
        kinds.update(totals.kinds)
    return CrawlTotals(
        seen=sum(totals.seen for totals in books),
        settled=sum(totals.settled for totals in books),
        waiting=sum(totals.waiting for totals in books),
        hosts=sum(totals.hosts for totals in books),
        started=all(totals.started for totals in books),
        age=max(totals.age for totals in books),
        kinds=dict(kinds),
        quarantined=sum(totals.quarantined for totals in books),
    )


def merge_agents(notes: Sequence[Sequence[ListedAgent]], *, whole: bool = True) -> list[ListedAgent]:
    """Agents as all servers together see them: an agent is alive if it is alive on each server.

    If the servers list only some agents (not `whole`), an agent missing on a server counts as the others
    report it: each server picks other agents for a turn.
    """
    by_agent: dict[str, list[ListedAgent]] = {}
    for listed in notes:
        for note in listed:
            by_agent.setdefault(note.agent, []).append(note)
    return [
        replace(
            max(seen, key=lambda note: (note.incarnation, -note.heartbeat_age)),
            alive=(len(seen) == len(notes) or not whole) and all(note.alive for note in seen),
            draining=any(note.draining for note in seen),
            heartbeat_age=max(note.heartbeat_age for note in seen),
            host_count=sum(note.host_count for note in seen),
        )
        for _, seen in sorted(by_agent.items())
    ]


def merge_heartbeat_replies(replies: Sequence[HeartbeatReply], books: CrawlTotals) -> HeartbeatReply:
    """Merge the heartbeat replies of all servers; `books` is the sum of their totals."""
    whole = all(reply.lists_all_agents for reply in replies)
    agents = merge_agents([reply.agents for reply in replies], whole=whole)
    return HeartbeatReply(
        totals=books,
        agents=agents,
        alive=sum(note.alive for note in agents) if whole else min(reply.alive for reply in replies),
        members=max(reply.members for reply in replies),
        last_listed=min(reply.last_listed for reply in replies),
        server_run=" ".join(reply.server_run for reply in replies),
        calm_seconds=max(reply.calm_seconds for reply in replies),
        draining=any(reply.draining for reply in replies),
        stop_reason=next((reply.stop_reason for reply in replies if reply.stop_reason), ""),
        scope_pages=list(dict.fromkeys(url for reply in replies for url in reply.scope_pages)),
    )


async def gather_all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return all answers when all calls have ended; raises if one of them did."""
    return raise_worst_error(await asyncio.gather(*calls, return_exceptions=True))


def raise_worst_error(answers: Sequence[T | BaseException]) -> list[T]:
    """Return the answers, or raise the most serious error: a superseded agent need not try again."""
    raised = [answer for answer in answers if isinstance(answer, BaseException)]
    if raised:
        raise min(raised, key=_error_rank)
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _error_rank(trouble: BaseException) -> int:
    # a superseded agent is fenced, too
    kinds = (AgentSuperseded, AgentFenced, CoordinatorUnreachable)
    return next((place for place, kind in enumerate(kinds, 1) if isinstance(trouble, kind)), 0)


_ALL = "name all of its servers with --coordinator, in any order, or start another crawl with --crawl NAME"


def shard_order(stored: Mapping[str, CrawlSpec | None], crawl: str) -> list[str] | None:
    """Servers in the order of their shards; None if some do not have the crawl (yet).

    `stored` has the specification stored on each named server. Raises a UsageError if these are not one
    whole crawl.
    """
    specs = {label: spec for label, spec in stored.items() if spec is not None}
    if not specs:
        return None
    first, spec = next(iter(specs.items()))
    for label, other in specs.items():
        if other.key_seed != spec.key_seed:
            raise UsageError(
                f"`{first}` and `{label}` have different crawls of the name `{crawl}`",
                "name the servers of one of them, or start another crawl with --crawl NAME",
            )
    servers = spec.servers or (first,)
    if len(servers) != len(stored):
        raise wrong_servers_error(crawl, servers, len(stored))
    places: dict[int, str] = {}
    for label, other in specs.items():
        twin = places.setdefault(other.place, label)
        if twin != label:
            raise same_server_error(twin, label)
    return [places[place] for place in range(len(servers))] if len(places) == len(servers) else None


async def check_distinct_servers(boards: Mapping[str, Coordinator]) -> None:
    """Raise if two of these are one server under two names: a crawl must not be created on it twice."""
    names: dict[str, str] = {}
    for label, identity in zip(
        boards, await gather_all([board.server_identity() for board in boards.values()]), strict=True
    ):
        twin = names.setdefault(identity, label)
        if twin != label:
            raise same_server_error(twin, label)


def same_server_error(twin: str, label: str) -> UsageError:
    return UsageError(f"`{twin}` and `{label}` are one server", "name each server once")


def check_not_sharded(spec: CrawlSpec, crawl: str) -> None:
    """Raise if the crawl of this server is sharded over others, too."""
    if len(spec.servers) > 1:
        raise wrong_servers_error(crawl, spec.servers, 1)


def wrong_servers_error(crawl: str, servers: Sequence[str], named: int) -> UsageError:
    lies = f"lies on {len(servers)} servers ({', '.join(servers)})"
    if len(servers) == 1:
        lies = f"lies on {servers[0]} alone"
    return UsageError(f"the crawl `{crawl}` {lies}, and {named} {'is' if named == 1 else 'are'} named", _ALL)
