"""Whole crawls fetch exactly the existing and allowed URLs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from meadowland import running_meadow

from .crawling import check_warcs, exported, run


@pytest.mark.parametrize("policy", ["index", "neutral", "greedy", "mice-and-elephants"])
def test_every_policy_fetches_exactly_the_small_meadow(policy: str, tmp_path: Path) -> None:
    with running_meadow(hosts=40, pages=400, seed=11) as meadow:
        summary = run(
            "crawl", tmp_path / "c", "--seed", meadow.seeds[0], "--delay", "0s", "--allow-private", "--policy", policy
        )
        meadow.stop()
        stored = [row["url"] for row in exported(tmp_path / "c")]
        assert sorted(stored) == sorted(meadow.pages())
        assert summary["lost"] == summary["waiting"] == 0
        assert summary["pages"] == len(stored)


def test_a_meadow_of_20000_pages_is_fetched_exactly(tmp_path: Path) -> None:
    """Exactly the reachable, allowed URLs; from the server's log and from the archive."""
    home = tmp_path / "c"
    with running_meadow(hosts=1000, pages=20_000, seed=7) as meadow:
        summary = run("crawl", home, "--seed", meadow.seeds[0], "--delay", "0s", "--allow-private")
        meadow.stop()
        asked = {f"http://{a.host}{a.path}" for a in meadow.arrivals()}
        asked = {url for url in asked if not url.endswith("/robots.txt")}
        assert asked == meadow.allowed()
        rows = exported(home)
        assert sorted(row["url"] for row in rows) == sorted(meadow.pages())
    assert summary["pages"] == len(rows)
    assert summary["lost"] == summary["waiting"] == summary["exit"] == 0
    assert summary["seen"] == sum(summary[kind] for kind in ("pages", "failed", "refused", "moved"))
    assert all(row["status"] == 200 and row["digest"] and row["fetched_at"] for row in rows)
    fates = Counter(row["kind"] for row in exported(home, "--all"))
    assert fates["page"] == len(rows)
    check_warcs(home)


def test_a_page_limit_is_exact_and_resume_continues(tmp_path: Path) -> None:
    home = tmp_path / "c"
    with running_meadow(hosts=30, pages=300, seed=3) as meadow:
        seed = meadow.seeds[0]
        first = run("crawl", home, "--seed", seed, "--pages", 100, "--delay", "0s", "--allow-private", expect=3)
        assert first["pages"] == 100
        assert first["waiting"] > 0
        assert len(exported(home)) == 100
        second = run("resume", home, "--pages", 0)
        assert second["exit"] == 0
        stored = [row["url"] for row in exported(home)]
        assert sorted(stored) == sorted(meadow.pages())
        assert second["pages"] == len(stored)
