"""Full-text search in one or several crawls, ranked by BM25 over all of them.

Every generation of every shard returns its best pages. Only the newest version of a page is shown.
Reading takes no lock and sees the last checkpoint of each shard. Several crawls are searched as one;
indexes have no times, so the caller decides which crawl has the newest version of a page.

tantivy computes word frequencies and average page lengths for each generation separately, and the pages
of a host are in few generations: scores of two generations are not comparable. So words are counted over
all generations first. Their rarity goes into each query as an exact weight. The average length cannot:
the hits of a generation are therefore scored again here, best candidates first, until no remaining page,
found or not, can be among the best. The result equals that of one index with all documents. Replaced
documents that are not deleted yet still count as occurrences of words.
"""

from __future__ import annotations

import heapq
import html
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import tantivy

from fieldmouse.search import query_parser
from fieldmouse.search.generation_reader import GenerationReader, document_field_text, open_generations
from fieldmouse.search.newest_versions import VersionView
from fieldmouse.search.query_parser import TITLE_WEIGHT, ParsedQuery, parse_query, phrase_query

_K1, _B = 1.2, 0.75  # tantivy's constants
_FIELDS = ("title", "text")
_SAMPLES = 8

#: A field and adjacent words in it.
ScoreTerm = tuple[str, tuple[str, ...]]


class GenerationFieldStats(NamedTuple):
    """Number of documents of a generation and average length of a field, as its own scores use them."""

    documents: float = 0.0
    average: float = 0.0


class GlobalScorer:
    """Scores of the hits of a question in several generations."""

    def __init__(self, generations: list[GenerationReader], question: ParsedQuery):
        self.question = question
        self._leaves = list(dict.fromkeys(_score_terms(question)))
        terms = {(field, term) for field, words in self._leaves for term in words}
        self._sizes: dict[GenerationReader, dict[str, GenerationFieldStats]] = {}
        self._counts: dict[GenerationReader, dict[tuple[str, str], int]] = {}
        for generation in generations:
            with generation.convert_read_errors():
                self._sizes[generation] = {field: _field_stats(generation, field) for field in _FIELDS}
                self._counts[generation] = {
                    (field, term): generation.searcher.doc_freq(field, term) for field, term in terms
                }
        self._documents = sum(self._generation_document_count(generation) for generation in generations)
        self._average = dict.fromkeys(_FIELDS, 0.0)
        for field in _FIELDS if self._documents else ():
            words = sum(sizes[field].documents * sizes[field].average for sizes in self._sizes.values())
            self._average[field] = words / self._documents
        total = {term: sum(counts[term] for counts in self._counts.values()) for term in terms}
        self._rarity = {leaf: _inverse_document_frequency(leaf, total, self._documents) for leaf in self._leaves}

    def _generation_document_count(self, generation: GenerationReader) -> float:
        sizes = self._sizes[generation].values()
        return max([generation.searcher.num_docs, *(size.documents for size in sizes)])

    def weighted_query(self, generation: GenerationReader, question: ParsedQuery | None = None) -> tantivy.Query:
        """Build the query for a generation, in which words weigh as in the whole crawl."""
        counts, documents = self._counts[generation], self._generation_document_count(generation)

        def weight(field: str, terms: tuple[str, ...]) -> float:
            if (field, terms) not in self._rarity:
                return 1.0
            own = _inverse_document_frequency((field, terms), counts, documents)
            return self._rarity[field, terms] / own if own else 1.0

        return query_parser.build_query(question or self.question, generation.index.schema, weight)

    def max_global_score_ratio(self, generation: GenerationReader) -> float:
        """Return the maximum factor of a page's final score to the score that its generation gives it."""
        if not self._leaves:
            return 1.0
        sizes = self._sizes[generation]
        ratios = (self._average[field] / sizes[field].average for field in _FIELDS if sizes[field].average)
        return 1.0001 * max([1.0, *ratios])  # scores are in single precision

    def page_score(self, generation: GenerationReader, address: tantivy.DocAddress) -> float:
        """Return the score that one index with all documents would give."""
        if not self.question.groups:
            return 1.0
        scores = {leaf: self._term_score(leaf, generation, address) for leaf in self._leaves}
        return sum(scores[leaf] * (TITLE_WEIGHT if leaf[0] == "title" else 1.0) for leaf in _score_terms(self.question))

    def _term_score(self, leaf: ScoreTerm, generation: GenerationReader, address: tantivy.DocAddress) -> float:
        field, terms = leaf
        if not all(self._counts[generation][field, term] for term in terms):
            return 0.0
        numbers = _explanation_numbers(generation, phrase_query(generation.index.schema, field, terms), address)
        if numbers is None:
            return 0.0
        frequency, norm = numbers["freq"], 1 - _B + _B * numbers["dl"] / self._average[field]
        return self._rarity[leaf] * (1 + _K1) * frequency / (frequency + _K1 * norm)


