"""Exact formulas checked against enumerated small games, and games checked against the formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.errors import UsageError
from fieldmouse_lab.urn import exact
from fieldmouse_lab.urn.game import Game
from fieldmouse_lab.urn.play import play, play_with
from fieldmouse_lab.urn.pure import PurePlayer
from fieldmouse_lab.urn.sources import Source, empirical_source, exponential, normal, poisson, power, uniform
from fieldmouse_lab.urn.strategies import strategy

weights = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4)


def means_by_enumeration(p: np.ndarray, balls: int) -> tuple[float, float]:
    """Means of the number of colours over time and over steps, from the chain over all states."""
    states = [q for q in itertools.product(range(balls + 1), repeat=len(p)) if sum(q) == balls]
    number = {q: i for i, q in enumerate(states)}
    move = np.zeros((len(states), len(states)))
    for q in states:
        present = [i for i, held in enumerate(q) if held]
        for gone, come in itertools.product(present, range(len(p))):
            after = list(q)
            after[gone] -= 1
            after[come] += 1
            move[number[q], number[tuple(after)]] += p[come] / len(present)
    system = np.vstack((move.T - np.eye(len(states)), np.ones(len(states))))
    law = np.linalg.lstsq(system, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    colours = np.array([sum(1 for held in q if held) for q in states], float)
    per_step = float(law @ colours)
    return 1.0 / float(law @ (1.0 / colours)), per_step


@settings(max_examples=60, deadline=None)
@given(weights, st.integers(1, 5))
def test_the_stationary_means_are_those_of_the_chain_over_all_states(w: list[float], balls: int) -> None:
    p = np.array(w) / sum(w)
    found = exact.stationary_means(p, balls)
    per_time, per_step = means_by_enumeration(p, balls)
    assert found.per_time == pytest.approx(per_time, rel=1e-8)
    assert found.per_step == pytest.approx(per_step, rel=1e-8)


@settings(max_examples=40, deadline=None)
@given(weights, st.integers(1, 5))
def test_the_initial_mean_equals_the_mean_over_all_possible_draws(w: list[float], balls: int) -> None:
    p = np.array(w) / sum(w)
    mean = sum(
        math.prod(p[i] for i in drawn) * len(set(drawn)) for drawn in itertools.product(range(len(p)), repeat=balls)
    )
    assert exact.initial_colours(p, balls) == pytest.approx(mean)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.1, 2.0])
def test_large_games_agree_with_the_expanded_series(gamma: float) -> None:
    """G_k as a coefficient of the product of 1/(1 - x_i z), taken host by host."""
    p, places = power(300, gamma).p, 120
    x = p / p.max()
    series = [1.0, *[0.0] * places]
    for share in x.tolist():
        for k in range(1, places + 1):
            series[k] += share * series[k - 1]
    before, last, newest = series[-3:]
    found = exact.stationary_means(p, places)
    assert found.per_time == pytest.approx(last / newest / p.max(), rel=1e-11)
    assert found.per_step == pytest.approx(1 + (1 - float(p @ p)) * before / last / p.max(), rel=1e-11)


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 300))
def test_for_hosts_of_one_size_the_mean_over_time_is_the_mean_field_of_the_thesis(hosts: int, k: int) -> None:
    p = np.full(min(hosts, 1000), 1.0 / min(hosts, 1000))
    assert exact.stationary_means(p, k).per_time == pytest.approx(exact.mean_field_colours(len(p), k), rel=1e-10)


@given(st.integers(2, 10**6), st.integers(1, 10**6))
def test_the_mean_field_is_the_sum_of_its_parts(hosts: int, k: int) -> None:
    assert exact.mean_field_new_probability(hosts, k) == pytest.approx(1 - exact.mean_field_colours(hosts, k) / hosts)


def test_a_computation_that_would_take_hours_is_rejected() -> None:
    with pytest.raises(UsageError, match="would take hours"):
        exact.stationary_means(np.full(10, 0.1), 10**7)


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=30), st.floats(1.0, 30.0))
def test_the_bound_on_draws_is_tight(w: list[float], distinct: float) -> None:
    p = np.array(w) / sum(w)

    def given_out(draws: float) -> float:
        return float(np.minimum(draws * p, 1.0 / distinct).sum())

    draws = exact.min_draws_per_step(p, distinct)
    if len(p) < distinct * (1 - 1e-9):
        assert draws == math.inf
    elif math.isfinite(draws):
        assert given_out(draws * (1 + 1e-9)) >= 1 - 1e-8
        assert given_out(draws * (1 - 1e-6)) < 1


SOURCES: dict[str, Source] = {
    "uniform": uniform(400),
    "one host more than places": uniform(61),
    "fewer hosts than places": uniform(30),
    "exponential": exponential(2000, mean=80.0),
    "normal": normal(1000, mean=300.0, deviation=40.0),
    "normal at the edge": normal(300, mean=20.0, deviation=20.0),
    "poisson": poisson(1000, mean=400.0),
    "power 0.5": power(3000, 0.5),
    "power 0.9": power(3000, 0.9),
    "power 1.3": power(3000, 1.3),
    "power 2.5": power(3000, 2.5),
    "counts of a crawl": empirical_source([9000, 4100, 800, 790, 300, 300, 120, 90, 33, *[12] * 50, *[1] * 400]),
    "two hosts": empirical_source([3, 1]),
}
PLACES = 60


def surprise(means: list[float], expected: float) -> float:
    """How many standard errors the mean of independent games is away from what it should be."""
    error = np.std(means, ddof=1) / math.sqrt(len(means))
    return abs(float(np.mean(means)) - expected) / max(float(error), 1e-6)


@pytest.mark.parametrize("name", SOURCES)
def test_games_agree_with_the_exact_means(name: str) -> None:
    """Fifteen independent games: 5.5 standard errors are passed once in ten thousand tests."""
    source = SOURCES[name]
    played = [play(Game(source, PLACES, 60_000, strategy("none")), seed) for seed in range(15)]
    expected = exact.stationary_means(source.p, PLACES)
    assert surprise([game.distinct_mean for game in played], expected.per_step) < 5.5
    firsts = [float(play(Game(source, PLACES, 1, strategy("none")), seed).distinct[0]) for seed in range(100, 300)]
    assert surprise(firsts, exact.initial_colours(source.p, PLACES)) < 5.0


class PicksBalls(PurePlayer):
    """The game got wrong: a colour's chance to be chosen grows with its balls."""

    def choose(self) -> int:
        balls = [colour for colour in self._slots for _ in range(self._online[colour])]
        return balls[int(self._rng.random() * len(balls))]


def test_a_game_that_chooses_balls_instead_of_colours_is_detected() -> None:
    source = power(300, 0.9)
    game = Game(source, 30, 3000, strategy("none"))
    expected = exact.stationary_means(source.p, 30).per_step
    right = [play_with(PurePlayer, game, seed).distinct_mean for seed in range(10)]
    wrong = [play_with(PicksBalls, game, seed).distinct_mean for seed in range(10)]
    assert surprise(right, expected) < 5.5
    assert surprise(wrong, expected) > 20
