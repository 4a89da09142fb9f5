"""Section `[refresh]`: how often known pages are fetched again, and which of them first."""

from __future__ import annotations

from typing import Annotated, Any

from fieldmouse.named import NAME
from fieldmouse.settings import kinds
from fieldmouse.settings.kinds import About, ValueKind
from fieldmouse.settings.sections import Section

POLLING = ("learned", "uniform", "proportional", "harmonic", "automaton", "multiplicative")
"""Policies that can run live, because they learn their parameters from the polls.

Listed here, not looked up, so that reading settings does not load the solvers."""


def _budget(value: Any) -> float | None:
    """Read the seconds between two polls; None for no limit."""
    if value == "none":
        return None
    interval = kinds.INTERVAL.read(value)
    if not isinstance(interval, float) or not interval:
        raise ValueError(value)
    return interval


_BUDGET = ValueKind(
    'a rate such as "500/h", a duration such as "10s", or "none"',
    _budget,
    lambda value: '"none"' if value is None else kinds.INTERVAL.write(value),
)


class RefreshSection(Section, frozen=True):
    """Known pages, fetched again (see docs/refresh.md). `fieldmouse refresh` does so without `on`."""

    on: Annotated[
        bool,
        About(kinds.FLAG, "poll known pages while the crawl runs; it then ends only at a limit"),
    ] = False
    budget: Annotated[
        float | None,
        About(_BUDGET, 'polls, as a rate such as "500/h"; "none" for as many as politeness allows'),
    ] = None
    policy: Annotated[
        str,
        About(
            kinds.named(POLLING, NAME.pattern, "package.module:Class"),
            "how the budget is spread over the pages (see docs/refresh.md)",
        ),
    ] = "learned"
    share: Annotated[
        float, About(kinds.SHARE, "share of a host's visits that are polls while it has new URLs waiting")
    ] = 0.5
    retry: Annotated[
        float,
        About(kinds.SOME_TIME, "time between two polls of a URL that is gone, moved, failed or refused"),
    ] = 604800.0
    revisits: Annotated[
        bool, About(kinds.FLAG, "write a WARC revisit record for a page that has not changed")
    ] = True
