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

from fieldmouse.crawldir.checkpoint import (
    Checkpoint,
    PartNote,
    fitting,
    identity_in_journal,
    inspect_journal,
    is_changed,
    open_journal,
    read_checkpoint,
    sealed_outcomes,
    sealed_scope,
)
from fieldmouse.crawldir.diary import Diary
from fieldmouse.crawldir.directory import (
    AGENT_FILE,
    OWNER_ONLY,
    CrawlDir,
    Identity,
    is_open_to_others,
    write_identity,
    write_settings,
)
from fieldmouse.crawldir.durable import Syncing, make_directory, sync_directory, write_whole
from fieldmouse.crawldir.evidence import evidence
from fieldmouse.crawldir.journal import BadSpan, Journal, JournalReport, inspect, latest_checkpoint
from fieldmouse.crawldir.log import Log, record_at, records, size_of, understood, whole_length
from fieldmouse.crawldir.parts import DurableLog, Part, Parts, Sealed
from fieldmouse.crawldir.tally import CrawlTally, sealed_tally

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
