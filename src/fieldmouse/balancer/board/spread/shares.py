"""Sharding of a crawl over several servers, and merging of their answers.

A host lies with all others of its site, so that limits on a site are counted on one server. Hosts that
share no limit (IP addresses, `.test`) are sharded one by one. An address is sharded by its own text,
whichever hosts it has. The servers of a crawl never change, so a hash is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import xxhash

from fieldmouse.balancer.board.contract import AgentNote, BoardBooks, Pulse, Told
from fieldmouse.balancer.board.rows import pack_urls, unpack_urls
from fieldmouse.policy.sitelimits import limited_site
from fieldmouse.url import Host, name_of


def _place(name: str, servers: int) -> int:
    return xxhash.xxh3_64_intdigest(name.encode()) % servers


@lru_cache(maxsize=1 << 15)
def place_of_host(host: Host, servers: int) -> int:
    """Index of the server that has a host.

    >>> len({place_of_host(Host(f"https://{n}.example.org"), 7) for n in range(99)})
    1
    >>> len({place_of_host(Host(f"http://127.0.0.{n}:8080"), 7) for n in range(99)})
    7
    """
    return _place(limited_site(host) or name_of(host), servers)


def place_of_address(address: str, servers: int) -> int:
    return _place(address, servers)


def shared_out(told: Told, servers: int) -> dict[int, tuple[list[int], Told]]:
    """Split a batch of outcomes by server: the positions of its leases, and that part of the batch."""
    numbers: dict[int, list[int]] = {}
    for number, booked in enumerate(told.bookings):
        numbers.setdefault(place_of_host(booked.held.host, servers), []).append(number)
    if len(numbers) == 1:
        return {place: (its, told) for place, its in numbers.items()}
    urls = unpack_urls(told.urls) if told.urls else []
    starts = [0]
    for booked in told.bookings:
        starts.append(starts[-1] + len(booked.keys))
    parts: dict[int, tuple[list[int], Told]] = {}
    for place, its in sorted(numbers.items()):
        bookings = [told.bookings[number] for number in its]
        mine = [url for number in its for url in urls[starts[number] : starts[number + 1]]]
        packed = pack_urls(mine) if told.urls else b""
        parts[place] = (its, Told(bookings, packed, told.number))
    return parts


def summed(books: Sequence[BoardBooks]) -> BoardBooks:
    """Sum of the totals of all servers. The crawl has begun when all of them have their seeds."""
    kinds: dict[str, int] = {}
    for its in books:
        for kind, count in its.kinds.items():
            kinds[kind] = kinds.get(kind, 0) + count
    return BoardBooks(
        seen=sum(its.seen for its in books),
        settled=sum(its.settled for its in books),
        waiting=sum(its.waiting for its in books),
        hosts=sum(its.hosts for its in books),
        begun=all(its.begun for its in books),
        age=max(its.age for its in books),
        kinds=kinds,
        quarantined=sum(its.quarantined for its in books),
    )


def met(notes: Sequence[Sequence[AgentNote]], *, whole: bool = True) -> list[AgentNote]:
    """Agents as all servers together see them: an agent is alive if it is alive on each server.

    If the servers list only some agents (not `whole`), an agent missing on a server counts as the others
    report it: each server picks other agents for a turn.
    """
    by_agent: dict[str, list[AgentNote]] = {}
    for its in notes:
        for note in its:
            by_agent.setdefault(note.agent, []).append(note)
    return [
        replace(
            max(known, key=lambda note: (note.incarnation, -note.seen_ago)),
            alive=(len(known) == len(notes) or not whole) and all(note.alive for note in known),
            draining=any(note.draining for note in known),
            seen_ago=max(note.seen_ago for note in known),
            hosts=sum(note.hosts for note in known),
        )
        for _, known in sorted(by_agent.items())
    ]


def in_one(pulses: Sequence[Pulse], books: BoardBooks) -> Pulse:
    """Merge the heartbeat replies of all servers; `books` is the sum of their totals."""
    whole = all(pulse.whole for pulse in pulses)
    agents = met([pulse.agents for pulse in pulses], whole=whole)
    return Pulse(
        books=books,
        agents=agents,
        alive=sum(note.alive for note in agents) if whole else min(pulse.alive for pulse in pulses),
        members=max(pulse.members for pulse in pulses),
        upto=min(pulse.upto for pulse in pulses),
        run=" ".join(pulse.run for pulse in pulses),
        calm=max(pulse.calm for pulse in pulses),
        draining=any(pulse.draining for pulse in pulses),
        over=next((pulse.over for pulse in pulses if pulse.over), ""),
        joined=list(dict.fromkeys(url for pulse in pulses for url in pulse.joined)),
    )
