"""Full-text search in one or several crawls, during the crawl and after it.

Every generation of every shard returns its best pages, and the lists are merged by comparable scores
(`ranking.py`). Only the newest version of a page is shown (`copies.py`). Reading takes no lock and sees
the last checkpoint of each shard.

Several crawls are searched as one: words are counted over all of them. Indexes have no times, so the
caller decides which crawl has the newest version of a page.
"""

from __future__ import annotations

import heapq
import html
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import tantivy

from fieldmouse.indexer.copies import CopyView
from fieldmouse.indexer.generations import Generation, opened, text_of
from fieldmouse.indexer.query import Question, authority_of, names, understand
from fieldmouse.indexer.ranking import Ranking

SNIPPET = 240  # characters
ENOUGH = 500  # pages scored for one question, though thousands might be among the best for a common word
_MARK = re.compile(r"</?b>")  # tantivy puts found words between these tags, and escapes those of the page


class Candidate(msgspec.Struct, frozen=True):
    """A page found by a generation."""

    most: float  # upper bound of its score
    crawl: int
    generation: Generation
    address: tantivy.DocAddress


class Found(msgspec.Struct, frozen=True):
    score: float
    url: str
    stand: tuple[int, int]  # of two versions of a page the one with the greater number is newer
    document: tantivy.Document
    generation: Generation


Piece = tuple[str, bool]
"""Text of a snippet, and whether it is a word that was searched for."""


class Hit(msgspec.Struct, frozen=True):
    """A search result; its snippet has found words between `**`."""

    url: str
    title: str
    snippet: str
    score: float
    directory: Path  # of the crawl that has the page
    pieces: tuple[Piece, ...]  # the snippet without the added `**`; a page may contain `**` itself


Counts = Callable[[int, str], bool]
"""Whether the crawl at an index of the searched directories may show its version of a URL."""


def search(directory: Path, words: str, limit: int = 10) -> list[Hit]:
    """Return the best pages of the crawl in `directory`, best first; `query.py` has the grammar."""
    return search_all([directory], words, limit, lambda crawl, url: True)


def search_all(directories: Sequence[Path], words: str, limit: int, counts: Counts) -> list[Hit]:
    """Return the best pages of several crawls, ranked as one."""
    question = understand(words)
    if question.empty or limit <= 0:
        return []
    with ExitStack() as stack:
        crawls = [stack.enter_context(opened(directory)) for directory in directories]
        sources = [
            (crawl, generation, copies)
            for crawl, (generations, copies) in enumerate(crawls)
            for generation in generations
            if generation.searcher.num_docs
        ]
        ranking = Ranking([generation for _, generation, _ in sources], question)
        streams = [
            Stream(crawl, generation, ranking, question, copies) for crawl, generation, copies in sources
        ]
        return _make_hits(_best(streams, ranking, 2 * limit, counts), ranking, limit)


class Stream:
    """Hits of one generation on demand, best first by its own scores."""

    def __init__(
        self, crawl: int, generation: Generation, ranking: Ranking, question: Question, copies: CopyView
    ):
        self._crawl, self._generation, self._copies = crawl, generation, copies
        self._reach = ranking.reach(generation)
        self._hosts: Question | None = None
        self._asked = 0
        self.rest = math.inf  # upper bound of the score of every page not returned yet
        with generation.reading():
            try:
                self._query = ranking.query(generation)
            except ValueError:  # an old index without hosts: filter by URL instead
                self._hosts = question
                self._query = ranking.query(generation, question.anywhere())

    def more(self, count: int) -> list[Candidate]:
        """Return the next hits: `count` at first, then each time as many as before."""
        generation, before = self._generation, self._asked
        wanted = max(count, 2 * before) if self._hosts is None else generation.searcher.num_docs
        with generation.reading():
            hits = generation.searcher.search(self._query, limit=wanted, count=False).hits
            self.rest = float(hits[-1][0]) * self._reach if len(hits) == wanted else 0.0
            self._asked = len(hits)
            if self._hosts is not None:
                self.rest = 0.0
                hits = [hit for hit in hits if _matches_hosts(generation.url(hit[1]), self._hosts)]
            new = hits[before:]
            shown = generation.visible([address for _, address in new], self._copies)
            return [
                Candidate(float(score) * self._reach, self._crawl, generation, address)
                for (score, address), visible in zip(new, shown, strict=True)
                if visible
            ]


