"""Urn game: rules, sources and strategies."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from fieldmouse.errors import UsageError
from fieldmouse.policy.distribution.host_counts import HostCounts
from fieldmouse.policy.distribution.registry import POLICIES
from fieldmouse_lab.urn import exact
from fieldmouse_lab.urn.game import Game, GameEnd, GameResult
from fieldmouse_lab.urn.kernel import DRAWN_OFFLINE, DRAWN_ONLINE, LEFT_ONLINE, RECALLED
from fieldmouse_lab.urn.play import play, play_many, play_pure
from fieldmouse_lab.urn.sources import Source, exponential, finite_source, normal, poisson, power, uniform
from fieldmouse_lab.urn.strategies import strategy, strategy_names

gammas = st.floats(0.0, 2.0)
seeds = st.integers(0, 2**32 - 1)


def told(outcome: GameResult) -> list[tuple[int, int]]:
    """What happened, as colour and kind."""
    return [divmod(event, 4) for event in outcome.events.tolist()]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(strategy_names()), gammas, seeds, st.integers(1, 30), st.integers(1, 100), st.booleans())
def test_no_strategy_loses_a_ball_or_breaks_a_rule(
    name: str, gamma: float, seed: int, places: int, hosts: int, finite: bool
) -> None:
    """The game told again from its events: K balls online, nothing read that was not stored."""
    source = finite_source(power(hosts, gamma), 300) if finite else power(hosts, gamma)
    outcome = play(Game(source, places, 150, strategy(name), every=1, draw_cap=500, events=10**6), seed)
    online: Counter[int] = Counter()
    offline: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    for colour, kind in told(outcome):
        counts[kind] += 1
        if kind == LEFT_ONLINE:
            assert online[colour] > 0
            online[colour] -= 1
        elif kind == DRAWN_ONLINE:
            online[colour] += 1
        elif kind == DRAWN_OFFLINE:
            offline[colour] += 1
        else:
            assert offline[colour] > 0
            offline[colour] -= 1
            online[colour] += 1
        assert online.total() <= places
    assert {i: int(n) for i, n in enumerate(outcome.online) if n} == +online
    assert outcome.distinct[-1] == len(+online)
    assert (outcome.backlog[-1], outcome.waiting[-1]) == (offline.total(), len(+offline))
    assert outcome.draws[-1] == counts[DRAWN_ONLINE] + counts[DRAWN_OFFLINE]
    assert (outcome.appends[-1], outcome.reads[-1]) == (counts[DRAWN_OFFLINE], counts[RECALLED])
    if outcome.end is GameEnd.STEPS and not finite:
        assert online.total() == places
        assert outcome.lengths[-1].tolist() == [
            hosts - len(+online),
            *(list(online.values()).count(length) for length in range(1, 6)),
        ]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(strategy_names()), gammas, seeds, st.integers(1, 20), st.integers(1, 30))
def test_a_source_that_ends_is_played_to_the_last_ball(
    name: str, gamma: float, seed: int, places: int, hosts: int
) -> None:
    source = finite_source(power(hosts, gamma), 250)
    outcome = play(Game(source, places, 1000, strategy(name), events=10**6), seed)
    assert outcome.end is GameEnd.DRY
    assert outcome.steps == 250
    assert outcome.distinct[-1] == outcome.backlog[-1] == 0
    left = Counter(colour for colour, kind in told(outcome) if kind == LEFT_ONLINE)
    assert [left[host] for host in range(hosts)] == source.sizes.tolist()


def test_balls_of_a_finite_source_are_drawn_in_proportion_to_their_probabilities() -> None:
    """Two hosts, one ball each: which is first is decided by p; and a spent host is not drawn again."""
    source = Source("two", np.array([0.8, 0.2]), sizes=np.array([1, 1], np.int32))
    rng = default_rng(4)
    firsts = sum(int(source.sequence(rng)[0] == 0) for _ in range(4000))
    assert abs(firsts / 4000 - 0.8) < 5 * (0.8 * 0.2 / 4000) ** 0.5
    lopsided = Source("three", np.array([0.5, 0.3, 0.2]), sizes=np.array([1, 2, 3], np.int32))
    for _ in range(50):
        assert Counter(lopsided.sequence(rng).tolist()) == {0: 1, 1: 2, 2: 3}
    # 0 first, then 1 or 2 with 3:2.
    seconds = [q for q in (lopsided.sequence(rng) for _ in range(6000)) if q[0] == 0]
    share = sum(int(q[1] == 1) for q in seconds) / len(seconds)
    assert abs(share - 0.6) < 5 * (0.6 * 0.4 / len(seconds)) ** 0.5


@pytest.mark.parametrize(
    "source",
    [
        uniform(50),
        power(50, 1.4),
        exponential(60, 7.0),
        normal(80, 30.0, 9.0),
        poisson(60, 20.0),
        Source("gaps", np.array([0.0, 0.3, 0.0, 0.0, 0.7, 0.0])),
    ],
    ids=lambda source: source.name,
)
def test_draws_follow_the_probabilities(source: Source) -> None:
    rng, draws = default_rng(2), 20_000
    found = np.bincount([source.draw(rng) for _ in range(draws)], minlength=source.hosts)
    assert not found[source.p == 0.0].any()
    likely = source.p * draws > 5
    excess = ((found - source.p * draws)[likely] ** 2 / (source.p * draws)[likely]).sum()
    freedom = likely.sum() - 1
    assert excess < freedom + 5 * (2 * freedom) ** 0.5 + 5


def test_sources_follow_the_laws_of_chapter_five() -> None:
    geometric = exponential(10**5, 1000.0).p
    assert geometric[:2] == pytest.approx([1 - np.exp(-1e-3), (1 - np.exp(-1e-3)) * np.exp(-1e-3)], rel=1e-9)
    assert exact.initial_colours(geometric, 1000) == pytest.approx(796, abs=1)  # section 5.2
    assert exact.initial_colours(normal(10**5, 1000.0, 100.0).p, 1000) == pytest.approx(373, abs=1)  # 5.3
    assert exact.initial_colours(poisson(10**5, 55000.0).p, 1000) == pytest.approx(599, abs=1)  # 5.4
    assert exact.initial_colours(power(10**4, 1.1).p, 1000) == pytest.approx(404, abs=1)  # 5.5
    assert power(10**5, 5.0).p[0] == pytest.approx(0.9644, abs=5e-5)
    assert poisson(100, 0.0).p.max() == 1.0


def test_probabilities_are_permuted_at_the_given_interval() -> None:
    source = replace(Source("one", np.array([1.0, 0.0, 0.0, 0.0, 0.0])), permute_every=10)
    drawn = [colour for colour, kind in told(play(Game(source, 1, 200, strategy("none"), events=999), 1)) if kind]
    stretches = [set(drawn[at + 1 : at + 11]) for at in range(0, 200, 10)]
    assert all(len(stretch) == 1 for stretch in stretches)
    assert len({min(stretch) for stretch in stretches}) > 2


@pytest.mark.parametrize("name", ["alg1", "alg7", "alg8"])
def test_strategies_without_effect_play_like_the_neutral_one(name: str) -> None:
    """Propositions 7.2.1, 7.3.1 and 7.3.2: ball by ball the same balls go online."""
    for seed in range(5):
        plain, tried = (
            play(Game(power(300, 1.0), 50, 400, strategy(chosen), every=1), seed) for chosen in ("none", name)
        )
        assert np.array_equal(plain.distinct, tried.distinct)
        assert np.array_equal(plain.online, tried.online)
        assert tried.backlog.max() <= 0


def test_a_coin_with_probability_0_or_1_equals_the_strategy_of_that_side() -> None:
    def course(name: str, **options: float) -> list[int]:
        game = Game(power(2000, 0.8), 40, 120, strategy(name, **options), every=1, draw_cap=10**5)
        return play(game, 8).distinct.tolist()

    assert course("alg9", r=0.0) == course("none")
    assert course("alg9", r=1.0) == course("alg3")
    assert course("alg10", r=0.3) == course("alg3")  # most hosts never wait, with so many of them
    assert course("alg5") == course("alg4")
    assert course("alg6") != course("alg4")


def test_algorithm_5_takes_any_ball_offline_only_once_most_hosts_wait_there() -> None:
    source = power(150, 1.0)
    outcome = play(Game(source, 30, 1500, strategy("alg5"), events=10**6), 2)
    online: Counter[int] = Counter()
    offline: Counter[int] = Counter()
    crowded = 0
    for colour, kind in told(outcome):
        waiting = float(source.p[list(+offline)].sum())
        if kind == RECALLED and online[colour]:
            assert waiting > 0.99 - 1e-9
            crowded += 1
        if kind in (DRAWN_ONLINE, DRAWN_OFFLINE):
            assert waiting < 0.99 + 1e-9
        online[colour] += {LEFT_ONLINE: -1, DRAWN_OFFLINE: 0}.get(kind, 1)
        offline[colour] += {DRAWN_OFFLINE: 1, RECALLED: -1}.get(kind, 0)
    assert crowded > 100


def test_the_search_for_elephants_stops_after_the_given_steps() -> None:
    """T* counts from the moment when K balls are online."""
    free = play(Game(power(2000, 1.0), 200, 3000, strategy("alg12", delta=2), every=1), 4)
    kept = play(Game(power(2000, 1.0), 200, 3000, strategy("alg12", delta=2, stop_search=1000), every=1), 4)
    last = kept.index_of(1000)
    assert kept.elephants[: last + 1].tolist() == free.elephants[: last + 1].tolist()
    assert kept.elephants[last] == kept.elephants[-1] < free.elephants[-1]
    named = np.flatnonzero(np.diff(free.elephants)) + 1
    at = int(free.times[named[free.times[named] > 500][0]])
    for stop, counted in ((at, True), (at - 1, False)):
        game = Game(power(2000, 1.0), 200, 3000, strategy("alg12", delta=2, stop_search=stop))
        assert (play(game, 4).elephants[-1] == free.elephants[free.index_of(at)]) == counted


def test_greedy_gets_stuck_in_the_end() -> None:
    """Proposition 7.2.3."""
    outcome = play(Game(power(200, 1.0), 50, 10**5, strategy("alg4"), draw_cap=10**5), 1)
    assert outcome.end is GameEnd.STUCK
    assert outcome.steps < 10**5
    assert outcome.times[-1] == outcome.steps


def test_a_game_is_stopped_when_most_hosts_wait_offline() -> None:
    outcome = play(Game(power(1000, 1.0), 100, 10**5, strategy("alg4"), every=1, ceiling=0.99), 1)
    assert outcome.end is GameEnd.FULL
    assert outcome.offline[-1] > 0.99 >= outcome.offline[-2]


def test_elephants_known_from_the_start_are_those_of_table_7_1() -> None:
    """gamma 0.9: 68 hosts have at least 1/K, 148 at least 1/(2K), 888 at least 1/(10K)."""
    for beta, printed in ((1, 68), (2, 148), (10, 888)):
        game = Game(power(10**5, 0.9), 1000, 10, strategy("alg11", beta=beta), initial="neutral")
        assert play(game, 1).elephants.tolist() == [printed] * 3


@pytest.mark.parametrize("changing", [0, 5000])
@pytest.mark.parametrize(
    ("gamma", "hosts", "places"),
    [(0.3, 10**5, 1000), (0.7, 10**5, 1000), (1.0, 10**5, 1000), (1.3, 10**5, 1000), (1.7, 10**5, 300)],
)
def test_the_index_policy_keeps_all_colours_distinct_with_the_fewest_draws(
    gamma: float, hosts: int, places: int, changing: int
) -> None:
    source = replace(power(hosts, gamma), permute_every=changing)
    played = play(Game(source, places, 100_000, strategy("index")), 11)
    assert played.distinct_mean >= 0.999 * places
    assert played.per_step(played.draws) <= 1.02 * exact.min_draws_per_step(source.p, places)
    assert played.waiting.max() <= places


def test_the_recommended_strategy_degrades_with_a_changing_source() -> None:
    source = replace(power(10**5, 0.9), permute_every=10_000)
    frozen = play(Game(source, 1000, 100_000, strategy("alg12", stop_search=20_000)), 3)
    assert frozen.distinct_mean < 0.3 * 1000


def test_a_policy_added_to_the_crawler_can_be_played_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shy(HostCounts[int]):
        """Never more than two of a host."""

        def __init__(self, most: int = 2) -> None:
            super().__init__()
            self._most = most

        def next_queue_to_read(self, dry: bool = False) -> int | None:
            return next(iter(self.absent), None)

        def goes_online(self, host: int) -> bool:
            return self.online.get(host, 0) < self._most

    monkeypatch.setitem(POLICIES, "shy", Shy)
    outcome = play(Game(power(100, 1.0), 30, 500, strategy("shy", most=3)), 1)
    assert outcome.end is GameEnd.STEPS
    assert outcome.online.max() <= 3
    with pytest.raises(UsageError, match="has no parameter `least`"):
        strategy("shy", least=1)


def test_games_played_in_parallel_equal_games_played_one_by_one() -> None:
    games = [Game(power(500, gamma), 40, 2000, strategy("alg12")) for gamma in (0.5, 1.0, 1.5)]
    found = play_many(games, [1, 2])
    for game, row in zip(games, found, strict=True):
        assert [o.draws.tolist() for o in row] == [play(game, seed).draws.tolist() for seed in (1, 2)]


def test_measures_are_taken_at_the_given_times_including_the_filling() -> None:
    game = Game(power(500, 1.0), 40, 100, strategy("none"), every=15, checkpoints=(7, 99))
    outcome = play_pure(game, 1)
    assert outcome.times.tolist() == [-25, -10, 0, 7, 15, 30, 45, 50, 60, 75, 90, 99, 100]
    assert outcome.draws.tolist() == [time + 40 for time in outcome.times.tolist()]
    whole = play_pure(replace(game, every=1), 1)
    mean = whole.distinct[whole.index_of(51) :].mean()
    assert outcome.distinct_mean == pytest.approx(mean) == pytest.approx(whole.distinct_mean)
    assert outcome.per_step(outcome.draws) == 1.0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: power(10, -1.0), "gamma -1"),
        (lambda: power(0, 1.0), "0 hosts"),
        (lambda: normal(10, 3.0, 0.0), "deviation of 0"),
        (lambda: exponential(10, -3.0), "mean of -3"),
        (lambda: Source("none", np.zeros(3)), "no host a probability"),
        (lambda: replace(finite_source(uniform(5), 10), permute_every=3), "hosts that end"),
        (lambda: Game(uniform(5), 0, 10, strategy("none")), "capacity 0"),
        (lambda: Game(uniform(5), 2, 0, strategy("none")), "steps 0"),
        (lambda: Game(uniform(5), 2, 10, strategy("none"), checkpoints=(11,)), "no step 11"),
        (lambda: strategy("alg13"), "no strategy `alg13`"),
        (lambda: strategy("none", delta=5), "no parameter `delta`"),
        (lambda: play(Game(uniform(5), 2, 10, strategy("alg12", delta=0)), 1), "delta 0"),
        (lambda: play(Game(uniform(5), 2, 10, strategy("alg9", r=1.5)), 1), "1.5 is none"),
    ],
)
def test_invalid_games_raise_usage_errors(wrong: object, says: str) -> None:
    with pytest.raises(UsageError, match=says) as told:
        wrong()  # type: ignore[operator]
    assert told.value.hint
