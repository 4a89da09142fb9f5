"""Servers of a sharded crawl, fixed when it is created and stored on each of them.

The data of a server identifies it, not its name: a server that moved to another machine, or that two
agents know by different names, is the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fieldmouse.cluster.coordinator import Coordinator, CrawlSpec
from fieldmouse.cluster.errors import shard_missing_error
from fieldmouse.cluster.sharded.sharding import gather_all
from fieldmouse.errors import UsageError

_ALL = "name all of its servers with --coordinator, in any order, or start another crawl with --crawl NAME"


def shard_order(stored: Mapping[str, CrawlSpec | None], crawl: str) -> list[str] | None:
    """Servers in the order of their shards; None if some do not have the crawl (yet).

    `stored` has the specification stored on each named server. Raises a UsageError if these are not one
    whole crawl.
    """
    charters = {label: charter for label, charter in stored.items() if charter is not None}
    if not charters:
        return None
    first, charter = next(iter(charters.items()))
    for label, other in charters.items():
        if other.key_seed != charter.key_seed:
            raise UsageError(
                f"`{first}` and `{label}` have different crawls of the name `{crawl}`",
                "name the servers of one of them, or start another crawl with --crawl NAME",
            )
    servers = charter.servers or (first,)
    if len(servers) != len(stored):
        raise wrong_servers_error(crawl, servers, len(stored))
    places: dict[int, str] = {}
    for label, other in charters.items():
        twin = places.setdefault(other.place, label)
        if twin != label:
            raise same_server_error(twin, label)
    return [places[place] for place in range(len(servers))] if len(places) == len(servers) else None


async def create_crawl_on(
    boards: Mapping[str, Coordinator], stored: Mapping[str, CrawlSpec | None], charter: CrawlSpec, crawl: str
) -> None:
    """Create a crawl on the servers that lack it. A specification found on one of them takes precedence.

    All creators visit the servers in the same order, so all of them find the specification of the first
    one.
    """
    shard_order(stored, crawl)
    there = [other for other in stored.values() if other is not None]
    charter = there[0] if there else replace(charter, servers=tuple(sorted(boards)))
    free = sorted({*range(len(boards))} - {other.place for other in there})
    strangers = sorted(label for label, other in stored.items() if other is None)
    for label in strangers:
        if label not in charter.servers:  # another agent created it on other servers just now
            raise shard_missing_error(crawl, [label])
    for place, label in zip(free, strangers, strict=True):
        charter = await boards[label].create_crawl(replace(charter, place=place))


async def check_distinct_servers(boards: Mapping[str, Coordinator]) -> None:
    """Raise if two of these are one server under two names: a crawl must not be created on it twice."""
    names: dict[str, str] = {}
    for label, identity in zip(
        boards, await gather_all([board.server_id() for board in boards.values()]), strict=True
    ):
        twin = names.setdefault(identity, label)
        if twin != label:
            raise same_server_error(twin, label)


def without_servers(charter: CrawlSpec | None) -> CrawlSpec | None:
    """The specification without the servers, as agents see it."""
    return None if charter is None else replace(charter, servers=(), place=0)


def same_server_error(twin: str, label: str) -> UsageError:
    return UsageError(f"`{twin}` and `{label}` are one server", "name each server once")


def check_not_sharded(charter: CrawlSpec, crawl: str) -> None:
    """Raise if the crawl of this server is sharded over others, too."""
    if len(charter.servers) > 1:
        raise wrong_servers_error(crawl, charter.servers, 1)


def wrong_servers_error(crawl: str, servers: Sequence[str], named: int) -> UsageError:
    lies = f"lies on {len(servers)} servers ({', '.join(servers)})"
    if len(servers) == 1:
        lies = f"lies on {servers[0]} alone"
    return UsageError(f"the crawl `{crawl}` {lies}, and {named} {'is' if named == 1 else 'are'} named", _ALL)
