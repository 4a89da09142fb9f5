"""Arguments of the scripts of a Redis coordinator.

Scripts take a flat list of arguments; seconds travel as milliseconds. `decoding` reads the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from math import ceil

from fieldmouse.cluster import rows as blocks
from fieldmouse.cluster.coordinator import (
    DamagedField,
    GivenBack,
    Heard,
    Held,
    Luggage,
    Offer,
    Row,
    Told,
)
from fieldmouse.cluster.rebuild import RestoredHost
from fieldmouse.cluster.redis.connection import Argument
from fieldmouse.url import Host

OFFER_LINKS = 1000
"""Links in one script call: a server that is busy with a script keeps all agents waiting."""
OFFER_BYTES = 2 << 20
"""Bytes of their rows: no block may be larger than `decoding` reads."""


def milliseconds(seconds: float) -> int:
    """Milliseconds, rounded up: too long a rest is better than too short a one."""
    return ceil(seconds * 1000)


def in_parts(offers: Sequence[Offer]) -> Iterator[list[Offer]]:
    """Split offers into groups of limited links and bytes; a long offer is cut."""
    part: list[Offer] = []
    links = size = 0
    for offer in offers:
        start = 0
        for place, (_, row) in enumerate(offer.links):
            if links == OFFER_LINKS or (links and size + len(row) > OFFER_BYTES):
                if place > start:
                    part.append(Offer(offer.host, offer.site, offer.links[start:place], offer.place))
                yield part
                part, links, size, start = [], 0, 0, place
            links, size = links + 1, size + len(row)
        if start < len(offer.links):
            part.append(Offer(offer.host, offer.site, offer.links[start:], offer.place))
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
    """The distinct kinds, and each list of kinds as a string of digits: indexes into them."""
    names = list(dict.fromkeys(chain.from_iterable(kinds)))
    digit = {kind: str(place) for place, kind in enumerate(names)}
    return names, ["".join([digit[kind] for kind in some]) for some in kinds]


def booked_words(told: Told) -> list[Argument]:
    names, digits = _digits([booked.kinds for booked in told.bookings])
    words: list[Argument] = [len(names), *names, told.urls, told.number, len(told.bookings)]
    for booked, kinds in zip(told.bookings, digits, strict=True):
        words += (booked.held.host, booked.held.epoch)
        words += (len(booked.keys), *map(blocks.decimal, booked.keys), kinds)
    return words


def restored_words(hosts: Sequence[RestoredHost], urls: bytes) -> list[Argument]:
    names, digits = _digits([kinds.kinds for kinds in hosts])
    words: list[Argument] = [len(names), *names, urls, len(hosts)]
    for host, kinds in zip(hosts, digits, strict=True):
        words += (host.host, host.site, len(host.keys), *map(blocks.decimal, host.keys), kinds)
    return words


def unsettled_words(host: Host, rows: Sequence[Row], kinds: Sequence[str]) -> tuple[Argument, ...]:
    """URLs of a host that wait again, and the kinds of their outcomes."""
    keys = [blocks.decimal(key) for key, _ in rows]
    return host, len(keys), *keys, len(kinds), *kinds, blocks.block(list(rows)) if rows else b""


def given_words(given: GivenBack) -> tuple[Argument, ...]:
    """A released host; the agents it excludes, each followed by milliseconds, come last."""
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


Unsettled = tuple[Host, Sequence[Row], Sequence[str]]
"""A host, URLs of it that shall wait again, and the kind of each outcome."""


def without(part: Unsettled, waiting: Collection[int]) -> Unsettled:
    """The same without some keys."""
    host, rows, kinds = part
    kept = [(row, kind) for row, kind in zip(rows, kinds, strict=True) if row[0] not in waiting]
    return host, [row for row, _ in kept], [kind for _, kind in kept]


def damaged_words(damaged: Mapping[Held, Sequence[DamagedField]]) -> list[Argument]:
    words: list[Argument] = [sum(map(len, damaged.values()))]
    for held, values in damaged.items():
        for each in values:
            keys = map(blocks.decimal, each.keys)
            words += (held.host, held.epoch, each.field, each.why[:500], len(each.keys), *keys, each.value)
    return words
