"""Response of a host to one request, shared by the socket server and the fetcher without sockets.

The response is computed from the plan, with two small memories that end with the process: hosts and pages
that have already failed or been busy once (shared with processes forked later, so that once means once), and
the most recently rendered pages.
"""

from __future__ import annotations

import mmap
import random
import time
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import brotli
import zstandard

from fieldmouse.testing.meadow.addresses import place_of_visitor
from fieldmouse.testing.meadow.changes import Changes, Fates, PageVersion, Whereabout
from fieldmouse.testing.meadow.page import Piece, Press, gzipped, noise, plain_of
from fieldmouse.testing.meadow.paths import (
    Nook,
    chain,
    dice_of,
    find,
    nook_path,
    original_of,
    path_of,
)
from fieldmouse.testing.meadow.plan import MeadowPlan, Site
from fieldmouse.testing.meadow.robots_and_sitemaps import exclusion, sitemap

_HTML = b"Content-Type: text/html; charset=utf-8\r\n"
_TEXT = b"Content-Type: text/plain; charset=utf-8\r\n"
_RECENT = 256
_REDIRECTS = (301, 302, 307, 308)


class Ask(NamedTuple):
    """Parts of a request that a host reads. Header values are as sent, "" when absent."""

    path: str
    accept_encoding: str = ""
    if_none_match: str = ""
    if_modified_since: str = ""
    client: str = "127.0.0.1"  # the client's address


class MeadowAnswer(NamedTuple):
    status: int
    headers: bytes  # lines ending in CRLF; the server adds the framing
    body: bytes
    delay: float = 0.0  # seconds before the first byte
    drip: float = 0.0  # seconds over which the body is sent
    stall: bool = False  # never answer


class MeadowDesk:
    """Request handler for all hosts of a meadow."""

    def __init__(self, plan: MeadowPlan):
        self.plan = plan
        self.press = Press(plan)
        self.changes = Changes(plan.options)
        self.fates = Fates(plan.options, self.changes)
        self._zstd = zstandard.ZstdCompressor(level=1)
        self._chance = random.Random(plan.options.seed)
        self._happened = mmap.mmap(
            -1, plan.options.pages + plan.options.hosts
        )  # a byte per page, then a byte per host
        self._recent: dict[tuple[int, int, int, str, bool], MeadowAnswer] = {}

    def answer(self, site: Site, ask: Ask, now: float) -> MeadowAnswer:
        answer = self._answer(site, ask, now)
        habits = site.habits
        if habits.latency:
            answer = answer._replace(delay=habits.latency * (0.5 + 0.5 * self._chance.expovariate(1.0)))
        options = self.plan.options
        if options.places > 1:
            own = place_of_visitor(ask.client, options.places) == site.place
            answer = answer._replace(delay=answer.delay + (options.near if own else options.far))
        if habits.slow and answer.status == 200:
            answer = answer._replace(drip=self.plan.options.slow_seconds)
        return answer

    def _answer(self, site: Site, ask: Ask, now: float) -> MeadowAnswer:
        path = ask.path
        if path == "/robots.txt":
            text = exclusion(site, self.plan.options)
            return _nothing(404) if text is None else MeadowAnswer(200, _TEXT, text.encode())
        if site.habits.busy and self._first_time(self.plan.options.pages + site.number):
            wait = b"Retry-After: %d\r\n" % self.plan.options.busy_seconds
            return MeadowAnswer(
                429, _HTML + wait, b"<!DOCTYPE html><title>busy</title><p>Come back later.</p>\n"
            )
        place = find(site, path)
        if place is not None and place.nook is None:
            return self._page(site, place.number, ask, now)
        if place is not None and place.nook is not None:
            return self._nook(site, place.nook, place.number, ask, now)
        if path.startswith("/sitemap"):
            document = sitemap(site, path, self.plan.options, self.changes, self.fates, now)
            if document is not None:
                kind = b"application/gzip" if path.endswith(".gz") else b"application/xml"
                return MeadowAnswer(200, b"Content-Type: %s\r\n" % kind, document)
        return _nothing(404)

    def _page(self, site: Site, page: int, ask: Ask, now: float, moved: bool = False) -> MeadowAnswer:
        signs, dice = self.press.signs, dice_of(site, page)
        if self.fates.any and not moved:
            match self.fates.where(site, page, now):
                case Whereabout.AWAY:
                    return _nothing(404)
                case Whereabout.GONE:
                    return _nothing(410)
                case Whereabout.MOVED:
                    return _moved(301, nook_path(Nook.HOME, page))
        if signs.stalls(site, page, dice):
            return MeadowAnswer(0, b"", b"", stall=True)
        if signs.fails_first(dice) and self._first_time(site.first + page):
            return _nothing(500)
        shown = original_of(site, page)
        if shown != page:
            dice = dice_of(site, shown)
        version = self.changes.version_by(site, shown, self.changes.rate_by(dice), now)
        noise_markup = noise(self.plan.options, site, shown, now)
        validators = b"" if noise_markup else _validators(site, page, version, now)
        if validators and self._is_unchanged(site, shown, validators, ask, version):
            return MeadowAnswer(304, validators, b"")
        encoding = site.habits.encoding
        if encoding and encoding not in ask.accept_encoding:
            encoding = "gzip" if "gzip" in ask.accept_encoding else ""
        key = (site.number, page, version.number, encoding, moved)
        uncacheable = bool(noise_markup) or site.habits.date_lie == "now"
        answer = None if uncacheable else self._recent.get(key)
        if answer is None:
            headers = _HTML + validators
            if signs.is_nofollow(site, shown, dice) and not dice[6] & 1:
                headers += b"X-Robots-Tag: nofollow\r\n"
            story = self.fates.any and self.fates.has_story(site, shown, now)
            pieces = self.press.pieces(site, shown, dice, version, noise_markup, story, moved)
            answer = self._encoded(headers, pieces, encoding)
            if uncacheable:
                return answer
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent[key] = answer
        return answer

    def _first_time(self, index: int) -> bool:
        if self._happened[index]:
            return False
        self._happened[index] = 1
        return True

    def _encoded(self, headers: bytes, pieces: list[Piece], encoding: str) -> MeadowAnswer:
        if encoding == "gzip":
            body = gzipped(pieces)
        elif encoding == "br":
            body = brotli.compress(plain_of(pieces), quality=0)
        elif encoding == "zstd":
            body = self._zstd.compress(plain_of(pieces))
        else:
            return MeadowAnswer(200, headers + b"Vary: Accept-Encoding\r\n", plain_of(pieces))
        return MeadowAnswer(200, headers + _ENCODED[encoding], body)

    def _is_unchanged(self, site: Site, page: int, validators: bytes, ask: Ask, version: PageVersion) -> bool:
        if ask.if_none_match:
            _, _, etag = validators.partition(b"ETag: ")
            return bool(etag) and etag.strip().decode() in ask.if_none_match
        if ask.if_modified_since and not site.habits.date_lie:
            try:
                held = parsedate_to_datetime(ask.if_modified_since).timestamp()
            except ValueError:
                return False
            unchanged = int(version.since or 1e9) <= held
            # The date cannot distinguish two changes within a second: a conditional request by date then gets
            # the page.
            return unchanged and (not version.since or self.changes.tells_of_seconds(site, page, version))
        return False

    def _nook(self, site: Site, nook: Nook, number: int, ask: Ask, now: float) -> MeadowAnswer:
        dice = dice_of(site, number) if number < site.size else []
        if nook is Nook.HOME:
            here = self.fates.where(site, number, now) is Whereabout.MOVED
            return self._page(site, number, ask, now, moved=True) if here else _nothing(404)
        if nook is Nook.STORY:
            if not self.fates.has_story(site, number, now):
                return _nothing(404)
            return _leaf(f"A story, part {site.number}-{number}", [path_of(site, number), "/"])
        if nook is Nook.CALENDAR:
            if not site.habits.has_trap:
                return _nothing(404)
            near = [nook_path(nook, number + 1), nook_path(nook, max(0, number - 1)), "/"]
            return _leaf(f"Month {number}", near)
        if nook is Nook.SESSION:
            if not site.habits.has_trap or number % 16:
                return _nothing(404)
            fresh = f"{path_of(site, number)}?sid={self._chance.getrandbits(32):08x}"
            return _leaf("Welcome back", [fresh, path_of(site, number), "/"])
        if nook is Nook.ONWARD:
            if not chain(dice):
                return _nothing(404)
            return _moved(301, site.origin + path_of(site, dice[10] % site.original))
        if nook not in self.press.signs.nooks(site, number, dice) or number != original_of(site, number):
            return _nothing(404)
        match nook:
            case Nook.GONE:
                return _nothing(404)
            case Nook.BROKEN:
                return _nothing(500)
            case Nook.GO:
                return self._go(site, number, dice)
            case Nook.FILE:
                return MeadowAnswer(200, b"Content-Type: application/pdf\r\n", b"%PDF-1.4\n%%EOF\n")
            case _:
                return _leaf(f"{nook.name.lower()} {number}", ["/"])

    def _go(self, site: Site, number: int, dice: list[int]) -> MeadowAnswer:
        status = redirect_status(dice)
        if chain(dice):
            return _moved(status, nook_path(Nook.ONWARD, number))
        if dice[9] % 4 == 1:
            other = self.plan.popular[dice[10] % 4096]
            return _moved(status, other.origin + path_of(other, dice[11] % other.original))
        return _moved(status, path_of(site, dice[10] % site.original))


