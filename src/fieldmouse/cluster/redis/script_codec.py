"""Arguments of the scripts of a Redis coordinator, and bounded reading of their replies.

Scripts take a flat list of arguments; seconds travel as milliseconds. `decoding` reads the answers.

A reply is nested lists. Its shape, counts and numbers are checked here, its values by `decoding`. A
foreign reply raises `DamagedValue`. Damage within an otherwise readable reply costs one part of it: a
host, an agent, a block of rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import Any

from fieldmouse.cluster import decoding
from fieldmouse.cluster.coordinator import (
    AckBatch,
    AddressReply,
    CrawlTotals,
    DamagedField,
    HeartbeatId,
    HeartbeatReply,
    HostGrant,
    HostPayload,
    LeaseAck,
    LeaseId,
    LinkOffer,
    ListedAgent,
    OfferResult,
    PageCount,
    ReleasedHost,
    RestoredOutcomes,
    Row,
)
from fieldmouse.cluster.decoding import (
    DamagedValue,
    check_bytes,
    check_list,
    decode_agent_name,
    decode_bool,
    decode_host,
    decode_int,
    decode_pairs,
    decode_seconds,
    decode_text,
)
from fieldmouse.cluster.redis.connection import ScriptArgument
from fieldmouse.url import Host, Url, parse

#: Links in one script call: a server that is busy with a script keeps all agents waiting.
OFFER_LINKS = 1000
#: Bytes of their rows: no block may be larger than `decoding` reads.
OFFER_BYTES = 2 << 20


def milliseconds(seconds: float) -> int:
    """Milliseconds, rounded up: too long a rest is better than too short a one."""
    return ceil(seconds * 1000)


def count_and_flatten(parts: Iterable[Sequence[ScriptArgument]]) -> list[ScriptArgument]:
    """The number of parts, and the arguments of all of them in a row."""
    rows = list(parts)
    return [len(rows), *chain.from_iterable(rows)]


def key_args(keys: Collection[int]) -> tuple[ScriptArgument, ...]:
    """The number of keys, and the keys with a sign."""
    return len(keys), *map(decoding.signed_key, keys)


def offer_args(offer: LinkOffer) -> tuple[ScriptArgument, ...]:
    keys, entries = decoding.block_entries(offer.links)
    return offer.host, offer.site, offer.agent, len(keys), *keys, len(keys), *entries


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


def payload_args(host_payload: HostPayload) -> tuple[ScriptArgument, ...]:
    return (
        host_payload.state,
        milliseconds(host_payload.rest),
        milliseconds(host_payload.delay),
        host_payload.policy_data,
        decoding.compress_text(host_payload.robots_txt),
        milliseconds(host_payload.robots_txt_seconds),
    )


def heartbeat_mark_args(heard: HeartbeatId) -> tuple[ScriptArgument, ...]:
    return heard.agent, heard.incarnation, heard.number


def row_args(rows: Sequence[Row]) -> tuple[ScriptArgument, ...]:
    """A block of rows, and their keys."""
    once = dict(rows)
    return decoding.encode_block(list(once.items())), *key_args(once)


def _outcome_args(
    outcomes: Sequence[LeaseAck | RestoredOutcomes],
    words: Sequence[ScriptArgument],
    heads: Iterable[tuple[str, str | int]],
) -> list[ScriptArgument]:
    """The distinct kinds; `words`; and each head with its keys and its kinds, as digits: indexes into the kinds."""
    names = list(dict.fromkeys(chain.from_iterable(each.kinds for each in outcomes)))
    digit = {kind: str(place) for place, kind in enumerate(names)}
    parts: Iterator[tuple[ScriptArgument, ...]] = (
        (*head, *key_args(each.keys), "".join([digit[kind] for kind in each.kinds]))
        for head, each in zip(heads, outcomes, strict=True)
    )
    return [len(names), *names, *words, *count_and_flatten(parts)]


def ack_args(told: AckBatch) -> list[ScriptArgument]:
    return _outcome_args(told.acks, (told.urls, told.number), [(ack.lease.host, ack.lease.epoch) for ack in told.acks])


def restore_args(hosts: Sequence[RestoredOutcomes], urls: bytes) -> list[ScriptArgument]:
    return _outcome_args(hosts, (urls,), [(host.host, host.site) for host in hosts])


def requeue_args(host: Host, rows: Sequence[Row], kinds: Sequence[str]) -> tuple[ScriptArgument, ...]:
    """URLs of a host that wait again, and the kinds of their outcomes."""
    keys = key_args([key for key, _ in rows])
    return host, *keys, len(kinds), *kinds, decoding.encode_block(list(rows)) if rows else b""


def release_args(given: ReleasedHost) -> tuple[ScriptArgument, ...]:
    """A released host; the agents it excludes, each followed by milliseconds, come last."""
    avoided = [word for who, left in given.excluded_agents.items() for word in (who, milliseconds(left))]
    head = (given.lease.host, given.lease.epoch, given.next_agent)
    return *head, *payload_args(given.payload), *row_args(given.unvisited), len(avoided), *avoided


#: A host, URLs of it that shall wait again, and the kind of each outcome.
RequeuedUrls = tuple[Host, Sequence[Row], Sequence[str]]


def without_keys(part: RequeuedUrls, waiting: Collection[int]) -> RequeuedUrls:
    """The same without some keys."""
    host, rows, kinds = part
    kept = [(row, kind) for row, kind in zip(rows, kinds, strict=True) if row[0] not in waiting]
    return host, [row for row, _ in kept], [kind for _, kind in kept]


def quarantine_args(damaged: Mapping[LeaseId, Sequence[DamagedField]]) -> list[ScriptArgument]:
    return count_and_flatten(
        (held.host, held.epoch, each.field, each.reason[:500], *key_args(each.keys), each.value)
        for held, values in damaged.items()
        for each in values
    )


@dataclass(frozen=True, slots=True)
class GrantsReply:
    """Answer to a request for hosts."""

    grants: list[HostGrant]
    all_released: int  # 1 if all leases of fenced agents are released
    surplus: list[tuple[bytes, int]]  # hosts and epochs beyond the byte limit: they go back
    invalid: list[tuple[bytes, int, str]]  # values that are no hosts, their epochs, and the reason


def parse_grants(answer: Any) -> GrantsReply:
    granted, swept = check_list(answer, "grants", 2, 2)
    result = GrantsReply([], decode_int(swept, "swept", 0, 1), [], [])
    room = decoding.MOST_REPLY_ROWS
    for each in check_list(granted, "grants", 1 << 16):
        host, epoch, *_ = check_list(each, "grant", 10, 10)
        name, number = check_bytes(host, "host", 1024), decode_int(epoch, "epoch", 1)
        if room <= 0:
            result.surplus.append((name, number))
            continue
        try:
            grant = parse_grant(each)
        except DamagedValue as trouble:
            result.invalid.append((name, number, str(trouble)))
            continue
        room -= sum(len(row) + 64 for _, row in grant.rows) + len(grant.payload.robots_txt)
        result.grants.append(grant)
    return result


def parse_more_urls(reply: Any, held: Sequence[LeaseId]) -> list[HostGrant]:
    """More rows of held hosts; a host that is no longer held has none."""
    grants = []
    for answer, each in zip(check_list(reply, "grants", len(held), len(held)), held, strict=True):
        grant = parse_grant(answer) if isinstance(answer, list) else HostGrant(each.host, each.epoch, ())
        if (grant.host, grant.epoch) != (each.host, each.epoch):
            raise DamagedValue("grants", f"{each.host} was asked for, and {grant.host} granted")
        grants.append(grant)
    return grants


def parse_grant(reply: Any) -> HostGrant:
    """A grant; its damaged values are in `damaged`."""
    host, epoch, left, rest, delay, state, learned, robots_txt, robots_rest, blobs = check_list(reply, "grant", 10, 10)
    damaged: list[DamagedField] = []
    rows: list[Row] = []
    text = decoding.decode_or_report(decoding.decode_robots_txt, robots_txt, b"", "rt", damaged)
    host_payload = HostPayload(
        state=check_bytes(state, "state", decoding.MOST_STATE),
        rest=decode_seconds(rest, "rest"),
        delay=decode_seconds(delay, "delay"),
        policy_data=check_bytes(learned, "learned", decoding.MOST_STATE),
        robots_txt=text,
        robots_txt_seconds=decode_seconds(robots_rest, "rest of robots.txt"),
    )
    for blob in check_list(blobs, "blocks of rows", 1 << 12):
        try:
            rows += decoding.block_rows(blob)
        except DamagedValue as trouble:
            value = blob[: 1 << 16] if isinstance(blob, bytes) else b""
            damaged.append(DamagedField("rows", str(trouble), tuple(_keys_or_none(blob)), value))
    return HostGrant(
        decode_host(host),
        decode_int(epoch, "epoch", 1),
        rows,
        host_payload,
        decode_int(left, "rows left"),
        tuple(damaged),
    )


def _keys_or_none(blob: Any) -> list[int]:
    try:
        return decoding.block_keys(blob)
    except DamagedValue:
        return []


def parse_offer_result(reply: Any) -> tuple[OfferResult, list[bytes]]:
    """Result of offers, and the hosts whose queues should be compressed."""
    new, hosts, urls, raw = check_list(reply, "offered", 4, 4)
    counts = OfferResult(decode_int(new, "new"), decode_int(hosts, "hosts"), decode_int(urls, "URLs"))
    return counts, [check_bytes(host, "host", 320) for host in check_list(raw, "hosts", 1 << 16)]


def parse_stranded(reply: Any) -> tuple[str, int, list[Host], int]:
    """Next cursor, number of stranded hosts, some of their names, and number of repaired hosts.

    The names are only for people, so a damaged name does not hide the others.
    """
    cursor, count, hosts, repaired = check_list(reply, "stranded", 4, 4)
    names = [check_bytes(host, "host", 1 << 16)[:320] for host in check_list(hosts, "hosts", 1 << 18)]
    shown = [Host(name.decode(errors="replace")) for name in names]
    return (decode_text(cursor, "cursor", 20), decode_int(count, "count"), shown, decode_int(repaired, "repaired"))


def parse_queue_ends(reply: Any, hosts: int) -> list[tuple[list[bytes], bytes]]:
    """For each host the blocks at the end of its queue, and their digest."""
    tails = []
    for tail in check_list(reply, "ends of queues", hosts, hosts):
        blobs, digest = check_list(tail, "end of a queue", 2, 2)
        kept = [check_bytes(blob, "rows", decoding.MOST_BLOCK) for blob in check_list(blobs, "end of a queue", 64)]
        tails.append((kept, check_bytes(digest, "digest", 64)))
    return tails


def parse_leases(reply: Any) -> tuple[set[LeaseId], set[LeaseId]]:
    """Leases of the hosts that an agent holds, and leases under which it owes URLs.

    Foreign entries are ignored: they end when the agent leaves.
    """
    hosts, debts = check_list(reply, "holdings", 2, 2)
    holds, owes = set[LeaseId](), set[LeaseId]()
    for host, epoch in decode_pairs(hosts, "hosts held", 1 << 20):
        holds |= _lease_or_none(host, epoch)
    for epoch, debt in decode_pairs(debts, "URLs owed", 1 << 20):
        words = debt.split(b" ", 2) if isinstance(debt, bytes) else []
        owes |= _lease_or_none(words[2], epoch) if len(words) == 3 else set()
    return holds, owes


def _lease_or_none(host: Any, epoch: Any) -> set[LeaseId]:
    try:
        return {LeaseId(decode_host(host), decode_int(epoch, "epoch", 1))}
    except DamagedValue:
        return set()


def parse_address_replies(reply: Any, asks: int) -> list[AddressReply]:
    answers = []
    for answer in check_list(reply, "addresses", asks, asks):
        granted, rest, holder = check_list(answer, "address", 3, 3)
        try:
            who = decode_agent_name(holder)
        except DamagedValue:
            who = ""  # free, or held by an agent that cannot be sent a host
        answers.append(AddressReply(decode_bool(granted, "granted"), decode_seconds(rest, "rest"), who))
    return answers


def parse_ack_results(reply: Any, bookings: int) -> list[bool]:
    return [decode_bool(counted, "booked") for counted in check_list(reply, "bookings", bookings, bookings)]


def parse_kept_batch(reply: Any) -> tuple[bytes, bytes, list[bool], list[str]]:
    """An acknowledged batch: its digest, its packed URLs, which of them counted, and their kinds."""
    mask, names, digits, urls, digest = check_list(reply, "booked URLs", 5, 5)
    kinds_named = [decode_text(name, "kind", 64) for name in check_list(names, "kinds", 10)]
    try:
        kinds = [
            kinds_named[digit - 48] for digit in check_bytes(digits, "kinds", decoding.MOST_BATCH_URLS) if digit >= 48
        ]
    except IndexError:
        raise DamagedValue("kinds", "one is not named") from None
    counted = [byte == 49 for byte in check_bytes(mask, "mask", decoding.MOST_BATCH_URLS)]
    return check_bytes(digest, "digest", 64), check_bytes(urls, "URLs", decoding.MOST_BATCH_URLS), counted, kinds


def parse_keys(reply: Any) -> set[int]:
    """Keys, which a server stores with a sign."""
    return {_unsigned_key(key) for key in check_list(reply, "keys", 1 << 20)}


def _unsigned_key(value: Any) -> int:
    return decode_int(value, "key", -(1 << 63), (1 << 63) - 1) % (1 << 64)


def parse_retry_counts(reply: Any) -> dict[int, int]:
    """Keys that an agent retried, and how often."""
    return {
        _unsigned_key(key): decode_int(count, "taken back", -decoding.MOST_NUMBER)
        for key, count in decode_pairs(reply, "taken back", 1 << 24)
    }


def parse_totals(answer: Any) -> CrawlTotals:
    sums, kinds, _ = check_list(answer, "books", 3, 3)
    seen, settled, hosts, begun, age, *rest = check_list(sums, "books", 9, 9)
    seen, settled = decode_int(seen, "seen"), decode_int(settled, "settled", -decoding.MOST_NUMBER)
    counts = {}
    for kind, count in decode_pairs(kinds, "kinds", 1024):
        try:
            number = decode_int(count, "kinds", -decoding.MOST_NUMBER)
            name = decode_text(kind, "kinds", 64)
        except DamagedValue:
            continue  # only people see it
        if number:
            counts[name] = number
    return CrawlTotals(
        seen=seen,
        settled=settled,
        waiting=max(0, seen - settled),
        hosts=decode_int(hosts, "hosts"),
        started=decode_bool(begun, "begun"),
        age=decode_seconds(age, "age"),
        kinds=counts,
        quarantined=decode_int(rest[-1], "quarantined"),
    )


def parse_page_count(reply: Any) -> PageCount:
    booked, calm = check_list(reply, "pages", 2, 2)
    return PageCount(decode_int(booked, "pages"), decode_bool(calm, "calm"))


def parse_agents_of_totals(reply: Any) -> list[ListedAgent]:
    """Agents in an answer that also has the totals."""
    return parse_agents(check_list(reply, "books", 3, 3)[2])


def parse_agents(listed: Any) -> list[ListedAgent]:
    """Agents by name. An unreadable agent is left out: it is sent no host."""
    notes = []
    for note in check_list(listed, "agents", decoding.MOST_REPLY_AGENTS):
        try:
            agent, start, alive, draining, agent_status, ago, hosts = check_list(note, "agent", 7, 7)
            notes.append(
                ListedAgent(
                    decode_agent_name(agent),
                    decode_int(start, "start"),
                    decode_bool(alive, "alive"),
                    decode_bool(draining, "drains"),
                    check_bytes(agent_status, "advert", decoding.MOST_STATUS),
                    decode_seconds(ago, "heard"),
                    decode_int(hosts, "hosts"),
                )
            )
        except DamagedValue:
            continue
    return sorted(notes, key=lambda note: note.agent)


def parse_heartbeat_reply(reply: Any) -> tuple[HeartbeatReply, int]:
    """Reply to a heartbeat, and whether all leases of fenced agents are released."""
    looked, draining, swept, alive, members, upto, joined = check_list(reply, "sign of life", 7, 7)
    sums = check_list(check_list(looked, "books", 3, 3)[0], "books", 9, 9)
    over, calm, run = sums[5:8]
    return HeartbeatReply(
        totals=parse_totals(looked),
        agents=parse_agents_of_totals(looked),
        alive=decode_int(alive, "alive"),
        members=decode_int(members, "members"),
        last_listed=decode_text(upto, "upto", 128),
        server_run=decode_text(run, "run", 128),
        calm_seconds=decode_seconds(calm, "calm"),
        draining=decode_bool(draining, "draining"),
        stop_reason=decode_text(over, "over", 64),
        scope_pages=parse_scope(joined),
    ), decode_int(swept, "swept", 0, 1)


def parse_scope(reply: Any) -> list[Url]:
    """URLs added to the scope; anything else is left out."""
    words = [check_bytes(word, "scope", decoding.MOST_ROW) for word in check_list(reply, "scope", 1 << 16)]
    urls = (parse(word.decode("ascii", errors="replace")) for word in words)
    return [url for url, word in zip(urls, words, strict=True) if url is not None and url.encode() == word]


def parse_scan(reply: Any) -> tuple[bytes, list[bytes]]:
    """Answer to SCAN: the next cursor, and keys."""
    cursor, keys = check_list(reply, "keys", 2, 2)
    return check_bytes(cursor, "cursor", 32), [
        check_bytes(key, "key", 1 << 20) for key in check_list(keys, "keys", 1 << 20)
    ]


def parse_scan_names(reply: Any, pattern: re.Pattern[bytes]) -> tuple[bytes, set[str]]:
    """Answer to SCAN: the next cursor, and the matches of `pattern` in the keys."""
    cursor, keys = parse_scan(reply)
    return cursor, {match[1].decode("ascii") for key in keys if (match := pattern.fullmatch(key))}


def parse_agent_names(reply: Any) -> list[str]:
    return [decode_agent_name(agent) for agent in check_list(reply, "agents", decoding.MOST_REPLY_AGENTS)]
