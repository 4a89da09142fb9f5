"""Virtualizer: one queue of links per host that waits offline, on disk, of any length.

Links are collected in memory and written as blocks, each of one host, into
append-only segments. A queue is read a batch at a time, so neither writing nor
reading touches the disk for a single URL. Memory holds the index of blocks, not
the links. Small blocks at a queue's end are joined, segments whose links have
been taken are deleted, and the few links left in an old segment are moved.
Links are bytes here: no code on the way looks inside them. `MemoryHostQueues` is the
reference implementation and is used by the lab.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec

from fieldmouse.errors import DamagedFile
from fieldmouse.frontier.queues import queue_index
from fieldmouse.storage import log
from fieldmouse.url import Host

_BLOCK = 256  # links
_SMALL = 32  # links; more than `_FEW` blocks below this size are joined
_FEW = 8
_GATHERED = 1 << 15  # links in memory
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Host, int, list[bytes]]).decode


class VirtualizerState(msgspec.Struct, frozen=True, array_like=True):
    """The index, the segments with links in them, and the length of the last one."""

    index: queue_index.QueueIndexState = queue_index.QueueIndexState()
    segments: tuple[int, ...] = (0,)
    length: int = 0
    lengths: tuple[int, ...] = ()  # of the segments before the last; empty in format 1


class Virtualizer:
    """`HostQueues` on disk."""

    def __init__(
        self,
        directory: Path,
        state: VirtualizerState | None = None,
        numbers: queue_index.HostNumbers | None = None,
        *,
        segment_size: int = 64 << 20,
    ):
        """`numbers` are those of the hosts, their only identification in memory."""
        state = state or VirtualizerState()
        self._directory = directory
        self._segment_size = segment_size
        self._leftovers = log.SupersededFiles()
        self._numbers = queue_index.MemoryHostNumbers() if numbers is None else numbers
        self._index = queue_index.QueueIndex(directory, state.index, self._numbers)
        self._shelf = self._index.queues
        self._last = state.segments[-1]
        self._segments: dict[int, log.Log] = {}
        for place, number in enumerate(state.segments[:-1]):
            path = directory / segment_name(number)
            self._segments[number] = log.Log(path, state.lengths[place] if state.lengths else log.required_size(path))
        self._segments[self._last] = log.Log(directory / segment_name(self._last), state.length)
        self._live = dict.fromkeys(state.segments, 0)  # bytes of blocks not completely taken, by segment
        self._count = 0
        for head, block in self._shelf.all_blocks():
            segment = self._segments.get(block.segment)
            if segment is None or block.offset + block.size > segment.length:
                raise DamagedFile(directory / segment_name(block.segment), "it is shorter than a queue says")
            self._live[block.segment] += block.size
            self._count += block.count - max(0, head - block.first)
        self._gathered = 0
        self._changed: dict[int, queue_index.HostQueue] = {}
        self._written = [self._segments[self._last].path]
        self.reads = 0

    def roll_back_to_checkpoint(self) -> None:
        """Cut and delete everything written after the checkpoint."""
        self._index.roll_back_to_checkpoint()
        log.delete_unnamed_files(self._directory, "links-*.log", map(segment_name, self._segments))
        for segment in self._segments.values():
            segment.roll_back_to_checkpoint()

    def __len__(self) -> int:
        return self._count

    def append(self, host: Host, link: bytes) -> None:
        number = self._numbers.get_or_add_number(host)
        queue = self._changed.get(number) or self._get_or_create(number, host)
        queue.append_link(link)
        self._count += 1
        self._gathered += 1
        if self._gathered >= _GATHERED:
            for changed in self._changed.values():
                self._write_gathered(changed)

    def _get_or_create(self, number: int, host: Host) -> queue_index.HostQueue:
        """Return the host's queue for changes."""
        queue = self._shelf.get(number, host)
        if queue is None:
            queue = queue_index.HostQueue(host)
            self._shelf.put(number, queue, pack=False)
        self._changed[number] = queue
        return queue

    def take_links(self, host: Host, most: int) -> list[bytes]:
        number = self._numbers.get_or_add_number(host)
        queue = self._changed.get(number) or self._get_or_create(number, host)
        links: list[bytes] = []
        for block in queue.blocks:  # all are read before anything is taken: a damaged block must lose nothing
            if len(links) >= most:
                break
            start = max(0, queue.head - block.first)
            links += self._read_block(block)[start : start + most - len(links)]
        for block in queue.advance_head(len(links)):
            self._live[block.segment] -= block.size
        gathered = queue.gathered
        if gathered and len(links) < most:
            from_memory = [gathered.popleft() for _ in range(min(most - len(links), len(gathered)))]
            links += from_memory
            queue.advance_head(len(from_memory))
            self._gathered -= len(from_memory)
        self._count -= len(links)
        return links

    def queue_length(self, host: Host) -> int:
        number = self._numbers.get_or_add_number(host)
        queue = self._changed.get(number)
        return queue.tail - queue.head if queue else self._shelf.queue_length(number)

    def queued_hosts(self) -> Iterator[tuple[Host, int]]:
        return ((self._numbers.host_at(number), length) for number, length in self._shelf.queue_lengths())

    def _read_block(self, block: queue_index.QueueBlock) -> list[bytes]:
        self.reads += 1
        segment = self._segments[block.segment]
        return log.decode_record(segment.path, _decode, segment.read_record(block.offset))[2]

    def _write_gathered(self, queue: queue_index.HostQueue) -> None:
        """Write the collected links as blocks."""
        gathered = queue.gathered
        first = queue.tail - len(gathered)
        while gathered:
            batch = [gathered.popleft() for _ in range(min(_BLOCK, len(gathered)))]
            self._gathered -= len(batch)
            block = self._write_block(queue.host, first, batch)
            queue.blocks.append(block)
            queue.fresh.append(block)
            first += len(batch)

    def _write_block(self, host: Host, first: int, links: list[bytes]) -> queue_index.QueueBlock:
        segment = self._segments[self._last]
        if segment.length >= self._segment_size:
            segment.flush()
            self._last += 1
            segment = self._segments[self._last] = log.Log(self._directory / segment_name(self._last))
            self._live[self._last] = 0
            self._written.append(segment.path)
        offset = segment.append(_encode((host, first, links)))
        size = segment.length - offset
        self._live[self._last] += size
        return queue_index.QueueBlock(first, len(links), self._last, offset, size)

    def _join_small_blocks(self, queue: queue_index.HostQueue) -> None:
        """Take small blocks at the end of a queue back into memory, to write them as one."""
        tail = len(queue.blocks)
        while tail and queue.blocks[tail - 1].count < _SMALL and queue.blocks[tail - 1].first >= queue.head:
            tail -= 1
        small = list(islice(queue.blocks, tail, None))
        if len(small) < _FEW:
            return
        links = [link for block in small for link in self._read_block(block)]
        for block in small:
            self._live[block.segment] -= block.size
        queue.drop_blocks_from_link(small[0].first)
        queue.gathered.extendleft(reversed(links))
        self._gathered += len(links)

    def _delete_dead_segments(self) -> None:
        """Delete segments without links; move the last links out of one that is mostly dead."""
        for number in [n for n, live in self._live.items() if live == 0 and n != self._last]:
            self._drop_segment(number)
        for number, live in self._live.items():
            if number != self._last and live < self._segments[number].length // 4:
                self._compact_segment(number)
                return

    def _drop_segment(self, number: int) -> None:
        segment = self._segments.pop(number)
        del self._live[number]
        segment.close()
        self._leftovers.add([segment.path])

    def _compact_segment(self, number: int) -> None:
        places: dict[int, dict[int, int]] = {}  # of the blocks still in use, by offset
        segment = self._segments[number]
        for offset, record in log.read_records(segment.path, length=segment.length):
            host, first, links = log.decode_record(segment.path, _decode, record)
            owner = self._numbers.get_or_add_number(host)
            if owner not in places:
                entry = self._shelf.head_and_blocks(owner) if owner < len(self._shelf) else None
                blocks = enumerate(entry[1] if entry else ())
                places[owner] = {block.offset: place for place, block in blocks if block.segment == number}
            place = places[owner].get(offset)
            if place is not None:
                queue = self._changed.get(owner) or self._get_or_create(owner, host)
                queue.blocks[place] = self._write_block(host, first, links)
        for owner in [owner for owner, moved in places.items() if moved]:
            self._changed[owner].mark_all_blocks_unlogged()
        self._drop_segment(number)

    def seal(self) -> tuple[VirtualizerState, list[Path]]:
        for queue in self._changed.values():
            self._join_small_blocks(queue)
            self._write_gathered(queue)
        self._delete_dead_segments()
        rows = []
        for number, queue in self._changed.items():
            rows.append((number, queue.take_changes()))
            self._shelf.put(number, queue if queue.tail > queue.head else None)
        self._changed.clear()
        self._index.log_changes(rows)
        self._segments[self._last].flush()
        index, unsynced = self._index.seal()
        self._leftovers.seal()
        unsynced += self._written
        self._written = [self._segments[self._last].path]
        segments = sorted(self._segments)
        *lengths, length = (self._segments[number].length for number in segments)
        return VirtualizerState(index, tuple(segments), length, tuple(lengths)), unsynced

    def on_checkpoint_committed(self) -> None:
        self._leftovers.on_checkpoint_committed()
        self._index.on_checkpoint_committed()

    def close(self) -> None:
        self._index.close()
        for segment in self._segments.values():
            segment.close()


