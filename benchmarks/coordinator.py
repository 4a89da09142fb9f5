"""Cost of a cluster's coordinator: bytes per URL, and the server's time.

It uses a separate Redis server, with its append-only file as in a real crawl. Time is processor time, the
server's and ours listed separately, since all agents share the server. `used` is the server's memory
(`used_memory`) minus that of an empty one; `resident` is the memory the system gave it for that.

Seen: offers in batches of 500, like those of agents, half of them seen before; then all waiting URLs are
deleted, so that only the seen keys remain (`server_restart.py` measures them after a restart of the server).
Waiting: pages of sites with power-law sizes link to other pages, most of them of the same site; rows are
those of real requests. Then all are leased and acknowledged, and the URLs are kept. Agents: each joins,
holds a host and an address, sends a heartbeat, and receives the adverts of the others, 64 at a time.

    .venv/bin/python benchmarks/coordinator.py [--seen 10000000] [--waiting 300000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import redis
from coordinator_server import a_server
from sieve import Source
from table import aligned, say

from fieldmouse.cluster.coordinator import (
    AckBatch,
    AddressRequest,
    AgentId,
    AgentReport,
    CrawlSpec,
    HeartbeatRequest,
    LeaseAck,
    LeaseId,
    LinkOffer,
    Row,
    SiteBounds,
)
from fieldmouse.cluster.decoding import decode_row, encode_row, pack_urls
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url, key_of

BATCH = 500
NAME = AgentId("bench", 1)
FREE = SiteBounds()


@dataclass(frozen=True)
class Cost:
    """Processor time and memory at one time."""

    server: float
    ours: float
    used: int
    resident: int
    heard: int  # bytes
    said: int

    @classmethod
    def now(cls, client: redis.Redis) -> Cost:
        cpu, memory, net = client.info("cpu"), client.info("memory"), client.info("stats")
        # The serving thread, not the children that rewrite its file.
        server = cpu["used_cpu_user"] + cpu["used_cpu_sys"]
        return cls(
            server,
            time.process_time(),
            memory["used_memory"],
            memory["used_memory_rss"],
            net["total_net_input_bytes"],
            net["total_net_output_bytes"],
        )


def board_of(client: redis.Redis) -> RedisCoordinator:
    return RedisCoordinator("unix://" + client.connection_pool.connection_kwargs["path"], timeout=120.0)


async def begin(client: redis.Redis) -> RedisCoordinator:
    board = board_of(client)
    await board.create_crawl(CrawlSpec(7, "", ()))
    await board.join(NAME, 10_000.0)
    return board


async def seen(client: redis.Redis, stops: list[int]) -> list[list[str]]:
    board, source, rows, offered = await begin(client), Source(), [], 0
    empty = before = Cost.now(client)
    hosts = [Host(f"http://{n}.test") for n in range(10)]
    for stop in stops:
        begun = offered
        while source.new < stop:
            keys = source.batch(BATCH)
            links = [(key, b"") for key in keys]
            await board.offer_links([LinkOffer(hosts[offered // BATCH % 10], "test", links)], FREE)
            offered += BATCH
        after = Cost.now(client)
        for host in hosts:
            client.unlink(f"fm:{{fieldmouse}}:q:{host}")
            client.hset(f"fm:{{fieldmouse}}:h:{host}", "n", 0)
        await asyncio.sleep(0.5)  # the server frees unlinked keys in the background
        kept = Cost.now(client)
        count = offered - begun
        rows.append(
            [
                f"{source.new:,}",
                f"{(kept.used - empty.used) / source.new:.2f}",
                f"{(kept.resident - empty.resident) / source.new:.2f}",
                f"{(after.server - before.server) / count * 1e6:.2f}",
                f"{(after.ours - before.ours) / count * 1e6:.2f}",
            ]
        )
        before = Cost.now(client)
    await board.close()
    return rows


class Web:
    """Sites with power-law sizes, and pages with about thirty links to pages not seen before."""

    def __init__(self, urls: int, seed: int = 7) -> None:
        self.rng = random.Random(seed)
        self.left = urls
        letters = "abcdefghiklmnoprstuvw"
        self.words = ["".join(self.rng.choices(letters, k=self.rng.randint(3, 9))) for _ in range(4000)]
        names = (self.rng.choice(self.words) for _ in range(max(1, urls // 60)))
        self.hosts = [Host(f"https://www.{name}-{n}.test") for n, name in enumerate(names)]
        self.weights = [1.0 / (n + 1) for n in range(len(self.hosts))]

    def path(self) -> str:
        folders = "/".join(self.rng.choice(self.words[:40]) for _ in range(self.rng.randint(1, 2)))
        name = "-".join(self.rng.choices(self.words, k=self.rng.randint(2, 6)))
        return f"/{folders}/{name}" + self.rng.choice(["", ".html", "/", f"?id={self.rng.randint(1, 99999)}"])

    def pages(self) -> Iterator[list[LinkOffer]]:
        while self.left > 0:
            home = self.rng.choices(self.hosts, self.weights)[0]
            via = home + self.path()
            found: dict[Host, list[Row]] = {}
            for _ in range(self.rng.randint(10, 50)):
                host = home if self.rng.random() < 0.8 else self.rng.choices(self.hosts, self.weights)[0]
                url = Url(host + self.path())
                link = Request(url, depth=3, via=via, seen_at=1_700_000_000 + self.rng.random() * 1e6)
                found.setdefault(host, []).append((key_of(url, 7), encode_row(link, host, 0.0)))
                self.left -= 1
            yield [LinkOffer(host, "test", rows) for host, rows in found.items()]


async def waiting(client: redis.Redis, urls: int) -> tuple[list[str], list[list[str]]]:
    batches: list[list[LinkOffer]] = [[]]
    for page in Web(urls).pages():
        batches[-1] += page
        if sum(len(offer.links) for offer in batches[-1]) >= BATCH:
            batches.append([])
    bulk = sum(len(row) for batch in batches for offer in batch for _, row in offer.links)
    board, empty = await begin(client), Cost.now(client)
    new = 0
    for batch in batches:
        new += (await board.offer_links(batch, FREE)).new
    offered = Cost.now(client)
    hosts = (await board.totals()).hosts
    prefix = "fm:{fieldmouse}:"
    queues = sum(client.memory_usage(key, samples=0) for key in client.scan_iter(f"{prefix}q:*", count=1000))
    records = sum(client.memory_usage(key, samples=0) for key in client.scan_iter(f"{prefix}h:*", count=1000))
    records += sum(client.memory_usage(key, samples=0) for key in client.scan_iter(f"{prefix}r:*"))
    table = [
        f"{new:,}",
        f"{hosts:,}",
        f"{bulk / new:.0f}",
        f"{queues / new:.1f}",
        f"{records / hosts:.0f}",
        f"{(offered.used - empty.used) / new:.1f}",
    ]
    steps = [["offer", *spent(empty, offered, new)]]
    leased: list[tuple[LeaseId, list[int], list[str]]] = []
    before = Cost.now(client)
    while grants := await board.lease_hosts(NAME, 64, 100):
        for grant in grants:
            held = LeaseId(grant.host, grant.epoch)
            rows = list(grant.rows)
            while grant.remaining_urls:
                (grant,) = await board.lease_more_urls(NAME, [held], 100)
                rows += grant.rows
            names = [str(decode_row(row, held.host, 0.0).url) for _, row in rows]
            leased.append((held, [key for key, _ in rows], names))
    after = Cost.now(client)
    steps.append(["lease", *spent(before, after, new)])
    flat = [(held, key, name) for held, keys, names in leased for key, name in zip(keys, names, strict=True)]
    random.Random(1).shuffle(flat)
    before = Cost.now(client)
    for start in range(0, len(flat), 200):
        by_lease: dict[LeaseId, list[int]] = {}
        part = sorted(flat[start : start + 200], key=lambda settled: settled[0].epoch)
        for held, key, _ in part:
            by_lease.setdefault(held, []).append(key)
        told = AckBatch(
            [LeaseAck(held, keys, ["page"] * len(keys)) for held, keys in by_lease.items()],
            pack_urls([name for _, _, name in part]),
        )
        await board.ack(NAME, told)
    after = Cost.now(client)
    steps.append(["book", *spent(before, after, new)])
    books = await board.totals()
    assert (books.waiting, books.settled) == (0, new), books
    kept = client.memory_usage(f"{prefix}kept:bench", samples=0)
    table += [f"{kept / new:.1f}", f"{sum(len(name) for _, _, name in flat) / len(flat):.0f}"]
    await board.close()
    return table, steps


async def agents(client: redis.Redis, stops: list[int]) -> list[list[str]]:
    advert = msgspec.msgpack.encode(
        AgentReport(3.14, 1.1, 0.7, 123456, 20.5, 60, "machine-17", "/srv/crawls/east", 300.5)
    )
    board, names, rows = await begin(client), [NAME], []
    empty = Cost.now(client)
    for stop in stops:
        while len(names) < stop:
            number = len(names)
            name, host = (AgentId(f"machine-{number}-1a2b3c", 1_700_000_000_000_000), Host(f"http://{number}.test"))
            await board.join(name, 10_000.0)
            await board.heartbeat(name, HeartbeatRequest(advert, 10_000.0))
            await board.offer_links([LinkOffer(host, "test", [(number, b"x" * 60)])], FREE)
            (grant,) = await board.lease_hosts(name, 1, 1)
            asked = AddressRequest(f"10.0.{number // 256}.{number % 256}", LeaseId(host, grant.epoch), 1.0)
            await board.lease_addresses(name, [asked])
            names.append(name)
        held = Cost.now(client)
        for name in names[-100:]:
            await board.heartbeat(name, HeartbeatRequest(advert, 10_000.0))
        after, beats = Cost.now(client), min(100, stop)
        each = (held.used - empty.used) / (stop - 1)
        rows.append([f"{stop:,}", f"{each:,.0f}", *spent(held, after, beats)])
    await board.close()
    return rows


def spent(before: Cost, after: Cost, count: int) -> list[str]:
    server, ours = after.server - before.server, after.ours - before.ours
    heard, said = after.heard - before.heard, after.said - before.said
    times = [f"{seconds / count * 1e6:,.1f}" for seconds in (server, ours)]
    return [*times, *(f"{bytes / count:,.0f}" for bytes in (heard, said))]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--seen", type=int, default=1_000_000)
    options.add_argument("--waiting", type=int, default=300_000)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    if given.quick:
        given.seen, given.waiting = 200_000, 50_000
    stops = [n for n in (10**6, 10**7, 10**8) if n < given.seen] + [given.seen]
    with a_server() as client:
        say(f"offering until {given.seen:,} are seen")
        by_seen = asyncio.run(seen(client, stops))
    with a_server() as client:
        say(f"offering, leasing and booking {given.waiting:,}")
        table, steps = asyncio.run(waiting(client, given.waiting))
    with a_server() as client:
        say("joining")
        by_agents = asyncio.run(agents(client, [10, 100, 1000]))
    heads = (
        ["seen", "used B/URL", "resident B/URL", "server us/offered", "ours us/offered"],
        ["waiting", "hosts", "row B", "queued B/URL", "host B", "all used B/URL", "kept B/URL", "URL B"],
        ["for each URL", "server us", "ours us", "B to it", "B from it"],
        ["agents", "B/agent", "server us/beat", "ours us/beat", "B to it", "B from it"],
    )
    parts = list(zip(heads, (by_seen, [table], steps, by_agents), strict=True))
    if given.json:
        tables = [[dict(zip(head, row, strict=True)) for row in body] for head, body in parts]
        print(json.dumps(tables))
    else:
        print("\n\n".join(aligned(head, body) for head, body in parts))


if __name__ == "__main__":
    main()
