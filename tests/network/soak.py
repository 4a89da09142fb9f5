"""A long crawl by agents that come and go in all ways, on a web whose hosts keep running dry.

The next event comes when the crawl has settled a few more URLs, so a slow machine sees as many events as a
fast one. After every event the coordinator is asked for stranded hosts.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cluster.coordinators import PREFIX, a_server
from fieldmouse.cluster.client.identity import AgentIdentity, read_identity
from whole.crawling import run

from .chainweb import ChainWeb
from .uproar import LEASE, Member, Troop, Uproar

EVENTS = {"join": 2, "drain": 3, "terminate": 3, "kill": 3, "forget": 2, "kill and forget": 1}
"""Relative frequency of each kind of event."""
FEWEST, MOST = 2, 4
"""Agents that run at a time, including those that restart in a moment."""
DELAY = 0.1
_PAUSES = (0.0, 1.0, LEASE + 2.0)  # seconds until an agent comes back


@dataclass
class SoakTroop(Troop):
    """Agents under one balance policy. One that goes either comes back in its directory or stays away."""

    policy: str = "priced"
    settled_per_event: int = 5
    returning: set[Path] = field(default_factory=set)

    def words_of_the_crawl(self) -> list[str]:
        return [*super().words_of_the_crawl(), "--set", f"cluster.policy={self.policy}"]

    def soak(self, web: ChainWeb, events: int, seconds: float = 0.0) -> None:
        """Run at least this many events, for at least this time; then the web stops growing and the crawl
        ends."""
        dice, began = random.Random(f"{self.uproar.seed} {self.policy}"), time.monotonic()
        for _ in range(self.uproar.agents):
            self.add()
        while self.happened.total() < events or time.monotonic() - began < seconds:
            target = self.settled() + self.settled_per_event
            self.wait_until(lambda target=target: self.settled() >= target)
            self.event(self._choose(dice), dice)
            self.check_liveness()
        web.finish()
        self.wait_until(lambda: not self.later)
        self.wait_until(lambda: all(m.process is None or m.process.poll() is not None for m in self.members))
        self.check_liveness()

    def _running(self) -> list[Member]:
        return [member for member in self.members if member.awake]

    def _choose(self, dice: random.Random) -> str:
        running = len(self._running()) + len(self.returning)
        if running <= FEWEST:
            return "join"
        kinds = [kind for kind in EVENTS if kind != "join" or running < MOST]
        return dice.choices(kinds, [EVENTS[kind] for kind in kinds])[0]

    def event(self, kind: str, dice: random.Random) -> None:
        if kind == "join":
            away = [m for m in self.members if m.process is None and m.home not in self.returning]
            if away and dice.random() < 0.5:
                dice.choice(away).start()
            else:
                self.add()
        else:
            self.wait_until(lambda: bool(self._running()))
            victim = dice.choice(self._running())
            self._depart(kind, victim)
            if dice.random() < 0.5:
                self._return_later(victim, dice.choice(_PAUSES))
        self.happened[kind] += 1

    def _return_later(self, member: Member, seconds: float) -> None:
        def come_back() -> None:
            self.returning.discard(member.home)
            member.start()

        self.returning.add(member.home)
        self.in_a_while(seconds, come_back)

    def _depart(self, kind: str, victim: Member) -> None:
        """Make an agent go, in one of the possible ways."""
        identity, process = read_identity(victim.home), victim.process
        assert process is not None
        joined = identity is not None and self._has_joined(identity)
        if kind in ("kill", "kill and forget", "forget"):
            victim.tell(signal.SIGSTOP)  # so that it leases nothing while we look
            self.note_leased(kind, victim)
        if "kill" in kind:
            victim.tell(signal.SIGKILL)
            process.wait()
        if joined and kind in ("drain", "forget", "kill and forget"):
            words = ("cluster", "drain" if kind == "drain" else "forget", identity.agent)
            run(*words, "--coordinator", self.server.url)
        if kind == "forget":
            victim.tell(signal.SIGCONT)
            victim.pauses += 1  # it loses its lease once, and joins again by itself
        if kind in ("terminate", "forget") or (kind == "drain" and not joined):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(150)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            time.sleep(5)  # for the stacks that it prints
            raise AssertionError(f"{victim.home.name} does not end\n{victim.talk}") from None
        ends = (-signal.SIGKILL,) if "kill" in kind else (0, 130, -signal.SIGTERM)
        assert process.returncode in ends, f"{process.returncode}\n{victim.talk}"
        victim.process = None

    def _has_joined(self, identity: AgentIdentity) -> bool:
        """Whether this start of the agent is active; a starting one cannot be drained yet."""
        known = self.server.client().hmget(f"{PREFIX}agent:{identity.agent}", "inc", "counts")
        return known == [str(identity.incarnation).encode(), b"1"]

    def check_liveness(self) -> None:
        status = run("cluster", "status", "--coordinator", self.server.url)
        assert (status["stranded"], status["repaired"]) == (0, 0), f"{status}\n{self.state()}"


@contextmanager
def a_soak(seed: int, policy: str, folder: Path) -> Iterator[tuple[SoakTroop, ChainWeb]]:
    with ChainWeb(seed).running() as web, a_server() as server:
        troop = SoakTroop(Uproar(seed, delay=DELAY), web, server, folder, policy=policy)
        try:
            yield troop, web
        finally:
            troop.end()
