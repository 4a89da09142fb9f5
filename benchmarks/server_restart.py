"""Restart of a large coordinator's server: seconds, and memory before and after.

A separate Redis server is filled with seen URLs as in `coordinator.py`, rewrites its append-only file, is
killed, and is started with that file; then the same again after further URLs were offered and wait. Times
are wall time and, for reading the file, the server's processor time.

    .venv/bin/python benchmarks/server_restart.py [--seen 10000000] [--waiting 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

import redis
from coordinator import BATCH, FREE, Cost, Web, board_of, seen
from coordinator_server import BoardProcess, a_process
from table import aligned, say

from fieldmouse.cluster.coordinator import LinkOffer

HEAD = [
    "seen",
    "waiting",
    "used MB",
    "resident MB",
    "file MB",
    "used again",
    "resident again",
    "s to write",
    "s to read",
    "server s to read",
]


async def fill(client: redis.Redis, urls: int) -> int:
    """Offer requests until this number waits on a coordinator with a crawl; return the number of new ones."""
    board, batch, new = board_of(client), list[LinkOffer](), 0
    for page in Web(urls).pages():
        batch += page
        if sum(len(offer.links) for offer in batch) >= BATCH:
            new += (await board.offer_links(batch, FREE)).new
            batch = []
    new += (await board.offer_links(batch, FREE)).new
    await board.close()
    return new


def restarted(server: BoardProcess, urls: int, waiting: int) -> list[str]:
    """Memory of a server before it is killed, and after it has read its file."""
    before, begun = Cost.now(server.client), time.monotonic()
    size = server.write_file_anew()
    written = time.monotonic() - begun
    server.kill()
    begun = time.monotonic()
    server.start()
    read, after = time.monotonic() - begun, Cost.now(server.client)
    sizes = [before.used, before.resident, size, after.used, after.resident]
    in_mb = [f"{each / 2**20:,.0f}" for each in sizes]
    return [f"{urls:,}", f"{waiting:,}", *in_mb, f"{written:.1f}", f"{read:.1f}", f"{after.server:.1f}"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--seen", type=int, default=10_000_000)
    options.add_argument("--waiting", type=int, default=1_000_000)
    options.add_argument("--quick", action="store_true", help="a fiftieth of both")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    if given.quick:
        given.seen, given.waiting = given.seen // 50, given.waiting // 50
    with a_process() as server:
        say(f"offering until {given.seen:,} are seen")
        asyncio.run(seen(server.client, [given.seen]))
        rows = [restarted(server, given.seen, 0)]
        say(f"offering {given.waiting:,} that wait")
        new = asyncio.run(fill(server.client, given.waiting))
        rows.append(restarted(server, given.seen + new, new))
    print(json.dumps([dict(zip(HEAD, row, strict=True)) for row in rows]) if given.json else aligned(HEAD, rows))


if __name__ == "__main__":
    main()
