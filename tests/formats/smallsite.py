"""Three tiny hosts on loopback whose pages are written here: the web that the stored crawls have crawled.

URLs have no port (`http://a.fence.test/`); `--resolve` sends the crawler to whatever port the server has. So
a crawl that was made elsewhere and years ago can be continued here. An edition is the state of the site at a
time: from 1 to 2 a page changes, one appears, one is gone and one moves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEEDS = ("http://a.fence.test/", "http://b.fence.test/", "http://c.fence.test/")
SECRET = "http://a.fence.test/private/secret.html"
"""Excluded by robots.txt."""
MISSING = "http://b.fence.test/missing.html"
CHANGING = "http://a.fence.test/changing.html"
GONE = "http://b.fence.test/gone.html"
MOVING, MOVED = "http://c.fence.test/moving.html", "http://c.fence.test/moved.html"
NEW = "http://a.fence.test/new.html"

Answer = tuple[int, str, str]
"""Status, value of a Location header, body."""


def _page(title: str, text: str, *links: str) -> Answer:
    anchors = " ".join(f'<a href="{link}">{link}</a>' for link in links)
    return 200, "", f"<html><head><title>{title}</title></head><body><p>{text}</p>{anchors}</body></html>"


def site(edition: int) -> dict[str, Answer]:
    """Every URL that exists in an edition, and its answer."""
    later = edition > 1
    found = {
        "http://a.fence.test/": _page(
            "Harvest mice",
            "Harvest mice weave nests of grass.",
            "/one.html",
            "/changing.html",
            SECRET,
            "http://b.fence.test/",
            *(["/new.html"] * later),
        ),
        "http://a.fence.test/one.html": _page("Bank voles", "Bank voles live below hedges.", "/two.html"),
        "http://a.fence.test/two.html": _page("Wood mice", "Wood mice store acorns for winter.", "/old"),
        "http://a.fence.test/old": (301, "/one.html", ""),
        CHANGING: _page("Prices", f"Acorns cost {'ninety' if later else 'twelve'} pence today.", "/"),
        "http://b.fence.test/": _page(
            "Owls", "Barn owls hunt voles at dusk.", "/gone.html", "/missing.html", "http://c.fence.test/"
        ),
        "http://c.fence.test/": _page("Hedges", "Hawthorn and hazel.", "/moving.html", "/last.html"),
        "http://c.fence.test/last.html": _page("Ditches", "Ditches carry water in spring.", SEEDS[0]),
    }
    ephemeral = _page("Kestrels", "Kestrels hover above the verge.")
    stubborn = _page("Shrews", "Shrews are no rodents at all.")
    found |= {MOVING: (301, "/moved.html", ""), MOVED: stubborn} if later else {MOVING: stubborn, GONE: ephemeral}
    return found | ({NEW: _page("Dormice", "Dormice sleep from October on.")} if later else {})


def pages(edition: int) -> set[str]:
    """What an obedient crawler stores of an edition."""
    return {url for url, (status, _, _) in site(edition).items() if status == 200}


class SmallSite:
    """A server of one edition at a time. `on_page` is called with the URL before a page is answered."""

    def __init__(self, port: int) -> None:
        self.edition = 1
        self.on_page: Callable[[str], None] = lambda url: None
        self.words = [word for name in "abc" for word in ("--resolve", f"{name}.fence.test=127.0.0.1:{port}")]
        """Options with which a crawler finds it."""


@contextmanager
def running_site() -> Iterator[SmallSite]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = f"http://{self.headers['Host']}{self.path}"
            if self.path == "/robots.txt":
                status, location, body = 200, "", "User-agent: *\nDisallow: /private/\n"
            else:
                small.on_page(url)
                status, location, body = site(small.edition).get(url, (404, "", "not here"))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Type", "text/plain" if self.path == "/robots.txt" else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    small = SmallSite(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield small
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
