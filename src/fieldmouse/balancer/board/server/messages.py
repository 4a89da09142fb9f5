"""How calls and answers look on their way to a Redis board and back.

Scripts take words one after the other and answer with nested lists; seconds travel as milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from fieldmouse.balancer.board import blocks
from fieldmouse.balancer.board.contract import AgentNote, BoardBooks, Grant, Luggage, Offer, Row
from fieldmouse.balancer.board.server.connect import Argument
from fieldmouse.url import Host

OFFER_LINKS = 1000
"""Links a script takes at once: a server that is busy with one keeps all agents waiting."""


def milliseconds(seconds: float) -> int:
    """Milliseconds, rounded up: a rest is rather too long than too short."""
    return ceil(seconds * 1000)


def in_parts(offers: Sequence[Offer]) -> Iterator[list[Offer]]:
    """Offers in groups with not too many links each; a long one is cut."""
    part: list[Offer] = []
    room = OFFER_LINKS
    for offer in offers:
        for start in range(0, len(offer.links), OFFER_LINKS):
            links = offer.links[start : start + OFFER_LINKS]
            if part and len(links) > room:
                yield part
                part, room = [], OFFER_LINKS
            part.append(Offer(offer.host, offer.site, links, offer.place))
            room -= len(links)
    yield part


def luggage_words(luggage: Luggage) -> tuple[Argument, ...]:
    return (
        luggage.state,
        milliseconds(luggage.rest),
        milliseconds(luggage.delay),
        luggage.learned,
        blocks.packed_text(luggage.robots_txt),
        milliseconds(luggage.robots_txt_rest),
    )


def row_words(rows: Sequence[Row]) -> tuple[Argument, ...]:
    """A block of rows, and their keys."""
    once = dict(rows)
    return blocks.block(list(once.items())), len(once), *map(blocks.decimal, once)


def grant_of(told: Any) -> Grant:
    host, epoch, left, rest, delay, state, learned, robots_txt, robots_rest, blobs = told
    luggage = Luggage(
        state=state,
        rest=rest / 1000,
        delay=int(delay) / 1000,
        learned=learned,
        robots_txt=blocks.unpacked_text(robots_txt),
        robots_txt_rest=robots_rest / 1000,
    )
    return Grant(Host(host.decode()), int(epoch), blocks.all_rows(blobs), luggage, left)


def books_of(sums: Any, kinds: list[bytes]) -> BoardBooks:
    seen, settled, hosts, begun, age = sums[:5]
    return BoardBooks(
        seen=seen,
        settled=settled,
        waiting=seen - settled,
        hosts=hosts,
        begun=bool(begun),
        age=age / 1000,
        kinds={kind.decode(): int(count) for kind, count in pairs(kinds) if int(count)},
    )


def notes_of(agents: Any) -> list[AgentNote]:
    notes = [
        AgentNote(agent.decode(), int(start), bool(alive), bool(draining), advert, ago / 1000, hosts)
        for agent, start, alive, draining, advert, ago, hosts in agents
    ]
    return sorted(notes, key=lambda note: note.agent)


def pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
