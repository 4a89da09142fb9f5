"""Known pages asked for again while a crawl lives: who is due, what polls taught, and when that is all.

The ledger and the scheduler decide (`refresh/`); here they meet the frontier and the clock. After each
checkpoint the ledger takes in what became durable, and with each look the polls that are due go out by
the frontier's own door. Both are sealed at one moment, so a kill repeats no poll that was answered and
loses none that was asked.

A page that has moved for good stays in search until the page it moved to is stored. The ledger knows
what is stored; if the target is yet to come, the page is polled again when it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from fieldmouse.agent.rounds import RefreshState
from fieldmouse.aside import Aside
from fieldmouse.clock import Clock, WallClock
from fieldmouse.crawldir import Checkpoint, CrawlDir, DurableLog, Sealed
from fieldmouse.crawldir.news import REFRESH
from fieldmouse.errors import Damaged
from fieldmouse.frontier.face import CrawlFrontier
from fieldmouse.indexer.warcs import Torn, answer_of, members, read_record
from fieldmouse.policy.polling import lookup
from fieldmouse.policy.retry import POLL_WAIT
from fieldmouse.records import Link, Response
from fieldmouse.refresh.ledger import Ledger
from fieldmouse.refresh.looks import ODD, Flag
from fieldmouse.refresh.schedule import Scheduler
from fieldmouse.settings import Settings
from fieldmouse.settings.order import Order
from fieldmouse.summary import HostRest
from fieldmouse.url import Url

ROOM = 4096
"""Most polls that wait in the frontier: what is due beyond them waits in the ledger, at no cost."""
_MOVING = 4096  # pages remembered whose targets are yet to come; others are polled in their turn
_NEAR = 1 << 14  # bytes: most heads are in the first piece that is read
_HOPS = 10  # redirects in a row
_FEWEST_OPEN = 8  # polls of a host under way, however slow it is


class Refreshing:
    """Polls while it is asked to; a part of the checkpoint beside the ledger."""

    name = REFRESH

    def __init__(
        self, order: Order, state: RefreshState, *, ledger: Ledger, scheduler: Scheduler,
        frontier: CrawlFrontier, outcomes: DurableLog, clock: Clock,
        opened_at: float, round_noted: float = 0.0, share: Callable[[], float] | None = None,
        elsewhere: Callable[[Url, float], bool] | None = None,
    ):  # fmt: skip
        """`opened_at` is the moment for which `state` was made.

        `round_noted`: when the round that goes on began, as the checkpoint has it; 0: it begins now.

        `share` is ours of the budget, if others have the rest.

        `elsewhere` says whether others have asked for a URL that was found at that time.
        """
        self.asked_for_time = order.only and not order.once
        self._state, self._ledger, self._scheduler = state, ledger, scheduler
        self._frontier, self._outcomes, self._clock = frontier, outcomes, clock
        self._opened_at, self._round_noted = opened_at, round_noted or math.inf
        self._whole, self._share, self._elsewhere = ledger.budget, share, elsewhere
        self._moving = dict(state.moving)
        self._moved_at = dict.fromkeys(state.moving, clock.now())  # when that was found, at the latest
        self._end = 0  # of the outcomes that are sealed
        self._look_at = 0.0
        self._stirred = False  # polls went out since the last checkpoint
        self._over = False
        self.postponed = 0  # pages that the round left for the next one
        self.resting: list[HostRest] = []  # the hosts it did not wait for

    # -- a part of the checkpoint

    def begin(self) -> None:
        """Take in what was crawled before: here the first ledger of a crawl is made."""
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
        """What was sealed is durable: only now may it be learned from."""
        self._ledger.catch_up(self._end)
        self._stirred = False
        if self._moving:
            self._follow_up()

    def close(self) -> None:
        """It has no files."""

    # -- polling

    def look(self, now: float) -> None:
        """Send out what is due."""
        if self._share is not None and self._whole is not None:
            self._scheduler.afford(self._whole * self._share(), now)
        room = ROOM - self._frontier.polling
        if now < self._look_at or room <= 0:
            return
        self._poll(self._scheduler.due(now, room))
        self._look_at = self._scheduler.next_at(now) or 0.0

    def _poll(self, links: Sequence[Link]) -> None:
        if links:
            self._frontier.poll(links)
            self._stirred = True

    def rest(self, now: float) -> float:
        """Seconds for which there is nothing to look at, if no robot is out."""
        return self._look_at - now

    @property
    def budget(self) -> float | None:
        """Polls a second; None: as many as politeness allows."""
        return self._ledger.budget

    @property
    def ends(self) -> bool:
        """Whether somebody waits for the end of a round."""
        return self._state.round > 0

    @property
    def unsettled(self) -> bool:
        """Whether a checkpoint would bring anything to light, though no robot is out."""
        return self._stirred or self._ledger.asked > 0

    @property
    def left(self) -> int:
        """What is to be done before the round is over: polls, and URLs discovered since; 1 without one."""
        if not self._state.round:
            return 1
        frontier = self._frontier
        return self._scheduler.left + frontier.polling + frontier.waiting - frontier.held

    def is_stalled(self, now: float) -> bool:
        """Whether a round has nothing left to do but to wait for hosts that failed and rest for longer."""
        stalled = self.ends and self._frontier.is_stalled(now, POLL_WAIT)
        return stalled and not self._scheduler.can_ask()

    def postpone(self, now: float) -> None:
        """End the round without the pages of hosts that rest. Their polls stay in the frontier."""
        self.postponed, self.resting = self._scheduler.left, self._frontier.resting(now)
        self._over = True

    @property
    def is_over(self) -> bool:
        """Whether the round has ended, though pages may be postponed."""
        return self._over or not self.left

    def end(self) -> None:
        """No more looks. If the round is over, the next is another."""
        self._over = self.is_over

    # -- pages that move

    def has_moved(self, link: Link, target: Url) -> bool:
        """Whether a page that is redirected for good can go: what it moved to is stored."""
        if self._stores(target, self._moved_at.get(link.url, math.inf)):
            self._moving.pop(link.url, None)
            self._moved_at.pop(link.url, None)
            return True
        if len(self._moving) < _MOVING or link.url in self._moving:
            self._moving[link.url] = target
            self._moved_at.setdefault(link.url, self._clock.now())
        return False

    def _stores(self, url: str, since: float) -> bool:
        """Whether a page of that URL is stored, or of the one that it moved to, and so on.

        One that others may have is taken to be with them once they had the time for it, from `since` on.
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

    def _follow_up(self) -> None:
        """Poll the pages whose targets have come: what they say then is the truth, whatever it is."""
        ledger = self._ledger
        at = self._moved_at
        for url in [url for url, target in self._moving.items() if self._stores(target, at[url])]:
            number = ledger.find(url)
            rows = np.array([] if number is None else [number], np.int64)
            if not (ledger.take("flags", rows) & Flag.ASKED).any():
                del self._moving[url]
                self._poll(self._scheduler.ask(rows))


