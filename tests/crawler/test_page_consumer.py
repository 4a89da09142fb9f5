"""Combined page consumers, and the wait for them at the end of a run."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fieldmouse.clock import Clock
from fieldmouse.crawler.crawler import EAGER_CHECKPOINT_EVERY, CombinedConsumerStatus, wait_for_consumer
from fieldmouse.testing import virtual_time


class Listener:
    """Content after a number of questions."""

    def __init__(self, *, asks: int = 1, behind: bool = False, eager: bool = False):
        self.asked, self._asks, self._behind, self._eager = 0, asks, behind, eager

    def is_too_far_behind(self) -> bool:
        return self._behind

    def run_may_end(self) -> bool:
        self.asked += 1
        return self.asked >= self._asks

    def waits_for_checkpoint(self) -> bool:
        return self._eager


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_one_consumer_is_enough_to_be_behind_or_eager(first: bool, second: bool) -> None:
    both = CombinedConsumerStatus(Listener(behind=first, eager=first), Listener(behind=second, eager=second))
    assert both.is_too_far_behind() == both.waits_for_checkpoint() == (first or second)


def test_all_consumers_are_asked_whether_they_are_content() -> None:
    slow, quick = Listener(asks=3), Listener()
    both = CombinedConsumerStatus(slow, quick)
    assert [both.run_may_end() for _ in range(3)] == [False, False, True]
    assert slow.asked == quick.asked == 3, "one may begin to hurry when it is asked for the first time"


@pytest.mark.parametrize("eager", [False, True])
def test_an_eager_consumer_gets_a_checkpoint_soon(eager: bool) -> None:
    async def life(clock: Clock) -> list[float]:
        times = []

        async def checkpoint() -> None:
            times.append(clock.now())

        await wait_for_consumer(Listener(asks=200, eager=eager), checkpoint, clock, every=5.0)
        return times

    gaps = [after - before for before, after in pairwise(virtual_time.run_in_virtual_time(life))]
    assert gaps == pytest.approx([EAGER_CHECKPOINT_EVERY if eager else 5.0] * len(gaps), abs=0.15)
    assert len(gaps) > 2
