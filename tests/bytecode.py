"""Bytecode for the thousand processes that tests start, where Python may leave none beside the source.

Each of them would compile all of it again, which is half of what a short crawl costs.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile


def keep_bytecode() -> None:
    """From now on, processes that we start keep theirs in a directory that goes when we do."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        room = tempfile.mkdtemp(prefix="fieldmouse-bytecode-")
        os.environ["PYTHONPYCACHEPREFIX"] = room
        atexit.register(shutil.rmtree, room, ignore_errors=True)
