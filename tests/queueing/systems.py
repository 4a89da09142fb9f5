"""Whole systems that hypothesis makes up, and a second account of them, state by state and in words.

The account writes every state as a tuple and every event as a sentence of the
model; it shares no line with the solvers. It is slow, and small systems are enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st

from fieldmouse.queueing.model.model import ADMISSIONS, Measures, Model, WorkerCountRule, WorkersByLevel
from fieldmouse.queueing.model.phase_type import PhaseType
from queueing.models import phase_types, rates, streams

State = tuple[int, int, int, tuple[int, ...]]
"""Level, arrival phase, service phase, and the phases of the waiting pages, the head first."""

MEASURES = ("rate", "loss", "obs", "success", "star", "robots", "sojourn", "sojourn_served", "sojourn_obsolete")


@st.composite
def exponentials(draw: st.DrawFn) -> PhaseType:
    """Lifetimes that are exponential, some in disguise: phases that are all left at one rate."""
    if draw(st.booleans()):
        return draw(st.sampled_from([PhaseType.never(), PhaseType.exponential(draw(rates))]))
    a, b, leave = draw(rates), draw(rates), draw(rates)
    start = draw(st.floats(0.1, 0.9))
    return PhaseType(np.array([start, 1 - start]), np.array([[-a - leave, a], [b, -b - leave]]))


@st.composite
def systems(
    draw: st.DrawFn, lifetimes: st.SearchStrategy[PhaseType], most: int = 4, phases: int = 2
) -> tuple[Model, WorkersByLevel]:
    """A model with up to three modes, under any rule by level."""
    W = draw(st.integers(1, phases))
    modes = {r: draw(streams(phases=W)) for r in range(1, draw(st.integers(1, 3)) + 1)}
    model = Model(
        draw(st.integers(1, most)),
        modes,
        draw(phase_types(most=2)),
        draw(lifetimes),
        # A mode whose batches never fit and are turned away brings nothing at all: another test's matter.
        draw(st.sampled_from(ADMISSIONS if all(s.D[1].any() for s in modes.values()) else ADMISSIONS[::2])),
    )
    robots = draw(
        st.lists(st.sampled_from(sorted(modes)), min_size=model.highest_level + 1, max_size=model.highest_level + 1)
    )
    return model, WorkersByLevel(tuple(robots))


def laws_hold(found: Measures, model: Model, relative: float = 1e-9) -> None:
    """Every page has one fate; Little's law; the server is busy as long as it serves."""
    assert found.loss + found.obs + found.success == pytest.approx(1, rel=relative)
    assert found.mean_level == pytest.approx(found.rate * found.sojourn, rel=relative)
    assert found.rate * found.success * model.service.mean == pytest.approx(1 - found.star, rel=relative)
    assert found.levels.sum() == pytest.approx(1, rel=relative)
    assert sum(found.robots_distribution.values()) == pytest.approx(1, rel=relative)


