"""How many pages an agent may fetch under a limit of the whole crawl: those that the board reserved for it.

What counts against it are pages in the air, pages that are known and not settled, and settled ones that the
board has not been told of. Some more are kept to spare, so that robots wait for nobody; a part of them is
given up as soon as the board has too few, and all of them when there is no host to fetch from.

Invariant: what we may use is never more than what the board has reserved for us. So it is made smaller
before the board is asked, and larger only by its answer; and outcomes are told in the same turn as pages
are asked for (`messenger`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fieldmouse.balancer.board.contract import Board, Name
from fieldmouse.balancer.board.pagelimit import PageAsk
from fieldmouse.balancer.tellings import Tellings
from fieldmouse.clock import Clock

SPARE = 32
"""Pages beyond those that count already, at most: more than are fetched while the board is asked."""
HOST = 8
"""Pages to spare for each host that we hold."""
_HUNGRY = 0.05  # seconds until the board is asked again when it had too few, at first
_SATED = 1.0  # ... and at last


class PageAllowance:
    """0 as `limit`: as many as we like."""

    def __init__(
        self, limit: int, *, tellings: Tellings, clock: Clock, hosts: Callable[[], int],
        on_hunger: Callable[[], None], every: float,
    ):  # fmt: skip
        """`hosts` we hold and may fetch from. The board is asked at least `every` so many seconds."""
        self._limit, self._tellings, self._clock, self._hosts = limit, tellings, clock, hosts
        self._on_hunger, self._every = on_hunger, every
        self._in_air: Callable[[], int] = lambda: 0
        self._granted = 0
        self._lapses = 0
        self._asked_at, self._pause = -math.inf, 0.0
        self._scarce = False  # we got less than we wanted
        self._lacking = 0  # pages that we have, and could not book

    # -- the desk's side

    def follow(self, in_air: Callable[[], int]) -> None:
        """Who knows how many pages are in the air, or known and not settled."""
        self._in_air = in_air

    def admits(self) -> bool:
        """Whether one more page may be asked for."""
        if not self._limit:
            return True
        left = self._granted - self._used
        if left <= self._spare // 2 and not self.due_in():
            self._on_hunger()
        return left > 0

    # -- the messenger's side

    @property
    def _used(self) -> int:
        return self._in_air() + self._tellings.untold_pages

    @property
    def _spare(self) -> int:
        return min(SPARE, HOST * self._hosts() + self._lacking)

    @property
    def left(self) -> float:
        """Pages that may be asked for or booked besides; inf without a limit."""
        return max(0, self._granted - self._used) if self._limit else math.inf

    def lack(self, pages: int) -> None:
        """So many more we could book at once, were they reserved for us: they wait on the board again."""
        self._lacking += pages

    def told(self, pages: int) -> None:
        """So many of the pages that were reserved are booked."""
        self._granted = max(0, self._granted - pages)

    def lapse(self) -> None:
        """We were fenced: nothing is reserved for us any more."""
        self._granted, self._lapses = 0, self._lapses + 1
        self.say_again()

    def say_again(self, pages: int = 0) -> None:
        """The server is another one: so many `pages` that were told are to be told, and taken off, again."""
        self._granted += pages
        self._asked_at, self._pause = -math.inf, 0.0

    def due_in(self) -> float:
        """Seconds until the board should be asked; inf if never."""
        if not self._limit:
            return math.inf
        left, spare = self._granted - self._used, self._spare
        hungry = left <= spare // 2 and spare > 0
        wait = self._pause if hungry else _SATED if left > spare else self._every
        return max(0.0, self._asked_at + wait - self._clock.now())

    async def renew(self, board: Board, name: Name) -> bool:
        """Ask the board if that is due; returns whether we may fetch more than before."""
        if self.due_in():
            return False
        used, spare, lapses = self._used, self._spare, self._lapses
        before = max(0, self._granted - used)
        left = min(before, spare)
        kept = math.ceil(left / 2) if self._scarce else left
        self._granted = min(self._granted, used + kept)
        want = used + spare
        granted = await board.reserve_pages(name, PageAsk(self._limit, keep=self._granted, want=want))
        if lapses != self._lapses:
            return False  # it was reserved for who we were
        self._scarce = granted < want
        self._pause = min(_SATED, max(_HUNGRY, 2 * self._pause)) if self._scarce else 0.0
        self._granted, self._asked_at, self._lacking = granted, self._clock.now(), 0
        return granted - used > before
