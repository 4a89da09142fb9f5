"""One crawl of all hostile servers: it ends, uses bounded resources, and names each trick."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import parse

from .crawling import exported, run, warcs
from .faults import all_tricks
from .hostile import GOOD, PAGE, End, HostileWeb, failed, refused

SETTINGS = """
[scope]
include_hosts = ["169.254.169.254", "0.0.0.0"]
include_domains = ["hostile.test"]
[politeness]
delay = "0s"
patience = 0.02
backoff = "100ms"
backoff_cap = "200ms"
retry_after_cap = "100ms"
[limits]
body = "12MiB"
connect = "2s"
first_byte = "3s"
idle = "800ms"
total = "4s"
grace = "1500ms"
[network]
allow_private = true
resolve = ["*.hostile.test=127.77.0.1"]
[storage]
min_free = "0B"
"""
WEED = re.compile(r"/w/\d+$")


@dataclass
class Aftermath:
    web: HostileWeb
    home: Path
    summary: dict[str, Any]
    rows: dict[str, dict[str, Any]]
    weeds: list[dict[str, Any]]
    expected: dict[str, End]


def odd_links(web: HostileWeb) -> dict[str, End | None]:
    """Odd hrefs of the seed page and the outcome of each; None: no outcome."""
    port = web.seed.rpartition(":")[2].rstrip("/")
    here = web.seed.removeprefix("http://")
    gone = failed(OutcomeReason.CLIENT_ERROR, "404")
    return {
        "javascript:alert(1)": None,
        "data:text/html,<a href=/x>x</a>": None,
        "mailto:mouse@hostile.test": None,
        "//[::bad": None,
        "/" + "l" * 20_000: None,
        "/gone?q=" + "l" * 1900: gone,
        f"http://user:secret@{here}userinfo": gone,
        f"http://bücher.hostile.test:{port}{GOOD}": PAGE,
        "/a\tb\nc": gone,
        "/\x01\x7f\u202e": gone,
        "/%00%ff%zz": gone,
        "http://169.254.169.254/latest/meta-data/": refused(OutcomeReason.PRIVATE_ADDRESS, "cloud metadata"),
        "http://0/": refused(OutcomeReason.PRIVATE_ADDRESS, "this network"),
        "http://elsewhere.example/": None,
    }


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    folder = tmp_path_factory.mktemp("hostile")
    config, home = folder / "hostile.toml", folder / "c"
    config.write_text(SETTINGS)
    with HostileWeb(all_tricks()).serving(extra=lambda web: list(odd_links(web))) as web:
        summary = run("crawl", home, "--seed", web.seed, "--config", config)
        rows = exported(home, "--all")
        expected = dict(web.expected)
        for href, end in odd_links(web).items():
            if end is not None:
                target = parse(web.seed + href.removeprefix("/") if href.startswith("/") else href)
                assert target is not None
                expected[target] = end
        weeds = [row for row in rows if WEED.search(row["url"])]
        others = [row for row in rows if not WEED.search(row["url"])]
        assert len({row["url"] for row in others}) == len(others), "one row for each URL"
        yield Aftermath(web, home, summary, {row["url"]: row for row in others}, weeds, expected)


def test_the_crawl_ends_by_itself_in_bounded_time_and_memory(aftermath: Aftermath) -> None:
    """`run` bounds the time: every command has a timeout."""
    summary = aftermath.summary
    assert summary["exit"] == summary["lost"] == summary["waiting"] == 0
    # The peaks of three processes added up, though they do not fall together. A worker: 100 MB, a body
    # unpacked to its limit of 64 MiB and decoded once more, a tree of 4 MiB of tags: some 350. The agent:
    # 120 MB, and some eight bodies of 12 MiB at once, each as pieces, as a whole and on its way to a
    # worker: some 400. That makes 1,100; which falls together with which is chance, 670 to 1,110 were
    # seen. The servers offered many gigabytes.
    assert summary["peak_rss_mb"] < 1600


def test_every_trick_gets_its_expected_outcome_and_nothing_else_is_fetched(aftermath: Aftermath) -> None:
    names = {url: trick.name for trick in aftermath.web.tricks for url in trick.expected}
    wrong = []
    for url in aftermath.expected.keys() | aftermath.rows.keys():
        end, row = aftermath.expected.get(url), aftermath.rows.get(url)
        found = row and End(row["kind"], row["reason"], row["detail"])
        if not (end and found and found[:2] == end[:2] and end.detail in found.detail):
            wrong.append(f"{names.get(url, url[:80])}: wanted {end}, found {found}")
    assert not wrong, "\n".join(wrong)


def test_failures_have_a_detail(aftermath: Aftermath) -> None:
    mute = [row["url"] for row in aftermath.rows.values() if row["kind"] == "failed" and not row["detail"]]
    assert not mute


def test_countless_links_are_all_accounted_for(aftermath: Aftermath) -> None:
    urls = {row["url"] for row in aftermath.weeds}
    assert len(urls) == len(aftermath.weeds) > 50_000
    assert {(row["kind"], row["reason"]) for row in aftermath.weeds} == {
        ("refused", OutcomeReason.ROBOTS_TXT_EXCLUDED.value)
    }
    assert aftermath.summary["seen"] == len(aftermath.rows) + len(aftermath.weeds)


def test_archived_records_are_complete_and_mark_truncation(aftermath: Aftermath) -> None:
    cut = set()
    for path in warcs(aftermath.home):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests=True):
                # As it is: `warcio check` would unpack ten gigabytes, and cannot read brotli at all.
                while record.raw_stream.read(1 << 16):
                    pass
                assert record.digest_checker.passed is not False, record.digest_checker.problems
                if record.rec_headers.get_header("WARC-Truncated"):
                    cut.add(record.rec_headers.get_header("WARC-Target-URI"))
    huge = next(trick for trick in aftermath.web.tricks if trick.name == "a robots.txt of 100 MB")
    assert huge.origin + "/robots.txt" in cut
    assert {url for url, row in aftermath.rows.items() if "cut by the limit" in row["detail"]} <= cut


def test_totals_balance_and_pages_are_searchable(aftermath: Aftermath) -> None:
    assert run("doctor", aftermath.home)["healthy"]
    found = run("search", aftermath.home, "beside", "--limit", "200")
    assert len(found) > 40


def test_private_hosts_get_no_request(tmp_path: Path) -> None:
    """Without --allow-private all these hosts are refused by address and get no request."""
    with HostileWeb([]).serving() as web:
        port = web.seed.rpartition(":")[2].rstrip("/")
        seeds = [web.seed] + [
            f"http://{name}:{port}/" for name in ("localhost", "0x7f000001", "2130706433", "[::1]", "127.1")
        ]
        words = [word for seed in seeds for word in ("--seed", seed)]
        summary = run("crawl", tmp_path / "c", *words, "--delay", "0s", expect=1)
        assert not web.requests
    rows = exported(tmp_path / "c", "--all")
    assert {(row["kind"], row["reason"]) for row in rows} == {("refused", OutcomeReason.PRIVATE_ADDRESS.value)}
    assert summary["refused"] == len(rows) == 4  # three of the names spell 127.0.0.1
    assert all("loopback" in row["detail"] for row in rows)


NAMED_ELSEWHERE = {
    OutcomeReason.NONE,
    OutcomeReason.HOST_FULL,
    OutcomeReason.CLIENT_ERROR,
    OutcomeReason.BODY_TOO_LARGE,
    OutcomeReason.NOT_SIGNED,
}
"""Reasons that are no trick of a server: none, exclusions, plain errors, and plug-ins."""


def told() -> list[str]:
    """Outcomes in the table of docs/hostile.md, row by row."""
    text = (Path(__file__).parents[2] / "docs" / "hostile.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {4}
    return [row[3].strip() for row in rows[2:]]


def test_the_document_names_exactly_the_existing_reasons() -> None:
    names = {cell.strip('"') for cell in told() if cell.startswith('"')}
    assert names == {reason.value for reason in OutcomeReason if reason not in NAMED_ELSEWHERE}


def test_page_outcomes_match_the_document(aftermath: Aftermath) -> None:
    details = {found for cell in told() for found in re.findall(r"detail `([^`]+)`", cell)}
    assert details
    seen = [row["detail"] for row in aftermath.rows.values() if row["kind"] == "page"]
    assert all(any(detail in text for text in seen) for detail in details)
