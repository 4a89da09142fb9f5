"""Bounded reading of the replies of scripts and commands, built on `decoding`.

A reply is nested lists. Its shape, counts and numbers are checked here, its values by `decoding`. A
foreign reply raises `DamagedValue`. Damage within an otherwise readable reply costs one part of it: a
host, an agent, a block of rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fieldmouse.cluster.coordinator import (
    AddressAnswer,
    AgentNote,
    BoardBooks,
    DamagedField,
    Grant,
    Held,
    Luggage,
    Offered,
    PageCount,
    Pulse,
    Row,
)
from fieldmouse.cluster.decoding import (
    MOST_ADVERT,
    MOST_AGENTS_TOLD,
    MOST_BLOCK,
    MOST_KEPT,
    MOST_NUMBER,
    MOST_REPLY_ROWS,
    MOST_ROW,
    MOST_STATE,
    DamagedValue,
    agent_name,
    flag,
    host_name,
    items,
    keys_in,
    octets,
    pairs,
    robots_txt_of,
    rows_in,
    seconds,
    text,
    whole,
)
from fieldmouse.url import Host, Url, parse

_WRAP = 1 << 64


@dataclass(frozen=True, slots=True)
class GrantsReply:
    """Answer to a request for hosts."""

    grants: list[Grant]
    swept: int  # 1 if all leases of fenced agents are released
    surplus: list[tuple[bytes, int]]  # hosts and epochs beyond the byte limit: they go back
    strange: list[tuple[bytes, int, str]]  # values that are no hosts, their epochs, and the reason


def grants_of(answer: Any) -> GrantsReply:
    granted, swept = items(answer, "grants", 2, 2)
    result = GrantsReply([], whole(swept, "swept", 0, 1), [], [])
    room = MOST_REPLY_ROWS
    for each in items(granted, "grants", 1 << 16):
        host, epoch, *_ = items(each, "grant", 10, 10)
        name, number = octets(host, "host", 1024), whole(epoch, "epoch", 1)
        if room <= 0:
            result.surplus.append((name, number))
            continue
        try:
            grant = grant_of(each)
        except DamagedValue as trouble:
            result.strange.append((name, number, str(trouble)))
            continue
        room -= sum(len(row) + 64 for _, row in grant.rows) + len(grant.luggage.robots_txt)
        result.grants.append(grant)
    return result


def more_of(reply: Any, held: Sequence[Held]) -> list[Grant]:
    """More rows of held hosts; a host that is no longer held has none."""
    grants = []
    for answer, each in zip(items(reply, "grants", len(held), len(held)), held, strict=True):
        grant = grant_of(answer) if isinstance(answer, list) else Grant(each.host, each.epoch, ())
        if (grant.host, grant.epoch) != (each.host, each.epoch):
            raise DamagedValue("grants", f"{each.host} was asked for, and {grant.host} granted")
        grants.append(grant)
    return grants


def grant_of(reply: Any) -> Grant:
    """A grant; its damaged values are in `damaged`."""
    host, epoch, left, rest, delay, state, learned, robots_txt, robots_rest, blobs = items(
        reply, "grant", 10, 10
    )
    damaged: list[DamagedField] = []
    rows: list[Row] = []
    text = b""
    try:
        text = robots_txt_of(robots_txt)
    except DamagedValue as trouble:
        damaged.append(DamagedField("rt", str(trouble)))
    luggage = Luggage(
        state=octets(state, "state", MOST_STATE),
        rest=seconds(rest, "rest"),
        delay=seconds(delay, "delay"),
        learned=octets(learned, "learned", MOST_STATE),
        robots_txt=text,
        robots_txt_rest=seconds(robots_rest, "rest of robots.txt"),
    )
    for blob in items(blobs, "blocks of rows", 1 << 12):
        try:
            rows += rows_in(blob)
        except DamagedValue as trouble:
            value = blob[: 1 << 16] if isinstance(blob, bytes) else b""
            damaged.append(DamagedField("rows", str(trouble), tuple(_keys_or_none(blob)), value))
    return Grant(
        host_name(host), whole(epoch, "epoch", 1), rows, luggage, whole(left, "rows left"), tuple(damaged)
    )


def _keys_or_none(blob: Any) -> list[int]:
    try:
        return keys_in(blob)
    except DamagedValue:
        return []


def offered_of(reply: Any) -> tuple[Offered, list[bytes]]:
    """Result of offers, and the hosts whose queues should be compressed."""
    new, hosts, urls, raw = items(reply, "offered", 4, 4)
    counts = Offered(whole(new, "new"), whole(hosts, "hosts"), whole(urls, "URLs"))
    return counts, [octets(host, "host", 320) for host in items(raw, "hosts", 1 << 16)]


def stranded_of(reply: Any) -> tuple[str, int, list[Host], int]:
    """Next cursor, number of stranded hosts, some of their names, and number of repaired hosts.

    The names are only for people, so a damaged name does not hide the others.
    """
    cursor, count, hosts, repaired = items(reply, "stranded", 4, 4)
    names = [octets(host, "host", 1 << 16)[:320] for host in items(hosts, "hosts", 1 << 18)]
    shown = [Host(name.decode(errors="replace")) for name in names]
    return text(cursor, "cursor", 20), whole(count, "count"), shown, whole(repaired, "repaired")


def tails_of(reply: Any, hosts: int) -> list[tuple[list[bytes], bytes]]:
    """For each host the blocks at the end of its queue, and their digest."""
    tails = []
    for tail in items(reply, "ends of queues", hosts, hosts):
        blobs, digest = items(tail, "end of a queue", 2, 2)
        kept = [octets(blob, "rows", MOST_BLOCK) for blob in items(blobs, "end of a queue", 64)]
        tails.append((kept, octets(digest, "digest", 64)))
    return tails


def holdings_of(reply: Any) -> tuple[set[Held], set[Held]]:
    """Leases of the hosts that an agent holds, and leases under which it owes URLs.

    Foreign entries are ignored: they end when the agent leaves.
    """
    hosts, debts = items(reply, "holdings", 2, 2)
    holds, owes = set[Held](), set[Held]()
    for host, epoch in pairs(hosts, "hosts held", 1 << 20):
        holds |= _held(host, epoch)
    for epoch, debt in pairs(debts, "URLs owed", 1 << 20):
        words = debt.split(b" ", 2) if isinstance(debt, bytes) else []
        owes |= _held(words[2], epoch) if len(words) == 3 else set()
    return holds, owes


def _held(host: Any, epoch: Any) -> set[Held]:
    try:
        return {Held(host_name(host), whole(epoch, "epoch", 1))}
    except DamagedValue:
        return set()


def answers_of(reply: Any, asks: int) -> list[AddressAnswer]:
    answers = []
    for answer in items(reply, "addresses", asks, asks):
        granted, rest, holder = items(answer, "address", 3, 3)
        try:
            who = agent_name(holder)
        except DamagedValue:
            who = ""  # free, or held by an agent that cannot be sent a host
        answers.append(AddressAnswer(flag(granted, "granted"), seconds(rest, "rest"), who))
    return answers


def booked_of(reply: Any, bookings: int) -> list[bool]:
    return [flag(counted, "booked") for counted in items(reply, "bookings", bookings, bookings)]


def kept_of(reply: Any) -> tuple[bytes, bytes, list[bool], list[str]]:
    """An acknowledged batch: its digest, its packed URLs, which of them counted, and their kinds."""
    mask, names, digits, urls, digest = items(reply, "booked URLs", 5, 5)
    kinds_named = [text(name, "kind", 64) for name in items(names, "kinds", 10)]
    try:
        kinds = [kinds_named[digit - 48] for digit in octets(digits, "kinds", MOST_KEPT) if digit >= 48]
    except IndexError:
        raise DamagedValue("kinds", "one is not named") from None
    counted = [byte == 49 for byte in octets(mask, "mask", MOST_KEPT)]
    return octets(digest, "digest", 64), octets(urls, "URLs", MOST_KEPT), counted, kinds


def keys_of(reply: Any, most: int = 1 << 20) -> set[int]:
    """Keys, which a server stores with a sign."""
    return {key_of_decimal(key) for key in items(reply, "keys", most)}


def key_of_decimal(value: Any) -> int:
    return whole(value, "key", -(1 << 63), (1 << 63) - 1) % _WRAP


def taken_of(reply: Any) -> dict[int, int]:
    """Keys that an agent retried, and how often."""
    return {
        key_of_decimal(key): whole(count, "taken back", -MOST_NUMBER)
        for key, count in pairs(reply, "taken back", 1 << 24)
    }


def books_of(answer: Any) -> BoardBooks:
    sums, kinds, _ = items(answer, "books", 3, 3)
    seen, settled, hosts, begun, age, *rest = items(sums, "books", 9, 9)
    seen, settled = whole(seen, "seen"), whole(settled, "settled", -MOST_NUMBER)
    counts = {}
    for kind, count in pairs(kinds, "kinds", 1024):
        try:
            number = whole(count, "kinds", -MOST_NUMBER)
            name = text(kind, "kinds", 64)
        except DamagedValue:
            continue  # only people see it
        if number:
            counts[name] = number
    return BoardBooks(
        seen=seen,
        settled=settled,
        waiting=max(0, seen - settled),
        hosts=whole(hosts, "hosts"),
        begun=flag(begun, "begun"),
        age=seconds(age, "age"),
        kinds=counts,
        quarantined=whole(rest[-1], "quarantined"),
    )


def count_of(reply: Any) -> PageCount:
    booked, calm = items(reply, "pages", 2, 2)
    return PageCount(whole(booked, "pages"), flag(calm, "calm"))


def agents_of(reply: Any) -> list[AgentNote]:
    """Agents in an answer that also has the totals."""
    return notes_of(items(reply, "books", 3, 3)[2])


def notes_of(listed: Any) -> list[AgentNote]:
    """Agents by name. An unreadable agent is left out: it is sent no host."""
    notes = []
    for note in items(listed, "agents", MOST_AGENTS_TOLD):
        try:
            agent, start, alive, draining, advert, ago, hosts = items(note, "agent", 7, 7)
            state = agent_name(agent), whole(start, "start"), flag(alive, "alive"), flag(draining, "drains")
            figures = octets(advert, "advert", MOST_ADVERT), seconds(ago, "heard"), whole(hosts, "hosts")
            notes.append(AgentNote(*state, *figures))
        except DamagedValue:
            continue
    return sorted(notes, key=lambda note: note.agent)


def pulse_of(reply: Any) -> tuple[Pulse, int]:
    """Reply to a heartbeat, and whether all leases of fenced agents are released."""
    looked, draining, swept, alive, members, upto, joined = items(reply, "sign of life", 7, 7)
    sums = items(items(looked, "books", 3, 3)[0], "books", 9, 9)
    over, calm, run = sums[5:8]
    return Pulse(
        books=books_of(looked),
        agents=agents_of(looked),
        alive=whole(alive, "alive"),
        members=whole(members, "members"),
        upto=text(upto, "upto", 128),
        run=text(run, "run", 128),
        calm=seconds(calm, "calm"),
        draining=flag(draining, "draining"),
        over=text(over, "over", 64),
        joined=scope_of(joined),
    ), whole(swept, "swept", 0, 1)


def scope_of(reply: Any) -> list[Url]:
    """URLs added to the scope; anything else is left out."""
    words = [octets(word, "scope", MOST_ROW) for word in items(reply, "scope", 1 << 16)]
    urls = (parse(word.decode("ascii", errors="replace")) for word in words)
    return [url for url, word in zip(urls, words, strict=True) if url is not None and url.encode() == word]


def keys_found(reply: Any) -> tuple[bytes, list[bytes]]:
    """Answer to SCAN: the next cursor, and keys."""
    cursor, keys = items(reply, "keys", 2, 2)
    return octets(cursor, "cursor", 32), [octets(key, "key", 1 << 20) for key in items(keys, "keys", 1 << 20)]


def names_of(reply: Any, pattern: re.Pattern[bytes]) -> tuple[bytes, set[str]]:
    """Answer to SCAN: the next cursor, and the matches of `pattern` in the keys."""
    cursor, keys = keys_found(reply)
    return cursor, {match[1].decode("ascii") for key in keys if (match := pattern.fullmatch(key))}


def agents_in(reply: Any) -> list[str]:
    return [agent_name(agent) for agent in items(reply, "agents", MOST_AGENTS_TOLD)]
