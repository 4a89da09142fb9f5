"""Tests of refetched pages across shards, generations and kills: found once and current, or not at all."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import count as numbers
from pathlib import Path

import msgspec
import pytest

from fieldmouse.errors import DamagedFile
from fieldmouse.search import replaced_documents
from fieldmouse.search.newest_versions import VERSION_TABLE, VersionLog, VersionTable, VersionView, version_number
from fieldmouse.search.search import search_crawl
from fieldmouse.search.snapshot import META, IndexSnapshots, read_meta
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Failed, OutcomeRow, Page, Unchanged, WorkerResult
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import FrontierEntry, Request
from fieldmouse.url import Url
from fieldmouse.workers.pool import WorkerPool
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter
from workers.responses import CONFIG, page, response

from .searchable import searchable_urls

TINY = msgspec.structs.replace(CONFIG, generation=300)
"""A generation every few pages: a replaced document is nearly always in another one."""

Truth = dict[str, str]
"""Expected results: each page by a word that only its newest version has."""


def url(number: int) -> str:
    return f"http://example.org/{number}"


def version(number: int, word: str, *, again: bool, noindex: bool = False) -> Page:
    rules = "<meta name=robots content=noindex>" if noindex else ""
    text = f"<title>{word}</title>{rules}<p>{word} " + "mouse " * 12
    made = page(url(number), text.encode())
    return msgspec.structs.replace(made, link=link(number, again=again))


def gone(number: int, status: int = 404) -> Failed:
    reason = OutcomeReason.CLIENT_ERROR if status < 500 else OutcomeReason.SERVER_ERROR
    return Failed(link(number), reason, 1.0, "", response(b"no", status=status))


def link(number: int, *, again: bool = True, **known: str) -> Request:
    return Request(Url(url(number)), door=FrontierEntry.POLLED if again else FrontierEntry.DISCOVERED, **known)  # type: ignore[arg-type]


def check(folder: Path, truth: Truth, words: set[str]) -> None:
    """Check that search, `documents` and `count` agree: each page once, by its newest words only."""
    assert sorted(searchable_urls(folder)) == sorted(truth)
    found = search_crawl(folder, "mouse", 1000)
    assert len(found) == len(truth)
    assert {hit.url: hit.title for hit in found} == truth
    for word in sorted(words - set(truth.values()))[-5:]:
        assert search_crawl(folder, word) == []


class Crawl:
    """An indexer whose workers are killed, the surviving journal, and the expected results."""

    def __init__(self, folder: Path, seed: int, shards: int = 2):
        self.folder, self.shards, self.chance = folder, shards, random.Random(seed)
        self.journal: list[ShardState] | None = None
        self.truth: Truth = {}  # according to the journal
        self.words: set[str] = set()
        self.ever: set[str] = set()  # visited pages, according to the journal
        self._names = numbers()

    async def open(self) -> None:
        callbacks = {"on_parsed": self.heard, "on_undone": lambda lost: None}
        self.indexer = WorkerPool(self.folder, shards=self.shards, states=self.journal, config=TINY, **callbacks)
        await self.indexer.start()
        await self.indexer.roll_back_and_accept()
        self.fresh = dict(self.truth)

    def heard(self, parsed: Sequence[WorkerResult]) -> None:
        assert all(one.kind in ("page", "failed") for one in parsed)

    def visit(self, number: int, what: str = "page") -> None:
        """Fetch a page, for the first time or again, with any shard."""
        again = url(number) in self.seen
        self.seen.add(url(number))
        word = f"w{next(self._names)}"
        self.words.add(word)
        lane = self.chance.choice(self.indexer._connections)
        if what == "page" or not again:
            lane.send(number + 1, version(number, word, again=again))
            self.fresh[url(number)] = word
        elif what == "broken":
            lane.send(number + 1, gone(number, 503))
        else:
            answer = gone(number, 410) if what == "gone" else version(number, word, again=True, noindex=True)
            lane.send(number + 1, answer)
            self.fresh.pop(url(number), None)

    def visit_some(self, pages: int) -> None:
        self.seen = set(self.truth) | self.ever
        for number in self.chance.sample(range(24), pages):
            self.visit(number, self.chance.choice(["page", "page", "page", "gone", "noindex", "broken"]))

    async def prepare(self) -> list[ShardState]:
        return await self.indexer.prepare_commit()

    def write(self, states: list[ShardState]) -> None:
        self.journal, self.truth, self.ever = states, dict(self.fresh), set(self.seen)

    async def kill(self) -> None:
        self.indexer.kill()
        await self.indexer.close()


KILLS = ["before prepare", "between prepare and journal", "after the journal", "while clearing", "never"]


def test_each_page_is_found_once_and_current_after_any_kill(tmp_path: Path) -> None:
    async def life() -> int:
        crawl = Crawl(tmp_path, seed=5)
        for turn in range(10):
            await crawl.open()
            check(tmp_path, crawl.truth, crawl.words)
            kill = KILLS[turn % len(KILLS)]
            for _ in range(2):  # one committed checkpoint, and one that may not be
                crawl.visit_some(9)
                if kill == "before prepare" and crawl.journal is not None:
                    break
                states = await crawl.prepare()
                if kill == "between prepare and journal" and crawl.journal is not None:
                    break
                crawl.write(states)
                if kill == "after the journal":
                    break
                crawl.indexer.mark_committed()
                if kill == "while clearing":
                    await asyncio.sleep(crawl.chance.random() * 0.05)  # any time is as good as any other
                    break
            if kill == "never":
                await crawl.indexer.merge_indexes_and_cdxj_logs()
                await crawl.indexer.close()
                check(tmp_path, crawl.truth, crawl.words)
            else:
                await crawl.kill()
                if kill in ("after the journal", "while clearing"):  # not opened yet
                    check(tmp_path, crawl.truth, crawl.words)
        await crawl.open()
        await crawl.kill()
        check(tmp_path, crawl.truth, crawl.words)
        assert crawl.journal is not None
        return min(state.generation for state in crawl.journal)

    assert asyncio.run(life()) > 2  # otherwise there is only one generation


def test_shard_that_missed_checkpoints_has_the_newer_version(tmp_path: Path) -> None:
    """All shards count their batches together, also one whose worker died while the others continued."""

    async def life() -> None:
        crawl = Crawl(tmp_path, seed=1)
        await crawl.open()
        lame, well = crawl.indexer._connections

        async def checkpoint() -> list[ShardState]:
            states = await crawl.indexer.prepare_commit()
            crawl.indexer.mark_committed()
            return states

        well.send(1, version(1, "first", again=False))
        lame.send(2, version(2, "other", again=False))
        await checkpoint()
        for _ in range(3):
            if lame._starting is not None:
                await lame._starting
            assert lame.pid
            os.kill(lame.pid, signal.SIGSTOP)
            preparing = asyncio.ensure_future(crawl.indexer.prepare_commit())
            await asyncio.sleep(0)  # it is asked now, and will not respond
            os.kill(lame.pid, signal.SIGKILL)
            behind, ahead = await preparing
            assert behind.batch < ahead.batch
            crawl.indexer.mark_committed()
        well.send(3, version(1, "second", again=True))
        await checkpoint()
        assert {hit.title for hit in search_crawl(tmp_path, "mouse")} == {"other", "second"}
        assert lame.has_room
        lame.send(4, version(1, "third", again=True))
        states = await checkpoint()
        await crawl.kill()
        check(tmp_path, {url(1): "third", url(2): "other"}, {"first", "second"})
        crawl.journal = states
        await crawl.open()
        await crawl.kill()
        check(tmp_path, {url(1): "third", url(2): "other"}, {"first", "second"})

    asyncio.run(life())


def replaced(folder: Path, rounds: int = 6, pages: int = 10) -> tuple[list[ShardState], Truth, set[str]]:
    """Fill one shard in which every page was refetched repeatedly, each time in a new generation."""
    shard = ShardWriter(LockedShard(folder, 0, TINY, ShardState()))
    states, truth, words = [ShardState()], {}, set()
    for turn in range(rounds):
        for number in range(pages):
            word = f"t{turn}p{number}"
            shard.process_outcome(number + 1, version(number, word, again=turn > 0))
            truth[url(number)] = word
            words.add(word)
        states.append(shard.prepare_commit())
        shard.mark_committed(states[-1].batch)
    shard.finish_merges()
    shard.close()
    return states, truth, words


def physical(folder: Path) -> int:
    metas = [read_meta(path) for path in folder.glob(f"index/shard-*/*/{META}")]
    return sum(meta.document_count for meta in metas if meta is not None)


def test_old_versions_are_deleted_eventually_and_masked_until_then(tmp_path: Path) -> None:
    states, truth, words = replaced(tmp_path, rounds=12)
    assert len(truth) <= physical(tmp_path) < 4 * len(truth)  # of twelve times as many
    check(tmp_path, truth, words)
    assert not list(tmp_path.glob("index/shard-0/0000[0-4]/kept"))
    ShardWriter(LockedShard(tmp_path, 0, TINY, states[-1])).close()
    check(tmp_path, truth, words)


@pytest.mark.parametrize("moment", ["save_before_deletion", "delete_unlisted_files", "drop_after_deletion"])
def test_kill_during_deletion_loses_nothing(tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaced_documents, "DOCUMENTS_PER_REPLACEMENT", 0)  # nothing is deleted yet
    states, truth, words = replaced(tmp_path, rounds=3)
    before = physical(tmp_path)

    def die(self: IndexSnapshots) -> None:
        raise KeyboardInterrupt

    copies = VersionTable(tmp_path / "index", 0)
    with monkeypatch.context() as patch:
        patch.setattr(IndexSnapshots, moment, die)
        with pytest.raises(KeyboardInterrupt):
            replaced_documents.delete_replaced_versions(tmp_path / "index/shard-0/00000", 0, copies)
    check(tmp_path, truth, words)
    copies.close()
    shard = ShardWriter(LockedShard(tmp_path, 0, TINY, states[-1]))
    check(tmp_path, truth, words)
    assert physical(tmp_path) == before  # it is unchanged
    shard.close()
    assert replaced_documents.delete_replaced_versions(tmp_path / "index/shard-0/00000", 0, copies)
    copies.close()
    assert physical(tmp_path) < before
    check(tmp_path, truth, words)


def test_uncommitted_batch_deletes_no_version(tmp_path: Path) -> None:
    """Restoring any state shows the pages of that state, even without hard links."""
    states, _, words = replaced(tmp_path / "c", rounds=5, pages=4)
    for links in (True, False):
        home = tmp_path / f"links-{links}"
        shutil.copytree(tmp_path / "c", home)
        shard = ShardWriter(LockedShard(home, 0, TINY, states[-1]))
        shard.process_outcome(1, version(0, "late", again=True))
        shard.process_outcome(2, gone(1))
        shard.prepare_commit()  # and it is never committed
        shard.close()
        if not links:
            for kept in home.glob("index/shard-0/*/kept"):
                shutil.rmtree(kept)
        ShardWriter(LockedShard(home, 0, TINY, states[-1])).close()
        check(home, {url(number): f"t4p{number}" for number in range(4)}, words | {"late"})


def test_same_page_twice_in_one_batch_leaves_the_second_or_none(tmp_path: Path) -> None:
    shard = ShardWriter(LockedShard(tmp_path, 0, CONFIG, ShardState()))
    shard.process_outcome(1, version(1, "first", again=False))
    shard.process_outcome(2, version(1, "second", again=True))
    shard.process_outcome(3, version(2, "third", again=False))
    shard.process_outcome(4, gone(2))
    shard.process_outcome(5, version(3, "fourth", again=False))
    shard.process_outcome(6, gone(3))
    shard.process_outcome(7, version(3, "fifth", again=True))
    shard.prepare_commit()
    shard.close()
    check(tmp_path, {url(1): "second", url(3): "fifth"}, {"first", "second", "third", "fourth", "fifth"})


def test_table_is_rebuilt_from_the_logs(tmp_path: Path) -> None:
    states, truth, words = replaced(tmp_path, rounds=3)
    table = tmp_path / "index" / VERSION_TABLE
    for harm in (b"", b"junk" * 1024, None):
        table.write_bytes(harm) if harm is not None else table.unlink()
        check(tmp_path, truth, words)  # the logs have the answer
        VersionTable.delete_unusable_table(tmp_path / "index", [states[-1].copies])
        assert not table.exists()
        ShardWriter(LockedShard(tmp_path, 0, TINY, states[-1])).close()
        assert table.exists()
        check(tmp_path, truth, words)


def test_table_with_uncommitted_entries_is_rebuilt(tmp_path: Path) -> None:
    """The journal lost its newest record, and the crawl continues from the one before."""
    folder = tmp_path / "index"
    folder.mkdir()
    shard = ShardWriter(LockedShard(tmp_path, 0, CONFIG, ShardState()))
    shard.process_outcome(1, version(1, "old", again=False))
    states = [shard.prepare_commit()]
    shard.mark_committed(states[0].batch)
    shard.process_outcome(2, gone(1))
    states.append(shard.prepare_commit())
    shard.close()
    copies = VersionTable(folder, 0)
    copies.apply_log(states[1].copies)
    copies.close()
    check(tmp_path, {}, {"old"})
    ShardWriter(LockedShard(tmp_path, 0, CONFIG, states[0])).close()
    check(tmp_path, {url(1): "old"}, {"old"})


def test_log_without_committed_entries_is_damage(tmp_path: Path) -> None:
    states, _, _ = replaced(tmp_path, rounds=2)
    log = tmp_path / "index/shard-0.copies"
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedFile, match=r"shard-0\.copies"):
        ShardWriter(LockedShard(tmp_path, 0, TINY, states[-1]))


def test_crawl_without_refetches_has_no_replacement_files(tmp_path: Path) -> None:
    replaced(tmp_path, rounds=1)
    assert not list((tmp_path / "index").glob("*copies*"))
    assert not VersionView(tmp_path / "index").has_entries


def test_newer_version_has_the_greater_number() -> None:
    order = [
        version_number(batch, shard, present=p) for batch in (1, 2, 900) for shard in (0, 3) for p in (False, True)
    ]
    assert order == sorted(set(order))


def test_sighting_has_change_and_amount(tmp_path: Path) -> None:
    shard = ShardWriter(LockedShard(tmp_path, 0, CONFIG, ShardState()))
    words = [f"word{number}" for number in range(300)]

    def look(text: list[str], **known: object) -> WorkerResult:
        seen = page(url(1), ("<p>" + " ".join(text)).encode(), etag='"5"', last_modified="yesterday")
        door = FrontierEntry.POLLED if known else FrontierEntry.DISCOVERED
        asked = msgspec.structs.replace(seen.link, door=door, **known)
        return shard.process_outcome(1, msgspec.structs.replace(seen, link=asked))

    first = look(words).sighting
    assert first is not None
    assert (first.etag, first.last_modified, first.changed, first.difference) == ('"5"', "yesterday", None, 0.0)
    held = {"digest": first.digest, "simhash": first.simhash}
    same, other = look(words, **held).sighting, look(["x" + word for word in words], **held).sighting
    little = look([*words[:290], *["new"] * 10], **held).sighting
    assert same is not None
    assert other is not None
    assert little is not None
    assert (same.changed, same.difference) == (False, 0.0)
    assert little.changed
    assert other.changed
    assert 0.0 <= little.difference < 0.3 < 0.7 < other.difference
    known = link(1, digest=first.digest, etag='"5"')
    answer = shard.process_outcome(2, Unchanged(known, response(b"", status=304)))
    still = answer.sighting
    assert still is not None
    assert msgspec.msgpack.decode(answer.row, type=OutcomeRow).etag == '"5"', "the next poll asks by it"
    assert (still.changed, still.gone, still.digest, still.etag) == (False, False, first.digest, '"5"')
    lost = shard.process_outcome(3, msgspec.structs.replace(gone(1), link=known)).sighting
    assert lost is not None
    assert lost.gone
    assert lost.changed
    assert shard.process_outcome(4, gone(1, 503)).sighting is None
    shard.close()


def test_table_can_be_read_while_it_grows(tmp_path: Path) -> None:
    log = VersionLog(tmp_path, 0, 0)
    log.set_newest_version(7, version_number(1, 0))
    copies = VersionTable(tmp_path, 0)
    copies.apply_log(log.make_durable())
    copies.close()
    log.close()
    view = VersionView(tmp_path)
    # By another process, like a worker: more than fits into a map of the usual size.
    grow = (
        "import lmdb, sys; env = lmdb.open(sys.argv[1], subdir=False, map_size=1 << 30)\n"
        "with env.begin(write=True) as txn: txn.put(b'much', bytes(12 << 20))"
    )
    subprocess.run([sys.executable, "-c", grow, str(tmp_path / VERSION_TABLE)], check=True)
    assert view.newest_versions([7, 8]).tolist() == [version_number(1, 0), 0]
    view.close()
