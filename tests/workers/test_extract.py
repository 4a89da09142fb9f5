"""Tests of row extraction: rows are stored beside the page, or the outcome has the reason."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fieldmouse.archive.warc_reader import read_page_rows
from fieldmouse.errors import DamagedFile, UsageError
from fieldmouse.plugins.runner import PluginConfig
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.request import RequestKind
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter
from workers.responses import CONFIG, page

HTML = b"<title>Voles</title><p>voles <a href=/more>more</a> <a href=//else.example/>else</a> <b class=x>y</b>"


def taken(directory: Path, plugin: str, *bodies: bytes, patience: float = 5.0, **more: str) -> list[OutcomeRow]:
    """The outcomes of pages with these bodies, after a checkpoint."""
    names = PluginConfig(extract=f"hostile_mice:{plugin}" if plugin else "", patience=patience)
    shard = ShardWriter(LockedShard(directory, 0, msgspec.structs.replace(CONFIG, plugins=names), ShardState()))
    try:
        answers = [
            shard.process_outcome(number, page(f"http://example.org/{number}", body, **more))  # type: ignore[arg-type]
            for number, body in enumerate(bodies, 1)
        ]
        shard.prepare_commit()
    finally:
        shard.close()
    return [msgspec.msgpack.decode(answer.row, type=OutcomeRow) for answer in answers]


def as_without(row: OutcomeRow) -> OutcomeRow:
    """An outcome without the fields that its plug-in set, and without file names that contain the time."""
    return msgspec.structs.replace(row, detail="", items=0, items_at=0, warc="", offset=0)


def test_rows_read_back_equal_the_extracted_ones(tmp_path: Path) -> None:
    told = taken(tmp_path, "titles", HTML, b"<title>Shrews</title>", HTML)
    assert [row.items for row in told] == [3, 1, 3]
    voles = [{"title": "Voles", "links": 2}, {"link": "http://example.org/more"}, {"link": "http://else.example/"}]
    assert [item for row in told for item in read_page_rows(tmp_path / "archive", row)] == [
        *voles,
        {"title": "Shrews", "links": 0},
        *voles,
    ]
    assert told[2].duplicate_of == "http://example.org/1", "stored as a reference, and its rows all the same"


def test_outcome_without_extract_has_no_rows(tmp_path: Path) -> None:
    (told,) = taken(tmp_path, "", HTML)
    assert (told.items, told.items_at, read_page_rows(tmp_path / "archive", told)) == (0, 0, [])
    assert b"x-ndjson" not in _archived(tmp_path)


def _archived(home: Path) -> bytes:
    import gzip

    (warc,) = (home / "archive").glob("*.warc.gz")
    return gzip.decompress(warc.read_bytes())


HOSTILE = {
    "raises": "raised KeyError: 'price'",
    "leaves": "raised SystemExit: enough",
    "unspeakable": "raised Unspeakable: without a readable message",
    "raises_later": "raised ValueError: half way",
    "loops": "took longer than 0.2 s",
    "sleeps": "took longer than 0.2 s",
    "never_ends": "",  # either limit may apply first
    "huge": "gave more than 1048576 bytes of rows for one page",
    "unwritable": "gave an `object` inside a row, which cannot be written",
    "surrogates": "raised UnicodeEncodeError",
    "bottomless": "raised RecursionError",
    "no_rows": "gave an `int` and not rows",
    "words": "gave a `str` as a row, and a row is a mapping",
    "recurses": "raised RecursionError",
}


@pytest.mark.parametrize(("plugin", "says"), HOSTILE.items())
def test_failing_extract_loses_only_its_rows_and_is_named(tmp_path: Path, plugin: str, says: str) -> None:
    (told,) = taken(tmp_path / "with", plugin, HTML, patience=0.2)
    (plain,) = taken(tmp_path / "without", "", HTML)
    assert told.detail.startswith(f"`hostile_mice:{plugin}` {says}")
    assert len(told.detail) < 300
    assert as_without(told) == as_without(plain), "the page itself is what it is without"
    assert b"x-ndjson" not in _archived(tmp_path / "with")


def test_plugin_that_modifies_its_page_has_no_side_effects(tmp_path: Path) -> None:
    (told,) = taken(tmp_path / "with", "meddles", HTML)
    (plain,) = taken(tmp_path / "without", "", HTML)
    assert (told.items, told.detail) == (1, "")
    assert as_without(told) == as_without(plain)


@pytest.mark.parametrize("kind", [RequestKind.SITEMAP, RequestKind.FEED])
def test_extract_is_called_for_sitemaps_and_feeds(tmp_path: Path, kind: RequestKind) -> None:
    names = PluginConfig(extract="hostile_mice:titles")
    shard = ShardWriter(LockedShard(tmp_path, 0, msgspec.structs.replace(CONFIG, plugins=names), ShardState()))
    answer = shard.process_outcome(
        1, page("http://example.org/s", b"<urlset></urlset>", kind=kind, mime="application/xml")
    )
    shard.close()
    assert msgspec.msgpack.decode(answer.row, type=OutcomeRow).items == 1


def test_unknown_plugin_name_raises_before_any_file_is_created(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="hostile_mice"):
        taken(tmp_path / "c", "nothing_like_it", HTML)
    assert not (tmp_path / "c").exists()


def test_damaged_or_missing_rows_raise_damaged(tmp_path: Path) -> None:
    (told,) = taken(tmp_path, "titles", HTML)
    (warc,) = (tmp_path / "archive").glob("*.warc.gz")
    whole = bytearray(warc.read_bytes())
    whole[told.items_at + 60] ^= 0xFF
    warc.write_bytes(whole)
    with pytest.raises(DamagedFile, match=r"rows of http://example.org/1"):
        read_page_rows(tmp_path / "archive", told)
    warc.unlink()
    with pytest.raises(DamagedFile, match="it is missing"):
        read_page_rows(tmp_path / "archive", told)
