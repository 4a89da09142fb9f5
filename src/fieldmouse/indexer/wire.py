"""Messages between crawler and worker, and their framing.

A frame is four bytes of length and one msgpack message, sent over a socket pair. Frames are written in
batches, so a page costs a fraction of a system call in either direction.
"""

from __future__ import annotations

import struct

import msgspec

from fieldmouse.crawldir import Checkpoint
from fieldmouse.plugins.names import PluginNames
from fieldmouse.policy.noiserules import NoiseRules
from fieldmouse.policy.scope import Scope
from fieldmouse.policy.traps import TrapRules
from fieldmouse.records import Failed, Moved, Page, Parsed, Unchanged
from fieldmouse.url import Url

HEADER = struct.Struct("<I")


class IndexerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the crawl for workers; the same for all of them."""

    user_agent: str = "fieldmouse"
    robot: str = "fieldmouse"  # our name in robots rules, lower case
    contact: str = ""  # operator of the crawl, for the warcinfo record
    key_seed: int = 0
    scope: Scope = Scope()
    scope_is_open: bool = False  # a redirect of a seed may still add hosts to it
    scope_is_shared: bool = False  # other agents add hosts to it, too: a page on such a host is the sign
    traps: TrapRules = TrapRules()
    links_per_page: int = 0  # links taken from one page; 0 for all
    decoded_limit: int = 64 << 20  # bytes of a decoded body
    ratio_limit: int = 200  # decoded to encoded size
    nofollow: bool = True  # obey rel=nofollow, meta robots and X-Robots-Tag
    sitemaps: bool = True  # read sitemaps for their URLs
    feeds: bool = True  # read feeds for their URLs
    outlinks: bool = False  # list every link in the WARC metadata records
    warc_size: int = 1 << 30  # bytes after which a new file begins
    warc_prefix: str = "fieldmouse"
    index_heap: int = 48 << 20  # bytes that the index writer buffers before it writes a segment
    generation: int = 24 << 20  # bytes of text after which a shard's index begins a new generation
    store_text: bool = True  # keep the text in the index, for snippets
    revisits: bool = True  # write revisit records for unchanged pages
    plugins: PluginNames = PluginNames()
    noise: NoiseRules = NoiseRules()  # parts of a page to ignore when it is compared


class ShardState(msgspec.Struct, frozen=True, array_like=True):
    """State of one shard that its files can be rolled back to."""

    batch: int = 0  # the last committed batch
    serial: int = 0  # of the WARC file being written; 0 before the first one
    warc: str = ""  # its name
    warc_length: int = 0
    cdxj_length: int = 0
    generation: int = 0  # of the full-text index
    generation_bytes: int = 0  # text in that generation
    copies: int = 0  # bytes of its log of replaced pages


def sealed_shards(last: Checkpoint | None) -> list[ShardState]:
    """Return the shards of a checkpoint; none before the first one."""
    return last.state("shards", list[ShardState]) if last is not None else []


class Start(msgspec.Struct, frozen=True, tag="start", array_like=True):
    """Lock and check the shard; nothing of it may be changed yet."""

    directory: str
    shard: int
    config: IndexerConfig
    state: ShardState
    batch: int  # first batch: all shards count batches together, also those that missed a checkpoint


class Begin(msgspec.Struct, frozen=True, tag="begin", array_like=True):
    """Everything else is open, too: cut the shard back to its state, and accept pages."""


class Job(msgspec.Struct, frozen=True, tag="job", array_like=True):
    number: int
    outcome: Page | Unchanged | Moved | Failed
    bare: bool = False  # skip plug-ins: they killed a worker on this page


class Widen(msgspec.Struct, frozen=True, tag="widen", array_like=True):
    """Redirects of seeds add these pages to the scope."""

    joined: tuple[Url, ...]
    is_open: bool  # more may follow


class Prepare(msgspec.Struct, frozen=True, tag="prepare", array_like=True):
    """Make everything received before this durable."""


class Committed(msgspec.Struct, frozen=True, tag="committed", array_like=True):
    """The journal has everything prepared up to this batch."""

    batch: int


class Finish(msgspec.Struct, frozen=True, tag="finish", array_like=True):
    """The crawl ends: finish the merges of the index."""


class Opened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """The shard can be restored to the given state."""


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The worker is at the given state."""


class Answers(msgspec.Struct, frozen=True, tag="answers", array_like=True):
    parsed: tuple[Parsed, ...]


class Prepared(msgspec.Struct, frozen=True, tag="prepared", array_like=True):
    state: ShardState
    peak_rss: int  # bytes


class Finished(msgspec.Struct, frozen=True, tag="finished", array_like=True):
    peak_rss: int


class Broken(msgspec.Struct, frozen=True, tag="broken", array_like=True):
    """The worker must stop for a reason that the user can fix."""

    message: str
    hint: str


Down = Start | Begin | Job | Widen | Prepare | Committed | Finish
Up = Opened | Ready | Answers | Prepared | Finished | Broken

encode = msgspec.msgpack.Encoder().encode
decode_down = msgspec.msgpack.Decoder(Down).decode
decode_up = msgspec.msgpack.Decoder(Up).decode


def frame(message: Down | Up) -> bytes:
    payload = encode(message)
    return HEADER.pack(len(payload)) + payload


class Frames:
    """Splits a stream of bytes into payloads."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> list[memoryview]:
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
            (size,) = HEADER.unpack_from(source, at)
            if end - at - 4 < size:
                break
            whole.append(view[at + 4 : at + 4 + size])
            at += 4 + size
        self._held = bytearray(view[at:])
        return whole
