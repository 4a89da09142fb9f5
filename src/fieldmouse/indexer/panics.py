"""Conversion of tantivy panics to errors that callers expect.

tantivy hardly validates the files that it maps into memory. Its Rust code panics over a damaged file, and
pyo3 raises a `PanicException`, which is not an `Exception`, so that it is not caught by accident. It
becomes a kind of `ValueError` here, as tantivy raises for all other errors. Every use of an index is
wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fieldmouse.errors import IndexDamaged


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise `IndexDamaged` instead of a panic; Ctrl-C and process exit pass unchanged."""
    try:
        yield
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise IndexDamaged(f"a file of it is damaged ({' '.join(str(error).split())})") from error


def _is_panic(error: BaseException) -> bool:
    """Recognize a panic by name: every pyo3 extension module has its own class."""
    kind = type(error)
    return kind.__name__ == "PanicException" and kind.__module__ == "pyo3_runtime"
