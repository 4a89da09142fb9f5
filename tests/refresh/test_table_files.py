"""The ledger's files: whatever is killed or damaged, it opens at a checkpoint or is made again."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fieldmouse.doctor.check.check_result import CheckResult
from fieldmouse.doctor.check.examine import check_parts
from fieldmouse.errors import MissingFile
from fieldmouse.policy.polling import registry
from fieldmouse.refresh.apply_outcomes import PageFlag
from fieldmouse.refresh.column_table import ColumnSpec, ColumnTable
from fieldmouse.refresh.page_table import PageTable, PageTableState, read_page_table
from fieldmouse.refresh.table_files import TableFiles, read_tables
from fieldmouse.refresh.token_bucket import BucketState
from fieldmouse.storage.checkpoint import encode_checkpoint, read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import ContentChange, OutcomeRow

from .chronicle import Chronicle, Remembering, page, state_of


def polled(numbers: Iterator[int] | range, at: float) -> Iterator[OutcomeRow]:
    for number in numbers:
        yield page(
            number, at, number % 7, polled="page", news=ContentChange.CHANGED if number % 3 else ContentChange.SAME
        )


def files_of(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "ledger").iterdir())


def test_a_kill_at_any_byte_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    """What a dying process wrote into the log, of any length, does not count; nor does half a snapshot."""
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle(page(number, host=number % 7) for number in range(40))
    chronicle.checkpoint()
    committed, shown = read_checkpoint(chronicle.home), state_of(chronicle.ledger)
    chronicle.settle(polled(range(20), 500.0), durable=False)
    chronicle.parts.seal(2000.0)
    chronicle.close()
    (written,) = (tmp_path / "c" / "ledger").glob("*.log")
    assert committed is not None
    noted = committed.parts["ledger"].files[f"ledger/{written.name}"]
    whole = written.read_bytes()
    assert len(whole) > noted + 500
    for size in [*range(noted, noted + 40), *range(noted + 40, len(whole), 97), len(whole)]:
        written.write_bytes(whole[:size])
        (tmp_path / "c" / "ledger" / "pages-9.columns").write_bytes(whole[: size - noted])
        again = PageTable(chronicle.home, committed, policy=Remembering(), named="remembering")
        assert state_of(again) == shown
        assert written.read_bytes() == whole[:size], "opening changes nothing"
        again.close()
    chronicle.open()
    assert files_of(tmp_path / "c") == [written.name], "beginning does"
    chronicle.ledger.catch_up(chronicle.outcomes.length)
    assert state_of(chronicle.ledger) == shown


def test_a_snapshot_is_written_when_the_log_is_long_and_the_old_one_goes_later(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle(page(number, host=number % 7) for number in range(12_000))
    moment = chronicle.parts.seal(3000.0)
    assert files_of(tmp_path / "c") == ["pages-0.log", "pages-1.columns", "pages-1.log"]
    chronicle.parts.commit(moment)
    assert files_of(tmp_path / "c") == ["pages-0.log", "pages-1.columns", "pages-1.log"]
    chronicle.parts.notify_committed()
    assert files_of(tmp_path / "c") == ["pages-1.columns", "pages-1.log"]
    for turn in range(15):
        chronicle.settle(polled(range(turn * 200, turn * 200 + 3000), 1e4 * (turn + 1)))
    names = files_of(tmp_path / "c")
    assert len(names) == 2
    assert names != ["pages-1.columns", "pages-1.log"], "a log that never ends would be worth no snapshot"
    shown = state_of(chronicle.ledger)
    chronicle.checkpoint()
    chronicle.reopen()
    assert state_of(chronicle.ledger) == shown
    assert set(shown["polls"]) > {0, 5, 15}


def damaged(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    match how:
        case "lost":
            path.unlink()
            return
        case "cut":
            del content[len(content) // 2 :]
        case "flipped":
            content[len(content) // 2] ^= 8
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["lost", "cut", "flipped"])
@pytest.mark.parametrize("what", ["columns", "log"])
def test_a_damaged_page_table_is_rebuilt_with_a_warning(
    tmp_path: Path, what: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle(page(number, host=number % 7) for number in range(12_000))
    chronicle.checkpoint()
    chronicle.settle(polled(range(100), 500.0))
    chronicle.checkpoint()
    shown = state_of(chronicle.ledger)
    chronicle.close()
    (path,) = (tmp_path / "c" / "ledger").glob(f"*.{what}")
    assert finding_of(chronicle.home).says.startswith("2 files")
    damaged(path, how)
    found = finding_of(chronicle.home)
    assert found.healthy, "nothing is lost"
    assert path.name in found.says
    assert "again" in found.says
    chronicle.open()
    assert "read again from `outcomes.log`" in caplog.text
    assert path.name in caplog.text
    chronicle.ledger.catch_up(chronicle.outcomes.length)
    chronicle.checkpoint()
    assert state_of(chronicle.ledger) == shown
    chronicle.reopen()
    assert state_of(chronicle.ledger) == shown
    assert len(files_of(tmp_path / "c")) == 2, "what was damaged is gone"


def finding_of(home: CrawlDir) -> CheckResult:
    (found,) = (finding for finding in check_parts(home) if finding.what == "ledger")
    return found


def test_a_reader_whose_file_was_deleted_reads_again(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle(page(number) for number in range(30))
    chronicle.checkpoint()
    old = chronicle.newest
    chronicle.settle(page(number) for number in range(12_000))
    chronicle.checkpoint()
    with pytest.raises(MissingFile):
        read_page_table(chronicle.home, old, policy=Remembering())
    assert len(read_page_table(chronicle.home, chronicle.newest, policy=Remembering())) == 12_000


def test_a_crawl_that_was_never_refreshed_can_be_read(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c", registry.create_policy("uniform"), "uniform")
    chronicle.settle(page(number) for number in range(30))
    last = chronicle.newest
    without = {name: note for name, note in last.parts.items() if name != "ledger"}
    shutil.rmtree(tmp_path / "c" / "ledger")
    ledger = read_page_table(chronicle.home, type(last)(last.at, without, born=last.born))
    assert len(ledger) == 30
    assert ledger.budget is None
    assert not (tmp_path / "c" / "ledger").exists(), "nothing is written"


def test_another_policy_starts_with_its_own_columns_and_keeps_the_beliefs(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle(page(number) for number in range(50))
    chronicle.settle(polled(range(0, 49, 7), 900.0))
    chronicle.checkpoint()
    before = state_of(chronicle.ledger)
    for name in ("uniform", "remembering"):
        chronicle.close()
        chronicle.policy = registry.create_policy("uniform") if name == "uniform" else Remembering()
        chronicle.named = name
        chronicle.open()
        for _ in range(2):
            after = state_of(chronicle.ledger)
            assert after["state"] == chronicle.policy.initial_state(50).tolist()
            assert {k: v for k, v in after.items() if k != "state"} == {k: v for k, v in before.items() if k != "state"}
            chronicle.checkpoint()
            chronicle.reopen()
    assert before["state"] != after["state"]


def test_a_page_table_without_date_columns_keeps_its_data(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle(page(number, host=number % 7) for number in range(300))
    chronicle.settle(polled(range(200), 500.0))
    chronicle.ledger.mark_in_flight(np.arange(5))
    chronicle.ledger.set_flag(np.array([7]), PageFlag.HINTED)
    chronicle.ledger.bucket_state = BucketState(3.0, 510.0)
    chronicle.checkpoint(clean=True)
    before = state_of(chronicle.ledger)
    write_as_before_dates(chronicle)
    chronicle.close()
    assert finding_of(chronicle.home).healthy
    chronicle.open()
    assert "dated" not in {field.name for field in layout_of(chronicle)["pages"]}, "the disk has none"
    assert "again" not in caplog.text, "nothing had to be read again"
    after = state_of(chronicle.ledger)
    assert after.pop("dated") == after["belief"]
    del before["dated"]
    assert after == before
    assert chronicle.ledger.in_flight == 5
    assert chronicle.ledger.bucket_state == BucketState(3.0, 510.0)
    told = formatdate(800.0, usegmt=True)
    for at in range(10):
        chronicle.settle(
            page(number, 1e4 * (at + 1), number % 7, polled="page", news=ContentChange.SAME, last_modified=told)
            for number in range(40)
        )
    chronicle.checkpoint()
    shown = state_of(chronicle.ledger)
    assert "dated" in {field.name for field in layout_of(chronicle)["pages"]}
    chronicle.reopen()
    assert state_of(chronicle.ledger) == shown


def layout_of(chronicle: Chronicle) -> dict[str, list[ColumnSpec]]:
    return chronicle.newest.decode_part("ledger", PageTableState).tables.layout


def write_as_before_dates(chronicle: Chronicle) -> None:
    """Seal the ledger once more, as it is, with the columns that it had then."""
    last = chronicle.newest
    was = last.decode_part("ledger", PageTableState)
    tables = read_tables(chronicle.home / "ledger", was.tables)
    for name, new in (("pages", "dated"), ("hosts", "dates")):
        old = [field for field in tables[name].fields if field.name != new]
        tables[name] = ColumnTable(old, {field.name: np.array(tables[name].column(field.name)) for field in old})
    state, paths = TableFiles(chronicle.home / "ledger", was.tables).seal(tables)
    sizes = {f"ledger/{path.name}": path.stat().st_size for path in paths}
    now = last.with_part("ledger", msgspec.structs.replace(was, tables=state), sizes)
    chronicle.journal.commit(encode_checkpoint(now))


def test_a_page_costs_some_hundred_bytes_of_memory_and_of_disk(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c", registry.create_policy("uniform"), "uniform")
    chronicle.write(page(number, host=number % 7) for number in range(16_000))
    chronicle.checkpoint()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    chronicle.ledger.catch_up(chronicle.outcomes.length)
    grown = tracemalloc.get_traced_memory()[0] - before
    chronicle.checkpoint()
    sealed = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    disk = sum(file.stat().st_size for file in (tmp_path / "c" / "ledger").iterdir())
    assert grown / 16_000 < 170, "columns with room to grow, and keys that are not sorted in yet"
    assert sealed / 16_000 < 50, "what is in the snapshot is mapped"
    assert disk / 16_000 < 100
    assert np.all(chronicle.ledger.column("looked") == 100.0)