def _best(streams: list[Stream], ranking: Ranking, count: int, counts: Counts) -> list[Found]:
    """Return the `count` best pages; only pages that may be among them are scored, and not too many."""
    most = max(ENOUGH, 10 * count)
    waiting: list[tuple[float, int, Candidate]] = []
    pages: list[Found] = []
    best: list[float] = []  # the greatest scores, a heap of at most `count`
    serial = 0
    active = streams
    while active:
        for stream in active:
            for candidate in stream.more(count):
                heapq.heappush(waiting, (-candidate.most, serial := serial + 1, candidate))
        while waiting and len(pages) < most and (len(best) < count or -waiting[0][0] >= best[0]):
            candidate = heapq.heappop(waiting)[2]
            page = _score_page(candidate, ranking, counts)
            if page is None:
                continue
            pages.append(page)
            heapq.heappush(best, page.score)
            if len(best) > count:
                heapq.heappop(best)
        least = best[0] if len(best) == count else 0.0
        active = [stream for stream in streams if stream.rest > least] if len(pages) < most else []
    newest: dict[str, Found] = {}
    for page in pages:
        if page.url not in newest or newest[page.url].stand < page.stand:
            newest[page.url] = page
    return sorted(newest.values(), key=lambda page: (-page.score, page.url))


def _score_page(candidate: Candidate, ranking: Ranking, counts: Counts) -> Found | None:
    crawl, generation, address = candidate.crawl, candidate.generation, candidate.address
    with generation.reading():
        document = generation.searcher.doc(address)
        url = text_of(document, "url")
        if not counts(crawl, url):
            return None
        stand = int(generation.stands([address])[0])
        score = ranking.score(generation, address)
        # Two crawls have the page only while one is at its checkpoint: either is correct.
        return Found(score, url, (crawl, stand), document, generation)


def documents(directory: Path) -> Iterator[str]:
    """Yield the URL of every page that search can find."""
    yielded: set[str] = set()  # while a shard is at its checkpoint, an old version may not be masked yet
    with opened(directory) as (generations, copies):
        for generation in generations:
            with generation.reading():
                addresses = generation.all_addresses()
                shown = generation.visible(addresses, copies)
                urls = [
                    generation.url(address)
                    for address, visible in zip(addresses, shown, strict=True)
                    if visible
                ]
            yield from (url for url in urls if url not in yielded)
            yielded.update(urls)


def count(directory: Path) -> int:
    """Count the pages that search can find."""
    with opened(directory) as (generations, copies):
        if not copies.any:
            return sum(generation.searcher.num_docs for generation in generations)
        keys: set[int] = set()
        for generation in generations:
            with generation.reading():
                addresses = generation.all_addresses()
                shown = generation.visible(addresses, copies)
                keys.update(
                    key
                    for key, visible in zip(generation.keys(addresses).tolist(), shown, strict=True)
                    if visible
                )
        return len(keys)


def _matches_hosts(url: str, question: Question) -> bool:
    """Tell whether a page's host is among the required ones, and not excluded."""
    hosts = set(names(authority_of(url)))
    return all(name in hosts for name in question.hosts()) and not any(
        name in hosts for name in question.hosts(without=True)
    )


def _make_hits(found: list[Found], ranking: Ranking, limit: int) -> list[Hit]:
    """Return the first `limit` pages; a page is omitted if its canonical page is among the hits."""
    urls = {page.url for page in found}
    hits: list[Hit] = []
    generators: dict[Generation, tantivy.SnippetGenerator] = {}
    for page in found:
        with page.generation.reading():
            canonical = text_of(page.document, "canonical")
        if canonical and canonical in urls:
            continue
        generation = page.generation
        with generation.reading():
            if generation not in generators:
                query = ranking.query(generation, ranking.question.anywhere())
                generators[generation] = tantivy.SnippetGenerator.create(
                    generation.searcher, query, generation.index.schema, "text"
                )
                generators[generation].set_max_num_chars(SNIPPET)
            pieces = _pieces(page.document, generators[generation])
            title = text_of(page.document, "title")
        snippet = "".join(f"**{text}**" if found else text for text, found in pieces)
        hits.append(Hit(page.url, title, snippet, round(page.score, 4), generation.directory, pieces))
        if len(hits) == limit:
            break
    return hits


def _pieces(document: tantivy.Document, snippets: tantivy.SnippetGenerator) -> tuple[Piece, ...]:
    """Return the best matching part of the text, with single blanks between words."""
    marked = snippets.snippet_from_doc(document).to_html() or html.escape(
        text_of(document, "text")[:SNIPPET], quote=False
    )
    pieces: list[Piece] = []
    blank = True  # the text so far ends in a blank, or is empty
    for place, markup in enumerate(_MARK.split(marked)):
        text = " ".join(html.unescape(f"x{markup}x").split())[1:-1]
        text = text.removeprefix(" ") if blank else text
        if text:
            pieces.append((text, place % 2 == 1))
            blank = text.endswith(" ")
    if pieces and blank:
        text, found = pieces[-1]
        pieces[-1] = (text[:-1], found)
    return tuple(pieces)
