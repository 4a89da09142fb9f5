"""What a parcel holds, when it may be seen, and who may take it in."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fieldmouse.clock import ManualClock
from fieldmouse.errors import Damaged, FieldmouseError, ForeignParcel
from fieldmouse.frontier import Frontier, FrontierState, open_frontier
from fieldmouse.frontier.exchange import Exchanging
from fieldmouse.frontier.parcel import Belongings, Parcel
from fieldmouse.policy.distribution import POLICIES
from fieldmouse.records import Door, Errand, HostState, Link
from fieldmouse.url import Host, Url

NOW = 1_000_000.0
HOST = Host("http://a.example")
ROBOTS = Belongings(b"User-agent: *\nDisallow: /secret\n", NOW + 86_400.0, b"\x01learned")


class Peer:
    """A crawl that exchanges hosts, as small as it can be."""

    def __init__(self, path: Path, name: str, clock: ManualClock, seed: int = 7, **how: object) -> None:
        self.path, self.name, self.clock, self.seed, self.how = path / name, name, clock, seed, how
        self.open(None)

    def open(self, state: FrontierState | None, hold_before: float | None = None) -> None:
        exchanging = Exchanging(self.name, belongings=lambda host: ROBOTS, **self.how)  # type: ignore[arg-type]
        self.frontier: Frontier = open_frontier(
            self.path, key_seed=self.seed, clock=self.clock, policy=POLICIES["index"](depth=16), state=state,
            resumed_delay=lambda state: state.crawl_delay or 1.0, exchanging=exchanging,
            hold_before=hold_before or 0.0,
        )  # fmt: skip
        self.frontier.begin()
        self.exchange = self.frontier.exchange

    def checkpoint(self) -> FrontierState:
        state = self.frontier.seal().state
        self.frontier.committed()
        return state

    def discover(self, *paths: str) -> None:
        self.frontier.discover([Link(Url(f"{HOST}/{path}")) for path in paths])

    def visit(self, state: HostState | None = None) -> Errand:
        """Take what can be taken and give the host back."""
        errand = self.frontier.take(self.clock.now())
        assert errand is not None
        self.frontier.give_back(errand, state or msgspec.structs.replace(errand.state, address="10.0.0.1"))
        return errand

    def send(self, to: Peer, host: Host = HOST) -> Parcel:
        """The whole way: release, adopt, receipt."""
        self.exchange.release(host, to.name)
        self.checkpoint()
        (serial, path) = max(self.exchange.parcels.items())
        parcel = Parcel(path)
        to.frontier.adopt(path)
        to.checkpoint()
        self.exchange.released(serial)
        self.checkpoint()
        return parcel


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def peers(tmp_path: Path, clock: ManualClock) -> tuple[Peer, Peer]:
    return Peer(tmp_path, "a", clock), Peer(tmp_path, "b", clock)


def test_a_parcel_holds_all_that_is_known_of_the_host(peers: tuple[Peer, Peer]) -> None:
    a, _ = peers
    a.discover("1", "2", "3")
    errand = a.frontier.take(NOW)
    assert errand is not None
    state = HostState("10.0.0.1", NOW + 60.0, NOW + 30.0, crawl_delay=5.0, failures=2, pages=1)
    a.frontier.give_back(errand, state, errand.tickets[1:])
    a.frontier.done([errand.tickets[0].number])
    a.discover("4")
    a.frontier.poll([Link(Url(f"{HOST}/1"), etag="v1", digest="sha1:A")])
    a.checkpoint()
    a.exchange.release(HOST, "b")
    a.discover("4", "5")
    a.checkpoint()
    (path,) = a.exchange.parcels.values()
    parcel = Parcel(path)
    assert (parcel.label.id, parcel.label.to, parcel.label.host) == (("a", 1), "b", HOST)
    assert (parcel.label.state, parcel.label.belongings) == (state, ROBOTS)
    # Two that waited and a poll; one that was found since; the keys of all that were ever accepted.
    assert (parcel.total.owed, parcel.total.found, parcel.total.keys) == (3, 1, 4)
    # One was drawn by nobody yet: it follows when its turn comes.
    assert (a.frontier.waiting, list(a.exchange.undelivered())) == (1, [])
    assert a.frontier.take(NOW + 100.0) is None
    assert (a.frontier.waiting, list(a.exchange.undelivered())) == (1, [(HOST, 1)])


def test_a_host_with_pages_in_the_air_leaves_after_the_next_checkpoint(peers: tuple[Peer, Peer]) -> None:
    a, _ = peers
    a.discover("1", "2")
    errand = a.visit()
    a.exchange.release(HOST, "b")
    a.checkpoint()
    assert a.exchange.parcels == {}, "its pages are with the indexer"
    assert a.frontier.take(NOW + 1e6) is None, "and meanwhile nobody visits it"
    a.frontier.done([ticket.number for ticket in errand.tickets])
    a.checkpoint()
    assert list(a.exchange.parcels) == [1]


def test_a_host_in_a_robots_hands_leaves_when_it_is_given_back(peers: tuple[Peer, Peer]) -> None:
    a, _ = peers
    a.discover("1", "2")
    errand = a.frontier.take(NOW)
    assert errand is not None
    a.exchange.release(HOST, "b")
    a.frontier.done([errand.tickets[0].number])
    a.checkpoint()
    assert a.exchange.parcels == {}
    state = HostState("10.0.0.1", NOW + 9.0, NOW + 9.0)
    a.frontier.give_back(errand, state, errand.tickets[1:])
    a.checkpoint()
    (path,) = a.exchange.parcels.values()
    assert Parcel(path).label.state == state
    assert Parcel(path).total.owed == 1


def test_urls_put_aside_while_only_polls_are_wanted_keep_no_host_here(peers: tuple[Peer, Peer]) -> None:
    a, b = peers
    a.discover("1", "2", "3")
    errand = a.frontier.take(NOW)
    assert errand is not None
    a.frontier.give_back(errand, HostState("10.0.0.1", NOW), errand.tickets)
    a.frontier.poll([Link(Url(f"{HOST}/known"))])
    a.clock.advance(10.0)
    polls = a.frontier.take(a.clock.now(), only_polls=True)
    assert polls is not None
    a.frontier.done([ticket.number for ticket in polls.tickets])
    a.frontier.give_back(polls, polls.state)
    assert a.frontier.waiting == 3
    parcel = a.send(b)
    assert (parcel.total.owed, a.frontier.waiting) == (3, 0)


def test_urls_that_wait_for_the_end_of_a_refresh_keep_no_host_here(peers: tuple[Peer, Peer]) -> None:
    a, b = peers
    a.discover("1", "2", "3")
    a.visit()
    state = a.checkpoint()
    a.frontier.close()
    a.open(state, hold_before=NOW + 1.0)
    assert (a.frontier.held, a.frontier.waiting) == (3, 3)
    parcel = a.send(b)
    assert (parcel.total.owed, a.frontier.waiting, a.frontier.held) == (3, 0, 0)


def test_a_host_whose_robot_died_with_us_leaves_with_its_queue(peers: tuple[Peer, Peer]) -> None:
    a, b = peers
    a.discover(*map(str, range(40)))
    assert a.frontier.take(NOW) is not None
    a.exchange.release(HOST, "b")
    state = a.checkpoint()
    assert a.exchange.parcels == {}, "a robot has it"
    a.frontier.close()
    a.open(state)
    a.send(b)
    assert (a.frontier.seen, a.frontier.waiting) == (0, 0)
    assert (b.frontier.seen, b.frontier.waiting) == (40, 40)


def test_when_a_host_may_be_asked_again_is_known_before_it_leaves(peers: tuple[Peer, Peer]) -> None:
    a, _ = peers
    a.discover("1")
    errand = a.frontier.take(NOW)
    assert errand is not None
    a.frontier.done([errand.tickets[0].number])  # its page is stored before the robot is home
    a.exchange.release(HOST, "b")
    a.checkpoint()
    assert a.exchange.parcels == {}
    state = HostState("10.0.0.1", NOW + 9.0, NOW + 9.0)
    a.frontier.give_back(errand, state)
    a.checkpoint()
    (path,) = a.exchange.parcels.values()
    assert Parcel(path).label.state == state


def test_neither_parcel_nor_receipt_is_shown_before_its_checkpoint_counts(peers: tuple[Peer, Peer]) -> None:
    a, b = peers
    a.discover("1")
    a.exchange.release(HOST, "b")
    a.frontier.seal()
    assert a.exchange.parcels == {}
    a.frontier.committed()
    (path,) = a.exchange.parcels.values()
    b.frontier.adopt(path)
    assert not b.exchange.has_adopted("a", 1)
    b.frontier.seal()
    assert not b.exchange.has_adopted("a", 1)
    b.frontier.committed()
    assert b.exchange.has_adopted("a", 1)
    a.exchange.released(1)
    assert path.exists(), "until it is forgotten for good"
    a.checkpoint()
    assert not path.exists()


def test_a_parcel_is_taken_in_once_however_often_it_comes(peers: tuple[Peer, Peer], tmp_path: Path) -> None:
    a, b = peers
    a.discover("1", "2")
    errand = a.frontier.take(NOW)
    assert errand is not None
    a.frontier.give_back(errand, errand.state, errand.tickets)
    a.exchange.release(HOST, "b")
    a.checkpoint()
    (path,) = a.exchange.parcels.values()
    assert Parcel(path).total.owed == 2
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    for _ in range(3):
        b.frontier.adopt(copy)
    assert b.frontier.waiting == b.frontier.seen == 2
    state = b.checkpoint()
    b.frontier.close()
    b.open(state)
    b.frontier.adopt(copy)
    assert b.frontier.waiting == b.frontier.seen == 2
    a.exchange.released(1)
    a.checkpoint()
    for _ in range(40):  # long after both have forgotten it one by one
        b.send(a)
        a.send(b)
    assert len(b.frontier._parts.shipments._taken["a"].serials) < 5  # type: ignore[union-attr]
    b.frontier.adopt(copy)
    assert b.frontier.waiting == b.frontier.seen == 2


def test_what_is_left_of_a_wait_is_waited_by_whoever_adopts_whatever_their_clock_says(
    tmp_path: Path, clock: ManualClock
) -> None:
    for skew in (-5000.0, 0.0, 5000.0):
        a = Peer(tmp_path / str(skew), "a", clock)
        b = Peer(tmp_path / str(skew), "b", ManualClock(NOW + skew))
        a.discover("1", "2")
        errand = a.frontier.take(NOW)
        assert errand is not None
        a.frontier.give_back(errand, HostState("10.0.0.1", NOW + 60.0, NOW + 60.0), errand.tickets[:1])
        later = msgspec.structs.replace(errand.tickets[1].link, not_before=NOW + 90.0)
        a.frontier.again(errand.tickets[1].number, later)
        a.send(b)
        there = b.clock.now()
        assert b.frontier.take(there + 59.0) is None
        first = b.frontier.take(there + 60.0)
        assert first is not None
        assert [ticket.link.url for ticket in first.tickets] == [f"{HOST}/1"]
        b.frontier.give_back(first, first.state)
        assert b.frontier.take(there + 89.0) is None
        second = b.frontier.take(there + 90.0)
        assert second is not None
        assert [ticket.door for ticket in (*first.tickets, *second.tickets)] == [Door.ADOPTED, Door.ADOPTED]


def test_a_host_that_is_adopted_again_after_a_kill_is_not_asked_at_once_again(
    tmp_path: Path, clock: ManualClock
) -> None:
    """What was asked of it between the first adoption and the kill is not known any more."""
    slow = HostState("10.0.0.1", crawl_delay=30.0)
    a, b = Peer(tmp_path, "a", clock), Peer(tmp_path, "b", clock, ours=lambda host: False)
    a.discover("1", "2", "3")
    errand = a.frontier.take(NOW)
    assert errand is not None
    a.frontier.give_back(errand, slow, errand.tickets)
    before = b.checkpoint()
    a.exchange.release(HOST, "b")
    a.checkpoint()
    (path,) = a.exchange.parcels.values()
    b.frontier.adopt(path)
    asked = b.frontier.take(NOW)
    assert asked is not None
    b.frontier.close()  # it asked, and was killed
    clock.advance(0.5)
    b.open(before)
    b.frontier.adopt(path)
    assert b.frontier.take(NOW + 30.4) is None
    assert b.frontier.take(NOW + 30.5) is not None


def test_links_found_later_follow_the_host_and_pass_its_sieve_once(peers: tuple[Peer, Peer]) -> None:
    a, b = peers
    a.discover("1", "2")
    a.send(b)
    a.discover("2", "3")
    a.discover("3", "4")
    a.checkpoint()
    assert (a.frontier.seen, a.frontier.waiting) == (0, 0), "they are not accepted, only told"
    assert list(a.exchange.undelivered()) == [(HOST, 2)]
    b.discover("4", "5")
    parcel = a.send(b)
    assert parcel.label.state is None
    assert parcel.total.found == 2
    assert b.frontier.seen == b.frontier.waiting == 5
    a.discover("5", "6")  # and if the host comes home first, what waited for a parcel need not
    while b.frontier.take(NOW) is not None:  # so that nothing is left undrawn
        pass
    b.exchange.release(HOST, "a")
    state = b.checkpoint()
    assert b.exchange.parcels == {}
    b.frontier.close()
    b.open(state)  # what a robot held is in the air no more
    b.send(a)
    assert a.frontier.seen == a.frontier.waiting == 6
    assert list(a.exchange.undelivered()) == []
    assert b.frontier.seen == b.frontier.waiting == 0


def test_a_link_that_runs_after_its_host_is_never_given_up(tmp_path: Path, clock: ManualClock) -> None:
    a, b = Peer(tmp_path, "a", clock), Peer(tmp_path, "b", clock, ours=lambda host: False)
    b.discover("1")  # of a host that is with the other

    def posted(sender: Peer, to: Peer) -> int:
        sender.checkpoint()
        sender.exchange.release(HOST, to.name)
        sender.checkpoint()
        return max(sender.exchange.parcels)

    def carried(sender: Peer, to: Peer, serial: int) -> None:
        to.frontier.adopt(sender.exchange.parcels[serial])
        to.checkpoint()
        sender.exchange.released(serial)
        sender.checkpoint()

    late = posted(b, a)
    a.send(b)  # the host came while its link was on the way,
    carried(b, a, late)
    late = posted(a, b)
    b.send(a)  # and went while the link came back
    carried(a, b, late)
    carried(b, a, posted(b, a))
    assert (a.frontier.seen, a.frontier.waiting) == (1, 1)
    assert list(b.exchange.undelivered()) == []


def test_what_was_done_in_one_crawl_is_known_in_the_third(tmp_path: Path, clock: ManualClock) -> None:
    a, b, c = (Peer(tmp_path, name, clock) for name in "abc")
    a.discover("1")
    a.frontier.done([ticket.number for ticket in a.visit().tickets])
    a.send(b)
    b.discover("1", "2")
    clock.advance(10.0)
    b.frontier.done([ticket.number for ticket in b.visit().tickets])
    b.send(c)
    c.discover("1", "2", "3")
    c.checkpoint()
    assert [peer.frontier.finished for peer in (a, b, c)] == [1, 1, 0]
    assert [peer.frontier.waiting for peer in (a, b, c)] == [0, 0, 1]


def test_a_poll_moves_as_a_poll(peers: tuple[Peer, Peer], clock: ManualClock) -> None:
    a, b = peers
    a.discover("1")
    a.frontier.done([ticket.number for ticket in a.visit().tickets])
    a.frontier.poll([Link(Url(f"{HOST}/1"), etag="v1", was="page")])
    assert a.frontier.polling == 1
    a.send(b)
    a.frontier.poll([Link(Url(f"{HOST}/1"), etag="v2", was="page")])  # to a host that is elsewhere
    a.send(b)
    assert (a.frontier.polling, a.frontier.seen, a.frontier.finished) == (0, 1, 1)
    assert (b.frontier.polling, b.frontier.seen, b.frontier.waiting) == (2, 0, 0)
    clock.advance(10.0)
    tickets = b.visit().tickets
    assert [ticket.link.etag for ticket in tickets] == ["v1", "v2"]
    assert {ticket.door for ticket in tickets} == {Door.POLLED}
    b.frontier.done([ticket.number for ticket in tickets])
    assert (b.frontier.polling, b.frontier.finished) == (0, 0)


def test_a_host_of_others_is_theirs_until_it_is_adopted(tmp_path: Path, clock: ManualClock) -> None:
    a, b = Peer(tmp_path, "a", clock), Peer(tmp_path, "b", clock, ours=lambda host: False)
    b.discover("1")
    assert b.frontier.take(NOW) is None
    a.discover("2")
    a.send(b)
    assert b.frontier.waiting == 2
    assert b.frontier.take(NOW) is not None


def test_a_parcel_that_is_torn_or_for_somebody_else_changes_nothing(
    peers: tuple[Peer, Peer], tmp_path: Path, clock: ManualClock
) -> None:
    a, b = peers
    a.discover("1", "2")
    a.exchange.release(HOST, "b")
    a.checkpoint()
    (path,) = a.exchange.parcels.values()
    whole = path.read_bytes()
    torn = tmp_path / "torn"
    for length in range(0, len(whole), 7):
        torn.write_bytes(whole[:length])
        with pytest.raises(Damaged):
            b.frontier.adopt(torn)
    for place in range(8, len(whole), 11):
        torn.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Damaged):
            b.frontier.adopt(torn)
    with pytest.raises(ForeignParcel, match="it is for `b`, and this is `a`"):
        a.frontier.adopt(path)
    with pytest.raises(ForeignParcel, match="another key secret"):
        Peer(tmp_path / "other", "b", clock, seed=8).frontier.adopt(path)
    assert (b.frontier.seen, b.frontier.waiting, b.frontier.hosts) == (0, 0, 0)


def test_a_crawl_that_kept_no_keys_by_host_says_so(tmp_path: Path, clock: ManualClock) -> None:
    def opened(directory: Path, state: FrontierState | None, exchanging: Exchanging | None) -> Frontier:
        return open_frontier(
            directory, key_seed=7, clock=clock, policy=POLICIES["index"](), resumed_delay=lambda _: 1.0,
            state=state, exchanging=exchanging,
        )  # fmt: skip

    for number, (first, then) in enumerate([(None, Exchanging("a")), (Exchanging("a"), None)]):
        frontier = opened(tmp_path / str(number), None, first)
        frontier.begin()
        state = frontier.seal().state
        frontier.close()
        with pytest.raises(FieldmouseError, match=r"keys by host|cannot go on alone"):
            opened(tmp_path / str(number), state, then)


def test_what_a_host_brings_along_is_unpacked_where_it_comes_to_and_once(tmp_path: Path) -> None:
    """Its robots.txt holds for as long as it still held when it left, whatever our clock says."""
    brought: list[tuple[Host, Belongings, float]] = []
    late = ManualClock(NOW + 5000.0)
    a, b = (
        Peer(tmp_path, "a", ManualClock(NOW)),
        Peer(tmp_path, "b", late, unpack=lambda *what: brought.append(what)),
    )
    a.discover("1")
    a.checkpoint()
    a.exchange.release(HOST, "b")
    a.checkpoint()
    (path,) = a.exchange.parcels.values()
    for _ in range(2):
        b.frontier.adopt(path)
        b.checkpoint()
    assert brought == [(HOST, ROBOTS, 86_400.0)]
