"""Trust in a source of modification dates, learned from right and wrong dates.

Servers report when a page last changed (`Last-Modified`), and so do sitemaps (`lastmod`). Some report the
truth, some the time of the request, some the day of the last deployment. A later poll of the page shows
whether the report was right. Trust is kept per source and kind of claim: "changed" and "did not change"
need one each, since a source that always reports "nothing new" is right about most pages and useless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FADE = 0.99
"""A source is judged by about its last hundred claims."""

RESERVE = 1.0
"""Standard deviations subtracted from the estimate: a new source has to prove itself."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Claims that proved right and wrong, the old ones counting less.

    >>> stranger = Trust()
    >>> proven = stranger
    >>> for _ in range(20):
    ...     proven = proven.observe(True)
    >>> stranger.weight() < 0.25 < 0.85 < proven.weight() < 1
    True
    >>> proven.observe(False).weight() < proven.weight()
    True
    """

    right: float = 0.0
    wrong: float = 0.0

    def observe(self, right: bool) -> Trust:
        return replace(
            self,
            right=self.right * FADE + (1.0 if right else 0.0),
            wrong=self.wrong * FADE + (0.0 if right else 1.0),
        )

    def weight(self) -> float:
        """Cautious probability, from 0 to 1, that the next claim is right (prior Beta(1, 1))."""
        return float(weight(self.right, self.wrong))


def weight(right: npt.ArrayLike, wrong: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Weight for many sources at once; see `Trust.weight`."""
    a, b = np.asarray(right, np.float64) + 1, np.asarray(wrong, np.float64) + 1
    n = a + b
    return np.maximum(0.0, a / n - RESERVE * np.sqrt(a * b / (n * n * (n + 1))))
