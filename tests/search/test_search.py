"""Tests of search: ranking, merging over shards, marked snippets."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.search.search import search_crawl
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.workers.shard_writer import LockedShard, ShardWriter
from workers.responses import CONFIG, page

PAGES = {
    "http://a.example/1": b"<title>Field mice</title><p>A field mouse eats seeds &amp; grain in the field.",
    "http://a.example/2": b"<title>Barns</title><p>Grain is kept in a barn. Mice know. The field is far.",
    "http://b.example/3": b"<title>Owls</title><p>Owls hunt at night over the <b>field</b>; they hear mice.",
    "http://b.example/4": b"<title>Copy</title><link rel=canonical href=/3><p>Owls hunt at night again.",
}


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    return _filled(tmp_path)


def _filled(tmp_path: Path) -> Path:
    shards = [ShardWriter(LockedShard(tmp_path, number, CONFIG, ShardState())) for number in range(1)]
    for number, (url, body) in enumerate(PAGES.items()):
        shards[0].process_outcome(number, page(url, body))
    for shard in shards:
        shard.prepare_commit()
        shard.close()
    return tmp_path


def found(crawl: Path, words: str, limit: int = 10) -> list[str]:
    return [hit.url for hit in search_crawl(crawl, words, limit)]


def test_all_words_must_occur_by_default(crawl: Path) -> None:
    assert set(found(crawl, "grain field")) == {"http://a.example/1", "http://a.example/2"}
    assert set(found(crawl, "seeds OR owls")) == {"http://a.example/1", "http://b.example/3"}
    assert set(found(crawl, "grain -barn")) == {"http://a.example/1"}


@pytest.mark.parametrize("words", ["grüße", "GRÜSSE", "Grüße", "GRÜẞE", '"viele GRÜSSE"', "grüße OR owls"])
def test_search_ignores_case(tmp_path: Path, words: str) -> None:
    """In capitals the letter ß is two, and users do not know how a page writes it."""
    shard = ShardWriter(LockedShard(tmp_path, 0, CONFIG, ShardState()))
    texts = ("Viele Grüße", "VIELE GRÜSSE", "Viel Gruesse")
    for number, text in enumerate(texts):
        shard.process_outcome(number, page(f"http://a.example/{number}", f"<p>{text} aus dem Garten".encode()))
    shard.prepare_commit()
    shard.close()
    assert sorted(found(tmp_path, words)) == ["http://a.example/0", "http://a.example/1"]
    assert found(tmp_path, f"garten -{words.split(' OR')[0]}") == ["http://a.example/2"]


def test_phrase_matches_exactly(crawl: Path) -> None:
    assert found(crawl, '"hunt at night over"') == ["http://b.example/3"]
    assert found(crawl, '"night at hunt"') == []


def test_titles_weigh_more(crawl: Path) -> None:
    assert found(crawl, "field")[0] == "http://a.example/1"
    assert found(crawl, "title:owls") == ["http://b.example/3"]


def test_hits_are_sorted_and_limited(crawl: Path) -> None:
    hits = search_crawl(crawl, "field", 10)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert found(crawl, "field", 2) == [hit.url for hit in hits[:2]]
    assert found(crawl, "field", 0) == []


def test_snippets_mark_the_words_and_are_plain_text(crawl: Path) -> None:
    (hit,) = search_crawl(crawl, "seeds")
    assert "**seeds** & grain" in hit.snippet
    assert "<" not in hit.snippet
    assert "".join(f"**{text}**" if found else text for text, found in hit.pieces) == hit.snippet
    assert [text for text, found in hit.pieces if found] == ["seeds"]


def test_page_is_omitted_if_its_canonical_page_is_a_hit(crawl: Path) -> None:
    assert found(crawl, "hunt") == ["http://b.example/3"]
    assert found(crawl, "again") == ["http://b.example/4"]


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        ("seeds & grain", "1"),
        ("(seeds)", "1"),
        ("seeds:grain", "1"),
        ('"unclosed', ""),
        ('seeds "', "1"),
        ("grain AND barn", ""),
        ("NOT barn", ""),
        ("grain -barn --seeds", "1"),
        ("title:", ""),
        ("((", ""),
        ("owls OR", ""),
        ("OR", ""),
        ("seeds OR -owls", ""),
        ('"field mouse", seeds', "1"),
        ("-grain mice", "3"),
        ("host:a.example grain", "12"),
        ("host:example hunt", "3"),
        ("-host:b.example field", "12"),
        ("host:A.EXAMPLE seeds", "1"),
        ("host:http://b.example/x night", "3"),
        ("host:a.example OR owls -barn", "13"),
        ("host: field", ""),
        ('-"owls hunt" -title:barns field', "1"),
        ('title:"field mice"', "1"),
    ],
)
def test_typical_queries_are_parsed(crawl: Path, words: str, pages: str) -> None:
    assert {url[-1] for url in found(crawl, words)} == set(pages)


_ODD = st.sampled_from(
    [
        "don't",
        "fsync()",
        "std::vector",
        "O(n",
        "log",
        "n)",
        "--amend",
        "#include",
        "<vector>",
        "C:\\path",
        '"',
        "'",
        "OR",
        "AND",
        "NOT",
        "TO",
        "IN",
        "-",
        "--",
        "+",
        "++",
        "title:",
        "host:",
        "title:x",
        "nosuch:x",
        "[a",
        "TO",
        "b]",
        "{",
        "}",
        "a^2",
        "a~1",
        "a*",
        "?",
        "*",
        ":",
        "::",
        "\\",
        "/x/",
        "(",
        ")",
        "&&",
        "||",
        "!",
        "\U0001f42d",
        "日本語",
        "мышь",
        "עכבר",
        "\0",
        "\x1b[31m",
        "\u202e",
        "e\u0301",
        "mice",
        "field",
        "%",
        "$HOME",
        "`ls`",
        "a" * 300,
    ]
)


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(st.text(max_size=60), st.lists(_ODD, max_size=8).map(" ".join), st.lists(_ODD, max_size=8).map("".join))
)
def test_no_query_is_an_error(words: str) -> None:
    if not _ONE:
        _ONE.append(tempfile.TemporaryDirectory())
        _filled(Path(_ONE[0].name))
    found(Path(_ONE[0].name), words)


_ONE: list[tempfile.TemporaryDirectory[str]] = []


def test_query_of_ten_thousand_characters_works(crawl: Path) -> None:
    assert found(crawl, "mice " * 2000) == found(crawl, "mice")
    assert found(crawl, " OR ".join(f"w{n}" for n in range(1500)) + " OR seeds") == ["http://a.example/1"]
    assert found(crawl, "(" * 10_000) == []
    assert found(crawl, '"' * 9_999) == []


def test_empty_crawl_has_no_hits(tmp_path: Path) -> None:
    assert search_crawl(tmp_path, "anything") == []
    ShardWriter(LockedShard(tmp_path, 0, CONFIG, ShardState())).close()
    assert search_crawl(tmp_path, "anything") == []
    assert search_crawl(tmp_path, "   ") == []


def test_old_generation_without_hosts_is_searched_and_kept(tmp_path: Path) -> None:
    """An older schema: `host:` checks its URLs, newer batches are undone, and new pages go beside it."""
    path = tmp_path / "index" / "shard-0" / "00000"
    path.mkdir(parents=True)
    builder = tantivy.SchemaBuilder()
    for field in ("title", "text"):
        builder.add_text_field(field, stored=True)
    for field in ("url", "canonical"):
        builder.add_bytes_field(field, stored=True)
    for field in ("key", "batch"):
        builder.add_unsigned_field(field, indexed=True)
    old = tantivy.Index(builder.build(), str(path))
    writer = old.writer(num_threads=1)
    for number, host in enumerate(("old.example", "other.example", "undone.example"), 1):
        document = tantivy.Document(title="Old", text="an old mouse", url=f"http://{host}/".encode())
        document.add_unsigned("key", number)
        document.add_unsigned("batch", 1 if number < 3 else 2)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    shard = ShardWriter(LockedShard(tmp_path, 0, CONFIG, ShardState(batch=1, generation_bytes=30)))
    shard.process_outcome(1, page("http://new.example/", b"<title>New</title><p>a new mouse"))
    state = shard.prepare_commit()
    shard.close()
    assert state.generation == 1
    expected = {f"http://{name}.example/" for name in ("old", "other", "new")}
    assert set(found(tmp_path, "mouse")) == expected
    assert found(tmp_path, "mouse host:old.example") == ["http://old.example/"]
    assert found(tmp_path, "mouse host:new.example") == ["http://new.example/"]
    assert set(found(tmp_path, "mouse -host:other.example")) == {"http://old.example/", "http://new.example/"}
