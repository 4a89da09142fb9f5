"""The meadow's plan: sizes, addresses, paths, and changes."""

from __future__ import annotations

import gzip
import math
import re
from ipaddress import ip_address, ip_network
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.errors import UsageError
from fieldmouse.testing.meadow.addresses import HostAddresses
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.page import compress_fast, compress_well, gzip_member, join_plain, store_uncompressed
from fieldmouse.testing.meadow.paths import child_pages, original_page_of, parse_path, path_of
from fieldmouse.testing.meadow.plan import host_sizes
from fieldmouse.testing.meadow.responder import MeadowRequest
from fieldmouse.url import Host, resolve

HUGE = MeadowOptions(hosts=50, pages=5000, sitemaps=1.0, sitemap_only=0.1, duplicates=0.1, change_every=3600.0)

MEADOW = Meadow(HUGE)
CHANGING = [fact.url for fact in MEADOW.true_urls()[:400] if MEADOW.change_rate(fact.url)]


@given(st.integers(1, 300), st.integers(0, 5000), st.floats(0.0, 3.0))
def test_host_sizes_add_up_are_decreasing_and_positive(hosts, more, gamma):
    counts = host_sizes(hosts + more, hosts, gamma)
    assert sum(counts) == hosts + more
    assert min(counts) >= 1
    assert all(a >= b - 1 for a, b in pairwise(counts))


@given(st.floats(0.2, 2.0))
def test_large_hosts_follow_the_power_law(gamma):
    counts = host_sizes(1_000_000, 1000, gamma)
    for i in (2, 5, 10, 50):
        if counts[i - 1] > 100:
            assert math.log(counts[0] / counts[i - 1]) / math.log(i) == pytest.approx(gamma, abs=0.02)


def test_fewer_pages_than_hosts_are_refused_with_a_hint():
    with pytest.raises(UsageError) as refused:
        MeadowOptions(hosts=10, pages=9)
    assert "--pages 10" in refused.value.hint


@given(st.integers(0, 1_000_000), st.integers(0, 1_000_000))
def test_addresses_are_loopback_and_each_is_used_once(a, b):
    addresses = HostAddresses("127.0.0.0/8")
    parts = [int(part) for part in addresses[a].split(".")]
    assert parts[0] == 127
    assert all(0 <= part <= 255 for part in parts)
    assert 1 <= parts[3] <= 254
    assert (addresses[a] == addresses[b]) == (a == b)


@given(st.integers(8, 32), st.integers(0, 2**24 - 1), st.data())
def test_the_addresses_of_a_network_are_in_it_and_each_is_used_once(prefix, number, data):
    network = ip_network((0x0A000000 + number, prefix), strict=False)
    addresses = HostAddresses(str(network))
    places = st.integers(0, len(addresses) - 1)
    a, b = data.draw(places), data.draw(places)
    for place in (0, a, b, len(addresses) - 1):
        assert ip_address(addresses[place]) in network
        assert addresses[place] in addresses
    assert (addresses[a] == addresses[b]) == (a == b)
    for outside in (int(network.network_address) - 1, int(network.broadcast_address) + 1):
        assert str(ip_address(outside)) not in addresses
    if prefix < 31:
        assert addresses[a] not in (str(network.network_address), str(network.broadcast_address))


@pytest.mark.parametrize(
    ("network", "complaint"),
    [
        ("clover", "is not an IPv4 network"),
        ("127.20.0.5/16", "has host bits set"),
        ("::1/128", "is not an IPv4 network"),
        ("8.8.8.0/24", "is a public network"),
        ("127.20.0.0/24", "has 254 addresses for hosts, and 300 are needed"),
    ],
)
def test_a_network_that_cannot_be_is_refused_with_a_hint(network, complaint):
    with pytest.raises(UsageError, match=complaint) as refused:
        MeadowOptions(hosts=300, pages=300, listen=network)
    assert refused.value.hint
    assert MeadowOptions(hosts=300, pages=300, listen="127.20.0.0/24", hosts_per_address=2).addresses == 150


def test_hosts_are_spread_over_places_by_the_seed_alone():
    def places(**options):
        return [site.place for site in Meadow(MeadowOptions(hosts=400, pages=400, **options)).plan.sites]

    assert set(places()) == {1}
    four = places(places=4)
    assert four == places(places=4, port=9, listen="127.20.0.0/16") != places(places=4, seed=8)
    assert all(70 < four.count(place) < 130 for place in (1, 2, 3, 4))


def test_every_page_has_a_unique_normalised_path_that_parses_back():
    for site in MEADOW.plan.sites:
        paths = [path_of(site, page) for page in range(site.size)]
        assert len(set(paths)) == site.size
        for page, path in enumerate(paths):
            assert parse_path(site, path) == (None, page)
            assert resolve(site.origin + path) == site.origin + path


