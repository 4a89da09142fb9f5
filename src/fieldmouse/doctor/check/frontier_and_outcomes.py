"""Checks of the outcome log and the frontier, and of the accounts: seen = settled + waiting.

A running crawl deletes a file of the frontier soon after a checkpoint that no longer names it. So all files of
a checkpoint are opened at once, and again if a newer checkpoint appears. Files that cannot be opened then are
missing.
"""

from __future__ import annotations

import os
import resource
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from fieldmouse.archive.warc_writer import shard_of
from fieldmouse.doctor.check.check_result import (
    RESTORE_FROM_COPY,
    CheckResult,
    damaged,
    healthy,
    repair_advice,
    repairable,
)
from fieldmouse.errors import DamagedFile, FieldmouseError, shell_quoted
from fieldmouse.formatting import format_size
from fieldmouse.frontier.durable_parts import FrontierState, frontier_state_of, read_open_tickets
from fieldmouse.frontier.hosts.site_limits import read_sites
from fieldmouse.frontier.queues.queue_index import read_all_queues
from fieldmouse.frontier.queues.sieved_urls import SievedUrlQueueState
from fieldmouse.frontier.queues.virtualizer import VirtualizerState, segment_name
from fieldmouse.frontier.seen.key_table import KeySum
from fieldmouse.frontier.seen.sieve import logged_keys
from fieldmouse.frontier.seen.sorted_runs import SortedRun
from fieldmouse.reader.snapshot import retry_until_whole
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint, sealed_counters, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import read_records
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import FrontierEntry, Request
from fieldmouse.url import Host, key_of

REPORT_BUG = "this is a bug in fieldmouse: please report it"
_REWRITES_KEYS = "writes the keys again, from the settled and waiting URLs"

_link = msgspec.msgpack.Decoder(Request).decode
_items = msgspec.msgpack.Decoder(list[tuple[Host, bytes]]).decode
_block = msgspec.msgpack.Decoder(tuple[Host, int, list[bytes]]).decode

#: Exceptions that reading a damaged file may raise.
DAMAGE_ERRORS = (DamagedFile, OSError, ValueError, msgspec.MsgspecError)


class FrontierReport(msgspec.Struct, frozen=True):
    """Result of an inspection; the sums are valid only without injuries."""

    injuries: dict[str, str]  # files that do not match the state, and the differences
    waiting: KeySum
    seen: KeySum


def waiting_keys(directory: Path, state: FrontierState, key_seed: int) -> Iterator[int]:
    """Yield the key of every waiting URL, without polls; raises one of `DAMAGE_ERRORS` on a damaged file."""
    online = read_open_tickets(directory, state.front).values()
    return _keys_of_links(
        chain(online, _ready_links(directory, state.ready), _queued_links(directory, state.queues)), key_seed
    )


def _keys_of_links(links: Iterable[bytes], key_seed: int) -> Iterator[int]:
    """Yield the keys of encoded links, without polls."""
    for row in links:
        if (link := _link(row)).door is not FrontierEntry.POLLED:
            yield key_of(link.url, key_seed)


def files_of_state(state: FrontierState) -> dict[str, int]:
    """Return every file the state names, with the number of bytes that count; -1: all."""
    files = dict.fromkeys(state.sieve.runs, -1)
    files[state.sieve.log] = state.sieve.log_bytes
    files |= {f"ready-{number}.log": -1 for number in range(state.ready.first, state.ready.last)}
    files[f"ready-{state.ready.last}.log"] = state.ready.length
    files |= {segment_name(number): -1 for number in state.queues.segments[:-1]}
    files[segment_name(state.queues.segments[-1])] = state.queues.length
    files[f"queues-{state.queues.index.serial}.log"] = state.queues.index.length
    files[f"front-{state.front.serial}.log"] = state.front.length
    files[f"hosts-{state.hosts.serial}.log"] = state.hosts.length
    if state.sites is not None:
        files[f"sites-{state.sites.serial}.log"] = state.sites.length
    return files


def inspect_frontier(directory: Path, state: FrontierState, key_seed: int) -> FrontierReport:
    """Read all files that `state` names."""
    report = FrontierReport({}, KeySum(), KeySum())

    @contextmanager
    def recorded_damage(file: str) -> Iterator[None]:
        try:
            yield
        except DAMAGE_ERRORS as trouble:
            report.injuries.update([_describe_error(trouble, file)])

    def add_waiting(links: Iterable[bytes]) -> None:
        for key in _keys_of_links(links, key_seed):
            report.waiting.add(key)

    hosts = f"hosts-{state.hosts.serial}.log"
    with recorded_damage(hosts):  # up to the noted length: behind it are promises to wait, whose end may be torn
        deque(read_records(directory / hosts, length=state.hosts.length), maxlen=0)
    with recorded_damage(f"front-{state.front.serial}.log"):
        add_waiting(read_open_tickets(directory, state.front).values())
    with recorded_damage(f"ready-{state.ready.first}.log"):
        add_waiting(_ready_links(directory, state.ready))
    with recorded_damage(f"queues-{state.queues.index.serial}.log"):
        add_waiting(_queued_links(directory, state.queues))
    if state.sites is not None:
        with recorded_damage(f"sites-{state.sites.serial}.log"):
            deque(read_sites(directory, state.sites), maxlen=0)
    # Checksums cover the key log and the runs; runs of format 1 must at least be sorted.
    with recorded_damage(state.sieve.log):
        for keys in logged_keys(directory, state.sieve):
            report.seen.add_all(keys)
    for name in state.sieve.runs:
        with recorded_damage(name):
            for keys in SortedRun(directory / name, raw=state.sieve.has_no_checksums):
                report.seen.add_all(keys)
    return report


