"""Have we seen these bytes, or nearly these words, before?

Exact: the sha1 of the payload as it is stored, that is, as it came over the wire
and still content-encoded. This is what WARC calls the payload digest, and what a
revisit record must match. Two servers that pack the same text differently have
different digests; their pages meet as near-duplicates instead, with distance 0.

Near: a 64-bit simhash over eight-byte shingles at word starts. Words at the start
of a shingle weigh in with the beginning of their successors, so order counts. Two
pages whose simhashes differ in at most three bits are near-duplicates: then at
least one of four 16-bit bands agrees, and only such candidates are compared.
"""

from __future__ import annotations

import mmap
import os
from base64 import b32encode
from collections.abc import Iterable
from hashlib import sha1
from pathlib import Path

import lmdb
import numpy as np

from fieldmouse.errors import Damaged

DIGESTS, SIMHASHES = "digests.lmdb", "simhashes"
NEAR = 3  # bits
SLOTS = 4  # pages remembered per band value
_BANDS = 4
_TABLE = 1 << 16
_MAP_SIZE = 64 << 30  # address space, not memory
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_PLANES = np.arange(8, dtype=np.uint64)[:, None]
_LANES = np.uint64(0x0101010101010101)
_SHIFTS = np.array([0, 16, 32, 48], dtype=np.uint64)
_ENOUGH = 8  # words below which a simhash says nothing


def payload_digest(payload: bytes) -> bytes:
    return sha1(payload, usedforsecurity=False).digest()


def written(digest: bytes) -> str:
    """The digest as WARC and CDXJ write it."""
    return "sha1:" + b32encode(digest).decode()


