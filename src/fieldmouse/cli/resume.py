"""`fieldmouse resume`: a crawl goes on where its last checkpoint stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fieldmouse import api
from fieldmouse import settings as settings_file
from fieldmouse.api import Plan
from fieldmouse.cli import crawl, options, voice
from fieldmouse.figures import counted

if TYPE_CHECKING:
    from fieldmouse.agent import Forgiven


@click.command(
    epilog="""\b
Examples:
  fieldmouse resume atlas
  fieldmouse resume atlas --pages 50000 --delay 2s
  fieldmouse resume atlas --seed https://example.org/news/
  fieldmouse resume atlas --retry-failed"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--seed", "seeds", metavar="URL", multiple=True, help="Begin here, too; may be given many times."
)
@options.retry_failed
@options.limits
@options.as_json
def command(directory: Path, seeds: tuple[str, ...], retry_failed: bool, as_json: bool, **given: Any) -> int:
    """Continue the crawl in DIRECTORY after a stop, a limit or a kill.

    The settings are those of its fieldmouse.toml; options change them for this run
    only. A limit that has been reached has done its work: without a new one the
    crawl goes on to its end. Seeds given here, or added to that file, are visited if
    they are new, and those given here are added to the file. With --retry-failed hosts
    that were given up (no address, no connection, no robots.txt) get another chance,
    and their URLs are visited again; with --allow-private also hosts that were refused
    for a private address.
    """
    every = options.progress_every(given)
    with voice.talk_only():
        plan = api.plan_to_resume(directory, *options.asked(given), seeds)
    _tell_lifted(plan)
    if plan.added:
        _tell_added(plan)
    return crawl.run(plan, as_json=as_json, every=every, on_forgiven=tell_forgiven if retry_failed else None)


def tell_forgiven(forgiven: Forgiven) -> None:
    hosts, urls = counted(forgiven.hosts, "host"), counted(forgiven.urls, "URL")
    voice.say(f"forgave {hosts} and {urls}" if forgiven.hosts else "there was nothing to forgive")


def _tell_lifted(plan: Plan) -> None:
    if not plan.lifted:
        return
    kept = settings_file.load(plan.directory / "fieldmouse.toml").crawl
    if "pages" in plan.lifted:
        voice.say(f"the limit of {counted(kept.pages, 'page')} was reached; going on without it")
    if "time" in plan.lifted:
        voice.say(f"the limit of {voice.duration(kept.time)} was reached; going on without it")


def _tell_added(plan: Plan) -> None:
    """That a scope which they change looks forward only, the crawl says itself."""
    voice.say(f"{counted(len(plan.added), 'seed')} added")
