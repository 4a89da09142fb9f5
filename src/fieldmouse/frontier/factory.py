"""Factory of the frontier: opens its parts at the last checkpoint and connects them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fieldmouse.clock import Clock
from fieldmouse.frontier.decision_log import DecisionObserver, NullObserver
from fieldmouse.frontier.distributor import Distributor
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.hosts.host_rows import clock_setback
from fieldmouse.frontier.in_flight import HeldUrls, RestingTickets, Tickets
from fieldmouse.frontier.state import FrontierState, open_parts
from fieldmouse.frontier.workbench import Workbench
from fieldmouse.policy.distribution.registry import DistributionPolicy
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.policy.site_limits import SiteLimits
from fieldmouse.types.host import HostState


def open_frontier(
    directory: Path,
    *,
    key_seed: int,
    clock: Clock,
    policy: DistributionPolicy[int],
    front: FrontSizeRule | None = None,
    errand_links: int = 16,
    state: FrontierState | None = None,
    resumed_delay: Callable[[HostState], float],
    run_size: int = 1 << 21,
    witness: DecisionObserver | None = None,
    limits: SiteLimits | None = None,
    share: float = 0.5,
    hold_before: float = 0.0,
) -> Frontier:
    """Open the frontier in a directory at `state`. Opening changes nothing on disk; `begin` does.

    `resumed_delay` is the ordinary delay of a host; after a restart each gets it in full.
    `share` of a host's visits are polls while new URLs of it wait, too. URLs that were
    discovered before `hold_before` (epoch seconds) stay in place, see `frontier/in_flight.py`; 0: none.
    """
    now, polls = clock.now(), set[int]()
    watcher = NullObserver() if witness is None or hold_before else witness
    parts = open_parts(
        directory, state, limits, key_seed=key_seed, now=now, resumed_delay=resumed_delay, run_size=run_size
    )
    resting = RestingTickets()
    quiet_until = parts.hosts.restart_delays(now) if parts.hosts.resumed else 0.0
    workbench = Workbench(quiet_until, polls=polls, share=share)
    holding = HeldUrls(hold_before, now, parts) if hold_before else None
    distributor = Distributor(
        policy,
        draw=parts.ready.pop,
        queues=parts.queues,
        front=parts.front,
        workbench=workbench,
        hosts=parts.hosts,
        batch=2 * errand_links,
        witness=watcher,
        holding=holding is not None,
    )
    tickets = Tickets(
        parts,
        resting,
        distributor,
        workbench,
        set_back=clock_setback(state.hosts.at, now) if state else 0.0,
        polls=state.polls if state else 0,
        poll_numbers=polls,
        holding=holding,
    )
    return Frontier(
        parts,
        workbench=workbench,
        distributor=distributor,
        tickets=tickets,
        resting=resting,
        holding=holding,
        witness=watcher,
        clock=clock,
        rule=front or FrontSizeRule(),
        key_seed=key_seed,
        errand_links=errand_links,
        state=state,
    )
