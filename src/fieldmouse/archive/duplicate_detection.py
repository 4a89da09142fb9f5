"""Detection of payloads and texts that were stored before.

Exact duplicates: the SHA-1 of the payload as it is stored, that is, as received and still
content-encoded. WARC calls it the payload digest, and a revisit record must match it. Two servers that
compress the same text differently have different digests; their pages match as near-duplicates instead,
with distance 0.

Near-duplicates: sketches, 64 bits of a text of which similar texts differ in few. The features of a text
are its distinct *shingles*: four words in a row. The similarity of two texts is the Jaccard index of
their sets of shingles. Each shingle is hashed; the hashes fall into 64 bins by their highest bits, and
one bit of the least hash in each bin is kept (one permutation hashing, with one bit each: Li and others,
2011 and 2012). If two texts share J of their shingles, a bit differs with probability (1 - J) / 2. A bin
without a hash borrows the next one's, mixed again. With fewer words the distance is more random, so short
texts must be closer, and a very short one has no sketch. docs/duplicates.md has measurements on real
pages.

Two similar pages nearly always agree in at least one of four 16-bit bands of their sketches (always, up
to three bits), and only such candidates are compared.
"""

from __future__ import annotations

import mmap
import os
from base64 import b32encode
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

import lmdb
import numpy as np
from numpy.typing import NDArray

from fieldmouse.archive.lmdb_check import page_allocation_error
from fieldmouse.errors import DamagedFile, StorageError

VERSION = 2  # of the features; sketches of different versions are not comparable
NEAR_BITS = 4  # bits, between texts of usual length
MIN_WORDS = 16  # texts with fewer words have no sketch

_Hashes = NDArray[np.uint64]

_C1, _C2, _C3, _C4 = (
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)
)
_S29, _S32, _S58 = np.uint64(29), np.uint64(32), np.uint64(58)
_KEPT, _MIXED, _ONE = np.uint64(7), np.uint64(40), np.uint64(1)
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
_BINS = np.arange(64, dtype=np.uint64)
_EDGES = _BINS << _S58
_BEFORE, _BEHIND = b" " * 8, b" " * 16


def max_sketch_distance(words: int) -> int:
    """Return the maximum distance in bits of similar texts with this number of words."""
    return NEAR_BITS if words >= 128 else 2 if words >= 64 else 0


def compute_sketch(text: str) -> tuple[int, int]:
    """Return the sketch of a text and its number of words; sketch 0 if it has too few words.

    >>> compute_sketch("too short")
    (0, 2)
    """
    hashes, words = _shingle_hashes(text)
    return (0 if hashes is None else _sketch_of_hashes(hashes)), words


def _shingle_hashes(text: str) -> tuple[_Hashes | None, int]:
    """Return the hash of every four words in a row, and the number of words."""
    if not text.isascii():  # spaces in common use outside ASCII
        text = text.replace("\xa0", " ").replace("\u3000", " ")
    raw = text.encode("utf-8", "replace")
    size = len(raw)
    padded = _BEFORE + raw + _BEHIND
    blank = np.frombuffer(padded, np.uint8) <= 32
    edges = (blank[: size + 8] != blank[1 : size + 9]).nonzero()[0] + 1
    starts, ends = edges[0::2], edges[1::2]
    words = len(starts)
    if words < MIN_WORDS:
        return None, words
    # Of a word its first sixteen bytes and its last eight are hashed, which is all of most words. By index:
    # `take` would first copy all of them, eight times the text.
    eight: _Hashes = np.ndarray((size + 16,), "<u8", padded, strides=(1,))
    length = ends - starts
    inside = _FIRST_BYTES.take(length, mode="clip")
    word = (eight[starts] & inside) * _C1
    word ^= word >> _S29
    word += eight[starts + 8] & _FIRST_BYTES.take(length - 8, mode="clip")
    word *= _C2
    word ^= word >> _S29
    word += eight[np.maximum(ends - 8, starts)] & inside
    word *= _C3
    word ^= word >> _S32
    shingle: _Hashes = word[:-3] * _C1
    shingle += word[1:-2] * _C2
    shingle += word[2:-1] * _C3
    shingle += word[3:] * _C4
    shingle ^= shingle >> _S29
    shingle *= _C3
    shingle ^= shingle >> _S32
    return shingle, words


