"""Limits per site: no site can fill a crawl, and counts survive a kill."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.frontier.durable_parts import FrontierState
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.seen.key_table import KeyNumbering
from fieldmouse.frontier.url_lookup import locate_url
from fieldmouse.policy.distribution.registry import POLICIES
from fieldmouse.policy.scope import ExceededLimit, SiteLimits, site_for_limits
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Url, host_of

SEED = 7


def frontier_at(directory: Path, limits: SiteLimits, state: FrontierState | None = None) -> Frontier:
    frontier = Frontier(
        directory,
        key_seed=SEED,
        clock=AutoAdvanceClock(1e6),
        policy=POLICIES["index"](),
        limits=limits,
        state=state,
        resumed_delay=lambda _: 1.0,
    )
    frontier.roll_back_to_checkpoint()
    return frontier


def accepted(frontier: Frontier) -> list[Url]:
    """Draw everything that passed the sieve and was not taken yet."""
    urls = []
    while (visit := frontier.take_visit(1e9)) is not None:
        urls += [ticket.link.url for ticket in visit.tickets]
        frontier.end_visit(visit, visit.state)
        frontier.mark_durably_done([ticket.number for ticket in visit.tickets])
    return urls


names = st.builds(
    lambda name, site, path, port: Url(f"http://{name}.{site}{port}/{path}"),
    st.integers(0, 6).map(lambda n: f"h{n}"),
    st.sampled_from(["bad.example", "good.example", "a.co.uk", "github.io", "wild.test", "localhost"]),
    st.integers(0, 5),
    st.sampled_from(["", ":81"]),
)
pages = st.lists(st.lists(names, max_size=25), max_size=8)


def simply(batches: list[list[Url]], limits: SiteLimits) -> tuple[list[Url], Counter[str]]:
    """Reference implementation: one URL after the other, all sets in memory."""
    taken: dict[Url, None] = {}
    dropped: Counter[str] = Counter()
    hosts: dict[str, set[str]] = {}
    urls: Counter[str] = Counter()
    for batch in batches:
        for url in dict.fromkeys(batch):
            if url in taken:
                continue
            host = host_of(url)
            site = site_for_limits(host)
            known = hosts.setdefault(site, set())
            rule = limits.drop_reason(len(known), urls[site], new_host=host not in known) if site else None
            if rule is not None:
                dropped[rule.value] += 1
                continue
            taken[url] = None
            known.add(host)
            urls[site] += 1
    return list(taken), dropped


@settings(max_examples=60, deadline=None)
@given(pages, st.integers(0, 4), st.integers(0, 12))
def test_site_limits_hold_despite_kills_at_any_moment(batches: list[list[Url]], hosts: int, urls: int) -> None:
    """Every batch is sealed; then the crawl is killed with an unsealed batch, and opened again."""
    limits = SiteLimits(hosts=hosts, urls=urls)
    with tempfile.TemporaryDirectory() as name:
        state = None
        home = Path(name) / "0"
        frontier = frontier_at(home, limits)
        for life, batch in enumerate(batches):
            frontier.discover([Request(url) for url in batch])
            state = frontier.seal().state
            frontier.on_checkpoint_committed()
            frontier.discover([Request(url) for url in batches[life - 1][::-1]])
            frontier.take_visit(0.0)  # sifts the offers
            following = Path(name) / str(life + 1)
            shutil.copytree(home, following)
            frontier.close()
            home, frontier = following, frontier_at(following, limits, state)
        wanted, dropped = simply(batches, limits)
        assert frontier.dropped_links_by_setting == dropped
        assert frontier.seen_count == frontier.waiting_count == len(wanted)
        assert sorted(accepted(frontier)) == sorted(wanted)
        frontier.close()


def test_dropped_links_are_accepted_once_the_limit_is_raised(tmp_path: Path) -> None:
    links = [Request(Url(f"http://{n}.bad.example/")) for n in range(5)]
    frontier = frontier_at(tmp_path, SiteLimits(hosts=2))
    frontier.discover(links)
    state = frontier.seal().state
    frontier.on_checkpoint_committed()
    frontier.close()
    assert (state.seen, frontier.dropped_links_by_setting) == (2, {ExceededLimit.HOSTS.value: 3})
    raised = frontier_at(tmp_path, SiteLimits(hosts=4), state)
    raised.discover(links)
    assert raised.seal().state.seen == 4
    assert raised.dropped_links_by_setting == {ExceededLimit.HOSTS.value: 4}


def test_a_seed_is_accepted_even_if_its_site_is_full(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path, SiteLimits(hosts=1, urls=1))
    seeds = [Request(Url(f"http://{n}.bad.example/"), kind=RequestKind.SEED) for n in range(3)]
    frontier.discover([*seeds, Request(Url("http://0.bad.example/page"))])
    frontier.seal()
    assert frontier.seen_count == 3
    assert frontier.dropped_links_by_setting == {ExceededLimit.URLS.value: 1}


def test_hosts_of_a_crawl_without_site_counts_are_counted_on_opening(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path, SiteLimits())
    frontier.discover([Request(Url(f"http://{n}.bad.example/")) for n in range(3)])
    state = frontier.seal().state
    frontier.on_checkpoint_committed()
    frontier.close()
    old = FrontierState(state.sieve, state.ready, state.queues, state.front, state.hosts)
    again = frontier_at(tmp_path, SiteLimits(hosts=4), old)
    again.discover([Request(Url(f"http://{n}.bad.example/")) for n in range(9)])
    again.seal()
    assert again.total_hosts == 4


def test_look_reports_the_counts_of_a_urls_site(tmp_path: Path) -> None:
    frontier = frontier_at(tmp_path, SiteLimits(hosts=2))
    frontier.discover([Request(Url(f"http://{n % 3}.bad.example/{n}")) for n in range(9)])
    state = frontier.seal().state
    found = locate_url(tmp_path, state, SEED, Url("http://2.bad.example/2"))
    assert (found.site, found.site_hosts, found.site_urls, found.host) == ("bad.example", 2, 6, None)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=3000))
@settings(max_examples=30, deadline=None)
def test_numbers_are_given_in_order_and_found_again(keys: list[int]) -> None:
    numbering = KeyNumbering()
    given_out: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        assert (numbering.find_number(key) >= 0) == ((key or 1) in given_out)
        assert numbering.add_number(key) == place
        given_out.setdefault(key or 1, []).append(place)
    assert len(numbering) == len(keys)
    for key, numbers in given_out.items():
        assert sorted(numbering.numbers_of_key(key)) == numbers
        assert numbering.find_number(key) in numbers
