"""BM25 over the whole crawl, from the per-generation scores of tantivy.

tantivy computes word frequencies and average page lengths for each generation separately, and the pages of
a host are in few generations: scores of two generations are not comparable. So words are counted over all
generations first. Their rarity goes into each query as an exact weight. The average length cannot: the
hits of a generation are therefore scored again here, best candidates first, until no remaining page, found
or not, can be among the best. The result equals that of one index with all documents. Replaced documents
that are not deleted yet still count as occurrences of words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice

import tantivy

from fieldmouse.indexer.generations import Generation, text_of
from fieldmouse.indexer.query import TITLE_WEIGHT, Question, build, cut, stretch

_K1, _B = 1.2, 0.75  # tantivy's constants
_FIELDS = ("title", "text")
_SAMPLES = 8

Leaf = tuple[str, tuple[str, ...]]
"""A field and adjacent words in it."""


class FieldSize:
    """Number of documents of a generation and average length of a field, as its own scores use them."""

    def __init__(self, documents: float = 0.0, average: float = 0.0):
        self.documents, self.average = documents, average


class Ranking:
    """Scores of the hits of a question in several generations."""

    def __init__(self, generations: list[Generation], question: Question):
        self.question = question
        self._leaves = list(dict.fromkeys(_leaves(question)))
        terms = {(field, term) for field, words in self._leaves for term in words}
        self._sizes: dict[Generation, dict[str, FieldSize]] = {}
        self._counts: dict[Generation, dict[tuple[str, str], int]] = {}
        for generation in generations:
            with generation.reading():
                self._sizes[generation] = {field: _size(generation, field) for field in _FIELDS}
                self._counts[generation] = {
                    (field, term): generation.searcher.doc_freq(field, term) for field, term in terms
                }
        self._documents = sum(self._documents_in(generation) for generation in generations)
        self._average = {field: self._average_of(field) for field in _FIELDS}
        total = {term: sum(counts[term] for counts in self._counts.values()) for term in terms}
        self._rarity = {leaf: _rarity(leaf, total, self._documents) for leaf in self._leaves}

    def _documents_in(self, generation: Generation) -> float:
        sizes = self._sizes[generation].values()
        return max([generation.searcher.num_docs, *(size.documents for size in sizes)])

    def _average_of(self, field: str) -> float:
        words = sum(sizes[field].documents * sizes[field].average for sizes in self._sizes.values())
        return words / self._documents if self._documents else 0.0

    def query(self, generation: Generation, question: Question | None = None) -> tantivy.Query:
        """Build the query for a generation, in which words weigh as in the whole crawl."""
        counts, documents = self._counts[generation], self._documents_in(generation)

        def weight(field: str, terms: tuple[str, ...]) -> float:
            if (field, terms) not in self._rarity:
                return 1.0
            own = _rarity((field, terms), counts, documents)
            return self._rarity[field, terms] / own if own else 1.0

        return build(question or self.question, generation.index.schema, weight)

    def reach(self, generation: Generation) -> float:
        """Return the maximum factor of a page's final score to the score that its generation gives it."""
        if not self._leaves:
            return 1.0
        sizes = self._sizes[generation]
        ratios = (self._average[field] / sizes[field].average for field in _FIELDS if sizes[field].average)
        return 1.0001 * max([1.0, *ratios])  # scores are in single precision

    def score(self, generation: Generation, address: tantivy.DocAddress) -> float:
        """Return the score that one index with all documents would give."""
        if not self.question.groups:
            return 1.0
        scores = {leaf: self._score(leaf, generation, address) for leaf in self._leaves}
        return sum(
            scores[leaf] * (TITLE_WEIGHT if leaf[0] == "title" else 1.0) for leaf in _leaves(self.question)
        )

    def _score(self, leaf: Leaf, generation: Generation, address: tantivy.DocAddress) -> float:
        field, terms = leaf
        if not all(self._counts[generation][field, term] for term in terms):
            return 0.0
        numbers = _explained(generation, stretch(generation.index.schema, field, terms), address)
        if numbers is None:
            return 0.0
        frequency, norm = numbers["freq"], 1 - _B + _B * numbers["dl"] / self._average[field]
        return self._rarity[leaf] * (1 + _K1) * frequency / (frequency + _K1 * norm)


def _leaves(question: Question) -> Iterator[Leaf]:
    """Yield the summands of the score, repeated ones as often as they count."""
    for group in question.groups:
        for clause in group:
            if clause.field != "host":
                yield "title", clause.terms
                if clause.field != "title":
                    yield "text", clause.terms


def _rarity(leaf: Leaf, counts: dict[tuple[str, str], int], documents: float) -> float:
    field, terms = leaf
    frequencies = (counts[field, term] for term in terms)
    return sum(math.log(1 + (documents - count + 0.5) / (count + 0.5)) for count in frequencies)


def _size(generation: Generation, field: str) -> FieldSize:
    """Read the size from a score explanation, the only place where tantivy shows it.

    Any document works, with any word that it has in the field.
    """
    schema, searcher = generation.index.schema, generation.searcher
    for address, word in _samples(generation, field):
        numbers = _explained(generation, tantivy.Query.term_query(schema, field, word), address)
        if numbers is not None:
            return FieldSize(numbers["N"], numbers["avgdl"])
    for word, _ in searcher.terms_with_prefix(field, "", limit=1):  # slow: it reads all terms
        query = tantivy.Query.term_query(schema, field, word)
        for _, address in searcher.search(query, limit=1, count=False).hits:
            numbers = _explained(generation, query, address)
            if numbers is not None:
                return FieldSize(numbers["N"], numbers["avgdl"])
    return FieldSize()


def _samples(generation: Generation, field: str) -> Iterator[tuple[tantivy.DocAddress, str]]:
    searcher = generation.searcher
    if not searcher.num_docs:
        return
    for _, address in searcher.search(tantivy.Query.all_query(), limit=_SAMPLES, count=False).hits:
        for word in islice(cut(text_of(searcher.doc(address), field)[:1000]), 1):
            yield address, word


def _explained(
    generation: Generation, query: tantivy.Query, address: tantivy.DocAddress
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
