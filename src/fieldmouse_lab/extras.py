"""Optional libraries of the lab, and the error for a missing one.

scipy, numba and matplotlib are the extra `fieldmouse[lab]`; a crawl does not need them. They are first
imported deep inside an experiment, so experiments run within `explain_missing_extra()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fieldmouse.errors import FieldmouseError

LIBRARIES = ("scipy", "numba", "matplotlib")


class MissingExtra(FieldmouseError):
    """A library of the extra `fieldmouse[lab]` is not installed."""

    def __init__(self, library: str):
        super().__init__(f"the lab needs {library}, which is not installed")
        self.library = library
        self.hint = "`pip install 'fieldmouse[lab]'`"


@contextmanager
def explain_missing_extra() -> Iterator[None]:
    """Convert the import error of a lab library to a `MissingExtra`."""
    try:
        yield
    except ModuleNotFoundError as missing:
        library = (missing.name or "").partition(".")[0]
        if library not in LIBRARIES:
            raise
        raise MissingExtra(library) from missing