def _sketch_of_hashes(hashes: _Hashes) -> int:
    hashes.sort()
    least = hashes.take(hashes.searchsorted(_EDGES), mode="wrap")  # the last hash is followed by the first
    own = least >> _S58 == _BINS
    bits = least >> _KEPT
    if b"\0" in own.tobytes():
        bits = np.where(own, bits, (least ^ _BINS * _C2) * _C3 >> _MIXED)
    return int.from_bytes(np.packbits((bits & _ONE).astype(np.bool_)).tobytes(), "big")


DIGESTS, SIMHASHES = "digests.lmdb", "simhashes"
SLOTS = 4  # pages remembered per band value
_BANDS = 4
_TABLE = 1 << 16
_MAP_SIZE = 64 << 30  # address space, not memory
_SHIFTS = np.array([0, 16, 32, 48], dtype=np.uint64)
_NEAR_BYTES = _BANDS * _TABLE * SLOTS * 2 * 8
_VERSION = VERSION.to_bytes(8, "little")  # follows the table of sketches in the file


def payload_digest(payload: bytes) -> bytes:
    return sha1(payload, usedforsecurity=False).digest()


def format_digest(digest: bytes) -> str:
    """The digest in the notation of WARC and CDXJ."""
    return "sha1:" + b32encode(digest).decode()


def verify_digests(directory: Path) -> None:
    """Raise `DamagedFile` if the digests cannot be read or written; changes nothing.

    Reading past the end of a truncated memory-mapped file would kill the process. Writing is
    tested with a transaction that is not committed.
    """
    path = directory / DIGESTS
    if not path.exists() or not path.stat().st_size:
        return
    try:
        with lmdb.open(str(path), subdir=False, readonly=True, max_readers=256) as env:
            wanted = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    except lmdb.Error as trouble:
        raise _damaged_digests(path, str(trouble)) from trouble
    size = path.stat().st_size
    if size < wanted:
        raise _damaged_digests(path, f"{wanted} bytes were written, {size} are there")
    if flaw := page_allocation_error(path) or trial_write_error(path):
        raise _damaged_digests(path, flaw)


def trial_write_error(path: Path, *, lock: bool = True) -> str:
    """Error of a test write to the digests in `path`, or ""; nothing is committed.

    Without `lock` no byte changes on disk; only for use while no other process has it open.
    """
    try:
        with lmdb.open(str(path), subdir=False, map_size=_MAP_SIZE, max_readers=256, lock=lock) as env:
            trial = env.begin(write=True)
            try:
                for first in range(0, 256, 16):
                    trial.put(bytes([first]) * 20, bytes(8), overwrite=False)
            finally:
                trial.abort()
    except lmdb.Error as trouble:
        return str(trouble)
    return ""


def _damaged_digests(path: Path, what: str) -> DamagedFile:
    consequence = "it only holds the digests of stored payloads: without it the crawl continues, and may store"
    return DamagedFile(path, what, f"{consequence} some of them twice")


