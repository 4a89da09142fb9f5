"""Course of a front under a policy, measured from the events that its observer receives.

A recorded crawl and its replay are measured by the same code, so no difference between them comes from the
measurement.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from zlib import crc32

import msgspec

from fieldmouse.frontier.distribution_decision_log import DecisionObserver
from fieldmouse.url import Host


class FrontPoint(msgspec.Struct, frozen=True, array_like=True):
    """One point in time: seconds since the start, hosts online, requested front width, URLs offline."""

    seconds: float
    online: int
    width: int
    backlog: int


class FrontMeasures(msgspec.Struct, frozen=True):
    """Measures of a policy on a crawl's URLs and visits. Means are over time."""

    visits: int  # visits that used at least one URL
    urls: int  # URLs used in these visits
    hosts_online: float
    front_width: float
    filled: float  # mean share of the front's slots that held a host
    draws: int  # URLs drawn from the source
    appends: int  # drawn URLs that went offline
    reads: int  # batches read back
    backlog: int  # URLs offline at the end
    backlog_peak: int
    decisions: int
    course: tuple[FrontPoint, ...] = ()


class FrontCourse(DecisionObserver):
    """`DecisionObserver` that measures a front. The first `compared` decisions go into `checksum`."""

    def __init__(self, compared: int = 1 << 62) -> None:
        self._online: dict[Host, int] = {}
        self._compared = compared
        self._width = self._backlog = self._peak = 0
        self._started = 0.0
        self._seconds, self._points = array("d"), array("q")
        self.visits = self.urls = self.draws = self.appends = self.reads = self.decisions = 0
        self.checksum = 0

    def run_started(self, now: float, *, unlisted: int, batch: int) -> None:
        self._started = now

    def backlog_restored(self, host: Host, urls: int) -> None:
        self._store(urls)

    def urls_put_online_without_decision(self, host: Host, urls: int) -> None:
        self._bring(host, urls)

    def no_host_ready(self, width: int, out: int) -> None:
        self._width = width

    def visit_started(self, width: int, out: int) -> None:
        self._width = width

    def visit_ended(self, host: Host, urls: int) -> None:
        if urls:
            self.visits += 1
            self.urls += urls
            self._remove(host, urls)

    def time_passed(self, now: float) -> None:
        self._seconds.append(now - self._started)
        self._points.extend((len(self._online), self._width, self._backlog))

    def url_placed(self, host: Host, online: bool) -> None:
        self.draws += 1
        self._note(b"+" if online else b"-", host)
        if online:
            self._bring(host, 1)
        else:
            self.appends += 1
            self._store(1)

    def urls_read_from_queue(self, host: Host, urls: int) -> None:
        self.reads += 1
        self._note(b"%d" % urls, host)
        self._backlog -= urls
        self._bring(host, urls)

    def host_taken_offline(self, host: Host, urls: int) -> None:
        self._note(b"!%d" % urls, host)
        self._remove(host, urls)
        self._store(urls)

    def _note(self, decision: bytes, host: Host) -> None:
        if self.decisions < self._compared:
            self.checksum = crc32(b"%s %s\n" % (decision, host.encode()), self.checksum)
        self.decisions += 1

    def _bring(self, host: Host, urls: int) -> None:
        self._online[host] = self._online.get(host, 0) + urls

    def _remove(self, host: Host, urls: int) -> None:
        left = self._online[host] - urls
        if left:
            self._online[host] = left
        else:
            del self._online[host]

    def _store(self, urls: int) -> None:
        self._backlog += urls
        self._peak = max(self._peak, self._backlog)

    def points(self) -> Iterable[FrontPoint]:
        for place, seconds in enumerate(self._seconds):
            yield FrontPoint(seconds, *self._points[3 * place : 3 * place + 3])

    def measures(self, most_points: int = 200) -> FrontMeasures:
        """Return all measures; the course is thinned to at most `most_points` points."""
        counts = self.draws, self.appends, self.reads, self._backlog, self._peak, self.decisions
        course = tuple(list(self.points())[:: max(1, -(-len(self._seconds) // most_points))])
        return FrontMeasures(self.visits, self.urls, *self._means(), *counts, course)

    def _means(self) -> tuple[float, float, float]:
        """Means of hosts online, of the width, and of their ratio, weighted by duration."""
        if not self._seconds:
            return float(len(self._online)), float(self._width), 0.0
        times = [*self._seconds[1:], self._seconds[-1] + 0.1]
        whole = times[-1] - self._seconds[0]
        online = width = filled = 0.0
        for point, until in zip(self.points(), times, strict=True):
            share = (until - point.seconds) / whole
            online += share * point.online
            width += share * point.width
            filled += share * min(1.0, point.online / max(1, point.width))
        return online, width, filled
