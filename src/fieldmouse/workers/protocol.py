"""Messages between crawler and worker, their framing, and what else both processes must agree on.

A frame is four bytes of length and one msgpack message, sent over a socket pair. Frames are written in
batches, so a page costs a fraction of a system call in either direction.
"""

from __future__ import annotations

import signal
import struct

import msgspec

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Failed, Moved, Page, Unchanged, WorkerResult
from fieldmouse.url import Url

FRAME_LENGTH = struct.Struct("<I")
NO_PAGE = -1  # no page in hand
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class OpenShard(msgspec.Struct, frozen=True, tag="start", array_like=True):
    """Lock and check the shard; nothing of it may be changed yet."""

    directory: str
    shard: int
    config: PageProcessingConfig
    state: ShardState
    batch: int  # first batch: all shards count batches together, also those that missed a checkpoint


class RollBack(msgspec.Struct, frozen=True, tag="begin", array_like=True):
    """Everything else is open, too: cut the shard back to its state, and accept pages."""


class PageJob(msgspec.Struct, frozen=True, tag="job", array_like=True):
    number: int
    outcome: Page | Unchanged | Moved | Failed
    bare: bool = False  # skip plug-ins: they killed a worker on this page


class AddToScope(msgspec.Struct, frozen=True, tag="widen", array_like=True):
    """Redirects of seeds add these pages to the scope."""

    joined: tuple[Url, ...]
    is_open: bool  # more may follow


class PrepareCommit(msgspec.Struct, frozen=True, tag="prepare", array_like=True):
    """Make everything received before this durable."""


class ConfirmCommit(msgspec.Struct, frozen=True, tag="committed", array_like=True):
    """The journal has everything prepared up to this batch."""

    batch: int


class FinishMerges(msgspec.Struct, frozen=True, tag="finish", array_like=True):
    """The crawl ends: finish the merges of the index."""


class ShardOpened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """The shard can be restored to the given state."""


class WorkerReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The worker is at the given state."""


class ParsedPages(msgspec.Struct, frozen=True, tag="answers", array_like=True):
    parsed: tuple[WorkerResult, ...]


class PrepareCommitReply(msgspec.Struct, frozen=True, tag="prepared", array_like=True):
    state: ShardState
    peak_rss: int  # bytes


class MergesFinished(msgspec.Struct, frozen=True, tag="finished", array_like=True):
    peak_rss: int


class WorkerFailed(msgspec.Struct, frozen=True, tag="broken", array_like=True):
    """The worker must stop for a reason that the user can fix."""

    message: str
    hint: str


ToWorker = OpenShard | RollBack | PageJob | AddToScope | PrepareCommit | ConfirmCommit | FinishMerges
FromWorker = ShardOpened | WorkerReady | ParsedPages | PrepareCommitReply | MergesFinished | WorkerFailed

encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode


def encode_frame(message: ToWorker | FromWorker) -> bytes:
    payload = encode(message)
    return FRAME_LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Splits a stream of bytes into payloads."""

    def __init__(self) -> None:
        self._held = bytearray()

    def split_frames(self, piece: bytes) -> list[memoryview]:
        """Return the payloads that are complete now; valid until the next call."""
        held = self._held
        # A piece with whole frames only, the usual case, is split without copying.
        source: bytes | bytearray = piece
        if held:
            held += piece
            source = held
        whole: list[memoryview] = []
        view = memoryview(source)
        at, end = 0, len(source)
        while end - at >= 4:
            (size,) = FRAME_LENGTH.unpack_from(source, at)
            if end - at - 4 < size:
                break
            whole.append(view[at + 4 : at + 4 + size])
            at += 4 + size
        self._held = bytearray(view[at:])
        return whole


def toggle_plugin_mark(number: int) -> int:
    """Encode that a plug-in is processing page `number`; applied again, it decodes.

    >>> toggle_plugin_mark(0), toggle_plugin_mark(5), toggle_plugin_mark(toggle_plugin_mark(5))
    (-2, -7, 5)
    """
    return -2 - number


def peak_rss() -> int:
    """Peak memory of this process in bytes.

    `getrusage` would be wrong: there a child starts with the peak of its parent.
    """
    with open("/proc/self/status", "rb") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(b"VmHWM:"))
