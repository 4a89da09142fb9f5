"""Search: ranked, merged over shards, with marked snippets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmouse.errors import UsageError
from fieldmouse.indexer.search import search
from fieldmouse.indexer.shard import Shard
from fieldmouse.indexer.wire import ShardState
from indexer.answers import CONFIG, page

PAGES = {
    "http://a.example/1": b"<title>Field mice</title><p>A field mouse eats seeds &amp; grain in the field.",
    "http://a.example/2": b"<title>Barns</title><p>Grain is kept in a barn. Mice know. The field is far.",
    "http://b.example/3": b"<title>Owls</title><p>Owls hunt at night over the <b>field</b>; they hear mice.",
    "http://b.example/4": b"<title>Copy</title><link rel=canonical href=/3><p>Owls hunt at night again.",
}


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    shards = [Shard(tmp_path, number, CONFIG, ShardState()) for number in range(1)]
    for number, (url, body) in enumerate(PAGES.items()):
        shards[0].take(number, page(url, body))
    for shard in shards:
        shard.prepare()
        shard.close()
    return tmp_path


def found(crawl: Path, words: str, limit: int = 10) -> list[str]:
    return [hit.url for hit in search(crawl, words, limit)]


def test_all_words_must_occur_unless_said_otherwise(crawl: Path) -> None:
    assert set(found(crawl, "grain field")) == {"http://a.example/1", "http://a.example/2"}
    assert set(found(crawl, "seeds OR owls")) == {"http://a.example/1", "http://b.example/3"}
    assert set(found(crawl, "grain -barn")) == {"http://a.example/1"}


def test_a_phrase_is_looked_for_as_it_stands(crawl: Path) -> None:
    assert found(crawl, '"hunt at night over"') == ["http://b.example/3"]
    assert found(crawl, '"night at hunt"') == []


def test_titles_weigh_more(crawl: Path) -> None:
    assert found(crawl, "field")[0] == "http://a.example/1"
    assert found(crawl, "title:owls") == ["http://b.example/3"]


def test_hits_come_best_first_and_no_more_than_asked(crawl: Path) -> None:
    hits = search(crawl, "field", 10)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert found(crawl, "field", 2) == [hit.url for hit in hits[:2]]
    assert found(crawl, "field", 0) == []


def test_snippets_mark_the_words_and_read_as_text(crawl: Path) -> None:
    (hit,) = search(crawl, "seeds")
    assert "**seeds** & grain" in hit.snippet
    assert "<" not in hit.snippet


def test_a_copy_stands_behind_its_canonical_page(crawl: Path) -> None:
    assert found(crawl, "hunt") == ["http://b.example/3"]
    assert found(crawl, "again") == ["http://b.example/4"]


@pytest.mark.parametrize("words", ['"unclosed', "a:(", "nosuchfield:x", "((", "AND"])
def test_a_question_that_makes_no_sense_gets_a_hint(crawl: Path, words: str) -> None:
    with pytest.raises(UsageError) as trouble:
        search(crawl, words)
    assert trouble.value.hint


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert search(tmp_path, "anything") == []
    Shard(tmp_path, 0, CONFIG, ShardState()).close()
    assert search(tmp_path, "anything") == []
    assert search(tmp_path, "   ") == []
