"""Rebuild of a crawl at a coordinator in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fieldmouse.balancer.board.contract import Charter, Heard, Luggage, Name
from fieldmouse.balancer.board.memory.board import MemoryBoard
from fieldmouse.balancer.board.memory.ledger import CALM, LONG_DELAY, USUAL_LEASE, CrawlLedger
from fieldmouse.balancer.board.memory.standing import HostRecord, KeptBooking
from fieldmouse.balancer.board.rebuilding import RestoredHost
from fieldmouse.balancer.board.refusals import awake_there, occupied, vanished
from fieldmouse.url import Host


class HiddenLedger(CrawlLedger):
    """Data of a crawl that is not visible yet."""

    def note_restored(self, name: Name, told: int) -> None:
        self.restored[name.agent] = max(name.incarnation, self.restored.get(name.agent, 0))
        self.forgave[name.agent] = max(told, self.forgave.get(name.agent, 0))

    def restore(self, name: Name, hosts: Sequence[RestoredHost], urls: bytes, *, bounded: bool) -> int:
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
        self._count(fresh)
        if fresh and urls:
            kinds = tuple(kind for host in hosts for kind in host.kinds)
            self.kept.setdefault(name.agent, []).append(KeptBooking(urls, tuple(counted), kinds))
        return len(fresh)

    def publish(self, now: float, lease: float, delay: float, age: float) -> None:
        self.founded_at = now - age
        self.longest_lease = lease
        self.longest_delay = max(self.longest_delay, min(delay, LONG_DELAY))
        self.calm_until = now + max(lease, USUAL_LEASE) + self.longest_delay + CALM
        self.epoch = max(self.epoch, int(now * 1000))
        self.begin()


class MemoryBuilder(MemoryBoard):
    """Implementation of `rebuilding.BoardBuilder`."""

    def ledger(self) -> HiddenLedger:
        ledger = self._server.hidden.get(self._crawl)
        if not isinstance(ledger, HiddenLedger):
            raise vanished(self._crawl)
        ledger.served_by(self._server.run, self._now())
        return ledger

    async def clear(self, key_seed: int, since: Sequence[Heard]) -> bool:
        crawl = self._server.crawls.get(self._crawl)
        if crawl is None or crawl.charter.key_seed != key_seed or all(map(crawl.recalls, since)):
            return False
        crawl.served_by(self._server.run, self._now())
        if awake := crawl.heard_of_late(self._now()):
            raise awake_there(self._crawl, awake)
        del self._server.crawls[self._crawl]
        return True

    async def hide(self, charter: Charter) -> Charter:
        crawl = self._server.crawls.get(self._crawl)
        if crawl is not None and crawl.seen:
            raise occupied(self._crawl)
        self._server.crawls.pop(self._crawl, None)
        fresh = HiddenLedger(charter, self._server.run, self._now())
        return self._server.hidden.setdefault(self._crawl, fresh).charter

    async def remove(self) -> None:
        self._server.crawls.pop(self._crawl, None)
        self._server.hidden.pop(self._crawl, None)

    async def restore(
        self, name: Name, hosts: Sequence[RestoredHost], urls: bytes = b"", *, bounded: bool = False
    ) -> int:
        return self.ledger().restore(name, hosts, urls, bounded=bounded)

    async def note_restored(self, name: Name, told: int) -> None:
        self.ledger().note_restored(name, told)

    async def settle_hosts(self, luggage: Mapping[Host, Luggage]) -> None:
        for host, payload in luggage.items():
            self.ledger().unpack(host, payload, self._now())

    async def publish(self, lease: float, delay: float, age: float = 0.0) -> None:
        if self._crawl in self._server.crawls:
            raise occupied(self._crawl)
        self.ledger().publish(self._now(), lease, delay, age)
        self._server.crawls[self._crawl] = self._server.hidden.pop(self._crawl)
