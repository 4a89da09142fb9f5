"""Insertion of seeds into a `fieldmouse.toml`, with the rest of the file unchanged.

People edit the file between runs and write comments, so it is not rendered anew: only the value of `seeds`
changes. The result is parsed and compared.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

from fieldmouse import settings as settings_file
from fieldmouse.settings.kinds import SEEDS

_SECTION = re.compile(r"^[ \t]*\[crawl\][^\n]*\n?", re.MULTILINE)
_KEY = re.compile(r"^[ \t]*seeds[ \t]*=[ \t]*", re.MULTILINE)
_NEXT = re.compile(r"^[ \t]*\[", re.MULTILINE)


def with_seeds(text: str, added: Sequence[str]) -> str:
    """The text of a settings file with more seeds in it.

    >>> print(with_seeds('[crawl]\\nseeds = ["http://a/"] # mine\\n', ["http://b/"]), end="")
    [crawl]
    seeds = ["http://a/", "http://b/"] # mine
    """
    before = settings_file.parse(text)
    wanted = before.override({"crawl.seeds": [*before.crawl.seeds, *added]})
    edited = _edited(text, SEEDS.write(wanted.crawl.seeds))
    try:
        if tomllib.loads(edited) and settings_file.parse(edited) == wanted:
            return edited
    except tomllib.TOMLDecodeError:
        pass
    return settings_file.render(wanted)  # unusual syntax: correct settings matter more than the layout


def _edited(text: str, value: str) -> str:
    section = _SECTION.search(text)
    if section is None:
        return f"{text.rstrip()}\n\n[crawl]\nseeds = {value}\n"
    following = _NEXT.search(text, section.end())
    key = _KEY.search(text, section.end(), following.start() if following else len(text))
    if key is None:
        return f"{text[: section.end()].rstrip()}\nseeds = {value}\n{text[section.end() :]}"
    return text[: key.end()] + value + text[_end_of_list(text, key.end()) :]


def _end_of_list(text: str, start: int) -> int:
    """End of the list that begins at `start`: after the first bracket that makes it valid TOML."""
    end = start
    while (end := text.find("]", end) + 1) > 0:
        try:
            tomllib.loads(f"list = {text[start:end]}")
        except tomllib.TOMLDecodeError:
            continue
        return end
    return start
