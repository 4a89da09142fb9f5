"""Bounded memory of the decision log."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.frontier.distribution_decision_log import DecisionLog, read_runs
from fieldmouse.url import Host

HOSTS = 150_000


def test_resuming_with_many_hosts_writes_the_decision_log_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "decisions.log"
    log = DecisionLog(path, limit=1 << 30, policy="index", options={})
    log.run_started(0.0, unlisted=0, batch=32)
    for number in range(HOSTS):
        log.backlog_restored(Host(f"http://h{number}.example"), number)
    (told,) = read_runs(path)
    assert len(told) > HOSTS, "most of it is written before the first flush"
    log.close()
    (whole,) = read_runs(path)
    assert [second for _, _, second in whole.events()] == list(range(HOSTS))


def test_the_decision_log_ends_before_its_names_fill_the_memory(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "decisions.log", limit=1 << 30, policy="index", options={})
    log.run_started(0.0, unlisted=0, batch=2)
    for start in range(0, 400_000, 2000):
        log.urls_discovered([Host(f"http://{number}.example") for number in range(start, start + 2000)])
    assert log.full
    log.close()
    (run,) = read_runs(tmp_path / "decisions.log")
    assert run.ended == "full"
    assert len(run.names) == len(run) < 400_000
