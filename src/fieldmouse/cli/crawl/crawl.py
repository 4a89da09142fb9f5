"""`fieldmouse crawl`: a new crawl in a new directory."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
import msgspec

from fieldmouse import url
from fieldmouse.api import crawl_preparation
from fieldmouse.api.crawl_preparation import CrawlPlan
from fieldmouse.cli import console, options, progress_and_summary
from fieldmouse.cli.signals import StopSignals
from fieldmouse.errors import UsageError

if TYPE_CHECKING:
    from fieldmouse.crawler.retry_failed import RetryCounts
    from fieldmouse.crawler.run import CrawlRun


@click.command(
    epilog="""\b
Examples:
  fieldmouse crawl atlas --seed https://example.org/ --contact you@example.org
  fieldmouse crawl atlas --seeds-file seeds.txt --pages 10000 --delay 2s
  fieldmouse crawl local --seed http://127.0.0.1:8000/ --allow-private --delay 0s"""
)
@click.argument("directory", type=click.Path())
@click.option("--seed", "seeds", metavar="URL", multiple=True, help="Start the crawl at this URL; repeatable.")
@options.seeds_file_option
@options.scope_option
@options.seed_redirects_option
@click.option(
    "--policy",
    metavar="NAME",
    help="Policy that orders hosts: index, mice-and-elephants, greedy, neutral, or package.module:Class.",
)
@options.config_option
@options.crawl_options
@options.json_option
def command(
    directory: str,
    seeds: tuple[str, ...],
    seeds_file: str | None,
    scope: str | None,
    follow_seed_redirects: bool | None,
    policy: str | None,
    config: Path | None,
    as_json: bool,
    **given: Unpack[options.CrawlOptions],
) -> int:
    """Crawl websites into DIRECTORY, which must be new or empty.

    The default scope is "site": the crawl follows links only to hosts that share a
    registered domain with a seed (all loopback addresses count as one site). Every
    host gets one request at a time, with one second between two, and robots.txt is
    obeyed.

    The directory receives the pages as WARC files, a full-text index, a
    fieldmouse.toml with all settings, and the state that `fieldmouse resume` needs
    to continue after a stop or a kill.
    """
    every = options.progress_every(given)
    words, changes = options.split_settings(
        given, scope=scope, follow_seed_redirects=follow_seed_redirects, policy=policy
    )
    home = crawl_preparation.crawl_directory(directory)
    with console.stdout_to_stderr():
        plan = crawl_preparation.plan_new(home, words, changes, [*seeds, *read_seeds_file(seeds_file)], config)
    print_settings_notes(plan)
    return run_plan(plan, as_json=as_json, every=every)


def run_plan(
    plan: CrawlPlan, *, as_json: bool, every: float | None, on_retried: Callable[[RetryCounts], None] | None = None
) -> int:
    """Run the plan of the running command, show progress, print the summary, and return the exit code."""
    import uvloop

    # Imports most of the package, so not before the plan is known to be valid.
    from fieldmouse.crawler.retry_failed import RetryFailed

    # A new crawl stores its options.
    repeat = "" if plan.new else options.options_to_repeat(plan.settings.secret_names)
    if url.LOOPBACK in _seed_sites(plan) and not plan.settings.network.allow_private:
        console.message("note: loopback and private addresses are refused; allow them with `--allow-private`")
    console.show_warnings()
    console.message(progress_and_summary.first_line(plan.settings, str(plan.directory), plan.refresh_order))
    with StopSignals(console.urgent_message) as signals:

        def opened(life: CrawlRun) -> None:
            _tune_garbage_collector()
            signals.attach_loop(asyncio.get_running_loop().call_soon_threadsafe, life.interrupt, life.stop_at_once)

        private = plan.settings.network.allow_private
        retry_failed = RetryFailed(on_retried, private=private) if on_retried else None
        budget = plan.settings.refresh.budget if plan.refresh_order is not None else None
        polls, network = plan.refresh_order is not None, bool(plan.coordinators)
        line = progress_and_summary.ProgressLine(every=every, polls=polls, budget=budget, network=network)
        with closing(line), console.stdout_to_stderr():
            try:
                summary = crawl_preparation.run_plan(
                    plan, runner=uvloop.run, on_reading=line.show, on_open=opened, retry_failed=retry_failed
                )
            finally:
                signals.detach_loop()
        why, hint = crawl_preparation.explain_failed_run(summary, plan.directory) if summary.exit == 1 else ("", "")
        if as_json:
            console.print_json(msgspec.to_builtins(summary) | ({"error": why, "hint": hint} if why else {}))
        else:
            progress_and_summary.print_summary(summary, plan.settings, str(plan.directory), plan.refresh_order, repeat)
            if why:
                console.error(why, hint)
    return summary.exit


def _tune_garbage_collector() -> None:
    """Collect less often: pages leave few reference cycles, and the modules loaded by now stay loaded.

    Only for a process that does nothing but crawl.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def read_seeds_file(file: str | None) -> list[str]:
    if not file:
        return []
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as trouble:
        raise UsageError(f"cannot read the seeds in `{file}`: {trouble}", "check the name of the file") from trouble
    # A comment starts the line or follows white space; a `#` inside a URL belongs to the URL.
    lines = (re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def print_settings_notes(plan: CrawlPlan) -> None:
    """Print notes about settings that often surprise."""
    if _seed_sites(plan) != {url.LOOPBACK} and not plan.settings.crawl.contact:
        console.message("note: servers get no contact address; give one with `--contact you@example.org`")


def _seed_sites(plan: CrawlPlan) -> set[str]:
    return {url.site_of(url.hostname_of(url.host_of(seed))) for seed in plan.seeds}
