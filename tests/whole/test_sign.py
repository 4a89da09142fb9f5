"""Signed requests: a token reaches its host, and neither another host nor the archive."""

from __future__ import annotations

import gzip
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .crawling import command, exported, run, warcs


class Site(ThreadingHTTPServer):
    """Pages by path, some only with a token; records every request with its headers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Pages)
        self.pages: dict[str, str | int] = {}
        self.asked: dict[str, str] = {}  # path to the Authorization it came with
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"


class _Pages(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        token = self.headers.get("Authorization", "")
        self.server.asked[self.path] = token
        page = self.server.pages.get(self.path, 404)
        body = page.encode() if isinstance(page, str) else b""
        status = page if isinstance(page, int) else 200
        target = ""
        if isinstance(page, str) and page.startswith("to "):
            status, target, body = 302, page[3:], b""
        elif "private" in self.path and token != "Bearer s3cret":
            status, body = 401, b""
        self.send_response(status)
        self.send_header("Content-Type", "text/csv" if self.path.endswith(".csv") else "text/html")
        self.send_header("Content-Length", str(len(body)))
        if target:
            self.send_header("Location", target)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None: ...


@contextmanager
def sites() -> Iterator[tuple[Site, Site]]:
    own, other = Site(), Site()
    for site in (own, other):
        threading.Thread(target=site.serve_forever, daemon=True).start()
    links = "/private", "/away", "/broken", f"{other.origin}/linked"
    own.pages["/"] = "".join(f"<a href={link}>x</a>" for link in links)
    own.pages["/private"] = "<title>For members</title>"
    own.pages["/away"] = f"to {other.origin}/redirected"
    own.pages["/broken"] = "<title>Never seen</title>"
    other.pages |= {"/linked": "<p>a", "/redirected": "to " + own.origin + "/back"}
    own.pages["/back"] = "<title>Back home</title>"
    try:
        yield own, other
    finally:
        for site in (own, other):
            site.shutdown()
            site.server_close()


@pytest.fixture(autouse=True)
def _mice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))


def crawl(home: Path, own: Site, plugin: str, *words: str) -> None:
    options = ("--delay", "0s", "--allow-private", "--set", f"plugins.sign=hostile_mice:{plugin}")
    run("crawl", home, "--seed", own.origin + "/", *options, *words)


def archived(home: Path) -> bytes:
    return b"".join(gzip.decompress(path.read_bytes()) for path in warcs(home))


def test_a_token_reaches_only_its_host_and_not_the_archive(tmp_path: Path) -> None:
    with sites() as (own, other):
        crawl(tmp_path / "c", own, "sign_all")
    titles = {page["url"]: page["title"] for page in exported(tmp_path / "c")}
    assert titles[own.origin + "/private"] == "For members"
    assert titles[own.origin + "/back"] == "Back home"
    assert set(own.asked.values()) == {"Bearer s3cret"}, "robots.txt included"
    assert {"/linked", "/redirected", "/robots.txt"} <= other.asked.keys()
    assert set(other.asked.values()) == {""}, "by a link or by a redirect, it has nothing"
    kept = archived(tmp_path / "c")
    assert b"Authorization: (blanked)\r\n" in kept
    assert b"s3cret" not in kept
    files = [path for path in (tmp_path / "c").rglob("*") if path.is_file()]
    assert not [path for path in files if b"s3cret" in path.read_bytes()]


def test_keep_signatures_archives_the_token_and_sign_hosts_adds_hosts(tmp_path: Path) -> None:
    with sites() as (own, other):
        hosts = f'plugins.sign_hosts=["{own.origin}", "{other.origin}"]'
        crawl(tmp_path / "c", own, "sign_all", "--set", "plugins.keep_signatures=true", "--set", hosts)
    assert set(other.asked.values()) == {"Bearer s3cret"}
    assert b"Authorization: Bearer s3cret\r\n" in archived(tmp_path / "c")


def test_a_failing_sign_costs_its_url_and_is_named(tmp_path: Path) -> None:
    with sites() as (own, _):
        crawl(tmp_path / "c", own, "sign_or_fail")
    assert own.asked["/robots.txt"] == "", "asked for without"
    assert "/broken" not in own.asked
    rows = {row["url"]: row for row in exported(tmp_path / "c", "--all")}
    broken = rows[own.origin + "/broken"]
    assert (broken["kind"], broken["reason"]) == ("failed", "cannot be signed")
    assert broken["detail"] == "`hostile_mice:sign_or_fail` raised KeyError"
    assert rows[own.origin + "/private"]["title"] == "For members"


def test_local_files_hide_no_module_and_plugin_prints_stay_off_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` reads what the command writes to stdout as one JSON value."""
    monkeypatch.chdir(tmp_path)
    for name in ("json", "random", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this is no module of yours')")
    with sites() as (own, _):
        crawl(tmp_path / "c", own, "sign_aloud", "--set", "plugins.extract=hostile_mice:prints")
    assert all(item["printed"] for item in exported(tmp_path / "c", "--items"))


def test_a_token_for_all_requests_is_in_no_record_and_no_readable_file(tmp_path: Path) -> None:
    home = tmp_path / "c"
    headers = 'network.headers={"Authorization" = "Bearer s3cret", "Accept-Language" = "en"}'
    options = ("--delay", "0s", "--allow-private", "--set", headers)
    with sites() as (own, _):
        run("crawl", home, "--seed", own.origin + "/", *options)
        # An older version left the file readable; a resume closes it.
        (home / "fieldmouse.toml").chmod(0o644)
        assert "chmod 600" in json.dumps(run("doctor", home, expect=1))
        run("resume", home)
    assert set(own.asked.values()) == {"Bearer s3cret"}
    kept = archived(home)
    assert b"Authorization: (blanked)\r\n" in kept
    assert b"Accept-Language: en\r\n" in kept, "it is no secret"
    assert b"s3cret" not in kept
    holding = [path for path in home.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert holding == [home / "fieldmouse.toml"]
    assert (home / "fieldmouse.toml").stat().st_mode & 0o777 == 0o600
    for words in (("doctor", home), ("explain", home, own.origin + "/"), ("search", home, "members")):
        done = subprocess.run(command(*words), capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "s3cret" not in done.stdout + done.stderr
    assert "s3cret" not in json.dumps(exported(home, "--all"))


def test_keep_signatures_archives_the_headers_of_all_requests(tmp_path: Path) -> None:
    headers = 'network.headers={"X-Token" = "s3cret"}'
    with sites() as (own, _):
        options = ("--delay", "0s", "--allow-private", "--set", headers)
        run("crawl", tmp_path / "c", "--seed", own.origin + "/", *options, "--set", "plugins.keep_signatures=true")
    assert b"X-Token: s3cret\r\n" in archived(tmp_path / "c")