@dataclass(frozen=True)
class Account:
    """The model told state by state."""

    model: Model
    rule: WorkerCountRule

    def let_in(self, level: int, batch: int) -> int:
        room = max(self.model.capacity - level, 0)
        if batch <= room or (self.model.admission == "complete" and room):
            return batch
        return room if self.model.admission == "partial" else 0

    def after_arrival(self, state: State, nu: int, pages: int) -> Iterator[tuple[float, State]]:
        """Where `pages` newcomers lead to, with what probability."""
        level, _, m, waiting = state
        service, life = self.model.service, self.model.lifetime
        if pages == 0:
            yield 1.0, (level, nu, m, waiting)
            return
        starts = [(1.0, m)] if level else [(p, k) for k, p in enumerate(service.alpha)]
        new = pages if level else pages - 1
        for p, start in starts:
            for phases in product(range(life.order), repeat=new):
                chance = float(p * np.prod([life.alpha[k] for k in phases]))
                yield chance, (level + pages, nu, start, waiting + phases)

    def events(self, state: State) -> Iterator[tuple[float, State]]:
        level, nu, m, waiting = state
        service, life = self.model.service, self.model.lifetime
        for batch, D in enumerate(self.model.modes[self.rule.concurrency_at(level)].D):
            for to in range(len(D)):
                if batch or to != nu:
                    for chance, after in self.after_arrival(state, to, self.let_in(level, batch)):
                        yield D[nu, to] * chance, after
        if level == 0:
            return
        for to in range(service.order):
            if to != m:
                yield service.S[m, to], (level, nu, to, waiting)
        if level == 1:
            yield service.exit_rates[m], (0, nu, 0, ())
        else:
            for to, p in enumerate(service.alpha):
                yield service.exit_rates[m] * p, (level - 1, nu, to, waiting[1:])
        for k, phase in enumerate(waiting):
            for to in range(life.order):
                if to != phase:
                    yield life.S[phase, to], (level, nu, m, (*waiting[:k], to, *waiting[k + 1 :]))
            yield life.exit_rates[phase], (level - 1, nu, m, waiting[:k] + waiting[k + 1 :])

    def shares(self) -> dict[State, float]:
        found: dict[State, int] = {(0, 0, 0, ()): 0}
        todo, jumps = [(0, 0, 0, ())], []
        while todo:
            state = todo.pop()
            for rate, after in self.events(state):  # type: ignore[arg-type]
                if rate > 0 and after != state:
                    if after not in found:
                        found[after] = len(found)
                        todo.append(after)  # type: ignore[arg-type]
                    jumps.append((found[state], found[after], rate))  # type: ignore[index]
        generator = np.zeros((len(found), len(found)))
        for a, b, rate in jumps:
            generator[a, b] += rate
            generator[a, a] -= rate
        generator[:, 0] = 1.0
        p = np.linalg.solve(generator.T, np.eye(len(found))[0])
        return {state: float(p[i]) for state, i in found.items()}

    def fates(self) -> dict[tuple[int, tuple[int, ...]], np.ndarray]:
        """By service phase and phases of those waiting up to the page itself: E[T^k; served], E[T^k; not]."""
        service, life, top = self.model.service, self.model.lifetime, self.model.highest_level
        states = [
            (m, phases)
            for n in range(top)
            for m in range(service.order)
            for phases in product(range(life.order), repeat=n)
        ]
        place = {state: i for i, state in enumerate(states)}
        T = np.zeros((len(states), len(states)))
        ends = np.zeros((len(states), 2))
        for (m, phases), i in place.items():
            moves: list[tuple[float, tuple[int, tuple[int, ...]]]] = []
            moves += [(service.S[m, to], (to, phases)) for to in range(service.order) if to != m]
            if phases:
                moves += [(service.exit_rates[m] * p, (to, phases[1:])) for to, p in enumerate(service.alpha)]
            else:
                ends[i, 0] += service.exit_rates[m]
            for k, phase in enumerate(phases):
                moves += [
                    (life.S[phase, to], (m, (*phases[:k], to, *phases[k + 1 :])))
                    for to in range(life.order)
                    if to != phase
                ]
                if k == len(phases) - 1:
                    ends[i, 1] += life.exit_rates[phase]
                else:
                    moves.append((life.exit_rates[phase], (m, phases[:k] + phases[k + 1 :])))
            for rate, after in moves:
                T[i, place[after]] += rate
            T[i, i] -= sum(rate for rate, _ in moves) + ends[i].sum()
        zeroth = np.linalg.solve(-T, ends)
        first = np.linalg.solve(-T, zeroth)
        second = 2 * np.linalg.solve(-T, first)
        moments = np.stack([zeroth, first, second], axis=2)
        return {state: moments[i] for state, i in place.items()}

    def measures(self) -> dict[str, float]:
        """By the names of `Measures`, and the second moments of V1 and V2."""
        shares, fates = self.shares(), self.fates()
        service, life = self.model.service, self.model.lifetime
        rate = lost = obsolete = served = 0.0
        ends = np.zeros((2, 3))
        for state, p in shares.items():
            level, nu, m, waiting = state
            served += p * service.exit_rates[m] if level else 0.0
            obsolete += p * sum(life.exit_rates[phase] for phase in waiting)
            for batch, D in enumerate(self.model.modes[self.rule.concurrency_at(level)].D):
                arriving = p * D[nu].sum() if batch else 0.0
                pages = self.let_in(level, batch)
                rate += arriving * batch
                lost += arriving * (batch - pages)
                for chance, (_, _, start, queue) in self.after_arrival(state, nu, pages) if arriving else ():
                    for nth in range(1, pages + 1):
                        ahead = level + nth - 1
                        ends += arriving * chance * fates[start, queue[:ahead]]
        return {
            "rate": rate,
            "loss": lost / rate,
            "obs": obsolete / rate,
            "success": served / rate,
            "star": sum(p for (level, *_), p in shares.items() if level == 0),
            "robots": sum(p * self.rule.concurrency_at(state[0]) for state, p in shares.items()),
            "sojourn": ends[:, 1].sum() / rate,
            "sojourn_served": ends[0, 1] / ends[0, 0],
            "sojourn_obsolete": ends[1, 1] / ends[1, 0] if obsolete else np.nan,
            "second_served": ends[0, 2] / ends[0, 0],
            "second_obsolete": ends[1, 2] / ends[1, 0] if obsolete else np.nan,
        }


def agree(found: Measures, told: dict[str, float], relative: float) -> None:
    for name in MEASURES:
        value = getattr(found, name)
        assert (np.nan if value is None else value) == pytest.approx(
            told[name], rel=relative, abs=1e-14, nan_ok=True
        ), name
