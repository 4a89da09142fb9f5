"""Withdrawn failures followed by another incident: each URL is fetched, and counts once."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from cluster.memory_rebuilder import MemoryRebuilder
from fieldmouse.clock import Clock
from fieldmouse.cluster.client.identity import read_original_identity
from fieldmouse.cluster.coordinator import AgentId
from fieldmouse.crawler.retry_failed import RetryCounts, RetryFailed
from fieldmouse.doctor.repair.rebuild_coordinator import open_agent_directory, rebuild_with_agents
from fieldmouse.errors import CoordinatorUnreachable
from fieldmouse.testing import virtual_time
from fieldmouse.testing.faults import FaultKind

from .pair import Pair, allowed
from .test_cluster_troubles import board_books


def retry_failed() -> RetryFailed:
    return RetryFailed(lambda forgiven: None)


async def all_failed(pair: Pair) -> None:
    """One agent alone has given up all hosts."""
    await pair.start("bad", [FaultKind.DNS_DENIES])
    await pair.ended()


async def complete(pair: Pair) -> Pair:
    async with asyncio.timeout(2000.0):
        summaries = await pair.ended()
    for summary in summaries.values():
        assert summary.lost == 0
        assert summary.whole is not None
        assert summary.exit == (0 if summary.pages or summary.whole.pages else 1)
    return pair


def check(pair: Pair) -> None:
    seen, settled, kinds = board_books(pair)
    assert {row.url for row in pair.rows() if row.kind == "page"} == allowed(pair.meadow)
    assert seen == settled == kinds.total()
    assert min(kinds.values()) >= 0


async def rebuild(pair: Pair, clock: Clock) -> None:
    pair.servers[0].crawls.clear()
    await clock.sleep(100.0)
    members = [open_agent_directory(pair.path / "bad", "fieldmouse")]
    await rebuild_with_agents(MemoryRebuilder(pair.servers[0]), members, "fieldmouse", clock.now())


@pytest.mark.parametrize("after", [0.5, 2.0, 120.0])
def test_withdrawn_failures_survive_a_lost_and_rebuilt_coordinator(after: float, tmp_path: Path) -> None:
    async def life(clock: Clock) -> Pair:
        pair = Pair(tmp_path, clock)
        await all_failed(pair)
        await pair.start("bad", [FaultKind.DNS_SILENT], retry_failed=retry_failed())
        await clock.sleep(after)
        await pair.kill("bad")
        await rebuild(pair, clock)
        await pair.start("bad")
        return await complete(pair)

    check(virtual_time.run_in_virtual_time(life))


@pytest.mark.parametrize("heir", ["bad", "good"])
def test_urls_of_a_forgotten_agent_are_fetched_again(heir: str, tmp_path: Path) -> None:
    async def life(clock: Clock) -> Pair:
        pair = Pair(tmp_path, clock)
        await all_failed(pair)
        await pair.start("bad", [FaultKind.DNS_SILENT], retry_failed=retry_failed())
        await clock.sleep(2.0)
        await pair.kill("bad")
        who = read_original_identity(tmp_path / "bad")
        assert who is not None
        await pair.board().forget_agent(who.agent, again=True)
        await clock.sleep(20.0)
        await pair.start(heir)
        return await complete(pair)

    check(virtual_time.run_in_virtual_time(life))


@pytest.mark.parametrize("later", [0.0, 3.0, 4000.0])
def test_a_forgotten_agent_returns_and_retries_its_failures(later: float, tmp_path: Path) -> None:
    async def life(clock: Clock) -> Pair:
        pair = Pair(tmp_path, clock)
        await all_failed(pair)
        who = read_original_identity(tmp_path / "bad")
        assert who is not None
        await pair.board().forget_agent(who.agent, again=True)
        if later:
            await pair.start("good")
            await clock.sleep(later)
        await pair.start("bad", retry_failed=retry_failed())
        return await complete(pair)

    check(virtual_time.run_in_virtual_time(life))


@pytest.mark.parametrize("seconds", [5.0, 60.0])
def test_unreported_failures_of_an_expired_lease_are_retried(seconds: float, tmp_path: Path) -> None:
    """The failures come too late to count, since the URLs wait again; so they cannot be withdrawn."""

    async def life(clock: Clock) -> Pair:
        pair = Pair(tmp_path, clock)

        async def deaf(*words: object) -> NoReturn:
            raise CoordinatorUnreachable("it does not answer", "wait")

        await pair.start("bad", [FaultKind.DNS_DENIES])
        crew, _ = pair.crews["bad"]
        network = crew.stages.cluster
        assert network is not None
        network._board.ack = deaf  # type: ignore[method-assign]
        while not len(network._calls.outbox) or crew.stages.indexing.in_flight.tally.failed < 3:
            await clock.sleep(0.1)
        await clock.sleep(0.2)
        await pair.kill("bad")
        await clock.sleep(seconds)
        passer_by = pair.board()
        await passer_by.join(AgentId("other", 1), 15.0)  # fences overdue agents
        await passer_by.leave(AgentId("other", 1))
        await pair.start("bad", retry_failed=retry_failed())
        return await complete(pair)

    check(virtual_time.run_in_virtual_time(life))


def test_a_copied_directory_does_not_retry_failures_of_the_original(tmp_path: Path) -> None:
    told: list[RetryCounts] = []

    async def life(clock: Clock) -> Pair:
        pair = Pair(tmp_path, clock)
        await all_failed(pair)
        shutil.copytree(tmp_path / "bad", tmp_path / "copy")
        await pair.start("bad", [FaultKind.DNS_SILENT], retry_failed=RetryFailed(told.append))
        await pair.start("copy", [FaultKind.DNS_SILENT], retry_failed=RetryFailed(told.append))
        await clock.sleep(2.0)
        for name in ("bad", "copy"):
            await pair.kill(name)
        await clock.sleep(20.0)
        await pair.start("good")
        return await complete(pair)

    pair = virtual_time.run_in_virtual_time(life)
    check(pair)
    assert sorted(forgiven.urls for forgiven in told) == [0, len(pair.meadow.seeds)]
