"""Statistics of a crawl: live readings, the final summary, and the load of an agent.

A reading counts the known outcomes, a summary only those that the last checkpoint holds.

An agent may be busy although its fetch workers are not: its worker processes parse at full speed, its event
loop is late, or other programs use its CPU. So its load is the largest of four shares, each from 0 to 1:

- active fetch workers, of those that may run;
- pages that the worker processes hold or that wait for them, of those that they can hold;
- lateness of the event loop: `LATE_SECONDS` seconds count as one half;
- CPU demand of the event loop's thread, and of the worker processes on average: time on a CPU plus time in
  the scheduler's queue. So a saturated thread shows as 1, no matter how many others share its core.

Other agents read the load in the heartbeat and send fewer hosts. In virtual time the CPU share is meaningless
and is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.control.buffer_trace import BufferTotalsCounter
from fieldmouse.crawler.in_flight import InFlightTable
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.policy.scope import ExceededLimit
from fieldmouse.storage.checkpoint import CrawlCounters, PollCounters
from fieldmouse.types.reason import OutcomeKind, OutcomeReason, StoppedBy
from fieldmouse.types.stats import ClusterSummary, LiveStats, RefreshSummary, Summary

if TYPE_CHECKING:
    from fieldmouse.crawler.refresh import Poller  # loaded only by a crawl that polls


def live_stats(
    now: float,
    in_flight_table: InFlightTable,
    frontier: CrawlFrontier,
    meter: BackpressureState,
    gauge: BufferTotalsCounter,
) -> LiveStats:
    """Current statistics."""
    tally, fresh = in_flight_table.tally, in_flight_table.undurable
    ready_at = frontier.ready_at()
    next_at = ready_at if ready_at is not None and ready_at > now and not meter.active_visits else 0.0
    return LiveStats(
        at=now,
        pages=in_flight_table.stored_page_count,
        hosts=frontier.total_hosts,
        ready=frontier.ready_host_count(now),
        front=frontier.online_host_count,
        buffered=meter.buffered,
        robots=meter.active_visits,
        waiting=frontier.waiting_count - sum(fresh.values()),
        failed=tally.failed + fresh[OutcomeKind.FAILED],
        seen=frontier.seen_count,
        bytes=tally.bytes + in_flight_table.undurable_bytes,
        refused=tally.refused + fresh[OutcomeKind.REFUSED],
        dropped=gauge.dropped,
        obsolete=gauge.obsolete,
        allowed=meter.concurrency,
        level=gauge.level,
        dropped_links=sum(count_dropped_links(tally, frontier).values()),
        polls=tally.polled.polls + in_flight_table.undurable_polls,
        changed=tally.polled.changed,
        gone=tally.polled.gone,
        polling=frontier.waiting_polls - in_flight_table.undurable_polls,
        next_at=next_at,
        resting=len(frontier.hosts_in_backoff(now)) if next_at else 0,
    )


class StatsAtStart(NamedTuple):
    """Totals at the start of this run."""

    pages: int
    seen: int
    polled: PollCounters
    private: int  # URLs refused for a private address

    @classmethod
    def capture(cls, tally: CrawlCounters, frontier: CrawlFrontier) -> StatsAtStart:
        return cls(tally.pages, frontier.seen_count, deepcopy(tally.polled), _private_refusals(tally))


def _private_refusals(tally: CrawlCounters) -> int:
    return tally.reasons.get(OutcomeReason.PRIVATE_ADDRESS, 0)


def refresh_summary(
    before: StatsAtStart, tally: CrawlCounters, frontier: CrawlFrontier, refreshing: Poller
) -> RefreshSummary:
    """Results of this run's polls."""
    old, new = before.polled, tally.polled
    polls, changed, gone = new.polls - old.polls, new.changed - old.changed, new.gone - old.gone
    return RefreshSummary(
        polls=polls,
        changed=changed,
        unchanged=new.unchanged - old.unchanged,
        gone=gone,
        failed=new.failed_count - old.failed_count,
        refused=new.refused - old.refused,
        postponed=refreshing.postponed_pages,
        resting=refreshing.resting_hosts,
        reasons={
            reason: times - old.reasons.get(reason, 0)
            for reason, times in sorted(new.reasons.items())
            if times > old.reasons.get(reason, 0)
        },
        new=frontier.seen_count - before.seen,
        useful_ratio=round((changed + gone) / polls, 4) if polls else None,
        budget=round(refreshing.polls_per_second * 3600, 3) if refreshing.polls_per_second else None,
    )


