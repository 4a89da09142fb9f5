"""Checks of the full-text index and of the version table.

The check runs in a child process (`python -m fieldmouse.indexer.copyprobe`), because LMDB
trusts its file: a damaged one can kill its reader, and the death is a result, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import lmdb

from fieldmouse.archive.lmdb_pages import page_allocation_error
from fieldmouse.doctor.check.finding import CrawlProcess, Finding, healthy, repairable
from fieldmouse.doctor.check.probe import DigestStoreCheck, IndexCheck, run_checks
from fieldmouse.errors import DamagedFile, shell_quoted
from fieldmouse.formatting import format_count
from fieldmouse.search.index import verify_index
from fieldmouse.search.versions import (
    VERSION_TABLE,
    VersionView,
    all_log_entries,
    look_up_versions,
    newest_by_key,
    read_version_logs,
    verify_version_log,
)
from fieldmouse.storage.checkpoint import Checkpoint, shard_states
from fieldmouse.storage.directory import CrawlDir


def version_table_damage(directory: Path, lengths: Sequence[int], *, busy: bool) -> str:
    """Describe the damage in a few words, or return ""; `lengths` are the committed lengths of the shards'
    logs."""
    if not any(lengths) or not (directory / VERSION_TABLE).exists():
        return ""
    command = [sys.executable, "-m", __name__, str(directory), *map(str, lengths)]
    child = subprocess.run(command, capture_output=True, check=False, text=True)
    if child.returncode < 0:
        return f"reading it kills the process (signal {-child.returncode})"
    if child.returncode:
        return "it cannot be read"
    return child.stdout.strip() or ("" if busy else page_allocation_error(directory / VERSION_TABLE, leaves=True))


def check_version_table(directory: Path, lengths: Sequence[int]) -> str:
    """The same check inside the child process."""
    keys, committed = read_version_logs(directory, lengths)
    view = VersionView(directory)
    try:
        in_table = view.newest_versions(keys.tolist())
    except lmdb.Error as trouble:
        return f"it cannot be read ({trouble})"
    finally:
        view.close()
    # Read last: a running crawl may have added entries to both since its checkpoint.
    newest = look_up_versions(keys, newest_by_key(all_log_entries(directory)))
    wrong = int(((in_table < committed) | (in_table > newest)).sum())
    return f"it names another version than the logs for {wrong:,} pages" if wrong else ""


def check_index(home: CrawlDir, last: Checkpoint, wanted: Counter[int] | None, here: CrawlProcess) -> Iterator[Finding]:
    """Check the index. `wanted` is the number of pages that each shard must hold; None if unknown."""
    busy, shards = here.owner is not None, shard_states(last)
    copies, seed = tuple(state.copies for state in shards), home.identity.key_seed
    for shard, length in enumerate(copies):
        try:
            verify_version_log(home / "index", shard, length)
        except DamagedFile as trouble:
            advice = f"`fieldmouse doctor {shell_quoted(home.path)} --repair` builds the index again without it"
            yield repairable("index", str(trouble), advice, f"index/shard-{shard}.copies")
            return
    if flaw := version_table_damage(home / "index", copies, busy=busy):
        advice = f"`fieldmouse doctor {shell_quoted(home.path)} --repair` deletes it; it is rebuilt from the logs"
        yield repairable("index", f"`index/{VERSION_TABLE}` is damaged: {flaw}", advice, f"index/{VERSION_TABLE}")
        return
    places: list[tuple[int, Path]] = []
    questions: list[IndexCheck | DigestStoreCheck] = []
    for shard, state in enumerate(shards):
        # A generation without a page is recreated when the shard is opened.
        for number in range(state.generation + bool(state.generation_bytes)):
            path = home / "index" / f"shard-{shard}" / f"{number:05}"
            live = not busy and (number < state.generation or here.ended_normally)
            places.append((shard, path))
            questions.append(IndexCheck(str(path), state.batch, busy, live, False, copies, seed))
    reports = run_checks(questions)
    held: Counter[int] = Counter()
    younger = strays = 0
    hurt: set[int] = set()
    for (shard, path), report in zip(places, reports, strict=True):
        held[shard] += report.count
        younger += report.younger
        strays += len(report.strays)
        if report.trouble:
            hurt.add(shard)
            says = f"`{path.relative_to(home.path)}` is damaged: {report.trouble}"
            yield _curable(home, shard, says)
    for shard in range(len(shards)):
        if wanted is None or shard in hurt or held[shard] == wanted[shard]:
            continue
        # A running crawl may have started its next batch and merged a page out of this one.
        if held[shard] < wanted[shard] or here.owner is None:
            hurt.add(shard)
            says = f"`index/shard-{shard}` holds {held[shard]:,} pages of {wanted[shard]:,} that were indexed"
            yield _curable(home, shard, says)
    if here.owner is None:
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
        says = f"{format_count(held.total(), 'page')} can be searched, and every file matches its checksum"
        if younger and here.owner is None:
            says += f"; {younger:,} pages past the checkpoint will be taken out and fetched again"
        if strays and here.owner is None:
            says += f"; {strays:,} files that belong to nothing are deleted at the next start"
        yield healthy("index", says)


def _curable(home: CrawlDir, shard: int, says: str) -> Finding:
    advice = f"`fieldmouse doctor {shell_quoted(home.path)} --repair` builds it again from the WARC files"
    return repairable("index", says, advice, f"index/shard-{shard}")


if __name__ == "__main__":
    os.write(1, check_version_table(Path(sys.argv[1]), [int(length) for length in sys.argv[2:]]).encode())
