"""Concurrent calls to several servers: all answers, or the most serious error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from fieldmouse.errors import BoardUnreachable, Fenced, Superseded

T = TypeVar("T")


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return all answers when all calls have ended; raises if one of them did."""
    return answered(await asyncio.gather(*calls, return_exceptions=True))


def answered(answers: Sequence[T | BaseException]) -> list[T]:
    """Return the answers, or raise the most serious error: a superseded agent need not try again."""
    raised = [answer for answer in answers if isinstance(answer, BaseException)]
    if raised:
        raise min(raised, key=_gravity)
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _gravity(trouble: BaseException) -> int:
    match trouble:
        case BoardUnreachable():
            return 3
        case Superseded():
            return 1
        case Fenced():
            return 2
        case _:
            return 0
