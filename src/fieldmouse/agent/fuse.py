"""What fails where nobody waits for it ends the crawl.

Robots, workers and timers call the agent back from the event loop, which logs what
they raise and goes on. But if the frontier cannot be read or written, going on is a
crawl that never ends, or one that forgets. So what touches the crawl's files stands
in a fuse: `with fuse:` lets no exception out, and keeps the first for who looks after
the crawl. After that nothing may become durable any more: memory and disk may differ.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from fieldmouse.errors import StorageError


class Fuse:
    def __init__(self, home: Path):
        self._home = home
        self._blown: Exception | None = None

    def blow(self, mistake: Exception) -> None:
        if self._blown is None:
            self._blown = StorageError(self._home, mistake) if isinstance(mistake, OSError) else mistake

    def check(self) -> None:
        """Raise what was caught, if anything was."""
        if self._blown is not None:
            raise self._blown

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, mistake: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(mistake, Exception):
            self.blow(mistake)
            return True
        return False
