"""`fieldmouse model optimise`: the rule with the lowest cost, or the best within bounds."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import console, options
from fieldmouse.errors import UsageError
from fieldmouse_lab.cli.bench import choice_option, events_option, interruptible, model_file_argument, print_table

if TYPE_CHECKING:
    from fieldmouse.queueing.model.model import CostWeights, Model
    from fieldmouse.queueing.model.model_file import ModelFileContent
    from fieldmouse.queueing.optimise.best_thresholds import Optimum


#: Events of each simulation of a search.
SEARCH_EVENTS = 300_000

#: Measures that can be minimised or bounded, by the paper's symbols.
SYMBOLS = {
    "P_loss": "loss",
    "P_obs": "obs",
    "P_star": "star",
    "N_act": "robots",
    "V": "sojourn",
    "V1": "sojourn_served",
}


@click.command(
    epilog="""\b
Examples:
  fieldmouse model optimise examples/thresholds.json
  fieldmouse model optimise examples/inria.json --modes 1,4 --json
  fieldmouse model optimise examples/thresholds.json --least P_star --at-most P_loss=0.2"""
)
@model_file_argument
@options.modes_option("Consider only these numbers of fetch workers.")
@choice_option("--least", list(SYMBOLS), "Minimise this measure instead of the cost.")
@click.option("--at-most", metavar="MEASURE=X", multiple=True, help="With --least: upper bound of a measure.")
@click.option(
    "--in-flight", is_flag=True, help="Count fetches in flight, as --control auto does; also choose to wait or to drop."
)
@events_option(SEARCH_EVENTS, "Number of events of each simulation.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the simulations.")
@options.json_option
def command(
    file: Path,
    modes: tuple[int, ...] | None,
    least: str | None,
    at_most: tuple[str, ...],
    in_flight: bool,
    events: int,
    seed: int,
    as_json: bool,
) -> int:
    """Find the rule with the lowest cost for the model in FILE; `-` reads from stdin.

    Every subset of the modes and all limits are tried, and the best rule of each subset
    is printed. For a model with the method "simulate", local search by simulations is
    used instead. With --least one measure is minimised instead of the cost, within the
    bounds of --at-most, and the price of each bound is printed.

    With --in-flight, workers are not started and stopped at once: each first fetches a
    page, and delivers the one it is fetching. Their number is the largest mode.
    """
    from fieldmouse.policy.concurrency_thresholds import Thresholds
    from fieldmouse_lab.cli import model_files

    asked = model_files.read_model_file(file)
    chosen = list(modes) if modes is not None else None
    if at_most and least is None:
        raise UsageError("`--at-most` is a bound for `--least`, which is not given", "add `--least P_star`, say")
    if in_flight and least is not None:
        raise UsageError("`--in-flight` minimises the cost, not one measure", "leave out `--least`")
    if least is not None:
        return _within_bounds(asked, least, _bounds(at_most), chosen, as_json)
    if not any((asked.cost.loss, asked.cost.obs, asked.cost.sojourn, asked.cost.robots, asked.cost.star)):
        raise UsageError(
            "the model has no `cost`, so that every rule is as good as any other",
            'add `"cost": {"loss": 5, "obs": 10, "sojourn": 2, "robots": 20, "star": 300}`, say',
        )

    if in_flight:
        return _in_flight(asked, chosen, as_json)

    def answer(model: Model, cost: CostWeights, length: int) -> Optimum:
        from fieldmouse.queueing.optimise.best_thresholds import optimise, optimise_by_simulation

        if asked.method == "simulate":
            return interruptible(optimise_by_simulation, model, cost, length, seed, chosen)
        return interruptible(optimise, model, cost, chosen)

    answer(model_files.shrink_model(asked.model), asked.cost, 1000)
    began = time.perf_counter()
    best = answer(asked.model, asked.cost, events)
    seconds = time.perf_counter() - began
    if as_json:
        told = model_files.measures_row(best.measures, asked.cost)
        told |= {"robots": best.robots, "limits": best.limits, "J": best.J}
        told["subsets"] = [{"robots": one.robots, "limits": one.limits, "J": one.J} for one in best.subsets]
        console.print_json({**told, "exhaustive": best.exhaustive, "seconds": seconds})
        return 0
    rule = Thresholds(best.robots, best.limits)
    model_files.print_measures(asked.model, rule, best.measures, asked.cost)
    console.print_data()
    table = [(f"{one.J:.6g}", model_files.describe_rule(Thresholds(one.robots, one.limits))) for one in best.subsets]
    print_table([("J", "best rule of each subset of modes"), *table])
    tried = "" if best.exhaustive else ", too few to be sure"
    console.message(f"{best.rules:,} rules in {seconds:.2g} s{tried}; the best: {model_files.describe_rule(rule)}")
    return 0


def _in_flight(asked: ModelFileContent, modes: list[int] | None, as_json: bool) -> int:
    from fieldmouse.policy.concurrency_thresholds import Thresholds
    from fieldmouse.queueing.in_flight.model import in_flight_model
    from fieldmouse.queueing.in_flight.search import RuleSearch
    from fieldmouse_lab.cli import model_files

    began = time.perf_counter()
    best = RuleSearch(in_flight_model(asked.model), asked.cost, modes or asked.model.modes).best()
    seconds = time.perf_counter() - began
    if as_json:
        told = model_files.measures_row(best.measures, asked.cost)
        told |= {"robots": best.robots, "limits": best.limits, "when_full": best.when_full}
        console.print_json({**told, "seconds": seconds})
        return 0
    rule = Thresholds(best.robots, best.limits)
    model_files.print_measures(asked.model, rule, best.measures, asked.cost)
    console.message(f"the best rule: {model_files.describe_rule(rule)}; when the buffer is full, {best.when_full}")
    return 0


def _within_bounds(
    asked: ModelFileContent, least: str, at_most: dict[str, float], modes: list[int] | None, as_json: bool
) -> int:
    from fieldmouse.policy.concurrency_thresholds import Thresholds
    from fieldmouse.queueing.optimise import best_thresholds
    from fieldmouse.queueing.optimise.evaluated_rules import measure_all_rules
    from fieldmouse_lab.cli import model_files

    began = time.perf_counter()
    ground = interruptible(measure_all_rules, asked.model, modes)
    found = best_thresholds.minimise_within_bounds(
        ground, SYMBOLS[least], {SYMBOLS[name]: bound for name, bound in at_most.items()}
    )
    seconds = time.perf_counter() - began
    multipliers = {name: found.multipliers[SYMBOLS[name]] for name in at_most}
    if as_json:
        told = model_files.measures_row(found.measures, asked.cost)
        told |= {"robots": found.robots, "limits": found.limits, "least": least, "value": found.value}
        console.print_json({**told, "floor": found.floor, "multipliers": multipliers, "seconds": seconds})
        return 0
    rule = Thresholds(found.robots, found.limits)
    model_files.print_measures(asked.model, rule, found.measures, asked.cost)
    console.print_data()
    console.print_data(f"the rule with least {least}: {model_files.describe_rule(rule)}")
    for name, price in multipliers.items():
        console.message(f"{least} falls by {price:.4g} for each 1 that the bound on {name} is loosened")
    return 0


def _bounds(words: tuple[str, ...]) -> dict[str, float]:
    bounds = {}
    for word in words:
        name, _, bound = word.partition("=")
        try:
            bounds[name] = float(bound)
            if math.isnan(bounds[name]):
                raise ValueError
        except ValueError:
            raise UsageError(f"`--at-most {word}` has no bound", "write it as --at-most P_loss=0.2") from None
        if name not in SYMBOLS:
            raise UsageError(f"`--at-most {word}` names no measure", f"there are {', '.join(SYMBOLS)}")
    return bounds
