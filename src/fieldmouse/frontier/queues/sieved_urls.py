"""Ready queue: URLs that passed the sieve and have not been drawn yet, in order, on disk.

A young crawl draws faster than it discovers, so the tail is kept in memory and
written only when it grows long or at a checkpoint. Written items are
read back a record at a time. Segments are append-only; one that has been read
to its end is deleted after the next checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fieldmouse.errors import DamagedFile
from fieldmouse.storage import log
from fieldmouse.url import Host

#: A host, and an encoded link of it.
ReadyItem = tuple[Host, bytes]

_RECORD = 512  # items
_IN_MEMORY = 4096  # items
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[Host, bytes]]).decode


class SievedUrlQueueState(msgspec.Struct, frozen=True, array_like=True):
    """Read position and write position."""

    first: int = 0  # segment being read
    offset: int = 0  # of the record being read
    taken: int = 0  # items of that record already drawn
    last: int = 0  # segment being written
    length: int = 0
    count: int = 0
    lengths: tuple[int, ...] = ()  # of the segments from `first` to before `last`; format 1 has none


class SievedUrlQueue:
    """First-in, first-out queue of links of all hosts."""

    def __init__(self, directory: Path, state: SievedUrlQueueState | None = None, *, segment_size: int = 64 << 20):
        state = state or SievedUrlQueueState()
        self._directory = directory
        self._segment_size = segment_size
        self._first, self._offset, self._taken = state.first, state.offset, state.taken
        self._last = state.last
        self._next_offset = state.offset  # of the record after those read
        self._head: deque[ReadyItem] = deque()  # the rest of the record at `offset`
        self._tail: deque[ReadyItem] = deque()  # not written
        self._leftovers = log.SupersededFiles()
        self._count = state.count
        self._lengths = dict(zip(range(state.first, state.last), state.lengths, strict=False))
        self._writing = log.Log(directory / _segment_name(state.last), state.length)
        self._reading = self._writing if state.first == state.last else self._open_segment(state.first)
        for number in range(state.first + 1, state.last):
            self._open_segment(number).close()  # all of them must exist
        self._written: list[Path] = [self._writing.path]
        if state.taken:
            if not self._read_next_record() or len(self._head) < state.taken:
                raise DamagedFile(self._reading.path, f"the record at byte {state.offset} holds too little")
            for _ in range(state.taken):
                self._head.popleft()
            self._taken = state.taken

    def roll_back_to_checkpoint(self) -> None:
        """Cut and delete everything written after the checkpoint."""
        log.delete_unnamed_files(self._directory, "ready-*.log", map(_segment_name, range(self._first, self._last + 1)))
        self._writing.roll_back_to_checkpoint()

    def _open_segment(self, number: int) -> log.Log:
        path = self._directory / _segment_name(number)
        return log.Log(path, self._segment_length(number))

    def _segment_length(self, number: int) -> int:
        return self._lengths.get(number) or log.required_size(self._directory / _segment_name(number))

    def __len__(self) -> int:
        return self._count

    def push(self, items: Iterable[ReadyItem]) -> None:
        before = len(self._tail)
        self._tail.extend(items)
        self._count += len(self._tail) - before
        if len(self._tail) > _IN_MEMORY:
            self._write_tail()

    def pop(self) -> ReadyItem | None:
        """Remove and return the oldest item; None when there is none."""
        if not self._head and not self._read_next_record():
            if not self._tail:
                return None
            self._count -= 1
            return self._tail.popleft()
        self._count -= 1
        self._taken += 1
        return self._head.popleft()

    def _read_next_record(self) -> bool:
        """Read the next record into the head; False when all records are read."""
        while self._next_offset >= self._reading.length:
            if self._first == self._last:
                self._offset, self._taken = self._next_offset, 0
                return False
            self._reading.close()
            self._leftovers.add([self._reading.path])
            self._lengths.pop(self._first, None)
            self._first += 1
            self._offset = self._next_offset = self._taken = 0
            self._reading = self._writing if self._first == self._last else self._open_segment(self._first)
        self._offset, self._taken = self._next_offset, 0
        record = self._reading.read_record(self._offset)
        self._next_offset = self._offset + 8 + len(record)
        self._head.extend(log.decode_record(self._reading.path, _decode, record))
        return True

    def _write_tail(self) -> None:
        while self._tail:
            some = [self._tail.popleft() for _ in range(min(_RECORD, len(self._tail)))]
            self._writing.append(_encode(some))
        if self._writing.length >= self._segment_size:
            self._lengths[self._last] = self._writing.flush()
            if self._writing is not self._reading:
                self._writing.close()
            self._last += 1
            self._writing = log.Log(self._directory / _segment_name(self._last))
            self._written.append(self._writing.path)

    def seal(self) -> tuple[SievedUrlQueueState, list[Path]]:
        self._write_tail()
        self._writing.flush()
        self._leftovers.seal()
        if self._taken and not self._head:  # so that a state never points at an exhausted record
            self._offset, self._taken = self._next_offset, 0
        lengths = tuple(self._segment_length(number) for number in range(self._first, self._last))
        state = SievedUrlQueueState(
            self._first, self._offset, self._taken, self._last, self._writing.length, self._count, lengths
        )
        unsynced, self._written = self._written, [self._writing.path]
        return state, unsynced

    def on_checkpoint_committed(self) -> None:
        self._leftovers.on_checkpoint_committed()

    def close(self) -> None:
        self._writing.close()
        self._reading.close()


def _segment_name(number: int) -> str:
    return f"ready-{number}.log"


def read_ready_items(directory: Path, state: SievedUrlQueueState) -> Iterable[ReadyItem]:
    """Yield all items of the queue at that state, oldest first; reads only, for readers beside a crawl."""
    start, skip = state.offset, state.taken
    lengths = dict(zip(range(state.first, state.last), state.lengths, strict=False)) | {state.last: state.length}
    for number in range(state.first, state.last + 1):
        path = directory / _segment_name(number)
        length = lengths[number] if number in lengths else log.required_size(path)
        for _, record in log.read_records(path, start=start, length=length):
            yield from log.decode_record(path, _decode, record)[skip:]
            skip = 0
        start = 0
