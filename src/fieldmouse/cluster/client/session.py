"""Session of an agent with the coordinator: connect, join, heartbeats, leases, delivery of calls, leave.

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
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fieldmouse.aio import cancel_and_wait
from fieldmouse.clock import Clock
from fieldmouse.cluster.client.identity import LeaseClock, LeasingFrontier
from fieldmouse.cluster.client.membership import check_directory_is_newest
from fieldmouse.cluster.client.outbox import AckedUrl, Outbox, OutboxSender
from fieldmouse.cluster.client.page_quota import ClusterPageQuota
from fieldmouse.cluster.client.pending import AddressLeases, PendingCalls, group_by_lease
from fieldmouse.cluster.coordinator import (
    MOST_LISTED_AGENTS,
    AgentId,
    Coordinator,
    CrawlRebuilder,
    CrawlSpec,
    DamagedField,
    Heartbeat,
    HeartbeatMark,
    HeartbeatReply,
    HostGrant,
    LeaseId,
    SiteBounds,
)
from fieldmouse.cluster.decoding import DamagedValue, decode_row
from fieldmouse.cluster.errors import check_same_crawl
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.cluster.sharded.rebuild import ShardedRebuilder
from fieldmouse.cluster.sharded.sharding import check_not_sharded
from fieldmouse.errors import AgentFenced, AgentSuperseded, CoordinatorUnreachable, UsageError
from fieldmouse.policy.retry import clear_host_failure
from fieldmouse.types.host import HostState
from fieldmouse.types.request import Request
from fieldmouse.url import Host

log = logging.getLogger(__name__)

#: Seconds between two tries to reach the coordinator.
RETRY_SECONDS = 0.3


class CallRetry:
    """State of the connection; `on_return` is called when the coordinator answers again."""

    def __init__(self, clock: Clock, on_return: Callable[[], None]):
        self._clock, self._on_return = clock, on_return
        self.is_reachable = True  # the last call was answered
        self._needs_reconcile = False  # it may have made grants whose answer was lost

    async def retry_until_answered(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat `act` until the coordinator answers."""
        while True:
            try:
                done = await act()
            except CoordinatorUnreachable as trouble:
                self.note_unreachable(trouble)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            self.note_reachable()
            return done

    def take_needs_reconcile(self) -> bool:
        """Whether to find out what the coordinator has granted; True once for each silence or doubt."""
        doubtful, self._needs_reconcile = self._needs_reconcile, False
        return doubtful

    def mark_needs_reconcile(self) -> None:
        self._needs_reconcile = True

    def note_unreachable(self, trouble: CoordinatorUnreachable) -> None:
        self.mark_needs_reconcile()  # an answer to another call does not clear it
        if self.is_reachable:
            self.is_reachable = False
            log.warning("%s; waiting for it", trouble)

    def note_reachable(self) -> None:
        if not self.is_reachable:
            self.is_reachable = True
            log.warning("the coordinator answers again; continuing")
            self._on_return()


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Times in seconds."""

    key_seed: int
    lease_seconds: float = 15.0
    heartbeat_seconds: float = 5.0
    keep_acked_urls: bool = True
    bounds: SiteBounds = field(default_factory=SiteBounds)


_URLS_PER_GRANT = 64  # URLs that come with a granted host
_FIRST_PAUSE = 0.05  # seconds until hosts are asked for again after too few were granted, at first
_LONGEST_PAUSE = 1.0  # ... and at most
_MOST_LOGGED = 3  # damaged values of a host that are logged one by one


class HostLeaser:
    def __init__(
        self,
        board: Coordinator,
        *,
        mailbox: PendingCalls,
        tenant: LeasingFrontier,
        allowance: ClusterPageQuota,
        lease: LeaseClock,
        clock: Clock,
        unpack: Callable[[HostGrant], tuple[HostState, list[DamagedField]]],
        on_hosts: Callable[[], None],
    ):
        """`unpack` reads the state that came with a host, and returns its unreadable values."""
        self._board, self._mailbox, self._tenant, self._allowance = board, mailbox, tenant, allowance
        self._lease, self._clock, self._unpack, self._on_hosts = lease, clock, unpack, on_hosts
        self._ask_at, self._pause = 0.0, _FIRST_PAUSE

    def seconds_until_due(self) -> float:
        """Seconds until hosts should be asked for; inf while there is no room, or the lease is over."""
        if not self._tenant.hosts_wanted or not self._lease.is_valid:
            return math.inf
        return max(0.0, self._ask_at - self._clock.now())

    async def lease_hosts(self, name: AgentId) -> None:
        """Lease hosts, if there is room for more and the last request was not just refused."""
        if self.seconds_until_due():
            return
        wanted = self._tenant.hosts_wanted
        grants = await self._board.lease_hosts(name, wanted, _URLS_PER_GRANT)
        self._pause = _FIRST_PAUSE if grants else min(_LONGEST_PAUSE, 2 * self._pause)
        self._ask_at = self._clock.now() + (0.0 if len(grants) >= wanted else self._pause)
        await self._take_in(name, grants, fresh=True)

    async def lease_more_urls(self, name: AgentId, held: Sequence[LeaseId]) -> None:
        await self._take_in(name, await self._board.lease_more_urls(name, held, _URLS_PER_GRANT), fresh=False)

    async def _take_in(self, name: AgentId, grants: Sequence[HostGrant], *, fresh: bool) -> None:
        """Take in granted hosts and URLs. Unreadable values are quarantined at the coordinator.

        If that call is lost, the coordinator grants those URLs to other agents, which quarantine them as
        well.
        """
        now = self._clock.now()
        damaged: dict[LeaseId, list[DamagedField]] = {}
        for grant in grants:
            if grant.damaged:
                damaged[LeaseId(grant.host, grant.epoch)] = list(grant.damaged)
            if not fresh and self._tenant.epoch_of(grant.host) != grant.epoch:
                for stray in grant.rows:  # we released the host while we asked for more of it
                    self._mailbox.returned_urls.put((LeaseId(grant.host, grant.epoch), stray))
                continue
            links = []
            for key, row in grant.rows:
                try:
                    links.append(self._decode_row(key, row, grant.host, now))
                except DamagedValue as trouble:
                    damage = DamagedField("rows", str(trouble), (key,), row)
                    damaged.setdefault(LeaseId(grant.host, grant.epoch), []).append(damage)
            settled, new = self._tenant.split_settled(links)
            if settled:
                over = self._mailbox.ack_known(grant.host, grant.epoch, settled, self._allowance.remaining)
                self._allowance.request_extra(over)
            state = HostState()
            if fresh:
                state, unreadable = self._unpack(grant)
                state = clear_host_failure(state, new)
                if unreadable:
                    damaged.setdefault(LeaseId(grant.host, grant.epoch), []).extend(unreadable)
            self._tenant.grant(grant.host, grant.epoch, new, state, grant.remaining_urls)
        if grants:
            self._on_hosts()
        if damaged:
            await self._quarantine(name, damaged)

    def _decode_row(self, key: int, row: bytes, host: Host, now: float) -> Request:
        link = decode_row(row, host, now)
        if self._mailbox.key_of(link.url) != key:
            raise DamagedValue("row", f"its key is not that of {link.url}")
        return link

    async def _quarantine(self, name: AgentId, damaged: Mapping[LeaseId, Sequence[DamagedField]]) -> None:
        for held, values in damaged.items():
            for value in values[:_MOST_LOGGED]:
                log.warning(
                    "a value of %s on the coordinator cannot be read and is set aside: %s", held.host, value.reason
                )
            if len(values) > _MOST_LOGGED:
                log.warning("%d more values of %s cannot be read", len(values) - _MOST_LOGGED, held.host)
        await self._board.quarantine(name, damaged)


_IDLE_SECONDS = 0.5  # seconds between two heartbeats of an agent without hosts
_CHECK_EVERY = 10  # heartbeats of an agent without hosts between two checks that it has none
_LEAVE_SECONDS = 20.0  # seconds for saying that we leave


class ClusterSession:
    def __init__(
        self,
        board: Coordinator,
        *,
        terms: SessionSettings,
        mailbox: PendingCalls,
        tellings: Outbox,
        lease: LeaseClock,
        allowance: ClusterPageQuota,
        tenant: LeasingFrontier,
        clock: Clock,
        rejoin: Callable[[], AgentId],
        advert: Callable[[], bytes],
        unpack: Callable[[HostGrant], tuple[HostState, list[DamagedField]]],
        place_new: Callable[[Host], str],
        nudge: Callable[[], None],
        on_pulse: Callable[[HeartbeatReply], str | None],
        on_trouble: Callable[[Exception], None],
        on_unbooked: Callable[[Sequence[AckedUrl]], None],
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
        self._name, self._run = AgentId("", 0), ""
        self._last_listed, self._members, self._beats = "", 1, 0
        self._teller = OutboxSender(
            board,
            tellings,
            keep_urls=terms.keep_acked_urls,
            bounds=terms.bounds,
            place_new=place_new,
            on_dropped=mailbox.note_dropped,
            on_unbooked=on_unbooked,
            on_booked=allowance.subtract_acked,
            on_again=mailbox.note_requeued,
        )
        self._door = AddressLeases(board, mailbox, lambda: self._name, on_refused)
        self._host_fetcher = HostLeaser(
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
        self._patience = CallRetry(clock, nudge)
        self._tasks: list[asyncio.Task[None]] = []
        self._joining, self._delivering = asyncio.Lock(), asyncio.Lock()

    # -- joining and leaving

    async def start(self, last: AgentId) -> None:
        """Deliver the outbox of our last start, if any (`last`), join, and start the tasks."""
        await self._patience.retry_until_answered(
            lambda: self._board.check_heartbeat_known(self._tellings.safe_heartbeat)
        )
        await self._patience.retry_until_answered(
            lambda: check_directory_is_newest(self._board, self._tellings.restored_state, last)
        )
        before = self._tellings.restored_state
        last_name = AgentId(before.agent, before.incarnation)
        await self._patience.retry_until_answered(self._publish_scope)
        if before.incarnation and await self._patience.retry_until_answered(lambda: self._board.is_active(last_name)):
            self._name = last_name
            with contextlib.suppress(AgentFenced):  # its lease ended just now: the next start delivers all of it
                await self._patience.retry_until_answered(lambda: self._teller.send_all(last_name))
        await self._join_and_beat()
        loops = (self._heartbeat_loop(), self._door.run(), self._delivery_loop())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._on_task_done)

    async def _join_and_beat(self) -> None:
        """Join and send a heartbeat; repeat if the lease expires between the two."""
        while True:
            await self._patience.retry_until_answered(self._join)
            try:
                await self._patience.retry_until_answered(self._send_heartbeat)
            except AgentSuperseded:
                raise
            except AgentFenced:
                continue
            return

    async def _join(self) -> None:
        check_same_crawl(await self._board.crawl_spec(), self._terms.key_seed)
        self._name = self._rejoin()
        await self._board.join(self._name, self._terms.lease_seconds)

    async def leave(self, over: str = "") -> bool:
        """Give back all hosts and leave; False if the coordinator could not be told everything.

        If `over` says that a limit ended the crawl for all agents, the coordinator is told, too.

        Takes at most `_LEAVE_SECONDS` seconds plus the time to cancel, even if nothing answers.
        """
        self._tenant.release_all()
        if not self._tasks:
            return False  # it never joined
        leaving = asyncio.create_task(self._deliver_and_leave(over))
        try:
            await asyncio.wait({leaving}, timeout=_LEAVE_SECONDS)
        finally:
            await cancel_and_wait([leaving])
            await self.close()
        if leaving.done() and not leaving.cancelled():
            return leaving.result()
        log.warning("the coordinator could not be told that this agent leaves; its lease ends by itself")
        return False

    async def _deliver_and_leave(self, over: str) -> bool:
        try:
            while self._has_undelivered:
                await self._patience.retry_until_answered(self._deliver)
            with contextlib.suppress(CoordinatorUnreachable):
                await self._send_heartbeat()  # our final figures, and the totals
            while self._has_undelivered:
                await self._patience.retry_until_answered(self._deliver)
            if over:
                await self._patience.retry_until_answered(lambda: self._board.stop_crawl(over))
            self._leaving = True  # a task that calls the coordinator after this must not join again
            await self._patience.retry_until_answered(lambda: self._board.leave(self._name))
        except AgentFenced:
            return False
        return True

    @property
    def _has_undelivered(self) -> bool:
        mailbox = self._mailbox
        return bool(len(self._tellings) or mailbox.released_hosts or mailbox.returned_urls or mailbox.scope.unpublished)

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_and_wait(tasks)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._on_trouble(error)

    # -- heartbeats

    async def _heartbeat_loop(self) -> None:
        while True:
            # many idle agents together send as few heartbeats as `MOST_LISTED_AGENTS` of them
            idle = _IDLE_SECONDS * max(1.0, self._members / MOST_LISTED_AGENTS)
            pause = (
                self._terms.heartbeat_seconds if self._tenant.lease_count else min(idle, self._terms.heartbeat_seconds)
            )
            await self._clock.sleep(pause if self._patience.is_reachable else min(pause, RETRY_SECONDS))
            if await self._run_or_rejoin(self._send_heartbeat):
                self._patience.note_reachable()

    async def _run_or_rejoin(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Run `act` unless the coordinator cannot be reached; join again if fenced. Whether it ran."""
        name = self._name
        try:
            await act()
        except CoordinatorUnreachable as trouble:
            self._patience.note_unreachable(trouble)
            await self._clock.sleep(RETRY_SECONDS)
        except AgentSuperseded:
            if self._name == name:
                raise
            # Another task joined again: the newer start is ours and finds out which leases it has.
        except AgentFenced:
            async with self._joining:
                if self._name == name and not self._leaving:
                    log.warning("the hosts of this agent were given to others: it was fenced or forgotten")
                    self._lease.expire()
                    self._tenant.revoke_all()
                    self._allowance.reset()
                    await self._join_and_beat()
        else:
            return True
        return False

    async def _send_heartbeat(self) -> None:
        sent_at = self._lease.now()
        self._beats += 1
        name, number = self._name, self._beats
        joined, since = len(self._mailbox.scope), self._tellings.safe_heartbeat
        beat = Heartbeat(self._advert(), self._terms.lease_seconds, self._last_listed, number, since, joined)
        pulse = await self._board.heartbeat(name, beat)
        self._tellings.note_heartbeat(sent_at, HeartbeatMark(name.agent, name.incarnation, number))
        self._last_listed, self._members = pulse.last_listed, pulse.members
        if self._run and pulse.server_run != self._run:
            # Send the outbox again before anything is asked for. A grant that the server forgot is not ours.
            log.warning("the coordinator was restarted; sending it again everything it may have lost")
            self._mailbox.forget_recent_links()
            self._mailbox.scope.publish_again()
            self._allowance.renew_now(self._tellings.resend_all())
            await self._recover()
            await self._door.renew_held()
            await self._board.save_host_payloads(self._name, self._mailbox.host_payloads(self._tenant.host_states()))
        elif not self._run:
            await self._recover()
        elif not self._tenant.lease_count and self._beats % _CHECK_EVERY == 0:
            self._patience.mark_needs_reconcile()  # the network may deliver one message twice
        self._run = pulse.server_run
        self._lease.renew(sent_at)
        # before the totals are read: an agent may conclude from them that the crawl is done
        self._mailbox.scope.receive(pulse.scope_pages)
        self._mailbox.update_totals(pulse.totals)
        if (over := self._on_pulse(pulse)) is not None:
            await self._board.stop_crawl(over)
        self._mailbox.notify()
        self._nudge()

    async def _recover(self) -> None:
        """Find out which leases are still ours, and give back grants whose answer was lost."""
        owed = self._tenant.owed_keys()
        for lease, keys in (*self._tellings.unsent_keys().items(), *self._mailbox.undelivered_keys()):
            owed.setdefault(lease, set()).update(keys)
        known = {LeaseId(*lease): keys for lease, keys in owed.items()}
        for held in await self._board.reconcile_leases(self._name, known):
            self._tenant.revoke(held.host, held.epoch)

    # -- pending calls

    async def _delivery_loop(self) -> None:
        while True:
            due_in = min(
                self._host_fetcher.seconds_until_due(),
                self._terms.heartbeat_seconds,
                self._allowance.seconds_until_due(),
            )
            await self._mailbox.wait_for_calls(due_in)
            await self._run_or_rejoin(self._deliver)

    async def _deliver(self) -> None:
        async with self._delivering:  # an agent that leaves delivers the rest while the task still runs
            await self._deliver_all()

    async def _publish_scope(self) -> None:
        scope = self._mailbox.scope
        if urls := list(scope.unpublished):
            await self._board.add_scope_pages(urls)
            scope.mark_published(urls)

    async def _deliver_all(self) -> None:
        await self._publish_scope()  # before outcomes of these pages are acknowledged
        await self._teller.send_all(self._name)
        if await self._allowance.renew(self._board, self._name):
            self._nudge()
        mailbox = self._mailbox
        if back := mailbox.released_hosts.take():
            try:
                await self._board.release_hosts(self._name, back)
            except CoordinatorUnreachable:
                mailbox.released_hosts.put_back(back)
                raise
        if strays := mailbox.returned_urls.take():
            try:
                await self._board.return_urls(self._name, group_by_lease(strays))
            except CoordinatorUnreachable:
                mailbox.returned_urls.put_back(strays)
                raise
        if self._patience.take_needs_reconcile():  # now that no request is open and everything given back is delivered
            await self._recover()
        if wishes := mailbox.host_requests.take():  # repeated later in case they do not arrive
            await self._board.request_hosts(self._name, list(dict.fromkeys(wishes)))
        if wanted := mailbox.url_requests.take():
            try:
                await self._host_fetcher.lease_more_urls(self._name, wanted)
            except CoordinatorUnreachable:
                mailbox.url_requests.put_back(wanted)
                raise
        await self._host_fetcher.lease_hosts(self._name)


