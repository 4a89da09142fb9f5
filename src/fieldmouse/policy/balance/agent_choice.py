"""Balancers of a live agent: choose the next agent for a host and learn from each visit. Their data travels with the
host.

A host carries a row of bytes, empty at first, with the data the rule has learned; the visiting agent
updates the row (`observe`) and passes it on. Agents are known only by a small table of their adverts. The
decisions equal those of the lab's simulation on the same numbers.

Agents are identified by name, since they join and leave. An agent that never visited the host has no
entry; its belief depends only on the number of visits by others, each of which makes it less certain.

Visits to a well-known host take as long as expected; if visit after visit takes longer, the agent has
become slow. It advertises this (`speed`), and hosts leave before each of them has measured it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import exp, log

import msgspec
from numpy.random import Generator
from xxhash import xxh3_64_intdigest

from fieldmouse.errors import UsageError
from fieldmouse.policy.balance import baselines, priced
from fieldmouse.policy.balance.kalman import THESIS_PARAMETERS, KalmanParameters, kalman_update, sample_least
from fieldmouse.policy.balance.trip_prior import PRIOR_SIZE, best_unvisited, expected_trip, mean_log_trip, update_prior

#: Maximum number of agents in a row: agents that come and go for years must not fill it.
MOST_AGENTS = 128


class HostDelayEstimates(msgspec.Struct, array_like=True):
    """Learned mean and variance for each agent that visited a host.

    >>> row = HostDelayEstimates("trips")
    >>> row.learn_visit("east", 0.5, observation=4.0, transition=0.01, mean=0.1, variance=1e6)
    >>> HostDelayEstimates.from_row(row.to_row(), "trips") == row
    True
    >>> round(row.mean[0], 3)
    0.5
    """

    kind: str  # learned quantity; a rule ignores rows of another kind
    visits: int = 0
    usual: float = 0.0  # the host's usual round trip in seconds; 0: unknown
    agents: list[str] = []
    mean: list[float] = []
    variance: list[float] = []
    probed: bool = False  # whether the last visit was its agent's first
    last: str = ""  # ipmicra: last visitor
    complaints: int = 0  # ipmicra: slow visits since the host was last offered to all

    def to_row(self) -> bytes:
        return _ENCODER.encode(self)

    @classmethod
    def from_row(cls, row: bytes, kind: str) -> HostDelayEstimates:
        """Decode a row; empty if there are no bytes, or if another rule wrote them.

        The data can be learned again, so an unreadable row is no error.
        """
        try:
            told = _DECODER.decode(row)
        except (msgspec.MsgspecError, ValueError):  # bytes that are no UTF-8 are a `ValueError`
            return cls(kind)
        whole = len(told.agents) == len(told.mean) == len(told.variance)
        return told if told.kind == kind and whole and told.visits >= 0 else cls(kind)

    def beliefs(
        self, agents: Sequence[str], *, mean: float, variance: float, transition: float
    ) -> tuple[list[float], list[float]]:
        """Mean and variance for each of these agents; `mean` and `variance` are the initial belief."""
        places = dict(zip(self.agents, range(len(self.agents)), strict=True))
        unmet = variance + self.visits * transition
        means, variances = [], []
        for name in agents:
            place = places.get(name)
            means.append(mean if place is None else self.mean[place])
            variances.append(unmet if place is None else self.variance[place])
        return means, variances

    def update_usual_trip(self, trip: float) -> None:
        """Update the usual round trip; call it before `learn` for the same visit."""
        self.usual = priced.usual_trip_after(self.usual, self.visits + 1, trip)

    def learn_visit(
        self, agent: str, value: float, *, observation: float, transition: float, mean: float, variance: float
    ) -> None:
        """Add a visit by `agent` that measured `value`; `mean` and `variance` are the initial belief."""
        self.probed = agent not in self.agents
        if self.probed:
            self.agents.append(agent)
            self.mean.append(mean)
            self.variance.append(variance + self.visits * transition)
        place = self.agents.index(agent)
        kalman_update(self.mean, self.variance, place, value, observation, transition)
        self.visits += 1
        if len(self.agents) > MOST_AGENTS:
            self._delete_agent(self.variance.index(max(self.variance)))

    def update_slow_visit_count(self, agent: str, too_long: bool, patience: int) -> None:
        """Count a complaint; start again after the host was offered to all, which is after `patience` of
        them."""
        if self.last != agent or self.complaints >= patience:
            self.last, self.complaints = agent, 0
        self.complaints += too_long

    def _delete_agent(self, place: int) -> None:
        for column in (self.agents, self.mean, self.variance):
            del column[place]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(HostDelayEstimates)

#: Weight of one visit.
SMOOTH = 0.05
#: Factor of the log speed after a visit that took as long as expected.
RETURN = 0.99
#: Weight of the present backlog in the advert.
ADVERT = 0.3


def speed_after(speed: float, took: float, expected: float, least: float) -> float:
    """Factor by which the agent's trips take longer than expected, after a trip of `took` seconds.

    `expected` is the time at normal speed, and `least` the shortest possible trip.

    Trips are learned divided by the speed, and the speed from trips: only the return to 1 keeps both from
    drifting together. A permanent slowness becomes part of the distance of the hosts.
    """
    ratio = min(max(took / max(expected * speed, least), 0.1), 10.0)
    return min(max(exp(RETURN * (log(speed) + SMOOTH * log(ratio))), 0.05), 50.0)


def visit_time_after(pace: float, seconds: float) -> float:
    """Mean time of a visit, after one of `seconds`."""
    return pace + SMOOTH * (seconds - pace)


def advert_after(told: float, backlog: float) -> float:
    """Backlog to advertise next, after `told`; both in seconds."""
    return told + ADVERT * (backlog - told)


class AgentLoadTracker:
    """Speed, visit time and backlog of one agent, for its adverts."""

    def __init__(self) -> None:
        self.speed = 1.0  # factor by which trips take longer than expected
        self.visit_time = 1.0  # seconds of a visit
        self.advertised = 0.0  # seconds of backlog in the last advert

    def record_visit(self, seconds: float) -> None:
        """Record a visit."""
        self.visit_time = visit_time_after(self.visit_time, seconds)

    def update_speed(self, seconds: float, expected: float, least: float) -> None:
        """Record a visit to a well-known host; see `speed_after`."""
        self.speed = speed_after(self.speed, seconds, expected, least)

    def next_advert(self, waiting: float, at_once: float = 1.0, behind: float = 0.0) -> float:
        """Backlog to advertise: smoothed seconds until a host that arrives now would be visited.

        `waiting` hosts would be visited before it, `at_once` in parallel. If its page would wait longer
        for the workers, `behind` seconds, that counts instead.

        >>> pace = AgentLoadTracker()
        >>> [round(pace.next_advert(12, at_once=4), 2) for _ in range(3)]
        [0.9, 1.53, 1.97]
        """
        self.advertised = advert_after(self.advertised, max(waiting * self.visit_time / at_once, behind))
        return self.advertised


#: Variance of an unknown value: the first visit determines the mean.
_ANY = 1e6


@dataclass(slots=True)
class AgentTable:
    """Latest adverts of the agents, one entry each; a sent host counts at once (`record_sent_host`)."""

    names: list[str]
    backlog: list[float]  # seconds of waiting work
    speed: list[float]  # factor by which trips now take longer than expected; 1 is normal
    price: list[float]  # logarithm
    alive: list[bool]
    hosts: list[float] = field(default_factory=list)  # hosts it holds; negative if unknown
    load: list[float] = field(default_factory=list)  # utilisation of its scarcest resource, 0 to 1

    def __post_init__(self) -> None:
        self.hosts = self.hosts or [-1.0] * len(self.names)
        self.load = self.load or [0.0] * len(self.names)

    @classmethod
    def from_names(cls, names: Sequence[str]) -> AgentTable:
        """Table of live agents about which nothing else is known."""
        many = len(names)
        return cls(list(names), [0.0] * many, [1.0] * many, [0.0] * many, [True] * many)

    def record_sent_host(self, agent: int, seconds: float) -> None:
        """Add a host sent to an agent, whose visit will take `seconds`, to the agent's backlog.

        Other agents that hold more hosts send it some at the same time, unknown to us until its next
        advert. So our host counts once for each of them.
        """
        self.backlog[agent] += seconds
        held = self.hosts[agent]
        if held >= 0.0:
            self.hosts[agent] += max(
                1, sum(lives and hosts > held for hosts, lives in zip(self.hosts, self.alive, strict=True))
            )

    def fair_share_prices(
        self, places: Sequence[int], sharing: priced.SharePriceParameters = priced.SHARING
    ) -> list[float]:
        """Share prices of the agents in `places`; 0 for all others and for agents with an unknown number of
        hosts."""
        few, busy, fuller = sharing.few, sharing.busy, sharing.fuller
        total, count = 0.0, 0
        for hosts, load, lives in zip(self.hosts, self.load, self.alive, strict=True):
            if lives and hosts >= 0.0:
                total += priced.apparent_host_count(hosts, load, few, busy, fuller)
                count += 1
        prices = [0.0] * len(self.names)
        for agent in places:
            if count and self.hosts[agent] >= 0.0:
                full = priced.apparent_host_count(self.hosts[agent], self.load[agent], few, busy, fuller)
                prices[agent] = priced.share_price(full, total / count, sharing.most, sharing.even, sharing.slope)
        return prices

    def keep_unconfirmed(self, before: AgentTable, told: Collection[str]) -> None:
        """Keep the effect of sent hosts for agents without a new advert; `told` are those with one.

        >>> table = AgentTable.from_names(["east", "west"])
        >>> table.record_sent_host(0, 5.0); table.record_sent_host(1, 5.0)
        >>> newer = AgentTable.from_names(["east", "north", "west"])
        >>> newer.keep_unconfirmed(table, told={"north", "west"})
        >>> newer.backlog
        [5.0, 0.0, 0.0]
        """
        places = {name: place for place, name in enumerate(before.names)}
        for place, name in enumerate(self.names):
            if name not in told and name in places:
                self.backlog[place] = before.backlog[places[name]]
                self.hosts[place] = before.hosts[places[name]]

    def next_price(self, agent: int, step: float = priced.PRICING.step) -> float:
        """Price that an agent advertises next, once every `PricingParameters.advert` seconds.

        It rises while the agent's backlog is above the mean. A new agent starts at 0, which is the mean.
        """
        prices = list(self.price)
        priced.update_prices(prices, self.backlog, self.alive, step)
        return prices[agent]


class Balancer(ABC):
    """Rule that chooses the agent for the next visit of a host."""

    def __init__(self, rng: Generator):
        self._rng = rng
        self._loads: dict[str, AgentLoadTracker] = {}

    @abstractmethod
    def choose(self, host: str, row: bytes, here: int, agents: AgentTable) -> int:
        """Place in `agents` of the next visitor of `host`; -1 if no agent is alive.

        `here` is the place of the agent that visited the host last and still holds it, -1 if there is
        none.
        """

    def record_visit(self, row: bytes, agent: str, round_trip: float, queue_time: float) -> bytes:
        """Row after a visit by that agent, which took `round_trip` seconds after waiting `queue_time`."""
        self.load_of(agent).record_visit(round_trip)
        return row

    def load_of(self, agent: str) -> AgentLoadTracker:
        """Speed and visit time of an agent, from the observed visits."""
        return self._loads.setdefault(agent, AgentLoadTracker())


class HashBalancer(Balancer):
    """Consistent hashing (`HashRing`); nothing is learned about a host."""

    def __init__(self, rng: Generator):
        super().__init__(rng)
        self._ring, self._ring_agents = baselines.HashRing([]), frozenset[str]()

    def choose(self, host: str, row: bytes, here: int, agents: AgentTable) -> int:
        living = frozenset(name for name, lives in zip(agents.names, agents.alive, strict=True) if lives)
        if not living:
            return -1
        if living != self._ring_agents:
            self._ring, self._ring_agents = baselines.HashRing(living), living
        return agents.names.index(self._ring.owner(host))


class KalmanBalancer(Balancer):
    """The thesis's rule (`kalman`): round trip and queue time are learned as a sum."""

    def __init__(self, rng: Generator, filtering: KalmanParameters = THESIS_PARAMETERS):
        super().__init__(rng)
        self._observation = filtering.observation
        self._belief = {name: getattr(filtering, name) for name in ("mean", "variance", "transition")}

    def choose(self, host: str, row: bytes, here: int, agents: AgentTable) -> int:
        known = HostDelayEstimates.from_row(row, "delays")
        mean, variance = known.beliefs(agents.names, **self._belief)
        normals = self._rng.standard_normal(len(mean)).tolist()
        return sample_least(mean, variance, agents.alive, normals)

    def record_visit(self, row: bytes, agent: str, round_trip: float, queue_time: float) -> bytes:
        super().record_visit(row, agent, round_trip, queue_time)
        known = HostDelayEstimates.from_row(row, "delays")
        known.learn_visit(agent, queue_time + round_trip, observation=self._observation, **self._belief)
        return known.to_row()


