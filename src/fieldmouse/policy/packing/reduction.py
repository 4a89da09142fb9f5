"""Poll reduction of an overloaded node: pages whose polls found least change are lowered first.

Pages are lowered by one state each, those with most penalties in their history first and in their own
order among equals, round after round until the node fits. The printed scheme loops until it does, which
never ends once every page is in its lowest state; here it stops, and the node stays overloaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def reduced(
    states: npt.NDArray[Any], penalties: npt.NDArray[Any], surplus: int
) -> tuple[npt.NDArray[Any], int]:
    """States after up to `surplus` units were removed, and the number of units left.

    >>> reduced(np.array([3, 2, 1, 2]), np.array([0, 5, 9, 5]), surplus=3)
    (array([2, 1, 1, 1]), 0)
    >>> reduced(np.array([2, 1]), np.array([0, 0]), surplus=5)
    (array([1, 1]), 4)
    """
    lowered = states.copy()
    order = np.argsort(-penalties.astype(np.int64), kind="stable")
    while surplus > 0:
        able = order[lowered[order] > 1][:surplus]
        if not able.size:
            break
        lowered[able] -= 1
        surplus -= able.size
    return lowered, max(surplus, 0)
