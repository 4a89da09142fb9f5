"""Queue of one host: the blocks that hold its links, and its read position."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from fieldmouse.url import Host


class Block(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Links of one host in one record of a segment."""

    first: int
    count: int
    segment: int
    offset: int
    size: int  # bytes of the record


class Queue:
    """Blocks of one host, oldest first, and links that are not yet in a block."""

    __slots__ = ("blocks", "dropped_from", "fresh", "gathered", "head", "host", "tail")

    def __init__(self, host: Host, head: int = 0, blocks: Iterable[Block] = ()) -> None:
        self.host = host
        self.head = head
        self.blocks = deque(blocks)
        # Number of the next link.
        self.tail = self.blocks[-1].first + self.blocks[-1].count if self.blocks else head
        self.gathered: deque[bytes] = deque()
        self.fresh: list[Block] = []  # blocks that the log does not name yet
        self.dropped_from = -1  # blocks from this link on, which the log names, were replaced; -1: none

    def follow(self, row: QueueRow) -> None:
        """Apply a row of the log."""
        blocks = self.blocks
        if row.dropped_from >= 0:
            while blocks and blocks[-1].first >= row.dropped_from:
                blocks.pop()
        blocks.extend(row.blocks)
        self.head = row.head
        while blocks and blocks[0].first + blocks[0].count <= row.head:
            blocks.popleft()
        self.tail = blocks[-1].first + blocks[-1].count if blocks else row.head

    def append(self, link: bytes) -> None:
        self.gathered.append(link)
        self.tail += 1

    def advance(self, count: int) -> list[Block]:
        """Move the head forward by this number of links; returns the blocks that are used up."""
        self.head += count
        spent = []
        while self.blocks and self.blocks[0].first + self.blocks[0].count <= self.head:
            spent.append(self.blocks.popleft())
        return spent

    def drop_from(self, first: int) -> None:
        """Drop the blocks from link `first` on; they will be written again."""
        while self.blocks and self.blocks[-1].first >= first:
            self.blocks.pop()
        self.fresh = [block for block in self.fresh if block.first < first]
        self.dropped_from = first if self.dropped_from < 0 else min(self.dropped_from, first)

    def name_all_again(self) -> None:
        """Log all blocks again, because some in the middle have moved."""
        self.dropped_from, self.fresh = 0, list(self.blocks)

    def take_row(self) -> QueueRow:
        """Return the changes that the log does not hold yet, and mark them as logged."""
        row = QueueRow(self.host, self.head, self.dropped_from, tuple(self.fresh))
        self.fresh, self.dropped_from = [], -1
        return row


class QueueRow(msgspec.Struct, frozen=True, array_like=True):
    """Change of one queue: its head, the blocks dropped from its end, the blocks added."""

    host: Host
    head: int
    dropped_from: int  # blocks that start at this link or later were replaced; -1: none
    blocks: tuple[Block, ...] = ()
