"""Result of one check with advice, and the opening of a directory that may hold a damaged crawl or none."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fieldmouse.errors import CrawlDirError, DamagedFile, NotACrawl, UnsupportedFormat, shell_quoted
from fieldmouse.storage.checkpoint import identity_in_journal
from fieldmouse.storage.directory import CrawlDir

RESTORE_FROM_COPY = "restore it from a copy of the directory"


class CheckResult(msgspec.Struct, frozen=True):
    """Result of one check. `healthy` is False only if a repair is needed; `curable`: `doctor --repair` can do
    it."""

    what: str
    healthy: bool
    says: str
    advice: str = ""
    subject: str = ""  # the damaged file or directory, relative to the crawl directory
    curable: bool = False


def healthy(what: str, says: str, advice: str = "") -> CheckResult:
    return CheckResult(what, True, says, advice)


def damaged(what: str, says: str, advice: str = "", subject: str = "") -> CheckResult:
    return CheckResult(what, False, says, advice, subject)


def repairable(what: str, says: str, advice: str, subject: str) -> CheckResult:
    return CheckResult(what, False, says, advice, subject, True)


def repair_advice(crawl: Path, effect: str) -> str:
    return f"`fieldmouse doctor {shell_quoted(crawl)} --repair` {effect}"


class CrawlProcess(msgspec.Struct, frozen=True):
    """The process that crawls in the directory, or how the last one ended."""

    owner: int | None  # process id of the running crawl; 0 if unknown
    killed: bool  # the last process did not remove its id from the lock

    @classmethod
    def of(cls, home: CrawlDir) -> CrawlProcess:
        return cls(home.owner_pid(), home.was_killed)

    @property
    def ended_normally(self) -> bool:
        """Whether no process runs and the last one ended normally: unfinished files are damage then."""
        return self.owner is None and not self.killed


_COPY = "restore `crawl.json` from a copy of the directory; the WARC files can be read without it"
_PIECES = ("journal", "outcomes.log", "archive", "frontier")


def open_for_check(directory: Path) -> CrawlDir:
    """The crawl in a directory. Raises `CrawlDirError` with a more specific hint than `resume` gives."""
    try:
        return CrawlDir.open(directory)
    except NotACrawl:
        if not directory.exists():
            raise
        raise CrawlDirError(*_explain_no_crawl(directory)) from None
    except (DamagedFile, UnsupportedFormat) as trouble:
        hint = _hint_for_identity_file(directory)
        if isinstance(trouble, UnsupportedFormat) and hint == _COPY:
            raise
        raise CrawlDirError(str(trouble), hint) from trouble


def _hint_for_identity_file(directory: Path) -> str:
    """Hint for a lost or damaged `crawl.json`."""
    if (directory / "journal").is_file() and identity_in_journal(directory) is not None:
        return repair_advice(directory, "writes it again from the journal")
    return _COPY


def _explain_no_crawl(directory: Path) -> tuple[str, str]:
    if not directory.is_dir():
        return f"`{directory}` is a file", "name the directory of a crawl"
    pieces = [name for name in _PIECES if (directory / name).exists()]
    if len(pieces) > 1:
        says = f"`{directory / 'crawl.json'}` is missing, though the rest of a crawl is there"
        return says, _hint_for_identity_file(directory)
    for above in directory.resolve().parents:
        if (above / "crawl.json").is_file():
            return (
                f"`{directory}` is a part of a crawl",
                f"look at all of it with `fieldmouse doctor {shell_quoted(above)}`",
            )
    return f"`{directory}` holds no crawl", "name the directory of a crawl"
