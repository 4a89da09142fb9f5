"""Hosts file of the machine, read again when it changes."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.clock import Clock
from fieldmouse.policy.names import is_address


class HostsFile:
    """Names in a hosts file; changes are checked at most once a second."""

    def __init__(self, path: Path, clock: Clock):
        self._path, self._clock = path, clock
        self._names: dict[str, tuple[str, ...]] = {}
        self._checked_at = float("-inf")
        self._signature: tuple[int, int, int] | None = None

    def find(self, name: str) -> tuple[str, ...]:
        """Return the addresses of a name, IPv4 first; none if the file does not have it."""
        now = self._clock.now()
        if now - self._checked_at >= 1.0:
            self._checked_at = now
            self._reload()
        return self._names.get(name, ())

    def _reload(self) -> None:
        try:
            stat = self._path.stat()
            signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if signature != self._signature:
                self._names = _read_hosts(self._path.read_text("utf-8", "replace"))
                self._signature = signature
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            self._names, self._signature = {}, None  # a machine without the file has no such names
        except OSError:
            self._signature = None  # for example no descriptors: the previous content stays valid


def _read_hosts(text: str) -> dict[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if is_address(address):
            for name in names:
                table.setdefault(name.lower().rstrip("."), []).append(address)
    return {name: tuple(sorted(addresses, key=lambda text: ":" in text)) for name, addresses in table.items()}
