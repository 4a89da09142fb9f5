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
from fieldmouse.api import Plan
from fieldmouse.api.asking import directory_of
from fieldmouse.cli import options, progress, voice
from fieldmouse.cli.signals import Signals
from fieldmouse.errors import UsageError

if TYPE_CHECKING:
    from fieldmouse.agent import Forgiven


@click.command(
    epilog="""\b
Examples:
  fieldmouse crawl atlas --seed https://example.org/ --contact you@example.org
  fieldmouse crawl atlas --seeds-file seeds.txt --pages 10000 --delay 2s
  fieldmouse crawl local --seed http://127.0.0.1:8000/ --allow-private --delay 0s"""
)
@click.argument("directory", type=click.Path())
@click.option(
    "--seed", "seeds", metavar="URL", multiple=True, help="Where to begin; may be given many times."
)
@click.option(
    "--seeds-file", metavar="FILE", help="A file with one URL a line, # for comments; - for standard input."
)
@click.option(
    "--scope", metavar="MODE", help="page, host, site or web: how far to go from the seeds.  [default: site]"
)
@options.seed_redirects
@click.option(
    "--policy",
    metavar="NAME",
    help="Which hosts come first: index, mice-and-elephants, greedy, neutral, or package.module:Class.",
)
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Settings to start from.")
@options.limits
@options.as_json
def command(directory: str, seeds: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Crawl websites into DIRECTORY, which must be new or empty.

    The default scope is "site": the crawl follows links to every host that shares
    a registered domain with a seed (all loopback addresses count as one site), and
    stays off everything else. Every host gets one request at a time and one second
    of quiet between two, and robots.txt is obeyed.

    The directory receives the pages as WARC files, a full-text index, a
    fieldmouse.toml with all settings, and everything needed to go on after a stop
    or a kill with `fieldmouse resume`.
    """
    every = options.progress_every(given)
    words, changes = options.asked(given)
    home = directory_of(directory)
    listed = [*seeds, *(listed_in(given["seeds_file"]) if given["seeds_file"] else ())]
    with voice.talk_only():
        plan = api.plan_anew(home, words, changes, listed, given["config"])
    advise(plan)
    return run(plan, as_json=as_json, every=every)


def run(
    plan: Plan, *, as_json: bool, every: float | None, on_forgiven: Callable[[Forgiven], None] | None = None
) -> int:
    """Crawl, with progress for people and a summary for all; returns the exit code."""
    import uvloop

    from fieldmouse import agent  # the whole house: loaded once we know that we crawl

    voice.show_warnings()
    voice.say(progress.beginning(plan.settings, str(plan.directory), plan.order))
    with Signals(voice.urge) as signals:

        def opened(life: agent.Life) -> None:
            _save_on_garbage()
            signals.obey(asyncio.get_running_loop().call_soon_threadsafe, life.interrupt, life.hurry)

        private = plan.settings.network.allow_private
        mercy = agent.Mercy(on_forgiven, private=private) if on_forgiven else None
        budget = plan.settings.refresh.budget if plan.order is not None else None
        polls, network = plan.order is not None, bool(plan.boards)
        shown = progress.shown(every=every, polls=polls, budget=budget, network=network)
        with shown as line, voice.talk_only():
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
            voice.json(msgspec.to_builtins(summary) | ({"error": why, "hint": hint} if why else {}))
        else:
            progress.tell(summary, plan.settings, str(plan.directory), plan.order)
            if why:
                voice.error(why, hint)
    return summary.exit


def _why_nothing(directory: Path) -> tuple[str, str]:
    from fieldmouse.reading import ReadingRoom  # a room that a crawl needs only here

    return ReadingRoom(directory).why_nothing()


def _save_on_garbage() -> None:
    """Pages leave few cycles behind, and what is loaded by now stays: looking through it all is a waste.

    For this process, which does nothing but crawl.
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
    # A comment begins the line or stands behind white space: a `#` inside a URL is the URL's own.
    lines = (re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def advise(plan: Plan) -> None:
    """Say beforehand what would surprise afterwards."""
    sites = {url.site_of(url.name_of(url.host_of(seed))) for seed in plan.seeds}
    if sites != {url.LOOPBACK} and not plan.settings.crawl.contact:
        voice.say("note: servers are not told whom to ask about this crawl; `--contact you@example.org` does")
    if url.LOOPBACK in sites and not plan.settings.network.allow_private:
        voice.say("note: loopback and private addresses are refused; `--allow-private` visits them")
