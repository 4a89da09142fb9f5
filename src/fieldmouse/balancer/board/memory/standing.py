"""How hosts, agents and addresses stand on a board in memory; moments are on the board's own clock."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fieldmouse.balancer.board.contract import TOLD, Heard, Luggage, Name, Row
from fieldmouse.url import Host


@dataclass(slots=True)
class HostRecord:
    """A host: the URLs that wait for it, who holds it, and what travels with it."""

    place: str = ""  # the agent that should visit it
    wished: str = ""  # the agent that found it held, and should have it next if it still wishes for it
    kept_until: float = 0.0  # for that one alone, when nobody holds it any more
    waiting: deque[Row] = field(default_factory=deque)
    holder: Name | None = None
    epoch: int = 0  # of its holder
    ready_at: float = 0.0  # since when it could be visited: it has URLs, and its rest is over
    not_before: float = 0.0
    luggage: Luggage = field(default_factory=Luggage)
    robots_txt_until: float = 0.0
    shunned: dict[str, float] = field(default_factory=dict)  # who gets it from no other, and until when

    @property
    def stands(self) -> bool:
        """Whether it waits for somebody to take it."""
        return bool(self.waiting) and self.holder is None

    def packed(self, now: float) -> Luggage:
        """Its luggage for whoever takes it now."""
        left = self.robots_txt_until - now
        return Luggage(
            state=self.luggage.state,
            rest=max(0.0, self.not_before - now),
            delay=self.luggage.delay,
            learned=self.luggage.learned,
            robots_txt=self.luggage.robots_txt if left > 0 else b"",
            robots_txt_rest=max(0.0, left),
        )

    def unpack(self, luggage: Luggage, now: float) -> None:
        self.luggage = luggage
        self.not_before = max(self.not_before, now + luggage.rest)
        self.robots_txt_until = now + luggage.robots_txt_rest

    def wait(self, rows: Sequence[Row], now: float, *, first: bool = False) -> None:
        """These URLs wait from now on, behind all others or before them."""
        if not self.waiting:
            self.ready_at = max(now, self.not_before)
        if first:
            self.waiting.extendleft(reversed(rows))
        else:
            self.waiting.extend(rows)

    def take(self, urls: int) -> list[Row]:
        return [self.waiting.popleft() for _ in range(min(urls, len(self.waiting)))]

    def hold(self, name: Name, epoch: int) -> None:
        self.holder, self.epoch, self.place = name, epoch, ""

    def reserve(self, agent: str) -> None:
        """It goes there next."""
        self.wished = agent

    def keep(self, seconds: float) -> None:
        """It waits so long, from when it may be visited, for who is next."""
        self.kept_until = self.ready_at + seconds

    def free(self, now: float, place: str = "", not_before: float = 0.0) -> None:
        """Nobody holds it any more, and nobody visits it before then."""
        self.holder, self.epoch, self.place = None, 0, place
        self.not_before = max(self.not_before, not_before)
        self.ready_at = max(now, self.not_before)

    def shun(self, agents: Mapping[str, float], now: float) -> None:
        if agents:
            self.shunned = {agent: now + seconds for agent, seconds in agents.items()}

    def shuns(self, agent: str, now: float) -> bool:
        return now < self.shunned.get(agent, 0.0)

    def without(self, field: str) -> bool:
        """A value that travels with it is damaged, and goes; whether there was one."""
        luggage = self.luggage
        match field:
            case "st":
                self.luggage = replace(luggage, state=b"")
            case "le":
                self.luggage = replace(luggage, learned=b"")
            case "rt":
                self.luggage = replace(luggage, robots_txt=b"")
        return self.luggage != luggage

    def move(self, place: str) -> None:
        """It waits for that agent from now on, or for anybody."""
        self.place = place


@dataclass(slots=True)
class UrlLease:
    """URLs that an agent owes under an epoch; it may have given the host back since."""

    host: Host
    by: Name
    owed: dict[int, bytes] = field(default_factory=dict)

    def settle(self, keys: Iterable[int]) -> list[int]:
        """These are owed no longer; returns those that were."""
        return [key for key in keys if self.owed.pop(key, None) is not None]


@dataclass(slots=True)
class AgentRecord:
    """The newest start of an agent."""

    incarnation: int
    seen_at: float
    deadline: float
    advert: bytes = b""
    draining: bool = False
    heard: bool = False  # that it should drain
    counts: bool = True  # False once it is fenced, or has left
    pages: int = 0  # reserved for it

    def extend(self, now: float, lease: float) -> None:
        self.seen_at, self.deadline = now, max(self.deadline, now + lease)

    def tell(self, advert: bytes) -> None:
        self.advert = advert

    def drain(self) -> None:
        self.draining = True

    def hear(self) -> bool:
        """Whether it should drain, which it knows from now on."""
        self.heard = self.draining
        return self.draining

    def fall(self) -> None:
        self.counts, self.pages = False, 0

    def reserve(self, pages: int) -> None:
        """So many pages it may have in the air, or not booked."""
        self.pages = max(0, pages)

    def book(self, pages: int) -> None:
        """So many pages are booked, and reserved no longer."""
        self.reserve(self.pages - pages)


@dataclass(slots=True)
class AddressRecord:
    """Who asks at an address, and when it may be asked again."""

    holder: Name | None = None
    delay: float = 0.0
    not_before: float = 0.0

    def hold(self, name: Name, delay: float) -> None:
        self.holder, self.delay = name, delay

    def rest(self, not_before: float) -> None:
        self.not_before = max(self.not_before, not_before)

    def free(self, not_before: float) -> None:
        self.holder = None
        self.rest(not_before)


@dataclass(frozen=True, slots=True)
class KeptBooking:
    """What was booked at once by one agent: the URLs, which of them counted, and of which kind each is."""

    urls: bytes
    counted: tuple[bool, ...]
    kinds: tuple[str, ...]


class SignsHeard:
    """The last sign of life of each agent; `heard in signs` says whether that, or a later one, was heard."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}  # start and number

    def __contains__(self, heard: Heard) -> bool:
        return self._last.get(heard.agent, (0, 0)) >= (heard.incarnation, heard.number)

    def hear(self, name: Name, number: int) -> None:
        self._last[name.agent] = max(self._last.get(name.agent, (0, 0)), (name.incarnation, number))


def whose_turn(names: Sequence[str], after: str, most: int = TOLD) -> Sequence[str]:
    """Those of the names, which are in order, that are told this time.

    >>> ["".join(whose_turn("abcdf", after, most=3)) for after in ("", "c", "e", "z")]
    ['abc', 'dfa', 'fab', 'abc']
    """
    if len(names) <= most:
        return names
    first = bisect_right(names, after)
    return [*names[first : first + most], *names[: max(0, first + most - len(names))]]
