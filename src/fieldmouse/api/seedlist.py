"""Seeds that are added to a `fieldmouse.toml`, which otherwise stays as its owner left it.

The file is edited by people between runs and holds their comments, so it is not written
anew: only the value of `seeds` changes. What comes out is read back and compared.
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
    return settings_file.render(wanted)  # written in a way that we cannot follow: right comes before kept


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
    """Where the list that begins at `start` ends: behind the first bracket that makes it one."""
    end = start
    while (end := text.find("]", end) + 1) > 0:
        try:
            tomllib.loads(f"list = {text[start:end]}")
        except tomllib.TOMLDecodeError:
            continue
        return end
    return start
