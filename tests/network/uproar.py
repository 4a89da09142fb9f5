"""Agents of one crawl as users run them, on a real server, under seeded random faults.

Events depend on the totals of the crawl, not on the clock: a slow machine gets as many faults as a fast
one. Before an agent is killed or paused, its leases are noted. So in the end each page that was fetched
twice can be compared with the leases at an event.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cluster.coordinators import META, ServerProcess, a_server
from fieldmouse.cluster.client.identity import read_identity
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import key_of
from meadowland import RunningMeadow
from whole.crawling import command

from .chainweb import ChainWeb
from .namespaces import Rooms

LEASE = 4.0
"""Seconds; agents are paused for longer than that."""
PORT = 6379
"""Address of the server, in a namespace where it is alone."""
FENCED = "the hosts of this agent were given to others"
_PREFIX = META.removesuffix("meta")
_PATIENCE = 240.0  # seconds without any progress until a test gives up
_STACKS = Path(__file__).with_name("stacks")
_TELLING = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(_STACKS), os.environ.get("PYTHONPATH"))))}


@dataclass(frozen=True)
class Uproar:
    """Numbers of the events of each kind. Their order follows from the seed."""

    seed: int
    agents: int = 3
    kills: int = 3
    pauses: int = 2
    drains: int = 2
    joins: int = 1
    cuts: int = 0  # needs namespaces
    delay: float = 0.1

    def order(self, dice: random.Random) -> list[str]:
        kinds = ["kill"] * self.kills + ["pause"] * self.pauses + ["drain"] * self.drains
        kinds += ["join"] * self.joins + ["cut"] * self.cuts + ["stop board", "kill board"]
        dice.shuffle(kinds)
        return kinds


@dataclass
class Member:
    """One agent's directory, and the process that crawls in it, if any."""

    home: Path
    words: list[str]
    before: list[str] = field(default_factory=list)  # command prefix that runs it somewhere else
    process: subprocess.Popen[bytes] | None = None
    paused: bool = False
    cut: bool = False
    pauses: int = 0  # and cuts

    def start(self) -> None:
        with (self.home.parent / f"{self.home.name}.err").open("ab") as talk:
            words = [*self.before, *command("agent", self.home, *self.words, "--json")]
            streams = {"stdout": talk, "stderr": talk}
            self.process = subprocess.Popen(words, **streams, start_new_session=True, env=_TELLING)

    @property
    def talk(self) -> str:
        return (self.home.parent / f"{self.home.name}.err").read_text()

    @property
    def awake(self) -> bool:
        return self.process is not None and self.process.poll() is None and not self.paused

    def tell(self, sign: signal.Signals) -> None:
        """Signal the whole process group: its workers, too."""
        assert self.process is not None
        os.killpg(self.process.pid, sign)

    def pages(self) -> list[str]:
        if not (self.home / "crawl.json").exists():
            return []  # it was killed before it had begun
        home = CrawlDir.open(self.home)
        last = read_checkpoint(home)
        return (
            [str(row.url) for row in outcome_log_reader.newest_page_rows(home, length=sealed_outcome_bytes(last))]
            if last
            else []
        )


