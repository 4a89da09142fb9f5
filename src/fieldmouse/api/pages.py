"""The pages of a crawl that runs, one after the other, for a loop that waits and for one that awaits.

A page is taken from the outcome log when it is durable, and counts as delivered when
the next one is asked for: whoever breaks off while he has a page in hand gets it again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from fieldmouse.api.background import Background, calling
from fieldmouse.api.hatch import Hatch
from fieldmouse.api.plan import Plan
from fieldmouse.reading import ReadingRoom, StoredPage

log = logging.getLogger(__name__)


class Delivering:
    """A run whose pages are taken: what both kinds of loop have in common."""

    def __init__(self, plan: Plan):
        self._directory = plan.directory
        self._hatch = Hatch()
        self._seen = 0  # checkpoints
        self._batch: Iterator[tuple[StoredPage | None, int]] = iter(())
        self._in_hand = -1  # where the page ends that the loop has now
        self.run = Background(plan, self._hatch)

    def _take(self) -> StoredPage | None:
        """The next page, or None if there is none yet, or ever."""
        if self._in_hand >= 0 and not self._hatch.left:
            self._hatch.delivered(self._in_hand)
            self._in_hand = -1
        while self.run.mistake is None and not self._hatch.left:
            found = next(self._batch, None)
            if found is not None:
                page, reach = found
                if page is not None:
                    self._in_hand = reach
                    return page
                self._hatch.delivered(reach)
                continue
            self._hatch.starve(self._seen)
            if self._hatch.checkpoints == self._seen:
                return None
            self._seen = self._hatch.checkpoints
            self._batch = _pages_now(self._directory, self._hatch)
        return None

    def _is_over(self) -> bool:
        unwanted = self.run.mistake is not None or self._hatch.left
        return self._hatch.over and (unwanted or self._hatch.checkpoints == self._seen)

    def _end(self) -> None:
        """Nothing comes any more: if that has a reason, say it."""
        if self.run.mistake is not None:
            raise self.run.mistake

    def __del__(self) -> None:
        # The usual way out: a loop that was left drops what it went through.
        if not sys.is_finalizing():
            self.run.stop()


def _pages_now(directory: Path, hatch: Hatch) -> Iterator[tuple[StoredPage | None, int]]:
    """The pages that are there now, and at last how far that goes: what is no page is looked at once.

    No method: a loop that is left must not be kept alive by what it goes through.
    """
    end = hatch.end
    yield from ReadingRoom(directory).pages_from(hatch.reach)
    yield None, end


class Pages(Delivering):
    """For `for`. A loop that is left, however, stops the crawl in good order before anything else happens."""

    def __iter__(self) -> Pages:
        return self

    def __next__(self) -> StoredPage:
        try:
            while (page := self._take()) is None:
                if self._is_over():
                    self._end()
                    raise StopIteration
                self._hatch.wait(self._seen)
            return page
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop, and wait until all is safe."""
        self.run.stop()
        self.run.wait()

    def __del__(self) -> None:
        if sys.is_finalizing() or not self.run.running:
            return
        self.close()
        if self.run.mistake is not None:
            # Python lets nothing out of here, and whoever left the loop may never ask for the summary.
            log.error("the crawl in `%s` ended badly: %s", self._directory, self.run.mistake)


class AsyncPages(Delivering):
    """For `async for`. A loop that is left asks the crawl to stop; `async with` also waits for that."""

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self._news = asyncio.Event()
        self._hatch.listen(calling(asyncio.get_running_loop(), self._news.set))

    def __aiter__(self) -> AsyncPages:
        return self

    async def __anext__(self) -> StoredPage:
        while (page := self._take()) is None:
            if self._is_over():
                self._end()
                raise StopAsyncIteration
            self._news.clear()
            # Looked at again after clearing: what came before that was told to the event as it was.
            if not self._hatch.is_news(self._seen):
                await self._news.wait()
        return page
