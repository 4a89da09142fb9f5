"""What is remembered of a page's looks: four float32 columns, and how a look changes them.

If changes come at the rate `lam`, the looks have the likelihood

    exp(-lam * still) * lam ** dated * (1 - exp(-lam * blind / undated)) ** undated

`still` is the time in which nothing changed, `undated` the number of looks that found
a change at a moment unknown, `blind` the length of their gaps, `dated` the number of those
of which somebody told the moment. The gaps of the undated are taken for equal: exact
where polls are evenly spaced, and hardly worse where they are not, since for gaps that
are short the length does not matter and for long ones a change says nothing.

Old looks fade: each look weighs `FADE` of what it weighed at the look after it, so that a page
whose habits change is understood anew after some sixty looks.
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
"""What is left of a look's weight at each look after it."""


def begin(pages: int) -> Beliefs:
    """Beliefs about pages of which nothing is known yet."""
    return np.zeros((pages, WIDTH), np.float32)


def observe(
    belief: Beliefs,
    gap: npt.ArrayLike,
    changed: npt.ArrayLike,
    age: npt.ArrayLike | None = None,
    *,
    fade: float = FADE,
) -> Beliefs:
    """The beliefs after one more look at each of these pages; the arguments stay as they are.

    `gap` is the time since the look before. `age` is how long before this look the last change
    came, where somebody who can be believed has told it, and NaN where nobody has. At the first look
    at a page the gap is infinite: only an age tells something then, and `changed` has to be true.

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
