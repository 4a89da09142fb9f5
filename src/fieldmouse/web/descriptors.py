"""How many connections this process may have open.

Sockets and files share one number of descriptors. A crawl that spent all of them on sockets could not
open its own files any more, and files cannot be asked again later. So some are kept back.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

KEPT_BACK = 64  # for logs, runs, pipes to workers, nameservers


def room_for_connections(*, kept_back: int = KEPT_BACK) -> int:
    """Sockets that fit beside what is open now and what will be; at least 2."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(2, limit - _open_now() - kept_back)


def _open_now() -> int:
    for names in (Path("/proc/self/fd"), Path("/dev/fd")):
        if names.is_dir():
            return len(os.listdir(names))
    return 32  # nobody can say; about so many are
