"""Evidence from other files that a crawl has reached its first checkpoint.

The journal may be gone or unreadable. Then only this evidence tells a crawl that was killed
before it had anything to lose, which starts again from its seeds, from a crawl that has
lost its journal, which must not start again.

No page is fetched before the first checkpoint is on the disk. Until then there is no outcome, no WARC
file, no line in a CDXJ, and no URL in the front or in a host queue. There may be seeds in the
sieve and in the ready queue (sealed, but not yet in the journal), empty logs, an index
without documents, and logs about the crawl itself.
"""

from __future__ import annotations

from pathlib import Path

_WRITTEN_AFTER_FIRST_CHECKPOINT = (
    "outcomes.log",
    "archive/*.cdxj",
    "frontier/front-*.log",
    "frontier/links-*.log",
)


def evidence(directory: Path) -> Path | None:
    """A file that can exist only after a checkpoint; None if there is none."""
    for pattern in _WRITTEN_AFTER_FIRST_CHECKPOINT:
        for path in sorted(directory.glob(pattern)):
            if path.stat().st_size:
                return path
    return next(iter(sorted(directory.glob("archive/*.warc.gz"))), None)
