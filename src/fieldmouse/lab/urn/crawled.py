"""URL counts per host of a real crawl, used as a source (chapter 6 of the thesis)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from fieldmouse.crawldir import CrawlDir
from fieldmouse.errors import FieldmouseError
from fieldmouse.frontier.hostrows import read_hosts
from fieldmouse.frontier.moment import FrontierState, sealed_frontier
from fieldmouse.frontier.queueindex import queue_lengths
from fieldmouse.frontier.ready import waiting_items
from fieldmouse.reading.moment import look
from fieldmouse.url import Host


def counts(directory: Path) -> dict[Host, int]:
    """Count stored pages and waiting URLs per host at the last checkpoint, without changing the crawl."""
    home = CrawlDir.open(directory)
    nothing: dict[Host, int] = {}
    if urls := look(home, lambda last: _counts(home / "frontier", sealed_frontier(last)), before=nothing):
        return urls
    raise FieldmouseError(
        f"the crawl in `{directory}` has no hosts yet", "let it crawl for a while and try again"
    )


def _counts(frontier: Path, state: FrontierState) -> dict[Host, int]:
    urls: Counter[Host] = Counter()
    for host, row in read_hosts(frontier, state.hosts).items():
        urls[host] += row.pages
    for host, length in queue_lengths(frontier, state.queues.index):
        urls[host] += length
    for host, _ in waiting_items(frontier, state.ready):
        urls[host] += 1
    return dict(+urls)
