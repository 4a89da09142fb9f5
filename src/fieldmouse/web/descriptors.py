"""Number of connections that fit into the limit on file descriptors.

Sockets and files share the descriptors of the process. If sockets took all of them, the crawl could not
open its own files, and unlike a fetch, that cannot be retried later. So some are reserved.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

KEPT_BACK = 64  # for logs, runs, pipes to workers, nameservers


def room_for_connections(*, kept_back: int = KEPT_BACK) -> int:
    """Return the number of sockets that fit beside the open and the reserved descriptors; at least 2."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(2, limit - _open_now() - kept_back)


def _open_now() -> int:
    for names in (Path("/proc/self/fd"), Path("/dev/fd")):
        if names.is_dir():
            return len(os.listdir(names))
    return 32  # unknown; this is a typical number
