"""Paths on a host: the path of each page, and the meaning of each path.

Both directions are computed, nothing is stored: a path contains the number of its page. All pages lie one
directory deep, so a relative link such as `../news/x.html` means the same on each of them, the root
included.

Besides its pages a host has special paths that some pages link to (`SpecialPath`). Each carries the
number of the page that links to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.plan import FANOUT, Site
from fieldmouse.testing.meadow.rng import random_threshold, salted_random_words
from fieldmouse.testing.meadow.words import ALL_TOPIC_WORDS


class SpecialPath(Enum):
    """Kind of a special path, which is not a page of the plan."""

    GONE = auto()  # 404
    GO = auto()  # a redirect to a page, or to ONWARD
    ONWARD = auto()  # the second redirect of a chain
    BROKEN = auto()  # 500, always
    PRIVATE = auto()  # excluded by robots.txt for everyone
    FILE = auto()  # excluded by a wildcard
    NOMICE = auto()  # excluded in fieldmouse's own group
    PARTNER = auto()  # reached by a rel=nofollow link only
    MEMBERS = auto()  # reached from a page that says nofollow only
    CALENDAR = auto()  # a trap: there is always a next month
    SESSION = auto()  # a trap: every visit has a new session id
    STORY = auto()  # a page that appears when the page linking to it changes
    HOME = auto()  # the new location of a moved page


class PathMeaning(NamedTuple):
    """Meaning of a path: a page (`special` is None) or a special path, and the number in it."""

    special: SpecialPath | None
    number: int


_FORMS = {
    SpecialPath.GONE: ("/gone/old-", ".html"),
    SpecialPath.GO: ("/go/to-", ""),
    SpecialPath.ONWARD: ("/go/onward-", ""),
    SpecialPath.BROKEN: ("/cgi/broken-", ""),
    SpecialPath.PRIVATE: ("/private/room-", ".html"),
    SpecialPath.FILE: ("/files/paper-", ".pdf"),
    SpecialPath.NOMICE: ("/nomice/trap-", ".html"),
    SpecialPath.PARTNER: ("/partners/deal-", ".html"),
    SpecialPath.MEMBERS: ("/members/diary-", ".html"),
    SpecialPath.CALENDAR: ("/calendar/month-", ".html"),
    SpecialPath.STORY: ("/stories/part-", ".html"),
    SpecialPath.HOME: ("/homes/new-", ".html"),
}


def special_path(nook: SpecialPath, number: int) -> str:
    start, end = _FORMS[nook]
    return f"{start}{number}{end}"


def path_of(site: Site, page: int) -> str:
    """Path of a page, as it appears in a URL."""
    if page == 0:
        return "/"
    section = section_of(site, page)
    word = ALL_TOPIC_WORDS[(page * site.scatter >> 3) % len(ALL_TOPIC_WORDS)]
    if section == "private":  # excluded, except for paths with this prefix
        return f"/private/open-{word}-{page}.html"
    if page % 16 == 8:
        return f"/{section}/show?topic={word}&id=-{page}"
    if page % 64 == 9:
        return f"/{section}/caf%C3%A9%20{word}-{page}.html"
    return f"/{section}/{word}-{page}.html"


def section_of(site: Site, page: int) -> str:
    # A copy lies in its original's directory; otherwise its relative links would point elsewhere.
    page = original_page_of(site, page)
    if page % 97 == 5 and site.habits.keeps_private:
        return "private"
    return site.sections[page % len(site.sections)]


def original_page_of(site: Site, page: int) -> int:
    """The page whose body this one shows: itself, except for copies."""
    if site.original <= page < site.linked:
        return 1 + (page * site.scatter >> 5) % (site.original - 1)
    return page


def parse_path(site: Site, path: str) -> PathMeaning | None:
    """Return the meaning of `path`, or None if nothing is there."""
    if path == "/":
        return PathMeaning(None, 0)
    if "?sid=" in path:
        meaning = parse_path(site, path.partition("?sid=")[0])
        return PathMeaning(SpecialPath.SESSION, meaning.number) if meaning and meaning.special is None else None
    _, dash, tail = path.rpartition("-")
    number = tail.partition(".")[0]
    if not dash or not number.isdecimal() or len(number) > 12:
        return None
    page = int(number)
    if page < site.size and path == path_of(site, page):
        return PathMeaning(None, page)
    nook = _BY_START.get(path[: -len(tail)])
    if nook is None or path != special_path(nook, page):
        return None
    return PathMeaning(nook, page) if nook is SpecialPath.CALENDAR or page < site.size else None


_BY_START = {start: nook for nook, (start, _) in _FORMS.items()}


class PageTraits:
    """Thresholds for a page's random numbers: the special paths it links to, and its own peculiarities."""

    def __init__(self, options: MeadowOptions):
        self.gone = random_threshold(options.not_found)
        self.go = random_threshold(options.redirects)
        self.private = random_threshold(options.private)
        self.nofollow = random_threshold(options.nofollow)
        self.broken = random_threshold(options.broken)
        self.server_error = random_threshold(options.server_error)
        self.noindex = random_threshold(options.noindex)

    def special_links(self, site: Site, page: int, dice: list[int]) -> Iterator[SpecialPath]:
        """Special paths that an original page links to."""
        if self.is_nofollow(site, page, dice):
            yield SpecialPath.MEMBERS
            return
        habits = site.habits
        if dice[0] < self.gone:
            yield SpecialPath.GONE
        if dice[1] < self.go:
            yield SpecialPath.GO
        if habits.keeps_private and dice[2] < self.private:
            yield SpecialPath.FILE if dice[2] & 1 else SpecialPath.PRIVATE
        if habits.names_mice and dice[3] < self.private:
            yield SpecialPath.NOMICE
        if dice[4] < self.nofollow:
            yield SpecialPath.PARTNER
        if dice[5] < self.broken:
            yield SpecialPath.BROKEN
        if habits.has_trap and page % 16 == 0 and page % 97 != 5:
            yield SpecialPath.SESSION
        if habits.has_trap and page == 0:
            yield SpecialPath.CALENDAR

    def is_nofollow(self, site: Site, page: int, dice: list[int]) -> bool:
        """Whether the whole page says nofollow; only leaf pages do."""
        return dice[6] < self.nofollow and page > 0 and page * FANOUT + 1 >= site.linked

    def never_answers(self, site: Site, page: int, dice: list[int]) -> bool:
        return site.habits.stalling and page * FANOUT + 1 >= site.linked and page > 0 and dice[7] % 4 == 0

    def fails_once(self, dice: list[int]) -> bool:
        return dice[8] < self.server_error


def page_random_words(site: Site, page: int) -> list[int]:
    return salted_random_words(site.salt, page)


def child_pages(site: Site, page: int) -> range:
    """Pages of the same host that an original page links to first."""
    first = page * FANOUT + 1
    return range(min(first, site.linked), min(first + FANOUT, site.linked))


def is_redirect_chain(dice: list[int]) -> bool:
    """Whether the redirect that the page links to is the first of two."""
    return dice[9] % 4 == 0
