"""Distributor: moves URLs from the ready queue to the workbench or to host queues, as the policy decides.

It works in bounded steps. A call brings hosts online until the front is as wide as
asked, nothing is left, or its share of work is done; the next call continues. The lab replays
recorded crawls through the same code, on a front that is only counted (`fieldmouse_lab/replay.py`);
the three small interfaces exist for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from xxhash import xxh3_64_intdigest

from fieldmouse.frontier.distribution_decision_log import DecisionObserver
from fieldmouse.frontier.queues.queue_index import HostNumbers
from fieldmouse.frontier.queues.sieved_urls import ReadyItem
from fieldmouse.frontier.queues.virtualizer import HostQueues
from fieldmouse.policy.distribution.registry import DistributionPolicy, RestingHostsPolicy
from fieldmouse.types.host_state import HostState
from fieldmouse.url import Host

_MOVES = 2000  # per call: a few milliseconds
# upper bound of the average number online: a policy that never stores must not fill the memory
_URLS_A_HOST = 64


class OnlineUrlLog(Protocol):
    """Log that numbers the URLs that go online; implemented by `TicketLog`."""

    @property
    def links_by_ticket(self) -> Mapping[int, bytes]: ...

    def add_url_tickets(self, links: Iterable[bytes]) -> list[int]: ...

    def close_tickets(self, numbers: Iterable[int]) -> int: ...


class OnlineHosts(Protocol):
    """Hosts that are online; implemented by `Workbench`."""

    @property
    def url_count(self) -> int: ...

    def __len__(self) -> int: ...

    def __contains__(self, host: Host) -> bool: ...

    def add_urls(self, host: Host, state: HostState, numbers: Iterable[int]) -> None: ...

    def take_offline(self, host: Host) -> list[int]: ...


class HostStates(HostNumbers, Protocol):
    """States of hosts; implemented by `HostTable`."""

    def get(self, host: Host) -> HostState: ...

    def get_or_add(self, host: Host) -> HostState: ...


class Distributor:
    """Executor of a distribution policy, and its only source of events.

    The policy knows hosts by number and addresses by their hash: it only has to distinguish
    them, and may have to remember millions.
    """

    def __init__(
        self,
        policy: DistributionPolicy[int],
        *,
        draw: Callable[[], ReadyItem | None],
        queues: HostQueues,
        front: OnlineUrlLog,
        workbench: OnlineHosts,
        hosts: HostStates,
        batch: int,
        decision_log: DecisionObserver | None = None,
        holding: bool = False,
    ) -> None:
        """While `holding`, links stay in the queues, and every link drawn goes online."""
        self._policy = policy
        self._holding = holding
        self._draw = draw
        self._queues = queues
        self._front = front
        self._workbench = workbench
        self._hosts = hosts
        self._batch = batch
        self._decision_log = decision_log or DecisionObserver()
        self.unfinished = False  # the last refill stopped because its share of work was done
        self.draws = self.appends = 0
        self._rests = policy if isinstance(policy, RestingHostsPolicy) else None
        self._scarce = False  # hosts that rest leave their places
        self._width = self._resting = 0  # places; hosts that left theirs to rest

    def restore_after_restart(
        self, tickets: dict[Host, list[int]], is_resting: Callable[[Host], bool] = lambda host: False
    ) -> list[Host]:
        """Show the policy the state after a restart, and put `tickets` back on the workbench.

        Returns the hosts with a backlog that rest: they get no place until `rest_ended`.
        """
        for host, numbers in tickets.items():
            self.put_online_without_policy(host, numbers)
        resting = []
        if not self._holding:
            for host, count in self._queues.queued_hosts():
                self.restore_backlog(host, count)
                if is_resting(host) and self.continue_rest(host):
                    resting.append(host)
        return resting

    def restore_backlog(self, host: Host, urls: int) -> None:
        """Show the policy a queue that existed before it."""
        number = self._hosts.get_or_add_number(host)
        self._report_address_to_policy(host, number, self._hosts.get(host))
        self._decision_log.backlog_restored(host, urls)
        self._policy.added_to_queue(number, urls)

    def bring_hosts_online(self, width: int) -> int:
        """Bring hosts online until there are `width`; returns the number of URLs that came online."""
        policy, workbench = self._policy, self._workbench
        self.unfinished = False
        urls_online = 0
        limit = width * _URLS_A_HOST
        self._width = width
        self._scarce |= self._rests is not None and len(workbench) >= width
        for _ in range(_MOVES):
            if len(workbench) >= width or workbench.url_count >= limit:
                return urls_online
            number = policy.next_queue_to_read()
            if number is None:
                item = self._draw()
                if item is not None:
                    urls_online += self._place_url(item)
                    continue
                number = policy.next_queue_to_read(dry=True)
                if number is None:
                    return urls_online
            urls_online += self._bring_back_from_queue(number)
        self.unfinished = True
        return urls_online

    def _place_url(self, item: ReadyItem) -> int:
        host, link = item
        self.draws += 1
        if self._holding:
            self.put_online_without_policy(host, self._front.add_url_tickets((link,)))
            return 1
        state = self._hosts.get_or_add(host)
        number = self._hosts.get_or_add_number(host)
        if state.address:
            self._report_address_to_policy(host, number, state)
        online = self._policy.goes_online(number)
        self._decision_log.url_placed(host, online)
        if online:
            self._put_online(host, number, state, self._front.add_url_tickets((link,)))
            return 1
        self._queues.append(host, link)
        self._policy.added_to_queue(number)
        self.appends += 1
        return 0

    def _bring_back_from_queue(self, number: int) -> int:
        host = self._hosts.host_at(number)
        one = self._scarce and not self._hosts.get(host).verdict
        links = self._queues.take_links(host, 1 if one else self._batch)
        assert links, f"the policy recalled {host}, which has no backlog"
        self._decision_log.urls_read_from_queue(host, len(links))
        self._policy.read_from_queue(number, len(links))
        self._put_online(host, number, self._hosts.get(host), self._front.add_url_tickets(links))
        return len(links)

    def _report_address_to_policy(self, host: Host, number: int, state: HostState) -> None:
        """Report a host's address to the policy, before the policy decides about the host."""
        if state.address and not state.verdict:
            self._decision_log.known_address_shown_to_policy(host, state.address)
            self._policy.address_found(number, _address_key(state.address))

    def _put_online(self, host: Host, number: int, state: HostState, tickets: Sequence[int]) -> None:
        self._workbench.add_urls(host, state, tickets)
        self._policy.came_online(number, len(tickets))

    def put_online_without_policy(self, host: Host, tickets: Sequence[int]) -> None:
        """Put tickets online regardless of the policy: they were online before, or are polls."""
        state = self._hosts.get_or_add(host)
        number = self._hosts.get_or_add_number(host)
        self._report_address_to_policy(host, number, state)
        self._decision_log.urls_put_online_without_decision(host, len(tickets))
        self._put_online(host, number, state, tickets)

    def visit_ended(self, host: Host, state: HostState, urls: int, *, may_rest: bool = True) -> bool:
        """Record that a fetch worker used `urls` of a host and returned it; its address may have changed.

        True: the host leaves its place until `rest_ended`, because places are scarce.
        """
        address = "" if state.verdict else state.address
        self._decision_log.ip_address_seen(host, address)
        self._decision_log.visit_ended(host, urls)
        number = self._hosts.get_or_add_number(host)
        stays = not address or self._policy.address_found(number, _address_key(address))
        # The host that comes back had a place, even if it left the workbench with its last URL.
        places = len(self._workbench) + (host not in self._workbench)
        self._scarce &= places + self._resting >= self._width
        rests = self._scarce and may_rest and address != "" and not self._holding
        if rests and self._rests is not None:
            self._resting += 1
            self._rests.rest_started(number)
        if urls:
            self._policy.left_online(number, urls)
        if (rests or not stays) and host in self._workbench and not self._holding:
            self._take_offline(host, number)
        return rests

    def continue_rest(self, host: Host) -> bool:
        """Continue a rest that began before a restart; False if hosts rest in their places under this policy."""
        if self._rests is not None:
            self._decision_log.rest_continued(host)
            self._resting += 1
            self._rests.rest_started(self._hosts.get_or_add_number(host))
        return self._rests is not None

    def rest_ended(self, host: Host) -> None:
        """Let a host that left its place while it rested have one again."""
        self._decision_log.rest_ended(host)
        if self._rests is not None:
            self._resting -= 1
            self._rests.rest_ended(self._hosts.get_or_add_number(host))

    def _take_offline(self, host: Host, number: int) -> None:
        """Take a host of a crowded address offline; its URLs go to its queue."""
        tickets = self._workbench.take_offline(host)
        self._decision_log.host_taken_offline(host, len(tickets))
        for ticket in tickets:
            self._queues.append(host, self._front.links_by_ticket[ticket])
        self._front.close_tickets(tickets)
        # In this order: a host with no URLs in either place is forgotten, and its address with it.
        self._policy.added_to_queue(number, len(tickets))
        self._policy.left_online(number, len(tickets))


def _address_key(address: str) -> int:
    return xxh3_64_intdigest(address.encode())
