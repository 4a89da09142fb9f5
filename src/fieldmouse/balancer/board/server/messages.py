"""How calls and answers look on their way to a Redis board and back.

Scripts take words one after the other and answer with nested lists; seconds travel as milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from math import ceil
from struct import error as StructError
from typing import Any

from msgspec import MsgspecError
from zstandard import ZstdError

from fieldmouse.balancer.board import blocks
from fieldmouse.balancer.board.again import BookedAgain
from fieldmouse.balancer.board.contract import (
    AddressAnswer,
    AgentNote,
    BoardBooks,
    GivenBack,
    Grant,
    Heard,
    Held,
    Luggage,
    Offer,
    Offered,
    Pulse,
    Row,
    Told,
)
from fieldmouse.balancer.board.pagelimit import PageCount
from fieldmouse.balancer.board.rebuilding import RestoredHost
from fieldmouse.balancer.board.server.connect import Argument
from fieldmouse.url import Host

OFFER_LINKS = 1000
"""Links a script takes at once: a server that is busy with one keeps all agents waiting."""

UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, StructError, MsgspecError, ZstdError)
"""What reading an answer raises that is none of our scripts', or speaks of data that we did not write."""


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


def heard_words(heard: Heard) -> tuple[Argument, ...]:
    return heard.agent, heard.incarnation, heard.number


def row_words(rows: Sequence[Row]) -> tuple[Argument, ...]:
    """A block of rows, and their keys."""
    once = dict(rows)
    return blocks.block(list(once.items())), len(once), *map(blocks.decimal, once)


