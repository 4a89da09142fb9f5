"""Receivers on loopback: a web server that takes posts, and a mail server, each in a thread of its own."""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fieldmouse.storage.changes_from_outcomes import Change, ChangeKind, change_id

Fault = Callable[[BaseHTTPRequestHandler], bool]
"""Does something unpleasant and says whether it did."""


@dataclass
class Post:
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def changes(self) -> list[dict[str, Any]]:
        return self.body if isinstance(self.body, list) else [self.body]


@dataclass
class Inbox:
    """What a receiver got, in order; `fault` is asked before anything is kept."""

    port: int = 0
    posts: list[Post] = field(default_factory=list)
    fault: Fault | None = None
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def take(self, post: Post) -> None:
        with self.arrived:
            self.posts.append(post)
            self.arrived.notify_all()

    def once(self) -> list[dict[str, Any]]:
        """The changes, to somebody who drops every post whose key he knows."""
        keys: set[str] = set()
        seen = []
        for post in self.posts:
            key = post.headers["idempotency-key"]
            if key not in keys:
                keys.add(key)
                seen += post.changes
        return seen


@contextmanager
def webhook(tls: ssl.SSLContext | None = None) -> Iterator[Inbox]:
    inbox = Inbox()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            fault = inbox.fault
            if fault is not None and fault(self):
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            inbox.take(Post(self.path, headers, json.loads(body)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Who posts may be killed while we answer."""

    server = Server(("127.0.0.1", 0), Handler)
    inbox.port = server.server_port
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield inbox
    finally:
        server.shutdown()
        server.server_close()


def answers(status: int, **headers: str) -> Fault:
    def fault(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    return fault


def closes(handler: BaseHTTPRequestHandler) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 ")
    with suppress(OSError):
        handler.connection.shutdown(socket.SHUT_RDWR)
    return True


def babbles(handler: BaseHTTPRequestHandler) -> bool:
    """An answer without end."""
    with suppress(OSError):
        handler.wfile.write(b"HTTP/1.1 500 Oops\r\n\r\n")
        while True:
            handler.wfile.write(b"x" * 65536)
    return True


def hanging(until: threading.Event) -> Fault:
    def fault(handler: BaseHTTPRequestHandler) -> bool:
        until.wait(60)
        return True

    return fault


@dataclass
class PostOffice:
    """A mail server: what it took, and whom or what it refuses."""

    port: int = 0
    letters: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)  # addresses, and with which code
    greeting: str = "220 here"
    offers: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None  # for STARTTLS
    logins: list[str] = field(default_factory=list)
    login_answer: str = "235 come in"


@contextmanager
def post_office(**given: Any) -> Iterator[PostOffice]:
    office = PostOffice(**given)

    class Conversation(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(line.encode() + b"\r\n")

        def handle(self) -> None:
            with suppress(OSError):
                self.converse()

        def converse(self) -> None:
            self.say(office.greeting)
            whom: list[str] = []
            while line := self.rfile.readline().decode().strip():
                verb = line[:4].upper()
                if verb in ("EHLO", "HELO"):
                    self.say("250-here")
                    for offer in office.offers:
                        self.say(f"250-{offer}")
                    self.say("250 8BITMIME")
                elif verb == "STAR" and office.tls is not None:
                    self.say("220 go on")
                    self.request = office.tls.wrap_socket(self.request, server_side=True)
                    self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", 0)
                elif verb == "AUTH":
                    office.logins.append(line)
                    self.say(office.login_answer)
                elif verb == "RCPT":
                    address = line.partition("<")[2].partition(">")[0]
                    code = office.refuses.get(address, 250)
                    if code == 250:
                        whom.append(address)
                    self.say(f"{code} {address}")
                elif verb == "DATA":
                    self.say("354 go on")
                    text = b""
                    while (part := self.rfile.readline()) != b".\r\n":
                        text += part.removeprefix(b".")
                    letter = message_from_bytes(text, policy=default)
                    assert isinstance(letter, EmailMessage)
                    office.letters.append((whom, letter))
                    whom = []
                    self.say("250 taken")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 fine")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = allow_reuse_address = True

    with Server(("127.0.0.1", 0), Conversation) as server:
        office.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield office
        finally:
            server.shutdown()


def change(
    number: int = 1, kind: ChangeKind = ChangeKind.CHANGED, title: str = "", url: str = "", **more: Any
) -> Change:
    """A change of some page."""
    url = url or f"http://a.example/{number}"
    at = 1_700_000_000.0 + number
    return Change(url=url, kind=kind, at=at, id=change_id(url, kind, at), title=title, difference=0.25, **more)
