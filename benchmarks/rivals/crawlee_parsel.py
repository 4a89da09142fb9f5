"""Crawlee for Python with its Parsel crawler, in memory, as fast as it is let. SEED SECONDS [DELAY].

Crawlee has no delay per host; `max_tasks_per_minute` is for the crawl as a whole. With
a DELAY each host therefore gets its turns by a sleep before navigation, the usual recipe.
"""

import asyncio
import json
import logging
import sys
import time
from collections import defaultdict
from datetime import timedelta
from urllib.parse import urlsplit

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler
from crawlee.storage_clients import MemoryStorageClient


async def crawl(seed: str, seconds: float, delay: float) -> int:
    pages = 0
    concurrency = 500 if delay else 100  # with a delay most of them sleep
    deadline = time.monotonic() + seconds
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(
            min_concurrency=concurrency, desired_concurrency=concurrency, max_concurrency=concurrency
        ),
        configure_logging=False,
        max_request_retries=0,
        request_handler_timeout=timedelta(seconds=seconds + 60),
        storage_client=MemoryStorageClient(),
        use_session_pool=False,
        retry_on_blocked=False,
    )

    @crawler.router.default_handler
    async def handle(context) -> None:
        nonlocal pages
        pages += 1
        await context.enqueue_links(strategy="all")
        if time.monotonic() > deadline:
            crawler.stop()

    if delay:
        turns: defaultdict[str, float] = defaultdict(float)

        @crawler.pre_navigation_hook
        async def wait(context) -> None:
            host = urlsplit(context.request.url).netloc
            now = time.monotonic()
            turn = turns[host] = max(now, turns[host] + delay)
            await asyncio.sleep(turn - now)

    running = asyncio.create_task(crawler.run([seed]))
    await asyncio.wait([running], timeout=seconds + 3)
    if not running.done():
        crawler.stop()
    await asyncio.wait([running], timeout=10)
    return pages


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    wait = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    print(json.dumps({"pages": asyncio.run(crawl(sys.argv[1], float(sys.argv[2]), wait))}), flush=True)