class RoundTripLearner(Balancer):
    """Base of the rules that learn round trips separately from queue times."""

    def __init__(self, rng: Generator, pricing: priced.PricingParameters = priced.PRICING):
        super().__init__(rng)
        self._pricing = pricing
        self._outlooks: dict[str, list[float]] = {}

    def beliefs(
        self, known: HostDelayEstimates, agents: Sequence[str], unmet: float | None = None
    ) -> tuple[list[float], list[float]]:
        """Means in seconds and relative variances; unknown agents get the host's usual trip, or `unmet`."""
        pricing = self._pricing
        return known.beliefs(
            agents, mean=known.usual if unmet is None else unmet, variance=_ANY, transition=pricing.transition
        )

    def first_visit_regression(self, agent: str) -> list[float]:
        """Regression data of an agent's first visits to hosts known to others (`outlook`)."""
        return self._outlooks.setdefault(agent, [0.0] * PRIOR_SIZE)

    def record_visit(self, row: bytes, agent: str, round_trip: float, queue_time: float) -> bytes:
        known, pricing, pace = HostDelayEstimates.from_row(row, "trips"), self._pricing, self.load_of(agent)
        round_trip = max(round_trip, priced.MIN_TRIP)  # trips of 0 s would look like ever faster ones
        (expected,), (variance,) = self.beliefs(known, (agent,))
        # the agent knows the host: a longer trip shows that the agent is slow
        if variance < pricing.observation * priced.WELL_KNOWN:
            pace.update_speed(round_trip, expected, pricing.least * expected)
        trip = max(round_trip / pace.speed, priced.MIN_TRIP)
        if known.agents and agent not in known.agents:
            update_prior(self.first_visit_regression(agent), mean_log_trip(known.mean)[0], log(trip))
        known.update_usual_trip(trip)
        noise = {"observation": pricing.observation, "transition": pricing.transition}
        known.learn_visit(agent, trip, **noise, mean=trip, variance=_ANY)
        super().record_visit(row, agent, round_trip, queue_time)
        self._learn_more_from_visit(known, agent, round_trip)
        return known.to_row()

    def _learn_more_from_visit(self, known: HostDelayEstimates, agent: str, round_trip: float) -> None:
        """Hook for further data that a rule keeps about a visit."""


