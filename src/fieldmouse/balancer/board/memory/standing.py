"""Records of hosts, agents and addresses of the coordinator in memory; times are on its own clock."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fieldmouse.balancer.board.contract import TOLD, Heard, Luggage, Name, Row
from fieldmouse.url import Host


@dataclass(slots=True)
class HostRecord:
    """A host: its waiting URLs, its holder, and the state that travels with it."""

    place: str = ""  # agent that should visit it
    wished: str = ""  # agent that wished for it while it was held, and gets it next if it still does
    kept_until: float = 0.0  # for that agent alone, after its release
    waiting: deque[Row] = field(default_factory=deque)
    holder: Name | None = None
    epoch: int = 0  # epoch of its holder
    ready_at: float = 0.0  # time since when it could be visited: it has URLs, and its rest is over
    not_before: float = 0.0
    luggage: Luggage = field(default_factory=Luggage)
    robots_txt_until: float = 0.0
    # agents that must not take it over from `place`, and until when
    shunned: dict[str, float] = field(default_factory=dict)

    @property
    def stands(self) -> bool:
        """Whether it waits for an agent."""
        return bool(self.waiting) and self.holder is None

    def packed(self, now: float) -> Luggage:
        """State for the agent that takes it now."""
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
        """Let URLs wait, behind all others or before them."""
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
        """Note the agent that gets it next."""
        self.wished = agent

    def keep(self, seconds: float) -> None:
        """Reserve it for the next agent, for these seconds after it may be visited."""
        self.kept_until = self.ready_at + seconds

    def free(self, now: float, place: str = "", not_before: float = 0.0) -> None:
        """Release it; it may be visited again at `not_before`."""
        self.holder, self.epoch, self.place = None, 0, place
        self.not_before = max(self.not_before, not_before)
        self.ready_at = max(now, self.not_before)

    def shun(self, agents: Mapping[str, float], now: float) -> None:
        if agents:
            self.shunned = {agent: now + seconds for agent, seconds in agents.items()}

    def shuns(self, agent: str, now: float) -> bool:
        return now < self.shunned.get(agent, 0.0)

    def without(self, field: str) -> bool:
        """Drop a damaged value; returns whether there was one."""
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
        """Place it at that agent, or at none ("")."""
        self.place = place


@dataclass(slots=True)
class UrlLease:
    """URLs that an agent owes under an epoch; it may have given the host back since."""

    host: Host
    by: Name
    owed: dict[int, bytes] = field(default_factory=dict)

    def settle(self, keys: Iterable[int]) -> list[int]:
        """Remove URLs; returns those that were owed."""
        return [key for key in keys if self.owed.pop(key, None) is not None]


@dataclass(slots=True)
class AgentRecord:
    """The newest start of an agent."""

    incarnation: int
    seen_at: float
    deadline: float
    advert: bytes = b""
    draining: bool = False
    heard: bool = False  # it was told to drain
    counts: bool = True  # False once it is fenced, or has left
    pages: int = 0  # reserved for it

    def extend(self, now: float, lease: float) -> None:
        self.seen_at, self.deadline = now, max(self.deadline, now + lease)

    def tell(self, advert: bytes) -> None:
        self.advert = advert

    def drain(self) -> None:
        self.draining = True

    def hear(self) -> bool:
        """Whether it should drain; notes that it was told."""
        self.heard = self.draining
        return self.draining

    def fall(self) -> None:
        self.counts, self.pages = False, 0

    def reserve(self, pages: int) -> None:
        """Set the number of pages that it may have in flight or unacknowledged."""
        self.pages = max(0, pages)

    def book(self, pages: int) -> None:
        """Take acknowledged pages off its reservation."""
        self.reserve(self.pages - pages)


@dataclass(slots=True)
class AddressRecord:
    """Holder of an address, and when it may be visited again."""

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
    """Acknowledged batch of one agent: the URLs, which of them counted, and the kind of each."""

    urls: bytes
    counted: tuple[bool, ...]
    kinds: tuple[str, ...]


class SignsHeard:
    """The last heartbeat of each agent; `heard in signs` is true if that one or a later one was received."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}  # start and number

    def __contains__(self, heard: Heard) -> bool:
        return self._last.get(heard.agent, (0, 0)) >= (heard.incarnation, heard.number)

    def hear(self, name: Name, number: int) -> None:
        self._last[name.agent] = max(self._last.get(name.agent, (0, 0)), (name.incarnation, number))


def whose_turn(names: Sequence[str], after: str, most: int = TOLD) -> Sequence[str]:
    """Next names of a sorted list to report, at most `most`, starting over at the end.

    >>> ["".join(whose_turn("abcdf", after, most=3)) for after in ("", "c", "e", "z")]
    ['abc', 'dfa', 'fab', 'abc']
    """
    if len(names) <= most:
        return names
    first = bisect_right(names, after)
    return [*names[first : first + most], *names[: max(0, first + most - len(names))]]
