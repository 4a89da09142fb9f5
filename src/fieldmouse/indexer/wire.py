"""What agent and worker say to each other, and how it is framed.

A frame is four bytes of length and one msgpack message; they travel over a
socket pair. Frames are written in batches and read whole, so a page costs a
fraction of a system call in either direction.
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
    """What a worker must know of the crawl; the same for all of them."""

    user_agent: str = "fieldmouse"
    robot: str = "fieldmouse"  # our name in it, lower case: pages may have rules for us
    contact: str = ""  # who runs the crawl, for the warcinfo record
    key_seed: int = 0
    scope: Scope = Scope()
    scope_is_open: bool = False  # a redirect of a seed may still bring hosts into it
    scope_is_shared: bool = False  # other agents bring hosts into it, too: their pages say so
    traps: TrapRules = TrapRules()
    links_per_page: int = 0  # taken from one page; 0 for all
    decoded_limit: int = 64 << 20  # bytes of a body, unpacked
    ratio_limit: int = 200  # unpacked to packed
    nofollow: bool = True  # obey rel=nofollow, meta robots and X-Robots-Tag
    sitemaps: bool = True  # read sitemaps for their URLs
    feeds: bool = True  # read feeds for theirs
    outlinks: bool = False  # list every link in the WARC metadata records
    warc_size: int = 1 << 30  # a new file is begun after so many bytes
    warc_prefix: str = "fieldmouse"
    index_heap: int = 48 << 20  # bytes the index writer may gather before it writes a segment
    generation: int = 24 << 20  # bytes of text after which a shard's index begins a new generation
    store_text: bool = True  # keep the text in the index, for snippets
    revisits: bool = True  # archive that a page has not changed
    plugins: PluginNames = PluginNames()
    noise: NoiseRules = NoiseRules()  # what of a page is compared when it was polled


class ShardState(msgspec.Struct, frozen=True, array_like=True):
    """A moment of one shard: all that is needed to roll its files back to it."""

    batch: int = 0  # the last batch that counts
    serial: int = 0  # of the WARC file being written; 0 before the first one
    warc: str = ""  # its name
    warc_length: int = 0
    cdxj_length: int = 0
    generation: int = 0  # of the full-text index
    generation_bytes: int = 0  # text in that generation
    copies: int = 0  # bytes of its log of pages fetched again


def sealed_shards(last: Checkpoint | None) -> list[ShardState]:
    """The shards of a checkpoint; none before the first one."""
    return last.state("shards", list[ShardState]) if last is not None else []


class Start(msgspec.Struct, frozen=True, tag="start", array_like=True):
    """Hold the shard and look it over; nothing of it may be changed yet."""

    directory: str
    shard: int
    config: IndexerConfig
    state: ShardState
    batch: int  # the one to begin with: all shards count together, also those that missed a checkpoint


class Begin(msgspec.Struct, frozen=True, tag="begin", array_like=True):
    """Everything else has opened, too: cut the shard back to the state it was given, and take pages."""


class Job(msgspec.Struct, frozen=True, tag="job", array_like=True):
    number: int
    outcome: Page | Unchanged | Moved | Failed
    bare: bool = False  # without plug-ins: they brought a worker down with it


class Widen(msgspec.Struct, frozen=True, tag="widen", array_like=True):
    """Redirects of seeds led to these pages: with them the scope is wider."""

    joined: tuple[Url, ...]
    is_open: bool  # there may be more


class Prepare(msgspec.Struct, frozen=True, tag="prepare", array_like=True):
    """Make everything received before this durable."""


class Committed(msgspec.Struct, frozen=True, tag="committed", array_like=True):
    """The journal holds what was prepared up to this batch."""

    batch: int


class Finish(msgspec.Struct, frozen=True, tag="finish", array_like=True):
    """The crawl ends: let the index finish its merges."""


class Opened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """The shard can be brought to the state that was given."""


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The worker stands at the state it was given."""


class Answers(msgspec.Struct, frozen=True, tag="answers", array_like=True):
    parsed: tuple[Parsed, ...]


class Prepared(msgspec.Struct, frozen=True, tag="prepared", array_like=True):
    state: ShardState
    peak_rss: int  # bytes


class Finished(msgspec.Struct, frozen=True, tag="finished", array_like=True):
    peak_rss: int


class Broken(msgspec.Struct, frozen=True, tag="broken", array_like=True):
    """The worker cannot go on for a reason its user can mend."""

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
    """Cuts a stream of bytes into payloads."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> list[memoryview]:
        """The payloads that are whole now; valid until the next call."""
        held = self._held
        # A piece that holds whole frames only, the usual case, is cut without copying.
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
