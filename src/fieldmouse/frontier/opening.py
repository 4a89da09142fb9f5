"""The frontier put together: its parts opened at the last checkpoint, connected, and handed in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fieldmouse.clock import Clock
from fieldmouse.frontier.distributor import Distributor
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.hostrows import lag
from fieldmouse.frontier.moment import FrontierState
from fieldmouse.frontier.parts import open_parts
from fieldmouse.frontier.witness import Nobody, Witness
from fieldmouse.frontier.workbench import Workbench
from fieldmouse.policy.distribution import Distribution
from fieldmouse.policy.front import FrontRule
from fieldmouse.policy.sitelimits import SiteLimits
from fieldmouse.records import HostState


def open_frontier(
    directory: Path,
    *,
    key_seed: int,
    clock: Clock,
    policy: Distribution[int],
    front: FrontRule | None = None,
    errand_links: int = 16,
    state: FrontierState | None = None,
    resumed_delay: Callable[[HostState], float],
    run_size: int = 1 << 21,
    witness: Witness | None = None,
    limits: SiteLimits | None = None,
) -> Frontier:
    """The frontier in a directory, at `state`. Opening changes nothing on the disk; `begin` does.

    `resumed_delay` is the ordinary delay of a host; after a restart each gets it in full.
    """
    now, watcher = clock.now(), witness or Nobody()
    parts = open_parts(
        directory, state, key_seed=key_seed, now=now, resumed_delay=resumed_delay, run_size=run_size,
        limits=limits or SiteLimits(),
    )  # fmt: skip
    workbench = Workbench(parts.hosts.quieten(now) if parts.hosts.resumed else 0.0)
    distributor = Distributor(
        policy,
        draw=parts.ready.pop,
        queues=parts.queues,
        front=parts.front,
        workbench=workbench,
        hosts=parts.hosts,
        batch=2 * errand_links,
        witness=watcher,
    )
    return Frontier(
        parts,
        workbench=workbench,
        distributor=distributor,
        witness=watcher,
        clock=clock,
        rule=front or FrontRule(),
        key_seed=key_seed,
        errand_links=errand_links,
        state=state,
        set_back=lag(state.hosts.at, now) if state else 0.0,
    )