def segment_name(number: int) -> str:
    return f"links-{number}.log"


def read_queued_links(directory: Path, state: VirtualizerState, host: Host) -> Iterator[bytes]:
    """Yield the links of a host's queue at that state, oldest first; reads only."""
    queue = queue_index.read_queue(directory, state.index, host)
    for block in queue.blocks:
        path = directory / segment_name(block.segment)
        end = block.offset + block.size
        for _, record in log.read_records(path, start=block.offset, length=end):
            yield from log.decode_record(path, _decode, record)[2][max(0, queue.head - block.first) :]


class HostQueues(Protocol):
    """Independent first-in, first-out queues, one per host."""

    def __len__(self) -> int:
        """Number of links in all queues."""

    def append(self, host: Host, link: bytes) -> None: ...

    def take_links(self, host: Host, most: int) -> list[bytes]:
        """Remove and return the oldest links of the host, at most `most`; at least one if there is any."""

    def queue_length(self, host: Host) -> int: ...

    def queued_hosts(self) -> Iterator[tuple[Host, int]]:
        """Every host with links, and the number of its links."""


class MemoryHostQueues:
    """A deque per host."""

    def __init__(self) -> None:
        self._queues: dict[Host, deque[bytes]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, host: Host, link: bytes) -> None:
        self._queues.setdefault(host, deque()).append(link)
        self._count += 1

    def take_links(self, host: Host, most: int) -> list[bytes]:
        queue = self._queues.get(host)
        if queue is None:
            return []
        links = [queue.popleft() for _ in range(min(most, len(queue)))]
        if not queue:
            del self._queues[host]
        self._count -= len(links)
        return links

    def queue_length(self, host: Host) -> int:
        return len(self._queues.get(host, ()))

    def queued_hosts(self) -> Iterator[tuple[Host, int]]:
        return ((host, len(queue)) for host, queue in self._queues.items())
