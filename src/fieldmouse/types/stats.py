"""Status of a crawl: one reading per second, and one summary at the end of its process."""

from __future__ import annotations

import msgspec

from fieldmouse.formatting import format_count, format_duration, format_number, format_time
from fieldmouse.types.reason import OutcomeReason, StoppedBy


class LiveStats(msgspec.Struct, frozen=True, array_like=True):
    """Live statistics, about one per second: for the progress line, the dashboard and `queueing.fit`."""

    at: float
    pages: int
    hosts: int
    ready: int  # hosts ready to be visited now
    front: int  # hosts online
    buffered: int  # pages in the buffer
    robots: int
    waiting: int
    failed: int
    seen: int
    bytes: int
    refused: int = 0
    dropped: int = 0  # fetches discarded in this run because the buffer was full
    obsolete: int = 0  # fetches discarded in this run because they waited too long in the buffer
    allowed: int = 0  # fetch workers that may run
    level: int = 0  # pages in the buffer and with the indexer: decides the concurrency
    dropped_links: int = 0  # found but not accepted, because of the limits on pages and sites
    polls: int = 0  # known URLs fetched again
    changed: int = 0  # polls that found a changed or moved page, as of the last checkpoint
    gone: int = 0
    polling: int = 0  # polls in flight
    next_at: float = 0.0  # time of the next request, if none is in flight and all hosts rest; else 0
    resting: int = 0  # of these hosts, those that rest because they failed


_ENDINGS = {
    StoppedBy.NOTHING: "done for now",
    StoppedBy.PAGE_LIMIT: "stopped by the limit of pages",
    StoppedBy.TIME_LIMIT: "stopped by the limit of time",
    StoppedBy.DISK_FULL: "stopped: the disk is nearly full",
    StoppedBy.SIGNAL: "stopped by you",
    StoppedBy.DRAINED: "asked to leave",
}


class RestingHost(msgspec.Struct, frozen=True):
    """A host that failed and is not visited for some time."""

    host: str
    until: float  # epoch seconds
    failures: int  # in a row

    def __str__(self) -> str:
        times = format_count(self.failures, "time")
        return f"{self.host} failed {times} in a row and rests until {format_time(round(self.until))}"


class RefreshSummary(msgspec.Struct, frozen=True):
    """Results of the polls of one run; a `Summary` counts over all runs."""

    polls: int
    changed: int
    unchanged: int
    gone: int
    new: int  # URLs discovered
    useful_ratio: float | None  # share of polls that found a change; None without polls
    budget: float | None  # polls per hour; None: limited only by politeness
    failed: int = 0  # `changed`, `unchanged`, `gone`, `failed` and `refused` add up to all polls
    refused: int = 0  # polls without a request, for example because robots.txt now excludes the URL
    reasons: dict[str, int] = {}  # of the failed and refused polls
    postponed: int = 0  # pages that a round left for the next one because their hosts rest
    resting: list[RestingHost] = []  # the hosts of these pages

    @property
    def has_no_success(self) -> bool:
        """Whether there were polls, and all of them failed or were refused, other than by robots.txt."""
        by_robots = self.reasons.get(OutcomeReason.ROBOTS_TXT_EXCLUDED, 0)
        return self.polls > 0 and self.failed + self.refused == self.polls > by_robots

    def __str__(self) -> str:
        results = (
            f"{format_number(self.changed)} changed, {format_number(self.gone)} gone, "
            f"{format_number(self.unchanged)} unchanged"
            + (f", {format_number(self.failed)} failed" if self.failed else "")
            + (f", {format_number(self.refused)} refused" if self.refused else "")
        )
        done = f"{format_count(self.polls, 'poll')}: {results}; {format_count(self.new, 'URL')} discovered"
        if not self.postponed:
            return done
        verb = "is" if self.postponed == 1 else "are"
        return f"{done}; {format_count(self.postponed, 'page')} {verb} postponed"


class ClusterSummary(msgspec.Struct, frozen=True):
    """State of a crawl of several agents, from the coordinator; a `Summary` covers one of them."""

    agents: int  # alive
    pages: int
    seen: int
    booked: int
    waiting: int
    # outcomes of this agent that came too late to count, because their URLs had been given to other agents
    again: int


class Summary(msgspec.Struct, frozen=True):
    """State of a crawl when its process ends; the JSON that `crawl` and `resume` print."""

    pages: int
    hosts: int  # hosts seen; `giving_hosts` counts those with at least one page
    seconds: float
    pages_per_second: float
    seen: int
    waiting: int
    failed: int
    refused: int
    moved: int
    lost: int  # URLs accepted but not accounted for; always 0, or there is a bug
    bytes: int
    peak_rss_mb: float
    exit: int
    stopped_by: StoppedBy = StoppedBy.NOTHING
    reasons: dict[str, int] = {}
    giving_hosts: int = 0
    polls: int = 0  # known URLs fetched again; the next three fields count their results
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    failed_polls: int = 0  # the three fields before, this one and `refused_polls` add up to all polls
    refused_polls: int = 0
    untold: dict[str, int] = {}  # changes that `[notify]` has not delivered yet, by channel
    dropped_links: dict[str, int] = {}  # by the setting that limits them; never accepted, so never seen
    refreshed: RefreshSummary | None = None  # of this run, if it polled known pages
    whole: ClusterSummary | None = None  # for an agent of a cluster

    def __str__(self) -> str:
        pages, hosts = format_count(self.pages, "page"), format_count(self.giving_hosts, "host")
        done = f"{pages} from {hosts} in {format_duration(self.seconds)}"
        if self.reasons and not self.pages:
            done += "; " + ", ".join(f"{why} ({format_number(times)})" for why, times in self.reasons.items())
        elif self.failed:
            done += f"; {format_count(self.failed, 'URL')} failed"
        if self.refreshed is not None:
            done += f"; {self.refreshed}"
        left = f"{_ENDINGS[self.stopped_by]}, {format_count(self.waiting, 'URL')} waiting"
        return f"{done}; {left}" if self.waiting else done
