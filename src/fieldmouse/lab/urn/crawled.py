"""How many URLs each host of a crawl has: a source as the web made it (chapter 6 of the thesis)."""

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
    """Pages stored and URLs waiting, by host, as of the last checkpoint; reads only."""
    home = CrawlDir.open(directory)
    nothing: dict[Host, int] = {}
    if found := look(home, lambda last: _counts(home / "frontier", sealed_frontier(last)), before=nothing):
        return found
    raise FieldmouseError(
        f"the crawl in `{directory}` has met no host yet", "let it crawl for a while, then ask again"
    )


def _counts(frontier: Path, state: FrontierState) -> dict[Host, int]:
    found: Counter[Host] = Counter()
    for host, told in read_hosts(frontier, state.hosts).items():
        found[host] += told.pages
    for host, length in queue_lengths(frontier, state.queues.index):
        found[host] += length
    for host, _ in waiting_items(frontier, state.ready):
        found[host] += 1
    return dict(+found)
