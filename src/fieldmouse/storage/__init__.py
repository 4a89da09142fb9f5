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

`directory.py` opens the directory, `fsync.py` makes files in it durable, and `checkpoint.py` describes a
checkpoint and the parts that are sealed into it.
"""

from __future__ import annotations

from fieldmouse.storage.checkpoint import (
    Checkpoint,
    CrawlCounters,
    Durable,
    DurableLog,
    DurableSet,
    PartState,
    Sealed,
    explain_mismatch,
    identity_changed,
    identity_in_journal,
    inspect_journal,
    open_journal,
    read_checkpoint,
    sealed_counters,
    sealed_outcomes,
    sealed_scope,
)
from fieldmouse.storage.directory import (
    AGENT_FILE,
    OWNER_ONLY,
    CrawlDir,
    Identity,
    evidence_of_checkpoint,
    settings_readable_by_others,
    write_identity,
    write_settings,
)
from fieldmouse.storage.journal import BadSpan, Journal, JournalReport, inspect_journal_file, latest_checkpoint
from fieldmouse.storage.log import (
    BestEffortLog,
    FileSync,
    Log,
    decode_record,
    length_of_whole_records,
    make_directory,
    record_at,
    records,
    required_size,
    sync_directory,
    write_atomically,
)

__all__ = [
    "AGENT_FILE",
    "OWNER_ONLY",
    "BadSpan",
    "BestEffortLog",
    "Checkpoint",
    "CrawlCounters",
    "CrawlDir",
    "Durable",
    "DurableLog",
    "DurableSet",
    "FileSync",
    "Identity",
    "Journal",
    "JournalReport",
    "Log",
    "PartState",
    "Sealed",
    "decode_record",
    "evidence_of_checkpoint",
    "explain_mismatch",
    "identity_changed",
    "identity_in_journal",
    "inspect_journal",
    "inspect_journal_file",
    "latest_checkpoint",
    "length_of_whole_records",
    "make_directory",
    "open_journal",
    "read_checkpoint",
    "record_at",
    "records",
    "required_size",
    "sealed_counters",
    "sealed_outcomes",
    "sealed_scope",
    "settings_readable_by_others",
    "sync_directory",
    "write_atomically",
    "write_identity",
    "write_settings",
]
