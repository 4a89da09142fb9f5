"""Filter of changes by kind, host and share of changed words."""

from __future__ import annotations

from dataclasses import dataclass

from fieldmouse.config.notify_section import NotifySection
from fieldmouse.storage.changes_from_outcomes import Change, ChangeKind
from fieldmouse.url import Url, host_of, hostname_of


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    kinds: frozenset[str]
    hosts: frozenset[str]  # names of hosts; empty (with `host_suffixes`) for all
    host_suffixes: tuple[str, ...]  # suffixes of host names, with their leading dot
    difference: float

    @classmethod
    def from_settings(cls, asked: NotifySection) -> ChangeFilter:
        """The filter that the settings describe.

        >>> section = NotifySection(hosts=("a.example", "*.b.example"))
        >>> ChangeFilter.from_settings(section).accepts_host("c.b.example")
        True
        """
        lowered = [name.lower().strip("[]") for name in asked.hosts]
        return cls(
            frozenset(asked.kinds),
            frozenset(name for name in lowered if not name.startswith("*.")),
            tuple(name[1:] for name in lowered if name.startswith("*.")),
            asked.difference,
        )

    def accepts_host(self, name: str) -> bool:
        """Whether changes on this host pass."""
        everywhere = not self.hosts and not self.host_suffixes
        return everywhere or name in self.hosts or (bool(self.host_suffixes) and name.endswith(self.host_suffixes))

    def __call__(self, change: Change) -> bool:
        if change.kind not in self.kinds:
            return False
        if change.kind is ChangeKind.CHANGED and change.difference < self.difference:
            return False
        return self.accepts_host(hostname_of(host_of(Url(change.url))))
