"""Rebuilder of a crawl at the coordinator in memory: the twin of the one for Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fieldmouse.cluster import error_messages
from fieldmouse.cluster.coordinator import AgentId, CrawlSpec, HeartbeatId, HostPayload, RestoredOutcomes
from fieldmouse.testing.memory_coordinator import MemoryCoordinator
from fieldmouse.testing.memory_crawl_state import DEFAULT_LEASE, EXTRA_CALM, HostRecord, KeptAckBatch, MemoryCrawl
from fieldmouse.url import Host


class HiddenMemoryCrawl(MemoryCrawl):
    """Data of a crawl that is not visible yet."""

    def mark_agent_restored(self, name: AgentId, told: int) -> None:
        self.restored[name.agent] = max(name.incarnation, self.restored.get(name.agent, 0))
        self.last_retry[name.agent] = max(told, self.last_retry.get(name.agent, 0))

    def restore_outcomes(self, name: AgentId, hosts: Sequence[RestoredOutcomes], urls: bytes, *, bounded: bool) -> int:
        counted: list[bool] = []
        fresh: list[str] = []
        for host in hosts:
            new = [kind for key, kind in zip(host.keys, host.kinds, strict=True) if key not in self.seen]
            counted += (key not in self.seen for key in host.keys)
            self.seen.update(host.keys)
            fresh += new
            if new and bounded:
                site_hosts, site_urls = self.sites.get(host.site, (0, 0))
                self.sites[host.site] = (site_hosts + (host.host not in self.hosts), site_urls + len(new))
            if new:
                self.hosts.setdefault(host.host, HostRecord())
        self.settled += len(fresh)
        self._count_kinds(fresh)
        if fresh and urls:
            kinds = tuple(kind for host in hosts for kind in host.kinds)
            self.kept_batches.setdefault(name.agent, []).append(KeptAckBatch(urls, tuple(counted), kinds))
        return len(fresh)

    def set_published(self, now: float, lease: float, delay: float, age: float) -> None:
        self.created_at = now - age
        self.longest_lease = lease
        self.record_delay(delay)
        self.calm_until = now + max(lease, DEFAULT_LEASE) + self.longest_delay + EXTRA_CALM
        self.epoch = max(self.epoch, int(now * 1000))
        self.mark_started()


class MemoryRebuilder(MemoryCoordinator):
    """Implementation of `CrawlRebuilder`."""

    def crawl_state(self) -> HiddenMemoryCrawl:
        ledger = self._server.hidden.get(self._crawl)
        if not isinstance(ledger, HiddenMemoryCrawl):
            raise error_messages.crawl_lost_error(self._crawl)
        ledger.detect_server_restart(self._server.run, self._now())
        return ledger

    async def clear_outdated_crawl(self, key_seed: int, since: Sequence[HeartbeatId]) -> bool:
        crawl = self._server.crawls.get(self._crawl)
        if crawl is None or crawl.spec.key_seed != key_seed or all(map(crawl.knows_heartbeat, since)):
            return False
        crawl.detect_server_restart(self._server.run, self._now())
        if awake := crawl.recently_active_agents(self._now()):
            raise error_messages.agents_active_error(self._crawl, awake)
        del self._server.crawls[self._crawl]
        return True

    async def begin_hidden(self, charter: CrawlSpec) -> CrawlSpec:
        crawl = self._server.crawls.get(self._crawl)
        if crawl is not None and crawl.seen:
            raise error_messages.crawl_not_empty_error(self._crawl)
        self._server.crawls.pop(self._crawl, None)
        fresh = HiddenMemoryCrawl(charter, self._server.run, self._now())
        return self._server.hidden.setdefault(self._crawl, fresh).spec

    async def remove_crawl(self) -> None:
        self._server.crawls.pop(self._crawl, None)
        self._server.hidden.pop(self._crawl, None)

    async def restore_outcomes(
        self, name: AgentId, hosts: Sequence[RestoredOutcomes], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        return self.crawl_state().restore_outcomes(name, hosts, urls, bounded=bounded)

    async def mark_agent_restored(self, name: AgentId, told: int) -> None:
        self.crawl_state().mark_agent_restored(name, told)

    async def restore_host_payloads(self, host_payload: Mapping[Host, HostPayload]) -> None:
        for host, payload in host_payload.items():
            self.crawl_state().store_payload(host, payload, self._now())

    async def publish_crawl(self, lease: float, delay: float, age: float = 0.0) -> None:
        if self._crawl in self._server.crawls:
            raise error_messages.crawl_not_empty_error(self._crawl)
        self.crawl_state().set_published(self._now(), lease, delay, age)
        self._server.crawls[self._crawl] = self._server.hidden.pop(self._crawl)