def open_coordinator(urls: Sequence[str], crawl: str) -> Coordinator:
    """Coordinator of a crawl; connects later. With several URLs, sites are sharded over their servers."""
    labels = _labels(urls, crawl)
    from fieldmouse.cluster.redis.coordinator import RedisCoordinator

    boards = {label: RedisCoordinator(url, crawl) for label, url in zip(labels, urls, strict=True)}
    return ShardedCoordinator(boards, crawl) if len(urls) > 1 else boards[labels[0]]


def open_rebuilder(urls: Sequence[str], crawl: str) -> CrawlRebuilder:
    """Builder of a crawl that is rebuilt; otherwise as above."""
    labels = _labels(urls, crawl)
    from fieldmouse.cluster.redis.coordinator import RedisCoordinator
    from fieldmouse.cluster.redis.rebuild import RedisRebuilder

    boards = {label: RedisCoordinator(url, crawl) for label, url in zip(labels, urls, strict=True)}
    builders = {label: RedisRebuilder(url, crawl) for label, url in zip(labels, urls, strict=True)}
    return ShardedRebuilder(builders, boards, crawl) if len(urls) > 1 else builders[labels[0]]


def _labels(urls: Sequence[str], crawl: str) -> list[str]:
    """Names of the servers for people. Raises `UsageError` if a URL or the crawl's name is invalid."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", crawl):
        raise UsageError(
            f"`--crawl {crawl}` is no name of a crawl", "use letters, digits, dots, dashes and underscores"
        )
    if not urls:
        raise UsageError("no coordinator is named", "name its server: `--coordinator redis://HOST:6379/0`")
    try:
        from fieldmouse.cluster.redis.connection import url_label
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"a coordinator needs `{missing.name}`, which is not installed",
            "install it with `pip install fieldmouse[network]`",
        ) from missing
    labels = [url_label(url) for url in urls]
    if len(set(labels)) != len(labels):
        raise UsageError("one coordinator is named twice", "name each server once")
    return labels


async def list_crawls_on(urls: Sequence[str]) -> list[str]:
    """Names of all crawls on these servers."""
    _labels(urls, "any")
    from fieldmouse.cluster.redis.coordinator import list_crawls

    return sorted(set[str]().union(*[await list_crawls(url) for url in urls]))


async def read_crawl_spec(board: Coordinator, crawl: str) -> CrawlSpec | None:
    """Specification of the crawl, None if there is none.

    Raises `UsageError` if the crawl lies on other servers than were named.
    """
    charter = await board.crawl_spec()
    if charter is not None:
        check_not_sharded(charter, crawl)
    return charter
