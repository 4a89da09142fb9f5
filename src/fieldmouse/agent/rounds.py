"""What a crawl remembers of its refreshes: three moments, and pages that have moved.

`baseline`: when the crawl first had nothing more to discover, or was first refreshed; what was seen
later is new to its readers. `round`: when the round under way began, in which every known page is polled
once; a round that was stopped goes on. `held`: URLs discovered before then stay where they wait, because
only a refresh was asked for.

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
    held: float = 0.0
    reach: int = 0  # bytes of outcomes then; if there are more, a crawl without refresh came between
    moving: dict[str, str] = {}  # pages that have moved, and to where, as far as that is not stored yet


def sealed_refresh(last: Checkpoint | None) -> RefreshState:
    """As the last checkpoint knows it; nothing yet, if the crawl was never refreshed."""
    return last.state(REFRESH, RefreshState) if last is not None and REFRESH in last.parts else RefreshState()


def begun(last: Checkpoint | None, order: Order, now: float) -> RefreshState:
    """How a run that is asked for `order` goes on from there."""
    state = sealed_refresh(last)
    alone = state.reach == sealed_outcomes(last)
    return RefreshState(
        baseline=state.baseline or (now if order.hold else 0.0),
        round=(state.round or now) if order.once else 0.0,
        held=(state.held if alone and state.held else now) if order.hold else 0.0,
        moving=state.moving,
    )
