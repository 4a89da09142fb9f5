"""Pages that a worker has in hand, and the batch in which each will be committed.

Pages with a ticket are fetched again if their worker dies before the commit, so only their
tickets are kept. Pages without a ticket (a robots.txt) cannot be fetched again: they are
kept until the commit and passed to the next worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fieldmouse.records import Failed, Moved, Page, Parsed, Unchanged

Answer = Page | Unchanged | Moved | Failed


class Holdings:
    def __init__(self) -> None:
        self.bytes = 0  # of pages with a ticket that are not parsed yet
        self._sent: dict[int, tuple[str, int]] = {}  # ticket to URL and size: not parsed yet
        self._answered: dict[int, list[int]] = {}  # batch to tickets: parsed, not committed yet
        self._keeping: deque[Answer] = deque()  # pages without a ticket: not parsed yet
        self._kept: dict[int, list[Answer]] = {}  # batch to pages without a ticket: parsed, not committed yet

    @property
    def outstanding(self) -> int:
        """Number of pages whose result is not back."""
        return len(self._sent) + len(self._keeping)

    def hand_over(self, number: int, outcome: Answer) -> None:
        if not number:
            self._keeping.append(outcome)
            return
        size = len(outcome.response.body) if outcome.response is not None else 0
        self._sent[number] = (outcome.link.url, size)
        self.bytes += size

    def book(self, parsed: Sequence[Parsed]) -> None:
        """Record the worker's results; those for pages without a ticket come in the order of sending."""
        for one in parsed:
            if not one.number:
                self._kept.setdefault(one.batch, []).append(self._keeping.popleft())
                continue
            _, size = self._sent.pop(one.number)
            self.bytes -= size
            self._answered.setdefault(one.batch, []).append(one.number)

    def url_of(self, number: int) -> str:
        """The URL of the page with this ticket; "" if it is unknown or already parsed."""
        return self._sent[number][0] if number in self._sent else ""

    def count(self, batch: int) -> bool:
        """Record the commit of all batches up to `batch`; return whether there was anything."""
        done = [books.pop(b) for books in (self._answered, self._kept) for b in list(books) if b <= batch]
        return bool(done)

    def undo(self, reach: int, in_hand: int) -> tuple[list[int], list[Answer]]:
        """Undo everything that is not in a batch up to `reach`, because the worker died.

        Returns the tickets to fetch again, and the pages without a ticket for the next worker.
        """
        again = [n for batch, numbers in self._answered.items() if batch > reach for n in numbers]
        again += self._sent
        owed = [page for batch, pages in self._kept.items() if batch > reach for page in pages]
        if self._keeping and not in_hand:
            self._keeping.popleft()  # this page killed the worker; do not try it again
        owed += self._keeping
        self._answered = {b: numbers for b, numbers in self._answered.items() if b <= reach}
        self._kept = {b: pages for b, pages in self._kept.items() if b <= reach}
        self._sent.clear()
        self._keeping.clear()
        self.bytes = 0
        return again, owed