def _describe_error(trouble: Exception, file: str) -> tuple[str, str]:
    if isinstance(trouble, DamagedFile):
        return trouble.path.name, str(trouble).partition(" is damaged: ")[2] or str(trouble)
    if isinstance(trouble, OSError):
        name = Path(trouble.filename).name if isinstance(trouble.filename, str) else file
        return name, trouble.strerror or str(trouble)
    return file, f"it cannot be understood ({trouble})"


def _ready_links(directory: Path, state: SievedUrlQueueState) -> Iterator[bytes]:
    start, skip, counted = state.offset, state.taken, 0
    for number in range(state.first, state.last + 1):
        path = directory / f"ready-{number}.log"
        length = state.length if number == state.last else path.stat().st_size
        if not length:
            continue
        if number == state.first and start:
            deque(read_records(path, length=start), maxlen=0)  # already consumed, but its checksums are still checked
        for _, record in read_records(path, start=start, length=length):
            for _, row in _items(record)[skip:]:
                counted += 1
                yield row
            skip = 0
        start = 0
    if counted != state.count:
        raise DamagedFile(directory / f"ready-{state.first}.log", f"{state.count} URLs should wait, {counted} do")


def _queued_links(directory: Path, state: VirtualizerState) -> Iterator[bytes]:
    """Yield the links in queues, segment by segment."""
    live: dict[tuple[int, int], tuple[int, int, int]] = {}
    for head, block in read_all_queues(directory, state.index)[0].all_blocks():
        live[block.segment, block.offset] = (block.first, block.count, max(0, head - block.first))
    for number in state.segments:
        path = directory / segment_name(number)
        length = state.length if number == state.segments[-1] else path.stat().st_size
        if not length:
            continue
        for offset, record in read_records(path, length=length):
            _, first, links = _block(record)
            expected = live.pop((number, offset), None)
            if expected is not None:
                if expected[:2] != (first, len(links)):
                    raise DamagedFile(path, f"the block at byte {offset} is not the one that its queue names")
                yield from links[expected[2] :]
    if live:
        number, offset = min(live)
        raise DamagedFile(directory / segment_name(number), f"there is no block at byte {offset}")


class FrontierSnapshot(msgspec.Struct, frozen=True):
    """A checkpoint, and a directory from which its frontier can be read."""

    checkpoint: Checkpoint
    frontier: Path
    missing: list[str]


@contextmanager
def open_frontier_files(home: CrawlDir) -> Iterator[FrontierSnapshot | None]:
    """The newest checkpoint with its files; None if there is none yet."""
    with ExitStack() as held:
        # The limit of open files is restored at the end: the process may belong to the caller.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        directory = Path(held.enter_context(TemporaryDirectory(prefix="fieldmouse-")))
        serial = count()

        def hold(last: Checkpoint) -> FrontierSnapshot:
            place = directory / str(next(serial))
            place.mkdir()
            return FrontierSnapshot(last, place, _link_open_files(home / "frontier", place, last, held))

        yield retry_until_whole(home, hold, lambda shot: not shot.missing)


def _link_open_files(directory: Path, place: Path, last: Checkpoint, held: ExitStack) -> list[str]:
    """Open every file and create links to the open files in `place`; returns the names of missing files."""
    missing = []
    named = files_of_state(frontier_state_of(last))
    promises = {path.name: 0 for path in directory.glob("hosts-*.log")}
    for name, length in (promises | named).items():
        try:
            handle = os.open(directory / name, os.O_RDONLY)
        except FileNotFoundError:
            if name in named and length:  # an empty log is created on first use
                missing.append(name)
            continue
        held.callback(os.close, handle)
        (place / name).symlink_to(f"/proc/self/fd/{handle}")
    return missing


class OutcomeCounts(msgspec.Struct):
    """Totals of the outcome log."""

    kinds: Counter[str]  # of URLs, by their latest outcome
    rows: int
    polls: int
    keys: KeySum
    indexed: Counter[int]  # pages that must be in the full-text index, by shard


