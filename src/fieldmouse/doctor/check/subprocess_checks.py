"""Checks of search indexes and digest stores in child processes, which damage may kill.

tantivy and lmdb map their files into memory and trust them: a damaged file can kill the process that
reads it, without an error message. So a child process reads them and reports; the death of the child is a
result too. Checksums are verified first: tantivy writes one at the end of each file, and a file that
fails is not opened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b32decode
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.errors import CrawlDirError
from fieldmouse.search.index import index_file_damage

if TYPE_CHECKING:
    import tantivy

    from fieldmouse.search.newest_versions import Uint64Array


_PARTS = ("term", "idx", "pos", "store", "fast", "fieldnorm")
_TRIES = 5


class IndexCheckRequest(msgspec.Struct, frozen=True, tag="index"):
    """Request to check one generation of a shard's index and count its documents up to `batch`."""

    path: str
    batch: int
    busy: bool  # a crawl is writing to it
    live: bool  # its present files must be complete, not only those that opening restores
    hurt: bool = False  # it is damaged: count its readable documents anyway
    copies: tuple[int, ...] = ()  # valid bytes of each shard's log of replaced pages
    key_seed: int = 0


class DigestStoreCheckRequest(msgspec.Struct, frozen=True, tag="digests"):
    """Request to check a digest store against the CDXJ lines that its entries point to."""

    path: str
    shards: int
    busy: bool  # a crawl is writing to it


class VersionTableCheckRequest(msgspec.Struct, frozen=True, tag="versions"):
    """Request to check the version table of an index against the logs of the shards."""

    path: str  # directory of the index
    lengths: tuple[int, ...]  # committed bytes of each shard's log of replaced pages
    busy: bool  # a crawl is writing to it


#: Check that a child process makes.
Question = IndexCheckRequest | DigestStoreCheckRequest | VersionTableCheckRequest


class SubprocessCheckResult(msgspec.Struct, frozen=True):
    """Result of a check; `trouble` is a short error text, or ""."""

    count: int = 0  # valid documents, or digests
    younger: int = 0  # documents newer than the checkpoint
    stale: int = 0  # digests whose CDXJ line is not where they point
    strays: list[str] = []  # files that nothing refers to
    trouble: str = ""


def run_checks(questions: Sequence[Question]) -> list[SubprocessCheckResult]:
    """Run the checks in a child, and in a new one after each death; return a report for each."""
    reports: list[SubprocessCheckResult] = []
    while len(reports) < len(questions):
        child = subprocess.run(
            [sys.executable, "-m", "fieldmouse.doctor.check.subprocess_checks"],
            input=msgspec.json.encode(questions[len(reports) :]),
            capture_output=True,
            check=False,
        )
        reports += [msgspec.json.decode(line, type=SubprocessCheckResult) for line in child.stdout.splitlines()]
        if len(reports) < len(questions):
            lines = child.stderr.decode(errors="replace").strip().splitlines() or ["without a message"]
            how = f"signal {-child.returncode}" if child.returncode < 0 else lines[-1][:200]
            reports.append(SubprocessCheckResult(trouble=f"reading it kills the process ({how})"))
    return reports


def check_index_generation(request: IndexCheckRequest) -> SubprocessCheckResult:
    """Check the index state that opening restores: the one kept for the batch, else the present one."""
    path = Path(request.path).absolute()  # symbolic links in another directory point to it
    kept, live = path / "kept" / f"{request.batch}.json", path / "meta.json"
    if _has_all_files(path / "kept" / "clearing.json"):
        kept = path / "kept" / "clearing.json"
    if request.hurt:
        counts_found = [_check_files(path, listed, request).count for listed in (kept, live) if listed.exists()]
        return SubprocessCheckResult(max(counts_found, default=0))
    report = SubprocessCheckResult()
    for _ in range(_TRIES if request.busy else 1):  # a running crawl adds and deletes files
        counts = kept if _has_all_files(kept) else live
        if not counts.exists():
            return SubprocessCheckResult()  # opening replaces it by a new, empty one
        report = _check_files(path, counts, request)
        if not report.trouble:
            break
    if report.trouble or request.busy:
        return report
    if request.live and counts == kept and (not live.exists() or live.read_bytes() != kept.read_bytes()):
        report = _check_files(path, live, request)
    trouble = report.trouble
    if request.live and not trouble:
        # Opening would restore these files; until then a search does not find their documents.
        missing = sorted(name for name in _named_files(live) if not (path / name).exists())
        trouble = f"`{missing[0]}` is missing" if missing else ""
    if counts == kept and not trouble:
        trouble = _kept_files_damage(path, kept)
    trouble = trouble or _managed_list_damage(path / ".managed.json")
    return msgspec.structs.replace(report, trouble=trouble, strays=[] if trouble else _stray_files(path))


