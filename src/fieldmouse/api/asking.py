"""Mapping of keywords and command-line options to settings.

A keyword of the library and an option of the command are two spellings of one setting, so both are
converted here, by the reader of `fieldmouse.toml`, and raise the same errors. None means not given; 0 and
False are values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from fieldmouse import url
from fieldmouse.errors import UsageError, typed
from fieldmouse.named import name_of
from fieldmouse.settings import Settings, spellings
from fieldmouse.url import Url

SETTING_OF = {
    "pages": "crawl.pages",
    "time": "crawl.time",
    "depth": "crawl.max_depth",
    "contact": "crawl.contact",
    "delay": "politeness.delay",
    "scope": "scope.mode",
    "follow_seed_redirects": "scope.follow_seed_redirects",
    "policy": "frontier.policy",
    "concurrency": "fetch.concurrency",
    "control": "control.mode",
    "resolve": "network.resolve",
    "allow_private": "network.allow_private",
    "extract": "plugins.extract",
    "admit": "plugins.admit",
    "readers": "plugins.readers",
    "sign": "plugins.sign",
}
"""The setting of each keyword."""

CODE = ("policy", "extract", "admit", "sign")
"""Keywords that take user code: its name, or the object itself if it can be imported by name."""

_IN_SECONDS = ("delay", "time")
_LISTS = ("resolve",)


def applied(base: Settings, words: Mapping[str, object], changes: Mapping[str, object]) -> Settings:
    """`base` with the keywords applied, then `changes`, which use the names of `fieldmouse.toml`."""
    dotted: dict[str, object] = {}
    for word, value in words.items():
        if value is not None:
            dotted[SETTING_OF[word]] = _in_toml(word, value)
    if not isinstance(changes, Mapping) or not all(isinstance(name, str) for name in changes):
        raise UsageError(
            f"`settings` is {changes!r}, and no table of settings",
            'write it as settings={"limits.body": "4MiB"}',
        )
    return base.override(dotted | spellings.renamed(changes))


def _in_toml(word: str, value: object) -> object:
    """The value in TOML form: seconds with a unit, code by its name, any iterable as a list."""
    if word in CODE:
        return name_of(value, word)
    if word == "readers" and isinstance(value, Mapping):
        return {mime: name_of(code, "reader") for mime, code in value.items()}
    if word in _IN_SECONDS and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:f}s" if isinstance(value, float) else f"{value}s"
    if word in _LISTS and isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    return value


def directory_of(given: str | os.PathLike[str]) -> Path:
    """The directory of a crawl. Raises `UsageError` for a URL, which was meant as a seed."""
    text = os.fspath(given)
    seed = url.parse(text) if text.lower().startswith(("http://", "https://")) else None
    if seed is not None:
        site = url.site_of(url.name_of(url.host_of(seed)))
        name = site.partition(".")[0] if site[:1].isalpha() and site != url.LOOPBACK else "atlas"
        raise UsageError(
            f"`{text}` is a URL, and the first argument is the directory of the crawl",
            f"`fieldmouse crawl {typed(name)} --seed {typed(seed)}`,"
            f' or `fieldmouse.Crawl("{name}", seeds=["{seed}"])` in Python',
        )
    return Path(given)


def seeds_of(given: Iterable[str]) -> list[Url]:
    """The seed URLs, normalised, each once."""
    seeds: dict[Url, None] = {}
    for text in [given] if isinstance(given, str) else given:
        if not isinstance(text, str):
            raise UsageError(f"`{text}` is no URL we can crawl", "a seed begins with http:// or https://")
        seeds[url.seed(text)] = None
    return list(seeds)
