"""Real agents with default settings: a late one gets its share of the work."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fieldmouse.api import cluster_admin
from fieldmouse.errors import CoordinatorError
from meadowland import running_meadow
from whole import crawling

from .coordinators import ServerProcess

HOSTS = 60


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not is_so():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.1)


def test_a_late_agent_gets_hosts_that_the_first_one_held(server: ServerProcess, tmp_path: Path) -> None:
    """Only settings that loopback needs are changed. The crawl is far from done when both are stopped."""

    def held(name: str) -> int:
        return getattr(standing().get(name), "hosts", 0)

    def standing() -> dict[str, cluster_admin.AgentSummary]:
        with suppress(CoordinatorError):  # the crawl does not exist yet
            return {Path(its.directory).name: its for its in cluster_admin.cluster_status([server.url], "late").agents}
        return {}

    where = ("--coordinator", server.url, "--crawl", "late")
    with running_meadow(hosts=HOSTS, pages=200 * HOSTS, gamma=0.0, seed=2, page_kb=1.0) as meadow:
        seeds = [word for seed in meadow.seeds for word in ("--seed", seed)]
        agents = [crawling.start("agent", tmp_path / "a", *where, *seeds, "--scope", "web", "--allow-private")]
        try:
            until(lambda: held("a") == HOSTS)
            agents.append(crawling.start("agent", tmp_path / "b", *where, "--allow-private"))
            until(lambda: held("b") >= HOSTS // 3)
            stored = standing()["b"].pages
            until(lambda: standing()["b"].pages >= stored + 40)
            until(lambda: min(held("a"), held("b")) >= HOSTS // 5)  # and the first one is not left without
        finally:
            for agent in agents:
                agent.send_signal(signal.SIGINT)
            told = [json.loads(agent.communicate(timeout=120)[0]) for agent in agents]
    assert all(its["pages"] for its in told)
