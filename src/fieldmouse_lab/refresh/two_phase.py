"""Simulation of the two-phase scheme in slots: pages change, automata poll, full nodes are repacked.

In a slot every page changes with its probability, every page is polled with the frequency of its
automaton, the automata learn, overloaded nodes poll less or move sites away, and then measures are taken.
All automata start in state 1 with a fresh copy. Bins are numbered from 0, as printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from fieldmouse.policy import polling_automata
from fieldmouse.policy.polling_automata import NodeOverloadAutomaton
from fieldmouse.policy.site_packing.adaptive_packing import AdaptiveSitePacking
from fieldmouse.policy.site_packing.bin_packing import bin_loads
from fieldmouse_lab.refresh.contest import PageSet

#: Rewards and penalties stored per page; the document does not give the number.
REGISTER = 8

#: The document gives neither the number of states of a node nor its threshold.
NODE = NodeOverloadAutomaton(states=16, threshold=2)

Reals = npt.NDArray[np.float64]


class PollReading(StrEnum):
    """Information that a poll gives an automaton: the first is the document's program, others fit its text as
    well."""

    SINCE_POLL = "changed since the last poll"
    THIS_SLOT = "changed in this slot"
    HALF = "changed in the slot of the poll half the time"  # the other half is overlooked: converges to f = p


@dataclass(frozen=True, slots=True)
class Scheme:
    """Parameters of a game. `capacity` 0 leaves the automata free: no node is ever full.

    With `switch_every` each page takes its successor's probability after that number of slots.
    """

    population: PageSet
    resolution: int
    slots: int
    capacity: int
    rule: NodeOverloadAutomaton = NODE
    register: int = REGISTER
    switch_every: int = 0
    reading: PollReading = PollReading.SINCE_POLL


@dataclass(frozen=True, slots=True)
class SchemeSnapshot:
    """State at the end of a slot, in polls per slot."""

    sites: Reals
    bins: tuple[float, ...]  # by number; some may be empty
    taken: float  # from pages on full nodes, summed over all slots so far

    @property
    def total(self) -> float:
        return float(self.sites.sum())

    @property
    def used(self) -> int:
        return sum(1 for load in self.bins if load)

    def bin(self, number: int) -> float:
        """Load of a bin, 0 if it was never opened."""
        return self.bins[number] if number < len(self.bins) else 0.0


@dataclass(frozen=True, slots=True)
class SchemeCourse:
    """Measures of every slot of a game, and the requested snapshots."""

    weight: Reals
    bins: npt.NDArray[np.int64]
    polls: Reals
    updates: Reals
    fresh: Reals  # share of copies, at the end of the slot
    moves: int
    taken: float  # polls per slot, from pages on full nodes
    moments: dict[int, SchemeSnapshot] = field(default_factory=dict)


def play_scheme(scheme: Scheme, seed: int, moments: Sequence[int] = ()) -> SchemeCourse:
    """Play one game; moment 0 is the state before the first slot."""
    rng = np.random.default_rng(seed)
    game = _Game(scheme, rng)
    kept = {0: game.moment()} if 0 in moments else {}
    course = np.empty((5, scheme.slots))
    wanted = set(moments)
    for slot, measured in enumerate(game.slots()):
        course[:, slot] = measured
        if slot + 1 in wanted:
            kept[slot + 1] = game.moment()
    weight, bins, polls, updates, fresh = course
    taken = game.nodes.lowered / scheme.resolution
    return SchemeCourse(weight, bins.astype(np.int64), polls, updates, fresh, game.nodes.moves, taken, kept)


class _Game:
    def __init__(self, scheme: Scheme, rng: np.random.Generator):
        self.scheme = scheme
        self.rng = rng
        pages = scheme.population.pages
        self.p = scheme.population.p.copy()
        self.states = np.ones(pages, dtype=np.int64)
        self.stale = np.zeros(pages, dtype=bool)
        self.history = np.zeros(pages, dtype=np.uint64)
        units = scheme.capacity * scheme.resolution or pages * scheme.resolution
        self.nodes = AdaptiveSitePacking.pack_initially(scheme.population.sizes, units, scheme.rule)

    def slots(self) -> Iterator[tuple[float, float, float, float, float]]:
        """Weight, bins, polls, updates and the share of fresh copies of each slot."""
        scheme, pages = self.scheme, self.scheme.population.pages
        for slot in range(scheme.slots):
            if scheme.switch_every and slot and slot % scheme.switch_every == 0:
                self.p = np.roll(self.p, -1)
            polls, updates = self.polled()
            self.states = self.nodes.repair_overloads(
                self.states, polling_automata.count_penalties(self.history), scheme.population.sites, self.rng
            )
            weight = float(self.states.sum()) / scheme.resolution
            yield weight, self.nodes.used_bins, polls, updates, 1 - np.count_nonzero(self.stale) / pages

    def polled(self) -> tuple[int, int]:
        """Poll once; return the number of polls and of found changes."""
        resolution = self.scheme.resolution
        changes = self.p > self.rng.random(len(self.p))
        overlooked = np.zeros_like(changes)
        if self.scheme.reading is PollReading.HALF:
            overlooked = changes & (self.rng.random(len(self.p)) < 0.5)
        self.stale |= changes & ~overlooked
        polled = np.flatnonzero(polling_automata.poll_frequency(self.states, resolution) > self.rng.random(len(self.p)))
        found = changes if self.scheme.reading is PollReading.THIS_SLOT else self.stale
        changed = found[polled]
        self.states[polled] = polling_automata.states_after_poll(self.states[polled], changed, resolution)
        self.history[polled] = polling_automata.push_history(self.history[polled], changed, self.scheme.register)
        self.stale |= overlooked
        self.stale[polled] = False
        return len(polled), int(np.count_nonzero(changed))

    def moment(self) -> SchemeSnapshot:
        scheme = self.scheme
        sites = scheme.population.by_site(self.states.astype(np.float64)) / scheme.resolution
        held = tuple(bin_loads(sites.tolist(), self.nodes.bins))
        return SchemeSnapshot(sites, held, self.nodes.lowered / scheme.resolution)
