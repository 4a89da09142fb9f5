"""`fieldmouse refresh`: known pages are asked for again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fieldmouse import api
from fieldmouse.cli import crawl, options, voice
from fieldmouse.errors import FieldmouseError


@click.command(
    epilog="""\b
Examples:
  fieldmouse refresh atlas --once
  fieldmouse refresh atlas --budget 500/h --for 1d
  fieldmouse refresh atlas --budget 2/s --policy uniform
  fieldmouse refresh atlas --once --continue --json"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--budget", metavar="RATE", help='Polls, such as 500/h; "none" for as many as politeness allows.'
)
@click.option(
    "--policy",
    metavar="NAME",
    help="How it is spread over the pages: learned, uniform, ..., or package.module:Class.",
)
@click.option("--once", is_flag=True, help="End when every known page was polled once.")
@click.option("--for", "time", metavar="T", help="End after this long, such as 1d.")
@click.option("--continue", "rest", is_flag=True, help="Also fetch the URLs that still wait to be crawled.")
@options.polite
@options.as_json
def command(
    directory: Path, budget: str | None, policy: str | None, once: bool, rest: bool, as_json: bool,
    **given: Any,
) -> int:  # fmt: skip
    """Keep the pages of the crawl in DIRECTORY fresh.

    Known pages are asked for again, within the budget, and politely: robots.txt is
    obeyed anew, and servers are asked only for something newer. What changed is
    archived and replaces the old copy in search; new links are followed; a page that
    is gone (404, 410), or excluded by robots.txt, leaves search. Trouble on the way
    changes nothing.

    With --once it ends when every known page was polled once, what pays most first,
    and everything that this discovered is fetched; a round that was stopped goes on.
    Pages of a host that fails or asks to wait for more than ten seconds are postponed:
    they come first in the next round.
    With --for it ends after that time, and with neither it goes on until it is
    stopped. URLs that were still waiting when the crawl was stopped are fetched only
    with --continue.
    """
    every = options.progress_every(given)
    words, changes = options.asked(given)
    asked = {"refresh.budget": budget, "refresh.policy": policy}
    changes = {name: value for name, value in asked.items() if value is not None} | changes
    with voice.talk_only():
        plan = api.plan_to_refresh(directory, words, changes, once=once, rest=rest)
    try:
        return crawl.run(plan, as_json=as_json, every=every)
    except FieldmouseError as trouble:
        # Who asked for a refresh does not want what waits to be crawled, which `resume` would fetch.
        trouble.continued_by("refresh")
        raise
