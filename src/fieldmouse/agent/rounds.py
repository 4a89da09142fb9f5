"""What a crawl remembers of its refreshes: four moments, and pages that have moved.

`baseline`: when the crawl first had nothing more to discover, or was first refreshed; what was seen
later is new to its readers. `round`: when the round under way began, in which every known page is polled
once; a round that was stopped goes on. `last_round`: when the last finished round began; a page that was
last tried before then was postponed by it. `held`: URLs discovered before then stay where they wait, because
only a refresh was asked for.

Clocks are set right. A time that lies in the future when a crawl is opened was noted while the clock was
ahead, and it counts as now: for these moments in `begun`, for what is known of each page in
`Ledger.limit_times`, for URLs that wait in `frontier/holding.py`. Waits of hosts and URLs come forward with
the clock instead (`frontier/hostrows.py`): they never end too early.

Apart from `refreshing.py`, which loads the ledger and all policies: most crawls poll nothing.
"""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir import Checkpoint, sealed_outcomes
from fieldmouse.crawldir.news import REFRESH
from fieldmouse.settings.order import Order


class RefreshState(msgspec.Struct, frozen=True):
    """The part `refresh` of a checkpoint. Times are epoch seconds; 0: never."""

    baseline: float = 0.0
    round: float = 0.0
    last_round: float = 0.0
    held: float = 0.0
    replaced: list[tuple[int, float]] = []  # older baselines, see `Baseline`
    reach: int = 0  # bytes of outcomes then; if there are more, a crawl without refresh came between
    moving: dict[str, str] = {}  # pages that have moved, and to where, as far as that is not stored yet


def sealed_refresh(last: Checkpoint | None) -> RefreshState:
    """As the last checkpoint knows it; nothing yet, if the crawl was never refreshed."""
    return last.state(REFRESH, RefreshState) if last is not None and REFRESH in last.parts else RefreshState()


def begun(last: Checkpoint | None, order: Order, now: float) -> RefreshState:
    """How a run that is asked for `order` goes on from there."""
    state = sealed_refresh(last)
    alone = state.reach == sealed_outcomes(last)
    ahead = [(sealed_outcomes(last), state.baseline)] if state.baseline > now else []
    return RefreshState(
        baseline=min(state.baseline, now) or (now if order.hold else 0.0),
        round=min(state.round or now, now) if order.once else 0.0,
        last_round=min(state.last_round, now),
        held=min(state.held if alone and state.held else now, now) if order.hold else 0.0,
        replaced=[*state.replaced, *ahead],
        moving=state.moving,
    )
