"""Limits of a crawl with several agents on a real server; several servers are tested in memory."""

from __future__ import annotations

import json
from pathlib import Path

from meadowland import running_meadow
from whole import crawling

from .coordinators import ServerProcess
from .test_cluster import Said, asked


def test_two_agents_stop_at_the_page_limit_and_continue_with_a_higher_one(
    server: ServerProcess, tmp_path: Path, capfd: Said
) -> None:
    where = ["--coordinator", server.url, "--crawl", "limited"]
    with running_meadow(hosts=8, pages=240, seed=6, page_kb=1.0, links=10) as meadow:
        seeds = [word for seed in meadow.seeds for word in ("--seed", seed)]
        first = (*seeds, "--scope", "web", "--delay", "50ms")
        for limit, words in ((60, first), (90, ())):
            asking = ("--pages", limit, "--allow-private", "--json")
            agents = [crawling.start("agent", tmp_path / "a", *where, *words, *asking)]
            agents.append(crawling.start("agent", tmp_path / "b", *where, *asking))
            told = [json.loads(process.communicate(timeout=300)[0]) for process in agents]
            assert [(its["exit"], its["stopped_by"]) for its in told] == [(3, "pages")] * 2
            assert sum(its["pages"] for its in told) == limit
            assert asked(capfd, "cluster", "status", *where)["pages"] == limit
