"""A crawl that got nothing fails, says why, and gives the hint that fits."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme


class _Answers(BaseHTTPRequestHandler):
    """404 to all but robots.txt, which forbids a part; or a redirect of everything."""

    to = ""

    def do_GET(self) -> None:
        if self.to:
            self.send_response(301)
            self.send_header("Location", self.to + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = b"User-agent: *\nDisallow: /private" if self.path == "/robots.txt" else b""
        self.send_response(200 if body else 301 if self.path == "/moved" else 404)
        if self.path == "/moved":
            self.send_header("Location", "http://new.test/home")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, *told: object) -> None:
        """A client that does not trust us hangs up: that is what is tested."""


@contextmanager
def served(context: ssl.SSLContext | None = None, to: str = "") -> Iterator[int]:
    server = _Server(("127.0.0.1", 0), type("_Redirects", (_Answers,), {"to": to}))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        with suppress(OSError):
            server.shutdown()
        server.server_close()


def crawled(home: Path, seed: str, *words: str, code: int = 1) -> dict[str, Any]:
    options = ["--delay", "0s", "--set", "politeness.patience=0", "--set", "politeness.backoff=10ms"]
    done = subprocess.run(
        [sys.executable, "-m", "fieldmouse", "crawl", str(home), "--seed", seed, *options, *words, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["exit"] == code
    return told


def test_a_seed_that_redirects_out_of_scope_is_named_with_the_command_that_goes_there(tmp_path: Path) -> None:
    with served() as port:
        home = tmp_path / "a"
        seed = f"http://127.0.0.1:{port}/moved"
        told = crawled(home, seed, "--allow-private")
    assert told["error"] == f"not one page was stored: {seed} redirects to http://new.test/home, which is out of scope"
    assert told["hint"] == f"to crawl it, `fieldmouse resume {home} --seed http://new.test/home`"


def test_a_private_address_behind_a_name_is_named(tmp_path: Path) -> None:
    told = crawled(tmp_path / "a", "http://intranet.test/", "--resolve", "intranet.test=127.0.0.1")
    assert "private address (127.0.0.1 is loopback)" in told["error"]
    assert "--allow-private --retry-failed`" in told["hint"]


def test_a_host_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        told = crawled(tmp_path / "a", f"http://127.0.0.1:{taken.getsockname()[1]}/", "--allow-private")
    assert "connection refused" in told["error"]
    assert "--retry-failed` asks again" in told["hint"]


def test_an_unknown_authority_is_named_with_the_setting(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("web.test").configure_cert(context)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    with served(context) as port:
        words = ["--resolve", f"web.test=127.0.0.1:{port}", "--allow-private"]
        told = crawled(tmp_path / "a", "https://web.test/", *words)
        assert "network.ca_file" in told["hint"]
        known = crawled(tmp_path / "b", "https://web.test/", *words, "--set", f"network.ca_file={trusted}")
    assert "client error status (status 404)" in known["error"]
    assert "fieldmouse explain" in known["hint"]


def test_a_redirect_to_an_unknown_authority_is_named_with_the_setting_and_the_command(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("web.test").configure_cert(context)
    home = tmp_path / "a"
    with served(context) as port, served(to=f"https://web.test:{port}") as plain:
        words = ["--resolve", "web.test=127.0.0.1", "--allow-private"]
        told = crawled(home, f"http://web.test:{plain}/", *words)
    assert "robots.txt unreachable (TLS error: " in told["error"]
    assert f"`fieldmouse resume {home} --retry-failed --set network.ca_file=FILE` asks again" in told["hint"]


def test_what_robots_txt_forbids_is_named(tmp_path: Path) -> None:
    with served() as port:
        told = crawled(tmp_path / "a", f"http://127.0.0.1:{port}/private", "--allow-private")
    assert (told["hosts"], told["giving_hosts"]) == (1, 0)
    assert "excluded by robots.txt" in told["error"]
    assert "/robots.txt" in told["hint"]
