"""Parser of search queries: a small grammar without syntax errors.

    words            all of them must occur
    "some words"     in this order, next to each other
    -word            must not occur; also -"some words", -title:word, -host:name
    this OR that     one of the two, or more of them; binds tighter than standing side by side
    title:word       in the title; also title:"some words"
    host:name        on this host or one below it: host:example.org finds docs.example.org

Users paste text such as `std::vector push_back`, `don't`, `O(n log n)`. So punctuation inside a word has
no meaning: the word is split as the index splits it, and its parts must be adjacent. `AND` and `NOT` are
words, `OR` is a word unless it is between two clauses, an unclosed quote is ignored, and so is a word
without letters or digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import tantivy

TITLE_WEIGHT = 3.0
# A closing quote may be followed by punctuation, as in a sentence, but not by a word.
_PIECE = re.compile(r'(-?)(?:(title|host):)?("[^"]*"(?=[^\w\s"-]*(?:\s|\Z))|\S+)', re.IGNORECASE)


#: Spellings to try: lower case does not unify GRÜSSE and grüße, so the index has two words.
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    lambda text: text.replace("ß", "ss").replace("ẞ", "ss"),
    lambda text: text.replace("SS", "ß"),
)


@dataclass(frozen=True, slots=True)
class Clause:
    """One search term: adjacent words, or a host name."""

    terms: tuple[str, ...]
    field: str = ""  # "" for title or text; else title or host
    excluded: bool = False  # it must not occur


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """One clause of each group must match, and no clause in `without`."""

    groups: tuple[tuple[Clause, ...], ...] = ()
    excluded: tuple[Clause, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.groups and not self.excluded

    def hosts(self, *, without: bool = False) -> list[str]:
        """Return the hosts required in groups of one clause, or the excluded ones."""
        clauses = self.excluded if without else [group[0] for group in self.groups if len(group) == 1]
        return [clause.terms[0] for clause in clauses if clause.field == "host"]

    def without_hosts(self) -> ParsedQuery:
        """Return the question without its clauses about hosts."""
        groups = (tuple(clause for clause in group if clause.field != "host") for group in self.groups)
        without = (clause for clause in self.excluded if clause.field != "host")
        return ParsedQuery(tuple(group for group in groups if group), tuple(without))


def parse_query(words: str) -> ParsedQuery:
    r"""Parse a query.

    >>> question = parse_query('don\'t "field mouse" OR vole -title:barn')
    >>> [[clause.terms for clause in group] for group in question.groups]
    [[('don', 't')], [('field', 'mouse'), ('vole',)]]
    """
    groups: list[tuple[Clause, ...]] = []
    without: list[Clause] = []
    joining = False  # the next clause follows an OR
    for clause in _clauses(words):
        if clause is None:
            pass
        elif clause.excluded:
            without.append(clause)
        elif joining:
            groups[-1] = (*groups[-1], clause)
        else:
            groups.append((clause,))
        joining = clause is None
    return ParsedQuery(tuple(dict.fromkeys(groups)), tuple(dict.fromkeys(without)))


def _clauses(words: str) -> Iterator[Clause | None]:
    """Yield the clauses in order; None is an OR between two clauses that are not excluded."""
    pieces = [match for match in _PIECE.finditer(words) if match[0] == "OR" or _clause(match) is not None]
    for at, match in enumerate(pieces):
        if match[0] == "OR" and _can_be_joined(pieces, at - 1) and _can_be_joined(pieces, at + 1):
            yield None
            continue
        spellings = [clause for clause in map(partial(_clause, match), _SPELLINGS) if clause is not None]
        for number, clause in enumerate(dict.fromkeys(spellings)):
            if number and not clause.excluded:
                yield None
            yield clause


def _can_be_joined(pieces: list[re.Match[str]], at: int) -> bool:
    """Tell whether an OR may join the piece at that index to another."""
    if not 0 <= at < len(pieces) or pieces[at][0] == "OR":
        return False
    clause = _clause(pieces[at])
    return clause is not None and not clause.excluded


def _clause(match: re.Match[str], spell: Callable[[str], str] = str) -> Clause | None:
    """Return the clause of one piece in one spelling, or None if it is empty."""
    minus, field, rest = match[1], (match[2] or "").lower(), match[3]
    if minus and not field and rest.startswith("-"):  # `--amend` is an option of a command line
        minus = ""
    if field == "host":
        name = normalize_host(rest.strip('"'))
        return Clause((name,), "host", bool(minus)) if name else None
    terms = tuple(tokenize(spell(rest)))
    if not terms and field:  # `title:` without a word
        terms, field = tuple(tokenize(field)), ""
    return Clause(terms, field, bool(minus)) if terms else None


def tokenize(text: str) -> list[str]:
    """Split a text into words as the index does."""
    return _analyzer().analyze(text)


@cache
def _analyzer() -> tantivy.TextAnalyzer:
    """tantivy's default tokenizer, with which the pages were indexed."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    return builder.filter(tantivy.Filter.remove_long(40)).filter(tantivy.Filter.lowercase()).build()


