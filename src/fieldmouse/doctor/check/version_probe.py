"""Check of the version table against the logs that it is derived from.

The check runs in a child process (`python -m fieldmouse.indexer.copyprobe`), because LMDB
trusts its file: a damaged one can kill its reader, and the death is a result, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import lmdb

from fieldmouse.archive.lmdb_pages import page_flaw
from fieldmouse.search.versions import TABLE, CopyView, among, newest_of, read_logs, whole_logs


def flaw_of_table(directory: Path, lengths: Sequence[int], *, busy: bool) -> str:
    """Describe the damage in a few words, or return ""; `lengths` are the committed lengths of the shards'
    logs."""
    if not any(lengths) or not (directory / TABLE).exists():
        return ""
    command = [sys.executable, "-m", __name__, str(directory), *map(str, lengths)]
    child = subprocess.run(command, capture_output=True, check=False, text=True)
    if child.returncode < 0:
        return f"reading it kills the process (signal {-child.returncode})"
    if child.returncode:
        return "it cannot be read"
    return child.stdout.strip() or ("" if busy else page_flaw(directory / TABLE, leaves=True))


def look(directory: Path, lengths: Sequence[int]) -> str:
    """The same check inside the child process."""
    keys, committed = read_logs(directory, lengths)
    view = CopyView(directory)
    try:
        in_table = view.newest(keys.tolist())
    except lmdb.Error as trouble:
        return f"it cannot be read ({trouble})"
    finally:
        view.close()
    # Read last: a running crawl may have added entries to both since its checkpoint.
    newest = among(keys, newest_of(whole_logs(directory)))
    wrong = int(((in_table < committed) | (in_table > newest)).sum())
    return f"it names another version than the logs for {wrong:,} pages" if wrong else ""


if __name__ == "__main__":
    os.write(1, look(Path(sys.argv[1]), [int(length) for length in sys.argv[2:]]).encode())
