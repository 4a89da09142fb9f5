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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fieldmouse.aio import WakeUpCallbacks, cancel_and_wait
from fieldmouse.cluster.client.coordinator_outbox import LinksMessage, OutcomesMessage, RetryMessage
from fieldmouse.cluster.client.identity import begin_start, last_start
from fieldmouse.cluster.client.pending_calls import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    AddressLeases,
    CallQueue,
    ClusterPageQuota,
    PendingCalls,
)
from fieldmouse.cluster.coordinator import (
    MOST_LISTED_AGENTS,
    AckBatch,
    AgentId,
    Coordinator,
    CrawlRebuilder,
    CrawlSpec,
    DamagedField,
    HeartbeatId,
    HeartbeatReply,
    HeartbeatRequest,
    HostGrant,
    LeaseAck,
    LeaseId,
    LinkOffer,
    RetryBatch,
    Row,
    SiteBounds,
)
from fieldmouse.cluster.decoding import DamagedValue, decode_row, pack_urls
from fieldmouse.cluster.error_messages import other_crawl_error, stale_directory_error
from fieldmouse.cluster.sharded.coordinator import ShardedCoordinator
from fieldmouse.cluster.sharded.rebuild import ShardedRebuilder
from fieldmouse.cluster.sharded.sharding import check_not_sharded
from fieldmouse.errors import AgentFenced, AgentSuperseded, CoordinatorUnreachable, UsageError
from fieldmouse.policy.scope import site_for_limits
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import Request
from fieldmouse.url import Host

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Seconds between two tries to reach the coordinator.
RETRY_SECONDS = 0.3
_URLS_PER_GRANT = 64  # URLs that come with a granted host
_MOST_LINKS = 1024  # links sent in one call
_MOST_LOGGED = 3  # damaged values of a host that are logged one by one
_IDLE_SECONDS = 0.5  # seconds between two heartbeats of an agent without hosts
_CHECK_EVERY = 10  # heartbeats of an agent without hosts between two checks that it has none
_LEAVE_SECONDS = 20.0  # seconds for saying that we leave
_ALL_TOLD = 1 << 50  # a rebuilt coordinator reports more than this for batches sent to the lost one


