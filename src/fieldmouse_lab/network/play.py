"""One run of a simulated network, from the assignment of hosts to its figures, and means over many webs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.random import default_rng

from fieldmouse.policy.balance.baselines import IPMICRA_PARAMETERS, HashRing
from fieldmouse.policy.balance.kalman import THESIS_PARAMETERS, Flags, Reals
from fieldmouse.policy.balance.priced import SHARING, PricingParameters, SharePriceParameters
from fieldmouse.policy.balance.trip_prior import PRIOR_SIZE
from fieldmouse_lab.network import environment
from fieldmouse_lab.network.environment import BalanceRule, Ints, Measured, NetworkTables, SimulatedWeb
from fieldmouse_lab.network.kernel import advance, assign_hosts, reassign_hosts

#: Seconds at which a shock starts and ends.
FROM, TO = 20_000.0, 40_000.0
SLOWER = 5.0
#: The agent that a shock hits: the fourth.
SHOCKED_AGENT = 3
LEASE = 15.0

RULES = {
    "kalman": BalanceRule.KALMAN,
    "hash": BalanceRule.RING,
    "ipmicra": BalanceRule.NEARNESS,
    "shortest-delay": BalanceRule.SHORTEST,
    "two-choices": BalanceRule.TWO,
    "priced": BalanceRule.PRICED,
}


class Shock(StrEnum):
    """Disturbance of the network during a run."""

    NONE = "none"
    SLOW = "slow"
    DIE = "die"
    JOIN = "join"
    DRIFT = "drift"


@dataclass(frozen=True, slots=True)
class NetworkSetting:
    """Parameters of a run, except for its seed."""

    policy: str = "priced"
    times: int = 1  # copies of the thesis's hosts: 1 is Small, 10 is Large
    agents: int = 4
    reading: environment.TripReading = environment.TripReading.LITERAL
    seconds: float = 150_000.0
    shock: Shock = Shock.NONE
    sigma_tr: float = 0.1  # of the thesis's filters, as standard deviations
    sigma_ob: float = 2.0
    transfer: float = 0.0
    delay: float = 0.0
    pricing: PricingParameters = field(default_factory=PricingParameters)
    sharing: SharePriceParameters = SHARING
    complaints: int = 0  # number after which IPMicra reassigns a subnet; 0: as in the thesis
    work: float | None = None  # seconds of an agent's work per visit; None: as in the reading

    @property
    def span(self) -> tuple[float, float]:
        """Measured span: the duration of the shock, otherwise the last half."""
        if self.shock in (Shock.SLOW, Shock.DIE):
            return FROM, min(TO, self.seconds)
        if self.shock is Shock.JOIN:
            return FROM, self.seconds
        return self.seconds / 2, self.seconds


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """Results of a run over the measured span."""

    throughput: float  # visits per second
    harmonic_throughput: float  # hosts over the mean time between two visits of a host
    limit: float
    fairness: float  # mean over time of the standard deviation of process times, in seconds
    jain: float  # of the agents' mean process times: 1 is equal
    exchanges: int
    moves_per_task: float

    @property
    def fraction_of_limit(self) -> float:
        return self.harmonic_throughput / self.limit


def play_network(setting: NetworkSetting, seed: int) -> NetworkFigures:
    """Play one run. The same seed gives the same web to every policy."""
    game = NetworkGame(setting, web_of_seed(setting, seed), seed)
    start, end = setting.span
    game.advance(start, measuring=False)
    game.apply_shock()
    game.advance(end, measuring=True)
    return game.figures()


def web_of_seed(setting: NetworkSetting, seed: int) -> SimulatedWeb:
    """The web of a seed."""
    agents = setting.agents + (setting.shock is Shock.JOIN)
    ground = environment.make_web(default_rng([seed, 1]), times=setting.times, agents=agents, reading=setting.reading)
    return replace(ground, overhead=_work(setting))


class NetworkGame:
    """State of a simulated network."""

    def __init__(self, setting: NetworkSetting, ground: SimulatedWeb, seed: int):
        self._setting, self._web, self._rng = setting, ground, default_rng([seed, 2])
        self._knobs, self.tables = _knobs(setting), _tables(setting, ground)
        assign_hosts(self._rng, self.tables, self._knobs)

    def advance(self, until: float, *, measuring: bool) -> None:
        advance(self._rng, self.tables, self._knobs, until, measuring)

    def apply_shock(self) -> None:
        """Let the agent become slow or die, or a new one join; a drift has already begun."""
        tables, shock = self.tables, self._setting.shock
        if shock is Shock.SLOW:
            tables.slow[SHOCKED_AGENT] = SLOWER
        elif shock is Shock.DIE:
            tables.alive[SHOCKED_AGENT] = False
            tables.owner[:] = _owners(tables.alive, len(tables.owner))
            # Its current visit is lost; the rest waits until its lease expires.
            tables.until[SHOCKED_AGENT] = np.inf
            self.advance(FROM + LEASE, measuring=True)
            reassign_hosts(self._rng, tables, self._knobs, SHOCKED_AGENT)
        elif shock is Shock.JOIN:
            tables.alive[-1] = True
            tables.owner[:] = _owners(tables.alive, len(tables.owner))

    def figures(self) -> NetworkFigures:
        tables, measured = self.tables, self.tables.measured
        span = measured[Measured.SPAN]
        visits = np.maximum(tables.visits, 0.5)  # the cycle of an unvisited host is longer than the span
        # Mean cost of a visit in the span: the limit is that of the system under shock.
        service = self._web.trip * tables.slow + self._web.overhead
        mean = tables.worked[tables.alive] / np.maximum(tables.served[tables.alive], 1)
        return NetworkFigures(
            throughput=float(measured[Measured.VISITS] / span),
            harmonic_throughput=float(len(visits) / (span / visits).mean()),
            limit=environment.throughput_limit(np.ascontiguousarray(service[:, tables.alive])),
            fairness=float(measured[Measured.UNFAIR] / span),
            jain=float(mean.sum() ** 2 / (len(mean) * (mean**2).sum())) if mean.any() else 1.0,
            exchanges=int(measured[Measured.EXCHANGES]),
            moves_per_task=float(measured[Measured.EXCHANGES] / max(1.0, measured[Measured.VISITS])),
        )


def _work(setting: NetworkSetting) -> float:
    return environment.OVERHEAD[setting.reading] if setting.work is None else setting.work


def _knobs(setting: NetworkSetting) -> environment.KernelParameters:
    thesis, pricing = setting.policy == "kalman", setting.pricing
    same = {name: getattr(pricing, name) for name in "sticky step least short loyal others more".split()}
    return environment.KernelParameters(
        rule=int(RULES[setting.policy]),
        overhead=_work(setting),
        observation=setting.sigma_ob**2 if thesis else pricing.observation,
        transition=setting.sigma_tr**2 if thesis else pricing.transition,
        advert=pricing.agent_status,
        price_weight=pricing.heed,
        unmet=pricing.variance,
        threshold=IPMICRA_PARAMETERS.threshold,
        patience=setting.complaints or (IPMICRA_PARAMETERS.complaints if setting.times == 1 else 25),
        lease=LEASE,
        transfer=setting.transfer,
        delay=setting.delay,
        drift=1.0 if setting.shock is Shock.DRIFT else 0.0,
        memory=5000.0,
        **same,
        **{f"share_{name}": value for name, value in asdict(setting.sharing).items()},
    )


def _tables(setting: NetworkSetting, ground: SimulatedWeb) -> NetworkTables:
    hosts, agents = ground.trip.shape
    thesis, pricing = setting.policy == "kalman", setting.pricing
    alive = np.ones(agents, np.bool_)
    if setting.shock is Shock.JOIN:
        alive[-1] = False
    believed = (THESIS_PARAMETERS.mean, THESIS_PARAMETERS.variance) if thesis else (-1.0, 1e6)
    measured = np.zeros(len(Measured))
    measured[Measured.ADVERT_AT] = pricing.agent_status
    leaves = environment.LEAVES
    # Arrays that start at 0: whole numbers and reals by host, then by agent.
    zeros: dict[str, Any] = {name: np.zeros(hosts, np.int64) for name in ("learned", "at", "visits")}
    zeros |= {name: np.zeros(hosts) for name in ("usual", "stamp")}
    zeros |= {name: np.zeros(agents, np.int64) for name in ("head", "length", "served", "places")}
    by_agent = "took process told backlog price hosts load worked expected drawn share"
    zeros |= {name: np.zeros(agents) for name in by_agent.split()}
    return NetworkTables(
        trip=ground.trip,
        spread=ground.spread,
        subnet=ground.subnet,
        owner=_owners(alive, hosts),
        region=np.arange(leaves, dtype=np.int64) * environment.REGIONS // leaves,
        keeper=np.full(leaves, -1, np.int64),
        complaints=np.zeros(leaves, np.int64),
        wander=np.zeros((hosts, agents)),
        mean=np.full((hosts, agents), believed[0]),
        variance=np.full((hosts, agents), believed[1]),
        ready=np.zeros(hosts + 1),
        waiting=np.zeros(hosts + 1, np.int64),
        queue=np.zeros((agents, hosts), np.int64),
        serving=np.full(agents, -1, np.int64),
        until=np.full(agents, np.inf),
        slow=np.ones(agents),
        alive=alive,
        speed=np.ones(agents),
        outlook=np.zeros((agents + 1, PRIOR_SIZE)),
        pace=np.ones(agents),
        measured=measured,
        **zeros,
    )


def _owners(alive: Flags, hosts: int) -> Ints:
    ring = HashRing([str(agent) for agent in np.flatnonzero(alive)])
    return np.array([int(ring.owner(host)) for host in range(hosts)], np.int64)


PIECES = 150


@dataclass(frozen=True, slots=True, eq=False)
class NetworkCourse:
    """Runs on several webs (rows) in pieces of time (columns)."""

    ends: Reals  # end of each piece, in seconds
    visits: Reals  # per second
    unfair: Reals  # standard deviation of process times, seconds
    exchanges: Reals  # of whole runs

    @property
    def rate(self) -> Reals:
        """Visits per second over the last half of each run."""
        return np.asarray(self.visits[:, PIECES // 2 :].mean(axis=1))

    @property
    def fairness(self) -> Reals:
        """Fairness over the last half of each run."""
        return np.asarray(self.unfair[:, PIECES // 2 :].mean(axis=1))


def play_course(setting: NetworkSetting, seeds: Sequence[int]) -> NetworkCourse:
    """Play `setting` once for each seed."""
    ends = np.linspace(0.0, setting.seconds, PIECES + 1)[1:]
    measured = np.zeros((len(seeds), PIECES + 1, len(Measured)))
    for row, seed in enumerate(seeds):
        game = NetworkGame(setting, web_of_seed(setting, seed), seed)
        for piece, end in enumerate(ends, 1):
            game.advance(end, measuring=True)
            measured[row, piece] = game.tables.measured
    pieces = np.diff(measured, axis=1)
    return NetworkCourse(
        ends,
        pieces[:, :, Measured.VISITS] / pieces[:, :, Measured.SPAN],
        pieces[:, :, Measured.UNFAIR] / pieces[:, :, Measured.SPAN],
        measured[:, -1, Measured.EXCHANGES],
    )
