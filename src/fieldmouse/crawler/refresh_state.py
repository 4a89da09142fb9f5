"""Refresh state of a crawl: four times, and pages that have moved.

`baseline`: when the crawl first had nothing left to discover, or was first refreshed; pages seen later are
new to its readers. `round`: start of the current round, in which every known page is polled once; a
stopped round continues in the next run. `last_round`: start of the last finished round; a page last tried
before then was postponed by it. `held`: URLs discovered before then stay queued, because the run only
refreshes.

Clocks get corrected. A time in the future was recorded while the clock was ahead, and counts as now: for
these times in `state_for_run`, for the page table in `PageTable.cap_future_times`, for queued URLs in
`frontier/frontier.py`. Waits of hosts and URLs are shifted with the clock instead
(`frontier/hosts/host_table.py`): they never end early.

Separate from `crawler/refresh.py`, which loads the page table and all policies: most crawls poll nothing.
"""

from __future__ import annotations

import msgspec

from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.storage.changes_from_outcomes import REFRESH_PART
from fieldmouse.storage.checkpoint import Checkpoint, sealed_outcome_bytes


class RefreshState(msgspec.Struct, frozen=True):
    """Part `refresh` of a checkpoint. Times are epoch seconds; 0: never."""

    baseline: float = 0.0
    round: float = 0.0
    last_round: float = 0.0
    held: float = 0.0
    replaced: list[tuple[int, float]] = []  # older baselines, see `NewPageBaseline`
    reach: int = 0  # length of the outcome log then; if it is longer now, a run without refresh came between
    moving: dict[str, str] = {}  # moved pages and their targets, as long as the target is not stored


def saved_refresh_state(last: Checkpoint | None) -> RefreshState:
    """State in the last checkpoint; the default if the crawl was never refreshed."""
    return (
        last.decode_part(REFRESH_PART, RefreshState)
        if last is not None and REFRESH_PART in last.parts
        else RefreshState()
    )


def state_for_run(last: Checkpoint | None, order: RefreshRunMode, now: float) -> RefreshState:
    """State with which a run of `order` starts."""
    state = saved_refresh_state(last)
    alone = state.reach == sealed_outcome_bytes(last)
    ahead = [(sealed_outcome_bytes(last), state.baseline)] if state.baseline > now else []
    return RefreshState(
        baseline=min(state.baseline, now) or (now if order.hold_waiting else 0.0),
        round=min(state.round or now, now) if order.once else 0.0,
        last_round=min(state.last_round, now),
        held=min(state.held if alone and state.held else now, now) if order.hold_waiting else 0.0,
        replaced=[*state.replaced, *ahead],
        moving=state.moving,
    )
