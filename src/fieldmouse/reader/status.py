"""Status of a crawl: its process, counts as of the newest checkpoint, and recorded statistics."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec

from fieldmouse.formatting import format_count, format_number, format_size
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_counters
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import read_records
from fieldmouse.types.reason import StoppedBy
from fieldmouse.types.stats import LiveStats

_decode = msgspec.msgpack.Decoder(LiveStats).decode


class CrawlState(Enum):
    """State of a crawl's process. The values are shown to users."""

    CRAWLING = "crawling"
    DONE = "done"
    STOPPED = "stopped"  # with work left
    KILLED = "killed"  # with work left, and nothing lost


class CrawlStatus(msgspec.Struct, frozen=True):
    """Counts as of the newest checkpoint; all 0 before the first one."""

    directory: str
    standing: CrawlState
    process: int | None  # of the process that crawls now
    at: float | None  # of the checkpoint
    stopped_by: StoppedBy = StoppedBy.NOTHING  # what ended the last run
    pages: int = 0
    seen: int = 0
    waiting: int = 0
    moved: int = 0
    refused: int = 0
    failed: int = 0
    unchanged: int = 0
    giving_hosts: int = 0  # with at least one page
    bytes: int = 0
    seconds: float = 0.0  # of crawling, in all runs
    reasons: dict[str, int] = {}  # for the lack of a page, with counts
    polls: int = 0  # of known URLs

    def __str__(self) -> str:
        pages, hosts = format_count(self.pages, "page"), format_count(self.giving_hosts, "host")
        return (
            f"`{self.directory}` is {self.standing.value}: {pages} from {hosts}, {format_size(self.bytes)};"
            f" {format_count(self.seen, 'URL')} seen, {format_number(self.waiting)} waiting"
        )


def read_status(home: CrawlDir) -> CrawlStatus:
    owner = home.owner_pid()
    last = read_checkpoint(home)
    if last is None:
        standing = CrawlState.STOPPED if owner is None else CrawlState.CRAWLING
        return CrawlStatus(str(home.path), CrawlState.KILLED if home.was_killed else standing, owner, None)
    tally, frontier = sealed_counters(last), frontier_state_of(last)
    standing = CrawlState.CRAWLING
    if owner is None:
        # The waiting URLs of an agent are on the coordinator.
        left = frontier.waiting or (home.is_cluster_agent and last.stopped_by)
        standing = CrawlState.KILLED if not last.clean else CrawlState.STOPPED if left else CrawlState.DONE
    return CrawlStatus(
        str(home.path),
        standing,
        owner,
        last.at,
        last.stopped_by,
        seen=frontier.seen,
        waiting=frontier.waiting,
        giving_hosts=tally.giving,
        reasons=dict(tally.reasons),
        polls=tally.polled.polls,
        **{name: getattr(tally, name) for name in "pages moved refused failed unchanged bytes seconds".split()},
    )


def read_live_stats(home: CrawlDir) -> Iterator[LiveStats]:
    """Statistics of all runs, about one for each second of running, oldest first."""
    path = home / "readings.log"
    if path.exists():
        for _, record in read_records(path):
            yield _decode(record)
