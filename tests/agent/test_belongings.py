"""A host that moves to another crawl takes its robots.txt along."""

from __future__ import annotations

from fieldmouse.agent.frontiers import with_robots_txt
from fieldmouse.clock import ManualClock
from fieldmouse.frontier.exchange import Exchanging
from fieldmouse.frontier.parcel import Belongings
from fieldmouse.robots.exclusions import Exclusions
from fieldmouse.url import Host
from fieldmouse.web.exclusion import Exclusion

HOST = Host("http://a.example")
RULES = Exclusion.parse(b"User-agent: *\nDisallow: /secret\nCrawl-delay: 3\n", "fieldmouse")


def test_transferred_robots_txt_is_obeyed_until_it_expires() -> None:
    here, there = ManualClock(1000.0), ManualClock(77.0)
    ours, theirs = Exclusions(here, product="fieldmouse"), Exclusions(there, product="fieldmouse")
    learned = Exchanging("a", belongings=lambda host: Belongings(learned=b"rows"))
    sender, receiver = with_robots_txt(learned, ours), with_robots_txt(Exchanging("b"), theirs)
    ours.keep(HOST, RULES, 100.0)
    here.advance(40.0)
    taken = sender.belongings(HOST)
    assert taken.learned == b"rows"
    receiver.unpack(HOST, taken, taken.robots_txt_until - here.now())
    rules = theirs.get(HOST)
    assert rules is not None
    assert (rules.allows("/secret"), rules.allows("/"), rules.crawl_delay) == (False, True, 3.0)
    there.advance(59.0)
    assert theirs.get(HOST) is not None
    there.advance(2.0)
    assert theirs.get(HOST) is None


def test_a_host_without_cached_robots_txt_transfers_none() -> None:
    ours, theirs = (Exclusions(ManualClock(0.0), product="fieldmouse") for _ in range(2))
    taken = with_robots_txt(Exchanging("a"), ours).belongings(HOST)
    with_robots_txt(Exchanging("b"), theirs).unpack(HOST, taken, taken.robots_txt_until)
    assert theirs.get(HOST) is None
