"""Random numbers that are a pure function of what they are for.

A page is rendered when somebody asks for it, in any order and in any process, so its
randomness cannot come from a generator with a state. It is hashed from the seed
and the page's number instead; the numbers are uniform over 32 bits.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from statistics import NormalDist

FACES = 2**32
MULTIPLIER = 6364136223846793005  # Knuth's, for sequences longer than one throw: x = x * M + 1 mod 2**64
MASK = 2**64 - 1


def throw(*what: int | str) -> list[int]:
    """Sixteen numbers that belong to `what`.

    >>> throw(7, "page", 1) == throw(7, "page", 1) != throw(7, "page", 2)
    True
    """
    digest = blake2b(":".join(map(str, what)).encode(), digest_size=64).digest()
    return memoryview(digest).cast("I").tolist()


def throw_at(salt: bytes, number: int) -> list[int]:
    """The same, for the hot path: one salt for a host, one number for a page."""
    return memoryview(blake2b(b"%d" % number, digest_size=64, key=salt).digest()).cast("I").tolist()


def below(share: float) -> int:
    """The number under which a throw falls with probability `share`."""
    return int(share * FACES)


def lognormal(sigma: float, steps: int = 1024) -> list[float]:
    """Quantiles of a lognormal with mean 1: index it with a throw modulo `steps`.

    >>> 0.99 < sum(lognormal(0.4)) / 1024 < 1.0
    True
    """
    normal = NormalDist()
    return [math.exp(sigma * normal.inv_cdf((k + 0.5) / steps) - sigma * sigma / 2) for k in range(steps)]


def lognormal_by_median(sigma: float) -> list[float]:
    """The same with median 1; a spread of 2 has a mean of 7.4.

    >>> round(lognormal_by_median(2.0)[512], 2)
    1.0
    """
    return [value * math.exp(sigma * sigma / 2) for value in lognormal(sigma)]


def exponential(throw: int) -> float:
    """An exponential variable with mean 1 out of one throw."""
    return -math.log((throw + 0.5) / FACES)
