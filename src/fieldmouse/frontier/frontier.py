"""Frontier of a crawl on one machine: links go in, host visits come out, no URL is lost.

Single-threaded and synchronous. All its state is on disk as append-only logs, and
`seal` notes their lengths at one moment (the protocol is in `storage/checkpoint.py`). After a
kill everything is cut back to the last committed note, so a URL is in exactly one place:
ready, in its host's queue, or online.

A URL gets a ticket number when it goes online, and the ticket is closed when its outcome is durable. The
front log (`state.py`) holds the open tickets, so that a kill loses none.

In a refresh, URLs that were waiting before it can be held back. They are distinguished from new
links by the time at which they were seen; a time in the future was noted while the clock was
ahead, so that URL was waiting, too. Held URLs are moved to their host's queue, and nothing is
taken from queues in that run. Nothing of this is stored: a later run finds all URLs in place.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.frontier.distribution_decision_log import DecisionObserver
from fieldmouse.frontier.distributor import Distributor
from fieldmouse.frontier.durable_parts import FrontierState, open_frontier_parts
from fieldmouse.frontier.hosts.host_table import clock_setback
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.frontier.workbench import DelayedRetries, Workbench, polls_by_host
from fieldmouse.policy.distribution.registry import DistributionPolicy
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.policy.retry import clear_host_failure
from fieldmouse.policy.scope import SiteLimits
from fieldmouse.storage.checkpoint import SealedPart
from fieldmouse.types.host_state import HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import FrontierEntry, HostVisit, NumberedRequest, Request
from fieldmouse.types.stats import RestingHost
from fieldmouse.url import Host, host_of

_SIFT_AT = 2048  # offers
_URLS_WITHOUT_REQUEST = 256  # URLs of a host visit that makes no request
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Request).decode


class Frontier(CrawlFrontier):
    """Polite scheduler of the URLs of a crawl on one machine."""

    def __init__(
        self,
        directory: Path,
        *,
        key_seed: int,
        clock: Clock,
        policy: DistributionPolicy[int],
        front: FrontSizeRule | None = None,
        errand_links: int = 16,
        state: FrontierState | None = None,
        resumed_delay: Callable[[HostState], float],
        run_size: int = 1 << 21,
        decision_log: DecisionObserver | None = None,
        limits: SiteLimits | None = None,
        share: float = 0.5,
        hold_before: float = 0.0,
    ):
        """Open the frontier in a directory at `state`. Opening changes nothing on disk; `roll_back_to_checkpoint` does.

        `resumed_delay` is the ordinary delay of a host; after a restart each gets it in full.
        `share` of a host's visits are polls while new URLs of it wait, too. URLs that were
        discovered before `hold_before` (epoch seconds) stay in place; 0: none.
        """
        now, polls = clock.now(), set[int]()
        parts = open_frontier_parts(
            directory, state, limits, key_seed=key_seed, now=now, resumed_delay=resumed_delay, run_size=run_size
        )
        quiet_until = parts.hosts.restart_all_delays(now) if parts.hosts.resumed else 0.0
        workbench = Workbench(quiet_until, polls=polls, share=share)
        rule = front or FrontSizeRule()
        super().__init__(
            parts, workbench, clock=clock, rule=rule, key_seed=key_seed, errand_links=errand_links, state=state
        )
        self._sieve, self._ready, self._hosts = parts.sieve, parts.ready, parts.hosts
        self._decision_log = DecisionObserver() if decision_log is None or hold_before else decision_log
        self._hold_before, self._opened_at = hold_before, now
        self._distributor = Distributor(
            policy,
            draw=parts.ready.pop,
            queues=parts.queues,
            front=parts.front,
            workbench=workbench,
            hosts=parts.hosts,
            batch=2 * errand_links,
            decision_log=self._decision_log,
            holding=hold_before > 0,
        )
        # seconds by which the clock was set back since the checkpoint
        self._set_back = clock_setback(state.hosts.at, now) if state else 0.0
        self._restored = [(number, _decode(row)) for number, row in parts.front.links_by_ticket.items()]
        self._poll_numbers, self._polls = polls, state.polls if state else 0  # polls in any place
        polls.update([number for number, link in self._restored if link.door is FrontierEntry.POLLED])
        self._resting = DelayedRetries()
        self._resting_hosts = DelayedRetries()  # that left their places until then
        self._resumed_delay = resumed_delay
        self._held: dict[Host, list[int]] = {}  # online at the time of opening, and left alone
        self._set_aside: dict[Host, list[int]] = {}  # off the workbench while only polls are wanted
        self._out = 0  # URLs held by fetch workers
        self._done = state.done if state else 0
        self._only_polls = self._discards_polls = False

    def discard_waiting_polls(self) -> None:
        self._discards_polls, self._polls = True, 0

    def addresses(self) -> Iterator[tuple[Host, str]]:
        return ((host, state.address) for host, state in self._hosts)

    def roll_back_to_checkpoint(self) -> None:
        super().roll_back_to_checkpoint()
        if self._discards_polls:
            self._close_poll_tickets()
        if self._hold_before:
            self._defer_waiting_urls_until_after_refresh()
        now = self._clock.now()
        self._decision_log.run_started(now, unlisted=len(self._ready), batch=2 * self._errand_links)
        self._restore_tickets(now)

    def _is_url_held(self, link: Request) -> bool:
        """Whether a URL that was waiting when the frontier was opened is left alone."""
        return link.door is not FrontierEntry.POLLED and not self._hold_before <= link.seen_at <= self._opened_at

    def _defer_waiting_urls_until_after_refresh(self) -> None:
        """Move held URLs of the ready queue to their host's queue; the others keep their order."""
        for _ in range(len(self._ready)):
            item = self._ready.pop()
            assert item is not None
            host, row = item
            if self._is_url_held(_decode(row)):
                self._parts.queues.append(host, row)
            else:
                self._ready.push((item,))

    def _close_poll_tickets(self) -> None:
        self._parts.front.close_tickets(self._poll_numbers)
        self._restored = [(number, link) for number, link in self._restored if number not in self._poll_numbers]
        self._poll_numbers.clear()

    def _restore_tickets(self, now: float) -> None:
        """Put tickets that were open before a restart back into place."""
        online: dict[Host, list[int]] = {}
        for number, link in self._restored:
            if self._set_back and link.not_before > now:
                link = msgspec.structs.replace(link, not_before=link.not_before - self._set_back)
                self._parts.front.close_tickets((number,))
                number = self._add_url_ticket(link)
            host = host_of(link.url)
            if self._hold_before and self._is_url_held(link):
                self._held.setdefault(host, []).append(number)
            elif (until := max(link.not_before, self._end_of_long_rest(host, now))) > now:
                self._resting.add_ticket(until, number, host)
            else:
                online.setdefault(host, []).append(number)
        self._restored.clear()
        for host in self._distributor.restore_after_restart(online, lambda host: self._end_of_long_rest(host, now) > 0):
            self._resting_hosts.add_ticket(self._end_of_long_rest(host, now), 0, host)

    def _end_of_long_rest(self, host: Host, now: float) -> float:
        """End of a rest that is longer than the ordinary delay after a restart; 0.0 without one."""
        state = self._hosts.get(host)
        is_long = not state.verdict and state.ready_at > now + self._resumed_delay(state)
        return state.ready_at if is_long else 0.0

    def _add_url_ticket(self, link: Request) -> int:
        (number,) = self._parts.front.add_url_tickets((_encode(link),))
        if link.door is FrontierEntry.POLLED:
            self._poll_numbers.add(number)
        return number

    def _offer_with_keys(self, links: Sequence[Request], keys: list[int]) -> None:
        self._sieve.offer(keys, links)
        if self._sieve.pending_offers >= _SIFT_AT:
            self._sift()

    def enqueue_polls(self, links: Sequence[Request]) -> None:
        """They go online at once, regardless of the policy."""
        for host, polls in polls_by_host(links).items():
            numbers = self._parts.front.add_url_tickets(map(_encode, polls))
            self._poll_numbers.update(numbers)
            if host not in self._workbench:
                state, now = self._hosts.get_or_add(host), self._clock.now()
                cleared = clear_host_failure(state, polls, now)
                if cleared is not state:
                    self._hosts.put(host, cleared, now)
            self._distributor.put_online_without_policy(host, numbers)
        self._polls += len(links)

    def requeue_withdrawn_outcomes(self, links: Sequence[Request]) -> None:
        """Queue links whose outcome was taken back, as if they had just been discovered."""
        self._push_sieved_urls(links)
        self._done -= len(links)

    def _push_sieved_urls(self, links: Sequence[Request]) -> None:
        items = [(host_of(link.url), _encode(link)) for link in links]
        self._ready.push(items)
        self._decision_log.urls_discovered([host for host, _ in items])

    def clear_host_verdicts(self, verdicts: Container[str]) -> list[Host]:
        """Clear these statuses of hosts, before `roll_back_to_checkpoint` brings any online; returns the hosts."""
        judged = [(host, state) for host, state in self._hosts if state.verdict in verdicts]
        for host, state in judged:
            cleared = msgspec.structs.replace(state, failures=0, put_off=0, verdict=OutcomeReason.NONE, detail="")
            self._hosts.put(host, cleared, self._clock.now())
        return [host for host, _ in judged]

    def _sift(self) -> None:
        self._push_sieved_urls(self._sieve.sift(self._parts.sites.admit_urls))

    def take_visit(self, now: float, *, only_polls: bool = False) -> HostVisit | None:
        self._decision_log.time_passed(now)
        for host, number in self._resting.pop_rested(now):
            state = self._hosts.get(host)
            if state.ready_at > now and not state.verdict and host not in self._workbench:
                self._resting.add_ticket(state.ready_at, number, host)  # places are for hosts that are ready
            else:
                self._distributor.put_online_without_policy(host, (number,))
        for host, _ in self._resting_hosts.pop_rested(now):
            self._distributor.rest_ended(host)
        if only_polls or self._only_polls:
            if self._only_polls and not only_polls:
                for host, numbers in self._set_aside.items():
                    self._workbench.add_urls(host, self._hosts.get(host), numbers)
                self._set_aside.clear()
            self._only_polls = only_polls
            if only_polls:
                return self._take_polls_only_visit(now)
        most = self._errand_links
        while (lease := self._workbench.take_ready_host(now, most, _URLS_WITHOUT_REQUEST)) is None:
            if not self._bring_more_hosts_online():
                return None
        self._out += len(lease.numbers)
        self._decision_log.visit_started(self._width, self._out)
        if len(self._workbench) < self._width and self._backlog_size():
            self._distributor.bring_hosts_online(self._width)
        self._count_visit_and_shrink_front(now)
        return HostVisit(
            lease.host, lease.address, self._requests_of_tickets(lease.numbers), self._hosts.get(lease.host)
        )

    def _take_polls_only_visit(self, now: float) -> HostVisit | None:
        """Take polls of a host that may be visited now; other tickets leave the workbench for now."""
        while (lease := self._workbench.take_ready_host(now, self._errand_links, _URLS_WITHOUT_REQUEST)) is not None:
            host, state, tickets = lease.host, self._hosts.get(lease.host), self._requests_of_tickets(lease.numbers)
            polls = tuple([ticket for ticket in tickets if ticket.frontier_entry is FrontierEntry.POLLED])
            if len(polls) < len(tickets):
                others = [ticket.number for ticket in tickets if ticket.frontier_entry is not FrontierEntry.POLLED]
                self._set_aside.setdefault(host, []).extend(others)
            if polls:
                self._out += len(polls)
                return HostVisit(host, lease.address, polls, state)
            self._workbench.return_host(host, state, ())
        return None

    def _requests_of_tickets(self, numbers: Iterable[int]) -> tuple[NumberedRequest, ...]:
        live = self._parts.front.links_by_ticket
        return tuple([NumberedRequest(number, _decode(live[number])) for number in numbers])

    def _backlog_size(self) -> int:
        """Number of URLs that could come online."""
        return len(self._ready) + (0 if self._hold_before else len(self._parts.queues))

    def _bring_more_hosts_online(self) -> bool:
        """Bring hosts online when none is ready, on a wider front if necessary. False if there are none."""
        if self._sieve.pending_offers:
            self._sift()
        if not self._backlog_size():
            return False
        width = self._width
        if len(self._workbench) >= width:
            width = self._rule.grown_size(width)
        self._decision_log.no_host_ready(width, self._out)
        brought = self._distributor.bring_hosts_online(width)
        if brought:
            self._width = width
        return brought > 0

    def ready_at(self) -> float | None:
        if not self._only_polls and (self._sieve.pending_offers or self._distributor.unfinished):
            return 0.0
        # A host without URLs rests, too, but nothing waits for the end of that.
        places = self._resting_hosts.ready_at() if self._backlog_size() else None
        times = self._workbench.ready_at(), self._resting.ready_at(), places
        return min((time for time in times if time is not None), default=None)

    def end_visit(self, visit: HostVisit, state: HostState, unused: Sequence[NumberedRequest] = ()) -> None:
        host = visit.host
        self._hosts.put(host, state, self._clock.now())
        self._workbench.return_host(host, state, [ticket.number for ticket in unused])
        self._out -= len(visit.tickets)
        used = len(visit.tickets) - len(unused)
        # A poll that waited in its host's queue would be taken for a new URL.
        if self._distributor.visit_ended(host, state, used, may_rest=not self._polls):
            self._resting_hosts.add_ticket(max(state.ready_at, state.address_ready_at), 0, host)

    def mark_durably_done(self, numbers: Iterable[int]) -> None:
        """Record durable outcomes of tickets: their URLs are not visited again, unless polled."""
        front, polls = self._parts.front, 0
        if self._polls:
            numbers = list(numbers)
            rows = map(front.links_by_ticket.get, numbers)
            polls = sum(_decode(row).door is FrontierEntry.POLLED for row in rows if row is not None)
            self._polls -= polls
            self._poll_numbers.difference_update(numbers)
        self._done += front.close_tickets(numbers) - polls

    def retry_ticket(self, number: int, link: Request) -> None:
        """A ticket that is not open is ignored."""
        if not self._parts.front.close_tickets((number,)):
            return
        self._poll_numbers.discard(number)
        host, new_number = host_of(link.url), self._add_url_ticket(link)
        if link.not_before > self._clock.now():
            self._resting.add_ticket(link.not_before, new_number, host)
        else:
            self._distributor.put_online_without_policy(host, (new_number,))

    def seal(self) -> SealedPart[FrontierState]:
        if self._sieve.pending_offers:
            self._sift()
        self._decision_log.flush()
        return self._parts.seal(
            self._clock.now(),
            done=self._done,
            width=self._width,
            seen=self.seen_count,
            waiting=self.waiting_count,
            polls=self._polls,
        )

    def close(self) -> None:
        super().close()
        self._decision_log.close()

    @property
    def seen_count(self) -> int:
        return self._sieve.seen

    @property
    def settled_count(self) -> int:
        return self._done

    @property
    def waiting_count(self) -> int:
        return self._parts.waiting_count - self._polls

    @property
    def held_for_refresh_count(self) -> int:
        return sum(map(len, self._held.values())) + len(self._parts.queues) if self._hold_before else 0

    @property
    def waiting_polls(self) -> int:
        return self._polls

    @property
    def total_hosts(self) -> int:
        return len(self._hosts)

    @property
    def dropped_links_by_setting(self) -> dict[str, int]:
        return self._parts.sites.dropped

    def hosts_in_backoff(self, now: float) -> list[RestingHost]:
        rests = []
        off_their_places = self._resting_hosts.hosts() if self._backlog_size() else []
        for host in dict.fromkeys(self._workbench.hosts_with_urls() + off_their_places):
            state = self._hosts.get(host)
            if state.failures and not state.verdict and state.ready_at > now:
                rests.append(RestingHost(host, state.ready_at, state.failures))
        return sorted(rests, key=lambda rest: rest.until)

    def are_all_hosts_in_backoff(self, now: float, patience: float) -> bool:
        """A host that keeps its ordinary delay, however long, does not count as stalled."""
        ready_at = self.ready_at()
        if ready_at is None or ready_at <= now + patience or self._out or self._backlog_size():
            return False
        return len(self.hosts_in_backoff(now)) == len(self._workbench.hosts_with_urls())
