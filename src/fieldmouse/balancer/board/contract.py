"""What agents ask of a board, and what it promises.

Every call may be repeated, because an answer may be lost on the way; repeated it changes nothing more.
Times go over the wire as seconds from now, never as moments: the board's clock is the server's, and no two
machines need agree. A call of an agent that is fenced raises `Fenced`; if the server cannot be reached, it
raises `BoardUnreachable`, and nobody knows whether it was done.

`run` of a pulse is the server's: when it changes the server was started again, and may have forgotten its
last second. Then the board is *calm* for longer than any lease and delay last: it grants no host, address
or page that its caller does not have already, so that whoever held what it forgot has stopped. Whoever
finds another run tells what it told last again (`tellings`), finds out what is still its own (`recover`,
and by asking for the addresses it has: one that is refused is left at once), and notes how its hosts stand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from fieldmouse.balancer.board.charter import Charter as Charter
from fieldmouse.balancer.board.forgiving import ForgivingBoard
from fieldmouse.balancer.board.heard import ANY
from fieldmouse.balancer.board.heard import Heard as Heard
from fieldmouse.balancer.board.pagelimit import PageBoard
from fieldmouse.url import Host, Url

Row: TypeAlias = tuple[int, bytes]
"""A URL: its key, and its row, of which the board knows nothing."""
EXAMPLES = 5
"""Hosts of a fault that are named."""
TOLD = 64
"""Agents that are told of at once: if each of a thousand heard of all, a server would do nothing else."""


@dataclass(frozen=True, slots=True)
class Name:
    """An agent, as the board knows it: its name, and which start of it this is.

    `incarnation` grows with each start and stays below 2**53. No two starts may have the same, those of
    copies of a directory included: take the time in microseconds, and more than last time.
    """

    agent: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Offer:
    """Links of one host."""

    host: Host
    site: str
    links: Sequence[Row]
    place: str = ""  # the agent that should visit it, if it is new; "" for any


@dataclass(frozen=True, slots=True)
class SiteBounds:
    """Most hosts and URLs of a site that are taken; 0: no bound."""

    hosts: int = 0
    urls: int = 0


@dataclass(frozen=True, slots=True)
class Offered:
    """What became of offers."""

    new: int
    dropped_hosts: int = 0  # links left out because their site has too many hosts
    dropped_urls: int = 0  # or too many URLs


@dataclass(frozen=True, slots=True)
class Luggage:
    """What travels with a host. The board looks into none of it, but for `rest`."""

    state: bytes = b""
    rest: float = 0.0  # seconds from now before which the host is not to be asked; never made shorter
    delay: float = 0.0  # seconds between two visits: kept from the end of a lease whose holder died
    learned: bytes = b""
    robots_txt: bytes = b""
    robots_txt_rest: float = 0.0  # seconds for which that holds


@dataclass(frozen=True, slots=True)
class DamagedField:
    """A value of a granted host that cannot be read: a block of its rows, or one of its other fields."""

    field: str  # `rows`, or the field of the host's hash
    why: str
    keys: tuple[int, ...] = ()  # of the rows
    value: bytes = b""  # the beginning of it, for people


@dataclass(frozen=True, slots=True)
class Grant:
    """A host, held from now on under `epoch`, with some URLs; or more URLs of a host that is held."""

    host: Host
    epoch: int
    rows: Sequence[Row]
    luggage: Luggage = Luggage()
    left: int = 0  # URLs of it that still wait on the board
    damaged: tuple[DamagedField, ...] = ()  # what of it cannot be read: it is to be quarantined


@dataclass(frozen=True, slots=True)
class Held:
    host: Host
    epoch: int


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A host that its holder lets go."""

    held: Held
    luggage: Luggage
    unused: Sequence[Row] = ()  # not visited: they wait again, before all others
    place: str = ""  # who should visit it next; "" for any
    shunned: Mapping[str, float] = field(default_factory=dict)  # who gets it from no other, for how long


@dataclass(frozen=True, slots=True)
class AddressAsk:
    address: str
    held: Held  # the host it is for; of epoch 0 if that is not ours (a redirect of robots.txt leads there)
    delay: float  # kept from the end of the lease if the asker dies meanwhile


@dataclass(frozen=True, slots=True)
class AddressAnswer:
    granted: bool
    rest: float = 0.0  # not granted: ask again after so many seconds
    holder: str = ""  # not granted: the agent that has it, "" if nobody has and it only rests


