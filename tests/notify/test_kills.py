"""Real processes, a real receiver on loopback, real kills: who drops known ids sees each change once.

FIELDMOUSE_KILLS sets how often the process is killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from fieldmouse.cli import main
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.storage.changes_from_outcomes import NewPageBaseline, changes_in
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.outcome_log_reader import outcome_rows

from .receivers import Inbox, answers, closes, hanging, post_office, webhook
from .test_channels import check_atom

KILLS = max(4, int(os.environ.get("FIELDMOUSE_KILLS", "8")) // 2)
ROWS = 24 * KILLS
TESTS = Path(__file__).resolve().parents[1]


def start(home: Path, rows: int = ROWS) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "notify.notifying", str(home), str(rows)]
    return subprocess.Popen(words, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def told(home: Path) -> list[str]:
    """The ids of all changes in the log, in order."""
    crawl = CrawlDir.open(home)
    length = sealed_outcome_bytes(read_checkpoint(crawl))
    return [
        change.id for row in outcome_rows(crawl, length=length) for change in changes_in(row, 0, NewPageBaseline(1.0))
    ]


def moody(inbox: Inbox, rng: random.Random, over: threading.Event) -> None:
    """The receiver fails now and then, in one way or another."""
    lock = threading.Lock()

    def fault(handler: BaseHTTPRequestHandler) -> bool:
        with lock:
            mood = rng.random()
        if mood < 0.015:
            return answers(500)(handler)
        if mood < 0.03:
            return closes(handler)
        if mood < 0.04:
            return hanging(over)(handler)
        return False

    inbox.fault = fault


@pytest.mark.parametrize("batch", [1, 4])
def test_killed_again_and_again_each_change_is_seen_once(tmp_path: Path, batch: int) -> None:
    rng, over = random.Random(2026 + batch), threading.Event()
    with webhook() as inbox, post_office() as office:
        moody(inbox, rng, over)
        given = Settings().override(
            {
                "notify.webhook": inbox.url(),
                "notify.batch": batch,
                "notify.feed": "changes.atom",
                "notify.feed_entries": 20,
                "notify.timeout": "300ms",
                "notify.patience": "60s",
                "notify.mail_to": ["you@example.org"],
                "notify.mail_from": "us@example.org",
                "notify.mail_server": f"smtp+plain://127.0.0.1:{office.port}",
                "notify.mail_every": "1s",
            }
        )
        home = tmp_path / "c"
        CrawlDir.create(home, shards=1, settings=settings_file.render(given).encode())
        kills = 0
        while True:
            process = start(home)
            try:
                process.wait(rng.uniform(0.4, 1.6) if kills < KILLS else 100)
                break
            except subprocess.TimeoutExpired:
                assert kills < KILLS, "it does not come to an end"
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
        over.set()
        left = json.loads(process.communicate()[0])
        assert process.returncode == 0
        assert kills > KILLS // 2, "it was over before most of the kills had fallen"
    wanted = told(home)
    assert len(wanted) == ROWS - ROWS // 4
    assert left == {} or set(left) == {"mail"}
    assert [one["id"] for one in inbox.once()] == wanted, "by the keys of posts"
    ids = [one["id"] for post in inbox.posts for one in post.changes]
    assert list(dict.fromkeys(ids)) == wanted, "by the ids of changes"
    letters = {letter["Message-ID"]: letter.get_content() for _, letter in office.letters}
    read = sum(text.count("http://a.example/") for text in letters.values())
    assert read + left.get("mail", 0) == len(wanted), "by the ids of letters"
    assert len(check_atom((home / "changes.atom").read_bytes())) == 20


def run(home: Path, rows: int) -> dict[str, int]:
    """A run to its end; what it could not tell."""
    process = start(home, rows)
    left: dict[str, int] = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0
    return left


def test_pending_changes_are_counted_and_sent_in_the_next_run_or_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def notify(*words: str) -> Any:
        assert main.run_command(["notify", str(home), *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    home = tmp_path / "c"
    with webhook() as inbox:
        asked = {"notify.webhook": inbox.url(), "notify.command": ["false"], "notify.patience": "300ms"}
        CrawlDir.create(home, shards=1, settings=settings_file.render(Settings().override(asked)).encode())
        inbox.fault = answers(500)
        assert run(home, 8) == {"webhook": 6, "command": 6}
        assert {one["channel"]: one["waiting"] for one in notify()} == {"webhook": 6, "command": 6}
        inbox.fault = None
        assert notify("--skip", "command") == {"skipped": 6}
        assert run(home, 12) == {"command": 3}
        assert [one["id"] for one in inbox.once()] == told(home)
        waiting = {one["channel"]: one["waiting"] for one in notify()}
    assert waiting == {"webhook": 0, "command": 3}
    assert CrawlDir.open(home).was_killed is False
