"""Options that describe a source of URLs, shared by `lab urn` and `lab exact`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fieldmouse.errors import UsageError

if TYPE_CHECKING:
    from fieldmouse.lab.urn import Source

F = TypeVar("F", bound=Callable[..., Any])

NAMES = ("uniform", "exponential", "normal", "poisson", "power", "empirical")


def options(command: F) -> F:
    """Add the options for the number of hosts and their probabilities."""
    for option in reversed(
        [
            click.option(
                "--source", type=click.Choice(NAMES), default="power", show_default=True,
                help="How probable each host is.",
            ),
            click.option(
                "--hosts", type=int, default=100_000, show_default=True, metavar="C", help="How many hosts."
            ),
            click.option(
                "--gamma", type=float, default=0.9, show_default=True, metavar="G",
                help="power: host i in proportion to i^-G.",
            ),
            click.option(
                "--mean", type=float, metavar="M",
                help="exponential, normal, poisson: the mean; a tenth of C if not given.",
            ),
            click.option(
                "--deviation", type=float, metavar="S", help="normal: a tenth of the mean if not given."
            ),
            click.option(
                "--crawl", type=click.Path(path_type=Path), metavar="DIR",
                help="empirical: the URLs of each host of the crawl in DIR.",
            ),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def source(given: Mapping[str, Any], permute_every: int = 0, balls: int = 0) -> Source:
    """Source that the options describe."""
    from fieldmouse.lab import urn

    hosts, name = given["hosts"], given["source"]
    mean = hosts / 10 if given["mean"] is None else given["mean"]
    if (name == "empirical") != (given["crawl"] is not None):
        raise UsageError(
            "`--source empirical` and `--crawl DIR` need each other",
            "write `--source empirical --crawl DIR`, or leave both out",
        )
    match name:
        case "uniform":
            found = urn.uniform(hosts)
        case "exponential":
            found = urn.exponential(hosts, mean)
        case "normal":
            deviation = given["deviation"]
            if deviation is None and not mean > 0.0:
                raise UsageError(
                    f"a mean of {mean:g} leaves no deviation to choose",
                    "give a mean above 0, or `--deviation`",
                )
            found = urn.normal(hosts, mean, mean / 10 if deviation is None else deviation)
        case "poisson":
            found = urn.poisson(hosts, mean)
        case "power":
            found = urn.power(hosts, given["gamma"])
        case _:
            from fieldmouse.lab.urn.crawled import counts

            found = urn.empirical(list(counts(given["crawl"]).values()))
    found = urn.ending(found, balls) if balls else found
    return replace(found, permute_every=permute_every) if permute_every else found
