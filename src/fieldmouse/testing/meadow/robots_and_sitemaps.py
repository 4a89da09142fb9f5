"""Robots.txt and sitemaps of the synthetic web's hosts.

The groups for `*` and for fieldmouse have the same rules, except that fieldmouse is excluded from one more
directory; the ground truth is that for fieldmouse. Pages under /private/open- are allowed by the longer
match.
"""

from __future__ import annotations

import gzip
import time

from fieldmouse.testing.meadow.changes import Changes, Location, PageLifetimes
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.paths import SpecialPath, path_of, special_path
from fieldmouse.testing.meadow.plan import Site
from fieldmouse.testing.meadow.rng import random_words, threshold

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
    site: Site, path: str, options: MeadowOptions, changes: Changes, fates: PageLifetimes, at: float
) -> bytes | None:
    """Sitemap document at `path`, or None if there is none."""
    paths = sitemap_paths(site)
    if path not in paths:
        return None
    place = paths.index(path)
    if len(paths) > 1 and place == 0:
        rows = "".join(f"<sitemap><loc>{site.origin}{part}</loc></sitemap>\n" for part in paths[1:])
        return _document("sitemapindex", rows).encode()
    first = max(0, place - 1) * PER_SITEMAP
    lastmod = _Lastmod(site, options, changes)
    rows = "".join(
        _row(site, place, lastmod.of(page, at))
        for page in range(first, min(first + PER_SITEMAP, site.size))
        for place in _places(site, page, fates, at)
    )
    text = _document("urlset", rows).encode()
    return gzip.compress(text, 6, mtime=0) if path.endswith(".gz") else text


def _places(site: Site, page: int, fates: PageLifetimes, at: float) -> list[str]:
    """Current path of the page, and of the new page it links to."""
    if not fates.is_active:
        return [path_of(site, page)]
    story = [special_path(SpecialPath.STORY, page)] if fates.links_to_new_page(site, page, at) else []
    where = fates.location(site, page, at)
    if where is Location.MOVED:
        return [special_path(SpecialPath.HOME, page)]
    return [path_of(site, page), *story] if where is Location.HERE else []


class _Lastmod:
    """Lastmod dates of a host: the truth, or one of the two common lies."""

    def __init__(self, site: Site, options: MeadowOptions, changes: Changes):
        self._lies = has_false_lastmod(site, options)
        self._always_today = bool(random_words(options.seed, "lastmod", site.number)[1] & 1)
        self._site, self._changes, self._began = site, changes, options.began

    def of(self, page: int, at: float) -> float:
        if self._lies:
            return at // 86_400.0 * 86_400.0 if self._always_today else self._began or 1e9
        return self._changes.version(self._site, page, at).since


def has_false_lastmod(site: Site, options: MeadowOptions) -> bool:
    """Whether the host's lastmod is wrong."""
    return random_words(options.seed, "lastmod", site.number)[0] < threshold(options.sitemap_lies)


def _row(site: Site, place: str, since: float) -> str:
    path = place.replace("&", "&amp;")
    lastmod = time.strftime("<lastmod>%Y-%m-%dT%H:%M:%SZ</lastmod>", time.gmtime(since)) if since else ""
    return f"<url><loc>{site.origin}{path}</loc>{lastmod}</url>\n"


def _document(root: str, rows: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{rows}</{root}>\n'
    )
