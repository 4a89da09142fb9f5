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


def _share(value: Any) -> float:
    number = kinds.NUMBER.read(value)
    if not isinstance(number, float) or number > 1:
        raise ValueError(value)
    return number


_BUDGET = ValueKind(
    'a rate such as "500/h", a duration such as "10s", or "none"',
    _budget,
    lambda value: '"none"' if value is None else kinds.INTERVAL.write(value),
)
_SHARE = ValueKind("a number from 0 to 1", _share, repr, from_word=False)


class RefreshSection(Section, frozen=True):
    """Known pages, fetched again (see docs/refresh.md). `fieldmouse refresh` does so even if `on` is false.
    """

    on: Annotated[
        bool,
        About(kinds.FLAG, "poll known pages while the crawl runs, which then ends by a limit only"),
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
        float, About(_SHARE, "of a host's visits that are polls while new URLs of it wait, too")
    ] = 0.5
    retry: Annotated[
        float,
        About(kinds.SOME_TIME, "between two polls of a URL that is gone, has moved, failed or was refused"),
    ] = 604800.0
    revisits: Annotated[
        bool, About(kinds.FLAG, "write a WARC revisit record for a page that has not changed")
    ] = True