class LeasingFrontier(Protocol):
    """Implemented by `frontier.agent_frontier`, which this package may not import."""

    @property
    def hosts_wanted(self) -> int: ...
    @property
    def lease_count(self) -> int: ...
    def epoch_of(self, host: Host) -> int: ...
    def owed_keys_by_lease(self) -> dict[tuple[Host, int], set[int]]: ...
    def states_by_lease(self) -> dict[tuple[Host, int], HostState]: ...
    def add_leased_host(
        self, host: Host, epoch: int, links: Sequence[Request], state: HostState, left: int
    ) -> None: ...
    def split_links_by_settled(self, links: Sequence[Request]) -> tuple[list[Request], list[Request]]: ...
    def drop_lease(self, host: Host, epoch: int) -> None: ...
    def drop_all_leases(self) -> None: ...
    def return_all_hosts(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SessionSettings:
    directory: Path  # of the agent
    crawl: str
    heartbeat_seconds: float
    keep_acked_urls: bool
    bounds: SiteBounds


class ClusterSession:
    def __init__(
        self,
        board: Coordinator,
        settings: SessionSettings,
        *,
        calls: PendingCalls,
        addresses: AddressLeases,
        quota: ClusterPageQuota,
        frontier: LeasingFrontier,
        bell: WakeUpCallbacks,
        encode_status: Callable[[], bytes],
        on_reply: Callable[[HeartbeatReply], str | None],
        on_error: Callable[[Exception], None],
    ):
        """`bell` is fired when there may be work. `on_error` receives the error that ended a task.

        `on_reply` returns why the crawl is over for all agents, "" if it no longer is, or None for no
        change.
        """
        self._board, self._settings, self._calls, self._addresses = board, settings, calls, addresses
        self._outbox, self._lease, self._clock = calls.outbox, calls.lease, calls.clock
        self._quota, self._frontier, self._bell = quota, frontier, bell
        self._encode_status, self._on_reply, self._on_error = encode_status, on_reply, on_error
        self._server_run, self._last_listed, self._members, self._beats = "", "", 1, 0
        self._is_reachable = True  # the last call was answered
        self._needs_reconcile = False  # the coordinator may have made grants whose answer was lost
        self._next_lease_at, self._lease_pause = 0.0, FIRST_PAUSE
        self._rejected_keys: set[int] = set()  # keys of our rejected outcomes
        self._leaving = False
        self._tasks: list[asyncio.Task[None]] = []
        self._joining, self._delivering = asyncio.Lock(), asyncio.Lock()

    # -- reaching the coordinator

    async def _retry_until_answered(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat `act` until the coordinator answers."""
        while True:
            try:
                done = await act()
            except CoordinatorUnreachable as trouble:
                await self._mark_unreachable_and_pause(trouble)
                continue
            self._mark_reachable()
            return done

    async def _mark_unreachable_and_pause(self, trouble: CoordinatorUnreachable) -> None:
        self._needs_reconcile = True  # an answer to another call does not clear it
        if self._is_reachable:
            self._is_reachable = False
            log.warning("%s; waiting for it", trouble)
        await self._clock.sleep(RETRY_SECONDS)

    def _mark_reachable(self) -> None:
        if not self._is_reachable:
            self._is_reachable = True
            log.warning("the coordinator answers again; continuing")
            self._bell.fire()

    # -- joining and leaving

    async def join_and_start(self) -> None:
        """Deliver the outbox of our last start, if any, join, and start the tasks."""
        retry = self._retry_until_answered
        await retry(lambda: self._board.check_no_data_lost(self._outbox.safe_heartbeat))
        await retry(self._check_directory_is_newest)
        before = self._outbox.restored_state
        last_name = AgentId(before.agent, before.incarnation)
        await retry(self._publish_scope_additions)
        if before.incarnation and await retry(lambda: self._board.was_never_fenced(last_name)):
            self._lease.set_holder(last_name)
            with contextlib.suppress(AgentFenced):  # its lease ended just now: the next start delivers all of it
                await retry(self._send_outbox)
        await self._join_with_first_heartbeat()
        loops = (self._heartbeat_loop(), self._addresses.send_calls_forever(), self._delivery_loop())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._on_task_done)

    async def _check_directory_is_newest(self) -> None:
        """Raise if the coordinator has later data of this agent.

        A directory restored from a snapshot lacks pages that the coordinator takes for stored; they would
        never be fetched again. An agent acknowledges an outcome, and joins under a new start, only after
        that is durable. So a coordinator with later data proves that the directory is an old copy.
        """
        sealed, last = self._outbox.restored_state, last_start(self._settings.directory)
        if not last.agent or sealed.agent != last.agent:
            return  # it never started, or was copied
        notes = [*await self._board.list_agents(), *await self._board.list_departed_agents()]
        starts = [note.incarnation for note in notes if note.agent == last.agent]
        if max(starts, default=0) > last.incarnation:
            raise stale_directory_error(last.agent)
        for start in {sealed.incarnation, last.incarnation}:
            if sealed.done < await self._board.last_acked_batch(AgentId(last.agent, start)) < _ALL_TOLD:
                raise stale_directory_error(last.agent)

    async def _join_with_first_heartbeat(self) -> None:
        """Join and send a heartbeat; repeat if the lease expires between the two."""
        while True:
            await self._retry_until_answered(self._join)
            try:
                await self._retry_until_answered(self._send_heartbeat)
            except AgentSuperseded:
                raise
            except AgentFenced:
                continue
            return

    async def _join(self) -> None:
        spec = await self._board.crawl_spec()
        if spec is not None and spec.key_seed != self._calls.key_seed:
            raise other_crawl_error()
        name = begin_start(self._settings.directory, self._settings.crawl)
        self._lease.set_holder(name)
        self._outbox.set_agent(name)
        self._calls.transfer.placement.set_agent_name(name.agent)
        await self._board.join(name, self._lease.seconds)

    async def leave(self, over: str = "") -> bool:
        """Give back all hosts and leave; False if the coordinator could not be told everything.

        If `over` says that a limit ended the crawl for all agents, the coordinator is told, too.

        Takes at most `_LEAVE_SECONDS` seconds plus the time to cancel, even if nothing answers.
        """
        self._frontier.return_all_hosts()
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
            while self._has_undelivered():
                await self._retry_until_answered(self._deliver_calls)
            with contextlib.suppress(CoordinatorUnreachable):
                await self._send_heartbeat()  # our final figures, and the totals
            while self._has_undelivered():
                await self._retry_until_answered(self._deliver_calls)
            if over:
                await self._retry_until_answered(lambda: self._board.stop_crawl(over))
            self._leaving = True  # a task that calls the coordinator after this must not join again
            await self._retry_until_answered(lambda: self._board.leave(self._lease.holder))
        except AgentFenced:
            return False
        return True

    def _has_undelivered(self) -> bool:
        calls = self._calls
        return bool(len(self._outbox) or calls.released_hosts or calls.returned_urls or calls.scope.unpublished)

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_and_wait(tasks)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._on_error(error)

    # -- heartbeats

    async def _heartbeat_loop(self) -> None:
        while True:
            pause = self._settings.heartbeat_seconds
            if not self._frontier.lease_count:
                # many idle agents together send as few heartbeats as `MOST_LISTED_AGENTS` of them
                pause = min(pause, _IDLE_SECONDS * max(1.0, self._members / MOST_LISTED_AGENTS))
            await self._clock.sleep(pause if self._is_reachable else min(pause, RETRY_SECONDS))
            if await self._run_or_rejoin(self._send_heartbeat):
                self._mark_reachable()

    async def _run_or_rejoin(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Run `act` unless the coordinator cannot be reached; join again if fenced. Whether it ran."""
        name = self._lease.holder
        try:
            await act()
        except CoordinatorUnreachable as trouble:
            await self._mark_unreachable_and_pause(trouble)
        except AgentSuperseded:
            if self._lease.holder == name:
                raise
            # Another task joined again: the newer start is ours and finds out which leases it has.
        except AgentFenced:
            async with self._joining:
                if self._lease.holder == name and not self._leaving:
                    log.warning("the hosts of this agent were given to others: it was fenced or forgotten")
                    self._lease.expire()
                    self._frontier.drop_all_leases()
                    self._quota.drop_quota()
                    await self._join_with_first_heartbeat()
        else:
            return True
        return False

    async def _send_heartbeat(self) -> None:
        sent_at = self._lease.now()
        self._beats += 1
        name, number = self._lease.holder, self._beats
        since, pages = self._outbox.safe_heartbeat, len(self._calls.scope)
        beat = HeartbeatRequest(self._encode_status(), self._lease.seconds, self._last_listed, number, since, pages)
        reply = await self._board.heartbeat(name, beat)
        self._outbox.record_answered_heartbeat(sent_at, HeartbeatId(name.agent, name.incarnation, number))
        self._last_listed, self._members = reply.last_listed, reply.members
        if self._server_run and reply.server_run != self._server_run:
            # Send the outbox again before anything is asked for. A grant that the server forgot is not ours.
            log.warning("the coordinator was restarted; sending it again everything it may have lost")
            self._calls.clear_offered_link_cache()
            self._calls.scope.publish_again()
            self._quota.make_renewal_due(self._outbox.requeue_sent())
            await self._reconcile_leases()
            await self._addresses.reacquire_held_addresses()
            export, states = self._calls.transfer.export_host, self._frontier.states_by_lease()
            payloads = {LeaseId(host, epoch): export(host, state) for (host, epoch), state in states.items()}
            await self._board.save_host_payloads(self._lease.holder, payloads)
        elif not self._server_run:
            await self._reconcile_leases()
        elif not self._frontier.lease_count and self._beats % _CHECK_EVERY == 0:
            self._needs_reconcile = True  # the network may deliver one message twice
        self._server_run = reply.server_run
        self._lease.renew(sent_at)
        # before the totals are read: an agent may conclude from them that the crawl is done
        self._calls.scope.receive(reply.scope_pages)
        self._calls.receive_totals(reply.totals)
        if (over := self._on_reply(reply)) is not None:
            await self._board.stop_crawl(over)
        self._calls.signal_calls_ready()
        self._bell.fire()

    async def _reconcile_leases(self) -> None:
        """Find out which leases are still ours, and give back grants whose answer was lost."""
        owed = self._frontier.owed_keys_by_lease()
        for lease, keys in (*self._outbox.unsent_ack_keys_by_lease().items(), *self._calls.undelivered_returned_keys()):
            owed.setdefault(lease, set()).update(keys)
        known = {LeaseId(*lease): keys for lease, keys in owed.items()}
        for held in await self._board.reconcile_leases(self._lease.holder, known):
            self._frontier.drop_lease(held.host, held.epoch)

    # -- pending calls

    async def _delivery_loop(self) -> None:
        while True:
            due_in = min(
                self._seconds_until_host_request(), self._settings.heartbeat_seconds, self._quota.seconds_until_due()
            )
            await self._calls.wait_until_call_pending(due_in)
            await self._run_or_rejoin(self._deliver_calls)

    async def _deliver_calls(self) -> None:
        async with self._delivering:  # an agent that leaves delivers the rest while the task still runs
            await self._deliver_all_pending(self._calls)

    async def _deliver_all_pending(self, calls: PendingCalls) -> None:
        await self._publish_scope_additions()  # before outcomes of these pages are acknowledged
        await self._send_outbox()
        if await self._quota.renew_if_due(self._board, self._lease.holder):
            self._bell.fire()
        await self._send_all_or_put_back(
            calls.released_hosts, lambda hosts: self._board.release_hosts(self._lease.holder, hosts)
        )
        await self._send_all_or_put_back(calls.returned_urls, self._return_urls)
        if self._needs_reconcile:  # now that no request is open and everything given back is delivered
            self._needs_reconcile = False
            await self._reconcile_leases()
        if hosts := calls.host_requests.take_all():  # repeated later in case they do not arrive
            await self._board.request_hosts_for_polls(self._lease.holder, list(dict.fromkeys(hosts)))
        await self._send_all_or_put_back(calls.url_requests, self._lease_more_urls)
        await self._lease_hosts()

    async def _send_all_or_put_back(self, queue: CallQueue[T], send: Callable[[list[T]], Awaitable[None]]) -> None:
        """Deliver all calls of a queue; they are put back if the coordinator cannot be reached."""
        if calls := queue.take_all():
            try:
                await send(calls)
            except CoordinatorUnreachable:
                queue[:0] = calls
                raise

    async def _publish_scope_additions(self) -> None:
        scope = self._calls.scope
        if urls := list(scope.unpublished):
            await self._board.widen_scope(urls)
            scope.mark_published(urls)

    async def _return_urls(self, urls: Sequence[tuple[LeaseId, Row]]) -> None:
        rows: dict[LeaseId, list[Row]] = {}
        for held, row in urls:
            rows.setdefault(held, []).append(row)
        await self._board.return_urls(self._lease.holder, rows)

    # -- the outbox

    async def _send_outbox(self) -> None:
        name = self._lease.holder
        while batch := self._outbox.next_batch(_MOST_LINKS):
            if links := [each for each in batch if isinstance(each, LinksMessage)]:
                await self._send_links(links)
            for message in batch:
                if isinstance(message, RetryMessage):
                    await self._send_requeued_urls(name, message)
                elif isinstance(message, OutcomesMessage):
                    await self._send_acks(name, message)
            self._quota.subtract_acked_pages(self._outbox.mark_sent(len(batch)))

    async def _send_links(self, messages: Sequence[LinksMessage]) -> None:
        place_new = self._calls.transfer.placement.fixed_agent_for_new_host
        offers = [
            LinkOffer(message.host, site_for_limits(message.host), message.links, place_new(message.host))
            for message in messages
        ]
        seeds = any(message.is_seed for message in messages)
        self._calls.count_dropped_links(await self._board.offer_links(offers, self._settings.bounds, seeds=seeds))

    async def _send_requeued_urls(self, name: AgentId, message: RetryMessage) -> None:
        # Rejected outcomes wait already, or belong to other agents.
        outcomes = zip(message.links, message.kinds, strict=True)
        counted = [(row, kind) for row, kind in outcomes if row[0] not in self._rejected_keys]
        if counted:
            rows, kinds = [row for row, _ in counted], [kind for _, kind in counted]
            batch = RetryBatch(message.host, rows, kinds, message.number)
            self._calls.add_to_waiting_total(await self._board.requeue_failed(name, batch))

    async def _send_acks(self, me: AgentId, message: OutcomesMessage) -> None:
        acks = [
            LeaseAck(LeaseId(host, epoch), [url.key for url in urls], [url.kind for url in urls])
            for host, epoch, urls in message.leases
        ]
        urls = [url for _, _, leased in message.leases for url in leased]
        packed = pack_urls([url.url for url in urls]) if self._settings.keep_acked_urls else b""
        name = AgentId(me.agent, message.incarnation or me.incarnation)
        try:
            rejected = await self._board.ack(name, AckBatch(acks, packed, message.number))
        except AgentFenced:
            if name == me:
                raise
            if message.number <= await self._board.last_acked_batch(name):
                return  # it counted when it was sent the first time
            rejected = [ack.keys for ack in acks]
        if late := {key for keys in rejected for key in keys}:
            self._rejected_keys |= late
            self._calls.outcomes.record_rejected([url for url in urls if url.key in late], self._clock.now())

    # -- granted hosts

    def _seconds_until_host_request(self) -> float:
        """Seconds until hosts should be asked for; inf while there is no room, or the lease is over."""
        if not self._frontier.hosts_wanted or not self._lease.is_valid:
            return math.inf
        return max(0.0, self._next_lease_at - self._clock.now())

    async def _lease_hosts(self) -> None:
        """Lease hosts, if there is room for more and the last request was not just refused."""
        if self._seconds_until_host_request():
            return
        name, wanted = self._lease.holder, self._frontier.hosts_wanted
        grants = await self._board.lease_hosts(name, wanted, _URLS_PER_GRANT)
        self._lease_pause = FIRST_PAUSE if grants else min(LONGEST_PAUSE, 2 * self._lease_pause)
        self._next_lease_at = self._clock.now() + (0.0 if len(grants) >= wanted else self._lease_pause)
        await self._accept_grants(name, grants, fresh=True)

    async def _lease_more_urls(self, held: Sequence[LeaseId]) -> None:
        name = self._lease.holder
        await self._accept_grants(name, await self._board.lease_more_urls(name, held, _URLS_PER_GRANT), fresh=False)

    async def _accept_grants(self, name: AgentId, grants: Sequence[HostGrant], *, fresh: bool) -> None:
        """Take in granted hosts and URLs. Unreadable values are quarantined at the coordinator.

        If that call is lost, the coordinator grants those URLs to other agents, which quarantine them as
        well.
        """
        now = self._clock.now()
        damaged: dict[LeaseId, list[DamagedField]] = {}
        for grant in grants:
            if grant.damaged:
                damaged[LeaseId(grant.host, grant.epoch)] = list(grant.damaged)
            if not fresh and self._frontier.epoch_of(grant.host) != grant.epoch:
                for stray in grant.rows:  # we released the host while we asked for more of it
                    self._calls.returned_urls.append((LeaseId(grant.host, grant.epoch), stray))
                continue
            links = []
            for key, row in grant.rows:
                try:
                    links.append(self._decode_row(key, row, grant.host, now))
                except DamagedValue as trouble:
                    damage = DamagedField("rows", str(trouble), (key,), row)
                    damaged.setdefault(LeaseId(grant.host, grant.epoch), []).append(damage)
            settled, new = self._frontier.split_links_by_settled(links)
            if settled:
                over = self._calls.ack_already_fetched_urls(
                    grant.host, grant.epoch, settled, self._quota.remaining_pages
                )
                self._quota.request_extra_pages(over)
            state = HostState()
            if fresh:
                state, unreadable = self._calls.transfer.import_host(grant)
                if unreadable:
                    damaged.setdefault(LeaseId(grant.host, grant.epoch), []).extend(unreadable)
            self._frontier.add_leased_host(grant.host, grant.epoch, new, state, grant.remaining_urls)
        if grants:
            self._bell.fire()
        if damaged:
            await self._quarantine(name, damaged)

    def _decode_row(self, key: int, row: bytes, host: Host, now: float) -> Request:
        link = decode_row(row, host, now)
        if self._calls.key_of(link.url) != key:
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
        await self._board.quarantine_damaged_values(name, damaged)


def open_coordinator(urls: Sequence[str], crawl: str) -> Coordinator:
    """Coordinator of a crawl; connects later. With several URLs, sites are sharded over their servers."""
    labels = _server_labels(urls, crawl)
    from fieldmouse.cluster.redis.coordinator import RedisCoordinator

    boards = {label: RedisCoordinator(url, crawl) for label, url in zip(labels, urls, strict=True)}
    return ShardedCoordinator(boards, crawl) if len(urls) > 1 else boards[labels[0]]


def open_rebuilder(urls: Sequence[str], crawl: str) -> CrawlRebuilder:
    """Builder of a crawl that is rebuilt; otherwise as above."""
    labels = _server_labels(urls, crawl)
    from fieldmouse.cluster.redis.coordinator import RedisCoordinator
    from fieldmouse.cluster.redis.rebuild import RedisRebuilder

    boards = {label: RedisCoordinator(url, crawl) for label, url in zip(labels, urls, strict=True)}
    builders = {label: RedisRebuilder(url, crawl) for label, url in zip(labels, urls, strict=True)}
    return ShardedRebuilder(builders, boards, crawl) if len(urls) > 1 else builders[labels[0]]


def _server_labels(urls: Sequence[str], crawl: str) -> list[str]:
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
    _server_labels(urls, "any")
    from fieldmouse.cluster.redis.coordinator import list_crawls

    return sorted(set[str]().union(*[await list_crawls(url) for url in urls]))


async def read_crawl_spec(board: Coordinator, crawl: str) -> CrawlSpec | None:
    """Specification of the crawl, None if there is none.

    Raises `UsageError` if the crawl lies on other servers than were named.
    """
    spec = await board.crawl_spec()
    if spec is not None:
        check_not_sharded(spec, crawl)
    return spec
