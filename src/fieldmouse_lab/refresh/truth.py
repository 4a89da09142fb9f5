"""True freshness of copies, computed from the server's logs: changes of pages, and requests for them.

No data of the crawler is used. A copy dates from the request that fetched it or found it unchanged, so it
is current from then on until its page changes. The crawler's reports are compared with this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fieldmouse.testing.meadow.serve import MeadowChange
from fieldmouse.testing.meadow.server import Arrival

Reals = NDArray[np.float64]
#: Sorted times by URL.
Moments = Mapping[str, Reals]


def request_times(arrivals: Iterable[Arrival]) -> Moments:
    """Request times of each URL."""
    return _by_url((f"http://{arrival.host}{arrival.path}", arrival.t) for arrival in arrivals)


def change_times(changes: Iterable[MeadowChange]) -> Moments:
    """Change times of each URL."""
    return _by_url((change.url, change.t) for change in changes)


def _by_url(pairs: Iterable[tuple[str, float]]) -> Moments:
    times: dict[str, list[float]] = {}
    for url, at in pairs:
        times.setdefault(url, []).append(at)
    return {url: np.sort(np.array(moments)) for url, moments in times.items()}


def current_share(urls: Iterable[str], looks: Moments, changes: Moments, start: float, end: float) -> float:
    """Share of time in an interval in which the copies of these pages were current.

    A page counts from its first request on.

    >>> looks, change_times = {"a": np.array([0.0, 6.0])}, {"a": np.array([1.0, 2.0, 9.0])}
    >>> current_share(["a"], looks, change_times, 0.0, 10.0)  # from 0 to 1 and from 6 to 9
    0.4
    >>> current_share(["a"], looks, change_times, 5.0, 10.0)
    0.6
    """
    good = whole = 0.0
    nothing = np.empty(0)
    for url in urls:
        begins = looks.get(url, nothing)
        begins = begins[begins < end]
        moments = np.append(changes.get(url, nothing), np.inf)
        ends = np.minimum(np.append(begins[1:], end), moments[np.searchsorted(moments, begins, "right")])
        good += float(np.maximum(ends - np.maximum(begins, start), 0.0).sum())
        whole += end - max(start, float(begins[0])) if len(begins) else 0.0
    return good / whole if whole else 0.0