class ShortestDelayBalancer(RoundTripLearner):
    """Least sum of backlog and expected trip (`shortest_delay`)."""

    def choose(self, host: str, row: bytes, here: int, agents: AgentTable) -> int:
        mean, _ = self.beliefs(HostDelayEstimates.from_row(row, "trips"), agents.names)
        return baselines.shortest_delay(mean, agents.backlog, agents.speed, agents.alive)


class TwoChoicesBalancer(RoundTripLearner):
    """The better of two random agents (`better_of_two`)."""

    def choose(self, host: str, row: bytes, here: int, agents: AgentTable) -> int:
        if not any(agents.alive):
            return -1
        many, lot = len(agents.names), self._rng.random
        first, second = int(lot() * many), int(lot() * many)
        while not agents.alive[first]:
            first = int(lot() * many)
        mean, _ = self.beliefs(HostDelayEstimates.from_row(row, "trips"), agents.names)
        return baselines.better_of_two(mean, agents.backlog, agents.speed, agents.alive, first, second)


class PricedBalancer(RoundTripLearner):
    """Round trips times the agents' prices (`priced`): the default."""

    def choose(self, host: str, row: bytes, here: int, agents: AgentTable) -> int:
        pricing = self._pricing
        known = HostDelayEstimates.from_row(row, "trips")
        mean, variance = self.beliefs(known, agents.names, unmet=-1.0)
        at_home = here >= 0 and agents.alive[here] and variance[here] < pricing.observation * priced.WELL_KNOWN
        if at_home and self._rng.random() < pricing.sticky:
            return here
        places = self._agents_to_compare(here, agents)
        outlook = self.first_visit_regression(agents.names[here]) if here >= 0 else [0.0] * PRIOR_SIZE
        usual, tried = mean_log_trip(known.mean)
        unmet, spread = expected_trip(outlook, usual, pricing.variance)
        agent_data = agents.backlog, agents.speed, agents.price, agents.fair_share_prices(places), agents.alive
        candidates = places, len(places), self._rng.standard_normal(len(places)).tolist()
        moves = here, pricing.loyal, pricing.heed
        best = priced.cheapest_agent(mean, variance, *agent_data, *candidates, pricing.least, *moves, pricing.short)
        visits = (known.visits + pricing.more) / max(1, tried)
        return best_unvisited(best, mean, *agent_data, *candidates, *moves, unmet, spread, visits)

    def _agents_to_compare(self, here: int, agents: AgentTable) -> Sequence[int]:
        """Agents to compare: all if they are few, else the present holder and some random ones."""
        many, most = len(agents.names), self._pricing.others + 1
        if many <= most or not any(agents.alive):
            return range(many)
        places = [here] if here >= 0 and agents.alive[here] else []
        while len(places) < most:
            other = int(self._rng.random() * many)
            if agents.alive[other]:
                places.append(other)
        return places


