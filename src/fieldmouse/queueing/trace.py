"""What a crawl saw of its own buffer: when pages came, how long each took, and which grew too old.

A trace is what a model is fitted to. It is cut out of a crawl's page rows by whoever
keeps them; here it is only arrays, in seconds from any origin.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def _no_times() -> FloatArray:
    return np.empty(0)


def _no_counts() -> IntArray:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Trace:
    """Arrivals with the mode they met, services, and lifetimes, some of them cut short by service.

    The mode is the number of robots allowed. It may change between two arrivals, when a
    page leaves; `switched` and `mode` tell when and to what, so that the time spent in a
    mode is known and not guessed from the arrivals that fell into it (which would favour
    short intervals). Both are empty where nobody kept them.
    """

    arrived: FloatArray  # ascending: every page that came to the buffer, those it had no room for too
    robots: IntArray  # allowed just before that moment
    service: FloatArray = field(default_factory=_no_times)  # one per page served
    expired: FloatArray = field(default_factory=_no_times)  # ages of pages that grew obsolete
    outlived: FloatArray = field(default_factory=_no_times)  # ages at which pages were taken into service
    span: float = 0.0  # from the first moment watched to the last
    switched: FloatArray = field(default_factory=_no_times)  # ascending; the first is when watching began
    mode: IntArray = field(default_factory=_no_counts)  # robots allowed from then on
