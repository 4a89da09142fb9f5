"""Which plug-ins a crawl has: names only, so that they can travel to the workers."""

from __future__ import annotations

from typing import Protocol

import msgspec

from fieldmouse.named import load_function, search_path


class Asked(Protocol):
    """The section `[plugins]` of the settings."""

    @property
    def extract(self) -> str: ...
    @property
    def patience(self) -> float: ...
    @property
    def items(self) -> int: ...


class PluginNames(msgspec.Struct, frozen=True):
    """The plug-ins that run in the workers, and what they may cost."""

    extract: str = ""
    patience: float = 5.0  # seconds that one call may take
    most_bytes: int = 1 << 20  # of the rows of one page
    path: tuple[str, ...] = ()  # where modules are looked for

    @property
    def any(self) -> bool:
        return bool(self.extract)

    @classmethod
    def of(cls, asked: Asked) -> PluginNames:
        """Those in the settings, to be looked for where we look."""
        names = cls(extract=asked.extract, patience=asked.patience, most_bytes=asked.items)
        return msgspec.structs.replace(names, path=search_path()) if names.any else names

    def check(self) -> PluginNames:
        """Itself, if all of them can be loaded; else an error that names the one that cannot."""
        if self.extract:
            load_function(self.extract, "extract")
        return self
