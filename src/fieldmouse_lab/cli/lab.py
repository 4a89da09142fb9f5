"""`fieldmouse lab`: commands of the lab."""

from __future__ import annotations

import click

from fieldmouse.cli.main import Commands, LazyGroup

COMMANDS: Commands = {
    "list": ("fieldmouse_lab.cli.run:list_experiments", "List the experiments."),
    "run": ("fieldmouse_lab.cli.run:command", "Run experiments and compare every number with the printed one."),
    "report": ("fieldmouse_lab.cli.report:command", "Write one HTML page with all tables, verdicts and figures."),
    "urn": ("fieldmouse_lab.cli.urn:command", "Play the urn game: how many distinct hosts a policy keeps online."),
    "refresh": ("fieldmouse_lab.cli.refresh:command", "Play a polling policy on pages that change at random."),
    "exact": ("fieldmouse_lab.cli.urn:exact", "Compute the exact means of the urn game without playing it."),
    "network": ("fieldmouse_lab.cli.network:command", "Simulate a network of agents under a balancing policy."),
    "replay": ("fieldmouse_lab.cli.replay:command", "Replay a recorded crawl with another policy, and compare."),
}


@click.group(cls=LazyGroup, sections={"Commands": COMMANDS})
def command() -> None:
    """Run experiments: reproduce the papers' numbers, and go beyond them.

    The crawler's policies are based on published work. The lab recomputes the tables of
    these papers with the crawler's own policies, and gives each printed number a
    verdict: same, misprint, outlier or different.
    """
