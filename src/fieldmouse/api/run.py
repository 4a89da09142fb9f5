"""A plan carried out, in this thread and in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fieldmouse.api.plan import Plan
from fieldmouse.errors import StoppedAtOnce, StorageError
from fieldmouse.records import Reading, Summary

if TYPE_CHECKING:
    from fieldmouse.agent import Life, Mercy
    from fieldmouse.agent.audience import Audience
    from fieldmouse.agent.build import OpenPart
    from fieldmouse.agent.network import Joining


class LoopRunner(Protocol):
    """`asyncio.run`, or another that makes a loop, runs one coroutine in it, and puts it away."""

    def __call__(self, main: Coroutine[Any, Any, Summary], /) -> Summary: ...


def run(
    plan: Plan,
    *,
    runner: LoopRunner = asyncio.run,
    on_reading: Callable[[Reading], None] | None = None,
    on_open: Callable[[Life], None] = lambda life: None,
    mercy: Mercy | None = None,
    parts: Sequence[OpenPart] = (),
    audience: Audience | None = None,
) -> Summary:
    """Crawl as planned, until done, stopped by a limit, or interrupted.

    `on_open` is called in the loop when all has opened. Signals are not listened to, and
    nothing of the process is changed: that is the caller's, who may have other plans.
    """
    from fieldmouse.agent import Life  # the whole house: loaded once we know that we crawl

    home = plan.open()
    try:
        listeners = [on_reading] if on_reading else []
        life = Life(
            home, plan.settings, plan.seeds, listeners=listeners, on_open=on_open, mercy=mercy, parts=parts,
            audience=audience, order=plan.order, joining=_joining(plan),
        )  # fmt: skip
        summary = runner(life.run())
    except StoppedAtOnce:
        # Threads may still write: the lock is theirs, too, until the process ends.
        raise
    except BaseException as mistake:
        home.unlock()
        if isinstance(mistake, OSError):
            raise StorageError(home.path, mistake) from mistake
        raise
    home.unlock()
    return summary


def _joining(plan: Plan) -> Joining | None:
    if not plan.boards:
        return None
    from fieldmouse.agent.network import Joining
    from fieldmouse.balancer.opening import open_board

    return Joining(open_board(plan.boards, plan.crawl), plan.crawl)
