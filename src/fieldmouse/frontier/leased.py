"""A frontier whose hosts are leased: the board of the network has the URLs, this has those at hand.

Nothing here outlives the process but the keys of what was settled, in the sieve that every crawl has: the
board knows what waits, and gives it to others should we die. A host comes with some of its URLs (`grant`),
stands on the workbench like any other, and leaves again when it has none left, when it rests for long, or
when the landlord says that another agent is nearer.

Invariant: a ticket is online, resting, with a robot, or known and not settled; until it is settled we
owe the board an outcome for it, under the epoch its host was granted with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_64_intdigest

from fieldmouse.clock import Clock
from fieldmouse.crawldir import Sealed, make_directory
from fieldmouse.frontier.landlord import Landlord, SettledUrl
from fieldmouse.frontier.moment import FrontierState
from fieldmouse.frontier.owed import OwedTickets
from fieldmouse.frontier.parts import Books, FrontierParts
from fieldmouse.frontier.resting import Resting
from fieldmouse.frontier.workbench import Workbench
from fieldmouse.policy.front import FrontRule
from fieldmouse.records import Errand, HostState, Link, Ticket
from fieldmouse.url import Host, key_of

LONG = 20.0
"""Seconds of rest after which a host is better kept on the board than by us."""
_WITHOUT_ASKING = 256
_LOOK_EVERY = 256


@dataclass(slots=True)
class _Tenancy:
    """A host that we hold."""

    epoch: int
    state: HostState
    left: int  # URLs of it that wait on the board
    online: int = 0  # tickets on the workbench or resting
    out: bool = False
    asked: bool = False  # for more


class LeasedFrontier:
    """See `face.CrawlFrontier`. Single-threaded and synchronous."""

    name = "frontier"

    def __init__(
        self, parts: FrontierParts, *, landlord: Landlord, clock: Clock, rule: FrontRule, key_seed: int,
        errand_links: int, state: FrontierState | None,
    ):  # fmt: skip
        """`parts` hold nothing but the keys of what was settled here."""
        self._parts, self._landlord, self._clock, self._rule = parts, landlord, clock, rule
        self._key_seed, self._errand_links = key_seed, errand_links
        self._workbench, self._resting = Workbench(), Resting()
        self._tenancies: dict[Host, _Tenancy] = {}
        self._owed = OwedTickets()
        self._width = max(rule.minimum, min(rule.maximum, state.width if state else 0))
        self._errands = self._out = 0
        self._met = 0  # hosts that were ever granted
        self._finished: list[SettledUrl] = []
        self._closing = False

    # -- hosts come and go

    @property
    def wanted(self) -> int:
        """How many more hosts we could use."""
        return 0 if self._closing else max(0, self._width - len(self._tenancies))

    def grant(self, host: Host, epoch: int, links: Sequence[Link], state: HostState, left: int) -> None:
        """A host that nobody else has, with URLs of it; or more URLs of one that we have."""
        tenancy = self._tenancies.get(host)
        if tenancy is None or tenancy.epoch != epoch:
            assert tenancy is None or not tenancy.out, f"{host} was granted twice"
            if tenancy is not None:
                self._forget(host)
            tenancy = self._tenancies[host] = _Tenancy(epoch, state, left)
            self._met += 1
        tenancy.left, tenancy.asked = left, False
        now = self._clock.now()
        numbers = []
        for link in links:
            key = key_of(link.url, self._key_seed)
            if self._owed.is_flying(key, epoch):
                continue  # asked for under a lease that was lost: its outcome will do for this one
            number = self._owed.add(link, host, epoch, key)
            tenancy.online += 1
            if link.not_before > now:
                self._resting.put(link.not_before, number, host)
            else:
                numbers.append(number)
        if numbers:
            self._workbench.put(host, tenancy.state, numbers)
        elif not tenancy.out and not tenancy.online:
            self._let_go(host)

    def settled_before(self, links: Sequence[Link]) -> list[bool]:
        """Which of these have an outcome here already, that the board forgot or never counted."""
        return self._parts.sieve.knows([key_of(link.url, self._key_seed) for link in links])

    def revoke_all(self) -> None:
        """Nothing is ours any more: all of it is with others, what robots have in hand included."""
        for host in [host for host, tenancy in self._tenancies.items() if not tenancy.out]:
            self._forget(host)
        for tenancy in self._tenancies.values():
            tenancy.epoch = 0  # a robot has it: when it comes back there is nobody to give it to
            tenancy.left = 0

    def revoke(self, host: Host, epoch: int) -> None:
        """This one is not ours any more."""
        tenancy = self._tenancies.get(host)
        if tenancy is None or tenancy.epoch != epoch:
            return
        if tenancy.out:
            tenancy.epoch = tenancy.left = 0
        else:
            self._forget(host)

    def _forget(self, host: Host) -> list[Link]:
        """Take a host that no robot has off the workbench; returns its URLs that were not visited."""
        numbers = [] if host not in self._workbench else self._workbench.send_off(host)
        numbers += self._resting.withdraw(host)
        del self._tenancies[host]
        struck = map(self._owed.strike, numbers)
        return [owed.link for owed in struck if owed is not None]

    def _let_go(self, host: Host) -> None:
        tenancy = self._tenancies[host]
        unused = self._forget(host)
        if tenancy.epoch:
            self._landlord.vacated(host, tenancy.epoch, tenancy.state, unused)

    def let_all_go(self) -> None:
        """The end: no host is taken any more, and those that no robot has go back to the board."""
        self._closing = True
        for host in [host for host, tenancy in self._tenancies.items() if not tenancy.out]:
            self._let_go(host)

    @property
    def holds(self) -> int:
        """Hosts that are ours."""
        return len(self._tenancies)

    def owed(self) -> dict[tuple[Host, int], set[int]]:
        """The keys of all URLs that we owe an outcome, by lease; hosts of which we owe none, too."""
        keys = {
            (host, tenancy.epoch): set[int]() for host, tenancy in self._tenancies.items() if tenancy.epoch
        }
        for owed in self._owed:
            keys.setdefault((owed.host, owed.epoch), set()).add(owed.key)
        for url in self._finished:
            keys.setdefault((url.host, url.epoch), set()).add(url.key)
        return keys

    def epoch_of(self, host: Host) -> int:
        """Under which epoch we hold it; 0 if we do not."""
        tenancy = self._tenancies.get(host)
        return tenancy.epoch if tenancy is not None else 0

    # -- errands

    def discover(self, links: Sequence[Link], keys: Sequence[int] | None = None) -> None:
        """Links found on the web: the board says which are new."""
        if keys is None:
            seed, digest = self._key_seed, xxh3_64_intdigest
            keys = [digest(link.url.encode(), seed) for link in links]
        self._landlord.found(links, keys)

    def take(self, now: float, *, only_polls: bool = False) -> Errand | None:
        for host, number in self._resting.rested(now):
            self._workbench.put(host, self._tenancies[host].state, (number,))
        if only_polls or not self._landlord.open:
            return None
        lease = self._workbench.take(now, self._errand_links, _WITHOUT_ASKING)
        if lease is None:
            if len(self._tenancies) >= self._width:
                self._width = self._rule.after_hunger(self._width)
            return None
        tenancy = self._tenancies[lease.host]
        tenancy.out = True
        tenancy.online -= len(lease.numbers)
        self._out += len(lease.numbers)
        self._errands += 1
        if self._errands % _LOOK_EVERY == 0:
            self._width = self._rule.after_plenty(self._width, self._workbench.ready_hosts(now))
        tickets = tuple(Ticket(number, self._owed.link(number)) for number in lease.numbers)
        return Errand(lease.host, lease.address, tickets, tenancy.state)

    def ready_at(self) -> float | None:
        if not self._landlord.open:
            return None
        times = [at for at in (self._workbench.ready_at(), self._resting.ready_at()) if at is not None]
        return min(times, default=None)

    def give_back(self, errand: Errand, state: HostState, unused: Sequence[Ticket] = ()) -> None:
        host = errand.host
        tenancy = self._tenancies[host]
        tenancy.out, tenancy.state = False, state
        tenancy.online += len(unused)
        self._out -= len(errand.tickets)
        self._workbench.give_back(host, state, [ticket.number for ticket in unused])
        visits = len(errand.tickets) - len(unused)
        if self._closing or not tenancy.epoch or not self._landlord.stays(host, state, visits):
            self._let_go(host)
        elif not tenancy.online and tenancy.left:
            if not tenancy.asked:
                tenancy.asked = True
                self._landlord.want_more(host, tenancy.epoch)
        elif not tenancy.online or state.ready_at > self._clock.now() + LONG:
            self._let_go(host)

    def done(self, numbers: Iterable[int]) -> None:
        """The outcomes of these tickets go into the checkpoint at hand."""
        for number in numbers:
            owed = self._owed.strike(number)
            if owed is not None:
                self._finished.append(SettledUrl(owed.host, owed.epoch, owed.key, owed.link.url))

    def again(self, number: int, link: Link) -> None:
        """Visit `link` instead of the ticket, not before `link.not_before`."""
        owed = self._owed.strike(number)
        if owed is None:
            return
        host, tenancy = owed.host, self._tenancies.get(owed.host)
        if tenancy is None or tenancy.epoch != owed.epoch or self._closing:
            self._landlord.put_back(host, owed.epoch, link)
            return
        fresh = self._owed.add(link, host, owed.epoch, owed.key)
        tenancy.online += 1
        if link.not_before > self._clock.now():
            self._resting.put(link.not_before, fresh, host)
        else:
            self._workbench.put(host, tenancy.state, (fresh,))

    # -- a part of the checkpoint

    def begin(self) -> None:
        make_directory(self._parts.directory)
        for part in self._parts:
            part.begin()

    def seal(self) -> Sealed[FrontierState]:
        settled, self._finished = self._finished, []
        if settled:
            self._parts.sieve.learn(np.array([url.key for url in settled], np.uint64))
            self._landlord.settled(settled)
        books = Books(self.finished, self._width, self.finished, 0, 0)
        state, paths = self._parts.seal(self._clock.now(), books)
        return Sealed(state, paths)

    def committed(self) -> None:
        for part in self._parts:
            part.committed()

    def close(self) -> None:
        for part in self._parts:
            part.close()

    # -- numbers

    @property
    def seen(self) -> int:
        """What was settled here, and what waits in the whole crawl."""
        return self.finished + self.waiting

    @property
    def finished(self) -> int:
        return self._parts.sieve.seen

    @property
    def waiting(self) -> int:
        return self._landlord.waiting

    held = polling = 0  # nothing is held back, and nothing polled

    @property
    def hosts(self) -> int:
        """Hosts that were here; one that came twice counts twice."""
        return self._met

    @property
    def dropped(self) -> dict[str, int]:
        return self._landlord.dropped

    @property
    def front(self) -> int:
        return len(self._tenancies)

    def ready_hosts(self, now: float) -> int:
        return self._workbench.ready_hosts(now)
