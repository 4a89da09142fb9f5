"""What is polled when: evenly spaced, never more than the budget, nothing twice before its row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fieldmouse.policy.polling import registry
from fieldmouse.policy.polling.policies import UniformPolicy
from fieldmouse.refresh.scheduler import PollScheduler, Reals
from fieldmouse.types.outcome import ContentChange, OutcomeRow, Response
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import host_of

from .chronicle import Chronicle, page, url


def answered(link: Request, at: float, **known: object) -> OutcomeRow:
    known = {"status": 304, "polled": link.was} | known
    kind = known.pop("kind", OutcomeKind.UNCHANGED)
    return OutcomeRow(
        link.url,
        kind,
        at,
        depth=link.depth,
        via=link.via,
        seen_at=link.seen_at,
        found_as=link.kind.value,
        **known,  # type: ignore[arg-type]
    )


class Refreshing:
    """Second after second: what is due is asked, what was asked is answered some time later."""

    def __init__(self, chronicle: Chronicle, **options: object):
        self.chronicle, self._options = chronicle, options
        self.asked: list[tuple[float, str]] = []
        self.in_the_air: list[tuple[float, Request]] = []
        self.make()

    def make(self) -> None:
        chronicle = self.chronicle
        self.scheduler = PollScheduler(chronicle.ledger, chronicle.policy, **self._options)  # type: ignore[arg-type]

    def run(self, start: float, seconds: int, *, latency: Callable[[Request], float] = lambda link: 0.5) -> None:
        for now in np.arange(start, start + seconds, 1.0).tolist():
            here = [link for at, link in self.in_the_air if at <= now]
            self.in_the_air = [(at, link) for at, link in self.in_the_air if at > now]
            if here:
                self.chronicle.settle((answered(link, now) for link in here), durable=False)
            links = self.scheduler.take_due(now, 10**6)
            self.asked += [(now, link.url) for link in links]
            self.in_the_air += [(now + latency(link), link) for link in links]

    def killed(self) -> None:
        """What was asked after the last checkpoint is forgotten, and what was under way is still."""
        self.chronicle.reopen()
        self.chronicle.ledger.catch_up(self.chronicle.outcomes.length)
        self.make()


def crawled(path: Path, pages: int, hosts: int = 10, policy: str = "uniform", at: float = 1000.0) -> Chronicle:
    chronicle = Chronicle(path, registry.create_policy(policy), policy)
    chronicle.settle(page(number, at, number % hosts) for number in range(pages))
    chronicle.checkpoint()
    return chronicle


def gaps(asked: list[tuple[float, str]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    for at, name in asked:
        times[name].append(at)
    return {name: [later - earlier for earlier, later in pairwise(each)] for name, each in times.items()}


def test_polls_of_a_page_are_evenly_spaced_and_pages_begin_at_different_times(tmp_path: Path) -> None:
    refreshing = Refreshing(crawled(tmp_path / "c", 50), budget=0.5)
    refreshing.run(1000.0, 1000)
    spaces = gaps(refreshing.asked)
    assert len(spaces) == 50, "all of them"
    assert all(each and min(each) >= 99 and max(each) <= 106 for each in spaces.values()), spaces
    first = [at for at, _ in refreshing.asked if at < 1100]
    assert max(Counter(int(at) // 10 for at in first).values()) <= 12, "about five in ten seconds"


@pytest.mark.parametrize("budget", [0.05, 2.0, 37.0])
def test_no_window_has_more_polls_than_the_budget_whatever_is_killed(tmp_path: Path, budget: float) -> None:
    """All pages are overdue by a year: everything would go out at once."""
    refreshing = Refreshing(crawled(tmp_path / "c", 400), budget=budget)
    start = 3e7
    for life in range(4):
        refreshing.run(start + 100 * life, 60)
        refreshing.chronicle.checkpoint()
        refreshing.killed()
    times = np.array([at for at, _ in refreshing.asked])
    assert len(times) >= (0.9 * min(budget * 160, 400) - 8 if budget > 1 else 3)
    most = max(1.0, 5 * budget)
    for index, begin in enumerate(times):
        counts = np.arange(1, len(times) - index + 1)
        assert np.all(counts <= budget * (times[index:] - begin) + most + 1e-6)


def test_a_changed_budget_is_kept_and_planned_for(tmp_path: Path) -> None:
    """All pages are overdue. Its share grows when others go, and falls when they come back."""
    refreshing = Refreshing(crawled(tmp_path / "c", 4000, hosts=100), budget=8.0)
    allowed, begin, start = 0.0, 3e7, 3e7
    for share in (0.25, 1.0, 0.5, 0.125):
        refreshing.scheduler.set_budget(8.0 * share, start)
        refreshing.run(start, 60)
        refreshing.chronicle.checkpoint()
        allowed += 8.0 * share * 60
        asked = len(refreshing.asked)
        assert 0.85 * allowed - 10 <= asked <= allowed + 5 * 8.0
        assert refreshing.chronicle.ledger.budget == 8.0 * share
        assert refreshing.scheduler.planned_rates().sum() == pytest.approx(8.0 * share, rel=0.01)
        start += 60
    last = [at for at, _ in refreshing.asked if at >= begin + 180]
    assert len(last) <= 60 + 5 + 1, "nothing that was saved at a larger share is spent at a small one"


class Killed(Refreshing):
    """A checkpoint every three seconds; after a kill the polls that were under way then are made again."""

    under_way = 0  # most polls that were made twice for one kill

    def live(self, start: float, seconds: int) -> None:
        for second in range(seconds):
            if second % 3 == 0:
                self.chronicle.clock = start + second - 1.0
                self.chronicle.checkpoint()
                self.sealed = [link for _, link in self.in_the_air]
            self.run(start + second, 1, latency=lambda link: 1.5)

    def resume(self, now: float) -> None:
        self.killed()
        self.asked += [(now, link.url) for link in self.sealed]
        self.in_the_air = [(now + 1.5, link) for link in self.sealed]
        self.under_way = max(self.under_way, len(self.sealed))


@pytest.mark.parametrize("budget", [0.2, 3.0, 20.0])
def test_a_refresh_that_is_killed_all_the_time_keeps_its_budget_and_uses_it(tmp_path: Path, budget: float) -> None:
    rng = np.random.default_rng(5)
    refreshing, now, begun = Killed(crawled(tmp_path / "c", 2000), budget=budget), 3e7, 3e7
    for _ in range(60):
        seconds = int(rng.integers(1, 20))
        refreshing.live(now, seconds)
        now += seconds + int(rng.integers(0, 3))
        refreshing.resume(now)
    times = np.array([at for at, _ in refreshing.asked])
    most = max(1.0, 5 * budget) + refreshing.under_way
    for index, begin in enumerate(times):
        counts = np.arange(1, len(times) - index + 1)
        assert np.all(counts <= budget * (times[index:] - begin) + most + 1e-6)
    assert refreshing.under_way <= budget * 6 + 1
    assert len(times) >= 0.5 * budget * (now - begun)


def test_a_plan_is_made_anew_when_something_was_learned_and_not_before(tmp_path: Path) -> None:
    class Counted(UniformPolicy):
        plans = 0

        def plan(self, *given: object, **more: object) -> Reals:
            Counted.plans += 1
            return super().plan(*given, **more)  # type: ignore[arg-type]

    chronicle = crawled(tmp_path / "c", 20)
    scheduler = PollScheduler(chronicle.ledger, Counted(), 0.001)
    for now in range(1000, 1300):
        scheduler.take_due(float(now), 10)
    assert Counted.plans == 1
    chronicle.settle([page(20, 1300.0)], durable=False)
    for now in range(1300, 1600):
        scheduler.take_due(float(now), 10)
    assert Counted.plans == 2


def test_hosts_at_one_address_share_its_visits(tmp_path: Path) -> None:
    planned = list[tuple[list[int], float]]()

    class Recorded(UniformPolicy):
        def plan(self, state: Reals, belief: Reals, budget: float, **more: object) -> Reals:
            planned.append((sorted(np.bincount(np.asarray(more["host"])).tolist()), budget))
            return super().plan(state, belief, budget, **more)  # type: ignore[arg-type]

    chronicle = crawled(tmp_path / "c", 12, hosts=3)
    known = [(host_of(url(number, number)), address) for number, address in enumerate(("10.0.0.1", "10.0.0.1", ""))]
    for addresses in (known, known[:1]):
        scheduler = PollScheduler(chronicle.ledger, Recorded(), host_rate=0.5, addresses=lambda told=addresses: told)  # type: ignore[misc]
        scheduler.take_due(2000.0, 5)
    assert planned == [([0, 4, 8], 1.0), ([4, 4, 4], 1.5)]


def test_after_a_long_pause_there_is_no_burst(tmp_path: Path) -> None:
    refreshing = Refreshing(crawled(tmp_path / "c", 500), budget=2.0)
    refreshing.run(2000.0, 20)
    refreshing.chronicle.checkpoint(clean=True)
    refreshing.killed()
    before = len(refreshing.asked)
    refreshing.run(1e6, 1)
    assert before > 10
    assert len(refreshing.asked) - before <= 10, "what five seconds give"


def test_a_budget_of_a_few_polls_an_hour_survives_short_runs(tmp_path: Path) -> None:
    refreshing = Refreshing(crawled(tmp_path / "c", 5), budget=4 / 3600)
    for life in range(24):
        refreshing.run(2000.0 + 600 * life, 60)
        refreshing.chronicle.checkpoint(clean=True)
        refreshing.killed()
    assert 10 <= len(refreshing.asked) <= 17, "four hours, four polls each; some wait for the next run"


def test_no_page_is_asked_twice_before_its_row_whatever_is_killed(tmp_path: Path) -> None:
    refreshing = Refreshing(crawled(tmp_path / "c", 30), budget=None)
    for life in range(3):
        refreshing.run(2000.0 + 100 * life, 50, latency=lambda link: 1e9)
        refreshing.chronicle.checkpoint()
        refreshing.killed()
    assert sorted(name for _, name in refreshing.asked) == sorted(url(n, n % 10) for n in range(30))
    assert refreshing.chronicle.ledger.in_flight == 30
    assert refreshing.chronicle.ledger.clear_in_flight() == 30
    refreshing.run(3000.0, 5, latency=lambda link: 1e9)
    assert len(refreshing.asked) == 60


def test_polls_after_the_last_checkpoint_are_repeated_after_a_kill(tmp_path: Path) -> None:
    refreshing = Refreshing(crawled(tmp_path / "c", 30))
    refreshing.run(2000.0, 50, latency=lambda link: 1e9)
    refreshing.killed()
    assert refreshing.chronicle.ledger.in_flight == 0, "the frontier has forgotten them as well"
    refreshing.run(2100.0, 50, latency=lambda link: 1e9)
    assert set(Counter(name for _, name in refreshing.asked).values()) == {2}


def test_a_slow_host_does_not_hold_the_budget(tmp_path: Path) -> None:
    """Nine in ten pages are of a host that never answers; the others are polled as if it were not there."""
    chronicle = Chronicle(tmp_path / "c", registry.create_policy("uniform"), "uniform")
    chronicle.settle(page(number, 1000.0, int(number % 10 == 0)) for number in range(6000))
    refreshing = Refreshing(chronicle, budget=5.0)
    refreshing.run(5000.0, 200, latency=lambda link: 1e9 if link.url.startswith("http://h0.") else 0.5)
    hosts = Counter(name.split("/")[2] for _, name in refreshing.asked)
    assert hosts["h0.example"] == 8
    assert hosts["h1.example"] >= 550


@pytest.mark.parametrize("once", [True, False], ids=["once", "for ever"])
def test_a_host_at_its_in_flight_limit_is_polled_again_after_it_answered(tmp_path: Path, once: bool) -> None:
    """Eight at a time, each answered after three seconds: a hundred take less than a minute."""
    chronicle = Chronicle(tmp_path / "c", registry.create_policy("uniform"), "uniform")
    chronicle.settle(page(number, 1000.0) for number in range(100))
    refreshing = Refreshing(
        chronicle, budget=None if once else 100.0, host_rate=10.0, host_open=8, once_since=5000.0 if once else None
    )
    refreshing.run(5000.0, 60, latency=lambda link: 3.0)
    assert len({name for _, name in refreshing.asked}) == 100


def test_a_round_polls_every_page_once_and_likely_changes_first(tmp_path: Path) -> None:
    chronicle = crawled(tmp_path / "c", 40)
    busy = [url(number, number % 10) for number in range(8)]
    for turn in range(4):
        at = 2000.0 + 1000 * turn
        chronicle.settle(
            OutcomeRow(
                url(number, number % 10),
                OutcomeKind.PAGE,
                at,
                status=200,
                polled="page",
                news=ContentChange.CHANGED if number < 8 else ContentChange.SAME,
            )
            for number in range(40)
        )
    refreshing = Refreshing(chronicle, budget=1.0, once_since=5500.0)
    assert refreshing.scheduler.remaining_pages == 40
    refreshing.run(5500.0, 20)
    assert {name for _, name in refreshing.asked[:8]} == set(busy)
    refreshing.chronicle.checkpoint()
    refreshing.killed()
    refreshing.run(5600.0, 60)
    assert Counter(Counter(name for _, name in refreshing.asked).values()) == {1: 40}
    assert refreshing.scheduler.remaining_pages == 0
    assert refreshing.scheduler.next_poll_at(6000.0) is None


def test_a_round_ends_even_if_the_clock_goes_back(tmp_path: Path) -> None:
    chronicle = crawled(tmp_path / "c", 40, at=5000.0)
    refreshing = Refreshing(chronicle, budget=1.0, once_since=5500.0)
    refreshing.run(5500.0, 20)
    polled = {name for _, name in refreshing.asked}
    refreshing.chronicle.checkpoint()
    refreshing.killed()
    # By the clock this is before the round began, and before those pages were crawled.
    refreshing.in_the_air = [(1000.0, link) for _, link in refreshing.in_the_air]
    refreshing.run(1000.0, 60)
    refreshing.chronicle.settle([page(40, 1060.0)])
    refreshing.run(1061.0, 60)
    times = Counter(name for _, name in refreshing.asked)
    assert len(times) == 41
    assert {name for name, count in times.items() if count > 1} <= polled, "only what was lost by the kill"
    assert max(times.values()) <= 2
    assert refreshing.scheduler.remaining_pages == 0


def test_failed_and_gone_pages_are_polled_at_the_retry_rate_and_take_at_most_a_tenth(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c", registry.create_policy("uniform"), "uniform")
    refused = {"kind": OutcomeKind.REFUSED, "reason": OutcomeReason.ROBOTS_TXT_EXCLUDED}
    failed = {"kind": OutcomeKind.FAILED, "reason": OutcomeReason.TIMEOUT}
    gone = {"kind": OutcomeKind.FAILED, "status": 404}
    odd = [
        OutcomeRow(url(n, n % 10), at=1000.0, **(refused, failed, gone)[n % 3])  # type: ignore[arg-type]
        for n in range(300)
    ]
    chronicle.settle([*odd, *(page(n, 1000.0, n % 10) for n in range(300, 400))])
    refreshing = Refreshing(chronicle, budget=1.0, retry=10_000.0)
    refreshing.scheduler.take_due(1000.0, 0)
    rates = refreshing.scheduler.planned_rates()
    assert rates[:300] == pytest.approx(1e-4)
    assert rates.sum() == pytest.approx(1.0)
    many = Refreshing(chronicle, budget=1.0, retry=100.0).scheduler
    many.take_due(1000.0, 0)
    assert many.planned_rates()[:300].sum() == pytest.approx(0.1)


def test_a_poll_request_has_all_data_of_the_copy(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c", registry.create_policy("uniform"), "uniform")
    known = {"etag": '"1"', "last_modified": "Mon", "simhash": 7, "warc": "w", "offset": 9, "memory": b"m"}
    chronicle.settle([page(1, 1000.0, depth=2, via="http://v/", found_as="seed", **known)])
    (link,) = PollScheduler(chronicle.ledger, chronicle.policy).take_due(5000.0, 5)
    assert {name: getattr(link, name) for name in known} == known
    assert (link.depth, link.via, link.kind.value, link.seen_at, link.digest, link.was) == (
        2,
        "http://v/",
        "seed",
        1000.0,
        "sha1:1",
        "page",
    )


def test_validators_of_old_crawls_are_read_from_the_archive_once(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c", registry.create_policy("uniform"), "uniform")
    chronicle.settle([page(1, warc="has"), page(2, warc="none"), page(3, warc="broken")])
    read: list[str] = []

    def read_answer(warc: str, offset: int) -> Response:
        read.append(warc)
        if warc == "broken":
            raise ValueError
        headers = (("etag", '"x"'),) if warc == "has" else ()
        return Response(200, b"", b"", b"", "", 0.0, 0.0, 0.0, headers)

    links = PollScheduler(chronicle.ledger, chronicle.policy, read_answer=read_answer).take_due(5000.0, 5)
    assert {link.warc: link.etag for link in links} == {"has": '"x"', "none": "", "broken": ""}
    news = {"news": ContentChange.SAME, "memory": b"more"}
    chronicle.settle(answered(link, 6000.0, etag=link.etag, **news) for link in links)
    chronicle.settle(answered(link, 7000.0, kind=OutcomeKind.FAILED, status=503) for link in links)
    chronicle.checkpoint()
    chronicle.reopen()
    again = PollScheduler(chronicle.ledger, chronicle.policy, read_answer=read_answer).take_due(9000.0, 5)
    assert {link.warc: link.etag for link in again} == {"has": '"x"', "none": "", "broken": ""}
    assert {link.memory for link in again} == {b"more"}, "trouble teaches nothing"
    assert sorted(read) == ["broken", "has", "none"], "each once"


def test_next_at_is_the_time_of_the_next_due_poll(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c", registry.create_policy("uniform"), "uniform")
    scheduler = PollScheduler(chronicle.ledger, chronicle.policy, 0.1)
    assert scheduler.take_due(1000.0, 5) == []
    assert scheduler.next_poll_at(1000.0) is None
    chronicle.settle([page(1, 1000.0)])
    asked = []
    now = 1000.0
    while now < 1300.0:
        links = scheduler.take_due(now, 5)
        asked += [now] * len(links)
        if links:
            chronicle.settle((answered(link, now) for link in links), durable=False)
        later = scheduler.next_poll_at(now)
        assert later is not None
        assert later > now
        now = later
    assert len(asked) == pytest.approx(30, abs=2), "who asks when it is told to misses nothing"


def test_a_plan_may_be_made_in_a_thread(tmp_path: Path) -> None:
    chronicle = crawled(tmp_path / "c", 40)
    with ThreadPoolExecutor(1) as pool:
        scheduler = PollScheduler(chronicle.ledger, chronicle.policy, None, pool=pool)
        assert scheduler.take_due(5000.0, 10) == []
        pool.submit(int).result()
        assert len(scheduler.take_due(5001.0, 10)) == 10
