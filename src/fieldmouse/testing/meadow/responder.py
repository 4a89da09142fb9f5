"""Response of a host to one request, shared by the socket server and the fetcher without sockets; robots.txt and
sitemaps.

The response is computed from the plan, with two small memories that end with the process: hosts and pages
that have already failed or been busy once (shared with processes forked later, so that once means once), and
the most recently rendered pages.

The groups for `*` and for fieldmouse have the same rules, except that fieldmouse is excluded from one more
directory; the ground truth is that for fieldmouse. Pages under /private/open- are allowed by the longer
match.
"""

from __future__ import annotations

import gzip
import mmap
import random
import time
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import brotli
import zstandard

from fieldmouse.testing.meadow import paths
from fieldmouse.testing.meadow.addresses import place_of_client
from fieldmouse.testing.meadow.changes import Location, PageChanges, PageLifetimes, PageVersion
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.page import CompressedPiece, PageRenderer, gzip_member, join_plain, render_noise
from fieldmouse.testing.meadow.paths import SpecialPath, page_random_words, path_of, special_path
from fieldmouse.testing.meadow.plan import MeadowPlan, Site
from fieldmouse.testing.meadow.rng import random_threshold, random_words

PER_SITEMAP = 1000


def robots_txt(site: Site, options: MeadowOptions) -> str | None:
    """Text of the host's robots.txt; None if it has none."""
    habits = site.habits
    if not habits.has_robots:
        return None
    rules = []
    if habits.keeps_private:
        rules += ["Disallow: /private/", "Allow: /private/open-", "disallow: /files/*.pdf$"]
    if habits.has_trap and not options.open_traps:
        rules += ["Disallow: /*?sid= # sessions", "Disallow: /calendar/"]
    # A group needs a rule: a Crawl-delay alone would not separate it from the next one.
    rules = rules or ["Disallow:"]
    if habits.crawl_delay:
        rules.append(f"Crawl-delay: {habits.crawl_delay:g}")
    lines = [f"# {site.authority}", "User-agent: *", *rules, ""]
    if habits.names_mice:
        lines += ["User-agent: greedybot", "Disallow: /", ""]
        lines += ["User-Agent: FieldMouse", "User-agent: othermouse", *rules, "Disallow: /nomice/", ""]
    lines += [f"Sitemap: {site.origin}{path}" for path in sitemap_paths(site)[:1]]
    return "\r\n".join(lines) + "\r\n"


