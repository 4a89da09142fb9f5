"""Tests of change detection on a page that is polled repeatedly, with a worker and its archive."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import ContentChange, Failed, Moved, OutcomeRow, Page, Response, Unchanged
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import FrontierEntry, Request
from fieldmouse.url import Url
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter
from workers.responses import CONFIG, NOW, response

URL = Url("http://example.org/page")
LONG = "The harvest mouse is the smallest rodent of these fields, and builds its nest high in the grass. " * 4


class PolledPage:
    """A page in one shard with its newest outcome row, as the page table would hold it."""

    def __init__(self, folder: Path):
        self.folder, self.shard = folder, ShardWriter(LockedShard(folder, 0, CONFIG, ShardState()))
        self.known: OutcomeRow | None = None  # the stored version
        self.was = ""
        self.memory = b""
        self.at = NOW

    def link(self) -> Request:
        if self.known is None:
            return Request(URL)
        return Request(
            URL,
            door=FrontierEntry.POLLED,
            was=self.was,
            digest=self.known.digest,
            simhash=self.known.simhash,
            warc=self.known.warc,
            offset=self.known.offset,
            memory=self.memory,
        )

    def take(
        self, outcome: Callable[[Request, Response], Page | Moved | Unchanged | Failed], answer: Response
    ) -> OutcomeRow:
        parsed = self.shard.process_outcome(1, outcome(self.link(), answer))
        row = msgspec.msgpack.decode(parsed.row, type=OutcomeRow)
        self.shard.mark_committed(self.shard.prepare_commit().batch)
        if row.kind is OutcomeKind.PAGE:
            self.known = row
        if row.supersedes_earlier:
            self.was = row.kind
        if row.news:
            self.memory = row.memory
        return row

    def look(self, body: str | bytes, **headers: str) -> OutcomeRow:
        self.at += 3600.0
        raw = body.encode() if isinstance(body, str) else body
        return self.take(Page, response(raw, at=self.at, **headers))  # type: ignore[arg-type]

    def other(self, status: int, **headers: str) -> OutcomeRow:
        self.at += 3600.0
        answer = response(b"", status=status, at=self.at, **headers)  # type: ignore[arg-type]
        if status == 304:
            return self.take(Unchanged, answer)
        if status < 400:
            target, for_good = Url("http://example.org/there"), status in (301, 308) and self.was != "moved"
            return self.take(lambda link, answer: Moved(link, answer, target, for_good), answer)
        return self.take(lambda link, answer: Failed(link, OutcomeReason.CLIENT_ERROR, self.at, "", answer), answer)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[PolledPage]:
    polled = PolledPage(tmp_path / "c")
    yield polled
    polled.shard.close()


def clocked(number: int, text: str = LONG) -> str:
    return f"<title>Mice</title><p>{text}</p><footer>Served at 12:0{number}:59, {number} visitors</footer>"


def news(*rows: OutcomeRow) -> list[str]:
    return [row.news.value for row in rows]


def test_page_that_is_not_polled_is_not_news(page: PolledPage) -> None:
    row = page.look(f"<p>{LONG}")
    assert (row.news, row.difference, row.memory, row.withdrawn_change_count) == (ContentChange.NONE, 0.0, b"", 0)


def test_alternating_page_is_compared_with_the_previous_version_each_time(page: PolledPage) -> None:
    first, second = f"<p>{LONG}</p><p>{'all was well ' * 30}", f"<p>{LONG}</p><p>{'now it is not ' * 30}"
    told = [page.look(body) for body in (first, second, first, first, second)]
    assert news(*told) == ["", "changed", "changed", "same", "changed"]
    # The third is a revisit record of the first; the fifth was still compared with it.
    assert told[1].difference == told[2].difference == told[4].difference < 1.0
    assert all(row.withdrawn_change_count == 0 for row in told)


def test_page_with_a_clock_is_reported_twice_and_then_learned_as_noise(page: PolledPage) -> None:
    told = [page.look(clocked(number)) for number in range(7)]
    assert news(*told) == ["", "changed", "changed", "noise", "noise", "noise", "noise"]
    assert told[3].withdrawn_at == (told[1].at, told[2].at)
    assert sum(row.withdrawn_change_count for row in told) == 2
    assert all(len(row.memory) < 100 for row in told)


def test_change_beside_learned_noise_is_reported(page: PolledPage) -> None:
    for number in range(4):
        page.look(clocked(number))
    changed = page.look(clocked(5, LONG + "It is rare now, and should be left alone wherever it is seen in summer."))
    assert changed.news is ContentChange.CHANGED
    assert changed.withdrawn_change_count == 0
    assert 0.0 < changed.difference < 0.3, "the clock's words do not count"
    assert news(page.look(clocked(6, LONG))) == ["changed"], "and so is that it is gone again"


def test_bytes_without_a_visible_difference_are_noise(page: PolledPage) -> None:
    page.look(f"<p>{LONG}</p>")
    assert news(page.look(f"<!-- build 2 --><p id=x>{LONG}</p><script nonce=8>")) == ["noise"]
    packed = gzip.compress(f"<p>{LONG}</p>".encode(), mtime=1)
    assert news(page.look(packed, content_encoding="gzip")) == ["noise"]


def test_images_are_compared_by_their_bytes(page: PolledPage) -> None:
    told = [page.look(body, mime="image/png") for body in (b"one" * 200, b"two" * 200)]
    assert news(*told) == ["", "changed"]
    again = page.look(gzip.compress(b"two" * 200, mtime=1), mime="image/png", content_encoding="gzip")
    assert again.news is ContentChange.NOISE


def test_unreadable_stored_version_makes_different_bytes_a_change(page: PolledPage) -> None:
    page.look(clocked(1))
    assert page.known is not None
    (page.folder / "archive" / page.known.warc).write_bytes(b"not a WARC file")
    row = page.look(f"<!-- other -->{clocked(1)}")
    assert row.news is ContentChange.CHANGED
    assert news(page.look(f"<!-- other -->{clocked(1)}")) == ["same"]


def test_301_is_news_but_302_and_500_are_not(page: PolledPage) -> None:
    page.look(clocked(1))
    assert news(*(page.other(status) for status in (302, 303, 307, 500, 429))) == [""] * 5
    moved = page.other(301)
    assert (moved.news, moved.target) == (ContentChange.MOVED, "http://example.org/there")
    assert news(page.other(308)) == [""], "it has been told"


def test_removed_page_is_reported_once_and_again_when_it_returns(page: PolledPage) -> None:
    page.look(clocked(1))
    gone = [page.other(404), page.other(410)]
    assert news(*gone) == ["gone", ""]
    back = page.look(clocked(1))
    assert (back.news, back.polled, back.difference) == (ContentChange.CHANGED, "failed", 1.0)


def test_304_is_reported_as_same_and_rests_learned_noise(page: PolledPage) -> None:
    for number in range(4):
        page.look(clocked(number))
    assert page.memory
    assert news(page.other(304), page.other(304)) == ["same", "same"]
    assert page.memory
    page.other(304)
    assert page.memory == b"", "after three it is noise no more"
    assert news(page.look(clocked(8))) == ["changed"]
