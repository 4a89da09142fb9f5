"""How many URLs each host of a crawl has: a source as the web made it (chapter 6 of the thesis)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from fieldmouse.crawldir import CrawlDir, read_checkpoint
from fieldmouse.errors import FieldmouseError
from fieldmouse.frontier.hostrows import read_hosts
from fieldmouse.frontier.moment import sealed_frontier
from fieldmouse.frontier.queueindex import queue_lengths
from fieldmouse.frontier.ready import waiting_items
from fieldmouse.url import Host


def counts(directory: Path) -> dict[Host, int]:
    """Pages stored and URLs waiting, by host, as of the last checkpoint; reads only.

    While a crawl runs, a file may go with the next checkpoint: then we look again.
    """
    home = CrawlDir.open(directory)
    for attempt in range(5):
        last = read_checkpoint(home)
        if last is None:
            break
        found: Counter[Host] = Counter()
        frontier, state = home / "frontier", sealed_frontier(last)
        try:
            for host, told in read_hosts(frontier, state.hosts).items():
                found[host] += told.pages
            for host, length in queue_lengths(frontier, state.queues.index):
                found[host] += length
            for host, _ in waiting_items(frontier, state.ready):
                found[host] += 1
        except FileNotFoundError:
            if attempt == 4:
                raise
            continue
        if found.total():
            return dict(+found)
        break
    raise FieldmouseError(
        f"the crawl in `{directory}` has met no host yet", "let it crawl for a while, then ask again"
    )