def count_outcomes(home: CrawlDir, last: Checkpoint) -> OutcomeCounts:
    """Count the outcomes in one pass over the log, with eight bytes of memory a page."""
    counts = OutcomeCounts(Counter(), 0, 0, KeySum(), Counter())
    seed, pages = home.identity.key_seed, array("Q")
    for row in outcome_log_reader.outcome_rows(home, length=sealed_outcome_bytes(last)):
        key = key_of(row.url, seed)
        counts.rows += 1
        if not row.polled:
            counts.kinds[row.kind] += 1
            counts.keys.add(key)
        else:
            counts.polls += 1
            if row.supersedes_earlier:
                counts.kinds[row.polled] -= 1
                counts.kinds[row.kind] += 1
        if row.kind is OutcomeKind.PAGE or row.is_gone:
            pages.append(key)
            counts.indexed[shard_of(row.warc)] += row.indexed
    ordered = np.sort(np.array(pages, np.uint64))
    if counts.polls or bool((ordered[1:] == ordered[:-1]).any()):
        # Of pages fetched again, the index holds only the newest version, and no page that is gone.
        newest = outcome_log_reader.newest_page_rows(home, length=sealed_outcome_bytes(last))
        counts.indexed = Counter(shard_of(row.warc) for row in newest if row.indexed)
    return counts


def check_outcomes(home: CrawlDir, last: Checkpoint, owner: int | None) -> tuple[CheckResult, OutcomeCounts | None]:
    try:
        counts = count_outcomes(home, last)
    except (FieldmouseError, OSError, ValueError, msgspec.MsgspecError) as trouble:
        says = str(trouble) if isinstance(trouble, FieldmouseError) else f"`outcomes.log`: {trouble}"
        return damaged("outcomes", says, RESTORE_FROM_COPY, "outcomes.log"), None
    tally = sealed_counters(last)
    kinds = {"page": tally.pages} | {kind: getattr(tally, kind) for kind in "unchanged moved failed refused".split()}
    in_log = [(f"say {kind}", counts.kinds[kind], total) for kind, total in kinds.items()]
    for what, rows, total in (*in_log, ("are of polls", counts.polls, tally.polled.polls)):
        if rows != total:
            return damaged("outcomes", f"{rows:,} rows {what}, the journal counts {total:,}", REPORT_BUG), counts
    says = f"{counts.rows:,} rows, whole and as many as the journal counts"
    length = sealed_outcome_bytes(last)
    extra = (home / "outcomes.log").stat().st_size - length if length else 0
    if extra and owner is None:
        says += f"; {format_size(extra)} past the checkpoint will be cut and fetched again"
    return healthy("outcomes", says), counts


def check_frontier(
    home: CrawlDir, shot: FrontierSnapshot, counts: OutcomeCounts | None, owner: int | None
) -> Iterator[CheckResult]:
    """Check every file that the checkpoint names, then the accounts, from counts of each side."""
    state = frontier_state_of(shot.checkpoint)
    if shot.missing and owner is not None and shot.checkpoint != read_checkpoint(home):
        yield healthy("frontier", "not checked: the crawl changes its files faster than they can be read")
        return
    report = inspect_frontier(shot.frontier, state, home.identity.key_seed)
    missing = dict.fromkeys(shot.missing, "it is missing")
    injuries = missing | {file: what for file, what in report.injuries.items() if file not in missing}
    if injuries:
        sieve = {*state.sieve.runs, state.sieve.log}
        restore = (
            f"{RESTORE_FROM_COPY}; without one this crawl cannot continue, but"
            f" `fieldmouse export {shell_quoted(home.path)}` and"
            f" `fieldmouse search {shell_quoted(home.path)}` still work"
        )
        can_rebuild = counts is not None and injuries.keys() <= sieve
        for file, what in injuries.items():
            says = f"`frontier/{file}` is damaged: {what}"
            advice = repair_advice(home.path, _REWRITES_KEYS) if can_rebuild else restore
            yield CheckResult("frontier", False, says, advice, f"frontier/{file}", can_rebuild)
        yield damaged("accounts", "not balanced: files of the frontier cannot be read")
        return
    yield healthy("frontier", "all files whole")
    if counts is not None:
        yield _check_accounts(home, shot.checkpoint, counts.keys, report.waiting, report.seen)


def _check_accounts(home: CrawlDir, last: Checkpoint, counted: KeySum, waiting: KeySum, held: KeySum) -> CheckResult:
    """Check that every URL in the sieve is settled or waiting, and that all of these are in the sieve."""
    frontier, settled = frontier_state_of(last), sealed_counters(last).settled_urls
    seen = frontier.sieve.seen
    if frontier.shipments is not None:
        return damaged("accounts", "not balanced: the crawl exchanged hosts with others, which is not supported")
    if seen != settled + waiting.count or frontier.done != settled:
        says = f"{seen:,} URLs were seen, but {settled:,} are settled and {waiting.count:,} waiting"
        return damaged("accounts", says, REPORT_BUG)
    accounted = KeySum(counted.count, counted.total)
    accounted.merge(waiting)
    if held != accounted:
        says = "the URLs that count as seen are not those that are settled or waiting"
        if held.count != seen:
            says = f"{seen:,} URLs were seen, but the sieve holds {held.count:,} keys"
        files = ", ".join(f"`frontier/{name}`" for name in (*frontier.sieve.runs, frontier.sieve.log))
        return repairable(
            "accounts", f"{says}: {files} is damaged", repair_advice(home.path, _REWRITES_KEYS), "frontier"
        )
    return healthy("accounts", f"{seen:,} URLs seen = {settled:,} settled + {waiting.count:,} waiting")
