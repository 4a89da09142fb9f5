"""Snippets of search results: bold on a terminal, plain text anywhere else."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.cli.read.search import SNIPPET_WIDTH, snippet_lines
from fieldmouse.formatting import sanitize

OURS = re.compile("\x1b\\[[01]m")

words = st.text("ab-*\x1b\u202e\u00e9", min_size=1, max_size=30)
pieces = st.lists(st.tuples(st.lists(words, min_size=1, max_size=9).map(" ".join), st.booleans()), max_size=9)


@given(pieces)
def test_bold_type_is_all_that_a_terminal_gets_more(given: list[tuple[str, bool]]) -> None:
    # Words of two pieces are apart, as in a text of single blanks.
    spaced = [(f" {text}" if place else text, found) for place, (text, found) in enumerate(given)]
    plain, bold = (list(snippet_lines(spaced, bold=bold)) for bold in (False, True))
    assert [OURS.sub("", line) for line in bold] == plain
    assert all(line == sanitize(line) and len(line) <= SNIPPET_WIDTH for line in plain)
    assert "".join(plain).replace(" ", "") == sanitize("".join(text for text, _ in spaced)).replace(" ", "")
    marked = "".join(re.findall("\x1b\\[1m(.*?)\x1b\\[0m", "".join(bold)))
    assert marked.replace(" ", "") == sanitize("".join(text for text, found in spaced if found)).replace(" ", "")


def test_asterisks_of_the_page_stay_and_ours_are_not_shown() -> None:
    given = [("see ", False), ("note", True), (" **here**", False)]
    assert list(snippet_lines(given, bold=False)) == ["see note **here**"]
    assert list(snippet_lines(given, bold=True)) == ["see \x1b[1mnote\x1b[0m **here**"]