def simhash(text: bytes) -> tuple[int, int]:
    """The simhash of a text and its number of words; 0 when there are too few words to tell.

    >>> simhash(b"too short")
    (0, 2)
    """
    if not text:
        return 0, 0
    size = len(text)
    text = b" " + text + b"        "
    blank = np.frombuffer(text, np.uint8) <= 32
    starts = (blank[:size] > blank[1 : size + 1]).nonzero()[0]
    words = len(starts)
    if words < _ENOUGH:
        return 0, words
    x = np.ndarray((size + 1,), "<u8", text, strides=(1,), offset=1).take(starts)
    x *= _MIX
    x ^= x >> _HALF
    x *= _MIX2
    x ^= x >> _HALF
    # Bit k of every byte becomes a lane of eight bytes; up to 255 of them add up without a carry.
    planes = x >> _PLANES
    planes &= _LANES
    sums = np.add.reduceat(planes, np.arange(0, words, 255), axis=1)  # [plane, block]
    counts = sums.view(np.uint8).reshape(8, -1, 8).sum(axis=1, dtype=np.uint32)  # [plane, byte]
    bits = np.packbits(counts.T[::-1, ::-1] > words // 2)
    return int.from_bytes(bits.tobytes(), "big"), words


def verify(directory: Path) -> None:
    """Raise `Damaged` if what is remembered cannot be read; changes nothing.

    A map of a file that is shorter than it says would kill whoever reads past its end.
    """
    path = directory / DIGESTS
    if not path.exists() or not path.stat().st_size:
        return
    try:
        with lmdb.open(str(path), subdir=False, readonly=True, max_readers=256) as env:
            wanted = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    except lmdb.Error as trouble:
        raise _damaged(path, str(trouble)) from trouble
    size = path.stat().st_size
    if size < wanted:
        raise _damaged(path, f"{wanted} bytes were written, {size} are there")


def _damaged(path: Path, what: str) -> Damaged:
    trouble = Damaged(path, what)
    trouble.hint = (
        f"{trouble.hint}; it only remembers which payloads are stored: without it the crawl"
        " goes on, and may store some twice"
    )
    return trouble


class Doubles:
    """What was stored before, in the whole crawl: shared by all workers, by its digest and its simhash.

    A *place* is where the page's CDXJ line stands: shard and offset in one number.
    Entries are put when their batch counts, so they only ever name durable
    records. Digests are complete (LMDB); simhashes are a fixed-size table which
    remembers the newest few pages per band value, so memory and the number of
    candidates stay bounded. Workers write to it without locks: a torn entry can
    only name a wrong neighbour, and the distance is checked before it is believed.
    """

    def __init__(self, directory: Path):
        self._env = lmdb.open(
            str(directory / DIGESTS),
            map_size=_MAP_SIZE,
            subdir=False,
            readahead=False,
            max_readers=256,
        )
        self._env.reader_check()  # readers that were killed hold on to old pages
        self._env.sync(True)  # a new one is not, and half of one cannot be opened after a power cut
        path = directory / SIMHASHES
        size = _BANDS * _TABLE * SLOTS * 2 * 8
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if os.fstat(handle).st_size != size:
            os.ftruncate(handle, size)
        self._map = mmap.mmap(handle, size)
        os.close(handle)
        self._slots = memoryview(self._map).cast("Q")
        self._near = np.frombuffer(self._map, dtype=np.uint64).reshape(_BANDS, _TABLE, SLOTS, 2)
        self._pending: dict[bytes, int] = {}  # of the batch being written: it can only be undone as a whole
        self._fresh: list[tuple[int, bytes, int, int]] = []
        self._read = self._env.begin(buffers=False)

    def same(self, digest: bytes) -> int | None:
        """The place of an earlier record with this payload."""
        place = self._pending.get(digest)
        if place is None:
            found = self._read.get(digest)
            return None if found is None else int.from_bytes(found, "little")
        return place

    def near(self, mark: int) -> int | None:
        """The place of an earlier page whose simhash is within reach."""
        if not mark:
            return None
        # Sixteen candidates at most: too few for numpy to be worth its calls.
        slots = self._slots
        for band in range(_BANDS):
            start = (band * _TABLE + (mark >> 16 * band & _TABLE - 1)) * SLOTS * 2
            for at in range(start, start + SLOTS * 2, 2):
                other = slots[at]
                if other and (other ^ mark).bit_count() <= NEAR:
                    return slots[at + 1]
        return None

    def note(self, batch: int, digest: bytes, mark: int, place: int) -> None:
        """Remember a stored page once `batch` counts; within the batch its digest is known at once."""
        self._pending.setdefault(digest, place)
        self._fresh.append((batch, digest, mark, place))

    def committed(self, batch: int) -> None:
        ready = [one for one in self._fresh if one[0] <= batch]
        self._fresh = [one for one in self._fresh if one[0] > batch]
        self._put(ready)
        self._pending = {digest: place for _, digest, _, place in reversed(self._fresh)}

    def _put(self, entries: Iterable[tuple[int, bytes, int, int]]) -> None:
        self._read.abort()
        entries = list(entries)
        if entries:
            with self._env.begin(write=True) as txn:
                for _, digest, _, place in sorted(entries, key=lambda one: one[1]):
                    txn.put(digest, place.to_bytes(8, "little"), overwrite=False)
        self._remember([(mark, place) for _, _, mark, place in entries if mark])
        self._read = self._env.begin(buffers=False)

    def _remember(self, marks: list[tuple[int, int]]) -> None:
        """Put simhashes in all four bands, each in a slot of its own choice.

        A slot chosen by the simhash itself, not by age, needs no look at what is
        there: newer pages replace older ones, and equal ones take one slot only.
        """
        if not marks:
            return
        pairs = np.array(marks, dtype=np.uint64)
        x = pairs[:, 0]
        slots = (x * _MIX >> np.uint64(62)).astype(np.intp)
        for band in range(_BANDS):
            rows = ((x >> _SHIFTS[band]) & np.uint64(_TABLE - 1)).astype(np.intp)
            self._near[band, rows, slots] = pairs

    @staticmethod
    def forget_all(directory: Path) -> None:
        """Begin with no memory, for a crawl that begins. Before anybody opens it."""
        for name in (DIGESTS, DIGESTS + "-lock", SIMHASHES):
            (directory / name).unlink(missing_ok=True)

    def close(self) -> None:
        self._read.abort()
        self._env.close()
