"""Fullest subset of an overloaded bin that still fits.

The subset sum problem, solved exactly. The printed scheme loops over all 2^n subsets; in whole units
(polls
of 1/N, for example) the reachable sums are the bits of one large integer, and adding an item is a shift. A
bin of 400 in sixteenths is 6400 bits.
"""

from __future__ import annotations

from collections.abc import Sequence


def fullest(weights: Sequence[int], below: int) -> list[int]:
    """Positions of the items with the largest sum strictly below `below`.

    As printed, a sum equal to the capacity is too large, and of several subsets with the same sum the
    last of the loop is taken: the one that leaves out the earliest items. Empty if nothing fits.

    >>> fullest([5, 3, 4, 6], below=11)
    [2, 3]
    >>> fullest([12], below=11)
    []
    """
    if below <= 0:
        return []
    reachable = _reachable(weights, below)
    target = reachable[0].bit_length() - 1
    kept = []
    for item, weight in enumerate(weights):
        if not reachable[item + 1] >> target & 1:  # not reachable without this item
            kept.append(item)
            target -= weight
    return kept


def _reachable(weights: Sequence[int], below: int) -> list[int]:
    """Bit s of entry i: items i and later have a subset with the sum s, below the limit."""
    within = (1 << below) - 1
    sums = [1]
    for weight in reversed(weights):
        assert weight > 0, "an item has a weight"
        sums.append((sums[-1] | sums[-1] << weight) & within)
    return sums[::-1]
