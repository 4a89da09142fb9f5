"""Random numbers as a pure function of their purpose.

Pages are rendered on request, in any order and in any process, so their randomness cannot come from a
generator with state. It is a hash of the seed and the page's number; the numbers are uniform over 32 bits.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from statistics import NormalDist

RANGE = 2**32
MULTIPLIER = 6364136223846793005  # Knuth's, for sequences longer than one draw: x = x * M + 1 mod 2**64
MASK = 2**64 - 1


def random_words(*what: int | str) -> list[int]:
    """Sixteen random numbers for the key `what`.

    >>> random_words(7, "page", 1) == random_words(7, "page", 1) != random_words(7, "page", 2)
    True
    """
    digest = blake2b(":".join(map(str, what)).encode(), digest_size=64).digest()
    return memoryview(digest).cast("I").tolist()


def salted_random_words(salt: bytes, number: int) -> list[int]:
    """Sixteen random numbers for the hot path: one salt per host, one number per page."""
    return memoryview(blake2b(b"%d" % number, digest_size=64, key=salt).digest()).cast("I").tolist()


def random_threshold(share: float) -> int:
    """Threshold below which a random number falls with probability `share`."""
    return int(share * RANGE)


def lognormal_quantiles(sigma: float, steps: int = 1024) -> list[float]:
    """Quantiles of a lognormal with mean 1: index it with a random number modulo `steps`.

    >>> 0.99 < sum(lognormal_quantiles(0.4)) / 1024 < 1.0
    True
    """
    normal = NormalDist()
    return [math.exp(sigma * normal.inv_cdf((k + 0.5) / steps) - sigma * sigma / 2) for k in range(steps)]


def lognormal_quantiles_by_median(sigma: float) -> list[float]:
    """Quantiles of a lognormal with median 1; with a sigma of 2 the mean is 7.4.

    >>> round(lognormal_quantiles_by_median(2.0)[512], 2)
    1.0
    """
    return [value * math.exp(sigma * sigma / 2) for value in lognormal_quantiles(sigma)]


def exponential_from_word(throw: int) -> float:
    """Convert one random number to an exponential variable with mean 1."""
    return -math.log((throw + 0.5) / RANGE)
