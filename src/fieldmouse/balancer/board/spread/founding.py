"""Which servers a crawl lies on. That is settled when it is founded, and written on each of them.

What counts is what a server has, not what it is called: a server that moved to another machine, or that
one agent knows by a name and another by its address, is the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fieldmouse.balancer.board.contract import Board, Charter
from fieldmouse.balancer.board.refusals import missing
from fieldmouse.balancer.board.spread.gathering import together
from fieldmouse.errors import UsageError

_ALL = "name all of its servers with --coordinator, in any order, or begin another crawl with --crawl NAME"


def order_of(known: Mapping[str, Charter | None], crawl: str) -> list[str] | None:
    """The servers in the order of their places; None if some do not know the crawl (yet).

    `known` has what stands on each server that was named. Raises a UsageError if that is not one whole crawl.
    """
    charters = {label: charter for label, charter in known.items() if charter is not None}
    if not charters:
        return None
    first, charter = next(iter(charters.items()))
    for label, its in charters.items():
        if its.key_seed != charter.key_seed:
            raise UsageError(
                f"`{first}` and `{label}` have different crawls of the name `{crawl}`",
                "name the servers of one of them, or begin another crawl with --crawl NAME",
            )
    servers = charter.servers or (first,)
    if len(servers) != len(known):
        raise other_servers(crawl, servers, len(known))
    places: dict[int, str] = {}
    for label, its in charters.items():
        twin = places.setdefault(its.place, label)
        if twin != label:
            raise one_server(twin, label)
    return [places[place] for place in range(len(servers))] if len(places) == len(servers) else None


async def found_on(
    boards: Mapping[str, Board], known: Mapping[str, Charter | None], charter: Charter, crawl: str
) -> None:
    """Found a crawl on servers that do not know it. What stands on one of them already counts.

    All founders come to the servers in the same order, so what the first one finds there all others find.
    """
    order_of(known, crawl)
    there = [its for its in known.values() if its is not None]
    charter = there[0] if there else replace(charter, servers=tuple(sorted(boards)))
    free = sorted({*range(len(boards))} - {its.place for its in there})
    strangers = sorted(label for label, its in known.items() if its is None)
    for label in strangers:
        if label not in charter.servers:  # somebody else began it on other servers just now
            raise missing(crawl, [label])
    for place, label in zip(free, strangers, strict=True):
        charter = await boards[label].found(replace(charter, place=place))


async def check_apart(boards: Mapping[str, Board]) -> None:
    """Raise if two of these are one server under two names: nothing may be founded on it twice."""
    names: dict[str, str] = {}
    for label, identity in zip(
        boards, await together([board.identity() for board in boards.values()]), strict=True
    ):
        twin = names.setdefault(identity, label)
        if twin != label:
            raise one_server(twin, label)


def whole(charter: Charter | None) -> Charter | None:
    """As agents know it, on however many servers it lies."""
    return None if charter is None else replace(charter, servers=(), place=0)


def one_server(twin: str, label: str) -> UsageError:
    return UsageError(f"`{twin}` and `{label}` are one server", "name each server once")


def check_whole(charter: Charter, crawl: str) -> None:
    """Raise if the crawl on a server lies on others, too."""
    if len(charter.servers) > 1:
        raise other_servers(crawl, charter.servers, 1)


def other_servers(crawl: str, servers: Sequence[str], named: int) -> UsageError:
    lies = f"lies on {len(servers)} servers ({', '.join(servers)})"
    if len(servers) == 1:
        lies = f"lies on {servers[0]} alone"
    return UsageError(f"the crawl `{crawl}` {lies}, and {named} {'is' if named == 1 else 'are'} named", _ALL)