def _score_terms(question: ParsedQuery) -> Iterator[ScoreTerm]:
    """Yield the summands of the score, repeated ones as often as they count."""
    for group in question.groups:
        for clause in group:
            if clause.field != "host":
                yield "title", clause.terms
                if clause.field != "title":
                    yield "text", clause.terms


def _inverse_document_frequency(leaf: ScoreTerm, counts: dict[tuple[str, str], int], documents: float) -> float:
    field, terms = leaf
    frequencies = (counts[field, term] for term in terms)
    return sum(math.log(1 + (documents - count + 0.5) / (count + 0.5)) for count in frequencies)


def _field_stats(generation: GenerationReader, field: str) -> GenerationFieldStats:
    """Read the size from a score explanation, the only place where tantivy shows it.

    Any document works, with any word that it has in the field.
    """
    for address, query in _sample_documents(generation, field):
        numbers = _explanation_numbers(generation, query, address)
        if numbers is not None:
            return GenerationFieldStats(numbers["N"], numbers["avgdl"])
    return GenerationFieldStats()


def _sample_documents(generation: GenerationReader, field: str) -> Iterator[tuple[tantivy.DocAddress, tantivy.Query]]:
    """Yield documents, each with a query for a word that it has in the field."""
    schema, searcher = generation.index.schema, generation.searcher
    for _, address in searcher.search(tantivy.Query.all_query(), limit=_SAMPLES, count=False).hits:
        for word in query_parser.tokenize(document_field_text(searcher.doc(address), field)[:1000])[:1]:
            yield address, tantivy.Query.term_query(schema, field, word)
    for word, _ in searcher.terms_with_prefix(field, "", limit=1):  # slow: it reads all terms
        query = tantivy.Query.term_query(schema, field, word)
        for _, address in searcher.search(query, limit=1, count=False).hits:
            yield address, query


def _explanation_numbers(
    generation: GenerationReader, query: tantivy.Query, address: tantivy.DocAddress
) -> dict[str, float] | None:
    """Return the numbers of a score explanation by the first words of their descriptions; None without a
    match."""
    try:
        explanation = json.loads(query.explain(generation.searcher, address).to_json())
    except ValueError:
        return None
    numbers: dict[str, float] = {}
    parts = [explanation]
    while parts:
        part = parts.pop()
        numbers[part["description"].partition(",")[0]] = part["value"]
        parts += part.get("details", ())
    return numbers if "freq" in numbers else None


SNIPPET_LENGTH = 240  # characters
MAX_SCORED_PAGES = 500  # pages scored for one question, though thousands might be among the best for a common word
_MARK = re.compile(r"</?b>")  # tantivy puts found words between these tags, and escapes those of the page


class ScoredPage(msgspec.Struct, frozen=True):
    score: float
    url: str
    version: tuple[int, int]  # of two versions of a page the one with the greater number is newer
    document: tantivy.Document
    generation: GenerationReader


#: Text of a snippet, and whether it is a word that was searched for.
SnippetPiece = tuple[str, bool]


class Hit(msgspec.Struct, frozen=True):
    """A search result; its snippet has found words between `**`."""

    url: str
    title: str
    snippet: str
    score: float
    directory: Path  # of the crawl that has the page
    pieces: tuple[SnippetPiece, ...]  # the snippet without the added `**`; a page may contain `**` itself


#: Whether the crawl at an index of the searched directories may show its version of a URL.
IsVisible = Callable[[int, str], bool]


def search_crawl(directory: Path, words: str, limit: int = 10) -> list[Hit]:
    """Return the best pages of the crawl in `directory`, best first; `query.py` has the grammar."""
    return search_crawls([directory], words, limit, lambda crawl, url: True)


def search_crawls(directories: Sequence[Path], words: str, limit: int, counts: IsVisible) -> list[Hit]:
    """Return the best pages of several crawls, ranked as one."""
    question = parse_query(words)
    if question.is_empty or limit <= 0:
        return []
    with ExitStack() as stack:
        crawls = [stack.enter_context(open_generations(directory)) for directory in directories]
        sources = [
            (crawl, generation, copies)
            for crawl, (generations, copies) in enumerate(crawls)
            for generation in generations
            if generation.searcher.num_docs
        ]
        ranking = GlobalScorer([generation for _, generation, _ in sources], question)
        streams = [HitStream(crawl, generation, ranking, question, copies) for crawl, generation, copies in sources]
        return _make_hits(_best_pages(streams, ranking, 2 * limit, counts), ranking, limit)