def _check_files(path: Path, listed: Path, request: IndexCheckRequest) -> SubprocessCheckResult:
    """Open the files that `listed` names through a temporary directory; each must match its checksum."""
    # Threads of the index may create a file while the directory is deleted.
    with TemporaryDirectory(prefix="fieldmouse-", ignore_cleanup_errors=True) as folder:
        view = Path(folder)
        try:
            for name in _named_files(listed):
                kept = path / "kept" / name
                place = path / name if (path / name).exists() or not kept.exists() else kept
                (view / name).symlink_to(place)
            trouble = "" if request.hurt else next(filter(None, map(index_file_damage, sorted(view.iterdir()))), "")
            if trouble:
                return SubprocessCheckResult(trouble=trouble)
            shutil.copyfile(listed, view / "meta.json")
            return _count_documents(view, request)
        except FileNotFoundError as error:
            return SubprocessCheckResult(trouble=f"`{Path(error.filename).name}` is missing")
        except (ValueError, KeyError, TypeError) as damage:
            return SubprocessCheckResult(trouble=f"`{listed.name}` cannot be decoded ({damage})")


def _has_all_files(listed: Path) -> bool:
    """Tell whether a state was kept with every file."""
    try:
        names = _named_files(listed)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return all(listed.with_name(name).exists() or (listed.parent.parent / name).exists() for name in names)


def _kept_files_damage(path: Path, listed: Path) -> str:
    """Find damage in `kept`: in a copied crawl its hard links have become separate files."""
    for name in sorted(_named_files(listed)):
        first, second = path / name, listed.with_name(name)
        if first.exists() and second.exists() and not first.samefile(second) and (flaw := index_file_damage(second)):
            return f"in `kept`, {flaw}"
    return ""


def _managed_list_damage(path: Path) -> str:
    """Find damage in the list of managed files: tantivy needs none, but does not open an index with a damaged
    one."""
    try:
        msgspec.json.decode(path.read_bytes(), type=list[str])
    except FileNotFoundError:
        return ""
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"`{path.name}` cannot be decoded ({error})"
    return ""


def _named_files(listed: Path) -> set[str]:
    """Return the files in use according to an index's meta file."""
    files = set()
    for segment in json.loads(listed.read_bytes())["segments"]:
        name = segment["segment_id"].replace("-", "")
        files |= {f"{name}.{part}" for part in _PARTS}
        if segment["deletes"] is not None:
            files.add(f"{name}.{segment['deletes']['opstamp']}.del")
    return files


def _stray_files(path: Path) -> list[str]:
    """Return files of no state, which a killed writer left behind."""
    named = {name for listed in (path / "meta.json", *path.glob("kept/*.json")) for name in _named_files(listed)}
    present = {file.name for file in path.iterdir() if file.is_file() and _is_index_file(file.name)}
    return sorted(present - named)


def _is_index_file(name: str) -> bool:
    return name.partition(".")[0].isalnum() and name.rpartition(".")[2] in (*_PARTS, "del", "temp")


def _count_documents(path: Path, request: IndexCheckRequest) -> SubprocessCheckResult:
    import tantivy

    from fieldmouse.search.index import known_schemas, panics_as_errors

    try:
        with panics_as_errors():
            index = tantivy.Index.open(str(path))
            index.reload()
    except ValueError as trouble:
        return SubprocessCheckResult(trouble=f"it cannot be opened ({trouble})")
    if index.schema not in known_schemas():
        return SubprocessCheckResult(trouble="its schema is not one of fieldmouse")
    try:
        with panics_as_errors():
            searcher = index.searcher()
            counted = tantivy.Query.range_query(
                index.schema, "batch", tantivy.FieldType.Unsigned, None, request.batch, use_inverted_index=True
            )
            held = int(searcher.search(counted, limit=1, count=True).count or 0)  # type: ignore[attr-defined]
            old = _count_old_versions(index, searcher, counted, request) if held and any(request.copies) else 0
            return SubprocessCheckResult(held - old, searcher.num_docs - held)
    except ValueError as trouble:
        return SubprocessCheckResult(trouble=f"it cannot be read ({trouble})")


def _count_old_versions(
    index: tantivy.Index, searcher: tantivy.Searcher, counted: tantivy.Query, request: IndexCheckRequest
) -> int:
    """Count the valid documents that are older than the newest version of their page."""
    from fieldmouse.search.generation_reader import document_keys_and_batches
    from fieldmouse.search.index import has_key_columns
    from fieldmouse.search.newest_versions import look_up_versions, version_numbers

    hits = searcher.search(counted, limit=searcher.num_docs, count=False).hits
    shard = int(Path(request.path).parent.name.partition("-")[2])
    columns = has_key_columns(index.schema)
    addresses = [address for _, address in hits]
    keys, batches = document_keys_and_batches(searcher, addresses, columns=columns, key_seed=lambda: request.key_seed)
    newest = _newest_versions_in_logs(Path(request.path).parent.parent, request.copies)
    return int((look_up_versions(keys, newest) > version_numbers(batches, shard)).sum())


