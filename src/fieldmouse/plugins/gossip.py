"""What plug-ins do wrong, for the log: the first few of each, and then no more.

A mistake in somebody's code is made on every page. Each page's outcome names it; the
log shows that it happens, and of what kind it is.
"""

from __future__ import annotations

import logging
import re
from collections import Counter

log = logging.getLogger(__name__)

SHOWN = 3  # of each kind
KINDS = 20
_KIND = re.compile(": |, on ")


class Gossip:
    def __init__(self) -> None:
        self._heard: Counter[str] = Counter()

    def hear(self, complaint: str) -> None:
        kind = _KIND.split(complaint, 1)[0]
        if kind not in self._heard and len(self._heard) >= KINDS:
            return
        self._heard[kind] += 1
        if self._heard[kind] <= SHOWN:
            log.warning("%s", complaint)
        if self._heard[kind] == SHOWN:
            log.warning("more like this is not shown; `export --all` tells of each page in `detail`")
