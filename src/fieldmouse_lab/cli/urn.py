"""`fieldmouse lab urn` and `lab exact`: urn games, played and computed, and the options of their source."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fieldmouse.cli import console, options
from fieldmouse.errors import UsageError
from fieldmouse_lab.cli import bench

if TYPE_CHECKING:
    from fieldmouse_lab.urn.game import Game, GameResult
    from fieldmouse_lab.urn.sources import Source
    from fieldmouse_lab.urn.strategies import Strategy


F = TypeVar("F", bound=Callable[..., Any])

SOURCE_NAMES = ("uniform", "exponential", "normal", "poisson", "power", "empirical")


def source_options(command: F) -> F:
    """Add the options for the hosts, their probabilities and the capacity."""
    for option in reversed(
        [
            bench.choice_option("--source", SOURCE_NAMES, "Distribution of the hosts.", "power"),
            bench.default_option("--hosts", 100_000, "Number of hosts.", "C"),
            bench.default_option("--gamma", 0.9, "power: host i has a probability proportional to i^-G.", "G"),
            click.option(
                "--mean", type=float, metavar="M", help="exponential, normal, poisson: the mean. [a tenth of C]"
            ),
            click.option("--deviation", type=float, metavar="S", help="normal: the deviation. [a tenth of the mean]"),
            click.option(
                "--crawl",
                type=click.Path(path_type=Path),
                metavar="DIR",
                help="empirical: the hosts of the crawl in DIR, by number of URLs.",
            ),
            bench.default_option("--capacity", 1000, "URLs that fit online.", "K"),
        ]
    ):
        command = option(command)
    return command


def make_source(given: Mapping[str, Any], permute_every: int = 0, balls: int = 0) -> Source:
    """Source that the options describe."""
    from fieldmouse_lab.urn import sources

    hosts, name = given["hosts"], given["source"]
    mean = hosts / 10 if given["mean"] is None else given["mean"]
    if (name == "empirical") != (given["crawl"] is not None):
        raise UsageError(
            "`--source empirical` and `--crawl DIR` need each other",
            "write `--source empirical --crawl DIR`, or leave both out",
        )
    match name:
        case "uniform":
            found = sources.uniform(hosts)
        case "exponential":
            found = sources.exponential(hosts, mean)
        case "normal":
            deviation = given["deviation"]
            if deviation is None and not mean > 0.0:
                raise UsageError(
                    f"a mean of {mean:g} leaves no deviation to choose", "give a mean above 0, or `--deviation`"
                )
            found = sources.normal(hosts, mean, mean / 10 if deviation is None else deviation)
        case "poisson":
            found = sources.poisson(hosts, mean)
        case "power":
            found = sources.power(hosts, given["gamma"])
        case _:
            found = sources.empirical_source(list(sources.host_url_counts(given["crawl"]).values()))
    found = sources.finite_source(found, balls) if balls else found
    return replace(found, permute_every=permute_every) if permute_every else found


#: Options that some strategies do not have; the command then prints a note and ignores them.
STRATEGY_OPTIONS = ("delta", "trigger", "stop_search", "queues")


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab urn --gamma 1.3 --strategy alg12 --delta 2
  fieldmouse lab urn --gamma 0.9 --strategy index --permute-every 20000 --json
  fieldmouse lab urn --source empirical --crawl atlas --capacity 50 --set draws=8"""
)
@source_options
@bench.default_option("--steps", 200_000, "Number of steps.", "T")
@click.option(
    "--strategy",
    "name",
    default="index",
    show_default=True,
    metavar="NAME",
    help="none, alg1 to alg12, alg12-adapted, or any policy of the crawler.",
)
@click.option("--delta", type=int, metavar="N", help="alg11, alg12: URLs online above which a host is an elephant. [5]")
@bench.choice_option(
    "--trigger", ["exceeds", "reaches"], "alg11, alg12: whether an elephant exceeds delta or reaches it. [exceeds]"
)
@click.option(
    "--stop-search", type=click.IntRange(0), metavar="T", help="alg11, alg12: find no new elephants after step T."
)
@bench.choice_option("--queues", ["per-host", "one"], "alg11, alg12: offline queues. [alg11: per-host, alg12: one]")
@click.option(
    "--permute-every",
    type=int,
    default=0,
    metavar="N",
    help="Reassign the probabilities to the hosts at random every N steps.",
)
@click.option("--balls", type=int, default=0, metavar="N", help="End the source after N URLs.")
@bench.choice_option("--initial", ["strategy", "neutral"], "Placement of the first K URLs. [alg1 to alg10: neutral]")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Any other parameter of the strategy.")
@bench.seed_option
@options.json_option
def command(as_json: bool, **given: Any) -> int:
    """Play the urn game: K places online, T steps, one strategy.

    URLs are balls and hosts are colours. Each step takes a ball of one of the hosts
    online, each host with the same chance; the strategy brings another, from the
    source or from offline. The more different hosts are online, the better.

    Hosts online are a mean over the last half of the game, rates over all of it.
    """
    if given["seed"] < 0:
        raise UsageError(f"`--seed {given['seed']}` is negative", "give 0 or more")
    if given["balls"] < 0:
        raise UsageError(f"a source of {given['balls']} balls has nothing to give", "give `--balls` 1 or more")
    drawn = make_source(given, given["permute_every"], given["balls"])

    from fieldmouse_lab.urn import exact
    from fieldmouse_lab.urn.game import Game
    from fieldmouse_lab.urn.play import play

    chosen = _strategy(given)
    game = Game(drawn, given["capacity"], given["steps"], chosen, initial=given["initial"])
    _compile(game)
    started = time.perf_counter()
    outcome = bench.interruptible(play, game, given["seed"])
    seconds = time.perf_counter() - started
    # The bound is about a source that stays as it is.
    steady = not (drawn.permute_every or drawn.finite)
    fewest = exact.min_draws_per_step(drawn.p, game.capacity) if steady else math.inf
    found = _found(game, outcome)
    found["fewest_draws_per_step"] = fewest if math.isfinite(fewest) else None
    found["seconds"] = round(seconds, 4)
    if as_json:
        console.print_json(found)
        return 0
    _show(game, outcome, found)
    return 0