@given(st.text("/abc-19.?=&html%", max_size=20))
def test_an_arbitrary_path_is_a_page_only_if_it_is_that_pages_path(tail):
    site = MEADOW.plan.sites[0]
    place = parse_path(site, "/" + tail)
    if place is not None and place.special is None:
        assert path_of(site, place.number) == "/" + tail


def test_a_few_hops_reach_every_linked_page_and_every_host():
    options = MeadowOptions(hosts=5000, pages=200_000)
    meadow = Meadow(options)
    depth = {0: 0}
    for number in range(options.hosts):
        for host in meadow.plan.sites[number].links_to_sites:
            assert host not in depth
            depth[host] = depth[number] + 1
    assert len(depth) == options.hosts
    assert max(depth.values()) <= 2
    site = meadow.plan.sites[0]
    level = {0: 0}
    for page in range(site.original):
        for child in child_pages(site, page):
            assert child not in level
            level[child] = level[page] + 1
    assert len(level) == site.linked
    assert max(level.values()) <= 4


def test_two_meadows_of_one_seed_are_the_same_and_of_two_are_not():
    options = MeadowOptions(hosts=5, pages=50)
    one, same, other = Meadow(options), Meadow(options), Meadow(MeadowOptions(hosts=5, pages=50, seed=8))
    host = Host("http://127.0.1.1:8000")
    assert one.true_urls() == same.true_urls() != other.true_urls()
    for fact in one.true_urls():
        if fact.url.startswith(host):
            path = fact.url.removeprefix(host)
            assert one.respond(host, path, 1e9) == same.respond(host, path, 1e9)
    assert one.respond(host, "/", 1e9).body != other.respond(host, "/", 1e9).body


def test_pages_have_the_size_and_the_links_that_were_asked_for():
    meadow = Meadow(MeadowOptions(hosts=20, pages=2000, server_error=0, busy=0))
    bodies = [
        meadow.responder.respond(site, MeadowRequest(path_of(site, page)), 1e9).body
        for site in meadow.plan.sites
        for page in range(0, site.size, 3)
    ]
    mean = sum(map(len, bodies)) / len(bodies) / 1024
    links = sum(body.count(b"<a ") for body in bodies) / len(bodies)
    assert mean == pytest.approx(30, rel=0.15)
    assert links == pytest.approx(100, rel=0.15)
    lengths = sorted(map(len, bodies))
    assert lengths[-1] > 3 * lengths[0]


def test_a_copy_is_its_original_byte_for_byte():
    meadow = Meadow(HUGE)
    site = meadow.plan.sites[0]
    copies = range(site.original, site.linked)
    assert copies
    for copy in copies:
        shown = original_page_of(site, copy)
        bodies = [
            meadow.responder.respond(site, MeadowRequest(path_of(site, page)), 1e9)
            for page in (copy, copy, shown, shown)
        ]
        assert bodies[1].body == bodies[3].body


@given(
    st.lists(
        st.tuples(st.sampled_from([compress_well, compress_fast, store_uncompressed]), st.text(max_size=3000)),
        max_size=8,
    )
)
def test_pieces_laid_end_to_end_are_one_gzip_file(parts):
    pieces = [make(text) for make, text in parts]
    assert gzip.decompress(gzip_member(pieces)) == join_plain(pieces) == "".join(text for _, text in parts).encode()


def test_pages_change_as_often_as_they_say():
    meadow = Meadow(HUGE)
    urls = [fact.url for fact in meadow.true_urls() if fact.allowed and meadow.change_rate(fact.url)][:300]
    assert len(urls) == 300
    span = 10 * HUGE.change_every
    expected = sum(meadow.change_rate(url) * span for url in urls)
    seen = sum(len(meadow.change_times(url, 1.7e9, 1.7e9 + span)) for url in urls)
    assert abs(seen - expected) < 5 * math.sqrt(expected)


@settings(max_examples=50)
@given(st.integers(0, 200), st.floats(1e9, 2e9), st.floats(0, 1e5))
def test_a_version_is_new_exactly_when_the_page_changed(k, at, later):
    url = CHANGING[k % len(CHANGING)]
    before, after = MEADOW.page_version(url, at), MEADOW.page_version(url, at + later)
    changes = MEADOW.change_times(url, at, at + later)
    assert (after.number > before.number) == bool(changes)
    assert after.number >= before.number
    if changes:
        assert after.since == changes[-1]
    assert before.since <= at


def test_a_changed_page_shows_another_text_and_the_same_links():
    url = CHANGING[0]
    host, path = Host(url[: url.index("/", 8)]), url[url.index("/", 8) :]
    change = MEADOW.change_times(url, 1e9, 2e9)[0]
    old, new = (MEADOW.respond(host, path, at) for at in (change - 0.001, change))
    if old.status == 500:
        old = MEADOW.respond(host, path, change - 0.001)
    assert old.body != new.body
    hrefs = re.compile(rb'href="([^"]*)"')
    assert hrefs.findall(old.body) == hrefs.findall(new.body)
