"""Names whose address is written down here, and not in the DNS.

Two such places: the user's map (as curl's `--resolve`: `www.example.org=127.0.0.1:8080`,
`*.meadow.test=127.0.0.9`), which may also send a name to another port, and the
machine's hosts file, which is read again when it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path

import msgspec

from fieldmouse.clock import Clock
from fieldmouse.errors import UsageError


class Pin(msgspec.Struct, frozen=True):
    """Where a name leads, by the user's word. No port means the URL's own."""

    address: str
    port: int | None = None


class NameMap:
    """Patterns of names and the addresses they are sent to.

    An entry without a `*` goes before all patterns; of those the first that
    matches counts. A pattern is for names only: it leaves addresses in URLs alone.

    >>> pins = NameMap(["*.meadow.test=127.0.0.9:8000", "a.meadow.test=[::1]"])
    >>> pins.find("b.meadow.test"), pins.find("a.meadow.test"), pins.find("meadow.test")
    (Pin(address='127.0.0.9', port=8000), Pin(address='::1', port=None), None)
    """

    def __init__(self, entries: Iterable[str] = ()):
        self._exact: dict[str, Pin] = {}
        self._patterns: list[tuple[str, Pin]] = []
        for entry in entries:
            pattern, pin = _read_entry(entry)
            if "*" in pattern:
                self._patterns.append((pattern, pin))
            else:
                self._exact.setdefault(pattern, pin)

    def find(self, name: str) -> Pin | None:
        pin = self._exact.get(name)
        if pin is None and self._patterns and not is_address(name):
            return next((pin for pattern, pin in self._patterns if fnmatchcase(name, pattern)), None)
        return pin

    def port(self, name: str) -> int | None:
        """The port this name is sent to, or None for the URL's own; what a fetcher asks."""
        pin = self.find(name)
        return None if pin is None else pin.port


class HostsFile:
    """The machine's own list of names, looked at again at most once a second."""

    def __init__(self, path: Path, clock: Clock):
        self._path, self._clock = path, clock
        self._names: dict[str, tuple[str, ...]] = {}
        self._looked_at = float("-inf")
        self._seen: tuple[int, int, int] | None = None

    def find(self, name: str) -> tuple[str, ...]:
        """The addresses of a name, IPv4 first; none if the file does not name it."""
        now = self._clock.now()
        if now - self._looked_at >= 1.0:
            self._looked_at = now
            self._look()
        return self._names.get(name, ())

    def _look(self) -> None:
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._names = _read_hosts(self._path.read_text("utf-8", "replace"))
                self._seen = seen
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            self._names, self._seen = {}, None  # a machine without the file simply has no such names
        except OSError:
            self._seen = None  # out of descriptors, say: what was read before still holds


@lru_cache(maxsize=65536)
def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _read_entry(entry: str) -> tuple[str, Pin]:
    pattern, equals, target = entry.strip().partition("=")
    pattern = pattern.strip().lower().rstrip(".")
    address, port = target.strip(), ""
    if address.startswith("["):
        address, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    elif address.count(":") == 1:
        address, _, port = address.partition(":")
    port_fits = not port or (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536)
    if not (equals and pattern and is_address(address) and port_fits):
        raise UsageError(
            f"`{entry}` does not send a name to an address",
            hint="write it as `www.example.org=192.0.2.7`, `*.example.org=192.0.2.7:8080` or `name=[::1]:80`",
        )
    return pattern, Pin(address, int(port) if port else None)


def _read_hosts(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if is_address(address):
            for name in names:
                found.setdefault(name.lower().rstrip("."), []).append(address)
    return {name: tuple(sorted(addresses, key=lambda text: ":" in text)) for name, addresses in found.items()}
