"""Session of an agent with the coordinator: join, heartbeats, leases, delivery of calls, leave.

Three tasks run concurrently so that none delays another: heartbeats, the addresses that fetch workers
wait for, and everything else. While the coordinator cannot be reached, all calls stay pending and are
tried again. The lease expires in that time, and fetch workers pause until the coordinator answers.

A heartbeat extends the lease from the moment the *coordinator* received it. The agent only knows the
earlier moment of sending. It counts from there, on a clock that runs while the machine sleeps, and stops a
little early. So no other agent is given a host while this one still visits it, whatever happened in
between (a pause, a lost network, a closed lid). A fenced agent holds nothing. It joins again under a new
incarnation and continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fieldmouse.aio import call_off
from fieldmouse.clock import Clock
from fieldmouse.cluster.client.lease_clock import LeaseClock, Tenant
from fieldmouse.cluster.client.membership import check_newest
from fieldmouse.cluster.client.outbox import DoneUrl, Teller, Tellings
from fieldmouse.cluster.client.page_quota import PageAllowance
from fieldmouse.cluster.client.pending import AddressDoor, Mailbox, by_lease
from fieldmouse.cluster.coordinator import (
    TOLD,
    Board,
    DamagedField,
    Grant,
    Heard,
    Heartbeat,
    Held,
    Name,
    Pulse,
    SiteBounds,
)
from fieldmouse.cluster.decoding import DamagedValue, link_of
from fieldmouse.cluster.errors import check_same
from fieldmouse.errors import BoardUnreachable, Fenced, Superseded
from fieldmouse.policy.retry import pardoned
from fieldmouse.types.host import HostState
from fieldmouse.types.request import Link
from fieldmouse.url import Host

log = logging.getLogger(__name__)

PAUSE = 0.3
"""Seconds between two tries to reach the coordinator."""


class BoardPatience:
    """State of the connection; `on_return` is called when the coordinator answers again."""

    def __init__(self, clock: Clock, on_return: Callable[[], None]):
        self._clock, self._on_return = clock, on_return
        self.answered = True  # the last call was answered
        self._needs_reconcile = False  # it may have made grants whose answer was lost

    async def until_done(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat `act` until the coordinator answers."""
        while True:
            try:
                done = await act()
            except BoardUnreachable as trouble:
                self.note_silence(trouble)
                await self._clock.sleep(PAUSE)
                continue
            self.note_answer()
            return done

    def take_doubt(self) -> bool:
        """Whether to find out what the coordinator has granted; True once for each silence or doubt."""
        doubtful, self._needs_reconcile = self._needs_reconcile, False
        return doubtful

    def doubt(self) -> None:
        self._needs_reconcile = True

    def note_silence(self, trouble: BoardUnreachable) -> None:
        self.doubt()  # an answer to another call does not clear it
        if self.answered:
            self.answered = False
            log.warning("%s; waiting for it", trouble)

    def note_answer(self) -> None:
        if not self.answered:
            self.answered = True
            log.warning("the coordinator answers again; continuing")
            self._on_return()


@dataclass(frozen=True, slots=True)
class Terms:
    """Times in seconds."""

    key_seed: int
    lease: float = 15.0
    heartbeat: float = 5.0
    keep_booked: bool = True
    bounds: SiteBounds = field(default_factory=SiteBounds)


_URLS_PER_GRANT = 64  # URLs that come with a granted host
_FIRST_PAUSE = 0.05  # seconds until hosts are asked for again after too few were granted, at first
_LONGEST_PAUSE = 1.0  # ... and at most
_MOST_LOGGED = 3  # damaged values of a host that are logged one by one


