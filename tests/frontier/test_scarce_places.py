"""Hosts that rest leave their places when places are scarce: what a narrow front fetches, and when it ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

import msgspec
import pytest

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.frontier.durable_parts import FrontierState
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.policy.distribution.registry import POLICIES
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import HostVisit, Request
from fieldmouse.url import Host, Url

DELAY, LATENCY = 10.0, 0.1


class Crawl:
    """Plenty of fetch workers on a front with a fixed number of places; every host has its own address."""

    def __init__(self, home: Path, places: int, back_off: Callable[[Host], float] = lambda host: 0.0):
        self.home, self.places, self.back_off = home, places, back_off
        self.clock = AutoAdvanceClock(1_000_000.0)
        self.fetched: dict[Url, float] = {}
        self.last: dict[Host, float] = {}
        self.retries: set[Url] = set()
        self.open(None)

    def open(self, state: FrontierState | None) -> None:
        self.out: list[tuple[float, int, HostVisit]] = []
        self.turn = count()
        self.frontier = Frontier(
            self.home,
            key_seed=7,
            clock=self.clock,
            policy=POLICIES["index"](),
            front=FrontSizeRule(minimum=self.places, maximum=self.places),
            state=state,
            resumed_delay=lambda state: DELAY,
        )
        self.frontier.roll_back_to_checkpoint()

    def restart(self) -> None:
        state = self.frontier.seal().state
        self.frontier.on_checkpoint_committed()
        self.frontier.close()
        self.open(msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=FrontierState))

    def find(self, hosts: int, pages: int) -> None:
        urls = [Url(f"http://h{host}.example/{page}") for host in range(hosts) for page in range(pages)]
        random.Random(1).shuffle(urls)
        self.frontier.discover([Request(url) for url in urls])

    def run(self, seconds: float) -> float | None:
        """Crawl for so long; returns the time at which nothing was left to wait for, or None."""
        end = self.clock.now() + seconds
        while True:
            while (visit := self.frontier.take_visit(self.clock.now())) is not None:
                arrives = self.clock.now() + (LATENCY if visit.address else 0.0)
                heappush(self.out, (arrives, next(self.turn), visit))
            times = [
                time for time in (self.frontier.ready_at(), *(at for at, _, _ in self.out[:1])) if time is not None
            ]
            if not times:
                return self.clock.now()
            if min(times) > end:
                self.clock.advance(end - self.clock.now())
                return None
            self.clock.advance(max(0.0, min(times) - self.clock.now()))
            while self.out and self.out[0][0] <= self.clock.now():
                self.end(heappop(self.out)[2])

    def end(self, visit: HostVisit) -> None:
        now, address = self.clock.now(), visit.host.removeprefix("http://")
        if visit.address != address:
            located = msgspec.structs.replace(visit.state, address=address)
            return self.frontier.end_visit(visit, located, visit.tickets)
        assert now - self.last.get(visit.host, 0.0) >= DELAY - 1e-6, "not polite"
        self.last[visit.host] = now
        first, *others = visit.tickets
        rest = self.back_off(visit.host)
        state = HostState(address, now + max(DELAY, rest), now + DELAY, failures=int(rest > 0))
        if rest:
            self.frontier.retry_ticket(first.number, msgspec.structs.replace(first.link, not_before=now + 2.0))
        else:
            self.fetched[first.link.url] = now
            self.frontier.mark_durably_done([first.number])
        return self.frontier.end_visit(visit, state, others)


@pytest.mark.parametrize("places", [1, 2, 3, 14])
def test_a_few_places_fetch_what_the_delays_allow(places: int, tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, places)
    crawl.find(hosts=20, pages=60)
    crawl.run(300.0)
    assert len(crawl.fetched) >= 0.95 * 20 * 300 / DELAY


@pytest.mark.parametrize("places", [1, 3, 64])
def test_the_crawl_ends_with_its_last_url_although_hosts_rest(places: int, tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, places)
    crawl.find(hosts=10, pages=3)
    ended = crawl.run(1000.0)
    assert len(crawl.fetched) == 30
    assert ended is not None
    assert ended - max(crawl.fetched.values()) < 1.0


def fails_often(host: Host) -> float:
    """Every fourth host backs off for an hour."""
    return 3600.0 if int(host.removeprefix("http://h").removesuffix(".example")) % 4 == 0 else 0.0


@pytest.mark.parametrize("places", [1, 2, 3])
def test_hosts_in_back_off_hold_no_places_and_their_retries_neither(places: int, tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, places, fails_often)
    crawl.find(hosts=40, pages=50)
    crawl.run(100.0)
    assert len(crawl.fetched) >= 0.9 * 30 * 100 / DELAY
    assert len(crawl.frontier.hosts_in_backoff(crawl.clock.now())) == 10


@pytest.mark.parametrize("places", [1, 2, 3])
def test_hosts_in_back_off_hold_no_places_after_a_restart(places: int, tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, places, fails_often)
    crawl.find(hosts=40, pages=50)
    crawl.run(100.0)
    crawl.restart()
    before = len(crawl.fetched)
    crawl.run(100.0)
    assert len(crawl.fetched) - before >= 0.8 * 30 * 100 / DELAY
