"""Failure latch: keeps the first exception of a callback and ends the crawl.

Fetch workers, worker processes and timers call back from the event loop, which logs their exceptions and
continues. But if the frontier cannot be read or written, continuing means a crawl that never ends or that
loses URLs. So code that touches the crawl's files runs inside `with fuse:`, which lets no exception out
and keeps the first one for the main loop. After that no checkpoint may be written: memory and disk may
differ.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from fieldmouse.errors import StorageError


class Fuse:
    def __init__(self, home: Path):
        self._home = home
        self._error: Exception | None = None

    def blow(self, error: Exception) -> None:
        if self._error is None:
            self._error = StorageError(self._home, error) if isinstance(error, OSError) else error

    def check(self) -> None:
        """Raise the exception that was caught, if any."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.blow(error)
            return True
        return False
