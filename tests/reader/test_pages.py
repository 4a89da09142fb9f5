"""Stored pages: the same by every way of access, and equal to the record that warcio reads."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import brotli
import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

import fieldmouse
from fieldmouse.cli import main
from fieldmouse.errors import NotACrawl, UsageError
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.page import StoredPage
from fieldmouse.search.snapshot import remove_index_directory
from whole.virtual_time import bottled_crawl

from .conftest import QUICK
from .smallweb import HOME, PAGES, STORED, SmallWeb


@pytest.fixture
def room(small_crawl: Path) -> CrawlReader:
    return CrawlReader(small_crawl)


def test_a_reader_works_after_chdir(small_crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small_crawl.parent)
    room = fieldmouse.open(small_crawl.name)
    page = next(room.pages())
    monkeypatch.chdir(tmp_path)
    assert page.body
    assert room.page(page.url)
    assert room.status().pages == len(list(room.pages())) == len(STORED)
    assert room.search("voles")


def test_a_reader_of_a_deleted_crawl_raises_and_reads_a_new_crawl_in_its_place(
    small_crawl: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_crawl, tmp_path / "c")
    room = fieldmouse.open(tmp_path / "c")
    remove_index_directory(tmp_path / "c")
    for question in (room.status, lambda: list(room.pages()), lambda: room.search("voles"), room.doctor):
        with pytest.raises(NotACrawl):
            question()
    bottled_crawl(tmp_path / "c", SmallWeb, [HOME + "/plain.txt"], **QUICK)
    assert all(finding.healthy for finding in room.doctor())
    assert room.page(HOME + "/plain.txt")


def by_path(room: CrawlReader) -> dict[str, StoredPage]:
    return {page.url.removeprefix(HOME): page for page in room.pages()}


def test_pages_are_the_2xx_responses_except_robots_txt(room: CrawlReader) -> None:
    pages = [page.url for page in room.pages()]
    assert sorted(pages) == sorted(STORED)


def test_four_ways_to_a_page_give_the_same_page(room: CrawlReader, tmp_path: Path) -> None:
    assert main.run_command(["export", str(room.path), "--to", str(tmp_path / "rows.jsonl")]) == 0
    exported = {row["url"]: row for row in map(json.loads, (tmp_path / "rows.jsonl").open())}
    pages = {page.url: page for page in room.pages()}
    assert list(exported) == list(pages), "the same order, too"
    for url, page in pages.items():
        alone = room.page(url)
        assert alone is not None
        assert (alone.row, alone.body, alone.text, alone.links) == (page.row, page.body, page.text, page.links)
        row = exported[url]
        for name in ("url", "status", "title", "mime", "language", "depth", "via", "found_as", "size"):
            assert row[name] == getattr(page, name), name
        assert datetime.fromisoformat(row["fetched_at"]) == page.fetched_at
    for hit in room.search("mouse OR fern OR voles OR map", limit=50):
        page = pages[hit.url]
        assert hit.title == page.title
        marked = hit.snippet.replace("**", "").split()
        assert not marked or " ".join(marked) in " ".join(page.text.split())


def test_a_body_equals_what_warcio_reads_and_a_duplicate_has_its_originals(room: CrawlReader) -> None:
    told: dict[str, tuple[bytes, Any]] = {}
    revisits: dict[str, str] = {}
    for file in sorted((room.path / "archive").glob("*.warc.gz")):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream):
                uri = record.rec_headers.get_header("WARC-Target-URI")
                if record.rec_type == "response":
                    # warcio cannot decode brotli with the library installed here.
                    packed = record.http_headers.get_header("Content-Encoding") == "br"
                    body = record.raw_stream.read() if packed else record.content_stream().read()
                    told[uri] = (brotli.decompress(body) if packed else body, record.http_headers)
                elif record.rec_type == "revisit":
                    revisits[uri] = record.rec_headers.get_header("WARC-Refers-To-Target-URI")
    assert revisits, "there is a twin"
    for page in room.pages():
        body, heads = told[revisits.get(page.url, page.url)]
        assert page.body == body, page.url
        if page.url not in revisits:
            assert [page.headers[name] for name in page.headers] == [heads[name] for name in page.headers]
        assert len(page.body) == page.size


def test_bodies_are_decoded_and_headers_are_as_received(room: CrawlReader) -> None:
    pages = by_path(room)
    for path, (headers, body) in PAGES.items():
        if path == "/robots.txt":
            continue
        unpack = gzip.decompress if "gzip" in headers else brotli.decompress if " br" in headers else bytes
        assert pages[path].body == unpack(body), path
        assert pages[path].headers["content-TYPE"].partition(";")[0] == pages[path].mime
    assert pages["/brotli.html"].headers.all("Set-Cookie") == ["a=1", "b=2"]
    assert pages["/brotli.html"].headers["set-cookie"] == "a=1"


def test_text_and_links_are_parsed_from_the_archive(room: CrawlReader) -> None:
    pages = by_path(room)
    assert pages["/zipped.html"].text.startswith("Grüße aus dem Garten")
    assert pages["/plain.txt"].text.startswith("no title")
    assert pages["/plain.txt"].title == pages["/empty.html"].text == ""
    assert pages["/latin.html"].title == "Café"
    links = pages["/"].links
    assert HOME + "/" not in links, "a page does not tell of itself"
    assert "http://elsewhere.example/" in links, "out of scope, and still a link"
    assert links.count(HOME + "/zipped.html") == 1
    assert HOME + "/no.html" not in links
    assert pages["/map.xml"].links == [HOME + "/mapped.html"]
    assert pages["/feed.rss"].links == [HOME + "/fed.html"]
    assert pages["/twin-1.html"].links == pages["/twin-2.html"].links == [HOME + "/plain.txt"]
    assert (pages["/map.xml"].found_as, pages["/feed.rss"].found_as) == ("sitemap", "feed")


def test_a_url_is_normalised_as_in_the_crawler(room: CrawlReader) -> None:
    for spelling in (" HTTP://127.0.0.1:8000/a/../plain.txt#x ", HOME + "/plain.txt;jsessionid=12AB"):
        page = room.page(spelling)
        assert page is not None
        assert page.url == HOME + "/plain.txt"
    assert room.page(HOME + "/gone.html") is None
    assert room.page(HOME + "/robots.txt") is None
    with pytest.raises(UsageError, match="is no URL"):
        room.page("plain.txt")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "http://127.0.0.1:8000/"])
def test_pages_can_be_filtered_by_host(room: CrawlReader, host: str) -> None:
    assert len(list(room.pages(host=host))) == len(STORED)
    assert list(room.pages(host="1" + host.removeprefix("http://"))) == []


def test_pages_from_a_negative_offset_raises_a_usage_error(room: CrawlReader) -> None:
    with pytest.raises(UsageError, match="offsets begin at 0"):
        list(room.pages_from_offset(-1))


def test_pages_from_an_offset_continue_after_the_last_page(room: CrawlReader) -> None:
    everything = [(page.url, end) for page, end in room.pages_from_offset(0)]
    assert [url for url, _ in everything] == [page.url for page in room.pages()]
    for number, (_, end) in enumerate(everything, 1):
        assert [(page.url, end) for page, end in room.pages_from_offset(end)] == everything[number:]


def test_display_of_a_page_does_not_read_the_archive(room: CrawlReader) -> None:
    page = room.page(HOME + "/twin-1.html")
    assert page is not None
    assert repr(page).startswith(f"<StoredPage {HOME}/twin-1.html 'Twins' 200 text/html")
    assert "<b>Twins</b>" in page._repr_html_()
    assert repr(room).startswith(f"<CrawlReader `{room.path}` is done: {len(STORED)} pages from 1 host")


def test_open_without_a_crawl_raises(tmp_path: Path) -> None:
    with pytest.raises(NotACrawl):
        CrawlReader(tmp_path)
    with pytest.raises(NotACrawl):
        CrawlReader(os.fspath(tmp_path / "nowhere"))


def test_export_does_not_mix_rows_and_messages(small_crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["export", str(small_crawl), "--to", "-", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert "both write to standard output" in told["error"]
    assert main.run_command(["export", str(small_crawl), "--to", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(STORED)


def test_doctor_restores_the_resource_limits_of_the_process(small_crawl: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = (min(before[0], before[1] - 1), before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, few)
    try:
        assert all(finding.healthy for finding in CrawlReader(small_crawl).doctor())
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == few
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
