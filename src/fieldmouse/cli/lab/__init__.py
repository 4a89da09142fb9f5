"""`fieldmouse lab`: commands of the lab."""

from __future__ import annotations

import click

from fieldmouse.cli.lazy import LazyGroup

VERBS = {
    "list": "List the experiments.",
    "run": "Run experiments and compare every number with the printed one.",
    "report": "Write one HTML page with all tables, verdicts and figures.",
    "urn": "Play the urn game: how many distinct hosts does a policy keep at hand?",
    "refresh": "Play a polling policy: how fresh does it keep pages that change by chance?",
    "exact": "Compute what the urn game should give, without playing it.",
    "network": "Simulate a network of agents: which of them should visit a host next?",
    "replay": "Ask what another policy would have decided on a crawl of yours.",
}


@click.group(cls=LazyGroup, verbs=VERBS, shelf="lab")
def command() -> None:
    """Run experiments: reproduce the papers' numbers, and go beyond them.

    The crawler's policies are based on published work. The lab recomputes the tables of
    these papers with the crawler's own policies, and gives each printed number a
    verdict: same, misprint, outlier or different.
    """
