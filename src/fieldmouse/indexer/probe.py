"""Reading an index and a digest store that may be damaged, in a process that may die of it.

tantivy and lmdb map their files into memory and trust them: a damaged one can end
the process that reads it, without a chance to say why. So they are read by a child
(`python -m fieldmouse.indexer.probe`), which is asked and answers in JSON; that it
died is an answer too. Checksums come first: tantivy writes one behind each of its
files, and what fails there is not opened at all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b32decode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from fieldmouse.indexer.footer import flaw_of

if TYPE_CHECKING:
    import tantivy

    from fieldmouse.indexer.copies import Numbers

_PARTS = ("term", "idx", "pos", "store", "fast", "fieldnorm")
_TRIES = 5


class IndexAsked(msgspec.Struct, frozen=True, tag="index"):
    """Read one generation of a shard's index; count documents up to `batch`."""

    path: str
    batch: int
    busy: bool  # a crawl writes to it
    live: bool  # it must be whole as it is, not only as opening would make it
    hurt: bool = False  # it is damaged: count what it gives all the same
    copies: tuple[int, ...] = ()  # how much counts of each shard's log of pages fetched again
    key_seed: int = 0


class DigestsAsked(msgspec.Struct, frozen=True, tag="digests"):
    """Read a digest store, and hold its entries against the lines of the CDXJ logs that they name."""

    path: str
    shards: int
    busy: bool  # a crawl writes to it


class ProbeReport(msgspec.Struct, frozen=True):
    """What was found; `trouble` says what is wrong, in a few words."""

    count: int = 0  # documents that count, or digests
    younger: int = 0  # documents past the checkpoint
    stale: int = 0  # digests whose page is no longer where they say
    strays: list[str] = []  # files that belong to nothing
    trouble: str = ""


def probe(questions: Sequence[IndexAsked | DigestsAsked]) -> list[ProbeReport]:
    """Have them read by a child, or by as many as it takes; an answer for each."""
    reports: list[ProbeReport] = []
    while len(reports) < len(questions):
        child = subprocess.run(
            [sys.executable, "-m", "fieldmouse.indexer.probe"],
            input=msgspec.json.encode(questions[len(reports) :]),
            capture_output=True,
            check=False,
        )
        reports += [msgspec.json.decode(line, type=ProbeReport) for line in child.stdout.splitlines()]
        if len(reports) < len(questions):
            code = child.returncode
            how = f"signal {-code}" if code < 0 else _last_words(child.stderr)
            reports.append(ProbeReport(trouble=f"whoever reads it dies ({how})"))
    return reports


