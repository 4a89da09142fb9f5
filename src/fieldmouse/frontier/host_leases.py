"""Host leases of an agent: their epochs, the tickets of each host, and polls that wait for a lease.

A poll (re-crawl of a known page) never leaves the agent that has the page: its copy, its validators
and its row in the page table are here. Other agents only matter for the host: they must not visit it
at the same time. So the coordinator is asked for the hosts, and does not see the polls. Nothing here
outlives the process: the page table lists the polls under way, and they are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from fieldmouse.clock import Clock
from fieldmouse.frontier.workbench import DelayedRetries, TakenHost, Workbench
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import NumberedRequest, Request
from fieldmouse.url import Host


@dataclass(slots=True)
class HostLease:
    """Lease of one host. Epoch 0: the lease is lost, but a fetch worker still has the host."""

    leased_at: float
    epoch: int
    state: HostState
    remaining: int  # URLs of the host that wait at the coordinator
    online: int = 0  # tickets on the workbench or resting
    polls: int = 0  # tickets among these that are polls
    is_visited: bool = False
    more_requested: bool = False  # whether more URLs were requested

    def record_remaining_urls(self, left: int) -> None:
        """Record a reply of the coordinator, which has `left` more URLs."""
        self.remaining, self.more_requested = left, False

    def mark_more_urls_requested(self) -> None:
        """Record that more URLs were requested."""
        self.more_requested = True

    def mark_lost(self) -> None:
        """Mark the lease as lost."""
        self.epoch = self.remaining = 0


class HostLeases(dict[Host, HostLease]):
    """Leases by host, with their tickets on the workbench or resting; `polls` are the numbers of polls."""

    def __init__(self, workbench: Workbench, polls: Container[int], clock: Clock) -> None:
        super().__init__()
        self._workbench, self._polls, self._clock = workbench, polls, clock
        self._resting = DelayedRetries()

    def hosts_without_worker(self) -> list[Host]:
        """Hosts that no fetch worker has."""
        return [host for host, host_lease in self.items() if not host_lease.is_visited]

    def add_lease(self, host: Host, epoch: int, state: HostState) -> HostLease:
        host_lease = self[host] = HostLease(self._clock.now(), epoch, state, 0)
        return host_lease

    def queue_tickets(self, host: Host, tickets: Sequence[tuple[int, Request]]) -> None:
        """Put tickets online, or let them rest until their time."""
        host_lease, now, ready = self[host], self._clock.now(), []
        for number, link in tickets:
            host_lease.online += 1
            host_lease.polls += number in self._polls
            if link.not_before > now:
                self._resting.add_ticket(link.not_before, number, host)
            else:
                ready.append(number)
        if ready:
            self._workbench.add_urls(host, host_lease.state, ready)

    def take_ready_host(self, now: float, most: int, most_without_asking: int) -> TakenHost | None:
        """Take a host that may be visited now, for a fetch worker."""
        lease = self._workbench.take_ready_host(now, most, most_without_asking)
        if lease is not None:
            host_lease = self[lease.host]
            host_lease.is_visited = True
            host_lease.online -= len(lease.numbers)
            host_lease.polls -= sum(number in self._polls for number in lease.numbers)
        return lease

    def requeue_rested_urls(self, now: float) -> None:
        """Put tickets whose rest is over back online."""
        for host, number in self._resting.pop_rested(now):
            self._workbench.add_urls(host, self[host].state, (number,))

    def end_visit(self, host: Host, state: HostState, unused: Sequence[NumberedRequest]) -> HostLease:
        """Return a host after a visit."""
        host_lease = self[host]
        host_lease.is_visited, host_lease.state = False, state
        host_lease.online += len(unused)
        host_lease.polls += sum(ticket.number in self._polls for ticket in unused)
        self._workbench.return_host(host, state, [ticket.number for ticket in unused])
        return host_lease

    def remove_host(self, host: Host) -> list[int]:
        """Remove a host that no fetch worker has; returns its tickets."""
        numbers = [] if host not in self._workbench else self._workbench.take_offline(host)
        del self[host]
        return numbers + self._resting.remove_host(host)

    def ready_at(self) -> float | None:
        times = [at for at in (self._workbench.ready_at(), self._resting.ready_at()) if at is not None]
        return min(times, default=None)


#: Seconds after which a request for a host is repeated: the coordinator may have lost it, or we were fenced.
REPEAT_AFTER = 30.0


class UnfinishedPolls:
    """Polls by host until the host is leased, then by ticket number."""

    def __init__(self, wish: Callable[[Sequence[Host]], None], clock: Clock):
        self._wish, self._clock = wish, clock
        self._waiting: dict[Host, list[Request]] = {}
        self._tickets: dict[int, Request] = {}
        self._queued = 0
        self._remind_at = 0.0

    def __len__(self) -> int:
        """Number of polls whose outcome is not durable."""
        return self._queued + len(self._tickets)

    def __contains__(self, number: object) -> bool:
        """Whether a ticket is a poll."""
        return number in self._tickets

    def wait_for_lease(self, host: Host, links: Iterable[Request], *, wished: bool = True) -> None:
        """Keep polls until we hold the host; with `wished`, request the host."""
        links_waiting = self._waiting.setdefault(host, [])
        before = len(links_waiting)
        links_waiting.extend(links)
        self._queued += len(links_waiting) - before
        if not links_waiting:
            del self._waiting[host]
        elif wished and not before:
            self._wish([host])

    def take_polls_of(self, host: Host) -> list[Request]:
        """Remove and return the polls that were waiting for a host that we now hold."""
        links = self._waiting.pop(host, [])
        self._queued -= len(links)
        return links

    def repeat_host_requests(self, now: float) -> None:
        """Repeat the requests for hosts, if it is time."""
        if now >= self._remind_at:
            self._remind_at = now + REPEAT_AFTER
            if self._waiting:
                self._wish(list(self._waiting))

    def add_ticket(self, number: int, link: Request) -> int:
        """Give a poll a ticket; returns its number."""
        self._tickets[number] = link
        return number

    def request_of(self, number: int) -> Request | None:
        return self._tickets.get(number)

    def close_ticket(self, number: int) -> Request | None:
        """Close the ticket; None if it was no poll."""
        return self._tickets.pop(number, None)
