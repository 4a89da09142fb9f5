"""Of which kind the outcomes of some URLs were, for an agent that was forgotten and comes back.

The board counts what such an agent booked no longer, and grants it again to whoever asks first. If that is
the agent itself, its copies are still there: they are booked once more. The log is read only then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from fieldmouse.crawldir import CrawlDir, outcomes, read_checkpoint, sealed_outcomes
from fieldmouse.records import OutcomeRow
from fieldmouse.url import Url, key_of


class SettledKinds:
    """Asked for some URLs, it counts their outcomes at first sight by kind."""

    def __init__(self, home: CrawlDir):
        self._home, self._seed = home, home.identity.key_seed
        self._kinds: dict[int, str] = {}  # by key, once anybody asked

    def __call__(self, urls: Sequence[str]) -> Mapping[str, int]:
        keys = [key_of(Url(url), self._seed) for url in urls]
        if any(key not in self._kinds for key in keys):
            for row in self._rows():
                if not row.polled:
                    self._kinds.setdefault(key_of(row.url, self._seed), row.kind.value)
        return Counter(self._kinds[key] for key in keys if key in self._kinds)

    def _rows(self) -> Iterator[OutcomeRow]:
        last = read_checkpoint(self._home)
        return outcomes.rows(self._home, length=sealed_outcomes(last)) if last is not None else iter(())
