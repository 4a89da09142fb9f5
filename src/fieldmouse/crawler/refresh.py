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

from fieldmouse.aio import DaemonExecutor
from fieldmouse.archive.warc_reader import UnreadableMember, read_members, read_record, response_in_record
from fieldmouse.clock import Clock, WallClock
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.refresh_state import RefreshState
from fieldmouse.errors import DamagedFile
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.policy.polling import registry
from fieldmouse.policy.retry import POLL_WAIT
from fieldmouse.refresh.apply_outcomes import UNPLANNED, PageFlag
from fieldmouse.refresh.page_table import PageTable
from fieldmouse.refresh.scheduler import PollScheduler
from fieldmouse.storage.changes_from_outcomes import REFRESH_PART
from fieldmouse.storage.checkpoint import Checkpoint, Durable, DurableLog, SealedPart
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import Response
from fieldmouse.types.request import Request
from fieldmouse.types.stats import RestingHost
from fieldmouse.url import Url

#: Most polls that wait in the frontier; other due polls wait in the page table, at no cost.
MAX_WAITING_POLLS = 4096
_MOVING = 4096  # remembered pages whose redirect targets are not stored yet; others are polled in their turn
_NEAR = 1 << 14  # bytes: most headers are in the first piece that is read
_HOPS = 10  # redirects in a row
_FEWEST_OPEN = 8  # polls in flight per host, however slow it is


