"""Index of host queues: the blocks of each queue and its read position, in memory and in a log.

A queue numbers its links from 0. A block holds the links from `first` on; links
below `head` have been taken. In memory an unused queue is packed into a few bytes. On disk
the index is a separate log, so that opening a crawl reads this log and not the links. A row
says that a block was written or that a head moved. When most rows are obsolete, the log is
rewritten, a slice at each checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec

from fieldmouse.storage.log import Log, SupersededFiles, decode_record, delete_unnamed_files, read_records
from fieldmouse.url import Host


class QueueBlock(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Links of one host in one record of a segment."""

    first: int
    count: int
    segment: int
    offset: int
    size: int  # bytes of the record


class HostQueue:
    """Blocks of one host, oldest first, and links that are not yet in a block."""

    __slots__ = ("blocks", "dropped_from", "fresh", "gathered", "head", "host", "tail")

    def __init__(self, host: Host, head: int = 0, blocks: Iterable[QueueBlock] = ()) -> None:
        self.host = host
        self.head = head
        self.blocks = deque(blocks)
        # Number of the next link.
        self.tail = self.blocks[-1].first + self.blocks[-1].count if self.blocks else head
        self.gathered: deque[bytes] = deque()
        self.fresh: list[QueueBlock] = []  # blocks that the log does not name yet
        self.dropped_from = -1  # blocks from this link on, which the log names, were replaced; -1: none

    def apply_change(self, row: QueueChange) -> None:
        """Apply a row of the log."""
        if row.dropped_from >= 0:
            self._pop_blocks_from_link(row.dropped_from)
        self.blocks.extend(row.blocks)
        self.advance_head(row.head - self.head)
        self.tail = self.blocks[-1].first + self.blocks[-1].count if self.blocks else row.head

    def _pop_blocks_from_link(self, first: int) -> None:
        while self.blocks and self.blocks[-1].first >= first:
            self.blocks.pop()

    def append_link(self, link: bytes) -> None:
        self.gathered.append(link)
        self.tail += 1

    def advance_head(self, count: int) -> list[QueueBlock]:
        """Move the head forward by this number of links; returns the blocks that are used up."""
        self.head += count
        spent = []
        while self.blocks and self.blocks[0].first + self.blocks[0].count <= self.head:
            spent.append(self.blocks.popleft())
        return spent

    def drop_blocks_from_link(self, first: int) -> None:
        """Drop the blocks from link `first` on; they will be written again."""
        self._pop_blocks_from_link(first)
        self.fresh = [block for block in self.fresh if block.first < first]
        self.dropped_from = first if self.dropped_from < 0 else min(self.dropped_from, first)

    def mark_all_blocks_unlogged(self) -> None:
        """Log all blocks again, because some in the middle have moved."""
        self.dropped_from, self.fresh = 0, list(self.blocks)

    def take_changes(self) -> QueueChange:
        """Return the changes that the log does not hold yet, and mark them as logged."""
        row = QueueChange(self.host, self.head, self.dropped_from, tuple(self.fresh))
        self.fresh, self.dropped_from = [], -1
        return row


