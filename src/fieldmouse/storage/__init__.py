"""Crawl directory: its layout, lock, format and checkpoints.

DIR/
  fieldmouse.toml   settings, editable between runs
  agent.json        identity of the agent, only if the crawl is part of a cluster
  crawl.json        format, secret of the URL hashes, time of creation and version of fieldmouse
  lock              held by the process that crawls
  journal           checkpoints; the newest says how much of every other file counts
  outcomes.log      one row per settled URL
  held.log          requests that wait until the redirects of the seeds are known, in some crawls
  readings.log      statistics, one row per second
  decisions.log     inputs and decisions of the frontier's policy, for `lab replay`
  frontier/         sieve, host queues, front, host states
  archive/          WARC files and their CDXJ
  index/            full-text index, one shard per worker

`directory.py` opens the directory, `parts.py` makes files in it durable, `checkpoint.py` describes a
checkpoint.
"""

from __future__ import annotations

from fieldmouse.storage.checkpoint import (
    Checkpoint,
    DurableLog,
    Part,
    PartNote,
    Parts,
    Sealed,
    fitting,
    identity_in_journal,
    inspect_journal,
    is_changed,
    open_journal,
    read_checkpoint,
    sealed_outcomes,
    sealed_scope,
)
from fieldmouse.storage.counters import CrawlTally, sealed_tally
from fieldmouse.storage.directory import (
    AGENT_FILE,
    OWNER_ONLY,
    CrawlDir,
    Identity,
    evidence,
    is_open_to_others,
    write_identity,
    write_settings,
)
from fieldmouse.storage.fsync import Syncing, make_directory, sync_directory, write_whole
from fieldmouse.storage.journal import BadSpan, Journal, JournalReport, inspect, latest_checkpoint
from fieldmouse.storage.log import Diary, Log, record_at, records, size_of, understood, whole_length

__all__ = [
    "AGENT_FILE",
    "OWNER_ONLY",
    "BadSpan",
    "Checkpoint",
    "CrawlDir",
    "CrawlTally",
    "Diary",
    "DurableLog",
    "Identity",
    "Journal",
    "JournalReport",
    "Log",
    "Part",
    "PartNote",
    "Parts",
    "Sealed",
    "Syncing",
    "evidence",
    "fitting",
    "identity_in_journal",
    "inspect",
    "inspect_journal",
    "is_changed",
    "is_open_to_others",
    "latest_checkpoint",
    "make_directory",
    "open_journal",
    "read_checkpoint",
    "record_at",
    "records",
    "sealed_outcomes",
    "sealed_scope",
    "sealed_tally",
    "size_of",
    "sync_directory",
    "understood",
    "whole_length",
    "write_identity",
    "write_settings",
    "write_whole",
]