def _last_words(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "without a word"


def read_index(asked: IndexAsked) -> ProbeReport:
    """Look at the moment that opening would bring back: the one kept for the batch, or what is there."""
    path = Path(asked.path).absolute()  # it is looked at through links, from elsewhere
    kept, live = path / "kept" / f"{asked.batch}.json", path / "meta.json"
    if _has_all(path / "kept" / "clearing.json"):
        kept = path / "kept" / "clearing.json"
    if asked.hurt:
        there = [_look_at(path, listed, asked).count for listed in (kept, live) if listed.exists()]
        return ProbeReport(max(there, default=0))
    report = ProbeReport()
    for _ in range(_TRIES if asked.busy else 1):  # while a crawl runs, files come and go
        counts = kept if _has_all(kept) else live
        if not counts.exists():
            return ProbeReport()  # opening makes a new one in its place, which holds nothing
        report = _look_at(path, counts, asked)
        if not report.trouble:
            break
    if report.trouble or asked.busy:
        return report
    if asked.live and counts == kept and (not live.exists() or live.read_bytes() != kept.read_bytes()):
        report = _look_at(path, live, asked)
    if asked.live and not report.trouble:
        # Opening would give them their names back; until then a search does not find them.
        gone = sorted(name for name in _named_files(live) if not (path / name).exists())
        if gone:
            report = msgspec.structs.replace(report, trouble=f"`{gone[0]}` is missing")
    if counts == kept and not report.trouble:
        report = msgspec.structs.replace(report, trouble=_second_flaw(path, kept))
    if not report.trouble:
        report = msgspec.structs.replace(report, trouble=_managed_flaw(path / ".managed.json"))
    return report if report.trouble else msgspec.structs.replace(report, strays=_strays(path))


def _look_at(path: Path, listed: Path, asked: IndexAsked) -> ProbeReport:
    """Open the files that `listed` names, in a place of their own; each must match its checksum."""
    # Threads of the index may still put a file there while it is cleared away.
    with TemporaryDirectory(prefix="fieldmouse-", ignore_cleanup_errors=True) as room:
        view = Path(room)
        try:
            for name in _named_files(listed):
                kept = path / "kept" / name
                place = path / name if (path / name).exists() or not kept.exists() else kept
                (view / name).symlink_to(place)
            trouble = "" if asked.hurt else next(filter(None, map(flaw_of, sorted(view.iterdir()))), "")
            if trouble:
                return ProbeReport(trouble=trouble)
            shutil.copyfile(listed, view / "meta.json")
            return _count_documents(view, asked)
        except FileNotFoundError as gone:
            return ProbeReport(trouble=f"`{Path(gone.filename).name}` is missing")
        except (ValueError, KeyError, TypeError) as wrong:
            return ProbeReport(trouble=f"`{listed.name}` cannot be understood ({wrong})")


def _has_all(listed: Path) -> bool:
    """Whether a moment was kept, and every file of it."""
    try:
        names = _named_files(listed)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return all(listed.with_name(name).exists() or (listed.parent.parent / name).exists() for name in names)


def _second_flaw(path: Path, listed: Path) -> str:
    """In a copy of a crawl the second names of files have become second files, which may be damaged too."""
    for name in sorted(_named_files(listed)):
        first, second = path / name, listed.with_name(name)
        if first.exists() and second.exists() and not first.samefile(second) and (flaw := flaw_of(second)):
            return f"in `kept`, {flaw}"
    return ""


def _managed_flaw(path: Path) -> str:
    """tantivy opens no index whose list of managed files is damaged; it needs none, though."""
    try:
        msgspec.json.decode(path.read_bytes(), type=list[str])
    except FileNotFoundError:
        return ""
    except (msgspec.MsgspecError, UnicodeDecodeError) as wrong:
        return f"`{path.name}` cannot be understood ({wrong})"
    return ""


def _named_files(listed: Path) -> set[str]:
    """The files that an index's list says are in use."""
    files = set()
    for segment in json.loads(listed.read_bytes())["segments"]:
        name = segment["segment_id"].replace("-", "")
        files |= {f"{name}.{part}" for part in _PARTS}
        if segment["deletes"] is not None:
            files.add(f"{name}.{segment['deletes']['opstamp']}.del")
    return files


def _strays(path: Path) -> list[str]:
    """Files of no moment: what a writer that was killed left behind."""
    named = {
        name for listed in (path / "meta.json", *path.glob("kept/*.json")) for name in _named_files(listed)
    }
    there = {file.name for file in path.iterdir() if file.is_file() and _is_ours(file.name)}
    return sorted(there - named)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0].isalnum() and name.rpartition(".")[2] in (*_PARTS, "del", "temp")


def _count_documents(path: Path, asked: IndexAsked) -> ProbeReport:
    import tantivy

    from fieldmouse.indexer.index import known_schemas
    from fieldmouse.indexer.panics import panics_as_errors

    try:
        with panics_as_errors():
            index = tantivy.Index.open(str(path))
            index.reload()
    except ValueError as trouble:
        return ProbeReport(trouble=f"it cannot be opened ({trouble})")
    if index.schema not in known_schemas():
        return ProbeReport(trouble="its fields are not ours")
    try:
        with panics_as_errors():
            searcher = index.searcher()
            counted = tantivy.Query.range_query(
                index.schema, "batch", tantivy.FieldType.Unsigned, None, asked.batch, use_inverted_index=True
            )
            held = int(searcher.search(counted, limit=1, count=True).count or 0)  # type: ignore[attr-defined]
            old = _old_copies(index, searcher, counted, asked) if held and any(asked.copies) else 0
            return ProbeReport(held - old, searcher.num_docs - held)
    except ValueError as trouble:
        return ProbeReport(trouble=f"it cannot be read ({trouble})")