@dataclass(frozen=True, slots=True)
class BookedKeys:
    """URLs of one lease whose outcomes are durable."""

    held: Held
    keys: Sequence[int]
    kinds: Sequence[str]  # of the outcome of each key; "" if that is not known


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent books at once: a batch of outcomes."""

    bookings: Sequence[BookedKeys]
    urls: bytes = b""  # `rows.pack_urls` of the URLs of all keys in order, to fetch should we be lost
    number: int = 0  # grows with each that an agent tells; 0 where nobody needs to know whether it was told


class Advert(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What an agent says of itself: a few numbers. Whoever reads an older one fills in the defaults."""

    backlog: float = 0.0  # seconds of work that wait, in the balancer's unit
    speed: float = 1.0
    price: float = 0.0
    pages: int = 0
    pages_per_second: float = 0.0
    robots: int = 0
    machine: str = ""
    directory: str = ""
    rss_mb: float = 0.0
    polls: int = 0
    refreshes: bool = False  # it asks for known pages again, and needs their hosts for that
    resting: bool = False  # its own network is gone: it waits, and wants no hosts
    load: float = 0.0  # utilisation of its scarcest resource, 0 to 1


@dataclass(frozen=True, slots=True)
class AgentNote:
    """An agent as others see it."""

    agent: str
    incarnation: int
    alive: bool
    draining: bool
    advert: bytes  # an `Advert`, encoded (`decoding.advert_in`)
    seen_ago: float  # seconds since it was last heard of
    hosts: int = 0  # that it holds


@dataclass(frozen=True, slots=True)
class Stranded:
    """Hosts with waiting URLs that no agent can be granted: a fault, which the next `lease` repairs."""

    hosts: int = 0
    examples: Sequence[Host] = ()  # some of them
    repaired: int = 0  # hosts that were repaired since the crawl began


@dataclass(frozen=True, slots=True)
class BoardBooks:
    """What all adds up to: `seen = settled + waiting`."""

    seen: int = 0
    settled: int = 0
    waiting: int = 0  # those that agents hold included
    hosts: int = 0
    begun: bool = False  # seeds were offered
    age: float = 0.0  # seconds since the crawl was founded
    kinds: Mapping[str, int] = field(default_factory=dict)  # settled, by kind of outcome
    quarantined: int = 0  # values that could not be read and were set aside


@dataclass(frozen=True, slots=True)
class Pulse:
    """The board's answer to a sign of life."""

    books: BoardBooks
    agents: Sequence[AgentNote]  # by name: all (`whole`), or of many the caller and those whose turn it is
    alive: int  # agents, whether told of or not
    members: int  # those that joined and did not leave
    upto: str  # the last of those whose turn it was, "" if all were told of
    run: str  # of the server
    calm: float  # seconds for which nothing new is granted
    draining: bool  # the caller was asked to drain
    over: str = ""  # why the crawl was ended for everybody (a limit), "" if it goes on
    joined: Sequence[Url] = ()  # what joined the scope (`widen`); nothing if the caller knows that many

    @property
    def whole(self) -> bool:
        return self.members <= TOLD


