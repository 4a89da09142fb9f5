"""`resume --retry-failed`: failures are withdrawn all or none, and the totals stay exact."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from fieldmouse.clock import Clock
from fieldmouse.crawler.retry_failed import RetryCounts
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_counters, sealed_outcome_bytes
from fieldmouse.storage.checkpoint_log import CheckpointJournal
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log
from fieldmouse.storage.outcome_log_reader import rows_of
from fieldmouse.testing import virtual_time
from fieldmouse.testing.faults import FaultyDns, FaultyFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.stats import Summary
from fieldmouse.url import Host, host_of, hostname_of
from meadowland import running_meadow

from .crawling import command, count_waiting, end, exported, run, start
from .virtual_time import bottled_crawl, outcomes

OPTIONS = MeadowOptions(
    hosts=12, pages=80, seeds=12, seed=5, page_kb=1.0, links=12, gamma=0.3, named=True, not_found=0.1, private=0.1
)
WRONG = {OutcomeReason.NO_ADDRESS.value, OutcomeReason.NO_CONNECTION.value, OutcomeReason.HOST_ABANDONED.value}


def crawl(
    path: Path,
    meadow: Meadow,
    *,
    dead: list[Host],
    day: int = 0,
    on_retried: Callable[[RetryCounts], None] | None = None,
) -> Summary:
    """Half of the dead hosts refuse connections, the others have names that do not exist."""
    refusing, nameless = dead[::2], {hostname_of(host) for host in dead[1::2]}

    class Denying(FaultyDns):
        def __init__(self, clock: Clock):
            super().__init__(meadow, clock)
            self._addresses = {n: a for n, a in self._addresses.items() if n not in nameless}

    summary, _ = bottled_crawl(
        path,
        lambda clock: FaultyFetcher(meadow, clock, dead=refusing),
        meadow.seeds,
        dns=Denying,
        epoch=virtual_time.EPOCH + day * 86400.0,
        politeness__delay="1s",
        network__allow_private=True,
        on_retried=on_retried,
    )
    return summary


def check_books(path: Path) -> None:
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    kinds = Counter(row.kind for row in outcomes(path))
    tally = sealed_counters(last)
    told = {"page": tally.pages, "moved": tally.moved, "failed": tally.failed, "refused": tally.refused}
    assert kinds == Counter({kind: count for kind, count in told.items() if count})
    assert Counter(row.reason for row in outcomes(path) if row.reason) == Counter(tally.reasons)
    waiting = count_waiting(home, frontier_state_of(last))
    assert frontier_state_of(last).sieve.seen == tally.settled_urls + waiting
    assert frontier_state_of(last).done == tally.settled_urls
    assert len({row.url for row in outcomes(path)}) == kinds.total()


@pytest.fixture(scope="module")
def wronged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Meadow, list[Host]]:
    """A finished crawl in which a third of the hosts were given up."""
    meadow = Meadow(OPTIONS)
    dead = [Host(site.origin) for site in meadow.plan.sites][2::3]
    path = tmp_path_factory.mktemp("wronged") / "c"
    summary = crawl(path, meadow, dead=dead)
    assert summary.waiting == 0
    rows = outcomes(path)
    assert {row.reason for row in rows if host_of(row.url) in dead} <= WRONG
    assert {host_of(row.url) for row in rows if row.reason in WRONG} == set(dead)
    check_books(path)
    return path, meadow, dead


def test_retry_failed_crawls_abandoned_hosts_and_no_others(
    tmp_path: Path, wronged: tuple[Path, Meadow, list[Host]]
) -> None:
    before, meadow, dead = wronged
    path = tmp_path / "c"
    shutil.copytree(before, path)
    wrong = [row.url for row in outcomes(path) if row.reason in WRONG]
    right = [row for row in outcomes(path) if row.reason not in WRONG]
    told: list[RetryCounts] = []
    summary = crawl(path, meadow, dead=[], day=1, on_retried=told.append)
    assert told == [RetryCounts(hosts=len(dead), urls=len(wrong))]
    assert summary.lost == summary.waiting == 0
    check_books(path)
    rows = outcomes(path)
    assert not {row.reason for row in rows} & WRONG
    assert {row.url for row in rows} >= set(wrong)
    assert [row for row in rows if row in right] == right, "what was right stands as it stood"
    stored = sorted(row.url for row in rows if row.kind == "page")
    assert stored == sorted(fact.url for fact in meadow.true_urls() if fact.allowed and fact.status == 200)
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    assert last is not None
    kinds = [row.kind for row in rows_of(home, wrong[0], length=sealed_outcome_bytes(last))]
    assert kinds[:2] == ["failed", "forgiven"]
    assert len(kinds) == 3
    crawl(path, meadow, dead=[], day=2, on_retried=told.append)
    assert told[1:] == [RetryCounts(0, 0)], "and there is nothing left to forgive"
    assert all(finding.healthy for finding in check_crawl(CrawlDir.open(path), deep=True))


def test_dead_hosts_fail_again_and_can_be_retried_again(
    tmp_path: Path, wronged: tuple[Path, Meadow, list[Host]]
) -> None:
    before, meadow, dead = wronged
    path = tmp_path / "c"
    shutil.copytree(before, path)
    urls = {row.url for row in outcomes(path) if row.reason in WRONG}
    told: list[RetryCounts] = []
    for day in (1, 2):
        summary = crawl(path, meadow, dead=dead, day=day, on_retried=told.append)
        assert summary.waiting == summary.lost == 0
        check_books(path)
        assert {row.url for row in outcomes(path) if row.reason in WRONG} == urls
    assert told == [RetryCounts(len(dead), len(urls))] * 2


def test_private_addresses_are_retried_once_allowed(tmp_path: Path) -> None:
    path, told = tmp_path / "c", list[RetryCounts]()
    meadow = Meadow(msgspec.structs.replace(OPTIONS, hosts=4, pages=30, seeds=4))

    def live(day: int, *, allowed: bool) -> Summary:
        return bottled_crawl(
            path,
            lambda clock: FaultyFetcher(meadow, clock),
            meadow.seeds,
            dns=lambda clock: FaultyDns(meadow, clock),
            epoch=virtual_time.EPOCH + day * 86400.0,
            politeness__delay="1s",
            network__allow_private=allowed,
            on_retried=told.append if day else None,
        )[0]

    assert live(0, allowed=False).refused == len(meadow.seeds)
    assert live(1, allowed=False).refused == len(meadow.seeds)
    assert told == [RetryCounts(0, 0)], "they are not allowed still"
    check_books(path)
    summary = live(2, allowed=True)
    assert told[1:] == [RetryCounts(len(meadow.seeds), len(meadow.seeds))]
    assert summary.lost == summary.waiting == 0
    check_books(path)
    stored = sorted(row.url for row in outcomes(path) if row.kind == "page")
    assert stored == sorted(fact.url for fact in meadow.true_urls() if fact.allowed and fact.status == 200)


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize(
    ("moment", "nth"), [("flush", 1), ("flush", 4), ("flush", 9), ("sync", 1), ("commit", 1), ("commit", 2)]
)
def test_a_kill_during_retry_failed_withdraws_all_or_nothing(
    tmp_path: Path, wronged: tuple[Path, Meadow, list[Host]], moment: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, meadow, dead = wronged
    path = tmp_path / "c"
    shutil.copytree(before, path)
    wrong = {row.url for row in outcomes(path) if row.reason in WRONG}
    told: list[RetryCounts] = []
    owner = CheckpointJournal if moment == "commit" else Log
    real, calls = getattr(owner, moment), 0

    def dies(self: object, *args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise Killed
        return real(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, moment, dies)
        with suppress(Killed):
            crawl(path, meadow, dead=[], day=1, on_retried=told.append)
    check_books(path)
    rows = outcomes(path)
    left = {row.url for row in rows if row.reason in WRONG}
    assert left in (wrong, set())
    again: list[RetryCounts] = []
    summary = crawl(path, meadow, dead=[], day=2, on_retried=again.append)
    assert again == [RetryCounts(len(dead), len(wrong)) if left else RetryCounts(0, 0)]
    assert summary.lost == summary.waiting == 0
    check_books(path)
    stored = sorted(row.url for row in outcomes(path) if row.kind == "page")
    assert stored == sorted(fact.url for fact in meadow.true_urls() if fact.allowed and fact.status == 200)


def test_retry_after_a_total_outage_completes_through_any_kill(tmp_path: Path) -> None:
    """The command itself: its `--resolve` was wrong at first, so that everything failed."""
    home, rng = tmp_path / "c", random.Random(8)
    quick = ("--allow-private", "--delay", "0s", "--set", "politeness.backoff=10ms")
    with running_meadow(hosts=20, pages=200, seed=5, named=True, latency=0.02, gamma=0.3) as meadow:
        seeds = [word for seed in meadow.seeds for word in ("--seed", seed)]
        nowhere = ("--resolve", f"*=127.0.0.1:{free_port()}")
        failed = run("crawl", home, *seeds, *quick, *nowhere, expect=1)
        assert (failed["pages"], failed["failed"], failed["waiting"]) == (0, len(meadow.seeds), 0)
        right = [word for entry in meadow.resolve for word in ("--resolve", entry)]
        for _ in range(3):
            process = start("resume", home, "--retry-failed", *quick, *right, "--set", "storage.checkpoint=100ms")
            while process.poll() is None and not (home / "lock").read_text():
                time.sleep(0.01)
            with suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.0, 1.0))
            end(process)
        last = run("resume", home, "--retry-failed", *quick, *right)
        stored = sorted(row["url"] for row in exported(home))
        assert stored == sorted(meadow.pages())
    assert last["lost"] == last["waiting"] == 0
    assert last["pages"] == len(stored)
    assert run("doctor", home)["healthy"]
    said = subprocess.run(command("resume", home, "--retry-failed"), capture_output=True, text=True, timeout=60)
    assert "no failed host to retry" in said.stderr


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port: int = door.getsockname()[1]
        return port
