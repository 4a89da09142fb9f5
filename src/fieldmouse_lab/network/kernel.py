"""Compiled simulation of agents that serve hosts one at a time and choose each host's next visitor."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from fieldmouse.jit import jit_without_refcounts as compiled
from fieldmouse.policy.balance import agent_choice, baselines, kalman, priced, trip_prior
from fieldmouse.policy.balance.priced import MIN_TRIP, WELL_KNOWN
from fieldmouse_lab.network.environment import KernelParameters, NetworkTables

# `BalanceRule` and `Measured` as constants for the compiler
_KALMAN, _RING, _NEARNESS, _SHORTEST, _TWO, _PRICED = 0, 1, 2, 3, 4, 5
_NOW, _HEAP, _VISITS, _EXCHANGES, _UNFAIR, _SPAN, _ADVERT_AT, _DRIFT_AT = 0, 1, 2, 3, 4, 5, 6, 7
_SHORTEST_TRIP = 0.001
_DRIFT_EVERY = 100.0

# The rules are plain Python for live agents; here they are compiled.
shortest_delay, better_of_two = compiled(baselines.shortest_delay), compiled(baselines.better_of_two)
learn, least_drawn = compiled(kalman.kalman_update), compiled(kalman.sample_least)
cheapest, reprice = compiled(priced.cheapest_agent), compiled(priced.update_prices)
usual_after, advert_after = compiled(priced.usual_trip_after), compiled(agent_choice.advert_after)
speed_after, pace_after = compiled(agent_choice.speed_after), compiled(agent_choice.visit_time_after)
delegate = compiled(baselines.assign_subnet)
surprised, worthiest = compiled(trip_prior.update_prior), compiled(trip_prior.best_unvisited)
fullness, share_price = compiled(priced.apparent_host_count), compiled(priced.share_price)
expected_trip, usual_of_all = compiled(trip_prior.expected_trip), compiled(trip_prior.mean_log_trip)


@compiled
def advance(rng: Generator, t: NetworkTables, k: KernelParameters, until: float, measuring: bool) -> None:
    """Simulate until `until`; `measuring` includes the time in the measurements."""
    agents = len(t.until)
    while True:
        agent, at = -1, until
        for other in range(agents):
            if t.serving[other] >= 0 and t.until[other] < at:
                agent, at = other, t.until[other]
        kind = 0
        if t.measured[_HEAP] > 0 and t.ready[0] < at:
            kind, at = 1, t.ready[0]
        if t.measured[_ADVERT_AT] < at:
            kind, at = 2, t.measured[_ADVERT_AT]
        if k.drift > 0 and t.measured[_DRIFT_AT] < at:
            kind, at = 3, t.measured[_DRIFT_AT]
        if measuring:
            _measure(t, at - t.measured[_NOW])
        t.measured[_NOW] = at
        if kind == 0:
            if agent < 0:
                return
            _finish(rng, t, k, agent, at, measuring)
        elif kind == 1:
            host = _pop(t)
            _enqueue(rng, t, k, host, t.at[host], at)
        elif kind == 2:
            _advertise(t, k)
        else:
            _drift(rng, t, k)


@compiled
def _measure(t: NetworkTables, seconds: float) -> None:
    """Measure fairness as in the thesis: the spread of the process times of the current visits."""
    count, total, squares = 0, 0.0, 0.0
    for agent in range(len(t.until)):
        if t.alive[agent]:
            value = t.process[agent] if t.serving[agent] >= 0 else 0.0
            count += 1
            total += value
            squares += value * value
    mean = total / count
    t.measured[_UNFAIR] += np.sqrt(max(0.0, squares / count - mean * mean)) * seconds
    t.measured[_SPAN] += seconds


@compiled
def _finish(rng: Generator, t: NetworkTables, k: KernelParameters, agent: int, now: float, measuring: bool) -> None:
    host, process = t.serving[agent], t.process[agent]
    t.serving[agent] = -1
    if measuring:
        t.visits[host] += 1
        t.measured[_VISITS] += 1
        t.worked[agent] += process
        t.served[agent] += 1
    _note(t, k, host, agent)
    chosen = choose_agent(rng, t, k, host, agent)
    if measuring and chosen != agent:
        t.measured[_EXCHANGES] += 1
    t.hosts[agent] -= 1
    t.hosts[chosen] += 1
    t.at[host] = chosen
    wait = k.delay if chosen == agent else max(k.delay, k.transfer)
    if wait > 0.0:
        _push(t, now + wait, host)
    else:
        _enqueue(rng, t, k, host, chosen, now)
    if t.alive[agent] and t.serving[agent] < 0 and t.length[agent] > 0:
        _serve(rng, t, k, agent, now)


@compiled
def _note(t: NetworkTables, k: KernelParameters, host: int, agent: int) -> None:
    """Learn from a finished visit."""
    if k.rule == _KALMAN:
        learn(t.mean[host], t.variance[host], agent, t.process[agent], k.observation, k.transition)
        return
    took = t.took[agent] + k.overhead  # the measure is the time for which the agent is occupied
    # the host is well known, so a difference is due to our speed
    if t.variance[host, agent] < k.observation * WELL_KNOWN:
        expected = t.mean[host, agent]
        t.speed[agent] = speed_after(t.speed[agent], took, expected, k.least * expected)
    trip = max(took / t.speed[agent], MIN_TRIP)
    if t.mean[host, agent] < 0.0:  # first visit from this agent
        if t.learned[host] > 0:
            surprised(t.outlook[agent], usual_of_all(t.mean[host])[0], np.log(trip))
        t.mean[host, agent] = trip
    t.learned[host] += 1
    t.usual[host] = usual_after(t.usual[host], t.learned[host], trip)
    learn(t.mean[host], t.variance[host], agent, trip, k.observation, k.transition)
    t.pace[agent] = pace_after(t.pace[agent], took)


@compiled
def choose_agent(rng: Generator, t: NetworkTables, k: KernelParameters, host: int, here: int) -> int:
    """Choose the agent that visits `host` next; `here` is the agent that has it, or -1."""
    agents = len(t.until)
    mean, variance = t.mean[host], t.variance[host]
    if k.rule == _RING:
        return int(t.owner[host])
    if k.rule == _NEARNESS:
        subnet = t.subnet[host]
        if here >= 0 and t.took[here] > k.threshold:
            t.complaints[subnet] += 1
        keeper = t.keeper[subnet]
        if keeper < 0 or not t.alive[keeper] or t.complaints[subnet] >= k.patience:
            for agent in range(agents):  # a ping measures the distance, not the server's work
                t.drawn[agent] = t.trip[host, agent] * t.slow[agent] * np.exp(t.wander[host, agent])
            told = keeper < 0
            t.keeper[subnet] = delegate(subnet, t.region, t.keeper, t.drawn, t.alive, k.threshold, told)
            t.complaints[subnet] = 0
        return int(t.keeper[subnet])
    if k.rule != _KALMAN:
        for agent in range(agents):
            t.expected[agent] = mean[agent] if mean[agent] >= 0.0 else t.usual[host]
    if k.rule == _SHORTEST:
        return shortest_delay(t.expected, t.backlog, t.speed, t.alive)
    if k.rule == _TWO:
        first, second = int(rng.random() * agents), int(rng.random() * agents)
        while not t.alive[first]:
            first = int(rng.random() * agents)
        return better_of_two(t.expected, t.backlog, t.speed, t.alive, first, second)
    at_home = here >= 0 and t.alive[here] and variance[here] < k.observation * WELL_KNOWN
    if k.rule == _PRICED and at_home and rng.random() < k.sticky:
        return here
    if k.rule == _KALMAN:
        for agent in range(agents):
            t.drawn[agent] = rng.standard_normal()
        return least_drawn(mean, variance, t.alive, t.drawn)
    many = _consider(rng, t, k, here)
    for turn in range(many):
        t.drawn[turn] = rng.standard_normal()
    # without an agent there are no surprises to learn from
    looker = t.outlook[here] if here >= 0 else t.outlook[agents]
    usual, tried = usual_of_all(mean)
    unmet, spread = expected_trip(looker, usual, k.unmet)
    _share(t, k, many)
    compared = t.backlog, t.speed, t.price, t.share, t.alive, t.places, many, t.drawn
    best = cheapest(mean, variance, *compared, k.least, here, k.loyal, k.price_weight, k.short)
    visits = (t.learned[host] + k.more) / max(1, tried)
    return worthiest(best, mean, *compared, here, k.loyal, k.price_weight, unmet, spread, visits)


@compiled
def _share(t: NetworkTables, k: KernelParameters, many: int) -> None:
    """Put the share prices of the agents that are compared into `share`."""
    total, count = 0.0, 0
    for agent in range(len(t.until)):
        if t.alive[agent]:
            total += fullness(t.hosts[agent], t.load[agent], k.share_few, k.share_busy, k.share_fuller)
            count += 1
    for turn in range(many):
        agent = t.places[turn]
        full = fullness(t.hosts[agent], t.load[agent], k.share_few, k.share_busy, k.share_fuller)
        t.share[agent] = 0.0
        if count > 0:
            t.share[agent] = share_price(full, total / count, k.share_most, k.share_even, k.share_slope)


@compiled
def _consider(rng: Generator, t: NetworkTables, k: KernelParameters, here: int) -> int:
    """Put the agents to compare into `places`: all if they are few, otherwise a random sample. Return their
    number."""
    agents = len(t.until)
    if agents <= k.others + 1:
        for agent in range(agents):
            t.places[agent] = agent
        return agents
    many = 0
    if here >= 0 and t.alive[here]:
        t.places[0] = here
        many = 1
    while many < k.others + 1:
        other = int(rng.random() * agents)
        if t.alive[other]:
            t.places[many] = other
            many += 1
    return many


@compiled
def _trip(rng: Generator, t: NetworkTables, host: int, agent: int) -> float:
    drawn = t.trip[host, agent] + t.spread[host] * rng.standard_normal()
    return float(max(_SHORTEST_TRIP, drawn) * t.slow[agent] * np.exp(t.wander[host, agent]))


@compiled
def _enqueue(rng: Generator, t: NetworkTables, k: KernelParameters, host: int, agent: int, now: float) -> None:
    places = t.queue.shape[1]
    t.at[host], t.stamp[host] = agent, now
    t.queue[agent, (t.head[agent] + t.length[agent]) % places] = host
    t.length[agent] += 1
    # Transfers are known at once, so agents do not send more than the next advertisement allows for.
    t.backlog[agent] += t.pace[agent] / len(t.until)
    if t.alive[agent] and t.serving[agent] < 0:
        _serve(rng, t, k, agent, now)


@compiled
def _serve(rng: Generator, t: NetworkTables, k: KernelParameters, agent: int, now: float) -> None:
    host = _dequeue(t, agent)
    trip = _trip(rng, t, host, agent)
    t.serving[agent], t.took[agent] = host, trip
    t.process[agent] = now - t.stamp[host] + trip
    t.until[agent] = now + trip + k.overhead


@compiled
def _dequeue(t: NetworkTables, agent: int) -> int:
    host = t.queue[agent, t.head[agent]]
    t.head[agent] = (t.head[agent] + 1) % t.queue.shape[1]
    t.length[agent] -= 1
    return int(host)


@compiled
def _advertise(t: NetworkTables, k: KernelParameters) -> None:
    t.measured[_ADVERT_AT] += k.advert
    for agent in range(len(t.until)):
        t.told[agent] = advert_after(t.told[agent], t.length[agent] * t.pace[agent])
        t.backlog[agent] = t.told[agent]
    reprice(t.price, t.backlog, t.alive, k.step)


@compiled
def _drift(rng: Generator, t: NetworkTables, k: KernelParameters) -> None:
    """Let round trips drift: an Ornstein-Uhlenbeck process for each host and agent."""
    t.measured[_DRIFT_AT] += _DRIFT_EVERY
    kept = np.exp(-_DRIFT_EVERY / k.memory)
    fresh = k.drift * np.sqrt(1 - kept * kept)
    for host in range(t.wander.shape[0]):
        for agent in range(t.wander.shape[1]):
            t.wander[host, agent] = kept * t.wander[host, agent] + fresh * rng.standard_normal()


@compiled
def reassign_hosts(rng: Generator, t: NetworkTables, k: KernelParameters, agent: int) -> None:
    """Reassign the hosts of a dead agent whose lease has expired."""
    now = t.measured[_NOW]
    if t.serving[agent] >= 0:
        host = t.serving[agent]
        t.serving[agent] = -1
        t.hosts[agent] -= 1
        _assign_host(rng, t, k, host, now)
    while t.length[agent] > 0:
        host = _dequeue(t, agent)
        t.hosts[agent] -= 1
        _assign_host(rng, t, k, host, now)


@compiled
def _assign_host(rng: Generator, t: NetworkTables, k: KernelParameters, host: int, now: float) -> None:
    chosen = choose_agent(rng, t, k, host, -1)
    t.hosts[chosen] += 1
    _enqueue(rng, t, k, host, chosen, now)


@compiled
def assign_hosts(rng: Generator, t: NetworkTables, k: KernelParameters) -> None:
    """Assign all hosts to agents by the rule, without prior knowledge."""
    for host in range(t.trip.shape[0]):
        _assign_host(rng, t, k, host, 0.0)


@compiled
def _push(t: NetworkTables, at: float, host: int) -> None:
    place = int(t.measured[_HEAP])
    t.measured[_HEAP] += 1
    while place > 0 and t.ready[(place - 1) // 2] > at:
        t.ready[place], t.waiting[place] = t.ready[(place - 1) // 2], t.waiting[(place - 1) // 2]
        place = (place - 1) // 2
    t.ready[place], t.waiting[place] = at, host


@compiled
def _pop(t: NetworkTables) -> int:
    first = int(t.waiting[0])
    size = int(t.measured[_HEAP]) - 1
    t.measured[_HEAP] = size
    at, host = t.ready[size], t.waiting[size]
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and t.ready[child + 1] < t.ready[child]:
            child += 1
        if t.ready[child] >= at:
            break
        t.ready[place], t.waiting[place] = t.ready[child], t.waiting[child]
        place = child
    t.ready[place], t.waiting[place] = at, host
    return first
