"""Settings of the whole crawl that an agent's session needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from fieldmouse.balancer.board.contract import SiteBounds


@dataclass(frozen=True, slots=True)
class Terms:
    """Times in seconds."""

    key_seed: int
    lease: float = 15.0
    heartbeat: float = 5.0
    keep_booked: bool = True
    bounds: SiteBounds = field(default_factory=SiteBounds)
