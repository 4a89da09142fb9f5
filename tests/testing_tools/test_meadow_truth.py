"""The meadow's truth against a crawl that knows nothing of the plan.

The oracle below reads served bytes with the standard library alone: its own breadth-first
search, its own robots.txt matching, links by `html.parser`, sitemaps by regular expression. Only the meaning
of an href is `fieldmouse.url.resolve`'s, since the truth promises to write URLs as that does.
"""

from __future__ import annotations

import gzip
import http.client
import re
from html.parser import HTMLParser

import pytest

from fieldmouse.url import Url, host_of, hostname_of, path_of, port_of, resolve
from meadowland import RunningMeadow, running_meadow

SHARES = {
    "sitemaps": 0.6,
    "sitemap_only": 0.1,
    "redirects": 0.15,
    "not_found": 0.1,
    "server_error": 0.05,
    "broken": 0.05,
    "private": 0.2,
    "nofollow": 0.1,
    "busy": 0.2,
    "traps": 0.5,
    "duplicates": 0.1,
}


class Links(HTMLParser):
    """The links of a page and whether it says nofollow."""

    def __init__(self, page: str):
        super().__init__()
        self.follow: list[str] = []
        self.nofollow: list[str] = []
        self.says_nofollow = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("a", "area", "link") and given.get("href"):
            barred = "nofollow" in (given.get("rel") or "")
            (self.nofollow if barred else self.follow).append(given["href"] or "")
        if tag == "meta" and given.get("name") == "robots" and "nofollow" in (given.get("content") or ""):
            self.says_nofollow = True


class Rules:
    """robots.txt for fieldmouse: our group if there is one, else everybody's; the longest match decides."""

    def __init__(self, text: str):
        groups: dict[str, list[tuple[bool, str]]] = {}
        agents: list[str] = []
        in_rules = False
        for line in text.splitlines():
            key, _, value = line.partition("#")[0].partition(":")
            key, value = key.strip().lower(), value.strip()
            if key == "user-agent":
                agents = [*([] if in_rules else agents), value.lower()]
                in_rules = False
                for agent in agents:
                    groups.setdefault(agent, [])
            elif key in ("allow", "disallow"):
                in_rules = True
                for agent in agents:
                    if value:
                        groups[agent].append((key == "allow", value))
        self.rules = groups.get("fieldmouse", groups.get("*", []))
        self.sitemaps = re.findall(r"(?im)^sitemap:\s*(\S+)", text)

    def allow(self, path: str) -> bool:
        best = (0, True)
        for allows, rule in self.rules:
            pattern = re.escape(rule.removesuffix("$")).replace(r"\*", ".*") + ("$" if rule[-1] == "$" else "")
            if re.match(pattern, path):
                best = max(best, (len(rule), allows))
        return best[1]


class Oracle:
    """An obedient crawler of a dozen lines."""

    def __init__(self, meadow: RunningMeadow):
        self.addresses = {}
        for line in meadow.resolve:
            pattern, _, place = line.partition("=")
            self.addresses[pattern.removeprefix("*.")] = place.partition(":")[0]
        self.connections: dict[str, http.client.HTTPConnection] = {}
        self.rules: dict[str, Rules] = {}
        self.found: dict[str, tuple[int, bool]] = {}

    def get(self, url: Url) -> tuple[int, http.client.HTTPMessage, bytes]:
        host = host_of(url)
        name = hostname_of(host)
        address = self.addresses.get(name.partition(".")[2], name)
        connection = self.connections.setdefault(host, http.client.HTTPConnection(address, port_of(host), timeout=30))
        connection.request(
            "GET", path_of(url), headers={"Host": host.removeprefix("http://"), "Accept-Encoding": "gzip"}
        )
        response = connection.getresponse()
        body = response.read()
        if response.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        return response.status, response.headers, body

    def patient_get(self, url: Url) -> tuple[int, http.client.HTTPMessage, bytes]:
        # A page may be refused once because its host is busy, and once because it fails at first.
        for _ in range(2):
            status, headers, body = self.get(url)
            if status not in (500, 429):
                return status, headers, body
        return self.get(url)

    def crawl(self, seed: str) -> dict[str, tuple[int, bool]]:
        """URL -> (status, allowed), for everything that may be known starting from `seed`."""
        queue = [(Url(seed), True)]
        queued = {(Url(seed), True)}
        for url, may_follow in queue:
            host = host_of(url)
            if host not in self.rules:
                status, _, body = self.get(Url(f"{host}/robots.txt"))
                self.rules[host] = Rules(body.decode() if status == 200 else "")
                queue += [(Url(sitemap), True) for sitemap in self.rules[host].sitemaps]
            allowed = may_follow and self.rules[host].allow(path_of(url))
            if self.found.get(url, (0, False))[1]:
                continue
            # The forbidden is asked for too, to check its status; what it says is not listened to.
            status, headers, body = self.patient_get(url)
            self.found[url] = (status, allowed)
            if not allowed:
                continue
            for link in self.links(url, status, headers, body):
                if link not in queued:
                    queued.add(link)
                    queue.append(link)
        return self.found

    def links(self, url: Url, status: int, headers: http.client.HTTPMessage, body: bytes) -> list[tuple[Url, bool]]:
        if status in (301, 302, 307, 308):
            hrefs, barred = [headers["Location"]], []
        elif "sitemap" in url:
            text = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
            locs = re.findall(r"<loc>(.*?)</loc>", text.decode())
            hrefs, barred = [loc.replace("&amp;", "&") for loc in locs], []
        elif status == 200 and headers["Content-Type"].startswith("text/html"):
            page = Links(body.decode())
            hrefs, barred = page.follow, page.nofollow
            if page.says_nofollow or "nofollow" in headers.get("X-Robots-Tag", ""):
                hrefs, barred = [], hrefs + barred
        else:
            return []
        pairs = [(resolve(href, url), True) for href in hrefs] + [(resolve(href, url), False) for href in barred]
        return [(link, follow) for link, follow in pairs if link is not None]


@pytest.mark.parametrize(
    "options",
    [
        {"hosts": 30, "pages": 500, **SHARES},
        {"hosts": 25, "pages": 200, "gamma": 1.5, "hosts_per_address": 4, "seed": 11, "processes": 2, **SHARES},
        {"hosts": 1, "pages": 1},
        {"hosts": 3, "pages": 300, "gamma": 0.0, "seed": 3},
    ],
    ids=["varied", "several hosts an address", "one page", "as it comes"],
)
def test_a_compliant_crawl_finds_exactly_the_ground_truth(options):
    options = {"page_kb": 4, "links": 30, **options}
    with running_meadow(**options) as meadow:
        truth = meadow.truth()
        found = Oracle(meadow).crawl(meadow.seeds[-1])
    assert found == truth
    assert (
        sum(ok and status == 200 and "sitemap" not in url for url, (status, ok) in truth.items()) == (options["pages"])
    )
