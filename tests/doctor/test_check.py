"""Doctor against the truth: any damage to a file of a crawl is found, or is harmless."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import tantivy

from fieldmouse.archive.duplicate_detection import verify_digests
from fieldmouse.cli.main import run_command
from fieldmouse.doctor.check.frontier_and_outcomes import inspect_frontier, open_frontier_files
from fieldmouse.errors import DamagedFile
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.storage.directory import CrawlDir
from whole.virtual_time import outcomes

from .damaging import COSTS_NOTHING, DAMAGES, files_of, flip, is_healthy, resume_for_good, troubles


def test_an_undamaged_crawl_is_healthy(crawl: Path) -> None:
    assert troubles(crawl) == troubles(crawl, deep=True) == []


def test_harmless_damage_is_reported_healthy_and_costs_nothing(crawl: Path) -> None:
    for how in DAMAGES.values():
        for file in sorted(crawl.rglob("*")):
            if file.name in COSTS_NOTHING and file.is_file() and file.stat().st_size:
                how(file)
    assert is_healthy(crawl)
    resume_for_good(crawl)
    assert is_healthy(crawl)


@pytest.mark.parametrize(
    ("state", "damage"), [("finished", "first byte"), ("killed", "flip"), ("killed", "cut"), ("finished", "delete")]
)
def test_any_other_damage_is_found(state: str, damage: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    crawl = Path(shutil.copytree(request.getfixturevalue(f"{state}_crawl"), tmp_path / "c"))
    unseen = set()
    for file in files_of(crawl):
        spare = tmp_path / "spare"
        shutil.copy2(file, spare)
        DAMAGES[damage](file)
        if is_healthy(crawl, deep=file.name.endswith(".warc.gz")):
            # Then it must be harmless.
            resume_for_good(Path(shutil.copytree(crawl, tmp_path / f"resumed-{file.name}")))
            unseen.add(file.name)
        shutil.copy2(spare, file)
    # Unused lmdb pages, lists that tantivy can do without, and a torn tail such as a kill leaves.
    assert unseen <= {"digests.lmdb", ".managed.json", "meta.json", "journal"}
    assert "journal" not in unseen or (damage, (crawl / "lock").read_bytes()) == ("cut", b"1")


def test_every_damaged_file_is_named(crawl: Path) -> None:
    """Not only the first one."""
    hurt = [*crawl.glob("frontier/hosts-*.log"), *crawl.glob("archive/shard-0.cdxj"), crawl / "outcomes.log"]
    for file in hurt:
        flip(file)
    told = " ".join(finding.says for finding in troubles(crawl))
    assert [file.name for file in hurt if file.name not in told] == []


def test_a_damaged_record_is_named_with_its_url_and_offset(crawl: Path) -> None:
    (warc,) = crawl.glob("archive/*.warc.gz")
    row = next(row for row in outcomes(crawl) if row.kind == "page" and row.size > 2000 and row.offset > 5000)
    flip(warc, row.offset + 900)
    assert is_healthy(crawl), "the body of a record is read only if asked for"
    (finding,) = troubles(crawl, deep=True)
    assert row.url in finding.says
    assert f"`archive/{warc.name}` is damaged at byte {row.offset}" in finding.says
    assert "copy" in finding.advice


def test_missing_documents_of_the_index_are_found_also_after_a_kill(crawl: Path) -> None:
    """The documents of some batches are removed from the index, which is otherwise whole."""
    (index,) = crawl.glob("index/shard-0/*")
    shutil.rmtree(index / "kept")  # otherwise they could be restored
    opened = tantivy.Index.open(str(index))
    writer = opened.writer(heap_size=16 << 20, num_threads=1)
    writer.delete_documents_by_query(
        tantivy.Query.range_query(opened.schema, "batch", tantivy.FieldType.Unsigned, 1, 2, use_inverted_index=True)
    )
    writer.commit()
    writer.wait_merging_threads()
    (finding,) = troubles(crawl)
    assert finding.what == "index"
    assert "pages of" in finding.says


def test_an_extra_file_in_the_index_is_no_damage(crawl: Path) -> None:
    (index,) = crawl.glob("index/shard-0/*")
    segment = next(index.glob("*.store")).stem
    (index / f"{segment}.99999.del").write_bytes(b"left over")
    assert is_healthy(crawl)


@pytest.mark.parametrize("change", [{"shards": 2}, {"key_seed": 7}, {"created_at": 0.0}, {"made_by": "me"}])
def test_a_changed_crawl_json_is_reported_and_rewritten(crawl: Path, change: dict[str, object]) -> None:
    born = crawl / "crawl.json"
    told = json.loads(born.read_bytes())
    born.write_text(json.dumps(told | change))
    (finding,) = troubles(crawl)
    assert "crawl.json" in finding.says
    assert run_command(["doctor", str(crawl), "--repair"]) == 0
    assert json.loads(born.read_bytes()) == told


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_missing_crawl_json_is_reported_and_rewritten(
    killed_crawl: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = Path(shutil.copytree(killed_crawl, tmp_path / "c"))
    told = (crawl / "crawl.json").read_bytes()
    DAMAGES[damage](crawl / "crawl.json")
    assert run_command(["doctor", str(crawl)]) == 1
    said = capsys.readouterr().err
    assert "crawl.json" in said
    assert f"`fieldmouse doctor {crawl} --repair`" in said
    assert run_command(["doctor", str(crawl), "--repair"]) == 0
    assert (crawl / "crawl.json").read_bytes() == told


def test_a_directory_without_a_crawl_gets_an_error_with_a_valid_hint(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "notes.txt", tmp_path / ("n" * 300)):
        assert run_command(["doctor", str(place)]) == 1
        assert "`fieldmouse" not in capsys.readouterr().err
    assert run_command(["doctor", str(crawl / "archive")]) == 1
    assert f"`fieldmouse doctor {crawl}`" in capsys.readouterr().err


def test_exit_code_and_json_agree(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["doctor", str(crawl), "--deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["healthy"] is True
    (crawl / "outcomes.log").unlink()
    assert run_command(["doctor", str(crawl), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["healthy"] is False
    assert [finding["what"] for finding in told["findings"] if not finding["healthy"]] == ["outcomes"]


def test_files_deleted_by_a_running_crawl_stay_readable_during_the_check(crawl: Path) -> None:
    """The check reads the files of the checkpoint it began with, whatever is deleted during it."""
    home = CrawlDir.open(crawl)
    with open_frontier_files(home) as shot:
        assert shot is not None
        shutil.rmtree(crawl / "frontier")
        report = inspect_frontier(shot.frontier, frontier_state_of(shot.checkpoint), home.identity.key_seed)
    assert report.injuries == {}
    assert report.waiting.count == frontier_state_of(shot.checkpoint).waiting


@pytest.mark.parametrize("damage", ["first byte", "cut"])
def test_a_resume_finds_a_damaged_index_before_it_changes_anything(crawl: Path, damage: str) -> None:
    segment = next(file for file in files_of(crawl) if file.suffix == ".store")
    DAMAGES[damage](segment)
    before = {path: path.read_bytes() for path in crawl.rglob("*") if path.is_file() and "lock" not in path.name}
    with pytest.raises(DamagedFile, match=segment.name):
        resume_for_good(crawl)
    assert {path: path.read_bytes() for path in before} == before


def test_a_digest_store_that_a_resume_refuses_is_not_healthy(crawl: Path) -> None:
    digests = crawl / "archive" / "digests.lmdb"
    os.truncate(digests, digests.stat().st_size - 1)
    with pytest.raises(DamagedFile):
        verify_digests(crawl / "archive")
    assert [finding.what for finding in troubles(crawl)] == ["digests"]


def test_a_used_page_in_the_free_list_of_the_digest_store_is_found_before_it_is_overwritten(crawl: Path) -> None:
    digests = crawl / "archive" / "digests.lmdb"
    raw = bytearray(digests.read_bytes())
    newest = max((0, 4096), key=lambda at: raw[at + 144 : at + 152][::-1])
    free, used = (int.from_bytes(raw[at : at + 8], "little") for at in (newest + 80, newest + 128))
    end = (free + 1) * 4096  # end of the oldest free-page list
    assert 1 < int.from_bytes(raw[end - 8 : end], "little") < len(raw) // 4096
    raw[end - 8 : end] = used.to_bytes(8, "little")
    digests.write_bytes(raw)
    (finding,) = troubles(crawl)
    assert (finding.what, f"page {used} is named twice" in finding.says) == ("digests", True)
    with pytest.raises(DamagedFile, match="named twice"):
        verify_digests(crawl / "archive")
