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
        self._unparsed: dict[int, tuple[str, int]] = {}  # ticket to URL and size: not parsed yet
        self._parsed: dict[int, list[int]] = {}  # batch to tickets: parsed, not committed yet
        self._unparsed_others: deque[Answer] = deque()  # pages without a ticket: not parsed yet
        # Batch to pages without a ticket: parsed, not committed yet.
        self._parsed_others: dict[int, list[Answer]] = {}

    @property
    def outstanding(self) -> int:
        """Number of pages whose result is not back."""
        return len(self._unparsed) + len(self._unparsed_others)

    def hand_over(self, number: int, outcome: Answer) -> None:
        if not number:
            self._unparsed_others.append(outcome)
            return
        size = len(outcome.response.body) if outcome.response is not None else 0
        self._unparsed[number] = (outcome.link.url, size)
        self.bytes += size

    def book(self, parsed: Sequence[Parsed]) -> None:
        """Record the worker's results; those for pages without a ticket come in the order of sending."""
        for result in parsed:
            if not result.number:
                self._parsed_others.setdefault(result.batch, []).append(self._unparsed_others.popleft())
                continue
            _, size = self._unparsed.pop(result.number)
            self.bytes -= size
            self._parsed.setdefault(result.batch, []).append(result.number)

    def url_of(self, number: int) -> str:
        """The URL of the page with this ticket; "" if it is unknown or already parsed."""
        return self._unparsed[number][0] if number in self._unparsed else ""

    def count(self, batch: int) -> bool:
        """Record the commit of all batches up to `batch`; return whether there was anything."""
        tables = self._parsed, self._parsed_others
        return bool([table.pop(b) for table in tables for b in list(table) if b <= batch])

    def undo(self, reach: int, in_hand: int) -> tuple[list[int], list[Answer]]:
        """Undo everything that is not in a batch up to `reach`, because the worker died.

        Returns the tickets to fetch again, and the pages without a ticket for the next worker.
        """
        tickets = [n for batch, numbers in self._parsed.items() if batch > reach for n in numbers]
        tickets += self._unparsed
        owed = [page for batch, pages in self._parsed_others.items() if batch > reach for page in pages]
        if self._unparsed_others and not in_hand:
            self._unparsed_others.popleft()  # this page killed the worker; do not try it again
        owed += self._unparsed_others
        self._parsed = {b: numbers for b, numbers in self._parsed.items() if b <= reach}
        self._parsed_others = {b: pages for b, pages in self._parsed_others.items() if b <= reach}
        self._unparsed.clear()
        self._unparsed_others.clear()
        self.bytes = 0
        return tickets, owed
