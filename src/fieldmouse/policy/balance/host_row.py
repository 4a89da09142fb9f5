"""Learned data of a host, in the form in which it travels from agent to agent.

Agents are identified by name, since they join and leave. An agent that never visited the host has no
entry; its belief depends only on the number of visits by others, each of which makes it less certain.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fieldmouse.policy.balance.kalman import kalman_update
from fieldmouse.policy.balance.priced import usual_trip_after

MOST_AGENTS = 128
"""Maximum number of agents in a row: agents that come and go for years must not fill it."""


class HostTripRow(msgspec.Struct, array_like=True):
    """Learned mean and variance for each agent that visited a host.

    >>> row = HostTripRow("trips")
    >>> row.learn("east", 0.5, observation=4.0, transition=0.01, mean=0.1, variance=1e6)
    >>> HostTripRow.from_row(row.to_row(), "trips") == row
    True
    >>> round(row.mean[0], 3)
    0.5
    """

    kind: str  # learned quantity; a rule ignores rows of another kind
    visits: int = 0
    usual: float = 0.0  # the host's usual round trip in seconds; 0: unknown
    agents: list[str] = []
    mean: list[float] = []
    variance: list[float] = []
    probed: bool = False  # whether the last visit was its agent's first
    last: str = ""  # ipmicra: last visitor
    complaints: int = 0  # ipmicra: slow visits since the host was last offered to all

    def to_row(self) -> bytes:
        return _ENCODER.encode(self)

    @classmethod
    def from_row(cls, row: bytes, kind: str) -> HostTripRow:
        """Decode a row; empty if there are no bytes, or if another rule wrote them.

        The data can be learned again, so an unreadable row is no error.
        """
        try:
            told = _DECODER.decode(row)
        except (msgspec.MsgspecError, ValueError):  # bytes that are no UTF-8 are a `ValueError`
            return cls(kind)
        whole = len(told.agents) == len(told.mean) == len(told.variance)
        return told if told.kind == kind and whole and told.visits >= 0 else cls(kind)

    def beliefs(
        self, agents: Sequence[str], *, mean: float, variance: float, transition: float
    ) -> tuple[list[float], list[float]]:
        """Mean and variance for each of these agents; `mean` and `variance` are the initial belief."""
        places = dict(zip(self.agents, range(len(self.agents)), strict=True))
        unmet = variance + self.visits * transition
        means, variances = [], []
        for name in agents:
            place = places.get(name)
            means.append(mean if place is None else self.mean[place])
            variances.append(unmet if place is None else self.variance[place])
        return means, variances

    def update_usual(self, trip: float) -> None:
        """Update the usual round trip; call it before `learn` for the same visit."""
        self.usual = usual_trip_after(self.usual, self.visits + 1, trip)

    def learn(
        self, agent: str, value: float, *, observation: float, transition: float, mean: float, variance: float
    ) -> None:
        """Add a visit by `agent` that measured `value`; `mean` and `variance` are the initial belief."""
        self.probed = agent not in self.agents
        if self.probed:
            self.agents.append(agent)
            self.mean.append(mean)
            self.variance.append(variance + self.visits * transition)
        place = self.agents.index(agent)
        kalman_update(self.mean, self.variance, place, value, observation, transition)
        self.visits += 1
        if len(self.agents) > MOST_AGENTS:
            self._forget(self.variance.index(max(self.variance)))

    def count_complaint(self, agent: str, too_long: bool, patience: int) -> None:
        """Count a complaint; start again after the host was offered to all, which is after `patience` of
        them."""
        if self.last != agent or self.complaints >= patience:
            self.last, self.complaints = agent, 0
        self.complaints += too_long

    def _forget(self, place: int) -> None:
        for column in (self.agents, self.mean, self.variance):
            del column[place]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(HostTripRow)
