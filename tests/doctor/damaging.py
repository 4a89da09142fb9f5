"""Crawls to be damaged, ways to damage them, and the expected contents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fieldmouse.doctor.check.check_result import CheckResult
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from search.searchable import searchable_urls
from whole.virtual_time import bottled_crawl, outcomes

MEADOW = Meadow(MeadowOptions(hosts=8, pages=120, seed=3, page_kb=3.0, links=20, latency=0.2, robots=1.0))
CRAWL: dict[str, object] = {
    "politeness__delay": "1s",
    "network__allow_private": True,
    "storage__checkpoint": "10s",
    "frontier__sieve_run": 64,
    "frontier__front_min": 2,
    "frontier__front_max": 4,
    "frontier__record_decisions": "1MB",
}
COSTS_NOTHING = tuple(
    "simhashes pages.trace decisions.log control.log readings.log lock digests.lmdb-lock shard-0.lock"
    " .tantivy-writer.lock .tantivy-meta.lock".split()
)
"""As docs/durability.md has them."""


def web(clock: Any) -> MeadowFetcher:
    return MeadowFetcher(MEADOW, clock)


def resume_for_good(path: Path) -> None:
    """Resume until done, and compare with the contents of the meadow."""
    bottled_crawl(path, web, MEADOW.seeds, epoch=virtual_time.EPOCH + 1000.0, **CRAWL)
    stored = [row.url for row in outcomes(path) if row.kind == "page"]
    truth = {fact.url for fact in MEADOW.true_urls() if fact.allowed and fact.status == 200}
    assert sorted(stored) == sorted(truth)
    assert sorted(searchable_urls(path)) == sorted(stored)
    assert is_healthy(path, deep=True)


def troubles(path: Path, *, deep: bool = False) -> list[CheckResult]:
    return [finding for finding in check_crawl(CrawlDir.open(path), deep=deep) if not finding.healthy]


def is_healthy(path: Path, *, deep: bool = False) -> bool:
    """Stops at the first unhealthy finding."""
    return all(finding.healthy for finding in check_crawl(CrawlDir.open(path), deep=deep))


def flip(path: Path, at: int | None = None) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 if at is None else at] ^= 0x55
    replace(path, bytes(raw))


def cut(path: Path) -> None:
    replace(path, path.read_bytes()[: path.stat().st_size // 2])


def replace(path: Path, content: bytes) -> None:
    """Replace a file. An index that this process searched before has the old one mapped into memory, and
    truncating that would end the process."""
    fresh = path.with_name(f"{path.name}.fresh")
    fresh.write_bytes(content)
    fresh.replace(path)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "first byte": lambda path: flip(path, 0),
    "flip": flip,
    "cut": cut,
    "delete": Path.unlink,
}


def files_of(path: Path) -> list[Path]:
    """One file of each kind that counts; an index also has segments that were never committed."""
    (index,) = path.glob("index/shard-0/*")
    segment = json.loads((index / "meta.json").read_bytes())["segments"][0]["segment_id"].replace("-", "")
    kinds: dict[str, Path] = {}
    for file in sorted(path.rglob("*")):
        if file.parent.name == "kept":  # hard links; copying a crawl turned them into separate files
            continue
        if file.is_file() and file.stat().st_size and file.name not in COSTS_NOTHING:
            kind = "".join(letter for letter in file.name if not letter.isdigit())
            if file.parent != index or file.name.endswith(".json"):
                kinds.setdefault(kind, file)
            elif file.name.startswith(segment):
                kinds.setdefault(file.suffix, file)
    return [file for file in kinds.values() if file.name not in ("crawl.json", "fieldmouse.toml")]
