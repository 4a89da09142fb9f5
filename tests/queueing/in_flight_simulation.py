"""Simulation of single pages and fetch workers, which shares nothing with the solver but the description."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.in_flight.model import InFlightModel


@dataclass
class Tally:
    seconds: float = 0.0
    idle: float = 0.0
    robot_seconds: float = 0.0
    page_seconds: float = 0.0
    arrived: int = 0
    dropped: int = 0
    obsolete: int = 0
    served: int = 0
    served_seconds: float = 0.0

    def measures(self) -> dict[str, float]:
        return {
            "rate": self.arrived / self.seconds,
            "loss": self.dropped / self.arrived,
            "obs": self.obsolete / self.arrived,
            "star": self.idle / self.seconds,
            "robots": self.robot_seconds / self.seconds,
            "mean_level": self.page_seconds / self.seconds,
            "sojourn_served": self.served_seconds / self.served,
        }


@dataclass
class Simulation:
    """Workers fetch, wait or drop; one server; pages in the buffer expire."""

    model: InFlightModel
    rule: Thresholds
    when_full: str
    rng: np.random.Generator
    now: float = 0.0
    fetching: int = 0
    buffer: deque[tuple[float, float]] = field(default_factory=deque)  # arrival and end of life of waiting pages
    serving: float = math.inf  # arrival of the page in service
    done_at: float = math.inf
    held: int = 0  # workers that wait with a page
    tally: Tally = field(default_factory=Tally)

    @property
    def level(self) -> int:
        return len(self.buffer) + (self.serving < math.inf)

    def start_workers(self) -> None:
        self.fetching = max(self.fetching, self.rule.concurrency_at(self.level) - self.held)

    def admit(self) -> None:
        """The buffer takes a page; an idle server takes it at once."""
        if self.serving == math.inf:
            self.serve(self.now)
            return
        life = self.rng.exponential(1 / self.model.obsolescence) if self.model.obsolescence else math.inf
        self.buffer.append((self.now, self.now + life))

    def serve(self, arrived: float) -> None:
        self.serving, self.done_at = arrived, self.now + float(self.model.service.sample(self.rng, 1)[0])

    def page_left(self) -> None:
        """A page left; a worker that waits hands over its page and may go on."""
        if self.held and self.level < self.model.capacity:
            self.held -= 1
            self.admit()
            if self.fetching + self.held < self.rule.concurrency_at(self.level):
                self.fetching += 1
        self.start_workers()

    def run(self, pages: int) -> dict[str, float]:
        model, tally = self.model, self.tally
        self.start_workers()
        while tally.served < pages:
            fetched = (
                self.now + self.rng.exponential(1 / (self.fetching * model.fetch_rate)) if self.fetching else math.inf
            )
            expires = min((end for _, end in self.buffer), default=math.inf)
            then = min(fetched, self.done_at, expires)
            robots = max(self.rule.concurrency_at(self.level), self.fetching + self.held)
            tally.seconds += then - self.now
            tally.robot_seconds += robots * (then - self.now)
            tally.page_seconds += self.level * (then - self.now)
            tally.idle += (then - self.now) * (self.level == 0)
            self.now = then
            if then == fetched:
                self.fetched()
            elif then == self.done_at:
                tally.served += 1
                tally.served_seconds += self.now - self.serving
                self.serving = self.done_at = math.inf
                if self.buffer:
                    self.serve(self.buffer.popleft()[0])
                self.page_left()
            else:
                tally.obsolete += 1
                self.buffer = deque(page for page in self.buffer if page[1] != expires)
                self.page_left()
        tally.arrived = tally.served + tally.obsolete + tally.dropped
        return tally.measures()

    def fetched(self) -> None:
        self.fetching -= 1
        if self.level < self.model.capacity:
            self.admit()
        elif self.when_full == "wait":
            self.held += 1
            return
        else:
            self.tally.dropped += 1
        if self.fetching + self.held < self.rule.concurrency_at(self.level):
            self.fetching += 1
