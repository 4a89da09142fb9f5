"""`fieldmouse refresh`: polls of known pages."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from fieldmouse.api.refreshing import plan_to_refresh
from fieldmouse.cli import console, options
from fieldmouse.cli.crawl import crawl
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
@click.option("--budget", metavar="RATE", help='Limit the polls, such as 500/h; "none" for no limit.')
@click.option(
    "--policy",
    metavar="NAME",
    help="Policy that plans the polls: learned, uniform, ..., or module:Class. Not used with --once.",
)
@click.option("--once", is_flag=True, help="End when every known page was polled once.")
@click.option("--for", "time", metavar="T", help="End after this time, such as 1d.")
@click.option("--continue", "rest", is_flag=True, help="Also fetch the URLs that still wait to be crawled.")
@options.request_options
@options.json_option
def command(
    directory: Path,
    budget: str | None,
    policy: str | None,
    once: bool,
    time: str | None,
    rest: bool,
    as_json: bool,
    **given: Unpack[options.SharedCrawlOptions],
) -> int:
    """Keep the pages of the crawl in DIRECTORY fresh.

    Known pages are polled within the budget, with conditional requests. robots.txt
    is checked again. A changed page is archived and replaces the old copy in search,
    and its new links are followed. A page that is gone (404, 410) or excluded by
    robots.txt leaves search. Network and server errors change nothing.

    With --once the command ends when every known page was polled once, the pages
    most likely to have changed first, and all newly discovered URLs are fetched. A stopped round
    continues with the same command. Pages of a host that fails, or asks to wait more
    than ten seconds, are postponed to the start of the next round.
    With --for the command ends after that time; with neither option it runs until
    it is stopped. URLs that still wait from the crawl are fetched only with --continue.
    """
    every = options.progress_every(given)
    polling = {"refresh.budget": budget, "refresh.policy": policy}
    words, changes = options.split_settings(given, time=time)
    changes = {key: value for key, value in polling.items() if value is not None} | changes
    with console.stdout_to_stderr():
        plan = plan_to_refresh(directory, words, changes, once=once, rest=rest)
    try:
        return crawl.run_plan(plan, as_json=as_json, every=every)
    except FieldmouseError as trouble:
        # Not the usual hint `resume`: it would also fetch the URLs that wait to be crawled.
        trouble.replace_resume_command("refresh", options.options_to_repeat(plan.settings.secret_names))
        raise
