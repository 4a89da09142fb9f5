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
        return {place: (positions, told) for place, positions in numbers.items()}
    urls = unpack_urls(told.urls) if told.urls else []
    starts = [0]
    for booked in told.bookings:
        starts.append(starts[-1] + len(booked.keys))
    parts: dict[int, tuple[list[int], Told]] = {}
    for place, positions in sorted(numbers.items()):
        bookings = [told.bookings[number] for number in positions]
        part_urls = [url for number in positions for url in urls[starts[number] : starts[number + 1]]]
        packed = pack_urls(part_urls) if told.urls else b""
        parts[place] = (positions, Told(bookings, packed, told.number))
    return parts


def summed(books: Sequence[BoardBooks]) -> BoardBooks:
    """Sum of the totals of all servers. The crawl has begun when all of them have their seeds."""
    kinds: dict[str, int] = {}
    for totals in books:
        for kind, count in totals.kinds.items():
            kinds[kind] = kinds.get(kind, 0) + count
    return BoardBooks(
        seen=sum(totals.seen for totals in books),
        settled=sum(totals.settled for totals in books),
        waiting=sum(totals.waiting for totals in books),
        hosts=sum(totals.hosts for totals in books),
        begun=all(totals.begun for totals in books),
        age=max(totals.age for totals in books),
        kinds=kinds,
        quarantined=sum(totals.quarantined for totals in books),
    )


def met(notes: Sequence[Sequence[AgentNote]], *, whole: bool = True) -> list[AgentNote]:
    """Agents as all servers together see them: an agent is alive if it is alive on each server.

    If the servers list only some agents (not `whole`), an agent missing on a server counts as the others
    report it: each server picks other agents for a turn.
    """
    by_agent: dict[str, list[AgentNote]] = {}
    for listed in notes:
        for note in listed:
            by_agent.setdefault(note.agent, []).append(note)
    return [
        replace(
            max(seen, key=lambda note: (note.incarnation, -note.seen_ago)),
            alive=(len(seen) == len(notes) or not whole) and all(note.alive for note in seen),
            draining=any(note.draining for note in seen),
            seen_ago=max(note.seen_ago for note in seen),
            hosts=sum(note.hosts for note in seen),
        )
        for _, seen in sorted(by_agent.items())
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
