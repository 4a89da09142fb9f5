"""A host's lease: whatever messages are lost, late or double, at most one agent has it, and none loses it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fieldmouse.policy.balance.handover import (
    TRANSITIONS,
    HostLease,
    LeaseEvent,
    LeaseRefusal,
    LeaseState,
)

TERM, OFFER = 15.0, 5.0
AGENTS = ("a", "b", "c")


@dataclass(frozen=True)
class Message:
    """On its way to the board, or, with a lease, back from it; it may arrive never, late and often."""

    event: LeaseEvent
    agent: str
    epoch: int
    to: str
    sent_at: float
    lease: HostLease | None = None


@dataclass
class Belief:
    """What an agent knows: the lease it thinks it has."""

    epoch: int = 0
    until: float = 0.0
    done: set[int] = field(default_factory=set)  # epochs it gave back itself


class Network(RuleBasedStateMachine):
    """Three agents, a board, and messages between them that nobody can rely on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.lease = HostLease()
        self.beliefs = {agent: Belief() for agent in AGENTS}
        self.messages: list[Message] = []
        self.granted: list[int] = []
        self.fenced: list[int] = []

    @rule(seconds=st.sampled_from([0.5, 4.0, 7.0, 14.5, 15.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(agent=st.sampled_from(AGENTS))
    def an_agent_asks_for_it(self, agent: str) -> None:
        self._send(LeaseEvent.LEASE, agent)

    @rule(
        agent=st.sampled_from(AGENTS),
        event=st.sampled_from([LeaseEvent.RENEW, LeaseEvent.DRAIN, LeaseEvent.BOOK]),
    )
    def an_agent_speaks_of_its_lease(self, agent: str, event: LeaseEvent) -> None:
        self._send(event, agent)

    @rule(agent=st.sampled_from(AGENTS), to=st.sampled_from(("", *AGENTS)))
    def an_agent_gives_it_back(self, agent: str, to: str) -> None:
        belief = self.beliefs[agent]
        self._send(LeaseEvent.GIVE_BACK, agent, to)
        belief.done.add(belief.epoch)
        belief.until = 0.0

    @rule(to=st.sampled_from(AGENTS))
    def the_board_offers_it(self, to: str) -> None:
        self._happen(Message(LeaseEvent.OFFER, "", 0, to, self.now))

    @rule()
    def the_board_fences_it(self) -> None:
        before = self.lease
        self._happen(Message(LeaseEvent.FENCE, "", 0, "", self.now))
        assert self.lease.epoch == before.epoch + 1
        self.fenced.append(self.lease.epoch)

    @rule()
    def the_board_looks_for_leases_that_are_over(self) -> None:
        self._happen(Message(LeaseEvent.EXPIRE, "", 0, "", self.now))

    @precondition(lambda self: self.messages)
    @rule(place=st.integers(0, 10**6), again=st.booleans())
    def a_message_arrives(self, place: int, again: bool) -> None:
        message = self.messages[place % len(self.messages)]
        if not again:
            self.messages.remove(message)
        if message.lease is None:
            self._happen(message)
        elif message.lease.epoch not in self.beliefs[message.agent].done:
            self._heard(message.agent, message.lease, message.sent_at)

    def _send(self, event: LeaseEvent, agent: str, to: str = "") -> None:
        self.messages.append(Message(event, agent, self.beliefs[agent].epoch, to, self.now))

    def _heard(self, agent: str, lease: HostLease, asked_at: float) -> None:
        """A grant or a renewal; the agent counts its time from when it asked."""
        belief = self.beliefs[agent]
        if lease.epoch > belief.epoch:
            belief.epoch, belief.until = lease.epoch, asked_at + TERM
        elif lease.epoch == belief.epoch and belief.until > 0:
            belief.until = max(belief.until, asked_at + TERM)

    def _happen(self, message: Message) -> None:
        before = self.lease
        until = self.now + (OFFER if message.event in (LeaseEvent.OFFER, LeaseEvent.GIVE_BACK) else TERM)
        after = before.after(
            message.event, self.now, agent=message.agent, epoch=message.epoch, to=message.to, until=until
        )
        if message.agent and message.event is not LeaseEvent.LEASE and message.epoch < before.epoch:
            assert after is LeaseRefusal.STALE, "a stale epoch can do nothing"
        if isinstance(after, LeaseRefusal):
            return
        self.lease = after
        if message.event is LeaseEvent.LEASE:
            assert (after.state, after.agent) == (LeaseState.HELD, message.agent)
            self.granted.append(after.epoch)
        if message.event in (LeaseEvent.LEASE, LeaseEvent.RENEW):
            self.messages.append(replace(message, lease=after))

    @invariant()
    def at_most_one_agent_thinks_it_may_visit(self) -> None:
        visiting = [agent for agent, belief in self.beliefs.items() if self.now < belief.until]
        assert len(visiting) <= 1
        for agent in visiting:
            belief = self.beliefs[agent]
            if self.lease.held_by(agent, belief.epoch, self.now):
                assert belief.until <= self.lease.until
            else:
                assert any(belief.epoch < epoch <= self.lease.epoch for epoch in self.fenced)
                assert self.lease.state is LeaseState.FREE
                assert belief.until <= self.lease.until, "nobody else gets it before"

    @invariant()
    def no_epoch_is_given_twice(self) -> None:
        numbers = sorted(self.granted + self.fenced)
        assert len(set(numbers)) == len(numbers)
        assert self.granted == sorted(self.granted)
        assert all(number <= self.lease.epoch for number in numbers)

    @invariant()
    def nobody_loses_the_host(self) -> None:
        later = self.now + TERM
        for agent in AGENTS:
            taken = self.lease.after(LeaseEvent.LEASE, later, agent=agent, until=later + TERM)
            assert isinstance(taken, HostLease)
            assert taken.held_by(agent, self.lease.epoch + 1, later)


TestNetwork = Network.TestCase
TestNetwork.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


leases = st.builds(
    HostLease, st.sampled_from(LeaseState), st.integers(1, 5), st.sampled_from(AGENTS), st.floats(0, 200)
)


@given(leases, st.sampled_from(LeaseEvent), st.sampled_from(AGENTS), st.integers(0, 6), st.floats(0, 200))
def test_an_epoch_never_falls_and_only_the_newest_is_heard(
    lease: HostLease, event: LeaseEvent, agent: str, epoch: int, now: float
) -> None:
    after = lease.after(event, now, agent=agent, epoch=epoch, to="b", until=now + TERM)
    if isinstance(after, LeaseRefusal):
        return
    assert after.epoch == lease.epoch + (event in (LeaseEvent.LEASE, LeaseEvent.FENCE))
    if event in (LeaseEvent.RENEW, LeaseEvent.DRAIN, LeaseEvent.GIVE_BACK):
        assert (agent, epoch) == (lease.agent, lease.epoch)
    if event is LeaseEvent.BOOK:
        assert epoch == lease.epoch


def test_an_offer_is_for_one_and_then_for_all() -> None:
    lease = HostLease(LeaseState.HELD, 4, "a", 115.0)
    offered = lease.after(LeaseEvent.GIVE_BACK, 110.0, agent="a", epoch=4, to="b", until=115.0)
    assert offered == HostLease(LeaseState.OFFERED, 4, "b", 115.0)
    assert offered.after(LeaseEvent.LEASE, 114.0, agent="c", until=129.0) is LeaseRefusal.PROMISED
    assert offered.after(LeaseEvent.LEASE, 114.0, agent="b", until=129.0) == HostLease(
        LeaseState.HELD, 5, "b", 129.0
    )
    assert offered.after(LeaseEvent.LEASE, 115.0, agent="c", until=130.0) == HostLease(
        LeaseState.HELD, 5, "c", 130.0
    )


def test_what_was_done_in_time_is_booked_late_unless_somebody_else_has_begun() -> None:
    lease = HostLease(LeaseState.HELD, 4, "a", 115.0)
    late = lease.after(LeaseEvent.BOOK, 200.0, agent="a", epoch=4)
    assert late == HostLease(LeaseState.EXPIRED, 4, "a", 115.0)
    assert lease.after(LeaseEvent.RENEW, 200.0, agent="a", epoch=4, until=215.0) is LeaseRefusal.ENDED
    taken = lease.after(LeaseEvent.LEASE, 200.0, agent="b", until=215.0)
    assert isinstance(taken, HostLease)
    assert taken.after(LeaseEvent.BOOK, 201.0, agent="a", epoch=4) is LeaseRefusal.STALE


def test_every_state_can_be_left_and_reached() -> None:
    assert {state for state, _ in TRANSITIONS} == set(LeaseState)
    assert set(TRANSITIONS.values()) == set(LeaseState)
