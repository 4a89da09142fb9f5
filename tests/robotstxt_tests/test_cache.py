"""Bounded robots.txt cache: no host can evict all others."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.clock import WallClock
from fieldmouse.robotstxt.parser import RobotsTxt, RobotsTxtCache
from fieldmouse.types.outcome import Response
from fieldmouse.url import Host, Url

US = "fieldmouse"
SMALL = RobotsTxt.parse(b"User-agent: *\nDisallow: /a\n", US)
LARGE = RobotsTxt.parse(b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % n for n in range(99)), US)


def host(name: object) -> Host:
    return Host(f"http://{name}.test")


def test_the_longest_file_is_evicted_first() -> None:
    exclusions = RobotsTxtCache(WallClock(), product=US, memory=LARGE.size + 2 * SMALL.size)
    exclusions.put(host("small"), SMALL, 60.0)
    for n in range(5):
        exclusions.put(host(n), LARGE, 60.0)
    assert exclusions.get(host("small")) is SMALL
    assert sum(exclusions.get(host(n)) is LARGE for n in range(5)) == 1


def test_the_estimated_size_of_a_file_matches_its_memory() -> None:
    for lines in (
        [b"Disallow: /" + b"\xff" * 20_000],
        [b"Allow: /%d" % n + b"*" + b"\xff" * 20_000 for n in range(3)],
        [b"Disallow: /%d" % n + b"a" * 2000 for n in range(50)],
        [b"Disallow: /%d" % n for n in range(3000)],
        [b"Disallow: /%d" % n + b"*ab" * 700 for n in range(50)],
        [b"Sitemap: http://h.test/%d" % n + b"a" * 2000 for n in range(50)],
        [b"Sitemap: http://h.test/" + b"\xff" * 20_000],
    ):
        text = b"User-agent: *\n" + b"\n".join(lines)
        tracemalloc.start()
        rules = RobotsTxt.parse(text, US)
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert taken / 2 <= rules.size + 4096 <= 3 * taken + 8192, (lines[0][:30], taken, rules.size)


def test_the_longest_files_stay_within_the_memory_limit() -> None:
    rules = RobotsTxt.parse(b"User-agent: *\n" + b"Sitemap: http://h.test/" + b"a" * 400_000, US)
    exclusions = RobotsTxtCache(WallClock(), product=US, memory=2_000_000)
    for n in range(50):
        exclusions.put(host(n), rules, 60.0)
    assert sum(exclusions.get(host(n)) is rules for n in range(50)) == 4


def test_the_least_recently_used_host_is_evicted_first() -> None:
    exclusions = RobotsTxtCache(WallClock(), product=US, size=3)
    for n in range(3):
        exclusions.put(host(n), SMALL, 60.0)
    exclusions.get(host(0))
    exclusions.put(host(3), SMALL, 60.0)
    assert [exclusions.get(host(n)) is not None for n in range(4)] == [True, False, True, True]


def test_replaced_and_expired_files_do_not_count() -> None:
    exclusions = RobotsTxtCache(WallClock(), product=US, memory=2 * LARGE.size)
    for _ in range(10):
        exclusions.put(host("again"), LARGE, 60.0)
    exclusions.put(host("old"), SMALL, 0.0)
    assert exclusions.get(host("old")) is None
    assert exclusions.get(host("again")) is LARGE


def test_a_long_file_parsed_in_a_thread_gives_the_same_rules() -> None:
    text = b"User-agent: *\nDisallow: /a\n" + b"#\n" * 50_000
    for body, headers in ((text, ()), (gzip.compress(text), (("content-encoding", "gzip"),))):
        answer = Response(200, b"", body, b"", "127.0.0.1", 0.0, 0.0, 0.0, headers)
        rules = asyncio.run(
            RobotsTxtCache(WallClock(), product=US).parse_response(answer, Url("http://h.test/robots.txt"), 0)
        )
        assert isinstance(rules, RobotsTxt)
        assert (rules.allows("/a"), rules.allows("/b")) == (False, True)


def test_robots_txt_of_a_leased_host_is_obeyed_elsewhere_until_it_expires() -> None:
    here, there = AutoAdvanceClock(1000.0), AutoAdvanceClock(77.0)
    ours, theirs = RobotsTxtCache(here, product=US), RobotsTxtCache(there, product=US)
    ours.put(host("a"), SMALL, 100.0)
    here.advance(40.0)
    text, until = ours.export_host(host("a"))
    theirs.import_host(host("a"), text, until - here.now())
    rules = theirs.get(host("a"))
    assert rules is not None
    assert (rules.allows("/a"), rules.allows("/")) == (False, True)
    there.advance(59.0)
    assert theirs.get(host("a")) is not None
    there.advance(2.0)
    assert theirs.get(host("a")) is None


def test_a_host_without_known_robots_txt_brings_none() -> None:
    ours, theirs = (RobotsTxtCache(AutoAdvanceClock(0.0), product=US) for _ in range(2))
    theirs.import_host(host("a"), *ours.export_host(host("a")))
    assert theirs.get(host("a")) is None