class IpMicraBalancer(RoundTripLearner):
    """IPMicra (`assign_subnet`), with visits as probes, and each host as its own subnet.

    A host without an agent near enough is visited by one agent after another; then it belongs to the
    nearest until enough of its visits took too long.
    """

    def __init__(
        self,
        rng: Generator,
        pricing: priced.PricingParameters = priced.PRICING,
        patience: baselines.IpMicraParameters = baselines.IPMICRA_PARAMETERS,
    ):
        super().__init__(rng, pricing)
        self._patience = patience

    def choose(self, host: str, row: bytes, here: int, agents: AgentTable) -> int:
        known = HostDelayEstimates.from_row(row, "trips")
        mean, _ = self.beliefs(known, agents.names)
        has_it = here >= 0 and agents.alive[here] and agents.names[here] == known.last
        took_it = has_it and (mean[here] < self._patience.threshold or not known.probed)
        if took_it and known.complaints < self._patience.complaints:
            return here
        places = range(len(agents.names))
        strangers = [at for at in places if agents.alive[at] and agents.names[at] not in known.agents]
        if strangers:
            return strangers[int(xxh3_64_intdigest(host.encode())) % len(strangers)]
        return baselines.assign_subnet(0, (0,), (-1,), mean, agents.alive, self._patience.threshold, False)

    def _learn_more_from_visit(self, known: HostDelayEstimates, agent: str, round_trip: float) -> None:
        known.update_slow_visit_count(agent, round_trip > self._patience.threshold, self._patience.complaints)


#: Balancers by the name used in settings.
BALANCERS: dict[str, Callable[[Generator], Balancer]] = {
    "kalman": KalmanBalancer,
    "hash": HashBalancer,
    "ipmicra": IpMicraBalancer,
    "shortest-delay": ShortestDelayBalancer,
    "two-choices": TwoChoicesBalancer,
    "priced": PricedBalancer,
}


def find_balancer(name: str) -> Callable[[Generator], Balancer]:
    """Factory of the balancer with this name; it takes a random generator.

    >>> find_balancer("hash") is HashBalancer
    True
    """
    if name not in BALANCERS:
        raise UsageError(f"there is no balancer `{name}`", f"it is one of {', '.join(BALANCERS)}")
    return BALANCERS[name]
