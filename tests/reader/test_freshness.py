"""Freshness reports, compared with the truth for pages that change at known rates."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fieldmouse.cli.main import run_command
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.policy.polling.policies import UniformPolicy
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.freshness import read_freshness
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from refresh.chronicle import Chronicle, page, url

Said = pytest.CaptureFixture[str]
Reals = NDArray[np.float64]

HOUR, DAY = 3600.0, 86_400.0
CRAWLED = 1.7e9
PAGES, HOSTS = 600, 7


class Watched:
    """A crawl of pages that change by Poisson processes, each polled at its own even interval."""

    def __init__(self, path: Path, intervals: Callable[[Reals], Reals], days: float = 12.0, seed: int = 3):
        chance = np.random.default_rng(seed)
        self.rates = np.exp(2 * chance.standard_normal(PAGES)) / DAY
        self.end = CRAWLED + days * DAY
        self.chronicle = Chronicle(path, UniformPolicy(), "uniform")
        (path / "fieldmouse.toml").write_text(settings_file.render(Settings()))
        self.looks: list[Reals] = []
        self.changes: list[Reals] = []
        rows: list[OutcomeRow] = []
        every = intervals(self.rates)
        for number in range(PAGES):
            count = chance.poisson(self.rates[number] * (self.end - CRAWLED))
            changes = np.sort(chance.uniform(CRAWLED, self.end, count))
            first = CRAWLED + chance.uniform() * every[number]
            looks = np.arange(first, self.end, every[number])
            rows.append(page(number, CRAWLED, number % HOSTS))
            before = np.append(CRAWLED, looks)[: len(looks)]
            for start, at in zip(before.tolist(), looks.tolist(), strict=True):
                changed = bool(((changes > start) & (changes <= at)).any())
                rows.append(polled(number, at, changed))
            self.looks.append(np.append(CRAWLED, looks))
            self.changes.append(changes)
        self.rows = sorted(rows, key=lambda row: row.at)
        self.chronicle.ledger.budget = float((1 / every).sum())
        self.chronicle.settle(self.rows)
        self.chronicle.checkpoint()

    def good(self, start: float, end: float) -> float:
        """The share of time in which copies were current."""
        total = 0.0
        for looks, changes in zip(self.looks, self.changes, strict=True):
            edges = np.append(looks, np.inf)
            for begin, stop in pairwise(edges.tolist()):
                stale = changes[changes > begin]
                until = min(stop, end, stale[0] if len(stale) else np.inf)
                total += max(0.0, until - max(begin, start))
        return total / (end - start) / PAGES

    def good_now(self) -> float:
        pairs = zip(self.looks, self.changes, strict=True)
        return float(np.mean([not (changes > looks[-1]).any() for looks, changes in pairs]))


def polled(number: int, at: float, changed: bool) -> OutcomeRow:
    if changed:
        known = {"polled": "page", "news": ContentChange.CHANGED, "digest": f"sha1:{number}-{at}"}
        return page(number, at, number % HOSTS, **known)
    kind = OutcomeKind.UNCHANGED
    return OutcomeRow(url(number, number % HOSTS), kind, at, status=304, polled="page", news=ContentChange.SAME)


WAYS: dict[str, Callable[[Reals], Reals]] = {
    "all alike": lambda rates: np.full(len(rates), DAY),
    "all alike and seldom": lambda rates: np.full(len(rates), 3 * DAY),
    "those that change more often": lambda rates: np.clip(0.5 / np.sqrt(rates / DAY), HOUR, 4 * DAY),
    "some never": lambda rates: np.where(rates * DAY > 8, 1e9, 0.8 * DAY),
}


@pytest.mark.parametrize("way", WAYS)
def test_expected_and_measured_freshness_match_the_truth(tmp_path: Path, way: str) -> None:
    watched = Watched(tmp_path / "atlas", WAYS[way])
    report = read_freshness([watched.chronicle.home], watched.end, window=6 * DAY)
    assert report.window is not None
    start, end = report.window
    assert end - start == pytest.approx(6 * DAY)
    assert report.measured == pytest.approx(watched.good(start, end), abs=0.02)
    assert report.expected == pytest.approx(watched.good_now(), abs=0.05)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(tmp_path_factory.mktemp("fresh") / "atlas", WAYS["all alike"])


def test_a_larger_budget_is_fresher_and_the_present_one_matches_the_measurement(watched: Watched) -> None:
    report = read_freshness([watched.chronicle.home], watched.end)
    assert report.budget == pytest.approx(PAGES / 24)
    budgets = [point.budget for point in report.curve]
    shares = [point.fresh for point in report.curve]
    assert budgets == sorted(budgets)
    assert shares == sorted(shares)
    assert report.budget in budgets
    at_present = shares[budgets.index(report.budget)]
    assert at_present == pytest.approx(watched.good(watched.end - 6 * DAY, watched.end), abs=0.04)
    (asked,) = read_freshness([watched.chronicle.home], watched.end, budgets=[report.budget]).curve
    assert asked == report.curve[budgets.index(report.budget)]


def test_polls_and_changes_are_counted_and_the_most_polled_listed(watched: Watched) -> None:
    report = read_freshness([watched.chronicle.home], watched.end, top=3)
    polls = [row for row in watched.rows if row.polled]
    assert (report.pages, report.polls) == (PAGES, len(polls))
    assert report.useful_ratio == pytest.approx(sum(row.news == "changed" for row in polls) / len(polls))
    by_host = {number: [row for row in polls if f"//h{number}." in row.url] for number in range(HOSTS)}
    assert len(report.top_hosts) == len(report.top_pages) == 3
    most = sorted((len(rows) for rows in by_host.values()), reverse=True)[:3]
    assert [host.polls for host in report.top_hosts] == most
    for host in report.top_hosts:
        mine = [row for row in polls if row.url.startswith(host.host + "/")]
        assert (host.polls, host.changes) == (len(mine), sum(row.news == "changed" for row in mine))
    for eater in report.top_pages:
        assert eater.polls == sum(row.url == eater.url for row in polls)
        assert eater.every == pytest.approx(DAY)


def test_two_page_tables_are_as_fresh_as_one_with_all_their_pages(
    watched: Watched, tmp_path: Path, capsys: Said
) -> None:
    """The hosts are divided between the two as well."""
    whole = read_freshness([watched.chronicle.home], watched.end, top=4)
    assert whole.budget is not None
    homes = []
    for part in range(2):
        chronicle = Chronicle(tmp_path / f"agent{part}", UniformPolicy(), "uniform")
        (chronicle.path / "fieldmouse.toml").write_text(settings_file.render(Settings()))
        chronicle.ledger.budget = whole.budget / 3600 / 2
        mine = {url(number, number % HOSTS) for number in range(PAGES) if number % 5 % 2 == part}
        chronicle.settle([row for row in watched.rows if row.url in mine])
        chronicle.checkpoint()
        homes.append(chronicle.home)
    both = read_freshness(homes, watched.end, top=4)
    assert (both.pages, both.polls, both.changes) == (whole.pages, whole.polls, whole.changes)
    for name in ("expected", "measured", "useful_ratio", "budget", "polls_an_hour"):
        assert getattr(both, name) == pytest.approx(getattr(whole, name), rel=1e-4), name
    assert both.window == whole.window
    assert [point.fresh for point in both.curve] == pytest.approx([p.fresh for p in whole.curve], rel=1e-3)
    assert [host.polls for host in both.top_hosts] == [host.polls for host in whole.top_hosts]
    assert {host.pages for host in both.top_hosts} <= {PAGES // HOSTS, PAGES // HOSTS + 1}
    assert [eater.polls for eater in both.top_pages] == [eater.polls for eater in whole.top_pages]
    words = ["freshness", str(homes[0].path), "--with", str(homes[1].path), "--json"]
    assert run_command(words) == 0
    assert json.loads(capsys.readouterr().out)["pages"] == PAGES


def test_withdrawn_noise_is_no_change(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "atlas", UniformPolicy(), "uniform")
    (tmp_path / "atlas" / "fieldmouse.toml").write_text(settings_file.render(Settings()))
    told = [polled(number, CRAWLED + day * DAY, True) for day in (1, 2) for number in range(20)]
    noise = partial(page, polled="page", news=ContentChange.NOISE, withdrawn_at=(CRAWLED + DAY, CRAWLED + 2 * DAY))
    after = [noise(number, CRAWLED + 3 * DAY, number % HOSTS) for number in range(20)]
    chronicle.settle([page(number, CRAWLED, number % HOSTS) for number in range(20)] + told)
    stale = read_freshness([chronicle.home], CRAWLED + 3 * DAY).measured
    assert stale is not None
    assert stale < 0.8
    chronicle.settle(after)
    chronicle.checkpoint()
    assert read_freshness([chronicle.home], CRAWLED + 3 * DAY).measured == pytest.approx(1.0)


def test_freshness_of_a_crawl_without_polls_says_so(tmp_path: Path, capsys: Said) -> None:
    chronicle = Chronicle(tmp_path / "atlas", UniformPolicy(), "uniform")
    (tmp_path / "atlas" / "fieldmouse.toml").write_text(settings_file.render(Settings()))
    chronicle.settle([page(number) for number in range(3)])
    assert run_command(["freshness", str(tmp_path / "atlas")]) == 0
    assert "3 pages, none of them polled yet" in capsys.readouterr().out
    assert run_command(["freshness", str(tmp_path / "atlas"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["pages"], answer["polls"]) == (3, 0)
    assert answer["expected"] is answer["measured"] is answer["useful_ratio"] is answer["budget"] is None


def test_freshness_command_prints_text_and_json(watched: Watched, capsys: Said) -> None:
    path = str(watched.chronicle.path)
    assert run_command(["freshness", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("600 pages, ")
    assert sum("<- now" in line for line in lines) == 1
    assert max(map(len, lines)) < 110
    assert run_command(["freshness", path, "--json", "--budget", "10/h", "--budget", "1/s"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"expected", "measured", "useful_ratio", "pages", "polls", "budget"} <= answer.keys()
    assert [point["budget"] for point in answer["curve"]] == pytest.approx([10, 3600])
    for wrong, why in ((["--budget", "often"], "no rate"), (["--window", "0s"], "no duration")):
        assert run_command(["freshness", path, *wrong]) == 2
        assert why in capsys.readouterr().err
    assert CrawlReader(path).freshness(window=DAY).measured is not None
