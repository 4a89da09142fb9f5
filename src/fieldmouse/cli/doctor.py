"""`fieldmouse doctor`: is this crawl directory in order, and if not, what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import options, voice
from fieldmouse.errors import CrawlDirError

if TYPE_CHECKING:
    from fieldmouse.crawldir import CrawlDir


@click.command(
    epilog="""\b
Examples:
  fieldmouse doctor atlas
  fieldmouse doctor atlas --deep
  fieldmouse doctor atlas --repair

Exit code 0 means healthy, 1 that something needs mending."""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Read every byte of every WARC file too, with its checksums.")
@click.option("--repair", is_flag=True, help="First mend what can be made again from the rest of the crawl.")
@options.as_json
def command(directory: Path, deep: bool, repair: bool, as_json: bool) -> int:
    """Look the crawl in DIRECTORY over: settings, disk, journal, frontier, WARC files, index.

    It may be run while the crawl runs. It also checks the books: every URL that
    was ever accepted must be settled or waiting. With --repair, and only then, it
    changes something: a damaged journal, CDXJ, digest store or index is made again.
    """
    from fieldmouse.reading.examination.opening import open_for_examination

    try:
        mended = _mend(directory) if repair else []
        return _look_over(open_for_examination(directory), deep, as_json, mended)
    except OSError as trouble:
        where = trouble.filename or directory
        raise CrawlDirError(
            f"cannot look at `{where}`: {trouble.strerror or trouble}",
            "doctor must be able to read all of it",
        ) from trouble


def _mend(directory: Path) -> list[str]:
    from fieldmouse.repair import mend

    mended = []
    for sentence in mend(directory):
        mended.append(sentence)
        voice.say(f"mended: {sentence}")
    return mended


def _look_over(home: CrawlDir, deep: bool, as_json: bool, mended: list[str]) -> int:
    from fieldmouse.reading.examination import examine

    findings = list(examine(home, deep=deep))
    healthy = all(finding.healthy for finding in findings)
    if as_json:
        voice.json({"healthy": healthy, "findings": findings, "mended": mended})
        return 0 if healthy else 1
    born = home.identity
    voice.data(
        f"crawl `{home.path}`, format {born.format}, made by {born.made_by} on {voice.when(born.created_at)}"
    )
    for finding in findings:
        mark = "ok " if finding.healthy else "BAD"
        voice.data(f"  {mark}  {finding.what:<9} {finding.says}")
        if finding.advice:
            voice.data(f"       {'':<9} -> {finding.advice}")
    voice.data("healthy" if healthy else "something needs mending")
    return 0 if healthy else 1
