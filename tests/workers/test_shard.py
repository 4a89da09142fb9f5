"""Tests of a shard, one response at a time: archive, reported results, search."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import brotli
import msgspec
import pytest
import zstandard

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.reader import explain
from fieldmouse.search.search import search_crawl
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Failed, Moved, OutcomeRow, Unchanged, WorkerResult
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import FrontierEntry, Request, RequestKind
from fieldmouse.url import Url
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter
from workers.responses import CONFIG, NOW, page, response, story


def row(parsed: WorkerResult) -> OutcomeRow:
    told = msgspec.msgpack.decode(parsed.row, type=OutcomeRow)
    assert (told.kind, told.reason, told.size) == (parsed.kind, parsed.reason, parsed.size)
    return told


@pytest.fixture
def shard(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = ShardWriter(LockedShard(tmp_path, 0, CONFIG, ShardState()))
    yield made
    made.close()


def test_page_is_parsed_archived_and_indexed(shard: ShardWriter, tmp_path: Path) -> None:
    html = b"<html lang=en><title>Voles</title><p>voles eat grass <a href=/more>more</a>"
    parsed = shard.process_outcome(
        5, page("http://example.org/v", gzip.compress(html), depth=2, content_encoding="gzip")
    )
    told = row(parsed)
    assert (parsed.number, parsed.batch, parsed.kind) == (5, 1, "page")
    assert [(link.url, link.depth, link.via) for link in parsed.links] == [
        ("http://example.org/more", 3, "http://example.org/v")
    ]
    assert (told.title, told.language, told.charset, told.mime) == ("Voles", "en", "utf-8", "text/html")
    assert (told.size, told.links, told.indexed, told.status) == (len(html), 1, True, 200)
    assert told.digest.startswith("sha1:")
    assert told.offset > 0
    shard.prepare_commit()
    assert [hit.url for hit in search_crawl(tmp_path, "voles")] == ["http://example.org/v"]


def test_bomb_is_a_failure_with_reason(shard: ShardWriter) -> None:
    bomb = gzip.compress(gzip.compress(bytes(300_000_000)))
    parsed = shard.process_outcome(1, page(body=bomb, content_encoding="gzip, gzip"))
    assert (parsed.kind, parsed.reason) == ("failed", OutcomeReason.DECOMPRESSION_BOMB.value)
    assert not row(parsed).indexed
    assert row(parsed).warc


def test_broken_encoding_keeps_the_part_before_the_error(shard: ShardWriter) -> None:
    whole = gzip.compress(b"<a href=/x>x</a>" + bytes(range(256)) * 400)
    half = row(shard.process_outcome(1, page(body=whole[: len(whole) // 2], content_encoding="gzip")))
    assert half.kind == "page"
    assert OutcomeReason.BAD_ENCODING.value in half.detail
    junk = row(shard.process_outcome(2, page("http://example.org/j", b"\x1f\x8b junk", content_encoding="gzip")))
    assert (junk.kind, junk.reason) == ("failed", OutcomeReason.BAD_ENCODING.value)


@pytest.mark.parametrize(
    ("coding", "pack"), [("", bytes), ("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress)]
)
def test_cut_body_is_reported_encoded_or_plain(shard: ShardWriter, coding: str, pack: Callable[[bytes], bytes]) -> None:
    whole = pack(b"<a href=/x>x</a>" + random.Random(1).randbytes(300_000))
    cut = row(shard.process_outcome(1, page(body=whole[:200_000], content_encoding=coding, truncated="length")))
    assert (cut.kind, cut.detail) == ("page", "cut by the limit on length")
    told = list(explain._describe_outcome(cut))
    assert any("cut by the limit on length" in sentence for sentence in told)


def test_robots_rules_are_obeyed(shard: ShardWriter, tmp_path: Path) -> None:
    hidden = shard.process_outcome(1, page("http://example.org/1", b"secret <a href=/a>", x_robots_tag="noindex"))
    still = shard.process_outcome(
        2, page("http://example.org/2", b"<meta name=robots content=nofollow>open <a href=/b>")
    )
    assert [link.url for link in hidden.links] == ["http://example.org/a"]
    assert not row(hidden).indexed
    assert still.links == ()
    assert row(still).indexed
    shard.prepare_commit()
    assert search_crawl(tmp_path, "secret") == []
    assert len(search_crawl(tmp_path, "open")) == 1


def test_redirect_is_archived_and_followed(shard: ShardWriter) -> None:
    link = Request(Url("http://example.org/old"), depth=4)
    parsed = shard.process_outcome(1, Moved(link, response(b"", status=301), Url("http://example.org/new")))
    assert parsed.kind == "moved"
    assert row(parsed).target == "http://example.org/new"
    assert [(one.url, one.depth, one.kind) for one in parsed.links] == [
        ("http://example.org/new", 4, RequestKind.REDIRECT)
    ]


def test_a_sitemap_is_read_for_its_urls(shard: ShardWriter, tmp_path: Path) -> None:
    index = b"<sitemapindex><sitemap><loc>http://example.org/s2.xml</loc></sitemap></sitemapindex>"
    urls = b"<urlset><url><loc>/a</loc></url><url><loc>/b</loc></url></urlset>"
    first = shard.process_outcome(
        1, page("http://example.org/s1.xml", index, kind=RequestKind.SITEMAP, mime="text/xml")
    )
    second = shard.process_outcome(
        2, page("http://example.org/s2.xml", urls, kind=RequestKind.SITEMAP, mime="text/xml")
    )
    assert [(link.url, link.kind) for link in first.links] == [("http://example.org/s2.xml", RequestKind.SITEMAP)]
    assert [(link.url, link.kind) for link in second.links] == [
        ("http://example.org/a", RequestKind.PAGE),
        ("http://example.org/b", RequestKind.PAGE),
    ]
    assert row(second).kind == "page"
    assert row(second).indexed


@pytest.mark.parametrize(
    "body",
    [
        b"<urlset><url><loc>/a</loc></url><url><loc>/b</loc></url><url><loc>/c",
        b"http://example.org/a\nhttp://example.org/b\nhttp://example.org/c",
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_cut_sitemap_gives_its_complete_entries(shard: ShardWriter, body: bytes, packed: bool) -> None:
    url, kind = "http://example.org/s", RequestKind.SITEMAP
    wanted = ["http://example.org/a", "http://example.org/b"]
    if packed:  # stored without compression, so that the cut is at the same place as in `body`
        whole = gzip.compress(body + b"/and/more", compresslevel=0)
        cut = page(url, whole[: -8 - 9], kind=kind, content_encoding="gzip")
    else:
        cut = page(url, body, kind=kind, truncated="length")
    assert [link.url for link in shard.process_outcome(1, cut).links] == wanted


def test_sitemap_of_a_closed_connection_gives_its_complete_entries(shard: ShardWriter) -> None:
    link = Request(Url("http://example.org/s.txt"), kind=RequestKind.SITEMAP)
    answer = response(b"http://example.org/a\nhttp://example.org/b", truncated="disconnect")
    parsed = shard.process_outcome(1, Failed(link, OutcomeReason.CONNECTION_CLOSED, NOW, response=answer))
    assert (parsed.kind, parsed.reason) == ("failed", OutcomeReason.CONNECTION_CLOSED.value)
    assert [link.url for link in parsed.links] == ["http://example.org/a"]
    page_link = Request(Url("http://example.org/p"))
    html = response(b"<a href=/x>", truncated="disconnect")
    assert not shard.process_outcome(2, Failed(page_link, OutcomeReason.CONNECTION_CLOSED, NOW, response=html)).links


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("0; url=/next", ["http://example.org/next"]),
        ("5;URL='../n\xc3\xa4chste'", ["http://example.org/n%C3%A4chste"]),
        ("0; url=http://example.org/n\xe4chste", ["http://example.org/n%C3%A4chste"]),
        ("30", []),
        ("now", []),
    ],
)
@pytest.mark.parametrize("mime", ["text/html", "text/plain", "image/png"])
def test_a_refresh_header_is_followed_like_a_link(
    shard: ShardWriter, header: str, wanted: list[str], mime: str
) -> None:
    asked = page("http://example.org/dir/", b"<base href=/elsewhere/>", mime=mime, refresh=header)
    assert [link.url for link in shard.process_outcome(1, asked).links] == wanted


def test_refresh_header_of_a_nofollow_page_is_not_followed(shard: ShardWriter) -> None:
    asked = page(body=b"<p>x", refresh="0; url=/next", x_robots_tag="nofollow")
    assert not shard.process_outcome(1, asked).links


def test_failures_and_robots_txt_are_archived_but_not_indexed(shard: ShardWriter) -> None:
    link = Request(Url("http://example.org/gone"))
    gone = shard.process_outcome(1, Failed(link, OutcomeReason.CLIENT_ERROR, NOW, response=response(b"no", status=404)))
    rules = shard.process_outcome(
        0, page("http://example.org/robots.txt", b"User-agent: *", kind=RequestKind.ROBOTS_TXT)
    )
    silent = shard.process_outcome(2, Failed(link, OutcomeReason.CRASHED, NOW, "why"))
    same = shard.process_outcome(3, Unchanged(link, response(b"", status=304)))
    assert [row(one).warc != "" for one in (gone, rules, silent, same)] == [True, True, False, True]
    assert [one.kind for one in (gone, silent, same)] == ["failed", "failed", "unchanged"]
    assert row(gone).status == 404
    assert row(silent).detail == "why"


def test_the_same_bytes_are_stored_once(shard: ShardWriter, tmp_path: Path) -> None:
    body = story(1)
    first = row(shard.process_outcome(1, page("http://example.org/1", body)))
    before = shard.prepare_commit().warc_length
    second = row(shard.process_outcome(2, page("http://example.org/2", body)))
    assert first.digest == second.digest
    assert second.duplicate_of == "http://example.org/1"
    shard.mark_committed(1)
    third = row(shard.process_outcome(3, page("http://example.net/3", body)))
    assert third.duplicate_of == "http://example.org/1"
    assert shard.prepare_commit().warc_length > before
    assert len(search_crawl(tmp_path, "unique1")) == 3  # a duplicate is a page, too


def test_near_duplicates_are_recorded(shard: ShardWriter) -> None:
    words = story(1, words=900)
    shard.process_outcome(1, page("http://example.org/1", words))
    shard.prepare_commit()
    shard.mark_committed(1)
    near = row(shard.process_outcome(2, page("http://example.org/2", words + b" and one more")))
    far = row(shard.process_outcome(3, page("http://example.org/3", story(2, words=900))))
    assert near.near_duplicate_of == "http://example.org/1"
    assert near.duplicate_of == ""
    assert far.near_duplicate_of == ""


@pytest.mark.parametrize("mime", ["text/plain", "application/pdf", "image/png", "", "garbage"])
def test_every_stored_page_has_one_document(shard: ShardWriter, tmp_path: Path, mime: str) -> None:
    told = row(shard.process_outcome(1, page("http://example.org/x", b"some wordsinside here", mime=mime)))
    assert told.kind == "page"
    assert told.indexed
    shard.prepare_commit()
    assert len(search_crawl(tmp_path, "wordsinside")) == (mime == "text/plain")


def test_shard_is_restored_to_the_given_state(tmp_path: Path) -> None:
    def urls() -> set[str]:
        return {hit.url for hit in search_crawl(tmp_path, "story", limit=100)}

    config: PageProcessingConfig = msgspec.structs.replace(CONFIG, generation=2000)
    shard = ShardWriter(LockedShard(tmp_path, 0, config, ShardState()))
    counted = set()
    states = [ShardState()]
    for batch in range(1, 6):
        for number in range(4):
            url = f"http://example.org/{batch}/{number}"
            shard.process_outcome(1, page(url, story(10 * batch + number)))
            if batch <= 3:
                counted.add(url)
        states.append(shard.prepare_commit())
        shard.mark_committed(batch)
    assert states[3].generation > 0  # otherwise there is only one generation
    shard.process_outcome(1, page("http://example.org/torn", story(99)))
    shard.close()
    del shard
    again = ShardWriter(LockedShard(tmp_path, 0, config, states[3]))
    again.prepare_commit()
    assert urls() == counted
    parsed = again.process_outcome(1, page("http://example.org/4/0", story(40)))
    assert parsed.batch == states[3].batch + 2
    again.prepare_commit()
    assert urls() == counted | {"http://example.org/4/0"}
    again.close()


def test_refetched_page_replaces_its_older_version(shard: ShardWriter, tmp_path: Path) -> None:
    shard.process_outcome(1, page("http://example.org/", b"older words"))
    shard.prepare_commit()
    fresh = page("http://example.org/", b"newer words")
    shard.process_outcome(
        2, msgspec.structs.replace(fresh, link=msgspec.structs.replace(fresh.link, door=FrontierEntry.POLLED))
    )
    shard.prepare_commit()
    assert search_crawl(tmp_path, "older") == []
    assert len(search_crawl(tmp_path, "words")) == 1
