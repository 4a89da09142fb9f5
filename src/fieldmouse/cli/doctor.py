"""`fieldmouse doctor`: is this crawl directory in order, and if not, what to do."""

from __future__ import annotations

from pathlib import Path

import click

from fieldmouse.cli import options, voice
from fieldmouse.crawldir import CrawlDir
from fieldmouse.errors import CrawlDirError, Damaged, NotACrawl, WrongFormat

_COPY = "restore `crawl.json` from a copy of the directory; the WARC files can be read without it"
_PIECES = ("journal", "outcomes.log", "archive", "frontier")


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
    try:
        mended = _mend_papers(directory) if repair else []
        home = _open(directory)
        return _look_over(home, deep, as_json, [*mended, *_mend(home)] if repair else [])
    except OSError as trouble:
        where = trouble.filename or directory
        raise CrawlDirError(
            f"cannot look at `{where}`: {trouble.strerror or trouble}",
            "doctor must be able to read all of it",
        ) from trouble


def _mend_papers(directory: Path) -> list[str]:
    if not (directory / "journal").is_file():
        return []
    from fieldmouse.agent.repair import mend_identity

    mended = mend_identity(directory)
    for sentence in mended:
        voice.say(f"mended: {sentence}")
    return mended


def _mend(home: CrawlDir) -> list[str]:
    from fieldmouse.agent.repair import repair

    mended = []
    for sentence in repair(home):
        mended.append(sentence)
        voice.say(f"mended: {sentence}")
    return mended


def _look_over(home: CrawlDir, deep: bool, as_json: bool, mended: list[str]) -> int:
    from fieldmouse.agent.examination import examine

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


def _open(directory: Path) -> CrawlDir:
    """The crawl, or a sentence about why there is none that helps more than `resume` could."""
    try:
        return CrawlDir.open(directory)
    except NotACrawl:
        if not directory.exists():
            raise
        raise CrawlDirError(*_no_crawl(directory)) from None
    except (Damaged, WrongFormat) as trouble:
        hint = _papers_hint(directory)
        if isinstance(trouble, WrongFormat) and hint == _COPY:
            raise
        raise CrawlDirError(str(trouble), hint) from trouble


def _papers_hint(directory: Path) -> str:
    """What to do about a `crawl.json` that is lost or damaged."""
    from fieldmouse.crawldir import identity_in_journal

    if (directory / "journal").is_file() and identity_in_journal(directory) is not None:
        return f"`fieldmouse doctor {directory} --repair` writes it again, as the journal knows it"
    return _COPY


def _no_crawl(directory: Path) -> tuple[str, str]:
    if not directory.is_dir():
        return f"`{directory}` is a file", "name the directory of a crawl"
    pieces = [name for name in _PIECES if (directory / name).exists()]
    if len(pieces) > 1:
        says = f"`{directory / 'crawl.json'}` is missing, though the rest of a crawl is there"
        return says, _papers_hint(directory)
    for above in directory.resolve().parents:
        if (above / "crawl.json").is_file():
            return (
                f"`{directory}` is a part of a crawl",
                f"look at all of it with `fieldmouse doctor {above}`",
            )
    return f"`{directory}` holds no crawl", "name the directory of a crawl"
