"""`fieldmouse lab`: commands of the lab."""

from __future__ import annotations

import click

from fieldmouse.cli.main import Commands, LazyGroup

COMMANDS: Commands = {
    "list": ("fieldmouse_lab.cli.run:list_experiments", "List the experiments."),
    "run": ("fieldmouse_lab.cli.run:command", "Run experiments and compare every number with the printed one."),
    "report": ("fieldmouse_lab.cli.report:command", "Write one HTML page with all tables, verdicts and figures."),
    "urn": ("fieldmouse_lab.cli.urn:command", "Play the urn game: how many distinct hosts does a policy keep at hand?"),
    "refresh": (
        "fieldmouse_lab.cli.refresh:command",
        "Play a polling policy: how fresh does it keep pages that change by chance?",
    ),
    "exact": ("fieldmouse_lab.cli.urn:exact", "Compute what the urn game should give, without playing it."),
    "network": (
        "fieldmouse_lab.cli.network:command",
        "Simulate a network of agents: which of them should visit a host next?",
    ),
    "replay": ("fieldmouse_lab.cli.replay:command", "Ask what another policy would have decided on a crawl of yours."),
}


@click.group(cls=LazyGroup, sections={"Commands": COMMANDS})
def command() -> None:
    """Run experiments: reproduce the papers' numbers, and go beyond them.

    The crawler's policies are based on published work. The lab recomputes the tables of
    these papers with the crawler's own policies, and gives each printed number a
    verdict: same, misprint, outlier or different.
    """