def _digits(kinds: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """Kinds, each once, and for each list of them a digit for each: its place among those."""
    names = list(dict.fromkeys(chain.from_iterable(kinds)))
    digit = {kind: str(place) for place, kind in enumerate(names)}
    return names, ["".join([digit[kind] for kind in some]) for some in kinds]


def booked_words(told: Told) -> list[Argument]:
    names, digits = _digits([booked.kinds for booked in told.bookings])
    words: list[Argument] = [len(names), *names, told.urls, told.number, len(told.bookings)]
    for booked, its in zip(told.bookings, digits, strict=True):
        words += (booked.held.host, booked.held.epoch)
        words += (len(booked.keys), *map(blocks.decimal, booked.keys), its)
    return words


def restored_words(hosts: Sequence[RestoredHost], urls: bytes) -> list[Argument]:
    names, digits = _digits([its.kinds for its in hosts])
    words: list[Argument] = [len(names), *names, urls, len(hosts)]
    for host, its in zip(hosts, digits, strict=True):
        words += (host.host, host.site, len(host.keys), *map(blocks.decimal, host.keys), its)
    return words


def unsettled_words(host: Host, rows: Sequence[Row], kinds: Sequence[str]) -> tuple[Argument, ...]:
    """URLs of a host that wait again, and what they were."""
    keys = [blocks.decimal(key) for key, _ in rows]
    return host, len(keys), *keys, len(kinds), *kinds, blocks.block(list(rows)) if rows else b""


def given_words(given: GivenBack) -> tuple[Argument, ...]:
    """A host that is let go; whom it shuns and for how many milliseconds, in turn, come last."""
    shunned = [word for who, left in given.shunned.items() for word in (who, milliseconds(left))]
    return (
        given.held.host,
        given.held.epoch,
        given.place,
        *luggage_words(given.luggage),
        *row_words(given.unused),
        len(shunned),
        *shunned,
    )


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


def grants_of(told: Any) -> tuple[list[Grant], int]:
    """Grants, and whether all that the dead had is swept up."""
    grants, swept = told
    return [grant_of(grant) for grant in grants], swept


def more_of(told: Any, held: Sequence[Held]) -> list[Grant]:
    return [
        grant_of(grant) if grant else Grant(each.host, each.epoch, ())
        for grant, each in zip(told, held, strict=True)
    ]


def offered_of(told: Any) -> tuple[Offered, list[bytes]]:
    """What became of offers, and the hosts whose queues should be packed."""
    new, hosts, urls, raw = told
    return Offered(int(new), int(hosts), int(urls)), raw


def stranded_of(told: Any) -> tuple[str, int, list[Host], int]:
    """Where to go on, how many hosts are stranded, some of them, and how many were repaired."""
    cursor, count, hosts, repaired = told
    return cursor.decode(), int(count), [Host(host.decode()) for host in hosts], int(repaired)


def holdings_of(told: Any) -> tuple[set[Held], set[Held]]:
    """The leases of hosts that an agent holds, and those under which it owes anything."""
    hosts, debts = told
    holds = {Held(Host(host.decode()), int(epoch)) for host, epoch in _pairs(hosts)}
    owes = {Held(Host(debt.split(b" ", 2)[2].decode()), int(epoch)) for epoch, debt in _pairs(debts)}
    return holds, owes


def answers_of(told: Any, asks: int) -> list[AddressAnswer]:
    answers = [AddressAnswer(bool(granted), rest / 1000, holder.decode()) for granted, rest, holder in told]
    if len(answers) != asks:
        raise ValueError(f"{len(answers)} answers to {asks} questions")
    return answers


def kept_of(told: Any, taken_back: Counter[int], key_seed: int) -> tuple[bytes, BookedAgain]:
    """What was booked at once, and a digest of it."""
    mask, names, digits, urls, digest = told
    kinds = [names[int(digit)].decode() for digit in digits.decode()]
    return digest, BookedAgain(urls, [its == ord("1") for its in mask], kinds, taken_back, key_seed)


Unsettled = tuple[Host, Sequence[Row], Sequence[str]]
"""A host, URLs of it that are to wait again, and of which kind the outcome of each was."""


def without(part: Unsettled, waiting: Collection[int]) -> Unsettled:
    """The same but for some keys."""
    host, rows, kinds = part
    kept = [(row, kind) for row, kind in zip(rows, kinds, strict=True) if row[0] not in waiting]
    return host, [row for row, _ in kept], [kind for _, kind in kept]


def keys_of(told: Any) -> set[int]:
    """Keys, which a server has with a sign."""
    return {int(key) % (1 << 64) for key in told}


def taken_of(told: Any) -> Counter[int]:
    """Keys that an agent has taken back, and how often."""
    return Counter({int(key) % (1 << 64): int(count) for key, count in _pairs(told)})


def books_of(told: Any) -> BoardBooks:
    (seen, settled, hosts, begun, age, *_), kinds, _ = told
    return BoardBooks(
        seen=seen,
        settled=settled,
        waiting=seen - settled,
        hosts=hosts,
        begun=bool(begun),
        age=age / 1000,
        kinds={kind.decode(): int(count) for kind, count in _pairs(kinds) if int(count)},
    )


def count_of(told: Any) -> PageCount:
    booked, calm = told
    return PageCount(int(booked), bool(calm))


def agents_of(told: Any) -> list[AgentNote]:
    """Those in an answer that has the books, too."""
    _, _, agents = told
    return notes_of(agents)


def notes_of(agents: Any) -> list[AgentNote]:
    notes = [
        AgentNote(agent.decode(), int(start), bool(alive), bool(draining), advert, ago / 1000, hosts)
        for agent, start, alive, draining, advert, ago, hosts in agents
    ]
    return sorted(notes, key=lambda note: note.agent)


def pulse_of(told: Any) -> tuple[Pulse, int]:
    """The answer to a sign of life, and whether all that the dead had is swept up."""
    looked, draining, swept, alive, members, upto = told
    *_, over, calm, run = looked[0]
    return Pulse(
        books=books_of(looked),
        agents=agents_of(looked),
        alive=alive,
        members=members,
        upto=upto.decode(),
        run=run.decode(),
        calm=calm / 1000,
        draining=bool(draining),
        over=over.decode(),
    ), swept


def _pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
