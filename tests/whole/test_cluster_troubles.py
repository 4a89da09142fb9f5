"""One of two agents has its own failures: with names, with its route to the web, with descriptors.

The other agent can fetch these hosts, so no URL fails for that. Hosts that no agent can reach fail, and
the crawl ends.

In virtual time, with coordinators in memory. The synthetic web has the truth, and its log every request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from fieldmouse.clock import Clock
from fieldmouse.crawler.retry_failed import RetryCounts, RetryFailed
from fieldmouse.testing import virtual_time
from fieldmouse.testing.faults import FaultKind
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.stats import Summary
from fieldmouse.url import Host, Url, host_of, hostname_of

from .pair import MEADOW, Pair, allowed, check_polite
from .virtual_time import outcomes

CASES = [
    (FaultKind.NO_DESCRIPTORS, "priced"),
    (FaultKind.DNS_FAILS, "priced"),
    (FaultKind.DNS_SILENT, "priced"),
    (FaultKind.DNS_DENIES, "priced"),
    (FaultKind.DNS_DENIES, "hash"),
    (FaultKind.REFUSED, "priced"),
    (FaultKind.REFUSED, "hash"),
]
"""A silent nameserver and a failing lookup look the same here; a lost network or route is tested in
`test_network_own_trouble`."""


@pytest.mark.parametrize(("ill", "policy"), CASES, ids=lambda each: getattr(each, "name", each))
def test_another_agent_fetches_hosts_that_one_cannot_reach(tmp_path: Path, ill: FaultKind, policy: str) -> None:
    """And soon: a good agent alone takes 16 s. A hashed host may wait for the bad agent for a lease."""

    async def life(clock: Clock) -> tuple[Pair, dict[str, Summary], float]:
        pair = Pair(tmp_path, clock, policy=policy)
        await pair.start("bad", [ill])
        await pair.start("good")
        return pair, await pair.ended(), clock.now() - virtual_time.EPOCH

    pair, summaries, seconds = virtual_time.run_in_virtual_time(life)
    rows = pair.rows()
    assert not [(row.url, row.reason) for row in rows if row.reason in BLAMED]
    assert sorted(row.url for row in rows if row.kind == "page") == sorted(allowed(pair.meadow))
    assert all(summary.exit == summary.lost == 0 for summary in summaries.values())
    assert seconds < 60.0 or policy == "hash"
    check_polite(pair.arrivals())


BLAMED = {
    OutcomeReason.NO_ADDRESS,
    OutcomeReason.NO_CONNECTION,
    OutcomeReason.TIMEOUT,
    OutcomeReason.CONNECTION_CLOSED,
    OutcomeReason.HOST_ABANDONED,
    OutcomeReason.ROBOTS_TXT_UNREACHABLE,
}


@pytest.mark.parametrize("servers", [1, 2])
def test_an_unreachable_host_is_abandoned_after_one_more_agent_tried(tmp_path: Path, servers: int) -> None:
    """Hosts that are dead for all agents, and one whose name does not exist."""
    meadow = Meadow(MEADOW)
    hosts = sorted({host_of(Url(url)) for url in allowed(meadow)} - {host_of(Url(url)) for url in meadow.seeds})
    dead, nameless = hosts[:2], hosts[2]

    async def life(clock: Clock) -> Pair:
        pair = Pair(tmp_path, clock, dead=dead, servers=servers)
        pair.nameless = hostname_of(nameless)
        await pair.start("east")
        await pair.start("west")
        summaries = await pair.ended()
        assert all(summary.exit == summary.lost == 0 for summary in summaries.values())
        return pair

    pair = virtual_time.run_in_virtual_time(life)
    rows = pair.rows()
    failed = {host_of(row.url) for row in rows if row.reason in BLAMED}
    assert failed == {*dead, nameless}
    unreachable = {url for url in allowed(meadow) if host_of(Url(url)) in failed}
    stored = [row.url for row in rows if row.kind == "page"]
    assert len(stored) == len(set(stored))
    assert set(stored) >= {url for url in allowed(meadow) - unreachable if on_the_way(url, rows)}
    for host in dead:
        tries = [(at, name) for name, web in pair.webs.items() for at, where in web.unsent if where == host]
        assert len({name for _, name in tries}) == 2, "both have tried"
        assert len(tries) <= 5, "four times, as a crawl alone does, and once more by the other"
    check_polite(pair.arrivals())


def on_the_way(url: str, rows: Sequence[OutcomeRow]) -> bool:
    """Whether the crawl has seen it: pages linked only by dead hosts are unknown."""
    return any(row.url == url for row in rows)


def test_a_single_agent_decides_alone(tmp_path: Path) -> None:
    async def life(clock: Clock) -> Pair:
        pair = Pair(tmp_path, clock)
        await pair.start("bad", [FaultKind.REFUSED])
        await pair.ended()
        return pair

    pair = virtual_time.run_in_virtual_time(life)
    assert {row.reason for row in pair.rows()} <= BLAMED
    assert len(pair.rows()) == len(pair.meadow.seeds)


def test_an_agent_offline_for_a_week_does_not_delay_others(tmp_path: Path) -> None:
    async def life(clock: Clock) -> tuple[Pair, float]:
        pair = Pair(tmp_path, clock)
        await pair.start("bad", [FaultKind.NO_NETWORK], (3.0, 7 * 86400.0))
        await pair.start("good")
        await pair.ended()
        return pair, clock.now() - virtual_time.EPOCH

    pair, seconds = virtual_time.run_in_virtual_time(life)
    assert sorted(row.url for row in pair.rows() if row.kind == "page") == sorted(allowed(pair.meadow))
    assert seconds < 60.0


@pytest.mark.parametrize("agents", [1, 2])
def test_a_dead_host_with_only_polls_left_is_abandoned(agents: int, tmp_path: Path) -> None:
    """Known pages of an agent are its own: no other agent is sent there to decide."""

    async def life(clock: Clock) -> tuple[list[float], list[OutcomeRow]]:
        pair = Pair(tmp_path, clock, policy="hash")
        pair.settings = pair.settings.override(
            {"refresh.on": True, "refresh.budget": "3600/h", "refresh.policy": "uniform"}
        )
        names = ["east", "west"][:agents]
        for name in names:
            await pair.start(name)
        await clock.sleep(100.0)
        whose: dict[Host, set[str]] = {}
        for name in names:
            for row in outcomes(tmp_path / name):
                if row.kind == "page":
                    whose.setdefault(host_of(row.url), set()).add(name)
        dead, died = min(host for host, has in whose.items() if len(has) == 1), clock.now()
        for name in names:
            pair.webs[name].kill_host(dead)
        await clock.sleep(1500.0)
        tries = [at - died for name in names for at, host in pair.webs[name].unsent if host == dead]
        for name in names:
            await pair.kill(name)
        rows = [row for row in pair.rows() if host_of(row.url) == dead and row.polled and row.at > died]
        return tries, rows

    tries, rows = virtual_time.run_in_virtual_time(life)
    assert 1 < len([at for at in tries if at >= 0.0]) < 12
    assert rows
    assert {row.kind for row in rows} == {"failed"}


def board_books(pair: Pair) -> tuple[int, int, Counter[str]]:
    """Seen, settled, and by kind, on all servers together."""
    ledgers = [server.crawls["fieldmouse"] for server in pair.servers]
    kinds = Counter[str]()
    for ledger in ledgers:
        kinds.update(ledger.kinds)  # a sum of counters would leave out negative ones
    return sum(len(ledger.seen) for ledger in ledgers), sum(ledger.settled for ledger in ledgers), kinds


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("again", ["good", "bad"])
def test_failures_of_all_agents_are_retried_once_and_fetched(tmp_path: Path, servers: int, again: str) -> None:
    """One agent alone gave all up. After its retry any agent fetches; a second retry does nothing."""
    told: list[RetryCounts] = []

    async def life(clock: Clock) -> tuple[Pair, list[dict[str, Summary]]]:
        pair = Pair(tmp_path, clock, servers=servers)
        await pair.start("bad", [FaultKind.DNS_DENIES])
        ends = [await pair.ended()]
        await pair.start("bad", [FaultKind.REFUSED] if again == "good" else (), retry_failed=RetryFailed(told.append))
        if again == "good":
            await clock.sleep(2.0)  # the coordinator knows: an agent that joins a finished crawl ends at once
            await pair.start("good")
        ends.append(await pair.ended())
        await pair.start("bad", retry_failed=RetryFailed(told.append))
        ends.append(await pair.ended())
        return pair, ends

    pair, ends = virtual_time.run_in_virtual_time(life)
    seeds = len(pair.meadow.seeds)
    assert told == [RetryCounts(seeds, seeds), RetryCounts(0, 0)]
    assert ends[0]["bad"].failed == seeds
    assert sorted(row.url for row in pair.rows() if row.kind == "page") == sorted(allowed(pair.meadow))
    assert not [row for row in pair.rows() if row.reason in BLAMED]
    assert all(summary.exit == summary.lost == 0 for some in ends[1:] for summary in some.values())
    seen, settled, kinds = board_books(pair)
    assert seen == settled == kinds.total()
    assert kinds["page"] == len(allowed(pair.meadow))
    check_polite(pair.arrivals())


@pytest.mark.parametrize("after", [0.001, 0.3, 1.0, 2.0, 4.0, 8.0])
def test_a_kill_during_retry_failed_loses_and_double_counts_nothing(tmp_path: Path, after: float) -> None:
    async def life(clock: Clock) -> Pair:
        pair = Pair(tmp_path, clock)
        await pair.start("bad", [FaultKind.DNS_DENIES])
        await pair.ended()
        await pair.start("bad", retry_failed=RetryFailed(lambda forgiven: None))
        await clock.sleep(after)
        await pair.kill("bad")
        await pair.start("bad", retry_failed=RetryFailed(lambda forgiven: None))
        summaries = await pair.ended()
        assert summaries["bad"].exit == summaries["bad"].lost == 0
        return pair

    pair = virtual_time.run_in_virtual_time(life)
    assert sorted(row.url for row in pair.rows() if row.kind == "page") == sorted(allowed(pair.meadow))
    seen, settled, kinds = board_books(pair)
    assert seen == settled == kinds.total()
    assert kinds["page"] == len(allowed(pair.meadow))
