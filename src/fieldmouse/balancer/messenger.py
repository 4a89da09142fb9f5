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

from fieldmouse.aside import call_off
from fieldmouse.balancer.allowance import PageAllowance
from fieldmouse.balancer.board.contract import TOLD, Board, DamagedField, Grant, Heard, Held, Name, Pulse
from fieldmouse.balancer.board.refusals import check_same
from fieldmouse.balancer.door import AddressDoor
from fieldmouse.balancer.hostfetcher import HostFetcher
from fieldmouse.balancer.lease import LeaseClock
from fieldmouse.balancer.mailbox import Mailbox, by_lease
from fieldmouse.balancer.newest import check_newest
from fieldmouse.balancer.patience import PAUSE, BoardPatience
from fieldmouse.balancer.teller import Teller
from fieldmouse.balancer.tellings import DoneUrl, Tellings
from fieldmouse.balancer.tenant import Tenant
from fieldmouse.balancer.terms import Terms
from fieldmouse.clock import Clock
from fieldmouse.errors import BoardUnreachable, Fenced, Superseded
from fieldmouse.records import HostState
from fieldmouse.url import Host

log = logging.getLogger(__name__)

_IDLE = 0.5  # seconds between two signs of life of who has no host
_LOOK_EVERY = 10  # signs of life of who has no host, until it asks the board whether that is so
_FAREWELL = 20.0  # seconds for telling the board that we leave


