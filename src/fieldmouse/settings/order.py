"""Options of one refresh run, beyond the settings of its crawl."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """Order to poll known pages, whatever `refresh.on` is."""

    once: bool = False  # end when every known page was polled once and all new URLs are fetched
    hold: bool = False  # leave URLs alone that were waiting when the refresh began
    only: bool = False  # a refresh without a crawl: it is done when its time is over
