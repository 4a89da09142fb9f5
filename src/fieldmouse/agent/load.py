"""Utilisation of an agent: the share of its scarcest resource that is in use.

An agent may be busy although its fetch workers are not: its worker processes parse at full speed, its
event loop is late, or other programs use its CPU. So its load is the largest of four shares, each from 0
to 1:

- active fetch workers, of those that may run;
- pages that the worker processes hold or that wait for them, of those that they can hold;
- lateness of the event loop: `LATE` seconds count as one half;
- CPU demand of the event loop's thread, and of the worker processes on average: time on a CPU plus time in
  the scheduler's queue. So a saturated thread shows as 1, no matter how many others share its core.

Other agents read it in the heartbeat and send fewer hosts (`policy/balance/sharing.py`). In virtual time
the CPU share is meaningless and is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import exp
from pathlib import Path

from fieldmouse.meter import Meter

LATE = 0.05
"""Seconds by which a busy event loop is late."""
EVERY = 1.0
"""Seconds between two CPU measurements."""
LONGEST = 60.0
"""Longest backlog of pages that is reported, in seconds."""
_MEMORY = 5.0  # seconds over which load and rates are averaged

Pids = Callable[[], Sequence[int]]


class CpuDemand:
    """CPU time that this thread and some processes used or waited for, as a share of the time that passed."""

    def __init__(self, workers: Pids, now: Callable[[], float] = time.monotonic, proc: Path = Path("/proc")):
        self._workers, self._now, self._proc = workers, now, proc
        self._at, self._before = now(), dict[str, float]()
        self.share()

    def share(self) -> float:
        """Since the last call; the larger of this thread's share and the mean of the processes' shares."""
        now = self._now()
        seconds, self._at = now - self._at, now
        totals = {name: self._total(name) for name in ("thread-self", *map(str, self._workers()))}
        before, self._before = self._before, totals
        if seconds <= 0.0:
            return 0.0
        shares = {name: (total - before[name]) / seconds for name, total in totals.items() if name in before}
        own = shares.pop("thread-self", 0.0)
        others = sum(shares.values()) / len(shares) if shares else 0.0
        return min(max(own, others, 0.0), 1.0)

    def _total(self, name: str) -> float:
        """Seconds on a CPU and in its queue; without the queue where the system does not report it."""
        try:
            on_cpu, queued = (self._proc / name / "schedstat").read_text().split()[:2]
            return (int(on_cpu) + int(queued)) / 1e9
        except (OSError, ValueError):  # another system, or a worker that has just died
            return time.thread_time() if name == "thread-self" else 0.0


class AgentLoad:
    """Keeps `load` and `behind` of the meter up to date. `look` is called several times a second."""

    def __init__(self, meter: Meter, served: Callable[[], int], window: int, cpu: CpuDemand | None):
        """`served` counts the pages that worker processes have finished, from any start.

        `window` is the number of pages that all of them may hold; `cpu` is None in virtual time.
        """
        self._meter, self._count, self._window, self._cpu = meter, served, window, cpu
        self._load, self._rate, self._served = 0.0, 0.0, served()
        self._demand, self._until_cpu = 0.0, EVERY

    def look(self, seconds: float, late: float) -> None:
        """Update the load; `seconds` since the last call, and how many of them the event loop was `late`."""
        if seconds <= 0.0:
            return
        meter, fresh = self._meter, 1.0 - exp(-seconds / _MEMORY)
        before, self._served = self._served, self._count()
        self._rate += fresh * (max(0, self._served - before) / seconds - self._rate)
        behind = meter.waiting / self._rate if self._rate > meter.waiting / LONGEST else LONGEST
        self._load += fresh * (self._share(seconds, max(0.0, late)) - self._load)
        meter.note_load(self._load, behind if meter.waiting else 0.0)

    def _share(self, seconds: float, late: float) -> float:
        meter = self._meter
        if self._cpu is not None:
            self._until_cpu -= seconds
            if self._until_cpu <= 0.0:
                self._demand, self._until_cpu = self._cpu.share(), EVERY
        fetchers = 1.0 if meter.paused else meter.out / max(1, meter.allowed)
        workers = meter.level / self._window
        return min(1.0, max(fetchers, workers, late / (late + LATE), self._demand))
