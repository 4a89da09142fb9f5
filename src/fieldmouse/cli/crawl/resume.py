"""`fieldmouse resume`: continuation of a crawl from its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from fieldmouse.api.crawl_preparation import CrawlPlan, plan_to_resume
from fieldmouse.cli import console, options
from fieldmouse.cli.crawl import crawl
from fieldmouse.config import settings_file
from fieldmouse.formatting import format_count

if TYPE_CHECKING:
    from fieldmouse.crawler.retry_failed import RetryCounts


@click.command(
    epilog="""\b
Examples:
  fieldmouse resume atlas
  fieldmouse resume atlas --pages 50000 --delay 2s
  fieldmouse resume atlas --seed https://example.org/news/
  fieldmouse resume atlas --retry-failed"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--seed", "seeds", metavar="URL", multiple=True, help="Add this seed to the crawl; repeatable.")
@options.retry_failed_option
@options.crawl_options
@options.json_option
def command(
    directory: Path, seeds: tuple[str, ...], retry_failed: bool, as_json: bool, **given: Unpack[options.CrawlOptions]
) -> int:
    """Continue the crawl in DIRECTORY after a stop, a limit or a kill.

    The settings come from its fieldmouse.toml; options change them for this run only.
    A limit that has been reached is lifted unless a new one is given. Seeds given here
    are added to that file. New seeds, given here or in the file, are visited. With
    --retry-failed the URLs of failed hosts (no address, no connection, no robots.txt)
    are visited again; together with --allow-private also those of hosts that were
    refused for a private address.
    """
    every = options.progress_every(given)
    with console.stdout_to_stderr():
        plan = plan_to_resume(directory, *options.split_settings(given), seeds)
    _report_lifted_limits(plan)
    if plan.new_seeds:  # the crawl itself notes that a changed scope applies to new links only
        console.message(f"{format_count(len(plan.new_seeds), 'seed')} added")
    return crawl.run_plan(plan, as_json=as_json, every=every, on_retried=report_retried if retry_failed else None)


def report_retried(retried: RetryCounts) -> None:
    hosts, urls = format_count(retried.hosts, "host"), format_count(retried.urls, "URL")
    console.message(f"retrying {hosts} and {urls}" if retried.hosts else "no failed host to retry")


def _report_lifted_limits(plan: CrawlPlan) -> None:
    if not plan.lifted_limits:
        return
    kept = settings_file.load(plan.directory / "fieldmouse.toml").crawl
    if "pages" in plan.lifted_limits:
        console.message(f"the limit of {format_count(kept.pages, 'page')} was reached; continuing without it")
    if "time" in plan.lifted_limits:
        console.message(f"the limit of {console.format_duration(kept.time)} was reached; continuing without it")
