"""Equality of the compiled and the pure urn game, ball by ball."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse_lab.urn.game import Game, GameResult
from fieldmouse_lab.urn.kernel import kernel_rules
from fieldmouse_lab.urn.play import play, play_pure
from fieldmouse_lab.urn.sources import Source, finite_source, power
from fieldmouse_lab.urn.strategies import Strategy, StrategyInputs, build_policy, strategy

deltas = st.integers(1, 6)
triggers = st.sampled_from(["exceeds", "reaches"])
stops = st.none() | st.integers(0, 150)
queues = st.sampled_from(["per-host", "one"])
betas = st.none() | st.floats(0.5, 20.0)

known_to_the_kernel = st.one_of(
    st.just(strategy("none")),
    st.just(strategy("alg4")),
    st.builds(lambda cap: strategy("greedy", draw_cap=cap), st.integers(0, 40)),
    st.builds(
        lambda name, delta, trigger, stop, queue, beta: strategy(
            name, delta=delta, trigger=trigger, stop_search=stop, queues=queue, beta=beta
        ),
        st.sampled_from(["alg11", "alg12", "alg12-adapted"]),
        deltas,
        triggers,
        stops,
        queues,
        betas,
    ),
    st.builds(
        lambda delta, stop, own, cap, adapted: strategy(
            "mice-and-elephants", delta=delta, stop_search=stop, own_queues=own, draw_cap=cap, adapted=adapted
        ),
        deltas,
        stops,
        st.booleans(),
        st.integers(0, 40),
        st.booleans(),
    ),
    st.builds(
        lambda draws, burst, depth, backlog, index: strategy(
            "index", draws=draws, burst=burst, depth=depth, backlog_limit=backlog, index_limit=index
        ),
        st.floats(0.0, 4.0),
        st.floats(0.0, 30.0),
        st.integers(1, 3),
        st.integers(0, 5),
        st.integers(0, 12),
    ),
)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    source = power(draw(st.integers(1, 60)), draw(st.floats(0.0, 2.5)))
    kind = draw(st.sampled_from(["steady", "permuted", "ending"]))
    if kind == "permuted":
        return replace(source, permute_every=draw(st.integers(1, 80)))
    return finite_source(source, draw(st.integers(1, 400))) if kind == "ending" else source


@st.composite
def games(draw: st.DrawFn) -> Game:
    return Game(
        source=draw(sources()),
        capacity=draw(st.integers(1, 25)),
        steps=draw(st.integers(1, 120)),
        strategy=draw(known_to_the_kernel),
        initial=draw(st.sampled_from([None, "neutral", "strategy"])),
        every=1,
        stored=draw(st.just(0) | st.integers(1, 40)),
        ceiling=draw(st.just(1.0) | st.floats(0.3, 1.0)),
        draw_cap=draw(st.integers(1, 200)),
        events=5000,
    )


def assert_same(one: GameResult, other: GameResult) -> None:
    for field in fields(GameResult):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray) and a.dtype.kind == "f":
            assert a == pytest.approx(b, rel=1e-9, abs=1e-12), field.name
        else:
            assert np.array_equal(a, b), field.name


@settings(max_examples=250, deadline=None)
@given(games(), st.integers(0, 2**32 - 1))
def test_kernel_and_policy_take_the_same_decisions_on_the_same_draws(game: Game, seed: int) -> None:
    """Every ball's way, every count after every step, the elephants named, and why it ended."""
    assert_same(play(game, seed), play_pure(game, seed))


def test_kernel_and_policy_agree_when_the_ring_is_enlarged() -> None:
    """Twice: before the game, and in it, when the queue's head has moved on."""
    for stored, widest in ((3900, 4096), (9000, 8192)):
        game = Game(power(200, 1.2), 40, 2500, strategy("alg12", delta=2), every=50, stored=stored, events=10**6)
        kernel = play(game, 5)
        assert kernel.reads[-1] > 5
        assert kernel.backlog.max() > widest
        assert_same(kernel, play_pure(game, 5))


@pytest.mark.parametrize("trigger", ["exceeds", "reaches"])
def test_kernel_and_policy_stop_the_search_for_elephants_at_the_same_ball(trigger: str) -> None:
    for stop in range(60):
        chosen = strategy("alg12", delta=2, trigger=trigger, stop_search=stop)
        game = Game(power(20, 1.0), 12, 60, chosen, every=1, draw_cap=500)
        assert_same(play(game, 1), play_pure(game, 1))


@pytest.mark.parametrize("every", [3, 17, 40])
def test_kernel_and_policy_stop_at_the_same_ball_at_the_ceiling_of_a_changing_source(every: int) -> None:
    for seed in range(12):
        source = replace(power(40, 1.5), permute_every=every)
        game = Game(source, 15, 400, strategy("alg12", delta=1), every=1, ceiling=0.8, draw_cap=300, events=9999)
        assert_same(play(game, seed), play_pure(game, seed))


def test_kernel_and_policy_take_the_same_count_of_random_numbers() -> None:
    """A game cut into more pieces is the same game."""
    game = Game(power(300, 1.0), 30, 500, strategy("alg12", delta=2), events=10**6)
    whole, pieces = play(game, 3), play(replace(game, every=7, checkpoints=(1, 2, 499)), 3)
    assert np.array_equal(whole.events, pieces.events)
    assert whole.distinct_mean == pytest.approx(pieces.distinct_mean)


@pytest.mark.parametrize(
    ("chosen", "compiled"),
    [
        (strategy("none"), True),
        (strategy("alg4"), True),
        (strategy("alg11"), True),
        (strategy("alg12-adapted"), True),
        (strategy("index"), True),
        (strategy("alg9"), False),
    ],
)
def test_the_important_strategies_run_compiled(chosen: Strategy, compiled: bool) -> None:
    """Else the twins above would be twins of themselves."""
    policy = build_policy(chosen, StrategyInputs(power(9, 1.0), 3, np.random.default_rng(0)))
    assert (kernel_rules(policy) is not None) == compiled
