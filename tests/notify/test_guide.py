"""The guide keeps its word: its settings, its program and its command are taken out and used."""

from __future__ import annotations

import json
import re
import shlex
import ssl
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from fieldmouse.cli import main
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.storage.changes_from_outcomes import Change
from fieldmouse.storage.directory import CrawlDir

from .receivers import change, post_office, webhook

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "notify.md").read_text()
Said = pytest.CaptureFixture[str]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def shown(*names: str) -> dict[str, Any]:
    """The settings of the first example that has all of these, as it stands in the guide."""
    tables = [tomllib.loads(block)["notify"] for block in blocks("toml")]
    found: dict[str, Any] = next(table for table in tables if set(names) <= set(table))
    return found


def crawl(path: Path, asked: dict[str, Any], **more: Any) -> Path:
    dotted = {f"notify.{name}": value for name, value in asked.items()} | more
    given = Settings().override({"crawl.seeds": ["http://127.0.0.1/"], **dotted})
    return CrawlDir.create(path / "atlas", shards=1, settings=settings_file.render(given).encode()).path


def tried(path: Path, channel: str, capsys: Said) -> Any:
    (command,) = re.findall(r"^\$ (fieldmouse notify .*)$", GUIDE, re.MULTILINE)
    words = [str(path) if word == "atlas" else word for word in shlex.split(command)[1:]]
    assert main.run_command([*words, channel, "--json"]) == 0, capsys.readouterr().out
    (told,) = json.loads(capsys.readouterr().out)
    return told


def test_every_example_is_understood() -> None:
    examples = [settings_file.parse(block).notify for block in blocks("toml")]
    assert {name for asked in examples for name in asked.channel_names} == {
        "command",
        "webhook",
        "mail",
        "feed",
        "apprise",
    }


def test_the_object_of_the_guide_has_what_a_change_has() -> None:
    (example,) = blocks("json")
    msgspec.json.decode(example, type=Change)
    assert set(json.loads(example)) == set(msgspec.structs.asdict(change()))


def test_the_webhook_of_the_guide_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    asked = shown("webhook", "webhook_token")
    monkeypatch.setenv(asked["webhook_token"].removeprefix("env:"), "t0k3n")
    with webhook() as inbox:
        tried(crawl(tmp_path, asked | {"webhook": inbox.url()}), "webhook", capsys)
    assert inbox.posts[0].headers["authorization"] == "Bearer t0k3n"


def test_the_program_of_the_guide_works(tmp_path: Path, capsys: Said) -> None:
    asked, (code,) = shown("command"), blocks("python")
    path = crawl(tmp_path, asked)
    program = path / asked["command"][0]
    program.write_text(code)
    program.chmod(0o755)
    tried(path, "command", capsys)
    assert (path / "told.txt").read_text().startswith("changed https://example.org/sample/")


def test_the_mail_of_the_guide_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    asked, authority, server = shown("mail_to"), trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / asked["mail_password"].removeprefix("file:~/")).write_text("hunter2\n")
    scheme = asked["mail_server"].partition("://")[0]
    with post_office(offers=("STARTTLS", "AUTH PLAIN"), tls=server) as office:
        here = asked | {"mail_server": f"{scheme}://localhost:{office.port}"}
        tried(crawl(tmp_path, here, **{"network.ca_file": str(tmp_path / "ca.pem")}), "mail", capsys)
    ((whom, letter),) = office.letters
    assert whom == asked["mail_to"]
    assert "sample" in letter["Subject"]
    assert len(office.logins) == 1


def test_the_feed_of_the_guide_works(tmp_path: Path, capsys: Said) -> None:
    asked = shown("feed_entries")
    path = crawl(tmp_path, asked)
    tried(path, "feed", capsys)
    assert b"sample" in (path / asked["feed"]).read_bytes()


def test_apprise_reaches_a_receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    pytest.importorskip("apprise")
    asked = shown("apprise")
    with webhook() as inbox:
        monkeypatch.setenv(asked["apprise"][0].removeprefix("env:"), inbox.url().replace("http", "json", 1))
        tried(crawl(tmp_path, asked), "apprise", capsys)
    assert "A sample of fieldmouse notify" in inbox.posts[0].body["message"]