class Messenger:
    def __init__(
        self, board: Board, *, terms: Terms, mailbox: Mailbox, tellings: Tellings, lease: LeaseClock,
        allowance: PageAllowance, tenant: Tenant, clock: Clock, rejoin: Callable[[], Name],
        advert: Callable[[], bytes], unpack: Callable[[Grant], tuple[HostState, list[DamagedField]]],
        place_new: Callable[[Host], str],
        nudge: Callable[[], None], on_pulse: Callable[[Pulse], str | None],
        on_trouble: Callable[[Exception], None],
        on_unbooked: Callable[[Sequence[DoneUrl]], None], on_refused: Callable[[str], None],
    ):  # fmt: skip
        """`rejoin` says who we are from now on, durably; `unpack` takes in what came with a host.

        `on_pulse` says why the crawl is over for everybody, or "" if it is no longer. `on_unbooked` hears
        of outcomes that came too late to count, `on_refused` of addresses that were ours, `nudge` of work.
        """
        self._board, self._terms, self._mailbox, self._tellings = board, terms, mailbox, tellings
        self._lease, self._tenant, self._clock, self._allowance = lease, tenant, clock, allowance
        self._rejoin, self._advert = rejoin, advert
        self._on_pulse, self._on_trouble, self._nudge = on_pulse, on_trouble, nudge
        self._name, self._run = Name("", 0), ""
        self._upto, self._members, self._beats = "", 1, 0
        self._teller = Teller(
            board, tellings, keep_urls=terms.keep_booked, bounds=terms.bounds, place_new=place_new,
            on_dropped=mailbox.note_dropped, on_unbooked=on_unbooked, on_booked=allowance.told,
            on_again=mailbox.wait_again,
        )  # fmt: skip
        self._door = AddressDoor(board, mailbox, lease, lambda: self._name, on_refused)
        self._hosts = HostFetcher(
            board, mailbox=mailbox, tenant=tenant, allowance=allowance, lease=lease, clock=clock,
            unpack=unpack, on_hosts=nudge,
        )  # fmt: skip
        self._leaving = False
        self._patience = BoardPatience(clock, nudge)
        self._tasks: list[asyncio.Task[None]] = []
        self._joining, self._bringing = asyncio.Lock(), asyncio.Lock()

    # -- a life

    async def begin(self, last: Name) -> None:
        """Tell what was not told before we died, join, and set out. `last` is our last start, if any."""
        await self._patience.until_done(lambda: self._board.recalls(self._tellings.since))
        await self._patience.until_done(lambda: check_newest(self._board, self._tellings.before, last))
        before = self._tellings.before
        old = Name(before.agent, before.incarnation)
        await self._patience.until_done(self._publish_scope)
        if before.incarnation and await self._patience.until_done(lambda: self._board.outlives(old)):
            self._name = old
            with contextlib.suppress(Fenced):  # its lease ended just now: all that is told by our next name
                await self._patience.until_done(lambda: self._teller.tell_all(old))
        await self._enter()
        self._tasks = [
            asyncio.create_task(errand) for errand in (self._heart(), self._door.serve(), self._post())
        ]
        for task in self._tasks:
            task.add_done_callback(self._stumbled)

    async def _enter(self) -> None:
        """Join and be heard of; again, should so much time pass between the two that our lease is over."""
        while True:
            await self._patience.until_done(self._join)
            try:
                await self._patience.until_done(self._beat)
            except Superseded:
                raise
            except Fenced:
                continue
            return

    async def _join(self) -> None:
        check_same(await self._board.charter(), self._terms.key_seed)
        self._name = self._rejoin()
        await self._board.join(self._name, self._terms.lease)

    async def end(self, over: str = "") -> bool:
        """Give back what we hold and say goodbye; False if the board could not be told all of it.

        If the crawl is `over` for everybody by a limit, the board hears that, too.

        That takes `_FAREWELL` seconds at most and some to call it off, whatever does not answer.
        """
        self._tenant.let_all_go()
        if not self._tasks:
            return False  # it never joined
        farewell = asyncio.create_task(self._say_goodbye(over))
        try:
            await asyncio.wait({farewell}, timeout=_FAREWELL)
        finally:
            await call_off([farewell])
            await self.close()
        if farewell.done() and not farewell.cancelled():
            return farewell.result()
        log.warning("the board could not be told that we leave; the lease ends by itself")
        return False

    async def _say_goodbye(self, over: str) -> bool:
        try:
            while self._unsaid:
                await self._patience.until_done(self._bring)
            with contextlib.suppress(BoardUnreachable):
                await self._beat()  # our last numbers, and those of all
            while self._unsaid:
                await self._patience.until_done(self._bring)
            if over:
                await self._patience.until_done(lambda: self._board.end(over))
            self._leaving = True  # whoever of us speaks to the board after that must not join again
            await self._patience.until_done(lambda: self._board.leave(self._name))
        except Fenced:
            return False
        return True

    @property
    def _unsaid(self) -> bool:
        mailbox = self._mailbox
        return bool(len(self._tellings) or mailbox.back or mailbox.strays or mailbox.scope.unsent)

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        await call_off(tasks)

    def _stumbled(self, errand: asyncio.Task[None]) -> None:
        mistake = None if errand.cancelled() else errand.exception()
        if isinstance(mistake, Exception):
            self._on_trouble(mistake)

    # -- signs of life

    async def _heart(self) -> None:
        while True:
            idle = _IDLE * max(1.0, self._members / TOLD)  # many that are idle ask no more often than a few
            pause = self._terms.heartbeat if self._tenant.holds else min(idle, self._terms.heartbeat)
            await self._clock.sleep(pause if self._patience.answered else min(pause, PAUSE))
            if await self._unfenced(self._beat):
                self._patience.note_answer()

    async def _unfenced(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Do it, unless the board cannot be reached; join again if we were fenced. Whether it was done."""
        name = self._name
        try:
            await act()
        except BoardUnreachable as trouble:
            self._patience.note_silence(trouble)
            await self._clock.sleep(PAUSE)
        except Superseded:
            if self._name == name:
                raise
            # We joined again meanwhile: the newer start is our own, and what it holds is found out by it.
        except Fenced:
            async with self._joining:
                if self._name == name and not self._leaving:
                    log.warning(
                        "what this agent held was given to others: it was not heard of in time, or forgotten"
                    )
                    self._lease.over()
                    self._tenant.revoke_all()
                    self._allowance.lapse()
                    await self._enter()
        else:
            return True
        return False

    async def _beat(self) -> None:
        sent_at = self._lease.now()
        self._beats += 1
        name, number = self._name, self._beats
        pulse = await self._board.beat(
            name, self._advert(), self._terms.lease, self._upto, number, self._tellings.since,
            len(self._mailbox.scope),
        )  # fmt: skip
        self._tellings.heard(sent_at, Heard(name.agent, name.incarnation, number))
        self._upto, self._members = pulse.upto, pulse.members
        if self._run and pulse.run != self._run:
            # It is told again before anybody asks; what it forgot to have granted is not ours.
            log.warning("the board was started again; telling it anew what it may have forgotten")
            self._mailbox.forget_lately()
            self._mailbox.scope.publish_again()
            self._allowance.say_again(self._tellings.tell_again())
            await self._recover()
            await self._door.ask_again()
            await self._board.note(self._name, self._mailbox.notes(self._tenant.standing()))
        elif not self._run:
            await self._recover()
        elif not self._tenant.holds and self._beats % _LOOK_EVERY == 0:
            self._patience.doubt()  # the network may bring twice what we said once
        self._run = pulse.run
        self._lease.renewed(sent_at)
        self._mailbox.scope.hear(pulse.joined)  # before anybody concludes from the books that all is done
        self._mailbox.hear(pulse.books)
        if (over := self._on_pulse(pulse)) is not None:
            await self._board.end(over)
        self._mailbox.post()
        self._nudge()

    async def _recover(self) -> None:
        """Find out what is still ours, and give back what came while we did not listen."""
        owed = self._tenant.owed()
        for lease, keys in (*self._tellings.untold_keys().items(), *self._mailbox.unsaid_keys()):
            owed.setdefault(lease, set()).update(keys)
        known = {Held(*lease): keys for lease, keys in owed.items()}
        for held in await self._board.recover(self._name, known):
            self._tenant.revoke(held.host, held.epoch)

    # -- all the rest

    async def _post(self) -> None:
        while True:
            due_in = min(self._hosts.due_in(), self._terms.heartbeat, self._allowance.due_in())
            await self._mailbox.posted(due_in)
            await self._unfenced(self._bring)

    async def _bring(self) -> None:
        async with self._bringing:  # who leaves brings the last of it while the post is still out
            await self._bring_all()

    async def _publish_scope(self) -> None:
        scope = self._mailbox.scope
        if urls := list(scope.unsent):
            await self._board.widen(urls)
            scope.sent(urls)

    async def _bring_all(self) -> None:
        await self._publish_scope()  # before outcomes of these pages are booked
        await self._teller.tell_all(self._name)
        if await self._allowance.renew(self._board, self._name):
            self._nudge()
        mailbox = self._mailbox
        if back := mailbox.back.take():
            try:
                await self._board.give_back(self._name, back)
            except BoardUnreachable:
                mailbox.back.put_back(back)
                raise
        if strays := mailbox.strays.take():
            try:
                await self._board.put_back(self._name, by_lease(strays))
            except BoardUnreachable:
                mailbox.strays.put_back(strays)
                raise
        if self._patience.take_doubt():  # now that nothing is asked for, and what we gave back is told
            await self._recover()
        if wishes := mailbox.wishes.take():  # said again in a while, should they not arrive
            await self._board.wish(self._name, list(dict.fromkeys(wishes)))
        if wanted := mailbox.more.take():
            try:
                await self._hosts.ask_for_more(self._name, wanted)
            except BoardUnreachable:
                mailbox.more.put_back(wanted)
                raise
        await self._hosts.fetch(self._name)
