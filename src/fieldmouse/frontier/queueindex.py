"""Where the blocks of every host's queue lie, and how far each queue has been read.

A queue numbers its links from 0. A block holds the links from `first` on; what
lies below `head` has been taken. The index lives in memory, and as rows in a log
of its own, so that opening a crawl reads this and not the links. Rows: a block
was written, or a head moved on. When most rows speak of the past, the log is
written anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fieldmouse.crawldir import Log, records, understood
from fieldmouse.frontier.leftovers import Leftovers, sweep
from fieldmouse.url import Host

_encode = msgspec.msgpack.Encoder().encode
_REWRITE_AT = 1 << 20


class Block(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some links of one host, in one record of a segment."""

    first: int
    count: int
    segment: int
    offset: int
    size: int  # bytes of the record


class Queue:
    """One host's blocks, oldest first, and its gathered links that are in no block yet."""

    __slots__ = ("blocks", "dropped_from", "fresh", "gathered", "head", "tail")

    def __init__(self, head: int = 0) -> None:
        self.head = head
        self.tail = head  # the number the next link gets
        self.blocks: deque[Block] = deque()
        self.gathered: deque[bytes] = deque()
        self.fresh: list[Block] = []  # blocks the log does not name yet
        self.dropped_from = -1  # blocks from here on which the log does name were replaced; -1 for none


class Row(msgspec.Struct, frozen=True, array_like=True):
    """What changed for a host: its head, the blocks dropped from its end, the blocks added."""

    host: Host
    head: int
    dropped_from: int  # blocks that start here or later were replaced; -1 for none
    blocks: tuple[Block, ...] = ()


_decode = msgspec.msgpack.Decoder(list[Row]).decode


class IndexState(msgspec.Struct, frozen=True, array_like=True):
    """Which log, and how much of it counts."""

    serial: int = 0
    length: int = 0
    snapshot: int = 0  # its length when it was written anew


class QueueIndex:
    """Every host's queue, in memory; its log on disk."""

    def __init__(self, directory: Path, state: IndexState | None = None):
        state = state or IndexState()
        self._directory = directory
        self._state = state
        self._leftovers = Leftovers()
        self.queues = read_index(directory, state)
        self._log = Log(directory / _name(state.serial), state.length)
        self._snapshot = state.snapshot
        self._serial = state.serial

    def begin(self) -> None:
        """Cut and delete what came after the checkpoint."""
        sweep(self._directory, "queues-*.log", [_name(self._serial)])
        self._log.begin()

    def write(self, rows: Iterable[Row]) -> None:
        for part in _parts(rows):
            self._log.append(_encode(part))

    def seal(self) -> tuple[IndexState, list[Path]]:
        """All rows are in: hand them over, in a new log if the old is mostly history."""
        if self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._leftovers.add([self._log.path])
            self._log.close()
            self._serial += 1
            self._log = Log(self._directory / _name(self._serial))
            self.write(
                Row(host, queue.head, -1, tuple(queue.blocks))
                for host, queue in self.queues.items()
                if queue.blocks
            )
            self._snapshot = self._log.length
        self._leftovers.seal()
        return IndexState(self._serial, self._log.flush(), self._snapshot), [self._log.path]

    def committed(self) -> None:
        self._leftovers.committed()

    def close(self) -> None:
        self._log.close()


def read_index(directory: Path, state: IndexState) -> dict[Host, Queue]:
    """The queues as they stood at that state; reads only."""
    queues: dict[Host, Queue] = {}
    path = directory / _name(state.serial)
    for _, record in records(path, length=state.length):
        for row in understood(path, _decode, record):
            queue = queues.get(row.host)
            if queue is None:
                queue = queues[row.host] = Queue(row.head)
            if row.dropped_from >= 0:
                while queue.blocks and queue.blocks[-1].first >= row.dropped_from:
                    queue.blocks.pop()
            queue.blocks.extend(row.blocks)
            queue.head = row.head
            while queue.blocks and queue.blocks[0].first + queue.blocks[0].count <= row.head:
                queue.blocks.popleft()
            if queue.blocks:
                queue.tail = queue.blocks[-1].first + queue.blocks[-1].count
            else:
                del queues[row.host]
    return queues


def _parts(rows: Iterable[Row]) -> Iterable[list[Row]]:
    part: list[Row] = []
    for row in rows:
        part.append(row)
        if len(part) == 512:
            yield part
            part = []
    if part:
        yield part


def _name(serial: int) -> str:
    return f"queues-{serial}.log"
