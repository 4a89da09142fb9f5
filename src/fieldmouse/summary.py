"""How a crawl stands: from second to second, and when its process ends."""

from __future__ import annotations

import msgspec

from fieldmouse.figures import counted, duration, number, when
from fieldmouse.outcome import StoppedBy


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """The crawl's vital signs, about one a second: for the live line, the dashboard and `queueing.fit`."""

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
    dropped: int = 0  # fetches thrown away in this run because the buffer was full
    obsolete: int = 0  # the same because they waited too long in it
    allowed: int = 0  # robots that may work
    level: int = 0  # pages in the buffer and with the indexer: what robots are governed by
    dropped_links: int = 0  # found and not taken, by the limits on pages and sites
    polls: int = 0  # known URLs that were asked again
    changed: int = 0  # of them, those that showed another page, or one that moved, as of the last checkpoint
    gone: int = 0
    polling: int = 0  # polls that are on their way
    next_at: float = 0.0  # when the next request may be made, if none is under way and hosts rest until then
    resting: int = 0  # of these hosts, those that rest because they failed


_ENDINGS = {
    StoppedBy.NOTHING: "done for now",
    StoppedBy.PAGES: "stopped by the limit of pages",
    StoppedBy.TIME: "stopped by the limit of time",
    StoppedBy.DISK: "stopped: the disk is nearly full",
    StoppedBy.SIGNAL: "stopped by you",
    StoppedBy.DRAINED: "asked to leave",
}


class HostRest(msgspec.Struct, frozen=True):
    """A host that failed, and is not asked for some time."""

    host: str
    until: float  # epoch seconds
    failures: int  # in a row

    def __str__(self) -> str:
        times = counted(self.failures, "time")
        return f"{self.host} failed {times} in a row and rests until {when(round(self.until))}"


class Refreshed(msgspec.Struct, frozen=True):
    """What the polls of one run showed; a `Summary` counts over all runs."""

    polls: int
    changed: int
    unchanged: int
    gone: int
    new: int  # URLs discovered
    useful_ratio: float | None  # of the polls, those that showed something new; None without any
    budget: float | None  # polls an hour; None: as many as politeness allows
    failed: int = 0  # with `changed`, `unchanged`, `gone` and `refused` these are all polls
    refused: int = 0  # not asked after all, such as what robots.txt excludes by now
    reasons: dict[str, int] = {}  # of those that failed or were refused
    postponed: int = 0  # pages that a round left for the next one, because their hosts rest
    resting: list[HostRest] = []  # these hosts

    def __str__(self) -> str:
        found = (
            f"{number(self.changed)} changed, {number(self.gone)} gone, {number(self.unchanged)} unchanged"
            + (f", {number(self.failed)} failed" if self.failed else "")
            + (f", {number(self.refused)} refused" if self.refused else "")
        )
        done = f"{counted(self.polls, 'poll')}: {found}; {counted(self.new, 'URL')} discovered"
        if not self.postponed:
            return done
        verb = "is" if self.postponed == 1 else "are"
        return f"{done}; {counted(self.postponed, 'page')} {verb} postponed"


class WholeCrawl(msgspec.Struct, frozen=True):
    """How a crawl of many agents stands, as the board knows it; a `Summary` is of one of them."""

    agents: int  # that live
    pages: int
    seen: int
    booked: int
    waiting: int
    again: int  # outcomes of this agent that came too late to count, since others had been given their URLs


class Summary(msgspec.Struct, frozen=True):
    """How a crawl stands when its process ends; the JSON that `crawl` and `resume` print."""

    pages: int
    hosts: int  # met; `giving_hosts` gave at least one page
    seconds: float
    pages_per_second: float
    seen: int
    waiting: int
    failed: int
    refused: int
    moved: int
    lost: int  # URLs we accepted and cannot account for; always 0, or there is a bug
    bytes: int
    peak_rss_mb: float
    exit: int
    stopped_by: StoppedBy = StoppedBy.NOTHING
    reasons: dict[str, int] = {}
    giving_hosts: int = 0
    polls: int = 0  # known URLs that were asked again; the next three are of them
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    failed_polls: int = 0  # with the three before and `refused_polls` these are all polls
    refused_polls: int = 0
    untold: dict[str, int] = {}  # changes that `[notify]` has yet to tell, by channel
    dropped_links: dict[str, int] = {}  # by the setting that limits them; never accepted, so never seen
    refreshed: Refreshed | None = None  # of this run, if known pages were polled
    whole: WholeCrawl | None = None  # of an agent of a network

    def __str__(self) -> str:
        pages, hosts = counted(self.pages, "page"), counted(self.giving_hosts, "host")
        done = f"{pages} from {hosts} in {duration(self.seconds)}"
        if self.reasons and not self.pages:
            done += "; " + ", ".join(f"{why} ({number(times)})" for why, times in self.reasons.items())
        elif self.failed:
            done += f"; {counted(self.failed, 'URL')} failed"
        if self.refreshed is not None:
            done += f"; {self.refreshed}"
        left = f"{_ENDINGS[self.stopped_by]}, {counted(self.waiting, 'URL')} waiting"
        return f"{done}; {left}" if self.waiting else done