@dataclass
class Troop:
    """All agents of the crawl and their coordinator."""

    uproar: Uproar
    meadow: RunningMeadow | ChainWeb
    server: ServerProcess
    folder: Path
    members: list[Member] = field(default_factory=list)
    later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    leased: set[int] = field(default_factory=set)  # keys, at any event that may cost a second fetch
    held: Counter[str] = field(default_factory=Counter)  # number of those URLs, by event
    happened: Counter[str] = field(default_factory=Counter)
    rooms: Rooms | None = None  # each agent has one of them

    def add(self) -> Member:
        room = self.rooms.agents[len(self.members)] if self.rooms else None
        words = ["--coordinator", f"redis://{room.server}:{PORT}" if room else self.server.url]
        words += [word for entry in self.meadow.resolve for word in ("--resolve", entry)]
        words += ["--allow-private", "--set", "storage.checkpoint=500ms"]
        if not self.members:
            words += self.words_of_the_crawl()
        name = f"agent{len(self.members)}"
        member = Member(self.folder / name, words, room.words([]) if room else [])
        self.members.append(member)
        member.start()
        return member

    def words_of_the_crawl(self) -> list[str]:
        """Options of the first agent, which creates the crawl."""
        words = ["--seed", self.meadow.seeds[0], "--scope", "web", "--delay", f"{self.uproar.delay:g}s"]
        return [*words, "--set", f"cluster.lease={LEASE:g}s", "--set", "cluster.heartbeat=1s"]

    # -- the coordinator

    def settled(self) -> int:
        return int(self.server.client().hget(META, "settled") or 0)

    def books(self) -> tuple[int, int]:
        seen, settled = self.server.client().hmget(META, "seen", "settled")
        return int(seen), int(settled)

    def owed(self) -> dict[str, set[int]]:
        """Keys that agents owe, by agent and start; they may change during the read."""
        client, owed = self.server.client(), dict[str, set[int]]()
        for debtor in client.scan_iter(f"{_PREFIX}owe:*", count=1000):
            keys = owed.setdefault(debtor.decode().removeprefix(f"{_PREFIX}owe:"), set())
            for epoch in client.hkeys(debtor):
                keys |= {int(key) % 2**64 for key in client.smembers(f"{_PREFIX}k:{epoch.decode()}")}
        return owed

    def note_leased(self, event: str, member: Member | None = None) -> None:
        """Note the URLs that one agent holds, under all its names, or that all of them hold."""
        name = ""
        if member is not None:
            identity = read_identity(member.home)
            if identity is None:
                return  # it has not joined yet
            name = identity.agent
        keys = set().union(*(keys for id, keys in self.owed().items() if name in id))
        self.leased |= keys
        self.held[event] += len(keys)

    # -- events

    def run(self, wanted: int) -> None:
        """Run the crawl to its end; the events are spread over `wanted` outcomes."""
        dice = random.Random(self.uproar.seed)
        for _ in range(self.uproar.agents):
            self.add()
        order = self.uproar.order(dice)
        for number, kind in enumerate(order):
            self.wait_until(lambda n=number: self.settled() >= 0.8 * wanted * n / len(order) + 1)
            self.event(kind, dice)
        self.wait_until(lambda: not self.later and not any(m.paused or m.cut for m in self.members))
        for member in self.members:
            if member.process is None:
                member.start()
        self.wait_until(lambda: all(m.process and m.process.poll() is not None for m in self.members))

    def event(self, kind: str, dice: random.Random) -> None:
        if kind in ("kill", "pause", "drain", "cut"):
            # An agent that is cut off cannot be drained: it waits for the coordinator.
            self.wait_until(lambda: any(member.awake and not member.cut for member in self.members))
            victim = dice.choice([member for member in self.members if member.awake and not member.cut])
            acts = {"kill": self.kill, "pause": self.pause, "drain": self.drain, "cut": self.cut}
            acts[kind](victim, dice)
        elif kind == "join":
            self.add()
        else:
            self.restart_board(kind, dice)
        self.happened[kind] += 1

    def kill(self, victim: Member, dice: random.Random) -> None:
        assert victim.process is not None
        victim.tell(signal.SIGSTOP)  # so that it leases nothing while we look
        self.note_leased("kill", victim)
        victim.tell(signal.SIGKILL)
        victim.process.wait()
        victim.process = None
        self.in_a_while(dice.choice([0.0, 1.0, LEASE + 2.0]), victim.start)

    def pause(self, victim: Member, dice: random.Random) -> None:
        victim.tell(signal.SIGSTOP)
        self.note_leased("pause", victim)
        victim.paused = True
        victim.pauses += 1

        def go_on() -> None:
            victim.tell(signal.SIGCONT)
            victim.paused = False

        self.in_a_while(LEASE + dice.uniform(0.5, 4.0), go_on)

    def cut(self, victim: Member, dice: random.Random) -> None:
        """Cut the link of an agent: nothing it sends arrives, and it receives nothing."""
        assert self.rooms is not None
        rooms, number = self.rooms, self.members.index(victim)
        rooms.pull(number)
        self.note_leased("cut", victim)
        victim.cut = True
        victim.pauses += 1

        def go_on() -> None:
            rooms.plug(number)
            victim.cut = False

        self.in_a_while(LEASE + dice.uniform(0.5, 6.0), go_on)

    def drain(self, victim: Member, dice: random.Random) -> None:
        process = victim.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        # An agent that is still loading Python cannot handle a signal.
        with suppress(subprocess.TimeoutExpired):
            process.wait(120)
        if process.returncode is None:
            process.send_signal(signal.SIGUSR1)
            time.sleep(5)  # for its output
        assert process.returncode in (0, 130, -signal.SIGTERM), f"{victim.home.name} was drained\n{victim.talk}"
        victim.process = None
        self.in_a_while(dice.choice([0.0, 1.0, LEASE + 2.0]), victim.start)

    def restart_board(self, kind: str, dice: random.Random) -> None:
        self.note_leased(kind)
        self.server.process.send_signal(signal.SIGKILL if kind == "kill board" else signal.SIGTERM)
        self.server.process.wait(60)
        time.sleep(dice.choice([0.0, 1.0, LEASE + 1.0]))  # the duration does not affect the invariants
        self.server.start()
        self.note_leased(kind)

    def in_a_while(self, seconds: float, act: Callable[[], None]) -> None:
        self.later.append((time.monotonic() + seconds, act))

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Wait, and run due actions; agents may end only when the crawl is over."""
        last, since = -1, time.monotonic()
        while not reached():
            now = time.monotonic()
            due = [act for at, act in self.later if at <= now]
            self.later = [(at, act) for at, act in self.later if at > now]
            for act in due:
                act()
            settled = self.settled()
            if due or settled != last:
                last, since = settled, now
            assert now - since < _PATIENCE, f"nothing goes on: {self.state()}"
            for member in self.members:
                code = member.process.poll() if member.process is not None else 0
                assert not code, f"{member.home.name} ended with {code}\n{member.talk}"
            time.sleep(0.05)

    def state(self) -> str:
        talks = "\n".join(f"-- {member.home.name}\n{member.talk}" for member in self.members)
        return f"{self.books()} after {dict(self.happened)}\n{talks}"

    def end(self) -> None:
        for member in self.members:
            if member.process is not None and member.process.poll() is None:
                member.tell(signal.SIGKILL)
                member.process.wait()

    # -- results

    def fetched_twice(self) -> set[str]:
        pages = Counter(url for member in self.members for url in member.pages())
        return {url for url, times in pages.items() if times > 1}

    def fetched(self) -> set[str]:
        return {url for member in self.members for url in member.pages()}

    def keys(self, urls: Iterable[str]) -> dict[str, int]:
        seed = CrawlDir.open(self.members[0].home).identity.key_seed
        return {url: key_of(url, seed) for url in urls}

    def starved(self) -> int:
        """How often an agent lost its lease without an event: this machine had no time for it."""
        boards = self.happened["stop board"] + self.happened["kill board"]
        return sum(max(0, member.talk.count(FENCED) - member.pauses - boards) for member in self.members)


@contextmanager
def a_troop(uproar: Uproar, meadow: RunningMeadow, folder: Path, rooms: Rooms | None = None) -> Iterator[Troop]:
    heard = ("--port", str(PORT), "--bind", "0.0.0.0", "--protected-mode", "no") if rooms else ()
    syncing = ("--appendfsync", "everysec")  # as servers do: a kill may cost the last messages
    with a_server(*syncing, *heard, before=rooms.servers.words([]) if rooms else []) as server:
        troop = Troop(uproar, meadow, server, folder, rooms=rooms)
        try:
            yield troop
        finally:
            troop.end()
