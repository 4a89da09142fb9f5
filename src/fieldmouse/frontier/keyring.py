"""The keys of all URLs that were accepted of a host, by host: so that a host can take them along.

The sieve knows keys, not hosts, and outcomes are in the order of time: to find one host's among them
all of them would be read. So a crawl that exchanges hosts keeps the keys a second time, in
queues like those of the links. Such a crawl pays some 9 bytes of disk and 1.4 microseconds a
URL for it; others have no keyring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fieldmouse.frontier.keytable import Keys
from fieldmouse.frontier.queueindex import HostNumbers
from fieldmouse.frontier.virtualizer import QueueFiles, Virtualizer, VirtualizerState
from fieldmouse.url import Host

KEYRING = QueueFiles("keyring", "keyrings")
_AT_ONCE = 512  # batches


class Keyring:
    """Keys by host, on disk."""

    def __init__(self, directory: Path, state: VirtualizerState | None, numbers: HostNumbers) -> None:
        self._queues = Virtualizer(directory, state, numbers, files=KEYRING)

    def begin(self) -> None:
        self._queues.begin()

    def add(self, host: Host, keys: Sequence[int] | Keys) -> None:
        if len(keys):
            self._queues.append(host, np.array(keys, np.uint64).tobytes())

    def take(self, host: Host) -> Iterator[Keys]:
        """All keys of a host, some at a time. They are no longer here."""
        while batches := self._queues.take(host, _AT_ONCE):
            yield np.frombuffer(b"".join(batches), np.uint64)

    def seal(self) -> tuple[VirtualizerState, list[Path]]:
        return self._queues.seal()

    def committed(self) -> None:
        self._queues.committed()

    def close(self) -> None:
        self._queues.close()
