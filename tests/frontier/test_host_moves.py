"""A host moves between two crawls while both are killed: every URL is done once, in one of them.

Two frontiers crawl one small web, each with hosts of its own. A host is sent from one to the other and
back, and at every step of the way either may be killed, parcels may come twice and receipts may be lost.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fieldmouse.clock import ManualClock
from fieldmouse.frontier import FrontierState, open_frontier
from fieldmouse.frontier.exchange import Exchanging
from fieldmouse.frontier.inspection import inspect_frontier
from fieldmouse.frontier.keysum import KeySum
from fieldmouse.frontier.parcel import Belongings, Parcel
from fieldmouse.policy.distribution import POLICIES
from fieldmouse.policy.front import FrontRule
from fieldmouse.records import Door, Errand, HostState, Link
from fieldmouse.url import Host, Url, host_of, key_of

DELAY = 1.0
SECRET = 7


class World:
    """A small web, the time, and what servers and readers would see of both crawls together."""

    def __init__(self, rng: random.Random, pages: int, hosts: int) -> None:
        self.rng, self.clock = rng, ManualClock(1_000_000.0)
        self.hosts = [Host(f"http://h{n}.example") for n in range(hosts)]
        where = rng.choices(self.hosts, [1 / (n + 1) for n in range(hosts)], k=pages)
        self.urls = [Url(f"{host}/{n}") for n, host in enumerate(where)]
        self.links: dict[Url, list[Url]] = {url: [] for url in self.urls}
        for n in range(1, pages):
            self.links[self.urls[rng.randrange(max(0, n - 20), n)]].append(self.urls[n])
        for url in self.urls:
            self.links[url] += rng.choices(self.urls, k=rng.randrange(4))
        self.done: dict[Url, str] = {}  # durable, and by whom
        self.polled: Counter[Url] = Counter()
        self.last_visit: dict[Host, float] = {}
        self.in_air = 0.0  # share of the pages fetched that are not durable with the next checkpoint

    def asked(self, host: Host) -> None:
        now = self.clock.now()
        assert now - self.last_visit.get(host, 0.0) >= DELAY, f"{host} was asked too soon"
        self.last_visit[host] = now


class Crawl:
    """One frontier of the two, and an agent that may be killed at any moment."""

    def __init__(self, name: str, number: int, world: World, home: Path, policy: str, of: int = 2) -> None:
        self.name, self.number, self.world, self.home, self.policy = name, number, world, home, policy
        self.of = of  # crawls there are
        self.lives = 0
        self.committed: FrontierState | None = None
        self.open()

    def open(self) -> None:
        state = self.committed
        if state is not None:
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=FrontierState)
        self.frontier = open_frontier(
            self.directory, key_seed=SECRET, clock=self.world.clock, state=state,
            policy=POLICIES[self.policy](**({"depth": 3} if self.policy == "index" else {})),
            front=FrontRule(minimum=2, maximum=12), errand_links=3, run_size=40,
            resumed_delay=lambda _: DELAY,
            exchanging=Exchanging(
                self.name,
                ours=lambda host: self.world.hosts.index(host) % self.of == self.number,
                belongings=lambda host: Belongings(b"Disallow: /" + host.encode(), 9e9, b"learned"),
            ),
        )  # fmt: skip
        self.frontier.begin()
        self.exchange = self.frontier.exchange
        self.fetched: dict[int, tuple[Url, Door]] = {}
        self.settled: list[tuple[Url, Door]] = []
        self.out: list[Errand] = []
        self.sealed: FrontierState | None = None

    @property
    def directory(self) -> Path:
        return self.home / f"{self.name}-{self.lives}"

    def kill(self) -> None:
        """Go on from the last commit, on files that are as a kill leaves them, with torn ends."""
        before = self.directory
        self.lives += 1
        shutil.copytree(before, self.directory)
        self.frontier.close()
        shutil.rmtree(before)
        rng = self.world.rng
        for path in self.directory.glob("*.log"):
            if rng.random() < 0.3:
                with path.open("ab") as file:
                    file.write(rng.randbytes(rng.randrange(1, 40)))
        self.open()

    def seal(self) -> None:
        """What was fetched is durable with this, unless it is with the indexer still."""
        stored = [number for number in self.fetched if self.world.rng.random() >= self.world.in_air]
        self.frontier.done(stored)
        self.settled += [self.fetched.pop(number) for number in stored]
        self.sealed = self.frontier.seal().state
        assert self.sealed.seen == self.sealed.done + self.sealed.waiting
        self.sealed_now, self.settled = self.settled, []

    def commit(self) -> None:
        assert self.sealed is not None
        self.committed, self.sealed = self.sealed, None
        for url, door in self.sealed_now:
            if door is Door.POLLED:
                self.world.polled[url] += 1
            else:
                assert url not in self.world.done, f"{url} was done by {self.world.done[url]} already"
                self.world.done[url] = self.name
        self.frontier.committed()

    def checkpoint(self) -> None:
        self.seal()
        self.commit()

    def work(self, steps: int) -> None:
        for _ in range(steps):
            if self.out and self.world.rng.random() < 0.6:
                self.come_home()
            else:
                self.take()

    def take(self) -> bool:
        errand = self.frontier.take(self.world.clock.now())
        if errand is not None:
            self.out.append(errand)
        return errand is not None

    def come_home(self) -> None:
        world, rng = self.world, self.world.rng
        errand = self.out.pop(rng.randrange(len(self.out)))
        now, state, number = world.clock.now(), errand.state, world.hosts.index(errand.host)
        if not errand.address:
            state = msgspec.structs.replace(state, address=f"10.0.0.{number}")
            self.frontier.give_back(errand, state, errand.tickets)
            return
        ticket, url = errand.tickets[0], errand.tickets[0].link.url
        world.asked(errand.host)
        assert ticket.link.not_before <= now
        assert ticket.door is Door.POLLED or url not in world.done, f"{url} is fetched twice"
        failed = rng.random() < 0.1 and ticket.link.tries < 3
        if failed:
            later = rng.choice([0.0, now + 5.0])
            link = msgspec.structs.replace(ticket.link, tries=ticket.link.tries + 1, not_before=later)
            self.frontier.again(ticket.number, link)
        else:
            self.fetched[ticket.number] = url, ticket.door
            self.frontier.discover([Link(found, 1, url) for found in world.links[url]])
        pages = state.pages + (not failed and ticket.door is not Door.POLLED)
        state = HostState(errand.address, now + DELAY, now + DELAY, crawl_delay=float(number), pages=pages)
        self.frontier.give_back(errand, state, errand.tickets[1:])

    def idle(self) -> bool:
        """Nothing to do, now or later; if time must pass first, it does."""
        if self.out:
            self.come_home()
            return False
        if self.take():
            return False
        while self.fetched:
            self.checkpoint()
        due = self.frontier.ready_at()
        if due is None:
            return True
        self.world.clock.advance(max(0.0, due - self.world.clock.now()))
        return False

    def books(self) -> None:
        """The sieve holds the keys of what is settled here, waits here, or is known to be elsewhere."""
        assert self.committed is not None
        report = inspect_frontier(self.directory, self.committed, SECRET)
        assert report.injuries == []
        accounted = KeySum(*self.committed.shipments.foreign)  # type: ignore[union-attr]
        accounted.merge(report.waiting)
        for url, by in self.world.done.items():
            if by == self.name:
                accounted.add(key_of(url, SECRET))
        assert report.seen == accounted
        assert report.waiting.count == self.committed.waiting


GAPS = [
    "release said, nothing sealed",
    "sealed, not committed",
    "committed, not sent",
    "adopted, nothing sealed",
    "adoption sealed, not committed",
    "adoption committed, no receipt",
    "receipt told, not committed",
    "receipt committed",
]


class Network:
    """Two crawls, and what goes between them."""

    def __init__(self, seed: int, home: Path, policy: str, *, pages: int, hosts: int, kills: float) -> None:
        self.rng, self.kills = random.Random(seed), kills
        self.world = World(self.rng, pages, hosts)
        self.crawls = [Crawl(name, n, self.world, home, policy) for n, name in enumerate(("a", "b"))]
        self.crawls[0].frontier.discover([Link(self.world.urls[0])])
        self.killed: Counter[str] = Counter()
        self.moves = 0
        for crawl in self.crawls:
            crawl.checkpoint()

    def other(self, crawl: Crawl) -> Crawl:
        return self.crawls[crawl is self.crawls[0]]

    def gap(self, name: str, victim: Crawl) -> bool:
        """Something may happen here: work on both sides, and perhaps a kill. True if there was one."""
        for crawl in self.crawls:
            crawl.work(self.rng.randrange(3))
        self.world.clock.advance(self.rng.random())
        if self.rng.random() >= self.kills:
            return False
        self.killed[name] += 1
        victim.kill()
        return True

    def move(self, host: Host, source: Crawl) -> None:
        """Send a host, with all that may go wrong, until the receipt is durable."""
        target = self.other(source)
        assert source.exchange.here(host)
        serial = self.pack(host, source, target)
        self.deliver(source, target, serial)
        assert target.exchange.here(host)
        assert not source.exchange.here(host)
        self.moves += 1

    def pack(self, host: Host, source: Crawl, target: Crawl) -> int:
        while True:
            source.exchange.release(host, target.name)
            if self.gap(GAPS[0], source):
                continue
            for _ in range(len(source.out)):  # robots come home; pages may still be in the air
                source.come_home()
            source.seal()
            if self.gap(GAPS[1], source):
                continue
            source.commit()
            self.gap(GAPS[2], source)
            for serial, path in source.exchange.parcels.items():
                label = Parcel(path).label
                if (
                    label.host == host
                    and label.state is not None
                    and not self.arrived(target, source, serial)
                ):
                    return serial

    @staticmethod
    def arrived(target: Crawl, source: Crawl, serial: int) -> bool:
        return target.exchange.has_adopted(source.name, serial)

    def deliver(self, source: Crawl, target: Crawl, serial: int) -> None:
        while serial in source.exchange.parcels:
            if not self.arrived(target, source, serial) or self.rng.random() < 0.3:  # or the receipt was lost
                label = target.frontier.adopt(source.exchange.parcels[serial])
                assert label.state is None or label.belongings.robots_txt.endswith(label.host.encode())
            if self.gap(GAPS[3], target):
                continue
            target.seal()
            if self.gap(GAPS[4], target):
                continue
            target.commit()
            if self.gap(GAPS[5], target):
                continue
            assert self.arrived(target, source, serial)
            source.exchange.released(serial)
            if self.gap(GAPS[6], source):
                continue
            source.checkpoint()
            self.gap(GAPS[7], source)

    def forward(self) -> bool:
        """Let the outboxes follow; whether there was anything in them."""
        anything = False
        for crawl in self.crawls:
            for host, _ in list(crawl.exchange.undelivered()):
                crawl.exchange.release(host, self.other(crawl).name)
            crawl.checkpoint()
            for serial in list(crawl.exchange.parcels):
                anything = True
                self.deliver(crawl, self.other(crawl), serial)
        return anything

    def finish(self) -> None:
        """Crawl to the end."""
        for _ in range(1000):
            for crawl in self.crawls:
                while not crawl.idle():
                    pass
            if not self.forward() and all(crawl.idle() for crawl in self.crawls):
                return
        raise AssertionError("the crawls do not end")

    def holder(self, host: Host) -> Crawl:
        (holder,) = [crawl for crawl in self.crawls if crawl.exchange.here(host)]
        return holder

    def close(self) -> None:
        for crawl in self.crawls:
            crawl.frontier.close()


def check_union(network: Network) -> None:
    """Every URL is done, in one crawl; and what is known of a host is where the host is."""
    world = network.world
    assert set(world.done) == set(world.urls)
    assert sum(crawl.frontier.seen for crawl in network.crawls) == len(world.urls)
    for crawl in network.crawls:
        crawl.checkpoint()
        crawl.books()
        assert crawl.frontier.waiting == crawl.frontier.polling == 0
        assert crawl.exchange.parcels == {}
    visited = Counter(host_of(url) for url in world.urls)
    for number, host in enumerate(world.hosts):
        if visited[host]:
            state = network.holder(host).frontier._hosts.get(host)
            assert state.crawl_delay == float(number)
            # A page that was in the air at a kill is fetched, and counted, once more.
            assert state.pages == visited[host] or (state.pages > visited[host] and world.in_air)


@pytest.mark.parametrize(("policy", "in_air"), [("index", 0.0), ("mice-and-elephants", 0.2)])
def test_a_host_moves_there_and_back_two_hundred_times_and_kills_lose_and_double_nothing(
    policy: str, in_air: float, tmp_path: Path
) -> None:
    network = Network(11, tmp_path, policy, pages=900, hosts=6, kills=0.12)
    network.world.in_air = in_air
    (host, *others) = network.world.hosts
    while network.moves < 200:
        network.move(host, network.holder(host))
        if network.moves % 7 == 0:
            network.forward()
            other = network.rng.choice(others)
            network.move(other, network.holder(other))
        if network.moves % 50 == 0:
            for crawl in network.crawls:
                crawl.checkpoint()
                crawl.books()
    assert set(network.killed) == set(GAPS)
    assert min(network.killed.values()) >= 5
    by = Counter(network.world.done.values())
    assert min(by["a"], by["b"]) > 100, "a test in which one of them has nothing to do is none"
    network.kills = 0.0
    network.finish()
    check_union(network)
    network.close()


class Post:
    """Three crawls whose parcels cross: any may be carried late or twice while hosts go on moving."""

    def __init__(self, seed: int, home: Path, *, pages: int, hosts: int) -> None:
        self.rng = random.Random(seed)
        self.world = World(self.rng, pages, hosts)
        self.crawls = {
            name: Crawl(name, n, self.world, home, "index", of=3) for n, name in enumerate(("a", "b", "c"))
        }
        for crawl in self.crawls.values():
            crawl.frontier.discover([Link(self.world.urls[0])])
            crawl.checkpoint()
        self.crossed = self.kills = 0

    def step(self) -> None:
        """One of all the things that can happen, at one of the crawls."""
        rng, crawl = self.rng, self.rng.choice([*self.crawls.values()])
        self.world.clock.advance(rng.random())
        match rng.randrange(10):
            case 0:
                crawl.exchange.release(rng.choice(self.world.hosts), self.another(crawl))
            case 1 | 2 | 3:
                crawl.checkpoint()
            case 4 if rng.random() < 0.2:  # what a crawl remembers without writing it down has time to matter
                if rng.random() < 0.5:
                    crawl.seal()
                crawl.kill()
                self.kills += 1
            case 5 | 6:
                self.carry(crawl, rng.choice)
            case 7:
                for host, _ in list(crawl.exchange.undelivered()):
                    crawl.exchange.release(host, self.another(crawl))
            case _:
                crawl.work(1)

    def another(self, crawl: Crawl) -> str:
        return self.rng.choice([name for name in self.crawls if name != crawl.name])

    def carry(self, crawl: Crawl, choose: Callable[[list[int]], int]) -> None:
        """A parcel to whom it is for, or its receipt back."""
        if not crawl.exchange.parcels:
            return
        serial = choose([*crawl.exchange.parcels])
        path = crawl.exchange.parcels[serial]
        label = Parcel(path).label
        target = self.crawls[label.to]
        if target.exchange.has_adopted(crawl.name, serial):
            crawl.exchange.released(serial)
        else:
            self.crossed += not target.exchange.here(label.host) and label.state is None
            target.frontier.adopt(path)

    def finish(self) -> None:
        """Hosts stay where they are; all else comes to them, and the crawls end."""
        for _ in range(2000):
            busy = False
            for crawl in self.crawls.values():
                while not crawl.idle():
                    busy = True
                for host, _ in list(crawl.exchange.undelivered()):
                    holders = [name for name, other in self.crawls.items() if other.exchange.here(host)]
                    busy = True
                    if holders:
                        crawl.exchange.release(host, holders[0])
                crawl.checkpoint()
                while crawl.exchange.parcels:
                    busy = True
                    self.carry(crawl, min)
                    for other in self.crawls.values():
                        other.checkpoint()
            if not busy:
                return
        raise AssertionError("the crawls do not end")


@pytest.mark.parametrize("seed", range(3))
def test_parcels_that_cross_late_or_twice_lose_and_double_nothing(seed: int, tmp_path: Path) -> None:
    post = Post(seed, tmp_path, pages=200, hosts=4)
    for _ in range(2000):
        post.step()
    assert post.kills > 20
    assert post.crossed > 50, "links found must have come after a host that had left again"
    post.finish()
    assert set(post.world.done) == set(post.world.urls)
    for crawl in post.crawls.values():
        crawl.checkpoint()
        crawl.books()
        assert crawl.frontier.waiting == 0
        crawl.frontier.close()
