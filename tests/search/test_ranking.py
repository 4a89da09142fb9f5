"""Tests of ranking: many shards and generations rank as one index with all pages."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

import msgspec
import pytest

from fieldmouse.search import search
from fieldmouse.search import search as ranking
from fieldmouse.search.index import IndexWriter
from fieldmouse.search.search import Hit
from fieldmouse.storage.checkpoint import ShardState
from workers.responses import CONFIG

TINY = msgspec.structs.replace(CONFIG, generation=3_500)
WHOLE = msgspec.structs.replace(CONFIG, generation=1 << 30)
WORDS = [f"word{number}" for number in range(60)]
QUESTIONS = (
    'word0|word3 word5|word1 OR word40|title:word2|word7 -word0|"word0 word1"|title:word1 word9|'
    "host:a.example word4|word59|-word0|host:b.example|word2 OR title:word3 word0"
).split("|")


def pages(seed: int) -> list[tuple[str, str, str]]:
    """Return pages of hosts with different words and lengths, so that the ranks of shards differ."""
    chance = random.Random(seed)
    made = []
    for host, (length, favourite) in {"a": (12, 3), "b": (160, 20), "c": (50, 45)}.items():
        for number in range(40):
            odds = [1 / (1 + abs(at - favourite)) for at in range(len(WORDS))]
            text = chance.choices(WORDS, odds, k=chance.randint(1, 2 * length))
            title = chance.choices(WORDS, odds, k=chance.randint(0, 4))
            made.append((f"http://{host}.example/{number}", " ".join(title), " ".join(text)))
    return made


def build(folder: Path, made: list[tuple[str, str, str]], *, shards: int, tiny: bool) -> Path:
    config = TINY if tiny else WHOLE
    indexes = [IndexWriter(folder / "index", shard, config, ShardState()) for shard in range(shards)]
    for number, (url, title, text) in enumerate(made):
        index = indexes[ord(url[7]) % shards]  # a host is in one shard
        index.add_document(url=url, key=number, title=title, text=text, batch=1, canonical="")
        if number % 12 == 11:
            index.commit()
    for index in indexes:
        index.commit()
        index.finish()
        index.close()
    return folder


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    home = tmp_path_factory.mktemp("ranks")
    return [
        (
            build(home / f"one-{seed}", pages(seed), shards=1, tiny=False),
            build(home / f"many-{seed}", pages(seed), shards=3, tiny=True),
        )
        for seed in range(2)
    ]


def told(hits: list[Hit]) -> list[tuple[float, str]]:
    return [(pytest.approx(hit.score, rel=1e-3, abs=2e-4), hit.url) for hit in hits]  # type: ignore[misc]


@pytest.mark.parametrize("words", QUESTIONS)
def test_many_generations_rank_as_one_index(crawls: list[tuple[Path, Path]], words: str) -> None:
    for one, many in crawls:
        whole = search.search_crawl(one, words, limit=200)
        parts = search.search_crawl(many, words, limit=200)
        assert {hit.url for hit in parts} == {hit.url for hit in whole}
        scores = {hit.url: hit.score for hit in whole}
        for hit in parts:
            assert hit.score == pytest.approx(scores[hit.url], rel=1e-3, abs=2e-4)
        # Ties may be in any order that both agree on: by URL, unless they differ in the last digit.
        for first, second in itertools.pairwise(parts):
            assert scores[first.url] > scores[second.url] - 3e-4


@pytest.mark.parametrize("words", QUESTIONS)
def test_several_crawls_rank_as_one_index(tmp_path: Path, words: str) -> None:
    """Each host is in a separate crawl: a word rare in one is common in another."""
    made = pages(3)
    one = build(tmp_path / "one", made, shards=1, tiny=False)
    apart = [
        build(tmp_path / host, [page for page in made if page[0][7] == host], shards=1, tiny=True) for host in "abc"
    ]
    whole = search.search_crawl(one, words, limit=200)
    parts = search.search_crawls(apart, words, 200, lambda crawl, url: True)
    assert told(sorted(parts, key=by_url)) == [(hit.score, hit.url) for hit in sorted(whole, key=by_url)]
    assert [hit.score for hit in parts] == sorted((hit.score for hit in parts), reverse=True)
    assert all(hit.directory == tmp_path / hit.url[7] for hit in parts)


def by_url(hit: Hit) -> str:
    return hit.url


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_invisible_pages_leave_room_for_others(crawls: list[tuple[Path, Path]], tmp_path: Path, limit: int) -> None:
    """Two crawls have every page; one version of each is invisible, and none is found twice."""
    _, many = crawls[0]
    shutil.copytree(many, tmp_path / "twin")

    def counts(crawl: int, url: str) -> bool:
        return int(url.rpartition("/")[2]) % 2 == crawl

    for words in QUESTIONS:
        few = search.search_crawls([many, tmp_path / "twin"], words, limit, counts)
        assert len(few) == min(limit, len(search.search_crawl(many, words, 200)))
        assert len({hit.url for hit in few}) == len(few)
        assert all(hit.directory == [many, tmp_path / "twin"][int(hit.url.rpartition("/")[2]) % 2] for hit in few)


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_top_hits_are_the_best_over_all_generations(crawls: list[tuple[Path, Path]], limit: int) -> None:
    for one, many in crawls:
        for words in QUESTIONS:
            whole, few = search.search_crawl(one, words, 200), search.search_crawl(many, words, limit)
            assert len(few) == min(limit, len(whole))
            for best, hit in zip(whole, few, strict=False):
                assert hit.score == pytest.approx(best.score, rel=1e-3, abs=2e-4)


def test_one_index_scores_as_tantivy(crawls: list[tuple[Path, Path]]) -> None:
    """The oracle is tantivy's own score, not our formula twice."""
    for one, _ in crawls:
        with search.open_generations(one) as (generations, _):
            assert len(generations) == 1
            for words in QUESTIONS:
                question = search.parse_query(words)
                ranks = ranking.GlobalScorer(generations, question)
                query = search_query(generations[0], words)
                for score, address in generations[0].searcher.search(query, limit=200).hits:
                    assert ranks.page_score(generations[0], address) == pytest.approx(score, rel=1e-4, abs=1e-6)


def search_query(generation: search.GenerationReader, words: str) -> object:
    from fieldmouse.search.query_parser import build_query as plain

    return plain(search.parse_query(words), generation.index.schema)


def test_ranks_are_the_same_without_stored_text(tmp_path: Path) -> None:
    """Then no page has a sample word."""
    made = pages(9)
    one = build(tmp_path / "one", made, shards=1, tiny=True)
    bare = msgspec.structs.replace(TINY, store_text=False)
    index = IndexWriter(tmp_path / "bare" / "index", 0, bare, ShardState())
    for number, (url, title, text) in enumerate(made):
        index.add_document(url=url, key=number, title=title, text=text, batch=1, canonical="")
        if number % 12 == 11:
            index.commit()
    index.commit()
    index.finish()
    index.close()
    for words in QUESTIONS[:4]:
        assert told(search.search_crawl(tmp_path / "bare", words)) == told(search.search_crawl(one, words))
