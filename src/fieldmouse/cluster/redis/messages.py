"""Arguments of the scripts of a Redis coordinator.

Scripts take a flat list of arguments; seconds travel as milliseconds. `decoding` reads the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from math import ceil

from fieldmouse.cluster import rows as blocks
from fieldmouse.cluster.coordinator import (
    AckBatch,
    DamagedField,
    HeartbeatMark,
    HostPayload,
    LeaseId,
    LinkOffer,
    ReleasedHost,
    Row,
)
from fieldmouse.cluster.rebuild import RestoredHost
from fieldmouse.cluster.redis.connection import ScriptArgument
from fieldmouse.url import Host

OFFER_LINKS = 1000
"""Links in one script call: a server that is busy with a script keeps all agents waiting."""
OFFER_BYTES = 2 << 20
"""Bytes of their rows: no block may be larger than `decoding` reads."""


def milliseconds(seconds: float) -> int:
    """Milliseconds, rounded up: too long a rest is better than too short a one."""
    return ceil(seconds * 1000)


def split_offers(offers: Sequence[LinkOffer]) -> Iterator[list[LinkOffer]]:
    """Split offers into groups of limited links and bytes; a long offer is cut."""
    part: list[LinkOffer] = []
    links = size = 0
    for offer in offers:
        start = 0
        for place, (_, row) in enumerate(offer.links):
            if links == OFFER_LINKS or (links and size + len(row) > OFFER_BYTES):
                if place > start:
                    part.append(LinkOffer(offer.host, offer.site, offer.links[start:place], offer.agent))
                yield part
                part, links, size, start = [], 0, 0, place
            links, size = links + 1, size + len(row)
        if start < len(offer.links):
            part.append(LinkOffer(offer.host, offer.site, offer.links[start:], offer.agent))
    yield part


def payload_args(luggage: HostPayload) -> tuple[ScriptArgument, ...]:
    return (
        luggage.state,
        milliseconds(luggage.rest),
        milliseconds(luggage.delay),
        luggage.policy_data,
        blocks.compress_text(luggage.robots_txt),
        milliseconds(luggage.robots_txt_seconds),
    )


def heartbeat_mark_args(heard: HeartbeatMark) -> tuple[ScriptArgument, ...]:
    return heard.agent, heard.incarnation, heard.number


def row_args(rows: Sequence[Row]) -> tuple[ScriptArgument, ...]:
    """A block of rows, and their keys."""
    once = dict(rows)
    return blocks.encode_block(list(once.items())), len(once), *map(blocks.signed_key, once)


def _digits(kinds: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """The distinct kinds, and each list of kinds as a string of digits: indexes into them."""
    names = list(dict.fromkeys(chain.from_iterable(kinds)))
    digit = {kind: str(place) for place, kind in enumerate(names)}
    return names, ["".join([digit[kind] for kind in some]) for some in kinds]


def ack_args(told: AckBatch) -> list[ScriptArgument]:
    names, digits = _digits([booked.kinds for booked in told.acks])
    words: list[ScriptArgument] = [len(names), *names, told.urls, told.number, len(told.acks)]
    for booked, kinds in zip(told.acks, digits, strict=True):
        words += (booked.lease.host, booked.lease.epoch)
        words += (len(booked.keys), *map(blocks.signed_key, booked.keys), kinds)
    return words


def restore_args(hosts: Sequence[RestoredHost], urls: bytes) -> list[ScriptArgument]:
    names, digits = _digits([kinds.kinds for kinds in hosts])
    words: list[ScriptArgument] = [len(names), *names, urls, len(hosts)]
    for host, kinds in zip(hosts, digits, strict=True):
        words += (host.host, host.site, len(host.keys), *map(blocks.signed_key, host.keys), kinds)
    return words


def requeue_args(host: Host, rows: Sequence[Row], kinds: Sequence[str]) -> tuple[ScriptArgument, ...]:
    """URLs of a host that wait again, and the kinds of their outcomes."""
    keys = [blocks.signed_key(key) for key, _ in rows]
    return host, len(keys), *keys, len(kinds), *kinds, blocks.encode_block(list(rows)) if rows else b""


def release_args(given: ReleasedHost) -> tuple[ScriptArgument, ...]:
    """A released host; the agents it excludes, each followed by milliseconds, come last."""
    shunned = [word for who, left in given.excluded_agents.items() for word in (who, milliseconds(left))]
    return (
        given.lease.host,
        given.lease.epoch,
        given.next_agent,
        *payload_args(given.payload),
        *row_args(given.unvisited),
        len(shunned),
        *shunned,
    )


RequeuedUrls = tuple[Host, Sequence[Row], Sequence[str]]
"""A host, URLs of it that shall wait again, and the kind of each outcome."""


def without_keys(part: RequeuedUrls, waiting: Collection[int]) -> RequeuedUrls:
    """The same without some keys."""
    host, rows, kinds = part
    kept = [(row, kind) for row, kind in zip(rows, kinds, strict=True) if row[0] not in waiting]
    return host, [row for row, _ in kept], [kind for _, kind in kept]


def quarantine_args(damaged: Mapping[LeaseId, Sequence[DamagedField]]) -> list[ScriptArgument]:
    words: list[ScriptArgument] = [sum(map(len, damaged.values()))]
    for held, values in damaged.items():
        for each in values:
            keys = map(blocks.signed_key, each.keys)
            words += (held.host, held.epoch, each.field, each.reason[:500], len(each.keys), *keys, each.value)
    return words
