"""Fair share of hosts: a part of an agent's price that depends on its number of hosts and on its load.

Prices follow backlogs (`priced`), and an agent with fetchers to spare has none. An agent that found all hosts
would keep them, and machines that join later would stay idle, although they have memory, disk and CPU.
So an agent that holds more hosts than the mean is a little dearer, one that holds fewer a little cheaper. The
difference is bounded (`most`): it outweighs the loyalty to the agent that has the host, and a trip that is
somewhat longer, but not one that is several times as long.

Hosts of a busy agent count several times. A slow machine reaches its limit with fewer hosts than a fast one,
and then looks as full as that one, so that agents share by what they can do.

Small differences count for nothing (`even`), nor does a difference of one host (`few`), so that hosts do not
go to and fro; beyond that the price rises fast (`slope`). Of two agents that are alike, the fuller one holds
half as much again as the other at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log


@dataclass(frozen=True, slots=True)
class Sharing:
    """Parameters of the share price."""

    most: float = 0.5  # a logarithm: the price of an agent changes by this at most
    even: float = 0.15  # a logarithm: an agent whose fullness is so near to the mean has its share
    slope: float = 4.0  # how fast the price changes with the logarithm of the fullness beyond that
    few: float = 4.0  # hosts that are added to each number, so that small differences count for little
    busy: float = 0.7  # utilisation from which on an agent looks fuller than its number of hosts says
    fuller: float = 3.0  # factor for the hosts of an agent without any capacity left


SHARING = Sharing()


def fullness(hosts: float, load: float, few: float, busy: float, fuller: float) -> float:
    """Number of hosts that an agent seems to hold, at a utilisation `load` from 0 to 1.

    >>> fullness(10, 0.5, 4.0, 0.7, 8.0), fullness(10, 1.0, 4.0, 0.7, 8.0)
    (14.0, 84.0)
    """
    above = min(max((load - busy) / (1.0 - busy), 0.0), 1.0)
    return few + hosts * (1.0 + (fuller - 1.0) * above)


def share_price(full: float, mean: float, most: float, even: float, slope: float) -> float:
    """Logarithm to add to the price of an agent of that fullness; below 0 if that is less than its share.

    >>> share_price(104.0, 54.0, 0.5, 0.15, 4.0), share_price(4.0, 54.0, 0.5, 0.15, 4.0)
    (0.5, -0.5)
    >>> share_price(60.0, 54.0, 0.5, 0.15, 4.0)
    0.0
    """
    beyond = log(full / mean)
    beyond -= min(max(beyond, -even), even)
    return min(max(slope * beyond, -most), most)
