"""A difference on a terminal: what the page says acts on nothing, and only our own colours are there."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.archive.warc_reader import ArchiveReader
from fieldmouse.cli.watch.changes import MAX_BLOCK_CHARS, difference_lines
from fieldmouse.diff.compare import find_hunks
from fieldmouse.formatting import sanitize
from fieldmouse.reader.page import StoredPage
from fieldmouse.reader.versions import VersionDifference
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

URL = Url("http://example.org/")
OURS = re.compile("\x1b\\[(31|32|2|0)m")

texts = st.text("ab \x1b\x07\u202e[0m\n", max_size=20).map(lambda text: " ".join(text.split())).filter(bool)
versions = st.lists(texts, max_size=6)


def difference(old: list[str], new: list[str]) -> VersionDifference:
    page = StoredPage(OutcomeRow(URL, OutcomeKind.PAGE, 1.0), ArchiveReader(Path("nowhere"), []))
    return VersionDifference(URL, page, page, (1, 2), 0.5, list(find_hunks(old, new)))


@given(versions, versions)
def test_what_a_page_says_acts_on_no_terminal(old: list[str], new: list[str]) -> None:
    told = difference(old, new)
    for line in difference_lines(told, coloured=False):
        assert line == sanitize(line)
    plain = [OURS.sub("", line) for line in difference_lines(told, coloured=True)]
    assert plain == list(difference_lines(told, coloured=False)), "colours are all that is added"


@given(versions, versions)
def test_every_block_that_went_or_came_is_shown(old: list[str], new: list[str]) -> None:
    told = difference(old, new)
    shown = "\n".join(difference_lines(told, coloured=False))
    assert ("no difference in the text" in shown) == (old == new)
    for hunk in told.hunks or ():
        if len(hunk.old) != len(hunk.new):
            assert all(f"- {sanitize(block)}" in shown for block in hunk.old)
            assert all(f"+ {sanitize(block)}" in shown for block in hunk.new)


def test_of_a_long_block_the_words_around_a_change_are_shown() -> None:
    words = [f"word{number}" for number in range(300)]
    changed = [*words[:150], "other", *words[151:]]
    *_, line = difference_lines(difference([" ".join(words)], [" ".join(changed)]), coloured=False)
    assert line.startswith("~ … word144 ")
    assert "word149 [-word150-] {+other+} word151" in line
    assert len(line) < 200
    *_, line = difference_lines(difference([], ["x" * 10_000]), coloured=False)
    assert len(line) == MAX_BLOCK_CHARS + 2
