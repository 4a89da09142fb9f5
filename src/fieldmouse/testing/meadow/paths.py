"""Paths on a host: the path of each page, and the meaning of each path.

Both directions are computed, nothing is stored: a path contains the number of its page. All pages lie one
directory deep, so a relative link such as `../news/x.html` means the same on each of them, the root included.

Besides its pages a host has special paths that some pages link to (`Nook`). Each carries the number of the
page that links to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.plan import FANOUT, Site
from fieldmouse.testing.meadow.rng import below, throw_at
from fieldmouse.testing.meadow.words import FLAT


class Nook(Enum):
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
    """Meaning of a path: a page (`nook` is None) or a special path, and the number in it."""

    nook: Nook | None
    number: int


_FORMS = {
    Nook.GONE: ("/gone/old-", ".html"),
    Nook.GO: ("/go/to-", ""),
    Nook.ONWARD: ("/go/onward-", ""),
    Nook.BROKEN: ("/cgi/broken-", ""),
    Nook.PRIVATE: ("/private/room-", ".html"),
    Nook.FILE: ("/files/paper-", ".pdf"),
    Nook.NOMICE: ("/nomice/trap-", ".html"),
    Nook.PARTNER: ("/partners/deal-", ".html"),
    Nook.MEMBERS: ("/members/diary-", ".html"),
    Nook.CALENDAR: ("/calendar/month-", ".html"),
    Nook.STORY: ("/stories/part-", ".html"),
    Nook.HOME: ("/homes/new-", ".html"),
}


def nook_path(nook: Nook, number: int) -> str:
    start, end = _FORMS[nook]
    return f"{start}{number}{end}"


def path_of(site: Site, page: int) -> str:
    """Path of a page, as it appears in a URL."""
    if page == 0:
        return "/"
    section = section_of(site, page)
    word = FLAT[(page * site.twist >> 3) % len(FLAT)]
    if section == "private":  # excluded, except for paths with this prefix
        return f"/private/open-{word}-{page}.html"
    if page % 16 == 8:
        return f"/{section}/show?topic={word}&id=-{page}"
    if page % 64 == 9:
        return f"/{section}/caf%C3%A9%20{word}-{page}.html"
    return f"/{section}/{word}-{page}.html"


def section_of(site: Site, page: int) -> str:
    # A copy lies in its original's directory; otherwise its relative links would point elsewhere.
    page = original_of(site, page)
    if page % 97 == 5 and site.habits.keeps_private:
        return "private"
    return site.sections[page % len(site.sections)]


def original_of(site: Site, page: int) -> int:
    """The page whose body this one shows: itself, except for copies."""
    if site.original <= page < site.linked:
        return 1 + (page * site.twist >> 5) % (site.original - 1)
    return page


def find(site: Site, path: str) -> PathMeaning | None:
    """Return the meaning of `path`, or None if nothing is there."""
    if path == "/":
        return PathMeaning(None, 0)
    if "?sid=" in path:
        meaning = find(site, path.partition("?sid=")[0])
        return PathMeaning(Nook.SESSION, meaning.number) if meaning and meaning.nook is None else None
    _, dash, tail = path.rpartition("-")
    number = tail.partition(".")[0]
    if not dash or not number.isdecimal() or len(number) > 12:
        return None
    page = int(number)
    if page < site.size and path == path_of(site, page):
        return PathMeaning(None, page)
    nook = _BY_START.get(path[: -len(tail)])
    if nook is None or path != nook_path(nook, page):
        return None
    return PathMeaning(nook, page) if nook is Nook.CALENDAR or page < site.size else None


_BY_START = {start: nook for nook, (start, _) in _FORMS.items()}


class Signs:
    """Thresholds for a page's random numbers: the special paths it links to, and its own peculiarities."""

    def __init__(self, options: MeadowOptions):
        self.gone = below(options.not_found)
        self.go = below(options.redirects)
        self.private = below(options.private)
        self.nofollow = below(options.nofollow)
        self.broken = below(options.broken)
        self.server_error = below(options.server_error)
        self.noindex = below(options.noindex)
        self.changing = below(options.changing)

    def nooks(self, site: Site, page: int, dice: list[int]) -> Iterator[Nook]:
        """Special paths that an original page links to."""
        if self.is_nofollow(site, page, dice):
            yield Nook.MEMBERS
            return
        habits = site.habits
        if dice[0] < self.gone:
            yield Nook.GONE
        if dice[1] < self.go:
            yield Nook.GO
        if habits.keeps_private and dice[2] < self.private:
            yield Nook.FILE if dice[2] & 1 else Nook.PRIVATE
        if habits.names_mice and dice[3] < self.private:
            yield Nook.NOMICE
        if dice[4] < self.nofollow:
            yield Nook.PARTNER
        if dice[5] < self.broken:
            yield Nook.BROKEN
        if habits.has_trap and page % 16 == 0 and page % 97 != 5:
            yield Nook.SESSION
        if habits.has_trap and page == 0:
            yield Nook.CALENDAR

    def is_nofollow(self, site: Site, page: int, dice: list[int]) -> bool:
        """Whether the whole page says nofollow; only leaf pages do."""
        return dice[6] < self.nofollow and page > 0 and page * FANOUT + 1 >= site.linked

    def stalls(self, site: Site, page: int, dice: list[int]) -> bool:
        return site.habits.stalling and page * FANOUT + 1 >= site.linked and page > 0 and dice[7] % 4 == 0

    def fails_first(self, dice: list[int]) -> bool:
        return dice[8] < self.server_error


def dice_of(site: Site, page: int) -> list[int]:
    return throw_at(site.salt, page)


def children(site: Site, page: int) -> range:
    """Pages of the same host that an original page links to first."""
    first = page * FANOUT + 1
    return range(min(first, site.linked), min(first + FANOUT, site.linked))


def chain(dice: list[int]) -> bool:
    """Whether the redirect that the page links to is the first of two."""
    return dice[9] % 4 == 0
