"""A minute without our network or DNS costs no page and abandons no host; a dead host is still dead.

In virtual time. The synthetic web has the truth; its log shows every request.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from fieldmouse.testing import virtual_time
from fieldmouse.testing.faults import Fault, FaultKind, FaultyDns, FaultyFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.stats import Summary
from fieldmouse.url import Host, host_of, hostname_of

from .virtual_time import bottled_crawl, outcomes

DELAY = 2.0
MANY = MeadowOptions(hosts=30, pages=120, seeds=30, seed=8, page_kb=1.0, links=12, gamma=0.4, named=True, latency=0.2)
FEW = MeadowOptions(hosts=3, pages=36, seed=8, page_kb=1.0, links=12, named=True, latency=0.2)
ONE = MeadowOptions(hosts=1, pages=20, seed=8, page_kb=1.0, links=12, named=True, latency=0.2)


def minute(ill: FaultKind, began: float = 10.0, lasted: float = 60.0) -> Fault:
    return Fault(virtual_time.EPOCH + began, virtual_time.EPOCH + began + lasted, ill)


def dns(ill: FaultKind) -> bool:
    return ill in (FaultKind.DNS_FAILS, FaultKind.DNS_SILENT, FaultKind.DNS_DENIES)


def crawl(
    path: Path,
    meadow: Meadow,
    spells: Sequence[Fault] = (),
    *,
    dead: Sequence[Host] = (),
    mute: Sequence[str] = (),
    seeds: Sequence[str] = (),
    **changes: object,
) -> tuple[Summary, FaultyFetcher]:
    return bottled_crawl(
        path,
        lambda clock: FaultyFetcher(meadow, clock, spells, dead=dead),
        seeds or meadow.seeds,
        dns=lambda clock: FaultyDns(meadow, clock, spells, mute=mute),
        **{"politeness__delay": f"{DELAY:g}s", "network__allow_private": True, **changes},
    )


def check_complete(path: Path, meadow: Meadow, summary: Summary, web: FaultyFetcher) -> None:
    rows = outcomes(path)
    stored = sorted(row.url for row in rows if row.kind == "page")
    assert stored == sorted(fact.url for fact in meadow.true_urls() if fact.allowed and fact.status == 200)
    blamed = {row.url: row.reason for row in rows if row.reason in NETWORK}
    assert not blamed
    assert summary.exit == summary.lost == summary.waiting == 0
    check_polite(web)


NETWORK = {
    reason.value
    for reason in (
        OutcomeReason.NO_ADDRESS,
        OutcomeReason.NO_CONNECTION,
        OutcomeReason.TIMEOUT,
        OutcomeReason.CONNECTION_CLOSED,
        OutcomeReason.HOST_ABANDONED,
    )
} | {OutcomeReason.ROBOTS_TXT_UNREACHABLE.value}


def check_polite(web: FaultyFetcher) -> None:
    assert not any(arrival.busy for arrival in web.arrivals)
    visits: dict[str, list[float]] = {}
    for arrival in web.arrivals:
        visits.setdefault(arrival.host, []).append(arrival.t)
    for host, times in visits.items():
        if len(times) > 1:
            assert min(b - a for a, b in itertools.pairwise(times)) >= DELAY - 1e-6, host


OURS = [FaultKind.NO_NETWORK, FaultKind.NO_ROUTE, FaultKind.DNS_FAILS, FaultKind.DNS_SILENT]


@pytest.mark.parametrize(
    "ill", [*OURS, FaultKind.REFUSED, FaultKind.SILENT, FaultKind.DNS_DENIES], ids=lambda ill: ill.name
)
@pytest.mark.parametrize("began", [0.0, 12.3], ids=["at once", "later"])
def test_a_minute_without_network_costs_a_crawl_of_many_hosts_nothing(
    tmp_path: Path, ill: FaultKind, began: float
) -> None:
    meadow = Meadow(MANY)
    # Slow enough for addresses, which are cached for a minute, to be looked up again.
    summary, web = crawl(tmp_path / "c", meadow, [minute(ill, began)], politeness__delay="12s")
    check_complete(tmp_path / "c", meadow, summary, web)


@pytest.mark.parametrize("ill", OURS, ids=lambda ill: ill.name)
@pytest.mark.parametrize(
    ("options", "lasted"), [(ONE, 60.0), (FEW, 900.0)], ids=["one host for a minute", "three for longer"]
)
def test_an_outage_is_recognised_in_a_crawl_of_few_hosts_too(
    tmp_path: Path, options: MeadowOptions, ill: FaultKind, lasted: float, caplog: pytest.LogCaptureFixture
) -> None:
    meadow = Meadow(options)
    with caplog.at_level(logging.WARNING):
        summary, web = crawl(tmp_path / "c", meadow, [minute(ill, 0.0 if dns(ill) else 7.0, lasted)])
    check_complete(tmp_path / "c", meadow, summary, web)
    said = [record.getMessage() for record in caplog.records]
    assert sum("no network: waiting" in line for line in said) == 1
    assert sum("the network is back after" in line for line in said) == 1
    assert len(web.unsent) < 60, "the wire is not hammered while it is gone"


def test_the_user_is_warned_once_and_fetching_pauses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    meadow = Meadow(MANY)
    spell = minute(FaultKind.NO_NETWORK, 12.0, 600.0)
    with caplog.at_level(logging.WARNING):
        summary, web = crawl(tmp_path / "c", meadow, [spell])
    check_complete(tmp_path / "c", meadow, summary, web)
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(";")[0] for line in said if "network" in line][:1] == ["no network: waiting"]
    assert sum("the network is back after" in line for line in said) == 1
    late = [t for t, _ in web.unsent if t > spell.began + 30.0]
    assert len(late) < 3 * 570 / 30, "one round of three hosts now and then, and nobody else"


@pytest.mark.parametrize(
    "ill", [FaultKind.NO_NETWORK, FaultKind.REFUSED, FaultKind.DNS_FAILS], ids=lambda ill: ill.name
)
def test_a_time_limit_stops_a_waiting_crawl_and_resume_completes_it(tmp_path: Path, ill: FaultKind) -> None:
    meadow = Meadow(MANY)
    spell = minute(ill, 0.0 if dns(ill) else 5.0, 500.0)
    first, _ = crawl(tmp_path / "c", meadow, [spell], crawl__time="100s")
    assert first.exit == 3
    assert first.seconds < 107.0
    assert first.waiting > 0
    summary, web = bottled_crawl(
        tmp_path / "c",
        lambda clock: FaultyFetcher(meadow, clock, [spell]),
        meadow.seeds,
        epoch=virtual_time.EPOCH + 120.0,
        dns=lambda clock: FaultyDns(meadow, clock, [spell]),
        politeness__delay=f"{DELAY:g}s",
        network__allow_private=True,
    )
    check_complete(tmp_path / "c", meadow, summary, web)


def dead_of(meadow: Meadow, share: float) -> list[Host]:
    hosts = [Host(site.origin) for site in meadow.plan.sites]
    return hosts[len(hosts) - round(share * len(hosts)) :]


@pytest.mark.parametrize("share", [0.03, 0.5, 0.9])
def test_any_number_of_dead_hosts_is_abandoned_and_the_others_are_crawled(
    tmp_path: Path, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    meadow = Meadow(MANY)
    dead = dead_of(meadow, share)
    with caplog.at_level(logging.WARNING):
        summary, web = crawl(tmp_path / "c", meadow, dead=dead, seeds=meadow.seeds[::-1])
    rows = outcomes(tmp_path / "c")
    stored = {row.url for row in rows if row.kind == "page"}
    alive = {f.url for f in meadow.true_urls() if f.allowed and f.status == 200 and host_of(f.url) not in dead}
    reachable = {row.url for row in rows if host_of(row.url) not in dead}
    assert stored == alive & reachable
    assert len(stored) > 0.8 * len(alive)
    assert {row.reason for row in rows if host_of(row.url) in dead} <= NETWORK
    assert {host_of(row.url) for row in rows} >= set(dead)
    assert summary.exit == summary.lost == summary.waiting == 0
    check_polite(web)
    assert not [r for r in caplog.records if "no network" in r.getMessage()]
    assert summary.seconds < 1800.0


def test_a_crawl_of_only_dead_hosts_ends(tmp_path: Path) -> None:
    meadow = Meadow(MANY)
    summary, _ = crawl(tmp_path / "c", meadow, dead=dead_of(meadow, 1.0))
    assert (summary.exit, summary.waiting, summary.failed) == (1, 0, len(meadow.seeds))


def test_names_without_name_servers_are_abandoned_while_others_resolve(tmp_path: Path) -> None:
    meadow = Meadow(MANY)
    mute = [hostname_of(host) for host in dead_of(meadow, 0.2)]
    summary, web = crawl(tmp_path / "c", meadow, mute=mute)
    rows = outcomes(tmp_path / "c")
    lost = [row for row in rows if hostname_of(host_of(row.url)) in mute]
    assert lost
    assert {row.reason for row in lost} == {OutcomeReason.NO_ADDRESS.value}
    assert not {row.reason for row in rows if row not in lost} & NETWORK
    assert summary.exit == summary.waiting == 0
    assert summary.seconds < 3600.0
    check_polite(web)


def test_many_nonexistent_names_are_accepted_as_nonexistent(tmp_path: Path) -> None:
    meadow = Meadow(MANY)
    seeds = [*meadow.seeds, *(f"http://nobody-{n}.test/" for n in range(30))]
    summary, web = crawl(tmp_path / "c", meadow, seeds=seeds)
    rows = outcomes(tmp_path / "c")
    assert sum(row.reason == OutcomeReason.NO_ADDRESS.value for row in rows) == 30
    assert summary.exit == summary.waiting == 0
    check_polite(web)


def test_out_of_descriptors_a_crawl_continues_with_lower_concurrency_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    meadow = Meadow(MANY)
    with caplog.at_level(logging.WARNING):
        summary, web = crawl(tmp_path / "c", meadow, [minute(FaultKind.NO_DESCRIPTORS)])
    check_complete(tmp_path / "c", meadow, summary, web)
    said = [record.getMessage() for record in caplog.records]
    assert any("out of file descriptors" in line for line in said)
    assert not any("no network" in line for line in said)
