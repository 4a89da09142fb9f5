"""The one file that says what is true: the last whole checkpoint in it.

A checkpoint names, for one moment, how long every log of the crawl is and which
immutable files belong to it. It is written after all of those have been synced,
and synced itself before anyone is told. Recovery reads the last whole record and
cuts everything else back to it.
"""

from __future__ import annotations

from pathlib import Path

from fieldmouse.crawldir.log import Log, records, sync_directory, whole_length, write_whole

_REWRITE_AT = 4 << 20


class Journal:
    """Checkpoints, newest last; only the newest counts."""

    def __init__(self, path: Path):
        self.path = path
        self.latest = latest_checkpoint(path)
        self._log = Log(path, whole_length(path))
        sync_directory(path.parent)

    def commit(self, checkpoint: bytes) -> None:
        """Make `checkpoint` the truth. When this returns it has reached the disk."""
        if self._log.length > _REWRITE_AT:
            self._start_over()
        self._log.append(checkpoint)
        self._log.flush()
        self._log.sync()
        self.latest = checkpoint

    def _start_over(self) -> None:
        """Drop the history, keeping the newest checkpoint; a crash leaves the old file or the new one."""
        self._log.close()
        fresh = self.path.with_name(self.path.name + ".fresh")
        once = Log(fresh)
        if self.latest is not None:
            once.append(self.latest)
        length = once.flush()
        once.close()
        write_whole(self.path, fresh.read_bytes())
        fresh.unlink()
        self._log = Log(self.path, length)

    def close(self) -> None:
        self._log.close()


def latest_checkpoint(path: Path) -> bytes | None:
    """The newest checkpoint, read without touching the file: for onlookers while a crawl runs."""
    latest = None
    if path.exists():
        for _, record in records(path):
            latest = record
    return latest
