"""Looking for words in what was crawled, while the crawl runs and after.

Every generation of every shard is asked for its best pages, and the lists are
merged by score. Scores come from each generation's own word counts, which is fair
as long as pages fall into shards and generations without regard to their words.
Reading takes no lock and sees the last checkpoint of each shard.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import tantivy

from fieldmouse.errors import CrawlDirError
from fieldmouse.indexer.query import Question, authority_of, build, names, understand

SNIPPET = 240  # characters
_MARK = re.compile(r"</?b>")


Found = tuple[float, str, tantivy.Document, tantivy.SnippetGenerator | None]
"""Score, URL, document, and who makes its snippet."""


class Hit(msgspec.Struct, frozen=True):
    """A page that answers the question; found words stand between `**` in its snippet."""

    url: str
    title: str
    snippet: str
    score: float


def search(directory: Path, words: str, limit: int = 10) -> list[Hit]:
    """The best pages of the crawl in `directory` for `words`, best first; `query.py` has the grammar."""
    question = understand(words)
    if question.empty or limit <= 0:
        return []
    found: list[Found] = []
    for path, index in _generations(directory):
        try:
            found += _ask(index, question, limit)
        except (ValueError, OSError) as trouble:
            raise _damaged(path, directory, trouble) from trouble
    found.sort(key=lambda one: (-one[0], one[1]))
    return _tell(found, limit)


def _ask(index: tantivy.Index, question: Question, limit: int) -> list[Found]:
    """The best answers of one generation."""
    searcher = index.searcher()
    if not searcher.num_docs:
        return []
    try:
        query, hosts = build(question, index.schema), None
    except ValueError:  # a generation from before hosts were indexed: look at the URLs instead
        hosts = question
        query = build(question.anywhere(), index.schema)
    most = 2 * limit if hosts is None else searcher.num_docs
    hits = searcher.search(query, limit=most, count=False).hits
    if hosts is not None:
        hits = [hit for hit in hits if _lives(_text(searcher.doc(hit[1]), "url"), hosts)][: 2 * limit]
    if not hits:
        return []
    snippets = tantivy.SnippetGenerator.create(searcher, query, index.schema, "text")
    snippets.set_max_num_chars(SNIPPET)
    documents = ((score, searcher.doc(address)) for score, address in hits)
    return [(float(score), _text(document, "url"), document, snippets) for score, document in documents]


def documents(directory: Path) -> Iterator[str]:
    """The URL of every document in the index: what a doctor counts."""
    for _, index in _generations(directory):
        searcher = index.searcher()
        if searcher.num_docs:
            for _, address in searcher.search(tantivy.Query.all_query(), limit=searcher.num_docs).hits:
                yield _text(searcher.doc(address), "url")


def count(directory: Path) -> int:
    """How many documents the index holds."""
    return sum(index.searcher().num_docs for _, index in _generations(directory))


def _generations(directory: Path) -> list[tuple[Path, tantivy.Index]]:
    indexes = []
    for path in sorted((directory / "index").glob("shard-*/*")):
        if tantivy.Index.exists(str(path)):
            try:
                index = tantivy.Index.open(str(path))
                index.reload()
            except ValueError as trouble:
                raise _damaged(path, directory, trouble) from trouble
            indexes.append((path, index))
    return indexes


def _damaged(path: Path, directory: Path, trouble: Exception) -> CrawlDirError:
    return CrawlDirError(
        f"the index in `{path}` cannot be read: {trouble}",
        f"`fieldmouse doctor {directory}` says what else is damaged, and `--repair` builds an index again",
    )


def _lives(url: str, question: Question) -> bool:
    """Whether a page's host is one that was asked for, and none that was not wanted."""
    known = set(names(authority_of(url)))
    return all(name in known for name in question.hosts()) and not any(
        name in known for name in question.hosts(without=True)
    )


def _tell(found: list[Found], limit: int) -> list[Hit]:
    """The first `limit` pages, each content once: a page that names another as canonical stands behind it."""
    urls = {url for _, url, _, _ in found}
    told: list[Hit] = []
    seen: set[str] = set()
    for score, url, document, snippets in found:
        canonical = _text(document, "canonical")
        if url in seen or (canonical and canonical in urls):
            continue
        seen.add(url)
        snippet = _snippet(document, snippets)
        told.append(Hit(url, _text(document, "title"), snippet, round(score, 4)))
        if len(told) == limit:
            break
    return told


def _text(document: tantivy.Document, field: str) -> str:
    value = document.get_first(field)
    if value is None:
        return ""
    return value if isinstance(value, str) else bytes(value).decode()


def _snippet(document: tantivy.Document, snippets: tantivy.SnippetGenerator | None) -> str:
    made = snippets.snippet_from_doc(document).to_html() if snippets is not None else ""
    marked = html.unescape(_MARK.sub("**", made))
    if not marked:
        marked = _text(document, "text")[:SNIPPET]
    return " ".join(marked.split())
