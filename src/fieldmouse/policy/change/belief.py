"""Belief about a page: four float32 columns that summarize its polls, and their update.

If changes come at the rate `lam`, the polls have the likelihood

    exp(-lam * still) * lam ** dated * (1 - exp(-lam * blind / undated)) ** undated

`still` is the time in which nothing changed, `undated` the number of polls that found a change at an
unknown time, `blind` the total length of their gaps, `dated` the number of changes with a known time. The
gaps of undated changes are assumed equal: exact where polls are evenly spaced, and hardly worse
elsewhere, since the length of short gaps does not matter and a change in a long gap shows nothing.

Old polls fade: each poll multiplies the weight of earlier ones by `FADE`, so that a page whose behaviour
changes is learned anew after some sixty polls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Beliefs = npt.NDArray[np.float32]

WIDTH = 4
STILL, DATED, UNDATED, BLIND = range(WIDTH)

FADE = 1 - 1 / 64
"""Factor of a poll's weight at each later poll."""


def begin(pages: int) -> Beliefs:
    """Beliefs about pages without polls."""
    return np.zeros((pages, WIDTH), np.float32)


def observe(
    belief: Beliefs,
    gap: npt.ArrayLike,
    changed: npt.ArrayLike,
    age: npt.ArrayLike | None = None,
    *,
    fade: float = FADE,
) -> Beliefs:
    """Beliefs after one more poll of each page; the arguments are not changed.

    `gap` is the time since the previous poll. `age` is the time between the last change and this poll if
    a reliable date gives it, and NaN otherwise. At the first visit of a page the gap is infinite: only an
    age counts then, and `changed` must be true.

    >>> twice = observe(observe(begin(1), 10.0, False), 30.0, True, fade=1)
    >>> twice.tolist()
    [[10.0, 0.0, 1.0, 30.0]]
    >>> observe(twice, 30.0, True, age=5.0, fade=1).tolist()
    [[15.0, 1.0, 1.0, 30.0]]
    """
    gap = np.maximum(np.asarray(gap, np.float64), 0.0)
    changed = np.asarray(changed, bool)
    ages = np.asarray(np.nan if age is None else age, np.float64)
    dated = changed & (ages >= 0)
    undated = changed & ~dated & (gap > 0) & np.isfinite(gap)
    after = belief * np.float32(fade)
    after[:, STILL] += np.where(changed, np.where(dated, np.minimum(ages, gap), 0.0), gap)
    after[:, DATED] += dated
    after[:, UNDATED] += undated
    after[:, BLIND] += np.where(undated, gap, 0.0)
    return after
