"""Opening of damaged crawls: readable data counts, and a refusal changes nothing."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from fieldmouse.clock import Clock
from fieldmouse.config.settings_file import Settings
from fieldmouse.crawler.builder import build_crawl
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.errors import CrawlDirError, DamagedFile
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.frontier.url_lookup import UrlPlace, locate_url
from fieldmouse.storage.checkpoint import identity_in_journal, inspect_journal, read_checkpoint, sealed_counters
from fieldmouse.storage.directory import CrawlDir, write_identity
from fieldmouse.storage.log import frame_record
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.stats import Summary
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker

from .crawling import count_waiting
from .powercut import PowerCut, power_cut
from .virtual_time import bottled_crawl, bottled_kill, outcomes

MEADOW = Meadow(MeadowOptions(hosts=4, pages=60, seed=11, page_kb=1.0, links=8))
"""What the crawl of format 1 in `tests/data` crawled, too: it has the first four pages."""
FORMAT_1 = Path(__file__).parent.parent / "data" / "crawl-of-format-1.tar.xz"
FORMAT_2 = Path(__file__).parent.parent / "data" / "crawl-of-format-2.tar.xz"
MANNERS = {
    "politeness__delay": "1s",
    "network__allow_private": True,
    "frontier__sieve_run": 12,
    "frontier__record_decisions": "1MiB",
}


def crawl(path: Path, **changes: object) -> Summary:
    summary, _ = bottled_crawl(path, lambda clock: MeadowFetcher(MEADOW, clock), MEADOW.seeds, **MANNERS, **changes)
    return summary


def tree(path: Path) -> dict[str, str]:
    """Every file by its content. The workers manage their own files."""
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and not {"archive", "index"} & set(file.relative_to(path).parts)
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl with several checkpoints in its journal, stopped in the middle, and its neighbour's end."""
    path = tmp_path_factory.mktemp("whole") / "c"
    for pages in (4, 8, 12):
        crawl(path, crawl__pages=pages)
    return path


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    path = tmp_path_factory.mktemp("truth") / "c"
    assert crawl(path).lost == 0
    return {row.url for row in outcomes(path)}


@pytest.fixture
def home(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "c"))


def finished(path: Path) -> set[str]:
    """Crawl to the end; all that was ever settled, each URL once."""
    summary = crawl(path)
    assert (summary.lost, summary.waiting) == (0, 0)
    urls = [row.url for row in outcomes(path)]
    assert len(urls) == len(set(urls))
    return set(urls)


# -- the journal


def test_a_flipped_byte_in_the_journal_never_restarts_the_crawl(home: Path) -> None:
    journal = home / "journal"
    raw = journal.read_bytes()
    newest = inspect_journal(CrawlDir.open(home)).newest
    rng = random.Random(1)
    for at in range(0, len(raw), 3):
        hurt = bytearray(raw)
        hurt[at] ^= rng.randrange(1, 256)
        journal.write_bytes(hurt)
        crawldir = CrawlDir.open(home)
        report = inspect_journal(crawldir)
        assert not report.clean
        assert read_checkpoint(crawldir) is not None, f"byte {at} flipped: the crawl would be begun anew"
        if report.newest != newest:
            assert report.torn or report.newer_checkpoint_lost
    journal.write_bytes(raw)


