"""Which pages a worker holds, and in which batch each will count.

Pages with a ticket are fetched again if their worker dies before they count; here
only their numbers are kept. What has no ticket (a robots.txt) cannot be: it is held
until it counts, and the next worker gets it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fieldmouse.records import Failed, Moved, Page, Parsed, Unchanged

Answer = Page | Unchanged | Moved | Failed


class Holdings:
    def __init__(self) -> None:
        self.bytes = 0  # of pages with a ticket and without an answer
        self._sent: dict[int, tuple[str, int]] = {}  # ticket to URL and size: no answer yet
        self._answered: dict[int, list[int]] = {}  # batch to tickets: answered, and do not count yet
        self._keeping: deque[Answer] = deque()  # pages without a ticket: no answer yet
        self._kept: dict[int, list[Answer]] = {}  # batch to pages without a ticket: do not count yet

    @property
    def outstanding(self) -> int:
        """Pages whose answer is not back."""
        return len(self._sent) + len(self._keeping)

    def hand_over(self, number: int, outcome: Answer) -> None:
        if not number:
            self._keeping.append(outcome)
            return
        size = len(outcome.response.body) if outcome.response is not None else 0
        self._sent[number] = (outcome.link.url, size)
        self.bytes += size

    def book(self, parsed: Sequence[Parsed]) -> None:
        """The worker's answers; those for pages without a ticket come in their order."""
        for one in parsed:
            if not one.number:
                self._kept.setdefault(one.batch, []).append(self._keeping.popleft())
                continue
            _, size = self._sent.pop(one.number)
            self.bytes -= size
            self._answered.setdefault(one.batch, []).append(one.number)

    def url_of(self, number: int) -> str:
        """The page with this ticket, if it has no answer yet; else nothing."""
        return self._sent[number][0] if number in self._sent else ""

    def count(self, batch: int) -> bool:
        """Everything up to `batch` counts; whether that was anything."""
        done = [books.pop(b) for books in (self._answered, self._kept) for b in list(books) if b <= batch]
        return bool(done)

    def undo(self, reach: int, in_hand: int) -> tuple[list[int], list[Answer]]:
        """The worker died, and what is not in a batch up to `reach` with it.

        Returns the tickets to send out again, and the pages without one for the next worker.
        """
        again = [n for batch, numbers in self._answered.items() if batch > reach for n in numbers]
        again += self._sent
        owed = [page for batch, pages in self._kept.items() if batch > reach for page in pages]
        if self._keeping and not in_hand:
            self._keeping.popleft()  # it died of this one; once is enough
        owed += self._keeping
        self._answered = {b: numbers for b, numbers in self._answered.items() if b <= reach}
        self._kept = {b: pages for b, pages in self._kept.items() if b <= reach}
        self._sent.clear()
        self._keeping.clear()
        self.bytes = 0
        return again, owed
