"""State of a shard at a checkpoint."""

from __future__ import annotations

import msgspec

from fieldmouse.storage.checkpoint import Checkpoint


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


def shard_states(last: Checkpoint | None) -> list[ShardState]:
    """Return the shards of a checkpoint; none before the first one."""
    return last.state("shards", list[ShardState]) if last is not None else []
