"""Crawl with an outcome log only: rows given by a test, sealed by a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from fieldmouse.storage.checkpoint import (
    Checkpoint,
    encode_checkpoint,
    make_part_state,
    open_journal,
    sealed_outcome_bytes,
)
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log
from fieldmouse.types.outcome import OutcomeRow


def write_rows(path: Path, rows: Iterable[OutcomeRow]) -> Path:
    """Append rows to the crawl in `path`, which is created if needed, and seal them."""
    made = (path / "crawl.json").exists()
    home = CrawlDir.open(path) if made else CrawlDir.create(path, shards=1, settings=b"")
    journal, last = open_journal(home)
    log = Log(home / "outcomes.log", sealed_outcome_bytes(last))
    for row in rows:
        log.append(msgspec.msgpack.encode(row))
    length = log.flush()
    log.close()
    at = 1.0 if last is None else last.at + 1.0
    parts = {"outcomes": make_part_state(length, {"outcomes.log": length}), "shards": make_part_state([], {})}
    journal.repair_before_writing()
    journal.commit(encode_checkpoint(Checkpoint(at=at, parts=parts, born=home.identity)))
    journal.close()
    return path