def _strategy(given: Mapping[str, Any]) -> Strategy:
    from fieldmouse_lab.urn.strategies import strategy, strategy_parameters

    name = given["name"]
    known = strategy_parameters(name)
    wishes: dict[str, Any] = {}
    for option in STRATEGY_OPTIONS:
        if given[option] is not None and option in known:
            wishes[option] = given[option]
        elif given[option] is not None:
            console.message(f"strategy `{name}` has no use for `--{option.replace('_', '-')}`")
    wishes |= {key: _value(key, word, known) for key, word in options.parse_set_options(given["changes"]).items()}
    return strategy(name, **wishes)


def _value(key: str, value: str, known: Mapping[str, Any]) -> Any:
    """Parse `value` as the type of its default; a parameter without a default is a number."""
    usual = known.get(key)
    if isinstance(usual, bool):
        if value not in ("true", "false"):
            raise UsageError(f"`--set {key}={value}` is neither true nor false", f"write `--set {key}=true`")
        return value == "true"
    if isinstance(usual, str):
        return value
    kind = int if isinstance(usual, int) else float
    try:
        return kind(value)
    except ValueError:
        wanted = "whole number" if kind is int else "number"
        raise UsageError(f"`--set {key}={value}` is no {wanted}", f"write it as `--set {key}=2`") from None


def _compile(game: Game) -> None:
    """Load or compile the game before it is timed; print a note if that takes long."""
    from fieldmouse.jit import HAS_NUMBA
    from fieldmouse_lab.urn.play import play

    if not HAS_NUMBA:
        console.message("numba is not installed, so the game is played a hundred times as slowly")
        console.hint("`pip install 'fieldmouse[lab]'`")
        return
    with bench.compiling("game"):
        play(game.minimal_game(), 0)


