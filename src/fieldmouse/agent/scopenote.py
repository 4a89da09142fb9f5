"""Whether the crawl's scope is still that of the last run.

A scope looks forward only: links that lay outside it when their page was read are
remembered by nobody. Whoever has changed it would wait for them in vain, so a run
that begins with another scope says so.
"""

from __future__ import annotations

import logging

import msgspec
import xxhash

from fieldmouse.crawldir import Checkpoint, Sealed
from fieldmouse.policy.scope import Scope

log = logging.getLogger(__name__)

CHANGED = (
    "the scope is another than in the last run: it counts for links found from now on; pages read before"
    " are not read again for links that were outside it"
)


class ScopeNote:
    """A mark of the scope, durable with the crawl: it may be made of a hundred thousand seeds."""

    name = "scope"

    def __init__(self, scope: Scope, last: Checkpoint | None):
        self._mark = xxhash.xxh3_128_hexdigest(msgspec.json.encode(scope, order="deterministic"))
        # Crawls from before the scope was noted have none.
        known = last.state(self.name, str) if last is not None and self.name in last.parts else self._mark
        self._is_changed = known != self._mark

    def begin(self) -> None:
        if self._is_changed:
            log.warning(CHANGED)

    def seal(self) -> Sealed[str]:
        return Sealed(self._mark)

    def committed(self) -> None:
        """There are no files."""

    def close(self) -> None:
        """There are none to let go of."""
