"""How far a teller of dates can be believed: a learner of one bit.

Servers tell when a page last changed (`Last-Modified`), and sitemaps do (`lastmod`). Some tell
the truth, some the time of the request, some the day of the last deployment. Whoever
looks at the page afterwards knows whether the telling was right, and says so here.
Trust is for a kind of claim of one teller: "changed" and "did not change" want one each, since a
teller that always says "nothing new" is right about most pages and useless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FADE = 0.99
"""A teller is judged by its last hundred claims."""

RESERVE = 1.0
"""How many standard deviations below the estimate is believed: a stranger has to prove itself."""


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
        """Between 0 and 1: the chance that the next claim is right, cautiously (Beta(1, 1) at first)."""
        return float(weight(self.right, self.wrong))


def weight(right: npt.ArrayLike, wrong: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The same for many tellers at once."""
    a, b = np.asarray(right, np.float64) + 1, np.asarray(wrong, np.float64) + 1
    n = a + b
    return np.maximum(0.0, a / n - RESERVE * np.sqrt(a * b / (n * n * (n + 1))))