class HostFetcher:
    def __init__(
        self,
        board: Board,
        *,
        mailbox: Mailbox,
        tenant: Tenant,
        allowance: PageAllowance,
        lease: LeaseClock,
        clock: Clock,
        unpack: Callable[[Grant], tuple[HostState, list[DamagedField]]],
        on_hosts: Callable[[], None],
    ):
        """`unpack` reads the state that came with a host, and returns its unreadable values."""
        self._board, self._mailbox, self._tenant, self._allowance = board, mailbox, tenant, allowance
        self._lease, self._clock, self._unpack, self._on_hosts = lease, clock, unpack, on_hosts
        self._ask_at, self._pause = 0.0, _FIRST_PAUSE

    def due_in(self) -> float:
        """Seconds until hosts should be asked for; inf while there is no room, or the lease is over."""
        if not self._tenant.wanted or not self._lease.valid:
            return math.inf
        return max(0.0, self._ask_at - self._clock.now())

    async def fetch(self, name: Name) -> None:
        """Lease hosts, if there is room for more and the last request was not just refused."""
        if self.due_in():
            return
        wanted = self._tenant.wanted
        grants = await self._board.lease(name, wanted, _URLS_PER_GRANT)
        self._pause = _FIRST_PAUSE if grants else min(_LONGEST_PAUSE, 2 * self._pause)
        self._ask_at = self._clock.now() + (0.0 if len(grants) >= wanted else self._pause)
        await self._take_in(name, grants, fresh=True)

    async def ask_for_more(self, name: Name, held: Sequence[Held]) -> None:
        await self._take_in(name, await self._board.more(name, held, _URLS_PER_GRANT), fresh=False)

    async def _take_in(self, name: Name, grants: Sequence[Grant], *, fresh: bool) -> None:
        """Take in granted hosts and URLs. Unreadable values are quarantined at the coordinator.

        If that call is lost, the coordinator grants those URLs to other agents, which quarantine them as
        well.
        """
        now = self._clock.now()
        damaged: dict[Held, list[DamagedField]] = {}
        for grant in grants:
            if grant.damaged:
                damaged[Held(grant.host, grant.epoch)] = list(grant.damaged)
            if not fresh and self._tenant.epoch_of(grant.host) != grant.epoch:
                for stray in grant.rows:  # we released the host while we asked for more of it
                    self._mailbox.strays.put((Held(grant.host, grant.epoch), stray))
                continue
            links = []
            for key, row in grant.rows:
                try:
                    links.append(self._decode_row(key, row, grant.host, now))
                except DamagedValue as trouble:
                    damage = DamagedField("rows", str(trouble), (key,), row)
                    damaged.setdefault(Held(grant.host, grant.epoch), []).append(damage)
            settled, new = self._tenant.sort_out(links)
            if settled:
                over = self._mailbox.book_known(grant.host, grant.epoch, settled, self._allowance.left)
                self._allowance.lack(over)
            state = HostState()
            if fresh:
                state, unreadable = self._unpack(grant)
                state = pardoned(state, new)
                if unreadable:
                    damaged.setdefault(Held(grant.host, grant.epoch), []).extend(unreadable)
            self._tenant.grant(grant.host, grant.epoch, new, state, grant.left)
        if grants:
            self._on_hosts()
        if damaged:
            await self._quarantine(name, damaged)

    def _decode_row(self, key: int, row: bytes, host: Host, now: float) -> Link:
        link = link_of(row, host, now)
        if self._mailbox.key_of(link.url) != key:
            raise DamagedValue("row", f"its key is not that of {link.url}")
        return link

    async def _quarantine(self, name: Name, damaged: Mapping[Held, Sequence[DamagedField]]) -> None:
        for held, values in damaged.items():
            for value in values[:_MOST_LOGGED]:
                log.warning(
                    "a value of %s on the coordinator cannot be read and is set aside: %s",
                    held.host,
                    value.why,
                )
            if len(values) > _MOST_LOGGED:
                log.warning("%d more values of %s cannot be read", len(values) - _MOST_LOGGED, held.host)
        await self._board.quarantine(name, damaged)


_IDLE_SECONDS = 0.5  # seconds between two heartbeats of an agent without hosts
_CHECK_EVERY = 10  # heartbeats of an agent without hosts between two checks that it has none
_LEAVE_SECONDS = 20.0  # seconds for saying that we leave