class Poller(Durable):
    """Poll loop of a run; a part of the checkpoint beside the page table."""

    name = REFRESH_PART

    def __init__(
        self,
        order: RefreshRunMode,
        state: RefreshState,
        *,
        table: PageTable,
        scheduler: PollScheduler,
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
        self.has_time_limit = order.refresh_only and not order.once
        self._state, self._table, self._scheduler = state, table, scheduler
        self._frontier, self._outcomes, self._clock = frontier, outcomes, clock
        self._opened_at, self._round_noted = opened_at, round_noted or math.inf
        self._total_budget, self._share, self._elsewhere = table.budget, share, elsewhere
        self._moving = dict(state.moving)
        self._moved_at = dict.fromkeys(state.moving, clock.now())  # latest possible time of that finding
        self._end = 0  # length of the sealed outcome log
        self._look_at = 0.0
        self._has_new_polls = False  # polls were sent since the last checkpoint
        self._over = False
        self.postponed_pages = 0  # pages that the round left for the next one
        self.resting_hosts: list[RestingHost] = []  # hosts that the round did not wait for

    # -- part of the checkpoint

    def roll_back_to_checkpoint(self) -> None:
        """Apply the outcomes of earlier runs; this creates the first page table of a crawl."""
        self._end = self._outcomes.length
        self._table.catch_up(self._end)
        self._table.cap_future_times(self._opened_at, self._round_noted)
        if not self._frontier.waiting_polls and self._table.in_flight:
            self._table.clear_in_flight()  # they left with a host, or with a frontier that was repaired

    def seal(self) -> SealedPart[RefreshState]:
        state, self._end = self._state, self._outcomes.length
        if not state.baseline and not self._frontier.waiting_count:
            state = self._state = msgspec.structs.replace(state, baseline=self._clock.now())
        if self._over and state.round:
            state = msgspec.structs.replace(state, round=0.0, last_round=state.round)
        return SealedPart(msgspec.structs.replace(state, reach=self._end, moving=dict(self._moving)))

    def on_checkpoint_committed(self) -> None:
        """Apply the sealed outcomes: only durable outcomes may be learned from."""
        self._table.catch_up(self._end)
        self._has_new_polls = False
        if self._moving:
            self._repoll_moved_pages()

    # -- polling

    def send_due_polls(self, now: float) -> None:
        """Send the polls that are due."""
        if self._share is not None and self._total_budget is not None:
            self._scheduler.set_budget(self._total_budget * self._share(), now)
        room = MAX_WAITING_POLLS - self._frontier.waiting_polls
        if now < self._look_at or room <= 0:
            return
        self._send_polls(self._scheduler.take_due(now, room))
        self._look_at = self._scheduler.next_poll_at(now) or 0.0

    def _send_polls(self, links: Sequence[Request]) -> None:
        if links:
            self._frontier.enqueue_polls(links)
            self._has_new_polls = True

    def seconds_until_next_poll(self, now: float) -> float:
        """Seconds until the next poll can be due; for a time when no fetch worker is active."""
        return self._look_at - now

    @property
    def polls_per_second(self) -> float | None:
        """Polls per second; None: limited only by politeness."""
        return self._table.budget

    @property
    def is_single_round(self) -> bool:
        """Whether this run polls one round and then ends."""
        return self._state.round > 0

    @property
    def has_unsaved_polls(self) -> bool:
        """Whether a checkpoint would add outcomes, although no fetch worker is active."""
        return self._has_new_polls or self._table.in_flight > 0

    @property
    def remaining_work(self) -> int:
        """Work left in the round: polls, and URLs discovered since; always 1 without a round."""
        if not self._state.round:
            return 1
        frontier = self._frontier
        return (
            self._scheduler.remaining_pages
            + frontier.waiting_polls
            + frontier.waiting_count
            - frontier.held_for_refresh_count
        )

    def is_round_stalled(self, now: float) -> bool:
        """Whether the round only waits for failed hosts that rest for longer than it waits."""
        stalled = self.is_single_round and self._frontier.are_all_hosts_in_backoff(now, POLL_WAIT)
        return stalled and not self._scheduler.has_pollable_page()

    def end_round_early(self, now: float) -> None:
        """End the round without the pages of resting hosts. Their polls stay in the frontier."""
        self.postponed_pages, self.resting_hosts = (
            self._scheduler.remaining_pages,
            self._frontier.hosts_in_backoff(now),
        )
        self._over = True

    @property
    def is_round_over(self) -> bool:
        """Whether the round has ended, perhaps with postponed pages."""
        return self._over or not self.remaining_work

    def stop_polling(self) -> None:
        """Stop polling. If the round is over, the next run begins another."""
        self._over = self.is_round_over

    # -- moved pages

    def is_target_stored(self, link: Request, target: Url) -> bool:
        """Whether a permanently redirected page can be removed: its target is stored."""
        if self._is_redirect_target_stored(target, self._moved_at.get(link.url, math.inf)):
            self._moving.pop(link.url, None)
            self._moved_at.pop(link.url, None)
            return True
        if len(self._moving) < _MOVING or link.url in self._moving:
            self._moving[link.url] = target
            self._moved_at.setdefault(link.url, self._clock.now())
        return False

    def _is_redirect_target_stored(self, url: str, since: float) -> bool:
        """Whether the page of that URL, or of the URL it moved to, is stored.

        On a cluster, a page of another agent counts as stored once that agent has had time to fetch it,
        from `since` on.
        """
        table = self._table
        for _ in range(_HOPS):
            number = table.find_row(url)
            if number is None:
                return self._elsewhere is not None and self._elsewhere(Url(url), since)
            rows = np.array([number])
            flags = int(table.read_cells("flags", rows)[0])
            if not flags & UNPLANNED:
                return True
            if not flags & PageFlag.MOVED:
                return False
            url = table.read_logged_outcome(int(table.read_cells("standing", rows)[0])).target
        return False

    def _repoll_moved_pages(self) -> None:
        """Poll moved pages whose targets are stored now; their new outcome counts."""
        table = self._table
        at = self._moved_at
        for url in [url for url, target in self._moving.items() if self._is_redirect_target_stored(target, at[url])]:
            number = table.find_row(url)
            rows = np.array([] if number is None else [number], np.int64)
            if not (table.read_cells("flags", rows) & PageFlag.IN_FLIGHT).any():
                del self._moving[url]
                self._send_polls(self._scheduler.take_requests_for(rows))


def open_page_table(home: CrawlDir, settings: Settings, last: Checkpoint | None) -> PageTable:
    """The page table of the last checkpoint, or an empty one; changes nothing on disk."""
    named = settings.refresh.policy
    return PageTable(home, last, policy=registry.create_policy(named), named=named)


def make_scheduler(
    home: CrawlDir, table: PageTable, frontier: CrawlFrontier, settings: Settings, state: RefreshState, clock: Clock
) -> PollScheduler:
    """Poll scheduler, built from the settings. Polls that were sent under another budget are forgotten."""
    asked, delay = settings.refresh, settings.politeness.delay
    budget = 1 / asked.budget if asked.budget else None
    if table.budget != budget:
        frontier.discard_waiting_polls()
    # The page table learns outcomes at the next checkpoint; until then a host may have more polls in flight.
    unknown = 3 * settings.storage.checkpoint
    return PollScheduler(
        table,
        registry.create_policy(asked.policy),
        budget,
        host_rate=1 / delay if delay else None,
        host_open=max(_FEWEST_OPEN, math.ceil(unknown / delay)) if delay else MAX_WAITING_POLLS,
        once_since=state.round or None,
        last_round=state.last_round,
        retry=asked.retry,
        read_answer=partial(_archived_response, home / "archive"),
        addresses=frontier.addresses,
        # Virtual time cannot wait for a thread.
        pool=DaemonExecutor() if isinstance(clock, WallClock) else None,
    )


def _archived_response(archive: Path, warc: str, offset: int) -> Response:
    path = archive / warc
    try:
        member = next(read_members(path, offset, path.stat().st_size, piece=_NEAR), None)
    except UnreadableMember as torn:
        raise DamagedFile(path, torn.reason) from torn
    if member is None:
        raise DamagedFile(path, f"there is no record at byte {offset}")
    return response_in_record(read_record(member.content))
