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

from fieldmouse.errors import CrawlDirError, UsageError

SNIPPET = 240  # characters
_FIELDS = ["title", "text"]
_BOOSTS = {"title": 3.0}
_MARK = re.compile(r"</?b>")


class Hit(msgspec.Struct, frozen=True):
    """A page that answers the question; found words stand between `**` in its snippet."""

    url: str
    title: str
    snippet: str
    score: float


def search(directory: Path, words: str, limit: int = 10) -> list[Hit]:
    """The best pages of the crawl in `directory` for `words`, best first.

    All words must occur unless joined with OR; "several words" in quotes are a
    phrase, -word must not occur, title:word looks at titles only.
    """
    if not words.strip() or limit <= 0:
        return []
    found: list[tuple[float, str, tantivy.Document, tantivy.SnippetGenerator | None]] = []
    for index in _generations(directory):
        query = _understand(index, words)
        searcher = index.searcher()
        hits = searcher.search(query, limit=2 * limit, count=False).hits
        if not hits:
            continue
        snippets = tantivy.SnippetGenerator.create(searcher, query, index.schema, "text")
        snippets.set_max_num_chars(SNIPPET)
        for score, address in hits:
            document = searcher.doc(address)
            found.append((float(score), _text(document, "url"), document, snippets))
    found.sort(key=lambda one: (-one[0], one[1]))
    return _tell(found, limit)


def documents(directory: Path) -> Iterator[str]:
    """The URL of every document in the index: what a doctor counts."""
    for index in _generations(directory):
        searcher = index.searcher()
        if searcher.num_docs:
            for _, address in searcher.search(tantivy.Query.all_query(), limit=searcher.num_docs).hits:
                yield _text(searcher.doc(address), "url")


def count(directory: Path) -> int:
    """How many documents the index holds."""
    return sum(index.searcher().num_docs for index in _generations(directory))


def _generations(directory: Path) -> list[tantivy.Index]:
    indexes = []
    for path in sorted((directory / "index").glob("shard-*/*")):
        if tantivy.Index.exists(str(path)):
            try:
                index = tantivy.Index.open(str(path))
                index.reload()
            except ValueError as trouble:
                raise CrawlDirError(
                    f"the index in `{path}` cannot be opened: {trouble}",
                    f"`fieldmouse doctor {directory}` says what else is damaged",
                ) from trouble
            indexes.append(index)
    return indexes


def _understand(index: tantivy.Index, words: str) -> tantivy.Query:
    try:
        return index.parse_query(words, _FIELDS, field_boosts=_BOOSTS, conjunction_by_default=True)
    except ValueError as trouble:
        raise UsageError(
            f"cannot make sense of `{words}`: {trouble}",
            'write plain words, "several words" for a phrase, -word to leave out, OR between choices',
        ) from trouble


def _tell(
    found: list[tuple[float, str, tantivy.Document, tantivy.SnippetGenerator | None]], limit: int
) -> list[Hit]:
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
