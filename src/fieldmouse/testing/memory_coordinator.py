"""Coordinator in memory: for tests, for virtual time, and as a readable description.

It is the twin of the Redis coordinator and its executable specification: the same guarantees, kept by the
plainest code. Its server can be restarted with an older memory, as real servers are.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Collection, Mapping, Sequence

from fieldmouse.clock import Clock
from fieldmouse.cluster import coordinator, error_messages
from fieldmouse.cluster.coordinator import AgentId, CrawlSpec, HostPayload, LeaseId, Row
from fieldmouse.testing.memory_crawl_state import AgentRecord, MemoryCrawl, next_names
from fieldmouse.url import Host, Url


class MemoryServer:
    """In-memory server: several coordinators, and so several agents, may share one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.starts = 1
        self.crawls: dict[str, MemoryCrawl] = {}
        self.hidden: dict[str, MemoryCrawl] = {}  # crawls that are being rebuilt

    @property
    def run(self) -> str:
        return f"run {self.starts}"

    def snapshot(self) -> dict[str, MemoryCrawl]:
        """Copy of all data, as on a completely written disk."""
        return copy.deepcopy(self.crawls)

    def restart(self, memory: Mapping[str, MemoryCrawl] | None = None) -> None:
        """Kill and restart the server; `memory` is the data that survives, None for all of it."""
        self.starts += 1
        if memory is not None:
            self.crawls = copy.deepcopy(dict(memory))


