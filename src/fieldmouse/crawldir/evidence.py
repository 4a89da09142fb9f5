"""Whether a crawl has ever got as far as its first checkpoint, told from its other files.

The journal may be gone or unreadable. Then only this decides between a crawl that
was killed before it had anything to lose, which begins again from its seeds, and
one that has lost its journal, which must not.

Before the first checkpoint is on the disk nobody asks for a page. So by then there
is no outcome, no WARC file, no line in a CDXJ, and no URL online or in a host's
queue. What there may be: the seeds in the sieve and in the ready queue (sealed, but
not yet journaled), empty logs, an index without documents, and what a crawl writes
about itself.
"""

from __future__ import annotations

from pathlib import Path

_ONCE_A_PAGE_WAS_ASKED_FOR = (
    "outcomes.log",
    "archive/*.cdxj",
    "frontier/front-*.log",
    "frontier/links-*.log",
)


def evidence(directory: Path) -> Path | None:
    """A file that cannot be what it is unless there was a checkpoint; None if there is none."""
    for pattern in _ONCE_A_PAGE_WAS_ASKED_FOR:
        for path in sorted(directory.glob(pattern)):
            if path.stat().st_size:
                return path
    return next(iter(sorted(directory.glob("archive/*.warc.gz"))), None)
