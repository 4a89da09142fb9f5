"""Filter of changes by kind, host and share of changed words."""

from __future__ import annotations

from dataclasses import dataclass

from fieldmouse.config.notify_section import NotifySection
from fieldmouse.storage.changes import Change, ChangeKind
from fieldmouse.url import Url, host_of, name_of


@dataclass(frozen=True, slots=True)
class Wanted:
    kinds: frozenset[str]
    names: frozenset[str]  # of hosts; empty (with `endings`) for all
    endings: tuple[str, ...]  # suffixes of host names, with their leading dot
    difference: float

    @classmethod
    def of(cls, asked: NotifySection) -> Wanted:
        """The filter that the settings describe.

        >>> Wanted.of(NotifySection(hosts=("a.example", "*.b.example"))).is_of("c.b.example")
        True
        """
        lowered = [name.lower().strip("[]") for name in asked.hosts]
        return cls(
            frozenset(asked.kinds),
            frozenset(name for name in lowered if not name.startswith("*.")),
            tuple(name[1:] for name in lowered if name.startswith("*.")),
            asked.difference,
        )

    def is_of(self, name: str) -> bool:
        """Whether changes on this host pass."""
        everywhere = not self.names and not self.endings
        return everywhere or name in self.names or (bool(self.endings) and name.endswith(self.endings))

    def __call__(self, change: Change) -> bool:
        if change.kind not in self.kinds:
            return False
        if change.kind is ChangeKind.CHANGED and change.difference < self.difference:
            return False
        return self.is_of(name_of(host_of(Url(change.url))))