#: Weight of adjacent words in a field.
FieldWeight = Callable[[str, tuple[str, ...]], float]


def build_query(
    question: ParsedQuery, schema: tantivy.Schema, weight: FieldWeight = lambda field, terms: 1.0
) -> tantivy.Query:
    """Build the tantivy query of a question."""
    parts: list[tuple[tantivy.Occur, tantivy.Query]] = []
    for group in question.groups:
        queries = [_clause_query(clause, schema, weight) for clause in group]
        query = queries[0] if len(queries) == 1 else _any_of(queries)
        parts.append((tantivy.Occur.Must, query))
    if not question.groups:
        parts.append((tantivy.Occur.Must, tantivy.Query.all_query()))
    parts += [(tantivy.Occur.MustNot, _clause_query(clause, schema, weight)) for clause in question.excluded]
    return tantivy.Query.boolean_query(parts)


def _clause_query(clause: Clause, schema: tantivy.Schema, weight: FieldWeight) -> tantivy.Query:
    if clause.field == "host":
        # The host says nothing about relevance.
        return tantivy.Query.const_score_query(tantivy.Query.term_query(schema, "host", clause.terms[0]), 0.0)
    in_title = tantivy.Query.boost_query(
        phrase_query(schema, "title", clause.terms), TITLE_WEIGHT * weight("title", clause.terms)
    )
    if clause.field == "title":
        return in_title
    in_text = phrase_query(schema, "text", clause.terms)
    return _any_of([in_title, tantivy.Query.boost_query(in_text, weight("text", clause.terms))])


def phrase_query(schema: tantivy.Schema, field: str, terms: tuple[str, ...]) -> tantivy.Query:
    """Build the query for adjacent words in a field."""
    if len(terms) == 1:
        return tantivy.Query.term_query(schema, field, terms[0])
    return tantivy.Query.phrase_query(schema, field, list(terms))


def _any_of(queries: list[tantivy.Query]) -> tantivy.Query:
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])


def normalize_host(written: str) -> str:
    """Normalize a host as users write it: no scheme, path or outer dots.

    >>> normalize_host("HTTP://Example.org:80/a")
    'example.org:80'
    """
    name = written.lower().removeprefix("http://").removeprefix("https://")
    return name.partition("/")[0].strip(".")


def authority_of(url: str) -> str:
    """
    >>> authority_of("http://example.org:8080/a/b")
    'example.org:8080'
    """
    return url.partition("//")[2].partition("/")[0]


def searchable_host_names(authority: str) -> list[str]:
    """Return all names by which `host:` finds an authority: it and its parents, with and without port.

    >>> searchable_host_names("docs.example.org:8080")
    ['docs.example.org:8080', 'docs.example.org', 'example.org', 'org']
    >>> searchable_host_names("127.0.0.1:80"), searchable_host_names("[::1]")
    (['127.0.0.1:80', '127.0.0.1'], ['[::1]'])
    """
    name, _, port = authority.rpartition(":") if re.search(r":\d+\Z", authority) else (authority, "", "")
    result = [authority] if port else []
    result.append(name)
    if name.startswith("[") or name.replace(".", "").isdigit():
        return result
    while "." in name:
        name = name.partition(".")[2]
        result.append(name)
    return result
