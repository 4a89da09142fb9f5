"""Tests of reopening a shard after any kill: the committed state is restored exactly."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import tantivy

from archive.test_warc_writer import passes
from fieldmouse.archive import warc_writer
from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.errors import DamagedFile, FieldmouseError
from fieldmouse.search.index import document_schema
from fieldmouse.search.snapshot import remove_index_directory
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter
from search.searchable import searchable_urls
from workers.responses import CONFIG, page, story

SMALL = msgspec.structs.replace(CONFIG, generation=4_000, warc_size=3_000)
"""New generations and WARC files every few pages."""


def fill(folder: Path, batches: int, config: PageProcessingConfig = CONFIG, *, torn: bool = False) -> list[ShardState]:
    """Fill a shard with batches of five pages, all committed; return the states, the empty one first."""
    shard = ShardWriter(LockedShard(folder, 0, config, ShardState()))
    states = [ShardState()]
    for batch in range(1, batches + 1):
        for number in range(5):
            shard.process_outcome(1, page(f"http://example.org/{batch}/{number}", story(10 * batch + number)))
        states.append(shard.prepare_commit())
        if not torn or batch < batches:
            shard.mark_committed(batch)
    shard.finish_merges()  # segments are merged: some have committed and uncommitted pages
    shard.close()
    return states


def urls(batches: int) -> list[str]:
    return sorted(f"http://example.org/{b}/{n}" for b in range(1, batches + 1) for n in range(5))


def generation(folder: Path, number: int = 0) -> Path:
    return folder / "index" / "shard-0" / f"{number:05}"


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def go_on(folder: Path, state: ShardState, config: PageProcessingConfig = CONFIG) -> None:
    """Open at `state`, store one more batch, and check everything."""
    shard = ShardWriter(LockedShard(folder, 0, config, state))
    assert sorted(searchable_urls(folder)) == urls(state.batch)
    for number in range(5):
        shard.process_outcome(1, page(f"http://example.org/{state.batch + 1}/{number}", story(1000 + number)))
    after = shard.prepare_commit()
    shard.mark_committed(after.batch)
    shard.finish_merges()
    shard.close()
    assert sorted(searchable_urls(folder)) == urls(state.batch + 1)
    for warc in (folder / "archive").glob("*.warc.gz"):
        assert passes(warc)


def next_delete_file(folder: Path) -> list[Path]:
    """Return where tantivy will write its next delete files: the segments' names with all stamps that come
    soon."""
    meta = json.loads((folder / "meta.json").read_text())
    return [
        folder / f"{segment['segment_id'].replace('-', '')}.{meta['opstamp'] + ahead}.del"
        for segment in meta["segments"]
        for ahead in range(40)
    ]


@pytest.mark.parametrize("older", [False, True], ids=["now", "a crawl of an older version"])
def test_delete_file_without_its_list_is_harmless(tmp_path: Path, older: bool) -> None:
    """Killed between a `.del` file and `meta.json`: tantivy fails on it at every later start."""
    states = fill(tmp_path, 12, torn=True)
    if older:
        shutil.rmtree(generation(tmp_path) / "kept")
    for path in next_delete_file(generation(tmp_path)):
        path.write_bytes(b"half of something")
    go_on(tmp_path, states[11])


def test_tantivy_alone_would_fail(tmp_path: Path) -> None:
    """Otherwise the test above proves nothing."""
    fill(tmp_path, 12)
    for path in next_delete_file(generation(tmp_path)):
        path.write_bytes(b"half of something")
    index = tantivy.Index(document_schema(), str(generation(tmp_path)))
    writer = index.writer(heap_size=15_000_000, num_threads=1)
    writer.delete_documents_by_query(
        tantivy.Query.range_query(index.schema, "batch", tantivy.FieldType.Unsigned, 12, None)
    )
    with pytest.raises(ValueError, match="FileAlreadyExists"):
        writer.commit()


def torn_list(folder: Path) -> None:
    (folder / ".tmpQ1w2e3").write_bytes(b'{"segments": [')


def torn_managed(folder: Path) -> None:
    (folder / ".managed.json").write_bytes(b'["meta')


def no_managed(folder: Path) -> None:
    (folder / ".managed.json").unlink()


def empty_managed(folder: Path) -> None:
    (folder / ".managed.json").write_bytes(b"")


def forgotten_segment(folder: Path) -> None:
    (folder / f"{'ab' * 16}.store").write_bytes(bytes(100))


def stale_locks(folder: Path) -> None:
    for name in (".tantivy-writer.lock", ".tantivy-meta.lock"):
        (folder / name).write_bytes(b"")


def lost_list(folder: Path) -> None:
    """On strict POSIX the name of the newest list may be lost, and the files that the older one names."""
    (folder / "meta.json").unlink()


def torn_half(folder: Path) -> None:
    (folder / "meta.json").write_bytes((folder / "meta.json").read_bytes()[:100])


def lost_files(folder: Path) -> None:
    """A merge deleted them, and the list without them did not reach the disk."""
    for path in folder.glob("*.term"):
        path.unlink()


LEFTOVERS = [torn_list, torn_managed, no_managed, empty_managed, forgotten_segment, stale_locks]
LEFTOVERS += [lost_list, torn_half, lost_files]


@pytest.mark.parametrize("leave", LEFTOVERS)
def test_any_remains_of_a_killed_writer_allow_an_exact_restore(tmp_path: Path, leave: Callable[[Path], None]) -> None:
    states = fill(tmp_path, 4, torn=True)
    path = generation(tmp_path)
    # A copy of the list: written in place, the kept one would change with it, which no writer does.
    kept = path / "kept" / "4.json"
    kept.write_bytes(kept.read_bytes())
    fresh = path / "fresh"
    fresh.write_bytes((path / "meta.json").read_bytes())
    fresh.replace(path / "meta.json")
    leave(path)
    go_on(tmp_path, states[3])


def test_every_prepared_batch_can_be_restored_across_generations(tmp_path: Path) -> None:
    """The journal has the last state or the one before; the worker may have been killed long after."""
    for batches in range(1, 9):
        states = fill(tmp_path / f"{batches}", batches, SMALL, torn=True)
        shutil.copytree(tmp_path / f"{batches}", tmp_path / f"{batches}-before")
        go_on(tmp_path / f"{batches}", states[-1], SMALL)
        go_on(tmp_path / f"{batches}-before", states[-2], SMALL)
    assert states[-1].generation > 1  # otherwise there is only one generation


@pytest.mark.parametrize("begun", [False, True])
def test_empty_generation_may_be_in_any_state(tmp_path: Path, begun: bool) -> None:
    """Killed between creating its directory and its first list, or before the directory was durable."""
    states = fill(tmp_path, 2, msgspec.structs.replace(CONFIG, generation=3_000))
    last = next(state for state in states if state.generation and not state.generation_bytes)
    path = generation(tmp_path, last.generation)
    remove_index_directory(path)
    if begun:
        path.mkdir()
        (path / "meta.json").write_bytes(b"")
    go_on(tmp_path, last)


def test_worker_killed_inside_tantivy_can_be_replaced(tmp_path: Path) -> None:
    """A torn directory may show too many subsets; a dozen random ones are tried."""
    fill(tmp_path / "c", 5, torn=True)
    states = fill(tmp_path / "d", 5, torn=True)
    chance = random.Random(8)
    spare = sorted(generation(tmp_path / "d").glob("*.*"))
    for trial in range(12):
        home = tmp_path / f"t{trial}"
        shutil.copytree(tmp_path / "d", home)
        for path in spare:
            if chance.random() < 0.5:
                (generation(home) / path.name).unlink(missing_ok=True)
        for path in generation(tmp_path / "c").glob("*.*"):
            if path.suffix not in (".json", ".lock") and chance.random() < 0.5:
                shutil.copy(path, generation(home))
        go_on(home, states[4])


def test_opening_changes_nothing(tmp_path: Path) -> None:
    """Data to be cut and deleted when a shard begins is still there while other parts may refuse to open."""
    states = fill(tmp_path, 6, SMALL)
    (tmp_path / "archive" / "index.cdxj.fresh").write_bytes(b"half")

    def look() -> dict[str, tuple[int, int]]:
        return {
            str(p): (p.stat().st_size, p.stat().st_mtime_ns)
            for p in tmp_path.rglob("*")
            if p.is_file() and p.suffix != ".lock" and not p.name.endswith("-lock")
        }

    before = look()
    opened = LockedShard(tmp_path, 0, SMALL, states[3])
    assert look() == before
    ShardWriter(opened).close()
    assert look() != before


@pytest.mark.parametrize("gone", ["warc", "cdxj", "index", "generation", "digests"])
def test_unrestorable_shard_is_refused_by_name_and_unchanged(tmp_path: Path, gone: str) -> None:
    states = fill(tmp_path, 6, SMALL)
    last = next(state for state in reversed(states) if state.generation_bytes)
    shard = tmp_path / "index" / "shard-0"
    match gone:
        case "warc":
            path = tmp_path / "archive" / last.warc
            path.unlink()
        case "cdxj":
            path = tmp_path / "archive" / "shard-0.cdxj"
            path.write_bytes(path.read_bytes()[: last.cdxj_length - 1])
        case "index":
            path = generation(tmp_path, last.generation)
            remove_index_directory(path)
        case "generation":
            path = shard / "00000"
            remove_index_directory(path)
        case "digests":
            path = tmp_path / "archive" / "digests.lmdb"
            path.write_bytes(path.read_bytes()[:8192])
    before = names_in(tmp_path)
    with pytest.raises(DamagedFile, match=path.name):
        LockedShard(tmp_path, 0, SMALL, last)
    assert names_in(tmp_path) == before


def test_missing_digest_store_is_not_damage(tmp_path: Path) -> None:
    states = fill(tmp_path, 2)
    (tmp_path / "archive" / "digests.lmdb").unlink()
    go_on(tmp_path, states[-1])


@pytest.mark.parametrize("junk", [b"", b"\0" * 8192, b"junk" * 4096])
def test_invalid_digest_store_is_refused_unless_it_was_empty(tmp_path: Path, junk: bytes) -> None:
    states = fill(tmp_path, 2)
    (tmp_path / "archive" / "digests.lmdb").write_bytes(junk)
    if junk:
        with pytest.raises(FieldmouseError, match=r"digests\.lmdb"):
            LockedShard(tmp_path, 0, CONFIG, states[-1])
    else:
        go_on(tmp_path, states[-1])


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_arbitrary_simhash_file_does_not_prevent_opening(tmp_path: Path, size: int) -> None:
    states = fill(tmp_path, 2)
    (tmp_path / "archive" / "simhashes").write_bytes(random.Random(1).randbytes(size))
    go_on(tmp_path, states[-1])


def test_kept_files_do_not_grow_with_the_crawl(tmp_path: Path) -> None:
    fill(tmp_path, 12)
    kept = generation(tmp_path) / "kept"
    lists = list(kept.glob("*.json"))
    assert [path.name for path in lists] == ["12.json"]
    named = {segment["segment_id"].replace("-", "") for segment in json.loads(lists[0].read_text())["segments"]}
    assert {path.name.partition(".")[0] for path in kept.iterdir()} == named | {"12"}


def test_killed_merge_leaves_no_files_permanently(tmp_path: Path) -> None:
    log = tmp_path / "shard-0.cdxj"
    lines = sorted(
        warc_writer.format_cdxj_line(f"http://example.org/{n}", "20260101000000", "text/html", 200, "D", n, 1, "w")
        for n in range(100)
    )
    random.Random(3).shuffle(lines)
    log.write_bytes(b"".join(lines))
    target = tmp_path / "index.cdxj"
    for left in itertools.chain((tmp_path / f"index.cdxj.run-{n}" for n in range(99)), [tmp_path / "index.cdxj.fresh"]):
        left.write_bytes(b"zzz not a line of this crawl\n")
    warc_writer.merge_cdxj_logs([log], target, chunk=1000)
    assert target.read_bytes() == b"".join(sorted(lines))
    assert names_in(tmp_path) == {"shard-0.cdxj", "index.cdxj"}
