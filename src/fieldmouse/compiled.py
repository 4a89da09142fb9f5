"""Loops over arrays, compiled where numba is installed and plain Python where it is not.

A crawl that governs its robots solves small models and must not need a compiler;
the lab plays games of 10^7 steps and does. So a kernel is written once, in the
part of Python that both understand, and decorated here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = importlib.util.find_spec("numba") is not None
"""Whether kernels run compiled: about a hundred times as fast."""


@cache
def _drop_what_is_stale() -> None:
    """Machine code that is older than any source: numba looks at a kernel's own file alone.

    A kernel takes in the rules that it calls, which are written elsewhere.
    """
    here = Path(__file__).parent
    sources = [path for room in ("policy", "queueing", "lab") for path in (here / room).rglob("*.py")]
    newest = max((path.stat().st_mtime for path in sources), default=0.0)
    for index in here.rglob("__pycache__/*.nbi"):
        with suppress(OSError):
            if index.stat().st_mtime < newest:
                index.unlink()


def compiled(kernel: F) -> F:
    """Compile a kernel on its first call and keep the machine code beside the source for the next time."""
    if not COMPILED:
        return kernel
    _drop_what_is_stale()
    import numba

    return cast(F, numba.njit(cache=True, nogil=True)(kernel))


def compiled_in_place(kernel: F) -> F:
    """As `compiled`, for a kernel that makes no array: it works on those it is given.

    Then nobody need count who holds an array. Where a tuple of arrays goes from
    function to function, that counting takes five times as long as the work.
    """
    if not COMPILED:
        return kernel
    _drop_what_is_stale()
    import numba

    unwritten: dict[str, Any] = {"_nrt": False}  # numba takes it, and leaves it out of its types
    return cast(F, numba.njit(cache=True, nogil=True, **unwritten)(kernel))
