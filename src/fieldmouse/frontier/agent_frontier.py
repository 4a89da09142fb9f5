"""Frontier with leased hosts: the coordinator keeps the queues, this agent only the URLs it works on.

Only the keys of settled URLs outlive the process, in the sieve that every crawl has. The
coordinator knows all waiting URLs, and gives ours to others if this agent dies. A host comes with some
URLs (`grant`), is listed on the workbench like any other, and leaves when it has no URLs left, rests
for long, or another agent is nearer.

Invariant: a ticket is online, resting, with a fetch worker, or fetched and not settled. Until it is
settled we owe the coordinator an outcome for it, under the epoch of its host's lease. No outcome is
owed for polls: they only need the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from fieldmouse.clock import Clock
from fieldmouse.frontier.durable_parts import FrontierParts, FrontierState
from fieldmouse.frontier.host_leases import HostLeases, UnfinishedPolls
from fieldmouse.frontier.protocol import CoordinatorCalls, CrawlFrontier, SettledUrl
from fieldmouse.frontier.workbench import Workbench, polls_by_host
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.policy.retry import clear_host_failure
from fieldmouse.storage.checkpoint import SealedPart
from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import HostVisit, NumberedRequest, Request
from fieldmouse.url import Host, host_of, key_of


class OwedTicket(NamedTuple):
    """A URL, and the lease under which its outcome is owed."""

    link: Request
    host: Host
    epoch: int
    key: int


class OwedTickets:
    """Tickets without duplicates: a URL granted again while in flight keeps its ticket."""

    def __init__(self) -> None:
        self._by_number: dict[int, OwedTicket] = {}
        self._numbers: dict[int, int] = {}
        self._last = 0

    def __iter__(self) -> Iterator[OwedTicket]:
        return iter(self._by_number.values())

    def next_number(self) -> int:
        """Return an unused number."""
        self._last += 1
        return self._last

    def add_leased_url(self, link: Request, host: Host, epoch: int, key: int) -> int:
        """Add a ticket; returns its number."""
        number = self._numbers[key] = self.next_number()
        self._by_number[number] = OwedTicket(link, host, epoch, key)
        return number

    def renew_if_owed(self, key: int, epoch: int) -> bool:
        """Whether that URL is owed already; if so, it now counts under this epoch."""
        number = self._numbers.get(key)
        if number is not None:
            self._by_number[number] = self._by_number[number]._replace(epoch=epoch)
        return number is not None

    def request_of(self, number: int) -> Request:
        return self._by_number[number].link

    def remove(self, number: int) -> OwedTicket | None:
        """Remove a ticket; None if it was not owed."""
        owed = self._by_number.pop(number, None)
        if owed is not None:
            del self._numbers[owed.key]
        return owed


#: Seconds of rest above which a host goes back to the coordinator.
LONG_REST = 20.0
_URLS_WITHOUT_REQUEST = 256


class AgentFrontier(CrawlFrontier):
    """Frontier of one agent of a cluster. Single-threaded and synchronous."""

    def __init__(
        self,
        parts: FrontierParts,
        *,
        lease_source: CoordinatorCalls,
        clock: Clock,
        rule: FrontSizeRule,
        key_seed: int,
        errand_links: int,
        state: FrontierState | None,
        forgiven: Collection[int] = (),
        share: float = 0.5,
        turn: Callable[[], float] = lambda: math.inf,
        rests: Callable[[], bool] = lambda: False,
    ):
        """`parts` hold only the keys of URLs settled here; those in `forgiven` were taken back to retry them.

        `share` of a host's visits are polls while new URLs of it wait, too. After `turn()` seconds a host
        goes back in any case: others may have known pages of it. While `rests()` is true the agent has no
        network, and wants at most one host, to test whether it is back.
        """
        self._lease_source, self._turn, self._rests = lease_source, turn, rests
        self._polls = UnfinishedPolls(lease_source.request_hosts_for_polls, clock)
        workbench = Workbench(polls=self._polls, share=share)
        super().__init__(
            parts, workbench, clock=clock, rule=rule, key_seed=key_seed, errand_links=errand_links, state=state
        )
        self._leased_hosts = HostLeases(workbench, self._polls, clock)
        self._owed = OwedTickets()
        self._granted = 0  # leases granted so far
        self._finished, self._closing = list[SettledUrl](), False
        # No key leaves the sieve; keys of retried URLs are kept beside it until settled again.
        self._sieve, self._forgiven = parts.sieve, set(forgiven)

    # -- leases

    @property
    def hosts_wanted(self) -> int:
        """Number of further hosts that this agent could use."""
        width = 1 if self._rests() else self._width
        return 0 if self._closing else max(0, width - len(self._leased_hosts))

    def add_leased_host(self, host: Host, epoch: int, links: Sequence[Request], state: HostState, left: int) -> None:
        """Add a host leased to us alone, with some of its URLs; or more URLs of a host that we have."""
        host_lease = self._leased_hosts.get(host)
        if host_lease is not None and host_lease.epoch != epoch:
            assert not host_lease.is_visited, f"{host} was granted twice"
            self._remove_host(host)
            host_lease = None
        polls = self._polls.take_polls_of(host)
        if host_lease is None:
            state = clear_host_failure(state, [*links, *polls], self._clock.now())
            host_lease = self._leased_hosts.add_lease(host, epoch, state)
            self._granted += 1
        host_lease.record_remaining_urls(left)
        # A URL in flight was requested under a lease that was lost: its outcome also serves this lease.
        keys = [(link, key_of(link.url, self._key_seed)) for link in links]
        fresh = [(link, key) for link, key in keys if not self._owed.renew_if_owed(key, epoch)]
        self._leased_hosts.queue_tickets(
            host, [(self._owed.add_leased_url(link, host, epoch, key), link) for link, key in fresh]
        )
        self._put_polls_online(host, polls)
        if not host_lease.is_visited and not host_lease.online:
            self._return_host(host)

    def _put_polls_online(self, host: Host, links: Sequence[Request]) -> None:
        numbers = [self._polls.add_ticket(self._owed.next_number(), link) for link in links]
        self._leased_hosts.queue_tickets(host, list(zip(numbers, links, strict=True)))

    def enqueue_polls(self, links: Sequence[Request]) -> None:
        """Fetch known pages of this agent again, as soon as it holds their hosts."""
        for host, line in polls_by_host(links).items():
            self._enqueue_polls_of_host(host, line)

    def discard_waiting_polls(self) -> None:
        """Nothing to forget: polls do not outlive the process."""

    def addresses(self) -> Iterator[tuple[Host, str]]:
        """Address of each leased host; those of other hosts are not known here."""
        return ((host, lease.state.address) for host, lease in self._leased_hosts.items())

    def _enqueue_polls_of_host(self, host: Host, polls: Sequence[Request]) -> None:
        host_lease = self._leased_hosts.get(host)
        if host_lease is None or not host_lease.epoch or self._closing:
            self._polls.wait_for_lease(host, polls, wished=not self._closing)
        else:
            self._put_polls_online(host, polls)

    def split_links_by_settled(self, links: Sequence[Request]) -> tuple[list[Request], list[Request]]:
        """Split links into those with an outcome here, which the coordinator lost or never counted, and the
        others.

        Links of URLs that are to be retried are marked: a rebuilt coordinator may not know it.
        """
        keys = [key_of(link.url, self._key_seed) for link in links]
        done_here, new = list[Request](), list[Request]()
        for link, key, is_settled in zip(links, keys, self._sieve.contains_each(keys), strict=True):
            if key in self._forgiven:
                new.append(msgspec.structs.replace(link, forgiven=True))
            else:
                (done_here if is_settled else new).append(link)
        return done_here, new

    def mark_unsettled(self, keys: Sequence[int]) -> None:
        """Mark these as no longer settled."""
        self._forgiven.update(keys)

    def drop_all_leases(self) -> None:
        """Drop all leases: other agents have the hosts, even those that fetch workers are visiting."""
        for host, host_lease in list(self._leased_hosts.items()):
            self.drop_lease(host, host_lease.epoch)

    def drop_lease(self, host: Host, epoch: int) -> None:
        """Drop one lease."""
        host_lease = self._leased_hosts.get(host)
        if host_lease is not None and host_lease.epoch == epoch:
            host_lease.mark_lost()
            if not host_lease.is_visited:  # otherwise a fetch worker has it, and it is dropped on return
                self._return_host(host)

    def _remove_host(self, host: Host) -> list[Request]:
        """Take a host off the workbench; returns its URLs that were not visited. Its polls wait for the next
        lease."""
        numbers = self._leased_hosts.remove_host(host)
        polls = [self._polls.close_ticket(number) for number in numbers if number in self._polls]
        self._polls.wait_for_lease(host, [link for link in polls if link is not None], wished=not self._closing)
        struck = map(self._owed.remove, numbers)
        return [owed.link for owed in struck if owed is not None]

    def _return_host(self, host: Host, *, idle: bool = False) -> None:
        host_lease = self._leased_hosts[host]
        unused = self._remove_host(host)
        if host_lease.epoch:
            self._lease_source.return_host(host, host_lease.epoch, host_lease.state, unused, idle=idle)
        else:
            self._lease_source.forget_lost_host(host)

    def return_all_hosts(self) -> None:
        """Stop leasing, and return all hosts that no fetch worker has."""
        self._closing = True
        for host in self._leased_hosts.hosts_without_worker():
            self._return_host(host)

    def hand_over_unvisited_hosts(self) -> None:
        """Return the hosts that no fetch worker has, except one to test: others may reach them."""
        for host in [host for host in self._leased_hosts.hosts_without_worker() if not self._leased_hosts[host].polls][
            1:
        ]:
            self._return_host(host)

    @property
    def lease_count(self) -> int:
        return len(self._leased_hosts)

    def owed_keys_by_lease(self) -> dict[tuple[Host, int], set[int]]:
        """Keys of all URLs that we owe an outcome, by lease; leases that owe none are included."""
        keys = {
            (host, host_lease.epoch): set[int]() for host, host_lease in self._leased_hosts.items() if host_lease.epoch
        }
        for owed in self._owed:
            keys.setdefault((owed.host, owed.epoch), set()).add(owed.key)
        for url in self._finished:
            keys.setdefault((url.host, url.epoch), set()).add(url.key)
        return keys

    def states_by_lease(self) -> dict[tuple[Host, int], HostState]:
        return {(host, its.epoch): its.state for host, its in self._leased_hosts.items() if its.epoch}

    def epoch_of(self, host: Host) -> int:
        return host_lease.epoch if (host_lease := self._leased_hosts.get(host)) is not None else 0

    # -- host visits

    def _offer_with_keys(self, links: Sequence[Request], keys: list[int]) -> None:
        """Report links found on the web; the coordinator decides which are new."""
        self._lease_source.report_links(links, keys)

    def take_visit(self, now: float, *, only_polls: bool = False) -> HostVisit | None:
        self._leased_hosts.requeue_rested_urls(now)
        self._polls.repeat_host_requests(now)
        if only_polls or not self._lease_source.are_leases_valid:
            return None
        lease = self._leased_hosts.take_ready_host(now, self._errand_links, _URLS_WITHOUT_REQUEST)
        if lease is None:
            if len(self._leased_hosts) >= self._width:
                self._width = self._rule.grown_size(self._width)
            return None
        self._count_visit_and_shrink_front(now)
        tickets = tuple(
            NumberedRequest(number, self._polls.request_of(number) or self._owed.request_of(number))
            for number in lease.numbers
        )
        return HostVisit(lease.host, lease.address, tickets, self._leased_hosts[lease.host].state)

    def ready_at(self) -> float | None:
        return self._leased_hosts.ready_at() if self._lease_source.are_leases_valid else None

    def end_visit(self, visit: HostVisit, state: HostState, unused: Sequence[NumberedRequest] = ()) -> None:
        host = visit.host
        host_lease = self._leased_hosts.end_visit(host, state, unused)
        visits = len(visit.tickets) - len(unused)
        # No other agent can make our polls: the host stays until they are done, then goes to a nearer agent.
        stays = self._lease_source.should_make_next_visit(host, state, visits) or host_lease.polls > 0
        over = self._clock.now() >= host_lease.leased_at + self._turn()
        if self._closing or not host_lease.epoch or not stays or over:
            self._return_host(host)
        elif not host_lease.online and host_lease.remaining:
            if not host_lease.more_requested:
                host_lease.mark_more_urls_requested()
                self._lease_source.request_more_urls(host, host_lease.epoch)
        elif not host_lease.online or state.ready_at > self._clock.now() + LONG_REST:
            self._return_host(host, idle=True)

    def mark_durably_done(self, kinds: Mapping[int, OutcomeKind]) -> None:
        for number, kind in kinds.items():
            if self._polls.close_ticket(number) is not None:
                continue
            owed = self._owed.remove(number)
            if owed is not None:
                self._finished.append(SettledUrl(owed.host, owed.epoch, owed.key, owed.link.url, kind.value))

    def retry_ticket(self, number: int, link: Request) -> None:
        if self._polls.close_ticket(number) is not None:
            self._enqueue_polls_of_host(host_of(link.url), [link])
            return
        owed = self._owed.remove(number)
        if owed is None:
            return
        host, host_lease = owed.host, self._leased_hosts.get(owed.host)
        if host_lease is None or host_lease.epoch != owed.epoch or self._closing:
            self._lease_source.return_url_for_retry(host, owed.epoch, link)
            return
        self._leased_hosts.queue_tickets(host, [(self._owed.add_leased_url(link, host, owed.epoch, owed.key), link)])

    # -- checkpoints

    def seal(self) -> SealedPart[FrontierState]:
        settled, self._finished = self._finished, []
        if settled:
            keys = [url.key for url in settled]
            self._sieve.add_known(np.array(keys, np.uint64))
            self._forgiven.difference_update(keys)
            self._lease_source.report_settled(settled)
        return self._parts.seal(self._clock.now(), done=self.settled_count, width=self._width, seen=self.settled_count)

    # -- counts

    @property
    def seen_count(self) -> int:
        """URLs settled here, plus URLs waiting in the whole crawl."""
        return self.settled_count + self.waiting_count

    @property
    def settled_count(self) -> int:
        return self._sieve.seen - len(self._forgiven)

    @property
    def waiting_count(self) -> int:
        return self._lease_source.waiting_urls_in_crawl

    @property
    def waiting_polls(self) -> int:
        return len(self._polls)

    @property
    def total_hosts(self) -> int:
        """Leases granted; a host that came twice counts twice."""
        return self._granted

    @property
    def dropped_links_by_setting(self) -> dict[str, int]:
        return self._lease_source.dropped_links_by_setting

    @property
    def online_host_count(self) -> int:
        return len(self._leased_hosts)
