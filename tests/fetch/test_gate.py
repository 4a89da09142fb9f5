"""Gate: visits never overlap, and delays are kept."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.clock import Clock
from fieldmouse.fetch.politeness_gate import PolitenessGate
from fieldmouse.testing import virtual_time
from fieldmouse.url import Host

visits = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=25
)


@settings(max_examples=60, deadline=None)
@given(visits)
def test_visits_to_a_host_or_address_neither_overlap_nor_come_too_soon(
    plan: list[tuple[int, int, float, float]],
) -> None:
    stays: list[tuple[str, str, float, float, float]] = []

    async def life(clock: Clock) -> None:
        gate = PolitenessGate(clock)

        async def visit(host: int, address: int, starts: float, takes: float) -> None:
            await clock.sleep(starts)
            name, place = Host(f"http://h{host}"), f"a{address}"
            await gate.enter(name, place)
            came = clock.now()
            await clock.sleep(takes)
            gate.leave(name, place, clock.now() + 1.0, clock.now() + 0.5)
            stays.append((name, place, came, came + takes, clock.now()))

        await asyncio.gather(*(visit(*each) for each in plan))

    virtual_time.run_in_virtual_time(life)
    assert len(stays) == len(plan)
    stays.sort(key=lambda stay: stay[2])
    for number, (host, address, _, _, left) in enumerate(stays):
        for other_host, other_address, came, _, _ in stays[number + 1 :]:
            if host == other_host:
                assert came >= left + 1.0 - 1e-6
            if address == other_address:
                assert came >= left + 0.5 - 1e-6
