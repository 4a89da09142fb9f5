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
        self._counts: Counter[str] = Counter()

    def hear(self, complaint: str) -> None:
        kind = _KIND.split(complaint, 1)[0]
        if kind not in self._counts and len(self._counts) >= KINDS:
            return
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN:
            log.warning("%s", complaint)
        if self._counts[kind] == SHOWN:
            log.warning(
                "further warnings like this are not shown; `export --all` has one per page in `detail`"
            )
