"""One directory per crawl: who may write in it, what format it has, where things lie.

DIR/
  fieldmouse.toml   what was asked for, editable between runs
  agent.json        who it is among the agents of a network, if it is one
  crawl.json        format, secret of the URL hashes, when and by what it was made
  lock              held by the process that crawls
  journal           the checkpoints; the newest says how much of the rest counts
  outcomes.log      one row per URL whose fate is known
  held.log          links that wait until it is known where seeds redirect to, in some crawls
  readings.log      vital signs, one a second
  decisions.log     what the frontier's policy saw and decided, for `lab replay`
  frontier/         sieve, host queues, the front, host states
  archive/          WARC files and their CDXJ
  index/            full text, one shard per worker

`directory.py` opens it; `parts.py` says how something becomes durable in it, and `checkpoint.py` what was.
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
