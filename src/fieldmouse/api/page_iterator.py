"""Iterators over the pages of a running crawl, for `for` and `async for`.

A page is read from the outcome log when it is durable, and counts as delivered when the next one is
requested: a loop that ends with a page in hand gets that page again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from fieldmouse.api.background_run import BackgroundRun, DeliveryProgress, call_in_loop
from fieldmouse.api.crawl_preparation import CrawlPlan
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.page import StoredPage

log = logging.getLogger(__name__)


class BasePageIterator:
    """A run whose pages are consumed: the common part of both iterators."""

    def __init__(self, plan: CrawlPlan):
        self._directory = plan.directory
        self._stream = DeliveryProgress()
        self._seen = 0  # checkpoints
        self._batch: Iterator[tuple[StoredPage | None, int]] = iter(())
        self._in_hand = -1  # end offset of the page that the loop has now
        self.run = BackgroundRun(plan, self._stream)

    def _next_durable_page(self) -> StoredPage | None:
        """The next page; None if there is none at present."""
        if self._in_hand >= 0 and not self._stream.is_abandoned:
            self._stream.advance_position(self._in_hand)
            self._in_hand = -1
        while self.run.exception is None and not self._stream.is_abandoned:
            item = next(self._batch, None)
            if item is not None:
                page, reach = item
                if page is not None:
                    self._in_hand = reach
                    return page
                self._stream.advance_position(reach)
                continue
            self._stream.mark_drained(self._seen)
            if self._stream.checkpoint_count == self._seen:
                return None
            self._seen = self._stream.checkpoint_count
            self._batch = _pages_now(self._directory, self._stream)
        return None

    def _is_over(self) -> bool:
        unwanted = self.run.exception is not None or self._stream.is_abandoned
        return self._stream.is_ended and (unwanted or self._stream.checkpoint_count == self._seen)

    def _raise_failure(self) -> None:
        """Raise the exception that ended the crawl, if any."""
        if self.run.exception is not None:
            raise self.run.exception

    def __del__(self) -> None:
        # The usual end: a loop that is left drops its iterator.
        if not sys.is_finalizing():
            self.run.request_stop()


def _pages_now(directory: Path, stream: DeliveryProgress) -> Iterator[tuple[StoredPage | None, int]]:
    """All pages up to the present checkpoint, then None with its offset, so that other rows are read once.

    Not a method: the iterator must not keep an abandoned loop alive.
    """
    end = stream.log_length
    yield from CrawlReader(directory).pages_from_offset(stream.log_position)
    yield None, end


class SyncPageIterator(BasePageIterator):
    """Iterator for `for`. Leaving the loop in any way stops the crawl before anything else happens."""

    def __iter__(self) -> SyncPageIterator:
        return self

    def __next__(self) -> StoredPage:
        try:
            while (page := self._next_durable_page()) is None:
                if self._is_over():
                    self._raise_failure()
                    raise StopIteration
                self._stream.wait_for_checkpoint(self._seen)
            return page
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop, and wait until all is stored."""
        self.run.request_stop()
        self.run.wait_until_ended()

    def __del__(self) -> None:
        if sys.is_finalizing() or not self.run.running:
            return
        self.close()
        if self.run.exception is not None:
            # Exceptions in `__del__` are lost, and the caller may never ask for the summary.
            log.error("the crawl in `%s` ended badly: %s", self._directory, self.run.exception)


class AsyncPageIterator(BasePageIterator):
    """Iterator for `async for`. Leaving the loop asks the crawl to stop; `async with` also waits for that."""

    def __init__(self, plan: CrawlPlan):
        super().__init__(plan)
        self._news = asyncio.Event()
        self._stream.add_checkpoint_listener(call_in_loop(asyncio.get_running_loop(), self._news.set))

    def __aiter__(self) -> AsyncPageIterator:
        return self

    async def __anext__(self) -> StoredPage:
        while (page := self._next_durable_page()) is None:
            if self._is_over():
                self._raise_failure()
                raise StopAsyncIteration
            self._news.clear()
            # Check again after clearing: the event may have been set just before.
            if not self._stream.has_newer_checkpoint(self._seen):
                await self._news.wait()
        return page
