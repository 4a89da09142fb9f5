"""Checks of the full-text index and of the version table, which are read in child processes (`probe.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fieldmouse.doctor.check.finding import CrawlProcess, Finding, healthy, repair_advice, repairable
from fieldmouse.doctor.check.probe import IndexCheck, VersionTableCheck, run_checks
from fieldmouse.errors import DamagedFile
from fieldmouse.formatting import format_count
from fieldmouse.search.index import verify_index
from fieldmouse.search.versions import VERSION_TABLE, verify_version_log
from fieldmouse.storage.checkpoint import Checkpoint, shard_states
from fieldmouse.storage.directory import CrawlDir


def check_index(
    home: CrawlDir, last: Checkpoint, wanted: Counter[int] | None, process: CrawlProcess
) -> Iterator[Finding]:
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
    if has_table and (flaw := run_checks([VersionTableCheck(str(home / "index"), copies, busy)])[0].trouble):
        advice = repair_advice(home.path, "deletes it; it is rebuilt from the logs")
        yield repairable("index", f"`index/{VERSION_TABLE}` is damaged: {flaw}", advice, f"index/{VERSION_TABLE}")
        return
    questions: list[tuple[int, IndexCheck]] = []
    for shard, state in enumerate(shards):
        for number in range(state.generations):
            path = home / "index" / f"shard-{shard}" / f"{number:05}"
            live = not busy and (number < state.generation or process.ended_normally)
            questions.append((shard, IndexCheck(str(path), state.batch, busy, live, False, copies, seed)))
    reports = run_checks([question for _, question in questions])
    held: Counter[int] = Counter()
    hurt: set[int] = set()
    for (shard, question), report in zip(questions, reports, strict=True):
        held[shard] += report.count
        if report.trouble:
            hurt.add(shard)
            says = f"`{Path(question.path).relative_to(home.path)}` is damaged: {report.trouble}"
            yield _curable(home, shard, says)
    for shard in range(len(shards)):
        if wanted is None or shard in hurt or held[shard] == wanted[shard]:
            continue
        # A running crawl may have started its next batch and merged a page out of this one.
        if held[shard] < wanted[shard] or process.owner is None:
            hurt.add(shard)
            says = f"`index/shard-{shard}` holds {held[shard]:,} pages of {wanted[shard]:,} that were indexed"
            yield _curable(home, shard, says)
    if process.owner is None:
        for shard, state in enumerate(shards):
            if shard in hurt:
                continue
            try:
                # the check of a resume, whose result must agree with ours
                verify_index(home / "index", shard, state)
            except DamagedFile as trouble:
                hurt.add(shard)
                yield _curable(home, shard, str(trouble))
    if not hurt:
        younger, strays = sum(report.younger for report in reports), sum(len(report.strays) for report in reports)
        says = f"{format_count(held.total(), 'page')} can be searched, and every file matches its checksum"
        if younger and process.owner is None:
            says += f"; {younger:,} pages past the checkpoint will be taken out and fetched again"
        if strays and process.owner is None:
            says += f"; {strays:,} files that belong to nothing are deleted at the next start"
        yield healthy("index", says)


def _curable(home: CrawlDir, shard: int, says: str) -> Finding:
    advice = repair_advice(home.path, "builds it again from the WARC files")
    return repairable("index", says, advice, f"index/shard-{shard}")
