"""Writing `crawl.json` again: the journal remembers what it said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fieldmouse.crawldir import CrawlDir, identity_in_journal, is_changed, write_identity
from fieldmouse.errors import FieldmouseError


@contextmanager
def locked(home: CrawlDir) -> Iterator[None]:
    """Hold the lock; afterwards it still tells whether the last crawl was killed."""
    home.lock()
    try:
        yield
    finally:
        home.unlock(as_found=True)


def mend_identity(directory: Path) -> list[str]:
    """Write `crawl.json` as the journal knows it, if it says something else or nothing; says so."""
    known = identity_in_journal(directory)
    if known is None:
        return []
    with suppress(FieldmouseError):
        if not is_changed(CrawlDir.open(directory).identity, known):
            return []
    with locked(CrawlDir(directory, known)):
        write_identity(directory, known)
    return ["`crawl.json` was written again, as the journal knows it"]
