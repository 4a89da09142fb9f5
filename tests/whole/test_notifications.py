"""Notifications of a refresh: each change once, despite kills; the commands run in their own processes."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from msgspec.msgpack import decode

from fieldmouse.storage.changes_from_outcomes import changes_in, sealed_baseline
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import read_records
from fieldmouse.types.outcome import OutcomeRow
from meadowland import running_meadow
from notify.receivers import Inbox, answers, closes, webhook

from .crawling import end, run, start

KILLS = int(os.environ.get("FIELDMOUSE_KILLS", "8")) // 2
LOCAL = ("--allow-private", "--delay", "0s")


class Pages(BaseHTTPRequestHandler):
    """Pages by path: text, a function that makes it anew each time, a status, or a redirect target."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path, 404)  # type: ignore[attr-defined]
        if callable(page):
            page = page()
        moved = isinstance(page, str) and page.startswith("/")
        self.send_response(page if isinstance(page, int) else 301 if moved else 200)
        body = page.encode() if isinstance(page, str) and not moved else b""
        if moved:
            self.send_header("Location", page)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def site() -> Iterator[tuple[str, dict[str, str | int | Callable[[], str]]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    pages: dict[str, str | int | Callable[[], str]] = {}
    server.pages = pages  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", pages
    finally:
        server.shutdown()
        server.server_close()


def text(title: str, words: str, *links: str) -> str:
    anchors = "".join(f"<a href={link}>link</a>" for link in links)
    return f"<title>{title}</title><p>{words}</p>{anchors}"


def told(home: Path) -> list[str]:
    """The ids of all changes in the log, in order."""
    crawl = CrawlDir.open(home)
    last = read_checkpoint(crawl)
    length, baseline = sealed_outcome_bytes(last), sealed_baseline(last)
    rows = [(at, decode(row, type=OutcomeRow)) for at, row in read_records(crawl / "outcomes.log", length=length)]
    return [change.id for at, row in rows for change in changes_in(row, at, baseline)]


def asked(inbox: Inbox, **more: str) -> list[str]:
    given = {"webhook": inbox.url(), "patience": "30s", "timeout": "2s"} | more
    return [word for name, value in given.items() for word in ("--set", f"notify.{name}={value}")]


def test_a_refresh_notifies_new_changed_gone_and_moved_pages_only(tmp_path: Path) -> None:
    home = tmp_path / "c"
    with site() as (origin, pages), webhook() as inbox:
        pages["/"] = text("Home", "the same as ever", "/a", "/b", "/c", "/d")
        for name in "abcd":
            pages[f"/{name}"] = text(f"Page {name}", "mice live in fields and eat seeds and grass")
        pages["/e"] = text("Page e", "another place")
        run("crawl", home, "--seed", f"{origin}/", *LOCAL, *asked(inbox))
        assert inbox.posts == [], "the first crawl is the baseline"
        pages["/"] = text("Home", "the same as ever", "/a", "/b", "/c", "/d", "/new")
        pages["/a"] = text("Page a\n<b>", "owls live in barns and eat mice at night", "/new")
        pages["/b"], pages["/c"] = 404, "/e"
        pages["/new"] = text("New", "never seen before")
        summary = run("refresh", home, "--once", *asked(inbox, feed="changes.atom"))
        assert summary.get("untold") == {}
        kinds = {one["url"].removeprefix(origin): one["kind"] for one in inbox.once()}
        assert {path: kinds.get(path) for path in ("/a", "/b", "/c", "/d", "/new")} == {
            "/a": "changed",
            "/b": "gone",
            "/c": "moved",
            "/d": None,
            "/new": "new",
        }
        assert [one["id"] for one in inbox.once()] == told(home)
        # A list is made from the whole log, and has the title of a page before it was gone.
        listed = {one["id"]: one | {"title": ""} for one in run("changes", home)}
        heard = {one["id"]: one | {"title": ""} for one in inbox.once()}
        assert heard == listed, "what is listed is what is told"
        before = len(inbox.posts)
        run("refresh", home, "--once", *asked(inbox))
        assert len(inbox.posts) == before, "nothing has changed since"
    assert run("doctor", home)["healthy"]


def moody(rng: random.Random) -> Any:
    lock = threading.Lock()

    def fault(handler: BaseHTTPRequestHandler) -> bool:
        with lock:
            mood = rng.random()
        return answers(500)(handler) if mood < 0.01 else closes(handler) if mood < 0.02 else False

    return fault


def test_a_repeatedly_killed_refresh_notifies_each_change_once(tmp_path: Path) -> None:
    rng, home = random.Random(2026), tmp_path / "c"
    changing = {"changing": 1.0, "change_every": 4.0, "rewriting": True, "appearing": 0.3, "vanishing": 0.2}
    with (
        running_meadow(hosts=30, pages=120 * KILLS, seed=9, latency=0.03, page_kb=1, links=10, **changing) as meadow,
        webhook() as inbox,
    ):
        run("crawl", home, "--seed", meadow.seeds[0], *LOCAL, "--set", "storage.checkpoint=300ms")
        inbox.fault = moody(rng)
        kills = 0
        while True:
            process = start("refresh", home, "--once", *asked(inbox, batch="3"))
            try:
                process.wait(rng.uniform(0.8, 2.0) if kills < KILLS else 120)
                break
            except subprocess.TimeoutExpired:
                assert kills < KILLS, "it does not come to an end"
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
            finally:
                end(process)
        assert kills > KILLS // 2, "the refresh was over before the kills had fallen"
        assert run("notify", home) == [], "the settings were of those runs only"
        wanted = told(home)
    assert len(wanted) > 50
    assert [one["id"] for one in inbox.once()] == wanted
    assert run("doctor", home)["healthy"]


def test_reverted_and_noisy_pages_are_notified_correctly_across_kills(tmp_path: Path) -> None:
    rng, home, visitors = random.Random(7), tmp_path / "c", itertools.count(4711)
    words = "the harvest mouse builds its nest high in the grass and leaves it in the autumn"
    shown = {"A": text("A", words), "B": text("B", f"no longer {words}", "/new")}

    def counter() -> str:
        return text("Counter", f"{words}</p><p>You are visitor {next(visitors)}")

    with site() as (origin, pages), webhook() as inbox:
        pages["/"] = text("Home", "ever the same", "/page", "/noise")
        pages["/page"], pages["/noise"], pages["/new"] = shown["A"], counter, text("New", words)
        run("crawl", home, "--seed", f"{origin}/", *LOCAL, "--set", "storage.checkpoint=200ms")
        for now in "BAAA":
            pages["/page"] = shown[now]
            process = start("refresh", home, "--once", *asked(inbox))
            with suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.5, 3.0))
            end(process)  # unless it was quicker
            run("refresh", home, "--once", *asked(inbox))
        ids = [one["id"] for post in inbox.posts for one in post.changes]
        told_of = defaultdict[str, list[str]](list)
        withdrawn = {one["withdraws"] for one in inbox.once()}
        for one in inbox.once():
            if one["kind"] != "withdrawn" and one["id"] not in withdrawn:
                told_of[one["url"].removeprefix(origin)].append(one["kind"])
    assert told_of == {"/page": ["changed", "changed"], "/new": ["new"]}
    assert set(ids) == set(told(home))
    assert [one["id"] for one in inbox.once()] == told(home), "each once, in order"
    listed = [(one["url"].removeprefix(origin), one["kind"]) for one in run("changes", home)]
    assert sorted(listed) == sorted((path, kind) for path, kinds in told_of.items() for kind in kinds)