def _old_copies(
    index: tantivy.Index, searcher: tantivy.Searcher, counted: tantivy.Query, asked: IndexAsked
) -> int:
    """How many of the documents that count are older than the newest of their pages."""
    from fieldmouse.indexer.copies import among, stands
    from fieldmouse.indexer.generations import places
    from fieldmouse.indexer.index import has_columns

    hits = searcher.search(counted, limit=searcher.num_docs, count=False).hits
    shard = int(Path(asked.path).parent.name.partition("-")[2])
    columns = has_columns(index.schema)
    addresses = [address for _, address in hits]
    keys, batches = places(searcher, addresses, columns=columns, key_seed=lambda: asked.key_seed)
    known = _newest(Path(asked.path).parent.parent, asked.copies)
    return int((among(keys, known) > stands(batches, shard)).sum())


@cache
def _newest(directory: Path, lengths: tuple[int, ...]) -> tuple[Numbers, Numbers]:
    from fieldmouse.indexer.copies import read_logs

    return read_logs(directory, lengths)


def read_digests(asked: DigestsAsked) -> ProbeReport:
    import lmdb

    from fieldmouse.indexer.digest import write_flaw
    from fieldmouse.indexer.lmdbpages import page_flaw

    names = [Path(asked.path).with_name(f"shard-{shard}.cdxj") for shard in range(asked.shards)]
    logs = [os.open(name, os.O_RDONLY) for name in names if name.exists()]
    count = stale = 0
    try:
        with (
            lmdb.open(asked.path, subdir=False, readonly=True, lock=asked.busy, map_size=64 << 30) as store,
            store.begin() as reading,
        ):
            wanted = (store.info()["last_pgno"] + 1) * store.stat()["psize"]
            size = os.stat(asked.path).st_size
            if size < wanted:  # a resume refuses it: who reads past the end of a map is killed
                return ProbeReport(trouble=f"{wanted} bytes were written, {size} are there")
            for digest, value in reading.cursor():
                count += 1
                place = int.from_bytes(value, "little")
                shard, offset = place >> 48, place & (1 << 48) - 1
                stale += shard >= len(logs) or _digest_at(logs[shard], offset) != digest
            entries = count if asked.busy else store.stat()["entries"]
    except lmdb.Error as trouble:
        return ProbeReport(trouble=f"it cannot be read ({trouble})")
    if entries != count:
        return ProbeReport(count, trouble=f"it counts {entries} entries, {count} are there")
    if not asked.busy and (flaw := page_flaw(Path(asked.path), leaves=True)):
        return ProbeReport(count, trouble=flaw)
    tried = not asked.busy and os.access(asked.path, os.W_OK)
    flaw = write_flaw(Path(asked.path), lock=False) if tried else ""  # the lock is a file that would change
    return ProbeReport(count, stale=stale, trouble=f"it cannot be added to ({flaw})" if flaw else "")


def _digest_at(log: int, offset: int) -> bytes:
    """The digest in the CDXJ line at `offset`."""
    raw = os.pread(log, 4096, offset)
    if b"\n" not in raw:
        raw = os.pread(log, 1 << 17, offset)
    line, end, _ = raw.partition(b"\n")
    at = line.rfind(b'"digest":"')
    try:
        return b32decode(line[at + 10 : at + 42]) if end and at >= 0 else b""
    except ValueError:
        return b""


def main() -> None:
    raw = sys.stdin.buffer.read()
    for asked in msgspec.json.decode(raw, type=list[IndexAsked | DigestsAsked]):
        report = read_index(asked) if isinstance(asked, IndexAsked) else read_digests(asked)
        os.write(1, msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
