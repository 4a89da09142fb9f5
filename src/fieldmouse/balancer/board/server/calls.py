"""Calls of the Lua scripts, and decoding of their answers and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fieldmouse.balancer.board.contract import Name
from fieldmouse.balancer.board.refusals import fenced, hidden, occupied, older, superseded, vanished
from fieldmouse.balancer.board.server.complaints import ScriptRefusal, unreadable
from fieldmouse.balancer.board.server.connect import Argument, BoardServer
from fieldmouse.balancer.board.server.scripts import script

T = TypeVar("T")


class ScriptedCrawl:
    """Data of one crawl on one server."""

    def __init__(self, url: str, crawl: str = "fieldmouse", timeout: float = 10.0) -> None:
        self._server = BoardServer(url, timeout)
        self._crawl, self._prefix = crawl, f"fm:{{{crawl}}}:"
        self._keys = self._named_keys()

    def _named_keys(self) -> tuple[str, ...]:
        """Keys passed to every script."""
        return (self._prefix,)

    async def _call(self, act: str, *arguments: Argument, name: Name | None = None) -> Any:
        caller: tuple[Argument, ...] = (name.agent, name.incarnation) if name else ()
        try:
            return await self._server.call(script(act), self._keys, (*caller, *arguments))
        except ScriptRefusal as refused:
            match refused.word:
                case "LOST":
                    raise vanished(self._crawl) from None
                case "HIDDEN":
                    raise hidden(self._crawl) from None
                case "HELD":
                    raise occupied(self._crawl) from None
                case "OLDER":
                    raise older(refused.about, self._server.label) from None
                case "FENCED" if name:
                    raise fenced(name) from None
                case "NEWER" if name:
                    raise superseded(name) from None
            raise

    def _read(self, read: Callable[[Any], T], reply: Any) -> T:
        """Decode an answer; a BoardError if our scripts cannot have sent it."""
        try:
            return read(reply)
        except ValueError as trouble:  # `DamagedValue`
            raise unreadable(self._server.label, trouble) from trouble
