"""Plain English in the source, the documentation, the help and the names of tests.

Words and phrases that made older versions hard to read are counted. A few may remain, for example in
quotations: the limit is two per thousand words in each kind of text.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LIMIT = 2.0
"""Hits per thousand words."""

_AFTER_WHO = (
    "is has comes came asks asked polls wants looks dies leaves reads joins holds only waits may was does did"
    " goes lets makes cannot can must speaks visits books knows"
)
_AFTER_WHAT = "is was were are has had came comes waits goes there"
_WITH_OF = "say says said tell tells told speak speaks hear hears heard know knows known"
_SINGLE = (
    "whoever whomever whichever nobody somebody anybody everybody meanwhile bear bears mend mends mended shun"
    " shuns shunned heed heeds pardon mercy forgive forgiven forgives lookalike beforehand errand errands"
    " luggage farewell thereby hence"
)
_PHRASES = (
    "so many,so often,so long,so much,any more,no more,for ever,some day,in vain,by and by,by heart,yet to,"
    "goes on,go on,went on,going on,of ours,of its own,of their own,of our own,of his own"
)
OBLIQUE = re.compile(
    r"\b(?:"
    + "|".join(
        [f"who {word}" for word in _AFTER_WHO.split()]
        + [f"what {word}" for word in _AFTER_WHAT.split()]
        + [f"{word} of" for word in _WITH_OF.split()]
        + _SINGLE.split()
        + _PHRASES.split(",")
    )
    + r")\b",
    re.IGNORECASE,
)


def python_files(folder: str) -> Iterator[Path]:
    yield from sorted((ROOT / folder).rglob("*.py"))


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def docstrings() -> Iterator[str]:
    for path in python_files("src"):
        for node in ast.walk(ast.parse(path.read_text())):
            if is_docstring(node) and isinstance(node.value.value, str):  # type: ignore[attr-defined]
                yield node.value.value  # type: ignore[attr-defined]


def comments() -> Iterator[str]:
    for path in python_files("src"):
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.COMMENT:
                yield token.string


def messages() -> Iterator[str]:
    """Errors, help and output: strings of several words that are no docstrings."""
    for path in python_files("src"):
        tree = ast.parse(path.read_text())
        documented = {id(node.value) for node in ast.walk(tree) if is_docstring(node)}  # type: ignore[attr-defined]
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in documented:
                continue
            if isinstance(node.value, str) and " " in node.value and len(node.value) > 20:
                yield node.value


def documents() -> Iterator[str]:
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        yield path.read_text()


def names_of_tests() -> Iterator[str]:
    for path in python_files("tests"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield node.name.removeprefix("test_").replace("_", " ")


@pytest.mark.parametrize("texts", [docstrings, comments, messages, documents, names_of_tests])
def test_texts_are_in_plain_english(texts: Callable[[], Iterator[str]]) -> None:
    words, hits = 0, []
    for text in texts():
        words += len(text.split())
        hits += OBLIQUE.findall(text)
    assert words > 1000
    assert 1000 * len(hits) / words <= LIMIT, hits


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Stop fetching after this time.", 0),
        ("Who is told when a page is gone, and what is said of it.", 3),
        ("Whoever asks goes on", 2),
    ],
)
def test_oblique_phrases_are_counted(text: str, count: int) -> None:
    assert len(OBLIQUE.findall(text)) == count
