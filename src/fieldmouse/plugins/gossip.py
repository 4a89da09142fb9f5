"""Throttled log warnings about plug-in errors: the first few of each kind.

A bug in a plug-in usually affects every page. The outcome of each page records it; the log
only shows that it happens, and its kind.
"""

from __future__ import annotations

import logging
import re
from collections import Counter

log = logging.getLogger(__name__)

SHOWN_PER_KIND = 3  # of each kind
MAX_KINDS = 20
_KIND = re.compile(": |, on ")


class Gossip:
    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def hear(self, complaint: str) -> None:
        kind = _KIND.split(complaint, 1)[0]
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            return
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN_PER_KIND:
            log.warning("%s", complaint)
        if self._counts[kind] == SHOWN_PER_KIND:
            log.warning(
                "further warnings like this are not shown; `export --all` has one per page in `detail`"
            )
