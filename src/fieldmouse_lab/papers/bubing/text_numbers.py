"""Numbers in the text of the thesis, by section.

Chapters 3 to 5 give results of formulas, chapters 5 to 9 results of single simulations. Parameters are not
reproduced, nor is the host-size law of a crawl that was never published (chapter 6). Errors in formulas
are listed in the remarks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np

from fieldmouse_lab.catalogue import Progress, Result, Row, Sample, Verdict, experiment, new_row, with_progress
from fieldmouse_lab.papers.bubing.games import play_elephants, play_neutral, power_law
from fieldmouse_lab.papers.bubing.printed import COLOURS, PLACES, compare_approximate, compare_exact, compare_simulated
from fieldmouse_lab.papers.bubing.printed import printed_tables as tables
from fieldmouse_lab.urn.exact import initial_colours, mean_field_colours, mean_field_new_probability, stationary_means
from fieldmouse_lab.urn.game import Game
from fieldmouse_lab.urn.play import play
from fieldmouse_lab.urn.sources import Source, exponential, normal, poisson, power, uniform
from fieldmouse_lab.urn.strategies import strategy


def introduction() -> Iterator[Row]:
    alone, people = 1.0, 0
    while alone > 0.5:
        alone *= 1 - people / 365
        people += 1
    yield compare_exact("1.2: people until two share a birthday", "23", people)


def initial_phase() -> Iterator[Row]:
    k = 10_000
    exactly = initial_colours(uniform(k).p, k)
    yield compare_exact("3.2: colours at t = K as a share of K; C = K", "0.6321", exactly / k)
    beyond = exactly - (1 - 1 / math.e) * k
    yield compare_exact("3.2: what (3.2) adds to that share of K; 1/(2e)", f"{1 / (2 * math.e):.4f}", beyond)


def homogeneous() -> Iterator[Row]:
    k, c = 100, 1000
    exactly = stationary_means(uniform(c).p, k).per_time
    yield compare_exact("4.2: Theorem 4.2.1; K = 100, C = 1000", f"{mean_field_colours(c, k):.6f}", exactly)
    k = 1000
    exactly = stationary_means(uniform(k).p, k).per_time
    yield compare_exact("4.2: Corollary 4.2.4, K/2 + 1/4; C = K = 1000", "500.25", exactly)


def uniform_colours() -> Iterator[Row]:
    k = 10_000
    game = play_neutral(uniform(k), k, 190_000)
    yield compare_simulated("5.1: colours at t = K, played; C = K = 10000", "6321", game.initial)
    yield compare_approximate("5.1: colours in the end; K/2, C = K = 10000", k / 2, game.distinct)
    yield compare_approximate("5.1: P_new in the end; C = K = 10000", 0.5, game.new)
    for length, ours in enumerate(game.lengths):
        yield compare_approximate(f"5.1: colours with {length} balls; K/2^{length + 1}", k / 2 ** (length + 1), ours)
    yield compare_exact("5.1: colours in the end; K = 100, C = 1000", "91", mean_field_colours(1000, 100))
    yield compare_exact(
        "5.1: P_new in the end, percent; K = 100, C = 1000", "91", 100 * mean_field_new_probability(1000, 100)
    )
    yield compare_exact("5.1: colours at t = K; K = 100, C = 1000", "95", initial_colours(uniform(1000).p, 100))


def exponential_colours() -> Iterator[Row]:
    game = play_neutral(exponential(1000, 1000), PLACES, 99_000)
    yield compare_approximate("5.2: colours in the end; K/2, C = mean = K = 1000", 500, game.distinct)
    yield compare_approximate("5.2: P_new in the end; C = mean = K = 1000", 0.5, game.new)
    gap = 1 / (math.e - 1) + math.log(1 - 1 / math.e)
    yield compare_exact("5.2: farthest the exponential law is from the uniform", "0.12", gap)
    yield compare_exact(
        "5.2: colours at t = K; mean = K = 1000, C large", "796", initial_colours(exponential(COLOURS, 1000).p, PLACES)
    )


def _half_at_the_edge(section: str, at_the_edge: Source, inside: Source) -> Row:
    edge, whole = (stationary_means(source.p, PLACES).per_step for source in (at_the_edge, inside))
    return compare_approximate(f"{section}: colours at C = mean, as a share of those at larger C", 0.5, edge / whole)


def normal_colours() -> Iterator[Row]:
    within = 100 * math.erf(3 / math.sqrt(2))
    yield compare_exact("5.3: percent within three deviations", "99.7", within)
    yield _half_at_the_edge("5.3", normal(1000, 1000, 100), normal(COLOURS, 1000, 100))
    ours = initial_colours(normal(COLOURS, 1000, 100).p, PLACES)
    yield compare_exact("5.3: colours at t = K; deviation 100, K = 1000", "373", ours)


def poisson_colours() -> Iterator[Row]:
    yield compare_approximate("5.4: colours that are ever drawn; mean 1000", 190, 6 * math.sqrt(1000))
    yield _half_at_the_edge("5.4", poisson(1000, 1000), poisson(COLOURS, 1000))
    ours = initial_colours(poisson(COLOURS, 55_000).p, PLACES)
    yield compare_exact("5.4: colours at t = K; mean 55000, K = 1000", "599", ours)


def power_colours() -> Iterator[Row]:
    ours = initial_colours(power(10_000, 1.1).p, PLACES)
    yield compare_exact("5.5: colours at t = K; gamma 1.1, C = 10000", "404", ours)
    yield compare_exact("5.5: probability of the super colour; gamma 5", "0.9644", power(COLOURS, 5).p[0])


def crawl() -> Iterator[Row]:
    large = float((power_law(0.9).p > 1 / COLOURS).mean())
    yield new_row(
        "6: share of colours larger than the average; gamma 0.9",
        large,
        "about an unpublished crawl the thesis says: about 10 % are likely, 90 % are not",
    )


def known_elephants() -> Iterator[Row]:
    # Filled as in Figure 7.9: after a neutral filling it takes a million steps to reach this number.
    game = play_elephants(1.7, 1, "per-host", beta=200.0)
    yield compare_approximate("7.4: colours in the end; gamma 1.7, beta 200", 950, game.distinct)
    label = "7.4: colours in the limit, as a share of those after 200000 steps; gamma"
    shares = {
        gamma: stationary_means(power_law(gamma).p, PLACES).per_step
        / play_neutral(power_law(gamma), PLACES, 200_000).distinct.mean
        for gamma in (0.3, 0.5)
    }
    note = "the thesis saw no decrease in 10^8 steps; by the exact mean there is none"
    yield compare_approximate(f"{label} 0.3", 1.0, shares[0.3], note)
    yield new_row(f"{label} 0.5", shares[0.5], "the thesis saw the number still falling at the end of Figure 7.7")


def found_elephants() -> Iterator[Row]:
    yield compare_approximate(
        "8.1: colours in the end, almost K; delta 1, gamma 0.9", PLACES, play_elephants(0.9, 1, "per-host").distinct
    )
    detected = play_elephants(1.3, 5, "per-host").distinct
    known = play_elephants(1.3, 1, "per-host", beta=10.0).distinct
    yield compare_approximate(
        "8.1: colours with delta 5 as a share of those with beta 10; gamma 1.3", 1.0, detected.mean / known.mean
    )
    least, most = (play_elephants(1.5, delta, "per-host").cost.mean for delta in (10, 1))
    yield compare_approximate(
        "8.2: moves of the head per step; gamma 1.5, delta 2",
        14,
        play_elephants(1.5, 2, "per-host").cost,
        f"the thesis does not say for which delta: it is {least:.1f} at 10 and {most:.1f} at 1",
    )
    for gamma in tables()["8.5"].columns:
        one, several = play_elephants(gamma, 5, "one").distinct, play_elephants(gamma, 5, "per-host").distinct
        label = f"8.2: colours with one queue as a share of those with many; delta 5, gamma {gamma}"
        yield compare_approximate(label, 1.0, one.mean / several.mean)
    yield new_row("8.2: seconds for gamma 1.3, delta 2, one queue", _seconds(), "the thesis: 13 hours")


def recommended() -> Iterator[Row]:
    reached = _elephants_if_five_suffice()
    meant, printed = (play_elephants(0.9, 5, "one").elephants[200_000], tables()["8.5"].cell(5, 0.9).printed)
    yield Row(
        "8.4: balls that make an elephant in Algorithm 12",
        5,
        6,
        None,
        Verdict.MISPRINT,
        f"with 5 Table 8.5 would have {reached.mean:.0f} elephants (delta 5, gamma 0.9); it prints "
        f"{printed}, and more than 5, as section 8.1 defines it, gives {meant.mean:.0f}",
    )
    plain, adapted = play_elephants(0.9, 5, "one"), play_elephants(0.9, 5, "one", adapted=True)
    yield compare_approximate(
        "8.4: colours with the possible adaptation as a share of those without; gamma 0.9",
        1.0,
        adapted.distinct.mean / plain.distinct.mean,
    )
    share = Sample(plain.distinct.mean / PLACES, plain.distinct.spread / PLACES, plain.distinct.games)
    yield compare_approximate("9.1: share of the largest throughput; Algorithm 12, gamma 0.9", 0.9, share)


def _elephants_if_five_suffice() -> Sample:
    game = Game(power_law(0.9), PLACES, 200_000, strategy("alg12", delta=5, trigger="reaches"))
    return Sample.of([float(play(game, seed).elephants[-1]) for seed in range(1, 11)])


def _seconds() -> float:
    game = Game(power_law(1.3), PLACES, 200_000, strategy("alg12", delta=2))
    play(Game(power_law(1.3), PLACES, 1, strategy("alg12")), 1)  # compiles the kernel before the clock starts
    started = time.perf_counter()
    play(game, 1)
    return time.perf_counter() - started


SECTIONS: tuple[Callable[[], Iterator[Row]], ...] = (
    introduction,
    initial_phase,
    homogeneous,
    uniform_colours,
    exponential_colours,
    normal_colours,
    poisson_colours,
    power_colours,
    crawl,
    known_elephants,
    found_elephants,
    recommended,
)

REMARKS = (
    'a number that the thesis calls "about" is the same within 10 %',
    "3.2: the number of colours for C much larger than K is K - O(K^2/C), not K - O(K/C): at K = 1000 and "
    f"C = 100000 it is {PLACES - initial_colours(np.full(COLOURS, 1 / COLOURS), PLACES):.2f} short of K",
    "4.2: in the proof of Corollary 4.2.4 P_new is (C - 1)/(K + C - 1), not (C - 1)/(K + C)",
    "5.2: the derivative of (5.1) by the mean lacks a factor 1/mean^2, and it is negative for colours "
    "below the mean: a larger mean makes the frequent colours rarer",
    "7.2: the text lets Figure 7.1 start from the source (Algorithm 1), its caption names Algorithm 2",
)


def text_numbers(progress: Progress) -> Result:
    """Results of formulas (chapters 3 to 5) and of single simulations (chapters 5 to 9)."""
    sections = with_progress(SECTIONS, progress, lambda section: section.__name__.replace("_", " "))
    return Result(tuple(row for section in sections for row in section()), remarks=REMARKS)


_TITLE = "The numbers in the thesis' sentences"
EXPERIMENTS = (experiment("thesis-prose", _TITLE, text_numbers, group="urn", shares="thesis games"),)