def open_ledger(home: CrawlDir, settings: Settings, last: Checkpoint | None) -> Ledger:
    """The ledger of the last checkpoint, or an empty one; changes nothing on the disk."""
    named = settings.refresh.policy
    return Ledger.open(home, last, policy=lookup.policy(named), named=named)


def scheduler_of(
    home: CrawlDir, ledger: Ledger, settings: Settings, state: RefreshState, clock: Clock
) -> Scheduler:
    """Which page is polled when, as the settings ask for it."""
    asked, delay = settings.refresh, settings.politeness.delay
    # Answers are known to the ledger at the next checkpoint: until then a host has more polls under way.
    unknown = 3 * settings.storage.checkpoint
    return Scheduler(
        ledger,
        lookup.policy(asked.policy),
        1 / asked.budget if asked.budget else None,
        host_rate=1 / delay if delay else None,
        host_open=max(_FEWEST_OPEN, math.ceil(unknown / delay)) if delay else ROOM,
        once_since=state.round or None,
        last_round=state.last_round,
        retry=asked.retry,
        read_headers=partial(_headers_at, home / "archive"),
        read_answer=partial(_answer_at, home / "archive"),
        # In virtual time nobody could wait for a thread.
        pool=Aside() if isinstance(clock, WallClock) else None,
    )


def _headers_at(archive: Path, warc: str, offset: int) -> dict[str, str]:
    """The headers of an answer in the archive; of those that are there twice, the first."""
    return dict(reversed(_answer_at(archive, warc, offset).headers))


def _answer_at(archive: Path, warc: str, offset: int) -> Response:
    path = archive / warc
    try:
        member = next(members(path, offset, path.stat().st_size, piece=_NEAR), None)
    except Torn as torn:
        raise Damaged(path, torn.what) from torn
    if member is None:
        raise Damaged(path, f"there is no record at byte {offset}")
    return answer_of(read_record(member.content))