_ENCODED = {
    name: b"Content-Encoding: %s\r\nVary: Accept-Encoding\r\n" % name.encode()
    for name in ("gzip", "br", "zstd")
}


def redirect_status(dice: list[int]) -> int:
    return _REDIRECTS[dice[8] % 4]


def _nothing(status: int) -> MeadowAnswer:
    return MeadowAnswer(status, _HTML, b"<!DOCTYPE html><title>%d</title><p>Nothing here.</p>\n" % status)


def _moved(status: int, target: str) -> MeadowAnswer:
    return MeadowAnswer(
        status, _HTML + b"Location: %s\r\n" % target.encode(), b"<!DOCTYPE html><title>Moved</title>\n"
    )


def _leaf(title: str, links: list[str]) -> MeadowAnswer:
    items = "".join(f'<li><a href="{link.replace("&", "&amp;")}">{link[1:5]}</a></li>' for link in links)
    text = f'<!DOCTYPE html><html lang="en"><title>{title}</title><h1>{title}</h1><ul>{items}</ul>\n'
    return MeadowAnswer(200, _HTML, text.encode())


def _validators(site: Site, page: int, version: PageVersion, now: float) -> bytes:
    kind, lie = site.habits.validators, site.habits.date_lie
    if kind == 0:
        return b""
    modified = _modified(version.since) if version.since else _EVER
    if lie:
        modified = _modified(now) if lie == "now" else _EVER
    return modified if kind == 1 else b'%sETag: W/"%x-%x"\r\n' % (modified, page, version.number)


def _modified(since: float) -> bytes:
    return time.strftime("Last-Modified: %a, %d %b %Y %H:%M:%S GMT\r\n", time.gmtime(since)).encode()


_EVER = _modified(1e9)
