"""Frontier of a crawl on one machine: links go in, host visits come out, no URL is lost.

Single-threaded and synchronous. All its state is on disk as append-only logs, and
`seal` notes their lengths at one moment (the protocol is in `storage/checkpoint.py`). After a
kill everything is cut back to the last committed note, so a URL is in exactly one place:
ready, in its host's queue, or online.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.frontier.decision_log import DecisionObserver, NullObserver
from fieldmouse.frontier.distributor import Distributor
from fieldmouse.frontier.hosts.host_table import clock_setback
from fieldmouse.frontier.in_flight import HeldUrls, Tickets
from fieldmouse.frontier.protocol import CrawlFrontier
from fieldmouse.frontier.state import FrontierState, open_parts
from fieldmouse.frontier.workbench import Workbench
from fieldmouse.policy.distribution.registry import DistributionPolicy
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.policy.scope import SiteLimits
from fieldmouse.storage.checkpoint import Sealed
from fieldmouse.types.host import HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import HostVisit, QueuedRequest, Request
from fieldmouse.types.stats import RestingHost
from fieldmouse.url import Host, host_of

_SIFT_AT = 2048  # offers
_URLS_WITHOUT_REQUEST = 256  # URLs of a host visit that makes no request
_encode = msgspec.msgpack.Encoder().encode


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
        witness: DecisionObserver | None = None,
        limits: SiteLimits | None = None,
        share: float = 0.5,
        hold_before: float = 0.0,
    ):
        """Open the frontier in a directory at `state`. Opening changes nothing on disk; `begin` does.

        `resumed_delay` is the ordinary delay of a host; after a restart each gets it in full.
        `share` of a host's visits are polls while new URLs of it wait, too. URLs that were
        discovered before `hold_before` (epoch seconds) stay in place, see `frontier/in_flight.py`; 0: none.
        """
        now, polls = clock.now(), set[int]()
        parts = open_parts(
            directory, state, limits, key_seed=key_seed, now=now, resumed_delay=resumed_delay, run_size=run_size
        )
        quiet_until = parts.hosts.restart_delays(now) if parts.hosts.resumed else 0.0
        workbench = Workbench(quiet_until, polls=polls, share=share)
        rule = front or FrontSizeRule()
        super().__init__(
            parts, workbench, clock=clock, rule=rule, key_seed=key_seed, errand_links=errand_links, state=state
        )
        self._sieve, self._ready, self._hosts = parts.sieve, parts.ready, parts.hosts
        self._witness = NullObserver() if witness is None or hold_before else witness
        self._holding = HeldUrls(hold_before, now, parts) if hold_before else None
        self._distributor = Distributor(
            policy,
            draw=parts.ready.pop,
            queues=parts.queues,
            front=parts.front,
            workbench=workbench,
            hosts=parts.hosts,
            batch=2 * errand_links,
            witness=self._witness,
            holding=self._holding is not None,
        )
        self._tickets = Tickets(
            parts,
            self._distributor,
            workbench,
            set_back=clock_setback(state.hosts.at, now) if state else 0.0,
            polls=state.polls if state else 0,
            poll_numbers=polls,
            holding=self._holding,
        )
        self._out = 0  # URLs held by fetch workers
        self._done = state.done if state else 0
        self._only_polls = False

    def begin(self) -> None:
        super().begin()
        now = self._clock.now()
        if self._holding is not None:
            self._holding.begin()
        self._witness.began(now, unlisted=len(self._ready), batch=2 * self._errand_links)
        self._tickets.restore(now)

    def _offer(self, links: Sequence[Request], keys: list[int]) -> None:
        self._sieve.offer(keys, links)
        if self._sieve.pending >= _SIFT_AT:
            self._sift()

    def poll(self, links: Sequence[Request]) -> None:
        self._tickets.poll(links)

    def requeue(self, links: Sequence[Request]) -> None:
        """Queue links whose outcome was taken back, as if they had just been discovered."""
        self._push(links)
        self._done -= len(links)

    def _push(self, links: Sequence[Request]) -> None:
        items = [(host_of(link.url), _encode(link)) for link in links]
        self._ready.push(items)
        self._witness.discovered([host for host, _ in items])

    def clear_verdicts(self, verdicts: Container[str]) -> list[Host]:
        """Clear these statuses of hosts, before `begin` brings any online; returns the hosts."""
        judged = [(host, state) for host, state in self._hosts if state.verdict in verdicts]
        for host, state in judged:
            cleared = msgspec.structs.replace(state, failures=0, put_off=0, verdict=OutcomeReason.NONE, detail="")
            self._hosts.put(host, cleared, self._clock.now())
        return [host for host, _ in judged]

    def _sift(self) -> None:
        self._push(self._sieve.sift(self._parts.sites.admit))

    def take(self, now: float, *, only_polls: bool = False) -> HostVisit | None:
        self._witness.time_passed(now)
        self._tickets.requeue_rested(now)
        if only_polls or self._only_polls:
            if self._only_polls and not only_polls:
                self._tickets.restore_set_aside()
            self._only_polls = only_polls
            if only_polls:
                errand = self._tickets.take_polls(now, self._errand_links, _URLS_WITHOUT_REQUEST)
                self._out += len(errand.tickets) if errand is not None else 0
                return errand
        most = self._errand_links
        lease = self._workbench.take(now, most, _URLS_WITHOUT_REQUEST)
        while lease is None:
            if not self._bring_online():
                return None
            lease = self._workbench.take(now, most, _URLS_WITHOUT_REQUEST)
        self._out += len(lease.numbers)
        self._witness.visit_started(self._width, self._out)
        if len(self._workbench) < self._width and self._backlog():
            self._distributor.refill(self._width)
        self._count_visit(now)
        return HostVisit(
            lease.host, lease.address, self._tickets.tickets_of(lease.numbers), self._hosts.get(lease.host)
        )

    def _backlog(self) -> int:
        """Number of URLs that could come online."""
        return len(self._ready) + (len(self._parts.queues) if self._holding is None else 0)

    def _bring_online(self) -> bool:
        """Bring hosts online when none is ready, on a wider front if necessary. False if there are none."""
        if self._sieve.pending:
            self._sift()
        if not self._backlog():
            return False
        width = self._width
        if len(self._workbench) >= width:
            width = self._rule.grown(width)
        self._witness.starved(width, self._out)
        brought = self._distributor.refill(width)
        if brought:
            self._width = width
        return brought > 0

    def ready_at(self) -> float | None:
        if not self._only_polls and (self._sieve.pending or self._distributor.unfinished):
            return 0.0
        due = self._workbench.ready_at()
        rested_at = self._tickets.resting.ready_at()
        return due if rested_at is None else rested_at if due is None else min(due, rested_at)

    def give_back(self, errand: HostVisit, state: HostState, unused: Sequence[QueuedRequest] = ()) -> None:
        host = errand.host
        self._hosts.put(host, state, self._clock.now())
        self._workbench.give_back(host, state, [ticket.number for ticket in unused])
        self._out -= len(errand.tickets)
        self._distributor.visit_ended(host, state, len(errand.tickets) - len(unused))

    def mark_done(self, numbers: Iterable[int]) -> None:
        """Record durable outcomes of tickets: their URLs are not visited again, unless polled."""
        self._done += self._tickets.remove(numbers)

    def retry(self, number: int, link: Request) -> None:
        self._tickets.retry(number, link, self._clock.now())

    def seal(self) -> Sealed[FrontierState]:
        if self._sieve.pending:
            self._sift()
        self._witness.flush()
        return self._parts.seal(
            self._clock.now(),
            done=self._done,
            width=self._width,
            seen=self.seen,
            waiting=self.waiting,
            polls=self._tickets.polls,
        )

    def close(self) -> None:
        super().close()
        self._witness.close()

    @property
    def seen(self) -> int:
        return self._sieve.seen

    @property
    def settled(self) -> int:
        return self._done

    @property
    def waiting(self) -> int:
        return self._parts.waiting - self._tickets.polls

    @property
    def held_back(self) -> int:
        return self._tickets.held + len(self._parts.queues) if self._holding is not None else 0

    @property
    def polls_waiting(self) -> int:
        return self._tickets.polls

    @property
    def host_count(self) -> int:
        return len(self._hosts)

    @property
    def dropped_links(self) -> dict[str, int]:
        return self._parts.sites.dropped

    def resting_hosts(self, now: float) -> list[RestingHost]:
        rests = []
        for host in self._workbench.waiting_hosts():
            state = self._hosts.get(host)
            if state.failures and not state.verdict and state.ready_at > now:
                rests.append(RestingHost(host, state.ready_at, state.failures))
        return sorted(rests, key=lambda rest: rest.until)

    def is_stalled(self, now: float, patience: float) -> bool:
        """A host that keeps its ordinary delay, however long, does not count as stalled."""
        ready_at = self.ready_at()
        if ready_at is None or ready_at <= now + patience or self._out or self._backlog():
            return False
        return len(self.resting_hosts(now)) == len(self._workbench.waiting_hosts())

    @property
    def draws(self) -> int:
        return self._distributor.draws

    @property
    def appends(self) -> int:
        return self._distributor.appends
