"""Changes and lifetimes of the synthetic web's pages.

Each page changes by a Poisson process that is computable for any time: it is cut into windows of eight
mean intervals, and the changes of a window are drawn from a hash of page and window. No history is kept,
and every process and every test sees the same changes. A few pages also appear, vanish or move; these
lifetimes follow from the seed, and times count from the start of the meadow. Only leaves vanish or move,
so the other pages stay reachable.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from fieldmouse.testing.meadow import rng
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.paths import PageTraits, original_page_of, page_random_words
from fieldmouse.testing.meadow.plan import FANOUT, Site
from fieldmouse.testing.meadow.rng import exponential_from_word, random_threshold, random_words

_WINDOW = 8.0
_PER_WINDOW = 1 << 16


class PageVersion(NamedTuple):
    """Version of a page at some time. A later version has a larger `number`; 0 means never changed."""

    number: int
    since: float


_UNCHANGED = PageVersion(0, 0.0)


class PageChanges:
    """Change processes of all pages of a meadow."""

    def __init__(self, options: MeadowOptions):
        self._seed = options.seed
        self._changing = int(options.changing * 2**32)
        self._rate = 1.0 / options.change_every
        sigma = options.change_sigma
        self._spread = rng.lognormal_quantiles(1.0) if sigma is None else rng.lognormal_quantiles_by_median(sigma)

    def change_rate(self, site: Site, page: int) -> float:
        """Changes per second of a page; copies change with their original."""
        return self.change_rate_from_rng(page_random_words(site, original_page_of(site, page)))

    def change_rate_from_rng(self, dice: list[int]) -> float:
        if dice[11] >= self._changing:
            return 0.0
        return self._rate * self._spread[dice[12] % len(self._spread)]

    def page_version(self, site: Site, page: int, at: float) -> PageVersion:
        page = original_page_of(site, page)
        return self.page_version_at_rate(site, page, self.change_rate(site, page), at)

    def page_version_at_rate(self, site: Site, page: int, rate: float, at: float) -> PageVersion:
        if rate == 0.0:
            return _UNCHANGED
        width = _WINDOW / rate
        window = int(at // width)
        while window >= 0:
            version = _UNCHANGED
            for k, moment in enumerate(self._change_times_in_window(site, page, rate, window), 1):
                if moment > at:
                    break
                version = PageVersion(window * _PER_WINDOW + k, moment)
            if version.number:
                return version
            window -= 1
        return _UNCHANGED

    def change_times_between(self, site: Site, page: int, start: float, end: float) -> list[float]:
        """Times in (start, end] at which the page changed."""
        page = original_page_of(site, page)
        rate = self.change_rate(site, page)
        if rate == 0.0:
            return []
        width = _WINDOW / rate
        windows = range(max(0, int(start // width)), int(end // width) + 1)
        every = (moment for w in windows for moment in self._change_times_in_window(site, page, rate, w))
        return [moment for moment in every if start < moment <= end]

    def versions_after(self, site: Site, page: int, start: float) -> Iterator[PageVersion]:
        """Versions of the page after `start`; infinite unless the page never changes."""
        page = original_page_of(site, page)
        rate = self.change_rate(site, page)
        window = int(start // (_WINDOW / rate)) if rate else 0
        while rate:
            for k, moment in enumerate(self._change_times_in_window(site, page, rate, window), 1):
                if moment > start:
                    yield PageVersion(window * _PER_WINDOW + k, moment)
            window += 1

    def is_only_change_in_its_second(self, site: Site, page: int, version: PageVersion) -> bool:
        """Whether a date in whole seconds distinguishes this version from the one before."""
        return len(self.change_times_between(site, page, int(version.since) - 1e-6, version.since)) < 2

    def _change_times_in_window(self, site: Site, page: int, rate: float, window: int) -> list[float]:
        width = _WINDOW / rate
        start = moment = window * width
        moments: list[float] = []
        draw = 0
        while True:
            for face in random_words(self._seed, "change", site.number, page, window, draw):
                moment += exponential_from_word(face) / rate
                if moment >= start + width:
                    return moments
                moments.append(moment)
            draw += 1


class Location(Enum):
    """Location of a page at some time."""

    HERE = "here"
    AWAY = "away"  # 404, temporarily
    GONE = "gone"  # 410, permanently
    MOVED = "moved"  # 301, permanently


class LocationChange(NamedTuple):
    """Change of a page's location at time `at`."""

    at: float
    location: Location


class PageLifetimes:
    """Lifetimes of the pages of a meadow. `is_active` is False if no page ever appears, vanishes or moves."""

    def __init__(self, options: MeadowOptions, changes: PageChanges):
        self._seed, self._began, self._staying = options.seed, options.began, options.staying
        self._vanishing, self._moving = random_threshold(options.vanishing), random_threshold(options.moving)
        self._appearing = random_threshold(options.appearing)
        self._changes, self._signs = changes, PageTraits(options)
        self.is_active = bool(self._vanishing or self._moving or self._appearing)

    def location_changes(self, site: Site, page: int) -> list[LocationChange]:
        """Location changes of the page, in order of time."""
        if not self.is_active or page * FANOUT + 1 < site.linked or page == 0 or original_page_of(site, page) != page:
            return []
        dice = random_words(self._seed, "fate", site.number, page)
        at = self._began + self._staying * exponential_from_word(dice[2])
        if dice[0] < self._vanishing:
            if dice[3] & 1:
                return [LocationChange(at, Location.GONE)]
            back = at + self._staying * exponential_from_word(dice[4])
            return [LocationChange(at, Location.AWAY), LocationChange(back, Location.HERE)]
        return [LocationChange(at, Location.MOVED)] if dice[1] < self._moving else []

    def location(self, site: Site, page: int, at: float) -> Location:
        passed = [turn.location for turn in self.location_changes(site, page) if turn.at <= at]
        return passed[-1] if passed else Location.HERE

    def new_page_since(self, site: Site, page: int) -> float | None:
        """Time of the first change, from which the page links to a new page. None if it never does."""
        if not self._appearing or original_page_of(site, page) != page or self.location_changes(site, page):
            return None
        if random_words(self._seed, "story", site.number, page)[0] >= self._appearing:
            return None
        if self._signs.is_nofollow(site, page, page_random_words(site, page)):
            return None  # a crawler would not find it
        first = next(self._changes.versions_after(site, page, self._began), None)
        return first.since if first else None

    def links_to_new_page(self, site: Site, page: int, at: float) -> bool:
        since = self.new_page_since(site, page)
        return since is not None and since <= at
