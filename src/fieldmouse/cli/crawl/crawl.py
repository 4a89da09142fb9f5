"""`fieldmouse crawl`: a new crawl in a new directory."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fieldmouse import api, url
from fieldmouse.api.planning import Plan, directory_of
from fieldmouse.cli import console, options, progress
from fieldmouse.cli.signals import Signals
from fieldmouse.errors import UsageError

if TYPE_CHECKING:
    from fieldmouse.crawler.retry_failed import Forgiven


@click.command(
    epilog="""\b
Examples:
  fieldmouse crawl atlas --seed https://example.org/ --contact you@example.org
  fieldmouse crawl atlas --seeds-file seeds.txt --pages 10000 --delay 2s
  fieldmouse crawl local --seed http://127.0.0.1:8000/ --allow-private --delay 0s"""
)
@click.argument("directory", type=click.Path())
@click.option(
    "--seed", "seeds", metavar="URL", multiple=True, help="Start the crawl at this URL; repeatable."
)
@options.seeds_file
@options.scope
@options.seed_redirects
@click.option(
    "--policy",
    metavar="NAME",
    help="Policy that orders hosts: index, mice-and-elephants, greedy, neutral, or package.module:Class.",
)
@options.config
@options.limits
@options.as_json
def command(directory: str, seeds: tuple[str, ...], as_json: bool, **given: Any) -> int:
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
    words, changes = options.asked(given)
    home = directory_of(directory)
    listed = [*seeds, *(listed_in(given["seeds_file"]) if given["seeds_file"] else ())]
    with console.talk_only():
        plan = api.plan_anew(home, words, changes, listed, given["config"])
    advise(plan)
    return run(plan, as_json=as_json, every=every)


def run(
    plan: Plan, *, as_json: bool, every: float | None, on_forgiven: Callable[[Forgiven], None] | None = None
) -> int:
    """Run the plan, show progress, print the summary, and return the exit code."""
    import uvloop

    from fieldmouse import crawler  # imports most of the package, so not before the plan is known to be valid

    console.show_warnings()
    console.say(progress.beginning(plan.settings, str(plan.directory), plan.order))
    with Signals(console.urge) as signals:

        def opened(life: crawler.Life) -> None:
            _tune_garbage_collector()
            signals.obey(asyncio.get_running_loop().call_soon_threadsafe, life.interrupt, life.hurry)

        private = plan.settings.network.allow_private
        mercy = crawler.Mercy(on_forgiven, private=private) if on_forgiven else None
        budget = plan.settings.refresh.budget if plan.order is not None else None
        polls, network = plan.order is not None, bool(plan.boards)
        shown = progress.shown(every=every, polls=polls, budget=budget, network=network)
        with shown as line, console.talk_only():
            try:
                summary = api.run(
                    plan,
                    runner=uvloop.run,
                    on_reading=line.show,
                    on_open=opened,
                    mercy=mercy,
                )
            finally:
                signals.ended()
        why, hint = _why_nothing(plan.directory) if summary.exit == 1 else ("", "")
        if as_json:
            console.json(msgspec.to_builtins(summary) | ({"error": why, "hint": hint} if why else {}))
        else:
            progress.tell(summary, plan.settings, str(plan.directory), plan.order)
            if why:
                console.error(why, hint)
    return summary.exit


def _why_nothing(directory: Path) -> tuple[str, str]:
    from fieldmouse.reader.crawl_reader import ReadingRoom  # a crawl needs it only here

    return ReadingRoom(directory).why_nothing()


def _tune_garbage_collector() -> None:
    """Collect less often: pages leave few reference cycles, and the modules loaded by now stay loaded.

    Only for a process that does nothing but crawl.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def listed_in(file: str) -> list[str]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as trouble:
        raise UsageError(
            f"cannot read the seeds in `{file}`: {trouble}", "check the name of the file"
        ) from trouble
    # A comment starts the line or follows white space; a `#` inside a URL belongs to the URL.
    lines = (re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def advise(plan: Plan) -> None:
    """Print notes about settings that often surprise."""
    sites = {url.site_of(url.name_of(url.host_of(seed))) for seed in plan.seeds}
    if sites != {url.LOOPBACK} and not plan.settings.crawl.contact:
        console.say("note: servers get no contact address; give one with `--contact you@example.org`")
    if url.LOOPBACK in sites and not plan.settings.network.allow_private:
        console.say("note: loopback and private addresses are refused; allow them with `--allow-private`")
