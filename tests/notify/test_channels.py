"""Each way of telling somebody, against a receiver that behaves well, and against those that do not."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.cli.watch.changes import _cells
from fieldmouse.clock import WallClock
from fieldmouse.config.notify_section import NotifySection
from fieldmouse.notify import format
from fieldmouse.notify.channel_interface import ChangeBatch, Channel, FailedDelivery, one_line
from fieldmouse.notify.channels.command import CommandChannel
from fieldmouse.notify.channels.feed import ATOM, FeedChannel, as_uuid, atom
from fieldmouse.notify.channels.mail import MailChannel
from fieldmouse.notify.channels.webhook import WebhookChannel
from fieldmouse.storage.changes_from_outcomes import Change, ChangeKind
from fieldmouse.url import Url

from .receivers import Fault, answers, babbles, change, closes, hanging, post_office, webhook

SECRET = "s3cr3t-path"
TLS = ssl.create_default_context()
anything = st.text(max_size=60)


def sent(channel: Channel, *changes: Change) -> FailedDelivery | None:
    notice = ChangeBatch(changes, range(len(changes)))
    return asyncio.run(_send(channel, notice))


async def _send(channel: Channel, notice: ChangeBatch) -> FailedDelivery | None:
    return await channel.send(notice)


# -- webhooks


def hook(
    url: str, *, token: str = "", batch: int = 1, timeout: float = 20.0, tls: ssl.SSLContext | None = None
) -> WebhookChannel:
    settings = NotifySection(batch=batch, timeout=timeout)
    return WebhookChannel(
        Url(url), token=token, user_agent="fieldmouse/0.1", settings=settings, clock=WallClock(), tls=tls
    )


def test_a_change_is_posted_as_json_with_its_id_as_key() -> None:
    told = change(title="Änderung <b>")
    with webhook() as inbox:
        assert sent(hook(inbox.url("/in?x=1"), token="t0k3n"), told) is None
    (post,) = inbox.posts
    assert post.path == "/in?x=1"
    assert post.body["id"] == told.id == post.headers["idempotency-key"]
    assert (post.body["url"], post.body["kind"], post.body["title"]) == (told.url, "changed", "Änderung <b>")
    assert post.headers["content-type"] == "application/json"
    assert post.headers["authorization"] == "Bearer t0k3n"


def test_several_changes_are_one_list_under_one_key_that_is_theirs() -> None:
    changes = [change(number) for number in range(3)]
    with webhook() as inbox:
        assert sent(hook(inbox.url(), batch=5), *changes) is None
        assert sent(hook(inbox.url(), batch=5), *changes) is None
        assert sent(hook(inbox.url(), batch=5), changes[0]) is None
    first, again, alone = inbox.posts
    assert [one["id"] for one in first.body] == [one.id for one in changes]
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"]
    assert alone.headers["idempotency-key"] == changes[0].id
    assert isinstance(alone.body, list), "who expects lists gets lists"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (answers(500), "answered 500"),
        (answers(302, Location="/elsewhere"), "answered 302"),
        (closes, "closed"),
        (babbles, "answered 500"),
    ],
)
def test_any_response_but_success_is_a_delivery_failure(fault: Fault, why: str) -> None:
    with webhook() as inbox:
        inbox.fault = fault
        setback = sent(hook(inbox.url(f"/{SECRET}"), token="t0k3n"), change())
    assert setback is not None
    assert why in setback.reason
    assert SECRET not in setback.reason
    assert "t0k3n" not in setback.reason
    assert inbox.posts == [], "no redirect was followed"


def test_a_receiver_may_ask_for_time() -> None:
    with webhook() as inbox:
        inbox.fault = answers(429, Retry_After="77")
        setback = sent(hook(inbox.url()), change())
    assert setback is not None
    assert setback.retry_after == 77


def test_a_receiver_that_hangs_is_given_up_in_time() -> None:
    over = threading.Event()
    with webhook() as inbox:
        inbox.fault = hanging(over)
        setback = sent(hook(inbox.url(), timeout=0.3), change())
        over.set()
    assert setback is not None
    assert "within 0.3 s" in setback.reason


def test_a_webhook_with_tls_is_trusted_as_far_as_its_certificate() -> None:
    authority = trustme.CA()
    server, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(ours)
    with webhook(server) as inbox:
        url = f"https://localhost:{inbox.port}/{SECRET}"
        assert sent(hook(url, tls=ours), change()) is None
        setback = sent(hook(url, tls=TLS), change(2))
    assert [post.body["id"] for post in inbox.posts] == [change().id]
    assert setback is not None
    assert "issuer certificate" in setback.reason
    assert SECRET not in setback.reason


def test_unreachable_receiver_is_a_delivery_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        setback = sent(hook(f"http://127.0.0.1:{taken.getsockname()[1]}/{SECRET}"), change())
    assert setback is not None
    assert "cannot be reached" in setback.reason
    assert SECRET not in setback.reason
    setback = sent(hook(f"http://nobody.invalid/{SECRET}"), change())
    assert setback is not None
    assert SECRET not in setback.reason


# -- commands


def program(tmp_path: Path, code: str, *, batch: int = 1, timeout: float = 20.0) -> CommandChannel:
    (tmp_path / "hook").write_text(f"#!/bin/sh\n{code}\n")
    (tmp_path / "hook").chmod(0o755)
    environment = {"PATH": os.environ["PATH"]}
    settings = NotifySection(command=("./hook", "; touch no"), batch=batch, timeout=timeout)
    return CommandChannel(settings, home=tmp_path, environment=environment)


def test_a_program_reads_json_from_its_standard_input_in_the_crawls_directory(tmp_path: Path) -> None:
    told = change(title="$(touch no) `touch no`; touch no")
    hook = program(tmp_path, 'cat > got.json; echo "$1" > words; echo "$FIELDMOUSE_NOTIFY_KEY" > key')
    assert sent(hook, told) is None
    assert json.loads((tmp_path / "got.json").read_text())["title"] == told.title
    assert (tmp_path / "words").read_text() == "; touch no\n", "there is no shell"
    assert (tmp_path / "key").read_text().strip() == told.id
    assert not (tmp_path / "no").exists()


def test_a_program_that_fails_is_a_setback_with_the_beginning_of_what_it_said(tmp_path: Path) -> None:
    setback = sent(program(tmp_path, "echo no such table >&2; head -c 1000000 /dev/zero; exit 7"), change())
    assert setback is not None
    assert "exit code 7" in setback.reason
    assert "no such table" in setback.reason
    assert len(setback.reason) < 500


def test_program_that_ignores_its_input_counts_as_delivered(tmp_path: Path) -> None:
    changes = [change(number, title="x" * 1000) for number in range(500)]
    assert sent(program(tmp_path, "exit 0", batch=1000), *changes) is None


def test_a_program_that_hangs_is_ended_with_all_that_it_began(tmp_path: Path) -> None:
    setback = sent(program(tmp_path, "sleep 600 & echo $! > child; wait", timeout=0.5), change())
    assert setback is not None
    assert "longer than 0.5 s" in setback.reason
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 20
    while _is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_background_child_of_a_program_does_not_block(tmp_path: Path) -> None:
    try:
        assert sent(program(tmp_path, "sleep 600 & echo $! > child"), change()) is None
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_program_that_is_not_there_is_a_setback(tmp_path: Path) -> None:
    setback = sent(CommandChannel(NotifySection(command=("./none",)), home=tmp_path, environment={}), change())
    assert setback is not None
    assert "`./none` cannot be run" in setback.reason


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# -- mail


def mail(
    port: int,
    *,
    scheme: str = "smtp+plain",
    to: tuple[str, ...] = ("you@example.org",),
    user: str = "",
    password: str = "",
    timeout: float = 20.0,
    tls: ssl.SSLContext = TLS,
) -> MailChannel:
    settings = NotifySection(
        mail_server=f"{scheme}://localhost:{port}",
        mail_from="mouse@example.org",
        mail_to=to,
        mail_user=user,
        mail_every=0.0,
        timeout=timeout,
    )
    return MailChannel(settings, password=password, crawl="atlas", clock=WallClock(), tls=tls)


def test_a_letter_says_what_happened_under_an_id_that_stays() -> None:
    changes = [change(1, title="First"), change(2, ChangeKind.GONE), change(3, ChangeKind.MOVED, target="http://b/")]
    with post_office() as office:
        assert sent(mail(office.port), *changes) is None
        assert sent(mail(office.port), *changes) is None
    (whom, first), (_, again) = office.letters
    assert whom == ["you@example.org"]
    assert first["Subject"] == "atlas: 3 changes"
    assert first["Message-ID"] == again["Message-ID"] == f"<{ChangeBatch(changes).key}@example.org>"
    text = first.get_content()
    assert all(one.url in text for one in changes)
    assert text.index("Changed (1)") < text.index("Gone (1)") < text.index("Moved (1)")


@given(anything, anything)
def test_titles_and_urls_cannot_add_headers_or_lines(title: str, path: str) -> None:
    told = change(title="x\r\nBcc: all@example.org\r\n\r\n" + title, url="http://a.example/\n" + path)
    message = mail(1).message_for(ChangeBatch([told]))
    raw = bytes(message)
    head, _, body = raw.partition(b"\r\n\r\n")
    names = {line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))}
    assert b"Bcc" not in names
    assert names <= {
        b"Subject",
        b"From",
        b"To",
        b"Date",
        b"Message-ID",
        b"Auto-Submitted",
        b"Content-Type",
        b"Content-Transfer-Encoding",
        b"MIME-Version",
    }
    assert body
    assert message.get_content().count("\n") == format.body([change(title="x")]).count("\n")


@pytest.mark.parametrize(
    ("office", "why"),
    [
        ({"greeting": "554 go away"}, "554"),
        ({"refuses": {"you@example.org": 550}}, "refuses you@example.org (550)"),
        ({"greeting": ""}, ""),
    ],
)
def test_a_mail_server_that_refuses_is_a_setback(office: dict[str, object], why: str) -> None:
    with post_office(**office) as there:
        setback = sent(mail(there.port, timeout=1.0), change())
    assert setback is not None
    assert why in setback.reason
    assert there.letters == []


def test_deferred_receiver_gets_the_mail_later_and_others_only_once(caplog: pytest.LogCaptureFixture) -> None:
    people = ("a@example.org", "b@example.org", "c@example.org")
    with post_office(refuses={"b@example.org": 450, "c@example.org": 550}) as office:
        channel = mail(office.port, to=people)
        first = sent(channel, change())
        assert first is not None
        assert "b@example.org (450)" in first.reason
        office.refuses.pop("b@example.org")
        assert sent(channel, change()) is None
        assert [whom for whom, _ in office.letters] == [["a@example.org"], ["b@example.org"]]
        with caplog.at_level(logging.WARNING):
            assert sent(channel, change(2)) is None
    assert office.letters[-1][0] == ["a@example.org", "b@example.org"]
    assert "c@example.org (550)" in caplog.text


def test_a_password_goes_over_an_encrypted_line_only_and_into_no_message(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(ours)
    login: dict[str, Any] = {"user": "mouse", "password": "hunter2", "scheme": "smtp"}
    with post_office(offers=("STARTTLS", "AUTH PLAIN LOGIN"), tls=server) as office:
        assert sent(mail(office.port, tls=ours, **login), change()) is None
        assert len(office.letters) == len(office.logins) == 1
        office.login_answer = "535 hunter2 is wrong"
        setback = sent(mail(office.port, tls=ours, **login), change())
        assert setback is not None
        assert "`mouse`" in setback.reason
        assert "hunter2" not in setback.reason
        untrusted = sent(mail(office.port, **login), change())
        assert untrusted is not None
        assert "certificate" in untrusted.reason
    with post_office(offers=("AUTH PLAIN LOGIN",)) as plain:
        setback = sent(mail(plain.port, tls=ours, **login), change())
        assert setback is not None
        assert plain.logins == plain.letters == [], "it offers no STARTTLS, so it gets nothing"


# -- feeds


def feed(path: Path, *, entries: int = 5, before: ChangeBatch | None = None, since: int = 0) -> FeedChannel:
    return FeedChannel(
        path,
        entries=entries,
        title="What changed in atlas",
        mark="1",
        since=since,
        recall=lambda: before or ChangeBatch([]),
    )


def check_atom(document: bytes) -> list[dict[str, str]]:
    """RFC 4287, as far as a feed of ours goes; gives the entries."""
    assert document.startswith(b"<?xml version='1.0' encoding='utf-8'?>")
    root = ElementTree.fromstring(document)
    known = {"feed", "id", "title", "updated", "generator", "author", "name", "entry", "link", "category", "summary"}
    assert {element.tag for element in root.iter()} <= {f"{{{ATOM}}}{name}" for name in known}
    assert root.tag == f"{{{ATOM}}}feed"

    def only(parent: ElementTree.Element, name: str) -> str:
        (found,) = parent.findall(f"{{{ATOM}}}{name}")
        return found.text or ""

    dated = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
    ids = [only(root, "id")]
    assert only(root, "title")
    assert dated.fullmatch(only(root, "updated"))
    (author,) = root.findall(f"{{{ATOM}}}author")
    assert only(author, "name")
    entries = []
    for entry in root.findall(f"{{{ATOM}}}entry"):
        ids.append(only(entry, "id"))
        assert dated.fullmatch(only(entry, "updated"))
        (link,) = entry.findall(f"{{{ATOM}}}link")
        assert link.get("rel") == "alternate"
        entries.append(
            {
                "id": only(entry, "id"),
                "title": only(entry, "title"),
                "href": link.get("href") or "",
                "summary": only(entry, "summary"),
                "updated": only(entry, "updated"),
            }
        )
    assert all(re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found) for found in ids)
    assert len(set(ids)) == len(ids)
    newest = [entry["updated"] for entry in entries]
    assert newest == sorted(newest, reverse=True)
    return entries


def test_a_feed_has_the_newest_changes_each_under_its_own_id(tmp_path: Path) -> None:
    path = tmp_path / "changes.atom"
    channel = feed(path, entries=5)
    assert sent(channel, *(change(number, title=f"Page {number}") for number in range(4))) is None
    assert sent(channel, *(change(number, title=f"Page {number}") for number in range(3, 8))) is None
    entries = check_atom(path.read_bytes())
    assert [entry["title"] for entry in entries] == [f"changed: Page {number}" for number in (7, 6, 5, 4, 3)]
    assert entries[0]["id"] == as_uuid(change(7).id)
    assert [one.name for one in tmp_path.iterdir()] == ["changes.atom"]


@pytest.mark.parametrize(("share", "shown"), [(0.001, "<1 %"), (0.25, "25 %"), (0.999, "99 %"), (1.0, "100 %")])
def test_feed_letter_and_list_name_the_same_share_of_words(tmp_path: Path, share: float, shown: str) -> None:
    one = msgspec.structs.replace(change(1), difference=share)
    path = tmp_path / "changes.atom"
    assert sent(feed(path), one) is None
    (entry,) = check_atom(path.read_bytes())
    assert entry["summary"] == f"{shown} of its words differ."
    assert f", {shown} of its words" in format.body([one])
    assert _cells(None, one)[2] == shown


def test_feed_keeps_its_entries_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "changes.atom"
    one, other = feed(path), feed(tmp_path / "other.atom", before=ChangeBatch([change(1), change(2)], [0, 100]))
    assert sent(one, change(1), change(2)) is None
    assert sent(one, change(3)) is None
    assert sent(other, change(2), change(3)) is None
    assert path.read_bytes() == (tmp_path / "other.atom").read_bytes()


def test_withdrawn_changes_are_removed_from_the_feed(tmp_path: Path) -> None:
    path = tmp_path / "changes.atom"
    channel = feed(path)
    assert sent(channel, change(1), change(2)) is None
    assert sent(channel, change(9, ChangeKind.WITHDRAWN, withdraws=change(1).id)) is None
    assert [entry["href"] for entry in check_atom(path.read_bytes())] == [change(2).url]


@given(st.lists(st.tuples(anything, anything), max_size=4))
def test_no_title_breaks_a_feed_or_hides_in_it(texts: list[tuple[str, str]]) -> None:
    changes = [
        change(number, title=title, url=f"http://a.example/{number}{path}", via=path)
        for number, (title, path) in enumerate(texts)
    ]
    entries = check_atom(atom(as_uuid("x"), "t", reversed(changes)))
    assert len(entries) == len(changes)
    for entry, told in zip(reversed(entries), changes, strict=True):
        assert entry["title"] == f"changed: {one_line(told.title) or one_line(told.url)}"
        assert "\n" not in entry["title"]


def test_foreign_file_in_place_of_the_feed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    setback = sent(feed(path), change())
    assert setback is not None
    assert "left as it is" in setback.reason
    assert path.read_text() == "years of work"
    setback = sent(feed(tmp_path / "none" / "changes.atom"), change())
    assert setback is not None
    assert "cannot be written" in setback.reason


def test_the_inbox_of_these_tests_drops_what_it_knows() -> None:
    """The oracle of the kill tests."""
    with webhook() as inbox:
        for number in (1, 2, 1):
            assert sent(hook(inbox.url()), change(number)) is None
    assert [one["id"] for one in inbox.once()] == [change(1).id, change(2).id]
