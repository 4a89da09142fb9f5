"""Optimal policy over all states: a lower bound for the cost of threshold rules.

A threshold rule depends on the level only. Here a mode is chosen in every state
(level, arrival phase, service phase), by policy iteration (Howard 1960) on the average
cost, for exponential lifetimes. No rule does better, so the gap to the best
thresholds is the price of their simplicity; the paper believed it to be small.

The cost is not linear in the policy: response time is a ratio, time spent by served
pages over pages served. So each policy is improved with the ratio's slope at the
policy itself, until no small change lowers J; that is done from every mode as a
start, and the best result is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmouse.errors import FieldmouseError
from fieldmouse.queueing.model.model import Chain, CostWeights, Model, WorkersByLevel, arrivals_for_modes, build_chain
from fieldmouse.queueing.model.validation import FloatArray, IntArray, ModelError
from fieldmouse.queueing.solve.exponential_lifetimes import banded_rates, obsolescence_rates
from fieldmouse.queueing.solve.page_sojourn import value_of_admitted_pages, waiting_moments

MOST_STATES = 1500
ROUNDS = 100


class TooManyStates(FieldmouseError):
    """More states than policy iteration is tried on."""


@dataclass(frozen=True, eq=False)
class StatePolicy:
    """`robots[level, nu, m]` fetch workers run in each state (an empty system has no m); J is what that costs."""

    robots: IntArray
    J: float
    rounds: int


@dataclass(frozen=True, eq=False)
class _ModeRatesAndCosts:
    """By mode and state: rates to others; in a unit of time, plain cost, time of served pages, count."""

    rates: FloatArray
    cost: FloatArray
    time: FloatArray
    served: FloatArray


def optimal_state_policy(model: Model, cost: CostWeights) -> StatePolicy:
    if not model.lifetime.is_exponential:
        raise ModelError("policies are improved for exponential lifetimes only", "`optimise` takes any lifetime")
    states = model.arrival_phases * (1 + model.service.order * model.highest_level)
    if states > MOST_STATES:
        raise TooManyStates(f"{states:,} states are too many to improve a policy", "take a smaller K")
    choices = _build_choices(model, cost)
    ends = [_iterate_policy(choices, cost, np.full(states, mode)) for mode in range(len(model.modes))]
    best, chosen, rounds = min(ends, key=lambda end: end[0])
    robots = np.array(list(model.modes))[chosen]
    shaped = np.zeros((model.highest_level + 1, model.arrival_phases, model.service.order), dtype=np.int64)
    shaped[0] = robots[: model.arrival_phases, None]
    shaped[1:] = robots[model.arrival_phases :].reshape(shaped[1:].shape)
    return StatePolicy(shaped, best, rounds)


def _iterate_policy(choices: _ModeRatesAndCosts, cost: CostWeights, chosen: IntArray) -> tuple[float, IntArray, int]:
    """The cost, the mode of each state, and after how many rounds."""
    every = np.arange(len(chosen))
    best, kept = np.inf, chosen
    rounds = 0
    while rounds < ROUNDS:
        rounds += 1
        share = _stationary_shares(choices.rates[chosen, every])
        time, served = share @ choices.time[chosen, every], share @ choices.served[chosen, every]
        J = float(share @ choices.cost[chosen, every] + cost.sojourn * time / served)
        if best * (1 - 1e-13) <= J:
            break
        best, kept = J, chosen
        # The slope of time/served: what a little more of either adds.
        slope = choices.cost + cost.sojourn * (choices.time - time / served * choices.served) / served
        values = _relative_values(choices.rates[chosen, every], slope[chosen, every])
        gain = slope + choices.rates @ values - choices.rates.sum(axis=2) * values
        least = gain.min(axis=0)
        # A mode is replaced only by one that is truly better, or ties would alternate without end.
        better = gain[chosen, every] - least > 1e-10 * (1 + np.abs(least))
        chosen = np.where(better, gain.argmin(axis=0), chosen)
    return best, kept, rounds


def _build_choices(model: Model, cost: CostWeights) -> _ModeRatesAndCosts:
    W, M, top = model.arrival_phases, model.service.order, model.highest_level
    fade = model.lifetime.rate
    worth = waiting_moments(model.service, fade, top).served[:, :, :2].copy()
    found = arrivals_for_modes(model, model.modes)
    states = W * (1 + M * top)
    rates = np.zeros((len(found), states, states))
    gains = np.zeros((len(found), top + 1, W, M, 3))
    waiting = np.maximum(np.arange(top + 1) - 1.0, 0.0)
    for mode, (robots, stream) in enumerate(zip(model.modes, found, strict=True)):
        rates[mode] = _all_rates(build_chain(model, WorkersByLevel((robots,) * (top + 1))))
        gains[mode, ..., 0] = cost.robots * robots + cost.loss * stream.dropped[:, :, None]
        gains[mode, ..., 0] += (cost.obs * fade * waiting)[:, None, None]
        gains[mode, 0, ..., 0] += cost.star
        gains[mode, ..., 1:] = value_of_admitted_pages(stream.up, model.service.alpha, worth)[..., ::-1]
    flat = np.concatenate([gains[:, 0, :, 0], gains[:, 1:].reshape(len(found), -1, 3)], axis=1)
    return _ModeRatesAndCosts(rates, flat[..., 0], flat[..., 1], flat[..., 2])


def _all_rates(chain: Chain) -> FloatArray:
    """Rates from each state to each other one."""
    rows, low = banded_rates(chain, obsolescence_rates(chain, chain.model.lifetime.rate))
    states, width = rows.shape
    rates = np.zeros((states, low + states + width))
    np.put_along_axis(rates, np.arange(states)[:, None] + np.arange(width), rows, axis=1)
    rates = rates[:, low : low + states].copy()
    np.fill_diagonal(rates, 0.0)
    return rates


def _stationary_shares(off_diagonal: FloatArray) -> FloatArray:
    generator = off_diagonal - np.diag(off_diagonal.sum(axis=1))
    generator[:, 0] = 1.0
    return np.linalg.solve(generator.T, np.eye(len(generator))[0])


def _relative_values(off_diagonal: FloatArray, slope: FloatArray) -> FloatArray:
    """How much more a state costs than the first one, in the long run."""
    generator = off_diagonal - np.diag(off_diagonal.sum(axis=1))
    generator[:, 0] = -1.0
    # The first unknown is the average slope itself; the first state's value is 0.
    values = np.linalg.solve(generator, -slope)
    values[0] = 0.0
    return np.asarray(values)
