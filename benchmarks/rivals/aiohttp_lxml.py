"""The crawler one writes in an hour: aiohttp, lxml, a set and a deque. SEED SECONDS."""

import asyncio
import json
import sys
import time
from collections import deque

import aiohttp
import uvloop
from links import Links

ROBOTS = 100


async def crawl(seed: str, seconds: float) -> int:
    waiting, links = deque([seed]), Links(seed)
    deadline = time.monotonic() + seconds
    pages = 0
    woken = asyncio.Event()

    async def robot(session: aiohttp.ClientSession) -> None:
        nonlocal pages
        while time.monotonic() < deadline:
            if not waiting:
                woken.clear()
                await woken.wait()
                continue
            url = waiting.popleft()
            try:
                async with session.get(url) as response:
                    if response.status != 200 or response.content_type != "text/html":
                        continue
                    body, base = await response.read(), str(response.url)
            except (aiohttp.ClientError, TimeoutError):
                continue
            pages += 1
            waiting.extend(links.new(body, base))
            woken.set()

    connector = aiohttp.TCPConnector(limit=ROBOTS)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        robots = [asyncio.create_task(robot(session)) for _ in range(ROBOTS)]
        await asyncio.wait(robots, timeout=seconds + 5)
        for task in robots:
            task.cancel()
    return pages


if __name__ == "__main__":
    print(json.dumps({"pages": uvloop.run(crawl(sys.argv[1], float(sys.argv[2])))}))
