"""Link filter: calls the user's `admit` function for every link that would be sent.

The filter runs last, on links that are in scope, new and no crawler trap. If `admit`
raises or takes too long, the link is not followed. After `MAX_TIMEOUTS` timeouts on one page
the remaining links of that page are dropped without a call.
"""

from __future__ import annotations

from fieldmouse.import_string import import_callable
from fieldmouse.plugins.page import FoundLink
from fieldmouse.plugins.registry import PluginNames
from fieldmouse.plugins.runner import PluginError, Watchdog, call_plugin
from fieldmouse.types.request import Request

MAX_TIMEOUTS = 3  # timeouts allowed on one page


class LinkFilter:
    def __init__(self, names: PluginNames, onlooker: Watchdog):
        """Load `admit`; raises `FieldmouseError` if it cannot be loaded."""
        self._admit = import_callable(names.admit, "admit", names.path)
        self._names, self._onlooker = names, onlooker
        self.start_page()

    def start_page(self, bare: bool = False) -> None:
        """Start with the links of another page; if `bare`, reject all of them without calling `admit`."""
        self._first_error, self._more_errors, self._timeouts = "", 0, MAX_TIMEOUTS if bare else 0

    def admits(self, link: Request) -> bool:
        if self._timeouts >= MAX_TIMEOUTS:
            self._note(PluginError(self._names.admit, "was left out"), link)
            return False
        found_link = FoundLink(link.url, link.via, link.depth, link.kind.value)
        result = call_plugin(
            self._names.admit, self._names.patience, self._onlooker, lambda: bool(self._admit(found_link))
        )
        if isinstance(result, PluginError):
            self._timeouts += result.timed_out
            self._note(result, link)
            return False
        return result

    def _note(self, complaint: PluginError, link: Request) -> None:
        self._more_errors += bool(self._first_error)
        self._first_error = self._first_error or f"{complaint} (on {link.url[:200]}"

    @property
    def error(self) -> str:
        """Description of the errors since `start_page`; "" if there were none."""
        more = f" and {self._more_errors} more links" if self._more_errors else ""
        return f"{self._first_error}{more})" if self._first_error else ""
