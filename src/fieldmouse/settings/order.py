"""What one run is asked for, beyond the settings of its crawl."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """Known pages are to be polled, whatever the settings say of it."""

    once: bool = False  # until every known page was polled once, and what that discovers is fetched
    hold: bool = False  # leave alone what waited when the refresh began
    only: bool = False  # a refresh and no crawl: when its time is over, it is done
