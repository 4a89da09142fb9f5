"""Names of a crawl's plug-ins; names can be sent to the workers, functions cannot."""

from __future__ import annotations

from typing import Protocol

import msgspec

from fieldmouse.import_string import import_callable, import_path


class PluginSettings(Protocol):
    """The section `[plugins]` of the settings."""

    @property
    def extract(self) -> str: ...
    @property
    def admit(self) -> str: ...
    @property
    def readers(self) -> dict[str, str]: ...
    @property
    def sign(self) -> str: ...
    @property
    def patience(self) -> float: ...
    @property
    def items(self) -> int: ...


class PluginNames(msgspec.Struct, frozen=True):
    """Names of all plug-ins except the policy, and the limits of their calls."""

    extract: str = ""
    admit: str = ""
    readers: dict[str, str] = {}  # by MIME type
    sign: str = ""  # runs in the fetching process
    patience: float = 5.0  # maximum seconds per call
    most_bytes: int = 1 << 20  # maximum size of the rows of one page
    path: tuple[str, ...] = ()  # directories to search for modules

    @property
    def any_in_workers(self) -> bool:
        """Whether the workers have to load a plug-in."""
        return bool(self.extract or self.admit or self.readers)

    @classmethod
    def from_settings(cls, settings: PluginSettings) -> PluginNames:
        """The plug-ins in the settings, with this process's module search path."""
        names = cls(
            settings.extract,
            settings.admit,
            settings.readers,
            settings.sign,
            settings.patience,
            settings.items,
        )
        return msgspec.structs.replace(names, path=import_path()) if names.any_in_workers else names

    def check_loadable(self) -> PluginNames:
        """Return itself if all plug-ins can be loaded; else raise an error that names the one that cannot."""
        for what, name in (("extract", self.extract), ("admit", self.admit), ("sign", self.sign)):
            if name:
                import_callable(name, what)
        for name in self.readers.values():
            import_callable(name, "reader")
        return self
