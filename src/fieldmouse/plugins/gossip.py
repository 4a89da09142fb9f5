"""Throttled log warnings about plug-in errors: the first few of each kind.

A bug in a plug-in usually affects every page. The outcome of each page records it; the log
only shows that it happens, and its kind.
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