class HitStream:
    """Hits of one generation on demand, best first by its own scores."""

    def __init__(
        self,
        crawl: int,
        generation: GenerationReader,
        ranking: GlobalScorer,
        question: ParsedQuery,
        copies: VersionView,
    ):
        self.crawl, self.generation, self._copies = crawl, generation, copies
        self._reach = ranking.max_global_score_ratio(generation)
        self._hosts: ParsedQuery | None = None
        self._asked = 0
        self.max_remaining_score = math.inf  # upper bound of the score of every page not returned yet
        with generation.convert_read_errors():
            try:
                self._query = ranking.weighted_query(generation)
            except ValueError:  # an old index without hosts: filter by URL instead
                self._hosts = question
                self._query = ranking.weighted_query(generation, question.without_hosts())

    def next_hits(self, count: int) -> list[tuple[float, tantivy.DocAddress]]:
        """Return the next hits with upper bounds of their scores: `count` at first, then as many as before."""
        generation, before = self.generation, self._asked
        wanted = max(count, 2 * before) if self._hosts is None else generation.searcher.num_docs
        with generation.convert_read_errors():
            hits = generation.searcher.search(self._query, limit=wanted, count=False).hits
            self.max_remaining_score = float(hits[-1][0]) * self._reach if len(hits) == wanted else 0.0
            self._asked = len(hits)
            if self._hosts is not None:
                self.max_remaining_score = 0.0
                hits = [hit for hit in hits if _matches_hosts(generation.url_of_document(hit[1]), self._hosts)]
            new = hits[before:]
            shown = generation.are_newest_versions([address for _, address in new], self._copies)
            visible = itertools.compress(new, shown)
            return [(float(score) * self._reach, address) for score, address in visible]


def _best_pages(streams: list[HitStream], ranking: GlobalScorer, count: int, counts: IsVisible) -> list[ScoredPage]:
    """Return the `count` best pages; only pages that may be among them are scored, and not too many."""
    most = max(MAX_SCORED_PAGES, 10 * count)
    waiting: list[tuple[float, int, HitStream, tantivy.DocAddress]] = []
    pages: list[ScoredPage] = []
    best: list[float] = []  # the greatest scores, a heap of at most `count`
    serial = 0
    active = streams
    while active:
        for stream in active:
            for max_score, address in stream.next_hits(count):
                heapq.heappush(waiting, (-max_score, serial := serial + 1, stream, address))
        while waiting and len(pages) < most and (len(best) < count or -waiting[0][0] >= best[0]):
            _, _, stream, address = heapq.heappop(waiting)
            page = _score_page(stream.crawl, stream.generation, address, ranking, counts)
            if page is None:
                continue
            pages.append(page)
            heapq.heappush(best, page.score)
            if len(best) > count:
                heapq.heappop(best)
        least = best[0] if len(best) == count else 0.0
        active = [stream for stream in streams if stream.max_remaining_score > least] if len(pages) < most else []
    newest: dict[str, ScoredPage] = {}
    for page in pages:
        if page.url not in newest or newest[page.url].version < page.version:
            newest[page.url] = page
    return sorted(newest.values(), key=lambda page: (-page.score, page.url))


def _score_page(
    crawl: int, generation: GenerationReader, address: tantivy.DocAddress, ranking: GlobalScorer, counts: IsVisible
) -> ScoredPage | None:
    with generation.convert_read_errors():
        document = generation.searcher.doc(address)
        url = document_field_text(document, "url")
        if not counts(crawl, url):
            return None
        # Two crawls have the page only while one is at its checkpoint: either is correct.
        version = (crawl, generation.document_version(address))
        return ScoredPage(ranking.page_score(generation, address), url, version, document, generation)


def _matches_hosts(url: str, question: ParsedQuery) -> bool:
    """Tell whether a page's host is among the required ones, and not excluded."""
    hosts = set(query_parser.searchable_host_names(query_parser.authority_of(url)))
    return all(name in hosts for name in question.hosts()) and not any(
        name in hosts for name in question.hosts(without=True)
    )


def _make_hits(found: list[ScoredPage], ranking: GlobalScorer, limit: int) -> list[Hit]:
    """Return the first `limit` pages; a page is omitted if its canonical page is among the hits."""
    urls = {page.url for page in found}
    hits: list[Hit] = []
    generators: dict[GenerationReader, tantivy.SnippetGenerator] = {}
    for page in found:
        generation = page.generation
        with generation.convert_read_errors():
            if document_field_text(page.document, "canonical") in urls:
                continue
            if generation not in generators:
                query = ranking.weighted_query(generation, ranking.question.without_hosts())
                generators[generation] = tantivy.SnippetGenerator.create(
                    generation.searcher, query, generation.index.schema, "text"
                )
                generators[generation].set_max_num_chars(SNIPPET_LENGTH)
            pieces = _snippet_pieces(page.document, generators[generation])
            title = document_field_text(page.document, "title")
        snippet = "".join(f"**{text}**" if found else text for text, found in pieces)
        hits.append(Hit(page.url, title, snippet, round(page.score, 4), generation.directory, pieces))
        if len(hits) == limit:
            break
    return hits


def _snippet_pieces(document: tantivy.Document, snippets: tantivy.SnippetGenerator) -> tuple[SnippetPiece, ...]:
    """Return the best matching part of the text, with single blanks between words."""
    marked = snippets.snippet_from_doc(document).to_html() or html.escape(
        document_field_text(document, "text")[:SNIPPET_LENGTH], quote=False
    )
    pieces: list[SnippetPiece] = []
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
