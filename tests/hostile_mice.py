"""Plug-ins that do what plug-ins should not, and one that does what it should."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from fieldmouse.plugins.page import FoundLink, OutgoingRequest, PageText, ParsedPage, RawPage

print("loaded, and not silently")

not_callable = 42


def titles(page: ParsedPage) -> Iterator[dict[str, Any]]:
    """A good one: a row for the page, and one for each link on it."""
    yield {"title": page.title, "links": len(page.links)}
    for link in page.links:
        yield {"link": link}


def raises(page: ParsedPage) -> NoReturn:
    raise KeyError("price")


def leaves(page: ParsedPage) -> NoReturn:
    sys.exit("enough")


class Unspeakable(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def unspeakable(page: ParsedPage) -> NoReturn:
    raise Unspeakable


def raises_later(page: ParsedPage) -> Iterator[dict[str, Any]]:
    yield {"fine": 1}
    raise ValueError("half way")


def loops(page: ParsedPage) -> None:
    while True:
        pass


def sleeps(page: ParsedPage) -> None:
    time.sleep(3600)


def never_ends(page: ParsedPage) -> Iterator[dict[str, Any]]:
    return ({"number": number} for number in itertools.count())


def huge(page: ParsedPage) -> dict[str, Any]:
    return {"words": "x" * (3 << 20)}


def unwritable(page: ParsedPage) -> dict[str, Any]:
    return {"tree": object()}


def surrogates(page: ParsedPage) -> dict[str, Any]:
    return {"half": "\ud800"}


def bottomless(page: ParsedPage) -> dict[str, Any]:
    row: dict[str, Any] = {}
    row["row"] = row
    return row


def no_rows(page: ParsedPage) -> int:
    return 7


def words(page: ParsedPage) -> list[str]:
    return ["a", "row", "is", "no", "word"]


def recurses(page: ParsedPage) -> None:
    recurses(page)


def meddles(page: ParsedPage) -> dict[str, Any]:
    """Changes all that it was given, as far as it can."""
    page.headers.clear()
    page.links.clear()
    page.links.append("http://elsewhere.example/")
    for node in reversed(page.select("body *")):
        node.decompose()
    page.title = page.text = page.url = "mine"
    page.body = b"mine"
    return {"done": True}


def _is_hit(page: ParsedPage) -> bool:
    return "deadly" in page.url


def deaf(page: ParsedPage) -> dict[str, Any]:
    """Will not be stopped by anything it can catch."""
    while _is_hit(page):
        try:
            time.sleep(3600)
        except BaseException:
            continue
    return {"title": page.title}


def compiled_loop(page: ParsedPage) -> dict[str, Any]:
    """Hears nothing at all: no step of Python is taken in there."""
    return {"title": page.title, "sum": sum(itertools.count()) if _is_hit(page) else 0}


def dies(page: ParsedPage) -> dict[str, Any]:
    if _is_hit(page):
        os._exit(9)
    return {"title": page.title}


def crashes(page: ParsedPage) -> dict[str, Any]:
    return {"title": ctypes.string_at(0).decode() if _is_hit(page) else page.title}


def prints(page: ParsedPage) -> dict[str, Any]:
    print("not data")
    os.write(1, b"nor this\n")
    return {"printed": True}


# -- readers


def read_notes(answer: RawPage) -> PageText:
    """A good one, of a format of three lines: title, links, text."""
    title, links, text = answer.body.decode().split("\n", 2)
    return PageText(text, title=title, links=links.split())


def read_words(answer: RawPage) -> str:
    return answer.body.decode("utf-16")


def read_nothing(answer: RawPage) -> None: ...


def read_rubbish(answer: RawPage) -> PageText:
    return PageText(text=b"bytes", links=[7])  # type: ignore[arg-type, list-item]


def read_half_characters(answer: RawPage) -> PageText:
    return PageText(text="vole \ud800", title="a\n\ud800 b", links=["/\ud800"])


def read_hugely(answer: RawPage) -> PageText:
    return PageText(text="vole " * 1_000_000, title="x" * 10_000, language="y" * 1000)


def read_for_ever(answer: RawPage) -> PageText:
    while True:
        pass


# -- admission


def only_even(link: FoundLink) -> bool:
    return int(link.url.rpartition("/")[2]) % 2 == 0


def late_for_odd(link: FoundLink) -> bool:
    while int(link.url.rpartition("/")[2]) % 2:
        pass
    return True


def wants_what_it_knows(link: FoundLink) -> bool:
    return {"page": True, "sitemap": True, "redirect": False}[link.found_as]


# -- signatures


def sign_all(request: OutgoingRequest) -> dict[str, str]:
    """One that does not look whom it signs for."""
    return {"Authorization": "Bearer s3cret", "X-Path": request.url.rpartition("/")[2] or "-"}


def sign_aloud(request: OutgoingRequest) -> dict[str, str]:
    print("not data either")
    return {}


def sign_or_fail(request: OutgoingRequest) -> dict[str, str]:
    if "broken" in request.url or request.url.endswith("/robots.txt"):
        raise KeyError("s3cret")
    return {"Authorization": "Bearer s3cret"}
