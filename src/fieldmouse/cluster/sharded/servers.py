"""Servers of a sharded crawl, fixed when it is created and stored on each of them.

The data of a server identifies it, not its name: a server that moved to another machine, or that two
agents know by different names, is the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fieldmouse.cluster.coordinator import Board, Charter
from fieldmouse.cluster.errors import missing
from fieldmouse.cluster.sharded.sharding import together
from fieldmouse.errors import UsageError

_ALL = "name all of its servers with --coordinator, in any order, or start another crawl with --crawl NAME"


def order_of(stored: Mapping[str, Charter | None], crawl: str) -> list[str] | None:
    """Servers in the order of their shards; None if some do not have the crawl (yet).

    `known` has the specification stored on each named server. Raises a UsageError if these are not one
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
        raise other_servers(crawl, servers, len(stored))
    places: dict[int, str] = {}
    for label, other in charters.items():
        twin = places.setdefault(other.place, label)
        if twin != label:
            raise one_server(twin, label)
    return [places[place] for place in range(len(servers))] if len(places) == len(servers) else None


async def found_on(
    boards: Mapping[str, Board], stored: Mapping[str, Charter | None], charter: Charter, crawl: str
) -> None:
    """Create a crawl on the servers that lack it. A specification found on one of them takes precedence.

    All creators visit the servers in the same order, so all of them find the specification of the first
    one.
    """
    order_of(stored, crawl)
    there = [other for other in stored.values() if other is not None]
    charter = there[0] if there else replace(charter, servers=tuple(sorted(boards)))
    free = sorted({*range(len(boards))} - {other.place for other in there})
    strangers = sorted(label for label, other in stored.items() if other is None)
    for label in strangers:
        if label not in charter.servers:  # another agent created it on other servers just now
            raise missing(crawl, [label])
    for place, label in zip(free, strangers, strict=True):
        charter = await boards[label].found(replace(charter, place=place))


async def check_apart(boards: Mapping[str, Board]) -> None:
    """Raise if two of these are one server under two names: a crawl must not be created on it twice."""
    names: dict[str, str] = {}
    for label, identity in zip(
        boards, await together([board.identity() for board in boards.values()]), strict=True
    ):
        twin = names.setdefault(identity, label)
        if twin != label:
            raise one_server(twin, label)


def whole(charter: Charter | None) -> Charter | None:
    """The specification without the servers, as agents see it."""
    return None if charter is None else replace(charter, servers=(), place=0)


def one_server(twin: str, label: str) -> UsageError:
    return UsageError(f"`{twin}` and `{label}` are one server", "name each server once")


def check_whole(charter: Charter, crawl: str) -> None:
    """Raise if the crawl of this server is sharded over others, too."""
    if len(charter.servers) > 1:
        raise other_servers(crawl, charter.servers, 1)


def other_servers(crawl: str, servers: Sequence[str], named: int) -> UsageError:
    lies = f"lies on {len(servers)} servers ({', '.join(servers)})"
    if len(servers) == 1:
        lies = f"lies on {servers[0]} alone"
    return UsageError(f"the crawl `{crawl}` {lies}, and {named} {'is' if named == 1 else 'are'} named", _ALL)
