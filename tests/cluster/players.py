"""Simulated agents that act at random, die, sleep and lose answers, on a server that loses data; and
invariants.

An agent here behaves as a correct one must: it stops when its lease is over by its own clock, finds out
its leases after a lost answer or a server restart, and sends again everything that the server may have
lost. The caller chooses the next act and its random numbers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from cluster.coordinators import World
from fieldmouse.cluster.coordinator import (
    AckBatch,
    AddressRequest,
    AgentId,
    Coordinator,
    CrawlSpec,
    HeartbeatRequest,
    HostGrant,
    HostPayload,
    LeaseAck,
    LeaseId,
    LinkOffer,
    ReleasedHost,
    ReservationRequest,
    SiteBounds,
)
from fieldmouse.cluster.decoding import pack_urls
from fieldmouse.errors import AgentFenced
from fieldmouse.url import Host

T = TypeVar("T")
LEASE = 100.0
LONGEST_DELAY = 30.0
HOSTS = [Host(f"http://{letter}.test") for letter in "abcde"]
ADDRESSES = ["10.0.0.1", "10.0.0.4"]
AGENTS = ["ada", "bob", "cyd"]
SLACK = 0.002  # seconds by which a server's clock, in milliseconds, may differ from ours


def kinds_of(keys: Iterable[int]) -> list[str]:
    """Outcome of each URL, the same for every agent."""
    return ["failed" if key % 3 == 0 else "page" for key in keys]


@dataclass
class Player:
    """State of one agent."""

    name: AgentId
    run: str
    until: float  # it must not visit any host after that
    knows: dict[LeaseId, set[int]] = field(default_factory=dict)  # keys it owes
    holds: dict[Host, int] = field(default_factory=dict)
    addresses: dict[str, float] = field(default_factory=dict)  # that it has, with their delays
    delays: dict[Host, float] = field(default_factory=dict)
    missed_answer: bool = False
    told: list[AckBatch] = field(default_factory=list)
    given: list[ReleasedHost] = field(default_factory=list)

    def owes_no_longer(self, held: LeaseId, keys: list[int]) -> None:
        if held in self.knows:
            self.knows[held].difference_update(keys)
            if not self.knows[held]:
                del self.knows[held]


class Network:
    """A cluster; its acts are the methods that take dice."""

    def __init__(self, world: World) -> None:
        self.loop = asyncio.new_event_loop()
        self.world = world
        self.board: Coordinator = world.board()
        self.players: dict[str, Player] = {}
        self.starts = 0
        self.key = 0
        self.settled: set[int] = set()
        self.settled_on_disk: set[int] = set()
        self.homes: dict[int, Host] = {}
        self.offered: list[LinkOffer] = []  # since the last write to disk
        self.forgot = False  # the server lost data at least once
        self.restarts = 0
        self.quiet: dict[str, float] = {}  # this host or address must not be visited before then
        self.wished: set[tuple[str, Host]] = set()  # last agent there, if not granted since
        self.done: dict[str, int] = {}  # acts that had an effect, for inspection
        self.do(self.board.create_crawl(CrawlSpec(1, "", ())))
        # The longest lease and delay were stored long ago, whatever the server loses.
        first = AgentId("first", 1)
        self.do(self.board.join(first, LEASE))
        asks = [AddressRequest(f"10.9.9.{n}", LeaseId(HOSTS[0], 0), LONGEST_DELAY) for n in range(9)]
        self.do(self.board.lease_addresses(first, asks))
        self.do(self.board.leave(first))
        world.remember()

    def do(self, act: Awaitable[T]) -> T:
        return self.loop.run_until_complete(act)

    def close(self) -> None:
        self.do(self.board.close())
        self.loop.close()

    def happened(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    # -- agents come and go

    def start(self, dice: Random) -> None:
        """Start a process; an earlier one of that name may have died just now, or still run."""
        agent = dice.choice(AGENTS)
        if old := self.players.pop(agent, None):
            if dice.random() < 0.5 and self.do(self.board.was_never_fenced(old.name)):
                self._tell_again(old)
                self.happened("told by a quick successor")
            self._falls(old)
        self._begin(agent)

    def _begin(self, agent: str) -> Player:
        self.starts += 1
        name = AgentId(agent, self.starts)
        sent_at = self.world.now()
        self.do(self.board.join(name, LEASE))
        pulse = self.do(self.board.heartbeat(name, HeartbeatRequest(b"", LEASE)))
        self.players[agent] = Player(name, pulse.server_run, sent_at + LEASE)
        return self.players[agent]

    def _falls(self, player: Player) -> None:
        """Its successor must wait until it has surely stopped, plus the delay."""
        for host in player.holds:
            self._keep_quiet(host, player.until + player.delays[host])
        for address, delay in player.addresses.items():
            self._keep_quiet(address, player.until + delay)

    def _keep_quiet(self, place: str, until: float) -> None:
        self.quiet[place] = max(self.quiet.get(place, 0.0), until)

    def _somebody(self, dice: Random) -> Player:
        """Some agent, after its mandatory actions."""
        agent = dice.choice(AGENTS)
        player = self.players.get(agent) or self._begin(agent)
        sent_at = self.world.now()
        try:
            pulse = self.do(self.board.heartbeat(player.name, HeartbeatRequest(b"", LEASE)))
            if pulse.server_run != player.run:
                player.run, player.missed_answer = pulse.server_run, True
                self._tell_again(player)
            if player.missed_answer:
                self._recover(player)
        except AgentFenced:
            self.happened("fenced")
            self._falls(player)
            return self._begin(agent)
        player.until = max(player.until, sent_at + LEASE)
        return player

    def _recover(self, player: Player) -> None:
        self.happened("recovered")
        known: dict[LeaseId, set[int]] = {LeaseId(host, epoch): set() for host, epoch in player.holds.items()}
        lost = self.do(self.board.reconcile_leases(player.name, known | player.knows))
        assert self.forgot or not lost
        for held in lost:
            player.knows.pop(held, None)
        audit = self.world.audit()
        for key, (name, held) in audit.owed.items():
            assert name != player.name or key in player.knows[held], "nobody would ever visit it"
        owners = audit.holders
        for host, epoch in list(player.holds.items()):
            if owners.get(host) != (player.name, epoch):
                assert self.forgot
                del player.holds[host]
            else:
                luggage = HostPayload(b"noted again", 0.0, player.delays[host])
                self.do(self.board.save_host_payloads(player.name, {LeaseId(host, epoch): luggage}))
        for address, delay in list(player.addresses.items()):
            ask = AddressRequest(address, LeaseId(HOSTS[0], 0), delay)
            if not self.do(self.board.lease_addresses(player.name, [ask]))[0].granted:
                assert self.forgot
                del player.addresses[address]
        player.missed_answer = False

    def _tell_again(self, player: Player) -> None:
        for told in player.told:
            self._book(player, told)

    def die(self, dice: Random) -> None:
        """Kill an agent, or cut off its machine for good."""
        if player := self.players.pop(dice.choice(AGENTS), None):
            self._falls(player)

    def leave(self, dice: Random) -> None:
        player = self._somebody(dice)
        now = self.world.now()
        for host in player.holds:
            self._keep_quiet(host, now + player.delays[host])
        for address, delay in player.addresses.items():
            self._keep_quiet(address, now + delay)
        self.do(self.board.leave(player.name))
        del self.players[player.name.agent]

    def drain(self, dice: Random) -> None:
        self.do(self.board.request_drain(dice.choice(AGENTS)))

    def live_on(self, dice: Random) -> None:
        self._somebody(dice)

    def wait(self, dice: Random) -> None:
        self.world.advance(dice.choice([1, 15, 30]))

    def sleep(self, dice: Random) -> None:
        """Let all agents sleep, for longer than a lease."""
        self.world.advance(dice.choice([90, 101, 140]))

    # -- links and hosts

    def offer(self, dice: Random) -> None:
        home = dice.randrange(len(HOSTS))
        known = list(range(home, self.key, 5))[-dice.randint(1, 5) :]
        keys = known + [5 * (self.key // 5 + 1 + n) + home for n in range(dice.randint(0, 9))]
        self.key = max([self.key, *keys])
        rows = [(key * 0x9E3779B97F4A7C15 % 2**64, b"row %d" % key) for key in keys]
        self.homes.update((key, HOSTS[home]) for key, _ in rows)
        offer = LinkOffer(HOSTS[home], "test", rows, dice.choice(["", *AGENTS]))
        self.do(self.board.offer_links([offer], SiteBounds()))
        self.offered.append(offer)
        assert {key for key, _ in rows} <= self.world.audit().seen

    def lease(self, dice: Random) -> None:
        player = self._somebody(dice)
        most = dice.randint(1, 3)
        grants = self.do(self.board.lease_hosts(player.name, most, dice.randint(1, 6), dice.choice([0, 50])))
        assert len(grants) <= most
        for grant in grants:
            if not grant.rows:
                assert self.forgot or (player.name.agent, grant.host) in self.wished
                self.happened("leased by a wish alone")
            self.wished.discard((player.name.agent, grant.host))
            assert self.world.now() + grant.payload.rest >= self.quiet.get(grant.host, 0.0) - SLACK
        if grants and dice.random() < 0.15:
            player.missed_answer = True
            return
        for grant in grants:
            self.happened("leased")
            self._granted(player, grant)
            player.holds[grant.host] = grant.epoch
            player.delays[grant.host] = grant.payload.delay

    def wish(self, dice: Random) -> None:
        player, hosts = self._somebody(dice), dice.sample(HOSTS, 2)
        self.do(self.board.request_hosts_for_polls(player.name, hosts))
        self.wished.update((player.name.agent, host) for host in hosts)

    def _granted(self, player: Player, grant: HostGrant) -> None:
        fresh = {key for key, _ in grant.rows}
        assert len(fresh) == len(grant.rows)
        assert not fresh & self.settled
        if fresh:
            player.knows.setdefault(LeaseId(grant.host, grant.epoch), set()).update(fresh)

    def more(self, dice: Random) -> None:
        player = self._somebody(dice)
        held = [LeaseId(host, epoch) for host, epoch in player.holds.items()]
        for grant in self.do(self.board.lease_more_urls(player.name, held, dice.randint(1, 6))):
            if grant.rows and dice.random() < 0.15:
                player.missed_answer = True
            else:
                self._granted(player, grant)

    def note(self, dice: Random) -> None:
        player = self._somebody(dice)
        for host, epoch in player.holds.items():
            player.delays[host] = dice.choice([0, LONGEST_DELAY])
            luggage = HostPayload(b"noted", dice.choice([0, 5]), player.delays[host])
            self.do(self.board.save_host_payloads(player.name, {LeaseId(host, epoch): luggage}))

    def give_back(self, dice: Random) -> None:
        player = self._somebody(dice)
        if not player.holds:
            return
        host = dice.choice(sorted(player.holds))
        held = LeaseId(host, player.holds.pop(host))
        unused = self._some(player.knows.get(held, set()), dice)
        rest = dice.choice([0, 40])
        luggage = HostPayload(b"given", rest, player.delays[host])
        given = ReleasedHost(held, luggage, [(key, b"unused") for key in unused], dice.choice(["", *AGENTS]))
        self._keep_quiet(host, self.world.now() + rest)
        self.do(self.board.release_hosts(player.name, [given]))
        player.given.append(given)
        player.owes_no_longer(held, unused)
        self.happened("given back")

    def give_back_again(self, dice: Random) -> None:
        """Repeat a call, as if its answer had been lost, after others have acted."""
        player = self._somebody(dice)
        before = self.world.audit()
        for given in player.given:
            self.do(self.board.release_hosts(player.name, [given]))
        assert self.world.audit() == before or self.forgot

    def put_back(self, dice: Random) -> None:
        player = self._somebody(dice)
        for held in list(player.knows):
            unused = self._some(player.knows[held], dice)
            for _ in range(dice.randint(1, 2)):
                self.do(self.board.return_urls(player.name, {held: [(key, b"again") for key in unused]}))
            player.owes_no_longer(held, unused)

    def _some(self, keys: set[int], dice: Random) -> list[int]:
        share = dice.choice([0.0, 0.5, 1.0])
        return [key for key in sorted(keys) if dice.random() < share]

    # -- outcomes

    def settle(self, dice: Random) -> None:
        player = self._somebody(dice)
        leases = {held: self._some(keys, dice) for held, keys in player.knows.items()}
        urls = pack_urls([f"{held.host}/{key}" for held, keys in leases.items() for key in keys])
        told = AckBatch([LeaseAck(held, keys, kinds_of(keys)) for held, keys in leases.items()], urls)
        for _ in range(dice.randint(1, 2)):
            self._book(player, told)
        player.told.append(told)
        for held, keys in leases.items():
            player.owes_no_longer(held, keys)

    def _book(self, player: Player, told: AckBatch) -> None:
        owed = self.world.audit().owed
        strays = self.do(self.board.ack(player.name, told))
        for booked, out in zip(told.acks, strays, strict=True):
            for key in booked.keys:
                if owed.get(key) == (player.name, booked.lease):
                    assert key not in out
                    assert key not in self.settled
                    self.settled.add(key)
                elif not self.forgot:
                    assert key in self.settled
                    assert key not in out

    def reserve(self, dice: Random) -> None:
        """No agent here counts its pages; the audit checks that the coordinator adds them up."""
        player = self._somebody(dice)
        keep, want = dice.choice([0, 3]), dice.choice([3, 9])
        pages = self.do(self.board.reserve_pages(player.name, ReservationRequest(30, keep, want)))
        assert keep <= pages <= want
        self.happened("reserved" if pages > keep else "refused to reserve")

    # -- addresses

    def ask_address(self, dice: Random) -> None:
        player = self._somebody(dice)
        if not player.holds:
            return
        host = dice.choice(sorted(player.holds))
        address, delay = dice.choice(ADDRESSES), dice.choice([0, LONGEST_DELAY])
        had = address in player.addresses
        ask = AddressRequest(address, LeaseId(host, player.holds[host]), delay)
        (answer,) = self.do(self.board.lease_addresses(player.name, [ask]))
        assert answer.granted or not had
        if answer.granted:
            assert had or self.world.now() >= self.quiet.get(address, 0.0) - SLACK
            player.addresses[address] = delay
            self.happened("address granted")
        else:
            assert answer.retry_seconds > 0
            assert answer.holder != player.name.agent
            self.happened("address refused")

    def free_address(self, dice: Random) -> None:
        player = self._somebody(dice)
        for address in list(player.addresses):
            rest = dice.choice([0, 40])
            del player.addresses[address]
            self._keep_quiet(address, self.world.now() + rest)
            self.do(self.board.release_addresses(player.name, {address: rest}))

    # -- the server

    def write_disk(self, dice: Random) -> None:
        self.world.remember()
        self.offered.clear()
        self.settled_on_disk = set(self.settled)

    def restart(self, dice: Random) -> None:
        """Kill and restart the server: rarely, since it takes a while, with or without its last writes."""
        if self.restarts >= 2:
            return
        self.restarts += 1
        self.do(self.board.close())
        forgetful = dice.random() < 0.6
        if forgetful:
            forgets = self.world.restart_forgetful()
            self.forgot = True
            kept = {key for key in self.settled if not forgets(self.homes[key])}
            self.settled = self.settled_on_disk | kept
        else:
            self.world.restart()
        self.board = self.world.board()
        self.do(self.board.totals())
        if forgetful:  # the agent that found links still has them, and sends them again
            self.do(self.board.offer_links(self.offered, SiteBounds()))

    # -- invariants

    def check(self) -> None:
        audit = self.world.audit()
        audit.check()
        books = self.do(self.board.totals())
        assert books.seen == books.settled + books.waiting
        assert books.waiting == len(audit.queued) + len(audit.owed)
        assert sum(books.kinds.values()) == books.settled
        assert not self.settled & (audit.queued.keys() | audit.owed.keys())
        if not self.forgot:
            assert books.settled == len(self.settled)
            assert books.kinds == Counter(kinds_of(self.settled))
        now = self.world.now()
        taken: set[str] = set()
        for player in self.players.values():
            if now < player.until:
                mine = {*player.holds, *player.addresses}
                assert not mine & taken, "two have reason to think it theirs"
                taken |= mine

    def finish(self) -> None:
        """All agents are gone, and a new one comes: it finds everything that is left, each URL once."""
        self.world.advance(1000)
        name = AgentId("zed", 10**6)
        self.do(self.board.join(name, LEASE))
        self.world.advance(LEASE / 2)
        self.do(self.board.heartbeat(name, HeartbeatRequest(b"", 3 * LEASE)))
        self.world.advance(LEASE / 2 + 3)  # the server may have been calm
        while grants := self.do(self.board.lease_hosts(name, 9, 9)):
            for grant in grants:
                held = LeaseId(grant.host, grant.epoch)
                while grant.rows:
                    keys = [key for key, _ in grant.rows]
                    assert not self.settled & set(keys)
                    self.settled.update(keys)
                    told = AckBatch([LeaseAck(held, keys, kinds_of(keys))])
                    assert self.do(self.board.ack(name, told)) == [()]
                    (grant,) = self.do(self.board.lease_more_urls(name, [held], 9))
        books = self.do(self.board.totals())
        assert (books.waiting, books.settled) == (0, books.seen)
        self.world.audit().check()
