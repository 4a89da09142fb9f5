"""`[notify]` as its user meets it: settings, their mistakes, and `fieldmouse notify`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.cli import main
from fieldmouse.config import settings_file
from fieldmouse.config.notify_section import CHANGE_KINDS
from fieldmouse.config.settings_file import Settings
from fieldmouse.errors import SettingsError
from fieldmouse.notify import setup
from fieldmouse.storage.changes_from_outcomes import ChangeKind
from fieldmouse.storage.directory import CrawlDir

from .receivers import answers, post_office, webhook

Said = pytest.CaptureFixture[str]
MAIL = {"notify.mail_to": ["you@example.org"], "notify.mail_from": "us@example.org"}


def made(path: Path, **asked: object) -> Path:
    dotted = {f"notify.{name}": value for name, value in asked.items()}
    given = Settings().override({"crawl.seeds": ["http://127.0.0.1/"], **dotted})
    return CrawlDir.create(path / "atlas", shards=1, settings=settings_file.render(given).encode()).path


def ran(capsys: Said, *words: object) -> tuple[int, Any]:
    code = main.run_command([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_kinds_of_the_settings_are_those_that_there_are() -> None:
    assert tuple(kind.value for kind in ChangeKind) == CHANGE_KINDS


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"notify.mail_password": "hunter2"}, "notify.mail_password"),
        ({"notify.webhook_token": "hunter2"}, "notify.webhook_token"),
        ({"notify.apprise": ["slack://hunter2"]}, "notify.apprise"),
        ({"notify.webhook": "https://me:hunter2@example.org/"}, "notify.webhook"),
        ({"notify.webhook": "ftp://example.org/hunter2"}, "notify.webhook"),
    ],
)
def test_a_secret_in_the_settings_is_refused_and_not_repeated(asked: dict[str, object], names: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings().override(asked)
    assert names in str(refused.value)
    assert refused.value.hint
    assert "hunter2" not in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"notify.kinds": ["novel"]}, "notify.kinds"),
        ({"notify.difference": 2}, "0 to 1"),
        ({"notify.hosts": ["https://example.org/"]}, "notify.hosts"),
        ({"notify.mail_to": ["you@example.org\nBcc: all"]}, "notify.mail_to"),
        (MAIL, "notify.mail_server"),
        ({**MAIL, "notify.mail_server": "mail.example.org"}, "smtps://"),
        ({**MAIL, "notify.mail_server": "smtp://m.example", "notify.mail_user": "me"}, "go together"),
        (
            {
                **MAIL,
                "notify.mail_server": "smtp+plain://m.example",
                "notify.mail_user": "me",
                "notify.mail_password": "env:X",
            },
            "in the clear",
        ),
    ],
)
def test_invalid_notify_settings_are_refused(asked: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings().override(asked)
    assert says in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"notify.command": ["no-such-program"]}, "no-such-program"),
        ({"notify.webhook": "env:FIELDMOUSE_NONE"}, "FIELDMOUSE_NONE"),
        ({"notify.webhook": "file:none"}, "cannot be read"),
        ({"notify.webhook": "http://a.example/", "notify.webhook_token": "env:FIELDMOUSE_NONE"}, "webhook_token"),
    ],
)
def test_missing_requirements_are_reported_before_anything_is_created(
    asked: dict[str, object], says: str, tmp_path: Path, capsys: Said
) -> None:
    words = [word for name, value in asked.items() for word in ("--set", f"{name}={value}")]
    code, told = ran(capsys, "crawl", tmp_path / "atlas", "--seed", "http://127.0.0.1/", *words)
    assert code == 2
    assert says in told["error"]
    assert not (tmp_path / "atlas").exists()


def test_a_secret_is_read_from_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("from-file\n")
    monkeypatch.setenv("FIELDMOUSE_TOKEN", "from-env")
    with webhook() as inbox:
        monkeypatch.setenv("FIELDMOUSE_HOOK", inbox.url("/secret"))
        for place in ("env:FIELDMOUSE_TOKEN", f"file:{tmp_path / 'token'}"):
            path = made(tmp_path / place[:3], webhook="env:FIELDMOUSE_HOOK", webhook_token=place)
            assert main.run_command(["notify", str(path), "--test", "webhook"]) == 0
            assert "from-" not in (path / "fieldmouse.toml").read_text()
    assert [post.headers["authorization"] for post in inbox.posts] == ["Bearer from-env", "Bearer from-file"]
    assert [post.path for post in inbox.posts] == ["/secret"] * 2


def test_a_test_tells_a_sample_by_every_channel_and_how_it_went(tmp_path: Path, capsys: Said) -> None:
    with webhook() as inbox, post_office() as office:
        path = made(
            tmp_path,
            command=["tee", "got.json"],
            webhook=inbox.url(),
            mail_to=["you@example.org"],
            mail_from="us@example.org",
            mail_server=f"smtp+plain://127.0.0.1:{office.port}",
            feed="changes.atom",
        )
        code, told = ran(capsys, "notify", path, "--test")
        assert code == 0
        assert [one["channel"] for one in told] == ["command", "webhook", "mail", "feed"]
        assert all(one["delivered"] for one in told)
        assert json.loads((path / "got.json").read_text())["id"] == told[0]["id"]
        assert inbox.posts[0].body["id"] == told[1]["id"]
        assert office.letters[0][1]["Message-ID"] == f"<{told[2]['id']}@example.org>"
        assert b"A sample" in (path / "changes.atom").read_bytes()
        inbox.fault = answers(503)
        code, told = ran(capsys, "notify", path, "--test", "webhook")
    assert code == 1
    assert told[0]["why"].endswith("answered 503")
    assert main.run_command(["notify", str(path), "--test", "webhook"]) == 1
    assert "BAD  webhook" in capsys.readouterr().out


def test_notify_without_test_lists_receivers_and_sends_nothing(tmp_path: Path, capsys: Said) -> None:
    with webhook() as inbox:
        path = made(tmp_path, webhook=inbox.url("/secret"), command=["false"])
        code, told = ran(capsys, "notify", path)
    assert (code, inbox.posts) == (0, [])
    assert [(one["channel"], one["receiver"], one["waiting"]) for one in told] == [
        ("command", "false", 0),
        ("webhook", f"http://127.0.0.1:{inbox.port}", 0),
    ]
    assert main.run_command(["notify", str(path)]) == 0
    assert "nothing sent yet, 0 changes wait" in capsys.readouterr().out


def test_channel_that_is_not_configured_cannot_be_tested(tmp_path: Path, capsys: Said) -> None:
    path = made(tmp_path, feed="changes.atom")
    code, told = ran(capsys, "notify", path, "--test", "mail")
    assert (code, "no mail" in told["error"]) == (2, True)
    code, told = ran(capsys, "notify", path, "--test", "pigeon")
    assert (code, "no channel `pigeon`" in told["error"]) == (2, True)
    assert main.run_command(["notify", str(made(tmp_path / "b"))]) == 1
    assert "has no notification channel" in capsys.readouterr().err


def test_a_missing_apprise_is_named_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setenv("FIELDMOUSE_CHAT", "json://127.0.0.1/s3cret")
    with pytest.raises(setup.MissingApprise) as missing:
        setup.check_channels(tmp_path, Settings().override({"notify.apprise": ["env:FIELDMOUSE_CHAT"]}))
    assert "fieldmouse[notify]" in missing.value.hint
    assert "s3cret" not in str(missing.value)


def test_a_program_does_not_find_the_secrets_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDMOUSE_TOKEN", "s3cret")
    (tmp_path / "env.sh").write_text("#!/bin/sh\nenv > seen\n")
    (tmp_path / "env.sh").chmod(0o755)
    path = made(
        tmp_path, command=[str(tmp_path / "env.sh")], webhook="http://127.0.0.1/", webhook_token="env:FIELDMOUSE_TOKEN"
    )
    assert main.run_command(["notify", str(path), "--test", "command"]) == 0
    seen = (path / "seen").read_text()
    assert "s3cret" not in seen
    assert "PATH=" in seen


def test_crawl_without_channels_does_not_import_notify(tmp_path: Path) -> None:
    path = made(tmp_path)
    probe = (
        "import asyncio, sys; from pathlib import Path; from fieldmouse.crawler import run;"
        "from fieldmouse.api.crawl_preparation import plan_to_resume;"
        "from fieldmouse.storage.directory import CrawlDir\n"
        "def build_crawl(*args, parts, audience, **others):\n"
        "    assert not parts and audience is None; print(*sys.modules); sys.exit()\n"
        "run.build_crawl, home = build_crawl, CrawlDir.open(Path(sys.argv[1]))\n"
        "asyncio.run(run.CrawlRun(home, plan_to_resume(home.path, {}, {}).settings, []).run())"
    )
    done = subprocess.run([sys.executable, "-c", probe, str(path)], capture_output=True, check=True, text=True)
    loaded = done.stdout.split()
    assert "fieldmouse.config.notify_section" in loaded
    assert not [name for name in loaded if name.startswith(("fieldmouse.notify", "smtplib", "apprise"))]


def test_a_directory_may_have_any_name(tmp_path: Path, capsys: Said) -> None:
    path = made(tmp_path, feed="changes.atom")
    odd = path.rename(tmp_path / "a\x01\udcff\nb")
    code, told = ran(capsys, "notify", odd, "--test", "feed")
    assert (code, told[0]["delivered"]) == (0, True)
    assert b"What changed in a" in (odd / "changes.atom").read_bytes()
