"""Statistics of a crawl: one reading a second while it runs, and one summary at its end.

Pure functions of the stages' numbers. A reading counts the known outcomes, a summary only those that the
last checkpoint holds (see `desk.py`).
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple

from fieldmouse.agent.desk import Desk
from fieldmouse.control.gauge import Gauge
from fieldmouse.crawldir import CrawlTally
from fieldmouse.crawldir.tally import PollTally
from fieldmouse.frontier.face import CrawlFrontier
from fieldmouse.meter import Meter
from fieldmouse.outcome import OutcomeKind, StoppedBy
from fieldmouse.policy.sitelimits import DropRule
from fieldmouse.records import Reading, Summary
from fieldmouse.summary import Refreshed, WholeCrawl

if TYPE_CHECKING:
    from fieldmouse.agent.refreshing import Refreshing  # loaded only by a crawl that polls


def take_reading(now: float, desk: Desk, frontier: CrawlFrontier, meter: Meter, gauge: Gauge) -> Reading:
    """Current statistics."""
    tally, fresh = desk.tally, desk.fresh
    ready_at = frontier.ready_at()
    next_at = ready_at if ready_at is not None and ready_at > now and not meter.out else 0.0
    return Reading(
        at=now,
        pages=desk.pages,
        hosts=frontier.hosts,
        ready=frontier.ready_hosts(now),
        front=frontier.front,
        buffered=meter.waiting,
        robots=meter.out,
        waiting=frontier.waiting - sum(fresh.values()),
        failed=tally.failed + fresh[OutcomeKind.FAILED],
        seen=frontier.seen,
        bytes=tally.bytes + desk.fresh_bytes,
        refused=tally.refused + fresh[OutcomeKind.REFUSED],
        dropped=gauge.dropped,
        obsolete=gauge.obsolete,
        allowed=meter.allowed,
        level=gauge.level,
        dropped_links=sum(dropped_links(tally, frontier).values()),
        polls=tally.polled.polls + desk.fresh_polls,
        changed=tally.polled.changed,
        gone=tally.polled.gone,
        polling=frontier.polling - desk.fresh_polls,
        next_at=next_at,
        resting=len(frontier.resting(now)) if next_at else 0,
    )


class Before(NamedTuple):
    """Totals at the start of this run."""

    pages: int
    seen: int
    polled: PollTally

    @classmethod
    def of(cls, tally: CrawlTally, frontier: CrawlFrontier) -> Before:
        return cls(tally.pages, frontier.seen, deepcopy(tally.polled))


def refreshed(
    before: Before, tally: CrawlTally, frontier: CrawlFrontier, refreshing: Refreshing
) -> Refreshed:
    """Results of this run's polls."""
    old, new = before.polled, tally.polled
    polls, changed, gone = new.polls - old.polls, new.changed - old.changed, new.gone - old.gone
    return Refreshed(
        polls=polls,
        changed=changed,
        unchanged=new.unchanged - old.unchanged,
        gone=gone,
        failed=new.failed - old.failed,
        refused=new.refused - old.refused,
        postponed=refreshing.postponed,
        resting=refreshing.resting,
        reasons={
            reason: times - old.reasons.get(reason, 0)
            for reason, times in sorted(new.reasons.items())
            if times > old.reasons.get(reason, 0)
        },
        new=frontier.seen - before.seen,
        useful_ratio=round((changed + gone) / polls, 4) if polls else None,
        budget=round(refreshing.budget * 3600, 3) if refreshing.budget else None,
    )


def sum_up(
    desk: Desk,
    frontier: CrawlFrontier,
    *,
    seconds: float,
    before: Before,
    peak_rss: int,
    stopped_by: StoppedBy,
    is_done: bool,
    told: Refreshed | None,
    whole: WholeCrawl | None = None,
) -> Summary:
    """Summary at the end of a run; `peak_rss` is bytes, and `told` the results of its polls, if any."""
    tally = desk.tally
    nothing = not tally.pages and not tally.unchanged and not tally.polled.polls
    if whole is not None:  # other agents may have found all pages
        nothing = nothing and tally.settled > 0 and not whole.pages
    left = stopped_by in (StoppedBy.SIGNAL, StoppedBy.DRAINED)
    code = 130 if left else 3 if not is_done else 1 if nothing else 0
    return Summary(
        pages=tally.pages,
        hosts=frontier.hosts,
        giving_hosts=tally.giving,
        seconds=round(seconds, 3),
        pages_per_second=round(max(0, tally.pages - before.pages) / seconds, 2) if seconds else 0.0,
        seen=frontier.seen,
        waiting=frontier.waiting,
        failed=tally.failed,
        refused=tally.refused,
        moved=tally.moved,
        lost=frontier.seen - frontier.waiting - tally.settled,
        bytes=tally.bytes,
        peak_rss_mb=round(peak_rss / (1 << 20), 1),
        exit=code,
        stopped_by=stopped_by if code else StoppedBy.NOTHING,
        reasons=dict(sorted(tally.reasons.items())),
        polls=tally.polled.polls,
        changed=tally.polled.changed,
        unchanged=tally.polled.unchanged,
        gone=tally.polled.gone,
        failed_polls=tally.polled.failed,
        refused_polls=tally.polled.refused,
        dropped_links=dropped_links(tally, frontier),
        refreshed=told,
        whole=whole,
    )


def dropped_links(tally: CrawlTally, frontier: CrawlFrontier) -> dict[str, int]:
    """Links found but not accepted, by the setting that limits them; repeated finds count again."""
    left_out = {DropRule.LINKS.value: tally.left_out} if tally.left_out else {}
    return left_out | dict(sorted(frontier.dropped.items()))