class DigestStore:
    """Digests and sketches of all pages stored in the crawl, shared by all workers.

    A *place* identifies a page's CDXJ line: shard and offset in one number.
    Entries are written when their batch is committed, so they only name durable
    records. Digests are complete (LMDB). Sketches are in a table of fixed size that
    holds the newest few pages per band value, so memory and the number of
    candidates stay bounded. Workers write to it without locks: a torn entry can
    only name a wrong page, and the distance is checked first.
    """

    def __init__(self, directory: Path):
        self._path = directory / DIGESTS
        self._env = lmdb.open(str(self._path), map_size=_MAP_SIZE, subdir=False, readahead=False, max_readers=256)
        self._env.reader_check()  # killed readers keep old pages locked
        self._env.sync(True)  # an incomplete new file could not be opened after a power failure
        path = directory / SIMHASHES
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if os.fstat(handle).st_size != _NEAR_BYTES + len(_VERSION):
            os.ftruncate(handle, _NEAR_BYTES + len(_VERSION))
        os.pwrite(handle, _VERSION, _NEAR_BYTES)
        self._map = mmap.mmap(handle, _NEAR_BYTES)
        os.close(handle)
        self._slots = memoryview(self._map).cast("Q")
        self._near = np.frombuffer(self._map, dtype=np.uint64).reshape(_BANDS, _TABLE, SLOTS, 2)
        self._pending: dict[bytes, int] = {}  # of the current batch, which can only be undone as a whole
        self._noted: list[tuple[int, bytes, int, int]] = []
        # Sketches and places of the current batch, by band and value.
        self._pending_marks: dict[int, list[tuple[int, int]]] = {}
        self._read = self._env.begin(buffers=False)

    def find_exact(self, digest: bytes) -> int | None:
        """The place of an earlier record with this payload, or None."""
        place = self._pending.get(digest)
        if place is None:
            try:
                raw = self._read.get(digest)
            except lmdb.Error as trouble:
                raise StorageError(self._path, trouble) from trouble
            return None if raw is None else int.from_bytes(raw, "little")
        return place

    def find_similar(self, mark: int, reach: int) -> int | None:
        """The place of an earlier page whose sketch differs in at most `reach` bits, or None."""
        if not mark:
            return None
        # At most sixteen candidates: too few to be worth numpy calls.
        slots = self._slots
        pending = self._pending_marks
        for key in _band_keys(mark):
            if key in pending:
                for candidate, place in pending[key]:
                    if (candidate ^ mark).bit_count() <= reach:
                        return place
            start = key * SLOTS * 2
            for at in range(start, start + SLOTS * 2, 2):
                candidate = slots[at]
                if candidate and (candidate ^ mark).bit_count() <= reach:
                    return slots[at + 1]
        return None

    def remember_page(self, batch: int, digest: bytes, mark: int, place: int) -> None:
        """Remember a stored page once `batch` is committed; within the batch it is found immediately."""
        self._pending.setdefault(digest, place)
        self._noted.append((batch, digest, mark, place))
        self._note_pending_sketch(mark, place)

    def _note_pending_sketch(self, mark: int, place: int) -> None:
        if mark:
            pending, entry = self._pending_marks, (mark, place)
            for key in _band_keys(mark):
                if key not in pending:
                    pending[key] = [entry]
                elif len(pending[key]) < SLOTS:
                    pending[key].append(entry)

    def write_committed(self, batch: int) -> None:
        ready = [entry for entry in self._noted if entry[0] <= batch]
        self._noted = [entry for entry in self._noted if entry[0] > batch]
        self._read.abort()
        if ready:
            with self._env.begin(write=True) as txn:
                for _, digest, _, place in sorted(ready, key=lambda entry: entry[1]):
                    txn.put(digest, place.to_bytes(8, "little"), overwrite=False)
        self._write_sketches([(mark, place) for _, _, mark, place in ready if mark])
        self._read = self._env.begin(buffers=False)
        self._pending = {digest: place for _, digest, _, place in reversed(self._noted)}
        self._pending_marks = {}
        for _, _, mark, place in self._noted:
            self._note_pending_sketch(mark, place)

    def _write_sketches(self, marks: list[tuple[int, int]]) -> None:
        """Write sketches to all four bands.

        The slot is derived from the sketch, not from age, so no read is needed: newer
        pages replace older ones, and equal sketches share a slot.
        """
        if not marks:
            return
        pairs = np.array(marks, dtype=np.uint64)
        x = pairs[:, 0]
        slots = (x * _C1 >> np.uint64(62)).astype(np.intp)
        for band in range(_BANDS):
            rows = ((x >> _SHIFTS[band]) & np.uint64(_TABLE - 1)).astype(np.intp)
            self._near[band, rows, slots] = pairs

    @staticmethod
    def delete_files(directory: Path) -> None:
        """Delete all files, for a new crawl. Call before any process opens them."""
        for name in (DIGESTS, DIGESTS + "-lock", SIMHASHES):
            (directory / name).unlink(missing_ok=True)

    @staticmethod
    def delete_sketches_of_other_algorithm(directory: Path) -> None:
        """Delete the sketches if another version of the algorithm wrote them. Call before any process opens
        them."""
        path = directory / SIMHASHES
        with suppress(OSError), path.open("rb") as file:
            file.seek(_NEAR_BYTES)
            if file.read() != _VERSION:
                path.unlink()

    def close(self) -> None:
        self._read.abort()
        self._env.close()


def _band_keys(mark: int) -> tuple[int, int, int, int]:
    """Rows of a sketch in the table, one per band: the band and its value."""
    return (mark & 0xFFFF, _TABLE | mark >> 16 & 0xFFFF, 2 * _TABLE | mark >> 32 & 0xFFFF, 3 * _TABLE | mark >> 48)
