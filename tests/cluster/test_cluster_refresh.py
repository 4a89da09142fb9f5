"""Agents as processes that keep a changing meadow fresh, on a real server."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fieldmouse.storage.checkpoint import read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.outcome_log_reader import outcome_rows
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.types.outcome import OutcomeRow
from meadowland import running_meadow
from whole import crawling

from .audits import audit_of_server
from .coordinators import ServerProcess

DELAY = 0.05
PATIENCE = 240.0  # seconds until the test gives up


def known(path: Path) -> list[OutcomeRow]:
    """Durable pages in a directory that an agent may be writing to."""
    if not (path / "crawl.json").exists():
        return []
    home = CrawlDir.open(path)
    last = read_checkpoint(home)
    return list(outcome_rows(home, length=sealed_outcome_bytes(last))) if last is not None else []


def wait_until(reached: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < until, "nothing goes on"
        time.sleep(0.2)


def polled(paths: Sequence[Path]) -> Counter[str]:
    return Counter(str(row.url) for path in paths for row in known(path) if row.polled)


@pytest.mark.timeout(600)
def test_agents_poll_their_pages_and_a_killed_agent_continues(server: ServerProcess, tmp_path: Path) -> None:
    where = ("--coordinator", server.url, "--crawl", "fieldmouse")
    homes = [tmp_path / "a", tmp_path / "b"]
    server.client().flushall()
    changing = {"changing": 1.0, "change_every": 4.0, "rewriting": True, "busy": 0.0, "noindex": 0.0}
    with running_meadow(hosts=6, pages=40, seed=4, page_kb=1.0, links=8, **changing) as meadow:
        words = [word for seed in meadow.seeds for word in ("--seed", seed)]
        words += ["--scope", "web", "--delay", f"{DELAY}s"]
        refresh = "refresh.on=true refresh.budget=10/s refresh.policy=uniform"
        settled = f"{refresh} cluster.lease=3s cluster.heartbeat=500ms".split()
        words += [word for value in settled for word in ("--set", value)]
        mine = ("--set", "storage.checkpoint=500ms", "--allow-private")
        truth = meadow.pages()
        agents = [
            crawling.start("agent", homes[0], *where, *words, *mine),
            crawling.start("agent", homes[1], *where, *mine),
        ]
        try:
            wait_until(lambda: len(polled(homes)) > len(truth) / 2)
            os.killpg(agents[1].pid, signal.SIGKILL)
            agents[1].communicate()
            agents[1] = crawling.start("agent", homes[1], *where, *mine)
            before = polled(homes)
            wait_until(lambda: all((polled(homes) - before)[url] for url in truth))
            for path in homes:
                name = json.loads((path / "agent.json").read_text())["agent"]
                crawling.run("cluster", "drain", name, *where)
            told = [json.loads(agent.communicate(timeout=PATIENCE)[0]) for agent in agents]
        finally:
            for agent in agents:
                crawling.end(agent)
        meadow.stop()
        arrivals = meadow.arrivals()
    assert sum(one["changed"] for one in told) > 0
    assert [one["lost"] for one in told] == [0, 0]
    together = crawling.exported(homes[0], "--with", homes[1])
    assert sorted(row["url"] for row in together) == sorted(truth)
    fresh = crawling.run("freshness", homes[0], "--with", homes[1])
    assert fresh["polls"] == sum(polled(homes).values())
    assert fresh["budget"] == pytest.approx(36_000), "they share one budget"
    audit = audit_of_server(server.client())
    audit.check()
    assert not audit.queued
    assert not audit.owed
    assert not audit.holders
    for path in homes:
        assert crawling.run("doctor", path)["healthy"]
    is_polite(arrivals)


def is_polite(arrivals: Sequence[Arrival]) -> None:
    assert not [arrival for arrival in arrivals if arrival.busy], "two requests at once"
    visits: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        visits[arrival.address].append(arrival)
    for each in visits.values():
        for before, after in itertools.pairwise(each):
            assert after.t - before.t >= DELAY, (before, after)