def sitemap_paths(site: Site) -> list[str]:
    """Paths of the host's sitemap documents; if there are several, the first is the index of the others."""
    habits = site.habits
    if not habits.has_sitemap:
        return []
    end = ".xml.gz" if habits.sitemap_gzipped else ".xml"
    if not habits.sitemap_indexed and site.size <= PER_SITEMAP:
        return [f"/sitemap{end}"]
    return ["/sitemap.xml", *(f"/sitemap-{k}{end}" for k in range(-(-site.size // PER_SITEMAP)))]


def sitemap(
    site: Site, path: str, options: MeadowOptions, changes: PageChanges, fates: PageLifetimes, at: float
) -> bytes | None:
    """Sitemap document at `path`, or None if there is none."""
    paths = sitemap_paths(site)
    if path not in paths:
        return None
    place = paths.index(path)
    if len(paths) > 1 and place == 0:
        rows = "".join(f"<sitemap><loc>{site.origin}{part}</loc></sitemap>\n" for part in paths[1:])
        return _sitemap_document("sitemapindex", rows).encode()
    first = max(0, place - 1) * PER_SITEMAP
    rows = "".join(
        _sitemap_entry(site, place, _lastmod_of_page(site, page, options, changes, at))
        for page in range(first, min(first + PER_SITEMAP, site.size))
        for place in _current_paths(site, page, fates, at)
    )
    text = _sitemap_document("urlset", rows).encode()
    return gzip.compress(text, 6, mtime=0) if path.endswith(".gz") else text


def _current_paths(site: Site, page: int, fates: PageLifetimes, at: float) -> list[str]:
    """Current path of the page, and of the new page it links to."""
    if not fates.is_active:
        return [path_of(site, page)]
    story = [special_path(SpecialPath.STORY, page)] if fates.links_to_new_page(site, page, at) else []
    where = fates.location(site, page, at)
    if where is Location.MOVED:
        return [special_path(SpecialPath.HOME, page)]
    return [path_of(site, page), *story] if where is Location.HERE else []


def _lastmod_of_page(site: Site, page: int, options: MeadowOptions, changes: PageChanges, at: float) -> float:
    """Lastmod date of a page: the truth, or one of the two common lies."""
    if not has_false_lastmod(site, options):
        return changes.page_version(site, page, at).since
    always_today = random_words(options.seed, "lastmod", site.number)[1] & 1
    return at // 86_400.0 * 86_400.0 if always_today else options.began or 1e9


def has_false_lastmod(site: Site, options: MeadowOptions) -> bool:
    """Whether the host's lastmod is wrong."""
    return random_words(options.seed, "lastmod", site.number)[0] < random_threshold(options.sitemap_lies)


def _sitemap_entry(site: Site, place: str, since: float) -> str:
    path = place.replace("&", "&amp;")
    lastmod = time.strftime("<lastmod>%Y-%m-%dT%H:%M:%SZ</lastmod>", time.gmtime(since)) if since else ""
    return f"<url><loc>{site.origin}{path}</loc>{lastmod}</url>\n"


def _sitemap_document(root: str, rows: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{rows}</{root}>\n'
    )


_HTML = b"Content-Type: text/html; charset=utf-8\r\n"
_TEXT = b"Content-Type: text/plain; charset=utf-8\r\n"
_RECENT = 256
_REDIRECTS = (301, 302, 307, 308)


class MeadowRequest(NamedTuple):
    """Parts of a request that a host reads. Header values are as sent, "" when absent."""

    path: str
    accept_encoding: str = ""
    if_none_match: str = ""
    if_modified_since: str = ""
    client: str = "127.0.0.1"  # the client's address


class MeadowResponse(NamedTuple):
    status: int
    headers: bytes  # lines ending in CRLF; the server adds the framing
    body: bytes
    delay: float = 0.0  # seconds before the first byte
    drip: float = 0.0  # seconds over which the body is sent
    stall: bool = False  # never answer


class Responder:
    """Request handler for all hosts of a meadow."""

    def __init__(self, plan: MeadowPlan):
        self.plan = plan
        self.renderer = PageRenderer(plan)
        self.changes = PageChanges(plan.options)
        self.lifetimes = PageLifetimes(plan.options, self.changes)
        self._zstd = zstandard.ZstdCompressor(level=1)
        self._chance = random.Random(plan.options.seed)
        self._happened = mmap.mmap(-1, plan.options.pages + plan.options.hosts)  # a byte per page, then a byte per host
        self._recent: dict[tuple[int, int, int, str, bool], MeadowResponse] = {}

    def respond(self, site: Site, ask: MeadowRequest, now: float) -> MeadowResponse:
        answer = self._response_without_delay(site, ask, now)
        habits = site.habits
        if habits.latency:
            answer = answer._replace(delay=habits.latency * (0.5 + 0.5 * self._chance.expovariate(1.0)))
        options = self.plan.options
        if options.places > 1:
            own = place_of_client(ask.client, options.places) == site.place
            answer = answer._replace(delay=answer.delay + (options.near if own else options.far))
        if habits.slow and answer.status == 200:
            answer = answer._replace(drip=self.plan.options.slow_seconds)
        return answer

    def _response_without_delay(self, site: Site, ask: MeadowRequest, now: float) -> MeadowResponse:
        path = ask.path
        if path == "/robots.txt":
            text = robots_txt(site, self.plan.options)
            return _error_response(404) if text is None else MeadowResponse(200, _TEXT, text.encode())
        if site.habits.busy and self._is_first_time(self.plan.options.pages + site.number):
            wait = b"Retry-After: %d\r\n" % self.plan.options.busy_seconds
            return MeadowResponse(429, _HTML + wait, b"<!DOCTYPE html><title>busy</title><p>Come back later.</p>\n")
        place = paths.parse_path(site, path)
        if place is not None and place.special is None:
            return self._page_response(site, place.number, ask, now)
        if place is not None and place.special is not None:
            return self._special_path_response(site, place.special, place.number, ask, now)
        if path.startswith("/sitemap"):
            document = sitemap(site, path, self.plan.options, self.changes, self.lifetimes, now)
            if document is not None:
                kind = b"application/gzip" if path.endswith(".gz") else b"application/xml"
                return MeadowResponse(200, b"Content-Type: %s\r\n" % kind, document)
        return _error_response(404)

    def _page_response(
        self, site: Site, page: int, ask: MeadowRequest, now: float, moved: bool = False
    ) -> MeadowResponse:
        signs, dice = self.renderer.traits, page_random_words(site, page)
        if self.lifetimes.is_active and not moved:
            match self.lifetimes.location(site, page, now):
                case Location.AWAY:
                    return _error_response(404)
                case Location.GONE:
                    return _error_response(410)
                case Location.MOVED:
                    return _redirect_response(301, special_path(SpecialPath.HOME, page))
        if signs.never_answers(site, page, dice):
            return MeadowResponse(0, b"", b"", stall=True)
        if signs.fails_once(dice) and self._is_first_time(site.pages_before + page):
            return _error_response(500)
        shown = paths.original_page_of(site, page)
        if shown != page:
            dice = page_random_words(site, shown)
        version = self.changes.page_version_at_rate(site, shown, self.changes.change_rate_from_rng(dice), now)
        noise_markup = render_noise(self.plan.options, site, shown, now)
        validators = b"" if noise_markup else _validator_headers(site, page, version, now)
        if validators and self._is_unchanged(site, shown, validators, ask, version):
            return MeadowResponse(304, validators, b"")
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
            story = self.lifetimes.is_active and self.lifetimes.links_to_new_page(site, shown, now)
            pieces = self.renderer.render(site, shown, dice, version, noise_markup, story, moved)
            answer = self._encoded_response(headers, pieces, encoding)
            if uncacheable:
                return answer
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent[key] = answer
        return answer

    def _is_first_time(self, index: int) -> bool:
        if self._happened[index]:
            return False
        self._happened[index] = 1
        return True

    def _encoded_response(self, headers: bytes, pieces: list[CompressedPiece], encoding: str) -> MeadowResponse:
        if encoding == "gzip":
            body = gzip_member(pieces)
        elif encoding == "br":
            body = brotli.compress(join_plain(pieces), quality=0)
        elif encoding == "zstd":
            body = self._zstd.compress(join_plain(pieces))
        else:
            return MeadowResponse(200, headers + b"Vary: Accept-Encoding\r\n", join_plain(pieces))
        return MeadowResponse(200, headers + _ENCODED[encoding], body)

    def _is_unchanged(self, site: Site, page: int, validators: bytes, ask: MeadowRequest, version: PageVersion) -> bool:
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
            return unchanged and (not version.since or self.changes.is_only_change_in_its_second(site, page, version))
        return False

    def _special_path_response(
        self, site: Site, nook: SpecialPath, number: int, ask: MeadowRequest, now: float
    ) -> MeadowResponse:
        dice = page_random_words(site, number) if number < site.size else []
        if nook is SpecialPath.HOME:
            here = self.lifetimes.location(site, number, now) is Location.MOVED
            return self._page_response(site, number, ask, now, moved=True) if here else _error_response(404)
        if nook is SpecialPath.STORY:
            if not self.lifetimes.links_to_new_page(site, number, now):
                return _error_response(404)
            return _small_page(f"A story, part {site.number}-{number}", [path_of(site, number), "/"])
        if nook is SpecialPath.CALENDAR:
            if not site.habits.has_trap:
                return _error_response(404)
            near = [special_path(nook, number + 1), special_path(nook, max(0, number - 1)), "/"]
            return _small_page(f"Month {number}", near)
        if nook is SpecialPath.SESSION:
            if not site.habits.has_trap or number % 16:
                return _error_response(404)
            fresh = f"{path_of(site, number)}?sid={self._chance.getrandbits(32):08x}"
            return _small_page("Welcome back", [fresh, path_of(site, number), "/"])
        if nook is SpecialPath.ONWARD:
            if not paths.is_redirect_chain(dice):
                return _error_response(404)
            return _redirect_response(301, site.origin + path_of(site, dice[10] % site.original))
        linked = nook in self.renderer.traits.special_links(site, number, dice)
        if nook is SpecialPath.GONE or not linked or number != paths.original_page_of(site, number):
            return _error_response(404)
        if nook is SpecialPath.BROKEN:
            return _error_response(500)
        if nook is SpecialPath.GO:
            return self._redirect_of_page(site, number, dice)
        if nook is SpecialPath.FILE:
            return MeadowResponse(200, b"Content-Type: application/pdf\r\n", b"%PDF-1.4\n%%EOF\n")
        return _small_page(f"{nook.name.lower()} {number}", ["/"])

    def _redirect_of_page(self, site: Site, number: int, dice: list[int]) -> MeadowResponse:
        status = redirect_status(dice)
        if paths.is_redirect_chain(dice):
            return _redirect_response(status, special_path(SpecialPath.ONWARD, number))
        if dice[9] % 4 == 1:
            other = self.plan.popular_sites[dice[10] % 4096]
            return _redirect_response(status, other.origin + path_of(other, dice[11] % other.original))
        return _redirect_response(status, path_of(site, dice[10] % site.original))


_ENCODED = {
    name: b"Content-Encoding: %s\r\nVary: Accept-Encoding\r\n" % name.encode() for name in ("gzip", "br", "zstd")
}


def redirect_status(dice: list[int]) -> int:
    return _REDIRECTS[dice[8] % 4]


def _error_response(status: int) -> MeadowResponse:
    return MeadowResponse(status, _HTML, b"<!DOCTYPE html><title>%d</title><p>Nothing here.</p>\n" % status)


def _redirect_response(status: int, target: str) -> MeadowResponse:
    return MeadowResponse(
        status, _HTML + b"Location: %s\r\n" % target.encode(), b"<!DOCTYPE html><title>Moved</title>\n"
    )


def _small_page(title: str, links: list[str]) -> MeadowResponse:
    items = "".join(f'<li><a href="{link.replace("&", "&amp;")}">{link[1:5]}</a></li>' for link in links)
    text = f'<!DOCTYPE html><html lang="en"><title>{title}</title><h1>{title}</h1><ul>{items}</ul>\n'
    return MeadowResponse(200, _HTML, text.encode())


def _validator_headers(site: Site, page: int, version: PageVersion, now: float) -> bytes:
    kind, lie = site.habits.validators, site.habits.date_lie
    if kind == 0:
        return b""
    modified = _last_modified_header(version.since) if version.since else _EVER
    if lie:
        modified = _last_modified_header(now) if lie == "now" else _EVER
    return modified if kind == 1 else b'%sETag: W/"%x-%x"\r\n' % (modified, page, version.number)


def _last_modified_header(since: float) -> bytes:
    return time.strftime("Last-Modified: %a, %d %b %Y %H:%M:%S GMT\r\n", time.gmtime(since)).encode()


_EVER = _last_modified_header(1e9)
