"""`fieldmouse doctor`: is this crawl directory in order, and if not, what to do."""

from __future__ import annotations

from pathlib import Path

import click

from fieldmouse.cli import options, voice
from fieldmouse.crawldir import CrawlDir


@click.command(epilog="Exit code 0 means healthy, 1 that something needs mending.")
@click.argument("directory", type=click.Path(path_type=Path))
@options.as_json
def command(directory: Path, as_json: bool) -> int:
    """Look the crawl in DIRECTORY over: lock, settings, disk, journal, logs, WARC files, index.

    Nothing is changed, and it may be run while the crawl runs. It also checks the
    books: every URL that was ever accepted must be settled or waiting.
    """
    home = CrawlDir.open(directory)

    from fieldmouse.cli.examine import examine

    findings = list(examine(home))
    healthy = all(finding.healthy for finding in findings)
    if as_json:
        voice.json({"healthy": healthy, "findings": findings})
        return 0 if healthy else 1
    born = home.identity
    voice.data(
        f"crawl `{directory}`, format {born.format}, made by {born.made_by} on {voice.when(born.created_at)}"
    )
    for finding in findings:
        mark = "ok " if finding.healthy else "BAD"
        voice.data(f"  {mark}  {finding.what:<9} {finding.says}")
        if finding.advice:
            voice.data(f"       {'':<9} -> {finding.advice}")
    voice.data("healthy" if healthy else "something needs mending")
    return 0 if healthy else 1
