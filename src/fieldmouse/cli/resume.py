"""`fieldmouse resume`: a crawl goes on where its last checkpoint stands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fieldmouse import settings as settings_file
from fieldmouse import url
from fieldmouse.cli import crawl, options, voice
from fieldmouse.crawldir import CrawlDir
from fieldmouse.settings import Settings

if TYPE_CHECKING:
    from fieldmouse.agent import Checkpoint, Forgiven


@click.command(
    epilog="""\b
Examples:
  fieldmouse resume atlas
  fieldmouse resume atlas --pages 50000 --delay 2s
  fieldmouse resume atlas --forgive"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--forgive", is_flag=True, help="Ask again whatever was given up because a host failed.")
@options.limits
@options.as_json
def command(directory: Path, forgive: bool, as_json: bool, **given: Any) -> int:
    """Continue the crawl in DIRECTORY after a stop, a limit or a kill.

    The settings are those of its fieldmouse.toml; options change them for this run
    only. A limit that has been reached has done its work: without a new one the
    crawl goes on to its end. With --forgive hosts that were given up (no address, no
    connection, no robots.txt) get another chance, and their URLs are visited again.
    """
    every = options.progress_every(given)
    home = CrawlDir.open(directory)
    asked = settings_file.load(home / "fieldmouse.toml")

    from fieldmouse.agent import read_checkpoint

    last = read_checkpoint(home)
    if last is None:
        # Killed before its first checkpoint: the seeds are all there is to know.
        seeds = [seed for text in asked.crawl.seeds if (seed := url.parse(text)) is not None]
    else:
        seeds = []
        asked = _past_limits(asked, last, given)
    return crawl.run(
        home,
        options.apply(asked, given),
        seeds,
        as_json=as_json,
        every=every,
        on_forgiven=_tell if forgive else None,
    )


def _tell(forgiven: Forgiven) -> None:
    hosts, urls = voice.number(forgiven.hosts), voice.number(forgiven.urls)
    voice.say(f"forgave {hosts} hosts and {urls} URLs" if forgiven.hosts else "there was nothing to forgive")


def _past_limits(asked: Settings, last: Checkpoint, given: Mapping[str, Any]) -> Settings:
    """The settings without the limits that have done their work, unless there is a new one."""
    say = voice.say if last.frontier.waiting else lambda sentence: None
    if 0 < asked.crawl.pages <= last.tally.pages:
        if given["pages"] is None:
            say(f"the limit of {voice.number(asked.crawl.pages)} pages was reached; going on without it")
        asked = asked.override({"crawl.pages": 0})
    if asked.crawl.time and last.stopped_by == "time":
        if given["time"] is None:
            say(f"the limit of {voice.duration(asked.crawl.time)} was reached; going on without it")
        asked = asked.override({"crawl.time": "0s"})
    return asked
