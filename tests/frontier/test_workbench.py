"""Workbench against a model that searches everything."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fieldmouse.frontier.workbench import TakenHost, Workbench
from fieldmouse.types.host_state import HostState
from fieldmouse.url import Host

hosts = st.integers(0, 9).map(lambda n: Host(f"http://h{n}.example"))
addresses = st.sampled_from(["", "10.0.0.1", "10.0.0.2", "10.0.0.3"])
waits = st.sampled_from([0.0, 0.5, 1.0, 7.0])


class Bench(RuleBasedStateMachine):
    """Random puts, takes and returns; politeness and order are checked from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Workbench()
        self.now = 100.0
        self.number = 0
        self.lines: dict[Host, list[int]] = {}
        self.states: dict[Host, HostState] = {}
        self.quiet: dict[str, float] = {}  # addresses
        self.out: list[TakenHost] = []

    def ready(self) -> dict[Host, float]:
        """Return the hosts that may be taken now or later, with their times, by searching all."""
        held_hosts = {lease.host for lease in self.out}
        held = {lease.address for lease in self.out if not self.states[lease.host].verdict} - {""}
        times = {}
        for host, line in self.lines.items():
            state = self.states[host]
            if not line or host in held_hosts:
                continue
            if state.verdict:
                times[host] = 0.0
            elif not state.address:
                times[host] = state.ready_at
            elif state.address not in held:
                times[host] = max(state.ready_at, self.quiet.get(state.address, 0.0))
        return times

    @rule(host=hosts, amount=st.integers(1, 5))
    def put(self, host: Host, amount: int) -> None:
        numbers = list(range(self.number, self.number + amount))
        self.number += amount
        self.bench.add_urls(host, self.states.setdefault(host, HostState()), numbers)
        self.lines.setdefault(host, []).extend(numbers)

    @rule(most=st.integers(1, 4))
    def take(self, most: int) -> None:
        ready = self.ready()
        lease = self.bench.take_ready_host(self.now, most, 100)
        if lease is None:
            assert not ready or min(ready.values()) > self.now
            return
        assert ready[lease.host] <= self.now
        line = self.lines[lease.host]
        most = 100 if self.states[lease.host].verdict else most
        assert lease.numbers == line[:most]
        assert lease.address == self.states[lease.host].address
        self.lines[lease.host] = line[most:]
        self.out.append(lease)

    @precondition(lambda self: self.out)
    @rule(
        which=st.integers(0, 100),
        address=addresses,
        wait=waits,
        unused=st.integers(0, 4),
        verdict=st.sampled_from(["", "", "", "host given up"]),
    )
    def give_back(self, which: int, address: str, wait: float, unused: int, verdict: str) -> None:
        lease = self.out.pop(which % len(self.out))
        back = lease.numbers[len(lease.numbers) - min(unused, len(lease.numbers)) :]
        until = self.now + wait
        state = HostState(address, until, until, verdict=verdict)
        was_asked = not self.states[lease.host].verdict
        for place in {lease.address if was_asked else "", address if not verdict else ""} - {""}:
            self.quiet[place] = max(self.quiet.get(place, 0.0), until)
        self.states[lease.host] = state
        self.lines[lease.host] = back + self.lines[lease.host]
        online = self.bench.return_host(lease.host, state, back)
        assert online == bool(self.lines[lease.host])

    @rule(host=hosts)
    def send_off(self, host: Host) -> None:
        if self.lines.get(host) and host not in {lease.host for lease in self.out}:
            assert self.bench.take_offline(host) == self.lines.pop(host)

    @rule(seconds=waits)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def it_knows_when_the_next_host_is_ready(self) -> None:
        ready = self.ready()
        due = self.bench.ready_at()
        assert due == (min(ready.values()) if ready else None)
        assert self.bench.url_count == sum(map(len, self.lines.values()))
        online = {host for host, line in self.lines.items() if line} | {lease.host for lease in self.out}
        assert len(self.bench) == len(online)


Bench.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestTheWorkbench = Bench.TestCase


def test_hosts_that_share_an_address_take_turns() -> None:
    bench = Workbench()
    names = [Host(f"http://h{n}.example") for n in range(5)]
    for n, host in enumerate(names):
        bench.add_urls(host, HostState("10.0.0.1"), range(100 * n, 100 * n + 50))
    visits: Counter[Host] = Counter()
    for now in range(50):
        lease = bench.take_ready_host(float(now), 1, 100)
        assert lease is not None
        assert bench.take_ready_host(float(now), 1, 100) is None, "the address was given out twice"
        visits[lease.host] += 1
        bench.return_host(lease.host, HostState("10.0.0.1", now + 1.0, now + 1.0), [])
    assert set(visits.values()) == {10}


def test_an_address_without_hosts_still_rests() -> None:
    bench = Workbench()
    a, b = Host("http://a.example"), Host("http://b.example")
    bench.add_urls(a, HostState("10.0.0.1"), [1])
    assert bench.take_ready_host(0.0, 1, 1) is not None
    assert not bench.return_host(a, HostState("10.0.0.1", 60.0, 60.0), [])
    bench.add_urls(b, HostState("10.0.0.1"), [2])
    assert bench.take_ready_host(59.0, 1, 1) is None
    assert bench.take_ready_host(60.0, 1, 1) is not None


def test_an_address_learned_during_a_visit_rests_even_if_the_host_leaves() -> None:
    bench = Workbench()
    a, b = Host("http://a.example"), Host("http://b.example")
    for host in (a, b):
        bench.add_urls(host, HostState(), [1])
        assert bench.take_ready_host(0.0, 1, 1) is not None
    bench.add_urls(a, HostState(), [2])
    bench.return_host(a, HostState("10.0.0.1"), [])
    bench.return_host(b, HostState("10.0.0.1", 60.0, 60.0), [])
    assert bench.ready_at() == 60.0
    assert bench.take_ready_host(59.0, 1, 1) is None


def test_a_host_abandoned_before_its_name_was_resolved_is_taken_in_large_batches() -> None:
    bench = Workbench()
    host = Host("http://a.example")
    bench.add_urls(host, HostState(), range(50))
    bench.take_ready_host(0.0, 1, 100)
    bench.return_host(host, HostState(verdict="host given up"), [])
    lease = bench.take_ready_host(0.0, 1, 100)
    assert lease is not None
    assert len(lease.numbers) == 49
