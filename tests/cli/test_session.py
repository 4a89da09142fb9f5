"""Whole sessions against a meadow, the way a person or a script has them."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fieldmouse.api.crawl_preparation import plan_to_resume
from fieldmouse.cli.main import run_command
from fieldmouse.config.settings_file import load
from fieldmouse.search.snapshot import remove_index_directory
from meadowland import RunningMeadow, running_meadow

Said = pytest.CaptureFixture[str]
MANNERS = ["--allow-private", "--delay", "0s", "--set", "index.shards=1"]
PROMISED = {
    "pages",
    "hosts",
    "seconds",
    "pages_per_second",
    "seen",
    "waiting",
    "failed",
    "refused",
    "lost",
    "bytes",
    "peak_rss_mb",
    "exit",
}


def fieldmouse(*words: str, code: int = 0) -> Any:
    """Run a command in a process of its own; what it printed as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "fieldmouse", *words, "--json"], capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def exported(crawl: Path) -> list[dict[str, Any]]:
    target = crawl.parent / "exported.jsonl"
    fieldmouse("export", str(crawl), "--to", str(target))
    return [json.loads(line) for line in target.read_text().splitlines()]


@pytest.fixture(scope="module")
def meadow() -> Iterator[RunningMeadow]:
    with running_meadow(hosts=12, pages=150, page_kb=6, links=30) as running:
        yield running


