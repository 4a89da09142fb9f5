"""Limits on hosts and URLs per site, so that no single site can fill a crawl.

The owner of a domain owns any number of names under it, and can put them into pages faster than a crawler
can visit them. So hosts and URLs are counted by *site*, the registered domain, which costs money and has
an owner. The limits are far above the sizes of real sites; docs/settings.md says why.

Exempt are addresses, which cannot be invented by the million, and names under `.test` and `localhost`,
which exist only where they were set up on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fieldmouse.url import LOOPBACK, Host, hostname_of, site_of


class DropRule(Enum):
    """Reasons for dropping a link. The values are shown to users and name the setting."""

    LINKS = "limits.links_per_page"
    HOSTS = "limits.hosts_per_site"
    URLS = "limits.urls_per_site"


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """Limits per site; 0 means no limit."""

    hosts: int = 0
    urls: int = 0

    def room(self, hosts: int, urls: int, *, new_host: bool) -> int | None:
        """Number of further URLs to accept for a host, given the counts of its site; None: no limit.

        >>> SiteLimits(hosts=2).room(2, 40, new_host=True), SiteLimits(hosts=2).room(2, 40, new_host=False)
        (0, None)
        >>> SiteLimits(urls=50).room(2, 40, new_host=True)
        10
        """
        if new_host and self.hosts and hosts >= self.hosts:
            return 0
        return max(0, self.urls - urls) if self.urls else None

    def drop_reason(self, hosts: int, urls: int, *, new_host: bool) -> DropRule | None:
        """Rule that drops the next URL, if any."""
        if self.room(hosts, urls, new_host=new_host) != 0:
            return None
        return DropRule.HOSTS if new_host and self.hosts and hosts >= self.hosts else DropRule.URLS


def site_for_limits(host: Host) -> str:
    """Site whose limits apply to a host, or "" if it is exempt.

    >>> site_for_limits(Host("https://a.b.example.co.uk:81")), site_for_limits(Host("http://93.184.216.34"))
    ('example.co.uk', '')
    >>> site_for_limits(Host("http://mouse.test")), site_for_limits(Host("http://a.localhost"))
    ('', '')
    """
    name = hostname_of(host).rstrip(".")
    if name.endswith(".test") or name == "test" or ":" in name:
        return ""
    site = site_of(name)
    # A name whose last part is a number is an address.
    return "" if site == LOOPBACK or site.rpartition(".")[2].isdigit() else site
