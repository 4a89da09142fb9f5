"""Polling of known pages while a crawl runs.

The page table and the scheduler decide (`refresh/`); this module connects them to the frontier and the clock.
After each checkpoint the page table applies the durable outcomes, and the polls that are due go to the
frontier. Both are sealed in the same checkpoint, so a kill repeats no poll that was answered and loses none
that was requested.

A page that has moved permanently stays in search until its target is stored. The page table knows which pages
are stored; if the target is not, the page is polled again once it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from fieldmouse.aio import Aside
from fieldmouse.archive.warc_reader import Torn, answer_of, members, read_record
from fieldmouse.clock import Clock, WallClock
from fieldmouse.config.sections import Order
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.refresh_state import RefreshState
from fieldmouse.errors import Damaged
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.policy.polling import registry
from fieldmouse.policy.retry import POLL_WAIT
from fieldmouse.refresh.apply_outcomes import ODD, Flag
from fieldmouse.refresh.page_table import Ledger
from fieldmouse.refresh.scheduler import Scheduler
from fieldmouse.storage.changes import REFRESH
from fieldmouse.storage.checkpoint import Checkpoint, DurableLog, Sealed
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import Response
from fieldmouse.types.request import Link
from fieldmouse.types.stats import HostRest
from fieldmouse.url import Url

ROOM = 4096
"""Most polls that wait in the frontier; other due polls wait in the page table, at no cost."""
_MOVING = 4096  # remembered pages whose redirect targets are not stored yet; others are polled in their turn
_NEAR = 1 << 14  # bytes: most headers are in the first piece that is read
_HOPS = 10  # redirects in a row
_FEWEST_OPEN = 8  # polls in flight per host, however slow it is


class Refreshing:
    """Poll loop of a run; a part of the checkpoint beside the page table."""

    name = REFRESH

    def __init__(
        self,
        order: Order,
        state: RefreshState,
        *,
        ledger: Ledger,
        scheduler: Scheduler,
        frontier: CrawlFrontier,
        outcomes: DurableLog,
        clock: Clock,
        opened_at: float,
        round_noted: float = 0.0,
        share: Callable[[], float] | None = None,
        elsewhere: Callable[[Url, float], bool] | None = None,
    ):
        """`opened_at` is the time for which `state` was made.

        `round_noted` is the start of the continued round in the checkpoint; 0 if the round begins now.
        `share` is our share of the budget on a cluster. `elsewhere` says whether other agents have fetched
        a URL that was found at that time.
        """
        self.asked_for_time = order.only and not order.once
        self._state, self._ledger, self._scheduler = state, ledger, scheduler
        self._frontier, self._outcomes, self._clock = frontier, outcomes, clock
        self._opened_at, self._round_noted = opened_at, round_noted or math.inf
        self._total_budget, self._share, self._elsewhere = ledger.budget, share, elsewhere
        self._moving = dict(state.moving)
        self._moved_at = dict.fromkeys(state.moving, clock.now())  # latest possible time of that finding
        self._end = 0  # length of the sealed outcome log
        self._look_at = 0.0
        self._has_new_polls = False  # polls were sent since the last checkpoint
        self._over = False
        self.postponed = 0  # pages that the round left for the next one
        self.resting: list[HostRest] = []  # hosts that the round did not wait for

    # -- part of the checkpoint

    def begin(self) -> None:
        """Apply the outcomes of earlier runs; this creates the first page table of a crawl."""
        self._end = self._outcomes.length
        self._ledger.catch_up(self._end)
        self._ledger.limit_times(self._opened_at, self._round_noted)
        if not self._frontier.polling and self._ledger.asked:
            self._ledger.forget_asked()  # they left with a host, or with a frontier that was repaired

    def seal(self) -> Sealed[RefreshState]:
        state, self._end = self._state, self._outcomes.length
        if not state.baseline and not self._frontier.waiting:
            state = self._state = msgspec.structs.replace(state, baseline=self._clock.now())
        if self._over and state.round:
            state = msgspec.structs.replace(state, round=0.0, last_round=state.round)
        return Sealed(msgspec.structs.replace(state, reach=self._end, moving=dict(self._moving)))

    def committed(self) -> None:
        """Apply the sealed outcomes: only durable outcomes may be learned from."""
        self._ledger.catch_up(self._end)
        self._has_new_polls = False
        if self._moving:
            self._poll_moved()

    def close(self) -> None:
        """Nothing to close."""

    # -- polling

    def look(self, now: float) -> None:
        """Send the polls that are due."""
        if self._share is not None and self._total_budget is not None:
            self._scheduler.afford(self._total_budget * self._share(), now)
        room = ROOM - self._frontier.polling
        if now < self._look_at or room <= 0:
            return
        self._poll(self._scheduler.due(now, room))
        self._look_at = self._scheduler.next_at(now) or 0.0

    def _poll(self, links: Sequence[Link]) -> None:
        if links:
            self._frontier.poll(links)
            self._has_new_polls = True

    def rest(self, now: float) -> float:
        """Seconds until the next poll can be due; for a time when no fetch worker is active."""
        return self._look_at - now

    @property
    def budget(self) -> float | None:
        """Polls per second; None: limited only by politeness."""
        return self._ledger.budget

    @property
    def ends(self) -> bool:
        """Whether this run polls one round and then ends."""
        return self._state.round > 0

    @property
    def unsettled(self) -> bool:
        """Whether a checkpoint would add outcomes, although no fetch worker is active."""
        return self._has_new_polls or self._ledger.asked > 0

    @property
    def left(self) -> int:
        """Work left in the round: polls, and URLs discovered since; always 1 without a round."""
        if not self._state.round:
            return 1
        frontier = self._frontier
        return self._scheduler.left + frontier.polling + frontier.waiting - frontier.held

    def is_stalled(self, now: float) -> bool:
        """Whether the round only waits for failed hosts that rest for longer than it waits."""
        stalled = self.ends and self._frontier.is_stalled(now, POLL_WAIT)
        return stalled and not self._scheduler.can_ask()

    def postpone(self, now: float) -> None:
        """End the round without the pages of resting hosts. Their polls stay in the frontier."""
        self.postponed, self.resting = self._scheduler.left, self._frontier.resting(now)
        self._over = True

    @property
    def is_over(self) -> bool:
        """Whether the round has ended, perhaps with postponed pages."""
        return self._over or not self.left

    def end(self) -> None:
        """Stop polling. If the round is over, the next run begins another."""
        self._over = self.is_over

    # -- moved pages

    def has_moved(self, link: Link, target: Url) -> bool:
        """Whether a permanently redirected page can be removed: its target is stored."""
        if self._is_stored(target, self._moved_at.get(link.url, math.inf)):
            self._moving.pop(link.url, None)
            self._moved_at.pop(link.url, None)
            return True
        if len(self._moving) < _MOVING or link.url in self._moving:
            self._moving[link.url] = target
            self._moved_at.setdefault(link.url, self._clock.now())
        return False

    def _is_stored(self, url: str, since: float) -> bool:
        """Whether the page of that URL, or of the URL it moved to, is stored.

        On a cluster, a page of another agent counts as stored once that agent has had time to fetch it,
        from `since` on.
        """
        ledger = self._ledger
        for _ in range(_HOPS):
            number = ledger.find(url)
            if number is None:
                return self._elsewhere is not None and self._elsewhere(Url(url), since)
            rows = np.array([number])
            flags = int(ledger.take("flags", rows)[0])
            if not flags & ODD:
                return True
            if not flags & Flag.MOVED:
                return False
            url = ledger.row_at(int(ledger.take("standing", rows)[0])).target
        return False

    def _poll_moved(self) -> None:
        """Poll moved pages whose targets are stored now; their new outcome counts."""
        ledger = self._ledger
        at = self._moved_at
        for url in [url for url, target in self._moving.items() if self._is_stored(target, at[url])]:
            number = ledger.find(url)
            rows = np.array([] if number is None else [number], np.int64)
            if not (ledger.take("flags", rows) & Flag.ASKED).any():
                del self._moving[url]
                self._poll(self._scheduler.ask(rows))


def open_ledger(home: CrawlDir, settings: Settings, last: Checkpoint | None) -> Ledger:
    """The page table of the last checkpoint, or an empty one; changes nothing on disk."""
    named = settings.refresh.policy
    return Ledger.open(home, last, policy=registry.policy(named), named=named)


def scheduler_of(
    home: CrawlDir, ledger: Ledger, settings: Settings, state: RefreshState, clock: Clock
) -> Scheduler:
    """Poll scheduler, built from the settings."""
    asked, delay = settings.refresh, settings.politeness.delay
    # The page table learns outcomes at the next checkpoint; until then a host may have more polls in flight.
    unknown = 3 * settings.storage.checkpoint
    return Scheduler(
        ledger,
        registry.policy(asked.policy),
        1 / asked.budget if asked.budget else None,
        host_rate=1 / delay if delay else None,
        host_open=max(_FEWEST_OPEN, math.ceil(unknown / delay)) if delay else ROOM,
        once_since=state.round or None,
        last_round=state.last_round,
        retry=asked.retry,
        read_headers=partial(_archived_headers, home / "archive"),
        read_answer=partial(_archived_response, home / "archive"),
        # Virtual time cannot wait for a thread.
        pool=Aside() if isinstance(clock, WallClock) else None,
    )


def _archived_headers(archive: Path, warc: str, offset: int) -> dict[str, str]:
    """Headers of an archived response; of duplicates the first."""
    return dict(reversed(_archived_response(archive, warc, offset).headers))


def _archived_response(archive: Path, warc: str, offset: int) -> Response:
    path = archive / warc
    try:
        member = next(members(path, offset, path.stat().st_size, piece=_NEAR), None)
    except Torn as torn:
        raise Damaged(path, torn.what) from torn
    if member is None:
        raise Damaged(path, f"there is no record at byte {offset}")
    return answer_of(read_record(member.content))
