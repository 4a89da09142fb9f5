"""Check of the page allocation of an LMDB file: no page may be used twice, or used and free.

LMDB has no checksums. Reading everything finds most damage, except in the list of free pages: a wrong
number there does no harm until LMDB overwrites that page, which may still be needed. Only the necessary
part of the format (version 1, of LMDB 0.9) is parsed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, error

from msgspec import Struct as Record

_HEADER = Struct("<QHHHH")  # number, padding, kind, lower and upper bound of the space between offsets and nodes
_META = Struct("<IIQQ")  # magic, version, address, map size
_TREE = Struct("<IHHQQQQQ")  # page size (in the first tree), flags, depth, pages by kind, entries, root
_LAST = Struct("<QQ")  # last page, transaction
_NODE = Struct("<HHHH")
_PLACE, _NUMBER = Struct("<H"), Struct("<Q")
_MAGIC, _VERSION, _NONE = 0xBEEFC0DE, 1, (1 << 64) - 1
_BRANCH, _LEAF, _OVERFLOW, _ELSEWHERE = 1, 2, 4, 1


class _TreeHeader(Record, frozen=True):
    depth: int
    overflow: int  # pages of values that are too large for a node
    root: int


class _CorruptFile(Exception):
    pass


def page_allocation_error(path: Path, *, leaves: bool = False) -> str:
    """Return an error in the page allocation, or "". The file must not be written to during the check.

    Leaf pages are most of the file; without `leaves` they are read only where needed.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
            _LmdbFile(raw).check_allocation(leaves)
    except _CorruptFile as flaw:
        return str(flaw)
    except (error, ValueError) as error_found:  # an offset outside the file; an empty file
        return f"a page cannot be read ({error_found})"
    return ""


class _LmdbFile:
    """Pages of the newest transaction."""

    def __init__(self, raw: mmap.mmap):
        self._raw = raw
        self._size = _TREE.unpack_from(raw, 16 + _META.size)[0]
        if not 256 <= self._size <= 1 << 16 or self._size & (self._size - 1):
            raise _CorruptFile(f"its page size of {self._size} bytes is invalid")
        metas = [self._read_meta_page(at) for at in (0, self._size)]
        (self._last, _), self._free, self._main = max(metas, key=lambda meta: meta[0][1])
        if (self._last + 1) * self._size > len(raw):
            raise _CorruptFile("it is too short")
        self._taken = bytearray(self._last + 1)
        self._taken[:2] = b"\1\1"

    def _read_meta_page(self, at: int) -> tuple[tuple[int, int], _TreeHeader, _TreeHeader]:
        at += 16
        magic, version, _, _ = _META.unpack_from(self._raw, at)
        if (magic, version & 0xFFFF) != (_MAGIC, _VERSION):
            raise _CorruptFile("it does not start like an LMDB file")
        trees = []
        for number in range(2):
            _, _, depth, _, _, overflow, _, root = _TREE.unpack_from(self._raw, at + _META.size + number * _TREE.size)
            trees.append(_TreeHeader(depth, overflow, root))
        last, transaction = _LAST.unpack_from(self._raw, at + _META.size + 2 * _TREE.size)
        return (last, transaction), trees[0], trees[1]

    def check_allocation(self, leaves: bool) -> None:
        for leaf in self._leaf_pages(self._main):
            if leaves or self._main.overflow:
                for _ in self._leaf_values(leaf):
                    pass
        free = [value for leaf in self._leaf_pages(self._free) for value in self._leaf_values(leaf)]
        for at, size in free:
            # A count, then that many page numbers.
            count, *pages = (page for (page,) in _NUMBER.iter_unpack(self._raw[at : at + size]))
            if count > len(pages):
                raise _CorruptFile("its list of free pages is too short")
            for page in pages[:count]:
                self._mark_used(page)

    def _mark_used(self, page: int, pages: int = 1) -> None:
        for number in range(page, page + pages):
            if number > self._last:
                raise _CorruptFile(f"it refers to page {number} and has {self._last + 1}")
            if self._taken[number]:
                raise _CorruptFile(f"page {number} is named twice")
            self._taken[number] = 1

    def _leaf_pages(self, tree: _TreeHeader) -> Iterator[int]:
        if tree.root == _NONE:
            return
        level = [tree.root]
        for _ in range(tree.depth - 1):
            below: list[int] = []
            for page in level:
                self._mark_used(page)
                below += (low | high << 16 | flags << 32 for low, high, flags, _, _ in self._page_nodes(page, _BRANCH))
            level = below
        for page in level:
            self._mark_used(page)
            yield page

    def _page_nodes(self, page: int, kind: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the node headers of a page, each with the offset of the data behind it."""
        start = page * self._size
        number, _, flags, lower, _ = _HEADER.unpack_from(self._raw, start)
        if number != page or not flags & kind or not 16 <= lower <= self._size:
            raise _CorruptFile(f"page {page} has a wrong header")
        for (place,) in _PLACE.iter_unpack(self._raw[start + 16 : start + lower]):
            yield *_NODE.unpack_from(self._raw, start + place), start + place + _NODE.size

    def _leaf_values(self, leaf: int) -> Iterator[tuple[int, int]]:
        """Yield offset and size of each value of a leaf."""
        for low, high, flags, key, at in self._page_nodes(leaf, _LEAF):
            size, at = low | high << 16, at + key
            if flags & _ELSEWHERE:
                (page,) = _NUMBER.unpack_from(self._raw, at)
                at = page * self._size
                number, _, kind, low, high = _HEADER.unpack_from(self._raw, at)
                if number != page or not kind & _OVERFLOW:
                    raise _CorruptFile(f"page {page} has a wrong header")
                self._mark_used(page, low | high << 16)
                at += _HEADER.size
            yield at, size
