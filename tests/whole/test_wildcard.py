"""Wildcard DNS: one owner answers for every name under a domain with endless links, and no other site
suffers."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.url import Url, host_of, hostname_of, site_of

from .crawling import exported, run
from .hostile import page

LINKS = 60_000  # on a page of the bad site
NURSERIES = 3  # pages of it that have that many
OWN = 40  # links on them to pages of the same host
GOOD_HOSTS, GOOD_PAGES = 4, 12
SETTINGS = """
[scope]
mode = "web"
[politeness]
delay = "0s"
[limits]
links_per_page = 20000
hosts_per_site = 40
urls_per_site = 130
[index]
shards = 1
[network]
allow_private = true
[storage]
min_free = "0B"
"""


def answer(name: str, path: str) -> bytes | None:
    """Response of the host of that name; None for none."""
    if path == "/robots.txt":
        return None
    if name.endswith("good.example"):
        number = int(path[1:] or 0)
        more = [f"/{number + 1}"] if number + 1 < GOOD_PAGES else []
        others = [f"http://{n}.good.example/0" for n in range(GOOD_HOSTS)]
        return page(f"good {number}", *more, *others)
    if path.startswith("/nursery/"):
        number = int(path.rpartition("/")[2])
        rng = random.Random(number)
        names = (f"http://{rng.randrange(1 << 48):012x}.bad.example/" for _ in range(LINKS))
        onward = [f"/nursery/{number + 1}"] if number + 1 < NURSERIES else []
        return page("nursery", *onward, *(f"/{number}/{n}" for n in range(OWN)), *names)
    return page("weed")


class Wild(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = answer(self.headers["Host"], self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None: ...


@dataclass
class Result:
    home: Path
    summary: dict[str, Any]
    urls: list[Url]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("wildcard")
    config, home = folder / "wild.toml", folder / "c"
    config.write_text(SETTINGS)
    with ThreadingHTTPServer(("127.0.0.1", 0), Wild) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        words = [f"--resolve=*.{site}.example=127.0.0.1:{port}" for site in ("bad", "good")]
        seeds = ["--seed=http://start.bad.example/nursery/0", "--seed=http://0.good.example/0"]
        summary = run("crawl", home, "--config", config, *seeds, *words)
        server.shutdown()
    return Result(home, summary, [row["url"] for row in exported(home, "--all")])


def test_the_crawl_ends_with_exact_totals(result: Result) -> None:
    summary = result.summary
    assert summary["exit"] == summary["lost"] == summary["waiting"] == 0
    assert summary["seen"] == len(result.urls) == len(set(result.urls))
    assert run("doctor", result.home)["healthy"]


def test_a_site_stays_within_its_limits_of_hosts_and_urls(result: Result) -> None:
    hosts = {host_of(url) for url in result.urls}
    sites = Counter(site_of(hostname_of(host)) for host in hosts)
    urls = Counter(site_of(hostname_of(host_of(url))) for url in result.urls)
    assert sites["bad.example"] == 40
    assert urls["bad.example"] == 130
    assert result.summary["hosts"] == len(hosts)


def test_the_other_site_is_crawled_completely(result: Result) -> None:
    everything = {f"http://{n}.good.example/{k}" for n in range(GOOD_HOSTS) for k in range(GOOD_PAGES)}
    assert {url for url in result.urls if "good.example" in url} == everything


def test_every_dropped_link_is_counted(result: Result) -> None:
    """Of each nursery 20,000 links are taken."""
    dropped = result.summary["dropped_links"]
    offered = NURSERIES * (LINKS + OWN) + NURSERIES - 1
    assert dropped["limits.links_per_page"] == offered - NURSERIES * 20_000
    bad = [url for url in result.urls if "bad.example" in url]
    told = [dropped["limits.hosts_per_site"], dropped.get("limits.urls_per_site", 0)]
    assert sum(told) == NURSERIES * 20_000 + 1 - len(bad)


def test_memory_stays_bounded(result: Result) -> None:
    """An agent and a worker of some 150 MB each; 180,000 hosts were offered, at two kilobytes each before."""
    assert result.summary["peak_rss_mb"] < 600


def test_explain_names_the_limit_that_dropped_a_link(result: Result) -> None:
    never = run("explain", result.home, "http://0123456789ab.bad.example/")
    assert never["place"] == "never seen"
    assert any("limits.hosts_per_site" in says and "40 hosts" in says for says in never["says"])
    known = next(host_of(url) for url in result.urls if "bad.example" in url)
    assert any("limits.urls_per_site" in says for says in run("explain", result.home, known + "/999")["says"])
    assert any("limits.links_per_page" in says for says in never["says"])
    nursery = run("explain", result.home, "http://start.bad.example/nursery/0")
    assert any("links left after 20000" in row["detail"] for row in nursery["outcomes"])
    assert not any("dropped" in says for says in run("explain", result.home, "http://9.good.example/")["says"])