class MemoryCoordinator:
    """Coordinator whose server is an object."""

    def __init__(self, server: MemoryServer, crawl: str = "fieldmouse") -> None:
        self._server, self._crawl = server, crawl

    def _now(self) -> float:
        return self._server.clock.now()

    def crawl_state(self) -> MemoryCrawl:
        """Current data of the crawl; `CoordinatorDataLost` if there is none."""
        ledger = self._server.crawls.get(self._crawl)
        if ledger is None:
            raise error_messages.crawl_lost_error(self._crawl)
        ledger.detect_server_restart(self._server.run, self._now())
        return ledger

    def _state_for_active(self, name: AgentId) -> MemoryCrawl:
        ledger = self.crawl_state()
        if not ledger.was_never_fenced(name):
            raise self._refusal(ledger, name)
        return ledger

    def _refusal(self, ledger: MemoryCrawl, name: AgentId) -> Exception:
        record = ledger.agents.get(name.agent)
        if record is not None and record.incarnation > name.incarnation:
            return error_messages.superseded_error(name)
        return error_messages.fenced_error(name)

    # -- the crawl

    async def server_identity(self) -> str:
        return f"{self._server.run} of {id(self._server)}"

    async def crawl_spec(self) -> CrawlSpec | None:
        return self.crawl_state().spec if self._crawl in self._server.crawls else None

    async def create_crawl(self, charter: CrawlSpec) -> CrawlSpec:
        if self._crawl in self._server.hidden:
            raise error_messages.rebuild_running_error(self._crawl)
        self._server.crawls.setdefault(self._crawl, MemoryCrawl(charter, self._server.run, self._now()))
        return self.crawl_state().spec

    async def stop_crawl(self, why: str) -> None:
        self.crawl_state().set_stop_reason(why)

    # -- agents

    async def join(self, name: AgentId, lease: float) -> None:
        ledger, now = self.crawl_state(), self._now()
        record = ledger.agents.get(name.agent)
        if record is not None and record.incarnation >= name.incarnation and not ledger.was_never_fenced(name):
            raise self._refusal(ledger, name)
        ledger.join(name, now, lease)
        ledger.fence_overdue(now)

    async def was_never_fenced(self, name: AgentId) -> bool:
        return self.crawl_state().was_never_fenced(name)

    async def check_no_data_lost(self, since: coordinator.HeartbeatId) -> None:
        if not self.crawl_state().knows_heartbeat(since):
            raise error_messages.stale_data_error(since.agent)

    async def heartbeat(self, name: AgentId, beat: coordinator.HeartbeatRequest) -> coordinator.HeartbeatReply:
        await self.check_no_data_lost(beat.since)
        ledger, now = self._state_for_active(name), self._now()
        ledger.record_heartbeat(name, beat, now)
        ledger.fence_overdue(now)
        notes = await self.list_agents()
        turn = next_names([note.agent for note in notes], beat.list_after)
        listed = {name.agent, *turn}
        return coordinator.HeartbeatReply(
            totals=await self.totals(),
            agents=[note for note in notes if note.agent in listed],
            alive=sum(note.alive for note in notes),
            members=len(notes),
            last_listed=turn[-1] if len(turn) < len(notes) else "",
            server_run=ledger.run,
            calm_seconds=max(0.0, ledger.calm_until - now),
            draining=ledger.agents[name.agent].take_drain_request(),
            stop_reason=ledger.stop_reason,
            scope_pages=list(ledger.scope) if len(ledger.scope) != beat.known_scope_pages else (),
        )

    async def totals(self) -> coordinator.CrawlTotals:
        ledger = self.crawl_state()
        return coordinator.CrawlTotals(
            seen=len(ledger.seen),
            settled=ledger.settled,
            waiting=len(ledger.seen) - ledger.settled,
            hosts=len(ledger.hosts),
            started=ledger.started,
            age=self._now() - ledger.created_at,
            kinds={kind: count for kind, count in ledger.kinds.items() if count},
            quarantined=ledger.quarantined,
        )

    async def widen_scope(self, urls: Sequence[Url]) -> None:
        self.crawl_state().scope.update(dict.fromkeys(urls))

    async def leave(self, name: AgentId) -> None:
        ledger, now = self.crawl_state(), self._now()
        if ledger.was_never_fenced(name):
            ledger.fence(name, now, now)
            ledger.members.discard(name.agent)

    async def stranded_hosts(self) -> coordinator.StrandedHosts:
        ledger = self.crawl_state()
        hosts = ledger.list_stranded_hosts()
        return coordinator.StrandedHosts(len(hosts), tuple(hosts[: coordinator.MOST_EXAMPLES]), ledger.repaired)

    async def list_agents(self) -> list[coordinator.ListedAgent]:
        ledger, now = self.crawl_state(), self._now()
        held = [record.holder.agent for record in ledger.hosts.values() if record.holder]
        return [
            coordinator.ListedAgent(
                agent=agent,
                incarnation=start.incarnation,
                alive=start.active and start.deadline >= now,
                draining=start.draining,
                status=start.status,
                heartbeat_age=now - start.seen_at,
                host_count=held.count(agent),
            )
            for agent, start in sorted(ledger.agents.items())
            if agent in ledger.members
        ]

    async def list_departed_agents(self) -> list[coordinator.ListedAgent]:
        ledger, now = self.crawl_state(), self._now()
        departed = sorted(agent for agent, kept in ledger.kept_batches.items() if kept and agent not in ledger.members)
        records = [(agent, ledger.agents.get(agent, AgentRecord(0, now, now))) for agent in departed]
        return [
            coordinator.ListedAgent(agent, record.incarnation, False, False, record.status, now - record.seen_at)
            for agent, record in records
        ]

    async def request_drain(self, agent: str) -> bool:
        ledger = self.crawl_state()
        if agent in ledger.members:
            ledger.agents[agent].request_drain()
        return agent in ledger.members

    async def forget_agent(self, agent: str, *, again: bool) -> int:
        ledger, now = self.crawl_state(), self._now()
        record = ledger.agents.get(agent)
        if record is not None and record.active:
            ledger.fence(AgentId(agent, record.incarnation), record.deadline, now)
        ledger.members.discard(agent)
        return ledger.requeue_acked(agent, now) if again else 0

    # -- links

    async def offer_links(
        self, offers: Sequence[coordinator.LinkOffer], bounds: coordinator.SiteBounds, *, seeds: bool = False
    ) -> coordinator.OfferResult:
        ledger = self.crawl_state()
        if seeds:
            ledger.mark_started()
        return coordinator.OfferResult.sum_results([ledger.offer_links(offer, bounds, self._now()) for offer in offers])

    # -- hosts

    async def lease_hosts(self, name: AgentId, hosts: int, urls: int, soon: float = 0.0) -> list[coordinator.HostGrant]:
        ledger, now = self._state_for_active(name), self._now()
        ledger.fence_overdue(now, but=name.agent)
        record = ledger.agents[name.agent]
        if now < ledger.calm_until or now > record.deadline or record.draining:
            return []
        turns = ledger.leasable_hosts(name.agent, now, soon)
        if not turns and hosts and ledger.repair_stranded_hosts(now):
            turns = ledger.leasable_hosts(name.agent, now, soon)
        return [ledger.lease_host(name, host, urls, now) for host in turns[:hosts]]

    async def request_hosts_for_polls(self, name: AgentId, hosts: Sequence[Host]) -> None:
        ledger = self._state_for_active(name)
        for host in hosts:
            ledger.request_host(name.agent, host, self._now())

    async def lease_more_urls(self, name: AgentId, held: Sequence[LeaseId], urls: int) -> list[coordinator.HostGrant]:
        ledger, now = self._state_for_active(name), self._now()
        return [
            ledger.grant_urls(name, each.host, urls, now)
            if ledger.holds(name, each)
            else coordinator.HostGrant(each.host, each.epoch, ())
            for each in held
        ]

    async def save_host_payloads(self, name: AgentId, host_payload: Mapping[LeaseId, HostPayload]) -> None:
        ledger = self._state_for_active(name)
        for held, payload in host_payload.items():
            if ledger.holds(name, held):
                ledger.store_payload(held.host, payload, self._now())

    async def release_hosts(self, name: AgentId, hosts: Sequence[coordinator.ReleasedHost]) -> None:
        ledger, now = self._state_for_active(name), self._now()
        for given in hosts:
            if ledger.holds(name, given.lease):
                ledger.give_back(given, now)

    async def return_urls(self, name: AgentId, rows: Mapping[LeaseId, Sequence[Row]]) -> None:
        ledger = self._state_for_active(name)
        for held, host_rows in rows.items():
            if ledger.owes_urls(name, held):
                ledger.return_urls(held.epoch, host_rows, self._now())

    async def reconcile_leases(self, name: AgentId, known: Mapping[LeaseId, Collection[int]]) -> list[LeaseId]:
        ledger, now = self._state_for_active(name), self._now()
        for host, record in ledger.hosts.items():
            if record.holder == name and LeaseId(host, record.epoch) not in known:
                ledger.release_host(host, now)
        for epoch, lease in list(ledger.leases.items()):
            if lease.agent_id == name:
                keys = set(known.get(LeaseId(lease.host, epoch), ()))
                ledger.return_urls(epoch, [row for row in lease.owed.items() if row[0] not in keys], now)
        return [held for held in known if not (ledger.holds(name, held) or ledger.owes_urls(name, held))]

    # -- addresses

    async def lease_addresses(
        self, name: AgentId, asks: Sequence[coordinator.AddressRequest]
    ) -> list[coordinator.AddressReply]:
        ledger, now = self._state_for_active(name), self._now()
        ledger.fence_overdue(now, but=name.agent)
        return [ledger.lease_address(name, ask, now) for ask in asks]

    async def release_addresses(self, name: AgentId, rests: Mapping[str, float]) -> None:
        ledger, now = self._state_for_active(name), self._now()
        for address, rest in rests.items():
            ledger.release_address(name, address, now + rest)

    # -- outcomes

    async def ack(self, name: AgentId, told: coordinator.AckBatch) -> list[Sequence[int]]:
        return self._state_for_active(name).ack(name, told)

    async def requeue_failed(self, name: AgentId, taken: coordinator.RetryBatch) -> int:
        return self._state_for_active(name).requeue_failed(name, taken, self._now())

    async def reserve_pages(self, name: AgentId, ask: coordinator.ReservationRequest) -> int:
        return self._state_for_active(name).reserve_pages(name, ask, self._now())

    async def acked_page_count(self) -> coordinator.PageCount:
        return self.crawl_state().acked_page_count(self._now())

    async def quarantine_damaged_values(
        self, name: AgentId, damaged: Mapping[LeaseId, Sequence[coordinator.DamagedField]]
    ) -> int:
        return self._state_for_active(name).quarantine_damaged_values(name, damaged)

    async def last_acked_batch(self, name: AgentId) -> int:
        ledger = self.crawl_state()
        if name.incarnation <= ledger.restored.get(name.agent, 0):
            return sys.maxsize
        return ledger.last_batch.get(name, 0)

    async def close(self) -> None:
        """Do nothing."""
