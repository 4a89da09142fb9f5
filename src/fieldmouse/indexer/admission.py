"""Is this link wanted? The user's `admit`, asked of every link that would be sent.

Asked last, when a link is in scope, no trap and new. What it raises or takes too long
for costs that link: one that nobody could speak for is not followed. A page on which
it is late again and again has the rest of its links left out, unasked.
"""

from __future__ import annotations

from fieldmouse.named import load_function
from fieldmouse.plugins.call import Complaint, Onlooker, call
from fieldmouse.plugins.names import PluginNames
from fieldmouse.plugins.page import FoundLink
from fieldmouse.records import Link

LATE = 3  # times that it may take too long on one page


class Admission:
    def __init__(self, names: PluginNames, onlooker: Onlooker):
        """Loads `admit`; a sentence if that cannot be."""
        self._admit = load_function(names.admit, "admit", names.path)
        self._names, self._onlooker = names, onlooker
        self.begin()

    def begin(self, bare: bool = False) -> None:
        """The links of another page come now; `bare` if nobody is to be asked about them."""
        self._first, self._more, self._late = "", 0, LATE if bare else 0

    def wants(self, link: Link) -> bool:
        if self._late >= LATE:
            self._note(Complaint(self._names.admit, "was left out"), link)
            return False
        found = FoundLink(link.url, link.via, link.depth, link.kind.value)
        answer = call(
            self._names.admit, self._names.patience, self._onlooker, lambda: bool(self._admit(found))
        )
        if isinstance(answer, Complaint):
            self._late += answer.late
            self._note(answer, link)
            return False
        return answer

    def _note(self, complaint: Complaint, link: Link) -> None:
        self._more += bool(self._first)
        self._first = self._first or f"{complaint} (on {link.url[:200]}"

    @property
    def complaint(self) -> str:
        """What went wrong since `begin`; "" if nothing did."""
        more = f" and {self._more} more links" if self._more else ""
        return f"{self._first}{more})" if self._first else ""
