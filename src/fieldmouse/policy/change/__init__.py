"""How often does a page change, when all we know is whether it had changed whenever we looked?

A look tells little: the seconds since the look before, and one bit. Several changes between two looks are
one bit, too. Each page keeps a *belief*, four numbers that sum its looks up (`belief`), old looks
counting less and less. They hold no guess of a time scale: what pages of this crawl are like is learned
from all of them together (`population`), so the same code lives with slots in the lab and with seconds on
the web, and a page seen once is taken for one of its kind.

`cho` has the classical estimators, to be measured against. `trust` learns how far
the dates that servers tell can be believed.
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