@pytest.fixture(scope="module")
def summary_and_atlas(meadow: RunningMeadow, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    atlas = tmp_path_factory.mktemp("session") / "atlas"
    return fieldmouse("crawl", str(atlas), "--seed", meadow.seeds[0], *MANNERS), atlas


@pytest.fixture
def atlas(summary_and_atlas: tuple[Any, Path], tmp_path: Path) -> Path:
    """A finished crawl of one's own, to be damaged at will."""
    return Path(shutil.copytree(summary_and_atlas[1], tmp_path / "atlas"))


def test_a_crawl_tells_what_the_contract_promises(meadow: RunningMeadow, summary_and_atlas: tuple[Any, Path]) -> None:
    summary, _ = summary_and_atlas
    assert set(summary) >= PROMISED
    assert summary["pages"] == len(meadow.pages())
    assert summary["hosts"] == 12
    assert summary["giving_hosts"] == len({row["url"].split("/")[2] for row in exported(summary_and_atlas[1])})
    assert (summary["exit"], summary["waiting"], summary["lost"]) == (0, 0, 0)
    assert summary["seen"] == sum(summary[kind] for kind in ("pages", "moved", "refused", "failed"))


def test_exported_pages_are_exactly_the_allowed_ones(meadow: RunningMeadow, atlas: Path) -> None:
    rows = exported(atlas)
    assert {row["url"] for row in rows} == meadow.pages()
    assert len(rows) == len(meadow.pages()), "each page has one row"
    for row in rows:
        assert {"url", "status", "fetched_at", "title", "digest", "depth"} <= set(row)
        assert row["status"] == 200
        assert row["fetched_at"].endswith("Z")
        assert row["digest"].startswith("sha1:")


def test_every_format_says_the_same(atlas: Path, tmp_path: Path) -> None:
    rows = exported(atlas)
    for name in ("pages.csv", "pages.parquet"):
        assert run_command(["export", str(atlas), "--to", str(tmp_path / name)]) == 0
    with (tmp_path / "pages.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [{key: str(value) for key, value in row.items()} for row in rows]
    assert pq.read_table(tmp_path / "pages.parquet").to_pylist() == rows
    assert not list(tmp_path.glob("*.part"))


def test_every_format_has_the_same_words_for_what_became_of_each_url(atlas: Path, tmp_path: Path) -> None:
    for name in ("all.jsonl", "all.csv", "all.parquet"):
        assert run_command(["export", str(atlas), "--to", str(tmp_path / name), "--all"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert {row["kind"] for row in rows} >= {"page", "failed"}
    assert any(row["reason"] for row in rows)
    with (tmp_path / "all.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    for field in ("kind", "reason", "found_as"):
        assert [row[field] for row in read] == [row[field] for row in rows]
    assert pq.read_table(tmp_path / "all.parquet").to_pylist() == rows


def test_all_outcomes_account_for_every_url(meadow: RunningMeadow, atlas: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    told = fieldmouse("export", str(atlas), "--to", str(target), "--all")
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert told == {"to": str(target), "outcomes": len(rows)}
    kinds = {row["url"]: row["kind"] for row in rows}
    for url, (status, allowed) in meadow.truth().items():
        if allowed:
            assert kinds[url] == {2: "page", 3: "moved"}.get(status // 100, "failed"), url
        else:
            assert kinds.get(url, "refused") == "refused", url


def test_search_finds_a_page_by_its_title_and_prints_exactly_four_fields(atlas: Path) -> None:
    row = next(row for row in exported(atlas) if len(row["title"].split()) > 2 and not row["duplicate_of"])
    title = '"' + row["title"].replace('"', " ") + '"'
    hits = fieldmouse("search", str(atlas), title, "--limit", "5")
    assert row["url"] in [hit["url"] for hit in hits]
    assert all(set(hit) == {"url", "title", "snippet", "score"} for hit in hits)
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert fieldmouse("search", str(atlas), "xyzzyplugh") == []
    word = max(re.findall(r"\w+", row["title"]), key=len)
    found = {hit["url"] for hit in fieldmouse("search", str(atlas), title, "--limit", "100")}
    assert fieldmouse("search", str(atlas), title, f"-{word}", "--limit", "100") == []
    others = {hit["url"] for hit in fieldmouse("search", str(atlas), title, "-xyzzyplugh", "--limit", "100")}
    assert others == found


def test_each_fate_is_explained_in_words(meadow: RunningMeadow, atlas: Path, capsys: Said) -> None:
    truth = meadow.truth()
    examples = {
        "fetched": next(url for url, (status, allowed) in truth.items() if allowed and status == 200),
        "moved with status": next(url for url, (status, allowed) in truth.items() if allowed and status in (301, 302)),
        "with status 404": next(url for url, (status, allowed) in truth.items() if allowed and status == 404),
        "no link to it was accepted": meadow.seeds[0] + "nowhere",
        "out of scope": "https://example.org/",
    }
    for words, url in examples.items():
        assert run_command(["explain", str(atlas), url]) == 0
        assert words in capsys.readouterr().out, url
    story = fieldmouse("explain", str(atlas), examples["fetched"])
    assert story["place"] == "done"
    assert story["outcomes"][0]["status"] == 200


def test_a_healthy_crawl_is_called_healthy(atlas: Path) -> None:
    told = fieldmouse("doctor", str(atlas))
    assert told["healthy"]
    assert {finding["what"] for finding in told["findings"]} >= {"lock", "journal", "accounts", "archive", "index"}


@pytest.mark.parametrize("victim", ["outcomes.log", "archive/*.warc.gz"])
def test_damage_is_found_and_named(atlas: Path, victim: str) -> None:
    path = max(atlas.glob(victim), key=lambda path: path.stat().st_size)
    whole = path.read_bytes()
    for broken in (whole[:-7], whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:]):
        path.write_bytes(broken)
        told = fieldmouse("doctor", str(atlas), code=1)
        bad = [finding for finding in told["findings"] if not finding["healthy"]]
        assert len(bad) == 1
        assert path.name in bad[0]["says"]
        assert bad[0]["advice"]


def test_a_damaged_index_is_found_and_named(atlas: Path) -> None:
    part = next(atlas.glob("index/shard-0/*/*.term"))
    part.unlink()
    for words in (["search", str(atlas), "meadow"], ["doctor", str(atlas)]):
        told = fieldmouse(*words, code=1)
        assert part.parent.name in json.dumps(told)
    remove_index_directory(part.parent)
    bad = [finding for finding in fieldmouse("doctor", str(atlas), code=1)["findings"] if not finding["healthy"]]
    assert [finding["what"] for finding in bad] == ["index"]


def test_limit_exits_with_3_and_resume_finishes(meadow: RunningMeadow, tmp_path: Path) -> None:
    crawl = tmp_path / "limited"
    first = fieldmouse("crawl", str(crawl), "--seed", meadow.seeds[0], "--pages", "40", *MANNERS, code=3)
    assert (first["pages"], first["exit"], first["stopped_by"]) == (40, 3, "pages")
    assert first["waiting"] > 0
    assert len(exported(crawl)) == 40
    assert plan_to_resume(crawl, {}, {}).lifted_limits == ("pages",)
    assert plan_to_resume(crawl, {"pages": 60}, {}).lifted_limits == ()
    assert plan_to_resume(crawl, {}, {"crawl.pages": "60"}).lifted_limits == ()
    more = fieldmouse("resume", str(crawl), "--pages", "60", code=3)
    assert more["pages"] == 60
    last = fieldmouse("resume", str(crawl))
    assert (last["exit"], last["waiting"], last["lost"]) == (0, 0, 0)
    assert {row["url"] for row in exported(crawl)} == meadow.pages()
    assert fieldmouse("resume", str(crawl))["pages"] == last["pages"], "resuming what is done changes nothing"


def test_options_end_up_in_the_settings_file(meadow: RunningMeadow, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('[politeness]\ndelay = "5s"\nbackoff = "7s"\n')
    (tmp_path / "seeds.txt").write_text(f"# seeds\n\n  # more\n{meadow.seeds[0]}#top \t# the first\n")
    fieldmouse(
        "crawl",
        str(tmp_path / "tiny"),
        "--seeds-file",
        str(tmp_path / "seeds.txt"),
        "--config",
        str(tmp_path / "my.toml"),
        "--pages",
        "1",
        "--depth",
        "0",
        *MANNERS,
    )
    kept = load(tmp_path / "tiny" / "fieldmouse.toml")
    assert kept.politeness.delay == 0.0
    assert kept.politeness.backoff == 7.0
    assert kept.crawl.max_depth == 0
    assert kept.crawl.seeds == (meadow.seeds[0],)
    assert kept.network.allow_private


def test_a_seed_that_is_added_to_the_settings_is_visited_by_the_next_resume(
    meadow: RunningMeadow, tmp_path: Path
) -> None:
    crawl = tmp_path / "atlas"
    first, other = meadow.seeds[0], next(url for url in sorted(meadow.pages()) if meadow.seeds[0] not in url)
    fieldmouse("crawl", str(crawl), "--seed", first, "--scope", "page", *MANNERS)
    file = crawl / "fieldmouse.toml"
    file.write_text(file.read_text().replace(json.dumps([first]), json.dumps([first, other])))
    told = fieldmouse("resume", str(crawl))
    assert (told["pages"], told["seen"], told["waiting"]) == (2, 2, 0)
    assert {row["url"] for row in exported(crawl)} == {first, other}
    assert fieldmouse("resume", str(crawl))["seen"] == 2


def test_a_scope_that_was_changed_says_what_it_does_to_pages_already_read(
    meadow: RunningMeadow, tmp_path: Path
) -> None:
    crawl = tmp_path / "atlas"
    fieldmouse("crawl", str(crawl), "--seed", meadow.seeds[0], "--scope", "page", *MANNERS)
    resume = [sys.executable, "-m", "fieldmouse", "resume", str(crawl)]
    warning = "pages read before are not read again for links that were outside it"
    assert warning not in subprocess.run(resume, capture_output=True, text=True, check=True).stderr
    file = crawl / "fieldmouse.toml"
    file.write_text(file.read_text().replace('mode = "page"', 'mode = "host"'))
    assert warning in subprocess.run(resume, capture_output=True, text=True, check=True).stderr
    assert warning not in subprocess.run(resume, capture_output=True, text=True, check=True).stderr


def test_an_emptied_settings_file_is_damage_and_no_crawl_by_default_manners(
    meadow: RunningMeadow, tmp_path: Path
) -> None:
    crawl = tmp_path / "atlas"
    fieldmouse("crawl", str(crawl), "--seed", meadow.seeds[0], "--scope", "page", *MANNERS)
    (crawl / "fieldmouse.toml").write_text("")
    assert "names no seeds" in fieldmouse("resume", str(crawl), code=1)["error"]
    findings = fieldmouse("doctor", str(crawl), code=1)["findings"]
    assert [found["what"] for found in findings if not found["healthy"]] == ["settings"]


def test_private_addresses_are_refused_unless_allowed(meadow: RunningMeadow, tmp_path: Path) -> None:
    told = fieldmouse("crawl", str(tmp_path / "refused"), "--seed", meadow.seeds[0], code=1)
    assert (told["pages"], told["refused"]) == (0, 1)
    assert told["reasons"] == {"private address": 1}


def test_a_resume_without_the_option_of_the_run_before_fails_with_a_hint(meadow: RunningMeadow, tmp_path: Path) -> None:
    crawl = str(tmp_path / "local")
    fieldmouse("crawl", crawl, "--seed", meadow.seeds[0], "--delay", "0s", "--set", "index.shards=1", code=1)

    def resume(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "fieldmouse", "resume", crawl, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
        return done.returncode, done.stderr

    secret = ["--set", 'network.headers={"Cookie" = "id=1"}']
    code, said = resume("--allow-private", "--retry-failed", "--pages", "3", "--concurrency", "1", *secret)
    assert code == 3
    again = f"{crawl} --concurrency 1 --allow-private --set network.headers=..."
    assert f"hint: continue with `fieldmouse resume {again}`\n" in said
    assert "loopback and private addresses are refused" not in said
    code, said = resume()
    assert code == 1
    assert "note: loopback and private addresses are refused; allow them with `--allow-private`\n" in said
    assert "error: not one page was stored: http://" in said
    assert f"`fieldmouse resume {crawl} --allow-private --retry-failed` visits such hosts" in said
    assert "hint: search it" not in said


def test_an_interrupted_crawl_says_so_and_can_be_resumed(tmp_path: Path) -> None:
    with running_meadow(hosts=4, pages=60, page_kb=4, links=20, latency=0.01) as slow:
        crawl = tmp_path / "atlas"
        words = ["crawl", str(crawl), "--seed", slow.seeds[0], "--allow-private", "--delay", "3s"]
        process = subprocess.Popen(
            [sys.executable, "-m", "fieldmouse", *words, "--progress", "0s", "--set", "index.shards=1"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(3)]
        assert said[0].startswith(f"crawling into `{crawl}` as fieldmouse/")
        assert "pages" in said[2]
        assert "is in use by process" in fieldmouse("resume", str(crawl), code=1)["error"]
        owner = next(f for f in fieldmouse("doctor", str(crawl))["findings"] if f["what"] == "lock")
        assert f"process {process.pid} crawls here now" in owner["says"]
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 130, rest
        assert "stopped by you" in rest
        assert f"hint: continue with `fieldmouse resume {crawl}`" in rest
        assert fieldmouse("resume", str(crawl), "--delay", "0s")["waiting"] == 0
        assert {row["url"] for row in exported(crawl)} == slow.pages()


def test_a_terminal_sees_one_live_line_and_a_pipe_sees_none(meadow: RunningMeadow, tmp_path: Path) -> None:
    words = ["--seed", meadow.seeds[0], *MANNERS]
    piped = subprocess.run(
        [sys.executable, "-m", "fieldmouse", "crawl", str(tmp_path / "piped"), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not piped.stdout
    assert "buffer" not in piped.stderr
    assert "done: nothing is waiting" in piped.stderr
    keyboard, screen = pty.openpty()
    seen: list[bytes] = []

    def watch() -> None:
        while True:
            try:
                seen.append(os.read(keyboard, 65536))
            except OSError:
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    subprocess.run(
        [sys.executable, "-m", "fieldmouse", "crawl", str(tmp_path / "watched"), *words],
        stderr=screen,
        check=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(screen)
    watcher.join(30)
    os.close(keyboard)
    assert b"buffer" in b"".join(seen)


def test_the_demo_ends_by_itself_with_nothing_missing(tmp_path: Path) -> None:
    told = fieldmouse("demo", str(tmp_path / "demo"))
    assert (told["missing"], told["outside"]) == (0, 0)
    assert told["search"]
    assert told["crawl"]["exit"] == 0
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"atlas", "pages.jsonl", "truth.jsonl"}
    (tmp_path / "demo" / "thesis.txt").write_text("precious")
    assert "not from an earlier demo" in fieldmouse("demo", str(tmp_path / "demo"), code=2)["error"]
    assert (tmp_path / "demo" / "thesis.txt").read_text() == "precious"


def test_the_demo_is_a_session_that_can_be_read(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "fieldmouse", "demo", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    ).stdout
    assert "\n\n# check the crawl directory\n$ fieldmouse doctor" in shown
    assert not re.search("[\u2400-\u2426]", shown), "our own lines hold nothing that had to be made visible"


def test_a_lost_or_damaged_index_is_not_searched_in_silence(atlas: Path) -> None:
    (store,) = sorted((atlas / "index" / "shard-0" / "00000").glob("*.store"))[:1]
    whole = store.read_bytes()
    # A hard link keeps the same bytes for the last checkpoint: write beside it, not into it.
    store.unlink()
    store.write_bytes(bytes(len(whole)))
    told = fieldmouse("search", str(atlas), "the", code=1)
    assert "cannot be read" in told["error"]
    assert "--repair" in told["hint"]
    remove_index_directory(atlas / "index" / "shard-0")
    told = fieldmouse("search", str(atlas), "the", code=1)
    assert "a part of the index is missing" in told["error"]


def test_a_url_that_is_too_deep_or_left_out_is_explained_by_its_rule(meadow: RunningMeadow, tmp_path: Path) -> None:
    crawl = tmp_path / "shallow"
    words = ["--depth", "0", "--set", 'scope.exclude_prefixes=["/other", "/private-part"]']
    fieldmouse("crawl", str(crawl), "--seed", meadow.seeds[0], *MANNERS, *words)
    (home,) = exported(crawl)
    assert home["depth"] == 0
    host = meadow.seeds[0].rstrip("/")
    others = [url for url in sorted(meadow.pages()) if url.startswith(host + "/") and url != home["url"]]
    told = [str(fieldmouse("explain", str(crawl), url)["says"]) for url in others[:6]]
    assert any("links to it: it would be 1 link away from a seed (`crawl.max_depth` is 0)" in says for says in told)
    left_out = fieldmouse("explain", str(crawl), host + "/private-part/1")
    assert "it is left out by `scope.exclude_prefixes`: `/private-part`" in str(left_out["says"])
