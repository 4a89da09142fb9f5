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

from fieldmouse.archive.lmdb_pages import page_allocation_error
from fieldmouse.search.versions import (
    VERSION_TABLE,
    VersionView,
    all_log_entries,
    look_up_versions,
    newest_by_key,
    read_version_logs,
)


def version_table_damage(directory: Path, lengths: Sequence[int], *, busy: bool) -> str:
    """Describe the damage in a few words, or return ""; `lengths` are the committed lengths of the shards'
    logs."""
    if not any(lengths) or not (directory / VERSION_TABLE).exists():
        return ""
    command = [sys.executable, "-m", __name__, str(directory), *map(str, lengths)]
    child = subprocess.run(command, capture_output=True, check=False, text=True)
    if child.returncode < 0:
        return f"reading it kills the process (signal {-child.returncode})"
    if child.returncode:
        return "it cannot be read"
    return child.stdout.strip() or (
        "" if busy else page_allocation_error(directory / VERSION_TABLE, leaves=True)
    )


def check_version_table(directory: Path, lengths: Sequence[int]) -> str:
    """The same check inside the child process."""
    keys, committed = read_version_logs(directory, lengths)
    view = VersionView(directory)
    try:
        in_table = view.newest_versions(keys.tolist())
    except lmdb.Error as trouble:
        return f"it cannot be read ({trouble})"
    finally:
        view.close()
    # Read last: a running crawl may have added entries to both since its checkpoint.
    newest = look_up_versions(keys, newest_by_key(all_log_entries(directory)))
    wrong = int(((in_table < committed) | (in_table > newest)).sum())
    return f"it names another version than the logs for {wrong:,} pages" if wrong else ""


if __name__ == "__main__":
    os.write(1, check_version_table(Path(sys.argv[1]), [int(length) for length in sys.argv[2:]]).encode())
