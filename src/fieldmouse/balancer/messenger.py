"""Goes between an agent and the board: brings what is in the mailbox, and fetches hosts.

Three errands go on side by side, so that none holds up another: signs of life (`heart`), addresses that
robots wait for (`door`), and all the rest (`post`). If the board cannot be reached everything stays in
the mailbox and is tried again; the lease runs out by itself, and robots stay at home until the board
answers.

Whoever was fenced holds nothing any more. It joins again under a new incarnation and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fieldmouse.balancer.board.contract import TOLD, Board, Grant, Held, Name, Pulse, Row, SiteBounds
from fieldmouse.balancer.board.refusals import check_same
from fieldmouse.balancer.board.rows import to_link
from fieldmouse.balancer.door import AddressDoor
from fieldmouse.balancer.lease import LeaseClock
from fieldmouse.balancer.mailbox import Mailbox
from fieldmouse.balancer.teller import Teller
from fieldmouse.balancer.tellings import Tellings
from fieldmouse.balancer.tenant import Tenant
from fieldmouse.clock import Clock
from fieldmouse.errors import BoardUnreachable, Fenced, Superseded
from fieldmouse.records import HostState
from fieldmouse.url import Host

log = logging.getLogger(__name__)

_URLS = 64  # of a host that is granted
_HUNGRY = 0.05  # seconds until hosts are asked for again when there were too few, at first
_SATED = 1.0  # ... and at last
_IDLE = 0.5  # seconds between two signs of life of who has no host
_PATIENCE = 0.3  # seconds between two tries to reach the board
_FAREWELL = 20.0  # seconds for telling the board that we leave


@dataclass(frozen=True, slots=True)
class Terms:
    """What was agreed for the whole crawl."""

    key_seed: int
    lease: float = 15.0
    heartbeat: float = 5.0
    keep_booked: bool = True
    bounds: SiteBounds = field(default_factory=SiteBounds)


class Messenger:
    def __init__(
        self, board: Board, *, terms: Terms, mailbox: Mailbox, tellings: Tellings, lease: LeaseClock,
        tenant: Tenant, clock: Clock, rejoin: Callable[[], Name], advert: Callable[[], bytes],
        unpack: Callable[[Grant], HostState], place_new: Callable[[Host], str], nudge: Callable[[], None],
        on_pulse: Callable[[Pulse], str | None], on_trouble: Callable[[Exception], None],
        on_unbooked: Callable[[Sequence[str]], None], on_refused: Callable[[str], None],
    ):  # fmt: skip
        """`rejoin` says who we are from now on, durably; `unpack` takes in what came with a host.

        `on_pulse` says why the crawl is over for everybody, or "" if it is no longer. `on_unbooked` hears
        of outcomes that came too late to count, `on_refused` of addresses that were ours, `nudge` of work.
        """
        self._board, self._terms, self._mailbox, self._tellings = board, terms, mailbox, tellings
        self._lease, self._tenant, self._clock = lease, tenant, clock
        self._rejoin, self._advert, self._unpack = rejoin, advert, unpack
        self._on_pulse, self._on_trouble, self._nudge = on_pulse, on_trouble, nudge
        self._name, self._run = Name("", 0), ""
        self._upto, self._members = "", 1
        self._teller = Teller(
            board, tellings, keep_urls=terms.keep_booked, bounds=terms.bounds, place_new=place_new,
            on_dropped=mailbox.note_dropped, on_unbooked=on_unbooked,
        )  # fmt: skip
        self._door = AddressDoor(board, mailbox, lease, lambda: self._name, on_refused)
        self._ask_at, self._pause, self._reachable = 0.0, _HUNGRY, True
        self._tasks: list[asyncio.Task[None]] = []
        self._joining, self._bringing = asyncio.Lock(), asyncio.Lock()

    # -- a life

    async def begin(self) -> None:
        """Tell what was not told before we died, join, and set out."""
        before = self._tellings.before
        old = Name(before.agent, before.incarnation)
        if before.incarnation and await self._patiently(lambda: self._board.outlives(old)):
            self._name = old
            with contextlib.suppress(Fenced):  # its lease ended just now: all that is told by our next name
                await self._patiently(lambda: self._teller.tell_all(old))
        await self._enter()
        self._tasks = [
            asyncio.create_task(errand) for errand in (self._heart(), self._door.serve(), self._post())
        ]
        for task in self._tasks:
            task.add_done_callback(self._stumbled)

    async def _enter(self) -> None:
        """Join and be heard of; again, should so much time pass between the two that our lease is over."""
        while True:
            await self._patiently(self._join)
            try:
                await self._patiently(self._beat)
            except Superseded:
                raise
            except Fenced:
                continue
            return

    async def _join(self) -> None:
        check_same(await self._board.charter(), self._terms.key_seed)
        self._name = self._rejoin()
        await self._board.join(self._name, self._terms.lease)

    async def end(self) -> bool:
        """Give back what we hold and say goodbye; False if the board could not be told all of it."""
        self._tenant.let_all_go()
        try:
            async with asyncio.timeout(_FAREWELL):
                while self._unsaid:
                    await self._patiently(self._bring)
                await self._patiently(lambda: self._board.leave(self._name))
        except TimeoutError:
            log.warning("the board could not be told that we leave; the lease ends by itself")
            return False
        except Fenced:
            return False
        finally:
            await self.close()
        return True

    @property
    def _unsaid(self) -> bool:
        return bool(len(self._tellings) or self._mailbox.back or self._mailbox.strays)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def _stumbled(self, errand: asyncio.Task[None]) -> None:
        mistake = None if errand.cancelled() else errand.exception()
        if isinstance(mistake, Exception):
            self._on_trouble(mistake)

    async def _patiently(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Try until the board answers."""
        while True:
            try:
                done = await act()
            except BoardUnreachable as trouble:
                self._note_unreachable(trouble)
                await self._clock.sleep(_PATIENCE)
                continue
            self._note_reached()
            return done

    def _note_unreachable(self, trouble: BoardUnreachable) -> None:
        if self._reachable:
            self._reachable = False
            log.warning("%s; waiting for it", trouble)

    def _note_reached(self) -> None:
        if not self._reachable:
            self._reachable = True
            log.warning("the board answers again; going on")
            self._nudge()

    # -- signs of life

    async def _heart(self) -> None:
        while True:
            idle = _IDLE * max(1.0, self._members / TOLD)  # many that are idle ask no more often than a few
            pause = self._terms.heartbeat if self._tenant.holds else min(idle, self._terms.heartbeat)
            await self._clock.sleep(pause if self._reachable else min(pause, _PATIENCE))
            await self._unfenced(self._beat)

    async def _unfenced(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do it, unless the board cannot be reached; join again if we were fenced."""
        name = self._name
        try:
            await act()
        except BoardUnreachable as trouble:
            self._note_unreachable(trouble)
            await self._clock.sleep(_PATIENCE)
        except Superseded:
            if self._name == name:
                raise
            # We joined again meanwhile: the newer start is our own, and what it holds is found out by it.
        except Fenced:
            async with self._joining:
                if self._name == name:
                    log.warning("what this agent held was given to others, since it was not heard of")
                    self._lease.over()
                    self._tenant.revoke_all()
                    await self._enter()
        else:
            self._note_reached()

    async def _beat(self) -> None:
        sent_at = self._lease.now()
        pulse = await self._board.beat(self._name, self._advert(), self._terms.lease, self._upto)
        self._upto, self._members = pulse.upto, pulse.members
        if self._run and pulse.run != self._run:
            # It is told again before anybody asks; what it forgot to have granted is not ours.
            log.warning("the board was started again; telling it anew what it may have forgotten")
            self._mailbox.forget_lately()
            self._tellings.tell_again()
            await self._recover()
            await self._door.ask_again()
            await self._board.note(self._name, self._mailbox.notes(self._tenant.standing()))
        elif not self._run or not self._reachable:
            await self._recover()
        self._run = pulse.run
        self._lease.renewed(sent_at)
        self._mailbox.hear(pulse.books)
        if (over := self._on_pulse(pulse)) is not None:
            await self._board.end(over)
        self._mailbox.post()
        self._nudge()

    async def _recover(self) -> None:
        """Find out what is still ours, and give back what came while we did not listen."""
        owed = self._tenant.owed()
        for lease, keys in self._tellings.untold_keys().items():
            owed.setdefault(lease, set()).update(keys)
        known = {Held(*lease): keys for lease, keys in owed.items()}
        for held in await self._board.recover(self._name, known):
            self._tenant.revoke(held.host, held.epoch)

    # -- all the rest

    async def _post(self) -> None:
        while True:
            due_in = max(0.0, self._ask_at - self._clock.now())
            await self._mailbox.posted(due_in if self._tenant.wanted else self._terms.heartbeat)
            await self._unfenced(self._bring)

    async def _bring(self) -> None:
        async with self._bringing:  # who leaves brings the last of it while the post is still out
            await self._bring_all()

    async def _bring_all(self) -> None:
        await self._teller.tell_all(self._name)
        mailbox = self._mailbox
        if back := mailbox.back.take():
            try:
                await self._board.give_back(self._name, back)
            except BoardUnreachable:
                mailbox.back.put_back(back)
                raise
        if strays := mailbox.strays.take():
            rows: dict[Held, list[Row]] = {}
            for held, row in strays:
                rows.setdefault(held, []).append(row)
            try:
                await self._board.put_back(self._name, rows)
            except BoardUnreachable:
                mailbox.strays.put_back(strays)
                raise
        if wishes := mailbox.wishes.take():  # said again in a while, should they not arrive
            await self._board.wish(self._name, list(dict.fromkeys(wishes)))
        if wanted := mailbox.more.take():
            try:
                self._take_in(await self._board.more(self._name, wanted, _URLS), fresh=False)
            except BoardUnreachable:
                mailbox.more.put_back(wanted)
                raise
        await self._fetch()

    async def _fetch(self) -> None:
        """Hosts, if we have room for more and have not asked in vain just now."""
        wanted, now = self._tenant.wanted, self._clock.now()
        if not wanted or now < self._ask_at or not self._lease.valid:
            return
        grants = await self._board.lease(self._name, wanted, _URLS)
        self._pause = _HUNGRY if grants else min(_SATED, 2 * self._pause)
        self._ask_at = self._clock.now() + (0.0 if len(grants) >= wanted else self._pause)
        self._take_in(grants, fresh=True)

    def _take_in(self, grants: Sequence[Grant], *, fresh: bool) -> None:
        now = self._clock.now()
        for grant in grants:
            if not fresh and self._tenant.epoch_of(grant.host) != grant.epoch:
                for row in grant.rows:  # we let the host go while we asked for more of it
                    self._mailbox.strays.put((Held(grant.host, grant.epoch), row))
                continue
            links = [to_link(row, grant.host, now) for _, row in grant.rows]
            there = self._tenant.settled_before(links)
            old = [link for link, settled in zip(links, there, strict=True) if settled]
            if old:
                self._mailbox.book_known(grant.host, grant.epoch, [link.url for link in old])
            new = [link for link, settled in zip(links, there, strict=True) if not settled]
            state = self._unpack(grant) if fresh else HostState()
            self._tenant.grant(grant.host, grant.epoch, new, state, grant.left)
        if grants:
            self._nudge()
