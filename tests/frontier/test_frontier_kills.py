"""Kills at any moment: the frontier delivers every accepted URL, and none that was done.

A small random web is crawled by a fake agent. At random moments the frontier is
sealed and the seal committed; at others it is abandoned as a kill would leave it:
the directory is copied as it is, with torn ends added to its logs, and opened from
the last committed state.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.frontier.durable_parts import FrontierState
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.policy.distribution.registry import POLICIES
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import HostVisit, NumberedRequest, Request
from fieldmouse.url import Host, Url, host_of

DELAY = 1.0


class SmallWeb:
    """Hosts of uneven size, some sharing an address; every page links to a few others, all reachable."""

    def __init__(self, rng: random.Random, pages: int, hosts: int, addresses: int):
        names = [f"http://h{n}.example" for n in range(hosts)]
        weights = [1 / (n + 1) for n in range(hosts)]
        where = rng.choices(names, weights, k=pages)
        self.urls = [Url(f"{host}/{n}") for n, host in enumerate(where)]
        self.address = {Host(name): f"10.0.0.{n % addresses}" for n, name in enumerate(names)}
        self.links: dict[Url, list[Url]] = {url: [] for url in self.urls}
        for n in range(1, pages):
            self.links[self.urls[rng.randrange(max(0, n - 20), n)]].append(self.urls[n])
        for url in self.urls:
            self.links[url] += rng.choices(self.urls, k=rng.randrange(6))


class FakeAgent:
    """Visits hosts of the small web, and keeps the counts that a kill would leave."""

    def __init__(self, web: SmallWeb, rng: random.Random, home: Path, policy: str):
        self.web, self.rng, self.home, self.policy = web, rng, home, policy
        self.places = rng.choice([2, 12])
        self.clock = AutoAdvanceClock(1_000_000.0)
        self.lives = 0
        self.committed: FrontierState | None = None
        self.done_for_good: set[Url] = set()
        self.last_visit: dict[str, float] = {}
        self.open(None)
        self.frontier.discover([Request(web.urls[0])])

    def open(self, state: FrontierState | None) -> None:
        self.frontier = Frontier(
            self.home / str(self.lives),
            key_seed=7,
            clock=self.clock,
            policy=POLICIES[self.policy](**({"depth": 3} if self.policy == "index" else {})),
            front=FrontSizeRule(minimum=2, maximum=self.places),
            errand_links=3,
            state=state,
            resumed_delay=lambda _: DELAY,
            run_size=40,
        )
        self.frontier.roll_back_to_checkpoint()
        self.fetched: dict[int, Url] = {}
        self.done: set[Url] = set()
        self.out: list[HostVisit] = []
        self.sealed: FrontierState | None = None

    def kill(self) -> None:
        """Leave the directory as it is and continue from the last commit, on torn files."""
        before = self.home / str(self.lives)
        self.lives += 1
        after = self.home / str(self.lives)
        shutil.copytree(before, after)
        self.frontier.close()
        for path in after.iterdir():
            if self.rng.random() < 0.5:
                with path.open("ab") as file:
                    file.write(self.rng.randbytes(self.rng.randrange(1, 40)) if path.suffix == ".log" else b"")
        self.open(msgspec.msgpack.decode(msgspec.msgpack.encode(self.committed), type=FrontierState))

    def seal(self) -> None:
        """Seal; everything fetched so far counts as durable with it."""
        self.frontier.mark_durably_done(self.fetched)
        self.done |= set(self.fetched.values())
        self.fetched.clear()
        self.sealed = self.frontier.seal().state
        assert self.sealed.seen == self.frontier.settled_count + self.sealed.waiting
        self.sealed_done = set(self.done)

    def commit(self) -> None:
        if self.sealed is not None:
            self.committed, self.sealed = self.sealed, None
            self.done_for_good |= self.sealed_done
            self.frontier.on_checkpoint_committed()

    def take(self) -> bool:
        visit = self.frontier.take_visit(self.clock.now())
        if visit is None:
            return False
        held = {other.address for other in self.out} - {""}
        assert visit.host not in {other.host for other in self.out}
        assert visit.address not in held
        self.out.append(visit)
        return True

    def come_home(self) -> None:
        visit = self.out.pop(self.rng.randrange(len(self.out)))
        now, state = self.clock.now(), visit.state
        if visit.address != self.web.address[visit.host]:
            assert visit.address == ""
            state = msgspec.structs.replace(state, address=self.web.address[visit.host])
            self.frontier.end_visit(visit, state, visit.tickets)
            return
        ticket = visit.tickets[0]
        self.visit(visit, ticket, now)
        state = HostState(visit.address, now + DELAY, now + DELAY, pages=state.pages + 1)
        self.frontier.end_visit(visit, state, visit.tickets[1:])

    def visit(self, visit: HostVisit, ticket: NumberedRequest, now: float) -> None:
        url = ticket.link.url
        assert host_of(url) == visit.host
        assert url not in self.done_for_good, "visited although its outcome was durable"
        assert ticket.link.not_before <= now
        for name in (visit.host, visit.address):
            assert now - self.last_visit.get(name, 0.0) >= DELAY, "not polite"
            self.last_visit[name] = now
        if self.rng.random() < 0.1 and ticket.link.tries < 3:
            wait = self.rng.choice([0.0, now + 5.0])
            link = msgspec.structs.replace(ticket.link, tries=ticket.link.tries + 1, not_before=wait)
            self.frontier.retry_ticket(ticket.number, link)
            return
        self.fetched[ticket.number] = url
        self.frontier.discover([Request(found, 1, url) for found in self.web.links[url]])

    def finished(self) -> bool:
        """Whether there is nothing to do, now or later; advances the clock if necessary."""
        if self.out or self.take():
            return False
        due = self.frontier.ready_at()
        if due is None:
            return True
        self.clock.advance(max(0.0, due - self.clock.now()))
        return False


def crawl(agent: FakeAgent, kills: float, seals: float) -> None:
    rng = agent.rng
    agent.seal()
    agent.commit()
    for _ in range(100_000):
        chance = rng.random()
        if chance < kills:
            agent.kill()
        elif chance < kills + seals:
            agent.seal()
        elif chance < kills + 2 * seals:
            agent.commit()
        elif agent.out and rng.random() < 0.5:
            agent.come_home()
        elif not agent.take() and agent.finished():
            break
    else:
        raise AssertionError("the crawl does not end")
    agent.seal()
    agent.commit()


@pytest.mark.parametrize("policy", sorted(POLICIES))
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 250), st.integers(1, 25), st.integers(1, 25))
def test_every_url_is_done_exactly_once_despite_kills_at_any_moment(
    policy: str, seed: int, pages: int, hosts: int, addresses: int
) -> None:
    rng = random.Random(seed)
    web = SmallWeb(rng, pages, hosts, addresses)
    with tempfile.TemporaryDirectory() as home:
        agent = FakeAgent(web, rng, Path(home), policy)
        crawl(agent, kills=0.01, seals=0.04)
        assert agent.done_for_good == set(web.urls)
        assert agent.frontier.waiting_count == 0
        assert agent.frontier.seen_count == agent.frontier.settled_count == len(web.urls)
        agent.frontier.close()
