"""Poisson process of changes for each page, computable for any time.

The process is cut into windows of eight mean intervals, and the changes of a window are drawn from a hash of
page and window. No history is kept, every process and every test sees the same changes, and the version at a
given time costs a few hashes even years after the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fieldmouse.lab.meadow.dice import exponential, lognormal, lognormal_by_median, throw
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.meadow.paths import dice_of, original_of
from fieldmouse.lab.meadow.plan import Site

_WINDOW = 8.0
_PER_WINDOW = 1 << 16


class PageVersion(NamedTuple):
    """Version of a page at some time. A later version has a larger `number`; 0 means never changed."""

    number: int
    since: float


_UNCHANGED = PageVersion(0, 0.0)


class Changes:
    """Change processes of all pages of a meadow."""

    def __init__(self, options: MeadowOptions):
        self._seed = options.seed
        self._changing = int(options.changing * 2**32)
        self._rate = 1.0 / options.change_every
        sigma = options.change_sigma
        self._spread = lognormal(1.0) if sigma is None else lognormal_by_median(sigma)

    def rate(self, site: Site, page: int) -> float:
        """Changes per second of a page; copies change with their original."""
        return self.rate_by(dice_of(site, original_of(site, page)))

    def rate_by(self, dice: list[int]) -> float:
        if dice[11] >= self._changing:
            return 0.0
        return self._rate * self._spread[dice[12] % len(self._spread)]

    def version(self, site: Site, page: int, at: float) -> PageVersion:
        page = original_of(site, page)
        return self.version_by(site, page, self.rate(site, page), at)

    def version_by(self, site: Site, page: int, rate: float, at: float) -> PageVersion:
        if rate == 0.0:
            return _UNCHANGED
        width = _WINDOW / rate
        window = int(at // width)
        while window >= 0:
            version = _UNCHANGED
            for k, moment in enumerate(self._moments(site, page, rate, window), 1):
                if moment > at:
                    break
                version = PageVersion(window * _PER_WINDOW + k, moment)
            if version.number:
                return version
            window -= 1
        return _UNCHANGED

    def between(self, site: Site, page: int, start: float, end: float) -> list[float]:
        """Times in (start, end] at which the page changed."""
        page = original_of(site, page)
        rate = self.rate(site, page)
        if rate == 0.0:
            return []
        width = _WINDOW / rate
        windows = range(max(0, int(start // width)), int(end // width) + 1)
        every = (moment for w in windows for moment in self._moments(site, page, rate, w))
        return [moment for moment in every if start < moment <= end]

    def after(self, site: Site, page: int, start: float) -> Iterator[PageVersion]:
        """Versions of the page after `start`; infinite unless the page never changes."""
        page = original_of(site, page)
        rate = self.rate(site, page)
        window = int(start // (_WINDOW / rate)) if rate else 0
        while rate:
            for k, moment in enumerate(self._moments(site, page, rate, window), 1):
                if moment > start:
                    yield PageVersion(window * _PER_WINDOW + k, moment)
            window += 1

    def tells_of_seconds(self, site: Site, page: int, version: PageVersion) -> bool:
        """Whether a date in whole seconds distinguishes this version from the one before."""
        return len(self.between(site, page, int(version.since) - 1e-6, version.since)) < 2

    def _moments(self, site: Site, page: int, rate: float, window: int) -> list[float]:
        width = _WINDOW / rate
        start = moment = window * width
        moments: list[float] = []
        draw = 0
        while True:
            for face in throw(self._seed, "change", site.number, page, window, draw):
                moment += exponential(face) / rate
                if moment >= start + width:
                    return moments
                moments.append(moment)
            draw += 1