class QueueChange(msgspec.Struct, frozen=True, array_like=True):
    """Change of one queue: its head, the blocks dropped from its end, the blocks added."""

    host: Host
    head: int
    dropped_from: int  # blocks that start at this link or later were replaced; -1: none
    blocks: tuple[QueueBlock, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_REWRITE_AT = 1 << 20
_SLICE = 10_000  # hosts written into a new log at one checkpoint
_FEW = 8  # blocks of a queue up to which it is packed


_decode = msgspec.msgpack.Decoder(list[QueueChange]).decode
_unpack = msgspec.msgpack.Decoder(tuple[int, list[QueueBlock]]).decode


class HostNumbers(Protocol):
    """Mapping of hosts to small numbers and back; implemented by `HostTable`."""

    def get_or_add_number(self, host: Host) -> int: ...

    def host_at(self, number: int) -> Host: ...


class MemoryHostNumbers:
    """Host numbers in memory, in the order of first mention."""

    def __init__(self) -> None:
        self._numbers: dict[Host, int] = {}
        self._names: list[Host] = []

    def get_or_add_number(self, host: Host) -> int:
        number = self._numbers.setdefault(host, len(self._names))
        if number == len(self._names):
            self._names.append(host)
        return number

    def host_at(self, number: int) -> Host:
        return self._names[number]


class HostQueueTable:
    """Queues by host number. Most have a block or two and wait long: these are packed."""

    def __init__(self) -> None:
        self._entries: list[bytes | HostQueue | None] = []

    def __len__(self) -> int:
        """One more than the highest number used."""
        return len(self._entries)

    def get(self, number: int, host: Host) -> HostQueue | None:
        """Return the host's queue for changes; `put` it back afterwards."""
        entry = self._entries[number] if number < len(self._entries) else None
        if isinstance(entry, bytes):
            entry = self._entries[number] = HostQueue(host, *_unpack(entry))
        return entry

    def put(self, number: int, queue: HostQueue | None, *, pack: bool = True) -> None:
        entries = self._entries
        if number >= len(entries):
            entries.extend([None] * (number + 1 - len(entries)))
        if queue is not None and pack and len(queue.blocks) <= _FEW:
            entries[number] = _encode((queue.head, tuple(queue.blocks))) if queue.blocks else None
        else:
            entries[number] = queue

    def apply_change(self, number: int, row: QueueChange) -> None:
        queue = self.get(number, row.host) or HostQueue(row.host, row.head)
        queue.apply_change(row)
        self.put(number, queue)

    def head_and_blocks(self, number: int) -> tuple[int, Iterable[QueueBlock]] | None:
        """Return head and blocks of a queue; None if there is none."""
        entry = self._entries[number]
        if isinstance(entry, HostQueue):
            return (entry.head, entry.blocks) if entry.blocks else None
        return None if entry is None else _unpack(entry)

    def all_blocks(self) -> Iterator[tuple[int, QueueBlock]]:
        """Yield every block of every queue, each with the head of its queue."""
        for number in range(len(self._entries)):
            if (entry := self.head_and_blocks(number)) is not None:
                for block in entry[1]:
                    yield entry[0], block

    def queue_length(self, number: int) -> int:
        """Number of links in a host's queue."""
        entry = self._entries[number] if number < len(self._entries) else None
        if isinstance(entry, bytes):
            head, blocks = _unpack(entry)
            return blocks[-1].first + blocks[-1].count - head
        return entry.tail - entry.head if entry else 0

    def queue_lengths(self) -> Iterator[tuple[int, int]]:
        """Yield the number of every host with a queue, and the number of its links."""
        for number in range(len(self._entries)):
            if length := self.queue_length(number):
                yield number, length


class QueueIndexState(msgspec.Struct, frozen=True, array_like=True):
    """Number and length of the log."""

    serial: int = 0
    length: int = 0
    snapshot: int = 0  # its length when it was last rewritten


class QueueIndex:
    """All host queues in memory, and their log on disk."""

    def __init__(self, directory: Path, state: QueueIndexState | None, numbers: HostNumbers):
        state = state or QueueIndexState()
        self._directory, self._numbers = directory, numbers
        self._leftovers = SupersededFiles()
        self.queues = HostQueueTable()
        for row in _logged_changes(directory, state):
            self.queues.apply_change(numbers.get_or_add_number(row.host), row)
        self._log = Log(directory / _log_name(state.serial), state.length)
        self._snapshot = state.snapshot
        self._serial = state.serial
        self._next: Log | None = None  # the log being rewritten,
        self._copied = 0  # which has all hosts with numbers below this

    def roll_back_to_checkpoint(self) -> None:
        """Cut and delete everything written after the checkpoint."""
        delete_unnamed_files(self._directory, "queues-*.log", [_log_name(self._serial)])
        self._log.roll_back_to_checkpoint()

    def log_changes(self, rows: Iterable[tuple[int, QueueChange]]) -> None:
        """Log changes, by host number; `HostQueueTable` has them already."""
        numbered = list(rows)
        _append_in_batches(self._log, (row for _, row in numbered))
        if self._next is not None:
            _append_in_batches(self._next, (row for number, row in numbered if number < self._copied))

    def seal(self) -> tuple[QueueIndexState, list[Path]]:
        """Write the log to the operating system, after all rows."""
        if self._next is None and self._log.length > _REWRITE_AT + 4 * self._snapshot:
            self._next, self._copied = Log(self._directory / _log_name(self._serial + 1)), 0
        if self._next is not None:
            self._copy_to_new_log(self._next)
        self._leftovers.seal()
        return QueueIndexState(self._serial, self._log.flush(), self._snapshot), [self._log.path]

    def _copy_to_new_log(self, target: Log) -> None:
        """Copy some more hosts into the new log, and switch to it when it has all."""
        last = min(self._copied + _SLICE, len(self.queues))
        _append_in_batches(
            target,
            (
                QueueChange(self._numbers.host_at(number), entry[0], -1, tuple(entry[1]))
                for number in range(self._copied, last)
                if (entry := self.queues.head_and_blocks(number)) is not None
            ),
        )
        self._copied = last
        if last == len(self.queues):
            self._leftovers.add([self._log.path])
            self._log.close()
            self._log, self._next = target, None
            self._serial += 1
            self._snapshot = target.length

    def on_checkpoint_committed(self) -> None:
        self._leftovers.on_checkpoint_committed()

    def close(self) -> None:
        self._log.close()
        if self._next is not None:
            self._next.close()


def _logged_changes(directory: Path, state: QueueIndexState) -> Iterator[QueueChange]:
    path = directory / _log_name(state.serial)
    for _, record in read_records(path, length=state.length):
        yield from decode_record(path, _decode, record)


def queue_lengths(directory: Path, state: QueueIndexState) -> Iterator[tuple[Host, int]]:
    """Yield every host with a queue at that state, and the number of its links; reads only."""
    shelf, numbers = read_all_queues(directory, state)
    return ((numbers.host_at(number), length) for number, length in shelf.queue_lengths())


def read_all_queues(directory: Path, state: QueueIndexState) -> tuple[HostQueueTable, MemoryHostNumbers]:
    """Read every queue at that state, with fresh host numbers; reads only."""
    shelf, numbers = HostQueueTable(), MemoryHostNumbers()
    for row in _logged_changes(directory, state):
        shelf.apply_change(numbers.get_or_add_number(row.host), row)
    return shelf, numbers


def read_queue(directory: Path, state: QueueIndexState, host: Host) -> HostQueue:
    """Read one host's queue at that state; reads only."""
    queue = HostQueue(host)
    for row in _logged_changes(directory, state):
        if row.host == host:
            queue.apply_change(row)
    return queue


def _append_in_batches(log: Log, rows: Iterator[QueueChange]) -> None:
    while part := list(islice(rows, 512)):
        log.append(_encode(part))


def _log_name(serial: int) -> str:
    return f"queues-{serial}.log"