class Messenger:
    def __init__(
        self,
        board: Board,
        *,
        terms: Terms,
        mailbox: Mailbox,
        tellings: Tellings,
        lease: LeaseClock,
        allowance: PageAllowance,
        tenant: Tenant,
        clock: Clock,
        rejoin: Callable[[], Name],
        advert: Callable[[], bytes],
        unpack: Callable[[Grant], tuple[HostState, list[DamagedField]]],
        place_new: Callable[[Host], str],
        nudge: Callable[[], None],
        on_pulse: Callable[[Pulse], str | None],
        on_trouble: Callable[[Exception], None],
        on_unbooked: Callable[[Sequence[DoneUrl]], None],
        on_refused: Callable[[str], None],
    ):
        """`rejoin` durably chooses the identity of the next start; `unpack` reads a granted host's state.

        `on_pulse` returns why the crawl is over for all agents, "" if it no longer is, or None for no
        change. `on_unbooked` receives rejected outcomes, `on_refused` addresses that are no longer ours;
        `nudge` signals work.
        """
        self._board, self._terms, self._mailbox, self._tellings = board, terms, mailbox, tellings
        self._lease, self._tenant, self._clock, self._allowance = lease, tenant, clock, allowance
        self._rejoin, self._advert = rejoin, advert
        self._on_pulse, self._on_trouble, self._nudge = on_pulse, on_trouble, nudge
        self._name, self._run = Name("", 0), ""
        self._last_listed, self._members, self._beats = "", 1, 0
        self._teller = Teller(
            board,
            tellings,
            keep_urls=terms.keep_booked,
            bounds=terms.bounds,
            place_new=place_new,
            on_dropped=mailbox.note_dropped,
            on_unbooked=on_unbooked,
            on_booked=allowance.told,
            on_again=mailbox.wait_again,
        )
        self._door = AddressDoor(board, mailbox, lambda: self._name, on_refused)
        self._host_fetcher = HostFetcher(
            board,
            mailbox=mailbox,
            tenant=tenant,
            allowance=allowance,
            lease=lease,
            clock=clock,
            unpack=unpack,
            on_hosts=nudge,
        )
        self._leaving = False
        self._patience = BoardPatience(clock, nudge)
        self._tasks: list[asyncio.Task[None]] = []
        self._joining, self._delivering = asyncio.Lock(), asyncio.Lock()

    # -- joining and leaving

    async def begin(self, last: Name) -> None:
        """Deliver the outbox of our last start, if any (`last`), join, and start the tasks."""
        await self._patience.until_done(lambda: self._board.recalls(self._tellings.since))
        await self._patience.until_done(lambda: check_newest(self._board, self._tellings.before, last))
        before = self._tellings.before
        last_name = Name(before.agent, before.incarnation)
        await self._patience.until_done(self._publish_scope)
        if before.incarnation and await self._patience.until_done(lambda: self._board.outlives(last_name)):
            self._name = last_name
            with contextlib.suppress(Fenced):  # its lease ended just now: the next start delivers all of it
                await self._patience.until_done(lambda: self._teller.tell_all(last_name))
        await self._join_and_beat()
        loops = (self._heartbeat_loop(), self._door.serve(), self._delivery_loop())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._on_task_done)

    async def _join_and_beat(self) -> None:
        """Join and send a heartbeat; repeat if the lease expires between the two."""
        while True:
            await self._patience.until_done(self._join)
            try:
                await self._patience.until_done(self._send_heartbeat)
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
        """Give back all hosts and leave; False if the coordinator could not be told everything.

        If `over` says that a limit ended the crawl for all agents, the coordinator is told, too.

        Takes at most `_LEAVE_SECONDS` seconds plus the time to cancel, even if nothing answers.
        """
        self._tenant.let_all_go()
        if not self._tasks:
            return False  # it never joined
        leaving = asyncio.create_task(self._deliver_and_leave(over))
        try:
            await asyncio.wait({leaving}, timeout=_LEAVE_SECONDS)
        finally:
            await call_off([leaving])
            await self.close()
        if leaving.done() and not leaving.cancelled():
            return leaving.result()
        log.warning("the coordinator could not be told that this agent leaves; its lease ends by itself")
        return False

    async def _deliver_and_leave(self, over: str) -> bool:
        try:
            while self._has_undelivered:
                await self._patience.until_done(self._deliver)
            with contextlib.suppress(BoardUnreachable):
                await self._send_heartbeat()  # our final figures, and the totals
            while self._has_undelivered:
                await self._patience.until_done(self._deliver)
            if over:
                await self._patience.until_done(lambda: self._board.end(over))
            self._leaving = True  # a task that calls the coordinator after this must not join again
            await self._patience.until_done(lambda: self._board.leave(self._name))
        except Fenced:
            return False
        return True

    @property
    def _has_undelivered(self) -> bool:
        mailbox = self._mailbox
        return bool(len(self._tellings) or mailbox.back or mailbox.strays or mailbox.scope.unsent)

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        await call_off(tasks)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._on_trouble(error)

    # -- heartbeats

    async def _heartbeat_loop(self) -> None:
        while True:
            # many idle agents together send as few heartbeats as `TOLD` of them
            idle = _IDLE_SECONDS * max(1.0, self._members / TOLD)
            pause = self._terms.heartbeat if self._tenant.holds else min(idle, self._terms.heartbeat)
            await self._clock.sleep(pause if self._patience.answered else min(pause, PAUSE))
            if await self._run_or_rejoin(self._send_heartbeat):
                self._patience.note_answer()

    async def _run_or_rejoin(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Run `act` unless the coordinator cannot be reached; join again if fenced. Whether it ran."""
        name = self._name
        try:
            await act()
        except BoardUnreachable as trouble:
            self._patience.note_silence(trouble)
            await self._clock.sleep(PAUSE)
        except Superseded:
            if self._name == name:
                raise
            # Another task joined again: the newer start is ours and finds out which leases it has.
        except Fenced:
            async with self._joining:
                if self._name == name and not self._leaving:
                    log.warning("the hosts of this agent were given to others: it was fenced or forgotten")
                    self._lease.over()
                    self._tenant.revoke_all()
                    self._allowance.lapse()
                    await self._join_and_beat()
        else:
            return True
        return False

    async def _send_heartbeat(self) -> None:
        sent_at = self._lease.now()
        self._beats += 1
        name, number = self._name, self._beats
        joined, since = len(self._mailbox.scope), self._tellings.since
        beat = Heartbeat(self._advert(), self._terms.lease, self._last_listed, number, since, joined)
        pulse = await self._board.beat(name, beat)
        self._tellings.heard(sent_at, Heard(name.agent, name.incarnation, number))
        self._last_listed, self._members = pulse.upto, pulse.members
        if self._run and pulse.run != self._run:
            # Send the outbox again before anything is asked for. A grant that the server forgot is not ours.
            log.warning("the coordinator was restarted; sending it again everything it may have lost")
            self._mailbox.forget_lately()
            self._mailbox.scope.publish_again()
            self._allowance.say_again(self._tellings.tell_again())
            await self._recover()
            await self._door.ask_again()
            await self._board.note(self._name, self._mailbox.notes(self._tenant.standing()))
        elif not self._run:
            await self._recover()
        elif not self._tenant.holds and self._beats % _CHECK_EVERY == 0:
            self._patience.doubt()  # the network may deliver one message twice
        self._run = pulse.run
        self._lease.renewed(sent_at)
        # before the totals are read: an agent may conclude from them that the crawl is done
        self._mailbox.scope.hear(pulse.joined)
        self._mailbox.hear(pulse.books)
        if (over := self._on_pulse(pulse)) is not None:
            await self._board.end(over)
        self._mailbox.post()
        self._nudge()

    async def _recover(self) -> None:
        """Find out which leases are still ours, and give back grants whose answer was lost."""
        owed = self._tenant.owed()
        for lease, keys in (*self._tellings.untold_keys().items(), *self._mailbox.unsaid_keys()):
            owed.setdefault(lease, set()).update(keys)
        known = {Held(*lease): keys for lease, keys in owed.items()}
        for held in await self._board.recover(self._name, known):
            self._tenant.revoke(held.host, held.epoch)

    # -- pending calls

    async def _delivery_loop(self) -> None:
        while True:
            due_in = min(self._host_fetcher.due_in(), self._terms.heartbeat, self._allowance.due_in())
            await self._mailbox.posted(due_in)
            await self._run_or_rejoin(self._deliver)

    async def _deliver(self) -> None:
        async with self._delivering:  # an agent that leaves delivers the rest while the task still runs
            await self._deliver_all()

    async def _publish_scope(self) -> None:
        scope = self._mailbox.scope
        if urls := list(scope.unsent):
            await self._board.widen(urls)
            scope.sent(urls)

    async def _deliver_all(self) -> None:
        await self._publish_scope()  # before outcomes of these pages are acknowledged
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
        if self._patience.take_doubt():  # now that no request is open and everything given back is delivered
            await self._recover()
        if wishes := mailbox.wishes.take():  # repeated later in case they do not arrive
            await self._board.wish(self._name, list(dict.fromkeys(wishes)))
        if wanted := mailbox.more.take():
            try:
                await self._host_fetcher.ask_for_more(self._name, wanted)
            except BoardUnreachable:
                mailbox.more.put_back(wanted)
                raise
        await self._host_fetcher.fetch(self._name)