@cache
def _newest_versions_in_logs(directory: Path, lengths: tuple[int, ...]) -> tuple[Uint64Array, Uint64Array]:
    from fieldmouse.search.newest_versions import read_version_logs

    return read_version_logs(directory, lengths)


def check_digest_store(request: DigestStoreCheckRequest) -> SubprocessCheckResult:
    import lmdb

    from fieldmouse.archive.duplicate_detection import trial_write_error
    from fieldmouse.archive.lmdb_check import page_allocation_error

    names = [Path(request.path).with_name(f"shard-{shard}.cdxj") for shard in range(request.shards)]
    logs = [os.open(name, os.O_RDONLY) for name in names if name.exists()]
    count = stale = 0
    try:
        with (
            lmdb.open(request.path, subdir=False, readonly=True, lock=request.busy, map_size=64 << 30) as store,
            store.begin() as reading,
        ):
            wanted = (store.info()["last_pgno"] + 1) * store.stat()["psize"]
            size = os.stat(request.path).st_size
            if size < wanted:  # a resume refuses it: a read past the end of a map kills the process
                return SubprocessCheckResult(trouble=f"{wanted} bytes were written, {size} are there")
            for digest, value in reading.cursor():
                count += 1
                place = int.from_bytes(value, "little")
                shard, offset = place >> 48, place & (1 << 48) - 1
                stale += shard >= len(logs) or _digest_of_line(logs[shard], offset) != digest
            entries = count if request.busy else store.stat()["entries"]
    except lmdb.Error as trouble:
        return SubprocessCheckResult(trouble=f"it cannot be read ({trouble})")
    if entries != count:
        return SubprocessCheckResult(count, trouble=f"it counts {entries} entries, {count} are there")
    if not request.busy and (flaw := page_allocation_error(Path(request.path), leaves=True)):
        return SubprocessCheckResult(count, trouble=flaw)
    tried = not request.busy and os.access(request.path, os.W_OK)
    flaw = trial_write_error(Path(request.path), lock=False) if tried else ""  # the lock file would change
    return SubprocessCheckResult(count, stale=stale, trouble=f"it cannot be added to ({flaw})" if flaw else "")


def _digest_of_line(log: int, offset: int) -> bytes:
    """Return the digest of the CDXJ line at `offset`, or b""."""
    raw = os.pread(log, 4096, offset)
    if b"\n" not in raw:
        raw = os.pread(log, 1 << 17, offset)
    line, end, _ = raw.partition(b"\n")
    at = line.rfind(b'"digest":"')
    try:
        return b32decode(line[at + 10 : at + 42]) if end and at >= 0 else b""
    except ValueError:
        return b""


def check_version_table(request: VersionTableCheckRequest) -> SubprocessCheckResult:
    import lmdb

    from fieldmouse.archive.lmdb_check import page_allocation_error
    from fieldmouse.search import newest_versions

    directory = Path(request.path)
    try:
        keys, committed = newest_versions.read_version_logs(directory, request.lengths)
        with closing(newest_versions.VersionView(directory)) as view:
            in_table = view.newest_versions(keys.tolist())
    except lmdb.Error as trouble:
        return SubprocessCheckResult(trouble=f"it cannot be read ({trouble})")
    except (CrawlDirError, OSError, ValueError):
        return SubprocessCheckResult(trouble="it cannot be read")
    # Read last: a running crawl may have added entries to both since its checkpoint.
    newest = newest_versions.look_up_versions(
        keys, newest_versions.newest_by_key(newest_versions.all_log_entries(directory))
    )
    if wrong := int(((in_table < committed) | (in_table > newest)).sum()):
        return SubprocessCheckResult(trouble=f"it names another version than the logs for {wrong:,} pages")
    flaw = "" if request.busy else page_allocation_error(directory / newest_versions.VERSION_TABLE, leaves=True)
    return SubprocessCheckResult(trouble=flaw)


def main() -> None:
    for request in msgspec.json.decode(sys.stdin.buffer.read(), type=list[Question]):
        match request:
            case IndexCheckRequest():
                report = check_index_generation(request)
            case DigestStoreCheckRequest():
                report = check_digest_store(request)
            case VersionTableCheckRequest():
                report = check_version_table(request)
        os.write(1, msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
