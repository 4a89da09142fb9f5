"""Checks of journal, outcome log and frontier, and of the accounts: seen = settled + waiting."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from fieldmouse.archive.warc_writer import shard_of
from fieldmouse.doctor.check.finding import RESTORE_FROM_COPY, CrawlProcess, Finding, damaged, healthy, repairable
from fieldmouse.doctor.check.frontier import FrontierDamage, FrontierFiles, inspect_frontier
from fieldmouse.errors import FieldmouseError, shell_quoted
from fieldmouse.formatting import format_size
from fieldmouse.frontier.seen.key_table import KeySum
from fieldmouse.frontier.state import sealed_frontier
from fieldmouse.storage import outcome_log
from fieldmouse.storage.checkpoint import Checkpoint, inspect_journal, read_checkpoint, sealed_counters, sealed_outcomes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import key_of

REPORT_BUG = "this is a bug in fieldmouse: please report it"
_COUNTED = [OutcomeKind[name] for name in "PAGE UNCHANGED MOVED FAILED REFUSED".split()]


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
    for row in outcome_log.rows(home, length=sealed_outcomes(last)):
        key = key_of(row.url, seed)
        counts.rows += 1
        if not row.polled:
            counts.kinds[row.kind] += 1
            counts.keys.add(key)
        else:
            counts.polls += 1
            if row.is_latest:
                counts.kinds[row.polled] -= 1
                counts.kinds[row.kind] += 1
        if row.kind is OutcomeKind.PAGE or row.is_gone:
            pages.append(key)
            counts.indexed[shard_of(row.warc)] += row.indexed
    ordered = np.sort(np.array(pages, np.uint64))
    if counts.polls or bool((ordered[1:] == ordered[:-1]).any()):
        # Of pages fetched again, the index holds only the newest version, and no page that is gone.
        newest = outcome_log.newest_pages(home, length=sealed_outcomes(last))
        counts.indexed = Counter(shard_of(row.warc) for row in newest if row.indexed)
    return counts


def check_journal(home: CrawlDir, last: Checkpoint | None, here: CrawlProcess) -> Finding:
    resume = f"continue with `{home.resume_command}`"
    report = inspect_journal(home)
    if report.bad:
        spans = ", ".join(f"the record at byte {span.offset} {span.what}" for span in report.bad[:3])
        more = f", and {len(report.bad) - 3} more" if len(report.bad) > 3 else ""
        cost = "a whole one follows, so nothing is lost by it"
        if report.newer_checkpoint_lost:
            cost = "the checkpoint before it counts, and later work will be done again"
        return repairable(
            "journal",
            f"`journal` is damaged: {spans}{more}; {cost}",
            f"`fieldmouse doctor {shell_quoted(home.path)} --repair` repairs it, and so does a resume",
            "journal",
        )
    if report.torn and here.ended_normally:
        says = "`journal` is damaged: its last record was cut after the crawl had ended"
        return damaged(
            "journal", says, f"{RESTORE_FROM_COPY}; otherwise a resume continues from the checkpoint before it"
        )
    if last is None:
        return healthy("journal", "no checkpoint yet", "" if here.owner else resume)
    says = f"last checkpoint {max(0.0, time.time() - last.at):,.0f} s ago"
    if last.clean and home.is_cluster_agent:  # waiting URLs are on the coordinator
        if not last.stopped_by:
            return healthy("journal", f"{says}; the crawl is done")
        return healthy("journal", f"{says}; this agent was stopped ({last.stopped_by})", resume)
    if last.clean:
        frontier = sealed_frontier(last)
        if not frontier.waiting + frontier.polls:
            return healthy("journal", f"{says}; the crawl is done")
        why = f" ({last.stopped_by})" if last.stopped_by else ""
        return healthy("journal", f"{says}; stopped{why} with work left", resume)
    if here.owner is None:
        return healthy("journal", f"{says}; the crawl was killed since, nothing is lost", resume)
    return healthy("journal", says)


def check_outcomes(home: CrawlDir, last: Checkpoint, owner: int | None) -> tuple[Finding, OutcomeCounts | None]:
    try:
        counts = count_outcomes(home, last)
    except (FieldmouseError, OSError, ValueError, msgspec.MsgspecError) as trouble:
        says = str(trouble) if isinstance(trouble, FieldmouseError) else f"`outcomes.log`: {trouble}"
        return damaged("outcomes", says, RESTORE_FROM_COPY, "outcomes.log"), None
    tally = sealed_counters(last)
    totals = (tally.pages, tally.unchanged, tally.moved, tally.failed, tally.refused)
    for kind, count in zip(_COUNTED, totals, strict=True):
        if counts.kinds[kind] != count:
            says = f"{counts.kinds[kind]:,} rows say {kind}, the journal counts {count:,}"
            return damaged("outcomes", says, REPORT_BUG), counts
    if counts.polls != tally.polled.polls:
        says = f"{counts.polls:,} rows are of polls, the journal counts {tally.polled.polls:,}"
        return damaged("outcomes", says, REPORT_BUG), counts
    says = f"{counts.rows:,} rows, whole and as many as the journal counts"
    length = sealed_outcomes(last)
    extra = (home / "outcomes.log").stat().st_size - length if length else 0
    if extra and owner is None:
        says += f"; {format_size(extra)} past the checkpoint will be cut and fetched again"
    return healthy("outcomes", says), counts


def check_frontier(
    home: CrawlDir, shot: FrontierFiles, counts: OutcomeCounts | None, owner: int | None
) -> Iterator[Finding]:
    """Check every file that the checkpoint names, then the accounts, from counts of each side."""
    state = sealed_frontier(shot.checkpoint)
    injuries = [FrontierDamage(name, "it is missing") for name in shot.missing]
    if injuries and owner is not None and shot.checkpoint != read_checkpoint(home):
        yield healthy("frontier", "not checked: the crawl changes its files faster than they can be read")
        return
    report = inspect_frontier(shot.frontier, state, home.identity.key_seed)
    injuries += [injury for injury in report.injuries if injury.file not in shot.missing]
    if injuries:
        sieve = {*state.sieve.runs, state.sieve.log}
        can_rebuild = counts is not None and all(injury.file in sieve for injury in injuries)
        for injury in injuries:
            says = f"`frontier/{injury.file}` is damaged: {injury.what}"
            advice = _rewrite_keys(home.path) if can_rebuild else _restore_frontier(home.path)
            yield Finding("frontier", False, says, advice, f"frontier/{injury.file}", can_rebuild)
        yield damaged("accounts", "not balanced: files of the frontier cannot be read")
        return
    yield healthy("frontier", "all files whole")
    if counts is not None:
        yield _accounts(home, shot.checkpoint, counts.keys, report.waiting, report.seen)


def _accounts(home: CrawlDir, last: Checkpoint, counted: KeySum, waiting: KeySum, held: KeySum) -> Finding:
    """Check that every URL in the sieve is settled or waiting, and that all of these are in the sieve."""
    frontier, settled = sealed_frontier(last), sealed_counters(last).settled
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
        return repairable("accounts", f"{says}: {files} is damaged", _rewrite_keys(home.path), "frontier")
    return healthy("accounts", f"{seen:,} URLs seen = {settled:,} settled + {waiting.count:,} waiting")


def _rewrite_keys(path: Path) -> str:
    return f"`fieldmouse doctor {shell_quoted(path)} --repair` writes the keys again, from the settled and waiting URLs"


def _restore_frontier(path: Path) -> str:
    return (
        f"{RESTORE_FROM_COPY}; without one this crawl cannot continue, but `fieldmouse export "
        f"{shell_quoted(path)}` and"
        f" `fieldmouse search {shell_quoted(path)}` still work"
    )
