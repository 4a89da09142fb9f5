"""Utilisation of an agent: the largest share among fetch workers, worker processes, event loop and CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.crawler.stats import MAX_BACKLOG_SECONDS, AgentLoadMeter, CpuUtilisation


class Watched:
    """A load that is updated ten times a second."""

    def __init__(self, cpu: CpuUtilisation | None = None) -> None:
        self.meter, self.served = BackpressureState(), 0
        self.load = AgentLoadMeter(self.meter, lambda: self.served, window=48, cpu=cpu)
        self.meter.set_concurrency(100)

    def after(self, seconds: float, *, late: float = 0.0, served: float = 0.0) -> float:
        for tick in range(1, round(seconds * 10) + 1):
            self.served = round(served * tick / 10)
            self.load.update(0.1, late)
        return self.meter.load


def test_an_idle_agent_has_no_load() -> None:
    watched = Watched()
    assert watched.after(30.0) == 0.0
    assert watched.meter.backlog_seconds == 0.0


def test_load_is_the_share_of_the_scarcest_resource() -> None:
    fetching = Watched()
    fetching.meter.set_active_visits(90)
    assert fetching.after(60.0) == pytest.approx(0.9, abs=0.01)
    indexing = Watched()
    indexing.meter.set_indexing(48)
    assert indexing.after(60.0) == pytest.approx(1.0, abs=0.01)
    assert Watched().after(60.0, late=0.05) == pytest.approx(0.5, abs=0.01)
    assert Watched().after(60.0, late=2.0) > 0.95
    paused = Watched()
    paused.meter.set_paused(True)
    assert paused.after(60.0) == pytest.approx(1.0, abs=0.01)


def test_a_short_burst_of_work_is_no_load() -> None:
    watched = Watched()
    watched.meter.set_active_visits(100)
    assert watched.after(0.2) < 0.1


def test_pages_that_wait_for_workers_are_a_backlog_in_seconds() -> None:
    watched = Watched()
    watched.meter.set_buffered(200)
    watched.after(60.0, served=20.0)
    assert watched.meter.backlog_seconds == pytest.approx(10.0, rel=0.05)
    watched.meter.set_buffered(0)
    watched.after(0.1)
    assert watched.meter.backlog_seconds == 0.0
    stuck = Watched()
    stuck.meter.set_buffered(200)
    stuck.after(1.0)
    assert stuck.meter.backlog_seconds == MAX_BACKLOG_SECONDS


def written(proc: Path, name: str, on_cpu: float, queued: float) -> None:
    (proc / name).mkdir(exist_ok=True)
    (proc / name / "schedstat").write_text(f"{int(on_cpu * 1e9)} {int(queued * 1e9)} 17\n")


def test_cpu_demand_includes_time_taken_by_other_programs(tmp_path: Path) -> None:
    """The thread had half of a core, and waited for the core the rest of the time."""
    now, pids = [100.0], [7, 8]
    for name in ("thread-self", "7", "8"):
        written(tmp_path, name, 5.0, 5.0)
    demand = CpuUtilisation(lambda: pids, lambda: now[0], tmp_path)
    now[0] = 102.0
    written(tmp_path, "thread-self", 5.9, 5.7)
    assert demand.measure() == pytest.approx(0.8)
    now[0] = 104.0
    written(tmp_path, "7", 7.0, 5.0)
    written(tmp_path, "8", 6.0, 5.0)
    assert demand.measure() == pytest.approx(0.75), "the mean of the workers"


def test_a_new_or_dead_worker_does_not_distort_the_cpu_demand(tmp_path: Path) -> None:
    now, pids = [100.0], [7]
    written(tmp_path, "thread-self", 5.0, 5.0)
    demand = CpuUtilisation(lambda: pids, lambda: now[0], tmp_path)
    for _ in range(3):
        now[0] += 1.0
        pids.append(len(pids) + 7)
        written(tmp_path, str(pids[-1]), 900.0, 0.0)
        assert 0.0 <= demand.measure() <= 1.0
    pids.clear()
    now[0] += 1.0
    assert demand.measure() == 0.0


def test_cpu_demand_of_real_processes_is_a_share() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        demand = CpuUtilisation(lambda: [worker.pid, 2**22 + 1])
        assert 0.0 <= sum(demand.measure() for _ in range(5)) <= 5.0
        worker.communicate(b"\n")
        assert 0.0 <= demand.measure() <= 1.0


def test_cpu_is_measured_once_a_second(tmp_path: Path) -> None:
    now = [0.0]
    written(tmp_path, "thread-self", 0.0, 0.0)
    watched = Watched(CpuUtilisation(list, lambda: now[0], tmp_path))
    now[0] = 1.0
    written(tmp_path, "thread-self", 1.0, 0.0)
    assert watched.after(0.8) == 0.0
    assert watched.after(0.4) > 0.0
