"""Repair of `crawl.json` from the copy in the journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fieldmouse.crawldir import CrawlDir, identity_in_journal, is_changed, write_identity
from fieldmouse.errors import FieldmouseError


@contextmanager
def locked(home: CrawlDir) -> Iterator[None]:
    """Hold the lock; releasing it keeps the mark that the last crawl was killed."""
    home.lock()
    try:
        yield
    finally:
        home.unlock(as_found=True)


def mend_identity(directory: Path) -> list[str]:
    """Write `crawl.json` from the journal if it is missing, damaged or different, and say so."""
    identity = identity_in_journal(directory)
    if identity is None:
        return []
    with suppress(FieldmouseError):
        if not is_changed(CrawlDir.open(directory).identity, identity):
            return []
    with locked(CrawlDir(directory, identity)):
        write_identity(directory, identity)
    return ["`crawl.json` was written again from the journal"]
