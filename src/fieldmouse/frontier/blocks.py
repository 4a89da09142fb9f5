"""One host's queue: the blocks that hold its links, how far it was read, and what its log must be told."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from fieldmouse.url import Host


class Block(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some links of one host, in one record of a segment."""

    first: int
    count: int
    segment: int
    offset: int
    size: int  # bytes of the record


class Queue:
    """One host's blocks, oldest first, and its gathered links that are in no block yet."""

    __slots__ = ("blocks", "dropped_from", "fresh", "gathered", "head", "host", "tail")

    def __init__(self, host: Host, head: int = 0, blocks: Iterable[Block] = ()) -> None:
        self.host = host
        self.head = head
        self.blocks = deque(blocks)
        # The number the next link gets.
        self.tail = self.blocks[-1].first + self.blocks[-1].count if self.blocks else head
        self.gathered: deque[bytes] = deque()
        self.fresh: list[Block] = []  # blocks the log does not name yet
        self.dropped_from = -1  # blocks from here on which the log does name were replaced; -1 for none

    def follow(self, row: QueueRow) -> None:
        """Change as the log says."""
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
        """So many links were taken from its head; returns the blocks that are used up."""
        self.head += count
        spent = []
        while self.blocks and self.blocks[0].first + self.blocks[0].count <= self.head:
            spent.append(self.blocks.popleft())
        return spent

    def drop_from(self, first: int) -> None:
        """The blocks from link `first` on are replaced by what will be written."""
        while self.blocks and self.blocks[-1].first >= first:
            self.blocks.pop()
        self.fresh = [block for block in self.fresh if block.first < first]
        self.dropped_from = first if self.dropped_from < 0 else min(self.dropped_from, first)

    def name_all_again(self) -> None:
        """Blocks in the middle have changed place."""
        self.dropped_from, self.fresh = 0, list(self.blocks)

    def take_row(self) -> QueueRow:
        """What the log does not know yet; from now on it does."""
        row = QueueRow(self.host, self.head, self.dropped_from, tuple(self.fresh))
        self.fresh, self.dropped_from = [], -1
        return row


class QueueRow(msgspec.Struct, frozen=True, array_like=True):
    """What changed for a host: its head, the blocks dropped from its end, the blocks added."""

    host: Host
    head: int
    dropped_from: int  # blocks that start here or later were replaced; -1 for none
    blocks: tuple[Block, ...] = ()
