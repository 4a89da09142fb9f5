"""Checks of WARC files, their CDXJ lines, the digests of duplicate detection, and the full-text index.

Digests, the index and its version table are read in child processes (`probe.py`).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from fieldmouse.archive.warc_reader import ShardAudit, audit_all_bytes, audit_record_heads, read_cdxj_lines
from fieldmouse.archive.warc_writer import cdxj_log_path
from fieldmouse.doctor.check.check_result import CheckResult, CrawlProcess, damaged, healthy, repair_advice, repairable
from fieldmouse.doctor.check.subprocess_checks import (
    DigestStoreCheckRequest,
    IndexCheckRequest,
    VersionTableCheckRequest,
    run_checks,
)
from fieldmouse.errors import DamagedFile, shell_quoted
from fieldmouse.formatting import format_count, format_size
from fieldmouse.search.index import verify_index
from fieldmouse.search.newest_versions import VERSION_TABLE, verify_version_log
from fieldmouse.storage.checkpoint import Checkpoint, shard_states
from fieldmouse.storage.directory import CrawlDir

_SHOWN = 5  # URLs, or positions in files


def check_archive(home: CrawlDir, last: Checkpoint, process: CrawlProcess, *, deep: bool) -> Iterator[CheckResult]:
    directory = home / "archive"
    read = audit_all_bytes if deep else audit_record_heads
    reports = [read(directory, shard, state) for shard, state in enumerate(shard_states(last))]
    wounded = [report for report in reports if report.wounds]
    for report in wounded:
        yield _describe_damage(report)
    if not wounded:
        total, records = sum(report.size for report in reports), sum(report.records for report in reports)
        files = sum(state.serial for state in shard_states(last))
        how = "every byte read" if deep else "`--deep` reads all of them"
        says = f"{format_count(files, 'WARC file')}, {format_size(total)}, {format_count(records, 'answer')}; {how}"
        extra = _bytes_past_checkpoint(directory, last) if process.owner is None else 0
        if extra:
            says += f"; {format_size(extra)} past the checkpoint will be cut and fetched again"
        yield healthy("archive", says)
    broken = [shard for shard, report in enumerate(reports) if report.cdxj]
    for shard in broken:
        says = f"`archive/shard-{shard}.cdxj` is damaged: {reports[shard].cdxj}"
        whole = not reports[shard].wounds
        restore = "restore the WARC file first; then `--repair` writes it again"
        advice = repair_advice(home.path, "writes it again") if whole else restore
        yield CheckResult("cdxj", False, says, advice, f"archive/shard-{shard}.cdxj", whole)
    if not broken:
        yield check_sorted_cdxj(home, last, process)
        yield check_digests(home, last, process)


def _describe_damage(report: ShardAudit) -> CheckResult:
    places = [
        f"`archive/{wound.file}` is damaged at byte {wound.offset}: {wound.what}"
        if wound.offset >= 0
        else f"`archive/{wound.file}`: {wound.what}"
        for wound in report.wounds
    ]
    more = f"; and at {len(places) - _SHOWN} more places" if len(places) > _SHOWN else ""
    says = "; ".join(places[:_SHOWN]) + more
    if report.unreadable:
        urls = ", ".join(report.unreadable[:_SHOWN]) + (", ..." if len(report.unreadable) > _SHOWN else "")
        says += f"; {len(report.unreadable):,} answers cannot be read: {urls}"
    return damaged("archive", says, "restore the file from a copy of the directory: there is no other copy of a page")


def _bytes_past_checkpoint(directory: Path, last: Checkpoint) -> int:
    """Bytes written after the last checkpoint."""
    written = [(directory / state.warc, state.warc_length) for state in shard_states(last) if state.warc]
    return sum(path.stat().st_size - length for path, length in written if path.is_file())


def check_sorted_cdxj(home: CrawlDir, last: Checkpoint, process: CrawlProcess) -> CheckResult:
    """Check that `index.cdxj` holds only lines of the logs, sorted, and all of them if the crawl ended
    normally."""
    path = home / "archive" / "index.cdxj"
    ended = process.ended_normally and last.clean
    lines = sum(state.cdxj_length for state in shard_states(last))
    advice = f"`fieldmouse resume {shell_quoted(home.path)}` or {repair_advice(home.path, 'writes it')}"
    if not path.is_file():
        if ended and lines:
            return repairable("cdxj", "`archive/index.cdxj` is missing", advice, "archive/index.cdxj")
        return healthy("cdxj", "all lines agree with their records; `index.cdxj` is written when the crawl ends")
    logged, merged, expected = array("Q"), array("Q"), 0
    for shard, state in enumerate(shard_states(last)):
        # Lines past the checkpoint too: `index.cdxj` may be newer than a journal that lost its newest record.
        log = cdxj_log_path(home / "archive", shard)
        at = 0
        for line in read_cdxj_lines(log, log.stat().st_size if log.exists() else 0):
            logged.append(xxhash.xxh3_64_intdigest(line))
            expected += at < state.cdxj_length
            at += len(line)
    before, what = b"", ""
    with path.open("rb") as file:
        for line in file:
            merged.append(xxhash.xxh3_64_intdigest(line))
            if line < before:
                what = f"line {len(merged):,} is out of order"
                break
            before = line
    strange = np.flatnonzero(~np.isin(_hash_array(merged), _hash_array(logged)))
    if not what and strange.size:
        what = f"line {int(strange[0]) + 1:,} is in no shard's log"
    if not what and ended and len(merged) != expected:
        what = f"it holds {len(merged):,} lines of {expected:,}"
    if what:
        return repairable("cdxj", f"`archive/index.cdxj` is damaged: {what}", advice, "archive/index.cdxj")
    if len(merged) != expected:
        return healthy("cdxj", "all lines agree with their records; `index.cdxj` is renewed when the crawl ends")
    return healthy("cdxj", f"{len(merged):,} lines, and each agrees with its record")


def _hash_array(marks: array[int]) -> NDArray[np.uint64]:
    return np.frombuffer(marks, np.uint64) if marks else np.zeros(0, np.uint64)


def check_digests(home: CrawlDir, last: Checkpoint, process: CrawlProcess) -> CheckResult:
    path = home / "archive" / "digests.lmdb"
    advice = repair_advice(home.path, "makes it again; no page is lost by it")
    if not path.is_file():
        if not any(state.cdxj_length for state in shard_states(last)):
            return healthy("digests", "nothing stored yet")
        says = "`archive/digests.lmdb` is missing: pages stored before would be stored once more"
        return repairable("digests", says, advice, "archive/digests.lmdb")
    (report,) = run_checks([DigestStoreCheckRequest(str(path), len(shard_states(last)), process.owner is not None)])
    if report.trouble:
        says = f"`archive/digests.lmdb` is damaged: {report.trouble}"
        return repairable("digests", says, advice, "archive/digests.lmdb")
    says = f"{report.count:,} payloads are known by their digest"
    if report.stale:
        # A stale digest is used only if the CDXJ line agrees, so the only cost is a page stored twice.
        says += f"; {report.stale:,} of them are out of date and not used"
    return healthy("digests", says)


def check_index(
    home: CrawlDir, last: Checkpoint, wanted: Counter[int] | None, process: CrawlProcess
) -> Iterator[CheckResult]:
    """Check the index. `wanted` is the number of pages that each shard must hold; None if unknown."""
    busy, shards = process.owner is not None, shard_states(last)
    copies, seed = tuple(state.copies for state in shards), home.identity.key_seed
    for shard, length in enumerate(copies):
        try:
            verify_version_log(home / "index", shard, length)
        except DamagedFile as trouble:
            advice = repair_advice(home.path, "builds the index again without it")
            yield repairable("index", str(trouble), advice, f"index/shard-{shard}.copies")
            return
    has_table = any(copies) and (home / "index" / VERSION_TABLE).exists()
    if has_table and (flaw := run_checks([VersionTableCheckRequest(str(home / "index"), copies, busy)])[0].trouble):
        advice = repair_advice(home.path, "deletes it; it is rebuilt from the logs")
        yield repairable("index", f"`index/{VERSION_TABLE}` is damaged: {flaw}", advice, f"index/{VERSION_TABLE}")
        return
    questions: list[tuple[int, IndexCheckRequest]] = []
    for shard, state in enumerate(shards):
        for number in range(state.generation_count):
            path = home / "index" / f"shard-{shard}" / f"{number:05}"
            live = not busy and (number < state.generation or process.ended_normally)
            questions.append((shard, IndexCheckRequest(str(path), state.batch, busy, live, False, copies, seed)))
    reports = run_checks([question for _, question in questions])
    held: Counter[int] = Counter()
    hurt: set[int] = set()
    for (shard, question), report in zip(questions, reports, strict=True):
        held[shard] += report.count
        if report.trouble:
            hurt.add(shard)
            says = f"`{Path(question.path).relative_to(home.path)}` is damaged: {report.trouble}"
            yield _rebuildable_shard(home, shard, says)
    for shard in range(len(shards)):
        if wanted is None or shard in hurt or held[shard] == wanted[shard]:
            continue
        # A running crawl may have started its next batch and merged a page out of this one.
        if held[shard] < wanted[shard] or process.owner is None:
            hurt.add(shard)
            says = f"`index/shard-{shard}` holds {held[shard]:,} pages of {wanted[shard]:,} that were indexed"
            yield _rebuildable_shard(home, shard, says)
    if process.owner is None:
        for shard, state in enumerate(shards):
            if shard in hurt:
                continue
            try:
                # the check of a resume, whose result must agree with ours
                verify_index(home / "index", shard, state)
            except DamagedFile as trouble:
                hurt.add(shard)
                yield _rebuildable_shard(home, shard, str(trouble))
    if not hurt:
        younger, strays = sum(report.younger for report in reports), sum(len(report.strays) for report in reports)
        says = f"{format_count(held.total(), 'page')} can be searched, and every file matches its checksum"
        if younger and process.owner is None:
            says += f"; {younger:,} pages past the checkpoint will be taken out and fetched again"
        if strays and process.owner is None:
            says += f"; {strays:,} files that belong to nothing are deleted at the next start"
        yield healthy("index", says)


def _rebuildable_shard(home: CrawlDir, shard: int, says: str) -> CheckResult:
    advice = repair_advice(home.path, "builds it again from the WARC files")
    return repairable("index", says, advice, f"index/shard-{shard}")
