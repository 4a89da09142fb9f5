"""Which plug-ins a crawl has: names only, so that they can travel to the workers."""

from __future__ import annotations

from typing import Protocol

import msgspec

from fieldmouse.named import load_function, search_path


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
    """All but the policy, and what they may cost."""

    extract: str = ""
    admit: str = ""
    readers: dict[str, str] = {}  # by MIME type
    sign: str = ""  # runs beside the robots
    patience: float = 5.0  # seconds that one call may take
    most_bytes: int = 1 << 20  # of the rows of one page
    path: tuple[str, ...] = ()  # where modules are looked for

    @property
    def any(self) -> bool:
        """Whether there is one for the workers."""
        return bool(self.extract or self.admit or self.readers)

    @classmethod
    def of(cls, asked: PluginSettings) -> PluginNames:
        """Those in the settings, to be looked for where we look."""
        names = cls(
            extract=asked.extract, admit=asked.admit, readers=asked.readers, sign=asked.sign,
            patience=asked.patience, most_bytes=asked.items,
        )  # fmt: skip
        return msgspec.structs.replace(names, path=search_path()) if names.any else names

    def check(self) -> PluginNames:
        """Itself, if all of them can be loaded; else an error that names the one that cannot."""
        for what, name in (("extract", self.extract), ("admit", self.admit), ("sign", self.sign)):
            if name:
                load_function(name, what)
        for name in self.readers.values():
            load_function(name, "reader")
        return self