class Board(PageBoard, ForgivingBoard, Protocol):
    """Single-threaded, asynchronous; calls may run side by side. How pages are counted is in `pagelimit`."""

    async def identity(self) -> str:
        """Which server this is, as long as it runs: the same for two boards that lie on one."""

    async def charter(self) -> Charter | None:
        """What the crawl is; None if there is none of that name."""

    async def found(self, charter: Charter) -> Charter:
        """Begin a crawl, unless there is one; returns the charter that counts."""

    async def join(self, name: Name, lease: float) -> None:
        """From now on `name` counts. An earlier incarnation is fenced, and what it held goes to others."""

    async def outlives(self, name: Name) -> bool:
        """Whether `name` was never fenced: what it told late still counts."""

    async def recalls(self, since: Heard) -> None:
        """Raises `BoardLost` if it never heard that: its server has an old copy of its data."""

    async def beat(
        self, name: Name, advert: bytes, lease: float, after: str = "", number: int = 0, since: Heard = ANY,
        joined: int = 0,
    ) -> Pulse:  # fmt: skip
        """A sign of life: `name` keeps what it holds for `lease` seconds more. Fences whoever is overdue.

        It is heard as `number`, which grows, but only by a board that recalls `since`.

        Of more than `TOLD` agents so many are told of, by name the next `after` that one, round and round.
        """

    async def widen(self, urls: Sequence[Url]) -> None:
        """Pages that seeds redirect to: all agents hear of them, and take them into their scope.

        They are published before their outcomes are booked. So an agent that hears that nothing waits has
        heard of all of them.
        """

    async def leave(self, name: Name) -> None:
        """An orderly end: what it held waits again, and it is no longer among the agents."""

    async def offer(self, offers: Sequence[Offer], bounds: SiteBounds, *, seeds: bool = False) -> Offered:
        """Links found: those never seen wait from now on. `seeds`: the crawl has begun with these."""

    async def lease(self, name: Name, hosts: int, urls: int, soon: float = 0.0) -> list[Grant]:
        """Up to so many hosts that may be visited within `soon` seconds, with about so many URLs each.

        First those it wished for, then its own, then anybody's, then those that waited for another agent in
        vain and do not shun it; so on each server. If there are none, hosts that no agent could be granted
        are repaired (`stranded`).
        """

    async def wish(self, name: Name, hosts: Sequence[Host]) -> None:
        """`name` has known pages of these hosts to ask for again, of which the board knows nothing.

        By and by each of them is granted to it by `lease`, perhaps without a URL. Whoever holds one
        meanwhile keeps it until he gives it back; then it waits for who wished for it first. A wish ends when
        it is granted, and with the agent.
        """

    async def more(self, name: Name, held: Sequence[Held], urls: int) -> list[Grant]:
        """More URLs of hosts that `name` holds, under the same epoch; one grant each, perhaps empty."""

    async def ask_addresses(self, name: Name, asks: Sequence[AddressAsk]) -> list[AddressAnswer]:
        """An address each, for one errand; granted again if `name` has it."""

    async def free_addresses(self, name: Name, rests: Mapping[str, float]) -> None:
        """The errands are over: nobody asks there for so many seconds, whoever has the address by now."""

    async def note(self, name: Name, luggage: Mapping[Held, Luggage]) -> None:
        """How hosts stand that `name` goes on holding, should it die."""

    async def give_back(self, name: Name, hosts: Sequence[GivenBack]) -> None:
        """Hosts that wait for another visit. What `name` does not hold any more is passed over.

        URLs granted under that epoch that are neither unused nor booked stay owed by `name` until they are.
        """

    async def put_back(self, name: Name, rows: Mapping[Held, Sequence[Row]]) -> None:
        """URLs of leases that will not be visited under them, wherever their hosts are by now.

        They wait again, with these rows, unless they were booked or put back before.
        """

    async def book(self, name: Name, told: Told) -> list[Sequence[int]]:
        """Outcomes are durable. Returns, for each booking, the keys that did not count.

        Those belong to a lease that was lost: others fetch them, or have. Keys booked before count as booked.
        """

    async def quarantine(self, name: Name, damaged: Mapping[Held, Sequence[DamagedField]]) -> int:
        """Set values of hosts aside that `name` holds and cannot read. Returns how many URLs went with them.

        They are settled as `quarantined`: nobody is granted them again, and the crawl ends without them.
        """

    async def last_told(self, name: Name) -> int:
        """The number of the last booking that `name` told, fenced or not; 0 if it told none."""

    async def recover(self, name: Name, known: Mapping[Held, Collection[int]]) -> list[Held]:
        """After a break: give back whatever `name` has and does not know; returns the leases it lost.

        `known` has its leases, those of hosts given back included, and the keys it owes under each: the
        answer to a `lease` or `more` may have been lost, and nobody would ever visit what that granted.
        """

    async def books(self) -> BoardBooks:
        """What all adds up to now, for who is no agent."""

    async def stranded(self) -> Stranded:
        """Hosts that no agent can be granted. All hosts are read only if URLs wait and none can be had."""

    async def agents(self) -> list[AgentNote]:
        """Those that joined and did not leave, by name."""

    async def departed(self) -> list[AgentNote]:
        """Those that are no longer among the agents, and of whom it is kept what they booked."""

    async def ask_to_drain(self, agent: str) -> bool:
        """Tell an agent to finish what it has and leave; False if there is none of that name.

        If the agent joins again before it has heard of this, it hears of it then.
        """

    async def forget(self, agent: str, *, again: bool) -> int:
        """Fence an agent for good; with `again` all it ever booked waits again. Returns how many URLs."""

    async def end(self, why: str) -> None:
        """A limit is reached: everybody stops. "" lets it go on."""

    async def close(self) -> None: ...
