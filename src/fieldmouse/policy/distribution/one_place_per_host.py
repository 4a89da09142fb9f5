"""Index policy: every online place for a different host.

Hosts with a backlog and nothing online come first. Only if there is none, the source is drawn: a host
absent online goes online, a host present joins its queue, and the next URL is drawn. This fills every
place with a different host for every host-size law tried, also when the source changes, and needs the
fewest draws any policy can (see `HostCounts` for the list).

A thousand hosts behind one address act like one large host, since politeness applies to the address too;
so an address has few places, and its other hosts wait.

A visited host rests, and would hold its place meanwhile. When places are scarce it leaves, and comes back
when it may be visited again: places are only for hosts that are ready. Absent hosts that rest do not keep
the policy from drawing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from fieldmouse.policy.distribution.host_counts import FifoHostSet, HostCounts, HostMap

H = TypeVar("H", bound=Hashable)


class OnePlacePerHostPolicy(HostCounts[H]):
    """Absent hosts first, then draws, with four limits.

    A present host takes drawn URLs online until it has `depth` URLs there: one in the game, where a place
    is a ball; a host visit in a crawl, where a place is a host. `per_address` hosts of one address may be
    online. `draws` may be spent per ball that goes online, saved up to `burst`; after that a present
    host's URL goes online, so that no source can keep the policy drawing. A host's queue holds at most
    `backlog_limit` URLs, and at most `index_limit` hosts have a queue (0: no limit); the excess goes
    online, since nothing is discarded.
    """

    def __init__(
        self,
        per_address: int = 4,
        depth: int = 1,
        draws: float = 256.0,
        burst: float = 65536.0,
        backlog_limit: int = 0,
        index_limit: int = 0,
    ) -> None:
        super().__init__()
        assert per_address >= 1, "an address needs at least one place"
        self._per_address = per_address
        self.depth = depth
        self.draws, self.burst, self._tokens = draws, burst, burst
        self.backlog_limit = backlog_limit
        self.index_limit = index_limit
        self._address: HostMap[H] = HostMap("Q")  # of hosts that are online or have a backlog
        self._crowd: dict[Hashable, int] = {}  # hosts online at an address
        self._held: dict[Hashable, FifoHostSet[H]] = {}  # absent, but their address has no place
        self._resting: set[H] = set()  # they left their places

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        while self.absent:
            host = next(iter(self.absent))
            address = self._address.get(host)
            if address is None or self._crowd.get(address, 0) < self._per_address:
                return host
            self.absent.discard(host)
            held = self._held.get(address)
            if held is None:
                held = self._held[address] = FifoHostSet(self._nodes)
            held.append(host)
        return None

    def goes_online(self, host: H) -> bool:
        self._tokens -= 1.0
        waiting = self.backlog.get(host, 0)
        present = self.online.get(host, 0)
        if host in self._resting:
            return self._tokens < 0.0 or self._is_backlog_full(waiting)
        if present:
            if not waiting and present < self.depth:
                return True
            return self._tokens < 0.0 or self._is_backlog_full(waiting)
        if waiting:  # older ones come first: it stays a queue
            return False
        address = self._address.get(host)
        return address is None or self._crowd.get(address, 0) < self._per_address

    def _is_backlog_full(self, waiting: int) -> bool:
        """Whether a host with `waiting` stored URLs may store no further one."""
        if waiting:
            return bool(self.backlog_limit) and waiting >= self.backlog_limit
        return bool(self.index_limit) and len(self.backlog) >= self.index_limit

    def came_online(self, host: H, balls: int = 1) -> None:
        self._tokens = min(self.burst, max(0.0, self._tokens) + self.draws)
        held = self.online.get(host, 0)
        self.online[host] = held + balls
        if not held:
            self.absent.discard(host)
            address = self._address.get(host)
            if address is not None:
                self._crowd[address] = self._crowd.get(address, 0) + 1
                self._remove_from_held(host, address)

    def left_online(self, host: H, balls: int = 1) -> None:
        super().left_online(host, balls)
        if host in self._resting:
            self.absent.discard(host)
        if host not in self.online and (address := self._address.get(host)) is not None:
            self._free_place(address)
            if host not in self.backlog:
                del self._address[host]

    def added_to_queue(self, host: H, balls: int = 1) -> None:
        address = self._address.get(host)
        if host in self._resting or (address is not None and host in self._held.get(address, ())):
            self.backlog[host] = self.backlog.get(host, 0) + balls
        else:
            super().added_to_queue(host, balls)

    def read_from_queue(self, host: H, balls: int = 1) -> None:
        super().read_from_queue(host, balls)
        if host not in self.backlog and (address := self._address.get(host)) is not None:
            self._remove_from_held(host, address)

    def address_found(self, host: H, address: Hashable) -> bool:
        before = self._address.get(host)
        if before == address:
            return True
        self._address[host] = address
        present = host in self.online
        if before is not None:
            if self._remove_from_held(host, before) and not present:
                self.absent.append(host)
            if present:
                self._free_place(before)
        if not present:
            return True
        crowd = self._crowd[address] = self._crowd.get(address, 0) + 1
        return crowd <= self._per_address

    def rest_started(self, host: H) -> None:
        self._resting.add(host)
        self.absent.discard(host)

    def rest_ended(self, host: H) -> None:
        self._resting.discard(host)
        if host in self.backlog and host not in self.online:
            self.absent.append(host)

    def _free_place(self, address: Hashable) -> None:
        """Free one place at `address` and release the host that was held there longest."""
        crowd = self._crowd[address] - 1
        if crowd:
            self._crowd[address] = crowd
        else:
            del self._crowd[address]
        held = self._held.get(address)
        if held and crowd < self._per_address:
            host = next(iter(held))
            held.discard(host)
            self.absent.append(host)
            if not held:
                del self._held[address]

    def _remove_from_held(self, host: H, address: Hashable) -> bool:
        held = self._held.get(address)
        if held is None or not held.discard(host):
            return False
        if not held:
            del self._held[address]
        return True
