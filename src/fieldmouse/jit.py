"""JIT decorators for array kernels: compiled with numba if it is installed, plain Python otherwise.

A crawl that controls its concurrency solves small models and must not need a compiler; the lab plays games
of 10^7 steps and does. So a kernel is written once, in the part of Python that both understand, and
decorated here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

#: Whether kernels run compiled: about a hundred times as fast.
HAS_NUMBA = importlib.util.find_spec("numba") is not None


@cache
def _delete_stale_cache() -> None:
    """Delete cached machine code that is older than any source file.

    numba compares the cache with the kernel's own file only, but a kernel inlines rules from other files.
    """
    here = Path(__file__).parent
    sources = [path for package in ("policy", "queueing", "lab") for path in (here / package).rglob("*.py")]
    newest = max((path.stat().st_mtime for path in sources), default=0.0)
    for index in here.rglob("__pycache__/*.nbi"):
        with suppress(OSError):
            if index.stat().st_mtime < newest:
                index.unlink()


def jit(kernel: F) -> F:
    """Compile a kernel on its first call, and cache the machine code beside the source."""
    return _compiled(kernel)


def jit_without_refcounts(kernel: F) -> F:
    """Compile a kernel that creates no array and only works on its arguments.

    Reference counting of arrays is switched off for it. Where a tuple of arrays is passed from function to
    function, that counting takes five times as long as the work.
    """
    return _compiled(kernel, _nrt=False)


def _compiled(kernel: F, **options: Any) -> F:
    if not HAS_NUMBA:
        return kernel
    _delete_stale_cache()
    import numba

    return cast(F, numba.njit(cache=True, nogil=True, **options)(kernel))
