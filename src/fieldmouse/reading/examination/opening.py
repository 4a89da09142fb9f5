"""Opening a directory that may hold a damaged crawl, or none: with the sentence that helps most."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.crawldir import CrawlDir, identity_in_journal
from fieldmouse.errors import CrawlDirError, Damaged, NotACrawl, WrongFormat, typed

_COPY = "restore `crawl.json` from a copy of the directory; the WARC files can be read without it"
_PIECES = ("journal", "outcomes.log", "archive", "frontier")


def open_for_examination(directory: Path) -> CrawlDir:
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
    if (directory / "journal").is_file() and identity_in_journal(directory) is not None:
        return f"`fieldmouse doctor {typed(directory)} --repair` writes it again, as the journal knows it"
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
                f"look at all of it with `fieldmouse doctor {typed(above)}`",
            )
    return f"`{directory}` holds no crawl", "name the directory of a crawl"
