"""Filter of links by the user's `admit` function, and encoding of the rows that `extract` returns.

The filter runs last, on links that are in scope, new and no crawler trap. If `admit`
raises or takes too long, the link is not followed. After `MAX_TIMEOUTS` timeouts on one page
the remaining links of that page are dropped without a call.

Rows are encoded inside the guarded call, so that values that cannot be encoded and endless
rows count as errors of the plug-in. Either all rows of a page are stored, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fieldmouse.import_string import import_callable
from fieldmouse.plugins import runner
from fieldmouse.plugins.page import FoundLink
from fieldmouse.types.request import Request

MAX_TIMEOUTS = 3  # timeouts allowed on one page


class AdmitPlugin:
    def __init__(self, names: runner.PluginConfig, observer: runner.CallObserver):
        """Load `admit`; raises `FieldmouseError` if it cannot be loaded."""
        self._admit = import_callable(names.admit, "admit", names.path)
        self._names, self._observer = names, observer
        self.start_page()

    def start_page(self, bare: bool = False) -> None:
        """Start with the links of another page; if `bare`, reject all of them without calling `admit`."""
        self._first_error, self._more_errors, self._timeouts = "", 0, MAX_TIMEOUTS if bare else 0

    def admits(self, link: Request) -> bool:
        if self._timeouts >= MAX_TIMEOUTS:
            self._record_error(runner.PluginFailure(self._names.admit, "was left out"), link)
            return False
        found_link = FoundLink(link.url, link.via, link.depth, link.kind.value)
        result = runner.call_plugin(
            self._names.admit, self._names.patience, self._observer, lambda: bool(self._admit(found_link))
        )
        if isinstance(result, runner.PluginFailure):
            self._timeouts += result.timed_out
            self._record_error(result, link)
            return False
        return result

    def _record_error(self, complaint: runner.PluginFailure, link: Request) -> None:
        self._more_errors += bool(self._first_error)
        self._first_error = self._first_error or f"{complaint} (on {link.url[:200]}"

    @property
    def error_text(self) -> str:
        """Description of the errors since `start_page`; "" if there were none."""
        more = f" and {self._more_errors} more links" if self._more_errors else ""
        return f"{self._first_error}{more})" if self._first_error else ""


def _mapping_to_dict(thing: object) -> dict[object, object]:
    if isinstance(thing, Mapping):
        return dict(thing)
    raise runner.InvalidPluginResult(f"gave {runner.type_with_article(thing)} inside a row, which cannot be written")


_encode = msgspec.json.Encoder(enc_hook=_mapping_to_dict).encode


class EncodedExtractRows(msgspec.Struct, frozen=True):
    """Encoded rows of one page."""

    lines: bytes = b""
    count: int = 0


def encode_rows(answer: object, most_bytes: int) -> EncodedExtractRows:
    r"""Encode the result of `extract`: None, one row, or any number of rows.

    >>> encode_rows([{"name": "vole"}, {"name": "shrew"}], 100)
    EncodedExtractRows(lines=b'{"name":"vole"}\n{"name":"shrew"}\n', count=2)
    """
    if answer is None:
        return EncodedExtractRows()
    if _is_row(answer):
        answer = (answer,)
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise runner.InvalidPluginResult(f"gave {runner.type_with_article(answer)} and not rows")
    parts: list[bytes] = []
    size = 0
    for row in answer:
        line = _encode(row) if _is_row(row) else b""
        if not line.startswith(b"{"):
            raise runner.InvalidPluginResult(f"gave {runner.type_with_article(row)} as a row, and a row is a mapping")
        size += len(line) + 1
        if size > most_bytes:
            raise runner.InvalidPluginResult(f"gave more than {most_bytes} bytes of rows for one page")
        parts.append(line)
    return EncodedExtractRows(b"\n".join((*parts, b"")), len(parts)) if parts else EncodedExtractRows()


def _is_row(thing: object) -> bool:
    """Whether it is a mapping, or a typed record (a dataclass, a msgspec struct), which is encoded as one."""
    return isinstance(thing, Mapping | msgspec.Struct) or hasattr(type(thing), "__dataclass_fields__")
