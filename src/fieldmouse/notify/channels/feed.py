"""Channel that writes an Atom feed (RFC 4287): a file with the newest changes.

The file is rebuilt from the outcome log each time, so it is never read back: its content
follows from the log offset of its oldest entry. A change that proved to be noise is removed
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from uuid import UUID
from xml.etree.ElementTree import TreeBuilder, tostring

from fieldmouse.aio import DaemonExecutor
from fieldmouse.formatting import format_percentage, format_time
from fieldmouse.notify.channel_interface import (
    BatchingRules,
    ChangeBatch,
    Channel,
    FailedDelivery,
    one_line,
    title_or_url,
)
from fieldmouse.storage.changes_from_outcomes import Change, ChangeKind
from fieldmouse.storage.log import atomic_write

ATOM = "http://www.w3.org/2005/Atom"
GENERATOR = "fieldmouse"
_PEEK = 4 << 10
_LONGEST_URL = 8000

#: Reads the earlier changes that may still be in the feed from the log again.
Recall = Callable[[], ChangeBatch]


class FeedChannel(Channel):
    name = "feed"
    mode = BatchingRules(max_changes=1000, repeatable=False)

    def __init__(
        self, path: Path, *, entries: int, title: str, mark: str, since: int, recall: Recall, suffix: str = ".new"
    ):
        """`mark` identifies the feed of this crawl; `since` is the log offset of its first entry."""
        self._path, self._most, self._title, self._suffix = path, entries, title, suffix
        self._id = as_uuid(f"feed {mark}")
        self._recall: Recall | None = recall
        self._entries: dict[str, tuple[Change, int]] = {}  # by id, oldest first
        self.replay_from = since

    async def send(self, notice: ChangeBatch) -> FailedDelivery | None:
        return await asyncio.get_running_loop().run_in_executor(DaemonExecutor(), self._send, notice)

    def _send(self, notice: ChangeBatch) -> FailedDelivery | None:
        try:
            if not self._is_ours():
                return FailedDelivery(f"`{self._path}` is there and is no feed of fieldmouse; it is left as it is")
            if self._recall is not None:
                self._add(self._recall())
                self._recall = None
            self._add(notice)
            with atomic_write(self._path, self._suffix) as file:
                file.write(self.atom_document())
        except OSError as trouble:
            return FailedDelivery(f"`{self._path}` cannot be written: {(trouble.strerror or str(trouble)).lower()}")
        return None

    def _is_ours(self) -> bool:
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            head = file.read(_PEEK)
            return not head or (ATOM.encode() in head and f"<generator>{GENERATOR}<".encode() in head)
        return True

    def _add(self, notice: ChangeBatch) -> None:
        for change, offset in zip(notice.changes, notice.offsets, strict=True):
            if change.kind is ChangeKind.WITHDRAWN:
                self._entries.pop(change.withdraws, None)
            else:
                self._entries[change.id] = (change, offset)
        for oldest in list(self._entries)[: -self._most]:
            del self._entries[oldest]
        if self._entries:
            self.replay_from = next(iter(self._entries.values()))[1]

    def atom_document(self) -> bytes:
        """The whole feed document."""
        changes = [change for change, _ in reversed(self._entries.values())]
        return atom(self._id, self._title, changes)


def as_uuid(text: str) -> str:
    """A unique name for the text, as an IRI.

    >>> as_uuid("feed 1")
    'urn:uuid:53e0d9a5-a7b5-82a7-a120-6d693e0c8010'
    """
    # Version 8: custom (RFC 9562).
    bits = int.from_bytes(sha256(text.encode()).digest()[:16])
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 0x8 << 76 | 0x2 << 62
    return f"urn:uuid:{UUID(int=bits)}"


def atom(identity: str, title: str, changes: Iterable[Change]) -> bytes:
    """A feed document of these changes, which come newest first."""
    listed = list(changes)
    tree = TreeBuilder()
    tree.start("feed", {"xmlns": ATOM})
    _element(tree, "id", identity)
    _element(tree, "title", title)
    _element(tree, "updated", format_time(max((change.at for change in listed), default=0.0)))
    _element(tree, "generator", GENERATOR)
    tree.start("author", {})
    _element(tree, "name", GENERATOR)
    tree.end("author")
    for change in listed:
        tree.start("entry", {})
        _element(tree, "id", as_uuid(change.id))
        _element(tree, "title", f"{change.kind}: {title_or_url(change)}")
        _element(tree, "updated", format_time(change.at))
        _element(tree, "link", rel="alternate", href=one_line(change.url, _LONGEST_URL))
        _element(tree, "category", term=change.kind)
        _element(tree, "summary", _summary(change))
        tree.end("entry")
    tree.end("feed")
    document: bytes = tostring(tree.close(), encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _element(tree: TreeBuilder, tag: str, text: str = "", **attributes: str) -> None:
    tree.start(tag, attributes)
    tree.data(text)
    tree.end(tag)


def _summary(change: Change) -> str:
    match change.kind:
        case ChangeKind.CHANGED:
            return f"{format_percentage(change.difference)} of its words differ."
        case ChangeKind.MOVED:
            return f"It has moved to {one_line(change.target, _LONGEST_URL)}"
        case ChangeKind.GONE:
            return f"The page no longer exists ({change.status})."
        case _:
            return f"Found on {one_line(change.via, _LONGEST_URL)}" if change.via else "It is new."
