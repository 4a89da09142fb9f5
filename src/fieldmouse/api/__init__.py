"""What `import fieldmouse` offers and the command is made of: a crawl planned, run, and read page by page.

A crawl begins as words: keywords in Python, options in a terminal. `asking` turns them
into settings, and `plan` finds everything that is wrong with them before anything is
made. `run` carries a plan out in the thread that calls it: the command does so in its
main thread, with signals, a loop and a garbage collector of its choice; the library in
a thread of its own (`background`), so that nothing of the program it is part of changes.

A page on its way out: a checkpoint makes it durable, the `hatch` tells the loop so, and
the loop (`pages`) reads it back from the outcome log. When the loop asks for the next
one it counts as delivered, and the next checkpoint knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, overload

from fieldmouse.api.crawling import Crawl, crawl
from fieldmouse.api.plan import Plan, plan, plan_anew, plan_to_resume
from fieldmouse.api.refreshing import plan_to_refresh, refresh
from fieldmouse.api.run import run

if TYPE_CHECKING:
    from fieldmouse.reading import ReadingRoom, ReadingRooms

__all__ = [
    "Crawl", "Plan", "crawl", "open", "plan", "plan_anew", "plan_to_refresh", "plan_to_resume", "refresh",
    "run",
]  # fmt: skip


@overload
def open(directory: str | os.PathLike[str]) -> ReadingRoom: ...  # type: ignore[overload-overlap]


@overload
def open(directory: Iterable[str | os.PathLike[str]]) -> ReadingRooms: ...


def open(
    directory: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> ReadingRoom | ReadingRooms:
    """The crawl in `directory`, to be read, also while it is crawled. Takes no lock and writes nothing.

    With a list of directories these crawls are read as one: of a page that several of them have stored, the
    newest copy counts.
    """
    from fieldmouse.reading import ReadingRoom, ReadingRooms

    # As for `Crawl`: a program that goes elsewhere with `os.chdir` must not be told of an empty crawl.
    if isinstance(directory, str | os.PathLike):
        return ReadingRoom(Path(directory).absolute())
    return ReadingRooms(Path(one).absolute() for one in directory)
