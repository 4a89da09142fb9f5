"""Ground truth of the synthetic web: the URLs a compliant crawler finds, with status and permission.

It is derived from the plan without rendering pages: a URL is listed if an allowed page links to it. URLs
are written as `fieldmouse.url.resolve` writes them. A URL that fails at first is listed with its final
status; 0 means that no response ever comes. With `open_traps` the meadow is infinite, and the traps are
left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fieldmouse.testing.meadow import paths
from fieldmouse.testing.meadow.paths import SpecialPath, special_path
from fieldmouse.testing.meadow.plan import MeadowPlan, Site
from fieldmouse.testing.meadow.responder import redirect_status, sitemap_paths
from fieldmouse.url import Url


class TrueUrl(msgspec.Struct, frozen=True):
    """One line of the ground truth. `allowed` considers robots.txt and nofollow, for fieldmouse."""

    url: Url
    status: int
    allowed: bool


_STATUS = {SpecialPath.GONE: 404, SpecialPath.BROKEN: 500}
_FORBIDDEN = {SpecialPath.PRIVATE, SpecialPath.FILE, SpecialPath.NOMICE, SpecialPath.PARTNER, SpecialPath.MEMBERS}


def true_urls(plan: MeadowPlan) -> Iterator[TrueUrl]:
    signs = paths.PageTraits(plan.options)
    for site in plan.sites:
        yield from _true_urls_of_site(site, signs, plan.options.open_traps)


def _true_urls_of_site(site: Site, signs: paths.PageTraits, open_traps: bool) -> Iterator[TrueUrl]:
    origin = site.origin
    for path in sitemap_paths(site):
        yield TrueUrl(Url(origin + path), 200, True)
    for page in range(site.size):
        dice = paths.page_random_words(site, page)
        path = paths.path_of(site, page)
        yield TrueUrl(Url(origin + path), 0 if signs.never_answers(site, page, dice) else 200, True)
        if paths.original_page_of(site, page) != page or signs.never_answers(site, page, dice):
            continue
        for nook in signs.special_links(site, page, dice):
            if nook in (SpecialPath.SESSION, SpecialPath.CALENDAR):
                trap = f"{path}?sid={dice[9]:08x}" if nook is SpecialPath.SESSION else special_path(nook, 0)
                if not open_traps:
                    yield TrueUrl(Url(origin + trap), 200, False)
            elif nook is SpecialPath.GO:
                yield TrueUrl(Url(origin + special_path(nook, page)), redirect_status(dice), True)
                if paths.is_redirect_chain(dice):
                    yield TrueUrl(Url(origin + special_path(SpecialPath.ONWARD, page)), 301, True)
            else:
                url = Url(origin + special_path(nook, page))
                yield TrueUrl(url, _STATUS.get(nook, 200), nook not in _FORBIDDEN)


def write_truth(plan: MeadowPlan, path: Path) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        file.writelines(encoder.encode(fact) + b"\n" for fact in true_urls(plan))
