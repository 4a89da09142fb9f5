"""Who visits a host next, asked after each visit, from what this agent has learned and heard.

The rule is one of `policy/balance`. What it learns of a host travels with that; what it knows of
the agents they advertise. Round trips are given to it in units of fifty milliseconds, which makes those
of the web about as large as the ones that the rules were tried on.
"""

from __future__ import annotations

from collections.abc import Collection

from fieldmouse.policy.balance.balancer import AgentTable, Balancer
from fieldmouse.url import Host

UNIT = 0.05
"""Seconds."""


class Chooser:
    """One for an agent. Asking twice about one visit gives one answer.

    Invariant: it remembers hosts that were brought and not forgotten, and no others.
    """

    def __init__(self, balancer: Balancer):
        self._balancer = balancer
        self._me = ""
        self.table = AgentTable.of([])
        self._here = -1
        self._robots = 1
        self._learned: dict[Host, bytes] = {}
        self._trips: dict[Host, list[float]] = {}
        self._queued: dict[Host, float] = {}
        self._places: dict[Host, str] = {}

    def call(self, me: str) -> None:
        """The name of this agent."""
        self._me = me

    def meet(self, table: AgentTable, told: Collection[str]) -> None:
        """Agents have told how they stand: those that are in `told`, the others some time before."""
        table.carry_over(self.table, told)
        self.table = table
        self._here = table.names.index(self._me) if self._me in table.names else -1

    def brought(self, host: Host, learned: bytes) -> None:
        """A host came with this."""
        self._learned[host] = learned
        self._places.pop(host, None)

    def __contains__(self, host: object) -> bool:
        """Whether anything is remembered of it."""
        return any(host in known for known in (self._learned, self._trips, self._queued, self._places))

    def learned(self, host: Host) -> bytes:
        return self._learned.get(host, b"")

    def forget(self, host: Host) -> None:
        """It left."""
        self._learned.pop(host, None)
        self._trips.pop(host, None)
        self._queued.pop(host, None)
        self._places.pop(host, None)

    def queued(self, host: Host, seconds: float) -> None:
        """So long it was ready to be visited, and no robot came."""
        if host in self._learned:
            self._queued[host] = seconds

    def took(self, host: Host, seconds: float) -> None:
        """A request was answered after so long; perhaps one to a host that others have."""
        if host in self._learned:
            self._trips.setdefault(host, []).append(seconds)

    def prefers(self, host: Host, agent: str) -> None:
        """It lives at an address that this agent has."""
        if agent != self._me and host in self._learned:
            self._places[host] = agent

    def stays(self, host: Host, visits: int, shunned: Collection[str] = ()) -> bool:
        """Whether we visit it the next time, too. Nobody who is `shunned` does."""
        if self._places.get(host, self._me) != self._me:
            return False
        trips = self._trips.pop(host, None)
        if not trips or not visits:
            return True
        queued = self._queued.pop(host, 0.0) / UNIT
        row = self._learned.get(host, b"")
        for trip in trips:
            row = self._balancer.observe(row, self._me, trip / UNIT, queued)
        self._learned[host] = row
        if len(self.table.names) < 2:
            return True
        if self._here >= 0:
            self.table.hosts[self._here] = float(len(self._learned))
        place = self._balancer.choose(host, row, self._here, self.table)
        if place < 0 or place == self._here or self.table.names[place] in shunned:
            self._places[host] = self._me
            return True
        self.table.send(place, self._balancer.pace_of(self._me).pace / self._robots)
        self._places[host] = self.table.names[place]
        return False

    def place_of(self, host: Host, shunned: Collection[str] = (), *, idle: bool = False) -> str:
        """Who should visit a host that we let go; "" for anybody, but for one that somebody is to shun.

        If it goes only since there is nothing to do (`idle`), that may be ourselves: a host that is near to
        us should not be far from whoever is first when somebody finds a link to it.
        """
        place = self._places.get(host, "")
        if place not in ("", self._me):
            return place
        ours = bool(shunned) or (idle and bool(place))
        return self._me if ours and self._me not in shunned else ""

    def place_new(self, host: Host) -> str:
        """Who should visit a host that nobody has met: whoever has time, but for the rule that hashes."""
        place = self._balancer.choose(host, b"", -1, self.table) if self._decides_first else -1
        return self.table.names[place] if place >= 0 else ""

    @property
    def _decides_first(self) -> bool:
        return type(self._balancer).__name__ == "HashBalancer"

    def backlog(self, due: int, robots: int, behind: float = 0.0) -> float:
        """What we advertise next: units of time that `due` hosts mean to so many robots, smoothed.

        The workers take a page that comes now after `behind` seconds.
        """
        self._robots = max(1, robots)
        return self._balancer.pace_of(self._me).advertise(max(0, due), self._robots, behind / UNIT)

    @property
    def speed(self) -> float:
        return self._balancer.pace_of(self._me).speed

    def price(self) -> float:
        """What we advertise next as ours."""
        return self.table.repriced(self._here) if self._here >= 0 else 0.0
