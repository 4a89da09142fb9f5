"""`fieldmouse lab network`: one simulated network of agents, compared with the best possible."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import click

from fieldmouse.cli import console, options
from fieldmouse.errors import UsageError
from fieldmouse_lab.cli import bench

if TYPE_CHECKING:
    from fieldmouse_lab.network.play import NetworkSetting


_POLICIES = ("kalman", "hash", "ipmicra", "shortest-delay", "two-choices", "priced")
_MOST_PAIRS = 20_000_000  # hosts times agents: 80 bytes of memory each
_SHOCKS = ("none", "slow", "die", "join", "drift")


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab network --policy priced
  fieldmouse lab network --environment large --policy kalman --sigma-tr 1 --sigma-ob 20
  fieldmouse lab network --policy hash --shock die --json
  fieldmouse lab network --hosts 10000 --agents 100"""
)
@bench.choice_option("--environment", ["small", "large"], "Hosts of the thesis: 100, or 1,000.", "small")
@click.option("--hosts", type=int, metavar="N", help="Number of hosts instead, a multiple of 100.")
@bench.choice_option("--policy", _POLICIES, "Policy that assigns hosts to agents.", "priced")
@bench.choice_option(
    "--reading",
    ["literal", "calibrated"],
    "Round-trip times as printed, or calibrated to the printed figures.",
    "literal",
)
@bench.default_option("--sigma-tr", 0.1, "kalman: transition noise.", "S")
@bench.default_option("--sigma-ob", 2.0, "kalman: observation noise.", "S")
@bench.default_option("--seconds", 150_000.0, "Seconds to simulate.")
@bench.default_option("--agents", 4, "Number of agents.", "N")
@bench.choice_option(
    "--shock", _SHOCKS, "Agent 4 becomes slow or dies, a fifth agent joins, or round-trip times drift.", "none"
)
@click.option("--transfer", type=float, default=0.0, metavar="S", help="Seconds to move a host to another agent.")
@click.option("--delay", type=float, default=0.0, metavar="S", help="Seconds between two visits to a host.")
@bench.seed_option
@options.json_option
def command(as_json: bool, seed: int, **given: Any) -> int:
    """Simulate a network of agents on the thesis's web, in virtual time.

    An agent visits one host at a time and then chooses the agent of the next visit. The
    results are means over the last half of the time; under a shock, over its duration.
    The limit is the throughput of the best division of equal visits over the agents.
    The harmonic throughput is the number of hosts over the mean time between two visits
    of a host: visiting fast hosts more often does not raise it.
    """
    setting = _setting(given)
    if seed < 0:
        raise UsageError(f"`--seed {seed}` is negative", "give 0 or more")

    from fieldmouse_lab.catalogue import explain_missing_extra
    from fieldmouse_lab.network.play import play_network

    with explain_missing_extra():
        _compile(setting)
        started = time.perf_counter()
        figures = bench.interruptible(play_network, setting, seed)
        seconds = time.perf_counter() - started
    if as_json:
        shares = {"fraction_of_limit": figures.fraction_of_limit, "seconds": round(seconds, 4)}
        console.print_json(dataclasses.asdict(figures) | shares)
        return 0
    bench.print_table(
        [
            ("visits a second", f"{figures.throughput:.3f}"),
            ("... when all hosts count alike", f"{figures.harmonic_throughput:.3f}"),
            ("the best there could be", f"{figures.limit:.3f}, of which {figures.fraction_of_limit:.1%}"),
            ("fairness (0 is equal)", f"{figures.fairness:,.2f} s"),
            ("Jain's index (1 is equal)", f"{figures.jain:.3f}"),
            ("hosts that changed agents", f"{figures.exchanges:,}, {figures.moves_per_task:.3f} a visit"),
        ]
    )
    console.message(f"{setting.seconds:,.0f} simulated seconds in {console.format_duration(seconds)}")
    return 0


def _compile(setting: NetworkSetting) -> None:
    """Compile the simulation before it is timed; the first time takes half a minute."""
    from fieldmouse_lab.network.play import NetworkGame, web_of_seed

    with bench.compiling("simulation"):
        game = bench.interruptible(NetworkGame, setting, web_of_seed(setting, 0), 0)
        bench.interruptible(game.advance, 1.0, measuring=True)


def _setting(given: dict[str, Any]) -> NetworkSetting:
    from fieldmouse_lab.network.environment import TripReading
    from fieldmouse_lab.network.play import NetworkSetting, Shock

    # In a shorter time there is nothing to measure: shocks come at 20,000 seconds.
    shortest = 100.0 if given["shock"] in ("none", "drift") else 20_100.0
    if not given["seconds"] >= shortest:
        raise UsageError(
            f"`--seconds {given['seconds']:g}` is too short to measure anything", f"give {shortest:,.0f} or more"
        )
    fewest = 4 if given["shock"] in ("slow", "die") else 1
    if not fewest <= given["agents"] <= 1000:
        raise UsageError(
            f"`--agents {given['agents']}` cannot be played"
            + (f" with `--shock {given['shock']}`, which strikes agent 4" if fewest > 1 else ""),
            f"give {fewest} to 1000",
        )
    hosts = given["hosts"]
    if hosts is not None and (hosts < 100 or hosts % 100 or hosts * given["agents"] > _MOST_PAIRS):
        most = _MOST_PAIRS // given["agents"] // 100 * 100
        raise UsageError(
            f"`--hosts {hosts}` cannot be played by {given['agents']} agents",
            f"give a number of whole hundreds, {most:,} at most",
        )
    for name in ("sigma_ob", "sigma_tr", "transfer", "delay"):
        least = 1e-6 if name == "sigma_ob" else 0.0
        if not least <= given[name] < 1e6:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"`{option} {given[name]:g}` makes no sense", "give a number from 0 on")
    times = hosts // 100 if hosts is not None else 10 if given["environment"] == "large" else 1
    same = {name: given[name] for name in ("policy agents seconds sigma_tr sigma_ob transfer delay").split()}
    return NetworkSetting(times=times, reading=TripReading(given["reading"]), shock=Shock(given["shock"]), **same)
