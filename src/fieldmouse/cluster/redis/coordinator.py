"""Coordinator on a Redis-protocol server, for agents on many machines.

Each call is one script, which is atomic (`scripts`, and `lua/` beside it). Long calls are cut into
several, none of which leaves anything half done. Rows are compressed and decompressed here, because all
agents share the server.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import msgspec

from fieldmouse.cluster import rows as blocks
from fieldmouse.cluster.coordinator import (
    EXAMPLES,
    TOLD,
    AddressAnswer,
    AddressAsk,
    AgentNote,
    BoardBooks,
    Charter,
    DamagedField,
    GivenBack,
    Grant,
    Heard,
    Heartbeat,
    Held,
    Luggage,
    Name,
    Offer,
    Offered,
    PageAsk,
    PageCount,
    Pulse,
    Row,
    SiteBounds,
    Stranded,
    TakenBack,
    Told,
)
from fieldmouse.cluster.decoding import DamagedValue, charter_in, flag, whole
from fieldmouse.cluster.redis.connection import Argument, BoardServer, ScriptedCrawl
from fieldmouse.cluster.redis.errors import unreadable
from fieldmouse.cluster.redis.messages import (
    Unsettled,
    booked_words,
    damaged_words,
    given_words,
    heard_words,
    in_parts,
    luggage_words,
    milliseconds,
    row_words,
    unsettled_words,
    without,
)
from fieldmouse.cluster.redis.replies import (
    agents_of,
    answers_of,
    booked_of,
    books_of,
    count_of,
    grants_of,
    holdings_of,
    kept_of,
    keys_of,
    more_of,
    names_of,
    notes_of,
    offered_of,
    pulse_of,
    stranded_of,
    tails_of,
    taken_of,
)
from fieldmouse.cluster.rows import BookedAgain
from fieldmouse.url import Host, Url

_CHECK_EVERY = 12  # heartbeats between two checks that the server does not evict keys
_MOST_WISHES = 1000  # hosts in one script call
_MOST_HOSTS = 64  # hosts for which more URLs are requested in one script call
T = TypeVar("T")
log = logging.getLogger(__name__)


def read_flag(reply: object) -> bool:
    return flag(reply, "answer")


def read_number(reply: object) -> int:
    return whole(reply, "answer")


def _swept(reply: object) -> int:
    return whole(reply, "swept", 0, 1)


class RedisBoard(ScriptedCrawl):
    """Coordinator of one crawl on one server."""

    def __init__(self, url: str, crawl: str = "fieldmouse", timeout: float = 10.0) -> None:
        super().__init__(url, crawl, timeout)
        self._beats = 0

    # -- the crawl

    async def identity(self) -> str:
        return await self._server.identity()

    async def charter(self) -> Charter | None:
        reply = await self._server.command("HGET", f"{self._prefix}meta", "charter")
        return self._read(self._charter, reply) if reply is not None else None

    def _charter(self, reply: bytes) -> Charter:
        return charter_in(reply, self._server.label)

    async def found(self, charter: Charter) -> Charter:
        return self._read(self._charter, await self._call("found", msgspec.json.encode(charter)))

    async def end(self, why: str) -> None:
        await self._call("end", why)

    # -- agents

    async def join(self, name: Name, lease: float) -> None:
        await self._server.check_that_it_keeps()
        await self._release_fenced(await self._call("join", milliseconds(lease), name=name))

    async def _release_fenced(self, done: int) -> None:
        """Release the leases of fenced agents, a few at a time."""
        while not self._read(_swept, done):
            done = await self._call("sweep")

    async def outlives(self, name: Name) -> bool:
        return self._read(read_flag, await self._call("outlives", name.agent, name.incarnation))

    async def recalls(self, since: Heard) -> None:
        await self._call("recalls", *heard_words(since))

    async def beat(self, name: Name, beat: Heartbeat) -> Pulse:
        self._beats += 1
        if self._beats % _CHECK_EVERY == 0:
            await self._server.check_that_it_keeps()
        since, lease = heard_words(beat.since), milliseconds(beat.lease)
        words = (beat.advert, lease, beat.after, TOLD, beat.number, *since, beat.joined)
        reply = await self._call("beat", *words, name=name)
        pulse, swept = self._read(pulse_of, reply)
        await self._release_fenced(swept)
        return pulse

    async def widen(self, urls: Sequence[Url]) -> None:
        await self._call("widen", len(urls), *urls)

    async def leave(self, name: Name) -> None:
        await self._release_fenced(await self._call("leave", name.agent, name.incarnation, 1))

    async def books(self) -> BoardBooks:
        return self._read(books_of, await self._call("look"))

    async def stranded(self) -> Stranded:
        total, names, cursor = 0, dict[Host, None](), ""
        while True:
            cursor, count, hosts, repaired = self._read(stranded_of, await self._call("stranded", cursor))
            fresh = [host for host in hosts if host not in names]
            total += count - (len(hosts) - len(fresh))  # a scan may return a key twice
            names.update(dict.fromkeys(fresh))
            if not cursor:
                return Stranded(total, tuple(names)[:EXAMPLES], repaired)

    async def agents(self) -> list[AgentNote]:
        return self._read(agents_of, await self._call("look"))

    async def departed(self) -> list[AgentNote]:
        return self._read(notes_of, await self._call("departed"))

    async def ask_to_drain(self, agent: str) -> bool:
        return self._read(read_flag, await self._call("drain", agent))

    async def forget(self, agent: str, *, again: bool) -> int:
        await self._release_fenced(await self._call("leave", agent, "", 0))
        charter, urls_again = await self.charter(), 0
        if not again or charter is None:
            return 0
        reply = await self._server.command("HGETALL", f"{self._prefix}back:{agent}")
        taken_back = Counter(self._read(taken_of, reply))
        while kept := await self._call("kept", agent):
            digest, urls, counted, kinds = self._read(kept_of, kept)
            try:
                batch = BookedAgain(urls, counted, kinds, taken_back, charter.key_seed)
            except ValueError as trouble:
                log.warning(
                    "a batch of URLs that %s acknowledged cannot be read, and is left out: %s", agent, trouble
                )
                await self._call("again", agent, digest, 0, 0)
                continue
            left = (len(batch.left), *map(blocks.decimal, batch.left))
            hosts = [(host, rows, kinds) for host, (rows, kinds) in batch.hosts.items()]
            urls_again += await self._unsettle("again", (agent, digest, *left, len(hosts)), hosts)
        return urls_again

    async def _unsettle(
        self, act: str, words: tuple[Argument, ...], hosts: Sequence[Unsettled], name: Name | None = None
    ) -> int:
        """Let URLs wait again; repeats the call without those that the server reports as waiting already."""
        waiting: set[int] = set()
        while True:
            parts = chain.from_iterable(unsettled_words(*without(part, waiting)) for part in hosts)
            reply = await self._call(act, *words, *parts, name=name)
            if not isinstance(reply, list):
                return self._read(read_number, reply)
            waiting |= self._read(keys_of, reply)

    # -- links

    async def offer(self, offers: Sequence[Offer], bounds: SiteBounds, *, seeds: bool = False) -> Offered:
        new = dropped_hosts = dropped_urls = 0
        for part in in_parts(offers) if offers else [[]]:
            words: list[Argument] = [bounds.hosts, bounds.urls, int(seeds), len(part)]
            for offer in part:
                keys, entries = blocks.entries(offer.links)
                words += (offer.host, offer.site, offer.place, len(keys), *keys, len(keys), *entries)
            result, raw = self._read(offered_of, await self._call("offer", *words))
            new, dropped_hosts = new + result.new, dropped_hosts + result.dropped_hosts
            dropped_urls += result.dropped_urls
            if raw:
                await self._compress_queues(raw)
        return Offered(new, dropped_hosts, dropped_urls)

    async def _compress_queues(self, hosts: Sequence[bytes]) -> None:
        """Compress the raw ends of these queues, unless they change in between."""
        reply = await self._call("tails", len(hosts), *hosts)
        queues: list[tuple[Argument, ...]] = []
        for host, (tail, digest) in zip(
            hosts, self._read(partial(tails_of, hosts=len(hosts)), reply), strict=True
        ):
            try:
                smaller = blocks.packed(tail)
            except DamagedValue:
                continue  # the agent that is granted it quarantines it
            queues.append((host, len(tail), digest, len(smaller), *smaller))
        if queues:
            await self._call("pack", len(queues), *chain.from_iterable(queues))

    # -- hosts

    async def lease(self, name: Name, hosts: int, urls: int, soon: float = 0.0) -> list[Grant]:
        answer = await self._call("lease", hosts, urls, milliseconds(soon), name=name)
        reply = self._read(grants_of, answer)
        await self._release_fenced(reply.swept)
        for host, epoch in reply.surplus:
            await self._call("surrender", 1, host, epoch, 0, 0, name=name)
        for host, epoch, why in reply.strange:
            log.warning("a host of the coordinator cannot be read, and is set aside: %s", why)
            await self._call("quarantine", 1, host, epoch, "host", why[:500], 0, b"", name=name)
        return reply.grants

    async def wish(self, name: Name, hosts: Sequence[Host]) -> None:
        for start in range(0, len(hosts), _MOST_WISHES):
            part = hosts[start : start + _MOST_WISHES]
            await self._call("wish", len(part), *part, name=name)

    async def more(self, name: Name, held: Sequence[Held], urls: int) -> list[Grant]:
        grants: list[Grant] = []
        for start in range(0, len(held), _MOST_HOSTS):
            part = held[start : start + _MOST_HOSTS]
            words: list[Argument] = [urls, len(part)]
            for each in part:
                words += (each.host, each.epoch)
            reply = await self._call("more", *words, name=name)
            grants += self._read(partial(more_of, held=part), reply)
        return grants

    async def note(self, name: Name, luggage: Mapping[Held, Luggage]) -> None:
        words: list[Argument] = [len(luggage)]
        for held, payload in luggage.items():
            words += (held.host, held.epoch, *luggage_words(payload))
        await self._call("note", *words, name=name)

    async def give_back(self, name: Name, hosts: Sequence[GivenBack]) -> None:
        words: list[Argument] = [len(hosts)]
        for given in hosts:
            words += given_words(given)
        await self._call("giveback", *words, name=name)

    async def put_back(self, name: Name, rows: Mapping[Held, Sequence[Row]]) -> None:
        words: list[Argument] = [len(rows)]
        for held, host_rows in rows.items():
            words += (held.host, held.epoch, *row_words(host_rows))
        await self._call("putback", *words, name=name)

    async def recover(self, name: Name, known: Mapping[Held, Collection[int]]) -> list[Held]:
        holds, owes = self._read(holdings_of, await self._call("holdings", name=name))
        for held in sorted(holds | owes, key=lambda held: held.epoch):
            keys = known.get(held, ())
            words: list[Argument] = [1, held.host, held.epoch, int(held in known)]
            words += (len(keys), *map(blocks.decimal, keys))
            await self._call("surrender", *words, name=name)
        return [held for held in known if held not in holds and held not in owes]

    # -- addresses

    async def ask_addresses(self, name: Name, asks: Sequence[AddressAsk]) -> list[AddressAnswer]:
        words: list[Argument] = [len(asks)]
        for ask in asks:
            words += (ask.address, ask.held.host, ask.held.epoch, milliseconds(ask.delay))
        reply = await self._call("ask", *words, name=name)
        return self._read(partial(answers_of, asks=len(asks)), reply)

    async def free_addresses(self, name: Name, rests: Mapping[str, float]) -> None:
        words: list[Argument] = [len(rests)]
        for address, rest in rests.items():
            words += (address, milliseconds(rest))
        await self._call("rest", *words, name=name)

    # -- outcomes

    async def book(self, name: Name, told: Told) -> list[Sequence[int]]:
        answers = await self._call("book", *booked_words(told), name=name)
        counted = self._read(partial(booked_of, bookings=len(told.bookings)), answers)
        return [() if counts else booked.keys for counts, booked in zip(counted, told.bookings, strict=True)]

    async def take_back(self, name: Name, taken: TakenBack) -> int:
        rows = [(taken.host, taken.rows, taken.kinds)]
        return await self._unsettle("takeback", (taken.number,), rows, name)

    async def reserve_pages(self, name: Name, ask: PageAsk) -> int:
        words = (ask.limit, ask.keep, ask.want, ask.elsewhere, int(ask.still))
        return self._read(read_number, await self._call("reserve", *words, name=name))

    async def count_pages(self) -> PageCount:
        return self._read(count_of, await self._call("pages"))

    async def last_told(self, name: Name) -> int:
        return self._read(read_number, await self._call("lasttold", name.agent, name.incarnation))

    async def quarantine(self, name: Name, damaged: Mapping[Held, Sequence[DamagedField]]) -> int:
        return self._read(read_number, await self._call("quarantine", *damaged_words(damaged), name=name))

    async def close(self) -> None:
        await self._server.close()


_KEYS = 10_000  # keys scanned in one step
_ROUNDS = 300  # most steps, because a server may hold many millions of keys
_META = re.compile(rb"fm:\{([A-Za-z0-9._-]{1,64})\}:meta")


async def crawls_on(url: str) -> set[str]:
    """Names of the crawls; perhaps not all on a server with more than three million keys."""
    server, crawls, cursor = BoardServer(url), set[str](), b"0"
    try:
        for _ in range(_ROUNDS):
            reply: Any = await server.command("SCAN", cursor, "MATCH", "fm:{*}:meta", "COUNT", _KEYS)
            try:
                cursor, names = names_of(reply, _META)
            except DamagedValue as nonsense:
                raise unreadable(server.label, nonsense) from nonsense
            crawls |= names
            if cursor == b"0":
                break
    finally:
        await server.close()
    return crawls
