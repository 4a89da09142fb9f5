"""One moment of the whole crawl, as the journal keeps it."""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir import CrawlDir, latest_checkpoint
from fieldmouse.errors import Damaged
from fieldmouse.frontier.frontier import FrontierState
from fieldmouse.indexer.wire import ShardState


class Tally(msgspec.Struct):
    """Counts over the whole crawl, resumes included. An accepted URL is in exactly one, or waiting."""

    pages: int = 0
    unchanged: int = 0
    moved: int = 0
    failed: int = 0
    refused: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reasons: dict[str, int] = {}

    @property
    def settled(self) -> int:
        return self.pages + self.unchanged + self.moved + self.failed + self.refused


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything recovery needs; what is not named here does not count."""

    at: float
    frontier: FrontierState
    shards: list[ShardState]
    outcomes: int  # bytes of outcomes.log
    tally: Tally
    clean: bool = False  # written at an orderly end
    stopped_by: str = ""


_decoder = msgspec.msgpack.Decoder(Checkpoint)


def decode(home: CrawlDir, raw: bytes) -> Checkpoint:
    try:
        return _decoder.decode(raw)
    except msgspec.MsgspecError as trouble:
        raise Damaged(home / "journal", str(trouble)) from trouble


def read_checkpoint(home: CrawlDir) -> Checkpoint | None:
    """The newest checkpoint, for onlookers; None before the first one."""
    raw = latest_checkpoint(home / "journal")
    return None if raw is None else decode(home, raw)