def _found(game: Game, outcome: GameResult) -> dict[str, Any]:
    return {
        "source": game.source.name,
        "hosts": game.source.hosts,
        "capacity": game.capacity,
        "strategy": game.strategy.name,
        "steps": outcome.steps,
        "end": outcome.end.value,
        "distinct_mean": outcome.distinct_mean,
        "distinct_fraction": outcome.distinct_mean / game.capacity,
        "elephants": int(outcome.elephants[-1]),
        "draws_per_step": outcome.per_step_since_start(outcome.draws),
        "appends_per_step": outcome.per_step_since_start(outcome.appends),
        "reads_per_step": outcome.per_step_since_start(outcome.reads),
        "head_moves_per_step": outcome.per_step_since_start(outcome.moves),
        "backlog": int(outcome.backlog[-1]),
        "hosts_waiting": int(outcome.waiting[-1]),
    }


def _show(game: Game, outcome: GameResult, found: Mapping[str, Any]) -> None:
    from fieldmouse_lab.urn.game import GameEnd

    fewest = found["fewest_draws_per_step"]
    bound = f"  (in the long run {game.capacity:,} different hosts need {fewest:.4g})" if fewest else ""
    bench.print_table(
        [
            ("different hosts online", f"{outcome.distinct_mean:,.2f} of {game.capacity:,}"),
            ("draws per step", f"{found['draws_per_step']:.4g}{bound}"),
            ("written offline per step", f"{found['appends_per_step']:.4g}"),
            ("read from there per step", f"{found['reads_per_step']:.4g}"),
            ("waiting offline", f"{found['backlog']:,} of {found['hosts_waiting']:,} hosts"),
            ("elephants", f"{found['elephants']:,}"),
        ]
    )
    console.message(f"{outcome.steps:,} steps in {console.format_duration(found['seconds'])}")
    if outcome.end is not GameEnd.STEPS:
        console.message(f"the game ended early: {outcome.end.value}")
    if game.source.hosts < game.capacity:
        console.hint(f"{game.source.hosts:,} hosts cannot take {game.capacity:,} different places")


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab exact --source power --gamma 0.9 --hosts 100000 --capacity 1000
  fieldmouse lab exact --source uniform --hosts 1000 --capacity 100 --json"""
)
@source_options
@options.json_option
def exact(capacity: int, as_json: bool, **given: Any) -> int:
    """Compute how many different hosts are online on average, without playing the game.

    Without an offline side the game is a closed network of queues, solved for any
    source: after the first K balls, and in the long run, where time passes and where
    steps are counted. Last comes what no strategy can beat: the draws per step that
    K different hosts need.
    """
    if capacity < 1:
        raise UsageError(f"a game with {capacity} places is none", "give `--capacity` 1 or more")
    drawn = make_source(given)

    from fieldmouse_lab.urn import exact

    means = exact.stationary_means(drawn.p, capacity)
    fewest = exact.min_draws_per_step(drawn.p, capacity)
    found = {
        "hosts": drawn.hosts,
        "capacity": capacity,
        "initial_mean": exact.initial_colours(drawn.p, capacity),
        "stationary_mean_time": means.per_time,
        "stationary_mean_step": means.per_step,
        "fewest_draws_per_step": fewest if math.isfinite(fewest) else None,
    }
    if as_json:
        console.print_json(found)
        return 0
    needs = f"{fewest:.4f} draws per step" if math.isfinite(fewest) else "more hosts than there are"
    bench.print_table(
        [
            ("hosts online after the first balls", f"{found['initial_mean']:.4f}"),
            ("in the long run, over time", f"{means.per_time:.4f}"),
            ("in the long run, over steps", f"{means.per_step:.4f}"),
            (f"to have all {capacity:,} different, any strategy needs", needs),
        ]
    )
    return 0
