"""Tests of user-supplied readers and link filters."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fieldmouse.parse.content import READERS, load_readers
from fieldmouse.plugins.runner import CallObserver, PluginConfig
from fieldmouse.search.search import search_crawl
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Moved, OutcomeRow, Page, WorkerResult
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Url
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter
from workers.responses import CONFIG, page, response

NOTE = b"Field notes\n/burrow http://else.example/\nThe vole of the meadow sleeps"


def taken(
    directory: Path, answer: Page | Moved, *, bare: bool = False, **names: object
) -> tuple[WorkerResult, OutcomeRow]:
    """The result of a shard with these plug-ins for a response, after a checkpoint."""
    own = {"patience": 0.2, **names}
    config = msgspec.structs.replace(CONFIG, plugins=PluginConfig(**own))  # type: ignore[arg-type]
    shard = ShardWriter(LockedShard(directory, 0, config, ShardState()))
    try:
        parsed = shard.process_outcome(1, answer, bare=bare)
        shard.prepare_commit()
    finally:
        shard.close()
    return parsed, msgspec.msgpack.decode(parsed.row, type=OutcomeRow)


def note(url: str = "http://example.org/n", body: bytes = NOTE, **headers: str) -> Page:
    return page(url, body, mime="text/x-note", **headers)


def reading(name: str) -> dict[str, object]:
    return {"readers": {"text/x-note": f"hostile_mice:{name}"}}


def test_user_readers_are_added_to_the_table_of_built_in_readers() -> None:
    assert {"text/html", "text/plain", "sitemap"} <= READERS.keys()
    own = load_readers(PluginConfig(readers={"text/html": "hostile_mice:read_notes"}), CallObserver())
    assert own.keys() == READERS.keys()
    assert own["text/html"] is not READERS["text/html"]


def test_user_reader_makes_a_document_indexed_and_followed(tmp_path: Path) -> None:
    parsed, told = taken(tmp_path, note(), **reading("read_notes"))
    assert [link.url for link in parsed.links] == ["http://example.org/burrow", "http://else.example/"]
    assert (told.title, told.words, told.links, told.detail) == ("Field notes", 6, 2, "")
    assert [hit.title for hit in search_crawl(tmp_path, "vole")] == ["Field notes"]


def test_document_without_a_reader_is_stored_unread(tmp_path: Path) -> None:
    parsed, told = taken(tmp_path, note())
    assert (parsed.links, told.title, told.words, told.kind) == ((), "", 0, "page")


def test_robots_rules_apply_to_documents_of_user_readers(tmp_path: Path) -> None:
    parsed, told = taken(tmp_path, note(x_robots_tag="noindex, nofollow"), **reading("read_notes"))
    assert (parsed.links, told.indexed) == ((), False)


def test_reader_may_return_plain_text_or_none(tmp_path: Path) -> None:
    words = "Mäuse in UTF-16".encode("utf-16")
    _, told = taken(tmp_path / "a", note(body=words), **reading("read_words"))
    assert (told.words, told.detail) == (3, "")
    _, told = taken(tmp_path / "b", note(), **reading("read_nothing"))
    assert (told.words, told.detail) == (0, "")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("read_rubbish", "gave a `PageText` that holds something else than text"),
        ("read_for_ever", "took longer than 0.2 s"),
        ("raises", "raised KeyError: 'price'"),
        ("leaves", "raised SystemExit: enough"),
        ("no_rows", "gave an `int` and not a `PageText` or text"),
    ],
)
def test_failing_reader_loses_only_the_text_and_is_named(tmp_path: Path, name: str, says: str) -> None:
    parsed, told = taken(tmp_path, note(), **reading(name))
    assert (told.kind, told.words, parsed.links) == ("page", 0, ())
    assert told.detail == f"`hostile_mice:{name}` {says}"
    assert parsed.complaint == f"{told.detail}, on http://example.org/n"


def test_unstorable_text_of_a_reader_is_sanitized_and_cut(tmp_path: Path) -> None:
    parsed, told = taken(tmp_path / "a", note(), **reading("read_half_characters"))
    assert (told.title, told.words, told.detail) == ("a ? b", 2, "")
    assert [link.url for link in parsed.links] == ["http://example.org/?"]
    assert [hit.url for hit in search_crawl(tmp_path / "a", "vole")] == ["http://example.org/n"]
    _, told = taken(tmp_path / "b", note(), **reading("read_hugely"))
    assert len(told.title) == 300
    assert told.words < 300_000


def test_sitemap_stays_a_sitemap_whatever_reader_its_type_has(tmp_path: Path) -> None:
    listing = b"<urlset><url><loc>http://example.org/a</loc></url></urlset>"
    answer = page("http://example.org/s.xml", listing, kind=RequestKind.SITEMAP, mime="text/x-note")
    parsed, _ = taken(tmp_path, answer, **reading("raises"))
    assert [link.url for link in parsed.links] == ["http://example.org/a"]


def test_bare_pages_are_read_without_plugins(tmp_path: Path) -> None:
    _, told = taken(tmp_path / "a", note(), bare=True, **reading("read_notes"))
    assert told.detail == "`hostile_mice:read_notes` was left out: plug-ins brought workers down"
    parsed, told = taken(tmp_path / "b", _links(2), bare=True, admit="hostile_mice:only_even")
    assert parsed.links == (), "a link that nobody was asked about is not followed"
    assert told.detail.startswith("`hostile_mice:only_even` was left out (on http://example.org/0 and 1 more")


# -- link filter


def _links(count: int, extra: str = "") -> Page:
    anchors = "".join(f"<a href=/{number}>x</a>" for number in range(count))
    return page("http://example.org/start", f"<title>t</title>{anchors}{extra}".encode())


def test_only_admitted_links_are_followed(tmp_path: Path) -> None:
    parsed, told = taken(tmp_path, _links(6), admit="hostile_mice:only_even")
    assert [link.url for link in parsed.links] == [f"http://example.org/{n}" for n in (0, 2, 4)]
    assert told.detail == ""


def test_exception_in_admit_drops_that_link(tmp_path: Path) -> None:
    answer = _links(4, "<a href=/shrew>x</a><a href=/vole>x</a>")
    parsed, told = taken(tmp_path, answer, admit="hostile_mice:only_even")
    assert [link.url for link in parsed.links] == ["http://example.org/0", "http://example.org/2"]
    assert told.detail.startswith("`hostile_mice:only_even` raised ValueError: invalid literal")
    assert told.detail.endswith("(on http://example.org/shrew and 1 more links)")
    assert parsed.complaint.startswith(told.detail)


def test_admit_is_not_called_for_the_rest_of_a_page_after_repeated_timeouts(tmp_path: Path) -> None:
    parsed, told = taken(tmp_path, _links(10), admit="hostile_mice:late_for_odd")
    assert [link.url for link in parsed.links] == [f"http://example.org/{n}" for n in (0, 2, 4)]
    assert "took longer than 0.2 s (on http://example.org/1 and 6 more links)" in told.detail


def test_admit_is_called_for_redirects_and_sitemaps(tmp_path: Path) -> None:
    moved = Moved(Request(Url("http://example.org/old")), response(b"", status=301), Url("http://example.org/new"))
    asked = {"admit": "hostile_mice:wants_what_it_knows"}
    parsed, told = taken(tmp_path / "a", moved, **asked)
    assert (parsed.kind, parsed.links, told.target) == ("moved", (), "http://example.org/new")
    listing = b"<urlset><url><loc>http://example.org/a</loc></url></urlset>"
    answer = page("http://example.org/s.xml", listing, kind=RequestKind.SITEMAP, mime="text/xml")
    parsed, _ = taken(tmp_path / "b", answer, **asked)
    assert [link.url for link in parsed.links] == ["http://example.org/a"]
