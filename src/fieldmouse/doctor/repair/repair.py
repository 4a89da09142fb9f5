"""Repair of files that can be rebuilt from the rest of a crawl.

The journal is rebuilt from its newest whole checkpoint, `crawl.json` from the journal, CDXJ lines from
the WARC files, the digests from the CDXJ lines, the full-text index from the pages, and the keys of seen
URLs from the settled and waiting URLs. Each file is written beside the old one and replaces it
atomically, so a kill leaves the old or the new one. WARC files and the other logs of the frontier exist
only once and cannot be rebuilt. Needs the lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fieldmouse.archive import cdxj
from fieldmouse.archive.warc_writer import cdxj_log_path
from fieldmouse.doctor.check.archive import check_digests, check_sorted_cdxj
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.doctor.check.finding import CrawlProcess, crawl_process, open_for_check
from fieldmouse.doctor.repair.archive import rebuild_cdxj_log, rebuild_digest_store
from fieldmouse.doctor.repair.index import delete_copy_records, leftover_index_files, rebuild_index
from fieldmouse.doctor.repair.sieve import rebuild_sieve
from fieldmouse.errors import CrawlDirError, DamagedFile, FieldmouseError
from fieldmouse.search.versions import VERSION_TABLE, VersionTable
from fieldmouse.storage.checkpoint import Checkpoint, identity_changed, identity_in_journal, open_journal
from fieldmouse.storage.directory import CrawlDir, write_identity
from fieldmouse.storage.journal import Journal
from fieldmouse.storage.shard_state import shard_states


@contextmanager
def crawl_lock(home: CrawlDir) -> Iterator[None]:
    """Hold the lock; releasing it keeps the mark that the last crawl was killed."""
    home.lock()
    try:
        yield
    finally:
        home.unlock(as_found=True)


def repair_identity(directory: Path) -> list[str]:
    """Write `crawl.json` from the journal if it is missing, damaged or different, and say so."""
    identity = identity_in_journal(directory)
    if identity is None:
        return []
    with suppress(FieldmouseError):
        if not identity_changed(CrawlDir.open(directory).identity, identity):
            return []
    with crawl_lock(CrawlDir(directory, identity)):
        write_identity(directory, identity)
    return ["`crawl.json` was written again from the journal"]


def repair_directory(directory: Path) -> Iterator[str]:
    """Like `repair`, for a directory whose `crawl.json` may also be lost or damaged."""
    if (directory / "journal").is_file():
        yield from repair_identity(directory)
    yield from repair(open_for_check(directory))


def repair(home: CrawlDir) -> Iterator[str]:
    """Repair all damage that can be repaired, and yield a sentence for each step.

    Other damage stays: run the checks again to see it.
    """
    before = crawl_process(home)
    with crawl_lock(home):
        try:
            journal, last = open_journal(home)
        except DamagedFile:
            return  # without a checkpoint there is nothing to compare with
        try:
            if not journal.report.clean:
                journal.compact()
                yield "`journal` holds its newest whole checkpoint and nothing else"
            refused: list[CrawlDirError] = []
            if last is not None:
                yield from _mend(home, journal, last, before, refused)
        finally:
            journal.close()
        for path in _leftovers(home.path):
            path.unlink()
            yield f"`{path.relative_to(home.path)}` was left behind by a kill and is gone"
        if refused:
            raise refused[0]


def _mend(
    home: CrawlDir, journal: Journal, last: Checkpoint, here: CrawlProcess, refused: list[CrawlDirError]
) -> Iterator[str]:
    """Repair in order of dependency: CDXJ lines, digests, index. The sieve depends on none of them."""
    archive = home / "archive"
    hurt = {finding.subject for finding in check_crawl(home, here=here) if finding.curable}
    for shard, state in enumerate(shard_states(last)):
        if f"archive/shard-{shard}.cdxj" in hurt:
            lines = rebuild_cdxj_log(archive, shard, state)
            yield f"`archive/shard-{shard}.cdxj` was written again: {lines:,} lines"
    agree = all(finding.healthy for finding in check_crawl(home, here=here) if finding.what == "cdxj")
    if agree and not check_digests(home, last, here).healthy:
        count = rebuild_digest_store(archive, shard_states(last))
        yield f"`archive/digests.lmdb` was made again: {count:,} payloads"
    if not check_sorted_cdxj(home, last, here).healthy:
        yield _sort_lines(archive, last)
    if f"index/{VERSION_TABLE}" in hurt:
        VersionTable.delete(home / "index")
        yield (
            f"`index/{VERSION_TABLE}` is gone; it is rebuilt from the logs of copies when the crawl continues"
        )
        hurt |= {finding.subject for finding in check_crawl(home, here=here) if finding.curable}
    without = any(subject.endswith(".copies") for subject in hurt)
    whole = True
    for shard in range(len(shard_states(last))):
        if without or f"index/shard-{shard}" in hurt:
            try:
                yield rebuild_index(home, last, shard)
            except CrawlDirError as trouble:  # continue with the other repairs
                refused.append(trouble)
                whole = False
    if without and whole:
        last = delete_copy_records(home, journal, last)
        yield "the logs of copies begin anew: each page is in the index once"
    if any(subject.startswith("frontier") for subject in hurt):
        yield rebuild_sieve(home, journal, last)


def _sort_lines(archive: Path, last: Checkpoint) -> str:
    merged = archive / "index.cdxj"
    shards = shard_states(last)
    logs = [cdxj_log_path(archive, shard) for shard in range(len(shards))]
    if any(log.stat().st_size != state.cdxj_length for log, state in zip(logs, shards, strict=True)):
        merged.unlink(missing_ok=True)
        return "`archive/index.cdxj` is gone; it is written anew when the crawl ends"
    return f"`archive/index.cdxj` was sorted again: {cdxj.merge_logs(logs, merged):,} lines"


def _leftovers(home: Path) -> list[Path]:
    patterns = ("*.new", "*.fresh", "archive/*.fresh", "archive/*.fresh-lock", "archive/index.cdxj.run-*")
    return [path for pattern in patterns for path in home.glob(pattern)] + leftover_index_files(home)
