"""Estimation of how often a page changes, from polls that show only whether it has changed.

A poll gives little: the seconds since the previous poll, and one bit. Several changes between two polls
are one bit, too. Each page has a *belief*, four numbers that summarize its polls (`belief`), with fading
weight of old polls. Beliefs assume no time scale: the distribution of change rates is learned from all
pages of the crawl (`population`), so the same code works with slots in the lab and with seconds on the
web, and a page seen once is treated like the others.

`cho` has the classical estimators for comparison. `trust` learns how reliable the dates of servers are.
"""

from __future__ import annotations

from fieldmouse.policy.change.belief import WIDTH, begin, observe
from fieldmouse.policy.change.population import (
    Population,
    current,
    fresh_share,
    freshness,
    lasted,
    population,
    posterior,
    rate,
)
from fieldmouse.policy.change.trust import Trust, weight

__all__ = [
    "WIDTH", "Population", "Trust", "begin", "current", "fresh_share", "freshness", "lasted", "observe",
    "population", "posterior", "rate", "weight",
]  # fmt: skip
