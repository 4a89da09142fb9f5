"""A meadow as one object: what tests and the lab hold in their hands."""

from __future__ import annotations

from fieldmouse.lab.meadow.change import PageVersion
from fieldmouse.lab.meadow.desk import Ask, MeadowAnswer, MeadowDesk
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.meadow.paths import Nook, find
from fieldmouse.lab.meadow.plan import MeadowPlan, Site
from fieldmouse.lab.meadow.truth import Fact, truth
from fieldmouse.url import Host, Url, host_of, path_of


class Meadow:
    """The synthetic web that follows from `options`; `port` is part of its URLs."""

    def __init__(self, options: MeadowOptions, port: int | None = None):
        self.options = options
        self.plan = MeadowPlan(options, options.port if port is None else port)
        self.desk = MeadowDesk(self.plan)

    @property
    def seeds(self) -> list[Url]:
        """A few root pages; each of them reaches everything."""
        return [Url(f"{site.origin}/") for site in self.plan.sites[: max(1, min(10, self.options.seeds))]]

    def truth(self) -> list[Fact]:
        return list(truth(self.plan))

    def site(self, host: Host) -> Site | None:
        return self.plan.by_authority.get(host.removeprefix("http://"))

    def address(self, host: Host) -> str | None:
        """Where the host lives; None if there is no such host."""
        site = self.site(host)
        return site.address if site else None

    def render(self, host: Host, path: str, at: float, accept_encoding: str = "") -> MeadowAnswer:
        """What the host answers to a request for `path` at that time."""
        site = self.site(host)
        if site is None:
            return MeadowAnswer(404, b"", b"")
        return self.desk.answer(site, Ask(path, accept_encoding), at)

    def version(self, url: Url, at: float) -> PageVersion | None:
        """Which content the page has at that time; None if it is no page of the meadow."""
        found = self._page(url)
        return self.desk.changes.version(*found, at) if found else None

    def rate(self, url: Url) -> float:
        """Changes per second of a page; 0 for what never changes and for what is no page."""
        found = self._page(url)
        return self.desk.changes.rate(*found) if found else 0.0

    def changes(self, url: Url, start: float, end: float) -> list[float]:
        """When the page changed in (start, end]; how it came or went is not among it."""
        found = self._page(url)
        return self.desk.changes.between(*found, start, end) if found else []

    def _page(self, url: Url) -> tuple[Site, int] | None:
        site = self.site(host_of(url))
        place = find(site, path_of(url)) if site else None
        if site is None or place is None or place.nook not in (None, Nook.HOME):
            return None
        return site, place.number