def make_summary(
    in_flight_table: InFlightTable,
    frontier: CrawlFrontier,
    *,
    seconds: float,
    before: StatsAtStart,
    peak_rss: int,
    stopped_by: StoppedBy,
    is_done: bool,
    told: RefreshSummary | None,
    whole: ClusterSummary | None = None,
) -> Summary:
    """Summary at the end of a run; `peak_rss` is bytes, and `told` the results of its polls, if any."""
    tally = in_flight_table.tally
    nothing = not tally.pages and not tally.unchanged and not tally.polled.polls
    if whole is not None:  # other agents may have found all pages
        nothing = nothing and tally.settled_urls > 0 and not whole.pages
    elif told is None:  # a run that forgot `--allow-private`
        nothing = nothing or (tally.pages <= before.pages and _private_refusals(tally) > before.private)
    nothing = nothing or (told is not None and told.has_no_success)
    left = stopped_by in (StoppedBy.SIGNAL, StoppedBy.DRAINED)
    code = 130 if left else 3 if not is_done else 1 if nothing else 0
    return Summary(
        pages=tally.pages,
        hosts=frontier.total_hosts,
        giving_hosts=tally.giving,
        seconds=round(seconds, 3),
        pages_per_second=round(max(0, tally.pages - before.pages) / seconds, 2) if seconds else 0.0,
        seen=frontier.seen_count,
        waiting=frontier.waiting_count,
        failed=tally.failed,
        refused=tally.refused,
        moved=tally.moved,
        lost=frontier.seen_count - frontier.waiting_count - tally.settled_urls,
        bytes=tally.bytes,
        peak_rss_mb=round(peak_rss / (1 << 20), 1),
        exit=code,
        stopped_by=stopped_by if code else StoppedBy.NOTHING,
        reasons=dict(sorted(tally.reasons.items())),
        polls=tally.polled.polls,
        changed=tally.polled.changed,
        unchanged=tally.polled.unchanged,
        gone=tally.polled.gone,
        failed_polls=tally.polled.failed_count,
        refused_polls=tally.polled.refused,
        dropped_links=count_dropped_links(tally, frontier),
        refreshed=told,
        whole=whole,
    )


def count_dropped_links(tally: CrawlCounters, frontier: CrawlFrontier) -> dict[str, int]:
    """Links found but not accepted, by the setting that limits them; repeated finds count again."""
    left_out = {ExceededLimit.LINKS.value: tally.left_out} if tally.left_out else {}
    return left_out | dict(sorted(frontier.dropped_links_by_setting.items()))


#: Seconds by which a busy event loop is late.
LATE_SECONDS = 0.05
#: Seconds between two CPU measurements.
CPU_EVERY = 1.0
#: Longest backlog of pages that is reported, in seconds.
MAX_BACKLOG_SECONDS = 60.0
_MEMORY = 5.0  # seconds over which load and rates are averaged

Pids = Callable[[], Sequence[int]]


class CpuUtilisation:
    """CPU time that this thread and some processes used or waited for, as a share of the time that passed."""

    def __init__(self, workers: Pids, now: Callable[[], float] = time.monotonic, proc: Path = Path("/proc")):
        self._workers, self._now, self._proc = workers, now, proc
        self._at, self._before = now(), dict[str, float]()
        self.measure()

    def measure(self) -> float:
        """Since the last call; the larger of this thread's share and the mean of the processes' shares."""
        now = self._now()
        seconds, self._at = now - self._at, now
        totals = {name: self._cpu_seconds(name) for name in ("thread-self", *map(str, self._workers()))}
        before, self._before = self._before, totals
        if seconds <= 0.0:
            return 0.0
        shares = {name: (total - before[name]) / seconds for name, total in totals.items() if name in before}
        own = shares.pop("thread-self", 0.0)
        others = sum(shares.values()) / len(shares) if shares else 0.0
        return min(max(own, others, 0.0), 1.0)

    def _cpu_seconds(self, name: str) -> float:
        """Seconds on a CPU and in its queue; without the queue where the system does not report it."""
        try:
            on_cpu, queued = (self._proc / name / "schedstat").read_text().split()[:2]
            return (int(on_cpu) + int(queued)) / 1e9
        except (OSError, ValueError):  # another system, or a worker that has just died
            return time.thread_time() if name == "thread-self" else 0.0


class AgentLoadMeter:
    """Keeps `load` and `backlog_seconds` of `BackpressureState` current; call `update` several times a second."""

    def __init__(self, meter: BackpressureState, served: Callable[[], int], window: int, cpu: CpuUtilisation | None):
        """`served` counts the pages that worker processes have finished, from any start.

        `window` is the number of pages that all of them may hold; `cpu` is None in virtual time.
        """
        self._meter, self._count, self._window, self._cpu = meter, served, window, cpu
        self._load, self._rate, self._served = 0.0, 0.0, served()
        self._demand, self._until_cpu = 0.0, CPU_EVERY

    def update(self, seconds: float, late: float) -> None:
        """Update the load; `seconds` since the last call, and how many of them the event loop was `late`."""
        if seconds <= 0.0:
            return
        meter, fresh = self._meter, 1.0 - exp(-seconds / _MEMORY)
        before, self._served = self._served, self._count()
        self._rate += fresh * (max(0, self._served - before) / seconds - self._rate)
        behind = (
            meter.buffered / self._rate if self._rate > meter.buffered / MAX_BACKLOG_SECONDS else MAX_BACKLOG_SECONDS
        )
        self._load += fresh * (self._load_now(seconds, max(0.0, late)) - self._load)
        meter.set_agent_load(self._load, behind if meter.buffered else 0.0)

    def _load_now(self, seconds: float, late: float) -> float:
        meter = self._meter
        if self._cpu is not None:
            self._until_cpu -= seconds
            if self._until_cpu <= 0.0:
                self._demand, self._until_cpu = self._cpu.measure(), CPU_EVERY
        fetchers = 1.0 if meter.paused else meter.active_visits / max(1, meter.concurrency)
        workers = meter.level / self._window
        return min(1.0, max(fetchers, workers, late / (late + LATE_SECONDS), self._demand))
