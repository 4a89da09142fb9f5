"""What strangers wrote, on our user's screen and in their tables."""

from __future__ import annotations

import csv
import json
import logging
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.cli import console
from fieldmouse.cli.main import run_command
from fieldmouse.cli.read.export import escape_formula
from fieldmouse.formatting import escape_json, sanitize

Said = pytest.CaptureFixture[str]
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
UNSEEN = "\u200b\u2060\ufeff\u2028\u2029\U000e0041"
EVIL = f"=HYPERLINK(1){ESCAPES}{BIDI}{UNSEEN}"
FINE = "Größe 鼠 עכבר فأر می‌خواهم 👨‍👩‍👧 ❤️ naïve"

texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text(ESCAPES + BIDI + UNSEEN + "a\n\t'=+-@")


def is_harmless(text: str, allowed: str = "") -> bool:
    return all(
        category(letter) not in ("Cc", "Zl", "Zp", "Cs") and letter not in BIDI + UNSEEN
        for letter in text
        if letter not in allowed
    )


@given(texts)
def test_nothing_that_is_shown_acts(text: str) -> None:
    assert is_harmless(sanitize(text), "\t")
    assert is_harmless(sanitize(text, lines=True), "\t\n")
    assert sanitize(text, lines=True).count("\n") == text.count("\n")
    assert sanitize(sanitize(text)) == sanitize(text)


def test_letters_of_all_scripts_and_emoji_stay_as_they_are() -> None:
    assert sanitize(FINE) == FINE


def test_lone_surrogates_can_be_shown() -> None:
    sanitize("\ud800").encode()


@given(st.dictionaries(texts, texts, max_size=3))
def test_json_shows_nothing_that_acts_and_means_the_same(value: dict[str, str]) -> None:
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        shown = escape_json(written.encode()).decode()
        assert is_harmless(shown)
        assert json.loads(shown) == value


def test_all_that_is_said_is_made_visible(capsys: Said) -> None:
    console.mute_messages(False)
    for speak in (console.message, console.hint, console.print_data, console.error):
        speak(EVIL)
    console.error("x", EVIL)
    for line in console.align_columns([(EVIL, "a"), ("b", EVIL)]):
        console.print_data(line)
    console.print_json({"title": EVIL})
    said = capsys.readouterr()
    assert is_harmless(said.out, "\n")
    assert is_harmless(said.err, "\n")
    assert json.loads(said.out.splitlines()[-1]) == {"title": EVIL}


def test_column_width_counts_sanitized_text() -> None:
    lines = console.align_columns([("\x1b\u202e", "x"), ("ab", "y")])
    assert lines[0].index("x") == lines[1].index("y")


def test_warnings_are_made_visible_too(capsys: Said) -> None:
    before = logging.getLogger().handlers[:]
    try:
        console.show_warnings()
        logging.getLogger("fieldmouse.test").warning("stumbled over %s", EVIL)
    finally:
        logging.getLogger().handlers[:] = before
    said = capsys.readouterr().err
    assert said.startswith("warning: stumbled over =HYPERLINK(1)␛]0;owned␇")
    assert is_harmless(said, "\n")


FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")


def untamed(cell: str) -> str:
    """The way back, as docs/formats.md has it."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell[1:]) else cell


@given(st.text("'=+-@\t\r\n a1＝") | texts)
def test_no_cell_is_a_formula_and_every_cell_can_be_had_back(text: str) -> None:
    cell = escape_formula(text)
    assert not re.match(r"\s*[=+\-@＝＋－＠]|[\t\r\n]", cell)
    assert untamed(cell) == text


def test_the_way_back_is_the_one_that_is_written_down() -> None:
    written = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    assert FORMULA.pattern in written


@given(st.integers() | st.booleans() | st.floats() | st.none())
def test_numbers_are_left_alone(value: object) -> None:
    assert escape_formula(value) is value


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_page = self.path == "/"
        body = f"<title>{EVIL}</title><p>mouse {EVIL} mouse".encode() if is_page else b""
        self.send_response(200 if is_page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = str(tmp_path_factory.mktemp("visible") / "atlas")
    url = f"http://127.0.0.1:{server.server_port}/"
    assert run_command(["crawl", home, "--seed", url, "--allow-private", "--set", "index.shards=1"]) == 0
    yield home, url
    server.shutdown()
    server.server_close()


def test_page_text_cannot_control_the_terminal(crawl: tuple[str, str], capsys: Said) -> None:
    home, url = crawl
    for words in (["search", home, "mouse"], ["explain", home, url], ["export", home, "--to", "-"]):
        assert run_command(words) == 0
        said = capsys.readouterr()
        assert "HYPERLINK" in said.out
        assert is_harmless(said.out, "\n"), words
        assert is_harmless(said.err, "\n"), words


def test_a_title_is_no_formula_in_a_spreadsheet_and_is_exact_elsewhere(
    crawl: tuple[str, str], tmp_path: Path, capsys: Said
) -> None:
    home, _ = crawl
    for name in ("pages.csv", "pages.jsonl"):
        assert run_command(["export", home, "--to", str(tmp_path / name)]) == 0
    (line,) = (tmp_path / "pages.jsonl").read_text().splitlines()
    with (tmp_path / "pages.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    title = json.loads(line)["title"]
    assert title.startswith("=HYPERLINK")
    assert row["title"] == f"'{title}"
    assert row["status"] == "200"