@pytest.mark.parametrize("where", ["first", "middle", "newest", "zeros", "garbage", "torn"])
def test_a_crawl_with_one_bad_record_resumes_and_repairs_its_journal(
    home: Path, truth: set[str], where: str, caplog: pytest.LogCaptureFixture
) -> None:
    journal = home / "journal"
    raw = bytearray(journal.read_bytes())
    ends = [len(raw)] if where in ("zeros", "garbage") else [match.start() for match in re.finditer(b"\xa2at", raw)]
    at = {"first": ends[0], "middle": ends[len(ends) // 2], "newest": ends[-1]}.get(where)
    if at is not None:
        raw[at + 20] ^= 1
    elif where == "zeros":
        raw += bytes(8)
    elif where == "garbage":
        raw += random.Random(3).randbytes(100)
    else:
        raw += raw[ends[-1] - 9 :][:50]  # half a record, as it would have been written
    journal.write_bytes(raw)
    if where == "newest" and (refused := opened(home)) is not None:
        assert "newest checkpoint cannot be read" in str(refused)
        return
    assert finished(home) == truth
    assert inspect_journal(CrawlDir.open(home)).clean
    assert ("skipped" in caplog.text) == (where != "torn")


@pytest.mark.parametrize("left", [b"", b"\x00" * 300, b"nothing like a checkpoint" * 9, None])
def test_a_journal_that_lost_its_checkpoint_is_refused_without_changes(home: Path, left: bytes | None) -> None:
    if left is None:
        (home / "journal").unlink()
    else:
        (home / "journal").write_bytes(left)
    before = tree(home)
    with pytest.raises(DamagedFile, match="no checkpoint in it can be read") as refused:
        crawl(home)
    assert f"`fieldmouse doctor {home}`" in refused.value.hint
    assert tree(home) == before


@pytest.mark.parametrize("kept", ["outcomes.log", "archive/*.warc.gz", "archive/shard-0.cdxj", "frontier/front-*.log"])
def test_any_file_with_earlier_work_is_enough_to_refuse(home: Path, kept: str) -> None:
    spared = set(home.glob(kept))
    assert spared
    for room in ("outcomes.log", "archive/*.warc.gz", "archive/*.cdxj", "frontier/*"):
        for path in set(home.glob(room)) - spared:
            path.unlink()
    (home / "journal").write_bytes(b"")
    with pytest.raises(DamagedFile, match=re.escape(next(iter(spared)).name)):
        read_checkpoint(CrawlDir.open(home))


@pytest.mark.parametrize("reached", [0, 1, 7, 8, 100, 300])
@pytest.mark.parametrize("zeros", [False, True])
def test_a_power_cut_in_the_first_checkpoint_restarts_from_the_seeds(
    tmp_path: Path, truth: set[str], reached: int, zeros: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the first checkpoint names is on the disk; of its record only the beginning is."""
    path = tmp_path / "c"
    real = os.fdatasync

    def cut(handle: int) -> None:
        real(handle)
        if Path(os.readlink(f"/proc/self/fd/{handle}")) == path / "journal":
            raise PowerCut

    monkeypatch.setattr(os, "fdatasync", cut)
    with pytest.raises(PowerCut):
        crawl(path)
    monkeypatch.undo()
    journal = path / "journal"
    raw = journal.read_bytes()
    assert read_checkpoint(CrawlDir.open(path)) is not None, "the record was whole before the power went"
    journal.write_bytes(bytes(len(raw)) if zeros else raw[:reached])
    assert read_checkpoint(CrawlDir.open(path)) is None
    assert finished(path) == truth


@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.1])
def test_a_kill_at_the_start_resumes_from_the_seeds(tmp_path: Path, truth: set[str], seconds: float) -> None:
    path = tmp_path / "c"
    with suppress(RuntimeError):
        bottled_kill(path, lambda clock: MeadowFetcher(MEADOW, clock), MEADOW.seeds, after=seconds, **MANNERS)
    assert finished(path) == truth


# -- everything else the main process opens


def damaged(path: Path) -> Iterator[str]:
    """Damage a file in several ways, one after the other, each detectable."""
    raw = path.read_bytes()
    if not raw:
        return
    middle = bytearray(raw)
    middle[len(raw) // 2] ^= 0x10
    path.write_bytes(middle)
    yield "flipped"
    path.write_bytes(raw[:-1])
    yield "cut"
    path.write_bytes(raw[: len(raw) // 2])
    yield "halved"
    path.unlink()
    yield "gone"
    path.write_bytes(raw)


def opened(path: Path) -> CrawlDirError | None:
    """Open every stage and close it again; returns the error, if any."""

    async def look(clock: Clock) -> CrawlDirError | None:
        try:
            home = CrawlDir.open(path)
            settings = Settings().override({"crawl.seeds": list(MEADOW.seeds)})
            crew = build_crawl(home, settings, clock=clock, fetcher=MeadowFetcher(MEADOW, clock), lane=InlineWorker)
        except CrawlDirError as refused:
            return refused
        await crew.close()
        return None

    return virtual_time.run_in_virtual_time(look)


READ_LATER = {("links-0.log", "flipped"), ("ready-0.log", "flipped"), ("outcomes.log", "flipped")}
"""Damage that cannot be detected without reading all queues, or all history; `doctor` detects it."""


def test_opening_changes_nothing_and_detects_any_damaged_file(home: Path) -> None:
    before = tree(home)
    assert opened(home) is None
    assert tree(home) == before, "opening alone changed something"
    for path in [*sorted((home / "frontier").iterdir()), home / "outcomes.log", home / "crawl.json"]:
        for how in damaged(path):
            before = tree(home)
            refused = opened(home)
            assert tree(home) == before, f"{path.name} {how}: something was changed"
            if refused is None:
                assert (path.name, how) in READ_LATER, f"{path.name} was {how}, and nobody noticed"
                continue
            assert path.name in str(refused) or path.name == "crawl.json", f"{path.name} {how}: {refused}"
            assert str(home) in refused.hint
            assert str(home / "frontier") not in refused.hint


def test_data_after_the_checkpoint_is_cut_only_after_all_parts_opened(home: Path) -> None:
    for path in [*(home / "frontier").glob("*.log"), home / "outcomes.log", home / "readings.log"]:
        with path.open("ab") as file:
            file.write(b"behind the checkpoint")
    (home / "frontier" / "run-99.keys").write_bytes(bytes(8))
    (home / "frontier" / "links-99.log").write_bytes(bytes(8))
    hurt = next((home / "frontier").glob("front-*.log"))
    raw = hurt.read_bytes()
    hurt.write_bytes(b"x" + raw[1:])
    before = tree(home)
    with pytest.raises(DamagedFile):
        crawl(home)
    assert tree(home) == before
    hurt.write_bytes(raw)
    crawl(home)
    assert not (home / "frontier" / "run-99.keys").exists()
    assert not (home / "frontier" / "links-99.log").exists()


# -- crawl.json


def rewritten(home: Path, **changes: object) -> None:
    born = msgspec.json.decode((home / "crawl.json").read_bytes())
    (home / "crawl.json").write_bytes(msgspec.json.encode(born | changes))


@pytest.mark.parametrize("changes", [{"shards": 2}, {"key_seed": 7}])
def test_a_crawl_with_another_identity_is_refused(home: Path, changes: dict[str, object]) -> None:
    said = (home / "crawl.json").read_bytes()
    rewritten(home, **changes)
    before = tree(home)
    with pytest.raises(DamagedFile, match=next(iter(changes))):
        crawl(home)
    with pytest.raises(DamagedFile):
        read_checkpoint(CrawlDir.open(home))
    assert tree(home) == before
    born = identity_in_journal(home)
    assert born is not None
    write_identity(home, born)
    assert (home / "crawl.json").read_bytes() == said, "the journal knows what it was"


# -- format 1


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A crawl that an older fieldmouse made, and stopped after four pages."""
    path = tmp_path / "old"
    with tarfile.open(FORMAT_1) as packed:
        packed.extractall(path, filter="data")
    return path


def check_old(path: Path) -> None:
    """It can be read, and is of format 1."""
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    state = frontier_state_of(last)
    assert state.sieve.has_no_checksums
    assert state.sieve.runs
    assert count_waiting(home, state) == state.waiting == 50
    for row in outcomes(path):
        assert locate_url(home / "frontier", state, home.identity.key_seed, Url(row.url)).place is UrlPlace.DONE
    stranger = Url("http://127.0.1.1/nobody/ever/linked/here")
    assert locate_url(home / "frontier", state, home.identity.key_seed, stranger).place is UrlPlace.UNKNOWN


def test_a_crawl_of_format_1_is_readable_without_upgrade(old: Path) -> None:
    before = tree(old)
    check_old(old)
    assert opened(old) is None
    assert tree(old) == before


def test_resume_upgrades_a_crawl_of_format_1_without_loss(old: Path, truth: set[str]) -> None:
    assert finished(old) == truth
    assert CrawlDir.open(old).identity.format == 3
    last = read_checkpoint(CrawlDir.open(old))
    assert last is not None
    assert not frontier_state_of(last).sieve.has_no_checksums
    assert {path.name for path in (old / "frontier").glob("run-*")} == set(frontier_state_of(last).sieve.runs)


def test_a_kill_during_the_upgrade_leaves_a_crawl_of_format_1(old: Path, truth: set[str], tmp_path: Path) -> None:
    """The disk syncs many files before the journal names any: the power is cut at each."""
    for syncs in itertools.count():
        path = Path(shutil.copytree(old, tmp_path / str(syncs)))
        with power_cut(after=syncs):
            crawl(path, crawl__pages=5)
        after = Path(shutil.copytree(path, tmp_path / f"{syncs}-after"))
        last = read_checkpoint(CrawlDir.open(after))
        assert last is not None
        if not frontier_state_of(last).sieve.has_no_checksums:
            break
        check_old(after)
        assert finished(after) == truth
    assert syncs > 3
    assert finished(after) == truth


def test_damage_in_a_sieve_run_of_format_1_is_detected_by_order_or_count(old: Path) -> None:
    (run,) = (old / "frontier").glob("run-*.keys")
    raw = run.read_bytes()
    for hurt in (raw[:-8], raw[8:16] + raw[:8] + raw[16:], raw[:-1]):
        run.write_bytes(hurt)
        refused = opened(old)
        assert refused is not None
        assert "keys" in str(refused)


# -- format 2


@pytest.fixture
def middle_aged(tmp_path: Path) -> Path:
    """A crawl of format 2, killed with fifteen pages in its last checkpoint and more behind it."""
    path = tmp_path / "middle-aged"
    with tarfile.open(FORMAT_2) as packed:
        packed.extractall(path, filter="data")
    return path


def test_a_crawl_of_format_2_is_readable_without_upgrade(middle_aged: Path) -> None:
    before = tree(middle_aged)
    home = CrawlDir.open(middle_aged)
    last = read_checkpoint(home)
    assert last is not None
    state = frontier_state_of(last)
    assert count_waiting(home, state) == state.waiting == 48
    assert sealed_counters(last).settled_urls == len(outcomes(middle_aged)) == 15
    assert [found.says for found in check_crawl(home) if not found.healthy] == []
    assert opened(middle_aged) is None
    assert tree(middle_aged) == before


def test_a_crawl_of_format_2_is_upgraded_despite_kills(middle_aged: Path, truth: set[str], tmp_path: Path) -> None:
    """Until the first table is in the journal the old checkpoint counts."""
    formats = set[int]()
    for syncs in itertools.count(0, 2):
        path = Path(shutil.copytree(middle_aged, tmp_path / str(syncs)))
        with power_cut(after=syncs):
            crawl(path, crawl__pages=16)
        newest = inspect_journal(CrawlDir.open(path)).newest
        assert newest is not None
        is_table = "parts" in msgspec.msgpack.decode(newest)
        formats.add(CrawlDir.open(path).identity.format)
        assert not is_table or formats == {3}, "a table stood in the journal, and the number did not say so"
        assert all(found.healthy for found in check_crawl(CrawlDir.open(path)))
        if is_table:
            break
    assert syncs > 3
    assert finished(path) == truth


def test_half_a_table_after_an_old_checkpoint_is_torn_not_damaged(middle_aged: Path) -> None:
    """A kill in the middle of the first record of the new kind leaves this."""
    table = msgspec.msgpack.encode({"at": 1.0, "parts": {}, "clean": False, "stopped_by": "", "born": None})
    journal = middle_aged / "journal"
    whole = journal.read_bytes()
    for length in range(1, len(frame_record(table))):
        journal.write_bytes(whole + frame_record(table)[:length])
        report = inspect_journal(CrawlDir.open(middle_aged))
        assert not report.bad
        assert report.torn == length
