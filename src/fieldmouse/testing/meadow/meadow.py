"""The meadow as one object, for tests and the lab."""

from __future__ import annotations

from fieldmouse.testing.meadow.changes import PageVersion
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.paths import SpecialPath, parse_path
from fieldmouse.testing.meadow.plan import MeadowPlan, Site
from fieldmouse.testing.meadow.responder import MeadowRequest, MeadowResponse, Responder
from fieldmouse.testing.meadow.truth import TrueUrl, true_urls
from fieldmouse.url import Host, Url, host_of, path_of


class Meadow:
    """Synthetic web defined by `options`; `port` is part of its URLs."""

    def __init__(self, options: MeadowOptions, port: int | None = None):
        self.options = options
        self.plan = MeadowPlan(options, options.port if port is None else port)
        self.responder = Responder(self.plan)

    @property
    def seeds(self) -> list[Url]:
        """A few root pages; each of them reaches all pages."""
        return [Url(f"{site.origin}/") for site in self.plan.sites[: max(1, min(10, self.options.seeds))]]

    def true_urls(self) -> list[TrueUrl]:
        return list(true_urls(self.plan))

    def site_of_host(self, host: Host) -> Site | None:
        return self.plan.by_authority.get(host.removeprefix("http://"))

    def respond(self, host: Host, path: str, at: float, accept_encoding: str = "") -> MeadowResponse:
        """Response of the host to a request for `path` at that time."""
        site = self.site_of_host(host)
        if site is None:
            return MeadowResponse(404, b"", b"")
        return self.responder.respond(site, MeadowRequest(path, accept_encoding), at)

    def page_version(self, url: Url, at: float) -> PageVersion | None:
        """Version of the page at that time; None if the URL is not a page of the meadow."""
        page = self._site_and_page(url)
        return self.responder.changes.page_version(*page, at) if page else None

    def change_rate(self, url: Url) -> float:
        """Changes per second of a page; 0 if it never changes or is not a page of the meadow."""
        page = self._site_and_page(url)
        return self.responder.changes.change_rate(*page) if page else 0.0

    def change_times(self, url: Url, start: float, end: float) -> list[float]:
        """Times in (start, end] at which the page's content changed; appearing, vanishing and moving do not
        count."""
        page = self._site_and_page(url)
        return self.responder.changes.change_times_between(*page, start, end) if page else []

    def _site_and_page(self, url: Url) -> tuple[Site, int] | None:
        site = self.site_of_host(host_of(url))
        place = parse_path(site, path_of(url)) if site else None
        if site is None or place is None or place.special not in (None, SpecialPath.HOME):
            return None
        return site, place.number
